"""The study of statistics: a cell, what it finds without doubt, its document, the command."""

import csv
import json
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

from lab.__main__ import app
from lab.statistic import ESTIMANDS, METHODS, POPULATIONS, STUDY, Sample, compute, document, findings, task_of
from lab.study import FINDINGS, PAGE, Order
from page_outline import Outline


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


def test_tables_and_charts_are_of_the_same_points():
    cells = [compute(task_of("skewed", "median", records, "1", seed)) for records in (100, 300) for seed in (1, 2)]
    found = findings({"cells": cells})
    assert [(point.records, point.samples) for point in found.points] == [(100, 2), (300, 2)]
    wins, errors = document(found).sections
    assert (
        sum(column.show(name) for column in wins.blocks[0].columns[1:2] for name in wins.blocks[0].groups[0].rows) == 2
    )
    _, charts, table = errors.blocks
    assert len(table.groups[0].rows) == 2
    (figure,) = charts.figures
    assert len(figure.lines) == len(METHODS)
    assert not document(findings({"cells": []})).in_medium("terminal")


def order(out):
    size = STUDY.size(
        repeats=1, epsilons=("1",), only=["records=100,300", "populations=skewed,heavy-tailed,contaminated"]
    )
    return Order(size, 1, out, "typed here")


def test_a_study_is_kept_written_and_goes_on(tmp_path):
    STUDY.run(order(tmp_path))
    points = json.loads((tmp_path / FINDINGS).read_text())["points"]
    assert len(points) == 3 * 2 * 2
    assert points[0]["samples"] == 1
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert Outline(page).count("figure") == 3 * 2
    rows = list(csv.DictReader((tmp_path / "errors.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == len(points)
    before = (tmp_path / "cells.jsonl").read_bytes()
    STUDY.run(order(tmp_path))
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
