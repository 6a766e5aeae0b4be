"""What the runs say of all cells: a Gaussian model of factors, interactions, rounds and noise.

The logarithm of a figure is the sum of a mean, an effect of each factor's level, of each pair of
levels, of the cell itself, of the round, and noise. All effects are Gaussian with unknown
variances, which are fitted to the runs (empirical Bayes, Robinson, Statistical Science 1991). So a
cell borrows strength from those that share levels with it as far as factors turn out to explain
anything, and one that was never run has a prediction with an honest interval. A run that lies far
off weighs less, as under Student's noise (Lange, Little and Taylor, JASA 1989): a neighbour on the
machine does not decide anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import linalg, optimize, special

from gleaner_lab.advise.space import Cell

#: A run as the model sees it: the cell, the round, the logarithm of the figure.
Run = tuple[Cell, int, float]

#: Degrees of freedom of the noise.
FREEDOM = 4.0
#: Fits with fresh weights of the runs.
WEIGHINGS = 2
#: Variance of the mean: nothing is known of it.
VAGUE = 100.0
#: What is believed of a deviation before any run: about 5 %, give or take a factor of 4.
BELIEVED, SPREAD = np.log(0.05), np.log(4.0)
#: Deviations lie between these.
LEAST, MOST = np.log(1e-4), np.log(3.0)


@dataclass(frozen=True)
class Posterior:
    """What is known of the cells' logarithms."""

    cells: list[Cell]
    means: np.ndarray
    covariance: np.ndarray
    #: Logarithms of the fitted deviations.
    deviations: np.ndarray
    #: How many runs repeated a cell.
    repeats: int

    @property
    def noise(self) -> float:
        """The deviation of one run, as a share."""
        return float(np.exp(self.deviations[-1]))

    def ratio(self, cell: Cell, other: Cell, confidence: float = 0.95) -> tuple[float, ...]:
        """The ratio of two cells, and the ends of its interval."""
        one, two = self.cells.index(cell), self.cells.index(other)
        low, high = self.differences(two, confidence)
        middle = self.means[one] - self.means[two]
        return tuple(float(np.exp(value)) for value in (middle, low[one], high[one]))

    def differences(
        self, best: int, confidence: float, is_rough: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the intervals of all cells' differences to one.

        Rough ones take the fitted variances for certain: good enough to choose what runs next.
        """
        variances = np.diag(self.covariance)
        both = variances + variances[best] - 2 * self.covariance[best]
        width = np.zeros(len(both))
        level = (1 + confidence) / 2
        quantile = special.ndtri(level) if is_rough else np.inf
        if self.repeats and not is_rough:
            quantile = special.stdtrit(self.repeats, level)
        # Of the cell to itself all is known, whatever else is not.
        width[both > 0] = quantile * np.sqrt(both[both > 0])
        middle = self.means - self.means[best]
        return middle - width, middle + width

    def draws(self, count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Cells' logarithms as they may be, one row a draw: roughly, and as Student's."""
        size = len(self.cells)
        root = linalg.cholesky(self.covariance + 1e-10 * np.eye(size), lower=True)
        off = random.standard_normal((count, size)) @ root.T
        freedom = max(self.repeats, 1)
        wide = np.sqrt(freedom / random.chisquare(freedom, (count, 1)))
        return self.means + off, self.means + wide * off


def fit(runs: Sequence[Run], cells: Sequence[Cell]) -> Posterior:
    """The cells given the runs."""
    rows = np.asarray([cells.index(cell) for cell, _, _ in runs])
    rounds = np.asarray([number for _, number, _ in runs])
    values = np.asarray([value for _, _, value in runs])
    middle = float(np.median(values))
    values = values - middle
    shared = _shared(cells)
    kernels = [one[np.ix_(rows, rows)] for one in shared]
    kernels.append(_equal(rounds, rounds))
    deviations = np.full(len(kernels) + 1, BELIEVED)
    weights = np.ones(len(runs))
    for _ in range(WEIGHINGS):
        deviations = optimize.minimize(
            _misfit,
            deviations,
            (kernels, values, weights),
            method="L-BFGS-B",
            jac=True,
            bounds=[(LEAST, MOST)] * len(deviations),
            options={"maxiter": 30, "ftol": 1e-6},
        ).x
        variances = np.exp(2 * deviations)
        matrix = _matrix(variances, kernels, weights)
        factor = linalg.cho_factor(matrix, lower=True)
        solved = linalg.cho_solve(factor, values)
        # What is left of a run is its share of the noise: the weights follow from that.
        errors = variances[-1] / weights * solved
        weights = (FREEDOM + 1) / (FREEDOM + errors**2 / variances[-1])
    among = VAGUE + np.tensordot(variances[:-2], np.stack(shared), axes=1)
    across = among[:, rows]
    means = middle + across @ solved
    covariance = among - across @ linalg.cho_solve(factor, across.T)
    repeats = len(runs) - len(set(map(int, rows)))
    return Posterior(list(cells), means, (covariance + covariance.T) / 2, deviations, repeats)


def _equal(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one[:, None] == other[None, :]).astype(float)


def _shared(cells: Sequence[Cell]) -> list[np.ndarray]:
    """Which cells share a level of each factor, how many pairs of levels, and which are the same.

    A factor with one level explains nothing, and is left out.
    """
    columns = list(zip(*(cell.levels for cell in cells), strict=True))
    numbers = [np.unique(list(map(str, one)), return_inverse=True)[1] for one in columns]
    same = [_equal(one, one) for one in numbers if len(set(one)) > 1]
    pairs = [one * other for one, other in combinations(same, 2)]
    both = [np.sum(pairs, axis=0) / len(pairs)] if pairs else []
    return [*same, *both, np.eye(len(cells))]


def _matrix(variances: np.ndarray, kernels: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
    found = np.full(kernels[0].shape, VAGUE)
    for variance, kernel in zip(variances[:-1], kernels, strict=True):
        found += variance * kernel
    found[np.diag_indices_from(found)] += variances[-1] / weights
    return found


def _misfit(
    deviations: np.ndarray, kernels: list[np.ndarray], values: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """The negative logarithm of the runs' likelihood times the belief, and its gradient."""
    variances = np.exp(2 * deviations)
    root = linalg.cholesky(_matrix(variances, kernels, weights), lower=True)
    inverse = linalg.cho_solve((root, True), np.eye(len(values)))
    solved = inverse @ values
    far = (deviations - BELIEVED) / SPREAD
    misfit = values @ solved / 2 + np.log(np.diag(root)).sum() + far @ far / 2
    pull = inverse - np.outer(solved, solved)
    slopes = [
        variance * np.vdot(pull, kernel)
        for variance, kernel in zip(variances[:-1], kernels, strict=True)
    ]
    slopes.append(variances[-1] * np.vdot(np.diag(pull), 1 / weights))
    return float(misfit), np.asarray(slopes) + far / SPREAD
