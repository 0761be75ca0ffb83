"""Several groups compared: standardised mean differences with intervals, tests of difference, and Holm's adjustment.

An interval of a difference joins the two groups' intervals (Zou and Donner 2008): its lower end is
d - sqrt((a - a_low)^2 + (b_high - b)^2), which needs no law of the difference. The tests are `inference`'s, whose null
law holds the noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from learner_node.analyses.inference import (
    SignificanceTest,
    chi_squared,
    pearson,
    quadratic_moments,
    trend,
    trend_score,
)
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis
from learner_node.analyses.part import POPULATION, EffectSize, Estimate
from learner_node.analyses.power import linear_power, percent, quadratic_power
from protocol.errors import ConfigurationError

Floats = NDArray[np.float64]
_TWO = 2
STANDARDISED, SHARES = "standardised difference", "share difference"
"""Effects whose power `level_power` and `number_power` foresee."""
_BASE = 0.2
"""Share of the first level that a quote assumes."""


@dataclass(frozen=True)
class Moments:
    """A number's mean and standard deviation in one group, with intervals for its population."""

    mean: Estimate
    deviation: Estimate


def level_test(values: Floats, noise: NoiseLaw, most: int) -> SignificanceTest:
    """The chi-squared test of independence of levels, in rows, and groups."""
    return chi_squared(values, noise, most)


def number_test(values: Floats, middles: Floats, noise: NoiseLaw, most: int) -> SignificanceTest:
    """The test of a number's bins, in rows, between groups.

    Two groups' means are compared, by the test of a trend over the bins' middles. More than two groups are compared by
    chi-squared on the bins.
    """
    if values.shape[1] == _TWO and len(middles) > 1:
        test = trend(values, middles, noise, most)
        return SignificanceTest("test of means of bins", test.statistic, test.df, test.p)
    return chi_squared(values, noise, most)


def level_power(expected: Floats, noise: NoiseLaw, *, most: int) -> float:
    """Chance that `level_test` rejects at 5 %, where these are the expected counts."""
    residue = pearson(expected, noise, most)
    if residue is None:
        return 0.0
    mean, variance = quadratic_moments(residue.leverages, residue.variances, noise)
    return quadratic_power(max(residue.statistic, 0.0), mean, variance)


def number_power(expected: Floats, middles: Floats, noise: NoiseLaw, *, most: int) -> float:
    """Chance that `number_test` rejects at 5 %, where these are the expected counts."""
    if expected.shape[1] != _TWO:
        return level_power(expected, noise, most=most)
    score = trend_score(expected, middles, noise, most)
    if score is None:
        return 0.0
    sampling = most * float((score.weights**2 * expected.ravel()).sum())
    return linear_power(score.value, score.weights, (score.sampling, sampling), noise)


def groups_apart(axis: Axis, groups: int, middles: Floats | None, effect: EffectSize) -> Floats:
    """Shares of an attribute's cells in equal groups, of which the last differs by the effect, (cells, groups).

    In the others the first level has a fifth of the records, and further levels, or all bins, share evenly.

    Raises:
        ConfigurationError: no shares differ by so much.
    """
    shares = np.zeros((len(axis) - 1, groups))
    if middles is not None:
        shares[:] = 1.0 / len(middles)
        shares[:, -1] = _tilted(middles, effect)
        return shares
    first = _BASE + effect.size
    if effect.measure == STANDARDISED:
        first = _solved(lambda share: _standardised(share, _BASE), effect, 1e-12, 1.0 - 1e-12)
    if not 0.0 < first < 1.0:
        raise ConfigurationError(f"no share differs by {effect.size:g} from the {percent(_BASE)} that a quote assumes")
    rest = np.full(axis.proper - 1, 1.0 / (axis.proper - 1))
    shares[: axis.proper, :-1] = np.append(_BASE, (1.0 - _BASE) * rest)[:, None]
    shares[: axis.proper, -1] = np.append(first, (1.0 - first) * rest)
    return shares


def _tilted(middles: Floats, effect: EffectSize) -> Floats:
    """Shares of bins whose mean is so many standard deviations from that of even shares."""
    places = (middles - middles.mean()) / np.ptp(middles)
    spread = float((places**2).mean())

    def shares(slope: float) -> Floats:
        weights = np.exp(slope * places - np.abs(slope) / 2.0)
        return np.asarray(weights / weights.sum())

    def difference(slope: float) -> float:
        mean = float(shares(slope) @ places)
        other = float(shares(slope) @ places**2) - mean**2
        return mean / float(np.sqrt((spread + other) / 2.0))

    return shares(_solved(difference, effect, -200.0, 200.0))


def _solved(difference: Callable[[float], float], effect: EffectSize, low: float, high: float) -> float:
    """Where a rising function reaches an effect. Raises ConfigurationError: nowhere."""
    if not difference(low) < effect.size < difference(high):
        raise ConfigurationError(f"a {effect.measure} of {effect.size:g} is more than the attributes' bins can have")
    return float(brentq(lambda place: difference(place) - effect.size, low, high))


def _toward(value: float, end: float, other: float) -> float:
    """How far an estimate moves where two move to the ends together, by the square of its own part."""
    joint = np.hypot(value - end, other)
    return value if joint == 0 else value + (end - value) * abs(end - value) / float(joint)


def number_difference(first: Moments, second: Moments) -> Estimate:
    """The standardised mean difference of two groups, first less second, over the root of the mean variance.

    The interval joins those of both means and of both standard deviations.
    """
    a, b = first.mean, second.mean
    s, t = first.deviation, second.deviation
    if a.value is None or b.value is None or s.value is None or t.value is None:
        return Estimate(None, -np.inf, np.inf, POPULATION)
    scale = float(np.sqrt((s.value**2 + t.value**2) / 2))
    difference = a.value - b.value
    below = float(np.hypot(a.value - a.low, b.high - b.value))
    above = float(np.hypot(a.high - a.value, b.value - b.low))
    if scale <= 0:
        return Estimate(None, -np.inf, np.inf, POPULATION)
    wide, narrow = _pooled_ends(s, t)
    value = difference / scale
    if narrow <= 0:
        return Estimate(value, -np.inf, np.inf, POPULATION)
    less, more = (
        (difference / wide, difference / narrow) if difference > 0 else (difference / narrow, difference / wide)
    )
    # where the difference is near 0 the scale at its small end makes it largest
    low = value - float(np.hypot(below / (narrow if difference < below else scale), value - less))
    high = value + float(np.hypot(above / (narrow if -difference < above else scale), more - value))
    return Estimate(value, low, high, POPULATION)


def _pooled_ends(first: Estimate, second: Estimate) -> tuple[float, float]:
    """The largest and smallest root of the mean variance, by joining both intervals."""
    a, b = float(first.value or 0.0) ** 2, float(second.value or 0.0) ** 2
    above = float(np.hypot(first.high**2 - a, second.high**2 - b))
    below = float(np.hypot(a - first.low**2, b - second.low**2))
    return float(np.sqrt((a + b + above) / 2)), float(np.sqrt(max(0.0, (a + b - below) / 2)))


def _standardised(p: float, q: float) -> float:
    spread = (p * (1 - p) + q * (1 - q)) / 2
    gap = p - q
    return 0.0 if gap == 0 else float(np.copysign(np.inf, gap)) if spread <= 0 else float(gap / np.sqrt(spread))


def share_difference(first: Estimate, second: Estimate) -> Estimate:
    """The standardised difference of two shares, first less second."""
    if first.value is None or second.value is None:
        return Estimate(None, -np.inf, np.inf, POPULATION)
    p, q = first.value, second.value
    low = _standardised(_toward(p, first.low, second.high - q), _toward(q, second.high, p - first.low))
    high = _standardised(_toward(p, first.high, q - second.low), _toward(q, second.low, first.high - p))
    value = _standardised(p, q)
    return Estimate(value if np.isfinite(value) else None, min(low, value), max(high, value), POPULATION)


def levels_distance(values: Floats, noise: NoiseLaw) -> float | None:
    """Yang and Dalton's (2012) distance of two groups' shares over all levels, (r, 2), with the known noise taken out.

    sqrt of t' S^-1 t less what noise adds to it, no less than 0; t is the difference of shares without the first level,
    and S the mean of both covariances. None where a group has nobody, or S is singular.
    """
    totals = values.sum(0)
    if len(values) < _TWO or totals.min() <= 0:
        return None
    shares = np.maximum(values, 0.0) / np.maximum(values, 0.0).sum(0)
    p, q = shares.T
    keep = (p + q) > 0
    p, q = p[keep][1:], q[keep][1:]
    covariance = (np.diag(p) - np.outer(p, p) + np.diag(q) - np.outer(q, q)) / 2
    if not len(p) or np.linalg.cond(covariance) > 1e10:
        return None
    inverse = np.linalg.inv(covariance)
    # a level's share moves by its cell's noise, less its part of the total's
    extra = 0.0
    for part, total in ((p, totals[0]), (q, totals[1])):
        moves = np.eye(len(part)) * 1.0
        spread = moves - np.outer(part, np.ones(len(part))) - np.outer(np.ones(len(part)), part)
        spread += len(values) * np.outer(part, part)
        extra += noise.variance / total**2 * float(np.trace(inverse @ spread))
    gap = p - q
    return float(np.sqrt(max(0.0, float(gap @ inverse @ gap) - extra)))


def largest(differences: Sequence[Estimate]) -> Estimate:
    """Of all pairs of groups the one with the largest absolute value; the first where none has a value."""
    return max(differences, key=lambda estimate: -1.0 if estimate.value is None else abs(estimate.value))


def pairs(count: int) -> list[tuple[int, int]]:
    """All pairs of groups."""
    return list(combinations(range(count), 2))
