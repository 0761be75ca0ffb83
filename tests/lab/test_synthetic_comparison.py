"""The comparison of synthetic data: which data sets are made, the table, the page, the command, and a killed run."""

import csv
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

from expril.commands.app import app
from lab.peers.environment import PYTHON_VARIABLE, peers_python
from lab.problems import load_split
from lab.synthetic import comparison as module
from lab.synthetic.comparison import DISTANCES, Finished, Order, compare_synthetic, compute, synthetic_rows
from lab.synthetic.generators import GENERATORS
from lab.synthetic.tables import build_page, rows_csv
from lab.synthetic.utility import MEASURES
from protocol.errors import ConfigurationError
from simulations.campaign.store import Task

OURS = "cells"
SEED = 5000


def request(tmp_path, **changes):
    given = {"problems": ["wdbc"], "generators": [OURS, "source", "real", "fresh"], "epsilons": ["1", "0.1"], "runs": 1}
    rest = {"seed": SEED, "jobs": 1, "out": tmp_path, "command": "expril compare-synthetic"}
    return Order(**(given | rest | changes))


def cell(generator=OURS, epsilon="1", seed=0, dataset="A", **values):
    return Finished(dataset, generator, epsilon, seed, values, 1.0)


def test_rows_are_means_over_seeds_in_the_order_of_the_tables():
    cells = [
        cell(seed=1, wasserstein=3.0),
        cell("source", "inf", wasserstein=9.0),
        cell(seed=0, wasserstein=1.0),
        cell(epsilon="0.1", wasserstein=5.0),
    ]
    rows = [
        (r.generator, r.epsilon, r.mean, r.std, r.runs) for r in synthetic_rows(cells) if r.measure == "wasserstein"
    ]
    assert rows == [
        ("source", "inf", 9.0, 0.0, 1),
        (OURS, "1", 2.0, pytest.approx(2**0.5), 2),
        (OURS, "0.1", 5.0, 0.0, 1),
    ]
    parsed = list(csv.DictReader(rows_csv(synthetic_rows(cells)).splitlines()))
    assert parsed[2] == {
        "dataset": "A",
        "generator": OURS,
        "epsilon": "1",
        "measure": "wasserstein",
        "mean": "2.00",
        "std": "1.41",
        "runs": "2",
    }
    page = build_page(synthetic_rows(cells), None)
    assert f"| {OURS} | 1 | 2.0 ± 1.4 | 1.0 ± 0.0 | 2 |" in page


def test_what_is_not_private_is_made_once(tmp_path):
    tasks = request(tmp_path, runs=2).tasks()
    assert [(t.maker, t.epsilon) for t in tasks if t.seed == SEED] == [
        (OURS, "1"),
        (OURS, "0.1"),
        ("source", "inf"),
        ("real", "inf"),
        ("fresh", "inf"),
    ]
    assert len(tasks) == 10


@pytest.mark.slow
def test_our_rows_are_the_sources_own_and_stand_for_the_private_records():
    split = load_split("wdbc", SEED)
    made = GENERATORS[OURS].generate(split, Fraction(1))
    assert np.array_equal(made.matrix, split.matrices.source)
    # Real noise: 3 sites x 20 counts of variance 1.84, a deviation of 10.5 records in 428. False alarms below 1e-9.
    assert made.weights.sum() == pytest.approx(len(split.private), abs=6.5 * 10.5)
    assert made.share == pytest.approx(split.private_labels.mean(), abs=6.5 * 10.5 / 428)


def test_the_source_knows_the_majority_and_nothing_else():
    found = compute(Task("wdbc", "source", "inf", SEED)).values
    assert found["auc-logistic"] == found["auc-boosting"] == 50
    share = load_split("wdbc", SEED).private_labels.mean()
    assert found["label-gap"] == pytest.approx(100 * min(share, 1 - share), abs=1e-4)
    assert found["accuracy-logistic"] == found["accuracy-boosting"]


@pytest.mark.slow
def test_no_classifier_is_trained_on_the_test_records():
    assert compute(Task("wdbc", "fresh", "inf", SEED)).values.keys() == set(DISTANCES)
    real = compute(Task("wdbc", "real", "inf", SEED)).values
    assert real.keys() == MEASURES.keys()
    assert all(real[name] == 0 for name in DISTANCES)


@pytest.mark.slow
def test_a_second_call_computes_nothing_and_writes_the_same(tmp_path, monkeypatch):
    wanted = request(tmp_path, epsilons=["1"], generators=[OURS, "source"])
    first = compare_synthetic(wanted, lambda *_: None)
    assert {row.generator for row in first} == {OURS, "source"}
    text = (tmp_path / "synthetic.csv").read_text(encoding="utf-8")
    monkeypatch.setattr(module, "compute", lambda task: pytest.fail(f"computed again: {task}"))
    assert compare_synthetic(wanted, lambda *_: None) == first
    assert (tmp_path / "synthetic.csv").read_text(encoding="utf-8") == text
    page = (tmp_path / "synthetic.md").read_text(encoding="utf-8")
    assert "expril compare-synthetic" in page
    assert "opendp" in page
    with pytest.raises(ConfigurationError, match="begun with other settings"):
        compare_synthetic(request(tmp_path, seed=SEED + 1, generators=["source"]), lambda *_: None)


def test_without_an_environment_aim_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match="make peers"):
        compare_synthetic(request(tmp_path, generators=["aim"]), lambda *_: None)
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_it_wrote_and_what_it_does_not_know(tmp_path):
    runner = CliRunner()
    options = ["--datasets", "wdbc", "--runs", "1", "--seed", str(SEED), "--jobs", "1", "--out", str(tmp_path)]
    done = runner.invoke(app, ["compare-synthetic", "--generators", "source,fresh", *options])
    assert (done.exit_code, done.stdout) == (0, f"table: {tmp_path / 'synthetic.md'}\n")
    done = runner.invoke(app, ["compare-synthetic", "--generators", "mts", *options])
    assert done.exit_code == 2
    assert "did you mean 'mst'" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aim", "mst"])
def test_private_generators_find_structure_at_a_large_epsilon(name):
    try:
        peers_python()
    except ConfigurationError as error:
        pytest.skip(str(error))
    # At epsilon 50 noise is nothing: what is left is binning and sampling.
    split = load_split("A", SEED)
    made = GENERATORS[name].generate(split, Fraction(50))
    assert len(made.matrix) == pytest.approx(len(split.private), rel=0.02)
    assert made.share == pytest.approx(split.private_labels.mean(), abs=0.03)
    assert np.all((made.matrix >= split.matrices.lower) & (made.matrix <= split.matrices.upper))
