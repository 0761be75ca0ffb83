"""The likelihood of a cell's label signal and mass, given its noisy counts, and the law of the noise in them.

A cell holds `M` private records; a share `p = (1 + f) / 2` of them carries label 1. Its counts are modelled as
Poisson, its answers as counts plus the noise that the mechanism is known to add, and `M` is integrated out under a
Gamma prior. Nothing here knows about features or about the other cells' `f`.

The noise in a sum of answers is that of m discrete Laplace variables. m is whole where every curator adds its own
noise. In a secure sum each of s curators adds a share of 1 / h, which makes s / h noises: the difference of two
negative binomials with shape s / h (`protocol.noise_shares`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.special import gammaincinv, gammaln, log_ndtr, logsumexp, ndtr

from protocol.noise import DiscreteLaplace

Floats = NDArray[np.float64]
Noises = float | tuple[float, float]
"""Number of noises in a count, at least 1, or a pair of numbers for labels 0 and 1."""
_CountLaw = Callable[[slice, Floats], Floats]
"""Log probability of the counts of some cells at rates (k, m, f) of theirs."""

SMALLEST_SCALE = 0.05
"""Smallest scale in the likelihood. All but 4e-9 of its noise is zero, so exact counts need no special case, and
impossible ones (such as negative ones) still have a likelihood."""
_LARGEST_SCALE = 1000.0
"""Largest scale of a tabulated fractional law; above it, that law is stretched. Measured for 1.05 to 50 noises,
logarithms differ by 2e-5 at 0 and by 1e-6 elsewhere."""
_REST = 1e-17
_MOST_TABLE = 10**6


def noise_law(scale: float) -> DiscreteLaplace:
    """The law of one noise in the likelihood: a scale below 0.05 (0 is no noise) is taken as 0.05."""
    return DiscreteLaplace(Fraction(max(scale, SMALLEST_SCALE)))


def noises_by_label(noises: Noises) -> tuple[float, float]:
    """Numbers of noises in the counts of labels 0 and 1; a single number stands for both."""
    return noises if isinstance(noises, tuple) else (noises, noises)


def pair_variance(scale: float, noises: Noises) -> float:
    """Variance of the noise in the sum of a cell's two counts."""
    return sum(noise_law(scale).variance(number) for number in noises_by_label(noises))


def noise_log_pmf(values: NDArray[np.int64], scale: float, noises: float) -> Floats:
    """Return log P(sum of `noises` independent discrete Laplace variables = value).

    The sum is a difference of two negative binomials. Its mass at n >= 0, with q = exp(-1 / scale), is
    (1-q)^2m q^n C(n+m-1, n) 2F1(m, n+m; n+1; q^2); for whole m Pfaff's transformation (Abramowitz & Stegun 15.3.4)
    makes the series finite with positive terms only, so that nothing cancels. For others see `_fractional`.

    Args:
        values: int64, any shape.
        scale: Scale of one variable; below 0.05 (zero included) it is taken as 0.05.
        noises: Number m of variables, at least 1.

    Returns:
        float64 of the shape of `values`, finite.
    """
    if not float(noises).is_integer():
        return _fractional(values, scale, float(noises))
    log_ratio = -1.0 / max(scale, SMALLEST_SCALE)
    n = np.abs(values).astype(np.float64)[..., None]
    j = np.arange(noises, dtype=np.float64)
    log_one_minus_square = np.log(-np.expm1(2.0 * log_ratio))
    series = logsumexp(
        gammaln(noises + j)
        - gammaln(noises - j)
        - gammaln(j + 1.0)
        + gammaln(n + 1.0)
        - gammaln(n + 1.0 + j)
        + j * (2.0 * log_ratio - log_one_minus_square),
        axis=-1,
    )
    n = n[..., 0]
    log_pmf: Floats = (
        2.0 * noises * np.log(-np.expm1(log_ratio))
        - noises * log_one_minus_square
        + n * log_ratio
        + gammaln(n + noises)
        - gammaln(n + 1.0)
        - gammaln(noises)
        + series
    )
    return log_pmf


def _fractional(values: NDArray[np.int64], scale: float, noises: float) -> Floats:
    """`noise_log_pmf` for a number of noises that is not whole, read off a table.

    Up to a scale of 1000 the table is the law itself. Above, the law of scale 1000 stands for it, with values divided
    by scale / 1000 and its logarithm taken as linear between whole values. Beyond the table, of about 10^6 values at
    most, the logarithm is extrapolated linearly.
    """
    table_scale = min(max(scale, SMALLEST_SCALE), _LARGEST_SCALE)
    stretch = max(scale, SMALLEST_SCALE) / table_scale
    place = np.abs(values) / stretch
    top = int(min(max(float(place.max(initial=0.0)), noise_law(table_scale).bound(_REST, noises)), _MOST_TABLE)) + 2
    table = _table(table_scale, noises, 1 << top.bit_length())
    log_pmf: Floats = np.interp(place, np.arange(len(table)), table) - np.log(stretch)
    beyond = np.maximum(place - (len(table) - 1), 0.0)
    log_pmf += beyond * (table[-1] - table[-2])
    return log_pmf


@lru_cache(maxsize=64)
def _table(scale: float, noises: float, top: int) -> Floats:
    """Logarithms of the law at 0 ... top; float64 (top + 1,).

    The generating function G = ((1-q)^2 / ((1-qz)(1-q/z)))^m solves (1-qz)(z-q) z G' = m q (z^2 - 1) G, so its
    coefficients c_n obey q (n+1-m) c_{n+1} = (1+q^2) n c_n - q (n-1+m) c_{n-1}. Of the two solutions the law is the one
    that falls: its ratios r_n = c_n / c_{n-1} follow from each other downwards, where errors shrink by q^2 a step
    (Miller's algorithm; Gautschi 1967). The whole adds up to 1, which gives c_0.
    """
    q = float(np.exp(-1.0 / scale))
    ratio = q
    ratios = np.empty(top)
    for n in range(top + int(20.0 * scale) + 20, 0, -1):
        ratio = q * (n - 1.0 + noises) / ((1.0 + q * q) * n - q * (n + 1.0 - noises) * ratio)
        if n <= top:
            ratios[n - 1] = ratio
    rising = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    shifted: Floats = rising - np.log(2.0 * np.exp(rising).sum() - 1.0)
    return shifted


SIGNAL_NODES: Floats = np.linspace(-1.0, 1.0, 81)
"""The values of f, float64 (81,), on which site tables are given."""

PROBIT = 2.0
"""A record of latent g has P(label 1) = Phi(PROBIT g). Answers do not distinguish g beyond +-1: P is .023, .977."""

_BLOCK_CELLS, _TABLE_CELLS = 16, 128
"""Cells at once in a site table, of which every step's operands (250 kB) stay in the cache, and in a table of rates, of
which they need a few MB."""
_MASS_NODES = 24
_MASS_DEVIATIONS = 4.0
# From this many records on, a Poisson count is taken as normal (its skewness is then 0.02).
_LARGEST_EXACT_MASS = 3000.0
_LARGEST_EXACT_COUNT = 6000
_SQRT_RATE_STEP = 0.05
_SMALLEST_LIKELIHOOD = 1e-300
_MASS_SPREADS = (0.02, 0.1, 0.3, 0.8, 2.0)
_MASS_REGIONS = 40


@dataclass(frozen=True)
class MassPrior:
    """Independent Gamma priors of the cell masses."""

    mean: Floats  # Expected number of target records, float64 (K,), positive
    shape: Floats  # Gamma shape, float64 (K,), positive; the variance is `mean**2 / shape`

    def of(self, cells: NDArray[np.int64]) -> "MassPrior":
        """Priors of the given cells."""
        return MassPrior(self.mean[cells], self.shape[cells])


@dataclass(frozen=True)
class SiteTable:
    """The likelihood of every cell's answer as a function of its label signal."""

    log_likelihood: Floats  # log P(answer | f), float64 (K, 81), at `SIGNAL_NODES`; taken as constant outside
    mass: Floats  # E[M | answer, f], float64 (K, 81), non-negative


def fit_mass_prior(
    source_counts: Floats, totals: Floats, centres: Floats, *, total: float, variance: float
) -> MassPrior:
    """Choose a prior of the cell masses from the source's counts and the noisy totals (empirical Bayes).

    The mean of a cell is its source count times the ratio of the two data sets' sizes, corrected, where
    that is likelier, by shrunken ratios of forty regions of neighbouring cells. The spread has a part that
    shrinks with the source count and one that does not, picked from five values. "Likelier" is by the
    normal likelihood of the totals.

    Args:
        source_counts: Source records of the cells, float64 (K,), at least 1.
        totals: Noisy number of target records of the cells, float64 (K,).
        centres: Mean features of the cells, float64 (K, d).
        total: Estimated number of target records, positive.
        variance: Variance of the noise in one total.
    """
    ratio = total / float(source_counts.sum())
    means = [ratio * source_counts]
    if len(totals) > 2 * _MASS_REGIONS:
        regional = _regional_ratios(totals, means[0], centres, variance)
        means.append(np.maximum(regional * means[0], 0.3 * ratio))
    best, best_fit = None, -np.inf
    for mean in means:
        for spread in _MASS_SPREADS:
            prior = MassPrior(mean, 1.0 / (1.0 / source_counts + spread))
            v = mean + mean**2 / prior.shape + variance
            fit = -0.5 * float(np.sum((totals - mean) ** 2 / v + np.log(v)))
            if best is None or fit > best_fit:
                best, best_fit = prior, fit
    assert best is not None  # noqa: S101 - the loops are never empty
    return best


def site_table(counts: Floats, prior: MassPrior, *, scale: float, noises: Noises) -> SiteTable:
    """Return the exact likelihood of every cell's two noisy counts, the mass integrated out.

    t_c(f) = integral of p(M) [Poisson(M p) * noise](n1) [Poisson(M (1-p)) * noise](n0) dM, where `*` is
    convolution and p = (1 + f) / 2. The integral is a midpoint sum over 24 values of sqrt(M), placed where
    the prior and the total put M. A cell of more than 3,000 records is taken as normal instead of Poisson.

    Args:
        counts: Noisy counts, float64 (K, 2), column 1 is label 1; rounded to integers, |count| <= 1e12.
        prior: Priors of the K masses.
        scale: Scale of one site's discrete Laplace noise; 0 is none.
        noises: Number of noises in every count, or in those of label 0 and of label 1.
    """
    by_label = noises_by_label(noises)
    mass, log_weight = _mass_quadrature(counts.sum(axis=1), prior, pair_variance(scale, noises), scale)
    share = 0.5 * (1.0 + SIGNAL_NODES)
    shares = np.stack([1.0 - share, share])
    large = mass[:, -1] > _LARGEST_EXACT_MASS
    table = SiteTable(*np.empty((2, len(counts), len(share))))
    for chosen, laws_of_counts in ((large, _normal_laws), (~large, _exact_laws)):
        cells = np.flatnonzero(chosen)
        if not len(cells):
            continue
        laws = laws_of_counts(counts[cells], float(mass[cells].max()), scale, by_label)
        for first in range(0, len(cells), _BLOCK_CELLS):
            block = slice(first, first + _BLOCK_CELLS)
            rows = cells[block]
            joint = np.repeat(log_weight[rows][:, :, None], len(share), axis=2)
            for label, law in enumerate(laws):
                joint += law(block, mass[rows][:, :, None] * shares[label])
            top = joint.max(axis=1)
            weight = np.exp(joint - top[:, None, :])
            normaliser = weight.sum(axis=1)
            table.log_likelihood[rows] = top + np.log(normaliser)
            table.mass[rows] = np.einsum("kmf,km->kf", weight, mass[rows]) / normaliser
    return table


def expected_mass_prior(source_counts: Floats, masses: Floats, spread: float) -> MassPrior:
    """Prior of the masses of cells that were not counted themselves.

    Args:
        source_counts: Source records of the cells, float64 (K,), at least 1.
        masses: Expected target records of the cells, float64 (K,), positive.
        spread: Variance of a mass relative to its square, beside what the source's counts leave open; positive.
    """
    return MassPrior(masses, 1.0 / (1.0 / source_counts + spread))


def signed_site_table(differences: Floats, prior: MassPrior, *, scale: float, noises: float) -> SiteTable:
    """Return the likelihood of every cell's noisy signed count, the mass integrated out under its prior.

    Given M and f, label 1 less label 0 is a difference of two Poisson counts: mean M f, variance M, here taken as
    normal. Of the noises one keeps its exponential tails and the others add their variance to the normal's.

    Args:
        differences: float64 (K,), label 1 less label 0.
        prior: Priors of the K masses.
        scale: Scale of one site's discrete Laplace noise; 0 is none.
        noises: Number of noises in every difference.
    """
    position = (np.arange(_MASS_NODES) + 0.5) / _MASS_NODES
    quantiles = gammaincinv(prior.shape[:, None], position)
    mass: Floats = np.maximum(quantiles * (prior.mean / prior.shape)[:, None], 1e-3)
    variance = np.maximum(mass, 1.0)[:, :, None] + (noises - 1) * noise_law(scale).variance()
    error = differences[:, None, None] - mass[:, :, None] * SIGNAL_NODES
    joint = _normal_and_laplace_log_density(error, variance, max(scale, SMALLEST_SCALE))
    log_likelihood: Floats = logsumexp(joint, axis=1) - np.log(_MASS_NODES)
    # What a signed count says of the mass hangs on f; where f is shrunk, it would say too much.
    return SiteTable(log_likelihood, np.broadcast_to(prior.mean[:, None], log_likelihood.shape))


def _normal_and_laplace_log_density(x: Floats, variance: Floats, scale: float) -> Floats:
    """Log density at x of a normal with mean 0 plus a Laplace variable of that scale, in closed form."""
    deviation = np.sqrt(variance)
    reach = variance / scale
    sides = [sign * x / scale + log_ndtr((-sign * x - reach) / deviation) for sign in (-1.0, 1.0)]
    density: Floats = np.logaddexp(*sides) + 0.5 * variance / scale**2 - np.log(2.0 * scale)
    return density


def _regional_ratios(totals: Floats, expected: Floats, centres: Floats, variance: float) -> Floats:
    """Target-to-expected ratio of each cell's region, shrunk to 1 by its own noise, float64 (K,)."""
    region = fcluster(linkage(centres, "ward"), _MASS_REGIONS, criterion="maxclust") - 1
    foreseen: Floats = np.bincount(region, weights=expected).astype(np.float64)
    observed: Floats = np.bincount(region, weights=totals).astype(np.float64)
    noise: Floats = np.bincount(region).astype(np.float64) * variance
    ratios: Floats = shrunken_ratios(observed, foreseen, noise)[region]
    return ratios


def shrunken_ratios(observed: Floats, foreseen: Floats, variance: Floats) -> Floats:
    """Ratios of noisy masses to expected ones, shrunk to 1 by the share of their spread that is noise or sampling.

    `observed` (G,) are noisy numbers of target records of G regions, `foreseen` (G,) those expected from the source
    (non-negative), `variance` (G,) that of the noise. Returns float64 (G,), at least 0.05.
    """
    foreseen = np.maximum(foreseen, 1e-9)
    error = (np.maximum(observed, 1.0) + variance) / np.maximum(foreseen, 1.0) ** 2
    excess = observed / foreseen - 1.0
    signal = max(float(np.mean(excess**2 - error)), 0.0)
    ratios: Floats = np.maximum(1.0 + excess * signal / (signal + error), 0.05)
    return ratios


def _mass_quadrature(totals: Floats, prior: MassPrior, variance: float, scale: float) -> tuple[Floats, Floats]:
    """Masses (K, 24), ascending, and log of prior density times spacing, of a midpoint rule in sqrt(M)."""
    prior_variance = prior.mean**2 / prior.shape
    surprise = np.abs(totals - prior.mean)
    # The Laplace law's tails are linear: far out, |x| * scale is the variance of the normal as steep.
    total_variance = np.maximum(variance + np.maximum(totals, prior.mean), surprise * scale)
    combined = prior_variance + total_variance
    centre = (totals * prior_variance + prior.mean * total_variance) / combined
    reach = _MASS_DEVIATIONS * np.sqrt(prior_variance * total_variance / combined)
    high = np.sqrt(np.maximum(centre + reach, 0.1 * prior.mean))
    low = np.minimum(np.sqrt(np.maximum(centre - reach, 0.0)), 0.9 * high)
    step = (high - low) / _MASS_NODES
    root = low[:, None] + step[:, None] * (np.arange(_MASS_NODES) + 0.5)
    mass: Floats = root**2
    rate, shape = (prior.shape / prior.mean)[:, None], prior.shape[:, None]
    log_density = shape * np.log(rate) - gammaln(shape) + (shape - 1.0) * np.log(mass) - rate * mass
    log_weight: Floats = log_density + np.log(2.0 * root * step[:, None])
    return mass, log_weight


def _normal_laws(counts: Floats, most: float, scale: float, noises: tuple[float, float]) -> list[_CountLaw]:  # noqa: ARG001
    """Normal log density of counts (K, 2), no narrower than the spacing of f's nodes; a law for each column."""

    def law(counted: Floats, noise: float) -> _CountLaw:
        def of(cells: slice, rates: Floats) -> Floats:
            variance = np.maximum(rates, 1.0) + noise + (rates / 64.0) ** 2
            error = counted[cells, None, None] - rates
            values: Floats = -0.5 * (error**2 / variance + np.log(2.0 * np.pi * variance))
            return values

        return of

    return [law(counts[:, label], noise_law(scale).variance(noises[label])) for label in (0, 1)]


def _exact_laws(counts: Floats, most: float, scale: float, noises: tuple[float, float]) -> list[_CountLaw]:
    """Log of (Poisson * noise)(count) for counts (K, 2), interpolated in sqrt(rate); a law for each column.

    The rates are at most `most`.
    """
    roots = np.arange(np.ceil(np.sqrt(most) / _SQRT_RATE_STEP) + 2.0) * _SQRT_RATE_STEP
    true_counts = np.arange(int(most + 8.0 * np.sqrt(most) + 16.0))
    grid_rates = np.maximum(roots**2, 1e-12)[:, None]
    poisson = true_counts * np.log(grid_rates)
    poisson -= grid_rates
    poisson -= gammaln(true_counts + 1.0)
    np.exp(poisson, out=poisson)
    bounded = np.clip(np.rint(counts), -_LARGEST_EXACT_COUNT, _LARGEST_EXACT_COUNT).astype(np.int64)

    def law(counted: NDArray[np.int64], number: float) -> _CountLaw:
        table = np.empty((len(counted), len(roots)))
        farthest = np.abs(counted[:, None] - true_counts[[0, -1]]).max()
        pmf = noise_log_pmf(np.arange(farthest + 1), scale, number)
        for first in range(0, len(counted), _TABLE_CELLS):
            block = slice(first, first + _TABLE_CELLS)
            log_noise = pmf[np.abs(counted[block] - true_counts[:, None])]
            largest = log_noise.max(axis=0)
            log_noise -= largest
            likelihood = poisson @ np.exp(log_noise, out=log_noise)
            table[block] = (np.log(np.maximum(likelihood, _SMALLEST_LIKELIHOOD)) + largest).T

        def of(cells: slice, rates: Floats) -> Floats:
            position = np.sqrt(rates) / _SQRT_RATE_STEP
            lower = position.astype(np.int64)
            position -= lower
            flat = table[cells].ravel()
            lower += np.arange(len(lower))[:, None, None] * len(roots)
            values: Floats = flat[lower] * (1.0 - position)
            lower += 1
            values += flat[lower] * position
            return values

        return of

    return [law(bounded[:, label], noises[label]) for label in (0, 1)]


def at_latent_nodes(rows: Floats) -> Floats:
    """Rows at `SIGNAL_NODES` of f, float64 (K, 81), as rows at the same nodes of g: f = 2 Phi(PROBIT g) - 1."""
    position = ndtr(PROBIT * SIGNAL_NODES) * (len(SIGNAL_NODES) - 1)
    index = np.minimum(position.astype(np.int64), len(SIGNAL_NODES) - 2)
    fraction = position - index
    moved: Floats = rows[:, index] * (1.0 - fraction) + rows[:, index + 1] * fraction
    return moved


def expected_share(mean: Floats, variance: Floats) -> Floats:
    """E[Phi(PROBIT g)] for normal g, float64 (n,) (Rasmussen & Williams 2006, Eq. 3.82)."""
    share: Floats = ndtr(PROBIT * mean / np.sqrt(1.0 + PROBIT**2 * variance))
    return share
