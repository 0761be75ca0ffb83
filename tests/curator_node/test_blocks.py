"""Blocks of units: a keyed split that no other unit can move. And choices, and raw randomness."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from curator_fakes import dataset
from curator_node.kinds.statistics.estimates import SPLIT, block_values
from curator_node.mechanisms import OpenDPNoise, Stamp
from protocol.kinds import QUERY_KINDS
from protocol.kinds.statistic import PlannedStatistic
from protocol.kinds.statistics.items import Estimate, Grid
from protocol.kinds.statistics.methods import AggregateMean
from protocol.noise import NoisyMax
from protocol.odds import PrivacyUnit
from protocol.rationals import Rational
from simulations.seeded_noise import SeededNoise

STAMP = Stamp("ada", 0, 1)
AGES = st.lists(st.tuples(st.sampled_from(["p1", "p2", "p3", "p4", "p5"]), st.integers(0, 99)), min_size=2, max_size=12)


def rows_of(drawn):
    return tuple((unit, float(age), 0.0, "f", "no") for unit, age in drawn)


@settings(max_examples=40, deadline=None)
@given(AGES, st.integers(1, 7))
def test_removing_a_unit_moves_no_other_record(drawn, count):
    rows = rows_of(drawn)
    whole, gone = dataset(rows, most=20, unit=True).blocks(count, b"a"), rows[0][0]
    stay = [place for place, row in enumerate(rows) if row[0] != gone]
    assert ((whole >= 0) & (whole < count)).all()
    assert len({int(block) for place, block in enumerate(whole) if rows[place][0] == gone}) == 1
    if stay:
        rest = dataset(tuple(rows[place] for place in stay), most=20, unit=True).blocks(count, b"a")
        assert whole[stay].tolist() == rest.tolist()


test_removing_a_unit_moves_no_other_record_at_length = at_length(test_removing_a_unit_moves_no_other_record, 100)


@pytest.mark.parametrize("name", ["", "patient"])
def test_without_a_name_a_record_changes_its_block_by_what_no_estimate_reads(name):
    """Failure condition: what is stated of an attribute that is not read is less than what it moves a sum by."""
    grid, blocks = Grid(0.0, 100.0, 10), 8
    item = Estimate("mean", ("age",), grid)

    def said(other):
        rows = (("p1", 100.0, other, "f", "no"), *((f"p{n}", 0.0, float(n), "f", "no") for n in range(30, 60)))
        held = dataset(rows, unit=bool(name))
        return int(block_values(held, item, held.blocks(blocks, SPLIT), blocks).sum())

    moved = max(abs(said(float(other)) - said(0.0)) for other in range(20))
    method = AggregateMean(blocks=blocks, steps=10, scale=Rational(30, 1))
    for statistics in (1, 5):
        planned = PlannedStatistic(method=method, statistics=statistics)
        stated = QUERY_KINDS.odds(planned, PrivacyUnit(1, name), 0).attribute
        assert stated >= statistics * method.law.loss(moved)
    assert bool(moved) == (not name)


def test_another_name_is_another_split_and_blocks_are_about_even():
    held = dataset(tuple((f"p{n}", n / 10, 0.0, "f", "no") for n in range(1000)), unit=True)
    one, two = held.blocks(4, b"one"), held.blocks(4, b"two")
    assert not np.array_equal(one, two)
    # A block of 1000 units by chance 1/4 is within 7 deviations of 250 but for 1e-11.
    assert np.abs(np.bincount(one, minlength=4) - 250).max() < 7 * math.sqrt(1000 * 3 / 16)


@pytest.mark.slow
def test_the_curators_choice_has_the_law():
    """20,000 choices among four: a chi-square of 3 degrees above 48 has a chance of 2e-10."""
    law, scores = NoisyMax(2), np.array([0, 1, 3, 2])
    noise = OpenDPNoise()
    found = np.bincount([noise.choose(scores, 1, law, STAMP) for _ in range(20_000)], minlength=4)
    wanted = 20_000 * law.chances(scores)
    assert ((found - wanted) ** 2 / wanted).sum() < 48


def test_raw_bytes_are_fresh_and_a_seeds_are_not():
    noise = OpenDPNoise()
    assert len({noise.randomness(STAMP)(16) for _ in range(3)}) == 3
    seeded = [SeededNoise(1, "basel").randomness(STAMP)(16) for _ in range(2)]
    assert seeded[0] == seeded[1] != SeededNoise(2, "basel").randomness(STAMP)(16)
    picks = [SeededNoise(1, "basel").choose(np.arange(9), 1, NoisyMax(9), STAMP) for _ in range(2)]
    assert picks[0] == picks[1]
