"""Problems drawn from a prior over labels, and the label model's fits to them in closed form: for quotes.

Unlabelled records do not tell how common label 1 is, how much of it the attributes explain, or how simply they do. The
prior is spread over all three, so that it covers real problems; knowledge of the first two may be stated.

`Foresight` fits many problems at the price of one. The likelihood of a cell's noisy signed count is taken as normal,
with a variance that depends on noise and cell size, not on the answer. So one factorisation per kernel serves all
problems (Rasmussen & Williams 2006, Eqs. 2.25 and 2.30). Kernels, their averaging by evidence and the cells'
covariances are those of the label model. Its amplitude is 1, and Poisson counts, expectation propagation and networks
are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import betaincinv, ndtr
from scipy.stats import qmc

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
from learner_node.scores.auc import expected_auc
from protocol.errors import ConfigurationError

Floats = NDArray[np.float64]


Range = tuple[float, float]

DIFFICULTIES = ("easy", "middling", "hard")
"""Names of the thirds of problems: linear along the main axes, curved, and many regions across all axes."""
_PREVALENCE_SHAPES = (1.5, 1.5)
"""Shapes of the Beta law of the share of label 1, whose 5 and 95 % points are .10 and .90."""
_UNEXPLAINED_POWER = 3.0
"""Power of a uniform draw that gives the unexplained share of the latent variance; see `Belief`."""
_MOST_EXPLAINED = 0.9999
_ALIGNMENTS = (4.0, 2.0, 1.0, 0.0)
"""Extra powers of a principal component's variance that weight it, the simplest problem's first."""
_LENGTH_SCALES = (4.0, 2.0, 1.0, 0.5, 0.25)
_HALVINGS = 30
_HALVINGS_OF_AUC = 12
_QUANTILES = 300
_OWN_STREAM = 1_000_003


@dataclass(frozen=True)
class Belief:
    """Prior knowledge of the labels; each quantity is drawn uniformly from its range.

    Raises ConfigurationError: a range is impossible or reversed.
    """

    # share of label 1 among the private records; None knows nothing and takes Beta(3/2, 3/2)
    prevalence: Range | None = None
    # area under the ROC curve of perfect knowledge of P(label 1 | record); None knows nothing. The attributes then
    # explain a share r of the latent variance, 1 - r being the cube of an even draw: the 5, 50 and 95 % points of r are
    # .14, .88 and .9999.
    best_auc: Range | None = None

    def __post_init__(self) -> None:
        for name, ends, least, most in (
            ("prevalence", self.prevalence, 0.001, 0.999),
            ("best AUC", self.best_auc, 0.51, 0.999),
        ):
            if ends is not None and not least <= ends[0] <= ends[1] <= most:
                raise ConfigurationError(
                    f"{name} must be a number or a range from {least} to {most}, such as {least + 0.2:.2f} or "
                    f"{least + 0.2:.2f}-{least + 0.3:.2f}"
                )


@dataclass(frozen=True)
class PriorProblems:
    """Problems on the same source records."""

    probability: Floats  # P(label 1) of each source record in each problem, float64 (n_s, P), in [0, 1]
    difficulty: NDArray[np.int64]  # place in `DIFFICULTIES` of each, int64 (P,)
    majority: Floats  # what always answering the likelier class scores, float64 (P,)
    best: Floats  # what knowing `probability` scores, float64 (P,)
    best_auc: Floats  # the area under the ROC curve that knowing `probability` has, float64 (P,)


def draw_prior_problems(
    features: Floats | Sequence[Floats], count: int, seed: int, belief: Belief | None = None
) -> PriorProblems:
    """Draw problems that cover the prior evenly: a Halton sequence, its digits shuffled (Owen 2017).

    A record has label 1 where sqrt(r) g + sqrt(1 - r) e exceeds a threshold: g is a standardised signal, e standard
    normal, r the explained share; the threshold gives the prevalence. g is sqrt(a) times a linear function plus
    sqrt(1 - a) times a draw from the label model's stationary kernel. One number u, even on [0, 1], says how far g is
    from simple: a falls from 1 (for a third of all u) to 0, the length-scale from 4 to 1/4, and the power by which g
    prefers the records' main axes from 4 to 0. The random features are not those of any fit.

    Args:
        features: Source records, standardised, float64 (n_s, d), n_s >= 2; or, for each problem, those of their
            coordinates that carry its signal.
        count: Number of problems P, at least 1; any three in a row have three different difficulties.
        seed: Non-negative; equal arguments give equal problems, and a smaller count gives the first of them.
        belief: What is known; None if nothing is.
    """
    stated = belief or Belief()
    # Base 3 for u: its thirds come in turn.
    share, u, ones = qmc.Halton(3, scramble=True, rng=np.random.default_rng([_OWN_STREAM, seed])).random(count).T
    prevalence = _within(stated.prevalence, ones) if stated.prevalence else betaincinv(*_PREVALENCE_SHAPES, ones)
    if isinstance(features, np.ndarray):
        signal = _signals(bounded(features), u, seed)
    else:
        signals = (_signals(bounded(rows), u[at : at + 1], seed + at) for at, rows in enumerate(features))
        signal = np.concatenate(list(signals), axis=1)
    if stated.best_auc:
        explained = _explained_of(signal, prevalence, _within(stated.best_auc, share))
    else:
        explained = np.minimum(1.0 - share**_UNEXPLAINED_POWER, _MOST_EXPLAINED)
    probability = _probability(signal, explained, prevalence)
    means = probability.mean(axis=0)
    return PriorProblems(
        probability=probability,
        difficulty=np.minimum((u * len(DIFFICULTIES)).astype(np.int64), len(DIFFICULTIES) - 1),
        majority=np.maximum(means, 1.0 - means),
        best=np.maximum(probability, 1.0 - probability).mean(axis=0),
        best_auc=_own_auc(probability),
    )


def _within(ends: Range, place: Floats) -> Floats:
    return ends[0] + (ends[1] - ends[0]) * place


def _signals(rows: Floats, u: Floats, seed: int) -> Floats:
    """Standardised signals, float64 (n_s, P)."""
    frequencies = draw_frequencies(rows.shape[1], int(np.random.default_rng([_OWN_STREAM, seed, 1]).integers(2**31)))
    draws = [np.random.default_rng([_OWN_STREAM, seed, 2, number]) for number in range(len(u))]
    slopes = np.column_stack([rng.standard_normal(rows.shape[1]) for rng in draws])
    weights = np.column_stack([rng.standard_normal(2 * frequencies.shape[1]) for rng in draws]).astype(np.float32)
    straight, bent = np.empty((2, len(rows), len(u)))
    aligned, scale = (
        np.minimum((u * len(choices)).astype(np.int64), len(choices) - 1) for choices in (_ALIGNMENTS, _LENGTH_SCALES)
    )
    for which, power in enumerate(_ALIGNMENTS):
        turned = _aligned(rows, power)
        straight[:, aligned == which] = turned @ slopes[:, aligned == which]
        scales = np.unique(scale[aligned == which])
        for block in blocks(len(rows)):
            phases = turned[block] @ frequencies
            for number in scales:
                chosen = (scale == number) & (aligned == which)
                bent[block, chosen] = stationary_features(phases / _LENGTH_SCALES[number]) @ weights[:, chosen]
    linear = np.clip(1.5 * (1.0 - u), 0.0, 1.0)
    return _standardised(np.sqrt(linear) * _standardised(straight) + np.sqrt(1.0 - linear) * _standardised(bent))


def _aligned(rows: Floats, power: float) -> Floats:
    """Principal components times their variance to the power `power` / 2, scaled to mean square 1."""
    centred = rows - rows.mean(axis=0)
    variance, axes = np.linalg.eigh(centred.T @ centred / len(rows))
    turned: Floats = centred @ axes * np.maximum(variance, 0.0) ** (0.5 * power)
    size = float(np.sqrt(np.mean(turned**2)))
    return turned / size if size > 0 else turned


def _standardised(columns: Floats) -> Floats:
    spread = columns.std(axis=0)
    result: Floats = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return result


def _probability(signal: Floats, explained: Floats, prevalence: Floats) -> Floats:
    """P(label 1) of (n_s, P) signals, whose means over the records are the prevalences, float64 (n_s, P)."""
    slopes = signal * np.sqrt(explained / (1.0 - explained))
    few = _thinned(slopes)
    high = np.abs(few).max(axis=0) + 8.0
    low = -high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = ndtr(few + middle).mean(axis=0) < prevalence
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    result: Floats = ndtr(slopes + 0.5 * (low + high))
    return result


def _explained_of(signal: Floats, prevalence: Floats, auc: Floats) -> Floats:
    """Explained shares whose best AUC is `auc`, or the nearest possible on this source, float64 (P,)."""
    few = _thinned(signal)
    low, high = np.zeros(len(auc)), np.full(len(auc), _MOST_EXPLAINED)
    for _ in range(_HALVINGS_OF_AUC):
        middle = 0.5 * (low + high)
        below = _own_auc(_probability(few, middle, prevalence)) < auc
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    explained: Floats = 0.5 * (low + high)
    return explained


def _thinned(columns: Floats) -> Floats:
    """At most 300 quantiles of each column, float64 (<= 300, P), as a fast substitute for all values."""
    if len(columns) <= _QUANTILES:
        return columns
    places = ((np.arange(_QUANTILES) + 0.5) / _QUANTILES * len(columns)).astype(np.int64)
    return np.asarray(np.sort(columns, axis=0)[places])


def _own_auc(probability: Floats) -> Floats:
    return np.array([expected_auc(column, column) for column in probability.T])


class Foresight:
    """Posterior means of the label signal at the source records, for any cells of them.

    Args:
        features: Source records, standardised, float64 (n_s, d), finite.
        seed: Seed of the random features.
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
            variance: Variance of each cell's observation about the mean of f, float64 (K,), positive.
        """
        averages = average_over_cells(self._rows, [cells], self._frequencies, LENGTH_SCALES, seed=self._seed)
        covariances = Covariances(averages)
        kernels = [Kernel(length, linear, 1.0, LEVEL_SHARE) for length in LENGTH_SCALES for linear in LINEAR_WEIGHTS]
        fitted = [_fit(seen_covariance(covariances, kernel), kernel, observed, variance) for kernel in kernels]
        evidence = np.array([fit.log_evidence for fit in fitted])
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
            for fit, share in zip(fitted, weight, strict=True):
                if fit.kernel.length_scale == length:
                    bend += share * fit.coefficients
                    level += fit.kernel.constant * np.sum(share * fit.coefficients, axis=0)
                    slopes += fit.kernel.linear / dimensions * (averages.centres.T @ (share * fit.coefficients))
            signal += self._features[length] @ (averages.stationary[length].T @ bend.astype(np.float32))
        signal += self._rows @ slopes + level
        return signal


@dataclass(frozen=True)
class _Fitted:
    kernel: Kernel
    coefficients: Floats  # float64 (K, P): the inverse covariance of the observations times them
    log_evidence: Floats  # float64 (P,), up to a constant that all kernels share


def _fit(covariance: Floats, kernel: Kernel, observed: Floats, variance: Floats) -> _Fitted:
    covariance[np.diag_indices_from(covariance)] += variance
    factor = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
    coefficients: Floats = cho_solve(factor, observed, check_finite=False)
    determinant = float(np.sum(np.log(np.diag(factor[0]))))
    return _Fitted(kernel, coefficients, -0.5 * np.sum(observed * coefficients, axis=0) - determinant)
