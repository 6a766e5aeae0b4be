"""Heap sizes found by measuring: the minimum heap, and settings of equal peak memory.

Both are searches over runs of one cell, so both take a function that makes runs; what they find is
part of the result set.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

#: Limits are whole multiples of this many bytes.
GRANULE = 64 << 10
#: The largest free-space divisor that is tried.
GREATEST_DIVISOR = 64
#: From this divisor on, collections are so frequent that a limit may do better.
HIGH_DIVISOR = 4
#: A peak within this many tolerances of the wanted one is measured more than once.
NEAR = 4
#: How often a limit is halved in on.
LIMIT_STEPS = 8

Options = dict[str, int]
#: What the installed libgc calls options of its heap, in its environment.
STOCK = {
    "heap-limit": "GC_MAXIMUM_HEAP_SIZE",
    "initial-heap": "GC_INITIAL_HEAP_SIZE",
    "free-space-divisor": "GC_FREE_SPACE_DIVISOR",
    "markers": "GC_MARKERS",
}


@dataclass(frozen=True)
class Sample:
    """What runs under one setting came to."""

    peak_kb: float
    cpu_s: float


def median_of(samples: list[Sample]) -> Sample:
    """The medians of some runs, each by itself."""
    return Sample(
        statistics.median(one.peak_kb for one in samples),
        statistics.median(one.cpu_s for one in samples),
    )


#: Makes a run under further options; None when it failed.
Measure = Callable[[Options], Sample | None]


def minimum_heap(
    works: Callable[[int], bool], start: int, precision: float = 0.02
) -> tuple[int, int] | None:
    """The smallest limit in bytes under which a workload finishes, and how many runs that took.

    `start` should work; it is doubled until it does, at most ten times, or else there is no answer.
    The result was seen to work, and a limit smaller by `precision` was seen to fail.
    """
    high, tried = _granules(start), 0
    for _ in range(11):
        tried += 1
        if works(high * GRANULE):
            break
        high *= 2
    else:
        return None
    low = 0
    while high - low > 1 and (high - low) / high > precision:
        middle = (low + high) // 2
        tried += 1
        if works(middle * GRANULE):
            high = middle
        else:
            low = middle
    return high * GRANULE, tried


@dataclass(frozen=True)
class Setting:
    """Options that give a wanted peak."""

    options: Options
    peak_kb: float
    reached: bool


@dataclass
class EqualPeak:
    """The search for options whose median peak is `wanted_kb`, within a share.

    Guesses come first: the first of them that reaches the peak is the result. Then the free-space
    divisor is tried: a larger one means a smaller heap. Its steps may be too
    coarse; then the heap limit is moved beside the divisor whose heap is too large. A run that
    fails for lack of memory counts as a limit that is too small. A large divisor collects all the
    time to hold down a peak that lasts for a moment, so where it had to grow much, the limit is
    tried by itself, too; the cheapest setting that reaches the peak is the result. A program that
    has no divisor has its limit tried alone.

    A setting that is far off is run once; one that is near is run `runs` times, and medians count.
    """

    measure: Measure
    wanted_kb: float
    within: float
    runs: int = 3
    guesses: list[Options] = field(default_factory=list)
    has_divisor: bool = True
    tried: list[tuple[Options, Sample]] = field(default_factory=list)

    def run(self) -> Setting:
        """Searches; the nearest setting if none reaches the peak."""
        for options in self.guesses:
            self._try(options)
            if self._reached():
                return self._best()
        if not self.has_divisor:
            self._limit({})
            return self._best()
        above, last = self._divisor()
        if not self._reached():
            self._limit({"free-space-divisor": above})
        if last >= HIGH_DIVISOR:
            self._limit({})
        return self._best()

    def _try(self, options: Options) -> float | None:
        first = self.measure(options)
        if first is None:
            return None
        samples = [first]
        if self._distance(first.peak_kb) <= NEAR * math.log1p(self.within):
            for _ in range(self.runs - 1):
                again = self.measure(options)
                if again is None:
                    return None
                samples.append(again)
        sample = median_of(samples)
        self.tried.append((options, sample))
        return sample.peak_kb

    def _near(self, peak_kb: float) -> bool:
        return self._distance(peak_kb) <= math.log1p(self.within)

    def _distance(self, peak_kb: float) -> float:
        return abs(math.log(peak_kb / self.wanted_kb))

    def _reached(self) -> bool:
        return any(self._near(sample.peak_kb) for _, sample in self.tried)

    def _best(self) -> Setting:
        near = [one for one in self.tried if self._near(one[1].peak_kb)]
        if near:
            options, sample = min(near, key=lambda one: one[1].cpu_s)
            return Setting(options, sample.peak_kb, True)
        if not self.tried:
            return Setting({}, math.nan, False)
        options, sample = min(self.tried, key=lambda one: self._distance(one[1].peak_kb))
        return Setting(options, sample.peak_kb, False)

    def _divisor(self) -> tuple[int, int]:
        """The largest divisor whose peak is too high, or 1, and the last that was tried."""
        above, below, last = 1, GREATEST_DIVISOR + 1, 1
        first = self._try({"free-space-divisor": above})
        if first is None or first <= self.wanted_kb:
            return above, last
        while below - above > 1 and not self._reached():
            # Halving the ratio: peaks go with the inverse of the divisor.
            middle = min(max(int(math.sqrt(above * below)), above + 1), below - 1)
            last = middle
            peak = self._try({"free-space-divisor": middle})
            if peak is not None and peak > self.wanted_kb:
                above = middle
            else:
                below = middle
        return above, last

    def _limit(self, beside: Options) -> None:
        low, high = 0, _granules(int(self.wanted_kb * 1024 * 1.5))
        for _ in range(LIMIT_STEPS):
            middle = max(1, (low + high) // 2)
            peak = self._try({**beside, "heap-limit": middle * GRANULE})
            if peak is not None and self._near(peak):
                return
            if peak is not None and peak > self.wanted_kb:
                high = middle
            else:
                low = middle


def _granules(limit: int) -> int:
    return max(1, -(-limit // GRANULE))
