"""The law of a noisy choice against its definition, and against sequential permute and flip."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.noise import NoisyMax

SCORES = st.lists(st.integers(-30, 30), min_size=1, max_size=6)
SCALES = st.fractions(min_value=Fraction(1, 8), max_value=50)


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


@given(SCORES, SCALES)
def test_it_is_permute_and_flip(scores, scale):
    assert NoisyMax(scale).chances(np.array(scores)) == pytest.approx(permute_and_flip(scores, scale), rel=1e-9)


@pytest.mark.parametrize("one_way", [False, True])
@given(SCORES, SCALES, st.integers(1, 5), st.data())
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


def test_a_scale_is_positive():
    with pytest.raises(ValueError, match="positive"):
        NoisyMax(Fraction(0))
