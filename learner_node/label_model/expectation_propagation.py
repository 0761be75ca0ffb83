"""Expectation propagation: a normal posterior of the cell means of f, and its evidence.

The prior is a zero-mean normal over the K cell means; the likelihood is a product of one-dimensional
factors given as tables. Rasmussen & Williams, "Gaussian Processes for Machine Learning" (2006), section
3.6: their Algorithm 3.5 with all sites updated at once and damped, evidence by their Eq. 3.65.
Where the covariance comes from is not decided here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import log_ndtr

from learner_node.label_model.likelihood import SIGNAL_NODES

Floats = NDArray[np.float64]

_NODES = 128
_CAVITY_DEVIATIONS = 8.0
_PRECISION_RANGE = (1e-5, 1e5)
_MOST_SWEEPS = 15
_DAMPING = 0.8
_LATE_DAMPING = 0.5
_MOVEMENT = 20.0


@dataclass(frozen=True)
class NormalSites:
    """The likelihood as normal pseudo-observations of the cell means.

    Attributes:
        precision: float64 (K,), in [1e-5, 1e5].
        shift: Precision times pseudo-observation, float64 (K,).
    """

    precision: Floats
    shift: Floats


@dataclass(frozen=True)
class NormalPosterior:
    """The approximate posterior of the cell means.

    Attributes:
        sites: The pseudo-observations.
        mean: Posterior means, float64 (K,).
        variance: Posterior variances, float64 (K,), positive.
        log_evidence: Log of the approximate marginal likelihood.
        whitener: float64 (K, K), W with W' W = (C + diag(1 / precision))^-1 for the prior covariance C.
        coefficients: (C + diag(1 / precision))^-1 times the pseudo-observations, float64 (K,).
    """

    sites: NormalSites
    mean: Floats
    variance: Floats
    log_evidence: float
    whitener: Floats
    coefficients: Floats


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
    size = len(covariance)
    top = log_sites.max(axis=1)
    tables = log_sites - top[:, None]
    sites = start or NormalSites(np.full(size, 1e-3), np.zeros(size))
    posterior = _posterior(covariance, sites)
    previous = movement = np.inf
    for sweep in range(_MOST_SWEEPS + 1):
        cavity_precision = np.maximum(1.0 / posterior.variance - sites.precision, 1e-6)
        cavity_mean = (posterior.mean / posterior.variance - sites.shift) / cavity_precision
        log_mass, mean, variance = tilted_moments(tables, cavity_mean, 1.0 / cavity_precision)
        evidence = posterior.log_evidence + float(
            np.sum(top + log_mass) + np.sum(_site_terms(sites, cavity_mean, 1.0 / cavity_precision))
        )
        if (movement < _MOVEMENT * tolerance and abs(evidence - previous) < tolerance) or sweep == _MOST_SWEEPS:
            break
        previous = evidence
        # A flat or widened site would have no positive precision; it keeps the smallest instead.
        precision = np.clip(1.0 / variance - cavity_precision, *_PRECISION_RANGE)
        shift = mean * (cavity_precision + precision) - cavity_mean * cavity_precision
        damping = _DAMPING if sweep < _MOST_SWEEPS // 2 else _LATE_DAMPING
        sites = NormalSites(
            (1.0 - damping) * sites.precision + damping * precision,
            (1.0 - damping) * sites.shift + damping * shift,
        )
        moved = _posterior(covariance, sites)
        movement = float(np.max(np.abs(moved.mean - posterior.mean) / np.sqrt(moved.variance)))
        posterior = moved
    return NormalPosterior(
        sites, posterior.mean, posterior.variance, evidence, posterior.whitener, posterior.coefficients
    )


def tilted_moments(tables: Floats, mean: Floats, variance: Floats) -> tuple[Floats, Floats, Floats]:
    """Return log mass, mean and variance of normal densities times tabulated likelihoods.

    Inside [-1, 1] by a 128-point midpoint rule over what lies within eight deviations of the mean;
    outside, where a likelihood is constant, in closed form.

    Args:
        tables: Log likelihoods at `SIGNAL_NODES`, float64 (K, 81), at most 0.
        mean: Means of the normals, float64 (K,).
        variance: Variances of the normals, float64 (K,), positive.

    Returns:
        Three float64 (K,); the variances are at least 1e-8.
    """
    deviation = np.sqrt(variance)
    low = np.clip(mean - _CAVITY_DEVIATIONS * deviation, -1.0, 1.0 - 1e-6)
    high = np.clip(mean + _CAVITY_DEVIATIONS * deviation, low + 1e-6, 1.0)
    width = (high - low) / _NODES
    nodes = low[:, None] + width[:, None] * (np.arange(_NODES) + 0.5)
    position = (nodes + 1.0) * (0.5 * (len(SIGNAL_NODES) - 1))
    index = np.minimum(position.astype(np.int64), len(SIGNAL_NODES) - 2)
    fraction = position - index
    index += np.arange(len(tables))[:, None] * len(SIGNAL_NODES)
    flat = tables.ravel()
    standard = (nodes - mean[:, None]) / deviation[:, None]
    log_inside = flat[index] * (1.0 - fraction) + flat[index + 1] * fraction - 0.5 * standard**2
    log_inside += np.log(width / deviation / np.sqrt(2.0 * np.pi))[:, None]
    # Mass, first and second moment, in units of the deviation, below -1 and above 1.
    side = np.array([-1.0, 1.0])
    bounds = (side - mean[:, None]) / deviation[:, None]
    log_edges = tables[:, [0, -1]]
    log_tails = log_edges + log_ndtr(-side * bounds)
    top = np.maximum(log_inside.max(axis=1), log_tails.max(axis=1))
    inside = np.exp(log_inside - top[:, None])
    tail_mass = np.exp(log_tails - top[:, None])
    log_density = -0.5 * bounds**2 - 0.5 * np.log(2.0 * np.pi)
    tail_first = side * np.exp(log_edges + log_density - top[:, None])
    tail_second = tail_mass + bounds * tail_first
    mass = inside.sum(axis=1) + tail_mass.sum(axis=1)
    first = (np.einsum("kn,kn->k", inside, standard) + tail_first.sum(axis=1)) / mass
    second = (np.einsum("kn,kn,kn->k", inside, standard, standard) + tail_second.sum(axis=1)) / mass
    spread = np.maximum(second - first**2, 1e-6)
    return top + np.log(mass), mean + deviation * first, np.maximum(variance * spread, 1e-8)


def _site_terms(sites: NormalSites, cavity_mean: Floats, cavity_variance: Floats) -> Floats:
    """Log normalisers of the sites but for the tilted masses, float64 (K,): terms of Eq. 3.65."""
    spread = 1.0 + sites.precision * cavity_variance
    residual = sites.precision * cavity_mean - sites.shift
    terms: Floats = 0.5 * np.log(spread) + 0.5 * residual**2 / (sites.precision * spread)
    return terms


def _posterior(covariance: Floats, sites: NormalSites) -> NormalPosterior:
    """Posterior under normal sites; its log_evidence lacks the sites' normalisers.

    With B = I + D C D and D = diag(sqrt(precision)), the posterior covariance is D^-1 (I - B^-1) D^-1.
    """
    root = np.sqrt(sites.precision)
    matrix = root[:, None] * covariance * root
    matrix[np.diag_indices_from(matrix)] += 1.0
    lower, failed = lapack.dpotrf(matrix, lower=1, clean=1)
    if failed:
        raise ValueError("the prior covariance is not positive definite")
    inverse, _ = lapack.dtrtri(lower, lower=1)
    scaled = sites.shift / root
    half = inverse @ scaled
    solved = inverse.T @ half
    shrink = 1.0 - np.einsum("ij,ij->j", inverse, inverse)
    return NormalPosterior(
        sites=sites,
        mean=(scaled - solved) / root,
        variance=np.maximum(shrink / sites.precision, 1e-9),
        log_evidence=float(-np.sum(np.log(np.diag(lower))) - 0.5 * half @ half),
        whitener=inverse * root,
        coefficients=root * solved,
    )
