"""The study of in-site models: its numbers, its document, its command; small, with real curators."""

import csv
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from expril.report.files import as_markdown, csv_table
from expril.report.numbers import signed
from expril.report.page import as_page
from lab.__main__ import app
from lab.averages import mean_text
from lab.comparison.contestants import CONTESTANTS
from lab.model import STUDY, WAYS, Findings, Fitted, along, document, explained, findings, near
from lab.study import FINDINGS, MARKDOWN, PAGE, Order
from learner_node.strategies import STRATEGIES
from page_outline import Outline
from protocol.rationals import parse_rational

DOCS = Path(__file__).parents[2] / "docs"


def fitted(way, epsilon, seed, score, charged=None):
    return Fitted(
        problem="wdbc",
        maker=way,
        epsilon=epsilon,
        seed=seed,
        score=score,
        auc=score + 1 if WAYS[way].predicts == "classes" else 0.0,
        charged=(epsilon if charged is None else charged) if epsilon != "inf" else "",
        sites=3,
        seconds=1.0,
    )


@pytest.fixture
def results():
    return findings(
        {
            "studies": [
                *(fitted("cells", "1", seed, 90 + seed) for seed in range(3)),
                *(fitted("site-svm", "1", seed, 80 + seed) for seed in range(3)),
                fitted("site-svm", "1/10", 0, 60),
                fitted("site-pca", "1", 0, 30),
                fitted("logistic", "inf", 0, 97),
            ]
        }
    )


def test_every_strategy_that_is_fitted_in_site_is_in_the_study_and_the_comparison():
    ours = {name for name in STRATEGIES if name.startswith("site-")}
    assert ours <= WAYS.keys()
    assert ours - {"site-linear"} <= CONTESTANTS.keys()


def test_points_are_means_beside_cells(results):
    svm = results.point("wdbc", "site-svm", "1")
    assert (svm.score.value, svm.score.runs, svm.gain.value, svm.gain.error) == (81, 3, -10, 0)
    assert results.point("wdbc", "site-pca", "1").auc is None
    assert results.epsilons == ("1", "1/10")


def test_tables_and_charts_are_of_the_same_points(results):
    shown = document(results)
    classes, others = shown.in_medium("page")
    _, charts, table = classes.blocks
    (figure,) = charts.figures
    assert [len(line.marks) for line in figure.lines] == [1, 2]
    assert [rule.text for rule in figure.rules] == ["no privacy: 97.0"]
    ((svm,),) = [[row for row in group.rows if row[1] == "site-svm"] for group in table.groups]
    below = table.columns[1].text(svm)
    assert (below.text, below.tone, below.under) == ("81.0 ± 2.5", "below", "−10.0 to cells")
    assert [row for group in others.blocks[1].groups for row in group.rows] == [("wdbc", "site-pca")]
    page = as_page(shown)
    assert "97.0" in " ".join(Outline(page).words)
    assert not {"link", "img", "iframe"} & {name for name, _ in Outline(page).elements}
    (_, first, *_) = csv.DictReader(csv_table(shown.files["scores.csv"]).splitlines())
    assert (first["way"], first["score"], first["charged"]) == ("cells", "91.00", "1")


def test_one_repeat_has_no_mark_and_one_epsilon_no_chart():
    single = document(findings({"studies": [fitted("cells", "1", 0, 90), fitted("site-svm", "1", 0, 80)]}))
    _, charts, table = single.sections[0].blocks
    assert charts is None
    assert table.columns[1].text(("wdbc", "site-svm")).tone == ""
    assert not document(findings({"studies": []})).in_medium("page")


def test_a_ledger_that_holds_something_else_shows():
    results = findings({"studies": [fitted("site-svm", "1", 0, 80, charged="2")]})
    assert "| 2 |" in as_markdown(document(results))


def test_scores_are_shares_of_the_variance():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(200, 3)) * [3, 1, 0.1]
    assert explained(points[:, 0], points[:, 0]) == 100
    assert explained(points[:, 0], np.full(200, points[:, 0].mean())) == pytest.approx(0, abs=1e-9)
    assert near(points, points) == 100
    assert near(points, points.mean(axis=0)[None]) == pytest.approx(0, abs=1e-9)
    assert along(points, np.eye(3)) == pytest.approx(100)
    assert along(points, np.eye(3)[:1]) > 80


def order(out, *axes, epsilon):
    return Order(STUDY.size(repeats=1, epsilons=(epsilon,), only=["problems=wdbc", *axes]), 1000, out, "typed here")


@pytest.mark.slow
def test_every_way_runs_and_is_charged_epsilon(tmp_path):
    STUDY.run(order(tmp_path, epsilon="20"))
    results = findings(STUDY.cells(tmp_path))
    assert {point.way for point in results.points} == WAYS.keys()
    assert {point.charged for point in results.points} == {"20", ""}
    assert (
        results.point("wdbc", "site-naive-bayes", "20").score.value > 80
    )  # nearer to all than to the 63 % of one class


def test_the_command_writes_its_files_and_goes_on(tmp_path):
    chosen = ("site-naive-bayes", "site-pca", "pca")
    options = ["--epsilon", "2", "--repeats", "1", "--jobs", "1", "--only", "problems=wdbc"]
    arguments = ["study", "model", "--out", str(tmp_path), *options, "--only", f"methods={','.join(chosen)}", "--json"]
    text = CliRunner().invoke(app, arguments)
    assert text.exit_code == 0, text.output
    shown = json.loads(text.stdout)
    assert {point["way"] for point in shown["found"]["points"]} == set(chosen)
    folder = tmp_path / "model"
    assert {path.name for path in folder.iterdir()} >= {PAGE, MARKDOWN, FINDINGS, "scores.csv"}
    before = (folder / "studies.jsonl").read_bytes()
    assert json.loads(CliRunner().invoke(app, arguments).stdout) == shown
    assert (folder / "studies.jsonl").read_bytes() == before
    header = json.loads(before.splitlines()[0])["settings"]
    assert header == {"experiment": "insite", "seed": 1000, "ways": {name: way.title for name, way in WAYS.items()}}


# --- the run that is kept -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept():
    return msgspec.json.decode((DOCS / "results" / "in-site" / "study" / FINDINGS).read_bytes(), type=Findings)


def test_the_kept_files_are_written_from_what_was_found(kept):
    folder, shown = DOCS / "results" / "in-site" / "study", document(kept)
    assert as_markdown(shown) == (folder / MARKDOWN).read_text(encoding="utf-8")
    assert csv_table(shown.files["scores.csv"]) == (folder / "scores.csv").read_text(encoding="utf-8")


def test_the_prose_has_the_kept_numbers(kept):
    prose = " ".join((DOCS / "results" / "in-site-learning.md").read_text(encoding="utf-8").split())
    text = []
    for problem, best in (("CTG-A", "site-svm"), ("heart", "site-naive-bayes"), ("wdbc", "site-svm")):
        points = [point for point in kept.points if (point.problem, point.epsilon) == (problem, "1")]
        fits = {point.way: point for point in points if point.gain is not None}
        assert max(fits, key=lambda way: fits[way].score.value) == best
        (cells,) = [point for point in points if point.way == "cells"]
        text.append(
            f"{mean_text(cells.score)} by cells and {mean_text(fits[best].score)} by {WAYS[best].title} on {problem} "
            f"(a difference of {mean_text(fits[best].gain, signed)})"
        )
    assert f"{text[0]}, {text[1]}, {text[2]}." in prose
    assert [kept.point(*place, "1").gain.tone for place in (("CTG-A", "site-svm"), ("heart", "site-naive-bayes"))] == [
        "below",
        "",
    ]
    assert kept.point("wdbc", "site-svm", "1").gain.tone == ""
    private = [point for point in kept.points if point.epsilon != "inf"]
    assert all(point.charged == str(parse_rational(point.epsilon)) for point in private)
    assert f"exactly epsilon in each of the {sum(point.score.runs for point in private)} private studies" in prose
    explains = {
        way: tuple(
            f"{kept.point('CTG-A', item, epsilon).score.value:.0f} %" for item, epsilon in ((way, "1"), (free, "inf"))
        )
        for way, free in (("site-pca", "pca"), ("site-k-means", "k-means"))
    }
    assert kept.point("CTG-A", "site-linear", "1").score.value == 0
    components, clusters = explains["site-pca"], explains["site-k-means"]
    assert (
        f"components explain {components[0]} of the variance on CTG-A (709 records, without privacy {components[1]})"
        in prose
    )
    assert f"four private clusters {clusters[0]} ({clusters[1]})" in prose
