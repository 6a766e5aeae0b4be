"""What the model of the paper's machine assumes: each parameter's interval, and where it is from.

A result of the model is not taken at one point. It is computed at points that fill the box of all
intervals evenly (a Latin hypercube), and a verdict says where in the box a statement holds
(region.py). Tables and plots are those of the middle.

Three facts fix the machine. A controller's time is bounded by the machine's data sheet and by
published bandwidths. Balanced-Local in Figure 3 improves up to 40 threads, five a node: so a thread
that reads in order takes five times that for a line. Balanced-Remote improves up to 32: so the
links fill up at that load. That Unbalanced-Remote stops at 8 threads is not used, and follows.

A collecting thread is no thread that reads in order. Its lines depend on each other, so that it
waits for fewer at once, and they are scattered, so that a controller takes longer for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache

from scipy.stats import qmc

from gleaner_lab.numa.collection import Costs, Run
from gleaner_lab.numa.hardware import Machine, paper_machine
from gleaner_lab.numa.host import Host, fits

#: Points of the box, and the seed by which they are chosen.
POINTS, SEED = 100, 2013


@dataclass(frozen=True)
class Parameter:
    """A field of `Assumptions`, with its interval."""

    name: str
    words: str
    low: float
    high: float
    unit: str
    source: str

    @property
    def middle(self) -> float:
        """Halfway."""
        return (self.low + self.high) / 2

    def shown(self, low: float, high: float) -> str:
        """A part of the interval, in words."""
        return f"{self.words} in [{low:.3g}, {high:.3g}]" + f" {self.unit}" * bool(self.unit)


@dataclass(frozen=True)
class Assumptions:
    """A point of the box."""

    controller_ns: float
    local_stop: float
    remote_stop: float
    hop: float
    latency_ns: float
    in_flight: float
    scattered: float
    apart: float
    left_cache: float
    slowdown: float
    of_the_fit: float
    host_line_ns: float
    same_node_ns: float
    other_node_ns: float
    spinning: float
    wake_ns: float
    switch_ns: float

    @property
    def machine(self) -> Machine:
        """The paper's machine, as threads use it that read in order."""
        return paper_machine(
            self.controller_ns, self.local_stop, self.remote_stop, self.hop, self.latency_ns
        )

    @property
    def costs(self) -> Costs:
        """What collecting costs, but for the processor's time, which this host is measured for."""
        known = {field.name for field in fields(Costs)}
        return Costs(
            **{one.name: getattr(self, one.name) for one in PARAMETERS if one.name in known}
        )

    def hosts(self, runs: Sequence[tuple[Run, float]]) -> list[Host]:
        """This host's processor, from runs with one collecting thread and their seconds."""
        return fits(runs, self.costs, self.host_line_ns)

    def costs_on(self, runs: Sequence[tuple[Run, float]]) -> Costs:
        """What collecting costs on the paper's machine, from such runs on this host."""
        host = self.hosts(runs)[0]
        return replace(
            self.costs,
            processor_ns=host.object_ns * self.of_the_fit * self.slowdown,
            phase_ns=host.phase_ns * self.slowdown,
        )


PARAMETERS = (
    Parameter(
        "controller_ns",
        "a controller's time for a line in order",
        4.4,
        5.3,
        "ns",
        "14.4 GB/s are the most that a northbridge of 1.8 GHz moves; AMD's 100 GB/s of STREAM on "
        "four packages are 12.5 GB/s a node",
    ),
    Parameter(
        "local_stop",
        "threads that fill all controllers",
        36,
        40,
        "",
        "Figure 3: Balanced-Local improves up to 40 threads, and its axis has a mark every 4",
    ),
    Parameter(
        "remote_stop",
        "threads that fill the links",
        28,
        32,
        "",
        "Figure 3: Balanced-Remote improves up to 32 threads",
    ),
    Parameter(
        "hop",
        "what a hop adds, in local lines",
        0.3,
        1.0,
        "",
        "the firmware's distances 10, 16 and 22 say 0.6; assumed: half to nearly twice that",
    ),
    Parameter(
        "latency_ns",
        "latency of a local line",
        80,
        120,
        "ns",
        "98 ns were published for the Opteron 6174, which has the same die",
    ),
    Parameter(
        "in_flight",
        "lines that a collecting thread waits for at once",
        1,
        4,
        "",
        "1 if each depends on the one before; 4 is what a thread that reads in order has",
    ),
    Parameter(
        "scattered",
        "a scattered line at a controller, in lines in order",
        1,
        2,
        "",
        "assumed: a row of DRAM is opened for each line at worst",
    ),
    Parameter(
        "apart",
        "share of survivors without a neighbour in their lines",
        0,
        1,
        "",
        "not counted: all that there is",
    ),
    Parameter(
        "left_cache",
        "share of copies that leave the caches before they are scanned",
        0,
        1,
        "",
        "not counted: all that there is; the paper takes it to be high (3.2)",
    ),
    Parameter(
        "slowdown",
        "this host's processor against the paper's",
        2,
        4,
        "times",
        "assumed: 2.1 GHz against more than 3, and up to twice the instructions a cycle",
    ),
    Parameter(
        "of_the_fit",
        "this host's time for an object, in times of the fit",
        0.5,
        1.5,
        "",
        "the fit is to times on a busy host; jbb and gcbench take 65 and 90 ns of processor time "
        "for an object with its memory, by their difference in two heaps each",
    ),
    Parameter(
        "host_line_ns",
        "a line of this host's memory",
        3.4,
        31,
        "ns",
        "this host, busy: gleaner-bench zeroing --buffers 128m --threads 1 (18.7 GB/s), and "
        "accesses --bytes 64m --by random",
    ),
    Parameter(
        "same_node_ns",
        "a changed line to another processor of the node",
        40,
        100,
        "ns",
        "assumed: the shared cache, up to once the memory's latency",
    ),
    Parameter(
        "other_node_ns",
        "a changed line to another node",
        100,
        250,
        "ns",
        "assumed: once to twice the memory's latency, and probes",
    ),
    Parameter(
        "spinning",
        "share of the waiting threads that spin for a lock",
        0,
        1,
        "",
        "all that there is: threads spin for a while, then sleep (3.1)",
    ),
    Parameter("wake_ns", "waking a parked thread", 500, 3000, "ns", "assumed: a system call"),
    Parameter(
        "switch_ns",
        "until a woken thread runs",
        2000,
        10000,
        "ns",
        "assumed: a switch on an idle processor",
    ),
)

#: The point that tables and plots are of, and its machine.
MIDDLE = Assumptions(**{one.name: one.middle for one in PARAMETERS})
PAPER = MIDDLE.machine


@cache
def box(points: int = POINTS) -> tuple[Assumptions, ...]:
    """Points that fill the box evenly, always the same."""
    low, high = ([getattr(one, end) for one in PARAMETERS] for end in ("low", "high"))
    unit = qmc.LatinHypercube(len(PARAMETERS), rng=SEED).random(points)
    names = [one.name for one in PARAMETERS]
    return tuple(
        Assumptions(**dict(zip(names, map(float, row), strict=True)))
        for row in qmc.scale(unit, low, high)
    )
