"""Laws of noise, of its shares and of noisy choices, against sums of their definitions; and draws against the laws."""

import decimal
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from scipy import stats

from curator_node.mechanisms import ExactNoise, Stamp
from expril.audit.attack.calibration import FALSE_ALARM, MISSED_ALARM, outside, suspicious_centre, suspicious_scale
from protocol.noise import DiscreteLaplace, NoisyMax
from protocol.noise_shares import LaplaceShares

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
    return ExactNoise().discrete_laplace(np.zeros(n, np.int64), 1, law, Stamp("ann", 0, 1))


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


SHAPES = st.one_of(
    st.builds(Fraction, st.integers(1, 1000), st.integers(1, 1000)),
    st.builds(Fraction, st.just(1), st.integers(1, 1000)),
)
SCALES_OF_SHARES = [Fraction(1, 7), Fraction(1), Fraction(10, 3), Fraction(12)]
SHARES = [Fraction(1, 1000), Fraction(1, 8), Fraction(1, 2), Fraction(4, 5), Fraction(999, 1000)]
MANY = [Fraction(1), Fraction(5, 4), Fraction(3), Fraction(50)]


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(50):
        yield


def number(value):
    return mp.mpf(value.numerator) / value.denominator


def halves(scale, shape, reach):
    """Chances of the negative binomial of 0 .. reach, term by term."""
    q, r = mp.exp(-1 / number(scale)), number(shape)
    ratios = itertools.chain([(1 - q) ** r], ((j + r) / (j + 1) * q for j in range(reach)))
    return list(itertools.accumulate(ratios, lambda term, ratio: term * ratio))


def reach_of_share(scale, shape):
    """Beyond it lies less than 1e-20, in proportion to what lies before."""
    return 60 + math.ceil((60 + 6 * shape) * scale)


def definition(scale, shape, k):
    """P(k) as the sum over what is taken off."""
    reach = reach_of_share(scale, shape)
    terms = halves(scale, shape, reach + k)
    return mp.fsum(terms[j] * terms[j + k] for j in range(reach))


def hypergeometric(scale, shape, k):
    """The same sum in closed form: Gauss's function of q^2."""
    q, r = mp.exp(-1 / number(scale)), number(shape)
    gauss = mp.hyp2f1(r, r + k, k + 1, q * q)
    return 2 * r * mp.log(1 - q) + k * mp.log(q) + mp.log(mp.rf(r, k) / mp.factorial(k) * gauss)


def table(scale, shape, reach):
    return np.exp(LaplaceShares(scale, shape).log_pmfs(np.arange(-reach, reach + 1)))


# probabilities


@pytest.mark.family(12)
@pytest.mark.parametrize("scale", SCALES_OF_SHARES)
@pytest.mark.parametrize("shape", [*SHARES, *MANY])
def test_probabilities_are_those_of_the_definition(scale, shape):
    law = LaplaceShares(scale, shape)
    for k in (0, 1, 2, 17, 40):
        expected = float(mp.log(definition(scale, shape, k)))
        assert law.log_pmf(k) == law.log_pmf(-k) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("scale", [Fraction(1, 2**32), Fraction(1, 50), Fraction(1000, 3), Fraction(10**6)])
@pytest.mark.parametrize("shape", [Fraction(1, 1000), Fraction(4, 5), Fraction(13, 10)])
def test_the_logarithm_keeps_its_digits_at_every_scale(scale, shape):
    places = np.array([0, 1, 15, 16, math.ceil(scale), math.ceil(40 * scale)])
    found = LaplaceShares(scale, shape).log_pmfs(places)
    expected = [float(hypergeometric(scale, shape, k)) for k in places.tolist()]
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(SCALES, st.integers(-(2**53), 2**53))
def test_shape_one_is_the_discrete_laplace_law(scale, k):
    found, expected = LaplaceShares(scale, Fraction(1)).log_pmf(k), DiscreteLaplace(scale).log_pmf(k)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(10, 3), Fraction(30)])
def test_shapes_add_up_as_laws_are_convolved(scale):
    reach = math.ceil(50 * scale) + 20
    for one, two in [(Fraction(1, 8), Fraction(7, 8)), (Fraction(1, 3), Fraction(1, 3)), (Fraction(4, 5), Fraction(3))]:
        both = np.convolve(table(scale, one, reach), table(scale, two, reach))[reach:-reach]
        near = reach // 4
        found = table(scale, one + two, near)
        assert found == pytest.approx(both[reach - near : reach + near + 1], rel=1e-11)


@pytest.mark.parametrize("shape", [*SHARES, *MANY])
def test_probabilities_add_up_to_one_and_their_squares_to_the_variance(shape):
    law = LaplaceShares(Fraction(12), shape)
    chances, places = table(law.scale, shape, 1500), np.arange(-1500, 1501)
    assert math.fsum(chances) == pytest.approx(1, rel=1e-12)
    assert math.fsum(chances * places**2) == pytest.approx(law.variance(), rel=1e-12)
    assert law.variance() == pytest.approx(float(shape) * DiscreteLaplace(Fraction(12)).variance(), rel=1e-15)


@settings(max_examples=100, deadline=None)
@given(SCALES, SHAPES, st.integers(0, 2**40))
def test_a_probability_falls_with_the_distance_and_is_found_alone_as_among_others(scale, shape, k):
    law = LaplaceShares(scale, shape)
    logs = law.log_pmfs(np.array([k + 1, -k, k, 2 * k + 3]))
    assert np.isfinite(logs).all()
    assert logs[1] == logs[2]
    margin = 1e-12 * (1 + np.abs(logs).max())
    assert -margin <= 0 - logs.max()
    assert logs[3] <= logs[0] + margin <= logs[1] + 2 * margin
    assert law.log_pmf(k) == pytest.approx(logs[2], rel=1e-12, abs=1e-12)


def test_no_values_have_no_probabilities():
    assert LaplaceShares(Fraction(3), Fraction(1, 3)).log_pmfs(np.empty(0, np.int64)).shape == (0,)


@pytest.mark.parametrize(("scale", "shape"), [(Fraction(0), Fraction(1)), (Fraction(1), Fraction(0))])
def test_scale_and_shape_are_positive(scale, shape):
    with pytest.raises(ValueError, match="must be positive"):
        LaplaceShares(scale, shape)


# loss


def worst_ratio(scale, shape, shift):
    """The largest ln P(k) / P(k + shift), by enumeration in 50 digits."""
    reach = 3 * shift + 20
    size = reach_of_share(scale, shape)
    terms = halves(scale, shape, size + reach + shift)
    logs = [mp.log(mp.fdot(terms[:size], terms[k : k + size])) for k in range(reach + shift + 1)]
    return float(max(abs(logs[abs(k)] - logs[abs(k + shift)]) for k in range(-reach, reach + 1)))


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(10, 3)])
@pytest.mark.parametrize("shape", [Fraction(1, 8), Fraction(1, 2), Fraction(4, 5), Fraction(99, 100)])
@pytest.mark.parametrize("shift", [1, 4])
def test_the_loss_of_part_of_a_noise_is_the_largest_ratio(scale, shape, shift):
    assert LaplaceShares(scale, shape).shift_loss(shift) == pytest.approx(worst_ratio(scale, shape, shift), abs=1e-12)


@pytest.mark.parametrize(
    ("shape", "times"), [(Fraction(4, 5), 3.06), (Fraction(1, 2), 13.6), (Fraction(6, 8), 4.0)], ids=str
)
def test_what_unknown_shares_too_few_lose(shape, times):
    """At scale 30: 4 of 5 shares; half of them; shape 1/(n - t) with 8 survivors of n = 10, t = 2 of whom collude."""
    law = LaplaceShares(Fraction(30), shape)
    assert law.shift_loss(1) / (1 / 30) == pytest.approx(times, rel=3e-3)
    with pytest.raises(ValueError, match="less than one whole noise"):
        law.loss(1)


@given(SCALES, st.builds(lambda whole, part: whole + part, st.integers(1, 9), st.fractions(0, 1)), st.integers(0, 99))
def test_a_whole_noise_and_more_has_the_exact_loss_of_one(scale, shape, l1):
    law = LaplaceShares(scale, shape)
    assert law.loss(l1) == l1 / scale
    assert isinstance(law.loss(l1), Fraction)
    assert law.shift_loss(l1) == float(l1 / scale)


@pytest.mark.parametrize("shape", [Fraction(1), Fraction(5, 4), Fraction(7)])
def test_no_loss_of_more_than_one_noise_is_above_the_claim_and_far_out_it_is_reached(shape):
    logs = LaplaceShares(Fraction(3), shape).log_pmfs(np.array([*range(200), 10**9, 10**9 + 1]))
    ratios = np.abs(np.diff(logs))
    assert ratios[:199].max() <= 1 / 3 + 1e-12
    assert ratios[-1] == pytest.approx(1 / 3, rel=1e-6)


@settings(max_examples=50, deadline=None)
@given(
    st.builds(Fraction, st.integers(1, 10**4), st.integers(1, 50)),
    st.builds(lambda a, b: Fraction(min(a, b), max(a, b) + 1), st.integers(1, 99), st.integers(1, 99)),
    st.integers(1, 50),
)
def test_the_loss_of_a_part_is_above_the_claim_and_grows_ever_more_slowly(scale, shape, shift):
    law = LaplaceShares(scale, shape)
    losses = [law.shift_loss(d) for d in (0, shift, shift + 1, 2 * shift)]
    assert losses[0] == 0
    assert losses[1] >= shift / scale - 1e-12
    assert losses[2] >= losses[1] - 1e-12
    assert losses[3] <= 2 * losses[1] + 1e-12
    assert losses[1] <= shift * law.shift_loss(1) * (1 + 1e-12) + 1e-12 * shift


# tails


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(10, 3), Fraction(30)])
@pytest.mark.parametrize("shape", [Fraction(1, 8), Fraction(1), Fraction(5, 4), Fraction(50)])
def test_a_tail_is_never_below_what_lies_there(scale, shape):
    law, reach = LaplaceShares(scale, shape), math.ceil(60 * scale) + 300
    chances = table(scale, shape, reach)
    for value in {1, 2, math.ceil(scale), math.ceil(10 * scale), math.ceil(25 * scale)}:
        true = 2 * math.fsum(chances[reach + value :])
        assert true <= law.tail(value) <= 1
    assert law.tail(0) == law.tail(-1) == 1


@given(SCALES, SHAPES, st.integers(0, 2**63))
def test_a_tail_falls(scale, shape, value):
    law = LaplaceShares(scale, shape)
    assert 0 <= law.tail(value + 1) <= law.tail(value) * (1 + 1e-12) <= 1 + 1e-12


def test_a_sum_of_a_thousand_sites_wraps_with_a_chance_below_2_to_the_minus_64():
    """docs/explanation/noise-shares.md: all sites' counts together stay below 2^62, and the noise of all below 2^61."""
    assert LaplaceShares(Fraction(2**32), Fraction(1000)).tail(2**61) < 2.0**-64
    assert 1000 * 2**40 * 2**12 < 2**62
    assert 2**62 + 2**61 < 2**63


@pytest.mark.parametrize("shape", [Fraction(1, 3), Fraction(2)])
@pytest.mark.parametrize("rate", [1e-3, 1e-9])
def test_a_sum_passes_its_bound_at_most_at_the_rate(shape, rate):
    law = LaplaceShares(Fraction(10, 3), shape)
    bound = law.bound(rate, 3)
    chances = table(law.scale, 3 * shape, 400)
    assert chances[np.arange(-400, 401) > bound].sum() <= rate < chances[np.arange(-400, 401) > 2 / 3 * bound - 2].sum()
    assert law.bound(rate, 3) == DiscreteLaplace(law.scale).bound(rate, 3 * float(shape))


# simulated draws


def share_strays(draws, law, places):
    """Whether too many or too few draws are as large as one of the places; false alarm 1e-9, all places together."""
    below = table(law.scale, law.shape, max(places))
    tails = [1 - math.fsum(below[np.abs(np.arange(-max(places), max(places) + 1)) < place]) for place in places]
    return any(
        outside(stats.binom(len(draws), tail), int((np.abs(draws) >= place).sum()), FALSE_ALARM / len(places))
        for place, tail in zip(places, tails, strict=True)
    )


@pytest.mark.parametrize("shape", [Fraction(1, 8), Fraction(1), Fraction(5, 4)])
def test_simulated_draws_have_the_law(shape):
    law = LaplaceShares(Fraction(30), shape)
    draws = law.simulate(np.random.default_rng(7), (20_000,))
    assert draws.dtype == np.int64
    assert not share_strays(draws, law, (1, 30, 90))
    assert not suspicious_centre(draws)


@pytest.mark.parametrize(("shape", "other"), [(Fraction(1, 8), Fraction(1, 9)), (Fraction(1), Fraction(7, 4))])
def test_simulated_draws_of_another_shape_are_noticed(shape, other):
    """Power 1 - 1e-6, by the exact law of the number of zeros."""
    n = 60_000
    zero, truth = (math.exp(LaplaceShares(Fraction(30), one).log_pmf(0)) for one in (shape, other))
    held, there = stats.binom(n, 1 - zero), stats.binom(n, 1 - truth)
    level = FALSE_ALARM / 6
    assert there.cdf(held.isf(level)) - there.cdf(held.ppf(level) - 1) < MISSED_ALARM
    draws = LaplaceShares(Fraction(30), other).simulate(np.random.default_rng(7), (n,))
    assert share_strays(draws, LaplaceShares(Fraction(30), shape), (1, 30, 90))


@pytest.mark.parametrize("scale", [Fraction(1, 2**32), Fraction(2**32)])
def test_the_least_and_the_largest_scale_are_simulated(scale):
    drawn = LaplaceShares(scale, Fraction(1, 3)).simulate(np.random.default_rng(3), (4, 5))
    assert (drawn.shape, drawn.dtype) == ((4, 5), np.int64)
    assert LaplaceShares(scale, Fraction(1, 3)).simulate(np.random.default_rng(3), (0, 2)).shape == (0, 2)


SCORES = st.lists(st.integers(-30, 30), min_size=1, max_size=6)
CHOICE_SCALES = st.fractions(min_value=Fraction(1, 8), max_value=50)


def permute_and_flip(scores, scale):
    """Candidates in random order, each taken with chance exp((score - largest) / scale): over all orders."""
    weights = [math.exp(float((score - max(scores)) / scale)) for score in scores]
    chances = [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for place in order:
            chances[place] += left * weights[place] / len(orders)
            left *= 1.0 - weights[place]
    return chances


@given(SCORES, CHOICE_SCALES)
def test_it_is_permute_and_flip(scores, scale):
    assert NoisyMax(scale).chances(np.array(scores)) == pytest.approx(permute_and_flip(scores, scale), rel=1e-9)


@pytest.mark.parametrize("one_way", [False, True])
@given(SCORES, CHOICE_SCALES, st.integers(1, 5), st.data())
def test_no_choice_tells_more_than_the_loss(one_way, scores, scale, moved, data):
    law, least = NoisyMax(scale, one_way), 0 if one_way else -moved
    others = [s + data.draw(st.integers(least, moved)) for s in scores]
    one, two = law.chances(np.array(scores)), law.chances(np.array(others))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log(one) - np.log(two))
    assert np.nanmax(ratios) <= float(law.loss(moved)) + 1e-8


def test_the_loss_is_attained_up_or_down_and_one_way():
    """Of two candidates far apart: the lower one gains `moved` while the upper one loses it."""
    law = NoisyMax(Fraction(1))
    far = [law.chances(np.array(scores)) for scores in ([0, 30], [1, 29], [1, 30])]
    losses = [abs(math.log(far[0][0]) - math.log(other[0])) for other in far[1:]]
    assert losses == pytest.approx([2, 1], abs=1e-9)
    assert (law.loss(1), NoisyMax(law.scale, one_way=True).loss(1)) == (2, 1)


def test_a_thousand_candidates_add_up():
    chances = NoisyMax(Fraction(40)).chances(np.arange(1000))
    assert chances.sum() == pytest.approx(1, abs=1e-10)
    assert (np.diff(chances) > 0).all()


def test_the_scale_of_a_choice_is_positive():
    with pytest.raises(ValueError, match="positive"):
        NoisyMax(Fraction(0))
