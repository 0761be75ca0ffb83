"""What a learner says of its own accuracy, against what is true, and the pieces that it is made of."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtr, ndtri
from scipy.stats import binom, chi2, norm
from sklearn.cluster import KMeans
from sklearn.metrics import roc_auc_score

from at_length import at_length
from lab.estimates import auc_error as delong_error
from learner_node.models.label_model import Observation, fit_label_model, fit_with_cell_posterior
from learner_node.models.label_model.expectation_propagation import (
    PRIOR_NO_SIGNAL,
    CellPosterior,
    _normal_draws,
    approximate_posterior,
)
from learner_node.models.label_model.likelihood import PROBIT, SIGNAL_NODES, SiteTable
from learner_node.scores.auc import auc_error, weighted_auc
from learner_node.scores.estimates import (
    LEVEL,
    SHARPNESS,
    Dealing,
    Profiles,
    auc_draws,
    estimate_accuracy,
    highest_auc_draws,
    steeper,
)
from margins import DEVIATIONS, FALSE_ALARM, within_its_error

WEIGHTS = st.floats(0.01, 10)


def profiles(seed, cells=4, records=40, levels=None):
    """Of scores at random, or of so many levels."""
    rng = np.random.default_rng(seed)
    cell = np.sort(np.concatenate([np.arange(cells), rng.integers(0, cells, records - cells)]))
    value = rng.random(records) if levels is None else rng.integers(0, levels, records) / levels
    counts = np.bincount(cell).astype(float)
    starts = np.searchsorted(cell, np.arange(cells))
    return Profiles(value, np.bincount(cell, value) / counts, cell, starts, counts)


def by_pairs(score, positive, negative):
    order = (score[:, None] > score) + 0.5 * (score[:, None] == score)
    return positive @ order @ negative / (positive.sum() * negative.sum())


@given(st.integers(0, 99), st.integers(1, 30), arrays(float, (2, 2, 30), elements=WEIGHTS))
@settings(max_examples=50, deadline=None)
def test_an_area_is_scikit_learns_with_sample_weights(seed, levels, weights):
    score = np.random.default_rng(seed).integers(0, levels, 30) / levels
    positive, negative = weights
    for found, ones, zeros in zip(weighted_auc(score, positive, negative), positive, negative, strict=True):
        labels, twice = np.repeat([1, 0], 30), np.tile(score, 2)
        assert found == pytest.approx(roc_auc_score(labels, twice, sample_weight=np.concatenate([ones, zeros])))


def test_without_one_label_the_area_is_a_half():
    assert weighted_auc(np.arange(3.0), np.zeros((1, 3)), np.ones((1, 3))) == [0.5]


@pytest.mark.parametrize("levels", [None, 5])
@pytest.mark.parametrize("trust", [0.0, 0.6, 1.0])
def test_draws_are_areas_of_labels_dealt_within_cells(levels, trust):
    """Each draw by all pairs of records, of which each stands for its cell's weight over its number of records."""
    made = profiles(3, levels=levels)
    rng = np.random.default_rng(0)
    share, weight = rng.random((5, 4)), rng.random((5, 4))
    sharpness = rng.integers(0, len(SHARPNESS), 5)
    [(shift, _)] = made.by_ranking((share, sharpness))
    found = auc_draws(made, share, weight, Dealing(shift, sharpness, np.full(5, trust)))
    for row in range(5):
        probit = ndtri(np.clip(made.value, 0.002, 0.998))
        dealt = ndtr(SHARPNESS[sharpness[row]] * probit + shift[row, made.cell])
        ones = share[row, made.cell] * (1 - trust) + trust * dealt
        mass = (weight[row] / made.counts)[made.cell]
        assert found[row] == pytest.approx(by_pairs(made.value, mass * ones, mass * (1 - ones)))
    if not trust:
        assert auc_draws(made, share, weight) == pytest.approx(found)


def test_a_shift_gives_a_cell_its_share():
    made = profiles(1)
    share = np.random.default_rng(1).uniform(0.05, 0.95, (6, 4))
    sharpness = np.arange(6)
    [(shift, score)] = made.by_ranking((share, sharpness))
    for row in range(6):
        ones = ndtr(SHARPNESS[sharpness[row]] * made.probit + shift[row, made.cell])
        assert made.means(ones[None])[0] == pytest.approx(share[row], abs=0.01)
        right = np.where(made.predicted, ones, 1 - ones)
        assert made.means(right[None])[0] == pytest.approx(score[row], abs=0.01)


def test_a_sharper_label_is_ranked_better():
    made, share, weight = profiles(2), np.full((2, 4), 0.4), np.ones((2, 4))
    sharpness = np.array([2, 8])
    [(shift, _)] = made.by_ranking((share, sharpness))
    blunt, sharp = auc_draws(made, share, weight, Dealing(shift, sharpness, np.ones(2)))
    assert 0.5 < blunt < sharp < 1


@pytest.mark.parametrize("levels", [None, 5])
def test_the_highest_area_has_label_1_on_the_highest_scores_of_each_cell(levels):
    made = profiles(5, levels=levels)
    share, weight = np.random.default_rng(2).random((2, 3, 4))
    found = highest_auc_draws(made, share, weight)
    for row in range(3):
        ones = np.zeros(len(made.value))
        for k in range(4):
            records = np.flatnonzero(made.cell == k)
            best = records[np.argsort(-made.value[records])]
            whole, rest = divmod(share[row, k] * len(records), 1)
            ones[best[: int(whole)]] = 1
            ones[best[int(whole)]] = rest
        mass = (weight[row] / made.counts)[made.cell]
        assert found[row] == pytest.approx(by_pairs(made.value, mass * ones, mass * (1 - ones)))
    assert (found >= auc_draws(made, share, weight)).all()


def test_the_error_of_an_area_is_near_delongs():
    """Hanley and McNeil's formula is exact for exponential scores; there the two agree."""
    rng = np.random.default_rng(4)
    labels = np.arange(20_000) < 6000
    score = rng.exponential(np.where(labels, 2.0, 1.0))
    area = roc_auc_score(labels, score)
    assert auc_error(np.array([area]), 6000.0, 14000.0) == pytest.approx(delong_error(labels, score), rel=0.05)


N_SOURCE = 160


def discrete_laplace(rng, scale, shape):
    success = -np.expm1(-1.0 / scale)
    return rng.geometric(success, shape) - rng.geometric(success, shape)


class Answered(NamedTuple):
    probability: np.ndarray
    posterior: CellPosterior
    accuracy: float
    auc: float


def answered(seed, *, cells=10, epsilon=1.0, records=1500, share=None, steepness=4.0):
    """A model of the label x0 > 0 (or of coin flips with a `share` of ones), its judge, its true accuracy and AUC."""
    rng = np.random.default_rng(seed)
    source, target, test = (rng.standard_normal((size, 2)) for size in (N_SOURCE, records, 4000))
    kmeans = KMeans(cells, n_init=1, random_state=seed).fit(source)

    def ones(points):
        return np.full(len(points), share) if share is not None else norm.cdf(steepness * points[:, 0])

    labels = rng.random(records) < ones(target)
    counts = np.zeros((cells, 2))
    np.add.at(counts, (kmeans.predict(target), labels.astype(int)), 1)
    counts += discrete_laplace(rng, 1.0 / epsilon, counts.shape)
    model, posterior = fit_with_cell_posterior(source, Observation(kmeans.labels_, counts, 1.0 / epsilon), seed=seed)
    score = model.probability(test)
    truth = np.where(score > 0.5, ones(test), 1.0 - ones(test)).mean()
    area = weighted_auc(score, ones(test)[None], 1.0 - ones(test)[None])[0]
    return Answered(model.probability(source), posterior, truth, area)


@pytest.fixture(scope="module")
def steep():
    return answered(1)


def test_the_model_is_the_one_without_a_cell_posterior():
    rng = np.random.default_rng(0)
    points, counts = rng.standard_normal((60, 2)), rng.integers(0, 50, (6, 2)).astype(float)
    observation = Observation(np.arange(60) % 6, counts, 1.0, 2)
    model, posterior = fit_with_cell_posterior(points, observation, seed=3)
    alone = fit_label_model(points, [observation], seed=3)
    assert (model.probability(points) == alone.probability(points)).all()
    assert posterior.log_evidence == alone.log_evidence
    assert posterior.mass @ np.ones(6) == pytest.approx(alone.source_mass.sum())


def test_the_estimate_is_near_the_truth_and_the_verdicts_are_given(steep):
    probability, posterior, truth, area = steep
    found = estimate_accuracy(probability, posterior, seed=0)
    assert within_its_error(found.auc, area, found.auc_low, found.auc_high)
    assert found.ranks
    assert found.ranking_p_value <= LEVEL
    assert found.low <= found.accuracy <= found.high
    assert within_its_error(found.accuracy, truth, found.low, found.high)
    assert within_its_error(found.majority, 0.5, found.majority_low, found.majority_high)
    assert found.majority_low <= found.majority <= found.majority_high
    assert found.beats_majority
    assert found.p_value <= LEVEL
    assert found == estimate_accuracy(probability, posterior, seed=0)


def test_any_function_can_be_judged(steep):
    probability, posterior, truth, area = steep
    inverted = estimate_accuracy(1.0 - probability, posterior, seed=0)
    assert within_its_error(inverted.accuracy, 1.0 - truth, inverted.low, inverted.high)
    assert within_its_error(inverted.auc, 1.0 - area, inverted.auc_low, inverted.auc_high)
    assert not inverted.beats_majority
    assert not inverted.ranks
    random = estimate_accuracy(np.random.default_rng(0).random(N_SOURCE), posterior, seed=0)
    assert within_its_error(random.accuracy, 0.5, random.low, random.high)
    assert within_its_error(random.auc, 0.5, random.auc_low, random.auc_high)
    assert not random.beats_majority


def test_records_of_one_unit_are_worth_less(steep):
    probability, posterior, *_ = steep
    one, eight = (estimate_accuracy(probability, posterior, seed=0, records_per_unit=c) for c in (1, 8))
    assert eight.high - eight.low > one.high - one.low
    assert eight.auc_high - eight.auc_low > one.auc_high - one.auc_low
    with pytest.raises(ValueError, match="at least 1, not 0"):
        estimate_accuracy(probability, posterior, seed=0, records_per_unit=0)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_one_class_alone_is_no_trouble(share):
    """Draws are then all right, up to rounding."""
    probability, posterior, *_ = answered(0, share=share, epsilon=5.0)
    for records_per_unit in (1, 3):
        found = estimate_accuracy(probability, posterior, seed=0, records_per_unit=records_per_unit)
        assert 0.9 < found.low <= found.accuracy <= found.high <= 1
        assert np.isfinite([found.auc_low, found.auc, found.auc_high]).all()


def test_a_steeper_judge_keeps_how_rare_a_class_is():
    rng = np.random.default_rng(0)
    share, weight = rng.beta(0.6, 6.0, (20, 30)), rng.dirichlet(np.ones(30), 20)
    moved = steeper(share, weight, np.linspace(0.5, 2.0, 20)[:, None])
    assert np.sum(weight * moved, axis=1) == pytest.approx(np.sum(weight * share, axis=1), abs=2e-4)
    assert (np.argsort(moved) == np.argsort(share)).mean() > 0.95
    spread = np.std(moved, axis=1) / np.std(share, axis=1)
    assert spread[0] < 1 < spread[-1]


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_constant_never_beats_the_majority(steep, label):
    probability, posterior, *_ = steep
    found = estimate_accuracy(np.full(len(probability), label), posterior, seed=0)
    assert (found.auc_low, found.auc, found.auc_high) == pytest.approx((0.5, 0.5, 0.5))
    assert found.ranking_p_value == 1
    assert found.p_value > LEVEL
    assert not found.beats_majority
    assert within_its_error(found.accuracy, 0.5, found.low, found.high)


def test_a_class_that_hardly_occurs_has_an_estimate():
    """Everybody is foretold the class that all but all have: sums of the cells' weights may round to more than 1."""
    probability, posterior, *_ = answered(0, share=0.0)
    for seed in range(3):
        found = estimate_accuracy(np.zeros(len(probability)), posterior, seed=seed, records_per_unit=2)
        assert 0.9 < found.low <= found.accuracy <= found.high <= 1


@given(arrays(np.float64, N_SOURCE, elements=st.floats(0, 1)), st.integers(0, 5))
@settings(max_examples=5, deadline=None)
def test_shares_stay_in_order_and_in_range(steep, probability, seed):
    found = estimate_accuracy(probability, steep[1], seed=seed)
    assert 0 <= found.low <= found.accuracy <= found.high <= 1
    assert 0.5 <= found.majority_low <= found.majority <= found.majority_high <= 1
    assert 0 < found.p_value <= 1
    assert 0 <= found.auc_low <= found.auc <= found.auc_high <= 1
    assert 0 < found.ranking_p_value <= 1


test_shares_stay_in_order_and_in_range_at_length = at_length(test_shares_stay_in_order_and_in_range, 25)


def test_less_budget_gives_wider_intervals():
    widths = {}
    for epsilon in (1.0, 0.02):
        found = estimate_accuracy(*answered(0, epsilon=epsilon)[:2], seed=0)
        widths[epsilon] = found.high - found.low
    assert widths[0.02] > widths[1.0]


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_stated():
    """Labels are coin flips: a verdict at a level of 2.5 % exceeds the bound with a probability below 1e-9.

    One that is given in 60 % of such cases passes with a probability below a tenth.
    """
    runs = 24
    verdicts = []
    for seed in range(100, 100 + runs):
        found = estimate_accuracy(*answered(seed, share=0.55, cells=6, records=400, epsilon=0.3)[:2], seed=seed)
        verdicts.append((found.beats_majority, found.ranks))
    most = int(binom.ppf(1.0 - FALSE_ALARM, runs, LEVEL))
    assert max(np.sum(verdicts, axis=0)) <= most
    assert binom.cdf(most, runs, 0.6) < 0.1


@pytest.mark.slow
def test_the_interval_covers_and_the_verdict_has_power():
    """On 48 problems of three kinds: coverage of at least 90 % unless chance of 1e-9 strikes; half the power."""
    found = []
    for seed in range(48):
        probability, posterior, truth, area = answered(
            seed, cells=(8, 16, 30)[seed % 3], epsilon=(1.0, 0.3)[seed % 2], steepness=(1.0, 4.0)[seed // 24]
        )
        estimate = estimate_accuracy(probability, posterior, seed=seed)
        held = (estimate.low <= truth <= estimate.high, estimate.auc_low <= area <= estimate.auc_high)
        found.append((*held, estimate.beats_majority, estimate.ranks))
    *covered, verdicts, ranks = np.sum(found, axis=0)
    assert min(covered) >= binom.ppf(FALSE_ALARM, len(found), 0.9)
    # A power of a half would give so many verdicts once in 1e9 times.
    assert binom.sf(min(verdicts, ranks) - 1, len(found), 0.5) < FALSE_ALARM


def test_bad_probabilities_are_refused(steep):
    probability, posterior, *_ = steep
    with pytest.raises(ValueError, match=r"must have shape \(160,\)"):
        estimate_accuracy(probability[1:], posterior, seed=0)
    for wrong in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
            estimate_accuracy(np.full(N_SOURCE, wrong), posterior, seed=0)


# --- the posterior of the cells


def toy_posterior(size=6, seed=0, flat=()):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((size, size + 2))
    covariance = root @ root.T / size * 0.3
    centres, widths = rng.uniform(-0.6, 0.6, size), rng.uniform(0.2, 0.5, size)
    table = -0.5 * ((SIGNAL_NODES - centres[:, None]) / widths[:, None]) ** 2
    table[list(flat)] = 0.0
    found = approximate_posterior(covariance, table, tolerance=1e-6)
    sites = SiteTable(log_likelihood=table, mass=np.full_like(table, 10.0))
    return CellPosterior(
        cells=np.arange(size),
        table=sites,
        mass=np.full(size, 10.0),
        mass_variance=np.full(size, 4.0),
        log_evidence=found.log_evidence,
        kernels=((1.0, covariance, found),),
        dimensions=2,
    )


def test_draws_have_the_posteriors_moments():
    """Means by a normal pivot, variances by a chi-square one; a deviation off by 10 % fails surely."""
    posterior = toy_posterior()
    _, covariance, found = posterior.kernels[0]
    count = 40_000
    draws = _normal_draws(covariance, found, count, np.random.default_rng(5))
    sites = np.diag(1.0 / found.sites.precision)
    exact = covariance - covariance @ np.linalg.solve(covariance + sites, covariance)
    assert np.diag(exact) == pytest.approx(found.variance, rel=1e-6)
    level = FALSE_ALARM / (2 * len(found.mean))
    standard = (draws.mean(axis=0) - found.mean) / np.sqrt(found.variance / count)
    assert np.abs(standard).max() < norm.isf(level / 2)
    spread = np.sum((draws - found.mean) ** 2, axis=0) / found.variance
    assert (spread > chi2.ppf(level / 2, count)).all()
    assert (spread < chi2.isf(level / 2, count)).all()
    sizes = np.diag(exact)
    errors = np.sqrt((exact**2 + sizes * sizes[:, None]) / count)
    assert (np.abs(np.cov(draws.T) - exact) < norm.isf(level / 2) * errors).all()


def test_draws_are_within_range_and_masses_have_their_moments():
    draws = toy_posterior().draw(4000, np.random.default_rng(1))
    assert draws.signal.shape == draws.mass.shape == (4000, 6)
    assert np.abs(draws.signal).max() <= 1
    assert draws.mass.min() > 0
    # Of 24,000 Gamma draws of shape 25, whose kurtosis is 3.24.
    assert draws.mass.mean() == pytest.approx(10.0, abs=DEVIATIONS * np.sqrt(4.0 / 24_000))
    assert draws.mass.var() == pytest.approx(4.0, rel=DEVIATIONS * np.sqrt(2.24 / 24_000))
    assert (np.ptp(draws.signal[draws.no_signal], axis=1) == 0).all()


@pytest.mark.parametrize("cell", [0, 3, 5])
def test_a_held_out_share_is_that_of_a_fit_without_the_cells_answer(cell):
    share = toy_posterior().held_out_share()[cell]
    without = toy_posterior(flat=[cell]).kernels[0][2]
    latent = norm.rvs(without.mean[cell], without.variance[cell] ** 0.5, 10**6, random_state=0)
    assert share == pytest.approx(norm.cdf(PROBIT * latent).mean(), abs=0.03)


def test_the_likelihood_of_shares_is_read_off_the_table():
    posterior = toy_posterior()
    nodes = np.array([0, 10, 40, 41, 79, 80])
    at_nodes = posterior.table.log_likelihood[np.arange(6), nodes].sum()
    assert posterior.log_likelihood(nodes / 80) == pytest.approx(at_nodes)
    between = posterior.log_likelihood(np.full(6, 0.5 / 80))
    ends = [posterior.log_likelihood(np.full(6, share)) for share in (0.0, 1 / 80)]
    assert between == pytest.approx(np.mean(ends))


def test_coin_flips_look_like_no_signal_and_a_step_does_not(steep):
    assert steep[1].no_signal_probability < FALSE_ALARM
    assert answered(3, share=0.55)[1].no_signal_probability > PRIOR_NO_SIGNAL  # what was seen speaks for it
