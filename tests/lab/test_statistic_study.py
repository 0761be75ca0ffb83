"""The study of statistics: a cell, what it finds without doubt, its tables and page, the command."""

import csv
import json
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from expril.commands.command import app
from lab.statistic import command, plots, tables, words
from lab.statistic.cells import compute, task_of
from lab.statistic.command import Order, simulate_statistic
from lab.statistic.methods import ESTIMANDS, METHODS, Sample
from lab.statistic.model import found_of
from lab.statistic.populations import POPULATIONS
from page_outline import Outline


@pytest.fixture
def invented(monkeypatch):
    """No stays in hospital: their records are not everywhere."""
    monkeypatch.delitem(POPULATIONS, "stays")


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
    first, again = compute(task), compute(task)
    assert (first.errors, first.key) == (again.errors, task)
    assert first.errors.keys() == METHODS.keys()
    # 5,000 and 1.35 times 100 in percent of the range: the worst case is no use, a choice is.
    assert first.errors["exponential"] < 20
    assert first.errors["global"] > 300


def test_tables_figures_and_words_are_of_the_same_points():
    cells = [compute(task_of("skewed", "median", records, "1", seed)) for records in (100, 300) for seed in (1, 2)]
    found = found_of(cells)
    assert [(point.records, point.samples) for point in found.points] == [(100, 2), (300, 2)]
    (shown,) = tables.errors(found).values()
    assert len(shown.groups[0].rows) == 2
    (figure,) = plots.figures(found, "median", "1")
    assert len(figure.lines) == len(METHODS)
    assert "errs least" in words.headline(found)
    assert len(words.summary(found)) == len(METHODS)
    assert words.headline(found_of([]))


@pytest.mark.usefixtures("invented")
def test_a_study_is_kept_written_and_goes_on(tmp_path):
    order = Order(tmp_path, "typed here", epsilons=("1",), repeats=1, records=(100, 200))
    found = simulate_statistic(order, lambda *_: None)
    assert len(found.points) == len(order.tasks()) == 3 * 2 * 2
    page = (tmp_path / command.PAGE).read_text(encoding="utf-8")
    assert Outline(page).count("figure") == 3 * 2
    rows = list(csv.DictReader((tmp_path / command.ERRORS).read_text(encoding="utf-8").splitlines()))
    assert len(rows) == len(found.points)
    assert json.loads((tmp_path / command.FOUND).read_text())["points"][0]["samples"] == 1
    before = (tmp_path / command.CELLS).read_bytes()
    assert simulate_statistic(order, lambda *_: None).points == found.points
    assert (tmp_path / command.CELLS).read_bytes() == before


@pytest.mark.slow
@pytest.mark.usefixtures("invented")
def test_the_command_runs_it(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "Order", partial(Order, records=(100,)))
    monkeypatch.setattr("expril.report.provenance.cores", lambda: 1)
    said = CliRunner().invoke(
        app, ["simulate", "statistic", "--out", str(tmp_path), "--repeats", "1", "--epsilon", "1", "--json"]
    )
    assert said.exit_code == 0, said.output
    assert (tmp_path / "statistic" / command.PAGE).exists()
