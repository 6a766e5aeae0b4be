"""From runs to figures: what a report shows, before it is drawn.

Runs of different machines are never put together: a group is a workload at a thread count and heap
size on one machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from gleaner_lab import statistics
from gleaner_lab.cells import cells_of
from gleaner_lab.experiment import Bar, Experiment
from gleaner_lab.statistics import Estimate, Verdict


@dataclass(frozen=True)
class Line:
    """One configuration in one group, beside the baseline."""

    machine: str
    group: str
    workload: str
    #: How many threads collect; None where the library decides.
    threads: int | None
    variant: str
    control: bool
    #: The mean of the metric, in its unit.
    mean: Estimate
    #: The mean over the baseline's mean.
    relative: Estimate
    #: The ratio of rounds to the baseline.
    ratio: Estimate
    #: The same of each round by itself.
    rounds: dict[int, float]
    #: Medians of the other values, by name.
    medians: dict[str, float]
    #: The keys of the runs that the figures are from.
    keys: tuple[str, ...]
    failed: int
    grey: bool

    @property
    def cell(self) -> str:
        """What names the line among all lines."""
        return f"{self.machine} {self.group}: {self.variant}{' again' if self.control else ''}"


def lines_of(frame: pd.DataFrame, experiment: Experiment, metric: str | None = None) -> list[Line]:
    """All lines, in the order of the experiment's file."""
    metric = metric or experiment.statistics.metric
    column = f"values.{metric}"
    if frame.empty or column not in frame:
        return []
    counted = frame[frame["canary"].isna() & ~frame["counted"]]
    found: list[Line] = []
    order = {group: number for number, group in enumerate(groups_of(experiment))}
    parts = sorted(counted.groupby(["machine", "group"]), key=lambda one: order[one[0][1]])
    for (machine, group), part in parts:
        plain = part[(part["variant"] == experiment.statistics.baseline) & ~part["control"]]
        base = plain.dropna(subset=[column])
        keys = part[["variant", "control"]].drop_duplicates().itertuples(index=False)
        for variant, control in sorted(keys, key=lambda key: _order(experiment, key)):
            runs = part[(part["variant"] == variant) & (part["control"] == control)]
            found.append(_line(str(machine), str(group), runs, base, column, experiment))
    return found


def groups_of(experiment: Experiment) -> list[str]:
    """The groups of an experiment, in the order of its file."""
    return list(dict.fromkeys(cell.group for cell in cells_of(experiment)))


def _order(experiment: Experiment, key: tuple[str, bool]) -> tuple[int, bool]:
    return list(experiment.variants()).index(key[0]), key[1]


def _line(
    machine: str,
    group: str,
    runs: pd.DataFrame,
    base: pd.DataFrame,
    column: str,
    experiment: Experiment,
) -> Line:
    rules = experiment.statistics
    good = runs.dropna(subset=[column])
    equal = f"values.{rules.equal}"
    must_equal = (
        rules.equal is not None
        and equal in good
        and experiment.is_of_baselines_library(str(runs["variant"].iloc[0]))
    )
    # A merge of all columns, some hundred, takes most of a report's time.
    needed = list(dict.fromkeys(["round", column, *([equal] if must_equal else [])]))
    pairs = good[needed].merge(base[needed], on="round", suffixes=("", " base"))
    if must_equal:
        pairs = pairs[pairs[equal] == pairs[f"{equal} base"]]
    ratio = statistics.paired_ratio(
        pairs[column].tolist(), pairs[f"{column} base"].tolist(), rules.confidence
    )
    known = pairs[(pairs[column] > 0) & (pairs[f"{column} base"] > 0)]
    ratios = known[column] / known[f"{column} base"]
    relative = statistics.relative_mean(
        good[column].tolist(), base[column].tolist(), rules.confidence
    )
    first = runs.iloc[0]
    values = [name for name in runs.columns if name.startswith("values.")]
    return Line(
        machine=machine,
        group=group,
        workload=str(first["workload"]),
        threads=None if pd.isna(first.get("threads")) else int(first["threads"]),
        variant=str(first["variant"]),
        control=bool(first["control"]),
        mean=statistics.mean_of(good[column].tolist(), rules.confidence),
        relative=relative,
        ratio=ratio,
        rounds=dict(zip(known["round"], ratios, strict=True)),
        medians={
            name.removeprefix("values."): float(median)
            for name, median in good[values].median().dropna().items()
        },
        keys=tuple(good["key"]),
        failed=len(runs) - len(good),
        grey=ratio.is_grey(rules.grey_above),
    )


@dataclass(frozen=True)
class Mean:
    """A configuration over all workloads."""

    machine: str
    variant: str
    control: bool
    ratio: Estimate
    workloads: int


def means_of(lines: list[Line], experiment: Experiment) -> list[Mean]:
    """Geometric means of the ratios, without the declared outliers."""
    counted = [line for line in lines if line.workload not in experiment.statistics.outliers]
    kinds = dict.fromkeys((line.machine, line.variant, line.control) for line in counted)
    found = []
    for machine, variant, control in kinds:
        ratios = [
            line.ratio.value
            for line in counted
            if (line.machine, line.variant, line.control) == (machine, variant, control)
            and line.ratio.runs > 0
        ]
        estimate = statistics.geometric_mean_of(ratios, experiment.statistics.confidence)
        found.append(Mean(machine, variant, control, estimate, len(ratios)))
    return found


@dataclass(frozen=True)
class Judged:
    """A bar and what came of it."""

    bar: Bar
    what: str
    estimate: Estimate
    verdict: Verdict


def judge(
    frame: pd.DataFrame,
    experiment: Experiment,
    machines: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Judged]:
    """Each bar, for each workload or for the mean; `machines` are the facts about those it ran on.

    Where a machine has fewer processors than a bar is about, what would violate it decides nothing.
    """
    found: list[Judged] = []
    for bar in experiment.bars:
        rows = _rows_of(bar, frame, experiment)
        if not rows:
            nothing = Verdict("undecided", "no runs")
            found.append(Judged(bar, "nothing", statistics.UNKNOWN, nothing))
        # More rounds do not narrow what differs from workload to workload.
        of = "workloads" if bar.of == "mean" else "rounds"
        rule = experiment.statistics.confidence
        is_ratio = bar.figure == "ratio"
        for machine, what, estimate in rows:
            verdict = statistics.judge(estimate, bar.below, bar.above, rule, of, is_ratio)
            has = (machines or {}).get(machine, {}).get("processors")
            if bar.processors and has and has < bar.processors and verdict.word == "violated":
                why = f"{verdict.reason} on {has} processors, and the bar is about {bar.processors}"
                verdict = replace(verdict, word="undecided", reason=why)
            found.append(Judged(bar, what, estimate, verdict))
    return found


def status_of(judged: list[Judged], failures: int) -> int:
    """The exit status: 1 when a run failed or a bar is violated, 3 when a bar is undecided."""
    words = {one.verdict.word for one in judged}
    if failures or "violated" in words:
        return 1
    return 3 if "undecided" in words else 0


def _rows_of(
    bar: Bar, frame: pd.DataFrame, experiment: Experiment
) -> list[tuple[str, str, Estimate]]:
    """The ratios or values that a bar is about, each with its machine and what it is of."""
    rows: list[tuple[str, str, Estimate]] = []
    for rival in bar.against or [experiment.statistics.baseline]:
        lines = lines_of(frame, experiment.with_baseline(rival), bar.metric)
        finished = {line.group for line in lines if line.variant == rival and line.mean.runs > 0}
        number = bar.threads
        with_threads = f", {number} thread{'s' if number > 1 else ''}" if number else ""
        whom = f"{with_threads} against {rival}" if bar.against else with_threads
        chosen = [
            line
            for line in lines
            if line.variant == bar.configuration
            and not line.control
            and line.workload in (bar.workloads or [line.workload])
            and bar.threads in (None, line.threads)
            and (line.group in finished or not bar.against)
        ]
        if bar.figure == "value":
            rows += [(line.machine, line.group, line.mean) for line in chosen]
        elif bar.of == "each":
            whom = f" against {rival}" if bar.against else ""
            rows += [(line.machine, f"{line.group}{whom}", line.ratio) for line in chosen]
        elif bar.of == "set":
            rule = experiment.statistics.confidence
            for machine in dict.fromkeys(line.machine for line in chosen):
                rounds = [line.rounds for line in chosen if line.machine == machine]
                mean = statistics.geometric_mean_of_set(rounds, rule)
                rows.append((machine, f"geometric mean of these {len(rounds)}{whom}", mean))
        else:
            rows += [
                (mean.machine, f"geometric mean of {mean.workloads}{whom}", mean.ratio)
                for mean in means_of(chosen, experiment)
            ]
    return rows


def failures_by_cell(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Each problem of each cell, with the number of runs that had it."""
    failures = failures_of(frame)
    if failures.empty:
        return []
    cells = failures["key"].str.rsplit(" | ", n=1).str[0]
    counts = failures.assign(cell=cells).groupby(["cell", "problem"], sort=False).size()
    return [
        {"cell": cell, "problem": problem, "runs": int(runs)}
        for (cell, problem), runs in counts.items()
    ]


def failures_of(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs that failed, with what is known of why."""
    if "problem" not in frame:
        return frame.iloc[0:0]
    return frame[frame["problem"].notna()]


def counts_of(frame: pd.DataFrame) -> tuple[list[str], list[dict[str, object]]]:
    """The names of the counters, and a row of counts for each counted run."""
    runs = frame[frame["counted"]]
    names = [name for name in frame.columns if name.startswith("counters.")]
    rows = []
    for record in runs.to_dict("records"):
        counts = {name: record[name] for name in names if pd.notna(record[name])}
        why = record.get("uncounted")
        rows.append(
            {
                "group": record["group"],
                "variant": record["variant"],
                "counts": {name.removeprefix("counters."): counts[name] for name in counts},
                "uncounted": why if isinstance(why, str) else None,
            }
        )
    return [name.removeprefix("counters.") for name in names], rows


def builds_of(frame: pd.DataFrame) -> list[str]:
    """The builds of Gleaner that the runs were made with."""
    return [str(name) for name in frame["build"].dropna().unique()] if "build" in frame else []


def differing_outputs(frame: pd.DataFrame) -> list[str]:
    """Workloads that did not print the same in all their runs."""
    if "output" not in frame:
        return []
    good = frame[frame["output"].notna()]
    kinds = good.groupby("workload")["output"].nunique()
    return [str(name) for name in kinds[kinds > 1].index]


def drift_of(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The canary's runs in time: start and metric over its median."""
    column = f"values.{metric}"
    if frame.empty or column not in frame:
        return pd.DataFrame(columns=["started", "relative"])
    runs = frame[frame["canary"].notna()].dropna(subset=[column])
    return pd.DataFrame(
        {
            "started": pd.to_datetime(runs["started"]),
            "relative": runs[column] / runs[column].median(),
        }
    )
