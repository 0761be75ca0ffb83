"""The experiment on the learners' own estimates: its coin flips, and one run of it."""

import numpy as np
import pytest

from lab.estimates import COIN, DATASETS, _coins, compute
from lab.problems import PROBLEMS
from simulations.campaign.store import Task


def test_a_unit_has_one_coin():
    units = np.array(["b", "a", "b", "c", "a"] * 40, object)
    labels = _coins(0.5, 200, units, np.random.default_rng(0))
    assert all(len(set(labels[units == name])) == 1 for name in "abc")
    flips = _coins(0.3, 100_000, None, np.random.default_rng(0))
    assert flips.mean() == pytest.approx(0.3, abs=6.2 * (0.21 / 1e5) ** 0.5)


def test_every_problem_can_be_run_and_readmissions_with_larger_bounds():
    assert set(PROBLEMS) < set(DATASETS)
    assert {"readmission, c = 2", "readmission-30, c = 4"} < set(DATASETS)


@pytest.mark.slow
def test_a_run_says_what_was_expected_and_what_was_so():
    run = compute(Task("wdbc", COIN, "1", 5000))
    assert run.key == Task("wdbc", COIN, "1", 5000)
    assert run.auc == 0.5
    assert 1 - run.majority <= run.accuracy <= run.majority
    assert run.low <= run.expected <= run.high
    assert run.auc_low <= run.expected_auc <= run.auc_high


@pytest.mark.slow
def test_bounded_readmissions_have_at_most_so_many_records_a_patient():
    split = DATASETS["readmission, c = 2"](5000)
    for units, records in ((split.units.private, split.private), (split.units.test, split.test)):
        assert len(units) == len(records)
        assert np.unique(units, return_counts=True)[1].max() == 2
