"""Estimates each class's share of the target's records from noisy counts, and moves a model's mean towards it.

A label model shrinks to its prior, networks may die, and a sharpened model understates a rare class. The totals of the
counts are unbiased, with known noise. A model is moved towards them on the probit scale, but no farther than they
require (`Prevalence.nearest`), since the model has used each cell and knows more than the totals if cells are pure. The
order of its records stays. docs/results/risks.md has more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]

DECLARED_SPREAD = 0.5
"""Standard deviation of the number of records around the declared one, as a share of it."""
LEAST_IN_ERRORS = 0.1
"""Smallest distance of a share from 0 and 1, in standard errors, so that noise rules no class out."""
TOLERATED_ERRORS = 0.25
"""Distance, in standard errors of the estimated share, to which a model's mean risk is moved."""
LEAST = 1e-6
"""Smallest distance from 0 and 1 of a share that a model is moved to."""
_LEVEL = float(ndtri(0.975))
_SUREST, _FARTHEST = 30.0, 40.0
_SHARES: Floats = np.sin(np.linspace(0.0, 0.5 * np.pi, 1001)) ** 2
"""Grid of shares, ascending and symmetrical about one half."""
_LEAST_VARIANCE = 0.25
_SWEEPS, _CLOSE = 200, 1e-10


@dataclass(frozen=True)
class Prevalence:
    """A class's share of the target's records, estimated from the answers."""

    share: float  # in (0, 1)
    low: float  # low, high: 95 % confidence interval, `0 <= low <= share <= high <= 1`
    high: float
    error: float  # standard error that noise and sampling imply, positive

    def nearest(self, probability: Floats, mass: Floats) -> float:
        """The share in (0, 1) that is nearest to a model's own mean, among those that the answers support.

        Supported shares lie within 1/4 + R standard errors of the estimate. R is the share of the label's variance that
        the model explains, Var P / (mean P (1 - mean P)): if risks are near 0 and 1, the model knows their mean better
        than noisy totals.

        `probability` is the model's for the source records, (n_s,), in [0, 1]; `mass` is as in `mean_probability`.
        """
        mean = mean_probability(probability, mass)
        variance = mean_probability(probability**2, mass) - mean**2
        explained = max(variance, 0.0) / max(mean * (1.0 - mean), LEAST)
        most = (TOLERATED_ERRORS + min(explained, 1.0)) * self.error
        return min(max(mean, self.share - most, LEAST), self.share + most, 1.0 - LEAST)


def estimate_prevalence(
    counted: tuple[float, float],
    noise_variance: tuple[float, float],
    *,
    declared: float,
    records_per_unit: int = 1,
) -> Prevalence:
    """Estimate a class's share from two noisy totals: of its records, and of all others.

    Both totals are normal about N p and N (1 - p), with the variance of their noise and of sampling; N is normal about
    the declared number. The estimate is the p for which the contrast (1 - p) a - p b of the totals a and b is 0, given
    N's law. The interval holds every p whose contrast is within 1.96 of its standard errors of 0 (Fieller 1954, with
    the variance of a score interval): all of [0, 1] where the answers tell nothing.

    Args:
        counted: noisy totals, of the class and of the others.
        noise_variance: noise variance of each total, non-negative.
        declared: number of records N that the curators declare, positive.
        records_per_unit: contribution bound c, at least 1; the sampling variance is taken as c times that of
            independent records.
    """
    share = _SHARES
    noise = np.maximum(noise_variance, _LEAST_VARIANCE)
    of_declared = (DECLARED_SPREAD * declared) ** 2
    total_noise = float(noise.sum())
    size = max((sum(counted) * of_declared + declared * total_noise) / (of_declared + total_noise), 1.0)
    sampling = records_per_unit * size
    variance = noise[:, None] + sampling * np.stack([share, 1.0 - share])
    of_counts = variance.sum(axis=0)
    # The totals given that N is near the declared number, and what is left of their variances.
    pull = (declared - sum(counted)) / (of_counts + of_declared)
    totals = np.asarray(counted)[:, None] + variance * pull
    contrast = (1.0 - share) * totals[0] - share * totals[1]
    opposite = variance[0] * variance[1] / (of_counts + of_declared)
    remaining = variance - variance**2 / (of_counts + of_declared)
    spread = (1.0 - share) ** 2 * remaining[0] + share**2 * remaining[1] + 2.0 * share * (1.0 - share) * opposite
    standard = contrast / np.sqrt(spread)
    if standard[0] <= 0.0 <= standard[-1]:  # neither total is positive: noise alone
        return Prevalence(0.5, 0.0, 1.0, float(np.sqrt(spread[len(share) // 2]) / size))
    root = _first_below(standard, 0.0)
    error = float(np.interp(root, share, np.sqrt(spread)) / size)
    least = min(LEAST_IN_ERRORS * error, 0.5)
    estimate = float(np.clip(root, least, 1.0 - least))
    low, high = _first_below(standard, _LEVEL), 1.0 - _first_below(-standard[::-1], _LEVEL)
    return Prevalence(estimate, min(low, estimate), max(high, estimate), error)


def estimate_prevalences(
    totals: Floats, noise_variance: float, *, declared: float, records_per_unit: int = 1
) -> tuple[Prevalence, ...]:
    """Estimate every class's share against the rest by `estimate_prevalence`; `totals` (C,) are noisy."""
    return tuple(
        estimate_prevalence(
            (float(total), float(totals.sum() - total)),
            (noise_variance, noise_variance * (len(totals) - 1)),
            declared=declared,
            records_per_unit=records_per_unit,
        )
        for total in totals
    )


def _first_below(values: Floats, level: float) -> float:
    """The smallest share at which values on `_SHARES` reach a level, interpolated by the secant; 1 if none does."""
    below = np.flatnonzero(values <= level)
    if not len(below):
        return 1.0
    first = int(below[0])
    if first == 0:
        return 0.0
    fraction = (values[first - 1] - level) / (values[first - 1] - values[first])
    return float(_SHARES[first - 1] + fraction * (_SHARES[first] - _SHARES[first - 1]))


def mean_probability(probability: Floats, mass: Floats) -> float:
    """The target's mean of a probability, in [0, 1].

    Args:
        probability: of the source records, (n_s,), in [0, 1].
        mass: target records that each of them stands for, (n_s,), non-negative, not all 0.
    """
    return float(np.average(probability, weights=mass))


def matching_intercept(probability: Floats, mass: Floats, share: float) -> float:
    """Return b for which the target's mean of Phi(probit(p) + b) is `share`, in (0, 1); the records' order stays.

    `probability` is the model's P(label 1) of the source records, (n_s,), in [0, 1]; `mass` is as in
    `mean_probability`.
    """
    weight = mass / mass.sum()
    probit = np.clip(ndtri(probability), -_SUREST, _SUREST)
    return float(brentq(lambda b: weight @ ndtr(probit + b) - share, -_FARTHEST, _FARTHEST))


def shifted(probability: Floats, intercept: float) -> Floats:
    """Phi(probit(p) + intercept), float64 of one shape; 0 and 1 stay."""
    result: Floats = ndtr(ndtri(np.asarray(probability, dtype=np.float64)) + intercept)
    return result


def matching_factors(probabilities: Floats, mass: Floats, shares: Sequence[float]) -> Floats:
    """Return factors of the classes' odds for which the target's mean of each class is that share: (C,) positive.

    A record's probabilities are multiplied by them and divided by their sum: any two classes' log odds move by one
    constant, as after a change of the classes' shares (Saerens et al. 2002, Eq. 2.4). Found by scaling each class by
    goal over current share in turn.

    Args:
        probabilities: of the source records, (n_s, C), positive, rows adding up to 1.
        mass: as in `mean_probability`.
        shares: (C,) positive; divided by their sum.
    """
    goal = np.asarray(shares, dtype=np.float64) / np.sum(shares)
    weight = mass / mass.sum()
    factors = np.ones(len(goal))
    for _ in range(_SWEEPS):
        current = weight @ rescaled(probabilities, factors)
        factors *= goal / current
        if np.max(np.abs(current / goal - 1.0)) < _CLOSE:
            break
    result: Floats = factors / factors.max()
    return result


def rescaled(probabilities: Floats, factors: Floats) -> Floats:
    """Class probabilities (n, C) with odds multiplied by (C,) factors; rows sum to 1."""
    moved = probabilities * factors
    result: Floats = moved / moved.sum(axis=1, keepdims=True)
    return result
