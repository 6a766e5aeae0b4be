"""Runs an experiment: every task once, in the scheduled order, each result on the disk at once.

Stopping it loses at most the runs in progress; `resume` does what is missing. A run that fails
is recorded with its problem and the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from gleaner_lab import metrics
from gleaner_lab.cells import Cell
from gleaner_lab.experiment import Experiment
from gleaner_lab.failure import Refused, nearest
from gleaner_lab.schedule import Task, tasks_of
from gleaner_lab.store import ResultSet
from gleaner_lab.workload import Record


class Executor(Protocol):
    """Where runs happen: this machine or a cluster."""

    def run_all(self, tasks: Iterable[Task], done: Callable[[Task, Record, float], None]) -> None:
        """Runs the tasks and reports each with its record and its start in Unix seconds."""


@dataclass
class Progress:
    """How far a run is, for the progress bar."""

    total: int
    finished: int = 0
    failed: int = 0
    #: The time was over before all were made.
    is_late: bool = False


def run(
    experiment: Experiment,
    cells: list[Cell],
    results: ResultSet,
    executor: Executor,
    watch: Callable[[Progress, Task], None],
    failed: bool = False,
    deadline: float | None = None,
) -> Progress:
    """Runs what is not finished yet; with `failed`, what failed is not finished.

    No round begins after the deadline, a time of the monotonic clock.
    """
    results.mend()
    finished = results.finished(failed)
    tasks = [task for task in tasks_of(experiment, cells) if task.key not in finished]
    progress = Progress(len(tasks))

    def done(task: Task, record: Record, started: float) -> None:
        results.append(entry(task, record, started))
        refuse_misspelt(experiment, task, record)
        progress.finished += 1
        progress.failed += "problem" in record
        watch(progress, task)

    executor.run_all(tasks if deadline is None else _in_time(tasks, deadline, progress), done)
    return progress


def _in_time(tasks: Iterable[Task], deadline: float, progress: Progress) -> Iterator[Task]:
    """The tasks whose round has begun before the deadline."""
    begun = None
    for task in tasks:
        if task.round != begun and time.monotonic() >= deadline:
            progress.is_late = True
            return
        begun = task.round
        yield task


def refuse_misspelt(experiment: Experiment, task: Task, record: Record) -> None:
    """Ends an experiment at the first run that shows that it cannot have a metric.

    The metric that counts must be in every run that succeeds. Others may be some programs' alone,
    but not if the baseline printed one of almost that name.
    """
    values = record.get("values")
    if values is None or task.counted:
        return
    rules = experiment.statistics
    wanted = experiment.named_metrics if task.cell.variant == rules.baseline else [rules.metric]
    printed = [name for name in values if name.startswith(metrics.PRINTED)] or list(values)
    for metric in metrics.missing(wanted, values, experiment.iteration):
        hint = nearest(metric, printed)
        if hint or metric == rules.metric:
            raise Refused(f"{task.key}: it printed no {metric}{hint or f'; it has {printed}'}")


def entry(task: Task, record: Record, started: float) -> Record:
    """A run as it is stored."""
    return {
        "key": task.key,
        "group": task.cell.group,
        "workload": task.cell.workload.name,
        "variant": task.cell.variant,
        "control": task.cell.control,
        "threads": task.cell.threads,
        "multiple": task.cell.multiple,
        "round": task.round,
        "canary": task.canary,
        "counted": task.counted,
        "started": datetime.fromtimestamp(started, UTC).isoformat(),
        **record,
    }
