"""In which order runs happen: every round runs every cell once, in an order of its own.

A machine drifts: neighbours come and go, clocks change. When the runs of one configuration lie
side by side in time, drift looks like a difference. So a round holds one run of each cell, in
random order, and ratios are taken within a round. The cells of one workload stay together inside
a round, so that the pair of a ratio is as near in time as it can be.

The order is a function of the experiment's seed: a run that was stopped goes on in the same order.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gleaner_lab.cells import Cell
from gleaner_lab.experiment import Experiment


@dataclass(frozen=True)
class Task:
    """One run to do: a cell in a round, or the canary after a number of others."""

    cell: Cell
    round: int
    #: Number among the canary's runs; None for the runs that count.
    canary: int | None = None
    #: A run that is counted by counters, not by the clock.
    counted: bool = False

    @property
    def key(self) -> str:
        """The identity of the run; a finished key is never run again."""
        part = f"canary {self.canary}" if self.canary is not None else f"round {self.round}"
        if self.counted:
            part = "counted"
        return f"{self.cell.key} | {part}"


def rounds(cells: Sequence[Cell], repetitions: int, seed: int) -> Iterable[Task]:
    """All runs, interleaved."""
    for number in range(repetitions):
        order = random.Random(f"{seed}/{number}")
        groups: dict[str, list[Cell]] = {}
        for cell in cells:
            groups.setdefault(cell.group, []).append(cell)
        names = list(groups)
        order.shuffle(names)
        for name in names:
            group = groups[name]
            order.shuffle(group)
            for cell in group:
                yield Task(cell, number)


def counted(cells: Sequence[Cell]) -> Iterable[Task]:
    """One counted run of each cell; a control has nothing new to count."""
    for cell in cells:
        if not cell.control:
            yield Task(cell, 0, counted=True)


def with_canary(tasks: Iterable[Task], canary: Cell | None, every: int | None) -> Iterable[Task]:
    """Puts the canary first and after each `every` runs."""
    if canary is None or every is None:
        yield from tasks
        return
    number = 0
    for index, task in enumerate(tasks):
        if index % every == 0:
            yield Task(canary, task.round, canary=number)
            number += 1
        yield task


def tasks_of(experiment: Experiment, cells: list[Cell]) -> list[Task]:
    """All runs of an experiment, in order."""
    baseline = experiment.statistics.baseline
    canary = next((cell for cell in cells if cell.variant == baseline), None)
    plain = rounds(cells, experiment.repetitions, experiment.seed)
    tasks = list(with_canary(plain, canary, experiment.canary_every))
    if experiment.counters != "none":
        tasks += counted(cells)
    return tasks
