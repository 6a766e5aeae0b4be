"""Sequential elimination: cells that are surely slower are dropped, and runs go to the others.

The first round runs every cell once, in random order, and so does each later one with the cells in
focus. A cell is *dropped* when the lower bound of its ratio to the best so far is above 1 + margin.
The bound is Student's, of the logarithms of ratios within rounds. Its deviation is the larger of
what all repeated cells have and what the pair itself has. It is corrected by Bonferroni: the share
ERROR is divided by the number of the other cells, since the best may be compared with any of them,
and the look k gets ERROR / (k (k + 1)) of it, which sums up to ERROR however many looks there are.
That needs no independence, which cells that share rounds and a best cell do not have.

After the first round nothing is repeated. Then the deviation is that of the residuals of a model
with main effects of placement, collectors and heap, which holds their interactions, too. One run
drops nothing: what the other runs predict by that model must be beyond the bound as well.

The *focus* is the best cells, so many that the runs that are left would give each FOCUS_RUNS more.
What is out of focus is not dropped but undecided. To order cells, their means are drawn to the
model's prediction, as far as the deviations of runs and of cells say (empirical Bayes).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gleaner_lab.advise import fit
from gleaner_lab.advise.fit import Fit, Look, Runs
from gleaner_lab.advise.space import REFERENCE, Cell
from gleaner_lab.failure import Failure

#: What a run came to: `values`, or the `problem` for which it has none.
Record = dict[str, Any]
#: Makes a run of a cell under a key that is its identity.
Make = Callable[[Cell, str], Record]

#: How often the best cell may be dropped.
ERROR = 0.05
#: As many more runs each cell in focus should get.
FOCUS_RUNS = 4
#: Rounds of an exhaustive measurement.
EXHAUSTIVE_ROUNDS = 10
#: Rounds at the end, which did not take part in the choice: the chosen one beside the program as it
#: is, and on half of the machine.
CONFIRM_ROUNDS = 5
#: Smaller spaces may spend more than a quarter of an exhaustive measurement: up to so many runs.
SMALL_BUDGET = 60
#: A tenth of a millisecond; what is less, such as no pauses at all, counts as this much.
LEAST = 1e-4


@dataclass(frozen=True)
class Rules:
    """How the race is run."""

    goal: str = "time"
    budget: int = 0
    margin: float = 0.03
    seed: int = 1
    exhaustive: bool = False
    error: float = ERROR


@dataclass(frozen=True)
class Dropped:
    """A cell that is out, after which round, and why."""

    cell: Cell
    round: int
    reason: str
    failed: bool = False


@dataclass
class Outcome:
    """What the race came to."""

    best: Cell
    runs: Runs
    fit: Fit
    rounds: int
    stopped: str
    dropped: list[Dropped]
    alive: list[Cell]
    looks: int
    spent: int = 0
    #: By metric, the runs of each cell.
    values: dict[str, Runs] = field(default_factory=dict)


def default_budget(cells: int) -> int:
    """A quarter of an exhaustive measurement, or what a small space needs."""
    whole = cells * EXHAUSTIVE_ROUNDS
    return max(math.ceil(whole / 4), min(whole, SMALL_BUDGET))


def reserve(confirmations: int) -> int:
    """Runs that are kept for the end."""
    return CONFIRM_ROUNDS * confirmations


class Race:
    """The rounds, one after another."""

    def __init__(self, cells: Sequence[Cell], rules: Rules, make: Make) -> None:
        self.cells = list(cells)
        self.rules = rules
        self.make = make
        self.alive = list(cells)
        self.dropped: list[Dropped] = []
        self.values: dict[str, Runs] = {}
        self.looks = 0
        self.spent = 0

    @property
    def runs(self) -> Runs:
        """The runs of the goal."""
        return self.values.setdefault(self.rules.goal, {})

    def run(self, reserved: int = 0) -> Outcome:
        """Runs rounds until the choice is made or the budget is spent."""
        budget = self.rules.budget - reserved
        if budget < len(self.cells):
            raise Failure(
                f"--budget {self.rules.budget} is too small: {len(self.cells)} cells need one run "
                f"each, and {reserved} are kept for the end. Give at least "
                f"{len(self.cells) + reserved}, or less cells with --placements, --collectors or "
                "--heap-multiples"
            )
        number = 0
        focus = list(self.cells)
        while True:
            self._round(number, focus)
            number += 1
            if not self.alive:
                reasons = "; ".join(f"{one.cell.key}: {one.reason}" for one in self.dropped[:3])
                raise Failure(f"every cell failed: {reasons}")
            found = fit.of(self.runs, self.alive)
            if self.rules.exhaustive:
                stopped = "every cell was run as often as the budget allows"
                focus = list(self.alive)
                if self.spent + len(focus) > budget:
                    break
                continue
            left = budget - self.spent
            order = self._look(found, number)
            if len(order) == 1:
                stopped = "one cell was left"
                break
            if self._is_settled(order):
                stopped = f"all that were left are within {self.rules.margin:.0%} of each other"
                break
            # The program as it is runs in every round: it is what others are told relative to.
            focus = order[: max(2, left // FOCUS_RUNS)]
            focus = list(dict.fromkeys([*focus, *self._reference()]))[:left]
            if len(focus) < 2:
                stopped = "the budget was spent"
                break
        found = fit.of(self.runs, self.alive)
        order = sorted(self.alive, key=lambda cell: found.drawn[cell])
        return Outcome(
            order[0],
            self.runs,
            found,
            number,
            stopped,
            self.dropped,
            order,
            self.looks,
            self.spent,
            self.values,
        )

    def _reference(self) -> list[Cell]:
        failed = {one.cell for one in self.dropped if one.failed}
        return [] if REFERENCE in failed or REFERENCE not in self.cells else [REFERENCE]

    def _round(self, number: int, cells: Sequence[Cell]) -> None:
        order = sorted(cells, key=lambda cell: cell.key)
        random.Random(f"{self.rules.seed}/{number}").shuffle(order)
        for cell in order:
            record = self.make(cell, f"round {number} | {cell.key}")
            self.spent += 1
            if problem := record.get("problem"):
                self._drop(cell, number + 1, problem, failed=True)
                continue
            values = record["values"]
            if self.rules.goal not in values:
                raise Failure(
                    f"--goal {self.rules.goal}: it is not measured of this program; "
                    f"there is {', '.join(sorted(values))}"
                )
            for name, value in values.items():
                runs = self.values.setdefault(name, {})
                runs.setdefault(cell, {})[number] = math.log(max(value, LEAST))

    def _drop(self, cell: Cell, number: int, reason: str, failed: bool = False) -> None:
        if cell in self.alive:
            self.alive.remove(cell)
        self.dropped = [one for one in self.dropped if one.cell != cell]
        self.dropped.append(Dropped(cell, number, reason, failed))
        if failed:
            for runs in self.values.values():
                runs.pop(cell, None)

    def _look(self, found: Fit, number: int) -> list[Cell]:
        """Drops what is surely slower; the others, the best first."""
        order = sorted(self.alive, key=lambda cell: found.drawn[cell])
        look = self._next_look(found)
        bar = math.log1p(self.rules.margin)
        best = order[0]
        for cell in order[1:]:
            bounds = look.bounds(cell, best)
            if bounds is not None and bounds[0] > bar:
                ratio = math.exp(bounds[0])
                self._drop(cell, number, f"at least {ratio:.2f} times that of {best.key}")
        return [cell for cell in order if cell in self.alive]

    def _next_look(self, found: Fit) -> Look:
        self.looks += 1
        share = self.rules.error / (self.looks * (self.looks + 1)) / max(1, len(self.cells) - 1)
        self.last = Look(found, self.runs, share)
        return self.last

    def _is_settled(self, order: Sequence[Cell]) -> bool:
        """Whether nothing that is left can be better than the best by more than the margin."""
        bar = -math.log1p(self.rules.margin)
        bounds = [self.last.bounds(cell, order[0]) for cell in order[1:]]
        return all(one is not None and one[0] >= bar for one in bounds)
