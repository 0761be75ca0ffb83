"""The comparison of importance weights with Eq. 2: its measures, the published mechanism, and what the page says."""

import json
from pathlib import Path
from shutil import copy

import numpy as np
import pytest

from expril.report.document import tables
from expril.report.markdown import table
from lab.importance import RUNS, STUDY, Plane, discriminator, distance, effective, published_weights, tasks
from lab.study import FINDINGS, Order

DOCS = Path(__file__).resolve().parents[2] / "docs"


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
    whole = discriminator(private, public, regulariser)
    # Weights differ by at most 1 / regulariser. A twentieth of it shows that the rows pull at all.
    gaps = [np.linalg.norm(whole - discriminator(np.delete(private, n, 0), public, regulariser)) for n in range(60)]
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
    copy(DOCS / "importance" / "runs.jsonl", tmp_path)
    document = STUDY.write(tmp_path)
    assert (tmp_path / FINDINGS).read_bytes() == (DOCS / "importance" / FINDINGS).read_bytes()
    page = (DOCS / "importance-weights.md").read_text(encoding="utf-8")
    shown = [table(each) for section in document.sections for each in tables(section.present)]
    assert len(shown) == 3
    assert all(each in page for each in shown)


def test_the_kept_cells_are_all_that_is_published(tmp_path):
    order = Order(STUDY.size(full=True), STUDY.seed, tmp_path, "typed here")
    kept = {cell.key for cell in STUDY.cells(DOCS / "importance")["runs"]}
    assert kept == set(tasks(order))
    results = json.loads((DOCS / "importance" / FINDINGS).read_text(encoding="utf-8"))
    assert {name: len(runs) for name, runs in results["runs"].items()} == RUNS
