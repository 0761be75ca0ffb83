"""How accurate a model is on the private records, and how sure its probabilities are, from the answers alone.

Nothing is asked for it: the noisy label counts of the cells that a model was learnt from are read a second time. The
judge is the posterior of the cells' label shares (`label_model.cell_posterior`), which does not depend on the model
that is judged; that model may be any function from records to probabilities. What this assumes, how it was chosen and
how often its intervals hold is in docs/uncertainty.md.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from learner_node.label_model import CellPosterior
from learner_node.label_model.cell_posterior import CellDraws

Floats = NDArray[np.float64]

LEVEL = 0.025
"""Level of the verdict "beats the majority class"; the interval is the central 95 %."""
METHOD = (
    "posterior of the cells' label shares from the noisy counts; the model's own ranking within cells, sharpened or "
    "blunted by how well it foretells cells that it is not told"
)

_DRAWS = 1000
_SHARPNESS = np.exp(np.linspace(np.log(0.25), np.log(8.0), 11))
_LOG_SHARPNESS_DEVIATION = 0.7
_CALIBRATED_SHARPNESS, _CALIBRATED_DEVIATION = 1.15, 0.2
_SHIFTS = 12.0 * np.sign(np.linspace(-1.0, 1.0, 61)) * np.abs(np.linspace(-1.0, 1.0, 61)) ** 1.5
_SUREST = 0.002
_UNSEEN_GAIN = (0.5, 1.5)
_RECORDS_PER_CELL, _RECORDS = 24, 10_000
_BLOCK_ENTRIES = 4_000_000


@dataclass(frozen=True)
class AccuracyEstimate:
    """The accuracy that a learner may expect of its model on records like the private ones.

    Attributes:
        accuracy: posterior median of the share of records that the model classifies correctly, in [0, 1].
        low, high: central 95 % of the posterior, `low <= accuracy <= high`.
        majority, majority_low, majority_high: the same of what always answering the more frequent class would score.
        p_value: posterior probability that the model is no better than the majority class; the model's ranking of
            records within cells counts here only as far as other cells bear it out.
        method: what it is, in words.
    """

    accuracy: float
    low: float
    high: float
    majority: float
    majority_low: float
    majority_high: float
    p_value: float
    method: str = METHOD

    @property
    def beats_majority(self) -> bool:
        """The verdict, at level 2.5 %: `p_value` is at most `LEVEL`."""
        return self.p_value <= LEVEL


def estimate_accuracy(probability: Floats, posterior: CellPosterior, *, seed: int) -> AccuracyEstimate:
    """Estimate the accuracy of a model on the target population.

    A draw of the posterior says which share of each cell has label 1. What the model scores in a cell follows from
    that share, the share that it predicts, and how far the two fall on the same records. The last is not in the
    counts. Its lower end is the model's own ranking, P(label 1) = Phi(a u + shift of the cell), u the probit of its
    probability, with a from how well Phi(a u) foretells the answers of held-out cells; its upper end is that label
    and prediction agree as much as the two shares allow (Frechet's bound). A Beta(1/2, 3/2) share of that way is
    added to the accuracy, and none of it to the verdict. Both count only as far as the model's cell means are
    correlated with the posterior's: a model that is wrong between cells is not believed within them.

    Args:
        probability: the model's P(label 1) of the source records that the posterior was fitted with, (n_s,), in
            [0, 1]; above one half it predicts label 1.
        posterior: of the cells.
        seed: of the draws, non-negative.

    Returns:
        The estimate; a pure function of the arguments.

    Raises:
        ValueError: `probability` has another shape or holds what is no probability.
    """
    rng = np.random.default_rng(seed)
    profiles = _Profiles.of(probability, posterior, rng)
    draws = posterior.draw(_DRAWS, rng)
    share = 0.5 * (1.0 + draws.signal)
    weight = draws.mass / draws.mass.sum(axis=1, keepdims=True)
    log_prior = -0.5 * (np.log(_SHARPNESS) / _LOG_SHARPNESS_DEVIATION) ** 2
    sharpness = _normalised(profiles.held_out_log_likelihoods(posterior) + log_prior)
    independent = profiles.predicted_share * share + (1.0 - profiles.predicted_share) * (1.0 - share)
    ranked = _score_by_ranking(profiles, draws, rng.choice(len(_SHARPNESS), _DRAWS, p=sharpness))
    trust = _correlation(profiles.probability, share[~draws.no_signal], posterior.mass)
    lower = np.where(draws.no_signal[:, None], independent, independent + trust * (ranked - independent))
    room = np.maximum(profiles.most_agreement(share) - lower, 0.0)
    upper = np.where(draws.no_signal[:, None], lower, lower + max(trust, 0.0) * room)
    score = np.sum(weight * lower, axis=1)
    gain = np.sum(weight * upper, axis=1) - score
    accuracy = score + gain * rng.beta(*_UNSEEN_GAIN, _DRAWS)
    ones = np.sum(weight * share, axis=1)
    majority = np.maximum(ones, 1.0 - ones)
    return AccuracyEstimate(
        *_median_and_interval(accuracy),
        *_median_and_interval(majority),
        p_value=float((1 + np.count_nonzero(score <= majority)) / (1 + _DRAWS)),
    )


def calibration(probability: Floats, posterior: CellPosterior, *, seed: int) -> float:
    """Return the a > 0 for which Phi(a probit(p)) is better calibrated than the model's probability p.

    The posterior mean of log a: half of the log likelihood of the answers is with the model's probabilities, which
    have seen each cell's own answer, half with each cell moved to what the other cells foretell, which flatters
    nothing. The prior of log a is normal about log 1.15 with deviation 0.2 (docs/uncertainty.md), so that few or
    noisy cells change little. Classes do not change, as Phi(a 0) = 1/2; those of a rare class may, by an intercept
    (`rare_classes`).

    Args:
        probability: as in `estimate_accuracy`.
        posterior: of the cells.
        seed: of the choice of source records, where there are very many.

    Raises:
        ValueError: as `estimate_accuracy`.
    """
    profiles = _Profiles.of(probability, posterior, np.random.default_rng(seed))
    held_out = profiles.held_out_log_likelihoods(posterior)
    seen = profiles.log_likelihoods(posterior, np.zeros(profiles.cells))
    deviations = (np.log(_SHARPNESS) - np.log(_CALIBRATED_SHARPNESS)) / _CALIBRATED_DEVIATION
    weights = _normalised(0.5 * (held_out + seen) - 0.5 * deviations**2)
    return float(np.exp(weights @ np.log(_SHARPNESS)))


def calibrated(probability: Floats, sharpness: float, intercept: float = 0.0) -> Floats:
    """Phi(sharpness probit(p) + intercept), float64 (n,); 0 and 1 stay, and with no intercept 1/2 does."""
    result: Floats = ndtr(sharpness * ndtri(np.asarray(probability, dtype=np.float64)) + intercept)
    return result


@dataclass(frozen=True)
class _Profiles:
    """What a model says of some source records of each cell, in the order of the cells.

    Attributes:
        probit: u, float64 (n,).
        probability: Cell means of the model's probability, float64 (K,).
        predicted: Whether label 1 is predicted, bool (n,).
        starts: Where each cell begins, int64 (K,).
        counts: Records of each cell, float64 (K,), at least 1.
    """

    probit: Floats
    probability: Floats
    predicted: NDArray[np.bool_]
    starts: NDArray[np.int64]
    counts: Floats

    @classmethod
    def of(cls, probability: Floats, posterior: CellPosterior, rng: np.random.Generator) -> "_Profiles":
        """Of all source records, or of a random part of those of large cells."""
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
            probit=ndtri(np.clip(values[order], _SUREST, 1.0 - _SUREST)),
            probability=np.bincount(posterior.cells, values) / sizes,
            predicted=values[order] > 0.5,
            starts=np.cumsum(counts) - counts,
            counts=counts.astype(np.float64),
        )

    @property
    def cells(self) -> int:
        """Number of cells K."""
        return len(self.starts)

    @cached_property
    def predicted_share(self) -> Floats:
        """Share of each cell's records of which label 1 is predicted, float64 (K,)."""
        share: Floats = self._means(self.predicted.astype(np.float64)[None])[0]
        return share

    def curves(self, sharpness: float) -> tuple[Floats, Floats]:
        """For each shift: a cell's share of label 1, and what the predictions score there; two float64 (61, K)."""
        share, score = np.empty((2, len(_SHIFTS), self.cells))
        step = max(1, _BLOCK_ENTRIES // len(self.probit))
        for first in range(0, len(_SHIFTS), step):
            block = slice(first, first + step)
            ones = ndtr(sharpness * self.probit + _SHIFTS[block, None])
            share[block] = self._means(ones)
            score[block] = self._means(np.where(self.predicted, ones, 1.0 - ones))
        return share, score

    def held_out_log_likelihoods(self, posterior: CellPosterior) -> Floats:
        """Log probability of the answers at each sharpness, each cell moved to its held-out share, float64 (11,)."""
        share, _ = self.curves(1.0)
        foretold = posterior.held_out_share()
        shifts = np.array([np.interp(foretold[k], share[:, k], _SHIFTS) for k in range(self.cells)])
        return self.log_likelihoods(posterior, shifts)

    def log_likelihoods(self, posterior: CellPosterior, shifts: Floats) -> Floats:
        """Log probability of the answers at each sharpness, probits moved by (K,) `shifts`, float64 (11,)."""
        moved = self.probit + np.repeat(shifts, self.counts.astype(np.int64))
        found = [posterior.log_likelihood(self._means(ndtr(a * moved)[None])[0]) for a in _SHARPNESS]
        return np.asarray(found, dtype=np.float64)

    def most_agreement(self, share: Floats) -> Floats:
        """Largest possible score in a cell of which (S, K) `share` have label 1, float64 (S, K).

        1 - |share - predicted share|, less strict by a standard error of the latter, which a few source records tell.
        """
        predicted = self.predicted_share
        rounded = (predicted * self.counts + 1.0) / (self.counts + 2.0)
        error = np.where((predicted > 0) & (predicted < 1), np.sqrt(rounded * (1 - rounded) / (self.counts + 3.0)), 0.0)
        score: Floats = 1.0 - np.maximum(np.abs(share - predicted) - error, 0.0)
        return score

    def _means(self, rows: Floats) -> Floats:
        means: Floats = np.add.reduceat(rows, self.starts, axis=1) / self.counts
        return means


def _score_by_ranking(profiles: _Profiles, draws: CellDraws, sharpness: NDArray[np.int64]) -> Floats:
    """What the predictions score in each cell by the model's own ranking, float64 (S, K)."""
    share = 0.5 * (1.0 + draws.signal)
    predicted = profiles.predicted_share
    # In cells of one prediction no ranking matters; nor where labels do not depend on the attributes.
    score: Floats = predicted * share + (1.0 - predicted) * (1.0 - share)
    mixed = np.flatnonzero((predicted > 0) & (predicted < 1))
    for index in np.unique(sharpness):
        rows = np.flatnonzero((sharpness == index) & ~draws.no_signal)
        shares, scores = profiles.curves(float(_SHARPNESS[index]))
        for k in mixed:
            score[rows, k] = np.interp(share[rows, k], shares[:, k], scores[:, k])
    return score


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


def _median_and_interval(values: Floats) -> tuple[float, float, float]:
    low, middle, high = np.clip(np.quantile(values, (LEVEL, 0.5, 1.0 - LEVEL)), 0.0, 1.0)
    return float(middle), float(low), float(high)
