"""Puts a report together and writes it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from matplotlib.figure import Figure

from gleaner_lab import analysis, build, counters, positions, written
from gleaner_lab.analysis import Grouped, Line
from gleaner_lab.answers import Answer, answers, noises_of, what_carries
from gleaner_lab.cells import cells_of
from gleaner_lab.experiment import Experiment
from gleaner_lab.failure import Failure
from gleaner_lab.metrics import DISTRIBUTION
from gleaner_lab.report import beside, figures, pauses
from gleaner_lab.report.figures import Drawing
from gleaner_lab.schedule import tasks_of
from gleaner_lab.statistics import Estimate
from gleaner_lab.store import ResultSet
from gleaner_lab.units import UNITS, label, spoken

#: Answers that stand on the first screen; the others are behind a click.
FIRST = 6
#: What there is to say of the plot of pauses.
PAUSES = (
    "Each pause of the first round, as high as it is long; how many pauses were no longer; the "
    "least share that the program had for itself in any window of a given width. The curves are "
    "medians of the rounds."
)


def estimate(value: Estimate) -> str:
    """A ratio with its interval."""
    if math.isnan(value.value):
        return "no rounds to compare"
    if value.runs < 2 or not math.isfinite(value.high):
        return f"{value.value:.3f}"
    return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]"


def write(results: ResultSet) -> Path:
    """Writes report.html and its PNG files into the result set; returns the page."""
    grouped = _read(results)
    found = _figures(results, grouped)
    drawn = _Drawn(results.path)
    text = template("page.html.j2", escape=True).render(
        **found,
        first=FIRST,
        summary=_summary(drawn, grouped.experiment, found["answers"]),
        drawings=_drawings(drawn, grouped),
        besides=[
            [Drawing(figures.svg(one)) for one in figures.beside(table)]
            for table in found["beside"]
        ],
        classes=_classes,
        runs=list(_runs(grouped.frame)),
        source=results.experiment.read_text(),
    )
    page = results.path / "report.html"
    written.write(page, text)
    return page


def markdown(results: ResultSet) -> str:
    """The tables of the report, for a page of documentation."""
    grouped = _read(results)
    return template("tables.md.j2", escape=False).render(
        **_figures(results, grouped),
        started=grouped.frame["started"].min()[:10],
        positions=positions.curves(grouped.frame, grouped.experiment),
        baselines={
            (line.machine, line.group): line
            for line in grouped.lines()
            if line.variant == grouped.experiment.statistics.baseline and not line.control
        },
    )


def _shown(experiment: Experiment, lines: list[Line]) -> list[str]:
    """The values whose medians are shown."""
    wanted = [*(set(UNITS) - set(DISTRIBUTION)), *experiment.statistics.shown]
    known = {name for line in lines for name in line.medians}
    return [name for name in UNITS if name in wanted and name in known]


def _read(results: ResultSet) -> Grouped:
    frame = results.table()
    if frame.empty:
        raise Failure(f"{results.path} has no runs yet: gleaner-lab resume {results.path}")
    return Grouped(frame, results.read_experiment())


def template(name: str, *, escape: bool) -> Template:
    """One of the templates beside this file."""
    environment = Environment(
        loader=PackageLoader("gleaner_lab.report"),
        autoescape=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # A line is broken before an interval, never in it.
    environment.filters["estimate"] = (
        (lambda value: estimate(value).replace(", ", ",\u00a0")) if escape else estimate
    )
    return environment.get_template(name)


def _figures(results: ResultSet, grouped: Grouped) -> dict[str, Any]:
    """What both forms of the report show."""
    experiment, frame, lines = grouped.experiment, grouped.frame, grouped.lines()
    metrics, machines = experiment.statistics.metrics, results.machines()
    by_metric = {metric: grouped.lines(metric) for metric in metrics}
    return {
        "experiment": experiment,
        "machines": machines,
        "answers": answers(grouped, machines),
        "noises": noises_of(grouped),
        "judged": grouped.judged(machines),
        "lines": lines,
        "metrics": metrics,
        "ratios": {
            metric: {line.cell: line.ratio for line in found} for metric, found in by_metric.items()
        },
        "means": {
            metric: analysis.means_of(found, experiment) for metric, found in by_metric.items()
        },
        "carries": what_carries,
        "names": _shown(experiment, lines),
        "units": UNITS,
        "label": label,
        "heaps": _heaps(results),
        "warnings": results.warnings(),
        "failures": analysis.failures_by_cell(frame),
        "differing": analysis.differing_outputs(frame),
        "builds": analysis.builds_of(frame),
        "starts": results.starts(),
        "commits": _commits(results),
        "earlier": _earlier(results, frame),
        "files": _files(results, frame),
        "named": _named(results, frame),
        "made": len(frame),
        "expected": len(tasks_of(experiment, list(cells_of(experiment)))),
        "counts": analysis.counts_of(frame),
        "limits": counters.LIMITS[experiment.counters],
        "beside": beside.tables(grouped),
    }


def _commits(results: ResultSet) -> list[str]:
    found = [one["commit"] for one in results.starts() if one.get("commit")]
    return list(dict.fromkeys(found))


def _earlier(results: ResultSet, frame: pd.DataFrame) -> dict[str, str]:
    """The commits of the other builds that configurations ran, by their directories."""
    found = [build.commits(files) for files in _files(results, frame).values()]
    return {where: commit for one in found for where, commit in one.items()}


def _files(results: ResultSet, frame: pd.DataFrame) -> dict[str, dict[str, str]]:
    """The files of the builds that runs were made with."""
    known = results.builds()
    return {name: known[name] for name in analysis.builds_of(frame) if name in known}


def _named(results: ResultSet, frame: pd.DataFrame) -> list[str]:
    """Gleaner's own programs and libraries with their hashes, as the tables show them."""
    builds = list(_files(results, frame).values())
    if len(builds) != 1:
        return []
    return [f"{file} {digest}" for file, digest in builds[0].items() if "/" not in file]


def _heaps(results: ResultSet) -> dict[str, str]:
    """The heap sizes that were searched for, in words, by what they are of."""
    found = {}
    for name, value in results.heaps().items():
        if isinstance(value, dict):
            text = ", ".join(f"{option}={setting}" for option, setting in value["options"].items())
            found[name] = text + ("" if value["reached"] else " (the nearest)")
        elif isinstance(value, str):
            found[name] = f"none: {value}"
        elif name.startswith("minimum"):
            found[name] = f"{value / 2**20:.2f} MB"
        else:
            found[name] = f"{value / 1024:.1f} MB"
    return found


def _classes(line: Line, before: Any) -> str:
    """How a row of a table looks: grey where nothing can be read, with a line above a group."""
    is_first = not isinstance(before, Line) or before.group != line.group
    return " ".join(name for name, has in (("grey", line.grey), ("first", is_first)) if has)


# ---- drawings ----


class _Drawn:
    """The plots of a page. Those that documents show are PNG files beside it, too, with numbers."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.number = 0

    def drawing(self, name: str, figure: Figure, caption: str = "") -> Drawing:
        """The plot as the page shows it, and as a file."""
        self.number += 1
        figures.save_png(figure, str(self.directory / f"{self.number}-{name}.png"))
        return Drawing(figures.svg(figure), caption)


def _summary(drawn: _Drawn, experiment: Experiment, found: list[Answer]) -> list[Drawing]:
    """The plot of the answers about the metric that counts, one for each machine."""
    metric, baseline = experiment.statistics.metric, experiment.statistics.baseline
    chosen = [one for one in found if one.metric == metric and not one.is_bar and one.rows]
    are_one_metric = all(len(one.rows) == 1 for one in chosen)
    axis = f"{spoken(metric)}, ratio to {baseline}" if are_one_metric else f"ratio to {baseline}"
    return [
        drawn.drawing(
            "ratios",
            figures.summary(
                [row for one in chosen if one.machine == machine for row in one.rows],
                axis,
            ),
            "Left of 1 is less. Bars: the interval of rounds. Dots: the workloads of a mean.",
        )
        for machine in dict.fromkeys(one.machine for one in chosen)
    ]


def _drawings(drawn: _Drawn, grouped: Grouped) -> list[tuple[str, list[Drawing]]]:
    """The other plots, under their headings."""
    experiment, metric = grouped.experiment, grouped.experiment.statistics.metric
    found = []
    screens = figures.screens(grouped.lines(), experiment.statistics.baseline)
    axis = f"{spoken(metric)}, ratio to {experiment.statistics.baseline}"
    parts = [Drawing(figures.svg(figures.forest(one, axis)), one.caption) for one in screens]
    if parts:
        found.append((f"{spoken(metric).capitalize()}, case by case", parts))
    for heading, figure in pauses.drawings(grouped):
        found.append((heading, [Drawing(figures.svg(figure), PAUSES)]))
    canary = analysis.drift_of(grouped.frame, metric)
    if len(canary) > 1:
        drift = drawn.drawing("drift", figures.drift(canary, metric))
        found.append(("The machine's own drift", [drift]))
    if accesses := positions.curves(grouped.frame, experiment):
        heading = "Accesses to arrays by position, after Figure 2 of PLDI 2010"
        found.append((heading, [drawn.drawing("positions", figures.positions(accesses))]))
    return found


# ---- runs ----


def _runs(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The runs of each cell with its command, for readers who want to repeat or doubt them."""
    texts = _texts(frame)
    commands = frame["command"] if "command" in frame else pd.Series("", frame.index)
    rows = zip(frame["key"], frame["started"], frame["machine"], commands, texts, strict=True)
    by_cell: dict[tuple[str, str], dict[str, Any]] = {}
    for key, started, machine, command, text in rows:
        name = (machine, key.rpartition(" | ")[0])
        words = " ".join(json.loads(command)) if isinstance(command, str) and command else ""
        cell = by_cell.setdefault(name, {"machine": machine, "command": words, "runs": []})
        cell["runs"].append({"key": key, "started": started, "text": text})
    yield from by_cell.values()


def _texts(frame: pd.DataFrame) -> list[str]:
    """The values of each run in words."""
    parts: list[list[str]] = [[] for _ in range(len(frame))]
    for name, (heading, show) in UNITS.items():
        if f"values.{name}" in frame:
            for part, value in zip(parts, frame[f"values.{name}"], strict=True):
                if value is not None and not math.isnan(value):
                    part.append(f"{heading} {show(value)}")
    return ["; ".join(part) for part in parts]
