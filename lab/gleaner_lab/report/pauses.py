"""Pauses as they lie in time, as a distribution, and as what they leave to the program.

A run whose library was asked for its log has points of these three curves (`pauses` in its record,
from `gleaner-bench run --log`). The installed libgc says how long its pauses are, but not when they
were: it has the distribution alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from gleaner_lab.analysis import Grouped
from gleaner_lab.report.figures import COLOURS

#: Cases that are drawn: those with the longest pauses; and configurations in each.
MOST_CASES, MOST_CONFIGURATIONS = 2, 4

#: Points of a curve: seconds against percents, or shares against seconds.
Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Curves:
    """The pauses of one configuration in one case."""

    name: str
    #: When pauses of the first round began and how long they were.
    moments: Points
    #: How long the pauses are that so many percent do not exceed: the median of the rounds.
    spread: Points
    #: The least share of the program in windows of so many seconds: the median of the rounds.
    utilisation: Points


def drawings(grouped: Grouped) -> Iterator[tuple[str, Figure]]:
    """The cases with the longest pauses, each with its heading."""
    if "pauses.spread" not in grouped.runs:
        return
    for machine, group in _longest(grouped)[:MOST_CASES]:
        found = curves(grouped, machine, group)
        if found:
            yield f"Pauses of {group}", draw(found)


def _longest(grouped: Grouped) -> list[tuple[str, str]]:
    """The cases by their longest pause under any configuration."""
    found: dict[tuple[str, str], float] = {}
    for line in grouped.lines("longest_pause_s"):
        case, median = (line.machine, line.group), line.medians.get("longest_pause_s", 0.0)
        found[case] = max(found.get(case, 0.0), median)
    return sorted(found, key=lambda case: -found[case])


def curves(grouped: Grouped, machine: str, group: str) -> list[Curves]:
    """The pauses of the first configurations of a case, the baseline's first."""
    baseline = grouped.experiment.statistics.baseline
    names = [baseline, *(one for one in grouped.experiment.variants() if one != baseline)]
    runs = grouped.runs[(grouped.runs["machine"] == machine) & (grouped.runs["group"] == group)]
    found = []
    for name in names:
        mine = runs[(runs["variant"] == name) & ~runs["control"]].sort_values("round")
        spread = _middle(mine["pauses.spread"])
        if spread:
            moments = next(iter(_read(mine["pauses.moments"])), [])
            utilisation = _middle(mine["pauses.utilisation"])
            found.append(Curves(name, moments, spread, utilisation))
    return found[:MOST_CONFIGURATIONS]


def _read(column: pd.Series) -> Iterator[Points]:
    """The points of each run that has any."""
    for text in column.dropna():
        if points := json.loads(text):
            yield [(float(one), float(other)) for one, other in points]


def _middle(column: pd.Series) -> Points:
    """Of each abscissa that any run has, the median of the ordinates."""
    found: dict[float, list[float]] = {}
    for points in _read(column):
        for at, value in points:
            found.setdefault(at, []).append(value)
    return [(at, float(np.median(values))) for at, values in sorted(found.items())]


def draw(found: Sequence[Curves]) -> Figure:
    """A timeline for each configuration that has moments, and under them the two curves."""
    timed = [one for one in found if one.moments]
    height = 2.6 + 0.8 * len(timed)
    figure = Figure(figsize=(8.5, height), layout="constrained")
    grid = figure.add_gridspec(len(timed) + 1, 2, height_ratios=[0.8] * len(timed) + [2.6])
    colours = dict(zip([one.name for one in found], COLOURS, strict=False))
    longest = max((took for one in timed for _, took in one.moments), default=0) * 1e3
    for number, one in enumerate(timed):
        axes = figure.add_subplot(grid[number, :])
        _timeline(axes, one, colours[one.name], longest)
        axes.set_xlabel("seconds" if number == len(timed) - 1 else "")
    _distribution(figure.add_subplot(grid[-1, 0]), found, colours)
    _utilisation(figure.add_subplot(grid[-1, 1]), found, colours)
    handles = figure.axes[-2].get_lines()
    figure.legend(handles, list(colours), loc="outside upper center", ncols=4, frameon=False)
    return figure


def _timeline(axes: Axes, one: Curves, colour: str, longest: float) -> None:
    """Each pause as a line as high as it is long."""
    axes.vlines([at for at, _ in one.moments], 0, _ms(one.moments), color=colour, linewidth=1.5)
    axes.set_ylim(0, longest * 1.05)
    axes.set_xlim(left=0)
    axes.set_ylabel("ms")


def _ms(points: Iterable[tuple[float, float]]) -> list[float]:
    return [seconds * 1e3 for _, seconds in points]


def _distribution(axes: Axes, found: Sequence[Curves], colours: dict[str, str]) -> None:
    for one in found:
        percents = [percent for percent, _ in one.spread]
        axes.plot(_ms(one.spread), percents, color=colours[one.name], drawstyle="steps-post")
    _log(axes)
    axes.set_ylim(0, 101)
    axes.set_xlabel("pauses no longer than, ms")
    axes.set_ylabel("% of pauses")


def _utilisation(axes: Axes, found: Sequence[Curves], colours: dict[str, str]) -> None:
    for one in found:
        windows = [seconds * 1e3 for seconds, _ in one.utilisation]
        shares = [share * 100 for _, share in one.utilisation]
        axes.plot(windows, shares, "o-", markersize=3, color=colours[one.name])
    _log(axes)
    axes.set_ylim(0, 101)
    axes.set_xlabel("in any window of, ms")
    axes.set_ylabel("% left to the program")


def _log(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
