"""Means, intervals and ratios.

There is one ratio everywhere, `paired_ratio`: each round ran every configuration, so the ratio is
taken round by round, its middle is the median, and its interval is Student's t on the logarithms.
Both are the same whichever side is on top, and neither is ever negative. `ratio_of_means` is what
the papers print, and stands only beside a paper's figure, under that name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from scipy import special


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

    @property
    def side(self) -> Literal["less", "more", "undecided"]:
        """Of a ratio: on which side of 1 the whole interval lies."""
        if self.runs < 2:
            return "undecided"
        return "less" if self.high < 1 else "more" if self.low > 1 else "undecided"

    def is_grey(self, above: float | None) -> bool:
        """A ratio too uncertain to be read, by the experiment's rule.

        An interval that is wide and holds 1. One that does not tells which side is less, however
        wide it is.
        """
        is_decided = self.low > 1 or self.high < 1
        return above is not None and self.width > above and not is_decided


UNKNOWN = Estimate(math.nan, -math.inf, math.inf, 0)


@cache
def _quantile(confidence: float, runs: int) -> float:
    """Student's t for an interval of so many runs."""
    return float(special.stdtrit(runs - 1, (1 + confidence) / 2))


def half_interval(values: np.ndarray, confidence: float) -> float:
    """Half of Student's interval of the mean of two values or more."""
    deviation = float(np.std(values, ddof=1))
    return _quantile(confidence, len(values)) * deviation / math.sqrt(len(values))


def mean_of(values: Sequence[float], confidence: float) -> Estimate:
    """The mean with Student's interval; one value has no bound, none has no mean."""
    count = len(values)
    if count == 0:
        return UNKNOWN
    mean = float(np.mean(values))
    if count == 1:
        return Estimate(mean, -math.inf, math.inf, 1)
    margin = half_interval(np.asarray(values, dtype=float), confidence)
    return Estimate(mean, mean - margin, mean + margin, count)


def paired_ratio(top: Sequence[float], bottom: Sequence[float], confidence: float) -> Estimate:
    """The ratio of two series of the same rounds; rounds in which either is 0 tell no ratio."""
    if len(top) != len(bottom):
        raise ValueError(f"{len(top)} values cannot be paired with {len(bottom)}")
    above, below = np.asarray(top, dtype=float), np.asarray(bottom, dtype=float)
    known = (above > 0) & (below > 0)
    return ratio_of_rounds(above[known] / below[known], confidence)


def ratio_of_rounds(ratios: Sequence[float] | np.ndarray, confidence: float) -> Estimate:
    """What the ratios of rounds say together; a few rounds far off do not move the middle."""
    if len(ratios) == 0:
        return UNKNOWN
    logs = np.log(np.asarray(ratios, dtype=float))
    return _around(float(np.median(logs)), logs, confidence)


def _around(middle: float, logs: np.ndarray, confidence: float) -> Estimate:
    """The middle of logarithms with the interval of their mean, widened to hold the middle."""
    if len(logs) < 2:
        return Estimate(math.exp(middle), 0.0, math.inf, len(logs))
    mean, margin = float(np.mean(logs)), half_interval(logs, confidence)
    low, high = min(mean - margin, middle), max(mean + margin, middle)
    return Estimate(math.exp(middle), math.exp(low), math.exp(high), len(logs))


def ratio_of_means(
    values: Sequence[float], baseline: Sequence[float], confidence: float
) -> Estimate:
    """The mean over the baseline's mean, as the papers print it, with an interval on logarithms.

    The variance of the logarithm of a mean is that of the mean over its square, and both sides
    have one.
    """
    top, bottom = (np.asarray(side, dtype=float) for side in (values, baseline))
    if min(len(top), len(bottom)) == 0 or min(np.mean(top), np.mean(bottom)) <= 0:
        return UNKNOWN
    ratio, runs = float(np.mean(top) / np.mean(bottom)), min(len(top), len(bottom))
    if runs < 2:
        return Estimate(ratio, 0.0, math.inf, runs)
    errors = [float(np.std(side, ddof=1) / np.mean(side)) for side in (top, bottom)]
    whole = math.hypot(errors[0] / math.sqrt(len(top)), errors[1] / math.sqrt(len(bottom)))
    margin = _quantile(confidence, runs) * whole
    return Estimate(ratio, ratio * math.exp(-margin), ratio * math.exp(margin), runs)


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; not a number when there is none."""
    return float(np.exp(np.mean(np.log(values)))) if len(values) else math.nan


def geometric_mean_of(ratios: Sequence[float], confidence: float) -> Estimate:
    """The geometric mean of ratios, with the interval of their spread."""
    if not len(ratios):
        return UNKNOWN
    logs = np.log(np.asarray(ratios, dtype=float))
    return _around(float(np.mean(logs)), logs, confidence)


def geometric_mean_of_set(rounds: Sequence[Mapping[int, float]], confidence: float) -> Estimate:
    """The geometric mean over workloads that are given, with the rounds' interval.

    Each workload has its ratios by round; the mean is over its middle ones. The interval is that
    of the means round by round, of the rounds in which all workloads have a ratio.
    """
    if not rounds or not all(rounds):
        return UNKNOWN
    common = set.intersection(*(set(ratios) for ratios in rounds))
    logs = np.log([[ratios[number] for number in sorted(common)] for ratios in rounds])
    middles = [np.median(np.log(list(ratios.values()))) for ratios in rounds]
    return _around(float(np.mean(middles)), np.mean(logs, axis=0), confidence)


def mean_of_set(means: Sequence[Estimate]) -> Estimate:
    """The mean over given workloads of the mean of each, with the interval of the rounds."""
    if not means:
        return UNKNOWN
    value = float(np.mean([mean.value for mean in means]))
    margin = math.hypot(*((mean.high - mean.low) / 2 for mean in means)) / len(means)
    return Estimate(value, value - margin, value + margin, min(mean.runs for mean in means))


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
    deviation = (high - low) / 2 * math.sqrt(estimate.runs) / _quantile(confidence, estimate.runs)

    def decides(runs: int) -> bool:
        return _quantile(confidence, runs) * deviation <= distance * math.sqrt(runs)

    if not decides(MOST_ROUNDS):
        return None
    least, most = estimate.runs, MOST_ROUNDS
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if decides(middle) else (middle + 1, most)
    return least
