"""The evaluation of the ASPLOS 2013 paper from our own counts: its tables, figures and findings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gleaner_lab import papers
from gleaner_lab.failure import Failure
from gleaner_lab.numa import MODELLED, findings
from gleaner_lab.numa.evidence import (
    BOUND,
    COUNTED,
    ONCE,
    QUEUED,
    THREADS,
    TIMED,
    Evidence,
    Samples,
    ratio,
)
from gleaner_lab.report import figures
from gleaner_lab.report.modelled import Page, Table, intervals, parameters, printed

NO_DATA = "no data"
#: The paper's applications and the workloads that stand for them here.
NEAREST = {
    "SPECjbb": "jbb",
    "XML Transform": "xml",
    "Tradesoap": "tiny",
    "Compiler.Sunflow": "render",
    "Crypto AES": "cipher",
}
#: Those of which the paper looks at each optimisation.
CHOSEN = ("jbb", "xml", "tiny")
#: The paper's space types, and the configurations that have them.
SPACES = {
    "Parallel Scavenge": "baseline",
    "Interleaved": "interleaved",
    "Fragmented": "fragmented",
    "Segregated": "segregated",
}
#: Rows of Table 4.
PLACED = (
    "imbalance.eden",
    "imbalance.survivor",
    "imbalance.old",
    "non-locality.scanned_young",
    "non-locality.scanned",
    "non-locality.copied_from",
    "non-locality.copied",
    "non-locality.promoted",
    "non-locality.updated",
)
#: In Table 2 a policy balances below the first of these imbalances, and not from the second on; its
#: collections are local below the first of these non-localities, and not from the second on.
BALANCED, UNBALANCED = 0.1, 0.7
LOCAL, REMOTE = 0.1, 0.5


@dataclass(frozen=True)
class Measure:
    """What a figure of the paper plots against collecting threads."""

    name: str
    title: str
    unit: str
    #: From the base unit to that.
    scale: float
    #: By workload, configuration and threads.
    model: Callable[[Evidence, str, str, int], Samples]


MEASURES = {
    "throughput": Measure("throughput", "GC throughput", "GB/s", 1e-9, Evidence.throughput),
    "completion": Measure("completion", "Completion time", "s", 1, Evidence.completion),
    "application": Measure(
        "application",
        "Application time",
        "s",
        1,
        lambda evidence, workload, configuration, _: evidence.application(workload, configuration),
    ),
    "pause": Measure("pause", "Mean pause", "ms", 1e3, Evidence.pause),
}


def page(evidence: Evidence, command: str) -> Page:
    """All of it."""
    chosen = [name for name in CHOSEN if name in evidence.workloads]
    pair = tuple(TIMED)
    drawn = {
        "figure-4": ("throughput", chosen, COUNTED),
        "figure-5": ("completion", chosen, COUNTED),
        "figure-6": ("application", [name for name in chosen if name == "xml"], COUNTED),
        "figure-7": ("throughput", evidence.workloads, pair),
    }
    return Page(
        "findings",
        "The evaluation of ASPLOS 2013 on our own workloads",
        [
            "No machine with eight nodes was measured. What workers did by memory node and with "
            "each other was counted on a synthetic topology, and the model of the paper's machine "
            "gives times for these counts (lab/README.md). Captions and plots say which is which.",
            "GC throughput is bytes allocated over the time of all collections; application time "
            "is run time minus pauses. Modelled collections are scavenges; their processor time is "
            "fitted to the copying phases of all runs with one collecting thread on this host. "
            "Modelled application time knows only the lines that mutators allocate, and none is "
            "given for an eden that fits into a cache.",
            f"The model's parameters are intervals (the last table). A modelled statement is tried "
            f"at {evidence.points} points of them, and holds at a point when all rounds and both "
            "of the model's times say so. Its verdict names the part of the intervals where it "
            "holds, if one parameter decides that. Tables and plots are those of the middle of all "
            "intervals. A counted or measured statement is undecided when its rounds differ. "
            "Bounds are set in lab/papers/naps-findings.yaml.",
            "The paper's applications have other workloads here: "
            + ", ".join(f"{ours} for {theirs}" for theirs, ours in NEAREST.items())
            + ".",
        ],
        [
            _findings(evidence),
            _table_4(evidence),
            printed("naps-table-4"),
            _table_2(evidence),
            printed("naps-table-2"),
            _table_5(evidence),
            *(_modelled(evidence, MEASURES[name]) for name in MEASURES),
            _limits(evidence),
            _measured(evidence),
            _host(evidence),
            intervals(),
            parameters(evidence.machine),
        ],
        {
            name: _draw(evidence, name, MEASURES[what], workloads, configurations)
            for name, (what, workloads, configurations) in drawn.items()
            if workloads
        },
        command,
        f"counted and {MODELLED}",
    )


def _findings(evidence: Evidence) -> Table:
    rows = []
    for one in findings.findings(evidence):
        said = one.statement
        theirs = "a direction only" if said.figure is None else said.shown(said.figure)
        rows.append(
            [said.section, said.says, theirs, one.ours, said.shown_bounds, one.verdict, one.reason]
        )
    head = ["section", "the paper says", "its figure", "ours", "holds if", "verdict", "from"]
    caption = "The paper's findings (counted, measured or modelled: last column)"
    return Table("statements", caption, head, rows)


def _table_4(evidence: Evidence) -> Table:
    rows = []
    for metric in PLACED:
        for configuration in COUNTED:
            cells = [
                _text(lambda: evidence.values(one, configuration, metric), "{:.2f}".format)  # noqa: B023
                for one in evidence.workloads
            ]
            if any(cell != NO_DATA for cell in cells):
                rows.append([*metric.split("."), configuration, *cells])
    head = ["figure", "of", "configuration", *evidence.workloads]
    return Table("table-4", "Table 4 of our runs, means over rounds (counted)", head, rows)


def _table_2(evidence: Evidence) -> Table:
    """Signs by the median over workloads, with the range."""
    rows = []
    for space, configuration in SPACES.items():
        metric = lambda name, one: evidence.values(one, configuration, name)  # noqa: B023, E731
        eden = _signed(evidence, lambda one: metric("imbalance.eden", one), BALANCED, UNBALANCED)  # noqa: B023
        rows.append([space, eden, *["not counted"] * 3])
        for rule in (
            lambda one: metric("non-locality.scanned_young", one),  # noqa: B023
            lambda one: metric("non-locality.copied", one),  # noqa: B023
            lambda one: evidence.remote_old_scans(one, configuration),  # noqa: B023
            lambda one: metric("non-locality.promoted", one),  # noqa: B023
        ):
            rows[-1].append(_signed(evidence, rule, LOCAL, REMOTE))
    head = [column.replace("_", " ") for column in papers.read("naps-table-2").rows.columns[:-1]]
    caption = "Table 2 of our runs: sign by the median over workloads, and range (counted)"
    return Table("table-2", caption, [*head, "old scan", "old copy"], rows)


def _signed(evidence: Evidence, rule: Callable[[str], Samples], good: float, bad: float) -> str:
    found = []
    for workload in evidence.workloads:
        try:
            found.append(_mean(rule(workload), ONCE))
        except Failure:
            continue
    if not found:
        return NO_DATA
    middle = statistics.median(found)
    sign = "+" if middle < good else "-" if middle >= bad else "~"
    return f"{sign} ({min(found):.2f} to {max(found):.2f})"


def _table_5(evidence: Evidence) -> Table:
    """Mean pauses at the most threads, beside the paper's."""
    most = THREADS[-1]
    theirs = papers.read("naps-table-5").rows.set_index("application")
    stand_ins = {ours: name for name, ours in NEAREST.items()}
    rows = []
    for workload in evidence.workloads:
        both = [
            _text(lambda: evidence.pause(workload, one, most), _milliseconds, BOUND, QUEUED)  # noqa: B023
            for one in TIMED
        ]
        shorter = _text(
            lambda: ratio(*(evidence.pause(workload, one, most) for one in TIMED)),  # noqa: B023
            "{:.2f}".format,
            BOUND,
            QUEUED,
        )
        name = stand_ins.get(workload, "")
        paper = ["", ""]
        if name in theirs.index:
            baseline, naps = theirs.loc[name, "parallel_scavenge_ms"], theirs.loc[name, "naps_ms"]
            paper = [f"{name}: {baseline:g} to {naps:g}", f"{baseline / naps:.2f}"]
        rows.append([workload, *both, shorter, *paper])
    head = ["workload", *(f"{one}, ms" for one in TIMED), "times shorter", "the paper's, ms", ""]
    caption = f"Table 5: mean pause, {most} collecting threads; bound (with queues)"
    return Table("table-5", f"{caption} ({MODELLED})", head, rows)


def _modelled(evidence: Evidence, measure: Measure) -> Table:
    """A figure for all threads. The application's time does not depend on them."""
    is_flat = measure.name == "application"
    threads = THREADS[-1:] if is_flat else THREADS
    rows = []
    for workload in evidence.workloads:
        for configuration in COUNTED:
            if not evidence.has(workload, configuration):
                continue
            cells = [
                _text(
                    lambda: measure.model(evidence, workload, configuration, one),  # noqa: B023
                    lambda value: f"{value * measure.scale:.3g}",
                    BOUND,
                    QUEUED,
                )
                for one in threads
            ]
            rows.append([workload, configuration, *cells])
    by = "with any number of" if is_flat else "by"
    caption = f"{measure.title}, {measure.unit}, {by} collecting threads; bound (with queues)"
    head = ["workload", "configuration", *([measure.unit] if is_flat else map(str, threads))]
    return Table(measure.name, f"{caption} ({MODELLED})", head, rows)


def _measured(evidence: Evidence) -> Table:
    rows = []
    for workload in evidence.workloads:
        for name, forms in TIMED.items():
            for threads, form in forms.items():
                if evidence.has(workload, form):
                    rows.append([workload, name, str(threads), *_took(evidence, workload, form)])
    units = [f"{one.title}, {one.unit}" for one in MEASURES.values()]
    head = ["workload", "configuration", "threads", *units]
    return Table("host", "Times on this host, whose memory is all near (measured)", head, rows)


def _took(evidence: Evidence, workload: str, configuration: str) -> list[str]:
    try:
        found = evidence.measured(workload, configuration)
    except Failure:
        return [NO_DATA] * len(MEASURES)
    return [f"{_mean(found[one.name], ONCE) * one.scale:.3g}" for one in MEASURES.values()]


def _limits(evidence: Evidence) -> Table:
    """What the parallel part waits for, with the most threads."""
    most, columns = THREADS[-1], [one for one in COUNTED if _is_there(evidence, one)]
    rows = []
    for workload in evidence.workloads:
        cells = []
        for configuration in columns:
            try:
                times = evidence.times(workload, configuration, most)
                cells.append(", ".join(dict.fromkeys(one.limit for one in times.values())))
            except Failure:
                cells.append(NO_DATA)
        rows.append([workload, *cells])
    caption = f"What {most} collecting threads wait for, by the bound ({MODELLED})"
    return Table("limits", caption, ["workload", *columns], rows)


def _is_there(evidence: Evidence, configuration: str) -> bool:
    """Whether any workload ran under it."""
    return any(evidence.has(workload, configuration) for workload in evidence.workloads)


def _host(evidence: Evidence) -> Table:
    """The fit to all workloads, and to all but one."""
    head = ["fitted to", "ns for a scanned object", "ns for a phase"]
    try:
        hosts = evidence.hosts()
    except Failure as failure:
        return Table("costs", f"Processor time on this host ({MODELLED})", head, [[str(failure)]])
    labels = ["all workloads", *(f"all but {workload}" for workload, *_ in evidence.alone())]
    rows = [
        [label, f"{host.object_ns:.3g}", f"{host.phase_ns:.3g}"]
        for label, host in zip(labels, hosts, strict=False)
    ]
    caption = "Processor time of one collecting thread on this host, beside its memory"
    return Table("costs", f"{caption} ({MODELLED})", head, rows)


def _draw(
    evidence: Evidence,
    name: str,
    measure: Measure,
    workloads: list[str],
    configurations: tuple[str, ...],
) -> figures.Figure:
    """Curves of the model, and points of this host where a configuration has timed forms."""
    panels: dict[str, list[figures.Series]] = {}
    for workload in workloads:
        panels[workload] = []
        for configuration in configurations:
            curve, dotted = (
                _curve(evidence, measure, workload, configuration, estimate)
                for estimate in (BOUND, QUEUED)
            )
            points = {}
            for threads, form in TIMED.get(configuration, {}).items():
                try:
                    found = evidence.measured(workload, form)[measure.name]
                except Failure:
                    continue
                points[threads] = _mean(found, ONCE) * measure.scale
            series = figures.Series(configuration, curve, dotted, points)
            panels[workload].append(series)
    title = f"{name.replace('-', ' ').capitalize()}: {measure.title}"
    return figures.against_threads(panels, title, f"{measure.unit} ({MODELLED})", THREADS)


def _curve(
    evidence: Evidence, measure: Measure, workload: str, configuration: str, estimate: str
) -> dict[int, float]:
    found = {}
    for threads in THREADS:
        try:
            samples = measure.model(evidence, workload, configuration, threads)
        except Failure:
            continue
        found[threads] = _mean(samples, estimate) * measure.scale
    return found


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


def _mean(samples: Samples, estimate: str) -> float:
    """The mean over rounds; NaN if there is none."""
    found = [value for (_, which), value in samples.items() if which == estimate]
    return statistics.fmean(found) if found else math.nan


def _text(
    rule: Callable[[], Samples],
    show: Callable[[float], str],
    estimate: str = ONCE,
    other: str | None = None,
) -> str:
    """The mean over rounds, that by another estimate in parentheses; or that there is none."""
    try:
        samples: Mapping[tuple[int, str], float] = rule()
    except Failure:
        return NO_DATA
    means = [_mean(samples, one) for one in (estimate, other) if one is not None]
    if any(math.isnan(mean) for mean in means):
        return NO_DATA
    first, *rest = map(show, means)
    return first + "".join(f" ({one})" for one in rest)
