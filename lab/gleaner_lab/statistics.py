"""Means, intervals and ratios, as the papers give them.

Two views of the same runs. `mean_of` is the papers': the mean of a cell with an interval by
Student's t, taken relative to a baseline's mean. `paired_ratio` is ours: each round ran every
configuration, so the ratio is taken round by round, its middle is the median, and its interval is
Student's t on the logarithms, which is the same whichever side is on top.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

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
        """A ratio too uncertain to be read, by the experiment's rule.

        An interval that is wide and holds 1. One that does not tells which side is less, however
        wide it is.
        """
        is_decided = self.low > 1 or self.high < 1
        return above is not None and self.width > above and not is_decided


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
    """The geometric mean of ratios, with the interval of their spread."""
    if not ratios:
        return UNKNOWN
    low, high = _log_interval(np.asarray(ratios, dtype=float), confidence)
    return Estimate(geometric_mean(ratios), low, high, len(ratios))


def geometric_mean_of_set(rounds: Sequence[Mapping[int, float]], confidence: float) -> Estimate:
    """The geometric mean over workloads that are given, round by round, with the rounds' interval.

    Each workload has its ratios by round. A round counts in which all have one.
    """
    common = set.intersection(*(set(ratios) for ratios in rounds)) if rounds else set()
    means = [geometric_mean([ratios[number] for ratios in rounds]) for number in sorted(common)]
    return geometric_mean_of(means, confidence)


def mean_of_set(means: Sequence[Estimate]) -> Estimate:
    """The mean over given workloads of the mean of each, with the interval of the rounds."""
    if not means:
        return UNKNOWN
    value = float(np.mean([mean.value for mean in means]))
    margin = math.hypot(*((mean.high - mean.low) / 2 for mean in means)) / len(means)
    return Estimate(value, value - margin, value + margin, min(mean.runs for mean in means))


def _log_interval(ratios: np.ndarray, confidence: float) -> tuple[float, float]:
    if len(ratios) < 2:
        return 0.0, math.inf
    logs = np.log(ratios)
    margin = stats.t.ppf((1 + confidence) / 2, len(logs) - 1) * stats.sem(logs)
    return float(np.exp(np.mean(logs) - margin)), float(np.exp(np.mean(logs) + margin))


#: More rounds than anybody makes: a bar that needs more cannot be decided so.
MOST_ROUNDS = 10_000


@dataclass(frozen=True)
class Verdict:
    """What the interval says of a bar: it is met, violated, or undecided."""

    word: Literal["met", "violated", "undecided"]
    reason: str


def judge(
    estimate: Estimate,
    below: float | None,
    above: float | None = None,
    confidence: float = 0.95,
    of: str = "rounds",
    is_ratio: bool = True,
) -> Verdict:
    """A bar is met when the whole interval is on its side, and violated when all of it is beyond.

    An interval that holds the bar decides nothing; then the reason says how many rounds it would
    take, or how many of what the interval is over, if the spread stays as it is.
    """
    if estimate.runs < 2:
        return Verdict("undecided", f"less than two {of}: no interval")
    bar = below if below is not None else above
    assert bar is not None
    bound, other = estimate.high, estimate.low
    if below is None:
        bound, other = other, bound
    side, signs = ("upper", ("<=", ">")) if below is not None else ("lower", (">=", "<"))
    far = "lower" if side == "upper" else "upper"
    is_met = bound <= bar if below is not None else bound >= bar
    is_violated = other > bar if below is not None else other < bar
    if is_met:
        return Verdict("met", f"{side} bound {bound:.3f} {signs[0]} {bar:g}")
    if is_violated:
        return Verdict("violated", f"{far} bound {other:.3f} {signs[1]} {bar:g}")
    needed = rounds_to_decide(estimate, bar, confidence, is_ratio)
    more = f"about {needed}" if needed is not None else f"more than {MOST_ROUNDS}"
    return Verdict(
        "undecided",
        f"{side} bound {bound:.3f} {signs[1]} {bar:g} in {estimate.runs} {of}; {more} would decide",
    )


def rounds_to_decide(
    estimate: Estimate, bar: float, confidence: float, is_ratio: bool = True
) -> int | None:
    """In how many rounds the interval would leave the bar, if the spread and the middle stay.

    The interval is Student's, of ratios on logarithms, so its ends tell the mean and the deviation.
    """
    if estimate.runs < 2 or not math.isfinite(estimate.high):
        return None
    if is_ratio and estimate.low <= 0:
        return None
    scale = math.log if is_ratio else float
    low, high = scale(estimate.low), scale(estimate.high)
    distance = abs((low + high) / 2 - scale(bar))
    quantile = lambda runs: float(stats.t.ppf((1 + confidence) / 2, runs - 1))  # noqa: E731
    deviation = (high - low) / 2 * math.sqrt(estimate.runs) / quantile(estimate.runs)
    decides = lambda runs: quantile(runs) * deviation <= distance * math.sqrt(runs)  # noqa: E731
    if not decides(MOST_ROUNDS):
        return None
    least, most = estimate.runs, MOST_ROUNDS
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if decides(middle) else (middle + 1, most)
    return least
