"""Losses by enumeration against the closed form, and laws that have none: shares of a secure sum."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from curator_node.mechanisms import float_not_below
from expril.audit.kinds.exact import (
    AGREEMENT,
    Table,
    laplace_table,
    loss_by_definition,
    loss_of_shift,
    loss_of_vectors,
)
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace

SCALES = st.builds(Fraction, st.integers(1, 60), st.integers(1, 20)).filter(lambda scale: scale >= Fraction(1, 20))


@settings(max_examples=40, deadline=None)
@given(SCALES, st.integers(-12, 12))
def test_a_shift_loses_its_size_over_the_scale(scale, shift):
    """From tables of the product's law, and from the definition in decimals; the closed form is used by neither."""
    claim = float(DiscreteLaplace(scale).loss(abs(shift)))
    found = loss_of_shift(laplace_table(scale, shift), shift)
    assert found.first == pytest.approx(claim, abs=AGREEMENT)
    assert found.second == pytest.approx(claim, abs=AGREEMENT)
    assert found.beyond < 1e-30
    assert loss_by_definition(scale, shift) == pytest.approx(claim, rel=1e-14, abs=1e-300)


@settings(max_examples=25, deadline=None)
@given(SCALES, st.lists(st.integers(-3, 3), min_size=1, max_size=4))
def test_a_vector_loses_its_l1_distance_and_never_more_than_the_claim(scale, moved):
    """The scale is the one that the noise library receives: not below the stated one, and within a float of it."""
    found = loss_of_vectors(np.zeros(len(moved), np.int64), np.array(moved), [scale] * len(moved))
    claim = DiscreteLaplace(scale).loss(sum(map(abs, moved)))
    assert found.loss == pytest.approx(float(claim), rel=1e-12, abs=1e-300)
    assert found.by_table == pytest.approx(float(claim), abs=AGREEMENT)
    assert not found.passes(claim)
    if any(moved):
        assert found.passes(claim * (1 - Fraction(1, 10**11)))
        assert found.passes(claim / 2)


def test_the_drawn_scale_is_never_below_the_stated_one():
    scale = Fraction(1000, 3)
    assert float_not_below(scale) > float(scale)
    assert loss_of_vectors(np.zeros(1, np.int64), np.ones(1, np.int64), [scale]).loss <= Fraction(3, 1000)


def test_vectors_of_mixed_scales_add_up():
    found = loss_of_vectors(np.array([0, 5, 7]), np.array([1, 5, 4]), [Fraction(2), Fraction(1), Fraction(6)])
    assert found.loss == pytest.approx(1 / 2 + 3 / 6, rel=1e-14)


def test_a_law_with_a_gap_loses_everything():
    gap = Table(0, np.array([0.5, 0.0, 0.5]), 0.0)
    assert loss_of_shift(gap, 1).worst == np.inf
    uneven = Table(0, np.array([0.2, 0.3, 0.5]), 0.0)
    found = loss_of_shift(uneven, 1)
    assert (found.first, found.second) == (pytest.approx(np.log(5 / 3)), 0.0)
    back = loss_of_shift(uneven, -1)
    assert (back.first, back.second) == (0.0, pytest.approx(np.log(5 / 3)))
    with pytest.raises(ConfigurationError, match="widen it"):
        loss_of_shift(uneven, 3)


def test_what_is_too_wide_is_refused():
    with pytest.raises(ConfigurationError, match="too wide"):
        laplace_table(Fraction(10**6), 1)
    with pytest.raises(ConfigurationError, match="loses too much"):
        laplace_table(Fraction(1, 100), 8)


# a sum over sites: PRIVACY.md, section 5


def share(shape, scale, reach):
    """NB(shape) - NB(shape), success 1 - exp(-1 / scale)."""
    law = stats.nbinom(shape, -np.expm1(-1 / scale))
    half = Table(0, law.pmf(np.arange(reach)), float(law.sf(reach - 1)))
    return half.minus(half)


def test_shares_of_all_sites_add_up_to_the_law_of_one():
    reach, scale, sites = 150, 3.0, 3
    total = each = share(1 / sites, scale, reach)
    for _ in range(sites - 1):
        total = total.plus(each)
    law = DiscreteLaplace(Fraction(3))
    middle = -total.lowest
    for k in range(-40, 41):
        assert total.chances[middle + k] == pytest.approx(np.exp(law.log_pmf(k)), rel=1e-9)
    near = Table(-40, total.chances[middle - 40 : middle + 41], 0.0)
    assert loss_of_shift(near, 1).worst == pytest.approx(1 / 3, abs=AGREEMENT)


@pytest.mark.parametrize(("known", "factor"), [(0.8, 3.06), (0.5, 13.6)])
def test_a_known_share_multiplies_the_loss(known, factor):
    """At scale 30: shape 0.8 loses 3.06 times the claim, shape 0.5 13.6 times. (Figures of PRIVACY.md.)"""
    table = share(known, 30.0, 1500)
    middle = -table.lowest
    near = Table(-400, table.chances[middle - 400 : middle + 401], 0.0)
    assert loss_of_shift(near, 1).worst * 30 == pytest.approx(factor, abs=0.06)
