"""A paper's findings as statements, each tried on the runs of an experiment that it names.

The statements are data, in lab/papers/. A verdict follows from the runs alone: a statement holds if
the whole interval of our figure lies within its bounds, and does not hold if none of it does; else,
or without an interval, it is undecided. Intervals of means are those of the spread over workloads,
so that more rounds do not narrow them, unless a statement is about the `set` of these: then they
are those of rounds. Of what cannot be tried at all the file says why.

Fewer than `LEAST_ROUNDS` rounds decide nothing, however far the figure is from the bounds. Where
the machine lacks what a statement is about, the verdict names what stands for it. Beside a mean
stand its worst workload, and the mean without the workload that moves it most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import eq, ne
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import TypeAdapter, model_validator

from gleaner_lab import analysis, papers, statistics, yaml12
from gleaner_lab.analysis import Line
from gleaner_lab.experiment import Experiment, Part
from gleaner_lab.failure import Failure
from gleaner_lab.statements import Statement as PaperStatement
from gleaner_lab.statistics import UNKNOWN, Estimate
from gleaner_lab.store import ResultSet

#: How much longer the metric of one configuration is than that of another: the geometric mean over
#: workloads, and that of the workload where it is most or least; the mean of a metric over them.
Quantity = Literal["mean-overhead", "greatest-overhead", "least-overhead", "mean"]

Word = Literal["holds", "does not hold", "undecided", "cannot be tested here"]

#: Rounds that it takes to decide anything.
LEAST_ROUNDS = 3
#: The columns that `Finding.cells` fills.
COLUMNS = [
    "the paper says",
    "section",
    "holds if ours is",
    "ours",
    "the worst",
    "without the one that moves it most",
    "rounds",
    "verdict",
    "what ours is",
]


class Ours(Part):
    """A quantity of our runs, and of which."""

    quantity: Quantity
    experiment: str
    configuration: str
    against: str = ""
    metric: str = "printed.cpu_s"
    #: Those that it is about; all of them unless given.
    workloads: Sequence[str] = ()
    #: What a mean is to stand for: programs like these, or this set of them.
    of: Literal["workloads", "set"] = "workloads"
    #: Another experiment with these configurations: how much more the mean is than there.
    than: str = ""

    @model_validator(mode="after")
    def has_what_it_takes(self) -> Ours:
        """An overhead is one over something."""
        if (self.quantity == "mean") == bool(self.against):
            raise ValueError(f"{self.quantity} is about {'one' if self.against else 'two'}")
        if self.than and self.quantity != "mean-overhead":
            raise ValueError("than is about mean-overhead")
        if self.of == "set" and not self.is_mean:
            raise ValueError("of is about means")
        if self.than and self.of == "set":
            raise ValueError("than is about programs like these")
        return self

    @property
    def is_mean(self) -> bool:
        """Whether it is over several workloads, and not of one of them."""
        return self.quantity in ("mean", "mean-overhead")

    @property
    def shown(self) -> str:
        """Of what it is, in words."""
        words = f"{self.quantity.replace('-', ' ')} of {self.metric} under {self.configuration}"
        words += f" against {self.against}" if self.against else ""
        words += f", more than in {self.than}" if self.than else ""
        return words + (f", of {', '.join(self.workloads)}" if self.workloads else "")


class StandIn(Part):
    """What stands for something that the paper is about, on a machine that lacks it."""

    lacking: Literal["sockets", "frequency"]
    says: str
    #: Whether it alone makes the statement hold, or not, so that no run says anything.
    decides: bool = False


class Statement(PaperStatement):
    """What the paper says, and when it holds of ours."""

    ours: Ours
    #: The paper's own number of the finding that it is a part of.
    finding: int | None = None
    stand_ins: Sequence[StandIn] = ()


class Untested(Part):
    """What the paper says, and why we cannot try it."""

    says: str
    section: str
    finding: int | None = None
    cannot: str


@dataclass(frozen=True)
class Runs:
    """The runs of an experiment."""

    experiment: Experiment
    table: pd.DataFrame
    #: How many memory nodes the machine has, one a socket.
    nodes: int = 1
    #: Whether the kernel has control of the processors' frequency.
    has_frequency: bool = False

    def lacks(self, stand_in: StandIn) -> bool:
        """Whether something stands for what the machine has not."""
        return self.nodes < 2 if stand_in.lacking == "sockets" else not self.has_frequency

    def lines(self, ours: Ours) -> list[Line]:
        """The workloads under a configuration, beside the one that it is against."""
        if ours.configuration not in self.experiment.variants():
            raise Failure(f"{self.experiment.name} has no configuration {ours.configuration}")
        experiment = self.experiment.with_baseline(ours.against or ours.configuration)
        return [
            line
            for line in analysis.lines_of(self.table, experiment, ours.metric)
            if line.variant == ours.configuration
            and not line.control
            and line.workload in (ours.workloads or [line.workload])
            and (line.ratio if ours.against else line.mean).runs > 0
        ]

    def estimate(self, lines: Sequence[Line], ours: Ours) -> Estimate:
        """Our figure of these lines."""
        confidence = self.experiment.statistics.confidence
        if not lines:
            return UNKNOWN
        if ours.quantity == "mean":
            means = [line.mean for line in lines]
            if ours.of == "set":
                return statistics.mean_of_set(means)
            return statistics.mean_of([mean.value for mean in means], confidence)
        if ours.quantity != "mean-overhead":
            return _excess(_extreme(lines, ours).ratio)
        if ours.of == "set":
            rounds = [line.rounds for line in lines]
            return _excess(statistics.geometric_mean_of_set(rounds, confidence))
        (mean,) = analysis.means_of(list(lines), self.experiment)
        return _excess(mean.ratio)


def _extreme(lines: Sequence[Line], ours: Ours) -> Line:
    choose = max if ours.quantity == "greatest-overhead" else min
    return choose(lines, key=lambda line: line.ratio.value)


@dataclass(frozen=True)
class Tried:
    """Our figure, what it is over, and what its mean hangs on."""

    estimate: Estimate
    over: str
    #: The fewest rounds of anything that it is over.
    rounds: int
    #: Of a mean: the worst workload with its figure, and the one that moves the mean most with the
    #: mean without it.
    worst: tuple[str, float] | None = None
    without: tuple[str, Estimate] | None = None


def attempt(ours: Ours, runs: Mapping[str, Runs]) -> Tried:
    """Computes our figure; `runs` has the experiments that it is about."""
    sides = [(runs[name], runs[name].lines(ours)) for name in (ours.experiment, ours.than) if name]

    def figure(keep: Callable[[str], bool]) -> Estimate:
        """Of the workloads that are kept."""
        found = [
            side.estimate([line for line in lines if keep(line.workload)], ours)
            for side, lines in sides
        ]
        return _beside(*found) if ours.than else found[0]

    whole = figure(lambda _: True)
    over = " and ".join(_over(lines, ours) + f" of {one.experiment.name}" for one, lines in sides)
    tried = Tried(whole, over, _rounds([lines for _, lines in sides], whole, ours))
    has = [dict.fromkeys(line.workload for line in lines) for _, lines in sides]
    names = [name for name in has[0] if all(name in side for side in has)]
    if not ours.is_mean or len(names) < 3 or whole.runs == 0:
        return tried
    alone = {name: figure(partial(eq, name)).value for name in names}
    rest = {name: figure(partial(ne, name)) for name in names}
    # The most that is lost, or the least that is saved.
    worst = (max if ours.against else min)(names, key=lambda name: alone[name])
    carries = max(names, key=lambda name: abs(rest[name].value - whole.value))
    return replace(tried, worst=(worst, alone[worst]), without=(carries, rest[carries]))


def _rounds(sides: Sequence[Sequence[Line]], whole: Estimate, ours: Ours) -> int:
    """The fewest rounds of anything that a figure is over."""
    if not all(sides):
        return 0
    if ours.of == "set" or not ours.is_mean:
        return whole.runs
    return min((one.ratio if ours.against else one.mean).runs for lines in sides for one in lines)


def _over(lines: Sequence[Line], ours: Ours) -> str:
    """What a figure of these lines is over, in words."""
    if not lines:
        return "no round"
    if not ours.is_mean:
        return _extreme(lines, ours).group
    workloads = len({line.workload for line in lines})
    cases = "" if workloads == len(lines) else f", {len(lines)} cases"
    return ("these " if ours.of == "set" else "") + f"{workloads} workloads{cases}"


def _beside(here: Estimate, there: Estimate) -> Estimate:
    """By how much one overhead exceeds another that was measured apart."""
    runs = min(here.runs, there.runs)
    if runs == 0:
        return UNKNOWN
    middle = (1 + here.value) / (1 + there.value)
    if runs < 2:
        return _excess(Estimate(middle, -math.inf, math.inf, runs))
    ends = [[math.log1p(end) for end in (one.low, one.high)] for one in (here, there)]
    margin = math.hypot(*((high - low) / 2 for low, high in ends))
    low, high = middle * math.exp(-margin), middle * math.exp(margin)
    return _excess(Estimate(middle, low, high, runs))


def _excess(ratio: Estimate) -> Estimate:
    """By how much a ratio is above 1."""
    return replace(ratio, value=ratio.value - 1, low=ratio.low - 1, high=ratio.high - 1)


@dataclass(frozen=True)
class Finding:
    """A statement and what came of it."""

    statement: Statement | Untested
    verdict: Word
    reason: str
    tried: Tried = Tried(UNKNOWN, "", 0)
    #: What stood for what the machine has not.
    proxies: Sequence[str] = ()

    @property
    def shown_verdict(self) -> str:
        """The verdict with what it rests on: rounds that were too few, and what stood for what."""
        words: str = self.verdict
        if self.verdict == "undecided" and self.tried.rounds < LEAST_ROUNDS:
            words += f": {self.tried.rounds} of {LEAST_ROUNDS} rounds"
        return words + (f" ({'; '.join(self.proxies)})" if self.proxies else "")

    def _figure(self, estimate: Estimate) -> str:
        if isinstance(self.statement, Untested) or estimate.runs == 0:
            return "no data"
        value, low, high = map(self.statement.shown, (estimate.value, estimate.low, estimate.high))
        return f"{value} [{low}, {high}]" if math.isfinite(estimate.high) else value

    @property
    def ours(self) -> str:
        """Our figure with its interval."""
        return self._figure(self.tried.estimate)

    @property
    def cells(self) -> list[str]:
        """A row of `COLUMNS`."""
        one, worst, without = self.statement, self.tried.worst, self.tried.without
        return [
            one.says,
            one.section,
            "" if isinstance(one, Untested) else one.shown_bounds,
            self.ours,
            f"{worst[0]}: {one.shown(worst[1])}" if worst and isinstance(one, Statement) else "",
            f"{without[0]}: {self._figure(without[1])}" if without else "",
            "" if isinstance(one, Untested) else str(self.tried.rounds),
            self.shown_verdict,
            self.reason,
        ]


@cache
def statements(name: str) -> list[Statement | Untested]:
    """A paper's findings, from their file."""
    path = papers.DIRECTORY / f"{name}.yaml"
    document: Any = yaml12.load(path.read_text(encoding="utf-8"))
    return TypeAdapter(list[Statement | Untested]).validate_python(document)


def read(paths: Sequence[Path]) -> dict[str, Runs]:
    """Result sets by the names of their experiments."""
    found: dict[str, Runs] = {}
    for path in paths:
        results = ResultSet.open(path)
        machines = results.machines().values()
        nodes = max((one.get("nodes", 1) for one in machines), default=1)
        has_frequency = any(one.get("governor") for one in machines)
        experiment = results.read_experiment()
        runs = Runs(experiment, results.table(), nodes, has_frequency)
        if runs.table.empty:
            raise Failure(f"{path} has no runs yet: gleaner-lab resume {path}")
        if runs.experiment.name in found:
            raise Failure(f"{path}: another result set of {runs.experiment.name}")
        if runs.table["machine"].nunique() > 1:
            raise Failure(f"{path} has runs of several machines, which are not put together")
        found[runs.experiment.name] = runs
    return found


def judge(statement: Statement | Untested, runs: Mapping[str, Runs]) -> Finding:
    """Whether a statement holds of these runs."""
    if isinstance(statement, Untested):
        return Finding(statement, "cannot be tested here", statement.cannot)
    ours = statement.ours
    for name in filter(None, (ours.experiment, ours.than)):
        if name not in runs:
            return Finding(statement, "undecided", f"no runs of {name}")
        has = {"", *runs[name].experiment.variants()}
        for configuration in (ours.configuration, ours.against):
            if configuration not in has:
                return Finding(statement, "undecided", f"no runs of {configuration} in {name}")
    mine = runs[ours.experiment]
    tried = attempt(ours, runs)
    reason = f"{ours.shown}: {tried.over}"
    stand_ins = [one for one in statement.stand_ins if mine.lacks(one)]
    return Finding(
        statement,
        _verdict(statement, tried, stand_ins),
        reason,
        tried,
        [one.says for one in stand_ins],
    )


def _verdict(statement: Statement, tried: Tried, stand_ins: Sequence[StandIn]) -> Word:
    if any(one.decides for one in stand_ins):
        return "cannot be tested here"
    estimate, (least, most) = tried.estimate, statement.bounds
    if tried.rounds < LEAST_ROUNDS or estimate.runs < 2:
        return "undecided"
    if least <= estimate.low and estimate.high <= most:
        return "holds"
    if estimate.high < least or estimate.low > most:
        return "does not hold"
    return "undecided"
