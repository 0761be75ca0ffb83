"""A smooth function through noisy averages of a numeric label over cells: Gaussian-process regression.

Two noisy numbers a cell, A = the sum of the labels' shares y of their range and B = the sum of 1 - y, say both how many
records there are (A + B) and what their labels are. Around a guess g of the cell's mean, A (1 - g) - B g is the sum of
(y - g). With noise variance v in A and in B, that residual's is v ((1 - g)^2 + g^2), whatever the mass is. So the
process is fitted to g plus the residual over the estimated mass. A second fit takes the first one's means as guesses.
Kernels, features and mass prior are those of the label model for classes; here everything is normal and in closed form
(Rasmussen & Williams 2006, Algorithm 2.1).
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from learner_node.models.label_model.gaussian_process import checked_features, features_at
from learner_node.models.label_model.likelihood import fit_mass_prior
from learner_node.models.label_model.random_features import (
    LEVEL_SHARE,
    CellAverages,
    Covariances,
    Kernel,
    average_over_cells,
    blocks,
    draw_frequencies,
)

Floats = NDArray[np.float64]

_LENGTH_SCALES = (0.5, 1.0, 2.0, 4.0)
_LINEAR_WEIGHTS = (0.0, 0.5, 3.0)
_AMPLITUDES = (0.03**2, 0.1**2, 0.3**2)
_SPREADS = (0.02, 0.05, 0.1, 0.2, 0.35)
"""Candidate standard deviations of labels around the function, in shares of their range."""
_GUESSES = 2
_LEAST_LOG_WEIGHT = np.log(0.01)
_JITTER = 1e-8


@dataclass(frozen=True)
class NumberLabelModel:
    """The expected label, as a share of its range, as inferred from noisy sums over cells."""

    # estimated number of target records that each source record stands for, float64 (n_s,), non-negative, equal within
    # a cell
    source_mass: Floats
    centre: float  # the overall mean share
    spread: float  # estimated standard deviation of labels about the function, as a share of their range
    _frequencies: Floats
    _weights: dict[float, Floats]
    """Per length-scale, posterior mean as weights of the features, float64 (1001 + d,), mixed over the kernels."""

    def predict(self, features: Floats) -> Floats:
        """Return the expected share, float64 (n,) in [0, 1].

        Args:
            features: Instances on the scale of the fit, float64 (n, d), finite.

        Raises:
            ValueError: `features` has another shape or holds infinities or NaNs.
        """
        rows = checked_features(features, self._frequencies.shape[0])
        result = np.full(len(rows), self.centre)
        for block in blocks(len(rows)):
            phases = rows[block] @ self._frequencies
            for length_scale, mean in self._weights.items():
                result[block] += features_at(length_scale, rows[block], phases) @ mean
        share: Floats = np.clip(result, 0.0, 1.0)
        return share


def fit_number_model(
    features: Floats, cells: NDArray[np.int64], sums: Floats, *, scale: float, noises: float, seed: int
) -> NumberLabelModel:
    """Infer the expected label from noisy sums over cells.

    Args:
        features: Source records, standardised, float64 (n_s, d), n_s >= 2, d >= 1, finite.
        cells: Cell of each source record, integer (n_s,), in [0, K). Cells without one are left out.
        sums: Noisy sums, float64 (K, 2), finite, summed over the sites: of the labels' shares of their range
            (column 0), and of one minus the shares (column 1).
        scale: Scale of the Laplace noise of one site in each sum, in records; 0 is none.
        noises: Number of independent noises in each sum, at least 1.
        seed: Seed of the random features, non-negative.

    Returns:
        The model; a pure function of the arguments.

    Raises:
        ValueError: A shape, type or range is not as above.
    """
    rows = checked_features(features, None)
    answers = _checked(cells, sums, len(rows), scale, noises)
    # Whole steps of a fine grid: beside a scale of many steps, discrete and continuous Laplace do not differ.
    variance = noises * 2.0 * scale**2
    used, compact = np.unique(cells, return_inverse=True)
    counts = np.bincount(compact).astype(np.float64)
    frequencies = draw_frequencies(rows.shape[1], seed)
    averages = average_over_cells(rows, [compact.astype(np.int64)], frequencies, _LENGTH_SCALES, seed=seed)
    shares, rests = answers[used].T
    mass, posterior_mass = _masses(shares + rests, counts, averages.centres, 2.0 * variance)
    centre = float(np.clip(shares.sum() / max(shares.sum() + rests.sum(), 1.0), 0.0, 1.0))
    guess = np.full(len(used), centre)
    fits: list[_Fit] = []
    for _ in range(_GUESSES):
        target = guess + (shares * (1.0 - guess) - rests * guess) / mass - centre
        noise = variance * ((1.0 - guess) ** 2 + guess**2) / mass**2
        fits = _search(averages, mass, target, noise)
        guess = np.clip(centre + np.sum([fit.weight * fit.mean for fit in fits], axis=0), 0.0, 1.0)
    spread = float(np.sqrt(sum(fit.weight * fit.spread**2 for fit in fits)))
    return NumberLabelModel(
        source_mass=(posterior_mass / counts)[compact],
        centre=centre,
        spread=spread,
        _frequencies=frequencies,
        _weights=_mixed_weights(averages, fits),
    )


@dataclass(frozen=True)
class _Fit:
    """The posterior under one kernel: weight, cells' posterior means, and (C + D)^-1 times the target."""

    kernel: Kernel
    spread: float
    weight: float
    mean: Floats
    coefficients: Floats


def _search(averages: CellAverages, mass: Floats, target: Floats, noise: Floats) -> list[_Fit]:
    """Posteriors under every kernel and spread, weighted by evidence, without those of little weight."""
    covariances = Covariances(averages)
    fits = []
    for length_scale, linear, amplitude in product(_LENGTH_SCALES, _LINEAR_WEIGHTS, _AMPLITUDES):
        kernel = Kernel(length_scale, linear, amplitude, LEVEL_SHARE * amplitude)
        covariance, within = covariances.of(kernel)
        # A cell's mean is estimated from few source records, and its records lie anywhere within it.
        nugget = within / averages.counts + within / mass + _JITTER
        for spread in _SPREADS:
            diagonal = noise + spread**2 / mass + nugget
            evidence, coefficients = _solve(covariance + np.diag(diagonal), target)
            fits.append((evidence, kernel, spread, covariance @ coefficients, coefficients))
    best = max(item[0] for item in fits)
    likely = [item for item in fits if item[0] - best >= _LEAST_LOG_WEIGHT]
    weights = np.exp([item[0] - best for item in likely])
    weights /= weights.sum()
    return [
        _Fit(kernel, spread, float(weight), mean, coefficients)
        for weight, (_, kernel, spread, mean, coefficients) in zip(weights, likely, strict=True)
    ]


def _solve(matrix: Floats, target: Floats) -> tuple[float, Floats]:
    """Log density of the target under a zero-mean normal of this covariance, and the covariance's inverse times it."""
    factor = cho_factor(matrix, lower=True, check_finite=False)
    solved: Floats = cho_solve(factor, target, check_finite=False)
    return float(-np.sum(np.log(np.diag(factor[0]))) - 0.5 * target @ solved), solved


def _mixed_weights(averages: CellAverages, fits: list[_Fit]) -> dict[float, Floats]:
    """Weights of all fits, combined by kernel for `NumberLabelModel`."""
    mixed: dict[float, Floats] = {}
    for fit in fits:
        kernel = fit.kernel
        linear = kernel.linear / averages.centres.shape[1]
        varying = np.concatenate([averages.stationary[kernel.length_scale], linear * averages.centres], axis=1)
        level = np.full((len(varying), 1), kernel.constant)
        weights = fit.weight * (np.concatenate([kernel.amplitude * varying, level], axis=1).T @ fit.coefficients)
        mixed[kernel.length_scale] = mixed.get(kernel.length_scale, 0.0) + weights
    return mixed


def _masses(totals: Floats, counts: Floats, centres: Floats, variance: float) -> tuple[Floats, Floats]:
    """Records in each cell, from noisy totals and the source's counts: (positive, for dividing; non-negative)."""
    total = max(float(totals.sum()), float(len(totals)))
    prior = fit_mass_prior(counts, totals, centres, total=total, variance=variance)
    spread = prior.mean + prior.mean**2 / prior.shape
    estimate = np.maximum((totals * spread + prior.mean * variance) / (spread + variance), 0.0)
    return np.maximum(estimate, 0.2 * prior.mean), estimate


def _checked(cells: NDArray[np.int64], sums: Floats, n_source: int, scale: float, noises: float) -> Floats:
    answers = np.asarray(sums, dtype=np.float64)
    if answers.ndim != 2 or answers.shape[0] < 1 or answers.shape[1] != 2:
        raise ValueError(f"sums must have shape (K, 2), not {answers.shape}")
    if not np.isfinite(answers).all():
        raise ValueError("sums must be finite")
    if not (np.isfinite(scale) and scale >= 0) or noises < 1:
        raise ValueError("need a finite scale >= 0 and noises >= 1")
    if cells.shape != (n_source,) or not np.issubdtype(cells.dtype, np.integer):
        raise ValueError(f"cells must be integers of shape ({n_source},)")
    if cells.min() < 0 or cells.max() >= len(answers):
        raise ValueError(f"cells must lie in [0, {len(answers)})")
    return np.clip(answers, -1e12, 1e12)
