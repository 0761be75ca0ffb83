"""Expectation propagation: a normal posterior of the cell means of f, its evidence, and draws of the cells from it.

The prior is a zero-mean normal over the K cell means; the likelihood is a product of one-dimensional factors given as
tables. Rasmussen & Williams, "Gaussian Processes for Machine Learning" (2006), section 3.6: their Algorithm 3.5 with
all sites updated at once and damped, evidence by their Eq. 3.65. `CellPosterior` mixes such posteriors with the
hypothesis that labels do not depend on the attributes, which no Gaussian process includes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import expit, log_ndtr, logsumexp, ndtr

from learner_node.models.label_model.likelihood import PROBIT, SIGNAL_NODES, SiteTable, expected_share

Floats = NDArray[np.float64]

_NODES = 128
_CAVITY_DEVIATIONS = 8.0
_PRECISION_RANGE = (1e-3, 1e5)
_MOST_SWEEPS = 15
_DAMPING = 0.8
_LATE_DAMPING = 0.5
_MOVEMENT = 20.0
_HOPE = 3.0
_LARGEST_SINGLE = 1e3


@dataclass(frozen=True)
class NormalSites:
    """The likelihood as normal pseudo-observations of the cell means."""

    precision: Floats  # float64 (K,), in [1e-3, 1e5]
    shift: Floats  # Precision times pseudo-observation, float64 (K,)


@dataclass(frozen=True)
class NormalPosterior:
    """The approximate posterior of the cell means."""

    sites: NormalSites  # The pseudo-observations
    mean: Floats  # Posterior means, float64 (K,)
    variance: Floats  # Posterior variances, float64 (K,), positive
    log_evidence: float  # Log of the approximate marginal likelihood
    whitener: Floats  # float64 (K, K), W with W' W = (C + diag(1 / precision))^-1 for the prior covariance C
    coefficients: Floats  # (C + diag(1 / precision))^-1 times the pseudo-observations, float64 (K,)


@dataclass(frozen=True)
class FittedSites:
    """The sites after the sweeps, before a posterior is computed from them in double precision."""

    sites: NormalSites  # The pseudo-observations
    log_evidence: float  # Log of the approximate marginal likelihood
    given_up: bool  # Whether the sweeps ended early because the evidence was hopeless


def approximate_posterior(
    covariance: Floats, log_sites: Floats, *, start: NormalSites | None = None, tolerance: float = 1e-2
) -> NormalPosterior:
    """Approximate the posterior of K cell means by a normal.

    Args:
        covariance: Prior covariance, float64 (K, K), symmetric, positive definite.
        log_sites: Log likelihoods at `SIGNAL_NODES`, float64 (K, 81), finite; linear between the nodes and
            constant outside [-1, 1].
        start: Sites to start from, such as those of a similar covariance; nearly flat ones when None.
        tolerance: Sweeps end when the log evidence moves by less than this and no posterior mean by more
            than twenty times this, in its deviations.

    Returns:
        The posterior after convergence or 15 sweeps, whichever comes first.
    """
    fitted = fit_sites(covariance, log_sites, start=start, tolerance=tolerance)
    return normal_posterior(covariance, fitted)


def fit_sites(
    covariance: Floats,
    log_sites: Floats,
    *,
    start: NormalSites | None = None,
    tolerance: float = 1e-2,
    least_evidence: float = -np.inf,
) -> FittedSites:
    """Fit the sites and the evidence of `approximate_posterior`, whose arguments it shares.

    The sweeps factorise in single precision where that is safe, in half the time. Sweeps also end, after the first, if
    the evidence is too far below `least_evidence` to reach it.
    """
    size = len(covariance)
    top = log_sites.max(axis=1)
    tables = (log_sites - top[:, None]).astype(np.float32)
    sites = start or NormalSites(np.full(size, 1e-3), np.zeros(size))
    current = _marginals(covariance, sites)
    previous = movement = np.inf
    for sweep in range(_MOST_SWEEPS + 1):
        cavity_precision = np.maximum(1.0 / current.variance - sites.precision, 1e-6)
        cavity_mean = (current.mean / current.variance - sites.shift) / cavity_precision
        log_mass, mean, variance = tilted_moments(tables, cavity_mean, 1.0 / cavity_precision)
        evidence = current.log_evidence + float(
            np.sum(top + log_mass) + np.sum(_site_terms(sites, cavity_mean, 1.0 / cavity_precision))
        )
        moved_by = abs(evidence - previous)
        given_up = sweep > 0 and evidence + _HOPE * moved_by < least_evidence
        if given_up or (movement < _MOVEMENT * tolerance and moved_by < tolerance) or sweep == _MOST_SWEEPS:
            break
        previous = evidence
        # A flat or widened site would have no positive precision; it keeps the smallest instead. Were that below 1e-3,
        # single precision would lose the posterior's variance and the evidence, which divide by it.
        precision = np.clip(1.0 / variance - cavity_precision, *_PRECISION_RANGE)
        shift = mean * (cavity_precision + precision) - cavity_mean * cavity_precision
        damping = _DAMPING if sweep < _MOST_SWEEPS // 2 else _LATE_DAMPING
        sites = NormalSites(
            (1.0 - damping) * sites.precision + damping * precision,
            (1.0 - damping) * sites.shift + damping * shift,
        )
        moved = _marginals(covariance, sites)
        movement = float(np.max(np.abs(moved.mean - current.mean) / np.sqrt(moved.variance)))
        current = moved
    return FittedSites(sites, evidence, given_up)


def normal_posterior(covariance: Floats, fitted: FittedSites) -> NormalPosterior:
    """The posterior of K cell means under fitted sites, in double precision."""
    sites = fitted.sites
    root, _, inverse = _factorised(covariance, sites, np.float64)
    scaled = sites.shift / root
    solved = inverse.T @ (inverse @ scaled)
    shrink = 1.0 - np.einsum("ij,ij->j", inverse, inverse)
    return NormalPosterior(
        sites=sites,
        mean=(scaled - solved) / root,
        variance=np.maximum(shrink / sites.precision, 1e-9),
        log_evidence=fitted.log_evidence,
        whitener=inverse * root,
        coefficients=root * solved,
    )


def tilted_moments(tables: NDArray[Any], mean: Floats, variance: Floats) -> tuple[Floats, Floats, Floats]:
    """Return log mass, mean and variance of normal densities times tabulated likelihoods.

    Inside [-1, 1] by a 128-point midpoint rule over what lies within eight deviations of the mean;
    outside, where a likelihood is constant, in closed form.

    Args:
        tables: Log likelihoods at `SIGNAL_NODES`, float (K, 81), at most 0; read in single precision.
        mean: Means of the normals, float64 (K,).
        variance: Variances of the normals, float64 (K,), positive.

    Returns:
        Three float64 (K,); the variances are at least 1e-8.
    """
    deviation = np.sqrt(variance)
    low = np.clip(mean - _CAVITY_DEVIATIONS * deviation, -1.0, 1.0 - 1e-6)
    high = np.clip(mean + _CAVITY_DEVIATIONS * deviation, low + 1e-6, 1.0)
    width = (high - low) / _NODES
    # Single precision from here to the sums: twice as fast, and far finer than the rule itself.
    table = np.ascontiguousarray(tables, dtype=np.float32)
    steps = np.arange(_NODES, dtype=np.float32) + np.float32(0.5)
    per_step = 0.5 * (len(SIGNAL_NODES) - 1)
    position = _line((low + 1.0) * per_step, width * per_step, steps)
    index = np.minimum(position.astype(np.int32), len(SIGNAL_NODES) - 2)
    position -= index
    index += (np.arange(len(table), dtype=np.int32) * len(SIGNAL_NODES))[:, None]
    flat = table.ravel()
    log_inside = flat[index]
    log_inside += position * (np.diff(flat, append=np.float32(0.0))[index])
    standard = _line((low - mean) / deviation, width / deviation, steps)
    log_inside -= np.float32(0.5) * np.square(standard)
    log_inside += np.log(width / deviation / np.sqrt(2.0 * np.pi)).astype(np.float32)[:, None]
    # Mass, first and second moment, in units of the deviation, below -1 and above 1.
    side = np.array([-1.0, 1.0])
    bounds = (side - mean[:, None]) / deviation[:, None]
    log_edges = table[:, [0, -1]].astype(np.float64)
    log_tails = log_edges + log_ndtr(-side * bounds)
    top = np.maximum(log_inside.max(axis=1), log_tails.max(axis=1))
    inside = np.exp(log_inside - top.astype(np.float32)[:, None])
    tail_mass = np.exp(log_tails - top[:, None])
    log_density = -0.5 * bounds**2 - 0.5 * np.log(2.0 * np.pi)
    tail_first = side * np.exp(log_edges + log_density - top[:, None])
    tail_second = tail_mass + bounds * tail_first
    mass = inside.sum(axis=1).astype(np.float64) + tail_mass.sum(axis=1)
    inside *= standard
    first = (inside.sum(axis=1).astype(np.float64) + tail_first.sum(axis=1)) / mass
    inside *= standard
    second = (inside.sum(axis=1).astype(np.float64) + tail_second.sum(axis=1)) / mass
    spread = np.maximum(second - first**2, 1e-6)
    return top + np.log(mass), mean + deviation * first, np.maximum(variance * spread, 1e-8)


def _line(start: Floats, step: Floats, steps: NDArray[np.float32]) -> NDArray[np.float32]:
    """Start + step * steps, float32 (K, N)."""
    result: NDArray[np.float32] = step.astype(np.float32)[:, None] * steps
    result += start.astype(np.float32)[:, None]
    return result


def _site_terms(sites: NormalSites, cavity_mean: Floats, cavity_variance: Floats) -> Floats:
    """Log normalisers of the sites but for the tilted masses, float64 (K,): terms of Eq. 3.65."""
    spread = 1.0 + sites.precision * cavity_variance
    residual = sites.precision * cavity_mean - sites.shift
    terms: Floats = 0.5 * np.log(spread) + 0.5 * residual**2 / (sites.precision * spread)
    return terms


@dataclass(frozen=True)
class _Marginals:
    """The posterior's marginals, as a sweep needs them; log_evidence lacks the sites' normalisers."""

    mean: Floats
    variance: Floats
    log_evidence: float


def _marginals(covariance: Floats, sites: NormalSites) -> _Marginals:
    """Posterior marginals under normal sites.

    With B = I + D C D and D = diag(sqrt(precision)), the posterior covariance is D^-1 (I - B^-1) D^-1.
    """
    single = float(np.max(sites.precision * np.diag(covariance))) < _LARGEST_SINGLE
    root, lower, inverse = _factorised(covariance, sites, np.float32 if single else np.float64)
    scaled = sites.shift / root
    half = inverse @ scaled.astype(inverse.dtype)
    solved = (half @ inverse).astype(np.float64)
    # In single precision the difference scaled - solved would cancel where a site is flat.
    mean = covariance @ (root * solved) if single else (scaled - solved) / root
    shrink = 1.0 - np.einsum("ij,ij->j", inverse, inverse).astype(np.float64)
    return _Marginals(
        mean,
        np.maximum(shrink / sites.precision, 1e-9),
        float(-np.sum(np.log(np.diag(lower)), dtype=np.float64) - 0.5 * np.sum(np.square(half, dtype=np.float64))),
    )


def _factorised(
    covariance: Floats, sites: NormalSites, precision: type[np.float32 | np.float64]
) -> tuple[Floats, NDArray[Any], NDArray[Any]]:
    """sqrt(precision) (K,), and the lower Cholesky factor of B (K, K) and its inverse, in the given precision."""
    root = np.sqrt(sites.precision)
    factor = root.astype(precision)
    matrix: NDArray[Any] = covariance.astype(precision)
    matrix *= factor
    matrix *= factor[:, None]
    matrix[np.diag_indices_from(matrix)] += precision(1.0)
    single = precision is np.float32
    # The transpose of a symmetric matrix is itself, and in the order that LAPACK overwrites.
    lower, failed = (lapack.spotrf if single else lapack.dpotrf)(matrix.T, lower=1, clean=1, overwrite_a=1)
    if failed:
        if single:
            return _factorised(covariance, sites, np.float64)
        raise ValueError("the prior covariance is not positive definite")
    inverse, _ = (lapack.strtri if single else lapack.dtrtri)(lower, lower=1)
    return root, lower, inverse


PRIOR_NO_SIGNAL = 0.2
"""Prior probability that labels do not depend on the attributes."""
_JITTER = 1e-9


@dataclass(frozen=True)
class CellDraws:
    """Joint posterior draws."""

    signal: Floats  # Cell means of f, float64 (S, K), in [-1, 1]; a cell's share of label 1 is (1 + f) / 2
    mass: Floats  # Expected target records of the cells, float64 (S, K), positive
    no_signal: NDArray[np.bool_]  # bool (S,); where True, labels do not depend on the cell in that draw


@dataclass(frozen=True)
class CellPosterior:
    """The posterior of the K used cells."""

    cells: NDArray[np.int64]  # Used cell of each source record, int64 (n_s,), in [0, K); every number occurs
    table: SiteTable  # The likelihood of the cells' answers
    mass: Floats  # Posterior means of the cell masses, float64 (K,), positive
    mass_variance: Floats  # Their posterior variances, float64 (K,), positive
    log_evidence: float  # Log probability of the answers under the Gaussian processes, averaged over kernels
    # (weight, prior covariance (K, K), posterior) of the averaged kernels; the weights sum to 1
    kernels: tuple[tuple[float, Floats, NormalPosterior], ...]
    dimensions: int  # d of the instances that the kernels are of, at least 1

    @property
    def no_signal_probability(self) -> float:
        """Posterior probability (prior `PRIOR_NO_SIGNAL`) that all cells have one share of label 1."""
        without_signal = logsumexp(self._constant_log_likelihood()) - np.log(len(SIGNAL_NODES))
        prior = np.log(PRIOR_NO_SIGNAL / (1.0 - PRIOR_NO_SIGNAL))
        return float(expit(without_signal - self.log_evidence + prior))

    def draw(self, count: int, rng: np.random.Generator) -> CellDraws:
        """Draw from the joint posterior of signals and masses; masses are Gamma and independent of all else.

        Args:
            count: Number of draws S, at least 1.
            rng: Source of randomness.
        """
        no_signal = rng.random(count) < self.no_signal_probability
        kernel = rng.choice(len(self.kernels), count, p=[weight for weight, _, _ in self.kernels])
        signal = np.empty((count, len(self.mass)))
        for index, (_, covariance, posterior) in enumerate(self.kernels):
            chosen = ~no_signal & (kernel == index)
            latent = _normal_draws(covariance, posterior, int(chosen.sum()), rng)
            signal[chosen] = 2.0 * ndtr(PROBIT * latent) - 1.0
        constant = self._constant_log_likelihood()
        weights = np.exp(constant - constant.max())
        shared = rng.choice(SIGNAL_NODES, count, p=weights / weights.sum())
        signal[no_signal] = shared[no_signal, None]
        shape = self.mass**2 / self.mass_variance
        mass = np.maximum(rng.gamma(shape, self.mass_variance / self.mass, signal.shape), 1e-9)
        return CellDraws(np.clip(signal, -1.0, 1.0), mass, no_signal)

    def held_out_share(self) -> Floats:
        """Each cell's share of label 1 as predicted from the other cells' answers, float64 (K,), in [0, 1].

        It is the mean of Phi(PROBIT g) under the cavity distribution of expectation propagation: the posterior without
        the cell's own site (Rasmussen & Williams 2006, Eq. 3.56). The kernels' weights, however, used that site.
        """
        share = np.zeros(len(self.mass))
        for weight, _, posterior in self.kernels:
            precision = np.maximum(1.0 / posterior.variance - posterior.sites.precision, 1e-6)
            centre = (posterior.mean / posterior.variance - posterior.sites.shift) / precision
            share += weight * expected_share(centre, 1.0 / precision)
        return share

    def log_likelihood(self, share: Floats) -> float:
        """Log probability of all answers if the cells' shares of label 1 are `share`, float64 (K,), in [0, 1]."""
        position = np.clip(share, 0.0, 1.0) * (len(SIGNAL_NODES) - 1)
        index = np.minimum(position.astype(np.int64), len(SIGNAL_NODES) - 2)
        rows, fraction = np.arange(len(share)), position - index
        table = self.table.log_likelihood
        return float(np.sum(table[rows, index] * (1.0 - fraction) + table[rows, index + 1] * fraction))

    def _constant_log_likelihood(self) -> Floats:
        """Log probability of all answers for one signal in all cells, float64 (81,), at `SIGNAL_NODES`."""
        total: Floats = self.table.log_likelihood.sum(axis=0)
        return total


def _normal_draws(covariance: Floats, posterior: NormalPosterior, count: int, rng: np.random.Generator) -> Floats:
    """Draws of the cell means, float64 (count, K), by Matheron's rule: prior draws conditioned on the data."""
    size = len(covariance)
    if not count:
        return np.empty((0, size))
    lower = np.linalg.cholesky(covariance + _JITTER * np.eye(size) * np.trace(covariance) / size)
    prior = rng.standard_normal((count, size)) @ lower.T
    noise = rng.standard_normal((count, size)) / np.sqrt(posterior.sites.precision)
    residual = (prior + noise) @ posterior.whitener.T
    moved: Floats = prior + posterior.mean - residual @ posterior.whitener @ covariance
    return moved
