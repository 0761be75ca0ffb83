"""Quantiles: scores and smooth sensitivity against slow definitions, over drawn neighbours; the law of what is told."""

import math
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from curator_node.kinds.statistics import quantiles
from curator_node.kinds.statistics.heavy_tails import draw_rounded
from generators_statistic import counts_and_unit
from protocol.kinds.statistics.methods import POLYNOMIALS, Exponential, Smooth, decay_factor, distribution
from protocol.noise import NoisyMax
from protocol.rationals import Rational

SIDES = st.sampled_from([(1, 1), (1, 3), (3, 1), (9, 1), (1, 99), (2, 3)])
BETAS = st.sampled_from([Fraction(1, 100), Fraction(1, 8), Fraction(1), Fraction(7, 3)])
UNITS = st.integers(1, 3)


def values_of(counts):
    return [value for value, count in enumerate(counts) for _ in range(count)]


@given(counts_and_unit(1), SIDES)
def test_scores_are_ranks_from_the_quantile(pair, sides):
    counts, (above, below) = pair[1], sides
    values = values_of(counts)
    for point, score in enumerate(quantiles.rank_scores(counts, above, below)):
        under, over = sum(value < point for value in values), sum(value > point for value in values)
        whole = above + below
        missing = max(0, whole * under - above * len(values), whole * over - below * len(values))
        assert score == -missing


@given(UNITS.flatmap(lambda c: st.tuples(st.just(c), counts_and_unit(c))), SIDES)
def test_a_unit_moves_scores_by_the_sensitivity_at_most(case, sides):
    most, (fewer, more) = case
    method = Exponential(Rational(1, 1), max(sides))
    moved = np.abs(quantiles.rank_scores(fewer, *sides) - quantiles.rank_scores(more, *sides))
    assert moved.max() <= method.sensitivity(most)


@given(st.integers(1, 6).flatmap(lambda k: st.lists(st.integers(0, 5), min_size=k, max_size=k)), st.integers(0, 5))
def test_a_replaced_block_moves_scores_by_one_at_most(values, other):
    scores = [quantiles.block_scores(np.bincount(each, minlength=6)) for each in (values, [other, *values[1:]])]
    assert np.abs(scores[0] - scores[1]).max() <= 1
    assert scores[0].max() == 0
    assert scores[0][sorted(values)[(len(values) - 1) // 2]] == 0


@given(counts_and_unit(1), SIDES)
def test_the_quantile_is_an_order_statistic(pair, sides):
    counts, (above, below) = pair[0], sides
    values = values_of(counts)
    rank = math.ceil(Fraction(above, above + below) * len(values))
    assert quantiles.quantile(counts, above, below) == (values[rank - 1] if values else 0)


@given(BETAS)
def test_the_decay_is_no_faster_than_exponential(beta):
    factors = quantiles.decay(beta).tolist()
    assert factors[0] == quantiles.ONE
    assert float(decay_factor(beta)) >= math.exp(-beta)
    for one, two in zip(factors, [*factors[1:], factors[-1]], strict=True):
        assert two <= one
        assert Fraction(one) * decay_factor(beta) <= two


@given(UNITS.flatmap(lambda c: st.tuples(st.just(c), counts_and_unit(c))), SIDES, BETAS)
def test_smooth_sensitivities_of_neighbours_are_within_a_factor(case, sides, beta):
    most, pair = case
    fewer, more = (quantiles.smooth_sensitivity(counts, *sides, beta, most) for counts in pair)
    assert max(fewer, more) * decay_factor(beta) <= min(fewer, more)
    moved = abs(quantiles.quantile(pair[0], *sides) - quantiles.quantile(pair[1], *sides))
    assert moved * quantiles.ONE <= min(fewer, more)


@pytest.mark.parametrize("sides", [(1, 1), (1, 3), (9, 1)])
def test_it_bounds_the_definition_over_all_small_data_sets(sides):
    """On three points, up to five records: the largest of exp(-beta k) times the local sensitivity k records away.

    Data sets as far away as six records are walked; beyond, the definition's factor is below 0.003 of the grid.
    """
    beta = Fraction(1)
    grid = [
        np.bincount(values, minlength=3)
        for size in range(12)
        for values in combinations_with_replacement(range(3), size)
    ]
    known = {tuple(counts): quantiles.quantile(counts, *sides) for counts in grid}

    def neighbours(counts):
        for point in range(3):
            for change in (-1, 1):
                other = tuple(count + change * (at == point) for at, count in enumerate(counts))
                if min(other) >= 0 and other in known:
                    yield other

    local = {own: max(abs(known[own] - known[other]) for other in neighbours(own)) for own in known if sum(own) < 11}
    for own in [each for each in known if sum(each) <= 5]:
        wanted = max(
            math.exp(-beta * sum(abs(a - b) for a, b in zip(own, other, strict=True))) * found
            for other, found in local.items()
            if sum(abs(a - b) for a, b in zip(own, other, strict=True)) <= 6
        )
        found = quantiles.smooth_sensitivity(np.array(own), *sides, beta, 1) / quantiles.ONE
        assert found >= wanted - 1e-9


def law_of(counts, sides, method, most):
    """Chance of each point that is released, from the distribution function in floats."""
    scale = float(method.scale.fraction) * quantiles.smooth_sensitivity(counts, *sides, method.decay.fraction, most)
    centre, last = quantiles.quantile(counts, *sides), len(counts) - 1
    below = [distribution(method.degrees, (2 * (y - centre) + 1) / 2 / (scale / quantiles.ONE)) for y in range(last)]
    return np.diff([0.0, *below, 1.0])


METHODS = st.builds(
    Smooth,
    st.sampled_from([Rational(1, 2), Rational(3, 1), Rational(12, 1)]),
    st.sampled_from([Rational(1, 10), Rational(1, 2), Rational(2, 1)]),
    st.sampled_from(sorted(POLYNOMIALS)),
)


@settings(max_examples=30, deadline=None)
@given(UNITS.flatmap(lambda c: st.tuples(st.just(c), counts_and_unit(c))), SIDES, METHODS)
def test_no_point_tells_more_than_the_cost(case, sides, method):
    """By enumeration, in floats: of the smallest chances only 1e-6 digits are right."""
    most, pair = case
    one, two = (law_of(counts, sides, method, most) for counts in pair)
    seen = np.minimum(one, two) > 1e-9
    assert np.abs(np.log(one[seen] / two[seen])).max(initial=0.0) <= float(method.cost(most)) + 1e-5


test_no_point_tells_more_than_the_cost_at_length = at_length(test_no_point_tells_more_than_the_cost, 100)


@pytest.mark.parametrize("degrees", sorted(POLYNOMIALS))
def test_draws_have_the_law(degrees):
    """5,000 draws on nine points; a chi-square of 8 degrees above 60 has a chance of 5e-10.

    A law whose chances are a fifth too high in half of the points gives 200 on average, and is noticed.
    """
    rng = np.random.default_rng(7)
    scale = Fraction(7, 5)
    found = np.bincount([draw_rounded(3, scale, degrees, 8, rng.bytes) for _ in range(5_000)], minlength=9)
    below = [distribution(degrees, (y + 0.5 - 3) / 1.4) for y in range(8)]
    wanted = 5_000 * np.diff([0.0, *below, 1.0])
    assert ((found - wanted) ** 2 / wanted).sum() < 60


@given(st.integers(0, 2**64 - 1), st.integers(0, 30), st.fractions(Fraction(1, 50), 50), st.sampled_from([2, 4, 6]))
def test_a_draw_is_the_quantile_of_its_uniform_number(word, centre, scale, degrees):
    """At most y where the number is below the distribution function at y + 1/2, but for the rounding of this test."""
    drawn = draw_rounded(centre, scale, degrees, 30, lambda size: word.to_bytes(size, "little"))
    uniform, slack = word / 2**64, 1e-12
    if drawn < 30:
        assert uniform <= distribution(degrees, float((drawn - centre + Fraction(1, 2)) / scale)) + slack
    if drawn > 0:
        assert uniform >= distribution(degrees, float((drawn - centre - Fraction(1, 2)) / scale)) - slack


@pytest.mark.parametrize(("further", "drawn"), [(0, 0), (2**64 - 1, 1)])
def test_more_bits_are_read_where_the_first_do_not_tell(further, drawn):
    """At scale 1 the number is 0 below the distribution function at 1/2, which is (1 + 1 / sqrt(5)) / 2 for d = 2."""
    words = iter([(2**64 + math.isqrt(2**128 // 5)) // 2, further])
    assert draw_rounded(0, Fraction(1), 2, 1, lambda size: next(words).to_bytes(size, "little")) == drawn
    assert next(words, None) is None


def test_what_is_not_random_is_refused():
    with pytest.raises(ArithmeticError, match="random bytes"):
        draw_rounded(0, Fraction(1), 4, 9, lambda size: bytes(size - 1))


def test_a_large_grid_and_few_records():
    """Of no record, and of one: the whole range may be told, and every chance is positive."""
    counts = np.zeros(1001, np.int64)
    for held in (counts, counts + (np.arange(1001) == 500)):
        sensitivity = quantiles.smooth_sensitivity(held, 1, 1, Fraction(1, 8), 1)
        assert sensitivity >= 500 * quantiles.ONE
    assert NoisyMax(Fraction(1)).chances(quantiles.rank_scores(counts, 1, 1)) == pytest.approx(1 / 1001)
