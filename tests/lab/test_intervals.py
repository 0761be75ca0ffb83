"""The study of intervals: its design, its simulated answers, and its bars."""

import numpy as np
import pytest

from lab.intervals.answers import CORRELATION, draw_records, noise_of
from lab.intervals.case import Interval, TrueNull
from lab.intervals.design import DESIGN, DROPOUT, OWN, SECURE, SETTINGS, Condition, covering, pairs, possible
from lab.intervals.of_tables import Joint, correlated_counts, product
from lab.intervals.study import LEAST, MOST, Batch, Tally, bars, document, findings


def test_every_pair_of_levels_that_can_meet_meets():
    assert len(DESIGN) == len(set(covering())) == SETTINGS >= 24
    assert pairs(covering()).keys() == pairs(possible()).keys()


@pytest.mark.parametrize(("noise", "draws"), [(OWN, 4), (SECURE, 4 / 3), (DROPOUT, 2)])
def test_four_sites_bring_so_many_draws(noise, draws):
    law = noise_of(Condition("0.3", 100, 4, noise, 3))
    assert (law.scale, law.draws) == (pytest.approx(10), pytest.approx(draws))


def test_records_of_a_unit_are_correlated_and_have_the_law_of_one():
    condition = Condition("1", 30_000, 1, OWN, 3)
    joint = Joint(("a",), np.array([0.7, 0.3]))
    values = draw_records(joint.draw, condition, np.random.default_rng(1))["a"].reshape(-1, 3)
    assert values.mean() == pytest.approx(0.3, abs=0.015)
    assert np.corrcoef(values[:, 0], values[:, 1])[0, 1] == pytest.approx(CORRELATION, abs=0.04)


def test_a_table_has_the_records_of_all_sites():
    condition = Condition("3", 1000, 4, SECURE, 1)
    table = correlated_counts(product((0.5, 0.5), (0.2, 0.8)), condition, np.random.default_rng(2))
    assert table.sum() == pytest.approx(4000, abs=20)
    assert table[:, 0].sum() == pytest.approx(800, abs=150)


def test_bars_forgive_the_error_of_the_repeats_and_no_more():
    least, most = bars(Tally(repeats=2000, narrow=2000), 24)
    assert LEAST - 0.03 < least < LEAST
    assert MOST < most < 1
    assert bars(Tally(repeats=2000, narrow=100), 24)[1] == 1.0
    assert bars(Tally(repeats=400), 24)[0] < least


def test_a_fault_is_reported():
    good, bad = Tally(), Tally()
    for _ in range(2000):
        good.add(Interval("mean", -1.0, 1.0, 0.5))
        bad.add(TrueNull("test", 0.01))
    setting = next(iter(DESIGN))
    case = "tests: three even groups"
    results = findings({"batches": [Batch(case, setting, "1", 1, {"mean": good, "test": bad})]})
    assert {row.quantity: row.fault for row in results.rows} == {"mean": "wide", "test": "rejects"}
    assert "miss" in document(results).summary[0]


def test_an_interval_without_an_end_says_nothing():
    assert not Interval("odds ratio", 0.0, np.inf, 2.0).narrow
    assert Interval("share", 0.0, 0.4, 0.2, (0.0, 1.0)).narrow
    assert not Interval("share", 0.0, 0.6, 0.2, (0.0, 1.0)).narrow
    assert Interval("count", 3.0, 3.0, 3.0).covers
