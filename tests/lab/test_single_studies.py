"""The studies of one module each: what they are asked, what their cells say, what the pages of docs hold."""

import csv
import json
from fractions import Fraction
from itertools import islice, product
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import numpy as np
import pytest
from typer.testing import CliRunner

from expril.report.document import tables
from expril.report.files import table
from expril.report.terminal import as_terminal
from lab import (
    additive,
    estimates,
    importance,
    perspectives,
    quotes,
    recalibrations,
    risks,
    statistic,
    validations,
    wide,
)
from lab.__main__ import app
from lab.averages import Mean, averages, covers, marked, mean, plain
from lab.cells import Run
from lab.estimates import COIN, DATASETS, MEASURES, OWN, _coins
from lab.importance import RUNS, Plane, discriminator, distance, effective, published_weights, tasks
from lab.problems import PROBLEMS
from lab.quotes import NOTHING, PREVALENCE_AND_AUC
from lab.statistic import ESTIMANDS, METHODS, POPULATIONS, Sample, document, findings, task_of
from lab.studies import load_study
from lab.study import FINDINGS, PAGE, Order, parse_names, typable
from page_outline import Outline
from protocol.errors import ConfigurationError
from simulations.campaign.store import Task

DOCS = Path(__file__).resolve().parents[2] / "docs"


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
    run = estimates.compute(Task("wdbc", COIN, "1", 5000))
    assert run.key == Task("wdbc", COIN, "1", 5000)
    printed = run.numbers
    assert printed["auc"] == 0.5
    assert 1 - printed["majority"] <= printed["accuracy"] <= printed["majority"]
    assert printed["low"] <= printed["expected"] <= printed["high"]
    assert printed["auc_low"] <= printed["expected_auc"] <= printed["auc_high"]
    assert printed.keys() >= MEASURES.keys()


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
    outcome = estimates.STUDY.findings({"runs": runs}, None)
    assert [(row.names[2], row.runs) for row in outcome.rows] == [("all", 22), ("A", 2), ("heart", 20)]
    coverage, means = estimates.STUDY.document(outcome).sections[0].blocks[1:]
    page = (Path(__file__).resolve().parents[2] / "docs" / "learner" / "uncertainty.md").read_text(encoding="utf-8")
    head, _, *rows = table(coverage).splitlines()
    assert head in page
    assert rows[1] == "| 0.3 | A | +1.0 ± 0.0 | 10.0 | 1.00 | +0.0 ± 0.0 | 10.0 | 1.00 |"
    assert rows[2] == "| 0.3 | heart | +10.9 ± 0.1 (!) | 10.0 | 0.00 (!) | +0.0 ± 0.0 | 10.0 | 1.00 |"
    assert "0.910" in table(means).splitlines()[4]


def test_the_distance_is_the_share_that_must_move():
    points = np.random.default_rng(0).normal(size=(4000, 3))
    plane = Plane.of(points)
    same = plane.shares(points)
    assert same.shape == (3, 16)
    np.testing.assert_allclose(same.sum(axis=1), 1)
    assert distance(same, same) == 0
    high = plane.shares(points + 100)
    assert distance(same, high) == pytest.approx(100 * 15 / 16, abs=2)
    weights = (points[:, 0] > np.quantile(points[:, 0], 0.75)).astype(float)
    moved = plane.shares(points, weights)  # three quarters of one attribute: two of the three pairs see it
    assert distance(same, moved) == pytest.approx(100 * 0.75 * 2 / 3, abs=3)


def test_the_effective_size_is_that_of_equal_weights():
    assert effective(np.full(50, 3.0)) == pytest.approx(100)
    assert effective(np.eye(50)[0]) == pytest.approx(2)


@pytest.mark.parametrize("regulariser", [1.0, 10.0])
def test_one_record_moves_the_discriminator_by_no_more_than_its_noise_covers(regulariser):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(120, 4))
    rows /= np.maximum(np.linalg.norm(rows, axis=1), 1)[:, None]
    private, public = rows[:60] + np.array([0.2, 0, 0, 0]), rows[60:]
    private /= np.maximum(np.linalg.norm(private, axis=1), 1)[:, None]
    complete = discriminator(private, public, regulariser)
    # Weights differ by at most 1 / regulariser. A twentieth of it shows that the rows pull at all.
    gaps = [np.linalg.norm(complete - discriminator(np.delete(private, n, 0), public, regulariser)) for n in range(60)]
    assert 0.05 / regulariser < max(gaps) <= 1 / regulariser


def test_published_weights_see_a_shift_where_the_noise_is_small():
    """Most of it: without weights the distance is the whole of the shift."""
    rng = np.random.default_rng(2)
    public, private = rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)) + np.array([0.8, 0])
    weights = published_weights(private, public, 3.0, 1000.0, seed=0)
    plane = Plane.of(public)
    truth = plane.shares(private)
    assert distance(plane.shares(public, weights), truth) < 0.5 * distance(plane.shares(public), truth)


def test_the_page_and_the_file_of_results_are_those_of_the_kept_cells(tmp_path):
    copy(DOCS / "results" / "importance" / "runs.jsonl", tmp_path)
    document = importance.STUDY.write(tmp_path)
    assert (tmp_path / FINDINGS).read_bytes() == (DOCS / "results" / "importance" / FINDINGS).read_bytes()
    page = (DOCS / "explanation" / "importance-weights.md").read_text(encoding="utf-8")
    shown = [table(item) for section in document.sections for item in tables(section.present)]
    assert len(shown) == 3
    assert all(item in page for item in shown)


def test_the_kept_cells_are_all_that_is_published(tmp_path):
    order = Order(importance.STUDY.size(full=True), importance.STUDY.seed, tmp_path, "typed here")
    kept = {cell.key for cell in importance.STUDY.cells(DOCS / "results" / "importance")["runs"]}
    assert kept == set(tasks(order))
    results = json.loads((DOCS / "results" / "importance" / FINDINGS).read_text(encoding="utf-8"))
    assert {name: len(runs) for name, runs in results["runs"].items()} == RUNS


@pytest.mark.parametrize("name", ["skewed", "heavy-tailed", "contaminated"])
@pytest.mark.parametrize("share", [0.5, 0.75])
def test_a_population_has_its_quantile(name, share):
    """Of 10^5 values, a share below it within 7 deviations: missed with a chance of 3e-12."""
    values = POPULATIONS[name].draw(np.random.default_rng(1), 100_000)
    below = float(np.mean(values < POPULATIONS[name].quantile(share)))
    assert abs(below - share) < 7 * np.sqrt(share * (1 - share) / 100_000)


@pytest.mark.parametrize("estimand", ESTIMANDS)
def test_with_hardly_any_noise_every_method_tells_the_quantile(estimand):
    grid = POPULATIONS["skewed"].grid
    values = POPULATIONS["skewed"].draw(np.random.default_rng(2), 20_000)
    sample = Sample(values, grid, estimand, Fraction(1000), np.random.default_rng(3))
    for name, (_, draw) in METHODS.items():
        slack = {"aggregate_mean": 60, "aggregate_median": 60, "global": 300}.get(name, 10)
        assert np.abs(draw(sample) - sample.centre).max() <= slack, name


def test_a_cell_is_the_same_again_and_tells_every_method():
    task = task_of("skewed", "median", 1000, "1", 7)
    first, again = statistic.compute(task), statistic.compute(task)
    assert (first.errors, first.key) == (again.errors, task)
    assert first.errors.keys() == METHODS.keys()
    # 5,000 and 1.35 times 100 in percent of the range: the worst case is no use, a choice is.
    assert first.errors["exponential"] < 20
    assert first.errors["global"] > 300


def test_tables_and_charts_are_of_the_same_points():
    cells = [
        statistic.compute(task_of("skewed", "median", records, "1", seed)) for records in (100, 300) for seed in (1, 2)
    ]
    outcome = findings({"cells": cells})
    assert [(point.records, point.samples) for point in outcome.points] == [(100, 2), (300, 2)]
    wins, errors = document(outcome).sections
    assert (
        sum(column.show(name) for column in wins.blocks[0].columns[1:2] for name in wins.blocks[0].groups[0].rows) == 2
    )
    _, charts, table = errors.blocks
    assert len(table.groups[0].rows) == 2
    (figure,) = charts.figures
    assert len(figure.lines) == len(METHODS)
    assert not document(findings({"cells": []})).in_medium("terminal")


def statistic_order(out):
    size = statistic.STUDY.size(
        repeats=1, epsilons=("1",), only=["records=100,300", "populations=skewed,heavy-tailed,contaminated"]
    )
    return Order(size, 1, out, "typed here")


def test_a_study_is_kept_written_and_goes_on(tmp_path):
    statistic.STUDY.run(statistic_order(tmp_path))
    points = json.loads((tmp_path / FINDINGS).read_text())["points"]
    assert len(points) == 3 * 2 * 2
    assert points[0]["samples"] == 1
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert Outline(page).count("figure") == 3 * 2
    rows = list(csv.DictReader((tmp_path / "errors.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == len(points)
    before = (tmp_path / "cells.jsonl").read_bytes()
    statistic.STUDY.run(statistic_order(tmp_path))
    assert (tmp_path / "cells.jsonl").read_bytes() == before


@pytest.mark.slow
def test_the_command_runs_it(tmp_path, monkeypatch):
    monkeypatch.setattr("expril.report.provenance.cores", lambda: 1)
    options = [
        "--out",
        str(tmp_path),
        "--repeats",
        "1",
        "--only",
        "records=100",
        "--only",
        "populations=skewed",
        "--json",
    ]
    said = CliRunner().invoke(app, ["study", "statistic", *options])
    assert said.exit_code == 0, said.output
    assert len(json.loads(said.stdout)["found"]["points"]) == 2
    assert (tmp_path / "statistic" / PAGE).exists()


NAMES = (
    "additive", "estimates", "importance", "perspectives", "quotes", "recalibrations", "risks", "validations", "wide",
)  # fmt: skip


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def order(study, tmp_path, **chosen):
    return Order(study.size(**chosen), study.seed, tmp_path, "typed here")


def shown(study, **cells):
    """The tables in Markdown, line by line."""
    document = study.document(study.findings(cells, None))
    return [table(item).splitlines() for section in document.sections for item in tables(section.present)]


# All of them.


@pytest.mark.parametrize("name", NAMES)
def test_a_study_is_registered_and_without_cells_has_nothing_to_show(name):
    study = load_study(name)
    assert study.name == name
    for size in (study.short, study.full):
        assert all(set(names) <= set(study.choices[axis]) for axis, names in size.axes.items())
    empty = study.findings({part.name: [] for part in study.parts}, None)
    assert not list(as_terminal(study.document(empty)))


@pytest.mark.parametrize("name", NAMES)
def test_every_choice_of_a_study_can_be_typed_and_they_differ(name):
    study = load_study(name)
    for axis, names in study.choices.items():
        typed = [typable(item) for item in names]
        assert not any(" " in item or "," in item for item in typed)
        assert study.size(only=[f"{axis}={','.join(typed)}"]).axes[axis] == tuple(names)


PUBLISHED = {
    "bounds": "learning/bounds",
    "comparison": "learning",
    "holdout": "reproduction/holdout",
    "reproduction": "reproduction",
    "sample": "reproduction/mbde",
    "sites": "sites",
    "statistic": "statistics",
    "synthetic": "learning/synthetic",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "comparison")) for name in PUBLISHED]
)
def test_published_files_are_what_their_cells_say(name, tmp_path):
    """A folder of docs, written anew from its cells alone; drawings, and most pages, may have another style."""
    folder, copied = DOCS / "results" / PUBLISHED[name], tmp_path / name
    copytree(folder, copied, ignore=ignore_patterns("*.csv", "*.md", "results.json", "*.html", "*.svg"))
    load_study(name).write(copied)
    assert {path.name for path in copied.glob("*.*")} == {path.name for path in folder.glob("*.*")}
    exact = {".csv", ".md", ".json"} | ({".html"} if name == "reproduction" else set())
    for path in folder.glob("*.*"):
        if path.suffix in exact:
            assert (copied / path.name).read_bytes() == path.read_bytes(), path.name


def test_names_are_typed_without_spaces_and_commas():
    assert typable("readmission, c = 2") == "readmission-c-2"
    assert typable("CTG-A") == "CTG-A"
    assert parse_names("low-variance-25, EQUAL", wide.KINDS, "kind") == ("low variance, 25 %", "equal")
    with pytest.raises(ConfigurationError, match="did you mean 'all-carry'"):
        parse_names("all-cary", wide.KINDS, "kind")


@pytest.mark.parametrize("name", ["importance", "recalibrations", "risks"])
def test_epsilons_cannot_be_asked_of_a_study_whose_cells_have_their_own(name):
    with pytest.raises(ConfigurationError, match="no epsilon to choose"):
        load_study(name).size(epsilons=("1",))


def test_tasks_are_all_combinations(tmp_path):
    size = {"repeats": 2, "epsilons": ("1", "0.3"), "only": ["datasets=A,B", "settings=cells,paper-c"]}
    tasks = order(perspectives.STUDY, tmp_path, **size).tasks("datasets", "settings")
    axes = product("AB", ("cells", "paper-c"), ("1", "0.3"), (5000, 5001))
    assert len(tasks) == 16
    assert set(tasks) == {Task(*item) for item in axes}


# Means and bars.


def test_a_mean_has_its_standard_error_and_of_one_run_none():
    values = [1.0, 2.0, 4.0]
    own = Mean.of(values)
    assert (own.value, own.runs) == (pytest.approx(7 / 3), 3)
    assert own.error == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
    assert own.text("+.1f", 10) == "+23.3 ± 8.8"
    assert Mean.of([0.5]).text(".2f") == "0.50"


def test_bars_forgive_some_standard_errors():
    assert covers(0.93, 10**6, 0)
    assert not covers(0.92, 10**6, 2)
    assert covers(0.92, 100, 2)
    assert marked("1", fine=False) == "1 (!)"


def test_runs_are_averaged_by_their_names_in_the_order_that_is_asked():
    runs = [(("b", "1"), 1.0), (("a", "10"), 2.0), (("b", "1"), 4.0), (("b", "9"), 5.0)]
    outcome = averages(runs, {"mean": mean(float), "plain": plain(float)}, (str, lambda name: -int(name)), None)
    assert [row.names for row in outcome.rows] == [("a", "10"), ("b", "9"), ("b", "1")]
    last = outcome.rows[-1]
    assert (last.runs, last.numbers["plain"], last.value("mean")) == (2, 2.5, 2.5)
    assert last.numbers["mean"].error == pytest.approx(1.5)


# Risks.


def test_the_page_of_risks_holds_what_its_runs_say(tmp_path):
    copy(DOCS / "results" / "risks" / "runs.jsonl", tmp_path)
    document = risks.STUDY.write(tmp_path)
    settings, bars, pairs = (table(item) for section in document.sections for item in tables(section.present))
    text = " ".join(page("results/risks.md").split())
    assert settings in page("results/risks.md")
    met = {name: (int(many), int(of)) for name, many, of in (row[2:-2].split(" | ") for row in bars.splitlines()[2:])}
    unbiased, covering, right = met.values()
    assert f"{unbiased[0]} of {unbiased[1]} classes and settings are unbiased" in text
    assert f"holds in all {covering[0]}, and the slope is right in {right[0]}" in text
    assert covering[0] == covering[1]
    *_, complete = pairs.splitlines()
    assert complete == "| all | 1080 | -0.063 ± 0.017 | +0.001 ± 0.001 | +0.004 ± 0.005 |"
    assert "1,080 pairs: AUC is .063 ± .017 points lower, accuracy .004 ± .005 higher" in text
    assert "the Brier score .001 ± .001 higher" in text


def test_finished_runs_of_risks_go_on(tmp_path):
    """Nothing is missing of one repeat, so nothing is computed, and the file is left as it is."""
    copy(DOCS / "results" / "risks" / "runs.jsonl", tmp_path)
    before = (tmp_path / "runs.jsonl").read_bytes()
    risks.STUDY.run(order(risks.STUDY, tmp_path, full=True, repeats=1, only=["makers=all"]))
    assert (tmp_path / "runs.jsonl").read_bytes() == before
    assert (tmp_path / PAGE).exists()


# Recalibrations.


def test_a_trial_is_the_place_of_its_seed_in_the_draws_of_its_setting():
    name, setting = next(iter(recalibrations.SETTINGS.items()))
    first, second = islice(setting.answers(), 2)
    assert not np.array_equal(first.truth, second.truth)
    assert np.array_equal(first.truth, next(setting.answers()).truth)
    trials = [recalibrations.compute(recalibrations.task_of(name, seed)) for seed in (0, 1)]
    assert trials[0].key == Task(name, "recalibration", "1/4", 0)
    assert trials[0].numbers["log_loss"] != trials[1].numbers["log_loss"]


def test_rules_count_what_they_use():
    name = next(iter(recalibrations.SETTINGS))
    cells = [
        Run(
            *recalibrations.task_of(name, seed),
            {"log_loss": -0.01, "brier": 0.02, "factor": factor, "slope_held": 1.0, "intercept_held": float(seed > 0)},
            1.0,
        )
        for seed, factor in enumerate((0.5, 2.0, 4.0))
    ]
    ((head, _, row),) = shown(recalibrations.STUDY, trials=cells)
    assert head.startswith("| records | epsilon | prevalence | shift | slope | always: log loss | always: Brier |")
    assert row == (
        "| 400 | 1/4 | 0.05 | +0 | 1 | -10.00 ± 0.00 | +20.00 ± 0.00 | 0.67 | -6.67 ± 3.33 | +13.33 ± 6.67 "
        "| 0.33 | -3.33 ± 3.33 | +6.67 ± 6.67 | 1.00 | 0.67 |"
    )


@pytest.mark.slow
def test_the_command_runs_and_rewrites_a_study(tmp_path, monkeypatch):
    monkeypatch.setattr("expril.report.provenance.cores", lambda: 1)
    command = ["study", "recalibrations", "--out", str(tmp_path), "--repeats", "1", "--only", "prevalences=0.3"]
    said = CliRunner().invoke(app, [*command, "--json"])
    assert said.exit_code == 0, said.output
    assert len(json.loads(said.stdout)["found"]["rows"]) == 10
    folder = tmp_path / "recalibrations"
    before = (folder / FINDINGS).read_bytes()
    (folder / FINDINGS).unlink()
    said = CliRunner().invoke(app, ["study", "recalibrations", "--out", str(tmp_path), "--rewrite"])
    assert said.exit_code == 0, said.output
    assert (folder / FINDINGS).read_bytes() == before


# Validations.


def held(dataset, part, epsilon, seed, share):
    made = dict.fromkeys(validations.QUANTITIES, 10)
    return validations.Coverage(
        dataset, part, epsilon, seed, 9, 0.8, {name: int(10 * share) for name in made}, made, {"auc": 3.0}, -0.5, 1.0
    )


def test_shares_of_validations_are_over_all_intervals():
    cells = [held("plain", "pooled", "0.1", seed, share) for seed, share in enumerate((0.5, 1.0))]
    complete, apart = shown(validations.STUDY, runs=[*cells, held("wdbc", "pooled", "1", 0, 1.0)])
    assert complete[0] in page("learner/validation.md")
    numbers = " | ".join(["0.75"] * 7)
    assert complete[2] == f"| pooled | 0.1 | all | 9 | 0.80 | -0.050 | 0.30 | {numbers} |"
    assert [row.split(" | ")[2] for row in apart[2:]] == ["plain", "wdbc"]


@pytest.mark.slow
@pytest.mark.parametrize("part", validations.REPEATS)
def test_a_validation_holds_what_it_says(part):
    task = Task("plain", part, "1", 5600)
    cell = validations.compute(task)
    assert cell.key == task
    assert cell.hits.keys() == cell.intervals.keys() == set(validations.QUANTITIES)
    assert all(cell.hits[name] <= cell.intervals[name] for name in cell.intervals)
    assert cell.area == pytest.approx(0.8, abs=0.01)


# Perspectives.


def test_differences_of_perspectives_are_paired():
    def cell(setting, seed, accuracy, dataset="A"):
        return Run(dataset, setting, "1/10", seed, {"accuracy": accuracy, "log_loss": 0.5}, 2.0)

    cells = [cell("cells", 1, 80.0), cell("cells", 2, 90.0), cell("informative", 1, 81.0), cell("informative", 2, 93.0)]
    single = cell("informative", 9, 50.0, "B")
    ((head, _, *rows),) = shown(perspectives.STUDY, runs=[*cells, single])
    assert head == "| epsilon 1/10 | A | seconds |"
    assert rows == ["| cells | 85.0 | 2.0 |", "| informative | +2.0 ± 1.0 | 2.0 |"]
    assert "| epsilon 1/10 | A | B | C | D | E | CTG-A | CTG-B | seconds |" in page("learner/strategies.md")


@pytest.mark.slow
def test_a_study_of_a_perspective_is_made():
    cell = perspectives.compute(Task("A", "adaptive-cells, tree", "1", 5000))
    assert cell.key == Task("A", "adaptive-cells, tree", "1", 5000)
    assert 50 < cell.numbers["accuracy"] <= 100
    assert 0 < cell.numbers["log_loss"] < 1


# An additive question, and many attributes.


def test_named_attributes_are_those_of_readmissions_alone(tmp_path):
    only = ["problems=A,readmission", "ways=cells,named"]
    tasks = additive.tasks(order(additive.STUDY, tmp_path, repeats=1, epsilons=("1",), only=only))
    assert {task[:2] for task in tasks} == {("A", "cells"), ("readmission", "cells"), ("readmission", "named")}


def test_ways_of_an_additive_question_have_means_and_errors():
    cells = [Run("A", "half and half", "3/10", seed, {"accuracy": 80.0 + seed, "auc": 90.0}, 1.5) for seed in (1, 3)]
    ((_, _, row),) = shown(additive.STUDY, runs=cells)
    assert row == "| A | 3/10 | half and half | 82.0 ± 1.0 | 90.0 ± 0.0 | 1.5 | 2 |"


def test_each_set_of_wide_records_has_its_regression_in_site(tmp_path):
    only = ["kinds=equal,low-variance-10", "columns=30,60", "ways=cells-three-chosen"]
    tasks = wide.tasks(order(wide.STUDY, tmp_path, repeats=2, epsilons=("1", "3/10"), only=only))
    assert len(set(tasks)) == 2 * 2 * 2 * 3
    assert Task("low variance, 10 %; 60; 2; 2000", "in site", "", 7001) in tasks
    assert Task("equal; 30; 2; 2000", "cells, three chosen", "3/10", 7000) in tasks


def test_wide_areas_are_held_against_the_regression_of_the_same_records():
    def cell(seed, way, auc, epsilon="1"):
        return Run("equal; 30; 2; 2000", way, epsilon, seed, {"auc": auc}, 1.0)

    cells = [cell(1, "in site", 0.9, ""), cell(2, "in site", 0.8, ""), cell(1, "cells", 0.8), cell(2, "cells", 0.74)]
    ((_, _, row),) = shown(wide.STUDY, runs=[*cells, cell(3, "cells", 0.1)])
    assert row == "| equal | 30 | 2 | 2000 | 1 | cells | 0.850 | 0.770 ± 0.030 | 0.080 ± 0.020 | 1.0 | 2 |"


# Quotes.


def test_ranges_are_held_against_what_came_true():
    ranges = [
        Run(data, stated, "0.3", 0, {"accuracy_low": 0.6, "accuracy_high": high, "auc_low": 0.5, "auc_high": 1.0}, 1.0)
        for data in ("heart", "scenario heart")
        for stated, high in ((NOTHING, 0.9), (PREVALENCE_AND_AUC, 0.7))
    ]
    outcomes = [
        Run(data, "cells", "0.3", seed, {"accuracy": accuracy, "auc": 0.9}, 0.0)
        for data in ("heart", "scenario heart")
        for seed, accuracy in enumerate((0.65, 0.85))
    ]
    lonely = Run("A", NOTHING, "0.3", 0, {"accuracy_low": 0.1}, 1.0)
    ways, data = shown(quotes.STUDY, ranges=[*ranges, lonely], outcomes=outcomes)
    assert ways[0].startswith("| stated | score | epsilon | holds, 1 problems | mean width")
    assert ways[2:] == [
        "| nothing | accuracy | 0.3 | 1.00 | 0.30 | 1.00 | 0.30 |",
        "| nothing | AUC | 0.3 | 1.00 | 0.50 | 1.00 | 0.50 |",
        "| prevalence and best AUC | accuracy | 0.3 | 0.50 | 0.10 | 0.50 | 0.10 |",
        "| prevalence and best AUC | AUC | 0.3 | 1.00 | 0.50 | 1.00 | 0.50 |",
    ]
    assert data[0] in page("learner/quote.md")
    assert data[2] == "| heart | 0.3 | 0.60-0.90 | 0.750 | 0.50-1.00 | 0.900 | 0.60-0.70 | 0.50-1.00 |"
    assert len(data) == 4


def test_problems_came_true_in_the_comparison(tmp_path):
    due = quotes.outcome_tasks(order(quotes.STUDY, tmp_path, epsilons=("0.3",), only=["data=heart,wdbc"]))
    assert len(due) == 2 * 20
    cell = quotes.come_true(due[0])
    assert cell.numbers == quotes.measured()["heart"][Fraction(3, 10), due[0].seed]
    assert cell.key == due[0]


@pytest.mark.slow
def test_a_scenario_is_quoted_and_comes_true():
    cell = quotes.come_true(Task("scenario heart", "cells", "1", 0))
    nothing, pair = (quotes.foretell(Task("scenario heart", stated, "1", 0)) for stated in quotes.STATED)
    assert 0.6 < cell.numbers["accuracy"] < 1
    widths = [run.numbers["accuracy_high"] - run.numbers["accuracy_low"] for run in (pair, nothing)]
    assert widths[0] < widths[1]
