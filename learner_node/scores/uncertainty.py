"""How accurate a model is on the private records, how well it ranks them, and how sure it may be: from answers alone.

Nothing is asked for it: the noisy label counts of the cells that a model was learnt from are read a second time. The
judge is the posterior of the cells' label shares (`label_model.cell_posterior`), which does not depend on the model
that is judged; that model may be any function from records to probabilities. What this assumes, how it was chosen and
how often its intervals hold is in docs/uncertainty.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from learner_node.models.label_model import CellPosterior
from learner_node.models.label_model.cell_posterior import PRIOR_NO_SIGNAL
from learner_node.scores.auc import auc_error
from learner_node.scores.profiles import SHARPNESS, Profiles
from learner_node.scores.ranking import Ranked, auc_draws, highest_auc_draws

Floats = NDArray[np.float64]

LEVEL = 0.025
"""Level of the verdict "beats the majority class"; the interval is the central 95 %."""
METHOD = (
    "posterior of the cells' label shares from the noisy counts; within cells the model's own ranking, sharpened or "
    "blunted by how well it foretells cells that it is not told"
)

_DRAWS = 1000
_EXPECTED_SHARPNESS, _SHARPNESS_DEVIATION = 1.1, 0.4
_WITHIN_MEAN, _WITHIN_SLOPE, WITHIN_DEVIATION = 0.1, 0.3, 0.7
"""Of log a less what cells bear out: mean at ten cells a dimension, its growth with their logarithm, deviation."""
_USUAL_CELLS, _LEAST_LOG_CELLS = 10.0, -2.0
_JUDGE_SHARPNESS = np.exp(np.linspace(-0.8, 0.8, 33))
_EXPECTED_JUDGE, _JUDGE_DEVIATION = 1.0, 0.25
_SUREST, _NEWTON_STEPS = 1e-4, 6
_OPEN = (0.5, 0.5)
_FEWER_ERRORS, _FEWER_INVERSIONS = (0.05, 0.25), (0.5, 0.7)
"""Mean and deviation of the log factor on errors, and on pairs in the wrong order, where cells are pure."""
_SCEPTICISM = (1.0 - PRIOR_NO_SIGNAL) / PRIOR_NO_SIGNAL
"""How much more the verdicts weigh the hypothesis of no signal: for them its prior is 1/2."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class AccuracyEstimate:
    """The accuracy and the area under the ROC curve (AUC) that a learner may expect on records like the private ones.

    Attributes:
        accuracy: posterior median of the share of records that the model classifies correctly, in [0, 1].
        low, high: central 95 % of the posterior, `low <= accuracy <= high`.
        majority, majority_low, majority_high: the same of what always answering the more frequent class would score.
        p_value: posterior probability that the model is no better than the majority class, see `estimate_accuracy`.
        auc: posterior median of the AUC, in [0, 1]: the share of pairs of records, one of each class, that the model's
            probabilities put in order; equal ones count one half.
        auc_low, auc_high: central 95 %, `auc_low <= auc <= auc_high`.
        ranking_p_value: posterior probability that the AUC is at most 1/2, see there.
        method: what it is, in words.
    """

    accuracy: float
    low: float
    high: float
    majority: float
    majority_low: float
    majority_high: float
    p_value: float
    auc: float
    auc_low: float
    auc_high: float
    ranking_p_value: float
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
    are dealt by the model's own ranking, P(label 1) = Phi(a u + shift of the cell), u the probit of its probability:
    log a is what held-out cells bear out (how well Phi(a u) foretells their answers, with a normal prior about
    log 1.1, deviation 0.4), plus a normal step for what they cannot tell. Its mean is 0.1 + 0.3 log(K / 10 d), for K
    cells in d dimensions (K / d counts as at least 1.35), its deviation 0.7: the direction in which risk rises within a
    cell has d components, which the K cells tell. The ranking counts only as far as the model's cell means are
    correlated with the posterior's: a model that is wrong between cells is not believed within them.

    The posterior's shares are moved from their mean, Phi(b probit(share) + shift), log b with a normal prior about
    0, deviation 0.25, and the likelihood of held-out cells' answers: a smooth prior blunts a signal with steps.

    Where cells are pure, labels have steps, and a cell with both labels is likely to have one inside. Of what is then
    still missing to the best that is possible within cells (label and prediction agree as much as the two shares allow,
    Frechet's bound; label 1 is on the highest scores) a part is added: the trust, times the square of the
    share of the labels' variance that is between cells, times a Beta(1/2, 1/2) variable. A smooth prior also never
    takes a pure cell for quite pure: errors and inversions (1 less accuracy, 1 less AUC) are multiplied by exp(-z), z
    normal, of mean 0.05 and 0.5, deviation 0.25 and 0.7, times the same trust and square.

    The verdicts are stricter than the intervals. They take the shares as they are (b = 1), and the prior probability
    of no signal at all as 1/2 instead of 1/5; `p_value` credits within cells no more than held-out cells bear out, and
    `ranking_p_value` deals labels at random there.

    Records of one unit are no independent draws. A sum over them varies up to `records_per_unit` times as much
    (Cauchy-Schwarz), and what is missing is added, with the standard errors of a share and of an AUC.

    Args:
        probability: the model's P(label 1) of the source records that the posterior was fitted with, (n_s,), in
            [0, 1]; above one half it predicts label 1.
        posterior: of the cells.
        seed: of the draws, non-negative.
        records_per_unit: the contribution bound c, at least 1.

    Returns:
        The estimate; a pure function of the arguments.

    Raises:
        ValueError: `probability` has another shape or holds what is no probability, or the bound is below 1.
    """
    if records_per_unit < 1:
        raise ValueError(f"records_per_unit must be at least 1, not {records_per_unit}")
    rng = np.random.default_rng(seed)
    profiles = Profiles.of(probability, posterior, rng)
    draws = posterior.draw(_DRAWS, rng)
    weight = draws.mass / draws.mass.sum(axis=1, keepdims=True)
    told = 0.5 * (1.0 + draws.signal)
    sharper = rng.choice(_JUDGE_SHARPNESS, _DRAWS, p=_judge_weights(posterior))[:, None]
    share = np.where(draws.no_signal[:, None], told, steeper(told, weight, sharper))
    between, within = _sharpness_draws(profiles, posterior, rng)
    shifts, scores = profiles.by_ranking(
        np.concatenate([share, told]), np.concatenate([within, np.minimum(between, within)])
    )
    trust = _correlation(profiles.probability, told[~draws.no_signal], posterior.mass)
    # In cells of one prediction no ranking matters; nor where labels do not depend on the attributes.
    trusted = np.where(draws.no_signal[:, None] | np.isin(profiles.predicted_share, (0.0, 1.0)), 0.0, trust)
    accuracy, credited = (
        np.clip(
            np.sum(weight * ((1.0 - trusted) * profiles.score_at_random(ones) + trusted * ranked), axis=1), 0.0, 1.0
        )
        for ones, ranked in ((share, scores[:_DRAWS]), (told, scores[_DRAWS:]))
    )
    ones = np.sum(weight * told, axis=1)
    majority = np.maximum(ones, 1.0 - ones)
    auc = auc_draws(profiles, share, weight, Ranked(shifts[:_DRAWS], within, np.where(draws.no_signal, 0.0, trust)))
    pure = np.where(draws.no_signal, 0.0, max(trust, 0.0)) * _purity(share, weight) ** 2
    opened = rng.beta(*_OPEN, _DRAWS) * pure
    accuracy += opened * np.maximum(np.sum(weight * profiles.most_agreement(share), axis=1) - accuracy, 0.0)
    auc += opened * np.maximum(highest_auc_draws(profiles, share, weight) - auc, 0.0)
    missed = rng.standard_normal(_DRAWS)
    accuracy, auc = (
        1.0 - (1.0 - found) * np.exp(-pure * (mean + deviation * missed))
        for found, (mean, deviation) in ((accuracy, _FEWER_ERRORS), (auc, _FEWER_INVERSIONS))
    )
    credited_auc = auc_draws(profiles, told, weight)
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
    """Phi(b probit(share) + shift), float64 (S, K); the shift of each row keeps its mean, weighted by (S, K) `weight`.

    So a class that is rare stays as rare.
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
    """Probabilities of `_JUDGE_SHARPNESS`, float64 (33,), from how well steeper shares foretell held-out cells."""
    share, weight = posterior.held_out_share()[None], posterior.mass[None] / posterior.mass.sum()
    found = [posterior.log_likelihood(steeper(share, weight, float(b))[0]) for b in _JUDGE_SHARPNESS]
    deviations = (np.log(_JUDGE_SHARPNESS) - np.log(_EXPECTED_JUDGE)) / _JUDGE_DEVIATION
    return _normalised(np.array(found) - 0.5 * deviations**2)


def _sharpness_draws(
    profiles: Profiles, posterior: CellPosterior, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draws of a as indices of `SHARPNESS`: what held-out cells bear out, and what may be so within cells."""
    deviations = (np.log(SHARPNESS) - np.log(_EXPECTED_SHARPNESS)) / _SHARPNESS_DEVIATION
    weights = _normalised(profiles.held_out_log_likelihoods(posterior) - 0.5 * deviations**2)
    between = rng.choice(len(SHARPNESS), _DRAWS, p=weights)
    step = np.log(SHARPNESS[1] / SHARPNESS[0])
    log_within = np.log(SHARPNESS[between]) + rng.normal(within_mean(posterior), WITHIN_DEVIATION, _DRAWS)
    within = np.rint((log_within - np.log(SHARPNESS[0])) / step).astype(np.int64)
    return between, np.clip(within, 0, len(SHARPNESS) - 1)


def within_mean(posterior: CellPosterior) -> float:
    """Expected log of how much sharper labels follow a model within cells than between them, see `estimate_accuracy`.

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
    """Posterior probability of what some draws count for, of prior 1/2 for no signal, never 0."""
    weight = np.where(no_signal, _SCEPTICISM, 1.0)
    return float((1.0 + weight @ counted) / (1.0 + weight.sum()))


def _median_and_interval(values: Floats) -> tuple[float, float, float]:
    low, middle, high = np.clip(np.quantile(values, (LEVEL, 0.5, 1.0 - LEVEL)), 0.0, 1.0)
    return float(middle), float(low), float(high)
