"""The plots of a report."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from gleaner_lab import positions as positions_of
from gleaner_lab.analysis import Line
from gleaner_lab.numa.collection import CollectionTime
from gleaner_lab.numa.placement import STOPS, Curve

#: Distinct without colour vision, and on paper.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"]
#: For more configurations than colours.
MARKERS = "osD^v"

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


def ratios(lines: list[Line], baseline: str, metric: str) -> Figure:
    """The ratio to the baseline for each group and configuration, with intervals."""
    groups = list(dict.fromkeys(line.group for line in lines))
    shown = [line for line in lines if line.variant != baseline or line.control]
    names = list(dict.fromkeys(_name(line) for line in shown))
    step = 0.8 / max(1, len(names))
    height = 1.2 + len(groups) * max(0.35, 0.16 * len(names))
    figure, axes = plt.subplots(figsize=(8.5, height), layout="constrained")
    for number, name in enumerate(names):
        chosen = [line for line in shown if _name(line) == name and line.ratio.runs > 0]
        at = [groups.index(line.group) + (number - (len(names) - 1) / 2) * step for line in chosen]
        values = [line.ratio.value for line in chosen]
        errors = [[_reach(line, -1) for line in chosen], [_reach(line, +1) for line in chosen]]
        axes.errorbar(
            values,
            at,
            xerr=errors,
            fmt=MARKERS[number // len(COLOURS) % len(MARKERS)],
            markersize=4,
            capsize=2,
            label=name,
            color=COLOURS[number % len(COLOURS)],
        )
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(groups)), groups)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xlabel(f"{metric}, ratio to {baseline} (left of 1: less)")
    if names:
        figure.legend(loc="outside upper center", ncols=min(3, len(names)), frameon=False)
    return figure


def _name(line: Line) -> str:
    return f"{line.variant} again (A/A)" if line.control else line.variant


def _reach(line: Line, side: int) -> float:
    if not math.isfinite(line.ratio.high):
        # A single round has no interval.
        return 0.0
    end = line.ratio.high if side > 0 else line.ratio.low
    reach = (end - line.ratio.value) * side
    return max(0.0, reach)


def drift(canary: pd.DataFrame, metric: str) -> Figure:
    """How the machine itself changed while the experiment ran."""
    figure, axes = plt.subplots(figsize=(8.5, 2.4), layout="constrained")
    start = canary["started"].min()
    minutes = (canary["started"] - start).dt.total_seconds() / 60
    axes.plot(minutes, canary["relative"], "o-", markersize=4, color=COLOURS[0])
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel("minutes since the first run")
    axes.set_ylabel(f"canary's {metric}\nover its median")
    return figure


def svg(figure: Figure) -> str:
    """A figure as text to put into a page."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def save_png(figure: Figure, path: str) -> None:
    """A figure as a file of its own."""
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
    figure, axes = plt.subplots(figsize=(8.5, 4.2), layout="constrained")
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
