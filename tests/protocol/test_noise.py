"""A noise law against sums of its own definition in 80 digits, and both of its realisations against the law."""

import decimal
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from curator_node.mechanisms import OpenDPNoise, Stamp
from expril.audit.attack.calibration import FALSE_ALARM, MISSED_ALARM, outside, suspicious_centre, suspicious_scale
from protocol.noise import DiscreteLaplace

DIGITS = decimal.Context(prec=80, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
STEPS = st.integers(1, 2**32)
SCALES = st.builds(Fraction, STEPS, STEPS)
"""From 2^-32 to 2^32."""
SMALL = [Fraction(1, 50), Fraction(1, 3), Fraction(1), Fraction(10, 3), Fraction(12)]
"""Scales whose law is summed up term by term."""
EXTREMES = [Fraction(1, 2**32), Fraction(2**32)]
N = 20_000


@pytest.fixture(autouse=True)
def precise():
    with decimal.localcontext(DIGITS):
        yield


def exact(value):
    return Decimal(value.numerator) / Decimal(value.denominator)


def pmf(scale, reach):
    """P(0), P(1), ... P(reach) by definition: exp(-|k| / scale), over the sum of them all."""
    p = (-1 / exact(scale)).exp()
    weights = [p**k for k in range(reach + 1)]
    total = weights[0] + 2 * sum(weights[1:])
    return [weight / total for weight in weights]


def reach_of(scale):
    """Beyond it lies less than 10^-60."""
    return 2 + math.ceil(140 * scale)


# loss


@settings(max_examples=50)
@given(SCALES, st.lists(st.integers(-2, 2), min_size=1, max_size=3))
def test_the_loss_is_the_largest_log_ratio_of_any_release(scale, moved):
    """ln P(k | x) / P(k | x + moved) is a rational; over all k near x it attains the loss and never passes it."""
    law, l1 = DiscreteLaplace(scale), sum(map(abs, moved))
    ratios = [
        sum(abs(k - one) - abs(k) for k, one in zip(release, moved, strict=True)) / scale
        for release in itertools.product(range(-4, 5), repeat=len(moved))
    ]
    assert max(ratios) == -min(ratios) == law.loss(l1)
    assert isinstance(law.loss(l1), Fraction)


@given(SCALES, st.integers(0, 2**40), st.integers(0, 2**40))
def test_losses_of_queries_add_up_exactly(scale, one, two):
    law = DiscreteLaplace(scale)
    assert law.loss(one) + law.loss(two) == law.loss(one + two)


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1)])
def test_a_scale_is_positive(scale):
    with pytest.raises(ValueError, match="must be positive"):
        DiscreteLaplace(scale)


# probabilities


@pytest.mark.parametrize("scale", SMALL)
def test_probabilities_are_those_of_the_definition_and_add_up_to_one(scale):
    law, expected = DiscreteLaplace(scale), pmf(scale, reach_of(scale))
    for k in range(min(len(expected), 60)):
        assert law.log_pmf(k) == law.log_pmf(-k) == pytest.approx(float(expected[k].ln()), rel=2e-15, abs=1e-15)
    total = math.fsum(math.exp(law.log_pmf(k)) for k in range(-len(expected), len(expected) + 1))
    assert total == pytest.approx(1, rel=1e-14)


@given(SCALES, st.integers(-(2**40), 2**40))
def test_the_logarithm_of_a_probability_keeps_its_digits_at_every_scale(scale, k):
    p = (-1 / exact(scale)).exp()
    expected = ((1 - p) / (1 + p)).ln() - abs(k) / exact(scale)
    assert DiscreteLaplace(scale).log_pmf(k) == pytest.approx(float(expected), rel=1e-15, abs=1e-15)


@pytest.mark.parametrize("scale", SMALL)
def test_tails_are_sums_of_probabilities(scale):
    law, expected = DiscreteLaplace(scale), pmf(scale, reach_of(scale))
    for k in range(1, min(len(expected), 60)):
        assert law.tail(k) == pytest.approx(float(2 * sum(expected[k:])), rel=1e-12, abs=1e-60)
    assert law.tail(0) == law.tail(-3) == 1


@pytest.mark.parametrize("scale", ["1/4", "1", "7/3", "90", "12345"])
@pytest.mark.parametrize("misses", [Fraction(1, 20), Fraction(1, 3), Fraction(19, 20)])
def test_a_width_is_the_smallest_that_noise_misses_so_seldom(scale, misses):
    """By its definition, P(|X| > w) with the law's probabilities added up one by one."""
    p = math.exp(-1 / Fraction(scale))
    inside, width = (1 - p) / (1 + p), 0
    while 1 - inside > misses:
        width += 1
        inside += 2 * (1 - p) / (1 + p) * p**width
    assert DiscreteLaplace(Fraction(scale)).width(misses) == width


def test_a_width_of_the_largest_scale_takes_no_time():
    law = DiscreteLaplace(Fraction(2**32))
    width = law.width(Fraction(1, 20))
    assert law.tail(width + 1) <= 1 / 20 < law.tail(width)


@given(SCALES, st.integers(-3, 2**40))
def test_a_tail_is_a_probability_and_falls(scale, k):
    law = DiscreteLaplace(scale)
    assert 0 <= law.tail(k + 1) <= law.tail(k) <= 1


# variance


@pytest.mark.parametrize("scale", SMALL)
@pytest.mark.parametrize("draws", [1, 3, 60])
def test_the_variance_is_the_mean_square(scale, draws):
    square = 2 * sum(k * k * share for k, share in enumerate(pmf(scale, reach_of(scale))))
    assert DiscreteLaplace(scale).variance(draws) == pytest.approx(float(draws * square), rel=1e-14)


@given(SCALES)
def test_the_variance_keeps_its_digits_at_every_scale(scale):
    """p / (1 - p)^2 = 1 / (2 sinh(a / 2))^2, a = 1 / scale; and 1 / x^2 - 1 / 3 < 1 / sinh(x)^2 < 1 / x^2."""
    half = 1 / exact(scale) / 2
    sinh = (half.exp() - (-half).exp()) / 2
    found = DiscreteLaplace(scale).variance()
    assert found == pytest.approx(float(1 / (2 * sinh * sinh)), rel=2e-15 * max(1, float(half)), abs=1e-300)
    square = 2 * Fraction(scale) ** 2
    assert square * (1 - Fraction(1, 10**15)) - Fraction(1, 6) <= Fraction(found) <= square * (1 + Fraction(1, 10**15))


@given(SCALES, SCALES)
def test_more_scale_is_more_variance(one, two):
    least, most = sorted((one, two))
    assert DiscreteLaplace(least).variance() <= DiscreteLaplace(most).variance() * (1 + 1e-14)


# the bound on a sum


@given(SCALES, st.floats(1e-30, 0.4))
def test_one_draw_passes_its_bound_at_most_at_the_rate(scale, rate):
    """P(X > t) = p^(floor(t) + 1) / (1 + p)."""
    p = (-1 / exact(scale)).exp()
    beyond = math.floor(DiscreteLaplace(scale).bound(rate)) + 1
    assert (-beyond / exact(scale)).exp() / (1 + p) <= Decimal(rate)


@pytest.mark.parametrize("scale", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("draws", [2, 5])
@pytest.mark.parametrize("rate", [1e-3, 1e-9])
def test_a_sum_passes_its_bound_at_most_at_the_rate_and_not_by_far(scale, draws, rate):
    """Against the law convolved with itself; two thirds of it are passed too often."""
    reach = math.ceil(80 * scale)
    one = total = stats.dlaplace(1 / scale).pmf(np.arange(-reach, reach + 1))
    for _ in range(draws - 1):
        total = np.convolve(total, one)
    values = np.arange(len(total)) - len(total) // 2
    bound = DiscreteLaplace(Fraction(scale)).bound(rate, draws)
    assert total[values > bound].sum() <= rate
    assert total[values > 2 / 3 * bound - 2].sum() > rate


@given(SCALES, st.integers(0, 1000), st.floats(1e-30, 0.4))
def test_a_bound_grows_with_the_draws_and_as_the_rate_falls(scale, draws, rate):
    law = DiscreteLaplace(scale)
    assert law.bound(rate, draws) <= law.bound(rate, draws + 1)
    assert law.bound(rate, draws) <= law.bound(rate / 2, draws)
    assert law.bound(rate, 0) == 0


# both realisations

PLACES = [(Fraction(1, 2), (1, 2)), (Fraction(3), (1, 3, 9)), (Fraction(30), (1, 30, 90)), (Fraction(1000, 3), (300,))]


def by_the_curator(law, n):
    return OpenDPNoise().discrete_laplace(np.zeros(n, np.int64), 1, law, Stamp("ann", 0, 1))


def by_a_simulation(law, n):
    return law.simulate(np.random.default_rng(7), (n,))


def strays(draws, law, places):
    """Whether too many or too few draws are as large as one of the places; false alarm 1e-9, all places together."""
    return any(
        outside(stats.binom(len(draws), law.tail(k)), int((np.abs(draws) >= k).sum()), FALSE_ALARM / len(places))
        for k in places
    )


@pytest.mark.parametrize("realisation", [by_the_curator, by_a_simulation])
@pytest.mark.parametrize(("scale", "places"), PLACES)
def test_draws_have_the_law(realisation, scale, places):
    """Against its tails, and against scipy's laws of what draws add up to; false alarm 1e-9 each."""
    law = DiscreteLaplace(scale)
    draws = realisation(law, N)
    assert draws.dtype == np.int64
    assert not strays(draws, law, places)
    assert not suspicious_scale(draws, scale)
    assert not suspicious_centre(draws)


@pytest.mark.family(3)
@pytest.mark.parametrize(("scale", "places"), PLACES)
@pytest.mark.parametrize("factor", [Fraction(3, 4), Fraction(4, 3)])
def test_draws_of_another_scale_are_noticed(scale, places, factor):
    """Power 1 - 1e-6, by the exact law of the number of draws beyond the place that tells most."""
    level = FALSE_ALARM / len(places) / 2
    passed = []
    for k in places:
        law = stats.binom(N, DiscreteLaplace(scale).tail(k))
        truth = stats.binom(N, DiscreteLaplace(scale * factor).tail(k))
        passed.append(truth.cdf(law.isf(level)) - truth.cdf(law.ppf(level) - 1))
    assert min(passed) < MISSED_ALARM
    assert strays(by_the_curator(DiscreteLaplace(scale * factor), N), DiscreteLaplace(scale), places)


@pytest.mark.parametrize("scale", [*SMALL, Fraction(1000, 3), *EXTREMES])
def test_simulated_draws_are_those_of_two_geometric_blocks(scale):
    """Published numbers hang on this order of draws: all first ones, then all that are taken off."""
    law = DiscreteLaplace(scale)
    rng, success = np.random.default_rng(3), -np.expm1(-1 / float(scale))
    first, second = rng.geometric(success, (2, 5, 4)), rng.geometric(success, (2, 5, 4))
    found = law.simulate(np.random.default_rng(3), (2, 5, 4))
    assert found.dtype == np.int64
    assert np.array_equal(found, first - second)
    assert law.simulate(np.random.default_rng(3), (0, 2)).shape == (0, 2)
