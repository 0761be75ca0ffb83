"""What the label model would make of many problems' answers, at the price of one fit.

The likelihood of a cell's noisy signed count is taken as normal, with a variance that hangs on the noise and the
cell's size, not on the answer. So one factorisation per kernel serves all problems (Rasmussen & Williams 2006,
Eqs. 2.25 and 2.30). Kernels, their averaging by evidence, and the cells' covariances are those of the label model
itself; its amplitude 1 is taken, and Poisson counts, expectation propagation and networks are left out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from learner_node.models.label_model.gaussian_process import (
    LENGTH_SCALES,
    LINEAR_WEIGHTS,
    SMALLEST_WEIGHT,
    seen_covariance,
)
from learner_node.models.label_model.random_features import (
    LEVEL_SHARE,
    Covariances,
    Kernel,
    average_over_cells,
    blocks,
    bounded,
    draw_frequencies,
    stationary_features,
)

Floats = NDArray[np.float64]


class Foresight:
    """Posterior means of the label signal at the source records, for any cells of them.

    Args:
        features: Source records, standardised, float64 (n_s, d), finite.
        seed: Of the random features.
    """

    def __init__(self, features: Floats, *, seed: int) -> None:
        self._rows, self._seed = bounded(features), seed
        self._frequencies = draw_frequencies(self._rows.shape[1], seed)
        width = 2 * self._frequencies.shape[1]
        self._features = {length: np.empty((len(self._rows), width), np.float32) for length in LENGTH_SCALES}
        for block in blocks(len(self._rows)):
            phases = self._rows[block] @ self._frequencies
            for length, features_at in self._features.items():
                features_at[block] = stationary_features(phases / length)

    def signals(self, cells: NDArray[np.int64], observed: Floats, variance: Floats) -> Floats:
        """Posterior mean of f at each source record in each of P problems, float64 (n_s, P); its sign is the class.

        Args:
            cells: Cell of each source record, int64 (n_s,), in [0, K); every number occurs.
            observed: Noisy signed count of each cell over its expected mass, float64 (K, P).
            variance: Of each cell's observation about the mean of f, float64 (K,), positive.
        """
        averages = average_over_cells(self._rows, [cells], self._frequencies, LENGTH_SCALES, seed=self._seed)
        covariances = Covariances(averages)
        kernels = [Kernel(length, linear, 1.0, LEVEL_SHARE) for length in LENGTH_SCALES for linear in LINEAR_WEIGHTS]
        fitted = [_fit(seen_covariance(covariances, kernel), kernel, observed, variance) for kernel in kernels]
        evidence = np.array([each.log_evidence for each in fitted])
        weight = np.exp(evidence - evidence.max(axis=0))
        # Weights that underflow would make numbers on which arithmetic is a hundred times slower.
        weight[weight < SMALLEST_WEIGHT] = 0.0
        weight /= weight.sum(axis=0)
        dimensions = self._rows.shape[1]
        signal = np.zeros((len(self._rows), observed.shape[1]))
        slopes = np.zeros((dimensions, observed.shape[1]))
        level = np.zeros(observed.shape[1])
        for length in LENGTH_SCALES:
            bend = np.zeros(observed.shape)
            for each, share in zip(fitted, weight, strict=True):
                if each.kernel.length_scale == length:
                    bend += share * each.coefficients
                    level += each.kernel.constant * np.sum(share * each.coefficients, axis=0)
                    slopes += each.kernel.linear / dimensions * (averages.centres.T @ (share * each.coefficients))
            signal += self._features[length] @ (averages.stationary[length].T @ bend.astype(np.float32))
        signal += self._rows @ slopes + level
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
