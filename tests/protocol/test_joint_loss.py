"""The price of smooth sensitivity: never below the true loss, by independent numerics, and hardly above it."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.kinds.statistics.joint_loss import ONE, PRICES, _log, _root, joint_loss
from protocol.kinds.statistics.methods import Degrees, Smooth, decay_factor
from protocol.rationals import Rational

DEGREES: tuple[Degrees, ...] = (2, 4, 6)
SCALES = tuple(map(Fraction, ("1/100", "1/2", "1", "2", "3", "5", "10", "50", "1000")))
DECAYS = tuple(map(Fraction, ("1/10000", "1/100", "1/16", "1/8", "1/4", "1", "10")))
PRECISE = mpmath.mp.clone()
PRECISE.prec = 400


def smooth(degrees, scale, beta, version=2):
    return Smooth(Rational.of(scale), Rational.of(beta), degrees=degrees, version=version)


def found_loss(degrees, shift, stretch):
    """The largest log-ratio of densities over outcomes, centres and scales, by a search without the proof.

    The first law has centre 0 and scale 1, the second centre `move` and scale r; `move` is at most `shift` times the
    smaller scale. Outcomes lie on a fine grid of angles, z = tan(angle), that reaches far out.
    """
    z = np.tan(np.linspace(-np.pi / 2, np.pi / 2, 2_001)[1:-1])
    worst = 0.0
    for log_ratio in np.linspace(-math.log(stretch), math.log(stretch), 9):
        ratio = math.exp(log_ratio)
        for share in (-1.0, -0.5, 0.0, 0.5, 1.0):
            move = share * shift * min(1.0, ratio)
            power = (degrees + 1) / 2
            logs = power * (np.log1p(((z - move) / ratio) ** 2) - np.log1p(z * z)) + log_ratio
            worst = max(worst, float(np.abs(logs).max()))
    return worst


@pytest.mark.parametrize("degrees", DEGREES)
def test_the_price_is_the_largest_loss_that_a_search_finds_rounded_up(degrees):
    for scale, beta in itertools.product(SCALES, DECAYS):
        shift, stretch = 1 / scale, 1 / decay_factor(beta)
        price = joint_loss(degrees, shift, stretch)
        loss = found_loss(degrees, float(shift), float(stretch))
        assert loss <= price + Fraction(1, 10**9), (scale, beta)  # the search adds up floats
        assert price < loss * 1.001 + 2e-6, (scale, beta)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(DEGREES),
    st.fractions(Fraction(1, 1000), 1000, max_denominator=1000),
    st.fractions(Fraction(1, 10_000), 10, max_denominator=10_000),
)
def test_no_price_is_below_a_loss_or_above_the_sum(degrees, scale, beta):
    method = smooth(degrees, scale, beta)
    shift, stretch = 1 / scale, 1 / decay_factor(beta)
    assert found_loss(degrees, float(shift), float(stretch)) <= float(method.cost(1)) * (1 + 1e-9) + 1e-9
    assert method.cost(1) <= smooth(degrees, scale, beta, version=1).cost(1)
    assert (method.cost(1) * PRICES).denominator == 1


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_released_grid_points_lose_no_more_than_the_price(data):
    """The discrete law itself: rounded to 0 .. M and moved to the ends, for any centres and scales that are allowed.

    Chances are differences of the distribution function in 400 bits, so those far out are as exact as the others.
    """
    degrees = data.draw(st.sampled_from(DEGREES))
    scale = data.draw(st.sampled_from(SCALES[1:-1]))
    beta = data.draw(st.sampled_from(DECAYS))
    most = data.draw(st.integers(1, 12))
    stretch = 1 / decay_factor(beta)
    smaller = data.draw(st.fractions(Fraction(1, 4), 20, max_denominator=64))
    larger = smaller * data.draw(st.sampled_from([Fraction(1), (1 + stretch) / 2, stretch]))
    centre = data.draw(st.integers(0, most))
    other = data.draw(st.integers(max(0, centre - math.floor(smaller)), min(most, centre + math.floor(smaller))))
    one = chances(degrees, centre, scale * smaller, most)
    two = chances(degrees, other, scale * larger, most)
    loss = max(abs(PRECISE.log(a / b)) for a, b in zip(one, two, strict=True))
    price = smooth(degrees, scale, beta).cost(1)
    assert loss <= PRECISE.mpf(price.numerator) / price.denominator


def chances(degrees, centre, scale, most):
    """Of each point 0 .. most: the integral of Student's density around it, the ends with all that lies beyond."""

    def above(z):
        """P(Z > z), as a regularised incomplete beta function for z >= 0."""
        tail = PRECISE.betainc(PRECISE.mpf(degrees) / 2, PRECISE.mpf(1) / 2, 0, 1 / (1 + z * z), regularized=True) / 2
        return tail if z >= 0 else 1 - tail

    ends = [PRECISE.mpf(Fraction(2 * y + 1 - 2 * centre, 2).numerator) / 2 for y in range(most)]
    tails = [above(end * scale.denominator / scale.numerator) for end in ends]
    return [high - low for high, low in itertools.pairwise([PRECISE.mpf(1), *tails, PRECISE.mpf(0)])]


def test_rounding_goes_up_alone():
    """Logarithms and roots of numbers near 1, of large ones and of powers of two, against 400 bits."""
    for value in (
        Fraction(1),
        1 + Fraction(1, 2**40),
        Fraction(5, 4),
        Fraction(2),
        Fraction(10**9, 7),
        Fraction(2**64),
    ):
        parts = math.ceil(value * ONE)
        log = PRECISE.log(PRECISE.mpf(parts) / ONE) * ONE
        assert log <= _log(parts) <= log + 2**13
        assert (_root(parts) - 1) ** 2 < parts <= _root(parts) ** 2
    assert _root(0) == 0


def test_a_price_is_the_same_for_ever():
    """What a ledger holds must be found again: these are exact, on any machine."""
    told = {
        (2, "2", "1/8"): 784_459,
        (4, "5", "1/8"): 749_790,
        (6, "7", "1/10"): 839_227,
        (4, "1/100", "10"): 23_026_351,
    }
    for (degrees, scale, beta), price in told.items():
        assert smooth(degrees, Fraction(scale), Fraction(beta)).cost(1) == Fraction(price, PRICES)
