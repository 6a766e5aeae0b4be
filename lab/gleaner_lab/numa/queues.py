"""How long a machine takes for lines that go from known nodes to known nodes.

The machine is a closed queueing network: workers are the customers, and each line visits the
controller of its memory's node and the links on its way. Who reads how many lines from where is
given, because the run has counted it. A line that is written back loads the link in the other
direction and the controller, and no worker waits for it. Two times follow.

bound     the asymptotic bound of operational analysis. The work takes at least as long as its
          busiest station is busy, and as its slowest worker takes when nothing is in its way:

              T >= max( max over stations k of  sum over lines of service time at k,
                        max over nodes i of  sum over j of fetched(i, j) * line_ns(i, j) / w(i) )

          with w(i) the workers of node i, at most its processors. If workers take work from those
          of other nodes, the second line is over all workers together. The bound is reached when
          stations never idle while they have work, which workers with many lines in flight come
          near to. It has sharp knees: below one, more workers help; above, they wait for the
          station that is named.
queued    mean value analysis of the network with exponential service times and all workers alike
          (a worker's mix of stations is the mean one), each with a whole number of lines in
          flight. Queues form before a station is full, so this is longer near a knee, and equal
          far from it:

              R(k) = D(k) * (1 + Q(k));  X = c / (Z + sum of R);  Q(k) = X * R(k);  c = 1, 2, ...

          with D(k) the mean service time at station k for a line that is fetched, with its part of
          those that are written back, and Z what is left of its latency.

What neither can show: caches and their reuse of lines, a memory page that is open, traffic of the
coherence protocol, the scheduler, other programs, processors that share a clock budget.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gleaner_lab.numa import MODELLED
from gleaner_lab.numa.hardware import Machine


@dataclass(frozen=True)
class Prediction:
    """A time that no machine was measured for."""

    #: Seconds, no less than which it takes.
    bound_s: float
    #: Seconds with queues before the stations are full.
    queued_s: float
    #: What makes the bound: a station, or workers.
    limit: str
    #: By station, which part of the bound it is busy.
    utilisation: dict[str, float]
    label: str = MODELLED


def predict(
    machine: Machine,
    lines: ArrayLike,
    workers: ArrayLike,
    processor_ns: ArrayLike = 0.0,
    *,
    written: ArrayLike = 0.0,
    shared: bool = False,
) -> Prediction:
    """The time for `lines[i, j]` lines that `workers[i]` workers of node i fetch from node j.

    `written` lines are written back, by the same nodes. `processor_ns` is what the workers of a
    node compute beside that, all together. If the work is `shared`, workers end at the same time
    by taking it from each other; else each node's is shared out evenly among its own. A node that
    has work and no workers is an error.
    """
    traffic = np.asarray(lines, dtype=float)
    busy = np.minimum(np.asarray(workers), machine.cores)
    if traffic.shape != (machine.nodes, machine.nodes) or busy.shape != (machine.nodes,):
        raise ValueError(f"lines and workers are not those of {machine.nodes} nodes")
    back = np.broadcast_to(np.asarray(written, dtype=float), traffic.shape)
    computing = np.broadcast_to(np.asarray(processor_ns, dtype=float), busy.shape)
    own = (traffic * machine.line_ns).sum(axis=1) + computing
    if (own[busy == 0] > 0).any():
        raise ValueError("a node without workers has work")
    if shared:
        alone = {"workers": own.sum() / busy.sum() * 1e-9}
    else:
        alone = {
            f"workers of node {node}": own[node] / busy[node] * 1e-9
            for node in np.flatnonzero(busy)
        }
    stations = _stations(machine, traffic, back)
    limits = {**alone, **stations}
    limit = max(limits, key=lambda name: limits[name])
    bound = limits[limit]
    queued = _queued(machine, traffic.sum(), own.sum() * 1e-9, int(busy.sum()), stations)
    used = {name: time / bound if bound > 0 else 0.0 for name, time in stations.items()}
    return Prediction(bound, max(bound, queued), limit, used)


def _stations(
    machine: Machine, fetched: NDArray[np.float64], written: NDArray[np.float64]
) -> dict[str, float]:
    """How long each controller and each direction of a link is busy, in seconds."""
    times = (fetched + written).sum(axis=0) * machine.controller_ns * 1e-9
    found = {f"controller {node}": float(time) for node, time in enumerate(times)}
    crossing = np.tensordot(machine.routes, fetched + written.T)
    for (source, to, width), lines in zip(machine.directions, crossing, strict=True):
        found[f"link {source} to {to}"] = float(lines * machine.link_ns / width * 1e-9)
    return found


def _queued(
    machine: Machine, lines: float, own_s: float, workers: int, stations: dict[str, float]
) -> float:
    """Exact mean value analysis for one class of customers."""
    if lines == 0 or workers == 0:
        return own_s / max(1, workers)
    service = np.array([time for time in stations.values() if time > 0]) / lines
    in_flight = max(1, round(machine.in_flight))
    thinking = max(0.0, in_flight * own_s / lines - service.sum())
    waiting = np.zeros_like(service)
    throughput = 0.0
    for customers in range(1, in_flight * workers + 1):
        response = service * (1 + waiting)
        throughput = customers / (thinking + response.sum())
        waiting = throughput * response
    return lines / throughput
