"""A paper's table with our figures beside its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from gleaner_lab import analysis, papers
from gleaner_lab.experiment import Column, Experiment


@dataclass(frozen=True)
class Beside:
    """A table: for each row its name, and for each column the paper's figure and ours."""

    paper: papers.Table
    columns: list[str]
    rows: list[tuple[str, list[tuple[str, str]]]]


def table(frame: pd.DataFrame, experiment: Experiment) -> Beside | None:
    """Rows of the paper first, in its order, then those that only we have; of the columns, ours."""
    if experiment.paper is None:
        return None
    paper = papers.read(experiment.paper.table)
    key = paper.rows.columns[0]
    theirs = paper.rows.set_index(key)
    ours = {
        column: _ours(frame, experiment, rule) for column, rule in experiment.paper.columns.items()
    }
    names = [str(name) for name in theirs.index]
    names += [one.name for one in experiment.workloads if one.name not in names]
    columns = [str(column) for column in theirs.columns if str(column) in ours]
    rows = []
    for name in names:
        cells = [
            (
                str(theirs.loc[name, column]) if name in theirs.index else "",
                ours.get(column, {}).get(name, ""),
            )
            for column in columns
        ]
        rows.append((name, cells))
    return Beside(paper, columns, rows)


def _ours(frame: pd.DataFrame, experiment: Experiment, rule: Column) -> dict[str, str]:
    """Our figures for a column by workload, with intervals where there are any."""
    found = {}
    for line in analysis.lines_of(frame, experiment, rule.metric):
        if line.variant != rule.configuration or line.control:
            continue
        if rule.percent == "share":
            part, whole = (line.medians.get(name, math.nan) for name in (rule.metric, rule.of))
            text = _percent(part / whole)
        else:
            text = _change(line.ratio, rule.percent == "speedup")
        found[line.workload] = text
    return found


def _percent(share: float) -> str:
    return "" if math.isnan(share) else f"{share * 100:.1f}"


def _change(ratio: analysis.Estimate, inverse: bool) -> str:
    """How far a ratio is from 1, or its inverse, in percent."""
    if ratio.runs == 0:
        return "no equal rounds"
    ends = [ratio.value, ratio.low, ratio.high]
    if inverse:
        ends = [1 / ratio.value, 1 / ratio.high, 1 / ratio.low if ratio.low > 0 else math.inf]
    middle, low, high = ((end - 1) * 100 for end in ends)
    if not math.isfinite(high):
        return f"{middle:+.1f}"
    return f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]"
