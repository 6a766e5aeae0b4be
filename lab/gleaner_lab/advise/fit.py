"""What the runs say of the cells: means beside the rounds' effects, deviations, bounds of ratios.

All values are logarithms, so a difference is a ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from gleaner_lab.advise.space import Cell

#: The logarithms of a metric by round, for each cell.
Runs = dict[Cell, dict[int, float]]

#: Steps of the fit of cells and rounds, which go on until nothing changes or so many are done.
STEPS = 200
#: With less degrees of freedom a deviation is not used.
LEAST_FREEDOM = 4


@dataclass(frozen=True)
class Fit:
    """Means of cells, and how sure they are."""

    cells: list[Cell]
    #: Means with the rounds' effects taken off.
    means: dict[Cell, float]
    #: Those drawn to what the model predicts; the order of cells is theirs.
    drawn: dict[Cell, float]
    #: What the model predicts of a cell from the runs of the others.
    predicted: dict[Cell, float]
    #: Variance of one run, from cells that were run more than once, and its degrees of freedom.
    variance: float
    freedom: int
    #: Variance of the model's residuals when each cell was run once, and its degrees of freedom.
    residual: float
    residual_freedom: int


def of(runs: Runs, alive: Sequence[Cell]) -> Fit:
    """Fits cells and rounds, and the model of main effects."""
    cells = [cell for cell, values in runs.items() if values]
    means, variance, freedom = _cells_and_rounds(runs, cells)
    counts = np.asarray([len(runs[cell]) for cell in cells], dtype=float)
    values = np.asarray([means[cell] for cell in cells])
    design = _design(cells)
    residual_freedom = len(cells) - int(np.linalg.matrix_rank(design))
    if residual_freedom < LEAST_FREEDOM:
        return Fit(cells, means, means, means, variance, freedom, math.nan, 0)
    # The cells that are run again are the good ones: weights would fit the model to those alone.
    solution = np.linalg.pinv(design)
    hat = np.einsum("ij,ji->i", design, solution)
    fitted = design @ (solution @ values)
    errors = values - fitted
    residual = float(errors @ errors) / residual_freedom
    others = values - errors / np.maximum(1 - hat, 1e-6)
    # Before anything is repeated half of the residuals' variance is taken for that of runs.
    noise = variance if freedom >= LEAST_FREEDOM else residual / 2
    between = max(residual - noise * float(np.mean(1 / counts)), residual / 20, 1e-12)
    own = between / (between + noise / counts)
    drawn = own * values + (1 - own) * fitted
    return Fit(
        cells,
        means,
        dict(zip(cells, map(float, drawn), strict=True)),
        dict(zip(cells, map(float, others), strict=True)),
        variance,
        freedom,
        residual,
        residual_freedom,
    )


def _cells_and_rounds(runs: Runs, cells: Sequence[Cell]) -> tuple[dict[Cell, float], float, int]:
    """Effects of cells and of rounds, by turns; and the variance of what is left."""
    numbers = sorted({number for cell in cells for number in runs[cell]})
    column = {number: index for index, number in enumerate(numbers)}
    table = np.full((len(cells), len(numbers)), math.nan)
    for row, cell in enumerate(cells):
        for number, value in runs[cell].items():
            table[row, column[number]] = value
    rounds = np.zeros(len(numbers))
    means = np.nanmean(table, axis=1)
    for _ in range(STEPS):
        # The first round, which had all cells, is the measure of the others.
        fresh = np.nanmean(table - means[:, None], axis=0)
        fresh -= fresh[0]
        means = np.nanmean(table - fresh[None, :], axis=1)
        if np.max(np.abs(fresh - rounds)) < 1e-9:
            break
        rounds = fresh
    errors = table - means[:, None] - rounds[None, :]
    freedom = int(np.sum(~np.isnan(table))) - len(cells) - len(numbers) + 1
    variance = float(np.nansum(errors**2)) / freedom if freedom > 0 else math.nan
    return dict(zip(cells, map(float, means), strict=True)), variance, max(freedom, 0)


def _design(cells: Sequence[Cell]) -> np.ndarray:
    """A column for each level of each factor but its first, and one for all."""
    columns = [np.ones(len(cells))]
    for factor in range(3):
        levels = list(dict.fromkeys(cell.levels[factor] for cell in cells))
        for level in levels[1:]:
            columns.append(np.asarray([float(cell.levels[factor] == level) for cell in cells]))
    return np.stack(columns, axis=1)


@dataclass(frozen=True)
class Look:
    """Bounds of the ratios at one moment, each missed with a probability of `share` per side."""

    fit: Fit
    runs: Runs
    share: float

    def bounds(self, cell: Cell, best: Cell) -> tuple[float, float] | None:
        """Of the logarithm of a cell's ratio to the best; None when nothing can be said."""
        mine, other = self.runs[cell], self.runs[best]
        common = sorted(mine.keys() & other.keys())
        differences = np.asarray([mine[number] - other[number] for number in common])
        if self.fit.freedom >= LEAST_FREEDOM and len(common) >= 2:
            variance, quantile = 2 * self.fit.variance, self._quantile
            if len(common) >= 3:
                variance = max(variance, float(np.var(differences, ddof=1)))
            middle = float(np.mean(differences))
            width = quantile * math.sqrt(variance / len(common))
            return middle - width, middle + width
        if self.fit.residual_freedom < LEAST_FREEDOM or not common:
            return None
        by_model = self.fit.predicted[cell] - self.fit.predicted[best]
        width = self._screening_quantile * math.sqrt(2 * self.fit.residual)
        middle = float(np.mean(differences))
        return min(middle, by_model) - width, max(middle, by_model) + width

    @cached_property
    def _quantile(self) -> float:
        return float(stats.t.isf(self.share, self.fit.freedom))

    @cached_property
    def _screening_quantile(self) -> float:
        return float(stats.t.isf(self.share, self.fit.residual_freedom))
