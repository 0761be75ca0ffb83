"""A model's accuracy, AUC or recalls on the private records, with intervals, from the answers it was learnt from.

Nothing more is asked: the noisy label counts of the cells are read a second time. The judge is the posterior of the
cells' label shares (`CellPosterior`), which does not depend on the model that is judged; that model may be any function
from records to probabilities. docs/learner/uncertainty.md and docs/learner/outcomes.md say what this assumes, how it
was chosen and how often its intervals hold.

The counts of a cell do not tell which of its records carry the label. A profile deals the labels by the model's own
ranking, P(label 1) = Phi(a u + shift of the cell), where u is the probit of the model's probability. The shift follows
from the cell's share of label 1; the sharpness a from how well Phi(a u) predicts the answers of cells held out. A
record i of weight w_i thus stands for w_i q_i records with label 1 and w_i (1 - q_i) without.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import ndtr, ndtri

from learner_node.models.label_model import CellPosterior
from learner_node.models.label_model.expectation_propagation import PRIOR_NO_SIGNAL
from learner_node.models.label_model.one_against_rest import relative
from learner_node.scores.auc import auc_error, sorted_auc
from learner_node.scores.performance import Interval

Floats = NDArray[np.float64]

SHARPNESS: Floats = np.exp(np.linspace(np.log(0.25), np.log(8.0), 11))
"""Candidate values of the sharpness a, float64 (11,)."""

_SHIFTS = 12.0 * np.sign(np.linspace(-1.0, 1.0, 61)) * np.abs(np.linspace(-1.0, 1.0, 61)) ** 1.5
_SUREST_PROBABILITY = 0.002
_RECORDS_PER_CELL, _RECORDS = 24, 10_000
_BLOCK_ENTRIES = 50_000
"""Numbers at once (400 kB), of which every step's operands stay in the cache."""


@dataclass(frozen=True)
class Profiles:
    """A model's probabilities for n source records, in the order of their K cells."""

    value: Floats  # The model's probability of label 1, float64 (n,), in [0, 1]
    probability: Floats  # Its means over all source records of each cell, float64 (K,)
    cell: NDArray[np.int64]  # Cell of each record, int64 (n,), ascending
    starts: NDArray[np.int64]  # Where each cell begins, int64 (K,)
    counts: Floats  # Records of each cell, float64 (K,), at least 1

    @classmethod
    def of(cls, probability: Floats, posterior: CellPosterior, rng: np.random.Generator) -> "Profiles":
        """Profiles of all source records, or of a random sample from large cells.

        Raises ValueError: `probability` does not have the shape of the source records, or a value is no probability.
        """
        values = np.asarray(probability, dtype=np.float64)
        if values.shape != posterior.cells.shape:
            raise ValueError(f"probability must have shape {posterior.cells.shape}, not {values.shape}")
        if not np.all((values >= 0) & (values <= 1)):
            raise ValueError("probability must lie in [0, 1]")
        shuffled = rng.permutation(len(values))
        order = shuffled[np.argsort(posterior.cells[shuffled], kind="stable")]
        sizes = np.bincount(posterior.cells)
        rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        order = order[rank < max(_RECORDS_PER_CELL, _RECORDS // len(sizes))]
        counts = np.bincount(posterior.cells[order])
        return cls(
            value=values[order],
            probability=np.bincount(posterior.cells, values) / sizes,
            cell=posterior.cells[order],
            starts=np.cumsum(counts) - counts,
            counts=counts.astype(np.float64),
        )

    @property
    def cells(self) -> int:
        """Number of cells K."""
        return len(self.starts)

    @cached_property
    def probit(self) -> Floats:
        """u, float64 (n,); probabilities are clipped to .002 and .998."""
        result: Floats = ndtri(np.clip(self.value, _SUREST_PROBABILITY, 1.0 - _SUREST_PROBABILITY))
        return result

    @cached_property
    def predicted(self) -> NDArray[np.bool_]:
        """Whether label 1 is predicted, bool (n,)."""
        return self.value > 0.5

    @cached_property
    def predicted_share(self) -> Floats:
        """Share of each cell's records with prediction 1, float64 (K,)."""
        share: Floats = self.means(self.predicted.astype(np.float64)[None])[0]
        return share

    def score_at_random(self, share: Floats) -> Floats:
        """Accuracy per cell, (S, K), if label 1 is dealt at random to a `share` (S, K) of its records."""
        return self.predicted_share * share + (1.0 - self.predicted_share) * (1.0 - share)

    def means(self, rows: Floats) -> Floats:
        """Cell means, float64 (m, K), of (m, n) values."""
        means: Floats = np.add.reduceat(rows, self.starts, axis=1) / self.counts
        return means

    def curves(self, sharpness: float) -> tuple[Floats, Floats]:
        """For each of 61 shifts, each cell's share of label 1 and the predictions' accuracy; two float64 (61, K)."""
        share, score = np.empty((2, len(_SHIFTS), self.cells))
        step = max(1, _BLOCK_ENTRIES // len(self.value))
        for first in range(0, len(_SHIFTS), step):
            block = slice(first, first + step)
            ones = ndtr(sharpness * self.probit + _SHIFTS[block, None])
            share[block] = self.means(ones)
            score[block] = self.means(np.where(self.predicted, ones, 1.0 - ones))
        return share, score

    def by_ranking(self, *draws: tuple[Floats, NDArray[np.int64]]) -> list[tuple[Floats, Floats]]:
        """Shift and accuracy of each cell if labels are dealt by the model's own ranking; of each draws two (S, K).

        The shift gives Phi(a u + shift) the mean share of label 1. Draws are of that share, float64 (S, K) in [0, 1],
        and of the index of a in `SHARPNESS`, int64 (S,).
        """
        results = [(np.empty_like(share), np.empty_like(share)) for share, _ in draws]
        for index in np.unique(np.concatenate([sharpness for _, sharpness in draws])):
            shares, scores = self.curves(float(SHARPNESS[index]))
            for (share, sharpness), (shift, score) in zip(draws, results, strict=True):
                rows = np.flatnonzero(sharpness == index)
                for k in range(self.cells):
                    shift[rows, k] = np.interp(share[rows, k], shares[:, k], _SHIFTS)
                    score[rows, k] = np.interp(share[rows, k], shares[:, k], scores[:, k])
        return results

    def held_out_log_likelihoods(self, posterior: CellPosterior) -> Floats:
        """Log probability of the answers at each sharpness, each cell moved to its held-out share, float64 (11,)."""
        share, _ = self.curves(1.0)
        foretold = posterior.held_out_share()
        shifts = np.array([np.interp(foretold[k], share[:, k], _SHIFTS) for k in range(self.cells)])
        return self.log_likelihoods(posterior, shifts)

    def log_likelihoods(self, posterior: CellPosterior, shifts: Floats) -> Floats:
        """Log probability of the answers at each sharpness, probits moved by (K,) `shifts`, float64 (11,)."""
        moved = self.probit + shifts[self.cell]
        logs = [posterior.log_likelihood(self.means(ndtr(a * moved)[None])[0]) for a in SHARPNESS]
        return np.asarray(logs, dtype=np.float64)

    def most_agreement(self, share: Floats) -> Floats:
        """Largest possible accuracy in a cell with (S, K) `share` of label 1, float64 (S, K): Frechet's bound.

        It is 1 - |share - predicted share|, relaxed by a standard error of the latter, which few source records
        estimate.
        """
        predicted = self.predicted_share
        rounded = (predicted * self.counts + 1.0) / (self.counts + 2.0)
        error = np.where((predicted > 0) & (predicted < 1), np.sqrt(rounded * (1 - rounded) / (self.counts + 3.0)), 0.0)
        score: Floats = 1.0 - np.maximum(np.abs(share - predicted) - error, 0.0)
        return score

    @cached_property
    def ascending(self) -> NDArray[np.int64]:
        """The records by value, int64 (n,)."""
        return np.argsort(self.value, kind="stable")

    @cached_property
    def place(self) -> Floats:
        """Number of records of its cell with a higher value, float64 (n,); ties in any order."""
        place = np.empty(len(self.value))
        place[np.lexsort((-self.value, self.cell))] = np.arange(len(self.value)) - self.starts[self.cell]
        return place


_RANKING_ENTRIES = 200_000
"""Numbers of draws and records at once (1.6 MB), of which every step's operands stay in the cache."""


@dataclass(frozen=True)
class Dealing:
    """How each of S draws deals labels within cells."""

    shift: Floats  # As `Profiles.by_ranking` gives it, float64 (S, K)
    sharpness: NDArray[np.int64]  # As index of `SHARPNESS`, int64 (S,)
    trust: Floats  # How far they are dealt by the model's ranking, float64 (S,), in [-1, 1]; 0 is at random


def auc_draws(profiles: Profiles, share: Floats, weight: Floats, dealing: Dealing | None = None) -> Floats:
    """Areas under a model's ROC curve, one for each of S draws, float64 (S,).

    Args:
        profiles: The model's profiles.
        share: Share of label 1 in each cell, float64 (S, K), in [0, 1].
        weight: Weight of each cell, float64 (S, K), positive.
        dealing: How labels are dealt within cells; None deals them at random.
    """
    if dealing is None:
        return _areas_at_random(profiles, share, weight)
    order = profiles.ascending
    cell, probit = profiles.cell[order], profiles.probit[order]

    def dealt(rows: slice) -> Floats:
        ones = share[rows][:, cell]
        foretold = ndtr(SHARPNESS[dealing.sharpness[rows], None] * probit + dealing.shift[rows][:, cell])
        mixed: Floats = np.clip(ones + dealing.trust[rows, None] * (foretold - ones), 0.0, 1.0)
        return mixed

    return _areas(profiles, weight, dealt)


def highest_auc_draws(profiles: Profiles, share: Floats, weight: Floats) -> Floats:
    """`auc_draws` with label 1 on the highest scores of each cell, the best ranking within cells."""
    order = profiles.ascending
    cell, place = profiles.cell[order], profiles.place[order]

    def dealt(rows: slice) -> Floats:
        ones: Floats = np.clip((share[rows] * profiles.counts)[:, cell] - place, 0.0, 1.0)
        return ones

    return _areas(profiles, weight, dealt)


def _areas_at_random(profiles: Profiles, share: Floats, weight: Floats) -> Floats:
    """Areas of S draws of labels dealt at random within cells: of each pair of cells, once, how often one is ahead."""
    value = np.unique(profiles.value, return_inverse=True)[1]
    at = csr_matrix((np.ones(len(value)), (profiles.cell, value)))  # records of each cell at each value
    ahead = np.empty((profiles.cells, profiles.cells))
    step = max(1, _RANKING_ENTRIES // at.shape[1])
    for first in range(0, profiles.cells, step):
        others = slice(first, first + step)
        here = at[others].toarray()
        ahead[:, others] = at @ (np.cumsum(here, axis=1) - 0.5 * here).T
    ahead /= profiles.counts * profiles.counts[:, None]
    positive, negative = weight * share, weight * (1.0 - share)
    with np.errstate(invalid="ignore"):
        areas = np.sum(positive @ ahead * negative, axis=1) / (positive.sum(axis=1) * negative.sum(axis=1))
    return np.asarray(np.nan_to_num(areas, nan=0.5))


def _areas(profiles: Profiles, weight: Floats, dealt: Callable[[slice], Floats]) -> Floats:
    """Areas of S draws; `dealt` gives P(label 1) of records by ascending value in a slice of the draws."""
    order = profiles.ascending
    starts = np.flatnonzero(np.diff(profiles.value[order], prepend=-np.inf))
    cell = profiles.cell[order]
    areas = np.empty(len(weight))
    step = max(1, _RANKING_ENTRIES // len(order))
    for first in range(0, len(weight), step):
        rows = slice(first, first + step)
        mass, ones = (weight[rows] / profiles.counts)[:, cell], dealt(rows)
        areas[rows] = sorted_auc(mass * ones, mass * (1.0 - ones), starts)
    return areas


LEVEL = 0.025
"""Level of the verdict "beats the majority class"."""
METHOD = (
    "posterior of the cells' label shares from the noisy counts; within cells the model's own ranking, sharpened or "
    "blunted by how well it foretells cells that it is not told"
)

_DRAWS = 1000
_EXPECTED_SHARPNESS, _SHARPNESS_DEVIATION = 1.1, 0.4
_WITHIN_MEAN, _WITHIN_SLOPE, WITHIN_DEVIATION = 0.1, 0.3, 0.7
"""Normal law of log a minus its estimate from cells: mean at ten cells a dimension, the mean's growth with the
logarithm of that number, and deviation."""
_USUAL_CELLS, _LEAST_LOG_CELLS = 10.0, -2.0
_JUDGE_SHARPNESS = np.exp(np.linspace(-0.8, 0.8, 33))
_EXPECTED_JUDGE, _JUDGE_DEVIATION = 1.0, 0.25
_SUREST, _NEWTON_STEPS = 1e-4, 6
_OPEN = (0.5, 0.5)
_FEWER_ERRORS, _FEWER_INVERSIONS = (0.05, 0.25), (0.5, 0.7)
"""Mean and deviation of the log factors on errors and on inverted pairs if cells are pure."""
_SCEPTICISM = (1.0 - PRIOR_NO_SIGNAL) / PRIOR_NO_SIGNAL
"""Factor on the odds of no signal in the verdicts, which makes its prior 1/2."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class AccuracyEstimate:
    """The accuracy and the area under the ROC curve (AUC) that a learner may expect on records like the private ones.

    Estimates are posterior medians in [0, 1], each with the ends of the central 95 % of its posterior. The AUC is the
    share of pairs of records, one of each class, that the model's probabilities put in order; ties count one half.
    """

    accuracy: float
    low: float
    high: float
    majority: float  # the accuracy of always predicting the more frequent class
    majority_low: float
    majority_high: float
    p_value: float  # posterior probability that the model is no better than that, see `estimate_accuracy`
    auc: float
    auc_low: float
    auc_high: float
    ranking_p_value: float  # posterior probability that the AUC is at most 1/2, see `estimate_accuracy`
    method: str = METHOD

    @property
    def beats_majority(self) -> bool:
        """The verdict, at level 2.5 %: `p_value` is at most `LEVEL`."""
        return self.p_value <= LEVEL

    @property
    def ranks(self) -> bool:
        """Whether the model ranks records better than chance, at level 2.5 %: `ranking_p_value` is at most `LEVEL`."""
        return self.ranking_p_value <= LEVEL


def estimate_accuracy(
    probability: Floats, posterior: CellPosterior, *, seed: int, records_per_unit: int = 1
) -> AccuracyEstimate:
    """Estimate the accuracy of a model on the target population, and the area under its ROC curve.

    A draw of the posterior says which share of each cell has label 1. What the model scores between cells follows from
    that share and from what it predicts. Within a cell the counts do not tell which records have the label. There they
    are dealt by the model's own ranking, P(label 1) = Phi(a u + shift of the cell), where u is the probit of its
    probability. The first part of log a follows from how well Phi(a u) predicts the answers of held-out cells, with a
    normal prior of mean log 1.1 and deviation 0.4. The second part is a normal step for what those cells cannot tell.
    Its mean is 0.1 + 0.3 log(K / 10 d) for K cells in d dimensions (K / d counts as at least 1.35), and its deviation
    is 0.7: the direction in which risk rises within a cell has d components, which the K cells tell. The ranking counts
    only as far as the model's cell means are correlated with the posterior's: a model that is wrong between cells is
    not believed within them.

    The posterior's shares are moved away from their mean, to Phi(b probit(share) + shift), since a smooth prior blunts
    a signal with steps. log b has a normal prior of mean 0 and deviation 0.25, and the likelihood of held-out cells'
    answers.

    Where most cells are pure, labels have steps, and a cell with both labels is likely to have a step inside. So the
    scores are moved towards the best that is possible within cells: label and prediction agree as much as the two
    shares allow (Frechet's bound), and label 1 is on the highest scores. They are moved by a part of the distance: the
    trust (that correlation, at least 0), times the square of the share of the labels' variance that is between cells,
    times a Beta(1/2, 1/2) variable. A smooth prior also never takes a pure cell for quite pure: errors and inversions
    (1 less accuracy, 1 less AUC) are multiplied by exp(-z), z normal, of mean 0.05 and 0.5, deviation 0.25 and 0.7,
    times the same trust and square.

    The verdicts are stricter than the intervals. They take the shares as they are (b = 1), and the prior probability
    of no signal at all as 1/2 instead of 1/5; `p_value` credits within cells no more than held-out cells bear out, and
    `ranking_p_value` deals labels at random there.

    Records of one unit are no independent draws. A sum over them varies up to `records_per_unit` times as much
    (Cauchy-Schwarz), and what is missing is added, with the standard errors of a share and of an AUC.

    Args:
        probability: the model's P(label 1) of the source records that the posterior was fitted with, (n_s,), in
            [0, 1]; above one half it predicts label 1.
        posterior: the cells' posterior.
        seed: seed of the draws, non-negative.
        records_per_unit: the contribution bound c, at least 1.

    Returns:
        The estimate; a pure function of the arguments.

    Raises:
        ValueError: `probability` has another shape, a value of it is no probability, or the bound is below 1.
    """
    if records_per_unit < 1:
        raise ValueError(f"records_per_unit must be at least 1, not {records_per_unit}")
    rng = np.random.default_rng(seed)
    profiles = Profiles.of(probability, posterior, rng)
    draws = posterior.draw(_DRAWS, rng)
    weight = draws.mass / draws.mass.sum(axis=1, keepdims=True)
    cell_share = 0.5 * (1.0 + draws.signal)
    sharper = rng.choice(_JUDGE_SHARPNESS, _DRAWS, p=_judge_weights(posterior))[:, None]
    share = np.where(draws.no_signal[:, None], cell_share, steeper(cell_share, weight, sharper))
    between, within = _sharpness_draws(profiles, posterior, rng)
    (shift, score), (_, stricter) = profiles.by_ranking((share, within), (cell_share, np.minimum(between, within)))
    trust = _correlation(profiles.probability, cell_share[~draws.no_signal], posterior.mass)
    # In cells of one prediction no ranking matters; nor where labels do not depend on the attributes.
    trusted = np.where(draws.no_signal[:, None] | np.isin(profiles.predicted_share, (0.0, 1.0)), 0.0, trust)
    accuracy, credited = np.empty((2, _DRAWS))
    step = max(1, _RANKING_ENTRIES // profiles.cells)
    for result, of_label, ranked in ((accuracy, share, score), (credited, cell_share, stricter)):
        for rows in (slice(first, first + step) for first in range(0, _DRAWS, step)):
            mixed = (1.0 - trusted[rows]) * profiles.score_at_random(of_label[rows]) + trusted[rows] * ranked[rows]
            result[rows] = np.clip(np.sum(weight[rows] * mixed, axis=1), 0.0, 1.0)
    ones = np.sum(weight * cell_share, axis=1)
    majority = np.maximum(ones, 1.0 - ones)
    auc = auc_draws(profiles, share, weight, Dealing(shift, within, np.where(draws.no_signal, 0.0, trust)))
    pure = np.where(draws.no_signal, 0.0, max(trust, 0.0)) * _purity(share, weight) ** 2
    opened = rng.beta(*_OPEN, _DRAWS) * pure
    accuracy += opened * np.maximum(np.sum(weight * profiles.most_agreement(share), axis=1) - accuracy, 0.0)
    auc += opened * np.maximum(highest_auc_draws(profiles, share, weight) - auc, 0.0)
    missed = rng.standard_normal(_DRAWS)
    accuracy, auc = (
        1.0 - (1.0 - of_model) * np.exp(-pure * (mean + deviation * missed))
        for of_model, (mean, deviation) in ((accuracy, _FEWER_ERRORS), (auc, _FEWER_INVERSIONS))
    )
    credited_auc = auc_draws(profiles, cell_share, weight)
    records = draws.mass.sum(axis=1)
    alike = np.sqrt(records_per_unit - 1.0) * rng.standard_normal((2, _DRAWS))
    chance = alike[0] * np.sqrt(np.maximum(accuracy * (1.0 - accuracy), 0.0) / records)  # rounded, it may exceed 1
    by_label = np.maximum(records * np.stack([ones, 1.0 - ones]), 1.0)
    auc_chance = alike[1] * auc_error(auc, *by_label)
    return AccuracyEstimate(
        *_median_and_interval(accuracy + chance),
        *_median_and_interval(majority),
        _tail(credited + chance <= majority, draws.no_signal),
        *_median_and_interval(auc + auc_chance),
        _tail(credited_auc + auc_chance <= 0.5 + _ROUNDING, draws.no_signal),
    )


def steeper(share: Floats, weight: Floats, sharpness: float | Floats) -> Floats:
    """Phi(b probit(share) + shift), float64 (S, K); each row's shift keeps its mean, weighted by (S, K) `weight`.

    So a rare class stays as rare.
    """
    probit = sharpness * ndtri(np.clip(share, _SUREST, 1.0 - _SUREST))
    mean = np.sum(weight * share, axis=1, keepdims=True)
    shift = (1.0 - sharpness) * ndtri(np.clip(mean, _SUREST, 1.0 - _SUREST))
    for _ in range(_NEWTON_STEPS):
        missing = mean - np.sum(weight * ndtr(probit + shift), axis=1, keepdims=True)
        slope = np.sum(weight * np.exp(-0.5 * (probit + shift) ** 2), axis=1, keepdims=True) / np.sqrt(2.0 * np.pi)
        shift += np.clip(missing / np.maximum(slope, _SUREST), -1.0, 1.0)
    result: Floats = ndtr(probit + shift)
    return result


def _purity(share: Floats, weight: Floats) -> Floats:
    """Share of the labels' variance that is between cells, float64 (S,), in [0, 1]; 1 where every cell is pure."""
    mean = np.sum(weight * share, axis=1)
    between = np.sum(weight * (share - mean[:, None]) ** 2, axis=1)
    result: Floats = np.clip(between / np.maximum(mean * (1.0 - mean), _SUREST), 0.0, 1.0)
    return result


def _judge_weights(posterior: CellPosterior) -> Floats:
    """Probabilities of `_JUDGE_SHARPNESS`, float64 (33,), by how well steeper shares predict held-out cells."""
    share, weight = posterior.held_out_share()[None], posterior.mass[None] / posterior.mass.sum()
    log_likelihoods = [posterior.log_likelihood(steeper(share, weight, float(b))[0]) for b in _JUDGE_SHARPNESS]
    deviations = (np.log(_JUDGE_SHARPNESS) - np.log(_EXPECTED_JUDGE)) / _JUDGE_DEVIATION
    return _normalised(np.array(log_likelihoods) - 0.5 * deviations**2)


def _sharpness_draws(
    profiles: Profiles, posterior: CellPosterior, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draws of the sharpness a, as indices of `SHARPNESS`: between cells, from held-out cells, and within cells."""
    deviations = (np.log(SHARPNESS) - np.log(_EXPECTED_SHARPNESS)) / _SHARPNESS_DEVIATION
    weights = _normalised(profiles.held_out_log_likelihoods(posterior) - 0.5 * deviations**2)
    between = rng.choice(len(SHARPNESS), _DRAWS, p=weights)
    step = np.log(SHARPNESS[1] / SHARPNESS[0])
    log_within = np.log(SHARPNESS[between]) + rng.normal(within_mean(posterior), WITHIN_DEVIATION, _DRAWS)
    within = np.rint((log_within - np.log(SHARPNESS[0])) / step).astype(np.int64)
    return between, np.clip(within, 0, len(SHARPNESS) - 1)


def within_mean(posterior: CellPosterior) -> float:
    """Expected log of how much sharper labels follow a model within cells than between them (`estimate_accuracy`).

    Its deviation is `WITHIN_DEVIATION`.
    """
    log_cells = np.log(len(posterior.mass) / (_USUAL_CELLS * posterior.dimensions))
    return float(_WITHIN_MEAN + _WITHIN_SLOPE * max(log_cells, _LEAST_LOG_CELLS))


def _correlation(probability: Floats, share: Floats, mass: Floats) -> float:
    """Weighted correlation over cells of a model's (K,) and the posterior's mean (S, K); 0 where one is constant."""
    if not len(share) or len(mass) < 2:
        return 0.0
    weight = mass / mass.sum()
    first, second = probability - weight @ probability, share.mean(axis=0) - weight @ share.mean(axis=0)
    spread = np.sqrt((weight @ first**2) * (weight @ second**2))
    return float(np.clip(weight @ (first * second) / spread, -1.0, 1.0)) if spread > 1e-12 else 0.0


def _normalised(log_weights: Floats) -> Floats:
    weights = np.exp(log_weights - log_weights.max())
    result: Floats = weights / weights.sum()
    return result


def _tail(counted: NDArray[np.bool_], no_signal: NDArray[np.bool_]) -> float:
    """Posterior probability, never 0, of an event that a subset of draws supports; no signal has prior 1/2."""
    weight = np.where(no_signal, _SCEPTICISM, 1.0)
    return float((1.0 + weight @ counted) / (1.0 + weight.sum()))


def _median_and_interval(values: Floats) -> tuple[float, float, float]:
    low, middle, high = np.clip(np.quantile(values, (LEVEL, 0.5, 1.0 - LEVEL)), 0.0, 1.0)
    return float(middle), float(low), float(high)


_RECALL_DRAWS = 600
_SHARPNESS = np.exp(np.linspace(-1.2, 1.6, 9))
_STEEPER_DEVIATION = 0.25
"""Prior deviation of log b. Posterior shares are steepened by the factor b, since a smooth prior blunts steps."""
_RECALL_SHIFTS = np.linspace(-7.0, 7.0, 113)


def class_recalls(
    posteriors: Sequence[CellPosterior], exclusion: float, probabilities: Floats, *, seed: int
) -> tuple[Interval, ...]:
    """Estimate each class's recall in the population behind the private records, with 95 % intervals, each in [0, 1].

    Args:
        posteriors: of the cells, for each of C classes against the rest.
        exclusion: how the classes' shares are combined, see `one_against_rest.shares_together`.
        probabilities: the model's for the source's records, (n, C). It predicts the likeliest class, the first of
            equals.
        seed: seed of the draws, non-negative.
    """
    called = probabilities.argmax(axis=1)
    rng = np.random.default_rng(seed)
    draws_by_class = [posterior.draw(_RECALL_DRAWS, rng) for posterior in posteriors]
    apart = [relative(0.5 * (1.0 + draws.signal), exclusion) for draws in draws_by_class]
    usual = np.stack([shares.mean(axis=0) for shares in apart])
    return tuple(
        _recall(
            posterior,
            draws.mass,
            shares / (shares + usual.sum(axis=0) - usual[number]),
            probabilities[:, number],
            called == number,
            rng,
        )
        for number, (posterior, draws, shares) in enumerate(zip(posteriors, draws_by_class, apart, strict=True))
    )


def _recall(
    posterior: CellPosterior,
    mass: Floats,
    cell_share: Floats,
    probability: Floats,
    called: NDArray[np.bool_],
    rng: np.random.Generator,
) -> Interval:
    """Recall of one class, given draws `cell_share` (S, K) of its share of each cell."""
    weight = mass / mass.sum(axis=1, keepdims=True)
    sharper = np.exp(rng.normal(0.0, _STEEPER_DEVIATION, _RECALL_DRAWS))[:, None]
    share = np.clip(steeper(cell_share, weight, sharper), _SUREST, 1.0 - _SUREST)
    nodes = np.log(_SHARPNESS)
    weights = np.exp(-0.5 * ((nodes - within_mean(posterior)) / WITHIN_DEVIATION) ** 2)
    sharpness = rng.choice(len(nodes), _RECALL_DRAWS, p=weights / weights.sum())
    right = np.empty_like(share)
    for cell, curves in enumerate(_curves(posterior.cells, probability, called)):
        for which, (shares, hits) in enumerate(curves):
            rows = sharpness == which
            right[rows, cell] = np.interp(share[rows, cell], shares, hits)
    records = (mass * share).sum(axis=1)
    hit = (mass * np.minimum(right, share)).sum(axis=1)
    return Interval.of_share(hit, np.maximum(records - hit, 0.0))


def _curves(
    cells: NDArray[np.int64], probability: Floats, called: NDArray[np.bool_]
) -> Iterator[list[tuple[Floats, Floats]]]:
    """For each cell and sharpness, ascending shares of the class, and shares of it that are predicted as the class."""
    probit = ndtri(np.clip(probability, _SUREST, 1.0 - _SUREST))
    order = np.argsort(cells, kind="stable")
    for members in np.split(order, np.cumsum(np.bincount(cells))[:-1]):
        curves = []
        for sharp in _SHARPNESS:
            ranked = ndtr(sharp * probit[members][:, None] + _RECALL_SHIFTS * max(sharp, 1.0))
            shares, hits = ranked.mean(axis=0), (ranked * called[members][:, None]).mean(axis=0)
            curves.append(
                (np.concatenate([[0.0], shares, [1.0]]), np.concatenate([[0.0], hits, [called[members].mean()]]))
            )
        yield curves
