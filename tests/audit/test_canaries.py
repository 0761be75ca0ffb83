"""Canaries in one run: the theorem's numbers against enumeration, and a real curator."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from expril.audit.attack.canaries import chance_of_guesses, epsilon_at_least, guess, one_run
from expril.audit.attack.controls.parts import HalfNoise
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace


@given(st.integers(1, 40), st.data(), st.floats(0, 5))
def test_without_delta_it_is_a_binomial_s_tail(guesses, data, epsilon):
    correct = data.draw(st.integers(0, guesses))
    accuracy = np.exp(epsilon) / (1 + np.exp(epsilon))
    expected = binom.sf(correct - 1, guesses, accuracy)
    assert chance_of_guesses(correct, guesses, guesses, epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(st.integers(1, 12), st.data(), st.floats(0, 3), st.floats(1e-6, 0.01))
def test_with_delta_it_is_the_theorem_by_brute_force(guesses, data, epsilon, delta):
    correct = data.draw(st.integers(0, guesses))
    canaries = data.draw(st.integers(guesses, 20))
    chances = binom.pmf(np.arange(guesses + 1), guesses, np.exp(epsilon) / (1 + np.exp(epsilon)))
    largest = max(sum(chances[max(0, correct - i) : correct]) / i for i in range(1, canaries + 1))
    expected = min(1.0, sum(chances[correct:]) + 2 * canaries * delta * largest)
    bound = chance_of_guesses(correct, guesses, canaries, epsilon, delta)
    assert bound == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("delta", [0.001, 0.02])
@pytest.mark.parametrize("canaries", [1, 4, 8])
def test_by_enumeration_a_mechanism_with_a_delta_keeps_to_it(canaries, delta):
    """With probability delta it tells all coins, else nothing: (0, delta)-DP. All are guessed."""
    for correct in range(canaries + 1):
        true = delta + (1 - delta) * binom.sf(correct - 1, canaries, 0.5)
        assert true <= chance_of_guesses(correct, canaries, canaries, 0.0, delta) + 1e-12


@pytest.mark.parametrize("guesses", [2, 3, 4])
def test_by_enumeration_guesses_from_noisy_counts_keep_to_it(guesses):
    """All coins of four canaries, all their noisy counts but the rarest, and the rule of `guess` on each."""
    law, canaries = DiscreteLaplace(Fraction(1)), 4
    values = np.arange(-5, 7)
    rows = np.array(list(itertools.product(values, repeat=canaries)))
    guessed = np.array([guess(row, guesses) for row in rows])
    chance = {exact: np.exp([law.log_pmf(int(value - exact)) for value in values]) for exact in (0, 1)}
    counts = np.zeros(guesses + 1)
    for coins in itertools.product((0, 1), repeat=canaries):
        weights = np.array([1.0])
        for coin in coins:
            weights = np.multiply.outer(weights, chance[coin]).ravel()
        right = (guessed == np.where(coins, 1, -1)).sum(1)
        counts += np.bincount(right, weights, minlength=guesses + 1) / 2**canaries
    beyond = 1 - counts.sum()
    assert beyond < 0.02
    for correct in range(guesses + 1):
        assert counts[correct:].sum() <= chance_of_guesses(correct, guesses, canaries, 1.0) + 1e-12


@pytest.mark.parametrize("delta", [0.0, 1e-4])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_by_enumeration_the_bound_is_seldom_above_the_truth(epsilon, delta):
    """Against randomized response, whose guesses are as good as epsilon allows."""
    guesses, rate = 60, 0.05
    chances = binom.pmf(np.arange(guesses + 1), guesses, np.exp(epsilon) / (1 + np.exp(epsilon)))
    bounds = [epsilon_at_least(k, guesses, guesses, error_rate=rate, delta=delta) for k in range(guesses + 1)]
    assert chances[np.array(bounds) > epsilon + 1e-9].sum() <= rate
    assert bounds == sorted(bounds)


def test_counts_that_cannot_be_are_refused():
    for counts in ((3, 2, 5), (1, 3, 2), (0, 0, 0)):
        with pytest.raises(ConfigurationError):
            epsilon_at_least(*counts, error_rate=0.05)


def test_the_clearest_are_guessed():
    assert guess(np.array([5, -3, 0, 1, 9]), 3).tolist() == [1, -1, 0, 0, 1]


def test_a_real_curator_passes_and_one_with_half_the_noise_is_caught():
    """At 1e-9: 4,000 canaries prove more than 1 of a true epsilon of 2 with a probability above 1 - 1e-9."""
    guesses = 3_600
    worst = int(binom.ppf(1e-9, guesses, np.exp(2) / (1 + np.exp(2))))
    assert epsilon_at_least(worst, guesses, 4_000, error_rate=1e-9) > 1
    check = one_run(canaries=4_000, error_rate=1e-9)
    assert check.passed, check
    assert check.false_alarm == 1e-9
    assert "is noticed with a probability of 99%" in check.power


def test_a_broken_curator_that_is_not_caught_fails_the_check():
    from curator_node.mechanisms import OpenDPNoise

    assert not one_run(canaries=200, error_rate=1e-9, broken=OpenDPNoise).passed


def test_half_noise_is_half():
    noise = HalfNoise().discrete_laplace(np.zeros(2_000, np.int64), 1, DiscreteLaplace(Fraction(200)), None)
    assert 90 < np.abs(noise).mean() < 110 + 15
