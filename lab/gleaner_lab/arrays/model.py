"""The model of the PLDI 2010 paper, section 7.1.4: overheads from what one access costs.

`gleaner-bench accesses --json` gives the time of an access by the way that it takes, compiled for
arrays in one piece and for arrays in pieces; what one costs more than in one piece, times how many
of these a workload makes, is what it is predicted to take longer. Accesses are those that
`array-report` counts: loads and stores, within the first N bytes and beyond. How they follow each
other is not counted. So there is a prediction for each way to reach elements: in order, at random,
and by cursors. Nor is it counted what kinds of elements they go to: the mean over kinds is taken.

The model knows no collections, no copies and no caches: what arrays in pieces save is not in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from gleaner_lab.failure import Failure
from gleaner_lab.numa import MODELLED
from gleaner_lab.report.modelled import Page, Table
from gleaner_lab.tried import Ours, Runs

#: Which microbenchmark stands for a path: where its elements lie. Beyond N that is an arraylet.
WITHIN, BEYOND = "first-n", "arraylet"
#: The ways to reach elements that there is a prediction for.
WAYS = ("sequential", "random", "cursor")
#: The experiment whose runs count accesses, and its configuration.
COUNTS, COUNTED = "array-counts", "lazy"
#: What its metrics are called.
REPORT = "printed.array_report"
#: What is predicted, against what.
CUT, WHOLE = "perf-zray", "contiguous"


@dataclass(frozen=True)
class Accesses:
    """How many accesses a run made, by path."""

    loads_within: float
    loads_beyond: float
    stores_within: float
    stores_beyond: float

    @classmethod
    def of(cls, values: Mapping[str, float], where: str) -> Accesses:
        """From the metrics of a run that counted them: their number, and the share of each path."""
        try:
            number = values[f"{REPORT}.accesses"]
            return cls(
                *(
                    number * values[f"{REPORT}.{name}"]
                    for name in ("loads_within", "loads_beyond", "stores_within", "stores_beyond")
                )
            )
        except KeyError as missing:
            raise Failure(f"{where} has no {missing.args[0]}") from None

    @property
    def beyond(self) -> float:
        """Which share of them goes beyond the first N bytes."""
        number = self.loads_within + self.loads_beyond + self.stores_within + self.stores_beyond
        return (self.loads_beyond + self.stores_beyond) / number if number else 0.0


@dataclass(frozen=True)
class Costs:
    """Nanoseconds for an access, by code, place, way, and what is done: means over elements."""

    ns: Mapping[tuple[str, str, str, str], float]

    @classmethod
    def read(cls, path: Path) -> Costs:
        """From the lines of `gleaner-bench accesses --json`."""
        try:
            text = path.read_text(encoding="utf-8")
            lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
            found: dict[tuple[str, str, str, str], list[float]] = {}
            for line in lines:
                key = (line["code"], line["place"], line["by"], line["access"])
                found.setdefault(key, []).append(float(line["ns"]))
        except OSError as error:
            raise Failure(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise Failure(f"{path} is not what `gleaner-bench accesses --json` prints") from error
        return cls({key: fmean(values) for key, values in found.items()})

    def more(self, place: str, way: str, access: str) -> float:
        """What an access costs more in a heap that cuts arrays."""
        if way == "cursor" and place == WITHIN:
            # It goes through one piece there, as everywhere in an array in one piece.
            return 0.0
        return self._ns("zray", place, way, access) - self._ns("whole", "whole", way, access)

    def _ns(self, *key: str) -> float:
        try:
            return self.ns[key]  # type: ignore[index]
        except KeyError:
            raise Failure(f"no microbenchmark of {', '.join(key)} among the costs") from None

    def seconds(self, accesses: Accesses, way: str) -> float:
        """How much longer all accesses of a run take, if they are made in that way."""
        return 1e-9 * (
            accesses.loads_within * self.more(WITHIN, way, "read")
            + accesses.loads_beyond * self.more(BEYOND, way, "read")
            + accesses.stores_within * self.more(WITHIN, way, "write")
            + accesses.stores_beyond * self.more(BEYOND, way, "write")
        )


@dataclass(frozen=True)
class Prediction:
    """A workload's overhead, as a share of its time with arrays in one piece."""

    workload: str
    accesses: Accesses
    #: By the way to reach elements.
    predicted: Mapping[str, float]
    measured: float

    @property
    def explains(self) -> bool:
        """Whether what was measured lies between the least and the greatest prediction."""
        return min(self.predicted.values()) <= self.measured <= max(self.predicted.values())


def predictions(costs: Costs, runs: Mapping[str, Runs]) -> list[Prediction]:
    """All workloads that were counted and timed; `runs` by experiment, as `tried.read` gives."""
    if COUNTS not in runs:
        raise Failure(f"no result set of {COUNTS}, which counts accesses")
    timed = [one for name, one in runs.items() if name != COUNTS]
    if len(timed) != 1 or not {CUT, WHOLE} <= set(timed[0].experiment.variants()):
        raise Failure(f"one result set with times of {CUT} and {WHOLE} is needed beside {COUNTS}")
    counted = Ours(
        quantity="mean", experiment=COUNTS, configuration=COUNTED, metric=f"{REPORT}.accesses"
    )
    medians = {line.workload: line.medians for line in runs[COUNTS].lines(counted)}
    overhead = Ours(
        quantity="mean-overhead",
        experiment=timed[0].experiment.name,
        configuration=CUT,
        against=WHOLE,
    )
    whole = overhead.model_copy(update={"configuration": WHOLE})
    seconds = {line.workload: line.mean.value for line in timed[0].lines(whole)}
    found = []
    for line in timed[0].lines(overhead):
        name = line.workload
        if name not in medians or line.ratio.runs == 0:
            continue
        accesses = Accesses.of(medians[name], f"{name} under {COUNTED}")
        predicted = {way: costs.seconds(accesses, way) / seconds[name] for way in WAYS}
        found.append(Prediction(name, accesses, predicted, line.ratio.value - 1))
    if not found:
        raise Failure("no workload was both counted and timed")
    return found


def page(found: list[Prediction], command: str) -> Page:
    """The predictions beside what was measured."""
    rows = [
        [
            one.workload,
            f"{one.accesses.beyond * 100:.1f} %",
            *(f"{one.predicted[way] * 100:.1f} %" for way in WAYS),
            f"{one.measured * 100:.1f} %",
            "within" if one.explains else "outside",
        ]
        for one in found
    ]
    head = ["workload", "beyond N", *WAYS, "measured", "measured is"]
    caption = f"Overhead of {CUT}: modelled by the way to reach elements, and measured"
    return Page(
        name="zrays-model",
        title="What accesses to arrays in pieces cost",
        notes=[
            "The analytical model of PLDI 2010, section 7.1.4: what an access costs more than in "
            "one piece, by microbenchmarks, times the accesses that a workload makes, over its "
            "processor time with arrays in one piece. What arrays in pieces save is not in it, "
            "nor are collections, copies and caches."
        ],
        tables=[Table("predictions", caption, head, rows)],
        figures={},
        command=command,
        label=MODELLED,
    )
