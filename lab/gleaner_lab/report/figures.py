"""The plots of a report."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from gleaner_lab import positions as positions_of
from gleaner_lab import written
from gleaner_lab.analysis import Line
from gleaner_lab.answers import Row
from gleaner_lab.numa.collection import CollectionTime
from gleaner_lab.numa.placement import STOPS, Curve
from gleaner_lab.report.beside import Beside
from gleaner_lab.statistics import Estimate

#: Distinct without colour vision, and on paper.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"]
#: For more configurations than colours.
MARKERS = "osD^v"
#: The colours of a drawing by the names of the style sheet, which has two of each: for light and
#: for dark. A file of its own keeps the first one.
INKS = {
    "#0072b2": "live",
    "#d55e00": "stop",
    "#009e73": "step",
    "#cc79a7": "rose",
    "#e69f00": "gold",
    "#56b4e9": "sky",
    "#555555": "grey",
    "#b0b0b0": "grid",
    "#000000": "text",
}
#: Rows that are seen at once.
ROWS = 46
#: How far an interval may reach beyond the values that are drawn.
FAR = 3.0
#: Room for a letter of a label, in inches.
LETTER = 0.078

plt.rcParams.update(
    {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.3,
        "svg.fonttype": "none",
        "svg.hashsalt": "gleaner",
    }
)


@dataclass(frozen=True)
class Drawing:
    """A plot as text, and what there is to say of it."""

    svg: str
    caption: str = ""


def summary(rows: Sequence[Row], axis: str) -> Figure:
    """The estimates of the first answers, the least first, with the members of means as dots."""
    ordered = sorted(rows, key=lambda row: row.estimate.value)
    shown = [*ordered[: ROWS // 2], *ordered[max(ROWS // 2, len(ordered) - ROWS // 2) :]]
    figure, axes = _plot(6.2, len(shown), 0.26, [row.name for row in shown])
    for at, row in enumerate(shown):
        axes.plot(row.members, [at] * len(row.members), "o", markersize=3, color=COLOURS[5])
    _estimates(axes, [(at, row.estimate) for at, row in enumerate(shown)], 5)
    ends = [value for row in shown for value in row.members]
    _ratio_axis(axes, [row.estimate for row in shown], ends)
    axes.set_xlabel(axis)
    return figure


@dataclass(frozen=True)
class Screen:
    """So many rows of a plot as are seen at once: headings, and cases under them."""

    rows: list[tuple[str, Estimate | None]]
    caption: str


def screens(lines: Sequence[Line], baseline: str) -> list[Screen]:
    """All ratios in parts that fit a screen, each part sorted.

    A part has the cases of a configuration, or the configurations of a case, whichever makes fewer
    parts. Of more cases than fit, those with the least and the greatest ratios are left.
    """
    found: list[Screen] = []
    for machine in dict.fromkeys(line.machine for line in lines):
        shown = [
            line
            for line in lines
            if line.machine == machine
            and line.ratio.runs > 0
            and (line.variant != baseline or line.control)
        ]
        by_name, by_group = (_parts(shown, one) for one in (_name, lambda line: line.group))
        is_by_name = len(by_name) <= len(by_group)
        parts = by_name if is_by_name else by_group
        label = (lambda line: line.group) if is_by_name else _name
        found += _packed([_screen(title, part, label) for title, part in parts.items()])
    return found


def _parts(lines: Sequence[Line], name: Callable[[Line], str]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(name(line), []).append(line)
    return found


def _screen(title: str, lines: Sequence[Line], label: Callable[[Line], str]) -> Screen:
    """The rows of one part."""
    ordered = sorted(lines, key=lambda line: line.ratio.value)
    half, caption = (ROWS - 1) // 2, ""
    if len(ordered) >= ROWS:
        caption = f"{title}: the {half} least and greatest of {len(ordered)}; the table has all."
        ordered = [*ordered[:half], *ordered[-half:]]
    return Screen([(title, None), *((label(line), line.ratio) for line in ordered)], caption)


def _packed(parts: Sequence[Screen]) -> list[Screen]:
    """Parts that fit a screen together are one."""
    found: list[Screen] = []
    for part in parts:
        if found and len(found[-1].rows) + len(part.rows) <= ROWS:
            last = found.pop()
            caption = " ".join(filter(None, (last.caption, part.caption)))
            part = Screen([*last.rows, *part.rows], caption)
        found.append(part)
    return found


def forest(screen: Screen, axis: str) -> Figure:
    """A row for each case, with its interval."""
    names = ["" if estimate is None else name for name, estimate in screen.rows]
    figure, axes = _plot(8.5, len(names), 0.165, names)
    for at, (title, estimate) in enumerate(screen.rows):
        if estimate is None:
            place = axes.get_yaxis_transform()
            axes.text(0.01, at, title, transform=place, weight="bold", va="center")
    known = [(at, one) for at, (_, one) in enumerate(screen.rows) if one is not None]
    _estimates(axes, known, 3.5)
    _ratio_axis(axes, [one for _, one in known])
    axes.set_xlabel(axis)
    return figure


def _plot(width: float, rows: int, row: float, names: Sequence[str]) -> tuple[Figure, Axes]:
    """A figure with a named row for each estimate, the first on top; sizes are in inches."""
    height = 0.7 + row * max(rows, 2)
    figure = Figure(figsize=(width, height))
    left = min(0.45 * width, 0.15 + LETTER * max(map(len, names), default=0))
    axes = figure.add_axes(
        (left / width, 0.55 / height, 1 - (left + 0.3) / width, 1 - 0.65 / height)
    )
    most = round((left - 0.15) / LETTER)
    axes.set_yticks(range(rows), [_cut(name, most) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(rows - 0.5, -0.5)
    return figure, axes


def _cut(name: str, most: int) -> str:
    """A name of at most so many letters; what is cut is in the middle."""
    if len(name) <= most:
        return name
    half = (most - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def _estimates(axes: Axes, rows: Sequence[tuple[float, Estimate]], size: float) -> None:
    """A point for each value and a bar for each interval that there is."""
    ends = [(at, one) for at, one in rows if one.runs > 1 and math.isfinite(one.high)]
    axes.hlines(
        [at for at, _ in ends],
        [one.low for _, one in ends],
        [one.high for _, one in ends],
        color=COLOURS[0],
        linewidth=1.5,
    )
    values = [one.value for _, one in rows]
    axes.plot(values, [at for at, _ in rows], "D", markersize=size, color=COLOURS[0])


def _ratio_axis(axes: Axes, estimates: Sequence[Estimate], others: Sequence[float] = ()) -> None:
    """An axis of ratios: logarithmic, with 1 marked, as wide as what matters on it.

    An interval may leave the picture by a factor of `FAR`: its value does not.
    """
    values = [*(one.value for one in estimates), *others, 1.0]
    least, most = min(values), max(values)
    bounded = [one for one in estimates if one.runs > 1 and math.isfinite(one.high)]
    low = max(least / FAR, min([least, *(one.low for one in bounded)]))
    high = min(most * FAR, max([most, *(one.high for one in bounded)]))
    low, high = low / 1.05, high * 1.05
    ticks = ratio_ticks(low, high)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.axvline(1.0, color="black", linewidth=0.8)


def ratio_ticks(low: float, high: float) -> list[float]:
    """Some five round numbers between two ratios."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ([1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7]):
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        ticks = [round(tick, 12) for tick in ticks if low <= tick <= high]
        if len(ticks) >= 4:
            return ticks if len(ticks) <= 9 else ticks[:: math.ceil(len(ticks) / 9)]
    plain = MaxNLocator(6).tick_values(low, high)
    return [float(tick) for tick in plain if low <= tick <= high]


def _name(line: Line) -> str:
    return f"{line.variant} again (A/A)" if line.control else line.variant


def beside(table: Beside) -> list[Figure]:
    """The paper's figures and ours of the rows that have both, a panel for each column."""
    panels = [
        (column, rows)
        for number, column in enumerate(table.columns)
        if (rows := _both(table, number))
    ]
    return [_panel(column, rows) for column, rows in panels]


def _both(table: Beside, number: int) -> list[tuple[str, float, Estimate]]:
    """The rows in which a column has the paper's figure and ours, by ours."""
    found = [
        (name, cells[number].number, cells[number].estimate)
        for name, cells in table.rows
        if cells[number].estimate.runs > 0 and not math.isnan(cells[number].number)
    ]
    return sorted(found, key=lambda row: row[2].value)[:ROWS]


def _panel(column: str, rows: Sequence[tuple[str, float, Estimate]]) -> Figure:
    figure, axes = _plot(8.5, len(rows), 0.2, [name for name, _, _ in rows])
    _estimates(axes, [(at, ours) for at, (_, _, ours) in enumerate(rows)], 4)
    theirs = [number for _, number, _ in rows]
    axes.plot(theirs, range(len(rows)), "o", markersize=5, color=COLOURS[1], fillstyle="none")
    axes.set_xlabel(f"{column.replace('_', ' ')}: the paper's as circles, ours as diamonds")
    return figure


def drift(canary: pd.DataFrame, metric: str) -> Figure:
    """How the machine itself changed while the experiment ran."""
    figure = Figure(figsize=(8.5, 2.4), layout="constrained")
    axes = figure.add_subplot()
    start = canary["started"].min()
    minutes = (canary["started"] - start).dt.total_seconds() / 60
    axes.plot(minutes, canary["relative"], "o-", markersize=4, color=COLOURS[0])
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel("minutes since the first run")
    axes.set_ylabel(f"canary's {metric}\nover its median")
    return figure


def svg(figure: Figure) -> str:
    """A figure as text to put into a page, in the colours of its style sheet."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    text = out.getvalue()
    for colour, name in INKS.items():
        text = text.replace(f": {colour}", f": var(--{name}, {colour})")
    return text[text.index("<svg") :]


def save_png(figure: Figure, path: str) -> None:
    """A figure as a file of its own."""
    with written.named(Path(path)):
        figure.savefig(path, dpi=150)


def speedups(curves: list[Curve]) -> Figure:
    """Speedup against threads as modelled, with where the paper says that a curve stops."""
    figure, axes = plt.subplots(figsize=(8.5, 5), layout="constrained")
    most = max(curve.threads[-1] for curve in curves)
    axes.plot([1, most], [1, most], color="black", linewidth=0.6, label="linear")
    for colour, curve in zip(COLOURS, curves, strict=False):
        judged = [threads for threads in curve.judged if threads <= most]
        bound = [curve.speedup(threads) for threads in judged]
        queued = [curve.queued_speedup(threads) for threads in judged]
        axes.plot(judged, bound, color=colour, label=str(curve.placement))
        axes.plot(judged, queued, ":", color=colour)
        if curve.placement in STOPS:
            axes.axvline(STOPS[curve.placement][0], color=colour, linewidth=0.8, linestyle="--")
    axes.set_xlabel("threads (dashed: where the paper's text says that the curve stops improving)")
    axes.set_ylabel(f"speedup over one thread ({curves[0].label})")
    axes.set_title(f"{curves[0].label.upper()}, not measured; dotted: with queues", fontsize=9)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def collection_times(times: list[CollectionTime]) -> Figure:
    """Mean time of a collection against threads as modelled."""
    figure, axes = plt.subplots(figsize=(8.5, 4), layout="constrained")
    threads, colours = [one.threads for one in times], iter(COLOURS)
    for name, style, seconds in (
        ("bound", "o-", [one.bound_s for one in times]),
        ("with queues", "o:", [one.queued_s for one in times]),
        ("of it synchronisation", "s--", [one.synchronisation_s for one in times]),
    ):
        means = [one / each.collections * 1e3 for one, each in zip(seconds, times, strict=True)]
        axes.plot(threads, means, style, markersize=4, label=name, color=next(colours))
    axes.set_xlabel("collecting threads")
    axes.set_ylabel(f"mean time of a collection, ms ({times[0].label})")
    axes.set_title(f"{times[0].label.upper()}, not measured", fontsize=9)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(threads, [str(one) for one in threads])
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def positions(curves: list[positions_of.Curve]) -> Figure:
    """How many accesses are less than so far from the first element; the mean in black."""
    figure = Figure(figsize=(8.5, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for number, curve in enumerate(curves):
        is_mean = curve.name == positions_of.MEAN
        axes.plot(
            range(len(curve.shares)),
            curve.shares,
            color="black" if is_mean else COLOURS[number % len(COLOURS)],
            linestyle="-" if is_mean or number < len(COLOURS) else "--",
            linewidth=2 if is_mean else 1,
            label=curve.name,
        )
    axes.set_xlim(0, 26)
    axes.set_ylim(0, 100)
    axes.set_xticks(range(0, 27, 2), [f"$2^{{{power}}}$" for power in range(0, 27, 2)])
    axes.set_xlabel("bytes from the first element")
    axes.set_ylabel("accesses below, %")
    axes.legend(fontsize=7, frameon=False, ncols=2, loc="lower right")
    return figure


@dataclass(frozen=True)
class Series:
    """One configuration against collecting threads: the model's two times, and measured ones."""

    name: str
    bound: Mapping[int, float]
    queued: Mapping[int, float]
    measured: Mapping[int, float]


def against_threads(
    panels: Mapping[str, Sequence[Series]], title: str, unit: str, threads: Sequence[int]
) -> Figure:
    """A panel for each workload. Lines are modelled, points measured; lines of no data are left."""
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(11, 1.6 + 2.8 * rows), layout="constrained", squeeze=False
    )
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    shown = {}
    for axes, (workload, found) in zip(grid.flat, panels.items(), strict=False):
        for number, one in enumerate(found):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number // len(COLOURS)]
            style = {"color": colour, "marker": marker, "markersize": 3}
            if one.bound:
                lines = axes.plot(one.bound.keys(), one.bound.values(), **style)
                axes.plot(one.queued.keys(), one.queued.values(), ":", color=colour)
                shown.setdefault(one.name, lines[0])
            if one.measured:
                points = axes.scatter(
                    one.measured.keys(), one.measured.values(), marker="x", color=colour
                )
                shown.setdefault(f"{one.name}, measured on this host", points)
        axes.set_xscale("log", base=2)
        axes.set_xlim(min(threads) * 0.9, max(threads) * 1.1)
        axes.set_xticks(threads, [str(one) for one in threads])
        axes.set_ylim(bottom=0)
        axes.set_title(workload, fontsize=9)
        axes.set_ylabel(unit)
    figure.supxlabel(
        f"{title} against collecting threads. Lines: MODELLED, not measured; dotted: with queues. "
        "Crosses: measured on this host.",
        fontsize=9,
    )
    if shown:
        figure.legend(
            shown.values(), shown.keys(), loc="outside upper center", ncols=4, frameon=False
        )
    return figure
