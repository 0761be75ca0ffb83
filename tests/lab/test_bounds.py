"""What bounds an accuracy: the learner is the strategy's, exact labels are exact regression, the document adds up."""

import csv
from argparse import Namespace
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import dlaplace, multivariate_normal

from expril.report.document import tables
from expril.report.files import as_markdown
from expril.report.page import as_page
from lab import bounds as module
from lab.bounds import (
    DATASETS,
    DIFFERENCES,
    GENERATORS,
    IDEALS,
    OURS,
    SETTINGS,
    STUDY,
    Amount,
    Run,
    cell_count,
    cells_accuracy,
    compute,
    document,
    encoded,
    exact_label_signal,
    findings,
    load,
    noisy_counts,
    tasks,
)
from lab.comparison.findings import LEAST, standings
from lab.comparison.findings import findings as comparison_of
from lab.comparison.study import STUDY as COMPARISON
from lab.problems import draw
from lab.study import Order
from learner_node.kinds.counts import CountsAnswer
from learner_node.models.label_model.random_features import draw_frequencies, stationary_features
from learner_node.models.source import kmeans_cells, standardising_map
from learner_node.strategies import make_strategy
from learner_node.strategies.base import Conversation, Problem
from page_outline import Outline
from simulations.campaign.store import Task

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "results" / "learning" / "bounds"
FALSE_ALARM_DEVIATIONS = 6.2  # two-sided 1e-9 of a normal law, rounded up


@cache
def tiny_data():
    sample = draw("A", 0)
    return encoded(
        replace(
            sample,
            source=sample.source[:240],
            oracle=sample.oracle[:240],
            oracle_labels=sample.oracle_labels[:240],
            test=sample.test[:500],
            test_labels=sample.test_labels[:500],
        )
    )


@pytest.fixture(scope="module")
def tiny():
    return tiny_data()


@pytest.fixture(scope="module")
def partition(tiny):
    return kmeans_cells(tiny.source, standardising_map(tiny.source), 12, 3)


# --- the learner ------------------------------------------------------------------------------------------


@pytest.mark.family(1)
@pytest.mark.parametrize(("name", "cells"), [("cells-1", 40), ("networks-0.1", 5)])
def test_the_learner_is_the_strategy_on_the_same_counts(tiny, name, cells):
    setting = SETTINGS[name]
    epsilon = Fraction(setting.epsilon)
    problem = Problem(source=tiny.source, epsilon=epsilon, sites=1, target_size=240, most_records_per_unit=1, seed=7)
    strategy = make_strategy("cells", {"networks": setting.networks})
    conversation = Conversation(strategy, problem)
    (partition,) = conversation.body.partitions
    counts = noisy_counts(tiny, partition, setting.epsilon, 7)
    conversation.hear([CountsAnswer(conversation.body, counts, (cells,), "error_correct", 1 / epsilon)])
    (model,) = conversation.models
    expected = np.mean((model.probability(tiny.test) > 0.5) == tiny.test_labels)
    assert cells_accuracy(tiny, setting, 7) == (cells, expected)


def test_counts_without_noise_are_the_private_labels(tiny, partition):
    counts = noisy_counts(tiny, partition, "inf", 0)
    cells = partition.cells(tiny.private)
    for cell in range(12):
        labels = tiny.private_labels[cells == cell]
        assert counts[cell].tolist() == [np.sum(~labels), np.sum(labels)]


def test_noise_has_the_law_of_the_mechanism(tiny, partition):
    """Its mean square against 2q/(1-q)^2; kurtosis at most 6. A scale off by a tenth moves it by 17 deviations."""
    exact = noisy_counts(tiny, partition, "inf", 0)
    draws = np.concatenate([noisy_counts(tiny, partition, "0.1", seed) - exact for seed in range(2000)])
    assert (draws == np.rint(draws)).all()
    expected = dlaplace(0.1).var()
    assert np.mean(draws**2) == pytest.approx(expected, rel=FALSE_ALARM_DEVIATIONS * np.sqrt(5 / draws.size))


def test_a_seed_fixes_the_noise(tiny, partition):
    first, again, other = (noisy_counts(tiny, partition, "1", seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_cells_follow_the_rule_and_the_source(tiny):
    assert cell_count(tiny, SETTINGS["cells-1"]) == cell_count(tiny, SETTINGS["no-noise"]) == 40
    assert cell_count(tiny, SETTINGS["cells-0.1"]) == 5
    assert cell_count(tiny, SETTINGS["no-noise-1000"]) == 80
    more = replace(tiny, private=load("A", SETTINGS["cells-1"], 0).private)
    assert cell_count(more, SETTINGS["private-0.1"]) == 42
    assert cell_count(more, SETTINGS["private-1"]) == 80


# --- the records ------------------------------------------------------------------------------------------


def test_other_records_of_the_private_population_are_not_those_that_are_counted():
    plain = load("B", SETTINGS["cells-1"], 0)
    others = load("B", SETTINGS["others-1"], 0)
    np.testing.assert_array_equal(others.private.numeric, plain.private.numeric)
    np.testing.assert_array_equal(others.private_labels, plain.private_labels)
    assert len(others.averaged) == len(plain.private)
    sides = np.concatenate([others.averaged.numeric, plain.private.numeric])
    assert len(np.unique(sides, axis=0)) == len(sides)


def test_features_are_averaged_over_the_records_that_the_setting_names():
    assert load("B", SETTINGS["cells-1"], 0).averaged is load("B", SETTINGS["cells-1"], 0).source
    where = load("B", SETTINGS["where-1"], 0)
    assert where.averaged is where.private


def test_there_are_no_more_cardiotocograms():
    with pytest.raises(ValueError, match="of CTG-B there are no more records; they can be drawn of A, B, C, D, E"):
        load("CTG-B", SETTINGS["source-1"], 0)
    due = tasks(order(Path()))
    assert due[0].seed == 1000
    assert not any(SETTINGS[task.maker].generated for task in due if task.problem not in GENERATORS)


def test_an_epsilon_leaves_out_the_settings_of_others():
    size = STUDY.size(epsilons=("0.10",), only=["datasets=B"])
    due = {task.maker for task in tasks(Order(size, 0, Path(), ""))}
    assert {"cells-0.1", "no-noise", "h*"} < due
    assert not {name for name in due if SETTINGS[name].epsilon == "1"}


# --- exact labels -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_exact_labels_are_gaussian_process_regression(monkeypatch):
    """Against the textbook's n x n form, kernel by kernel."""
    monkeypatch.setattr(module, "_LENGTH_SCALES", (0.5, 2.0))
    monkeypatch.setattr(module, "_LINEAR_WEIGHTS", (0.5, 3.0))
    rng = np.random.default_rng(0)
    points, test = rng.standard_normal((60, 3)), rng.standard_normal((20, 3))
    labels = points[:, 0] + 0.3 * rng.standard_normal(60) > 0
    signs = np.where(labels, 1.0, -1.0)
    frequencies = draw_frequencies(3, 5)

    def kernel(first, second, scale, linear):
        stationary = [stationary_features(rows @ frequencies / scale).astype(float) for rows in (first, second)]
        return stationary[0] @ stationary[1].T + linear * first @ second.T / 3

    def best(scale, linear):
        results = []
        for amplitude in module._AMPLITUDES:
            for noise in module._NOISES:
                covariance = amplitude * kernel(points, points, scale, linear) + noise * np.eye(60)
                mean = amplitude * kernel(test, points, scale, linear) @ np.linalg.solve(covariance, signs)
                evidence = multivariate_normal(np.zeros(60), covariance).logpdf(signs)
                results.append((evidence, scale, mean))
        return max(results, key=lambda item: item[0])

    first = max((best(scale, 0.5) for scale in (0.5, 2.0)), key=lambda item: item[0])
    expected = max((first, best(first[1], 3.0)), key=lambda item: item[0])[2]
    np.testing.assert_allclose(exact_label_signal(points, labels, test, 5), expected, rtol=1e-4, atol=1e-4)


# --- the file of runs -------------------------------------------------------------------------------------


def order(out, repeats=1):
    return Order(STUDY.size(full=True, repeats=repeats), STUDY.seed, out, "typed here")


def read_runs(path):
    """The runs of a CSV file, in its order."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Run(row["dataset"], row["setting"], int(row["cells"]), int(row["seed"]), float(row["accuracy"]))
            for row in csv.DictReader(file)
        ]


@pytest.mark.slow
def test_runs_that_the_file_holds_are_not_made_again(tmp_path, monkeypatch):
    made = []

    def fake(_data, setting, seed):
        made.append((setting.name, seed))
        return 5, 0.7 + seed / 3e6

    def fake_network(split):
        return Namespace(probability=np.full(len(split.test_labels), 0.9))

    monkeypatch.setattr(module, "cells_accuracy", fake)
    monkeypatch.setattr(module, "load", lambda *_: tiny_data())
    monkeypatch.setattr(module, "network", fake_network)
    out = tmp_path / "new"
    only = ["settings=cells-1,no-noise,h*", "datasets=B,E"]
    due = [Order(STUDY.size(full=True, repeats=repeats, only=only), 0, out, "") for repeats in (2, 3)]
    STUDY.run(due[0])
    assert len(made) == 2 * 2 * 2
    first = STUDY.cells(out)["cells"]
    STUDY.run(due[1])
    assert {seed for _, seed in made[8:]} == {2}
    sides = STUDY.cells(out)["cells"]
    assert sides[: len(first)] == first
    assert [run.key for run in read_runs(out / "bounds.csv")] == [run.key for run in sides]
    with (out / "cells.jsonl").open("ab") as file:
        file.write(b'{"dataset": "B", "sett')  # a kill tore this line
    STUDY.run(due[1])
    assert STUDY.cells(out)["cells"] == sides


def test_a_run_is_a_percentage(monkeypatch, tiny):
    monkeypatch.setattr(module, "load", lambda *_: tiny)
    run = compute(Task("B", "no-noise-1000", "inf", 0))
    assert (run.dataset, run.setting, run.cells, run.seed) == ("B", "no-noise-1000", 80, 0)
    assert 50 < run.accuracy <= 100  # a percentage, not a share, and better than a coin
    assert run.accuracy == round(run.accuracy, 3)


# --- the document -----------------------------------------------------------------------------------------


def made_up(*more):
    accuracies = {"cells-1": (70.0, 76.0), "no-noise": (73.0, 77.0), "h*": (79.0, 80.0), "where-1": (90.0,)}
    runs = [
        Run("B", name, 0, 1000 + index, value)
        for name, values in accuracies.items()
        for index, value in enumerate(values)
    ]
    return findings({"cells": [*runs, *more]})


def test_every_name_of_a_table_is_a_setting():
    named = {name for _, _, *pair in DIFFERENCES for name in pair} | {name for row in IDEALS.values() for name in row}
    named |= {name for row in OURS.values() for name in row}
    assert named == set(SETTINGS)
    assert all(dataset in LEAST[epsilon] for epsilon in OURS for dataset in DATASETS)


def test_differences_are_paired_by_seed():
    costs = {(cost.epsilon, cost.cause): cost.amounts for cost in made_up().costs}
    assert costs["1", "noise"] == {"B": Amount(2.0, 1.0, 2)}
    assert costs["1", "a source that is not the private records themselves"] == {"B": Amount(20.0, 0.0, 1)}
    assert costs["1", "distance from h*"] == {"B": Amount(6.5, 2.5, 2)}
    assert ("1", "a small source") not in costs


def test_a_bar_keeps_its_distance_from_h_star():
    def bar(*in_site):
        return findings({"cells": [Run("B", "cells-1", 0, 0, 70.0), *in_site]}).bars["1"]["B"]

    assert bar() == 75.0
    assert bar(Run("B", "h*", 0, 0, 77.8)) == pytest.approx(74.0)
    assert bar(Run("B", "h*", 0, 0, 85.0)) == 75.0


def test_what_is_resolved_and_what_reaches_a_bar_is_bold():
    assert Amount(1.0, 0.49, 5).resolved
    assert Amount(-1.0, 0.49, 5).resolved
    assert not Amount(1.0, 0.51, 5).resolved
    assert not Amount(1.0, 0.0, 1).resolved
    assert Amount.of_any([]) is None
    text = as_markdown(document(made_up()))
    assert "| cells without networks | 1 | 73.0 ± 3.0 (2) |  |  |  |" in text
    assert "| noise | 1 | +2.0 ± 1.0 |  |  |  |" in text
    assert "| bar at 1 | 1 | 75.0 |" in text
    assert "| without networks | 73.0 |" in text
    assert "| no noise | **75.0** |" in text
    assert "The bars at epsilon 0.1" not in text
    further = [Run("B", "no-noise", 0, 1002, 80.0), Run("B", "cells-1", 0, 1002, 78.0)]
    assert "| noise | 1 | **+2.0 ± 0.6** |" in as_markdown(document(made_up(*further)))


def test_the_page_draws_each_setting_of_each_data_set():
    results = made_up()
    outline = Outline(as_page(document(results)))
    assert outline.count("script") == 1  # our own, which saves figures and tables
    sample = next(
        table
        for section in document(results).sections
        for table in tables(section.present)
        if "from the left" in table.caption
    )
    assert [column.heading for column in sample.columns] == ["setting", "B"]
    strips = [sample.columns[1].drawing(name) for name in sample.groups[0].rows]
    assert [strip.dots[0][1] for strip in strips] == [73.0, 75.0, 90.0, 79.5]
    assert strips[0].marks == [(75.0, "solid")]
    assert not document(findings({"cells": []})).in_medium("page")


# --- what is told of the published runs -------------------------------------------------------------------


@pytest.fixture(scope="module")
def published():
    return findings(STUDY.cells(RESULTS))


def test_the_published_file_is_that_of_its_runs(published):
    assert [run.key for run in read_runs(RESULTS / "bounds.csv")] == [run.key for run in published.runs]
    due = tasks(order(RESULTS, repeats=5))
    assert {run.key for run in published.runs} == set(due)


def test_docs_bounds_tells_what_the_runs_say(published):
    def mean(setting, dataset):
        return published.accuracies[setting][dataset].value

    def cost(epsilon, part, dataset):
        (results,) = (entry for entry in published.costs if entry.epsilon == epsilon and entry.cause.startswith(part))
        return results.amounts[dataset].value

    bars = published.bars
    # At epsilon 0.1, noise.
    assert all(mean("no-noise", name) > bars["0.1"][name] + 2 for name in DATASETS)
    assert all(mean("private-0.1", name) > bars["0.1"][name] + 2 for name in ("B", "D", "E"))
    assert [round(cost("0.1", "a source of another", name)) for name in ("B", "D", "E")] == [-1, 1, 1]
    # E at epsilon 1.
    assert all(abs(cost("1", part, "E")) < 0.5 for part in ("noise", "a small source", "a source of another"))
    assert bars["1"]["E"] - 0.5 < mean("no-noise-1000", "E") < bars["1"]["E"]
    assert all(0 < mean(name, "E") - bars["1"]["E"] < 0.5 for name in ("private-1", "where-1"))
    assert abs(mean("exact", "E") - mean("h*", "E")) < 0.5
    # B at epsilon 1.
    settings = [name for name in SETTINGS if SETTINGS[name].epsilon == "1"]
    assert max(settings, key=lambda name: mean(name, "B")) == "private-1"
    assert mean("networks-1", "B") == pytest.approx(mean("no-noise", "B"), abs=0.1)
    # CTG-B at epsilon 1, and CTG-A at 0.1.
    assert mean("no-noise", "CTG-B") == pytest.approx(bars["1"]["CTG-B"], abs=0.15)
    assert all(0 < mean(name, "CTG-B") - bars["1"]["CTG-B"] < 0.5 for name in ("no-noise-1000", "where-1"))
    assert mean("no-noise", "CTG-A") > bars["0.1"]["CTG-A"] + 4
    assert all(abs(cost("0.1", part, "CTG-A")) < 0.5 for part in ("a source that", "leaving"))
    assert mean("cells-0.1", "CTG-A") > bars["0.1"]["CTG-A"]
    # D.
    assert all(mean(f"cells-{epsilon}", "D") > bars[epsilon]["D"] for epsilon in ("1", "0.1"))
    assert mean("exact", "D") > mean("h*", "D")


def test_docs_bounds_tells_what_the_comparison_says():
    printed = " ".join((DOCS / "results" / "bounds.md").read_text(encoding="utf-8").split())
    compared = comparison_of(COMPARISON.cells(DOCS / "results" / "learning"))

    def mean(dataset, strategy, epsilon="inf"):
        return compared.find(dataset, strategy, epsilon).mean

    missed = {bar.dataset: bar for bar in standings(compared) if bar.epsilon == "1" and not bar.met}
    without = {name: mean(name, "cells-smooth") for name in missed}
    assert list(missed) == ["E", "CTG-B", "heart", "heart-cleveland"]
    assert [name for name in missed if without[name] < missed[name].needed] == ["E", "heart"]
    texts = {name: f"{name} {without[name]:.1f} ({missed[name].needed:.1f})" for name in missed}
    assert texts["E"].replace("(", "(needed ") + " and " + texts["heart"] in printed
    assert f"{texts['CTG-B']} and {texts['heart-cleveland']}" in printed
    assert f"logistic regression {mean('heart', 'logistic-regression'):.1f}" in printed
    assert f"the paper's network {mean('heart', 'h*'):.1f}" in printed
    assert f"leaves {mean('heart', 'h*') - 80:.1f} points" in printed
    assert f"`cells` is {mean('heart', 'h*') - mean('heart', 'cells', '0.1'):.1f} points below" in printed
    assert f"do not ({mean('CTG-A', 'cells', '0.1'):.1f})" in printed
