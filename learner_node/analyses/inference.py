"""Null laws of statistics of noisy counts: sampling and the noise that is known to be in them.

A cell's answer is y = n + noise. Its count n is Poisson with mean lambda for independent records; for units of up to c
records its variance is c lambda at most, which is taken. So y has mean lambda and variance V = c lambda + sigma^2.

* A linear statistic sum h_i (y_i - lambda_i) has a law that is a normal one (sampling) plus weighted discrete Laplace
  variables (noise). `linear_p` gives its tail by the saddlepoint approximation of Lugannani and Rice (1980), which
  errs by a few per cent of the tail however far out. Without noise it is the normal tail.
* A quadratic statistic, Pearson's, has mean df and variance 2 df + sum of h_i^2 times the excess kurtosis of cell i
  that noise brings, where h_i is how much of cell i is residual. `quadratic_p` takes the gamma law of these two.
  Without
  noise it is chi-squared.

Means are fitted by the quasi-likelihood of that variance: with a = sigma^2 / c, y + a is taken as Poisson of mean
lambda + a, and lambda stays at 0 or above. Without noise this is maximum likelihood.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, ndtr

from learner_node.analyses.noise_law import NoiseLaw

Floats = NDArray[np.float64]
_STEPS = 60
_FLAT = 1e-12
SMALLEST = 0.02
"""Noise of a smaller scale than this changes no count with a chance above 1e-20, and is taken as none."""


def root(
    function: Callable[[Floats], tuple[Floats, Floats]],
    low: Floats,
    high: Floats,
    start: Floats,
    precision: float = 1e-10,
) -> Floats:
    """The roots of increasing functions, by Newton's steps that fall back on bisection.

    Args:
        function: x -> values and derivatives, both of the shape of `low`.
        low: ends where the functions are at most 0.
        high: ends where they are at least 0.
        start: where to begin, inside.
        precision: relative, of the last step.
    """
    low, high, x = low.copy(), high.copy(), start.copy()
    for _ in range(_STEPS):
        value, slope = function(x)
        low = np.where(value <= 0, x, low)
        high = np.where(value >= 0, x, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = x - value / slope
        inside = (step > low) & (step < high)
        following = np.where(inside, step, (low + high) / 2.0)
        moved = np.abs(following - x)
        x = following
        if np.all(moved <= precision * (1e-300 + np.abs(x))):
            break
    return x


def noisy(noise: NoiseLaw) -> bool:
    """Whether the noise moves counts at all."""
    return not noise.exact and noise.scale >= SMALLEST


def linear_p(
    statistic: Floats, weights: Floats, sampling: Floats, noise: NoiseLaw, added: Floats | None = None
) -> Floats:
    """Two-sided p-values of linear statistics, each a normal variable plus weighted noise.

    Args:
        statistic: (...), observed values of sum h_i (y_i - lambda_i).
        weights: (..., cells), the h_i.
        sampling: (...), the variance of the normal part, sum h_i^2 c lambda_i.
        noise: in each cell that was asked.
        added: (cells,), how many asked cells were added up to each; 1 if None.

    Returns:
        (...), P(|law| >= |statistic|); 1 where the law is a point.
    """
    x = np.abs(np.asarray(statistic, np.float64))
    size = np.abs(np.asarray(weights, np.float64))
    draws = noise.draws * (np.ones(size.shape[-1]) if added is None else np.asarray(added, np.float64))
    variance = sampling + (size**2 * draws).sum(-1) * (noise.variance / noise.draws if noisy(noise) else 0.0)
    deviation = np.sqrt(np.where(variance > 0, variance, 1.0))
    z = x / deviation
    plain = np.where(variance > 0, 2.0 * ndtr(-z), 1.0)
    if not noisy(noise):
        return plain
    top = size.max(-1)
    usable = (variance > 0) & (z > 1e-4) & (top > 0)
    if not np.any(usable):
        return plain
    scaled = size / np.where(top > 0, top, 1.0)[..., None]  # the largest weight is 1
    normal = np.where(usable, sampling, 1.0) / np.where(top > 0, top, 1.0) ** 2
    rate = 1.0 / noise.scale
    chord = np.cosh(rate)
    target = np.where(usable, x / np.where(top > 0, top, 1.0), 1.0)
    target = np.maximum(target - _lattice_step(scaled, normal, noise.scale, draws) / 2.0, 0.0)
    usable &= target * np.where(top > 0, top, 1.0) > 1e-4 * deviation

    def slope(s: Floats) -> tuple[Floats, Floats]:
        arguments = s[..., None] * scaled
        gap = chord - np.cosh(arguments)
        first = (draws * scaled * np.sinh(arguments) / gap).sum(-1) + normal * s - target
        second = (draws * scaled**2 * (chord * np.cosh(arguments) - 1.0) / gap**2).sum(-1) + normal
        return first, second

    low, high = np.zeros_like(target), np.full_like(target, rate * (1.0 - 1e-9))
    start = np.minimum(target * top**2 / np.where(usable, variance, 1.0), rate * 0.5)
    s = root(slope, low, high, start)
    first, second = slope(s)
    arguments = s[..., None] * scaled
    generating = (draws * np.log((chord - 1.0) / (chord - np.cosh(arguments)))).sum(-1) + normal * s**2 / 2.0
    w = np.sqrt(np.maximum(2.0 * (s * (first + target) - generating), 1e-300))
    u = np.maximum(s * np.sqrt(second), 1e-300)
    tail = ndtr(-w) + np.exp(-(w**2) / 2.0) / np.sqrt(2.0 * np.pi) * (1.0 / u - 1.0 / w)
    return np.where(usable, np.clip(2.0 * tail, 0.0, 1.0), np.where(variance > 0, 1.0, plain))


def _lattice_step(scaled: Floats, normal: Floats, scale: float, draws: Floats) -> Floats:
    """How much of the steps of the weightiest cell's noise, which are of 1, shows through the rest of the statistic.

    It is the modulus of the characteristic function at 2 pi: 1 if nothing else varies or all is on one lattice, and 0
    if the rest smoothes the steps. A continuity correction takes half of it.
    """
    chord = np.cosh(1.0 / scale)
    share = ((chord - 1.0) / (chord - np.cos(2.0 * np.pi * scaled))) ** draws
    step: Floats = share.prod(-1) * np.exp(-2.0 * np.pi**2 * normal)
    return step


def quadratic_p(
    statistic: float, leverages: Floats, variances: Floats, noise: NoiseLaw, added: Floats | float = 1.0
) -> float:
    """The p-value of Pearson's statistic, whose cells have residual shares `leverages` that add up to df.

    Args:
        statistic: sum (y - lambda)^2 / V.
        leverages: (cells,), in [0, 1].
        variances: (cells,), V of each cell, with the noise's part.
        noise: in each cell that was asked.
        added: how many asked cells were added up to each.
    """
    df, spread = quadratic_moments(leverages, variances, noise, added)
    if df <= _FLAT:
        return 1.0
    return float(gammaincc(df**2 / spread, max(statistic, 0.0) * df / spread))


def quadratic_moments(
    leverages: Floats, variances: Floats, noise: NoiseLaw, added: Floats | float = 1.0
) -> tuple[float, float]:
    """Mean and variance of Pearson's statistic under the null; arguments are those of `quadratic_p`."""
    df = float(leverages.sum())
    excess = noise.kurtosis * noise.variance**2 * added / variances**2 if noisy(noise) else np.zeros_like(variances)
    return df, 2.0 * df + float((leverages**2 * excess).sum())


@dataclass(frozen=True)
class SignificanceTest:
    """A test of a stated null, valid under sampling and noise."""

    name: str
    statistic: float
    df: float
    p: float | None  # None where the answers cannot tell


def independent(values: Floats, ground: Floats | float) -> tuple[Floats, Floats]:
    """Fit m_i p_j to a noisy table, all at least 0 and the p_j adding up to 1.

    Args:
        values: (r, s) answers.
        ground: sigma^2 / c, the variance of the noise over c; one number, or one of each cell.

    Returns:
        m, (r,) and p, (s,).
    """
    ground = np.broadcast_to(ground, values.shape)
    z = np.maximum(values + ground, 0.0)
    clipped = np.maximum(values, 0.0)
    column = clipped.sum(0)
    if column.sum() <= 0:
        return np.zeros(len(values)), np.full(values.shape[1], 1.0 / values.shape[1])
    p = (column + 1e-9 * column.sum()) / (column.sum() * (1.0 + 1e-9 * len(column)))
    m = clipped.sum(1)
    for _ in range(200):
        before = m
        m = _scales(z, p, ground)
        if m.sum() <= 0:
            return m, p
        q = _scales(z.T, m / m.sum(), ground.T)
        if q.sum() <= 0:
            return np.zeros_like(m), p
        p = q / q.sum()
        if np.allclose(m, before, rtol=1e-10, atol=1e-10):
            break
    return _scales(z, p, ground), p


def _scales(z: Floats, p: Floats, ground: Floats) -> Floats:
    """For each row of z, the m >= 0 with the largest sum of z log(m p + ground) - m p."""
    if ground.max() <= _FLAT:
        rows: Floats = z.sum(1) / p.sum()
        return rows
    top = np.maximum(z.sum(1) / p.sum(), 1e-12)

    def fall(m: Floats) -> tuple[Floats, Floats]:
        mean = m[:, None] * p + ground
        return p.sum() - (z * p / mean).sum(1), (z * p**2 / mean**2).sum(1)

    start = np.clip((z - ground).sum(1) / p.sum(), 0.0, top)
    fitted = root(fall, np.zeros_like(top), top, start)
    return np.where(fall(np.zeros_like(top))[0] >= 0, 0.0, fitted)


def _projected(tangent: Floats, weights: Floats, direction: Floats) -> Floats:
    """What of directions, (cells, k), is orthogonal to a tangent space, (cells, q), in the metric of `weights`."""
    bent = tangent * weights[:, None]
    solution = np.linalg.lstsq(tangent.T @ bent, bent.T @ direction, rcond=1e-10)[0]
    rest: Floats = direction - tangent @ solution
    return rest


def _tangent(m: Floats, p: Floats) -> Floats:
    """Directions in which m_i p_j moves with m and with p, (r s, r + s)."""
    rows, columns = len(m), len(p)
    by_m = np.kron(np.eye(rows), p[:, None])
    by_p = np.kron(m[:, None], np.eye(columns))
    return np.hstack([by_m, by_p])


def chi_squared(
    values: Floats, noise: NoiseLaw, most_records: int = 1, added: Floats | float = 1.0
) -> SignificanceTest:
    """Pearson's test of independence in a noisy table, (r, s), whose cells are sums of `added` cells that were asked.

    Without noise and with single records it is scipy's `chi2_contingency` without Yates' correction.
    """
    name = "chi-squared test of independence"
    residue = pearson(values, noise, most_records, added)
    if residue is None:
        return SignificanceTest(name, 0.0, 0.0, None)
    cells = np.broadcast_to(added, values.shape).ravel()
    p = quadratic_p(residue.statistic, residue.leverages, residue.variances, noise, cells)
    return SignificanceTest(name, max(residue.statistic, 0.0), residue.df, p)


@dataclass(frozen=True)
class Pearson:
    """Pearson's statistic of a table."""

    statistic: float
    df: float
    leverages: Floats  # (cells,)
    variances: Floats  # (cells,)


def pearson(values: Floats, noise: NoiseLaw, most_records: int = 1, added: Floats | float = 1.0) -> Pearson | None:
    """The statistic of `chi_squared`; None where the answers cannot tell."""
    variance = np.broadcast_to(added, values.shape) * (noise.variance if noisy(noise) else 0.0)
    m, p = independent(values, variance / most_records)
    if np.sum(m > 0) < 2 or np.sum(p > 0) < 2:
        return None
    mean = np.outer(m, p)
    spread = most_records * mean + variance
    inside = spread > 0
    safe = np.where(inside, spread, 1.0)
    # what falls below zero tells nothing of dependence
    statistic = float((np.where(inside, (values - mean) ** 2 - np.minimum(values, 0.0) ** 2, 0.0) / safe).sum())
    flat = safe.ravel()
    root_weight = np.where(inside.ravel(), 1.0 / np.sqrt(flat), 0.0)
    tangent = _tangent(m, p) * root_weight[:, None]
    basis, singular, _ = np.linalg.svd(tangent, full_matrices=False)
    basis = basis[:, singular > 1e-9 * singular.max()]
    leverage = np.where(inside.ravel(), 1.0 - (basis**2).sum(1), 0.0)
    # a group that seems empty has a free scale, but its direction vanishes from no residual
    df = float((np.sum(m > 0) - 1) * (np.sum(p > 0) - 1)) if not noisy(noise) else float(leverage.sum())
    return Pearson(statistic, df, leverage, flat)


def trend(
    values: Floats, scores: Floats, noise: NoiseLaw, most_records: int = 1, added: Floats | float = 1.0
) -> SignificanceTest:
    """Cochran and Armitage's test of a trend of a proportion over ordered groups, in a noisy table.

    Args:
        values: (r, 2); column 0 has the event.
        scores: (r,), of the groups.
        noise: in each cell.
        most_records: c.
        added: how many asked cells were added up to each, one number or (r, 2).

    Without noise its statistic is that of statsmodels' `Table(...).test_ordinal_association`, with n for n - 1.
    """
    name = "Cochran-Armitage test of trend"
    score = trend_score(values, scores, noise, most_records, added)
    if score is None:
        return SignificanceTest(name, 0.0, 1.0, None)
    cells = np.broadcast_to(added, values.shape).ravel()
    p = float(linear_p(np.asarray(score.value), score.weights, np.asarray(score.sampling), noise, cells))
    return SignificanceTest(name, score.value / float(np.sqrt(score.information)), 1.0, p)


@dataclass(frozen=True)
class TrendScore:
    """The linear statistic of a trend, and its variance under the null."""

    value: float
    weights: Floats  # (cells,), of the answers in it
    sampling: float  # variance of sampling
    information: float  # variance of sampling and noise


def trend_score(
    values: Floats, scores: Floats, noise: NoiseLaw, most_records: int = 1, added: Floats | float = 1.0
) -> TrendScore | None:
    """The statistic of `trend`; None where the answers cannot tell."""
    variance = np.broadcast_to(added, values.shape) * (noise.variance if noisy(noise) else 0.0)
    m, p = independent(values, variance / most_records)
    if np.sum(m > 0) < 2 or min(p) <= 0:
        return None
    mean = np.outer(m, p)
    spread = np.maximum(most_records * mean + variance, _FLAT).ravel()
    direction = np.outer(m * scores, [1.0, -1.0]).ravel() * p[0] * p[1]
    rest = _projected(_tangent(m, p), 1.0 / spread, direction[:, None])[:, 0]
    weights = rest / spread
    information = float((rest**2 / spread).sum())
    if information <= _FLAT:
        return None
    # an answer below zero counts as zero where the fit is zero, too
    statistic = float((weights * (np.where(mean > 0, values, np.maximum(values, 0.0)) - mean).ravel()).sum())
    return TrendScore(statistic, weights, float((weights**2 * most_records * mean.ravel()).sum()), information)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p-values (1979) of a family; None stays so, and is no member."""
    members = [(p, index) for index, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(sorted(members)):
        largest = max(largest, min(1.0, p * (len(members) - rank)))
        adjusted[index] = largest
    return adjusted
