"""Means, intervals and ratios, as the papers give them.

Two views of the same runs. `mean_of` is the papers': the mean of a cell with an interval by
Student's t, taken relative to a baseline's mean. `paired_ratio` is ours: each round ran every
configuration, so the ratio is taken round by round, its middle is the median, and its interval is
Student's t on the logarithms, which is the same whichever side is on top.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its interval, in the unit of what was measured."""

    value: float
    low: float
    high: float
    runs: int

    @property
    def width(self) -> float:
        """The whole interval as a share of the value; infinite when it is unbounded."""
        if self.value == 0:
            return math.inf
        return (self.high - self.low) / abs(self.value)

    def is_grey(self, above: float | None) -> bool:
        """Too uncertain to be read, by the experiment's rule."""
        return above is not None and self.width > above


UNKNOWN = Estimate(math.nan, -math.inf, math.inf, 0)


def mean_of(values: Sequence[float], confidence: float) -> Estimate:
    """The mean with Student's interval; one value has no bound, none has no mean."""
    count = len(values)
    if count == 0:
        return UNKNOWN
    mean = float(np.mean(values))
    if count == 1:
        return Estimate(mean, -math.inf, math.inf, 1)
    margin = float(stats.t.ppf((1 + confidence) / 2, count - 1) * stats.sem(values))
    return Estimate(mean, mean - margin, mean + margin, count)


def relative_mean(
    values: Sequence[float], baseline: Sequence[float], confidence: float
) -> Estimate:
    """The mean over the baseline's mean; the interval is that of `values`, scaled.

    This is what the papers draw: the baseline is a line at 1, its own spread is not shown.
    """
    unit = float(np.mean(baseline)) if baseline else 0.0
    if unit == 0:
        return UNKNOWN
    estimate = mean_of(values, confidence)
    return Estimate(estimate.value / unit, estimate.low / unit, estimate.high / unit, estimate.runs)


def paired_ratio(top: Sequence[float], bottom: Sequence[float], confidence: float) -> Estimate:
    """The ratio of two series of the same rounds; rounds in which either is 0 tell no ratio."""
    if len(top) != len(bottom):
        raise ValueError(f"{len(top)} values cannot be paired with {len(bottom)}")
    pairs = [(one, other) for one, other in zip(top, bottom, strict=True) if one > 0 and other > 0]
    ratios = np.asarray([one / other for one, other in pairs])
    if len(ratios) == 0:
        return UNKNOWN
    low, high = _log_interval(ratios, confidence)
    return Estimate(float(np.median(ratios)), low, high, len(ratios))


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; not a number when there is none."""
    return float(stats.gmean(values)) if len(values) else math.nan


def geometric_mean_of(ratios: Sequence[float], confidence: float) -> Estimate:
    """The geometric mean over workloads, with the interval of their spread."""
    if not ratios:
        return UNKNOWN
    low, high = _log_interval(np.asarray(ratios, dtype=float), confidence)
    return Estimate(geometric_mean(ratios), low, high, len(ratios))


def _log_interval(ratios: np.ndarray, confidence: float) -> tuple[float, float]:
    if len(ratios) < 2:
        return 0.0, math.inf
    logs = np.log(ratios)
    margin = stats.t.ppf((1 + confidence) / 2, len(logs) - 1) * stats.sem(logs)
    return float(np.exp(np.mean(logs) - margin)), float(np.exp(np.mean(logs) + margin))


@dataclass(frozen=True)
class Verdict:
    """Whether a bar is met, and by what."""

    met: bool
    reason: str


def judge(estimate: Estimate, below: float | None, above: float | None = None) -> Verdict:
    """A bar is met when the whole interval lies below it, or above it."""
    if estimate.runs < 2:
        return Verdict(False, "less than two rounds: no interval")
    if below is not None:
        met = estimate.high <= below
        return Verdict(met, f"upper bound {estimate.high:.3f} {'<=' if met else '>'} {below:g}")
    met = above is not None and estimate.low >= above
    return Verdict(met, f"lower bound {estimate.low:.3f} {'>=' if met else '<'} {above:g}")
