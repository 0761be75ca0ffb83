"""Problems drawn for a quote: they are what the prior says, and what is stated of them holds."""

import numpy as np
import pytest
from scipy.special import betaincinv
from scipy.stats import multivariate_normal, norm
from sklearn.metrics import roc_auc_score

from learner_node.models.label_model import prior as foresight
from learner_node.models.label_model.prior import DIFFICULTIES, Belief, Foresight, draw_prior_problems
from learner_node.models.label_model.random_features import draw_frequencies, stationary_features
from learner_node.scores.auc import expected_auc
from margins import DEVIATIONS

POINTS = np.random.default_rng(0).standard_normal((900, 5)) @ np.diag([3.0, 1.0, 1.0, 0.5, 0.5])


def test_problems_are_probabilities_and_know_themselves():
    drawn = draw_prior_problems(POINTS, 30, 7)
    assert drawn.probability.shape == (900, 30)
    assert ((drawn.probability >= 0) & (drawn.probability <= 1)).all()
    ones = drawn.probability.mean(axis=0)
    np.testing.assert_allclose(drawn.majority, np.maximum(ones, 1 - ones))
    assert (drawn.best >= drawn.majority - 900 * 2.0**-53).all()  # by Jensen, up to the roundings of a mean
    assert (drawn.best_auc >= 0.5).all()
    assert sorted(drawn.difficulty[:3]) == list(range(len(DIFFICULTIES)))
    assert np.bincount(drawn.difficulty).tolist() == [10, 10, 10]


def test_equal_seeds_give_equal_problems_and_fewer_are_the_first_of_more():
    few, many, other = (draw_prior_problems(POINTS, *of) for of in ((6, 3), (12, 3), (6, 4)))
    # A bent signal is a product of 1,001 terms in single precision, of a row of norm 1.04 and some weights of norm 32.
    # The steepest slope is 100 deviations, and the normal density at most 0.4.
    rounding = 1001 * 2.0**-24 * 1.04 * 32 * 100 * 0.4
    assert rounding < 0.1
    np.testing.assert_allclose(few.probability, many.probability[:, :6], atol=rounding)
    assert (np.abs(few.probability - other.probability).max(axis=0) > 5 * rounding).all()


def test_the_prior_is_spread_over_prevalence_and_what_attributes_explain():
    """300 points of a Halton sequence miss a share by 0.015 at most: the 5 % point is between 3.5 and 6.5 %."""
    drawn = draw_prior_problems(POINTS, 300, 0)
    low, high = np.quantile(drawn.probability.mean(axis=0), (0.05, 0.95))
    least, most = betaincinv(1.5, 1.5, (0.035, 0.065))
    assert least < low < most
    assert 1 - most < high < 1 - least
    low, high = np.quantile(drawn.best_auc, (0.05, 0.95))
    # Of a normal signal: the middle of all prevalences is the hardest to tell, and 0.1 nearly the easiest.
    assert normal_auc(1 - 0.965**3, 0.5) < low < normal_auc(1 - 0.935**3, 0.1)
    assert high > normal_auc(1 - 0.065**3, 0.5)


def normal_auc(explained, prevalence):
    """Of perfect knowledge of a standard normal signal that explains so much."""
    signal = norm.ppf((np.arange(1000) + 0.5) / 1000)
    probability = norm.cdf((np.sqrt(explained) * signal + norm.ppf(prevalence)) / np.sqrt(1 - explained))
    return expected_auc(probability, probability)


def test_what_is_stated_holds():
    drawn = draw_prior_problems(POINTS, 40, 0, Belief(prevalence=(0.08, 0.12), best_auc=(0.65, 0.75)))
    ones = drawn.probability.mean(axis=0)
    # The first 25 points of base 5, and 32 of base 2, leave at most one such part open at an end. A share of 300
    # quantiles is off by 1 / 300 at most, and the AUC by that for each class.
    part, off = 0.04 / 25, 1 / 300
    assert 0.08 - off < ones.min() < 0.08 + part + off
    assert 0.12 - part - off < ones.max() < 0.12 + off
    part, off = 0.1 / 32, 2 / 300
    assert 0.65 - off < drawn.best_auc.min() < 0.65 + part + off
    assert 0.75 - part - off < drawn.best_auc.max() < 0.75 + off


def test_simple_problems_follow_the_main_axis():
    """Of the easy third, the correlation with the widest column is large; of the hard third, it is not (six errors)."""
    drawn = draw_prior_problems(POINTS, 60, 1)
    along = np.array([abs(np.corrcoef(POINTS[:, 0], column)[0, 1]) for column in drawn.probability.T])
    easy, hard = (along[drawn.difficulty == kind] for kind in (0, 2))
    assert easy.mean() - hard.mean() > DEVIATIONS * np.sqrt(easy.var() / len(easy) + hard.var() / len(hard))
    assert np.median(easy) > np.sqrt(0.5)  # that axis says more than all the others
    assert np.median(hard) < np.sqrt(0.5)


@pytest.mark.parametrize("constant", [False, True])
def test_records_that_are_all_alike_have_problems_too(constant):
    points = np.zeros((5, 2)) if constant else np.eye(5)[:, :2]
    drawn = draw_prior_problems(points, 6, 0, Belief(best_auc=(0.8, 0.9)))
    assert np.isfinite(drawn.probability).all()


def test_the_expected_auc_is_that_of_a_population_of_copies():
    rng = np.random.default_rng(2)
    score, probability = rng.integers(0, 9, 40).astype(float), rng.random(40)
    labels = np.repeat([1, 0], 40)
    weights = np.concatenate([probability, 1 - probability])
    wanted = roc_auc_score(labels, np.tile(score, 2), sample_weight=weights)
    assert expected_auc(score, probability) == pytest.approx(wanted)
    assert expected_auc(score, np.ones(40)) == 0.5


def test_foreseen_signals_are_gaussian_process_posteriors_averaged_by_evidence(monkeypatch):
    """Against dense covariances of the same random features, and scipy's normal density for the evidence."""
    monkeypatch.setattr(foresight, "LENGTH_SCALES", (0.5, 2.0))
    monkeypatch.setattr(foresight, "LINEAR_WEIGHTS", (0.0, 3.0))
    monkeypatch.setattr(foresight, "SMALLEST_WEIGHT", 0.0)
    rng = np.random.default_rng(3)
    rows, cells = POINTS[:60] / POINTS[:60].std(axis=0), np.arange(60) % 7
    observed, variance = 0.4 * rng.standard_normal((7, 4)), rng.uniform(0.05, 0.3, 7)
    found = Foresight(rows, seed=5).signals(cells, observed, variance)
    phases = rows @ draw_frequencies(5, 5)
    average = (cells == np.arange(7)[:, None]) / np.bincount(cells)[:, None]
    means, evidence, covariances = [], [], []
    for length in (0.5, 2.0):
        for linear in (0.0, 3.0):
            features = np.hstack(
                [stationary_features(phases / length).astype(float), np.sqrt(linear / 5) * rows, np.full((60, 1), 0.3)]
            )
            centres = average @ features
            square = average @ (features**2).sum(axis=1)
            within = np.maximum(square - (centres**2).sum(axis=1), 0.0)
            covariance = centres @ centres.T + np.diag(within / np.bincount(cells) + 1e-6 + variance)
            covariances.append(covariance)
            means.append(features @ centres.T @ np.linalg.solve(covariance, observed))
            evidence.append([multivariate_normal(cov=covariance).logpdf(column) for column in observed.T])
    weight = np.exp(np.array(evidence) - np.max(evidence, axis=0))
    wanted = np.einsum("knp,kp->np", np.array(means), weight / weight.sum(axis=0))
    # A signal is a row of features (of norm 1.04) times cells' means of such, times the cells' weights: two products of
    # at most 1,001 terms in single precision.
    bent = [np.abs(np.linalg.solve(each, observed)).sum(axis=0).max() for each in covariances]
    np.testing.assert_allclose(found, wanted, atol=2 * 1001 * 2.0**-24 * 1.09 * max(bent))
