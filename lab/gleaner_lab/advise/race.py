"""Sequential elimination: what is surely worse gets no more runs, and what may be best gets them.

A round runs a few cells in random order. The first one takes half of the cells, spread evenly over
the levels of all factors; every later one takes, for each goal in turn, the cells that are most
probably the best of it by the model (`model.py`), and the program as it is. A cell is *out* for a
goal when the lower bound of its ratio to the goal's best is above 1; the bound is corrected for the
number of cells (Bonferroni). A goal is *settled* when its best ran at least twice and is, with a
probability of CERTAINTY, at most `margin` worse than whatever cell is best. The race ends when all
goals are settled or the budget is spent.

All decisions follow from the runs that were made so far, whatever was decided before: a race that
was stopped goes on from its journal, and one that gets a larger budget goes on as well.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, cycle
from typing import Any

import numpy as np

from gleaner_lab.advise import model
from gleaner_lab.advise.model import Posterior, Run
from gleaner_lab.advise.space import DEFAULT, REFERENCE, Cell
from gleaner_lab.failure import Failure

#: What a run came to: `values`, or the `problem` for which it has none.
Record = dict[str, Any]
#: Makes a run of a cell in a round.
Make = Callable[[Cell, int], Record]

#: How sure the race wants to be of a goal.
CERTAINTY = 0.95
#: How sure the race is that nothing that is out was the best.
CONFIDENCE = 0.95
#: Repetitions of an exhaustive measurement.
REPETITIONS = 10
#: The share of its runs that the race may take.
SHARE = 0.25
#: Cells in a round: this share of all, but no fewer than ROUND_LEAST.
ROUND_SHARE, ROUND_LEAST = 1 / 6, 6
#: A cell is out when this many of its runs failed, and more than worked.
STRIKES = 2
#: Runs with one level of a factor that must have failed, if none worked, to give the level up.
GIVEN_UP = 3
#: Draws from the model, for probabilities.
DRAWS = 2000
#: Seconds or joules: what is less, such as no pause at all, counts as this much.
LEAST = 1e-4


@dataclass(frozen=True)
class Rules:
    """How the race is run."""

    goals: tuple[str, ...] = ("wall_s",)
    #: Runs that may be made; 0 is a quarter of those of an exhaustive measurement.
    budget: int = 0
    margin: float = 0.01
    seed: int = 1
    #: Runs of a cell in an exhaustive measurement.
    repetitions: int = REPETITIONS
    #: Only tests take it away: then what did best in its first run is taken.
    intervals: bool = True


@dataclass(frozen=True)
class Standing:
    """What is known of one goal."""

    goal: str
    posterior: Posterior
    best: Cell
    #: How much worse than the best cell this one is at most, with a probability of CERTAINTY.
    regret: float
    #: The probability that it is at most the margin worse than the best.
    sureness: float
    #: Cells that run on, the most probably best first.
    alive: list[Cell]
    #: How many others may be better.
    others: int
    #: Runs of the best that worked.
    runs: int

    @property
    def is_known(self) -> bool:
        """Whether the runs tell how sure it is: one run says nothing of how far the next is off."""
        return self.runs > 1

    @property
    def is_settled(self) -> bool:
        """Whether more runs would not change the answer by more than the margin."""
        return self.is_known and self.sureness >= CERTAINTY


@dataclass(frozen=True)
class Trials:
    """How often a cell worked and failed, and what it said last."""

    worked: int = 0
    failed: int = 0
    problem: str = ""

    def and_one(self, record: Record) -> Trials:
        """With one run more."""
        if "problem" in record:
            return Trials(self.worked, self.failed + 1, record["problem"])
        return Trials(self.worked + 1, self.failed, self.problem)

    @property
    def is_out(self) -> bool:
        """A run may fail by accident: only a second failure tells something of the cell."""
        return self.failed >= STRIKES and self.failed > self.worked

    @property
    def shown(self) -> str:
        """In words, how often it failed; nothing if it never did."""
        if not self.failed:
            return ""
        return f"{self.failed} of {self.failed + self.worked} runs failed: {self.problem}"


@dataclass
class Race:
    """The rounds, one after another; `made` holds the runs of an earlier start."""

    cells: list[Cell]
    rules: Rules
    made: list[tuple[Cell, int, Record]] = field(default_factory=list)

    @property
    def spent(self) -> int:
        """Runs so far."""
        return len(self.made)

    @property
    def budget(self) -> int:
        """Runs that may be made.

        An exhaustive measurement ends with a cell as the race does, when it has failed so often. So
        cells that fail make both shorter.
        """
        if self.rules.budget:
            return self.rules.budget
        failing = len(self.cells) - len(self.working)
        runs = len(self.working) * self.rules.repetitions + failing * STRIKES
        return int(SHARE * runs)

    @property
    def more(self) -> int:
        """A budget that tells more."""
        return 2 * max(self.budget, self.spent)

    def trials(self) -> dict[Cell, Trials]:
        """What came of the runs of each cell."""
        found: dict[Cell, Trials] = {}
        for cell, _, one in self.made:
            found[cell] = found.get(cell, Trials()).and_one(one)
        return found

    @property
    def failed(self) -> dict[Cell, str]:
        """Cells that are out because their runs fail, and why."""
        return {cell: one.shown for cell, one in self.trials().items() if one.is_out}

    @property
    def given_up(self) -> dict[Cell, str]:
        """Cells that are not out, but have a level with which no run of any cell worked."""
        trials = self.trials()
        dead = _dead_levels(trials)
        found = {}
        for cell in self.cells:
            is_out = cell in trials and trials[cell].is_out
            for _, level in () if is_out else sorted(dead & set(enumerate(cell.levels))):
                found[cell] = f"given up: no run with {level or DEFAULT} worked"
        return found

    @property
    def working(self) -> list[Cell]:
        """The others."""
        out = {**self.failed, **self.given_up}
        return [cell for cell in self.cells if cell not in out]

    @property
    def has_begun(self) -> bool:
        """Whether the runs say anything: two cells that work have been run."""
        working = set(self.working)
        return sum(one.worked > 0 and cell in working for cell, one in self.trials().items()) > 1

    def goals(self) -> list[str]:
        """Those of the wanted ones that are measured."""
        measured = [one["values"] for _, _, one in self.made if "values" in one]
        return [goal for goal in self.rules.goals if all(goal in one for one in measured)]

    def check(self) -> None:
        """Refuses a space of one cell, and a budget that is too small for the first round."""
        if len(self.cells) < 2:
            raise Failure(
                "there is one cell, and nothing to compare it with: give more values "
                "(--placement, --threads, --heap, --collector)"
            )
        least = max(2, len(self.cells) // 2)
        if not self.rules.budget and self.budget < least:
            raise Failure(
                f"--repetitions {self.rules.repetitions} allow {self.budget} runs, which are too "
                f"few for {len(self.cells)} cells: give more, or a --budget"
            )
        if self.budget < least:
            raise Failure(
                f"--budget {self.budget} is too small for {len(self.cells)} cells: give at "
                f"least {least}, or fewer cells (--placement, --threads, --heap)"
            )

    def run(self, make: Make) -> list[Standing]:
        """Makes rounds until all goals are settled or the budget is spent."""
        self.check()
        number = 1 + max((one for _, one, _ in self.made), default=-1)
        while chosen := self._choice(number):
            for cell in chosen:
                if self.spent < self.budget:
                    self.made.append((cell, number, make(cell, number)))
            number += 1
        return self.standings()

    def runs(self, goal: str) -> list[Run]:
        """The runs of the cells that work, as the model takes them."""
        working = set(self.working)
        return [
            (cell, number, math.log(max(one["values"][goal], LEAST)))
            for cell, number, one in self.made
            if cell in working and "values" in one
        ]

    def standings(self) -> list[Standing]:
        """What is known of each goal."""
        return [self._standing(goal) for goal in self.goals()]

    def _choice(self, number: int) -> list[Cell]:
        """The cells of the next round, in random order; none when there is nothing left to do."""
        if not self.working:
            raise Failure(_all_failed({**self.given_up, **self.failed}))
        if self.spent >= self.budget:
            if not self.has_begun:
                raise Failure(self._nothing_to_compare())
            return []
        if self.has_begun and not self.goals():
            wanted = ", ".join(self.rules.goals)
            raise Failure(f"no run measures what --goal asks for ({wanted}): ask for another goal")
        random = np.random.default_rng([self.rules.seed, number])
        seen = {cell for cell, _, _ in self.made}
        first = [cell for cell in self.first_round if cell not in seen]
        if not first and not self.has_begun:
            first = sorted(self.working, key=lambda cell: cell in seen)[:ROUND_LEAST]
        chosen = first or self._contenders()
        return [chosen[index] for index in random.permutation(len(chosen))]

    @cached_property
    def first_round(self) -> list[Cell]:
        """Half of the cells and the program as it is, spread evenly over levels and their pairs."""
        random = np.random.default_rng(self.rules.seed)
        left = [self.cells[index] for index in random.permutation(len(self.cells))]
        left.sort(key=lambda cell: cell != REFERENCE)
        used: Counter[Any] = Counter()
        chosen = []
        while len(chosen) < -(-len(self.cells) // 2):
            cell = min(left, key=lambda one: sum(used[part] for part in _parts(one)))
            left.remove(cell)
            chosen.append(cell)
            used.update(_parts(cell))
        return chosen

    def _contenders(self) -> list[Cell]:
        open_goals = [one for one in self.standings() if not one.is_settled]
        if not open_goals or not self.rules.intervals:
            return []
        count = max(ROUND_LEAST, math.ceil(ROUND_SHARE * len(self.cells)))
        chosen = dict.fromkeys([REFERENCE] if REFERENCE in self.working else [])
        queues = [iter(one.alive) for one in open_goals]
        for queue in _turns(queues):
            if len(chosen) == count:
                break
            if (cell := next((one for one in queue if one not in chosen), None)) is not None:
                chosen[cell] = None
            else:
                queues.remove(queue)
                if not queues:
                    break
        return list(chosen)

    def _nothing_to_compare(self) -> str:
        failed = {**self.given_up, **self.failed, **self._once()}
        worked = [cell.key for cell, one in self.trials().items() if one.worked]
        if not worked:
            return _all_failed(failed)
        return f"nothing but {worked[0]} worked; the others:\n{_shown(failed)}"

    def _once(self) -> dict[Cell, str]:
        return {cell: one.shown for cell, one in self.trials().items() if one.failed}

    def _standing(self, goal: str) -> Standing:
        cells = self.working
        runs = self.runs(goal)
        known = model.fit(runs, cells)
        order = [int(index) for index in np.argsort(known.means, kind="stable")]
        # One run may have been lucky: as soon as some ran twice, the best is among these.
        counts = Counter(cell for cell, _, _ in runs)
        most = min(2, max(counts.values()))
        best = next(index for index in order if counts[cells[index]] >= most)
        # Two-sided intervals of which only the lower end counts, each for one of the cells.
        confidence = 1 - 2 * (1 - CONFIDENCE) / len(cells)
        rough, _ = known.differences(best, confidence, is_rough=True)
        low, _ = known.differences(best, confidence)
        random = np.random.default_rng([self.rules.seed, self.spent])
        draws, wide = known.draws(DRAWS, random)
        regrets = wide[:, best] - wide.min(axis=1)
        wins = np.bincount(draws.argmin(axis=1), minlength=len(cells))
        alive = [index for index in order if rough[index] <= 0]
        alive.sort(key=lambda index: (index != best, -wins[index]))
        return Standing(
            goal,
            known,
            cells[best],
            float(np.expm1(np.quantile(regrets, CERTAINTY))),
            float(np.mean(regrets <= math.log1p(self.rules.margin))),
            [cells[index] for index in alive],
            int(np.sum(low <= 0)) - 1,
            counts[cells[best]],
        )


def _dead_levels(trials: dict[Cell, Trials]) -> set[tuple[int, Any]]:
    """Levels with which no run worked, though with another of their factor some did.

    A run that fails counts against one of its levels only: the level whose cells have failed most
    often. If two levels failed in exactly the same cells, neither is given up, because nothing
    tells which of them is the reason.
    """
    working = [cell for cell, one in trials.items() if one.worked]
    worked = {level for cell in working for level in enumerate(cell.levels)}
    factors = {factor for factor, _ in worked}
    unexplained = {cell: one.failed for cell, one in trials.items() if one.failed}
    dead: set[tuple[int, Any]] = set()
    while True:
        failed: dict[tuple[int, Any], set[Cell]] = {}
        for cell in unexplained:
            for level in set(enumerate(cell.levels)) - worked:
                if level[0] in factors:
                    failed.setdefault(level, set()).add(cell)
        alone = [
            (-sum(unexplained[cell] for cell in cells), level)
            for level, cells in failed.items()
            if list(failed.values()).count(cells) == 1
        ]
        count, level = min(alone, default=(0, None), key=lambda one: (one[0], str(one[1])))
        if level is None or -count < GIVEN_UP:
            return dead
        dead.add(level)
        for cell in failed[level]:
            del unexplained[cell]


def _parts(cell: Cell) -> list[Any]:
    """The levels of a cell and their pairs, by factor."""
    levels = list(enumerate(cell.levels))
    return [*levels, *combinations(levels, 2)]


def _turns(queues: list[Iterator[Cell]]) -> Iterator[Iterator[Cell]]:
    """The first goal has every second turn as long as it lasts, the others share the rest."""
    first = queues[0]
    others = cycle(queues[1:])
    while queues:
        if first in queues:
            yield first
        if rest := [one for one in queues if one is not first]:
            yield next(one for one in others if one in rest)


def _all_failed(failed: dict[Cell, str]) -> str:
    return f"the program failed in every cell; the first ones were:\n{_shown(failed)}"


def _shown(failed: dict[Cell, str]) -> str:
    return "\n".join(f"  {cell.key}: {problem}" for cell, problem in list(failed.items())[:3])
