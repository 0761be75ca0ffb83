"""The bound on a loss by an event's counts: by enumeration it is seldom above the truth, and it is sharp."""

import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from expril.audit.attack.loss_bounds import loss_bound, promise

RARE = 1e-9
FREQUENT, SELDOM = (math.exp(-1), math.exp(-2)), (0.001, 0.0)
"""What is expected of an event: the first leads to the test by points, the second to the one by odds."""


def by_clopper_pearson(more, fewer, draws, rate):
    """Each probability has its own limit, at half the error rate."""
    first, second = (binomtest(count, draws).proportion_ci(1 - rate, "exact") for count in (more, fewer))
    return math.log(first.low / second.high)


@cache
def table(draws, rate, delta, expected):
    """(draws + 1, draws + 1) bounds of all counts."""
    counts = range(draws + 1)
    return np.array(
        [
            [loss_bound(more, fewer, (draws, draws), rate, delta=delta, expected=expected) for fewer in counts]
            for more in counts
        ]
    )


def worst_false_alarm(draws, rate, delta, expected):
    """The largest probability, over a grid of P and Q, that the bound is above ln((P - delta) / Q); computed."""
    counts, bounds = np.arange(draws + 1), table(draws, rate, delta, expected)
    worst = 0.0
    for loss in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0):
        for other in np.geomspace(1e-3 / draws, 1, 60):
            chance = min(math.exp(loss) * other + delta, 1.0)
            joint = np.outer(
                binom.pmf(counts, draws, chance), binom.pmf(counts, draws, (chance - delta) / math.exp(loss))
            )
            worst = max(worst, float(joint[bounds > loss].sum()))
    return worst


@pytest.mark.parametrize("expected", [FREQUENT, SELDOM, (0.9, 0.01), (0.02, 0.5)])
@pytest.mark.parametrize(("rate", "delta"), [(0.05, 0.0), (0.3, 0.0), (0.05, 0.1)])
def test_by_enumeration_the_bound_is_seldom_above_the_truth(rate, delta, expected):
    """Whatever was expected: it makes the bound sharp, never wrong."""
    assert worst_false_alarm(9, rate, delta, expected) <= rate


@pytest.mark.slow
@pytest.mark.parametrize("expected", [FREQUENT, SELDOM, (0.5, 0.3), (0.1, 0.01)])
@pytest.mark.parametrize(("rate", "delta"), [(0.05, 0.0), (0.001, 0.0), (0.05, 0.02)])
def test_by_enumeration_of_more_draws_too(rate, delta, expected):
    assert worst_false_alarm(40, rate, delta, expected) <= rate


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "other", "delta"), [(1.0, 0.2, 0.0), (1.0, 0.004, 0.0), (1.0, 0.1, 0.01)])
def test_of_many_draws_most_of_the_error_rate_is_used(loss, other, delta):
    """Computed: for each count of the favoured input, the largest other count whose bound is above the truth."""
    draws, rate, chance = 5_000, 0.05, math.exp(loss) * other + delta
    expected, alarm, most = (chance, other), 0.0, int(binom.ppf(1e-7, draws, other)) - 1
    for more in range(int(binom.ppf(1e-5, draws, chance)), int(binom.isf(1e-5, draws, chance)) + 1):
        while loss_bound(more, most + 1, (draws, draws), rate, delta=delta, expected=expected) > loss:
            most += 1
        alarm += float(binom.pmf(more, draws, chance) * binom.cdf(most, draws, other))
    assert 0.5 * rate < alarm + 2e-5 + 1e-7 <= rate


@pytest.mark.parametrize("expected", [FREQUENT, SELDOM])
def test_an_event_that_never_came_proves_nothing(expected):
    assert loss_bound(0, 0, (10, 10), 0.05, expected=expected) == -math.inf


def test_an_event_within_delta_proves_nothing():
    assert loss_bound(50, 0, (1_000, 1_000), 0.05, delta=0.06) == -math.inf
    assert loss_bound(150, 0, (1_000, 1_000), 0.05, delta=0.06, expected=(0.15, 0.001)) > 2


@pytest.mark.parametrize(
    ("more", "fewer", "gain"), [(10, 0, 0.7), (30, 0, 0.5), (300, 0, 0.25), (300, 100, 0.08), (25_000, 9_200, 0.009)]
)
def test_more_is_proven_than_by_a_limit_for_each_probability(more, fewer, gain):
    draws, expected = 50_000, (more / 50_000, fewer / 50_000 or more / 50_000 / 20)
    bound = loss_bound(more, fewer, (draws, draws), 0.05, expected=expected)
    assert bound > by_clopper_pearson(more, fewer, draws, 0.05) + gain
    if fewer > 1000:  # by normal numbers
        error = math.sqrt(1 / more + 1 / fewer - 2 / draws)
        assert bound == pytest.approx(math.log(more / fewer) - 1.645 * error, abs=0.002)


def test_more_counts_prove_more():
    bounds = table(9, 0.05, 0.0, FREQUENT)
    with np.errstate(invalid="ignore"):  # minus infinity less itself is no number
        assert not (np.diff(bounds, axis=0) < -1e-9).any()
        assert not (np.diff(bounds, axis=1) > 1e-9).any()


@pytest.mark.parametrize(
    ("delta", "more", "fewer"), [(0.0, 30, 0), (0.0, 20_000, 8_000), (0.01, 900, 3), (0.0, 400, 30)]
)
def test_a_score_is_about_the_bound(delta, more, fewer):
    score = promise(np.array([more]), np.array([fewer]), 50_000, 0.001, delta)[0] - 10
    expected = more / 50_000, (more / 50_000 - delta) * math.exp(-score)
    bound = loss_bound(more, fewer, (50_000, 50_000), 0.001, delta=delta, expected=expected)
    assert score == pytest.approx(bound, abs=0.5 if fewer < 5 else 0.03)


def test_counts_that_rounding_lifts_above_the_draws_have_a_score():
    """Weighted counts are sums of floats: all of 5,801 draws may add up to a little more."""
    lifted = np.array([np.nextafter(5801, 6000), 5801.0])
    scores = promise(lifted, np.array([10.0, 10.0]), 5801, 0.01)
    assert scores[0] == scores[1] > 10
