"""Intervals of counts, shares, means and quantiles of noisy counts, by inverting tests whose null law holds the noise.

A share p of a group of N records is tested by T = y_a - p (y_a + y_b), the noisy counts inside and outside. Under the
null T is a binomial count less N p, and weighted noise: 1 - p times that of the cells inside, -p times that of the
cells outside. Records of one unit may agree; the binomial law is then that of N / c independent units of c records,
which has the largest variance, c N p (1 - p). Tails are those of the saddlepoint approximation (Lugannani and Rice
1980) with half a record's correction for continuity; without noise they are exact, and the interval is Clopper and
Pearson's (1934). An interval holds all p that neither tail of 2.5 % rejects.

A mean over bins is tested by sum (m_j - mu) y_j, see `mean_interval`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr

from learner_node.analyses.inference import linear_p, noisy, root
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.part import LEVEL, POPULATION, THESE, Estimand, Estimate

Floats = NDArray[np.float64]
TAIL = (1.0 - LEVEL) / 2.0
_GRID = 61
_NEAREST = 16
_POINTS, _REFINEMENTS = 13, 3
_NEAR = 1e-4


@dataclass(frozen=True)
class NoisySum:
    """Sums of cells of one table, one or several: raw values and how many cells each adds up."""

    value: Any  # a number, or (k,)
    cells: Any  # of the same shape


def count_estimate(total: NoisySum, noise: NoiseLaw) -> Estimate:
    """How many of these records there are: the raw value, at least 0, and the quantiles of the noise around it.

    The interval covers in at least 95 % whatever the count is: the noise's law does not depend on it.
    """
    return bounded_count(total.value, noise.of_cells(total.cells).quantile(1.0 - TAIL))


def bounded_count(value: float, reach: float) -> Estimate:
    """A number of these records from a raw value, and how far the noise reaches.

    The upper end is never below that of a raw value of 0. So an answer far below zero, whose own interval holds no
    possible number, does not seem a sure zero. This only widens the interval.
    """
    display = max(0.0, value)
    return Estimate(display, max(0.0, value - reach), display + reach, THESE)


def share_tail(inside: NoisySum, outside: NoisySum, noise: NoiseLaw, most: int, p: Floats) -> tuple[Floats, Floats]:
    """P(T <= observed) and P(T >= observed) at each share p in (0, 1), float64 of the shape of p.

    Args:
        inside: records that have it.
        outside: records that do not.
        noise: in each cell.
        most: c, records of a unit.
        p: shares to test.
    """
    size = np.maximum(np.maximum(inside.value + outside.value, inside.value), 1.0)
    observed = inside.value - p * (inside.value + outside.value)
    half = 0.5
    upper = _saddle_tail(observed - half, p, size, inside.cells, outside.cells, noise, most)
    lower = _saddle_tail(-(observed + half), 1.0 - p, size, outside.cells, inside.cells, noise, most)
    return lower, upper


def _saddle_tail(target: Floats, p: Floats, size: float, near: float, far: float, noise: NoiseLaw, most: int) -> Floats:
    """P(T >= target) of T = c Bin(size / c, p) - size p + (1 - p) noise of `near` cells - p noise of `far` cells.

    For a negative target it is the complement of the other side's tail.
    """
    units = size / most
    loud = noisy(noise)
    variance = most * size * p * (1 - p)
    if loud:
        variance = variance + noise.variance * (near * (1 - p) ** 2 + far * p**2)
    deviation = np.sqrt(variance)
    z = target / deviation
    chord = np.cosh(1.0 / noise.scale) if loud else 0.0

    def derivatives(s: Floats) -> tuple[Floats, Floats]:
        growth = p * np.exp(np.clip(most * s, -700, 700))
        tilted = growth / (1 - p + growth)
        first = size * (tilted - p) - target
        second = most * size * tilted * (1 - tilted)
        if loud:
            for cells, weight in ((near, 1 - p), (far, p)):
                gap = chord - np.cosh(weight * s)
                first = first + noise.draws * cells * weight * np.sinh(weight * s) / gap
                second = second + noise.draws * cells * weight**2 * (chord * np.cosh(weight * s) - 1) / gap**2
        return first, second

    most_s = (1 - 1e-9) / noise.scale / np.maximum(p, 1 - p) if loud else np.full_like(p, 200.0 / most)
    start = np.clip(target / variance, -0.5 * most_s, 0.5 * most_s)
    s = root(derivatives, -most_s, most_s, start, 1e-6)
    slope, second = derivatives(s)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        generating = units * np.log1p(p * np.expm1(np.clip(most * s, -700, 700))) - size * p * s
        if loud:
            for cells, weight in ((near, 1 - p), (far, p)):
                generating = generating + noise.draws * cells * np.log((chord - 1) / (chord - np.cosh(weight * s)))
        w = np.sign(s) * np.sqrt(np.maximum(2 * (s * (slope + target) - generating), 0.0))
        u = s * np.sqrt(second)
        tail = ndtr(-w) + np.exp(-(w**2) / 2) / np.sqrt(2 * np.pi) * (1 / u - 1 / w)
    close = np.abs(z) < _NEAR
    tail = np.where(close | ~np.isfinite(tail), ndtr(-z), tail)
    clipped: Floats = np.clip(tail, 0.0, 1.0)
    return clipped


def share_estimate(inside: NoisySum, outside: NoisySum, noise: NoiseLaw, most: int = 1) -> Estimate:
    """The share of a population that has it, with all shares that are not rejected.

    Without a positive total it has no value; the interval is still that of the test. Where one side is answered below
    zero, the end that it bounds is that of a raw value of 0, as in `bounded_count`, which only widens the interval.
    """
    total = inside.value + outside.value
    value = None if total <= 0 else float(np.clip(inside.value / total, 0.0, 1.0))
    if total > 0 and noisy(noise) and min(inside.value, outside.value) < 0:
        first, second = (replace(side, value=max(0.0, side.value)) for side in (inside, outside))
        return replace(share_estimate(first, second, noise, most), value=value)
    if not noisy(noise):
        return _exact_share(inside.value, outside.value, most)

    def excess(p: Floats) -> Floats:
        lower, upper = share_tail(inside, outside, noise, most, p)
        rest: Floats = np.minimum(lower, upper) - TAIL
        return rest

    low, high = inverted(excess, 0.0, 1.0, value)
    return Estimate(value, low, high, POPULATION)


def _exact_share(inside: float, outside: float, most: int) -> Estimate:
    """Clopper and Pearson's interval of whole units of c records."""
    total = inside + outside
    if total <= 0:
        return Estimate(None, 0.0, 1.0, POPULATION)
    first, second = inside / most, outside / most
    low = 0.0 if inside <= 0 else float(betaincinv(first, second + 1, TAIL))
    high = 1.0 if outside <= 0 else float(betaincinv(first + 1, second, 1 - TAIL))
    return Estimate(inside / total, low, high, POPULATION)


def inverted(excess: Callable[[Floats], Floats], low: float, high: float, near: float | None) -> tuple[float, float]:
    """The ends of where a test does not reject.

    Args:
        excess: parameters -> p-value less the level, negative where rejected.
        low: least possible parameter.
        high: largest possible parameter.
        near: an estimate, around which the grid is finer.

    Returns:
        (first, last) parameter that is not rejected, and the estimate between; (low, high) if the grid shows none.
    """
    unit = (1 - np.cos(np.linspace(0.0, np.pi, _GRID))) / 2
    grid = low + (high - low) * unit
    if near is not None:
        reach = (high - low) * np.geomspace(1e-4, 1.0, _NEAREST)
        grid = np.concatenate([grid, near - reach, [near], near + reach])
    span = high - low
    # ends are approached, where a law has no variance
    grid = np.unique(np.clip(grid, low + 1e-9 * span, high - 1e-9 * span))
    accepted = np.flatnonzero(excess(grid) >= 0)
    if not len(accepted):
        return low, high
    first, last = int(accepted[0]), int(accepted[-1])
    # (rejected, accepted) around each end; both are refined in the same calls
    left = (low, low) if first == 0 else (float(grid[first - 1]), float(grid[first]))
    right = (high, high) if last == len(grid) - 1 else (float(grid[last + 1]), float(grid[last]))
    for _ in range(_REFINEMENTS):
        points = np.stack([np.linspace(*left, _POINTS), np.linspace(*right, _POINTS)])
        inside = excess(np.clip(points.ravel(), grid[0], grid[-1])).reshape(points.shape) >= 0
        inside[:, -1] = True
        place = np.argmax(inside, axis=1)
        ends = [(float(row[max(at - 1, 0)]), float(row[at])) for row, at in zip(points, place, strict=True)]
        left = left if first == 0 else ends[0]
        right = right if last == len(grid) - 1 else ends[1]
    if near is None:
        return left[0], right[0]
    return min(left[0], near), max(right[0], near)


@dataclass(frozen=True)
class BinnedNumber:
    """Noisy counts of a number's bins in one group, missing values left out."""

    counts: Floats  # (k,), raw
    middles: Floats  # (k,), the value that stands for each bin
    ends: Floats  # (k + 1,), public bounds and edges
    noise: NoiseLaw  # in each bin
    most: int = 1  # c

    @property
    def total(self) -> float:
        """Noisy number of values."""
        return float(self.counts.sum())

    @property
    def mean(self) -> float | None:
        """The mean of the bins' middles, within their range; None without a positive total."""
        if self.total <= 0:
            return None
        return float(np.clip((self.counts @ self.middles) / self.total, self.middles.min(), self.middles.max()))

    @property
    def variance(self) -> float | None:
        """The variance of the bins' middles, with divisor n - 1, in its possible range; None if n is at most 1."""
        mean = self.mean
        if mean is None or self.total <= 1:
            return None
        spread = float(self.counts @ (self.middles - mean) ** 2) / (self.total - 1)
        return float(np.clip(spread, 0.0, np.ptp(self.middles) ** 2 / 4 * self.total / (self.total - 1)))


def mean_interval(number: BinnedNumber, of: Estimand, level: float = LEVEL) -> tuple[float, float]:
    """All means mu that the test of sum (m_j - mu) y_j does not reject.

    Of these records the sum holds noise alone. Of their population its variance has c sum (m_j - mu)^2 y_j, too, at
    least 0, times n / (n - 3), as the variance is estimated.
    """
    middles = number.middles
    if len(middles) == 1:
        return float(middles[0]), float(middles[0])

    def excess(mu: Floats) -> Floats:
        weights = middles - mu[:, None]
        sampling = np.zeros(len(mu)) if of == THESE else _sampling(number, weights)
        rest: Floats = linear_p(weights @ number.counts, weights, sampling, number.noise) - (1.0 - level)
        return rest

    if of == THESE and not noisy(number.noise):
        mean = number.mean
        return (float(middles.min()), float(middles.max())) if mean is None else (mean, mean)
    return inverted(excess, float(middles.min()), float(middles.max()), number.mean)


def _sampling(number: BinnedNumber, weights: Floats) -> Floats:
    """The variance of sum w_j n_j by sampling, of rows of weights: no less than 0, and of counts that may be noisy."""
    raw: Floats = np.maximum((weights**2) @ number.counts, 0.0)
    size = max(number.total, 6.0)
    return number.most * raw * size / (size - 3.0)


def deviation_interval(number: BinnedNumber, of: Estimand) -> tuple[float, float]:
    """All standard deviations that the test of sum ((m_j - mu)^2 - v) y_j does not reject for a plausible mean.

    Plausible are means in their 99 % interval; the test's level is then 4 %, and both together at least 95 %.
    """
    middles = number.middles
    most = float(np.ptp(middles)) / 2
    if len(middles) == 1:
        return 0.0, 0.0
    if of == THESE and not noisy(number.noise):
        exact = number.variance
        return (0.0, most) if exact is None else (exact**0.5, exact**0.5)
    low, high = mean_interval(number, of, 0.99)
    means = np.unique([low, high, float(np.clip(middles.mean() if number.mean is None else number.mean, low, high))])
    squares = (middles - means[:, None]) ** 2

    def excess(deviation: Floats) -> Floats:
        weights = squares - deviation[:, None, None] ** 2
        sampling = np.zeros(weights.shape[:-1]) if of == THESE else _sampling(number, weights)
        p = linear_p(weights @ number.counts, weights, sampling, number.noise)
        rest: Floats = p.max(-1) - 0.04
        return rest

    near = None if number.variance is None else number.variance**0.5
    return inverted(excess, 0.0, max(most, near or 0.0), near)


def quantile_interval(number: BinnedNumber, share: float, of: Estimand) -> tuple[float | None, float, float]:
    """A quantile and its interval, whose ends are edges of bins.

    The value is interpolated within its bin, as if values were even in it, and lies in the interval. Edges are tested
    upwards from the lowest while there are surely fewer than `share` below them, and downwards from the highest while
    there are surely more; the interval begins and ends at the last of each. So it holds the quantile of the values
    themselves, wherever in its bin it lies, and many edges raise no more false alarms than one: of edges above the
    quantile only the first can be passed wrongly.
    """
    total = number.total
    low, high = float(number.ends[0]), float(number.ends[-1])
    less, more = _edge_tails(number, share, of)
    inner = number.ends[1:-1]
    fewer = np.logical_and.accumulate(less < TAIL)
    greater = np.logical_and.accumulate((more < TAIL)[::-1])[::-1]
    low = max([low, *inner[fewer]])
    high = min([high, *inner[greater & ~fewer]])
    return (None if total <= 0 else float(np.clip(_interpolated(number, share), low, high))), low, high


def _edge_tails(number: BinnedNumber, share: float, of: Estimand) -> tuple[Floats, Floats]:
    """At each inner edge the tails of the test that exactly `share` lies below it, (k - 1,) each."""
    count = len(number.counts)
    below = np.arange(1.0, count)
    inside = np.cumsum(number.counts)[:-1]
    outside = number.total - inside
    if of == POPULATION:
        sums = NoisySum(inside, below), NoisySum(outside, count - below)
        return share_tail(*sums, number.noise, number.most, np.full(count - 1, share))
    statistic = (1 - share) * inside - share * outside
    if not noisy(number.noise):
        return (statistic >= 0).astype(float), (statistic <= 0).astype(float)
    weights = np.where(np.arange(count) < below[:, None], 1 - share, -share)
    p = linear_p(statistic, weights, np.zeros(count - 1), number.noise) / 2
    return np.where(statistic < 0, p, 1 - p), np.where(statistic < 0, 1 - p, p)


def _interpolated(number: BinnedNumber, share: float) -> float:
    """The point where the cumulated counts, made to rise, reach a share, straight within a bin."""
    below = np.concatenate([[0.0], np.cumsum(np.maximum(number.counts, 0.0))])
    if below[-1] <= 0:
        return float(number.ends[0])
    target = share * below[-1]
    j = int(np.clip(np.searchsorted(below, target, side="left"), 1, len(number.counts)))
    part = (target - below[j - 1]) / (below[j] - below[j - 1])
    return float(number.ends[j - 1] + part * (number.ends[j] - number.ends[j - 1]))


def zero_or_few(value: float, noise: NoiseLaw, few: int) -> tuple[float, float]:
    """Whether a cell is empty or has 1 to `few` records.

    Args:
        value: raw.
        noise: in the cell.
        few: most records of the second hypothesis, all of them as likely.

    Returns:
        (likelihood ratio of empty to few, probability of empty if before the two were as likely).
    """
    y = round(value)
    if noise.exact:
        empty = y == 0
        return (float("inf") if empty else 0.0), float(empty)
    gaps = y - np.arange(few + 1)
    log_law = noise.log_pmf(np.abs(gaps))
    top = log_law.max()
    law = np.exp(log_law - top)
    ratio = float(law[0] / max(law[1:].mean(), 1e-300))
    return ratio, ratio / (1.0 + ratio)
