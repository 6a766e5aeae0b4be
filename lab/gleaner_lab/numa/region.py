"""In which part of the box of parameters a statement holds, and which parameter decides that.

The box is cut once, at the value of one parameter that parts the points where the statement holds
from the others best (a decision tree of one split). If three of four points hold on one side and
no more than one of four on the other, that parameter decides, and the cut is where it flips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gleaner_lab.numa.parameters import PARAMETERS, Assumptions, Parameter

#: A side counts if it has this part of all points or more, and is clear from this purity on.
LEAST, CLEAR = 0.1, 0.75


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
        return f"holds for {self.cut.shown}" if self.cut.is_clear else "holds in part"

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
    best = min(cuts, key=_impurity)
    return Region(count, len(held), best)


def _impurity(cut: Cut) -> float:
    """Gini's impurity of both sides, weighted by their points."""
    return sum(held * (points - held) / points for held, points in (cut.inside, cut.beyond))


def _best(parameter: Parameter, points: Sequence[Assumptions], held: np.ndarray) -> Cut:
    """The best cut of one parameter's interval, between two neighbouring points."""
    values = np.array([getattr(one, parameter.name) for one in points])
    order = np.argsort(values)
    values, below = values[order], np.concatenate([[0], np.cumsum(held[order])])
    total, least = len(values), max(1, round(len(values) * LEAST))
    found = []
    for left in range(least, total - least + 1):
        at = float((values[left - 1] + values[left]) / 2)
        lower, upper = (
            (int(below[left]), left),
            (int(below[-1] - below[left]), total - left),
        )
        if lower[0] / lower[1] > upper[0] / upper[1]:
            found.append(Cut(parameter, parameter.low, at, lower, upper))
        else:
            found.append(Cut(parameter, at, parameter.high, upper, lower))
    return min(found, key=_impurity)
