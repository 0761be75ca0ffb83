"""Peers: what they are given, their preparation, our own baselines, AIM and MST, the accounting, what is refused."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.stats import binom, dlaplace, kstwo, norm
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score

from lab.peers import PEERS, PeerKind, PeerTask, run_peer
from lab.peers import noisy_sums as linear_module
from lab.peers.marginals import (
    Odometer,
    attributes_of,
    components,
    discretise,
    marginal,
    onto_simplex,
    restore,
    rho_for,
    synthesise,
)
from lab.peers.noisy_sums import (
    GRID,
    bin_count,
    class_totals,
    is_sparse,
    log_ratios,
    noisy_counts,
    probabilities,
    shrunk_weights,
    signed_sum,
    unit_rows,
    whole_rows,
)
from lab.peers.preparation import attribute_columns, clipped, gaussian_delta, noise_multiplier, ranks, standardise
from lab.peers.worker import FAMILIES
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace
from seeded import nothing_unseeded

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
    complete, unit = whole_rows(source, records), unit_rows(source, records)
    slack = 1e-9
    for left in range(len(records)):
        kept = np.arange(len(records)) != left
        moved = signed_sum(complete, labels) - signed_sum(complete[kept], labels[kept])
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
    complete = whole_rows(task.source, task.train)
    exact = signed_sum(complete, task.labels) / (GRID * len(task.train))

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
        item = noise_multiplier(epsilon, DELTA, 3)
        assert gaussian_delta(epsilon, item / np.sqrt(3)) == pytest.approx(DELTA, rel=1e-6)


# --- without noise


def test_adassp_without_noise_is_ridge_regression_without_a_ridge():
    task = linear_task("adassp", HUGE)
    rows = unit_rows(task.source, task.train)
    exact = Ridge(alpha=1e-6, fit_intercept=False).fit(rows, 2.0 * task.labels - 1)
    scores = unit_rows(task.source, task.test) @ exact.coef_
    results = norm.ppf(run_peer(task).probability)
    slope = (results @ scores) / (scores @ scores)
    assert results == pytest.approx(slope * scores, abs=0.02 * np.abs(results).max())


def test_one_sum_without_noise_is_the_regression_on_the_sources_covariance():
    """With the private records as source the covariance is theirs, and the weights are those of least squares."""
    task = linear_task("public-covariance-linear", HUGE, n=20_000)
    task = replace(task, source=task.train)
    rows = unit_like(task)
    exact = Ridge(alpha=1e-6, fit_intercept=False).fit(rows, 2.0 * task.labels - 1)
    scores = whole_rows(task.source, task.test) / GRID @ exact.coef_
    results = norm.ppf(run_peer(task).probability)
    slope = (results @ scores) / (scores @ scores)
    assert results == pytest.approx(slope * scores, abs=0.02 * np.abs(results).max())


def unit_like(task):
    return whole_rows(task.source, task.train) / GRID


def test_shrunk_weights_are_the_posterior_mean_of_some_variance():
    rng = np.random.default_rng(2)
    root = rng.standard_normal((30, 3))
    covariance, mean, noise, n = root.T @ root / 30, rng.standard_normal(3) * 0.2, 0.01, 50
    error = noise * np.eye(3) + covariance / n
    results = shrunk_weights(covariance, mean, noise, n)
    candidates = []
    for variance in linear_module.VARIANCES / np.trace(covariance):
        total = variance * covariance @ covariance + error
        likelihood = -np.linalg.slogdet(total)[1] - mean @ np.linalg.solve(total, mean)
        candidates.append((likelihood, variance * covariance @ np.linalg.solve(total, mean)))
    assert results == pytest.approx(max(candidates, key=lambda pair: pair[0])[1])


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
    by_itself = run_peer(replace(task, labels=np.ones_like(task.labels)))
    assert np.mean(by_itself.probability > 0.5) > 0.5  # most are of the one class


def test_the_scale_of_probabilities_needs_no_label_and_keeps_the_order():
    rng = np.random.default_rng(3)
    scores = 0.5 * rng.standard_normal(5000)
    results = probabilities(scores, scores)
    assert (np.argsort(results) == np.argsort(scores)).all()
    kept = np.clip(scores, -0.95, 0.95)
    assert np.mean((2 * results - 1) * scores) == pytest.approx(np.mean(kept * scores))
    assert (probabilities(np.zeros(5), np.zeros(3)) == 0.5).all()
    assert ((probabilities(9 * scores, 9 * scores) > 0.5) == (scores > 0)).all()


NAMES = ("age", "sex=f", "sex=m", "bmi")
ATTRIBUTES = attributes_of(NAMES, np.array([0.0, 0, 0, 10]), np.array([80.0, 1, 1, 50]), bins=4)


def test_levels_become_one_attribute_and_numbers_even_bins():
    assert [attribute.columns for attribute in ATTRIBUTES] == [(0,), (1, 2), (3,)]
    assert [attribute.size for attribute in ATTRIBUTES] == [4, 3, 4]
    assert ATTRIBUTES[0].edges == (0, 20, 40, 60, 80)
    records = np.array([[-5, 1, 0, 10], [20, 0, 1, 19.9], [79, 0, 0, 99]])
    assert discretise(records, ATTRIBUTES).tolist() == [[0, 0, 0], [1, 1, 0], [3, 2, 3]]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=20))
def test_restored_records_have_the_codes_they_are_made_of(codes):
    codes = np.array(codes)
    matrix = restore(codes, ATTRIBUTES, np.random.default_rng(0))
    assert matrix.shape == (len(codes), 4)
    assert np.array_equal(discretise(matrix, ATTRIBUTES), codes)


def test_bounds_out_of_order_are_an_error():
    with pytest.raises(ValueError, match="below its upper"):
        attributes_of(("x",), np.array([1.0]), np.array([1.0]))


def test_components_are_what_cliques_connect():
    assert components(6, [(4, 1), (0,), (1, 5), (2, 3)]) == [(0,), (1, 4, 5), (2, 3)]
    assert components(2, []) == [(0,), (1,)]
    assert components(4, [(0, 1), (2, 3), (1, 2)]) == [(0, 1, 2, 3)]


def test_a_marginal_is_counted_row_by_row():
    codes = np.array([[0, 2], [1, 0], [1, 0], [1, 2]])
    assert marginal(codes, [2, 3], (0, 1)).tolist() == [0, 0, 1, 2, 0, 1]
    assert marginal(codes, [2, 3], (1,)).tolist() == [2, 0, 2]


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.floats(1, 100))
def test_the_simplex_point_is_feasible_and_nearest(values, total):
    values = np.array(values)
    nearest = onto_simplex(values, total)
    assert nearest.sum() == pytest.approx(total)
    assert (nearest >= 0).all()
    # Variational inequality of a projection, at the simplex' corners.
    for corner in np.eye(len(values)) * total:
        assert (values - nearest) @ (corner - nearest) <= 1e-6 * total * 100


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-6), (3.0, 1e-9)])
def test_rho_implies_its_epsilon_and_is_the_largest(epsilon, delta):
    rho = rho_for(epsilon, delta)

    def implied(rho):  # Canonne, Kamath, Steinke 2020, Proposition 7 in its dual form, minimised over a grid
        alpha = 1 + np.geomspace(1e-2, 1e5, 200_000)
        return np.min(alpha * rho + np.log(1 / (alpha * delta)) / (alpha - 1) + np.log1p(-1 / alpha))

    assert implied(rho) == pytest.approx(epsilon, rel=2e-3)
    assert rho > (math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_odometer_charges_what_opendp_says_and_stops_at_the_total(delta):
    odometer = Odometer(1.0, delta)
    third = odometer.remaining / 3
    counts = odometer.counts(np.array([1000, 0, 5]), third)
    assert counts.shape == (3,)
    assert np.abs(counts - [1000, 0, 5]).max() < 60 * odometer.deviation(third)  # beyond 1e-18, Laplace or Gaussian
    assert odometer.spent == pytest.approx(third)
    assert odometer.choose(np.array([0.0, 1e9]), 1.0, third) == 1
    assert odometer.spent == pytest.approx(2 * third)
    odometer.counts(np.array([1]), odometer.remaining)
    assert odometer.spent <= odometer.total
    with pytest.raises(ArithmeticError, match="too much"):
        odometer.counts(np.array([1]), third)
    assert odometer.spent <= odometer.total


def test_unfit_arguments_are_errors():
    records, labels = np.zeros((4, 4)), np.zeros(4, int)
    with pytest.raises(ValueError, match="no generator is called 'gan'"):
        synthesise("gan", records, labels, ATTRIBUTES, epsilon=1.0, delta=0.0, seed=0)
    for epsilon, delta in ((0.0, 0.0), (1.0, 1.0), (-1.0, 0.5)):
        with pytest.raises(ValueError, match="must be positive"):
            Odometer(epsilon, delta)


IN_PROCESS = [name for name, kind in PEERS.items() if kind.run is not None]


def make_task(peer: str = "histogram-naive-bayes", epsilon: float | None = 1.0, seed: int = 3, **changes) -> PeerTask:
    """Two numeric attributes and one of three levels; the first number decides the class."""
    rng = np.random.default_rng(0)

    def records(count):
        return np.hstack([rng.random((count, 2)), np.eye(3)[rng.integers(3, size=count)]])

    train, test, source = records(900), records(200), records(300)
    task = PeerTask(
        peer=peer,
        epsilon=epsilon,
        delta=0.0,
        seed=seed,
        train=train,
        labels=(train[:, 0] > 0.4).astype(np.int64),
        test=test,
        lower=np.zeros(5),
        upper=np.ones(5),
        source=source,
        columns=("x", "y", "kind=a", "kind=b", "kind=c"),
    )
    return replace(task, **changes)


def accuracy(task: PeerTask) -> float:
    return float(((run_peer(task).probability > 0.5) == (task.test[:, 0] > 0.4)).mean())


class FixedNoise:
    """Stands in for a generator: geometric draws that cancel, or that favour one side."""

    def geometric(self, success, shape):
        return np.ones(shape, dtype=np.int64)


# -- tasks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train": np.ones(3)}, "train must have shape"),
        ({"labels": np.zeros(3, dtype=np.int64)}, "labels must have shape"),
        ({"labels": np.full(900, 2)}, "labels must be 0 or 1"),
        ({"test": np.ones((4, 2))}, "test must have shape"),
        ({"test": np.ones((0, 5))}, "source and test must have a record each"),
        ({"source": np.full((2, 5), np.nan)}, "source must be finite"),
        ({"upper": np.zeros(5)}, "every lower bound must be below"),
        ({"columns": ("x",)}, "1 names for 5 columns"),
        ({"seed": -1}, "seed must not be negative"),
    ],
)
def test_a_malformed_task_is_refused_with_its_reason(changes, words):
    with pytest.raises(ValueError, match=words):
        run_peer(make_task(**changes))


@pytest.mark.parametrize(
    ("peer", "epsilon", "delta", "words"),
    [
        ("nobody", 1.0, 0.0, "no peer is called 'nobody'; there are dp-logistic"),
        ("dp-logistic", None, 0.0, "takes an epsilon of at least 0"),
        ("dp-logistic", 0.0, 0.0, "takes an epsilon"),
        ("dp-logistic", math.inf, 0.0, "takes an epsilon"),
        ("dp-logistic", 1.0, 1e-6, "takes a delta 0, not 1e-06"),
        ("opacus-mlp", 1.0, 0.0, r"takes a delta in \(0, 1\), not 0"),
        ("opacus-mlp", 0.01, 1e-6, "at least 0.05, not 0.01"),
        ("majority", 1.0, 0.0, "takes epsilon None: not private"),
    ],
)
def test_a_guarantee_that_a_peer_cannot_give_is_refused_before_anything_starts(peer, epsilon, delta, words):
    with pytest.raises(ConfigurationError, match=words):
        run_peer(make_task(peer, epsilon, delta=delta))


def test_a_peer_with_any_delta_takes_none_and_some():
    kind = PeerKind("t", "d", delta="any")
    for delta in (0.0, 1e-6):
        kind.check(make_task(delta=delta))
    with pytest.raises(ConfigurationError, match="in "):
        kind.check(make_task(delta=1.0))


def test_every_peer_runs_in_exactly_one_place():
    for name, kind in PEERS.items():
        assert (kind.run is None) == (kind.family in FAMILIES), name
        assert (kind.delta == "positive") == (name.startswith("opacus") or name == "adassp")
        assert kind.allows(None) != kind.private


def test_peers_share_no_randomness_for_equal_seeds():
    sample = {make_task(peer, seed=seed).entropy() for peer in PEERS for seed in range(20)}
    assert len(sample) == 20 * len(PEERS)
    assert max(sample) < 2**32


# -- peers of this process -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", IN_PROCESS)
def test_all_that_is_random_in_a_task_is_its_seeds(peer):
    """Equal tasks draw the same noise, if not the same digits: another seed's is a hundred times as far."""
    kind = PEERS[peer]
    task = make_task(peer, 1.0 if kind.private else None, delta=1e-6 if kind.delta == "positive" else 0.0)
    with nothing_unseeded():
        first, second = run_peer(task), run_peer(task)
    assert first.probability.shape == (200,)
    assert first.seconds >= 0
    if kind.private:
        other = run_peer(replace(task, seed=task.seed + 1))
        same, apart = (np.abs(first.probability - item.probability).max() for item in (second, other))
        assert same < 0.01 * apart


@pytest.mark.parametrize("peer", ["logistic-regression", "gradient-boosting"])
def test_peers_without_privacy_learn_an_easy_rule_and_fall_back_to_the_majority(peer):
    assert accuracy(make_task(peer, None)) > (1 + 0.6) / 2  # nearer to the rule than to the larger class
    by_itself = make_task(peer, None, labels=np.ones(900, dtype=np.int64))
    assert np.all(run_peer(by_itself).probability == 1.0)


def test_the_majority_is_the_share_of_class_one():
    task = make_task("majority", None)
    assert set(run_peer(task).probability) == {task.labels.mean()}


def test_histograms_learn_an_easy_rule_and_lose_it_in_noise():
    assert accuracy(make_task(epsilon=2.0)) > (1 + 0.6) / 2  # nearer to the rule than to the larger class
    results = [run_peer(make_task(epsilon=0.001, seed=seed)).probability.mean() for seed in range(5)]
    assert len(set(results)) == 5  # noise decides


def test_counts_of_neighbours_differ_by_one_in_one_cell():
    rng = np.random.default_rng(1)
    cells, labels = rng.integers(4, size=50), rng.integers(2, size=50)
    everyone = noisy_counts(cells, labels, 4, 3.0, FixedNoise())
    without = noisy_counts(cells[1:], labels[1:], 4, 3.0, FixedNoise())
    assert np.abs(everyone - without).sum() == 1  # d histograms: L1 sensitivity d, as the scale has it


@pytest.mark.parametrize("scale", [0.5, 3.0, 100.0])
def test_noise_of_counts_has_the_variance_of_its_scale(scale):
    """Mean square of n draws within z standard errors: false alarm 1e-9; a scale off by 5 % is 10 % in variance.

    Discrete Laplace has fourth moment at most 6 var^2 + var, so the standard error is at most sqrt((5 var^2 + var)/n):
    with n = 400,000 and scale >= 0.5, z times it is under 4 % of the variance, and a power of 1 - 1e-9 is left.
    """
    draws = 400_000
    nothing = np.zeros(0, dtype=np.int64)
    noise = noisy_counts(nothing, nothing, draws // 2, scale, np.random.default_rng(5))
    exact = dlaplace(1 / scale).var()
    band = norm.isf(FALSE_ALARM / 2) * math.sqrt((5 * exact**2 + exact) / draws)
    results = float(np.mean(noise**2))
    assert abs(results - exact) < band
    for wrong in (0.9, 1.1):
        assert abs(results - dlaplace(1 / (wrong * scale)).var()) > band


def test_without_noise_ratios_are_those_of_the_counts():
    counts = [np.array([[30.0, 10.0, 20.0], [5.0, 15.0, 20.0]])]
    (ratio,) = log_ratios(counts, class_totals(counts), [np.full(3, 1 / 3)], 0.0)
    assert ratio == pytest.approx(np.log([5 / 40, 15 / 40, 20 / 40]) - np.log([30 / 60, 10 / 60, 20 / 60]))


def test_counts_that_are_all_noise_say_nothing_of_the_class():
    counts = [np.array([[30.0, 10.0, 20.0], [5.0, 15.0, 20.0]])]
    (ratio,) = log_ratios(counts, class_totals(counts), [np.array([0.2, 0.5, 0.3])], 1e6)
    assert ratio == pytest.approx(np.zeros(3))


def test_totals_stay_positive_whatever_the_noise():
    totals = class_totals([np.array([[-50.0, -20.0], [400.0, 10.0]])])
    assert np.all(totals >= 1)


def test_bins_follow_public_numbers():
    assert bin_count(5000, 10, 1.0) == 16
    assert bin_count(5000, 10, 0.1) == 5
    assert bin_count(285, 30, 0.1) == 4
    assert [is_sparse(285, 30, 0.1), is_sparse(5000, 10, 0.1)] == [True, False]


# -- preparation ---------------------------------------------------------------------------------------------------


@given(arrays(np.float64, st.tuples(st.integers(1, 12), st.just(2)), elements=st.integers(-3, 3).map(float)))
def test_ranks_are_those_counted_one_by_one(source):
    records = np.array([[-9.0, -9.0], [0.0, 1.0], [9.0, 9.0]])
    for column in range(2):
        below = [(source[:, column] < value).mean() for value in records[:, column]]
        equal = [(source[:, column] == value).mean() for value in records[:, column]]
        expected = 2 * (np.array(below) + np.array(equal) / 2) - 1
        assert ranks(source, records)[:, column] == pytest.approx(expected)


def test_standardising_needs_no_private_record_and_survives_a_constant_column():
    source = np.array([[1.0, 7.0], [3.0, 7.0]])
    assert np.array_equal(standardise(source, np.array([[5.0, 8.0]])), [[3.0, 1.0]])
    assert np.array_equal(clipped(source, np.array([[50.0, 8.0]])), [[3.0, 1.0]])


def test_levels_of_an_attribute_are_one_attribute():
    assert attribute_columns(("x", "kind=a", "y", "kind=b=c", "x")) == [(0,), (1, 3), (2,), (4,)]


# -- DP-SGD's guarantee --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("multiplier", [0.7, 2.0, 10.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_delta_is_the_integral_of_the_excess_privacy_loss(multiplier, epsilon):
    """By definition E[(1 - e^(epsilon - L))+]; L is normal of mean mu^2 / 2 and variance mu^2, mu = 1/multiplier."""
    mu = 1 / multiplier
    loss = norm(mu**2 / 2, mu)
    top = loss.mean() + 12 * mu
    integral = quad(lambda x: -np.expm1(epsilon - x) * loss.pdf(x), epsilon, max(top, epsilon), epsabs=1e-14)[0]
    assert gaussian_delta(epsilon, multiplier) == pytest.approx(integral, rel=1e-6, abs=1e-13)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("steps", [1, 100])
def test_the_noise_is_enough_and_hardly_more(epsilon, steps):
    single = noise_multiplier(epsilon, 1e-6, steps) / math.sqrt(steps)
    assert gaussian_delta(epsilon, single) <= 1e-6
    assert gaussian_delta(epsilon, single * (1 - 1e-6)) > 1e-6
