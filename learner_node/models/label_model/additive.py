"""A logistic additive model: its bins, its fit to noisy class counts of single attributes, and its shape functions.

log-odds(x) = b + sum_j f_j(bin of x in attribute j). The numbers of class 1 by bin are the sufficient statistics of
this model, so a question about single attributes loses nothing to it but the noise; which bins fall together in a
record is known from the source. Strategy `additive` decides what is asked.

About a fit with probabilities p, a bin b with counts n0_b and n1_b has the contrast z_b = (1 - p_b) n1_b - p_b n0_b.
Contrasts are normal with mean F (theta - fit) and covariance F + D. F, the Fisher information over the source, is the
labels' sampling covariance, which the attributes' bins share; D is the noise's. Iterated, this is Fisher scoring
(McCullagh & Nelder 1989, section 2.5) for counts with noise; without noise it is penalised logistic regression on
one-hot bins, whose penalties, one for each attribute, are those of greatest evidence.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from expril.report.numbers import readable_edges
from learner_node.models.label_model.likelihood import shrunken_ratios
from learner_node.scores.values import NORMAL
from protocol.errors import ConfigurationError
from protocol.partitions import FeatureBins
from protocol.records import Records
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from protocol.strict_toml import suggest

Floats = NDArray[np.float64]

_LEAST_NOISE = 1e-4
"""Smallest noise variance of a count, which keeps matrices invertible."""
_RANK_LENGTH = 0.5
_DECLARED_SPREAD = 0.5
"""Relative deviation of the true number of records from the declared one."""
_LEAST_CLASS = 0.02
"""Smallest share of records that either class is given at the start of a fit."""
_RAKINGS = 20
_RAKED = 1e-6


@dataclass(frozen=True)
class BinCounts:
    """One attribute's answer."""

    cells: NDArray[np.int64]  # bin of each source record, integer (n_s,), in [0, K)
    counts: Floats  # noisy numbers of private records of class 0 (column 0) and class 1 (column 1), float64 (K, 2)
    variance: float  # of the noise in one count, at least 0
    # prior covariance of the bins' contributions, float64 (K, K), positive semidefinite, of about unit diagonal; its
    # scale is inferred
    kernel: Floats

    @property
    def size(self) -> int:
        """Number of bins K."""
        return len(self.counts)

    @property
    def noise(self) -> float:
        """`variance`, raised to a positive value."""
        return max(self.variance, _LEAST_NOISE)

    def summed(self, weights: Floats) -> Floats:
        """Sum of source weights (n_s,) by bin, float64 (K,)."""
        total: Floats = np.bincount(self.cells, weights, minlength=self.size).astype(np.float64)
        return total

    def checked(self, n_source: int) -> "BinCounts":
        """Return a copy with int64 cells. Raises ValueError: a shape, type or range is not as above."""
        cells, counts = np.asarray(self.cells), np.asarray(self.counts, np.float64)
        if counts.ndim != 2 or counts.shape[0] < 1 or counts.shape[1] != 2 or not np.isfinite(counts).all():
            raise ValueError(f"counts must be finite and have shape (K, 2), not {counts.shape}")
        if cells.shape != (n_source,) or not np.issubdtype(cells.dtype, np.integer):
            raise ValueError(f"cells must be integers of shape ({n_source},)")
        if n_source and not (cells.min() >= 0 and cells.max() < len(counts)):
            raise ValueError(f"cells must lie in [0, {len(counts)})")
        if np.shape(self.kernel) != (len(counts), len(counts)):
            raise ValueError(f"a kernel must have shape ({len(counts)}, {len(counts)}), not {np.shape(self.kernel)}")
        if not (np.isfinite(self.variance) and self.variance >= 0):
            raise ValueError("a noise variance must be finite and at least 0")
        return BinCounts(cells.astype(np.int64), counts, float(self.variance), np.asarray(self.kernel, np.float64))


@dataclass(frozen=True)
class SourceMasses:
    """Number of private records that each source record stands for."""

    weights: Floats  # of each source record, float64 (n_s,), non-negative
    totals: Floats  # private records of class 0 and of class 1, about, float64 (2,), positive
    # per answer, how far the mass of each bin may still be off, float64 (K,); 0 where no source record is
    variances: tuple[Floats, ...]


def source_masses(answers: Sequence[BinCounts], declared: float | None = None) -> SourceMasses:
    """Weigh the source so that its bins have the masses that were counted, as far as noise lets those be known.

    The answers' totals are equal in truth, so the best unbiased estimate of them is shared (`make_consistent`); a bin's
    mass is the source's share of it, corrected where the counts differ by more than noise and sampling explain
    (`shrunken_ratios`). The weights that have those masses in all attributes at once are found by raking (iterative
    proportional fitting, Deming & Stephan 1940).

    Args:
        answers: at least one, of the same source records.
        declared: number of private records, as the curators declare it; None knows nothing of it.
    """
    count = len(answers[0].cells)
    precision = np.array([1.0 / (answer.noise * answer.size) for answer in answers])
    sums = np.array([answer.counts.sum(axis=0) for answer in answers])
    counted_totals = precision @ sums / precision.sum()
    total = float(counted_totals.sum())
    if declared is not None:
        noise_precision, prior_precision = 0.5 * precision.sum(), (_DECLARED_SPREAD * declared) ** -2
        total = (total * noise_precision + declared * prior_precision) / (noise_precision + prior_precision)
    total = max(total, 2.0)
    totals = np.maximum(counted_totals, _LEAST_CLASS * total)
    totals *= total / totals.sum()
    weights = np.full(count, total / count)
    goals, variances = [], []
    for answer in answers:
        of_source = np.bincount(answer.cells, minlength=answer.size).astype(np.float64)
        used = of_source > 0
        foreseen = total * of_source[used] / count
        counted = answer.counts.sum(axis=1)
        observed = (counted + (total - counted.sum()) / answer.size)[used]
        noise = np.full(len(foreseen), 2.0 * answer.noise)
        goal = np.zeros(answer.size)
        goal[used] = foreseen * shrunken_ratios(observed, foreseen, noise)
        goals.append(goal * total / goal.sum())
        variance = np.zeros(answer.size)
        prior = (goal[used] - foreseen) ** 2 + foreseen + foreseen**2 / of_source[used]
        variance[used] = 1.0 / (1.0 / prior + 1.0 / noise)
        variances.append(variance)
    for _ in range(_RAKINGS):
        moved = 0.0
        for answer, goal in zip(answers, goals, strict=True):
            have = answer.summed(weights)
            factor = np.divide(goal, have, out=np.ones_like(have), where=have > 0)
            weights *= factor[answer.cells]
            moved = max(moved, float(np.abs(factor - 1.0).max()))
        if moved < _RAKED:
            break
    return SourceMasses(weights, totals, tuple(variances))


def ordered_kernel(shares: Floats, apart: int = 1) -> Floats:
    """Prior covariance of the contributions of ordered bins, smooth along the attribute's ranks.

    It is the Matern kernel of smoothness 3/2 and length-scale 1/2 (Rasmussen & Williams 2006, Eq. 4.17) of the bins'
    middle ranks, from 0 to 1. `shares` are the source's in each bin in order, float64 (K,), non-negative; the last
    `apart` bins (for missing values) have no order and are independent.
    """
    kernel = np.eye(len(shares))
    ordered = shares[: len(shares) - apart]
    ranks = (np.cumsum(ordered) - 0.5 * ordered) / max(float(ordered.sum()), 1e-12)
    distance = np.sqrt(3.0) * np.abs(ranks[:, None] - ranks) / _RANK_LENGTH
    kernel[: len(ordered), : len(ordered)] = (1.0 + distance) * np.exp(-distance)
    return kernel


LEAST_SHARE = 0.01
"""Least share of the source's records in a bin of a numeric attribute."""
MOST_SORTED = 20_000
"""Most source records whose sorted values place the edges; of more, a sample is used."""


def named_attributes(schema: Schema, names: tuple[str, ...]) -> list[str]:
    """The names, after a check. Raises ConfigurationError: one is no attribute's; the text suggests another."""
    names_on_card = [attribute.name for attribute in schema.attributes]
    for name in names:
        if name == schema.label:
            raise ConfigurationError(f"attributes: {name!r} is the label; name what it is to be predicted from")
        if name not in names_on_card:
            raise ConfigurationError(
                f"attributes: the curators' card has no attribute {name!r}{suggest(name, names_on_card)}"
            )
    return list(names)


def tied_bins(source: Records, name: str, bins: int) -> FeatureBins:
    """At most `bins` bins of about even mass of the source; a value more frequent than a bin has one of its own.

    Counts such as 0, 0, 0, 1, 0, 4 have few quantiles that differ; here the zeros are a bin, and the others share the
    rest. A categorical attribute always has a bin for each level, "other" and missing.

    Args:
        source: n records.
        name: an attribute of its schema.
        bins: number of bins of a numeric attribute, at least 1, without the one of missing values.
    """
    if isinstance(source.schema.find(name), CategoricalAttribute):
        return FeatureBins(attribute=name, edges=())
    column = source.column(name)
    present = np.sort(column[~np.isnan(column)])
    if len(present) > MOST_SORTED:
        present = present[np.linspace(0, len(present) - 1, MOST_SORTED).astype(np.int64)]
    values, counts = np.unique(present, return_counts=True)
    least = LEAST_SHARE * len(present)
    edges: list[float] = []
    remaining, in_bin, free = float(len(present)), 0.0, bins
    for index in range(len(values) - 1):
        in_bin += counts[index]
        goal, following = remaining / free, counts[index + 1]
        if free == 1 or in_bin < least or remaining - in_bin < least:
            continue
        if following >= goal or in_bin + 0.5 * following >= goal:
            edges.append(float(values[index + 1]))
            remaining, in_bin, free = remaining - in_bin, 0.0, free - 1
    return FeatureBins(attribute=name, edges=tuple(edges))


def bin_kernel(partition: FeatureBins, schema: Schema, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Prior covariance of the bins' contributions: levels are independent, bins of a number vary smoothly.

    Args:
        partition: bins of one attribute.
        schema: schema that has the attribute.
        shares: share of the source in each bin, missing values last, (K,).
    """
    if isinstance(schema.find(partition.attribute), NumericAttribute):
        return ordered_kernel(shares)
    return np.eye(len(shares))


_INTERCEPT_VARIANCE = 4.0
_SCALE_START, _SCALE_WEIGHT = 0.03, 3.0
"""Inverse gamma prior of an attribute's variance: start of the shared mode, and weight in contributions."""
_MODE_WEIGHT = 2.0
"""Weight of `_SCALE_START` in the harmonic mean of variances that is the shared mode."""
_SMALLEST_SCALE, _LARGEST_SCALE = 1e-6, 25.0
_SCORINGS, _SCALE_STEPS = 40, 6
_LONGEST_STEP = 3.0
_TOLERANCE, _ROUGH_TOLERANCE, _SCALE_TOLERANCE = 1e-6, 1e-3, 0.03
_SUREST = 1e-3
_MOST_RECORDS = 20_000
_BLOCK = 4096


@dataclass(frozen=True)
class AdditiveFit:
    """The posterior of intercept and contributions, normal by Laplace's approximation."""

    intercept: float  # b, in log-odds
    contributions: Floats  # f_j of each answer's bins, float64 (B,): one answer after the other
    covariance: Floats  # of intercept and contributions, float64 (1 + B, 1 + B)
    starts: NDArray[np.int64]  # where each answer's bins begin, and B at the end, int64 (m + 1,)
    scales: Floats  # inferred prior variance of each answer's contributions, float64 (m,)
    source_mass: Floats  # private records that each source record stands for, float64 (n_s,)
    log_evidence: float  # of the contrasts at the last fit, up to a constant

    def log_odds(self, cells: Sequence[NDArray[np.int64]]) -> tuple[Floats, Floats]:
        """Posterior mean and variance of the log-odds of records, two float64 (n,).

        Args:
            cells: per answer, the bin of each record, (n,).
        """
        places = np.stack([bins + start for bins, start in zip(cells, self.starts, strict=False)], axis=1)
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
        """One answer's contributions minus their mean over `weights` (K,), and posterior deviations, (K,)."""
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

    Source records tell which bins occur together. If there are more than 20,000, a random sample of them is used.

    Args:
        answers: at least one, of the same source records, of which there are at least one.
        declared: number of private records, as the curators declare it; None knows nothing of it.
        scales: prior variances of each answer's contributions (m,), positive; None infers them.
        seed: seed of the sample.

    Returns:
        The posterior; a pure function of the arguments.

    Raises:
        ValueError: there is no answer, or a shape, type or range is not as `BinCounts` says.
    """
    if not answers or not len(answers[0].cells):
        raise ValueError("at least one answer and one source record are needed")
    count = len(answers[0].cells)
    checked = [answer.checked(count) for answer in answers]
    masses = source_masses(checked, declared)
    chosen = np.arange(count)
    if count > _MOST_RECORDS:
        chosen = np.sort(np.random.default_rng(seed).choice(count, _MOST_RECORDS, replace=False))
    weights = masses.weights[chosen] * masses.weights.sum() / masses.weights[chosen].sum()
    scoring = _Scoring([answer.cells[chosen] for answer in checked], checked, weights, np.concatenate(masses.variances))
    start = np.log(masses.totals[1] / masses.totals[0])
    posterior = scoring.run(float(start), None if scales is None else np.asarray(scales, np.float64))
    return AdditiveFit(
        intercept=float(posterior.theta[0]),
        contributions=posterior.theta[1:],
        covariance=posterior.covariance,
        starts=scoring.starts,
        scales=posterior.scales,
        source_mass=masses.weights,
        log_evidence=posterior.log_evidence,
    )


@dataclass(frozen=True)
class _Linear:
    """The model linearised about a fit, in the bins that hold source records."""

    contrast: Floats  # z + H theta, float64 (U,)
    slope: Floats  # H, its derivative by intercept and contributions, float64 (U, 1 + B)
    covariance: Floats  # F + D and the intercept's part, float64 (U, U)


@dataclass(frozen=True)
class _Posterior:
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

    def run(self, intercept: float, fixed: Floats | None) -> _Posterior:
        """Fit from contributions of 0; see `fit_additive`."""
        theta = np.zeros(1 + int(self.starts[-1]))
        theta[0] = intercept
        scales = np.full(len(self._sizes), _SCALE_START) if fixed is None else fixed
        for number in range(_SCORINGS):
            linear = self._linearised(theta)
            before = scales
            if fixed is None and number < _SCORINGS // 2:
                scales = self._likelier_scales(linear, scales)
            posterior = self._posterior(linear, scales)
            step = posterior.theta - theta
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

    def _posterior(self, linear: _Linear, scales: Floats) -> _Posterior:
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
        return _Posterior(cross @ solved, 0.5 * (covariance + covariance.T), scales, evidence)


OTHER, MISSING = "other", "missing"


@dataclass(frozen=True)
class ShapeBin:
    """One bin of an attribute."""

    # in words: a level, "other", "missing", or a range whose lower end is inside; its upper end is not, but for whole
    # numbers, "2 to 4"
    label: str
    low: float | None  # low, high: edges of a bin of numbers; None where it has none on that side, and for levels
    high: float | None
    share: float  # of the private records, as the answers have it, in [0, 1]
    log_odds: float  # contribution to the log-odds of class 1, less its mean over the records
    lower: float  # lower, upper: ends of its 95 % band (posterior, Laplace's approximation), the model being right
    upper: float


@dataclass(frozen=True)
class ShapeFunction:
    """Contribution of one attribute."""

    attribute: str  # its name
    numeric: bool  # whether its bins are ranges of a number, in their order (missing last), or levels
    bins: tuple[ShapeBin, ...]  # those that hold source records; of the others only the prior speaks

    @property
    def strength(self) -> float:
        """Standard deviation of the contribution over the records, in log-odds."""
        shares = np.array([bin_.share for bin_ in self.bins])
        values = np.array([bin_.log_odds for bin_ in self.bins])
        shares = shares / max(float(shares.sum()), 1e-12)
        return float(np.sqrt(max(shares @ values**2 - (shares @ values) ** 2, 0.0)))


def shape_functions(
    source: Records,
    partitions: Sequence[FeatureBins],
    fit: AdditiveFit,
    cells: Sequence[NDArray[np.int64]],
) -> tuple[ShapeFunction, ...]:
    """Shape functions of a fit, the strongest first.

    `source` has n_s records; `partitions` are the asked bins, one per attribute, in the order of the fit's answers;
    `cells` are the source records' bins by partition, (n_s,) each.
    """
    shapes, schema = [], source.schema
    for number, (partition, places) in enumerate(zip(partitions, cells, strict=True)):
        size = partition.cell_count(schema)
        mass = np.bincount(places, fit.source_mass, minlength=size).astype(np.float64)
        value, deviation = fit.centred(number, mass)
        described = _described(partition, source)
        occupied = np.flatnonzero(np.bincount(places, minlength=size))
        bins = tuple(
            ShapeBin(
                *described[place],
                share=float(mass[place] / mass.sum()),
                log_odds=float(value[place]),
                lower=float(value[place] - NORMAL * deviation[place]),
                upper=float(value[place] + NORMAL * deviation[place]),
            )
            for place in occupied
        )
        levels = isinstance(schema.find(partition.attribute), CategoricalAttribute)
        shapes.append(ShapeFunction(partition.attribute, not levels, bins))
    return tuple(sorted(shapes, key=lambda shape: -shape.strength))


def _described(partition: FeatureBins, source: Records) -> list[tuple[str, float | None, float | None]]:
    """Label and edges of each bin."""
    attribute = source.schema.find(partition.attribute)
    if isinstance(attribute, CategoricalAttribute):
        return [(label, None, None) for label in (*attribute.levels, OTHER, MISSING)]
    edges = partition.edges
    if not edges:
        return [("any value", None, None), (MISSING, None, None)]
    column = source.column(partition.attribute)
    integers = bool((column[~np.isnan(column)] % 1 == 0).all()) and all(edge % 1 == 0 for edge in edges)
    if integers:
        texts = [_integer_text(edge) for edge in edges]
        least = attribute.lower if isinstance(attribute, NumericAttribute) else -np.inf
        lowest = _whole_numbers(least, edges[0]) if least == edges[0] - 1 else f"below {texts[0]}"
        middle = [_whole_numbers(low, high) for low, high in pairwise(edges)]
    else:
        texts = readable_edges(edges)
        lowest = f"below {texts[0]}"
        middle = [f"{low} to {high}" for low, high in pairwise(texts)]
    labels = [lowest, *middle, f"{texts[-1]} or more"]
    if isinstance(attribute, NumericAttribute) and attribute.days_since:
        dates = _dates(attribute.days_since, edges, integers=integers)
        labels = [f"{label} ({text})" for label, text in zip(labels, dates, strict=True)]
    ends = pairwise([None, *edges, None])
    return [*((label, low, high) for label, (low, high) in zip(labels, ends, strict=True)), (MISSING, None, None)]


def _dates(start: str, edges: Sequence[float], *, integers: bool) -> list[str]:
    """Texts of bins of days since `start` as dates, before, between and from the edges on; without times of day."""
    first = date.fromisoformat(start)
    days = [first + timedelta(days=math.floor(edge)) for edge in edges]
    ends = [max(low, high - timedelta(days=integers)) for low, high in pairwise(days)]
    middle = [f"{low}" if low == end else f"{low} to {end}" for low, end in zip(days, ends, strict=False)]
    return [f"before {days[0]}", *middle, f"{days[-1]} or later"]


def _whole_numbers(low: float, high: float) -> str:
    """Text of a bin [low, high) of whole numbers: its least and greatest value."""
    return _integer_text(low) if low == high - 1 else f"{_integer_text(low)} to {_integer_text(high - 1)}"


def _integer_text(value: float) -> str:
    return f"{value:,.0f}".replace("-", "−")
