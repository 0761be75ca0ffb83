"""The linear peers: sensitivity by brute force, exact regression where there is no noise, the law of the noise."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom, kstwo, norm
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score

from lab.peers import PeerTask, run_peer
from lab.peers import noisy_sums as linear_module
from lab.peers.noisy_sums import GRID, probabilities, shrunk_weights, signed_sum, unit_rows, whole_rows
from lab.peers.preparation import gaussian_delta, noise_multiplier
from protocol.noise import DiscreteLaplace

FALSE_ALARM = 1e-9
DELTA = 1e-6
HUGE = 1e6


def linear_task(peer, epsilon=1.0, *, seed=3, n=2000, d=4, delta=None):
    """Correlated numbers; the label leans on the first two."""
    rng = np.random.default_rng(7)
    mixing = np.eye(d) + 0.3 * rng.standard_normal((d, d))
    source, train, test = (rng.standard_normal((size, d)) @ mixing for size in (600, n, 400))
    labels = (train[:, 0] - train[:, 1] + 0.7 * rng.standard_normal(n) > 0.3).astype(np.int64)
    return PeerTask(
        peer=peer,
        epsilon=epsilon,
        delta=(DELTA if peer == "adassp" else 0.0) if delta is None else delta,
        seed=seed,
        train=train,
        labels=labels,
        test=test,
        lower=np.full(d, -9.0),
        upper=np.full(d, 9.0),
        source=source,
        columns=tuple(f"x{place}" for place in range(d)),
    )


# --- what a record can change


@settings(max_examples=40)
@given(arrays(np.float64, (6, 3), elements=st.floats(-1e6, 1e6)), arrays(np.int64, 6, elements=st.integers(0, 1)))
def test_a_record_moves_each_release_by_no_more_than_its_noise_is_made_for(records, labels):
    source = np.random.default_rng(0).standard_normal((50, 3))
    whole, unit = whole_rows(source, records), unit_rows(source, records)
    slack = 1e-9
    for left in range(len(records)):
        kept = np.arange(len(records)) != left
        moved = signed_sum(whole, labels) - signed_sum(whole[kept], labels[kept])
        assert np.abs(moved).sum() <= GRID  # exact: whole numbers
        assert np.linalg.norm(signed_sum(unit, labels) - signed_sum(unit[kept], labels[kept])) <= 1 + slack
        before, after = unit.T @ unit, unit[kept].T @ unit[kept]
        upper = np.triu(before - after)
        assert np.linalg.norm(upper) <= 1 + slack
        assert abs(np.linalg.eigvalsh(before)[0] - np.linalg.eigvalsh(after)[0]) <= 1 + slack


def test_half_of_the_source_keeps_its_norm_and_a_short_record_stays_short():
    source = np.random.default_rng(1).standard_normal((201, 5))
    norms = np.linalg.norm(unit_rows(source, source), axis=1)
    assert np.mean(norms < 1 - 1e-9) == pytest.approx(0.5, abs=0.01)
    assert np.abs(whole_rows(source, source)).sum(axis=1).max() >= GRID - 6


@pytest.mark.slow
def test_the_noise_is_discrete_laplace_of_a_scale_of_grid_over_epsilon(monkeypatch):
    """The sum that is used, less the exact one, against the law's distribution: Kolmogorov's bound at 1e-9.

    A scale that is 1.5 times too large is found with a probability above 0.99: its distribution function is off by
    0.074, of which chance hides 0.048.
    """
    task, seen = linear_task("public-covariance-linear", 0.5, n=50), []
    whole = whole_rows(task.source, task.train)
    exact = signed_sum(whole, task.labels) / (GRID * len(task.train))

    def watched(covariance, mean, noise, n):
        seen.extend((mean - exact) * n * GRID)
        return shrunk_weights(covariance, mean, noise, n)

    monkeypatch.setattr(linear_module, "shrunk_weights", watched)
    for seed in range(1000):
        run_peer(replace(task, seed=seed))
    scale, noise = GRID / 0.5, np.sort(seen)
    law = np.where(noise < 0, 0.5 * np.exp(noise / scale), 1 - 0.5 * np.exp(-noise / scale))
    distance = np.abs(law - (np.arange(len(noise)) + 0.5) / len(noise)).max()
    assert distance < kstwo.ppf(1 - FALSE_ALARM, len(noise)) + 1e-3
    assert DiscreteLaplace(Fraction(GRID) / Fraction(0.5)).loss(GRID) == Fraction(1, 2)


def test_three_gaussian_mechanisms_cost_what_the_task_says():
    for epsilon in (0.1, 1.0):
        each = noise_multiplier(epsilon, DELTA, 3)
        assert gaussian_delta(epsilon, each / np.sqrt(3)) == pytest.approx(DELTA, rel=1e-6)


# --- without noise


def test_adassp_without_noise_is_ridge_regression_without_a_ridge():
    task = linear_task("adassp", HUGE)
    rows = unit_rows(task.source, task.train)
    exact = Ridge(alpha=1e-6, fit_intercept=False).fit(rows, 2.0 * task.labels - 1)
    scores = unit_rows(task.source, task.test) @ exact.coef_
    found = norm.ppf(run_peer(task).probability)
    slope = (found @ scores) / (scores @ scores)
    assert found == pytest.approx(slope * scores, abs=0.02 * np.abs(found).max())


def test_one_sum_without_noise_is_the_regression_on_the_sources_covariance():
    """With the private records as source the covariance is theirs, and the weights are those of least squares."""
    task = linear_task("public-covariance-linear", HUGE, n=20_000)
    task = replace(task, source=task.train)
    rows = unit_like(task)
    exact = Ridge(alpha=1e-6, fit_intercept=False).fit(rows, 2.0 * task.labels - 1)
    scores = whole_rows(task.source, task.test) / GRID @ exact.coef_
    found = norm.ppf(run_peer(task).probability)
    slope = (found @ scores) / (scores @ scores)
    assert found == pytest.approx(slope * scores, abs=0.02 * np.abs(found).max())


def unit_like(task):
    return whole_rows(task.source, task.train) / GRID


def test_shrunk_weights_are_the_posterior_mean_of_some_variance():
    rng = np.random.default_rng(2)
    root = rng.standard_normal((30, 3))
    covariance, mean, noise, n = root.T @ root / 30, rng.standard_normal(3) * 0.2, 0.01, 50
    error = noise * np.eye(3) + covariance / n
    found = shrunk_weights(covariance, mean, noise, n)
    candidates = []
    for variance in linear_module.VARIANCES / np.trace(covariance):
        total = variance * covariance @ covariance + error
        likelihood = -np.linalg.slogdet(total)[1] - mean @ np.linalg.solve(total, mean)
        candidates.append((likelihood, variance * covariance @ np.linalg.solve(total, mean)))
    assert found == pytest.approx(max(candidates, key=lambda pair: pair[0])[1])


# --- what they learn


@pytest.mark.parametrize("peer", ["public-covariance-linear", "adassp"])
def test_an_easy_rule_is_learnt_and_lost_in_noise(peer):
    task = linear_task(peer, 2.0)
    truth = task.test[:, 0] - task.test[:, 1] > 0.3
    # Beyond either attribute alone, as noise is small at this epsilon.
    assert max(roc_auc_score(truth, sign * task.test[:, place]) for place, sign in ((0, 1), (1, -1))) < 0.9
    assert roc_auc_score(truth, run_peer(task).probability) > 0.9
    lost = [roc_auc_score(truth, run_peer(replace(task, epsilon=1e-4, seed=seed)).probability) for seed in range(10)]
    above = sum(area > 0.9 for area in lost)
    assert above <= binom.ppf(1 - FALSE_ALARM, 10, 0.4)


@pytest.mark.parametrize("peer", ["public-covariance-linear", "adassp"])
def test_one_class_and_a_constant_column_are_no_error(peer):
    task = linear_task(peer, 1.0)
    constant = replace(
        task, train=task.train * [1, 1, 1, 0], test=task.test * [1, 1, 1, 0], source=task.source * [1, 1, 1, 0]
    )
    assert run_peer(constant).probability.shape == (400,)
    alone = run_peer(replace(task, labels=np.ones_like(task.labels)))
    assert np.mean(alone.probability > 0.5) > 0.5  # most are of the one class


def test_the_scale_of_probabilities_needs_no_label_and_keeps_the_order():
    rng = np.random.default_rng(3)
    scores = 0.5 * rng.standard_normal(5000)
    found = probabilities(scores, scores)
    assert (np.argsort(found) == np.argsort(scores)).all()
    kept = np.clip(scores, -0.95, 0.95)
    assert np.mean((2 * found - 1) * scores) == pytest.approx(np.mean(kept * scores))
    assert (probabilities(np.zeros(5), np.zeros(3)) == 0.5).all()
    assert ((probabilities(9 * scores, 9 * scores) > 0.5) == (scores > 0)).all()
