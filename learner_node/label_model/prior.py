"""Label problems that a learner must reckon with before it knows any label, for quotes.

The prior is about three things that no unlabelled record tells: how common label 1 is, how much of the label the
attributes explain, and whether they do so along a line or in bends. It is spread over all of them, so that real
problems lie within it, and what is known of the first two may be stated.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri
from scipy.stats import qmc

from learner_node.label_model.random_features import blocks, bounded, draw_frequencies, stationary_features
from learner_node.ranking import expected_auc
from protocol.errors import ConfigurationError

Floats = NDArray[np.float64]
Range = tuple[float, float]

DIFFICULTIES = ("easy", "middling", "hard")
"""Thirds of the problems: nearly linear, bent, and of many regions."""
_PREVALENCE_SHAPES = (1.5, 1.5)
_LENGTH_SCALES = (4.0, 2.0, 1.0, 0.5, 0.25)
_ALIGNMENTS = (0.0, 1.0, 2.0, 4.0)
_EXPLAINED_SHAPES = (0.5, 0.25)
"""The share r of the latent variance that the attributes explain has density 1 / (2 sqrt(1 - r)): 1 - r is a square."""
_MOST_EXPLAINED = 0.9999
_HALVINGS = 40
_OWN_STREAM = 1_000_003


@dataclass(frozen=True)
class Belief:
    """What is known of the labels before anything is asked; each is drawn evenly from its range.

    Attributes:
        prevalence: share of label 1 among the private records, within (0, 1).
        best_auc: area under the ROC curve of the best model that could be learnt without privacy, within (1/2, 1);
            None knows nothing: the attributes explain a share r of density 1 / (2 sqrt(1 - r)) of the latent variance,
            whose 5, 50 and 95 % points are .10, .75 and .998.

    Raises:
        ConfigurationError: a range beyond these, or with its ends exchanged.
    """

    prevalence: Range | None = None
    best_auc: Range | None = None

    def __post_init__(self) -> None:
        for name, ends, least, most in (
            ("prevalence", self.prevalence, 0.001, 0.999),
            ("best AUC", self.best_auc, 0.51, 0.999),
        ):
            if ends is not None and not least <= ends[0] <= ends[1] <= most:
                raise ConfigurationError(f"{name} must be a number or a range from {least} to {most}, lower end first")


@dataclass(frozen=True)
class PriorProblems:
    """Problems on the same source records.

    Attributes:
        probability: P(label 1) of each source record in each problem, float64 (n_s, P), in [0, 1].
        difficulty: number in `DIFFICULTIES` of each, int64 (P,).
        majority: what always answering the likelier class scores, float64 (P,).
        best: what knowing `probability` scores, float64 (P,).
        best_auc: the area under the ROC curve that knowing `probability` has, float64 (P,).
    """

    probability: Floats
    difficulty: NDArray[np.int64]
    majority: Floats
    best: Floats
    best_auc: Floats

    @classmethod
    def of(cls, probability: Floats, difficulty: NDArray[np.int64]) -> "PriorProblems":
        """With what the probabilities say of majority and perfect knowledge."""
        ones = probability.mean(axis=0)
        return cls(
            probability=probability,
            difficulty=difficulty,
            majority=np.maximum(ones, 1.0 - ones),
            best=np.maximum(probability, 1.0 - probability).mean(axis=0),
            best_auc=np.array([expected_auc(column, column) for column in probability.T]),
        )


def draw_prior_problems(features: Floats, count: int, seed: int, belief: Belief | None = None) -> PriorProblems:
    """Draw problems that cover the prior evenly (a scrambled Halton sequence; Owen 2017).

    A record has label 1 where sqrt(r) g + sqrt(1 - r) e exceeds a threshold: g is a standardised signal, e standard
    normal, r the explained share, and the threshold gives the prevalence. g is a mixture of a linear function and of a
    draw from the label model's stationary kernel; the linear share of its variance is even on [0, 1]. The random
    features are not those of any fit, which would make the problem the model's own.

    Args:
        features: Source records, standardised, float64 (n_s, d), n_s >= 2.
        count: Number of problems P, at least 1.
        seed: Non-negative; equal arguments give equal problems, and fewer are the first of more.
        belief: What is known; None is nothing.
    """
    known = belief or Belief()
    places = qmc.Halton(3, scramble=True, rng=np.random.default_rng([_OWN_STREAM, seed])).random(count)
    threshold = -ndtri(_prevalences(known.prevalence, places[:, 0]))
    linear = np.clip(1.5 * (1.0 - places[:, 2]), 0.0, 1.0)
    signal = _signals(bounded(features), linear, places[:, 2], 1.0 - places[:, 2], seed)
    if known.best_auc is None:
        explained = np.minimum(betaincinv(*_EXPLAINED_SHAPES, places[:, 1]), _MOST_EXPLAINED)
        probability = np.column_stack(
            [_probability(*item) for item in zip(signal.T, explained, threshold, strict=True)]
        )
    else:
        least, most = known.best_auc
        wanted = least + (most - least) * places[:, 1]
        probability = np.column_stack(
            [_of_best_auc(*item) for item in zip(signal.T, wanted, threshold, strict=True)]
        )
    difficulty = np.minimum((places[:, 2] * len(DIFFICULTIES)).astype(np.int64), len(DIFFICULTIES) - 1)
    return PriorProblems.of(probability, difficulty)


def _prevalences(known: Range | None, place: Floats) -> Floats:
    if known is None:
        return betaincinv(*_PREVALENCE_SHAPES, place)
    return known[0] + (known[1] - known[0]) * place


def _signals(rows: Floats, linear: Floats, length: Floats, alignment: Floats, seed: int) -> Floats:
    """Standardised signals, float64 (n_s, P); places in [0, 1) choose the length-scale and the alignment."""
    frequencies = draw_frequencies(rows.shape[1], int(np.random.default_rng([_OWN_STREAM, seed, 1]).integers(2**31)))
    scale, aligned = (length * len(_LENGTH_SCALES)).astype(np.int64), (alignment * len(_ALIGNMENTS)).astype(np.int64)
    draws = [np.random.default_rng([_OWN_STREAM, seed, 2, number]) for number in range(len(linear))]
    slopes = np.column_stack([rng.standard_normal(rows.shape[1]) for rng in draws])
    weights = np.column_stack([rng.standard_normal(2 * frequencies.shape[1] + 1) for rng in draws]).astype(np.float32)
    straight, bent = np.empty((2, len(rows), len(linear)))
    for which, power in enumerate(_ALIGNMENTS):
        turned = _aligned(rows, power)
        straight[:, aligned == which] = turned @ slopes[:, aligned == which]
        for block in blocks(len(rows)):
            phases = turned[block] @ frequencies
            for number, size in enumerate(_LENGTH_SCALES):
                chosen = (scale == number) & (aligned == which)
                bent[block, chosen] = stationary_features(phases / size) @ weights[:, chosen]
    return _standardised(np.sqrt(linear) * _standardised(straight) + np.sqrt(1.0 - linear) * _standardised(bent))


def _aligned(rows: Floats, power: float) -> Floats:
    """Principal components, each times its own variance to the power of a half of `power`, with mean square 1."""
    variance, axes = np.linalg.eigh(np.cov(rows, rowvar=False, bias=True).reshape(rows.shape[1], rows.shape[1]))
    turned: Floats = (rows - rows.mean(axis=0)) @ axes * np.maximum(variance, 0.0) ** (0.5 * power)
    size = float(np.sqrt(np.mean(turned**2)))
    return turned / size if size > 0 else turned


def _standardised(columns: Floats) -> Floats:
    spread = columns.std(axis=0)
    result: Floats = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return result


def _probability(signal: Floats, explained: float, threshold: float) -> Floats:
    """P(label 1) with the mean that the threshold of a normal latent variable stands for, float64 (n_s,)."""
    slope, wanted = np.sqrt(explained / (1.0 - explained)), ndtr(-threshold)
    low, high = -(np.abs(slope * signal).max() + 8.0), np.abs(slope * signal).max() + 8.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if ndtr(slope * signal + middle).mean() < wanted:
            low = middle
        else:
            high = middle
    result: Floats = ndtr(slope * signal + 0.5 * (low + high))
    return result


def _of_best_auc(signal: Floats, wanted: float, threshold: float) -> Floats:
    """As `_probability`, with the explained share that gives this best AUC, or the nearest that the source allows."""
    low, high = 0.0, _MOST_EXPLAINED
    for _ in range(_HALVINGS // 3):
        middle = 0.5 * (low + high)
        probability = _probability(signal, middle, threshold)
        if expected_auc(probability, probability) < wanted:
            low = middle
        else:
            high = middle
    return _probability(signal, 0.5 * (low + high), threshold)
