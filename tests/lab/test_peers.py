"""Peers: what they are given, their preparation, our own baseline, the accounting of DP-SGD, what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.stats import dlaplace, norm

from lab.peers import PEERS, PeerKind, PeerTask, run_peer
from lab.peers.noisy_sums import bin_count, class_totals, is_sparse, log_ratios, noisy_counts
from lab.peers.preparation import attribute_columns, clipped, gaussian_delta, noise_multiplier, ranks, standardise
from lab.peers.worker import FAMILIES
from protocol.errors import ConfigurationError
from seeded import nothing_unseeded

FALSE_ALARM = 1e-9
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
    drawn = {make_task(peer, seed=seed).entropy() for peer in PEERS for seed in range(20)}
    assert len(drawn) == 20 * len(PEERS)
    assert max(drawn) < 2**32


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
        same, apart = (np.abs(first.probability - each.probability).max() for each in (second, other))
        assert same < 0.01 * apart


@pytest.mark.parametrize("peer", ["logistic-regression", "gradient-boosting"])
def test_ceilings_learn_an_easy_rule_and_fall_back_to_the_majority(peer):
    assert accuracy(make_task(peer, None)) > (1 + 0.6) / 2  # nearer to the rule than to the larger class
    alone = make_task(peer, None, labels=np.ones(900, dtype=np.int64))
    assert np.all(run_peer(alone).probability == 1.0)


def test_the_majority_is_the_share_of_class_one():
    task = make_task("majority", None)
    assert set(run_peer(task).probability) == {task.labels.mean()}


def test_histograms_learn_an_easy_rule_and_lose_it_in_noise():
    assert accuracy(make_task(epsilon=2.0)) > (1 + 0.6) / 2  # nearer to the rule than to the larger class
    found = [run_peer(make_task(epsilon=0.001, seed=seed)).probability.mean() for seed in range(5)]
    assert len(set(found)) == 5  # noise decides


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
    found = float(np.mean(noise**2))
    assert abs(found - exact) < band
    for wrong in (0.9, 1.1):
        assert abs(found - dlaplace(1 / (wrong * scale)).var()) > band


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
