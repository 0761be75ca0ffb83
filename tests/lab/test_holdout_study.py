"""The study of holdouts: fits, choices, the blog's variant and its cost, a real curator, claims, pages, the command."""

import csv
import json
import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from expril.audit.attack.controls.parts import blog_loss
from expril.report.document import tables
from expril.report.files import as_markdown
from expril.report.page import as_page
from expril.report.picture import as_files
from lab.__main__ import app
from lab.holdout.blog import TOLERANCE, blog_cost, blog_score, edge_loss, questions
from lab.holdout.curator import (
    SOLVERS,
    ask_each_candidate,
    ask_each_step,
    frame_of,
    hypothesis_of,
    plan_holdout,
    steward_of,
)
from lab.holdout.draws import BLOG, SETTINGS, VARIABLES, Part, Sizes, draw
from lab.holdout.findings import STATEMENTS, Statement, bias, claims_of, findings, hold, kept_step, peak_at
from lab.holdout.regression import Model, by_likelihood, by_test, fit, fit_each, grow, with_intercept
from lab.holdout.runs import EACH_CANDIDATE, EACH_STEP, LARGE, NAIVE, SOURCE, THRESHOLDOUT, Run, compute_run
from lab.holdout.study import STUDY, document, study, tasks
from lab.study import PAGE, Order
from learner_node.scores.values import wilson
from page_outline import Outline
from protocol.errors import ConfigurationError
from protocol.kinds.holdout import HOLDOUT
from protocol.record_frames import encode_frame
from simulations.campaign.store import Task

DOCS = Path(__file__).parents[2] / "docs"
TINY = Sizes(train=80, test=60, large=90, fresh=100, steps=3)


def part(seed, size, variables, shift=0.6):
    random = np.random.default_rng(seed)
    labels = random.random(size) < 0.5
    return Part(random.standard_normal((size, variables)) + shift * np.where(labels, 1, -1)[:, None], labels)


def peer(columns, labels):
    """Weights of scikit-learn's unpenalised regression, intercept first."""
    results = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(columns, labels)
    return np.concatenate([results.intercept_, results.coef_[0]])


# --- fits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_is_that_of_scikit_learn(seed):
    data = part(seed, 300, 4)
    weights, converged = fit(with_intercept(data.columns), data.labels)

    assert converged
    # scikit-learn's own tolerance, on a gradient, leaves errors of about 1e-6.
    np.testing.assert_allclose(weights, peer(data.columns, data.labels), atol=1e-4)


@pytest.mark.parametrize(("seed", "current"), [(0, 0), (1, 2), (2, 5)])
def test_all_candidates_at_once_are_fitted_as_each_alone(seed, current):
    data = part(seed, 250, current + 6)
    design = with_intercept(data.columns[:, :current])
    weights, _ = fit(design, data.labels)
    more = data.columns[:, current:]
    results = fit_each(design, weights, more, data.labels)

    assert results.converged.all()
    for place in range(more.shape[1]):
        columns = np.column_stack([data.columns[:, :current], more[:, place]])
        together = np.append(results.weights[:, place], results.added[place])
        np.testing.assert_allclose(together, fit(with_intercept(columns), data.labels)[0], atol=1e-6)
        np.testing.assert_allclose(together, peer(columns, data.labels), atol=1e-4)
        np.testing.assert_allclose(results.scores[:, place], with_intercept(columns) @ together, atol=1e-9)


def test_classes_that_can_be_separated_and_a_column_twice_make_no_fit_fail():
    data = part(0, 40, 2)
    design = with_intercept(data.columns[:, :1])
    weights, _ = fit(design, data.labels)
    parted = np.where(data.labels, 1.0, -1.0)
    results = fit_each(design, weights, np.column_stack([parted, data.columns[:, 0], data.columns[:, 1]]), data.labels)

    assert results.converged.tolist() == [False, True, True]
    assert np.isfinite(results.scores).all()
    assert ((results.scores[:, 0] >= 0) == data.labels).all()
    np.testing.assert_allclose(results.scores[:, 1], design @ weights, atol=1e-4)


# --- stepwise -----------------------------------------------------------------------------------------------


def test_naive_choices_are_those_of_a_direct_search():
    draws = draw(SETTINGS["strong"], 5, Sizes(train=200, test=150, large=10, fresh=300, steps=3))
    chosen = []
    for _ in range(3):
        scores = {}
        for column in (column for column in range(VARIABLES) if column not in chosen):
            weights, _ = fit(with_intercept(draws.train.columns[:, [*chosen, column]]), draws.train.labels)
            scores[column] = Model((*chosen, column), weights).right(draws.test)
        chosen.append(max(scores, key=scores.__getitem__))  # the first of equal ones, as R's which.max
    grown = grow(draws, draws.test, by_test, 3)

    assert grown.models[-1].variables == tuple(chosen)
    assert grown.test == tuple(model.right(draws.test) for model in grown.models)
    assert grown.fresh == tuple(model.right(draws.fresh) for model in grown.models)
    assert grown.all_converged


def test_the_likelihood_only_rises_and_looks_at_no_test_record():
    draws = draw(SETTINGS["strong"], 6, TINY)
    seen = []

    def score(offer):
        seen.append(by_likelihood(offer).max())
        return by_likelihood(offer)

    grown = grow(draws, draws.test, score, 4)
    other = grow(draws, draws.large, by_likelihood, 4)

    assert all(a < b < 0 for a, b in pairwise(seen))
    assert [model.variables for model in grown.models] == [model.variables for model in other.models]


def test_data_are_drawn_as_the_blogs_code_says():
    draws = draw(SETTINGS[BLOG], 0, Sizes(train=10, test=10, large=10, fresh=40_000))
    columns, sign = draws.fresh.columns, np.where(draws.fresh.labels, 1, -1)

    # 222 numbers within 6.5 standard errors: a false alarm has a chance below 2e-8, and the seed is set.
    error = 6.5 / math.sqrt(len(columns))
    means = (columns * sign[:, None]).mean(axis=0)
    np.testing.assert_allclose(means, np.where(draws.signal, 0.1, 0.0), atol=error)
    np.testing.assert_allclose(columns.var(axis=0), 1, atol=error * 1.5)
    assert abs(draws.fresh.labels.mean() - 0.5) < error / 2
    assert draws.signal[:10].all()
    assert not draws.signal[10:].any()
    best = ((columns[:, :10].sum(axis=1) > 0) == draws.fresh.labels).mean()
    assert 100 * best == pytest.approx(SETTINGS[BLOG].best, abs=100 * error / 2)
    assert SETTINGS[BLOG].best == pytest.approx(62.4, abs=0.05)
    shuffled = draw(SETTINGS["shuffled"], 0, TINY)
    assert shuffled.signal.sum() == 10
    assert not shuffled.signal[:10].all()
    again = draw(SETTINGS["shuffled"], 0, TINY)
    assert (again.test.columns == shuffled.test.columns).all()


# --- the blog's variant -------------------------------------------------------------------------------------


def test_the_variant_is_the_blogs_fragment():
    random = np.random.default_rng(3)
    train, test = random.integers(-50, 50, 400) / 1000, random.integers(-50, 50, 400) / 1000
    noise = random.laplace(size=400)
    eps = 0.04
    expected = []
    for train_score, test_score, draws in zip(train, test, noise, strict=True):  # as the post has it in R
        if abs(test_score - train_score) <= eps / 2:
            score = train_score + draws * (eps / 2)
        else:
            score = test_score + draws * eps
        expected.append(max(0, min(1, score)))

    results = blog_score(train, test, lambda scales: noise * scales, float(TOLERANCE))
    np.testing.assert_allclose(results, expected, atol=1e-15)
    assert 0.2 < np.mean(np.abs(test - train) <= eps / 2) < 0.8
    assert results.min() == 0


def chances(center, scale, edges):
    """Of Laplace noise about a center, clipped to 0 .. 1: the atom at 0, the cells between edges, the atom at 1."""
    below = np.where(
        edges < center, 0.5 * np.exp((edges - center) / scale), 1 - 0.5 * np.exp(-(edges - center) / scale)
    )
    above = 0.5 * np.exp(-abs(1 - center) / scale)
    return np.concatenate([[below[0]], np.diff(below), [above]])


@pytest.mark.parametrize("train", [-1.0, -0.5, 0.0])
def test_what_a_question_costs_is_attained_and_never_passed(train):
    eps, moved = float(TOLERANCE), 0.002
    edges = np.linspace(0, 1, 501)
    here = np.log(np.maximum(chances(train, eps / 2, edges), 1e-300))
    there = np.log(np.maximum(chances(train + eps / 2 + moved, eps, edges), 1e-300))
    claimed = float(edge_loss(Fraction(train), Fraction(1, 500), TOLERANCE))

    assert there[-1] - here[-1] == pytest.approx(claimed, rel=1e-9)
    certain = np.minimum(here, there) > -60  # beyond, differences of chances are rounded away
    certain[[0, -1]] = True
    assert np.abs(there - here)[certain].max() <= claimed + 1e-6
    # The audit's control has its own arithmetic.
    assert blog_loss(train, train + eps / 2 + moved, eps) == pytest.approx(claimed, rel=1e-12)


def test_a_run_of_the_variant_costs_what_its_questions_do():
    results = blog_cost(1000, questions(110, 50))

    assert questions(110, 50) == results.questions == 4275
    assert questions(3, 5) == 6
    assert results.noise_alone == Fraction(1, 20)
    assert results.run_by_noise == Fraction(855, 4)
    assert results.question == 50 + Fraction(1, 2) + Fraction(1, 20)
    assert results.usual == 25 + Fraction(1, 2) + Fraction(1, 20)
    assert results.run == 4275 * results.question
    assert results.honest_scale == Fraction(855, 100)


# --- the valid holdout --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "turns", "answers"), [("1", 50, 1), ("3", 50, 3), ("7/2", 50, 3), ("9", 4, 4)])
def test_a_plan_costs_exactly_epsilon(epsilon, turns, answers):
    planned = plan_holdout(Fraction(epsilon), turns, 40)

    assert (planned.answers, planned.turns) == (answers, turns)
    assert HOLDOUT.cost(planned, 1) == Fraction(epsilon)
    assert planned.threshold == 40
    assert plan_holdout(Fraction("0.1"), 50, 40).threshold == math.ceil(40 * math.log(50))
    for wrong in ("0", "-1", "1/4294967297"):
        with pytest.raises(ConfigurationError, match="epsilon"):
            plan_holdout(Fraction(wrong), 50, 40)


def test_a_hypothesis_predicts_as_its_model():
    data = part(1, 4000, 5, shift=0.2)
    weights, _ = fit(with_intercept(data.columns[:, [4, 1, 2]]), data.labels)
    model = Model((4, 1, 2), weights)
    predicted = hypothesis_of(model).predict(encode_frame(frame_of(data), steward_of(data).schema))
    scores = with_intercept(data.columns[:, [4, 1, 2]]) @ weights

    apart = predicted != (scores >= 0)
    assert np.abs(scores[apart]).max(initial=0) < 1e-3  # the grid of 2^-12, times weights of about 1
    assert apart.mean() < 0.005


def test_a_curator_is_asked_once_a_step_and_charges_each_instance_that_begins():
    draws = draw(SETTINGS["strong"], 1, TINY)
    grown, answers = ask_each_step(draws, TINY, Fraction(3000))

    assert answers.questions == TINY.steps
    truth = [100 * right / TINY.test for right in grown.test]
    # At this epsilon noise beyond 0 has a chance below 1e-100; a stated accuracy is rounded to a thousandth.
    near = 100 * math.ceil(TOLERANCE * TINY.test) / TINY.test
    assert all(abs(printed - true) <= near + 1 for printed, true in zip(answers.estimates, truth, strict=True))
    begun = answers.counted + (answers.estimates[-1] != pytest.approx(truth[-1], abs=1e-3))
    assert answers.charged in {1000 * begun, 1000 * answers.counted, 1000 * (answers.counted + 1)}


@pytest.mark.slow
def test_when_answers_are_spent_nothing_more_is_asked():
    draws = draw(SETTINGS[BLOG], 2, TINY)
    _, answers = ask_each_candidate(draws, TINY, Fraction(1, 10))

    # Noise of 40 records against a threshold of 232 leaves either outcome possible, and one charge.
    assert answers.charged == Fraction(1, 10)
    assert answers.counted in (0, 1)
    assert answers.questions <= questions(VARIABLES, 3)
    assert len(answers.estimates) == 3


# --- claims -------------------------------------------------------------------------------------------------


def run(procedure, seed=0, *, setting=BLOG, epsilon="inf", **changes):
    given = {
        "sizes": (100, 100, 100),
        "signal": (True, False, True),
        "train": (60, 62, 64),
        "test": (60, 62, 66),
        "fresh": (55, 58, 57),
        "seconds": 1.0,
    }
    return Run(setting, procedure, epsilon, seed, **(given | changes))


def held(value, claimed, rounding=0.5):
    return hold(Statement(NAIVE, "says", "is", lambda number: number, claimed, rounding), value)


def test_a_number_holds_by_its_means_interval_happens_by_its_spread_and_is_else_not_seen():
    assert held([8.0, 9.0, 10.0] * 10, 9.0).verdict == "holds"
    assert held([8.0, 9.0, 10.0], 9.0).verdict == "open"
    assert held([9.0], 9.0).verdict == "open"
    assert held([8.6] * 10, 9.0).verdict == "holds"
    assert held([6.0, 8.0, 10.0] * 10, 10.0).verdict == "possible"
    assert held([4.0, 5.0, 6.0] * 10, 10.0).verdict == "not seen"
    results = held([4.0, 5.0, 6.0] * 10, 10.0)
    assert (results.mean.value, results.low, results.high) == (5.0, 4.0, 6.0)


def test_a_statement_holds_by_its_share():
    shares = {10: "holds", 9: "holds", 8: "open", 5: "open", 1: "possible", 0: "not seen"}
    for true, verdict in shares.items():
        results = held([1.0] * true + [0.0] * (10 - true), None)
        assert (results.verdict, results.mean.value) == (verdict, 10 * true)
        assert results.low <= 10 * true <= results.high
    results = held([1.0, 1.0], None)
    assert (round(results.low), round(results.high), results.verdict) == (34, 100, "open")
    low, high = wilson(0.5, 10)
    assert (round(low, 3), round(high, 3)) == (0.237, 0.763)


def test_claims_are_of_data_sets_that_all_three_procedures_have():
    complete = [run(name, 0) for name in (NAIVE, THRESHOLDOUT, LARGE)]
    results = claims_of([*complete, run(NAIVE, 1), run(LARGE, 0, setting="weak"), run(SOURCE, 0)])

    assert len(results) == len(STATEMENTS)
    assert {claim.mean.runs for claim in results} == {1}
    printed = {(claim.procedure, claim.says): claim for claim in results}
    assert printed[NAIVE, "it picked one of the ten signal variables"].mean.value == 2
    assert printed[NAIVE, "test estimates are more upwardly biased than training estimates"].mean.value == 100
    assert printed[NAIVE, "performance degrades as noise swamps the single signal"].mean.value == 0
    assert printed[THRESHOLDOUT, "a peak accuracy of about 61 %"].mean.value == 58
    assert printed[THRESHOLDOUT, "at around 36 variables"].mean.value == 2
    assert claims_of(complete[:2]) == ()
    assert (bias(complete[0]), peak_at(complete[0])) == (9, 2)


def test_a_user_keeps_what_looks_best_among_what_was_asked_about():
    asked = run(EACH_STEP, epsilon="1", estimates=(61.0, 60.0, 70.0), questions=2, last=1, charged="1")
    assert kept_step(asked) == 0
    assert kept_step(run(NAIVE)) == 2
    (shown,) = findings({"runs": [asked]}).procedures
    assert shown.reported.excess.value == pytest.approx(61 - 55)
    assert shown.reported.off.value == pytest.approx((6 + 2) / 2)
    assert shown.charged == ("1", "1")


# --- what is written ----------------------------------------------------------------------------------------

RUNS = [
    *(run(name, seed) for seed in range(3) for name in (NAIVE, THRESHOLDOUT, LARGE, SOURCE)),
    *(run(name, 0, setting="weak") for name in (NAIVE, THRESHOLDOUT, LARGE, SOURCE)),
    run(EACH_STEP, 0, epsilon="3", estimates=(61.0, 60.0, 58.0), questions=3, counted=1, last=2, charged="2"),
]


def test_a_document_says_what_was_found_in_every_form_and_loads_nothing():
    results = findings({"runs": RUNS})
    shown = document(results)
    page, text, drawings = as_page(shown), as_markdown(shown), as_files(shown)

    for form in (page, text):
        assert "it found all ten signal variables" in form
        assert "cannot be told" in form
        assert "holdout, each step, epsilon 3" in form
    outline = Outline(page)
    assert outline.count("script") == 1  # our own
    assert not {"link", "img", "iframe"} & {name for name, _ in outline.elements}
    assert outline.count("figure") == 5 + 1
    assert "![Signal variables found](signals.svg)" in text
    assert drawings.keys() == {"curves.svg", "signals.svg"}
    for drawing in drawings.values():
        assert ET.fromstring(drawing).tag.endswith("svg")
        assert "href" not in drawing
    words = " ".join(ET.fromstring(drawings["curves.svg"]).itertext())
    assert "what the learner believes" in words
    assert "58.0 % with 2 variables" not in words  # the first and the last step are told, and every fifth is marked
    terminal = [table.caption for part in shown.in_medium("terminal") for table in tables(part.present)]
    assert len(terminal) == 5


def test_rows_of_the_file_are_steps():
    (table,) = document(findings({"runs": RUNS})).files.values()
    rows = [{column.heading: str(column.show(row)) for column in table.columns} for row in table.groups[0].rows]

    assert len(rows) == 9 * 3
    assert (rows[2]["procedure"], rows[2]["variables"], rows[2]["fresh"], rows[2]["found"]) == (
        NAIVE,
        "3",
        "57.00",
        "2.00",
    )


def test_nothing_is_a_document_too():
    empty = document(findings({"runs": []}))
    assert "<h1>" in as_page(empty)
    assert as_markdown(empty).startswith("# ")
    assert as_files(empty) == {}
    assert not empty.in_medium("terminal")
    one = document(findings({"runs": [run(EACH_STEP, epsilon="1", questions=3, last=2, charged="1")]}))
    assert as_files(one).keys() == {"curves.svg"}
    assert "<h1>" in as_page(one)


def test_the_docs_tell_the_published_numbers():
    folder = DOCS / "results" / "reproduction" / "holdout"
    results = STUDY.read_findings(folder)
    text = " ".join((DOCS / "explanation" / "holdout.md").read_text(encoding="utf-8").split())
    main = {(shown.procedure, shown.epsilon): shown for shown in results.main}
    free = {name: main[name, "inf"] for name in (NAIVE, THRESHOLDOUT, LARGE, SOURCE)}
    verdicts = [claim.verdict for claim in results.claims]

    printed = [
        (
            f"Of {len(verdicts)} statements about the one data set {verdicts.count('holds')} hold on average, "
            f"{verdicts.count('possible')} do not and happened all the same, {verdicts.count('not seen')} never "
            f"happened, and of {verdicts.count('open')} it cannot be told from {results.claims[0].mean.runs} data sets"
        ),
        (
            f"the naive procedure finds {free[NAIVE].signals.value:.1f} (blog: 1), Thresholdout "
            f"{free[THRESHOLDOUT].signals.value:.1f} (blog: 10), the large test set {free[LARGE].signals.value:.1f}"
        ),
        (
            f"on the way is {free[NAIVE].peak.value:.1f}, {free[THRESHOLDOUT].peak.value:.1f} (blog: about 61) and "
            f"{free[LARGE].peak.value:.1f} %"
        ),
        (
            f"finds {free[SOURCE].signals.value:.1f} and reaches {free[SOURCE].peak.value:.1f} %: "
            f"{free[SOURCE].peak.value - free[THRESHOLDOUT].peak.value:.1f} points more than Thresholdout"
        ),
        (
            f"asks {results.cost.questions:,} questions and costs up to epsilon {results.cost.run:,.0f}; by its noise "
            f"alone it would be {results.cost.run_by_noise:,.0f}."
        ),
    ]
    one, three = (main[EACH_STEP, epsilon] for epsilon in ("1", "3"))
    for shown in (one, three):
        printed += [f"answers {shown.questions.value:.1f} questions, {shown.counted.value:.1f} of them by counts"]
        printed += [
            f"right for {shown.reported.true.value:.1f} %",
            f"{shown.reported.excess.value:.1f} points too high",
        ]
    assert [sentence for sentence in printed if sentence not in text] == []


# --- the study ----------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch):
    """Small data sets, in this process."""
    monkeypatch.setattr("lab.holdout.study.STUDY", study(TINY))
    monkeypatch.setattr("lab.holdout.study.OTHER_REPEATS", 1)
    monkeypatch.setattr("expril.report.provenance.cores", lambda: 1)


@pytest.mark.slow
def test_the_command_runs_goes_on_and_writes_every_file(tiny, tmp_path, monkeypatch):
    procedures = "procedures=naive,thresholdout,large-test,likelihood,each-step"
    typed = ["study", "holdout", "--out", str(tmp_path), "--repeats", "2", "--seed", "3", "--epsilon", "5"]
    typed += ["--only", "settings=all", "--only", procedures]
    printed = CliRunner().invoke(app, [*typed, "--json"])
    assert printed.exit_code == 0, printed.output
    results = json.loads(printed.stdout)["found"]
    folder = tmp_path / "holdout"
    assert {path.name for path in folder.iterdir()} == {
        "README.md", "curves.csv", "curves.svg", "provenance.json", "report.html", "results.json", "runs.jsonl",
        "signals.svg",
    }  # fmt: skip
    assert results["provenance"]["command"].startswith(
        "expril-lab study holdout --repeats 2 --seed 3 --epsilon 5 --only"
    )
    assert len(results["claims"]) == len(STATEMENTS)
    assert len((folder / "runs.jsonl").read_text().splitlines()) == 1 + 2 * 4 + 2 + 3 * 4
    assert len(list(csv.DictReader((folder / "curves.csv").read_text().splitlines()))) == TINY.steps * (4 * 4 + 1)
    assert "expril-lab study holdout" in (folder / PAGE).read_text()

    before = (folder / "runs.jsonl").read_bytes()
    again = CliRunner().invoke(app, typed)
    assert again.exit_code == 0, again.output
    assert "it found all ten signal variables" in again.stdout
    assert (folder / "runs.jsonl").read_bytes() == before
    monkeypatch.setattr("lab.holdout.study.STUDY", STUDY)
    refused = CliRunner().invoke(app, typed)
    assert refused.exit_code == 2
    assert "begun with other settings" in refused.stderr


def test_runs_of_a_seed_are_the_same_again():
    for maker in (NAIVE, THRESHOLDOUT, LARGE, SOURCE):
        first, second = (compute_run(TINY, SOLVERS, Task(BLOG, maker, "inf", 7)) for _ in range(2))
        assert (first.signal, first.fresh, first.test) == (second.signal, second.fresh, second.test)
        assert first.key == Task(BLOG, maker, "inf", 7)
    assert set(SOLVERS) == {EACH_STEP, EACH_CANDIDATE}


def test_all_runs_are_wanted_once_and_those_of_the_docs_are_all():
    due = tasks(Order(STUDY.size(full=True, repeats=12), 1, Path(), "typed"))
    assert len(due) == len(set(due)) == 12 * 4 + 12 * 2 + 3 * 10 * 4 + 3 * 2
    assert due[0].problem == BLOG
    assert {task.maker for task in due[-6:]} == {EACH_CANDIDATE}
    below_one = tasks(Order(STUDY.size(full=True, epsilons=("1/2",)), 1, Path(), "typed"))
    assert EACH_CANDIDATE not in {task.maker for task in below_one}

    complete = tasks(Order(STUDY.full, STUDY.seed, Path(), "typed"))
    assert {run.key for run in STUDY.cells(DOCS / "results" / "reproduction" / "holdout")["runs"]} == set(complete)
