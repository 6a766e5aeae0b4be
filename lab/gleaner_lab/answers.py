"""What an experiment answers: one sentence for each question, with its verdict.

A question is how much of a metric one configuration takes beside the baseline, or whether a bar is
met. All figures are those of `analysis`: the sentence of a page and of the terminal says in words
what the tables say in numbers. A geometric mean names its worst member, and is given once more
without the member that carries it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gleaner_lab import units
from gleaner_lab.analysis import Grouped, Judged, Line, Mean
from gleaner_lab.statistics import MOST_ROUNDS, Estimate, rounds_to_decide

#: What the answer about one case says besides the metric that counts, where it is known.
BESIDES = ("total_pause_s", "longest_pause_s", "peak_kb")
#: How far rounds of the baseline differ from its own at most on a quiet machine, and on one whose
#: rounds still tell something. The advisor calls a machine restless from the same scatter on.
QUIET, RESTLESS = 1.10, 1.25
#: So many of a hundred rounds of the baseline lie in the span that its noise is told by.
SPAN = (5, 95)
#: Cases that a sentence names of those that violate a bar, or do not decide it.
NAMED = 3


@dataclass(frozen=True)
class Noise:
    """How far the baseline's rounds differ from the baseline's own (A/A)."""

    low: float
    high: float
    rounds: int

    @property
    def word(self) -> Literal["quiet", "restless", "busy", "unknown"]:
        """What the span says of the machine."""
        if self.rounds < 2:
            return "unknown"
        far = max(self.high, 1 / self.low)
        return "quiet" if far <= QUIET else "restless" if far <= RESTLESS else "busy"

    @property
    def span(self) -> str:
        """The span in words."""
        return f"A/A spans {number(self.low)} to {number(self.high)}"

    @property
    def shown(self) -> str:
        """The end of a sentence about the metric that counts, which the machine is named by."""
        words = {
            "unknown": "noise unknown",
            "quiet": "quiet machine",
            "restless": f"restless machine ({self.span})",
            "busy": f"machine too busy ({self.span})",
        }
        return words[self.word]

    @property
    def of_metric(self) -> str:
        """The end of a sentence about another metric, whose noise is its own."""
        return "noise unknown" if self.word == "unknown" else f"its {self.span}"

    @property
    def sentence(self) -> str:
        """What it means, with the remedy."""
        match self.word:
            case "unknown":
                return "The baseline's noise is unknown: it takes two rounds or more."
            case "quiet":
                return f"The machine is quiet: {self.span}."
            case "restless":
                return f"The machine is restless: {self.span}. More rounds narrow the intervals."
            case "busy":
                return (
                    f"This machine is too busy: {self.span}. End what else runs, and run the "
                    "experiment again."
                )


@dataclass(frozen=True)
class Value:
    """A median of the configuration and of the baseline, each with its unit."""

    what: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class Row:
    """What a plot shows in one line: an estimate, and the members of a mean."""

    name: str
    estimate: Estimate
    members: tuple[float, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What the runs say of one question."""

    question: str
    sentence: str
    verdict: Literal["less", "more", "met", "violated", "undecided"]
    #: How many rounds there are, and how many would decide; what is decided needs no more, and what
    #: no number of rounds decides has none.
    rounds: int
    needed: int | None
    values: tuple[Value, ...]
    rows: tuple[Row, ...]
    metric: str
    machine: str
    is_bar: bool = False
    #: What the interval is over.
    over: str = "rounds"

    @property
    def further(self) -> str:
        """What it would take to decide; nothing if it is decided."""
        if self.verdict != "undecided":
            return ""
        if self.rounds == 0:
            return ""
        if self.rounds == 1:
            return f"A second {self.over.removesuffix('s')} would give an interval."
        if self.needed is None:
            return f"More than {MOST_ROUNDS} {self.over} would decide."
        return f"About {self.needed} {self.over} would decide."


def answers(
    grouped: Grouped, machines: Mapping[str, Mapping[str, Any]] | None = None
) -> list[Answer]:
    """All answers: of each metric each configuration, then the bars."""
    found = []
    metrics = grouped.experiment.statistics.metrics
    for metric in metrics:
        noises = noises_of(grouped, metric)
        for lines in _by_configuration(grouped, metric):
            if metric == metrics[0] or len(lines) > 1:
                found.append(_answer(grouped, lines, noises, machines or {}))
    return found + bars(grouped.judged(machines), grouped, machines or {})


def noises_of(grouped: Grouped, metric: str | None = None) -> dict[str, Noise]:
    """The noise of a metric, of the one that counts if none is named, by machine."""
    found: dict[str, list[float]] = {}
    for line in grouped.lines(metric):
        ratios = found.setdefault(line.machine, [])
        if line.control:
            ratios.extend(line.rounds.values())
    return {machine: _noise(ratios) for machine, ratios in found.items()}


def _noise(ratios: Sequence[float]) -> Noise:
    if not ratios:
        return Noise(math.nan, math.nan, 0)
    low, high = np.percentile(ratios, SPAN)
    return Noise(float(low), float(high), len(ratios))


def _by_configuration(grouped: Grouped, metric: str) -> Iterable[list[Line]]:
    """The lines of each configuration but the baseline on each machine, outliers left out."""
    rules = grouped.experiment.statistics
    found: dict[tuple[str, str], list[Line]] = {}
    for line in grouped.lines(metric):
        is_other = not line.control and line.variant != rules.baseline
        if is_other and line.workload not in rules.outliers:
            found.setdefault((line.machine, line.variant), []).append(line)
    return found.values()


def _answer(
    grouped: Grouped,
    lines: list[Line],
    noises: Mapping[str, Noise],
    machines: Mapping[str, Mapping[str, Any]],
) -> Answer:
    """How much of a metric a configuration takes beside the baseline."""
    rules, first = grouped.experiment.statistics, lines[0]
    mean = Mean.of(lines, rules.confidence)
    is_one = len(mean.members) == 1
    whole = mean.members[0].ratio if is_one else mean.of_rounds
    besides = _besides(grouped, mean.members[0]) if is_one else []
    text = f"{first.variant} has no round to compare with {rules.baseline}"
    if mean.members:
        noise = noises.get(first.machine, _noise([]))
        missing = len(lines) - len(mean.members)
        text = _takes(mean, whole, rules.baseline, besides)
        text += f", and no ratio in {_counted(missing, 'case')}" if missing else ""
        said = noise.shown if first.metric == rules.metrics[0] else noise.of_metric
        text += f"; {_counted(whole.runs, 'round')}, {said}"
    needed = rounds_to_decide(whole, 1.0, rules.confidence) if whole.side == "undecided" else None
    return Answer(
        question=_question(first),
        sentence=f"{_where(first.machine, machines)}{text}.",
        verdict=whole.side,
        rounds=whole.runs,
        needed=needed,
        values=_values(grouped, mean, besides),
        rows=_rows(first.variant, mean, whole, besides),
        metric=first.metric,
        machine=first.machine,
    )


def _question(line: Line) -> str:
    verb = "have" if units.is_more_better(line.metric) else "take"
    return f"How much {units.spoken(line.metric)} does {line.variant} {verb}?"


def _takes(mean: Mean, whole: Estimate, baseline: str, besides: Sequence[Line]) -> str:
    """The ratio in words, and what else one case takes, or over what a mean is."""
    metric = mean.members[0].metric
    is_taken = metric.endswith(("_s", "_kb", "_bytes")) and not units.is_more_better(metric)
    verb = "takes" if is_taken else "has"
    text = f"{mean.variant} {verb} {number(whole.value)} of {baseline}'s {units.spoken(metric)}"
    of = _and(besides) if len(mean.members) == 1 else f" in {of_mean(mean)}"
    return f"{text}{interval(whole)}{of}"


def of_mean(mean: Mean) -> str:
    """Over what a mean is, its worst member, and the mean without the member that carries it."""
    workloads = len({line.workload for line in mean.members})
    text = f"the geometric mean of {_counted(workloads, 'workload')}"
    if workloads < len(mean.members):
        text += f" in {_counted(len(mean.members), 'case')}"
    return f"{text} ({what_carries(mean)})"


def what_carries(mean: Mean, over: str = "rounds") -> str:
    """The worst member of a mean, and the mean without the member that carries it."""
    rest = mean.without_carrier
    if rest is None:
        return ""
    worst, left = mean.worst, rest.of_rounds if over == "rounds" else rest.ratio
    text = f"worst {_name(worst, mean)}: {number(worst.ratio.value)}"
    return f"{text}; without {_name(mean.carrier, mean)}: {number(left.value)}{interval(left)}"


def _name(member: Line, mean: Mean) -> str:
    """A member of a mean, by its workload where there is one case of each."""
    is_one_each = len({line.workload for line in mean.members}) == len(mean.members)
    return member.workload if is_one_each else member.group


def _besides(grouped: Grouped, line: Line) -> list[Line]:
    """The same case by other metrics."""
    rules = grouped.experiment.statistics
    wanted = dict.fromkeys([*rules.metrics[1:], *BESIDES])
    return [
        other
        for metric in wanted
        if metric != line.metric
        for other in grouped.lines(metric)
        if other.cell == line.cell and other.ratio.runs > 0
    ]


def _and(besides: Sequence[Line]) -> str:
    parts = [f"{number(one.ratio.value)} of its {units.spoken(one.metric)}" for one in besides]
    if not parts:
        return ""
    *some, last = parts
    return f", {', '.join(some)} and {last}" if some else f" and {last}"


def _values(grouped: Grouped, mean: Mean, besides: Sequence[Line]) -> tuple[Value, ...]:
    """Medians behind the ratios: of one case all that the sentence names, of a mean the cases."""
    if not mean.members:
        return ()
    metric = mean.members[0].metric
    base = {
        (line.machine, line.group): line
        for line in grouped.lines(metric)
        if line.variant == grouped.experiment.statistics.baseline and not line.control
    }
    beside = lambda line: base[line.machine, line.group]  # noqa: E731
    if len(mean.members) == 1:
        (line,) = mean.members
        metrics = [metric, *(one.metric for one in besides)]
        return tuple(_value(units.label(one), one, [line], [beside(line)]) for one in metrics)
    chosen = dict.fromkeys([mean.worst.group, mean.carrier.group])
    lines = {line.group: line for line in mean.members}
    found = [
        _value(_name(lines[name], mean), metric, [lines[name]], [beside(lines[name])])
        for name in chosen
    ]
    if units.is_time(metric):
        whole = f"all {len(mean.members)} together"
        found.insert(0, _value(whole, metric, mean.members, list(map(beside, mean.members))))
    return tuple(found)


def _value(what: str, metric: str, ours: Sequence[Line], theirs: Sequence[Line]) -> Value:
    sums = [sum(line.medians[metric] for line in side) for side in (ours, theirs)]
    return Value(what, *(units.shown(metric, one) for one in sums))


def _rows(variant: str, mean: Mean, whole: Estimate, besides: Sequence[Line]) -> tuple[Row, ...]:
    if not mean.members:
        return ()
    members = tuple(line.ratio.value for line in mean.members) if len(mean.members) > 1 else ()
    spoken = units.spoken(mean.members[0].metric)
    first = Row(f"{variant}: {spoken}" if besides else variant, whole, members)
    rest = [Row(f"{variant}: {units.spoken(one.metric)}", one.ratio) for one in besides]
    return (first, *rest)


# ---- bars ----


def bars(
    judged: Sequence[Judged], grouped: Grouped, machines: Mapping[str, Mapping[str, Any]]
) -> list[Answer]:
    """One answer for each bar on each machine, over all its cases."""
    by_bar: dict[tuple[int, str], list[Judged]] = {}
    for one in judged:
        by_bar.setdefault((id(one.bar), one.machine), []).append(one)
    return [_of_bar(rows, grouped, machines) for rows in by_bar.values()]


def _of_bar(
    rows: list[Judged], grouped: Grouped, machines: Mapping[str, Mapping[str, Any]]
) -> Answer:
    bar, rule = rows[0].bar, grouped.experiment.statistics.confidence
    words = [one.verdict.word for one in rows]
    verdict = next((word for word in ("violated", "undecided") if word in words), "met")
    text = _one(rows[0]) if len(rows) == 1 else _many(rows)
    bound = bar.below if bar.below is not None else bar.above
    assert bound is not None
    known = [one for one in rows if one.estimate.runs > 0]
    left = [one for one in known if one.verdict.word == "undecided"]
    # What has no figure is undecided, too, but no round decides it.
    decisive = left if verdict == "undecided" else known
    is_ratio = bar.figure == "ratio"
    needed = [rounds_to_decide(one.estimate, bound, rule, is_ratio) for one in left]
    return Answer(
        question=bar.shown,
        sentence=f"{_where(rows[0].machine, machines)}{bar.shown}: {text}.",
        verdict=verdict,
        rounds=min((one.estimate.runs for one in decisive), default=0),
        needed=None if not needed or None in needed else max(filter(None, needed)),
        values=(),
        rows=tuple(Row(one.what, one.estimate) for one in rows),
        metric=bar.metric,
        machine=rows[0].machine,
        is_bar=True,
        over=rows[0].over,
    )


def _one(row: Judged) -> str:
    """A bar with one case; how many rounds would decide it is said behind the sentence."""
    text = f"{_case(row)}, {row.verdict.reason.partition(';')[0]}"
    if row.mean is None or row.mean.workloads < 2:
        return text
    return f"{text} ({what_carries(row.mean, row.over)})"


def _many(rows: Sequence[Judged]) -> str:
    """How many cases meet a bar, and the first ones of those that do not."""
    parts = []
    for word in ("met", "violated", "undecided"):
        some = sorted((row for row in rows if row.verdict.word == word), key=_badness)
        if not some:
            continue
        text = f"{word} in {len(some)} of {len(rows)}"
        if word != "met":
            named = ", ".join(_case(row) for row in some[:NAMED])
            more = len(some) - NAMED
            text += f" ({named}{f' and {more} more' if more > 0 else ''})"
        parts.append(text)
    return "; ".join(parts)


def _badness(row: Judged) -> tuple[bool, float]:
    """The furthest beyond the bar first, what has no figure last."""
    value = row.estimate.value
    return math.isnan(value), -value if row.bar.below is not None else value


def _case(row: Judged) -> str:
    if row.estimate.runs == 0:
        return f"{row.what}, which has no figure"
    value = row.estimate
    if row.bar.figure == "value":
        shown = [units.shown(row.bar.metric, one) for one in (value.value, value.low, value.high)]
        ends = f" [{shown[1]}, {shown[2]}]" if math.isfinite(value.high) else ""
        return f"{row.what}: {shown[0]}{ends}"
    return f"{row.what}: {number(value.value)}{interval(value)}"


# ---- words ----


def number(value: float) -> str:
    """A ratio with two decimals; one below 0.1 with two digits, one next to 1 with three."""
    if value < 0.1:
        return f"{value:.2g}"
    return f"{value:.3f}" if 0.995 <= value < 1.005 and value != 1 else f"{value:.2f}"


def interval(estimate: Estimate) -> str:
    """The ends behind a value; nothing where there is no bound."""
    if estimate.runs < 2:
        return ""
    return f" [{number(estimate.low)}, {number(estimate.high)}]"


def _where(machine: str, machines: Mapping[str, Mapping[str, Any]]) -> str:
    """The machine, where there are several."""
    if len(machines) < 2:
        return ""
    facts = machines.get(machine, {})
    return f"On {facts.get('processor', 'machine')} ({machine}): "


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
