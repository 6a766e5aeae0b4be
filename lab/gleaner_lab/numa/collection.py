"""Collection time against collecting threads, from what one run counted.

The time of all collections of a run has three parts, which the model adds:

serial           what one thread does alone: a fixed time for each phase. It does not depend on the
                 threads.
parallel         lines of memory, by the matrices of locality.py, through the queues of queues.py.
                 A copied object is fetched from its old place, where the header gets the new
                 address, and its new place is fetched and written back. It is fetched and written
                 back once more if it left the caches before it was scanned. Old objects on dirty
                 cards are fetched and written back, and so is a slot that another node sent. So
                 eden's node counts by what is copied from it, not by what is scanned: a copy is.
                 Taking tasks in the middle of a phase overlaps with it, but not faster than the
                 queue's cache line travels: tasks * transfer is one more lower bound.
synchronisation  at the edges of each phase, where nothing overlaps. All N workers come to one cache
                 line at once. If they change it by one atomic instruction each, the line travels
                 N times; if they take a lock, each hand-over fetches it once for each worker that
                 still spins, a part `spinning` of those that wait. Parked helpers are woken one
                 after the other, as if by one thread (under parking=futex they wake each other,
                 which takes less), and a phase waits for the last of them to be switched to.

                     atomic burst  N * transfer
                     lock burst    N * (1 + spinning * (N - 1) / 2) * transfer

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
    """What the counted things cost. Assumptions, with their intervals in parameters.py."""

    #: Lines that a collecting thread waits for at once.
    in_flight: float = 2.5
    #: How many times as long a controller takes for its lines as for lines in order.
    scattered: float = 1.5
    #: The share of the survivors that have no other survivor in their lines.
    apart: float = 0.5
    #: The share of the copies that leave the caches before they are scanned.
    left_cache: float = 0.5
    #: Processor time for each scanned object, beside its memory.
    processor_ns: float = 0.0
    #: What the thread that leads does alone for each phase.
    phase_ns: float = 0.0
    #: A changed cache line goes to another processor of its node, or of another one.
    same_node_ns: float = 70.0
    other_node_ns: float = 175.0
    #: Of the threads that wait for a lock, those that spin.
    spinning: float = 0.5
    #: An atomic instruction on a line that is there already.
    atomic_ns: float = 10.0
    #: The waker's time for one parked thread, and the time until that runs.
    wake_ns: float = 1750.0
    switch_ns: float = 6000.0

    def lock_transfers(self, workers: int) -> float:
        """How often a lock's line travels when all workers come to it at once."""
        return workers * (1 + self.spinning * (workers - 1) / 2)

    def transfer_ns(self, machine: Machine, workers: int) -> float:
        """A changed line's way to the next of `workers` workers, in the mean over pairs."""
        if workers == 1:
            return self.atomic_ns
        share = machine.round_robin(workers)
        same = (share * (share - 1)).sum() / (workers * (workers - 1))
        return float(same * self.same_node_ns + (1 - same) * self.other_node_ns)


@dataclass(frozen=True)
class Run:
    """What one run counted, over all its collections."""

    locality: Locality
    synchronisation: Synchronisation
    collections: int = 1
    #: Bytes of the objects that were copied within the young generation, and of those promoted. An
    #: object is a line where a run does not say.
    survived_bytes: float | None = None
    promoted_bytes: float | None = None

    @classmethod
    def parse(cls, document: dict[str, Any], where: str) -> Run:
        """From a run's JSON object: locality, synchronisation, collections, survivors' bytes."""
        return cls(
            Locality.parse(document.get("locality"), where),
            Synchronisation.parse(document.get("synchronisation"), where),
            natural(document, "collections", where),
            *(document.get(f"{kind}_bytes") for kind in ("survived", "promoted")),
        )

    def fetched(self, workers: int, costs: Costs) -> tuple[Matrix, Matrix]:
        """Lines that workers wait for, by their node and the memory's: from old places, and others.

        Beside the new places of survivors the others are the lines of old objects on dirty cards
        and of messages, and a line for each slot that a message brought.
        """
        old_places = new_places = self._rows("copied", workers) * 0
        for from_, to, size in self._survivors(workers):
            old_places = old_places + from_ * _spread(size, costs)
            new_places = new_places + to * size * (1 + costs.left_cache)
        return old_places, new_places + self._cards(workers) + self._sent(workers)

    def written(self, workers: int, costs: Costs) -> Matrix:
        """Lines that are written back: a header in each old place, and the others of `fetched`."""
        headers = sum(
            from_ * min(1.0, _spread(size, costs)) for from_, _, size in self._survivors(workers)
        )
        return headers + self.fetched(workers, costs)[1]

    def _survivors(self, workers: int) -> list[tuple[Matrix, Matrix, float]]:
        """Where objects lay, where they lie, and lines of one: of those copied and promoted."""
        copied, promoted = (self._rows(kind, workers) for kind in ("copied", "promoted"))
        return [
            (self._rows("copied_from", workers), copied, _size(self.survived_bytes, copied)),
            (self._promoted_from(workers), promoted, _size(self.promoted_bytes, promoted)),
        ]

    def _promoted_from(self, workers: int) -> Matrix:
        """Where promoted objects lay, which is not counted.

        They lay in the survivor space as long as there are not more of them than were copied into
        it; the others came from eden. In segregated spaces they lay on the worker's node.
        """
        promoted = self._rows("promoted", workers)
        rows = promoted.sum(axis=1)
        if self.is_segregated:
            return np.diag(rows)
        copied_from = self._rows("copied_from", workers)
        survivors = self.locality.pages.get("survivor_pages", np.zeros(len(rows)))
        known = [one / one.sum() for one in (copied_from.sum(axis=0), survivors) if one.any()]
        if not known or not rows.any():
            return promoted
        of_eden = max(0.0, 1 - copied_from.sum() / rows.sum())
        return np.outer(rows, of_eden * known[0] + (1 - of_eden) * known[-1])

    def _cards(self, workers: int) -> Matrix:
        """Lines of the old objects that were scanned for their dirty cards."""
        scanned, young, promoted = (
            self._rows(kind, workers) for kind in ("scanned", "scanned_young", "promoted")
        )
        return np.maximum(0, scanned - young - promoted) * _size(self.promoted_bytes, promoted)

    def _sent(self, workers: int) -> Matrix:
        """Lines of messages, which the sender's node has, and of the slots that they were about."""
        if not self.is_segregated:
            return np.zeros((self.locality.nodes, self.locality.nodes))
        return (self._rows("messages", workers) + self._rows("message_bytes", workers) / LINE).T

    def scanned(self, workers: int) -> NDArray[np.float64]:
        """Objects scanned by the workers of each node."""
        return self._rows("scanned", workers).sum(axis=1)

    @property
    def is_segregated(self) -> bool:
        """Whether workers did only what lay on their node, and sent each other the rest."""
        messages = self.locality.counts.get("messages")
        return messages is not None and bool(messages.any())

    def _rows(self, kind: str, workers: int) -> Matrix:
        """A matrix as it would be with another number of workers, spread round robin; 0 if absent.

        In segregated spaces a node's work stays on the node. Else stealing is taken to
        give each worker the same amount; where its objects lie is as in the run for the workers of
        its node, or for all if none of them ran there. A run with as many workers as are asked for
        is better where there is one.
        """
        nodes = self.locality.nodes
        matrix = self.locality.counts.get(kind, np.zeros((nodes, nodes)))
        if workers == self.locality.workers or self.is_segregated or not matrix.any():
            return matrix
        total, rows = matrix.sum(), matrix.sum(axis=1, keepdims=True)
        everywhere = matrix.sum(axis=0) / total
        pattern = np.where(rows > 0, matrix / np.where(rows > 0, rows, 1), everywhere)
        share = np.bincount(np.arange(workers) % nodes, minlength=nodes) / workers
        return total * share[:, np.newaxis] * pattern


def _size(size: float | None, objects: Matrix) -> float:
    """Lines of an object, from the bytes of them all; they lie one behind the other."""
    return 1.0 if size is None or not objects.any() else size / LINE / objects.sum()


def _spread(size: float, costs: Costs) -> float:
    """Lines in which an object of `size` lines lies between others that died.

    Objects begin at multiples of 8 bytes; those that lie apart have the rest of their first and
    last lines in the mean for themselves.
    """
    return size + costs.apart * (1 - 8 / LINE)


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
    memory = predict(
        machine.at_random(costs.in_flight, costs.scattered),
        sum(run.fetched(workers, costs)),
        share,
        computing,
        written=run.written(workers, costs),
        shared=not run.is_segregated,
    )
    bursts = events.atomic_bursts() * workers
    bursts += events.lock_bursts(workers) * costs.lock_transfers(workers)
    waking = events.wakeups * costs.wake_ns * 1e-9
    if workers > 1:
        waking += events.phases * costs.switch_ns * 1e-9
    return CollectionTime(
        threads=workers,
        collections=run.collections,
        serial_s=events.phases * costs.phase_ns * 1e-9,
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
