"""Figure 3 of the ASPLOS 2013 paper as modelled: threads that read memory, placed in four ways.

A fixed number of lines is shared out among the threads, each of which reads its part, in order,
from a buffer larger than the caches. Threads are spread round robin over the nodes, except in
Unbalanced-Local, where only those of node 0 take part and further threads stay idle. The paper's
plot is lost; its text says where three of the curves stop improving (section 3.2.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from gleaner_lab.numa import MODELLED
from gleaner_lab.numa.hardware import Machine
from gleaner_lab.numa.queues import Prediction, predict

#: Lines that all threads read together: 64 MB.
LINES = 1 << 20
#: A curve still improves while some greater number of threads is faster by more than this.
GAIN = 0.02


class Placement(StrEnum):
    """Where the buffers lie."""

    UNBALANCED_REMOTE = "Unbalanced-Remote"
    BALANCED_REMOTE = "Balanced-Remote"
    BALANCED_LOCAL = "Balanced-Local"
    UNBALANCED_LOCAL = "Unbalanced-Local"


def read(machine: Machine, placement: Placement, threads: int) -> Prediction:
    """The time until `threads` threads have read all lines."""
    nodes = machine.nodes
    if placement is Placement.UNBALANCED_LOCAL:
        workers = np.zeros(nodes, dtype=int)
        workers[0] = min(threads, machine.cores)
    else:
        workers = machine.round_robin(threads)
    shares = LINES * workers / workers.sum()
    match placement:
        case Placement.BALANCED_LOCAL:
            lines = np.diag(shares)
        case Placement.BALANCED_REMOTE:
            lines = np.outer(shares, np.full(nodes, 1 / nodes))
        case _:
            lines = np.outer(shares, np.arange(nodes) == 0)
    return predict(machine, lines, workers)


@dataclass(frozen=True)
class Curve:
    """One placement over numbers of threads, from 1 on."""

    placement: Placement
    times: tuple[Prediction, ...]
    #: The numbers of threads at which the curve is judged.
    judged: tuple[int, ...]
    label: str = MODELLED

    @property
    def threads(self) -> range:
        """The numbers of threads."""
        return range(1, len(self.times) + 1)

    def at(self, threads: int) -> Prediction:
        """The time with `threads` threads."""
        return self.times[threads - 1]

    def speedup(self, threads: int) -> float:
        """How many times faster than one thread of the same placement."""
        return self.at(1).bound_s / self.at(threads).bound_s

    def queued_speedup(self, threads: int) -> float:
        """The same with queues."""
        return self.at(1).queued_s / self.at(threads).queued_s

    @property
    def stops(self) -> int:
        """The first judged number of threads that no greater one betters by more than `GAIN`."""
        return self._stops([self.at(threads).bound_s for threads in self.judged])

    @property
    def queued_stops(self) -> int:
        """The same with queues."""
        return self._stops([self.at(threads).queued_s for threads in self.judged])

    def _stops(self, times: list[float]) -> int:
        ends = (end for end, time in enumerate(times) if min(times[end:]) > time * (1 - GAIN))
        return self.judged[next(ends)]


def curves(machine: Machine) -> dict[Placement, Curve]:
    """All four, for 1 thread to one for each processor.

    They are judged where each node has the same number of threads: between, the share of remote
    accesses rises and falls with the threads of node 0. Unbalanced-Local has one node only, and is
    judged at each number of threads.
    """
    most = machine.nodes * machine.cores
    even = (1, *range(machine.nodes, most + 1, machine.nodes)) if machine.nodes > 1 else ()
    found = {}
    for placement in Placement:
        times = tuple(read(machine, placement, threads) for threads in range(1, most + 1))
        is_even = even and placement is not Placement.UNBALANCED_LOCAL
        found[placement] = Curve(placement, times, even if is_even else tuple(range(1, most + 1)))
    return found


@dataclass(frozen=True)
class Statement:
    """What the paper says of Figure 3, and whether the model agrees."""

    paper: str
    ours: str
    holds: bool
    #: The model's parameters were chosen so that it holds: it tells nothing of the model.
    fitted: bool = False
    label: str = MODELLED

    @property
    def verdict(self) -> str:
        """In words, with the label."""
        word = "holds" if self.holds else "does not hold"
        return f"{word} ({self.label}{', fitted to it' if self.fitted else ''})"


#: Where the text says that a curve stops improving, and whether `PAPER` is fitted to that.
STOPS = {
    Placement.UNBALANCED_REMOTE: (8, False),
    Placement.BALANCED_REMOTE: (32, True),
    Placement.BALANCED_LOCAL: (40, True),
}
#: "Significantly better" is this many times faster.
SIGNIFICANT = 1.1


def statements(found: dict[Placement, Curve]) -> list[Statement]:
    """The paper's findings about Figure 3, tried on the model of its machine."""
    judged = [
        Statement(
            f"{placement} improves up to {stops} threads",
            f"up to {found[placement].stops}",
            found[placement].stops == stops,
            fitted,
        )
        for placement, (stops, fitted) in STOPS.items()
    ]
    last = {placement: curve.at(curve.threads[-1]).bound_s for placement, curve in found.items()}
    most = found[Placement.BALANCED_LOCAL].threads[-1]
    local = last[Placement.BALANCED_REMOTE] / last[Placement.BALANCED_LOCAL]
    judged.append(
        Statement(
            "Balanced-Local ends significantly better than Balanced-Remote",
            f"{local:.2f} times as fast with {most} threads",
            local > SIGNIFICANT,
        )
    )
    unbalanced = min(last[Placement.UNBALANCED_REMOTE], last[Placement.UNBALANCED_LOCAL])
    balance = unbalanced / last[Placement.BALANCED_REMOTE]
    locality = last[Placement.UNBALANCED_REMOTE] / last[Placement.UNBALANCED_LOCAL]
    judged.append(
        Statement(
            "Balance matters more than locality",
            f"with {most} threads, balance gains {balance:.2f} times over the better unbalanced "
            f"placement, locality {locality:.2f} times without balance, {local:.2f} with it",
            balance > max(locality, local),
        )
    )
    return judged
