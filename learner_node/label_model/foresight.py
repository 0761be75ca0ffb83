"""What the label model would make of many problems' answers, at the price of one fit.

The likelihood of a cell's noisy signed count is taken as normal, with a variance that hangs on the noise and the
cell's size, not on the answer. So one factorisation per kernel serves all problems (Rasmussen & Williams 2006, Eqs. 2.25
and 2.30). Kernels, their averaging by evidence, and the cells' covariances are those of the label model itself;
Poisson counts, expectation propagation and networks are left out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from learner_node.label_model.gaussian_process import AMPLITUDES, LENGTH_SCALES, LINEAR_WEIGHTS, seen_covariance
from learner_node.label_model.random_features import (
    Covariances,
    Kernel,
    average_over_cells,
    blocks,
    bounded,
    draw_frequencies,
    stationary_features,
)

Floats = NDArray[np.float64]


def foreseen_signals(
    features: Floats, cells: NDArray[np.int64], observed: Floats, variance: Floats, *, seed: int
) -> Floats:
    """Posterior mean of the label signal f at each source record, for each of P problems.

    Args:
        features: Source records, standardised, float64 (n_s, d), finite.
        cells: Cell of each, int64 (n_s,), in [0, K); every number occurs.
        observed: Noisy signed count of each cell over its expected mass, float64 (K, P).
        variance: Of each cell's observation, float64 (K,), positive.
        seed: Of the random features.

    Returns:
        float64 (n_s, P); its sign is the predicted label.
    """
    rows = bounded(features)
    frequencies = draw_frequencies(rows.shape[1], seed)
    averages = average_over_cells(rows, [cells], frequencies, LENGTH_SCALES, seed=seed)
    covariances = Covariances(averages)
    fitted = [
        _fit(seen_covariance(covariances, kernel), kernel, observed, variance)
        for kernel in (
            Kernel(length, linear, amplitude)
            for length in LENGTH_SCALES
            for linear in LINEAR_WEIGHTS
            for amplitude in (1.0,)
        )
    ]
    evidence = np.array([each.log_evidence for each in fitted])
    weight = np.exp(evidence - evidence.max(axis=0))
    weight /= weight.sum(axis=0)
    dimensions = rows.shape[1]
    slopes = np.zeros((dimensions, observed.shape[1]))
    bends = {
        length: np.zeros((2 * frequencies.shape[1] + 1, observed.shape[1]), np.float32) for length in LENGTH_SCALES
    }
    for each, share in zip(fitted, weight, strict=True):
        kernel, coefficients = each.kernel, each.kernel.amplitude * each.coefficients * share
        slopes += kernel.linear / dimensions * (averages.centres.T @ coefficients)
        bends[kernel.length_scale] += averages.stationary[kernel.length_scale].T @ coefficients.astype(np.float32)
    signal = rows @ slopes
    for block in blocks(len(rows)):
        phases = rows[block] @ frequencies
        for length, weights in bends.items():
            signal[block] += stationary_features(phases / length) @ weights
    return signal


@dataclass(frozen=True)
class _Fitted:
    kernel: Kernel
    coefficients: Floats
    """float64 (K, P): the inverse covariance of the observations times them."""
    log_evidence: Floats
    """float64 (P,), up to a constant that all kernels share."""


def _fit(covariance: Floats, kernel: Kernel, observed: Floats, variance: Floats) -> _Fitted:
    covariance[np.diag_indices_from(covariance)] += variance
    factor = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
    coefficients: Floats = cho_solve(factor, observed, check_finite=False)
    determinant = float(np.sum(np.log(np.diag(factor[0]))))
    return _Fitted(kernel, coefficients, -0.5 * np.sum(observed * coefficients, axis=0) - determinant)
