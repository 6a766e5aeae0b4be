"""What the advisor's choice is worth: beside an exhaustive measurement, and then in a duel.

The exhaustive measurement runs every cell equally often; one that fails is out by the race's rule,
so its runs are counted alike on both sides. What did best of many cells did so by luck, too, and
runs of another hour say little of a difference of a few percent. So the choice, the best cell of
the exhaustive measurement (by its medians, and by the model fitted to it, where these are two) and
the program as it is are run beside each other, round by round, and ratios are taken in rounds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from gleaner_lab.advise import model
from gleaner_lab.advise.advisor import GOALS, Advisor, Made
from gleaner_lab.advise.race import LEAST, SHARE, Race, Standing, Trials
from gleaner_lab.advise.space import REFERENCE, Cell
from gleaner_lab.report.modelled import Table
from gleaner_lab.statistics import Estimate, Verdict, judge, paired_ratio

#: The bar: the choice is at most so much worse than the best cell.
BAR = 1.03
#: Confidence of the intervals of ratios.
CONFIDENCE = 0.95
NAMES = {figure: name for name, figure in GOALS.items()}
SAME = "it is the choice"
#: Words for the cells that the choice is compared with.
BY_MEDIANS, BY_MODEL, AS_IT_IS = "best by medians", "best by the model", "the program as it is"


@dataclass(frozen=True)
class Beside:
    """The choice for a goal beside another cell, in the rounds of the duel."""

    goal: str
    what: str
    cell: Cell
    ratio: Estimate
    verdict: Verdict


@dataclass(frozen=True)
class Check:
    """All that was measured after the answer."""

    standings: Sequence[Standing]
    exhaustive: Sequence[Made]
    duel: Sequence[Made]
    margin: float

    def share(self, race: Race) -> float:
        """The race's runs, of those of the exhaustive measurement."""
        return race.spent / len(self.exhaustive)

    def bar_of(self, what: str) -> float:
        """The choice is not to be worse than the program as it is, up to what does not matter."""
        return 1 + self.margin if what == AS_IT_IS else BAR

    def besides(self, one: Standing) -> list[Beside]:
        """The comparisons of one goal."""
        logs = logs_of(self.duel, one.goal)
        found = []
        for what, cell in against(self.exhaustive, one).items():
            ratio = _paired(logs, one.best, cell)
            if cell == one.best:
                verdict = Verdict("met", SAME)
            else:
                verdict = judge(ratio, self.bar_of(what), confidence=CONFIDENCE)
            found.append(Beside(one.goal, what, cell, ratio, verdict))
        return found

    def verdicts(self, race: Race) -> list[str]:
        """The bar, goal by goal."""
        share = self.share(race)
        found = []
        for one in self.standings:
            best = [it for it in self.besides(one) if it.what != AS_IT_IS]
            words = [it.verdict.word for it in best]
            word = next((it for it in ("violated", "undecided") if it in words), "met")
            if share > SHARE or one.best not in logs_of(self.exhaustive, one.goal):
                word = "violated"
            shown = "; ".join(f"{it.what}, {shown_of(it)}: {it.verdict.reason}" for it in best)
            found.append(
                f"The bar for {NAMES[one.goal]} is {word}. It is {BAR - 1:.0%} above the best of "
                f"{len(race.cells)} cells, by {SHARE:.0%} of the runs: {race.spent} of "
                f"{len(self.exhaustive)} are {share:.1%}. The choice beside the {shown}."
            )
        return found

    def tables(self, race: Race) -> list[Table]:
        """For the page."""
        rows = [
            [
                NAMES[it.goal],
                f"{it.what}: {it.cell.key}",
                shown_of(it),
                f"{self.bar_of(it.what):g}",
                it.verdict.word,
            ]
            for one in self.standings
            for it in self.besides(one)
        ]
        rounds = len({number for _, number, _ in self.duel})
        caption = f"The choice beside others, in {rounds} more rounds"
        head = ["best for", "beside", "ratio of the choice to it", "bar", "verdict"]
        return [_regrets(self, race), Table("duel", caption, head, rows)]


def shown_of(one: Beside) -> str:
    """The ratio with its interval."""
    if one.verdict.reason == SAME:
        return "the same cell"
    if one.ratio.runs < 2:
        return "unknown"
    return f"{one.ratio.value:.3f} [{one.ratio.low:.3f}, {one.ratio.high:.3f}]"


def compared(whole: Advisor, race: Race, standings: Sequence[Standing], rounds: int) -> Check:
    """Makes the runs that are missing."""
    made = whole.exhaustive(race)
    cells = {one.best for one in standings}
    for one in standings:
        cells |= set(against(made, one).values())
    duel = whole.duel(cells, rounds) if len(cells) > 1 else []
    return Check(standings, made, duel, race.rules.margin)


def against(made: Sequence[Made], one: Standing) -> dict[str, Cell]:
    """What the choice for a goal is compared with."""
    logs = logs_of(made, one.goal)
    found = {BY_MEDIANS: min(logs, key=lambda cell: float(np.median([*logs[cell].values()])))}
    known = fitted(made, one.goal)
    other = known.cells[int(np.argmin(known.means))]
    if other not in found.values():
        found[BY_MODEL] = other
    return {**found, AS_IT_IS: REFERENCE}


def logs_of(made: Sequence[Made], goal: str) -> dict[Cell, dict[int, float]]:
    """Logarithms of a goal's figure by cell and round."""
    logs: dict[Cell, dict[int, float]] = {}
    for cell, number, value in runs_of(made, goal):
        logs.setdefault(cell, {})[number] = value
    return logs


def runs_of(made: Sequence[Made], goal: str) -> list[model.Run]:
    """The runs that worked, as the model takes them, but for those of cells that are out."""
    trials: dict[Cell, Trials] = {}
    for cell, _, record in made:
        trials[cell] = trials.get(cell, Trials()).and_one(record)
    return [
        (cell, number, math.log(max(record["values"][goal], LEAST)))
        for cell, number, record in made
        if "values" in record and not trials[cell].is_out
    ]


def fitted(made: Sequence[Made], goal: str) -> model.Posterior:
    """The model of these runs alone."""
    runs = runs_of(made, goal)
    return model.fit(runs, list(dict.fromkeys(cell for cell, _, _ in runs)))


def _paired(logs: dict[Cell, dict[int, float]], cell: Cell, other: Cell) -> Estimate:
    rounds = sorted(logs.get(cell, {}).keys() & logs.get(other, {}).keys())
    ours, theirs = ([math.exp(logs[it][number]) for number in rounds] for it in (cell, other))
    return paired_ratio(ours, theirs, CONFIDENCE)


def _regrets(check: Check, race: Race) -> Table:
    """The race's choice among the runs of the exhaustive measurement.

    Beside the plain regret, of medians, stands one of which the best cell is chosen in one half of
    the rounds and compared in the other, and that of the model fitted to these runs alone, which
    draws single cells to what others say.
    """
    made, rows = check.exhaustive, []
    for one in check.standings:
        logs = logs_of(made, one.goal)
        if one.best not in logs:
            rows.append([NAMES[one.goal], f"{check.share(race):.1%}", *["the choice failed"] * 4])
            continue
        numbers = sorted({number for _, number, _ in made})
        halves = [set(numbers[::2]), set(numbers[1::2])]
        plain = regret(logs, one.best, set(numbers), set(numbers))
        across = [regret(logs, one.best, *pair) for pair in (halves, halves[::-1])]
        known = fitted(made, one.goal)
        first = known.cells[int(np.argmin(known.means))]
        value, low, high = known.ratio(one.best, first)
        rows.append(
            [
                NAMES[one.goal],
                f"{check.share(race):.1%}",
                f"{math.expm1(plain):.1%}",
                f"{math.expm1(sum(across) / 2):.1%}",
                f"{value - 1:.1%} ({low - 1:.1%} to {high - 1:.1%})"
                if known.repeats
                else f"{value - 1:.1%}",
                f"{known.noise:.1%}",
            ]
        )
    head = ["best for", "share of its runs", "regret", "regret, chosen in other rounds"]
    head += ["regret by the model", "one run scatters by"]
    caption = f"Beside an exhaustive measurement of {len(made)} runs"
    return Table("check", caption, head, rows)


def regret(
    logs: dict[Cell, dict[int, float]],
    best: Cell,
    choosing: Collection[int],
    judging: Collection[int],
) -> float:
    """How much worse a cell is, in some rounds, than the one that is best in others."""

    def score(cell: Cell, rounds: Collection[int]) -> float:
        values = [value for number, value in logs[cell].items() if number in rounds]
        return float(np.median(values)) if values else math.inf

    other = min(logs, key=lambda cell: score(cell, choosing))
    return score(best, judging) - score(other, judging)
