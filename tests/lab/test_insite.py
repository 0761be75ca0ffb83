"""The study of in-site models, and the game on somebody else's: small, with real curators."""

import csv
import json
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

from expril.commands.app import app
from lab.comparison.contestants import CONTESTANTS
from lab.model import command, studies
from lab.model.command import Order, simulate_insite
from lab.model.files import points_csv
from lab.model.markdown import build_markdown
from lab.model.model import found_of
from lab.model.page import build_page
from lab.model.studies import WAYS, Fitted, along, explained, near
from lab.model.words import headline, summary
from lab.peers import PeerUnavailableError, audited
from lab.peers.audited import PEER_GAMES, audit_peer
from lab.peers.environment import peers_python
from learner_node.strategies import STRATEGIES
from page_outline import Outline


def fitted(way, epsilon, seed, score, charged=None):
    return Fitted(
        problem="wdbc",
        way=way,
        epsilon=epsilon,
        seed=seed,
        score=score,
        auc=score + 1 if WAYS[way].predicts == "classes" else 0.0,
        charged=(epsilon if charged is None else charged) if epsilon != "inf" else "",
        sites=3,
        seconds=1.0,
    )


@pytest.fixture
def found():
    return found_of(
        [
            *(fitted("cells", "1", seed, 90 + seed) for seed in range(3)),
            *(fitted("site-svm", "1", seed, 80 + seed) for seed in range(3)),
            fitted("site-svm", "1/10", 0, 60),
            fitted("site-pca", "1", 0, 30),
            fitted("logistic", "inf", 0, 97),
        ]
    )


def test_every_strategy_that_is_fitted_in_site_is_in_the_study_and_the_comparison():
    ours = {name for name in STRATEGIES if name.startswith("site-")}
    assert ours <= WAYS.keys()
    assert ours - {"site-linear"} <= CONTESTANTS.keys()


def test_points_are_means_beside_cells(found):
    svm = found.point("wdbc", "site-svm", "1")
    assert (svm.score.value, svm.score.runs, svm.gain.value, svm.gain.error) == (81, 3, -10, 0)
    assert found.point("wdbc", "site-pca", "1").auc is None
    assert found.epsilons == ("1", "1/10")


def test_pages_say_what_was_found_and_load_nothing(found):
    page, text = build_page(found), build_markdown(found)
    assert headline(found).endswith("91.0 % by cells and 81.0 % by linear support vectors on wdbc")
    assert "The best in-site model is behind cells on wdbc (−10.0 ± 0.0 points)." in summary(found)
    alone = found_of([fitted("cells", "1", 0, 90), fitted("site-svm", "1", 0, 80)])
    assert "Which of the two is ahead on wdbc (−10.0 points) cannot be told." in summary(alone)
    assert "81.0 ± 2.5" in text
    assert "97.0" in " ".join(Outline(page).words)
    assert not {"script", "link", "img", "iframe"} & {name for name, _ in Outline(page).elements}
    (_, first, *_) = csv.DictReader(points_csv(found).splitlines())
    assert (first["way"], first["score"], first["charged"]) == ("cells", "91.00", "1")
    assert build_markdown(found_of([])).startswith("# ")


def test_a_ledger_that_holds_something_else_shows():
    found = found_of([fitted("site-svm", "1", 0, 80, charged="2")])
    assert "| 2 |" in build_markdown(found)


def test_scores_are_shares_of_the_variance():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(200, 3)) * [3, 1, 0.1]
    assert explained(points[:, 0], points[:, 0]) == 100
    assert explained(points[:, 0], np.full(200, points[:, 0].mean())) == pytest.approx(0, abs=1e-9)
    assert near(points, points) == 100
    assert near(points, points.mean(axis=0)[None]) == pytest.approx(0, abs=1e-9)
    assert along(points, np.eye(3)) == pytest.approx(100)
    assert along(points, np.eye(3)[:1]) > 80


@pytest.mark.slow
def test_every_way_runs_and_is_charged_epsilon(tmp_path):
    order = Order(tmp_path, "expril simulate insite", problems=("wdbc",), epsilons=("20",), repeats=1)
    found = simulate_insite(order, lambda *_: None)
    assert {point.way for point in found.points} == WAYS.keys()
    assert {point.charged for point in found.points} == {"20", ""}
    assert found.point("wdbc", "site-naive-bayes", "20").score.value > 80  # nearer to all than to the 63 % of one class


def test_the_command_writes_its_files_and_goes_on(tmp_path, monkeypatch):
    kept = {name: WAYS[name] for name in ("site-naive-bayes", "site-pca", "pca")}
    for module in (command, studies):
        monkeypatch.setattr(module, "WAYS", kept)
    arguments = ["simulate", "insite", "--out", str(tmp_path), "--epsilon", "2", "--repeats", "1", "--json"]
    monkeypatch.setattr(
        command, "Order", lambda *given, **named: Order(*given, **{**named, "problems": ("wdbc",), "jobs": 1})
    )
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0, told.output
    shown = json.loads(told.stdout)
    assert {point["way"] for point in shown["found"]["points"]} == kept.keys()
    folder = tmp_path / "insite"
    assert {path.name for path in folder.iterdir()} >= {"report.html", "README.md", "results.json", "scores.csv"}

    def never(_task):
        raise AssertionError

    monkeypatch.setattr(command, "compute", never)
    assert json.loads(CliRunner().invoke(app, arguments).stdout) == shown


# --- somebody else's models -----------------------------------------------------------------------------------------


def test_without_the_peers_environment_nothing_is_played(monkeypatch, tmp_path):
    monkeypatch.setenv("EXPRIL_PEERS", str(tmp_path / "none"))
    with pytest.raises(PeerUnavailableError, match="EXPRIL_PEERS"):
        audit_peer("naive-bayes-counts", draws=400)
    told = CliRunner().invoke(app, ["audit", "peers", "--json"])
    assert told.exit_code == 0
    assert "not there" in json.loads(told.stdout)["skipped"]
    assert "skipped" in CliRunner().invoke(app, ["audit", "peers"]).output


def test_a_release_that_tells_the_number_of_records_is_broken(monkeypatch):
    def counts(task):
        rng = np.random.default_rng(len(task.train))
        first = rng.integers(0, len(task.train) + 1, len(task.test))
        return np.stack([np.full(len(first), len(task.train)), first], axis=1).astype(float)

    monkeypatch.setattr(audited, "outcomes_in_environment", counts)
    assert audit_peer("naive-bayes-counts", draws=400).broken
    found = audit_peer("logistic-n", draws=400)
    assert found.broken
    assert not found.expected


@pytest.mark.slow
def test_their_naive_bayes_tells_the_number_of_records():
    """Bound: with 200 outcomes of 200 against 0 at an error rate of 0.001, ln(0.96 / 0.04) is above 1."""
    try:
        peers_python()
    except PeerUnavailableError as error:
        pytest.skip(str(error))
    try:
        found = audit_peer("naive-bayes-counts", draws=400)
    except PeerUnavailableError as error:
        pytest.skip(str(error))
    assert found.broken
    assert found.attack.lower_bound > 1
    assert Fraction(found.attack.claimed) == 1
    assert len([game for game in PEER_GAMES.values() if not game.fault]) == 1
