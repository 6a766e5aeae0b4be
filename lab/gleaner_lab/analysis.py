"""From runs to figures: what a report shows, before it is drawn.

Runs of different machines are never put together: a group is a workload at a thread count and heap
size on one machine. `Grouped` sorts the runs of an experiment once; every figure is taken from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from gleaner_lab import statistics
from gleaner_lab.cells import cells_of
from gleaner_lab.experiment import Bar, Experiment
from gleaner_lab.statistics import Estimate, Verdict
from gleaner_lab.units import is_more_better

#: What names a cell in the table of the runs: machine, group, configuration, whether a control.
Cell = tuple[str, str, str, bool]
CELL = ["machine", "group", "variant", "control"]


@dataclass(frozen=True)
class Line:
    """One configuration in one group, beside the baseline."""

    metric: str
    machine: str
    group: str
    workload: str
    #: How many threads collect; None where the library decides.
    threads: int | None
    variant: str
    control: bool
    #: The metric by round, in its unit.
    values: dict[int, float]
    #: Their mean.
    mean: Estimate
    #: The ratio of rounds to the baseline.
    ratio: Estimate
    #: The same of each round by itself.
    rounds: dict[int, float]
    #: Medians of all values, by name.
    medians: dict[str, float]
    failed: int
    grey: bool

    @property
    def cell(self) -> str:
        """What names the line among all lines."""
        return f"{self.machine} {self.group}: {self.name}"

    @property
    def name(self) -> str:
        """The configuration, as it is named in its group."""
        return f"{self.variant}{' again' if self.control else ''}"


class Grouped:
    """The runs that count, by cell and by round."""

    def __init__(self, frame: pd.DataFrame, experiment: Experiment):
        self.frame = frame
        self.experiment = experiment
        self._lines: dict[tuple[str, str], list[Line]] = {}
        self._by_round: dict[str, np.ndarray] = {}
        self._libraries = {name: one.library for name, one in experiment.variants().items()}
        if frame.empty:
            self.runs, self.cells, self.at = frame, [], {}
            return
        self.runs = frame[frame["canary"].isna() & ~frame["counted"]]
        # For each run its cell, in the order in which cells appear first, and its round.
        self.codes = self.runs.groupby(CELL, sort=False).ngroup().to_numpy()
        self.numbers = self.runs["round"].to_numpy(dtype=int)
        firsts = self.runs.drop_duplicates(CELL)
        self.cells = list(firsts[CELL].itertuples(index=False, name=None))
        self.at = {cell: number for number, cell in enumerate(self.cells)}
        self._firsts = firsts.reindex(columns=["workload", "threads"]).to_dict("records")
        self._counts = np.bincount(self.codes, minlength=len(self.cells))
        names = [name for name in self.runs.columns if name.startswith("values.")]
        medians = self.runs[names].astype(float).groupby(self.codes).median()
        medians.columns = [name.removeprefix("values.") for name in names]
        self._medians = [
            {name: value for name, value in record.items() if not np.isnan(value)}
            for record in medians.to_dict("records")
        ]

    def by_round(self, metric: str) -> np.ndarray:
        """The metric of each cell in each round; not a number where it is not known."""
        if metric not in self._by_round:
            found = np.full((len(self.cells), int(self.numbers.max()) + 1), np.nan)
            if f"values.{metric}" in self.runs:
                column = self.runs[f"values.{metric}"]
                found[self.codes, self.numbers] = column.to_numpy(dtype=float)
            self._by_round[metric] = found
        return self._by_round[metric]

    def lines(self, metric: str | None = None, baseline: str | None = None) -> list[Line]:
        """All lines, in the order of the experiment's file."""
        rules = self.experiment.statistics
        metric, baseline = metric or rules.metric, baseline or rules.baseline
        if not self.cells or f"values.{metric}" not in self.runs:
            return []
        if (metric, baseline) not in self._lines:
            self._lines[metric, baseline] = self._made(metric, baseline)
        return self._lines[metric, baseline]

    def _made(self, metric: str, baseline: str) -> list[Line]:
        values = self.by_round(metric)
        found = []
        for cell in self._ordered():
            base = (*cell[:2], baseline, False)
            ratios = self._ratios(values, cell, base) if base in self.at else {}
            found.append(self._line(metric, cell, values[self.at[cell]], ratios))
        return found

    def _ratios(self, values: np.ndarray, cell: Cell, base: Cell) -> dict[int, float]:
        """The ratio of each round that may be compared: rounds without time have none."""
        one, other = self.at[cell], self.at[base]
        known = (values[one] > 0) & (values[other] > 0)
        equal = self.experiment.statistics.equal
        if equal is not None and self._libraries[cell[2]] == self._libraries[base[2]]:
            counts = self.by_round(equal)
            known &= counts[one] == counts[other]
        return {
            int(number): float(values[one, number] / values[other, number])
            for number in np.flatnonzero(known)
        }

    def _line(self, metric: str, cell: Cell, values: np.ndarray, ratios: dict[int, float]) -> Line:
        rules, number = self.experiment.statistics, self.at[cell]
        good = {int(one): float(values[one]) for one in np.flatnonzero(~np.isnan(values))}
        ratio = statistics.ratio_of_rounds(list(ratios.values()), rules.confidence)
        first = self._firsts[number]
        threads = first["threads"]
        return Line(
            metric=metric,
            machine=str(cell[0]),
            group=str(cell[1]),
            workload=str(first["workload"]),
            threads=None if pd.isna(threads) else int(threads),
            variant=str(cell[2]),
            control=bool(cell[3]),
            values=good,
            mean=statistics.mean_of(list(good.values()), rules.confidence),
            ratio=ratio,
            rounds=ratios,
            medians=self._medians[number],
            failed=int(self._counts[number]) - len(good),
            grey=ratio.is_grey(rules.grey_above),
        )

    def _ordered(self) -> list[Cell]:
        """The cells in the order of the experiment's file."""
        groups = {group: number for number, group in enumerate(groups_of(self.experiment))}
        variants = {name: number for number, name in enumerate(self.experiment.variants())}
        place = lambda cell: (groups[cell[1]], cell[0], variants[cell[2]], cell[3])  # noqa: E731
        return sorted(self.cells, key=place)

    def judged(self, machines: Mapping[str, Mapping[str, Any]] | None = None) -> list[Judged]:
        """Each bar, for each workload or for the mean; see `judge`."""
        found: list[Judged] = []
        for bar in self.experiment.bars:
            rows = _rows_of(bar, self)
            if not rows:
                nothing = Verdict("undecided", "no runs")
                found.append(Judged(bar, "nothing", statistics.UNKNOWN, nothing))
            found += [_judged(row, self.experiment, machines or {}) for row in rows]
        return found


def lines_of(frame: pd.DataFrame, experiment: Experiment, metric: str | None = None) -> list[Line]:
    """All lines, in the order of the experiment's file."""
    return Grouped(frame, experiment).lines(metric)


def groups_of(experiment: Experiment) -> list[str]:
    """The groups of an experiment, in the order of its file."""
    return list(dict.fromkeys(cell.group for cell in cells_of(experiment)))


@dataclass(frozen=True)
class Mean:
    """The geometric mean of the ratios of one configuration, and what carries it."""

    machine: str
    variant: str
    control: bool
    #: With the interval of the spread over its members: what others of the kind might show.
    ratio: Estimate
    #: With the interval of rounds: what more rounds of these might show.
    of_rounds: Estimate
    #: The lines that have a ratio.
    members: tuple[Line, ...]
    confidence: float

    @classmethod
    def of(cls, lines: Sequence[Line], confidence: float) -> Mean:
        """The mean over lines of one configuration on one machine."""
        members = tuple(line for line in lines if line.ratio.runs > 0)
        ratios = [line.ratio.value for line in members]
        return cls(
            lines[0].machine,
            lines[0].variant,
            lines[0].control,
            statistics.geometric_mean_of(ratios, confidence),
            statistics.geometric_mean_of_set([line.rounds for line in members], confidence),
            members,
            confidence,
        )

    @property
    def workloads(self) -> int:
        """How many ratios it is over."""
        return len(self.members)

    @property
    def worst(self) -> Line:
        """The member that speaks most against the configuration."""
        choose = min if is_more_better(self.members[0].metric) else max
        return choose(self.members, key=lambda line: line.ratio.value)

    @property
    def carrier(self) -> Line:
        """The member that takes the mean furthest to the side of 1 on which it lies."""
        choose = min if self.ratio.value < 1 else max
        return choose(self.members, key=lambda line: line.ratio.value)

    @property
    def without_carrier(self) -> Mean | None:
        """The mean once more without that member; none where nothing would be left to average."""
        if len(self.members) < 2:
            return None
        carrier = self.carrier
        return Mean.of([line for line in self.members if line is not carrier], self.confidence)


def means_of(lines: Sequence[Line], experiment: Experiment) -> list[Mean]:
    """Geometric means of the ratios, without the declared outliers."""
    kinds: dict[tuple[str, str, bool], list[Line]] = {}
    for line in lines:
        if line.workload not in experiment.statistics.outliers:
            kinds.setdefault((line.machine, line.variant, line.control), []).append(line)
    return [Mean.of(part, experiment.statistics.confidence) for part in kinds.values()]


@dataclass(frozen=True)
class Judged:
    """A bar and what came of it."""

    bar: Bar
    what: str
    estimate: Estimate
    verdict: Verdict
    machine: str = ""
    #: Of a bar about a mean, the mean.
    mean: Mean | None = field(default=None, repr=False)

    @property
    def over(self) -> str:
        """What the interval is over."""
        return _over(self.bar)


def judge(
    frame: pd.DataFrame,
    experiment: Experiment,
    machines: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Judged]:
    """Each bar, for each workload or for the mean; `machines` are the facts about those it ran on.

    Where a machine has fewer processors than a bar is about, what would violate it decides nothing.
    """
    return Grouped(frame, experiment).judged(machines)


def status_of(judged: list[Judged], failures: int) -> int:
    """The exit status: 1 when a run failed or a bar is violated, 3 when a bar is undecided."""
    words = {one.verdict.word for one in judged}
    if failures or "violated" in words:
        return 1
    return 3 if "undecided" in words else 0


@dataclass(frozen=True)
class _Row:
    """What a bar is about in one place."""

    bar: Bar
    machine: str
    what: str
    estimate: Estimate
    mean: Mean | None = None


def _over(bar: Bar) -> str:
    """What an interval is over: more rounds do not narrow what differs between workloads."""
    return "workloads" if bar.of == "mean" else "rounds"


def _judged(row: _Row, experiment: Experiment, machines: Mapping[str, Mapping[str, Any]]) -> Judged:
    bar, rule = row.bar, experiment.statistics.confidence
    is_ratio = bar.figure == "ratio"
    verdict = statistics.judge(row.estimate, bar.below, bar.above, rule, _over(bar), is_ratio)
    has = machines.get(row.machine, {}).get("processors")
    if bar.processors and has and has < bar.processors and verdict.word == "violated":
        why = f"{verdict.reason} on {has} processors, and the bar is about {bar.processors}"
        verdict = replace(verdict, word="undecided", reason=why)
    return Judged(bar, row.what, row.estimate, verdict, row.machine, row.mean)


def _rows_of(bar: Bar, grouped: Grouped) -> list[_Row]:
    """The ratios or values that a bar is about, each with its machine and what it is of."""
    rows: list[_Row] = []
    number = bar.threads
    with_threads = f", {number} thread{'s' if number > 1 else ''}" if number else ""
    for rival in bar.against or [grouped.experiment.statistics.baseline]:
        chosen = _chosen(bar, grouped.lines(bar.metric, rival), rival)
        whom = f" against {rival}" if bar.against else ""
        if bar.figure == "value":
            rows += [_Row(bar, line.machine, line.group, line.mean) for line in chosen]
        elif bar.of == "each":
            rows += [_Row(bar, line.machine, f"{line.group}{whom}", line.ratio) for line in chosen]
        else:
            outliers = grouped.experiment.statistics.outliers if bar.of == "mean" else ()
            chosen = [line for line in chosen if line.workload not in outliers]
            rows += _means(bar, chosen, f"{with_threads}{whom}", grouped.experiment)
    return rows


def _chosen(bar: Bar, lines: list[Line], rival: str) -> list[Line]:
    """The lines that a bar is about; of a rival those that it finishes."""
    finished = {line.group for line in lines if line.variant == rival and line.mean.runs > 0}
    return [
        line
        for line in lines
        if line.variant == bar.configuration
        and not line.control
        and line.workload in (bar.workloads or [line.workload])
        and bar.threads in (None, line.threads)
        and (line.group in finished or not bar.against)
    ]


def _means(bar: Bar, lines: list[Line], of: str, experiment: Experiment) -> list[_Row]:
    """The mean over lines on each machine, over all of a set or over those with a ratio."""
    rows = []
    for machine in dict.fromkeys(line.machine for line in lines):
        part = [line for line in lines if line.machine == machine]
        mean = Mean.of(part, experiment.statistics.confidence)
        if bar.of == "mean":
            what, estimate = f"geometric mean of {mean.workloads}", mean.ratio
        else:
            what = f"geometric mean of these {len(part)}"
            estimate = mean.of_rounds if len(part) == mean.workloads else statistics.UNKNOWN
        rows.append(_Row(bar, machine, f"{what}{of}", estimate, mean))
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
