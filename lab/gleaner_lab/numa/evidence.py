"""What a result set of experiments/naps-paper.yaml tells about the paper's machine.

A figure is a mapping of samples: one for each round, and for modelled ones two a round, the bound
and the time with queues (queues.py). Figures are combined sample by sample, so that a round is
compared with itself alone. What the result set lacks is a `Failure` that names it. Modelled figures
are those of one point of the model's parameters; `at` gives the same runs at another one.

GC throughput is bytes allocated over the time of all collections; application time is run time
minus pauses. Modelled collections are scavenges: what full collections do is not counted by node.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gleaner_lab import experiment as experiments
from gleaner_lab.failure import Failure
from gleaner_lab.numa.application import Application
from gleaner_lab.numa.collection import CollectionTime, Costs, Run, collection_time
from gleaner_lab.numa.hardware import Machine
from gleaner_lab.numa.host import Host
from gleaner_lab.numa.locality import non_locality
from gleaner_lab.numa.parameters import MIDDLE, POINTS, Assumptions, box
from gleaner_lab.numa.sockets import Sockets, Time, times
from gleaner_lab.store import ResultSet

#: The numbers of collecting threads that the paper's figures are made for.
THREADS = (1, 2, 4, 8, 16, 32, 48)
#: The two times of the model.
BOUND, QUEUED = "bound", "with queues"
#: What is counted or measured has one value a round.
ONCE = ""

#: The configurations that are counted, the paper's baseline first.
COUNTED = (
    "baseline",
    "synchronised",
    "interleaved",
    "fragmented",
    "segregated",
    "interleaved-synchronised",
    "naps",
    "segregated-synchronised",
)
#: Those whose mutators allocate on their own node.
ON_OWN_NODE = ("fragmented", "naps", "segregated", "segregated-synchronised")
#: The timed forms of some, by collecting threads.
TIMED = {
    name: {threads: f"{name}-{threads}" for threads in (1, 2)} for name in ("baseline", "naps")
}
#: The one by which the model's processor time is fitted: one thread, nothing in its way.
ALONE = TIMED["baseline"][1]

#: Bytes of a page of the host, and of the last cache of a node of the paper's machine.
PAGE, CACHE = mmap.PAGESIZE, 6 << 20

#: Where what workers do with each other is counted: in lockstep none of them meets another. By
#: whether the configuration is synchronised; with all workers, as the host's scheduler has them.
MEETING = {False: "baseline-48", True: "naps-48"}
SYNCHRONISED = ("synchronised", "interleaved-synchronised", "naps", "segregated-synchronised")

#: By round and estimate.
Samples = Mapping[tuple[int, str], float]


@dataclass
class Evidence:
    """The runs of a result set, by workload and configuration, and what the model makes of them."""

    records: Iterable[Mapping[str, Any]]
    #: The workloads in the order in which they are shown.
    order: Sequence[str] = ()
    assumed: Assumptions = MIDDLE
    #: At how many points of the parameters' box a modelled statement is tried.
    points: int = POINTS
    _counted: dict[tuple[str, str], dict[int, Run]] = field(default_factory=dict)
    _times: dict[tuple[str, str, int], dict[int, CollectionTime]] = field(default_factory=dict)

    @classmethod
    def read(cls, results: ResultSet) -> Evidence:
        """All runs of a result set."""
        order = [one.name for one in experiments.read(results.experiment).workloads]
        return cls(list(results.records()), order)

    def at(self, assumed: Assumptions) -> Evidence:
        """The same runs with other parameters."""
        return replace(self, assumed=assumed, _times={})

    @cached_property
    def in_the_box(self) -> tuple[Evidence, ...]:
        """The same runs at each point of the parameters' box."""
        return tuple(self.at(one) for one in box(self.points))

    @cached_property
    def machine(self) -> Machine:
        """The paper's machine."""
        return self.assumed.machine

    @cached_property
    def _runs(self) -> dict[tuple[str, str], dict[int, Mapping[str, Any]]]:
        found: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = {}
        for record in self.records:
            plain = not record.get("control") and record.get("canary") is None
            if plain and "values" in record:
                key = (record["workload"], record["variant"])
                found.setdefault(key, {})[record["round"]] = record
        return found

    @cached_property
    def workloads(self) -> list[str]:
        """The workloads that anything was run of."""
        found = dict.fromkeys(workload for workload, _ in self._runs)
        known = [name for name in self.order if name in found]
        return [*known, *(name for name in found if name not in known)]

    def rounds(self, workload: str, configuration: str) -> dict[int, Mapping[str, Any]]:
        """The runs of a configuration by round; one or more."""
        try:
            return self._runs[(workload, configuration)]
        except KeyError:
            raise Failure(f"no run of {workload} under {configuration}") from None

    def has(self, workload: str, configuration: str) -> bool:
        """Whether there is such a run."""
        return (workload, configuration) in self._runs

    # ---- counted and measured ----

    def values(self, workload: str, configuration: str, metric: str) -> Samples:
        """A metric of the runs."""
        rounds = self.rounds(workload, configuration)
        found = {
            (number, ONCE): float(record["values"][metric])
            for number, record in rounds.items()
            if metric in record["values"]
        }
        if not found:
            raise Failure(f"{workload} under {configuration} has no {metric}")
        return found

    def counted(self, workload: str, configuration: str) -> dict[int, Run]:
        """What the runs counted, by round."""
        key = (workload, configuration)
        if key not in self._counted:
            where = f"{workload} under {configuration}"
            self._counted[key] = {
                number: Run.parse(record.get("counts", {}) | _survivors(record), where)
                for number, record in self.rounds(workload, configuration).items()
            }
        return self._counted[key]

    def remote_old_scans(self, workload: str, configuration: str) -> Samples:
        """Which share of the scans of objects outside of the young spaces is remote."""
        found = {}
        for number, run in self.counted(workload, configuration).items():
            counts = run.locality.counts
            if "scanned_young" in counts:
                share = non_locality(counts["scanned"] - counts["scanned_young"])
                if not math.isnan(share):
                    found[(number, ONCE)] = share
        if not found:
            raise Failure(f"{workload} under {configuration} scanned no old object")
        return found

    def remote_discoveries(self, workload: str, configuration: str) -> Samples:
        """Messages for each object that scavenges found: it was found on another node than its own.

        An object that several slots of other nodes lead to counts for each of them.
        """
        found = {}
        for number, run in self.counted(workload, configuration).items():
            counts = run.locality.counts
            if not run.is_segregated:
                raise Failure(f"{workload} under {configuration} sent no messages")
            objects = counts["copied"].sum() + counts.get("promoted", np.zeros(1)).sum()
            if objects > 0:
                found[(number, ONCE)] = float(counts["messages"].sum() / objects)
        if not found:
            raise Failure(f"{workload} under {configuration} copied nothing")
        return found

    # ---- modelled ----

    def events(
        self, workload: str, configuration: str, meeting: str | None = None
    ) -> dict[int, Run]:
        """What the runs counted, with the synchronisation of workers that ran at the same time.

        That is counted under `meeting`, which `MEETING` tells unless it is given, and taken to be
        the same for each collection.
        """
        met = self.counted(workload, meeting or MEETING[configuration in SYNCHRONISED])
        found = {}
        for number, run in self.counted(workload, configuration).items():
            if number in met:
                other = met[number]
                scaled = other.synchronisation.scaled(run.collections / other.collections)
                found[number] = replace(run, synchronisation=scaled)
        return found

    def alone(self) -> list[tuple[str, Run, float]]:
        """Workloads, what their run with one collecting thread counted, and its time of copying.

        Of the rounds that with the least time, which others disturbed least.
        """
        found = []
        for workload in self.workloads:
            if self.has(workload, ALONE):
                copying = self.values(workload, ALONE, "phase.copy_s")
                number, _ = least = min(copying, key=lambda key: copying[key])
                found.append((workload, self.counted(workload, ALONE)[number], copying[least]))
        if not found:
            raise Failure(f"no run under {ALONE}, by which the processor's time is fitted")
        return found

    def hosts(self) -> list[Host]:
        """This host's times of collecting, fitted to all workloads and to all but each."""
        return self.assumed.hosts([run for _, *run in self.alone()])

    @cached_property
    def costs(self) -> Costs:
        """What collecting costs on the paper's machine."""
        return self.assumed.costs_on([run for _, *run in self.alone()])

    def times(self, workload: str, configuration: str, threads: int) -> dict[int, CollectionTime]:
        """Collection times by round; no round where no round of both is there."""
        key = (workload, configuration, threads)
        if key not in self._times:
            self._times[key] = {
                number: collection_time(run, self.machine, threads, self.costs)
                for number, run in self.events(workload, configuration).items()
            }
        return self._times[key]

    def collecting(self, workload: str, configuration: str, threads: int) -> Samples:
        """The time of all collections."""
        return _both(self.times(workload, configuration, threads))

    def parallel(self, workload: str, configuration: str, threads: int) -> Samples:
        """The time of the parallel part of all collections, without synchronisation."""
        found = {}
        for number, time in self.times(workload, configuration, threads).items():
            found[(number, BOUND)] = time.memory.bound_s
            found[(number, QUEUED)] = time.memory.queued_s
        return found

    def throughput(self, workload: str, configuration: str, threads: int) -> Samples:
        """Bytes allocated for each second of collection."""
        allocated = self.values(workload, configuration, "printed.allocated_bytes")
        times = self.collecting(workload, configuration, threads)
        return {
            (number, estimate): allocated[(number, ONCE)] / time
            for (number, estimate), time in times.items()
            if time > 0
        }

    def pause(self, workload: str, configuration: str, threads: int) -> Samples:
        """The mean time of a collection."""
        times = self.times(workload, configuration, threads)
        found = self.collecting(workload, configuration, threads)
        return {key: time / times[key[0]].collections for key, time in found.items()}

    def application(self, workload: str, configuration: str) -> Samples:
        """Run time minus pauses, by the bound and with queues."""
        alone = self.rounds(workload, ALONE)
        times = {}
        for number, run in self.counted(workload, configuration).items():
            eden = run.locality.pages.get("eden_pages", np.zeros(1)).sum() / run.collections
            if eden * PAGE < CACHE:
                raise Failure(
                    f"eden of {workload} is {eden * PAGE / 2**20:.1f} MB under {configuration}, "
                    "less than a cache, and the model has none"
                )
            if number in alone:
                application = _mutators(alone[number])
                own = configuration in ON_OWN_NODE
                times[number] = application.time(
                    self.machine,
                    run.locality,
                    on_own_node=own,
                    slowdown=self.assumed.slowdown,
                    host_line_ns=self.assumed.host_line_ns,
                )
        return _both(times)

    def completion(self, workload: str, configuration: str, threads: int) -> Samples:
        """Application and collections together."""
        return combined(
            lambda application, collecting: application + collecting,
            self.application(workload, configuration),
            self.collecting(workload, configuration, threads),
        )

    def on_sockets(self, workload: str) -> list[Mapping[Sockets, Time]]:
        """What threads on two sockets would take, by round of placement-modelled."""
        alone = self.rounds(workload, ALONE)
        found = [
            times(run, _mutators(alone[number]), self.costs)
            for number, run in self.events(workload, "counted", "meeting").items()
            if number in alone
        ]
        if not found:
            raise Failure(f"{workload}: no round has the runs counted, meeting and {ALONE}")
        return found

    # ---- measured on this host ----

    def measured(self, workload: str, configuration: str) -> dict[str, Samples]:
        """What a timed run took: GC throughput, application time, run time, mean pause."""
        value = lambda name: self.values(workload, configuration, f"printed.{name}")  # noqa: E731
        pauses, wall = value("total_pause_s"), value("wall_s")
        return {
            "throughput": combined(_over, value("allocated_bytes"), pauses),
            "application": combined(lambda whole, part: whole - part, wall, pauses),
            "completion": wall,
            "pause": combined(_over, pauses, value("collections")),
        }


def _mutators(record: Mapping[str, Any]) -> Application:
    """What the mutators of a run did."""
    values = record["values"]
    return Application(
        int(values["printed.mutators"]),
        values["printed.allocated_bytes"],
        max(0.0, values["printed.cpu_s"] - values["printed.total_pause_s"]),
    )


def _survivors(record: Mapping[str, Any]) -> dict[str, float]:
    """The bytes of survivors, where a run printed them."""
    values = record["values"]
    names = ("survived_bytes", "promoted_bytes")
    return {name: values[f"printed.{name}"] for name in names if f"printed.{name}" in values}


def combined(rule: Callable[[float, float], float], one: Samples, other: Samples) -> Samples:
    """A figure from two, sample by sample."""
    found = {key: rule(one[key], other[key]) for key in one if key in other}
    if not found:
        raise Failure("no round has both runs")
    return found


def gain(new: Samples, old: Samples) -> Samples:
    """By how much one is greater, as a share of the other."""
    return combined(lambda one, other: _over(one, other) - 1, new, old)


def saving(new: Samples, old: Samples) -> Samples:
    """Which share of the old time is saved."""
    return combined(lambda one, other: 1 - _over(one, other), new, old)


def ratio(one: Samples, other: Samples) -> Samples:
    """One over the other."""
    return combined(_over, one, other)


def _over(one: float, other: float) -> float:
    return one / other if other else math.nan


def _both(times: Mapping[int, Any]) -> Samples:
    """The samples of times that the model gave: the bound and that with queues."""
    if not times:
        raise Failure("no round has both what was counted and the runs beside it")
    found = {}
    for number, time in times.items():
        found[(number, BOUND)] = time.bound_s
        found[(number, QUEUED)] = time.queued_s
    return found
