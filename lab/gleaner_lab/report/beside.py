"""Papers' tables with our figures beside their own."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import pandas as pd

from gleaner_lab import analysis, papers
from gleaner_lab.experiment import Column, Experiment, Paper


@dataclass(frozen=True)
class Beside:
    """A table: for each row its name, and for each column the paper's figure and ours."""

    paper: papers.Table
    columns: list[str]
    rows: list[tuple[str, list[tuple[str, str]]]]


def tables(frame: pd.DataFrame, experiment: Experiment) -> list[Beside]:
    """All tables of the experiment's papers."""
    return [_table(frame, experiment, wanted) for wanted in experiment.papers]


def _table(frame: pd.DataFrame, experiment: Experiment, wanted: Paper) -> Beside:
    """Rows of the paper first, in its order, then those that only we have; of the columns, ours.

    Where a workload of ours stands in for a benchmark of the paper's, the row names both.
    """
    paper = papers.read(wanted.table)
    key = paper.rows.columns[0]
    theirs = paper.rows.set_index(key)
    ours = {column: _ours(frame, experiment, rule) for column, rule in wanted.columns.items()}
    pairs = [(name, wanted.stand_ins.get(name, name)) for name in paper.benchmarks]
    if wanted.others:
        taken = {name for _, name in pairs}
        pairs += [(one.name, one.name) for one in experiment.workloads if one.name not in taken]
    columns = [str(column) for column in theirs.columns if str(column) in ours]
    rows = []
    for benchmark, workload in pairs:
        cells = [
            (
                str(theirs.loc[benchmark, column]) if benchmark in theirs.index else "",
                ours.get(column, {}).get(workload, ""),
            )
            for column in columns
        ]
        is_itself = workload == benchmark
        rows.append((benchmark if is_itself else f"{benchmark} (ours: {workload})", cells))
    return Beside(paper, columns, rows)


def _ours(frame: pd.DataFrame, experiment: Experiment, rule: Column) -> dict[str, str]:
    """Our figures for a column by workload, with intervals where there are any."""
    lines = [
        line
        for line in analysis.lines_of(frame, experiment, rule.metric)
        if line.variant == rule.configuration and not line.control
    ]
    medians = {line.workload: line.medians.get(rule.metric, math.nan) for line in lines}
    known = [median for median in medians.values() if not math.isnan(median)]
    found = {}
    for line in lines:
        median = medians[line.workload]
        match rule.figure:
            case "share":
                text = _number(100 * median / line.medians.get(rule.of, math.nan), 1)
            case "median":
                text = _number(median / rule.per, 2)
            case "relative":
                text = _number(median / statistics.fmean(known), 2) if known else ""
            case "slowdown" | "speedup":
                text = _change(line.ratio, rule.figure == "speedup")
        found[line.workload] = text
    return found


def _number(figure: float, digits: int) -> str:
    """A figure; one of a hundred and more is whole."""
    if math.isnan(figure):
        return ""
    return f"{figure:.{digits if figure < 100 else 0}f}"


def _change(ratio: analysis.Estimate, is_gain: bool) -> str:
    """How far a ratio is above 1, or below it, in percent of the baseline."""
    if ratio.runs == 0:
        return "no equal rounds"
    ends = [ratio.value, ratio.low, ratio.high]
    middle, low, high = ((end - 1) * 100 for end in ends)
    if is_gain:
        middle, low, high = -middle, -high, -low
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{middle:+.1f}"
    return f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]"
