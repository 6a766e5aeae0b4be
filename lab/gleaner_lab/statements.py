"""What a paper says, as data: a statement, its figure, and when it holds of ours."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gleaner_lab.experiment import Part


class Statement(Part):
    """What a paper says, and when it holds of ours; `ours` of a subclass says of which figure."""

    says: str
    section: str
    #: The paper's figure; none where it names a direction only.
    figure: float | None = None
    unit: Literal["percent", "times", "number"]
    at_least: float | None = None
    at_most: float | None = None
    #: Both bounds: this many times less and more than the paper's figure. With the unit `times`,
    #: what exceeds 1 is multiplied, so that a statement about a gain never holds without one.
    within: Annotated[float, Field(gt=1)] | None = None
    #: Both bounds where the paper itself gives a range.
    between: tuple[float, float] | None = None

    @model_validator(mode="after")
    def has_bounds(self) -> Statement:
        """One way to say them; a factor needs something to multiply."""
        is_open = self.at_least is not None or self.at_most is not None
        if [self.within is not None, self.between is not None, is_open].count(True) != 1:
            ways = "within, or between, or at_least, at_most or both"
            raise ValueError(f"a statement needs either {ways}")
        if self.between is not None and self.between[0] >= self.between[1]:
            raise ValueError("between is a range from the smaller to the greater figure")
        if self.within is not None and not (self.figure or 0) > self._start:
            raise ValueError(f"within is about a figure above {self._start:g}")
        return self

    @property
    def _start(self) -> float:
        """The figure that says that nothing is gained."""
        return 1.0 if self.unit == "times" else 0.0

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which figures of ours it holds."""
        if self.within is not None:
            assert self.figure is not None
            excess = self.figure - self._start
            return self._start + excess / self.within, self._start + excess * self.within
        if self.between is not None:
            return self.between
        least = -math.inf if self.at_least is None else self.at_least
        return least, math.inf if self.at_most is None else self.at_most

    def shown(self, value: float) -> str:
        """A figure in the statement's unit."""
        if self.unit == "percent":
            return f"{value * 100:.3g} %"
        return f"{value:.3g}" + (" times" if self.unit == "times" else "")

    @property
    def shown_bounds(self) -> str:
        """When it holds, in words."""
        least, most = self.bounds
        words = [f"at least {self.shown(least)}"] if math.isfinite(least) else []
        words += [f"at most {self.shown(most)}"] if math.isfinite(most) else []
        return ", ".join(words)
