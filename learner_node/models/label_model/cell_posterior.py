"""What is known of the cells after the answers: label signals, masses, and what other cells say of each.

The signals are drawn from the mixture of normal posteriors that the label model averages, together with
the hypothesis that labels do not depend on the attributes, which no Gaussian process includes. What is
made of the draws (an accuracy, an interval) is decided elsewhere.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, ndtr

from learner_node.models.label_model.expectation_propagation import NormalPosterior
from learner_node.models.label_model.likelihood import PROBIT, SIGNAL_NODES, SiteTable, expected_share

Floats = NDArray[np.float64]

PRIOR_NO_SIGNAL = 0.2
"""Prior probability that labels do not depend on the attributes."""
_JITTER = 1e-9


@dataclass(frozen=True)
class CellDraws:
    """Joint posterior draws.

    Attributes:
        signal: Cell means of f, float64 (S, K), in [-1, 1]; a cell's share of label 1 is (1 + f) / 2.
        mass: Expected target records of the cells, float64 (S, K), positive.
        no_signal: bool (S,); where True, labels do not depend on the cell in that draw.
    """

    signal: Floats
    mass: Floats
    no_signal: NDArray[np.bool_]


@dataclass(frozen=True)
class CellPosterior:
    """The posterior of the K used cells.

    Attributes:
        cells: Used cell of each source record, int64 (n_s,), in [0, K); every number occurs.
        table: The likelihood of the cells' answers.
        mass: Posterior means of the cell masses, float64 (K,), positive.
        mass_variance: Their posterior variances, float64 (K,), positive.
        log_evidence: Log probability of the answers under the Gaussian processes, averaged over kernels.
        kernels: (weight, prior covariance (K, K), posterior) of the averaged kernels; the weights sum to 1.
        dimensions: d of the instances that the kernels are of, at least 1.
    """

    cells: NDArray[np.int64]
    table: SiteTable
    mass: Floats
    mass_variance: Floats
    log_evidence: float
    kernels: tuple[tuple[float, Floats, NormalPosterior], ...]
    dimensions: int

    @property
    def no_signal_probability(self) -> float:
        """Posterior probability, prior `PRIOR_NO_SIGNAL`, that one share of label 1, uniform, holds in all cells."""
        alone = logsumexp(self._constant_log_likelihood()) - np.log(len(SIGNAL_NODES))
        prior = np.log(PRIOR_NO_SIGNAL / (1.0 - PRIOR_NO_SIGNAL))
        return float(expit(alone - self.log_evidence + prior))

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
        """Each cell's share of label 1 as the other cells' answers foretell it, float64 (K,), in [0, 1].

        The mean of Phi(PROBIT g) under the cavity distribution of expectation propagation: the posterior with
        the cell's own site taken out (Rasmussen & Williams 2006, Eq. 3.56). The kernels' weights have seen it.
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
    """Draws of the cell means, float64 (count, K): prior draws moved by the data (Matheron's rule)."""
    size = len(covariance)
    if not count:
        return np.empty((0, size))
    lower = np.linalg.cholesky(covariance + _JITTER * np.eye(size) * np.trace(covariance) / size)
    prior = rng.standard_normal((count, size)) @ lower.T
    noise = rng.standard_normal((count, size)) / np.sqrt(posterior.sites.precision)
    residual = (prior + noise) @ posterior.whitener.T
    moved: Floats = prior + posterior.mean - residual @ posterior.whitener @ covariance
    return moved
