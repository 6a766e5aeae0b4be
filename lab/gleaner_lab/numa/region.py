"""In which part of the box of parameters a statement holds, and which parameter decides that.

Of each parameter's interval the part is taken that tells the points where the statement holds from
the others best (the least impurity, as in a decision tree), and of all parameters the best. If
seven of ten points hold in that part and no more than three of ten beyond it, that parameter
decides, and the ends of the part are where the verdict flips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gleaner_lab.numa.parameters import PARAMETERS, Assumptions, Parameter

#: A part of an interval, and what is left at either end, has this share of all points or more; a
#: side is clear from this purity on.
LEAST, CLEAR = 0.1, 0.7


@dataclass(frozen=True)
class Cut:
    """A part of one parameter's interval, with the points in it and beyond it that hold."""

    parameter: Parameter
    low: float
    high: float
    #: Points that hold, and all points, on each side.
    inside: tuple[int, int]
    beyond: tuple[int, int]

    @property
    def is_clear(self) -> bool:
        """Whether the parameter decides."""
        share, other = (held / points for held, points in (self.inside, self.beyond))
        return share >= CLEAR and other <= 1 - CLEAR

    @property
    def shown(self) -> str:
        """The part, in words."""
        return self.parameter.shown(self.low, self.high)


@dataclass(frozen=True)
class Region:
    """Where a statement holds."""

    held: int
    points: int
    #: The best cut; none if all points agree.
    cut: Cut | None

    @property
    def verdict(self) -> str:
        """In words."""
        if self.held == self.points:
            return "holds for all parameters in their intervals"
        if self.cut is None:
            return "does not hold"
        if self.cut.is_clear:
            return f"holds for {self.cut.shown}"
        return f"holds at {self.held} of {self.points} points"

    @property
    def reason(self) -> str:
        """The counts behind the verdict."""
        text = f"it holds at {self.held} of {self.points} points"
        if self.cut is not None:
            (held, points), (other, others) = self.cut.inside, self.cut.beyond
            decides = "" if self.cut.is_clear else "; no parameter decides alone"
            text += f", with {self.cut.shown} at {held} of {points}, else at {other} of {others}"
            text += decides
        return text


def region(points: Sequence[Assumptions], holds: Sequence[bool]) -> Region:
    """Where in the box a statement holds, from what came of it at each point."""
    held = np.asarray(holds, dtype=bool)
    count = int(held.sum())
    if count in (0, len(held)):
        return Region(count, len(held), None)
    cuts = [_best(one, points, held) for one in PARAMETERS]
    return Region(count, len(held), min(cuts, key=lambda cut: _impurity(*cut.inside, *cut.beyond)))


def _impurity(held: Any, points: Any, other: Any, others: Any) -> Any:
    """Gini's impurity of both sides, weighted by their points."""
    return held * (points - held) / points + other * (others - other) / others


def _best(parameter: Parameter, points: Sequence[Assumptions], held: NDArray[np.bool_]) -> Cut:
    """The best part of one parameter's interval, with its ends between neighbouring points."""
    values = np.array([getattr(one, parameter.name) for one in points])
    order = np.argsort(values)
    values, below = values[order], np.concatenate([[0], np.cumsum(held[order])])
    ends = np.concatenate([[parameter.low], (values[1:] + values[:-1]) / 2, [parameter.high]])
    total, least = len(values), max(1, round(len(values) * LEAST))
    first, last = np.triu_indices(total + 1, 1)
    size = last - first
    tails = (first, total - last)
    kept = (size >= least) & (size < total)
    for tail in tails:
        kept &= (tail == 0) | (tail >= least)
    first, last, size = first[kept], last[kept], size[kept]
    inside = below[last] - below[first]
    beyond, others = below[-1] - inside, total - size
    impurity = _impurity(inside, size, beyond, others)
    best = np.argmin(np.where(inside * others > beyond * size, impurity, np.inf))
    return Cut(
        parameter,
        float(ends[first[best]]),
        float(ends[last[best]]),
        (int(inside[best]), int(size[best])),
        (int(beyond[best]), int(others[best])),
    )
