"""The comparison of synthetic data: which data sets are made, its table, the command, and a killed run."""

import csv
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from expril.report.files import as_markdown, csv_table
from expril.report.page import as_page
from lab.__main__ import app
from lab.measures import scores
from lab.peers.environment import PYTHON_VARIABLE, peers_python
from lab.problems import load_split
from lab.study import Order
from lab.synthetic import (
    DISTANCES,
    GENERATORS,
    MEASURES,
    STUDY,
    Columns,
    Finished,
    WeightedRecords,
    compute,
    document,
    findings,
    gradient_boosting,
    logistic_regression,
    range_wasserstein,
    tasks,
    utility,
    variation,
)
from page_outline import Outline
from protocol.errors import ConfigurationError
from simulations.campaign.store import Task

NAMES = ("age", "sex=f", "sex=m")
COLUMNS = Columns.of(NAMES, np.array([0.0, 0.0, 0.0]), np.array([100.0, 1.0, 1.0]))


def people(ages, sexes, labels, weights=None):
    matrix = np.array([[age, sex == "f", sex == "m"] for age, sex in zip(ages, sexes, strict=True)], float)
    weights = np.ones(len(matrix)) if weights is None else np.array(weights, float)
    return WeightedRecords(matrix, weights, np.array(labels, float))


def blobs(n, seed, gap=2.0):
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.4
    return rng.normal(size=(n, 3)) + gap * labels[:, None], labels


def test_total_variation_by_hand():
    left = people([5, 15, 15, 95], "ffmm", [0, 1, 1, 0])
    right = people([5, 5, 15, 95], "ffff", [0, 0, 1, 1])
    # age: (1, 2, 1)/4 against (2, 1, 1)/4 in the bins 0, 1, 9: 1/4; sex: (2, 2)/4 against (4, 0)/4: 1/2.
    marginal, pair = variation(left, right, COLUMNS.attributes)
    assert marginal == pytest.approx((1 / 4 + 1 / 2) / 2)
    # age and sex: 0f 1|2, 1f 1|1, 1m 1|0, 9m 1|0, 9f 0|1: 1/2 * 4/4 = 1/2
    # age and label: 0- 1|2, 1+ 2|1, 9- 1|0, 9+ 0|1: 1/2; sex and label: f- 1|2, f+ 1|2, m+ 1|0, m- 1|0: 1/2
    assert pair == pytest.approx(1 / 2)


def test_soft_labels_are_parts_of_rows():
    left = people([5, 5], "ff", [0.25, 0.75])
    right = people([5, 5], "ff", [0, 1])
    assert variation(left, right, COLUMNS.attributes) == (0.0, 0.0)
    assert variation(people([5, 5], "ff", [0.25, 0.25]), right, COLUMNS.attributes)[1] == pytest.approx(2 / 3 * 0.25)
    matrix, labels, weights = people([1, 2], "fm", [0.25, 1], [4, 3]).hard()
    assert (matrix[:, 0].tolist(), labels.tolist(), weights.tolist()) == ([1, 1, 2], [0, 1, 1], [3, 1, 3])


def distance(left, right, left_weights, right_weights):
    """Of one number whose range is [-4, 6], in its own unit."""
    columns = Columns.of(("x",), np.array([-4.0]), np.array([6.0]))
    sides = [
        WeightedRecords(np.array(values, float)[:, None], np.array(weights, float), np.zeros(len(values)))
        for values, weights in ((left, left_weights), (right, right_weights))
    ]
    return 10 * range_wasserstein(*sides, columns)


@pytest.mark.parametrize(
    ("left", "right", "weights", "expected"),
    [
        ([0.0], [1.0], ([1.0], [5.0]), 1.0),
        ([0.0, 2.0], [1.0], ([1.0, 1.0], [1.0]), 1.0),
        ([0.0, 1.0], [0.0, 1.0], ([3.0, 1.0], [1.0, 1.0]), 0.25),
    ],
)
def test_wasserstein_by_hand(left, right, weights, expected):
    assert distance(left, right, *weights) == pytest.approx(expected)


NUMBERS = st.lists(st.tuples(st.integers(-4, 4), st.integers(1, 3)), min_size=1, max_size=12)


@given(NUMBERS, NUMBERS)
def test_wasserstein_is_the_area_between_the_distribution_functions(left, right):
    (u, a), (v, b) = (np.array(side, float).T for side in (left, right))
    values = np.concatenate([u, v])
    order = np.argsort(values, kind="stable")
    gap = np.cumsum(np.concatenate([a / a.sum(), -b / b.sum()])[order])[:-1]
    assert distance(u, v, a, b) == pytest.approx(np.abs(gap) @ np.diff(values[order]), abs=1e-12)


RECORDS = st.lists(
    st.tuples(
        st.integers(0, 10).map(lambda ten: 10 * ten),
        st.sampled_from("fm"),
        st.sampled_from([0, 0.5, 1]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=50)
@given(RECORDS, RECORDS)
def test_distances_obey_their_laws(some, others):
    left, right = (people(*zip(*rows, strict=True)) for rows in (some, others))
    repeated = people(*zip(*[row[:3] for row in some for _ in range(row[3])], strict=True))
    for measure in (
        lambda a, b: variation(a, b, COLUMNS.attributes)[0],
        lambda a, b: variation(a, b, COLUMNS.attributes)[1],
        lambda a, b: range_wasserstein(a, b, COLUMNS),
    ):
        assert measure(left, left) == pytest.approx(0, abs=1e-12)
        assert measure(left, right) == pytest.approx(measure(right, left), abs=1e-12)
        assert -1e-12 <= measure(left, right) <= 1 + 1e-12
        assert measure(left, right) == pytest.approx(measure(repeated, right), abs=1e-12)


def test_disjoint_data_is_at_distance_one():
    young, old = people([0, 0], "ff", [0, 0]), people([100, 100, 100], "mmm", [1, 1, 1])
    assert variation(young, old, COLUMNS.attributes) == (1.0, 1.0)
    assert range_wasserstein(young, old, COLUMNS) == 1.0
    beyond = people([900], "m", [1])
    assert range_wasserstein(young, beyond, COLUMNS) == 1.0


@pytest.mark.parametrize("train", [logistic_regression, pytest.param(gradient_boosting, marks=pytest.mark.slow)])
def test_a_row_of_weight_four_is_four_rows_to_the_classifiers(train):
    """To a thousandth of what the weights do. Trees bin and bound leaves by rows: of theirs the mean is nearer."""
    (matrix, labels), (test, _) = blobs(300, 1, gap=0.5), blobs(200, 2, gap=0.5)
    weights = np.where(labels, 4.0, 1.0)
    again = np.repeat(np.arange(300), weights.astype(int))
    weighted = train(WeightedRecords(matrix, weights, labels.astype(float)), test)
    repeated = train(WeightedRecords.of(matrix[again], labels[again]), test)
    ignored = train(WeightedRecords(matrix, np.ones(300), labels.astype(float)), test)
    if train is logistic_regression:
        assert np.abs(weighted - repeated).max() < 1e-3 * np.abs(ignored - repeated).mean()
    assert abs((weighted - repeated).mean()) < abs((ignored - repeated).mean())


@pytest.mark.parametrize("train", [logistic_regression, pytest.param(gradient_boosting, marks=pytest.mark.slow)])
def test_classifiers_learn_from_soft_labels_and_bear_one_class(train):
    (matrix, labels), (test, truth) = blobs(400, 3), blobs(400, 4)
    soft = WeightedRecords(matrix, np.ones(400), np.where(labels, 0.8, 0.2))
    accuracy, area = scores(train(soft, test), truth)
    # Of two Gaussians 2 sqrt(3) apart the best rule has 96 and 99; one class for all has 60 and 50.
    assert accuracy > (96 + 60) / 2
    assert area > (99 + 50) / 2
    assert train(WeightedRecords.of(matrix, np.ones(400)), test).tolist() == [1.0] * 400


def test_scores_by_hand():
    assert scores(np.array([0.9, 0.6, 0.4, 0.2]), np.array([True, False, True, False])) == (50.0, 75.0)
    assert scores(np.array([0.9, 0.6]), np.array([True, True])) == (100.0, 50.0)


def test_real_records_have_every_measure_at_its_best():
    matrix, labels = blobs(200, 5)
    data = WeightedRecords.of(matrix, labels)
    columns = Columns.of(("a", "b", "c"), matrix.min(0), matrix.max(0))
    results = utility(data, data, data, columns)
    assert results.keys() == MEASURES.keys()
    assert {results[name] for name in ("marginal-tv", "wasserstein", "pair-tv", "label-gap")} == {0.0}
    flipped = utility(WeightedRecords.of(matrix, ~labels), data, data, columns)
    # Two records of 200 may lie on the border between the classes.
    assert flipped["accuracy-logistic"] == pytest.approx(100 - results["accuracy-logistic"], abs=1)
    assert flipped["label-gap"] == pytest.approx(100 * abs(1 - 2 * labels.mean()))
    assert flipped["marginal-tv"] == 0 < flipped["pair-tv"]


@pytest.mark.parametrize(
    ("matrix", "weights", "probability", "text"),
    [
        (np.zeros(3), np.ones(3), np.ones(3), "matrix"),
        (np.zeros((3, 1)), np.ones(2), np.ones(3), "n weights"),
        (np.full((3, 1), np.nan), np.ones(3), np.ones(3), "not finite"),
        (np.zeros((3, 1)), np.zeros(3), np.ones(3), "not all 0"),
        (np.zeros((3, 1)), np.array([1.0, -1, 1]), np.ones(3), "not negative"),
        (np.zeros((3, 1)), np.ones(3), np.full(3, 1.5), "outside"),
    ],
)
def test_a_wrong_data_set_is_an_error(matrix, weights, probability, text):
    with pytest.raises(ValueError, match=text):
        WeightedRecords(matrix, weights, probability)


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
    results = findings({"cells": cells})
    rows = [(r.generator, r.epsilon, r.mean, r.std, r.runs) for r in results.rows if r.measure == "wasserstein"]
    assert rows == [
        ("source", "inf", 9.0, 0.0, 1),
        (OURS, "1", 2.0, pytest.approx(2**0.5), 2),
        (OURS, "0.1", 5.0, 0.0, 1),
    ]
    parsed = list(csv.DictReader(csv_table(document(results).files["synthetic.csv"]).splitlines()))
    assert parsed[2] == {
        "dataset": "A",
        "generator": OURS,
        "epsilon": "1",
        "measure": "wasserstein",
        "mean": "2.00",
        "std": "1.41",
        "runs": "2",
    }
    assert f"| {OURS} | 1 | 2.0 ± 1.4 | 1.0 ± 0.0 | 2 |" in as_markdown(document(results))
    assert Outline(as_page(document(results))).count("table") == 1
    assert not document(findings({"cells": []})).in_medium("terminal")


def test_what_is_not_private_is_made_once(tmp_path):
    due = tasks(request(tmp_path, runs=2))
    assert [(t.maker, t.epsilon) for t in due if t.seed == SEED] == [
        (OURS, "1"),
        (OURS, "0.1"),
        ("source", "inf"),
        ("real", "inf"),
        ("fresh", "inf"),
    ]
    assert len(due) == 10


@pytest.mark.slow
def test_our_rows_are_the_sources_own_and_stand_for_the_private_records():
    split = load_split("wdbc", SEED)
    made = GENERATORS[OURS].generate(split, Fraction(1))
    assert np.array_equal(made.matrix, split.matrices.source)
    # Real noise: 3 sites x 20 counts of variance 1.84, a deviation of 10.5 records in 428. False alarms below 1e-9.
    assert made.weights.sum() == pytest.approx(len(split.private), abs=6.5 * 10.5)
    assert made.share == pytest.approx(split.private_labels.mean(), abs=6.5 * 10.5 / 428)


def test_the_source_knows_the_majority_and_nothing_else():
    results = compute(Task("wdbc", "source", "inf", SEED)).values
    assert results["auc-logistic"] == results["auc-boosting"] == 50
    share = load_split("wdbc", SEED).private_labels.mean()
    assert results["label-gap"] == pytest.approx(100 * min(share, 1 - share), abs=1e-4)
    assert results["accuracy-logistic"] == results["accuracy-boosting"]


@pytest.mark.slow
def test_no_classifier_is_trained_on_the_test_records():
    assert compute(Task("wdbc", "fresh", "inf", SEED)).values.keys() == set(DISTANCES)
    real = compute(Task("wdbc", "real", "inf", SEED)).values
    assert real.keys() == MEASURES.keys()
    assert all(real[name] == 0 for name in DISTANCES)


@pytest.mark.slow
def test_a_second_call_computes_nothing_and_writes_the_same(tmp_path, monkeypatch):
    due = request(tmp_path, epsilons=["1"], generators="cells,source")
    first = STUDY.run(due)
    text = (tmp_path / "synthetic.csv").read_text(encoding="utf-8")
    assert {row["generator"] for row in csv.DictReader(text.splitlines())} == {OURS, "source"}
    for name in (OURS, "source"):
        monkeypatch.setitem(GENERATORS, name, replace(GENERATORS[name], generate=lambda *_: pytest.fail("made again")))
    kept = (tmp_path / "cells.jsonl").read_bytes()
    assert STUDY.run(due).files["synthetic.csv"].groups == first.files["synthetic.csv"].groups
    assert (tmp_path / "cells.jsonl").read_bytes() == kept
    assert (tmp_path / "synthetic.csv").read_text(encoding="utf-8") == text
    printed = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "typed here" in printed
    assert "opendp" in printed
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


def test_docs_synthetic_tells_the_published_numbers():
    results = findings(STUDY.cells(DOCS / "results" / "learning" / "synthetic"))
    means = {(r.dataset, r.generator, r.epsilon): r.mean for r in results.rows if r.measure == "accuracy-boosting"}
    marginals = {(r.dataset, r.generator, r.epsilon): r.mean for r in results.rows if r.measure == "marginal-tv"}
    datasets = list(dict.fromkeys(dataset for dataset, *_ in means))
    printed = (DOCS / "learner" / "synthetic.md").read_text(encoding="utf-8")
    for name, maker in (("ours", OURS), ("AIM", "aim"), ("MST", "mst")):
        cells = (f"{means[item, maker, '1']:.1f} / {means[item, maker, '0.1']:.1f}" for item in datasets)
        assert f"| {name} | {' | '.join(cells)} |" in printed
    real = (f"{means[item, 'real', 'inf']:.1f}" for item in datasets)
    assert f"| the private records | {' | '.join(real)} |" in printed
    assert f"({marginals['C', 'source', 'inf']:.1f} points apart, ours {marginals['C', OURS, '1']:.1f})" in printed


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
