"""Puts a report together and writes it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from gleaner_lab import analysis, build, counters, positions
from gleaner_lab import experiment as experiments
from gleaner_lab.cells import cells_of
from gleaner_lab.experiment import Experiment
from gleaner_lab.failure import Failure
from gleaner_lab.metrics import DISTRIBUTION
from gleaner_lab.numa import collection, locality
from gleaner_lab.report import beside, figures
from gleaner_lab.runner import tasks_of
from gleaner_lab.statistics import Estimate
from gleaner_lab.store import ResultSet

#: Names of values with their unit and how they are shown.
UNITS: dict[str, tuple[str, Callable[[float], str]]] = {
    "wall_s": ("wall time, s", lambda value: f"{value:.3f}"),
    "cpu_s": ("processor time, s", lambda value: f"{value:.3f}"),
    "mutator_s": ("mutator time, s", lambda value: f"{value:.3f}"),
    "peak_kb": ("peak memory, MB", lambda value: f"{value / 1024:.1f}"),
    "allocated_bytes": ("allocated, MB", lambda value: f"{value / 2**20:.0f}"),
    "collections": ("collections", lambda value: f"{value:.0f}"),
    "longest_pause_s": ("longest pause, ms", lambda value: f"{value * 1e3:.1f}"),
    "total_pause_s": ("all pauses, ms", lambda value: f"{value * 1e3:.0f}"),
    "pauses": ("pauses", lambda value: f"{value:.0f}"),
    "pause_median_s": ("median pause, ms", lambda value: f"{value * 1e3:.2f}"),
    "pause_99_s": ("99 of 100 pauses, ms", lambda value: f"{value * 1e3:.1f}"),
    "utilisation_50_ms": ("least utilisation of 50 ms", lambda value: f"{value:.2f}"),
    "utilisation_200_ms": ("least utilisation of 200 ms", lambda value: f"{value:.2f}"),
    "steps": ("steps", lambda value: f"{value:.0f}"),
    "long_steps_share": ("long steps, share", lambda value: f"{value:.3f}"),
    **{name: (name, lambda value: f"{value:.3f}") for name in locality.METRICS},
    **{name: (name, lambda value: f"{value:.0f}") for name in collection.METRICS},
}


def estimate(value: Estimate) -> str:
    """A ratio with its interval."""
    if value.runs == 0 or math.isnan(value.value):
        return "no rounds to compare"
    if not math.isfinite(value.high):
        return f"{value.value:.3f}"
    return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]"


def write(results: ResultSet) -> Path:
    """Writes report.html and its PNG files into the result set; returns the page."""
    experiment, frame = _read(results)
    lines = analysis.lines_of(frame, experiment)
    drawings = _draw(results, experiment, frame, lines)
    text = template("page.html.j2", escape=True).render(
        **_figures(results, experiment, frame, lines),
        drawings=drawings,
        machines=results.machines(),
        runs=_runs(frame),
        source=results.experiment.read_text(),
    )
    page = results.path / "report.html"
    page.write_text(text, encoding="utf-8")
    return page


def markdown(results: ResultSet) -> str:
    """The tables of the report, for a page of documentation."""
    experiment, frame = _read(results)
    lines = analysis.lines_of(frame, experiment)
    return template("tables.md.j2", escape=False).render(
        **_figures(results, experiment, frame, lines),
        machines=results.machines(),
        started=frame["started"].min()[:10],
        baselines={
            (line.machine, line.group): line
            for line in lines
            if line.variant == experiment.statistics.baseline and not line.control
        },
    )


def _shown(experiment: Experiment, lines: list[analysis.Line]) -> list[str]:
    """The values whose medians are shown."""
    wanted = [*(set(UNITS) - set(DISTRIBUTION)), *experiment.statistics.shown]
    known = {name for line in lines for name in line.medians}
    return [name for name in UNITS if name in wanted and name in known]


def _read(results: ResultSet) -> tuple[Experiment, pd.DataFrame]:
    frame = results.table()
    if frame.empty:
        raise Failure(f"{results.path} has no runs yet: gleaner-lab resume {results.path}")
    return experiments.read(results.experiment), frame


def template(name: str, *, escape: bool) -> Template:
    """One of the templates beside this file."""
    environment = Environment(
        loader=PackageLoader("gleaner_lab.report"),
        autoescape=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["estimate"] = estimate
    return environment.get_template(name)


def _figures(
    results: ResultSet, experiment: Experiment, frame: pd.DataFrame, lines: list[analysis.Line]
) -> dict[str, Any]:
    """What both forms of the report show."""
    metrics = experiment.statistics.metrics
    by_metric = {metric: analysis.lines_of(frame, experiment, metric) for metric in metrics}
    return {
        "experiment": experiment,
        "variants": experiment.variants(),
        "judged": analysis.judge(frame, experiment, results.machines()),
        "lines": lines,
        "metrics": metrics,
        "ratios": {
            metric: {line.cell: line.ratio for line in found} for metric, found in by_metric.items()
        },
        "means": {
            metric: analysis.means_of(found, experiment) for metric, found in by_metric.items()
        },
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
        "beside": beside.tables(frame, experiment),
        "positions": positions.curves(frame, experiment),
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


def label(metric: str) -> str:
    """A metric as people call it, without its unit."""
    if metric.startswith("phase.") and metric.endswith("_s"):
        return f"{metric[6:-2]} phase"
    return UNITS[metric][0].split(",")[0] if metric in UNITS else metric


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


def _draw(
    results: ResultSet, experiment: Experiment, frame: pd.DataFrame, lines: list[analysis.Line]
) -> list[tuple[str, str]]:
    """The plots as (heading, SVG); PNG files of the same beside the page."""
    metric = experiment.statistics.metric
    found = []
    for machine in dict.fromkeys(line.machine for line in lines):
        part = [line for line in lines if line.machine == machine]
        figure = figures.ratios(part, experiment.statistics.baseline, label(metric))
        found.append((f"{label(metric)}, by workload", "ratios", figure))
    canary = analysis.drift_of(frame, metric)
    if len(canary) > 1:
        found.append(("The machine's own drift", "drift", figures.drift(canary, metric)))
    if accesses := positions.curves(frame, experiment):
        heading = "Accesses to arrays by position, after Figure 2 of PLDI 2010"
        found.append((heading, "positions", figures.positions(accesses)))
    drawings = []
    for number, (heading, name, figure) in enumerate(found, start=1):
        figures.save_png(figure, str(results.path / f"{number}-{name}.png"))
        drawings.append((heading, figures.svg(figure)))
        plt.close(figure)
    return drawings


def _runs(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Each run with its command, for readers who want to repeat or doubt it."""
    found = []
    for record in frame.to_dict("records"):
        values = {
            name.removeprefix("values."): value
            for name, value in record.items()
            if name.startswith("values.") and not pd.isna(value)
        }
        command = record.get("command")
        found.append(
            {
                "key": record["key"],
                "started": record["started"],
                "machine": record["machine"],
                "values": {name: values[name] for name in UNITS if name in values},
                "command": " ".join(json.loads(command)) if isinstance(command, str) else "",
            }
        )
    return found
