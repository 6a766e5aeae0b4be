"""The findings of the ASPLOS 2013 paper as statements, and whether they hold of our runs.

The statements are data, in lab/papers/naps-findings.yaml: what the paper says, its figure, which
quantity of ours to compare, and between which bounds that has to be. A verdict follows from the
runs alone. Each round, and of the model each of its two times, tells for itself whether the
statement holds; when they do not agree, or there are none, it is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, model_validator
from ruamel.yaml import YAML

from gleaner_lab import metrics, papers
from gleaner_lab.experiment import Part
from gleaner_lab.failure import Failure
from gleaner_lab.numa import MODELLED
from gleaner_lab.numa.evidence import Evidence, Samples, gain, ratio, saving
from gleaner_lab.numa.locality import METRICS
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
    #: All our figures for it.
    values: tuple[float, ...]
    verdict: str
    reason: str

    @property
    def ours(self) -> str:
        """Our figures as a range."""
        if not self.values:
            return "no data"
        ends = dict.fromkeys(map(self.statement.shown, (min(self.values), max(self.values))))
        return " to ".join(ends)


@cache
def statements() -> list[Statement]:
    """The paper's findings, from their file."""
    path = papers.DIRECTORY / "naps-findings.yaml"
    document: Any = YAML(typ="safe").load(path)
    return TypeAdapter(list[Statement]).validate_python(document)


def judge(statement: Statement, evidence: Evidence) -> Finding:
    """Whether a statement holds of these runs."""
    ours = statement.ours
    rule, least, most = QUANTITIES[ours.quantity].rule, *statement.bounds
    try:
        parts = [rule(evidence, ours, threads) for threads in ours.threads or [0]]
    except Failure as failure:
        return Finding(statement, (), "undecided", f"no data: {failure}")
    by_sample: dict[tuple[int, str], list[float]] = {}
    for part in parts:
        for key, value in part.items():
            if math.isfinite(value):
                by_sample.setdefault(key, []).append(value)
    values = tuple(value for found in by_sample.values() for value in found)
    holds = [all(least <= value <= most for value in found) for found in by_sample.values()]
    rounds = len({number for number, _ in by_sample})
    origin = f"{ours.source}: {ours.shown}; {rounds} round{'s' if rounds != 1 else ''}"
    if not holds:
        return Finding(statement, (), "undecided", f"no data: {ours.shown} is no number")
    if len(set(holds)) > 1:
        agree = f"it holds of {sum(holds)} of {len(holds)} samples"
        return Finding(statement, values, "undecided", f"{origin}; {agree}")
    word = "holds" if holds[0] else "does not hold"
    verdict = f"{MODELLED} ({word})" if ours.source == MODELLED else word
    return Finding(statement, values, verdict, origin)


def findings(evidence: Evidence) -> list[Finding]:
    """All statements, tried on these runs."""
    return [judge(one, evidence) for one in statements()]
