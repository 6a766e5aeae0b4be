"""Collectors on another socket than the application: the OOPSLA 2012 paper's sections 4.2 and 4.4.

Its machine has two sockets of four cores. Three placements are modelled, each with as many
application and collecting threads as a socket has cores; the world is stopped while they collect,
so both kinds have their cores for themselves.

one        all threads on one socket. All memory is near.
isolated   collecting threads on the other socket. Eden lies near the application, which touched it
           first; what collectors copy or promote comes to lie near them, and is read from there by
           the application later.
divided    half of both kinds on each socket, as the run itself counted: workers steal, so that what
           they scan and copy lies near or far.

Each object that survives is taken to be read once by the application before it is collected again:
`REREAD`, an assumption. All objects are taken to be copied out of eden, where survivors that are
copied a second time lie near the collectors already; so the cost of isolation is overestimated. The
model has no caches, by which the paper explains its gains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from gleaner_lab.numa import MODELLED
from gleaner_lab.numa.application import Application
from gleaner_lab.numa.collection import Costs, Run, collection_time
from gleaner_lab.numa.hardware import LINE, Link, Machine, connected
from gleaner_lab.numa.locality import Locality
from gleaner_lab.numa.queues import Prediction, predict

#: A line that the application allocates is fetched and written back.
ALLOCATED_LINES = 2.0
#: How often the application reads what survived a collection until the next.
REREAD = 1.0

#: The paper's machine, two Xeon X5570, by what is usual for its kind (assumed): 65 ns to near
#: memory and 105 ns to that of the other socket with five lines in flight, 17 GB/s for each
#: controller and 11 GB/s for each direction of the link.
MACHINE = Machine(
    nodes=2,
    cores=4,
    links=(Link(0, 1),),
    local_ns=13.0,
    hop_ns=8.0,
    controller_ns=LINE / 17,
    link_ns=LINE / 11,
)


class Sockets(StrEnum):
    """Where threads run."""

    ONE = "all on one socket"
    ISOLATED = "collectors on the other socket"
    DIVIDED = "half of both kinds on each socket"


@dataclass(frozen=True)
class Time:
    """What a run takes, in seconds: the application, and all collections."""

    application_s: float
    collecting_s: float
    #: What collections wait for.
    limit: str
    label: str = MODELLED

    @property
    def run_s(self) -> float:
        """Both: the world is stopped meanwhile."""
        return self.application_s + self.collecting_s


def times(
    run: Run, mutators: Application, costs: Costs, machine: Machine = MACHINE
) -> Mapping[Sockets, Time]:
    """The three placements, with what the run counted on two nodes."""
    workers = machine.cores
    alone = connected(1, machine.cores, machine)
    one = collection_time(_gathered(run), alone, workers, costs)
    # Workers that lose a line fetch it in their own time, as they do on one socket.
    lost = run.synchronisation.at(run.locality.workers, workers).failed_cas
    own = run.scanned(workers).sum() * costs.processor_ns
    computing = np.array([0.0, own + lost * costs.transfer_ns(alone, workers)])
    memory = _isolated(run, machine, costs, computing)
    collections = {
        Sockets.ONE: one,
        Sockets.ISOLATED: replace(one, memory=memory),
        Sockets.DIVIDED: collection_time(run, machine, workers, costs),
    }
    return {
        sockets: Time(_application(run, mutators, machine, sockets), time.bound_s, time.limit)
        for sockets, time in collections.items()
    }


def _survivors(run: Run) -> float:
    """Objects that were copied or promoted."""
    counts = run.locality.counts
    return float(sum(counts[kind].sum() for kind in ("copied", "promoted") if kind in counts))


def _isolated(
    run: Run, machine: Machine, costs: Costs, computing: NDArray[np.float64]
) -> Prediction:
    """Workers on node 1, with all old places on node 0 and all that they copy near them."""
    gathered = _gathered(run)
    far, near = (part.sum() for part in gathered.fetched(machine.cores, costs))
    headers = gathered.written(machine.cores, costs).sum() - near
    return predict(
        machine.at_random(costs.in_flight, costs.scattered),
        np.array([[0.0, 0.0], [far, near]]),
        np.array([0, machine.cores]),
        computing,
        written=np.array([[0.0, 0.0], [headers, near]]),
        shared=True,
    )


def _gathered(run: Run) -> Run:
    """The run as it would be on one node."""
    found = run.locality
    counts = {kind: np.array([[matrix.sum()]]) for kind, matrix in found.counts.items()}
    pages = {space: np.array([pages.sum()]) for space, pages in found.pages.items()}
    return replace(run, locality=Locality(1, found.workers, counts, pages))


def _application(run: Run, mutators: Application, machine: Machine, sockets: Sockets) -> float:
    """The application's time by the bound: what it allocates, reads again, and computes."""
    allocated = mutators.allocated_bytes / LINE * ALLOCATED_LINES
    again = _survivors(run) * REREAD
    match sockets:
        case Sockets.ONE:
            workers, lines = [machine.cores, 0], [[allocated + again, 0], [0, 0]]
        case Sockets.ISOLATED:
            workers, lines = [machine.cores, 0], [[allocated, again], [0, 0]]
        case Sockets.DIVIDED:
            half = machine.cores // 2
            near, far = (allocated + again / 2) / 2, again / 4
            workers, lines = [half, half], [[near, far], [far, near]]
    share = np.array(workers) / machine.cores
    near_s = allocated * machine.local_ns * 1e-9
    computing = max(0.0, mutators.processor_s - near_s) * 1e9 * share
    return predict(machine, np.array(lines, dtype=float), np.array(workers), computing).bound_s
