"""Papers' tables with our figures beside their own."""

from __future__ import annotations

import math
import statistics as plain
from dataclasses import dataclass

from gleaner_lab import papers, statistics
from gleaner_lab.analysis import Grouped, Line
from gleaner_lab.experiment import Column, Paper
from gleaner_lab.statistics import UNKNOWN, Estimate


@dataclass(frozen=True)
class Cell:
    """The paper's figure as it is printed, and ours in words and as a number."""

    theirs: str
    ours: str = ""
    estimate: Estimate = UNKNOWN

    @property
    def number(self) -> float:
        """The paper's figure; not a number where it printed none."""
        try:
            return float(self.theirs)
        except ValueError:
            return math.nan


@dataclass(frozen=True)
class Beside:
    """A table: for each row its name, and for each column the paper's figure and ours."""

    paper: papers.Table
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]
    #: Whether any column is a change from the baseline, which the paper takes of means.
    has_changes: bool


def tables(grouped: Grouped) -> list[Beside]:
    """All tables of the experiment's papers."""
    return [_table(grouped, wanted) for wanted in grouped.experiment.papers]


def _table(grouped: Grouped, wanted: Paper) -> Beside:
    """Rows of the paper first, in its order, then those that only we have; of the columns, ours.

    Where a workload of ours stands in for a benchmark of the paper's, the row names both.
    """
    paper = papers.read(wanted.table)
    key = paper.rows.columns[0]
    theirs = paper.rows.set_index(key)
    ours = {column: _ours(grouped, rule) for column, rule in wanted.columns.items()}
    pairs = [(name, wanted.stand_ins.get(name, name)) for name in paper.benchmarks]
    if wanted.others:
        taken = {name for _, name in pairs}
        names = [one.name for one in grouped.experiment.workloads]
        pairs += [(name, name) for name in names if name not in taken]
    columns = [str(column) for column in theirs.columns if str(column) in ours]
    rows = []
    for benchmark, workload in pairs:
        is_theirs = benchmark in theirs.index
        printed = [str(theirs.loc[benchmark, one]) if is_theirs else "" for one in columns]
        found = [ours[column].get(workload, ("", UNKNOWN)) for column in columns]
        cells = [Cell(one, *mine) for one, mine in zip(printed, found, strict=True)]
        is_itself = workload == benchmark
        rows.append((benchmark if is_itself else f"{benchmark} (ours: {workload})", cells))
    kinds = {wanted.columns[column].figure for column in columns}
    return Beside(paper, columns, rows, bool(kinds & {"slowdown", "speedup"}))


def _ours(grouped: Grouped, rule: Column) -> dict[str, tuple[str, Estimate]]:
    """Our figures for a column by workload, in words and as numbers."""
    lines = [
        line
        for line in grouped.lines(rule.metric)
        if line.variant == rule.configuration and not line.control
    ]
    medians = {line.workload: line.medians.get(rule.metric, math.nan) for line in lines}
    known = [median for median in medians.values() if not math.isnan(median)]
    found = {}
    for line in lines:
        median = medians[line.workload]
        match rule.figure:
            case "share":
                mine = _number(100 * median / line.medians.get(rule.of, math.nan), 1)
            case "median":
                mine = _number(median / rule.per, 2)
            case "relative":
                mine = _number(median / plain.fmean(known) if known else math.nan, 2)
            case "slowdown" | "speedup":
                mine = _changes(grouped, line, rule.figure == "speedup")
        found[line.workload] = mine
    return found


def _number(figure: float, digits: int) -> tuple[str, Estimate]:
    """A figure; one of a hundred and more is whole."""
    if math.isnan(figure):
        return "", UNKNOWN
    text = f"{figure:.{digits if figure < 100 else 0}f}"
    return text, Estimate(figure, figure, figure, 1)


def _changes(grouped: Grouped, line: Line, is_gain: bool) -> tuple[str, Estimate]:
    """The change over rounds, and then as the papers take it, of the means of the same rounds."""
    if line.ratio.runs == 0:
        return "no equal rounds", UNKNOWN
    top = [line.values[number] for number in line.rounds]
    bottom = [line.values[number] / ratio for number, ratio in line.rounds.items()]
    confidence = grouped.experiment.statistics.confidence
    means = statistics.ratio_of_means(top, bottom, confidence)
    text = f"{_change(line.ratio, is_gain)}; of means {_change(means, is_gain)}"
    return text, _percent(line.ratio, is_gain)


def _percent(ratio: Estimate, is_gain: bool) -> Estimate:
    """How far a ratio is above 1, or below it, in percent of the baseline."""
    value, low, high = ((end - 1) * 100 for end in (ratio.value, ratio.low, ratio.high))
    return Estimate(*((-value, -high, -low) if is_gain else (value, low, high)), ratio.runs)


def _change(ratio: Estimate, is_gain: bool) -> str:
    """The same in words."""
    change = _percent(ratio, is_gain)
    if not (math.isfinite(change.low) and math.isfinite(change.high)):
        return f"{change.value:+.1f}"
    return f"{change.value:+.1f} [{change.low:+.1f}, {change.high:+.1f}]"
