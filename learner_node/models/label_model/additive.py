"""A logistic additive model, inferred from the noisy class counts of the bins of single attributes.

log-odds(x) = b + sum_j f_j(bin of x in attribute j). The numbers of class 1 by bin are the sufficient statistics of
this model, so a question about single attributes loses nothing to it but the noise; which bins fall together in a
record is known from the source. What is asked, and of which attributes, is decided elsewhere.

About a fit with probabilities p, the contrast z_b = (1 - p_b) n1_b - p_b n0_b of a bin is normal with mean
F_b (theta - fit) and covariance F + D: F, the Fisher information over the source, is the sampling of the labels, which
the attributes' bins share; D is the noise. Iterated, this is Fisher scoring (McCullagh & Nelder 1989, section 2.5)
for counts with noise; without noise it is penalised logistic regression on one-hot bins, whose penalties, one for each
attribute, are those of greatest evidence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from learner_node.models.label_model.bin_counts import BinCounts, source_masses

Floats = NDArray[np.float64]

_INTERCEPT_VARIANCE = 4.0
_SCALE_START, _SCALE_WEIGHT = 0.03, 3.0
"""Prior of an attribute's variance: inverse gamma about a mode that all share, worth this many contributions."""
_MODE_WEIGHT = 2.0
"""The shared mode is the harmonic mean of the variances, and of `_SCALE_START` as often as this."""
_SMALLEST_SCALE, _LARGEST_SCALE = 1e-6, 25.0
_SCORINGS, _SCALE_STEPS = 40, 6
_LONGEST_STEP = 3.0
_TOLERANCE, _ROUGH_TOLERANCE, _SCALE_TOLERANCE = 1e-6, 1e-3, 0.03
_SUREST = 1e-3
_MOST_RECORDS = 20_000
_BLOCK = 4096


@dataclass(frozen=True)
class AdditiveFit:
    """The posterior of intercept and contributions, normal by Laplace's approximation.

    Attributes:
        intercept: b, in log-odds.
        contributions: f_j of each answer's bins, float64 (B,): one answer after the other.
        covariance: of intercept and contributions, float64 (1 + B, 1 + B).
        starts: where each answer's bins begin, and B at the end, int64 (m + 1,).
        scales: inferred prior variance of each answer's contributions, float64 (m,).
        source_mass: private records that each source record stands for, float64 (n_s,).
        log_evidence: of the contrasts at the last fit, up to a constant.
    """

    intercept: float
    contributions: Floats
    covariance: Floats
    starts: NDArray[np.int64]
    scales: Floats
    source_mass: Floats
    log_evidence: float

    def log_odds(self, cells: Sequence[NDArray[np.int64]]) -> tuple[Floats, Floats]:
        """Posterior mean and variance of the log-odds of records, two float64 (n,).

        Args:
            cells: per answer, the bin of each record, (n,).
        """
        places = np.stack([one + start for one, start in zip(cells, self.starts, strict=False)], axis=1)
        mean: Floats = self.intercept + self.contributions[places].sum(axis=1)
        variance = np.empty(len(mean))
        for first in range(0, len(mean), _BLOCK):
            block = slice(first, first + _BLOCK)
            design = np.zeros((len(mean[block]), len(self.covariance)))
            design[:, 0] = 1.0
            np.put_along_axis(design, 1 + places[block], 1.0, axis=1)
            variance[block] = np.einsum("ij,ij->i", design @ self.covariance, design)
        return mean, np.maximum(variance, 0.0)

    def probability(self, cells: Sequence[NDArray[np.int64]]) -> Floats:
        """P(class 1) of records, float64 (n,): the log-odds' uncertainty is averaged over (MacKay 1992, Eq. 10)."""
        mean, variance = self.log_odds(cells)
        averaged: Floats = expit(mean / np.sqrt(1.0 + np.pi / 8.0 * variance))
        return averaged

    def centred(self, answer: int, weights: Floats) -> tuple[Floats, Floats]:
        """Contributions of one answer less their mean over `weights` (K,), and their posterior deviations, (K,)."""
        here = slice(int(self.starts[answer]), int(self.starts[answer + 1]))
        share = weights / weights.sum()
        less = np.eye(len(share)) - share[None, :]
        inner = self.covariance[1:, 1:][here, here]
        variance = np.einsum("ij,jk,ik->i", less, inner, less)
        return less @ self.contributions[here], np.sqrt(np.maximum(variance, 0.0))


def fit_additive(
    answers: Sequence[BinCounts], *, declared: float | None = None, scales: Floats | None = None, seed: int = 0
) -> AdditiveFit:
    """Infer intercept and contributions from the noisy class counts of single attributes' bins.

    Of more than 20,000 source records a random sample is used: it tells how the attributes fall together.

    Args:
        answers: at least one, of the same source records, of which there are at least one.
        declared: number of private records, as the curators declare it; None knows nothing of it.
        scales: prior variances of each answer's contributions (m,), positive; None infers them.
        seed: of the sample.

    Returns:
        The posterior; a pure function of the arguments.

    Raises:
        ValueError: no answer, or a shape, type or range is not as `BinCounts` says.
    """
    if not answers or not len(answers[0].cells):
        raise ValueError("at least one answer and one source record are needed")
    count = len(answers[0].cells)
    checked = [answer.checked(count) for answer in answers]
    masses = source_masses(checked, declared)
    kept = np.arange(count)
    if count > _MOST_RECORDS:
        kept = np.sort(np.random.default_rng(seed).choice(count, _MOST_RECORDS, replace=False))
    weights = masses.weights[kept] * masses.weights.sum() / masses.weights[kept].sum()
    scoring = _Scoring([answer.cells[kept] for answer in checked], checked, weights, np.concatenate(masses.variances))
    start = np.log(masses.totals[1] / masses.totals[0])
    found = scoring.run(float(start), None if scales is None else np.asarray(scales, np.float64))
    return AdditiveFit(
        intercept=float(found.theta[0]),
        contributions=found.theta[1:],
        covariance=found.covariance,
        starts=scoring.starts,
        scales=found.scales,
        source_mass=masses.weights,
        log_evidence=found.log_evidence,
    )


@dataclass(frozen=True)
class _Linear:
    """The model linearised about a fit, in the bins that hold source records.

    Attributes:
        contrast: z + H theta, float64 (U,).
        slope: H, its derivative by intercept and contributions, float64 (U, 1 + B).
        covariance: F + D and the intercept's part, float64 (U, U).
    """

    contrast: Floats
    slope: Floats
    covariance: Floats


@dataclass(frozen=True)
class _Found:
    theta: Floats
    covariance: Floats
    scales: Floats
    log_evidence: float


class _Scoring:
    """Fisher scoring, with the prior's scales updated on the way."""

    def __init__(
        self, cells: list[NDArray[np.int64]], answers: Sequence[BinCounts], weights: Floats, mass_variance: Floats
    ) -> None:
        sizes = [answer.size for answer in answers]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._spans = [slice(int(a), int(b)) for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)]
        self._cells, self._sizes, self._weights = cells, sizes, weights
        self._kernels = [answer.kernel for answer in answers]
        self._counts = np.concatenate([answer.counts for answer in answers])
        self._noise = np.concatenate([np.full(answer.size, answer.noise) for answer in answers])
        self._mass_variance = mass_variance
        self._used = self._summed(np.ones(len(weights))) > 0

    def run(self, intercept: float, fixed: Floats | None) -> _Found:
        """From contributions of 0; see `fit_additive`."""
        theta = np.zeros(1 + int(self.starts[-1]))
        theta[0] = intercept
        scales = np.full(len(self._sizes), _SCALE_START) if fixed is None else fixed
        for number in range(_SCORINGS):
            linear = self._linearised(theta)
            before = scales
            if fixed is None and number < _SCORINGS // 2:
                scales = self._likelier_scales(linear, scales)
            found = self._posterior(linear, scales)
            step = found.theta - theta
            longest = self._longest(step)
            theta = theta + step * min(1.0, _LONGEST_STEP / max(longest, 1e-12))
            settled = float(np.abs(np.log(scales / before)).max()) < _SCALE_TOLERANCE
            if longest < _TOLERANCE or (settled and fixed is None and longest < _ROUGH_TOLERANCE):
                break
        return self._posterior(self._linearised(theta), scales)

    def _summed(self, values: Floats) -> Floats:
        parts = [np.bincount(c, values, minlength=k) for c, k in zip(self._cells, self._sizes, strict=True)]
        joined: Floats = np.concatenate(parts)
        return joined

    def _log_odds(self, theta: Floats) -> Floats:
        total = np.full(len(self._weights), theta[0])
        for cells, span in zip(self._cells, self._spans, strict=True):
            total += theta[1:][span][cells]
        return total

    def _longest(self, step: Floats) -> float:
        return float(np.abs(self._log_odds(step)).max())

    def _linearised(self, theta: Floats) -> _Linear:
        share = expit(self._log_odds(theta))
        information = self._fisher(self._weights * share * (1.0 - share))
        mass, ones = self._summed(self._weights), self._summed(self._weights * share)
        p = np.clip(np.divide(ones, mass, out=np.full_like(mass, 0.5), where=mass > 0), _SUREST, 1.0 - _SUREST)
        q = 1.0 - p
        # The two counts' residuals have noise in each, and (p, q) times the error of the mass in both; what they
        # say together of a change of p is found by generalised least squares (Sherman-Morrison).
        more_ones, more_zeros = self._counts[:, 1] - ones, self._counts[:, 0] - (mass - ones)
        shared = self._mass_variance / (self._noise + self._mass_variance * (p**2 + q**2))
        variance = self._noise / (2.0 - shared * (p - q) ** 2)
        score = (more_ones - more_zeros) - shared * (p - q) * (p * more_ones + q * more_zeros)
        contrast = variance / self._noise * score
        slope = np.column_stack([self._summed(self._weights * share * (1.0 - share)), information])[self._used]
        sampling = information[np.ix_(self._used, self._used)]
        covariance = sampling + np.diag(variance[self._used])
        covariance += _INTERCEPT_VARIANCE * np.outer(slope[:, 0], slope[:, 0])
        return _Linear(contrast[self._used] + slope @ theta, slope, covariance)

    def _fisher(self, weights: Floats) -> Floats:
        """Sum of weights over the source by each pair of bins, float64 (B, B)."""
        matrix = np.zeros((int(self.starts[-1]),) * 2)
        for i, rows in enumerate(self._spans):
            matrix[rows, rows] = np.diag(np.bincount(self._cells[i], weights, minlength=self._sizes[i]))
            base = self._cells[i]
            for j in range(i):
                pairs = np.bincount(
                    base * self._sizes[j] + self._cells[j], weights, minlength=self._sizes[i] * self._sizes[j]
                ).reshape(self._sizes[i], self._sizes[j])
                matrix[rows, self._spans[j]], matrix[self._spans[j], rows] = pairs, pairs.T
        return matrix

    def _smoothed(self, linear: _Linear) -> Floats:
        """Slope times the prior's kernels, H K, float64 (U, B)."""
        bins = linear.slope[:, 1:]
        parts = [bins[:, span] @ kernel for span, kernel in zip(self._spans, self._kernels, strict=True)]
        return np.concatenate(parts, axis=1)

    def _marginal(self, linear: _Linear, smoothed: Floats, scales: Floats) -> tuple[Floats, bool]:
        """Cholesky factor of the contrasts' covariance with the contributions integrated out."""
        covariance = linear.covariance + (smoothed * np.repeat(scales, self._sizes)) @ linear.slope[:, 1:].T
        factor: tuple[Floats, bool] = cho_factor(covariance, lower=True)
        return factor

    def _likelier_scales(self, linear: _Linear, scales: Floats) -> Floats:
        """Steps of the MM algorithm for variance components (Zhou et al. 2019, Eq. 5), with the scales' prior."""
        smoothed, bins = self._smoothed(linear), linear.slope[:, 1:]
        for _ in range(_SCALE_STEPS):
            inverse = cho_solve(self._marginal(linear, smoothed, scales), np.eye(len(linear.contrast)))
            solved = inverse @ linear.contrast
            fitted = (solved @ smoothed) * (solved @ bins)
            traces = np.einsum("ub,ub->b", inverse @ bins, smoothed)
            mode = (len(scales) + _MODE_WEIGHT) / (np.sum(1.0 / scales) + _MODE_WEIGHT / _SCALE_START)
            gain = np.add.reduceat(fitted, self.starts[:-1]) * scales**2 + _SCALE_WEIGHT * mode
            cost = np.add.reduceat(traces, self.starts[:-1]) + _SCALE_WEIGHT / scales
            scales = np.clip(np.sqrt(gain / cost), _SMALLEST_SCALE, _LARGEST_SCALE)
        return scales

    def _posterior(self, linear: _Linear, scales: Floats) -> _Found:
        prior = np.zeros((len(linear.slope[0]),) * 2)
        prior[0, 0] = _INTERCEPT_VARIANCE
        for span, scale, kernel in zip(self._spans, scales, self._kernels, strict=True):
            prior[1:, 1:][span, span] = scale * kernel
        cross = prior @ linear.slope.T
        factor = self._marginal(linear, self._smoothed(linear), scales)
        solved = cho_solve(factor, linear.contrast)
        covariance = prior - cross @ cho_solve(factor, cross.T)
        normaliser = np.log(np.diag(factor[0])).sum() + 0.5 * len(solved) * np.log(2.0 * np.pi)
        evidence = -0.5 * float(linear.contrast @ solved) - float(normaliser)
        return _Found(cross @ solved, 0.5 * (covariance + covariance.T), scales, evidence)
