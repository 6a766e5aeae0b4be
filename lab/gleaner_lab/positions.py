"""Where in arrays programs access elements, from what a report on arrays counted by position.

Figure 2 of PLDI 2010: the share of the accesses that are less than a distance from the first
element, against this distance in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import Any

import pandas as pd

from gleaner_lab.experiment import Experiment

#: Metrics: with the logarithm of the distance behind it, the accesses below that, in percent.
BELOW = "printed.array_report.below_"
#: The name of the mean of all workloads.
MEAN = "mean"


@dataclass(frozen=True)
class Curve:
    """A workload's accesses."""

    name: str
    #: By the logarithm of the distance: how many of them are below, in percent.
    shares: list[float]


def figures(report: dict[str, Any]) -> dict[str, float]:
    """The metrics of a report that counted accesses.

    The first number is of accesses at the first element, the next of those one byte behind it, the
    next of those 2 and 3 bytes behind it, then 4 to 7, and so on.
    """
    counts = report.get("positions") or []
    total = sum(counts)
    if not total:
        return {}
    sums = accumulate(counts)
    return {f"{BELOW}{power}": 100 * below / total for power, below in enumerate(sums)}


def curves(frame: pd.DataFrame, experiment: Experiment) -> list[Curve]:
    """Of the baseline's first run of each workload, and their mean; none where none was counted."""
    powers = sum(name.startswith(f"values.{BELOW}") for name in frame.columns)
    columns = [f"values.{BELOW}{power}" for power in range(powers)]
    rows = frame[frame["variant"] == experiment.statistics.baseline]
    found = []
    for one in experiment.workloads:
        runs = rows[rows["workload"] == one.name][columns].dropna()
        if powers and len(runs) > 0:
            found.append(Curve(one.name, [float(share) for share in runs.iloc[0]]))
    if found:
        means = [fmean(shares) for shares in zip(*(one.shares for one in found), strict=True)]
        found.append(Curve(MEAN, means))
    return found
