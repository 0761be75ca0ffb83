"""The study of the learners' own estimates: its coin flips, one run, its table."""

from pathlib import Path

import numpy as np
import pytest

from expril.report.markdown import table
from lab.cells import Run
from lab.estimates import COIN, DATASETS, MEASURES, OWN, STUDY, _coins, compute
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
    told = run.numbers
    assert told["auc"] == 0.5
    assert 1 - told["majority"] <= told["accuracy"] <= told["majority"]
    assert told["low"] <= told["expected"] <= told["high"]
    assert told["auc_low"] <= told["expected_auc"] <= told["auc_high"]
    assert told.keys() >= MEASURES.keys()


@pytest.mark.slow
def test_bounded_readmissions_have_at_most_so_many_records_a_patient():
    split = DATASETS["readmission, c = 2"](5000)
    for units, records in ((split.units.private, split.private), (split.units.test, split.test)):
        assert len(units) == len(records)
        assert np.unique(units, return_counts=True)[1].max() == 2


def estimate(dataset, seed, expected, **changes):
    """A run whose accuracy is .8 and whose AUC is as it was told."""
    known = {
        "expected": expected, "accuracy": 0.8, "majority": 0.6, "low": expected - 0.1,
        "high": expected + 0.1, "holds": True, "verdict": True, "auc": 0.9, "expected_auc": 0.9, "auc_low": 0.8,
        "auc_high": 1.0, "auc_holds": True, "ranks": True, "error_before": 0.1, "error_after": 0.05,
    }  # fmt: skip
    return Run(dataset, OWN, "0.3", seed, known | changes, 1.0)


def test_bias_and_coverage_are_those_of_the_runs_and_marked_where_they_miss():
    runs = [estimate("A", seed, 0.81) for seed in range(2)] + [
        estimate("heart", seed, 0.9 + 0.001 * seed, holds=False) for seed in range(20)
    ]
    found = STUDY.findings({"runs": runs}, None)
    assert [(row.names[2], row.runs) for row in found.rows] == [("all", 22), ("A", 2), ("heart", 20)]
    coverage, means = STUDY.document(found).sections[0].blocks[1:]
    page = (Path(__file__).resolve().parents[2] / "docs" / "uncertainty.md").read_text(encoding="utf-8")
    head, _, *rows = table(coverage).splitlines()
    assert head in page
    assert rows[1] == "| 0.3 | A | +1.0 ± 0.0 | 10.0 | 1.00 | +0.0 ± 0.0 | 10.0 | 1.00 |"
    assert rows[2] == "| 0.3 | heart | +10.9 ± 0.1 (!) | 10.0 | 0.00 (!) | +0.0 ± 0.0 | 10.0 | 1.00 |"
    assert "0.910" in table(means).splitlines()[4]
