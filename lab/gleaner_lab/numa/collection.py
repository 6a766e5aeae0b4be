"""Collection time against collecting threads, from what one run counted.

The time of all collections of a run has three parts, which the model adds:

serial           what one thread does alone; given, it does not depend on the threads.
parallel         lines of memory, by the matrices of locality.py, through the queues of queues.py.
                 Taking tasks in the middle of a phase overlaps with it, but not faster than the
                 queue's cache line travels: tasks * transfer is one more lower bound.
synchronisation  at the edges of each phase, where nothing overlaps. All N workers come to one cache
                 line at once. If they change it by one atomic instruction each, the line travels
                 N times; if they take a lock, each hand-over fetches it once for each worker that
                 still spins, N * (N + 1) / 2 times in all. Parked helpers are woken one after the
                 other, as if by one thread (under parking=futex they wake each other, which takes
                 less), and a phase waits for the last of them to be switched to.

                     atomic burst  N * transfer            lock burst  N * (N + 1) / 2 * transfer

                 A phase has three bursts without locks: each worker's first task, finding the
                 queue empty, and the termination word. Under task-queue=locked the first is one of
                 locks, and under either lock all acquisitions that brought no task are bursts, so
                 many as there are of them for each worker.

A transfer is the mean over pairs of workers, of one node or of two. Failed compare-and-swaps cost
their worker a transfer each. Nothing here was measured on the machine that is modelled; what
queues.py cannot show, this cannot either, nor threads that lose their processor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gleaner_lab.failure import Failure, nearest
from gleaner_lab.numa import MODELLED
from gleaner_lab.numa.hardware import LINE, Machine
from gleaner_lab.numa.locality import Locality, Matrix, natural
from gleaner_lab.numa.queues import Prediction, predict

#: The numbers of collecting threads that experiments use.
THREADS = (1, 2, 4, 8, 16, 24, 32, 40, 48)
TASK_QUEUES = ("lock-free", "locked")
PARKINGS = ("futex", "monitor")
#: What is counted of the workers together.
COUNTS = ("phases", "tasks", "wakeups", "lock_acquisitions", "failed_cas")

#: The counts of one run, as metrics of an experiment.
METRICS = tuple(f"synchronisation.{name}" for name in COUNTS)


@dataclass(frozen=True)
class Synchronisation:
    """What the workers did with each other in all collections of a run, together."""

    #: Parallel phases; a collection has one or more.
    phases: float
    #: Tasks taken from the queue.
    tasks: float
    #: Helpers that were parked and were woken.
    wakeups: float
    #: Acquisitions of the locks of tasks and parking. Under task-queue=locked: for each task, to
    #: fill the queue for a phase, and each time that a worker finds the last task gone. Under
    #: parking=monitor: to call workers, to fall asleep, to wake up, to leave a phase.
    lock_acquisitions: float
    #: Compare-and-swaps on the queue of tasks that failed.
    failed_cas: float
    task_queue: str = "lock-free"
    parking: str = "futex"

    @classmethod
    def parse(cls, document: Any, where: str) -> Synchronisation:
        """From the object `synchronisation` of a run's JSON."""
        where = f"{where}: synchronisation"
        if not isinstance(document, dict):
            raise Failure(f"{where} is no object; the run prints one when it counts")
        counts = {}
        for name in COUNTS:
            value = document.get(name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise Failure(f"{where}: {name} is {value!r}, not a whole number of 0 or more")
            counts[name] = value
        for name, known in (("task_queue", TASK_QUEUES), ("parking", PARKINGS)):
            value = document.get(name)
            if value not in known:
                hint = nearest(str(value), known)
                raise Failure(f"{where}: {name} is {value!r}, not {' or '.join(known)}{hint}")
        return cls(**counts, task_queue=document["task_queue"], parking=document["parking"])

    def figures(self) -> dict[str, float]:
        """The counts as metrics of an experiment: `METRICS`."""
        return {f"synchronisation.{name}": getattr(self, name) for name in COUNTS}

    def scaled(self, times: float) -> Synchronisation:
        """The counts of `times` times as many collections."""
        return replace(self, **{name: getattr(self, name) * times for name in COUNTS})

    def at(self, before: int, workers: int) -> Synchronisation:
        """The counts of a run with `before` workers, for another number of them.

        Phases and tasks stay. Helpers are woken, and workers meet, in proportion to their number.
        """
        helpers = (workers - 1) / max(1, before - 1)
        tasks = self._task_locks
        return replace(
            self,
            wakeups=self.wakeups * helpers,
            lock_acquisitions=tasks + (self.lock_acquisitions - tasks) * workers / before,
            failed_cas=self.failed_cas * helpers,
        )

    @property
    def _task_locks(self) -> float:
        locked = self.tasks if self.task_queue == "locked" else 0.0
        return min(locked, self.lock_acquisitions)

    def lock_bursts(self, workers: int) -> float:
        """How often in the run all workers come to a lock at once, the queue's start included."""
        rest = (self.lock_acquisitions - self._task_locks) / workers
        return rest + (self.phases if self.task_queue == "locked" else 0)

    def atomic_bursts(self) -> float:
        """How often all workers come to one word without a lock."""
        return self.phases * (3 if self.task_queue == "lock-free" else 1)

    def later_tasks(self, workers: int) -> float:
        """Tasks that a worker takes after its first of a phase."""
        return max(0.0, self.tasks - self.phases * workers)


@dataclass(frozen=True)
class Costs:
    """What the counted things cost. Assumptions, but for what `calibrated` fits."""

    #: Lines of memory for each object or slot. A copied or promoted object's line is fetched and
    #: written back.
    scanned_lines: float = 1.0
    copied_lines: float = 2.0
    updated_lines: float = 1.0
    #: Beside memory, a worker computes so long for each scanned object. At 0 the collector is as
    #: memory-bound as the microbenchmark of Figure 3, which the paper takes it to be (3.2).
    processor_ns: float = 0.0
    #: A changed cache line goes to another processor of its node, or of another one.
    same_node_ns: float = 50.0
    other_node_ns: float = 150.0
    #: An atomic instruction on a line that is there already.
    atomic_ns: float = 10.0
    #: The waker's time for one parked thread, and the time until that runs.
    wake_ns: float = 1500.0
    switch_ns: float = 5000.0

    def transfer_ns(self, machine: Machine, workers: int) -> float:
        """A changed line's way to the next of `workers` workers, in the mean over pairs."""
        if workers == 1:
            return self.atomic_ns
        share = machine.round_robin(workers)
        same = (share * (share - 1)).sum() / (workers * (workers - 1))
        return float(same * self.same_node_ns + (1 - same) * self.other_node_ns)

    def calibrated(self, machine: Machine, run: Run, seconds: float) -> Costs:
        """The costs with such a `processor_ns` that a run with one worker takes `seconds` seconds.

        The rest of the time is that of local memory, `serial_s` and the worker's own tasks. Time
        that is less than that is met as nearly as it can be, by 0.
        """
        if run.locality.workers != 1:
            raise Failure(
                f"the run to calibrate by has {run.locality.workers} workers; take one of 1"
            )
        bare = replace(self, processor_ns=0.0)
        local = replace(machine, hop_ns=0.0)
        objects = run.locality.counts["scanned"].sum()
        rest = seconds - collection_time(run, local, 1, bare).bound_s
        return replace(self, processor_ns=max(0.0, rest * 1e9 / objects) if objects else 0.0)


@dataclass(frozen=True)
class Run:
    """What one run counted, over all its collections."""

    locality: Locality
    synchronisation: Synchronisation
    collections: int = 1
    #: What one thread did alone while the world was stopped.
    serial_s: float = 0.0

    @classmethod
    def parse(cls, document: dict[str, Any], where: str) -> Run:
        """From a run's JSON object, with the fields locality, synchronisation and collections."""
        return cls(
            Locality.parse(document.get("locality"), where),
            Synchronisation.parse(document.get("synchronisation"), where),
            natural(document, "collections", where),
        )

    def lines(self, workers: int, costs: Costs) -> Matrix:
        """Lines of memory by the worker's and the object's node, for a number of workers."""
        counts = self.locality.counts
        found = (
            costs.scanned_lines * self._rows("scanned", workers)
            + costs.copied_lines * self._rows("copied", workers)
            + costs.updated_lines * self._rows("updated", workers)
        )
        if "promoted" in counts:
            found = found + costs.copied_lines * self._rows("promoted", workers)
        if "message_bytes" in counts:
            found = found + self._rows("message_bytes", workers) / LINE
        return found

    def scanned(self, workers: int) -> NDArray[np.float64]:
        """Objects scanned by the workers of each node."""
        return self._rows("scanned", workers).sum(axis=1)

    @property
    def is_segregated(self) -> bool:
        """Whether workers did only what lay on their node, and sent each other the rest."""
        messages = self.locality.counts.get("messages")
        return messages is not None and bool(messages.any())

    def _rows(self, kind: str, workers: int) -> Matrix:
        """A matrix as it would be with another number of workers, spread round robin.

        In segregated spaces a node's work stays on the node. Else stealing is taken to
        give each worker the same amount; where its objects lie is as in the run for the workers of
        its node, or for all if none of them ran there. A run with as many workers as are asked for
        is better where there is one.
        """
        matrix = self.locality.counts[kind]
        if workers == self.locality.workers or self.is_segregated or not matrix.any():
            return matrix
        total, rows = matrix.sum(), matrix.sum(axis=1, keepdims=True)
        everywhere = matrix.sum(axis=0) / total
        pattern = np.where(rows > 0, matrix / np.where(rows > 0, rows, 1), everywhere)
        nodes = self.locality.nodes
        share = np.bincount(np.arange(workers) % nodes, minlength=nodes) / workers
        return total * share[:, np.newaxis] * pattern


def pauses_of(document: dict[str, Any], where: str) -> float:
    """All pauses of a run, in seconds, from its JSON object."""
    value = document.get("total_pause_s")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise Failure(f"{where}: total_pause_s is {value!r}, not a number of seconds")
    return float(value)


@dataclass(frozen=True)
class CollectionTime:
    """The time of all collections of a run with a number of threads."""

    threads: int
    collections: int
    serial_s: float
    memory: Prediction
    #: No less than which tasks take that are taken one after the other.
    task_queue_s: float
    synchronisation_s: float
    label: str = MODELLED

    @property
    def bound_s(self) -> float:
        """All parts, memory by its bound."""
        return self._with(self.memory.bound_s)

    @property
    def queued_s(self) -> float:
        """All parts, memory with queues."""
        return self._with(self.memory.queued_s)

    def _with(self, memory_s: float) -> float:
        return self.serial_s + max(memory_s, self.task_queue_s) + self.synchronisation_s

    @property
    def limit(self) -> str:
        """What the parallel part waits for."""
        return self.memory.limit if self.memory.bound_s >= self.task_queue_s else "task queue"


def collection_time(run: Run, machine: Machine, workers: int, costs: Costs) -> CollectionTime:
    """The time of the run's collections on a machine with `workers` collecting threads."""
    if run.locality.nodes != machine.nodes:
        raise Failure(
            f"the run counted {run.locality.nodes} nodes and the machine has {machine.nodes}; "
            f"make the run with topology='node:{machine.nodes} core:{machine.cores} pu:1'"
        )
    if run.locality.workers == 1 < workers:
        raise Failure("a run with one worker does not tell how several meet; make one with more")
    if run.is_segregated and workers < machine.nodes:
        raise Failure(f"segregated spaces need a worker on each of {machine.nodes} nodes")
    share = machine.round_robin(workers)
    transfer_s = costs.transfer_ns(machine, workers) * 1e-9
    events = run.synchronisation.at(run.locality.workers, workers)
    computing = run.scanned(workers) * costs.processor_ns
    # Each worker fetches the lines that it lost in its own time.
    computing = computing + events.failed_cas * transfer_s * 1e9 * share / workers
    lines = run.lines(workers, costs)
    memory = predict(machine, lines, share, computing, shared=not run.is_segregated)
    bursts = events.atomic_bursts() * workers
    bursts += events.lock_bursts(workers) * workers * (workers + 1) / 2
    waking = events.wakeups * costs.wake_ns * 1e-9
    if workers > 1:
        waking += events.phases * costs.switch_ns * 1e-9
    return CollectionTime(
        threads=workers,
        collections=run.collections,
        serial_s=run.serial_s,
        memory=memory,
        task_queue_s=events.later_tasks(workers) * transfer_s,
        synchronisation_s=bursts * transfer_s + waking,
    )


def curve(
    run: Run, machine: Machine, costs: Costs, threads: Iterable[int] = THREADS
) -> list[CollectionTime]:
    """The time with each number of threads; in segregated spaces, from one for each node on."""
    least = machine.nodes if run.is_segregated else 1
    return [collection_time(run, machine, one, costs) for one in threads if one >= least]
