"""Problems drawn for a quote: they are what the prior says, and what is stated of them holds."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.metrics import roc_auc_score

from learner_node.areas import expected_auc
from learner_node.label_model import foresight
from learner_node.label_model.foresight import Foresight
from learner_node.label_model.prior import DIFFICULTIES, Belief, draw_prior_problems
from learner_node.label_model.random_features import draw_frequencies, stationary_features

POINTS = np.random.default_rng(0).standard_normal((900, 5)) @ np.diag([3.0, 1.0, 1.0, 0.5, 0.5])


def test_problems_are_probabilities_and_know_themselves():
    drawn = draw_prior_problems(POINTS, 30, 7)
    assert drawn.probability.shape == (900, 30)
    assert ((drawn.probability >= 0) & (drawn.probability <= 1)).all()
    ones = drawn.probability.mean(axis=0)
    np.testing.assert_allclose(drawn.majority, np.maximum(ones, 1 - ones))
    assert (drawn.best >= drawn.majority - 1e-12).all()
    assert (drawn.best_auc >= 0.5).all()
    assert sorted(drawn.difficulty[:3]) == list(range(len(DIFFICULTIES)))
    assert np.bincount(drawn.difficulty).tolist() == [10, 10, 10]


def test_equal_seeds_give_equal_problems_and_fewer_are_the_first_of_more():
    few, many, other = (draw_prior_problems(POINTS, *of) for of in ((6, 3), (12, 3), (6, 4)))
    np.testing.assert_allclose(few.probability, many.probability[:, :6], atol=1e-5)
    assert not np.allclose(few.probability, other.probability)


def test_the_prior_is_spread_over_prevalence_and_what_attributes_explain():
    drawn = draw_prior_problems(POINTS, 300, 0)
    low, high = np.quantile(drawn.probability.mean(axis=0), (0.05, 0.95))
    assert 0.07 < low < 0.13
    assert 0.87 < high < 0.93
    low, high = np.quantile(drawn.best_auc, (0.05, 0.95))
    assert low < 0.7
    assert high > 0.99


def test_what_is_stated_holds():
    drawn = draw_prior_problems(POINTS, 40, 0, Belief(prevalence=(0.08, 0.12), best_auc=(0.65, 0.75)))
    ones = drawn.probability.mean(axis=0)
    assert 0.075 < ones.min() < 0.09
    assert 0.11 < ones.max() < 0.125
    assert 0.64 < drawn.best_auc.min() < 0.67
    assert 0.73 < drawn.best_auc.max() < 0.76


def test_simple_problems_follow_the_main_axis():
    """Of the easy third, the correlation with the widest column is large; of the hard third, it is not."""
    drawn = draw_prior_problems(POINTS, 60, 1)
    along = np.array([abs(np.corrcoef(POINTS[:, 0], column)[0, 1]) for column in drawn.probability.T])
    easy, hard = (np.median(along[drawn.difficulty == kind]) for kind in (0, 2))
    assert easy > 0.8
    assert hard < 0.4


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
    means, evidence = [], []
    for length in (0.5, 2.0):
        for linear in (0.0, 3.0):
            features = np.hstack([stationary_features(phases / length).astype(float), np.sqrt(linear / 5) * rows])
            centres = average @ features
            square = average @ (features**2).sum(axis=1)
            within = np.maximum(square - (centres**2).sum(axis=1), 0.0)
            covariance = centres @ centres.T + np.diag(within / np.bincount(cells) + 1e-6 + variance)
            means.append(features @ centres.T @ np.linalg.solve(covariance, observed))
            evidence.append([multivariate_normal(cov=covariance).logpdf(column) for column in observed.T])
    weight = np.exp(np.array(evidence) - np.max(evidence, axis=0))
    wanted = np.einsum("knp,kp->np", np.array(means), weight / weight.sum(axis=0))
    np.testing.assert_allclose(found, wanted, atol=2e-4)
