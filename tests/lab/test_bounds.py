"""What bounds an accuracy: the learner is the strategy's, exact labels are exact regression, the page adds up."""

import csv
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import dlaplace, multivariate_normal

from lab import bounds, bounds_page
from lab.bounds import (
    DATASETS,
    GENERATORS,
    SETTINGS,
    Run,
    add_runs,
    cell_count,
    cells_accuracy,
    encoded,
    exact_label_signal,
    load,
    measure,
    noisy_counts,
    wanted,
)
from lab.bounds_page import CONCLUSIONS, DIFFERENCES, IDEALS, OURS, Amount, difference, grouped, needed, page
from lab.comparison.bars import LEAST
from lab.problems import draw
from learner_node.kinds.counts import CountsAnswer
from learner_node.label_model.random_features import draw_frequencies, stationary_features
from learner_node.source import kmeans_cells, standardising_map
from learner_node.strategies import make_strategy
from learner_node.strategies.base import Conversation, Problem
from simulations.campaign.store import read_cells

RESULTS = Path(__file__).parents[2] / "docs" / "learning"
FALSE_ALARM_DEVIATIONS = 6.2  # two-sided 1e-9 of a normal law, rounded up


@pytest.fixture(scope="module")
def tiny():
    drawn = draw("A", 0)
    return encoded(
        replace(
            drawn,
            source=drawn.source[:240],
            oracle=drawn.oracle[:240],
            oracle_labels=drawn.oracle_labels[:240],
            test=drawn.test[:500],
            test_labels=drawn.test_labels[:500],
        )
    )


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
    both = np.concatenate([others.averaged.numeric, plain.private.numeric])
    assert len(np.unique(both, axis=0)) == len(both)


def test_features_are_averaged_over_the_records_that_the_setting_names():
    assert load("B", SETTINGS["cells-1"], 0).averaged is load("B", SETTINGS["cells-1"], 0).source
    where = load("B", SETTINGS["where-1"], 0)
    assert where.averaged is where.private


def test_there_are_no_more_cardiotocograms():
    with pytest.raises(ValueError, match="of CTG-B there are no more records; they can be drawn of A, B, C, D, E"):
        load("CTG-B", SETTINGS["source-1"], 0)
    assert not any(setting.generated for dataset, setting, _ in wanted(range(1)) if dataset not in GENERATORS)


# --- exact labels -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_exact_labels_are_gaussian_process_regression(monkeypatch):
    """Against the textbook's n x n form, kernel by kernel."""
    monkeypatch.setattr(bounds, "_LENGTH_SCALES", (0.5, 2.0))
    monkeypatch.setattr(bounds, "_LINEAR_WEIGHTS", (0.5, 3.0))
    rng = np.random.default_rng(0)
    points, test = rng.standard_normal((60, 3)), rng.standard_normal((20, 3))
    labels = points[:, 0] + 0.3 * rng.standard_normal(60) > 0
    signs = np.where(labels, 1.0, -1.0)
    frequencies = draw_frequencies(3, 5)

    def kernel(first, second, scale, linear):
        stationary = [stationary_features(rows @ frequencies / scale).astype(float) for rows in (first, second)]
        return stationary[0] @ stationary[1].T + linear * first @ second.T / 3

    def best(scale, linear):
        found = []
        for amplitude in bounds._AMPLITUDES:
            for noise in bounds._NOISES:
                covariance = amplitude * kernel(points, points, scale, linear) + noise * np.eye(60)
                mean = amplitude * kernel(test, points, scale, linear) @ np.linalg.solve(covariance, signs)
                evidence = multivariate_normal(np.zeros(60), covariance).logpdf(signs)
                found.append((evidence, scale, mean))
        return max(found, key=lambda item: item[0])

    first = max((best(scale, 0.5) for scale in (0.5, 2.0)), key=lambda item: item[0])
    expected = max((first, best(first[1], 3.0)), key=lambda item: item[0])[2]
    np.testing.assert_allclose(exact_label_signal(points, labels, test, 5), expected, rtol=1e-4, atol=1e-4)


# --- the file of runs -------------------------------------------------------------------------------------


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

    def fake(dataset, setting, seed):
        made.append((dataset, setting.name, seed))
        return Run(dataset, setting.name, 5, seed, 70.0 + seed / 3)

    monkeypatch.setattr(bounds, "measure", fake)
    path = tmp_path / "new" / "bounds.csv"
    first = add_runs(path, range(2))
    assert len(made) == len(first) == len(list(wanted(range(2))))
    both = add_runs(path, range(3))
    assert {seed for *_, seed in made[len(first) :]} == {2}
    assert [(run.dataset, run.setting, run.cells, run.seed) for run in read_runs(path)] == [
        (run.dataset, run.setting, run.cells, run.seed) for run in both
    ]
    assert read_runs(path)[-1].accuracy == pytest.approx(70 + 2 / 3, abs=1e-3)
    with path.with_suffix(".jsonl").open("ab") as file:
        file.write(b'{"dataset": "B", "sett')  # a kill tore this line
    assert add_runs(path, range(3)) == both


def test_a_run_is_a_percentage(monkeypatch, tiny):
    monkeypatch.setattr(bounds, "load", lambda *_: tiny)
    run = measure("B", SETTINGS["no-noise-1000"], 0)
    assert (run.dataset, run.setting, run.cells, run.seed) == ("B", "no-noise-1000", 80, 0)
    assert 50 < run.accuracy <= 100  # a percentage, not a share, and better than a coin


# --- the page ---------------------------------------------------------------------------------------------


def made_up():
    accuracies = {"cells-1": (70.0, 76.0), "no-noise": (73.0, 77.0), "h*": (79.0, 80.0), "where-1": (90.0,)}
    return [
        Run("B", name, 0, 1000 + index, value)
        for name, values in accuracies.items()
        for index, value in enumerate(values)
    ]


def test_every_name_on_the_page_is_a_setting():
    named = {name for _, _, *pair in DIFFERENCES for name in pair} | {name for row in IDEALS.values() for name in row}
    named |= {name for row in OURS.values() for name in row}
    assert named == set(SETTINGS)
    assert all(dataset in LEAST[epsilon] for epsilon in OURS for dataset in DATASETS)


def test_differences_are_paired_by_seed():
    found = difference(grouped(made_up()), "B", "no-noise", "cells-1")
    assert found == Amount(2.0, 1.0, 2)
    assert difference(grouped(made_up()), "B", "where-1", "cells-1") == Amount(20.0, 0.0, 1)
    assert difference(grouped(made_up()), "E", "no-noise", "cells-1") is None


def test_a_bar_keeps_its_distance_from_h_star():
    assert needed("B", "1", None) == 75.0
    assert needed("B", "1", Amount(77.8, 0.1, 5)) == pytest.approx(74.0)
    assert needed("B", "1", Amount(85.0, 0.1, 5)) == 75.0


def test_the_page_says_which_ideals_reach_a_bar():
    text = page(made_up())
    assert "--seeds 1000:1002 " in text
    assert "| `cells` without networks | 1 | 73.0 ± 3.0 (2) |  |  |  |" in text
    assert "| noise | 1 | +2.0 ± 1.0 |  |  |  |" in text
    words = next(line for line in text.splitlines() if line.startswith("* **B at 1** is"))
    assert words == (
        "* **B at 1** is 6.5 ± 2.5 points below h\\*. Costs beyond two standard errors, the largest first: none."
    )
    line = next(line for line in text.splitlines() if line.startswith("* **B at 1**,"))
    assert "bar 75.0: without networks 73.0 ± 3.0 (2)." in line
    assert "Would reach it: no noise (75.0); the private records themselves (90.0); h\\* (79.5)." in line
    assert "E at 1" not in text


def test_only_resolved_costs_are_put_in_words():
    assert Amount(1.0, 0.49, 5).resolved
    assert Amount(-1.0, 0.49, 5).resolved
    assert not Amount(1.0, 0.51, 5).resolved
    assert not Amount(1.0, 0.0, 1).resolved
    further = [Run("B", "no-noise", 0, 1002, 80.0), Run("B", "cells-1", 0, 1002, 78.0)]
    assert "the largest first: noise +2.0." in page([*made_up(), *further])


def test_conclusions_are_shown_with_the_runs_that_they_were_read_off(monkeypatch):
    assert CONCLUSIONS not in page(made_up())
    monkeypatch.setattr(bounds_page, "READ_SEEDS", (1000, 1001))
    assert CONCLUSIONS in page(made_up())


def test_the_page_in_the_documentation_is_that_of_its_runs():
    runs = read_runs(RESULTS / "bounds.csv")
    assert runs == read_cells(RESULTS / "bounds.jsonl", Run)
    assert (RESULTS / "bounds.md").read_text(encoding="utf-8") == page(runs)
    seeds = {run.seed for run in runs}
    expected = {(d, setting.name, seed) for d, setting, seed in wanted(range(min(seeds), max(seeds) + 1))}
    assert {(run.dataset, run.setting, run.seed) for run in runs} == expected
