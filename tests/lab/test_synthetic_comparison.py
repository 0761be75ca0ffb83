"""The comparison of synthetic data: which data sets are made, its table, the command, and a killed run."""

import csv
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from expril.report.files import csv_table
from expril.report.markdown import as_markdown
from expril.report.page import as_page
from lab.__main__ import app
from lab.peers.environment import PYTHON_VARIABLE, peers_python
from lab.problems import load_split
from lab.study import Order
from lab.synthetic import DISTANCES, GENERATORS, MEASURES, STUDY, Finished, compute, document, findings, tasks
from page_outline import Outline
from protocol.errors import ConfigurationError
from simulations.campaign.store import Task

OURS = "cells"
SEED = 5000
DOCS = Path(__file__).parents[2] / "docs"


def request(out, *, generators="cells,source,real,fresh", epsilons=("1", "1/10"), runs=1, seed=SEED):
    size = STUDY.size(repeats=runs, epsilons=epsilons, only=["datasets=wdbc", f"generators={generators}"])
    return Order(size, seed, out, "typed here")


def cell(generator=OURS, epsilon="1", seed=0, dataset="A", **values):
    return Finished(dataset, generator, epsilon, seed, values, 1.0)


def test_rows_are_means_over_seeds_in_the_order_of_the_tables():
    cells = [
        cell(seed=1, wasserstein=3.0),
        cell("source", "inf", wasserstein=9.0),
        cell(seed=0, wasserstein=1.0),
        cell(epsilon="0.1", wasserstein=5.0),
    ]
    found = findings({"cells": cells})
    rows = [(r.generator, r.epsilon, r.mean, r.std, r.runs) for r in found.rows if r.measure == "wasserstein"]
    assert rows == [
        ("source", "inf", 9.0, 0.0, 1),
        (OURS, "1", 2.0, pytest.approx(2**0.5), 2),
        (OURS, "0.1", 5.0, 0.0, 1),
    ]
    parsed = list(csv.DictReader(csv_table(document(found).files["synthetic.csv"]).splitlines()))
    assert parsed[2] == {
        "dataset": "A",
        "generator": OURS,
        "epsilon": "1",
        "measure": "wasserstein",
        "mean": "2.00",
        "std": "1.41",
        "runs": "2",
    }
    assert f"| {OURS} | 1 | 2.0 ± 1.4 | 1.0 ± 0.0 | 2 |" in as_markdown(document(found))
    assert Outline(as_page(document(found))).count("table") == 1
    assert not document(findings({"cells": []})).in_medium("terminal")


def test_what_is_not_private_is_made_once(tmp_path):
    wanted = tasks(request(tmp_path, runs=2))
    assert [(t.maker, t.epsilon) for t in wanted if t.seed == SEED] == [
        (OURS, "1"),
        (OURS, "0.1"),
        ("source", "inf"),
        ("real", "inf"),
        ("fresh", "inf"),
    ]
    assert len(wanted) == 10


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
    wanted = request(tmp_path, epsilons=["1"], generators="cells,source")
    first = STUDY.run(wanted)
    text = (tmp_path / "synthetic.csv").read_text(encoding="utf-8")
    assert {row["generator"] for row in csv.DictReader(text.splitlines())} == {OURS, "source"}
    for name in (OURS, "source"):
        monkeypatch.setitem(GENERATORS, name, replace(GENERATORS[name], generate=lambda *_: pytest.fail("made again")))
    kept = (tmp_path / "cells.jsonl").read_bytes()
    assert STUDY.run(wanted).files["synthetic.csv"].groups == first.files["synthetic.csv"].groups
    assert (tmp_path / "cells.jsonl").read_bytes() == kept
    assert (tmp_path / "synthetic.csv").read_text(encoding="utf-8") == text
    told = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "typed here" in told
    assert "opendp" in told
    with pytest.raises(ConfigurationError, match="begun with other settings"):
        STUDY.run(request(tmp_path, seed=SEED + 1, generators="source"))


def test_without_an_environment_aim_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match="make peers"):
        STUDY.run(request(tmp_path, generators="aim"))
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_it_wrote_and_what_it_does_not_know(tmp_path):
    runner = CliRunner()
    options = ["--only", "datasets=wdbc", "--repeats", "1", "--seed", str(SEED), "--jobs", "1", "--out", str(tmp_path)]
    done = runner.invoke(app, ["study", "synthetic", "--only", "generators=source,fresh", *options])
    assert done.exit_code == 0, done.output
    assert f"report: {tmp_path / 'synthetic' / 'report.html'}\n" in done.stdout
    done = runner.invoke(app, ["study", "synthetic", "--only", "generators=mts", *options])
    assert done.exit_code == 2
    assert "did you mean 'mst'" in done.stderr


def test_the_published_table_is_that_of_its_cells_and_docs_synthetic_tells_it():
    found = findings(STUDY.cells(DOCS / "learning" / "synthetic"))
    text = csv_table(document(found).files["synthetic.csv"])
    assert (DOCS / "learning" / "synthetic" / "synthetic.csv").read_text(encoding="utf-8") == text
    means = {(r.dataset, r.generator, r.epsilon): r.mean for r in found.rows if r.measure == "accuracy-boosting"}
    marginals = {(r.dataset, r.generator, r.epsilon): r.mean for r in found.rows if r.measure == "marginal-tv"}
    datasets = list(dict.fromkeys(dataset for dataset, *_ in means))
    told = (DOCS / "synthetic.md").read_text(encoding="utf-8")
    for name, maker in (("ours", OURS), ("AIM", "aim"), ("MST", "mst")):
        cells = (f"{means[each, maker, '1']:.1f} / {means[each, maker, '0.1']:.1f}" for each in datasets)
        assert f"| {name} | {' | '.join(cells)} |" in told
    real = (f"{means[each, 'real', 'inf']:.1f}" for each in datasets)
    assert f"| the private records | {' | '.join(real)} |" in told
    assert f"({marginals['C', 'source', 'inf']:.1f} points apart, ours {marginals['C', OURS, '1']:.1f})" in told


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
