"""The findings of the ASPLOS 2013 paper as statements, and whether they hold of our runs.

The statements are data, in lab/papers/naps-findings.yaml: what the paper says, its figure, which
quantity of ours to compare, and between which bounds that has to be. A verdict follows from the
runs alone. Of what is counted or measured each round tells for itself whether the statement holds;
when they do not agree, or there are none, it is undecided. What is modelled is tried at many points
of the model's parameters, and holds at a point if it does in all rounds and by both of the model's
times; the verdict says in which part of the parameters' intervals that is so (region.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, model_validator

from gleaner_lab import metrics, papers, yaml12
from gleaner_lab.experiment import Part
from gleaner_lab.failure import Failure
from gleaner_lab.numa import MODELLED
from gleaner_lab.numa.evidence import Evidence, Samples, gain, ratio, saving
from gleaner_lab.numa.locality import METRICS
from gleaner_lab.numa.region import region
from gleaner_lab.statements import Statement as PaperStatement

COUNTED, MEASURED = "counted", "measured"
#: Counts among the metrics; all others of them are times.
COUNTS = (*METRICS, "printed.collections")

Threads = Annotated[int, Field(ge=1, le=48)]
Rule = Callable[[Evidence, "Ours", int], Samples]


class Ours(Part):
    """A quantity of our runs, and of which."""

    quantity: str
    workload: str
    configuration: str
    against: str = ""
    metric: str = ""
    of: str = ""
    #: It has to hold for each of these numbers of collecting threads.
    threads: tuple[Threads, ...] = ()

    @model_validator(mode="after")
    def has_what_it_takes(self) -> Ours:
        """The fields that a quantity takes, and no others."""
        if self.quantity not in QUANTITIES:
            raise ValueError(f"no quantity {self.quantity} among {', '.join(QUANTITIES)}")
        fields = ("against", "metric", "of", "threads")
        given = {name for name in fields if getattr(self, name)}
        if given != QUANTITIES[self.quantity].takes:
            taken = ", ".join(sorted(QUANTITIES[self.quantity].takes)) or "nothing more"
            raise ValueError(f"{self.quantity} takes {taken}")
        for name in (self.metric, self.of):
            if name and not metrics.is_known(name, 1):
                raise ValueError(f"no metric {name}")
        return self

    @property
    def source(self) -> str:
        """Whether it is counted, measured or modelled."""
        if QUANTITIES[self.quantity].is_modelled:
            return MODELLED
        return COUNTED if self.metric in (*COUNTS, "") else MEASURED

    @property
    def shown(self) -> str:
        """Of what it is, in words."""
        words = f"{self.quantity.replace('-', ' ')} of {self.workload}: "
        words += self.metric + (f" of {self.of}" if self.of else "")
        words += " under " * bool(self.metric) + self.configuration
        words += f" against {self.against}" if self.against else ""
        if self.threads:
            words += f", {', '.join(map(str, self.threads))} threads"
        return words


@dataclass(frozen=True)
class Quantity:
    """How a quantity is computed, and which fields of `Ours` it takes."""

    rule: Rule
    takes: frozenset[str]
    is_modelled: bool


def _modelled(name: str, compare: Callable[[Samples, Samples], Samples], turned: bool) -> Quantity:
    """A modelled figure of `Evidence` under two configurations; `turned`: the older one first."""

    def rule(evidence: Evidence, ours: Ours, threads: int) -> Samples:
        figure = getattr(evidence, name)
        more = (threads,) if threads else ()
        both = [figure(ours.workload, one, *more) for one in (ours.configuration, ours.against)]
        return compare(*reversed(both)) if turned else compare(*both)

    takes = {"against"} if name == "application" else {"against", "threads"}
    return Quantity(rule, frozenset(takes), True)


def _metric(takes: set[str]) -> Quantity:
    """A metric as it is, over another one, or over that of another configuration."""

    def rule(evidence: Evidence, ours: Ours, _: int) -> Samples:
        found = evidence.values(ours.workload, ours.configuration, ours.metric)
        if "of" in takes:
            found = ratio(found, evidence.values(ours.workload, ours.configuration, ours.of))
        if "against" in takes:
            found = ratio(found, evidence.values(ours.workload, ours.against, ours.metric))
        return found

    return Quantity(rule, frozenset({"metric", *takes}), False)


def _remote(evidence: Evidence, ours: Ours, _: int) -> Samples:
    return evidence.remote_discoveries(ours.workload, ours.configuration)


#: GC throughput over that with the number of threads before it. Of the first there is none.
def _scaling(evidence: Evidence, ours: Ours, threads: int) -> Samples:
    before = {more: less for less, more in pairwise(ours.threads)}
    if threads not in before:
        return {}
    return ratio(
        evidence.throughput(ours.workload, ours.configuration, threads),
        evidence.throughput(ours.workload, ours.configuration, before[threads]),
    )


#: What a statement may be about. Gains are of GC throughput, savings and ratios of times.
QUANTITIES: dict[str, Quantity] = {
    "throughput-gain": _modelled("throughput", gain, False),
    "parallel-gain": _modelled("parallel", gain, True),
    "application-saving": _modelled("application", saving, False),
    "completion-saving": _modelled("completion", saving, False),
    "completion-ratio": _modelled("completion", ratio, True),
    "pause-ratio": _modelled("pause", ratio, True),
    "scaling": Quantity(_scaling, frozenset({"threads"}), True),
    "remote-discoveries": Quantity(_remote, frozenset(), False),
    "metric": _metric(set()),
    "metric-share": _metric({"of"}),
    "metric-ratio": _metric({"against"}),
}


class Statement(PaperStatement):
    """What the paper says, and when it holds of ours."""

    ours: Ours


@dataclass(frozen=True)
class Finding:
    """A statement and what came of it."""

    statement: Statement
    #: All our figures for it; of the model those of the middle of its parameters.
    values: tuple[float, ...]
    verdict: str
    reason: str
    #: All figures of the model, at all points.
    everywhere: tuple[float, ...] = ()

    @property
    def ours(self) -> str:
        """Our figures as a range, and those of the model at all points."""
        if not self.values:
            return "no data"
        text = self._range(self.values)
        return f"{text}; {self._range(self.everywhere)} at all points" if self.everywhere else text

    def _range(self, values: tuple[float, ...]) -> str:
        ends = dict.fromkeys(map(self.statement.shown, (min(values), max(values))))
        return " to ".join(ends)


@cache
def statements() -> list[Statement]:
    """The paper's findings, from their file."""
    path = papers.DIRECTORY / "naps-findings.yaml"
    document: Any = yaml12.load(path.read_text(encoding="utf-8"))
    return TypeAdapter(list[Statement]).validate_python(document)


def judge(statement: Statement, evidence: Evidence) -> Finding:
    """Whether a statement holds of these runs."""
    try:
        if statement.ours.source == MODELLED:
            return _modelled_finding(statement, evidence)
        return _counted_finding(statement, evidence)
    except Failure as failure:
        return Finding(statement, (), "undecided", f"no data: {failure}")


def _counted_finding(statement: Statement, evidence: Evidence) -> Finding:
    """Whether all rounds say the same."""
    holds, values, rounds = _tried(statement, evidence)
    origin = _origin(statement, rounds)
    if len(set(holds)) > 1:
        agree = f"it holds of {sum(holds)} of {len(holds)} samples"
        return Finding(statement, values, "undecided", f"{origin}; {agree}")
    return Finding(statement, values, "holds" if holds[0] else "does not hold", origin)


def _modelled_finding(statement: Statement, evidence: Evidence) -> Finding:
    """In which part of the parameters' intervals it holds."""
    _, middle, rounds = _tried(statement, evidence)
    tried = [_tried(statement, one) for one in evidence.in_the_box]
    found = region([one.assumed for one in evidence.in_the_box], [all(one[0]) for one in tried])
    everywhere = tuple(value for one in tried for value in one[1])
    reason = f"{_origin(statement, rounds)}; {found.reason}"
    return Finding(statement, middle, f"{MODELLED}: {found.verdict}", reason, everywhere)


def _tried(statement: Statement, evidence: Evidence) -> tuple[list[bool], tuple[float, ...], int]:
    """Whether each sample holds for all numbers of threads, its figures, and how many rounds."""
    ours = statement.ours
    rule, (least, most) = QUANTITIES[ours.quantity].rule, statement.bounds
    by_sample: dict[tuple[int, str], list[float]] = {}
    for threads in ours.threads or [0]:
        for key, value in rule(evidence, ours, threads).items():
            if math.isfinite(value):
                by_sample.setdefault(key, []).append(value)
    if not by_sample:
        raise Failure(f"{ours.shown} is no number")
    holds = [all(least <= value <= most for value in found) for found in by_sample.values()]
    values = tuple(value for found in by_sample.values() for value in found)
    return holds, values, len({number for number, _ in by_sample})


def _origin(statement: Statement, rounds: int) -> str:
    ours = statement.ours
    return f"{ours.source}: {ours.shown}; {rounds} round{'s' if rounds != 1 else ''}"


def findings(evidence: Evidence) -> list[Finding]:
    """All statements, tried on these runs."""
    return [judge(one, evidence) for one in statements()]
