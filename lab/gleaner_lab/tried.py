"""A paper's findings as statements, each tried on the runs of an experiment that it names.

The statements are data, in lab/papers/. A verdict follows from the runs alone: a statement holds if
the whole interval of our figure lies within its bounds, and does not hold if none of it does; else,
or without an interval, it is undecided. Intervals of means are those of the spread over workloads,
so that more rounds do not narrow them, unless a statement is about the `set` of these: then they
are those of rounds. Of what cannot be tried at all the file says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import TypeAdapter, model_validator
from ruamel.yaml import YAML

from gleaner_lab import analysis, papers, statistics
from gleaner_lab import experiment as experiments
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
        if self.of == "set" and not self.quantity.startswith("mean"):
            raise ValueError("of is about means")
        return self

    @property
    def shown(self) -> str:
        """Of what it is, in words."""
        words = f"{self.quantity.replace('-', ' ')} of {self.metric} under {self.configuration}"
        words += f" against {self.against}" if self.against else ""
        words += f", more than in {self.than}" if self.than else ""
        return words + (f", of {', '.join(self.workloads)}" if self.workloads else "")


class Statement(PaperStatement):
    """What the paper says, and when it holds of ours."""

    ours: Ours
    #: The paper's own number of the finding that it is a part of.
    finding: int | None = None
    #: How many memory nodes, one a socket, it is about. Where there are fewer, something stands in.
    nodes: int = 1
    #: What that is, in words.
    stand_in: str = ""


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
    #: How many memory nodes the machine has.
    nodes: int = 1

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
        ]

    def estimate(self, ours: Ours) -> tuple[Estimate, str]:
        """Our figure, and what it is over."""
        lines = self.lines(ours)
        if ours.quantity == "mean":
            means = [line.mean for line in lines if line.mean.runs > 0]
            over = f"{len(means)} workloads"
            if ours.of == "set":
                return statistics.mean_of_set(means), over
            values = [mean.value for mean in means]
            return statistics.mean_of(values, self.experiment.statistics.confidence), over
        lines = [line for line in lines if line.ratio.runs > 0]
        if not lines:
            return UNKNOWN, "no round"
        if ours.quantity in ("greatest-overhead", "least-overhead"):
            choose = max if ours.quantity == "greatest-overhead" else min
            one = choose(lines, key=lambda line: line.ratio.value)
            return _excess(one.ratio), f"{one.group}, {one.ratio.runs} rounds"
        if ours.of == "set":
            rounds = [line.rounds for line in lines]
            confidence = self.experiment.statistics.confidence
            ratio = statistics.geometric_mean_of_set(rounds, confidence)
            return _excess(ratio), f"these {_counted(lines)}, {ratio.runs} rounds"
        (mean,) = analysis.means_of(lines, self.experiment)
        return _excess(mean.ratio), _counted(lines)


def _counted(lines: Sequence[Line]) -> str:
    """How many workloads lines are of, and how many cases where there are several of each."""
    workloads = len({line.workload for line in lines})
    return f"{workloads} workloads" + ("" if workloads == len(lines) else f", {len(lines)} cases")


def _beside(here: Estimate, there: Estimate) -> Estimate:
    """By how much one overhead exceeds another that was measured apart."""
    if min(here.runs, there.runs) < 2:
        return replace(UNKNOWN, runs=min(here.runs, there.runs))
    ends = [[math.log1p(end) for end in (one.low, one.high)] for one in (here, there)]
    margin = math.hypot(*((high - low) / 2 for low, high in ends))
    middle = (1 + here.value) / (1 + there.value)
    low, high = middle * math.exp(-margin), middle * math.exp(margin)
    return _excess(Estimate(middle, low, high, min(here.runs, there.runs)))


def _excess(ratio: Estimate) -> Estimate:
    """By how much a ratio is above 1."""
    return replace(ratio, value=ratio.value - 1, low=ratio.low - 1, high=ratio.high - 1)


@dataclass(frozen=True)
class Finding:
    """A statement and what came of it."""

    statement: Statement | Untested
    estimate: Estimate
    verdict: Word
    reason: str

    @property
    def ours(self) -> str:
        """Our figure with its interval."""
        if self.estimate.runs == 0 or isinstance(self.statement, Untested):
            return "no data"
        value, low, high = map(
            self.statement.shown, (self.estimate.value, self.estimate.low, self.estimate.high)
        )
        return f"{value} [{low}, {high}]" if math.isfinite(self.estimate.high) else value

    @property
    def shown_bounds(self) -> str:
        """When it holds, in words."""
        return "" if isinstance(self.statement, Untested) else self.statement.shown_bounds


@cache
def statements(name: str) -> list[Statement | Untested]:
    """A paper's findings, from their file."""
    document: Any = YAML(typ="safe").load(papers.DIRECTORY / f"{name}.yaml")
    return TypeAdapter(list[Statement | Untested]).validate_python(document)


def read(paths: Sequence[Path]) -> dict[str, Runs]:
    """Result sets by the names of their experiments."""
    found: dict[str, Runs] = {}
    for path in paths:
        results = ResultSet.open(path)
        nodes = max((one.get("nodes", 1) for one in results.machines().values()), default=1)
        runs = Runs(experiments.read(results.experiment), results.table(), nodes)
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
        return Finding(statement, UNKNOWN, "cannot be tested here", statement.cannot)
    ours, (least, most) = statement.ours, statement.bounds
    for name in filter(None, (ours.experiment, ours.than)):
        if name not in runs:
            return Finding(statement, UNKNOWN, "undecided", f"no runs of {name}")
    mine = runs[ours.experiment]
    estimate, over = mine.estimate(ours)
    if ours.than:
        there, beside = runs[ours.than].estimate(ours)
        estimate, over = _beside(estimate, there), f"{over} here and {beside} there"
    reason = f"{ours.shown}: {over} of {ours.experiment}"
    if statement.nodes > mine.nodes:
        reason += f"; {statement.stand_in}"
    if estimate.runs < 2:
        return Finding(statement, estimate, "undecided", f"{reason}; no interval")
    if least <= estimate.low and estimate.high <= most:
        return Finding(statement, estimate, "holds", reason)
    if estimate.high < least or estimate.low > most:
        return Finding(statement, estimate, "does not hold", reason)
    return Finding(statement, estimate, "undecided", reason)
