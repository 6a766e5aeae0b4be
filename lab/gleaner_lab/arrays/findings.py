"""The findings of the PLDI 2010 paper as statements, and whether they hold of our runs.

The statements are data, in lab/papers/zrays-findings.yaml. Each names the experiment whose runs it
is tried on. A verdict follows from the runs alone: a statement holds if the whole interval of our
figure lies within its bounds, and does not hold if none of it does; else, or without an interval,
it is undecided. Intervals of means are those of the spread over workloads, so that more rounds do
not narrow them.
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
from gleaner_lab.report.modelled import Page, Table
from gleaner_lab.statements import Statement as PaperStatement
from gleaner_lab.statistics import UNKNOWN, Estimate
from gleaner_lab.store import ResultSet

#: How much longer the metric of one configuration is than that of another: the geometric mean over
#: workloads, and that of the workload where it is most; the mean of a metric over workloads.
Quantity = Literal["mean-overhead", "greatest-overhead", "mean"]


class Ours(Part):
    """A quantity of our runs, and of which."""

    quantity: Quantity
    experiment: str
    configuration: str
    against: str = ""
    metric: str = "printed.cpu_s"

    @model_validator(mode="after")
    def has_what_it_takes(self) -> Ours:
        """An overhead is one over something."""
        if (self.quantity == "mean") == bool(self.against):
            raise ValueError(f"{self.quantity} is about {'one' if self.against else 'two'}")
        return self

    @property
    def shown(self) -> str:
        """Of what it is, in words."""
        words = f"{self.quantity.replace('-', ' ')} of {self.metric} under {self.configuration}"
        return words + (f" against {self.against}" if self.against else "")


class Statement(PaperStatement):
    """What the paper says, and when it holds of ours."""

    ours: Ours


@dataclass(frozen=True)
class Runs:
    """The runs of an experiment."""

    experiment: Experiment
    table: pd.DataFrame

    def lines(self, ours: Ours) -> list[Line]:
        """The workloads under a configuration, beside the one that it is against."""
        if ours.configuration not in self.experiment.variants():
            raise Failure(f"{self.experiment.name} has no configuration {ours.configuration}")
        experiment = self.experiment.with_baseline(ours.against or ours.configuration)
        return [
            line
            for line in analysis.lines_of(self.table, experiment, ours.metric)
            if line.variant == ours.configuration and not line.control
        ]

    def estimate(self, ours: Ours) -> tuple[Estimate, str]:
        """Our figure, and what it is over."""
        lines = self.lines(ours)
        if ours.quantity == "mean":
            means = [line.mean.value for line in lines if line.mean.runs > 0]
            confidence = self.experiment.statistics.confidence
            return statistics.mean_of(means, confidence), f"{len(means)} workloads"
        lines = [line for line in lines if line.ratio.runs > 0]
        if not lines:
            return UNKNOWN, "no round"
        if ours.quantity == "greatest-overhead":
            most = max(lines, key=lambda line: line.ratio.value)
            return _excess(most.ratio), f"{most.group}, {most.ratio.runs} rounds"
        (mean,) = analysis.means_of(lines, self.experiment)
        return _excess(mean.ratio), f"{mean.workloads} workloads"


def _excess(ratio: Estimate) -> Estimate:
    """By how much a ratio is above 1."""
    return replace(ratio, value=ratio.value - 1, low=ratio.low - 1, high=ratio.high - 1)


@dataclass(frozen=True)
class Finding:
    """A statement and what came of it."""

    statement: Statement
    estimate: Estimate
    verdict: Literal["holds", "does not hold", "undecided"]
    reason: str

    @property
    def ours(self) -> str:
        """Our figure with its interval."""
        if self.estimate.runs == 0:
            return "no data"
        value, low, high = map(
            self.statement.shown, (self.estimate.value, self.estimate.low, self.estimate.high)
        )
        return f"{value} [{low}, {high}]" if math.isfinite(self.estimate.high) else value


@cache
def statements() -> list[Statement]:
    """The paper's findings, from their file."""
    path = papers.DIRECTORY / "zrays-findings.yaml"
    document: Any = YAML(typ="safe").load(path)
    return TypeAdapter(list[Statement]).validate_python(document)


def read(paths: Sequence[Path]) -> dict[str, Runs]:
    """Result sets by the names of their experiments."""
    found: dict[str, Runs] = {}
    for path in paths:
        results = ResultSet.open(path)
        runs = Runs(experiments.read(results.experiment), results.table())
        if runs.table.empty:
            raise Failure(f"{path} has no runs yet: gleaner-lab resume {path}")
        if runs.experiment.name in found:
            raise Failure(f"{path}: another result set of {runs.experiment.name}")
        if runs.table["machine"].nunique() > 1:
            raise Failure(f"{path} has runs of several machines, which are not put together")
        found[runs.experiment.name] = runs
    return found


def judge(statement: Statement, runs: Mapping[str, Runs]) -> Finding:
    """Whether a statement holds of these runs."""
    ours, (least, most) = statement.ours, statement.bounds
    if ours.experiment not in runs:
        return Finding(statement, UNKNOWN, "undecided", f"no runs of {ours.experiment}")
    estimate, over = runs[ours.experiment].estimate(ours)
    reason = f"{ours.shown}: {over} of {ours.experiment}"
    if estimate.runs < 2:
        return Finding(statement, estimate, "undecided", f"{reason}; no interval")
    if least <= estimate.low and estimate.high <= most:
        return Finding(statement, estimate, "holds", reason)
    if estimate.high < least or estimate.low > most:
        return Finding(statement, estimate, "does not hold", reason)
    return Finding(statement, estimate, "undecided", reason)


def findings(runs: Mapping[str, Runs]) -> list[Finding]:
    """All statements, tried on these runs."""
    return [judge(one, runs) for one in statements()]


def page(found: Sequence[Finding], command: str) -> Page:
    """The findings as a page."""
    rows = [
        [
            one.statement.says,
            one.statement.section,
            one.statement.shown_bounds,
            one.ours,
            one.verdict,
            one.reason,
        ]
        for one in found
    ]
    head = ["the paper says", "section", "holds if ours is", "ours", "verdict", "what ours is"]
    caption = "The paper's findings, tried on our runs"
    return Page(
        name="zrays-findings",
        title="Findings about arrays in pieces",
        notes=[
            "Statements of the PLDI 2010 paper (lab/papers/zrays-findings.yaml). One holds if the "
            "whole 95 % interval of our figure lies within its bounds, and does not hold if none "
            "of it does."
        ],
        tables=[Table("findings", caption, head, rows)],
        figures={},
        command=command,
        label="measured",
    )
