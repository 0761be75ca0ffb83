"""Whether joining pays: scores with their errors, intervals, verdicts, and the report's section."""

import gc
import sys
import tracemalloc
from functools import partial
from itertools import product

import msgspec
import numpy as np
import polars as pl
import pytest
from scipy.stats import binom, norm
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV

from curator_node.records.schema_file import SchemaFile
from expril.report.chart import Key
from expril.report.page import as_page
from learner_node.result.folder import by_curator
from page_outline import Outline
from protocol.errors import ConfigurationError
from protocol.run_index import METRICS
from simulations.joining import (
    CONSTANT,
    FEDERATION,
    MODELS,
    POOLED_REGRESSION,
    REGRESSION,
    JoiningScores,
    PairedScores,
    joining_of,
    joining_scores,
    mean_score,
    paired_scores,
)
from simulations.leave_one_out import ITS_OWN_SOURCE, leave_one_out
from simulations.records import SiteRecords, load_records, split_records
from simulations.references import STRENGTHS, Answers, best_strength, folds_of, labelled
from simulations.repeats import costs_of, evidence_of, fit, run_repeat
from simulations.report.document import run_document
from simulations.report.joining import Row, joining_blocks, joining_summary, joining_table
from simulations.report.model import LearnerReport, RunReport, Score, decode_report, encode_report
from simulations.report.words import WORDS
from simulations.run import simulate
from simulations.run_cells import LearnerCell
from simulations.scenario import load_scenario
from simulations.scoring import score_repeat

RNG_SEED = 5
PLACES = {name: number for number, name in enumerate(MODELS)}


def invented(measure, n, seed=RNG_SEED):
    """Labels, and what three models of different quality say of them."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    noisy = {name: truth + size * rng.normal(size=n) for name, size in ((REGRESSION, 1.5), (FEDERATION, 0.7))}
    if measure == "R²":
        return truth, {CONSTANT: np.full(n, truth.mean()), **noisy}
    labels = (truth + 0.3 * rng.normal(size=n) > 0).astype(np.uint8)
    if measure == "AUC":
        return labels, {CONSTANT: np.zeros(n), **{name: np.round(column, 1) for name, column in noisy.items()}}
    constant = np.full(n, float(labels.mean() > 0.5))
    return labels, {CONSTANT: constant, **{name: (column > 0).astype(float) for name, column in noisy.items()}}


SCORES = {"AUC": roc_auc_score, "accuracy": lambda y, column: np.mean(y == column), "R²": r2_score}


@pytest.mark.parametrize("measure", SCORES)
def test_scores_are_those_of_scikit_learn(measure):
    labels, columns = invented(measure, 173)
    scores = paired_scores(measure, labels, columns)
    for name, column in columns.items():
        assert scores.values[PLACES[name]] == pytest.approx(SCORES[measure](labels, column), abs=1e-12)
    assert scores.values[PLACES[POOLED_REGRESSION]] is None


def test_the_errors_of_areas_are_those_of_delong():
    """By the definition of DeLong et al. (1988), in loops over all pairs."""
    labels, columns = invented("AUC", 60)
    scores = paired_scores("AUC", labels, columns)
    ones, zeros = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)

    def placed(column, i, j):
        return float(column[i] > column[j]) + 0.5 * (column[i] == column[j])

    of_ones, of_zeros = {}, {}
    for name in (REGRESSION, FEDERATION):
        column = columns[name]
        of_ones[name] = [np.mean([placed(column, i, j) for j in zeros]) for i in ones]
        of_zeros[name] = [np.mean([placed(column, i, j) for i in ones]) for j in zeros]
    for first, second in product((REGRESSION, FEDERATION), repeat=2):
        expected = np.cov(of_ones[first], of_ones[second])[0, 1] / len(ones)
        expected += np.cov(of_zeros[first], of_zeros[second])[0, 1] / len(zeros)
        low, high = sorted((PLACES[first], PLACES[second]))
        assert scores.covariance[high][low] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("measure", "most"), list(product(SCORES, (1, 6))))
def test_errors_of_a_difference_are_those_of_a_bootstrap_of_units(measure, most):
    """1,000 bootstraps err by 2.2 % in a standard deviation; 15 % leave room for the estimate's own bias."""
    labels, columns = invented(measure, 400)
    rng = np.random.default_rng(1)
    units = np.sort(rng.integers(0, 400 // most, 400)) if most > 1 else np.arange(400)
    if most > 1:  # records of a unit resemble each other
        order = np.argsort(columns[FEDERATION] - columns[REGRESSION], kind="stable")
        labels, columns = labels[order], {name: column[order] for name, column in columns.items()}
    _, units = np.unique(units, return_inverse=True)
    variance = paired_scores(measure, labels, columns, units).variance(PLACES[FEDERATION], PLACES[REGRESSION])
    members = [np.flatnonzero(units == unit) for unit in range(units.max() + 1)]
    draws = []
    for _ in range(1_000):
        rows = np.concatenate([members[unit] for unit in rng.integers(0, len(members), len(members))])
        there = {name: column[rows] for name, column in columns.items()}
        values = paired_scores(measure, labels[rows], there).values
        draws.append(values[PLACES[FEDERATION]] - values[PLACES[REGRESSION]])
    assert variance**0.5 == pytest.approx(np.std(draws), rel=0.15)


def test_units_that_are_all_served_alike_make_no_interval_without_width():
    """Of each unit's three records the model calls two rightly; rounding left 1e-34 of a variance of zero."""
    labels, predicted = np.zeros(30), np.tile([0.0, 0.0, 1.0], 10)
    scores = paired_scores("accuracy", labels, {CONSTANT: labels, FEDERATION: predicted}, np.repeat(np.arange(10), 3))
    interval = joining_of("s", [JoiningScores({"accuracy": scores}, 30, 1.0, 0.0)], "accuracy").federation
    assert interval.low < 0.5 < 2 / 3 < 0.8 < interval.high


@pytest.mark.parametrize("measure", SCORES)
def test_copies_of_a_units_record_tell_no_more_than_the_record(measure):
    labels, columns = invented(measure, 80)
    once = paired_scores(measure, labels, columns)
    units = np.repeat(np.arange(80), 7)
    copied = paired_scores(measure, labels[units], {name: column[units] for name, column in columns.items()}, units)
    assert copied.values[:3] == pytest.approx(once.values[:3])
    assert np.concatenate(copied.covariance) == pytest.approx(np.concatenate(once.covariance))
    assert copied.size == once.size


def test_one_repeat_has_the_variance_of_its_patients_alone():
    mean = mean_score([0.1], [0.04], 50, 0.25, 0.5)
    assert (mean.value, mean.variance, mean.freedom) == pytest.approx((0.1, 0.04, 49))


def test_repeats_that_only_draw_other_patients_approach_the_variance_of_all_of_them():
    """The between variance then is that of sampling without replacement, (1 - t) W."""
    within, tested = 0.04, 0.25
    for repeats in (2, 4, 100):
        step = np.sqrt((1 - tested) * within * (repeats - 1) / repeats)
        values = 0.1 + step * np.where(np.arange(repeats) % 2, 1, -1)
        mean = mean_score(values, [within] * repeats, 50, tested, 0.5)
        assert mean.variance == pytest.approx(within * (tested + (1 - tested) / repeats))


def test_models_that_vary_widen_the_interval_and_have_few_degrees_of_freedom():
    few = mean_score([0.0, 0.4, 0.8], [0.0001] * 3, 500, 0.25, 0.5)
    assert few.variance == pytest.approx(np.var([0.0, 0.4, 0.8], ddof=1) * (1 + 1 / 3), rel=0.01)
    assert few.freedom == pytest.approx(2, rel=0.01)


def scores_of(gain, error, n=100):
    """An own regression of accuracy 0.7 and a federation that is better by `gain`, whose errors are independent."""
    values, rows = [0.5, 0.7, 0.7 + gain, 0.8, None], []
    for number, value in enumerate(values):
        rows.append(
            tuple(error**2 / 2 if column == number and value is not None else 0.0 for column in range(number + 1))
        )
    return JoiningScores({"accuracy": PairedScores(tuple(values), tuple(rows), n)}, n, 0.25, 0.5)


@pytest.mark.parametrize(
    ("gains", "verdict", "better"),
    [
        ((0.1, 0.12), "pays", 2),
        ((-0.1, -0.12), "does not pay", 0),
        ((0.02, -0.02), "not shown", 1),
        ((0.01, 0.02, 0.03), "not shown", 3),
    ],
)
def test_the_verdict_is_the_intervals(gains, verdict, better):
    joining = joining_of("north", [scores_of(gain, 0.04) for gain in gains], "accuracy")
    assert (joining.verdict, joining.better, joining.repeats) == (verdict, better, len(gains))
    assert joining.gain.value == pytest.approx(np.mean(gains))
    assert joining.gain.low < joining.gain.value < joining.gain.high
    assert not joining.useless


def test_the_interval_of_many_records_is_the_normal_one():
    joining = joining_of("north", [scores_of(0.1, 0.01, 10_000)], "accuracy")
    reach = norm.ppf(0.975) * 0.01
    assert joining.gain.low == pytest.approx(0.1 - reach, abs=0.0005)
    assert joining.gain.high == pytest.approx(0.1 + reach, abs=0.0005)


def test_two_equal_models_of_few_records_leave_the_difference_open():
    """They are right about the same three records; a fourth may differ."""
    right = np.ones(3)
    columns = {CONSTANT: right, REGRESSION: right, FEDERATION: right}
    scores = JoiningScores({"accuracy": paired_scores("accuracy", np.ones(3), columns)}, 3, 0.25, 0.5)
    joining = joining_of("north", [scores], "accuracy")
    assert (joining.gain.value, joining.verdict, joining.equal, joining.useless) == (0.0, "not shown", 1, True)
    assert joining.gain.low < -0.4
    assert joining.gain.high > 0.4
    assert joining.regression.low < 0.5 < joining.regression.high == 1.0


def test_a_cell_keeps_what_it_holds():
    scores = scores_of(0.1, 0.02)
    assert msgspec.json.decode(msgspec.json.encode(scores), type=JoiningScores) == scores


def calls_of(work):
    """How many functions a call of it calls, of Python and of C. A collection of garbage may call others."""
    calls = []
    before = sys.getprofile()
    gc.disable()
    sys.setprofile(lambda _, event, function: calls.append(event) if event in ("call", "c_call") else None)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return len(calls)


def test_a_hundred_sites_and_ten_thousand_test_records_are_little_work():
    """No function is called once a record, nothing is kept of pairs of records, and of a site few are called."""
    calls = set()
    for size in (100, 10_000):
        labels, columns = invented("AUC", size)
        score = partial(paired_scores, "AUC", labels, columns)
        scores = JoiningScores({"AUC": score()}, size, 0.25, 0.5)
        calls.add(calls_of(score))
        assert calls_of(lambda scores=scores: joining_of("s", [scores] * 3, "AUC")) < 20_000
    assert len(calls) == 1
    tracemalloc.start()
    score()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000 * size


SIZE, OTHERS, WIDTH = 120, 360, 8
"""Records of the hospital and of all others, and their attributes."""


def patients(n, rng, *, other_law=False):
    """Records whose label follows their attributes; by `other_law` it follows them in reverse."""
    labels = rng.integers(0, 2, n)
    points = rng.normal(size=(n, WIDTH)) + np.where(other_law, -1, 1) * 0.35 * (labels[:, None] - 0.5)
    return np.column_stack([np.ones(n), points]), labels


def least_squares(points, labels):
    return np.linalg.solve(points.T @ points + np.eye(WIDTH + 1), points.T @ (2.0 * labels - 1.0))


def learnt(case, points, labels, others, rng):
    """The hospital's own rule and the federation's."""
    more, more_labels = others
    if case == "no difference":  # another hospital's rule, of as many records of the same law
        rows = rng.permutation(len(more))[: len(points)]
        return least_squares(points, labels), least_squares(more[rows], more_labels[rows])
    rows = rng.permutation(len(more))[: len(more) // 2]
    joint = np.concatenate([points, more[rows]]), np.concatenate([labels, more_labels[rows]])
    return least_squares(points, labels), least_squares(*joint)


def compared(measure, rules, points, labels):
    own, joint = (points @ rule for rule in rules)
    columns = {CONSTANT: np.zeros(len(labels)), REGRESSION: own, FEDERATION: joint}
    if measure == "accuracy":
        columns = {name: (column > 0).astype(float) for name, column in columns.items()}
    return paired_scores(measure, labels, columns)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("measure", "case", "repeats"), list(product(("accuracy", "AUC"), ("pays", "hurts", "no difference"), (2, 5)))
)
def test_intervals_hold_the_true_gain(measure, case, repeats):
    """Of 400 hospitals, at least what a coverage of 0.93 falls below with a probability of 1e-9.

    The true gain is the mean over other hospitals of the same law, with 2,000 test patients each. Where neither is
    better, both verdicts together come in at most 7 %, likewise.
    """
    trials, rng = 400, np.random.default_rng(11)
    draw = lambda n: patients(n, rng, other_law=case == "hurts")  # noqa: E731
    gains = []
    for _ in range(1_500 if case != "no difference" else 0):
        rules = learnt(case, *patients(SIZE // 2, rng), draw(OTHERS), rng)
        values = compared(measure, rules, *patients(2_000, rng)).values
        gains.append(values[PLACES[FEDERATION]] - values[PLACES[REGRESSION]])
    truth = np.mean(gains) if gains else 0.0
    hits, verdicts = 0, []
    for _ in range(trials):
        points, labels = patients(SIZE, rng)
        others, scores = draw(OTHERS), []
        for _ in range(repeats):
            order = rng.permutation(SIZE)
            private, test = order[: SIZE // 2], order[-SIZE // 4 :]
            rules = learnt(case, points[private], labels[private], others, rng)
            paired = compared(measure, rules, points[test], labels[test])
            scores.append(JoiningScores({measure: paired}, SIZE // 4, 0.25, 0.5))
        joining = joining_of("north", scores, measure)
        hits += joining.gain.low <= truth <= joining.gain.high
        verdicts.append(joining.verdict)
    assert hits >= binom.ppf(1e-9, trials, 0.93), (hits, truth)
    wrong = {"pays": ("does not pay",), "hurts": ("pays",), "no difference": ("pays", "does not pay")}[case]
    assert sum(map(verdicts.count, wrong)) <= binom.ppf(1 - 1e-9, trials, 0.07 if case == "no difference" else 0.035)


# --- a whole run, and what is shown of it -----------------------------------------------------------------


SCHEMA = """
unit = "patient"
most_records_per_unit = 2
label = "ill"
classes = ["no", "yes"]
[[attributes]]
kind = "numeric"
name = "dose"
lower = 0
upper = 1
"""
SCENARIO = """
title = "three wards"
repeats = 2
noise_seed = 4
[data]
path = "records.csv"
schema = "schema.toml"
[data.sites]
how = "site"
column = "ward"
[[learners]]
name = "ada"
options = { cells = 4, networks = false }
"""


def write_wards(folder, scenario=SCENARIO):
    """Two large wards where a high dose means illness, and a third where it is the other way round."""
    rng = np.random.default_rng(8)
    parts = []
    for ward, size, reverse in (("north", 600, False), ("south", 600, False), ("odd", 300, True)):
        dose = rng.random(size)
        ill = (rng.random(size) < np.where(dose > 0.5, 0.95, 0.05)) != reverse
        patients = [f"{ward} {number // 2}" for number in range(size)]
        parts.append(pl.DataFrame({"patient": patients, "ward": ward, "dose": dose, "ill": np.where(ill, "yes", "no")}))
    pl.concat(parts).write_csv(folder / "records.csv")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "wards.toml").write_text(scenario)
    return folder / "wards.toml"


@pytest.fixture(scope="module")
def wards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wards")
    return simulate(write_wards(folder), out=folder / "runs")


def test_joining_hurts_a_hospital_of_another_law_and_the_others_little(wards):
    (learner,) = wards[0].learners
    verdicts = {joining.curator: joining.verdict for joining in learner.joining}
    odd = next(joining for joining in learner.joining if joining.curator == "odd")
    assert verdicts["odd"] == "does not pay"
    assert "does not pay" not in (verdicts["north"], verdicts["south"])
    assert odd.regression.value > 0.85
    assert odd.federation.value < 0.4
    assert (odd.better, odd.repeats, odd.records) == (0, 2, 74)
    assert not odd.useless


def test_scores_are_those_of_the_sites(wards):
    (learner,) = wards[0].learners
    for site, joining in zip(learner.sites, learner.joining, strict=True):
        assert joining.curator == site.curator
        assert joining.federation.value == pytest.approx(site.value)
        assert joining.constant.value == pytest.approx(site.constant)


def test_records_of_a_unit_share_a_fold_and_each_fold_has_both_classes(tmp_path):
    scenario, _, folder = load_scenario(str(write_wards(tmp_path)))
    site = split_records(scenario, load_records(scenario, folder), 0)["odd"]
    private = labelled(site.counted, site)
    numbers = folds_of(site, private)
    units = pl.DataFrame({"unit": site.counted["patient"], "fold": numbers})
    assert units.group_by("unit").agg(pl.col("fold").n_unique())["fold"].max() == 1
    assert set(zip(numbers.tolist(), private.labels.tolist(), strict=True)) == set(product(range(5), (0, 1)))


def test_a_tuned_regression_has_the_strength_that_scikit_learn_chooses():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(200, 30))
    labels = (points[:, 0] + 2 * rng.normal(size=200) > 0).astype(np.uint8)
    folds = np.arange(200) % 5
    splits = [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in range(5)]
    search = GridSearchCV(LogisticRegression(max_iter=2000), {"C": STRENGTHS}, cv=splits, scoring="neg_log_loss")
    strength = best_strength(points, labels, 2, folds)
    assert strength == search.fit(points, labels).best_params_["C"]
    assert strength < 1
    numbers = points[:, 0] + 2 * rng.normal(size=200)
    ridge = GridSearchCV(Ridge(), {"alpha": [1 / s for s in STRENGTHS]}, cv=splits, scoring="neg_mean_squared_error")
    assert best_strength(points, numbers, 0, folds) == pytest.approx(
        1 / ridge.fit(points, numbers).best_params_["alpha"]
    )


def test_a_class_of_one_record_leaves_the_strength_as_it_is():
    points, labels = np.arange(10.0)[:, None], np.array([1, *[0] * 9], dtype=np.uint8)
    assert best_strength(points, labels, 2, np.zeros(10, dtype=np.intp)) == 1.0


def test_page_and_terminal_answer_it(wards):
    text = Outline(as_page(run_document(wards[0]))).text
    assert "Does joining pay?" in text
    assert "1 does better with its own regression" in text
    assert "own regression is better" in text
    table = joining_table(wards[0])
    assert [column.text(row).text for group in table.groups for row in group.rows for column in table.columns[:1]] == [
        "north",
        "odd",
        "south",
    ]


def test_a_run_of_an_earlier_version_has_no_such_section(wards):
    stored = msgspec.json.decode(encode_report(wards[0]))
    for learner in stored["learners"]:
        del learner["joining"]
    old = decode_report(msgspec.json.encode(stored))
    assert old.learners[0].joining == ()
    assert not list(joining_blocks(old))
    assert joining_table(old) is None
    cell = msgspec.json.encode(LearnerCell(scores={}, costs={}))
    assert msgspec.json.decode(cell, type=LearnerCell).joining == {}


def test_of_many_hospitals_the_page_shows_the_ends():
    (learner,) = crowd().learners
    text = Outline(as_page(run_document(crowd()))).text
    assert text.count("site 50") < text.count("site 00")
    assert "All 100 hospitals are listed under “All numbers”. Each verdict is at the level of 5 %" in text
    assert joining_summary(learner).startswith("Joining is shown to pay for ")
    assert "The federation’s mean score is the higher one at 50." in joining_summary(learner)


def crowd():
    """A report of a hundred hospitals whose gains rise."""
    names = [f"site {number:02}" for number in range(100)]
    joinings = [
        joining_of(name, [scores_of(gain, 0.03), scores_of(gain, 0.03)], "accuracy")
        for name, gain in zip(names, np.linspace(-0.2, 0.2, 100), strict=True)
    ]
    score = Score(value=0.7, value_se=0.01, constant=0.5, regression=0.8)
    learner = LearnerReport(
        learner="ada", strategy="cells", pooling="sum", epsilon_claimed="1", epsilon_spent="1", pooled=score,
        joining=tuple(joinings),
    )  # fmt: skip
    about = {
        "title": "a crowd",
        "description": "",
        "created": "2026-05-09",
        "version": "1",
        "command": "",
        "repeats": 2,
    }
    return RunReport(**about, config_toml="", seeded_noise=False, learners=(learner,))


@pytest.mark.parametrize(
    ("labels", "regression", "measure", "reason"),
    [
        ([1, 1, 1, 1], [0.2, 0.3, 0.4, 0.5], "AUC", "test records hold one class"),
        ([0, 1, 1, 0], None, "AUC", "private records hold one class"),
        ([2.0, 2.0, 2.0, 2.0], [1.0, 2.0, 3.0, 4.0], "R²", "test records hold one value"),
    ],
)
def test_what_cannot_be_compared_has_a_reason(labels, regression, measure, reason):
    truth = np.array(labels)
    if measure == "AUC":
        truth = truth.astype(np.uint8)
        risk = np.array([0.1, 0.7, 0.8, 0.3])
        models = {
            CONSTANT: Answers(truth, np.ones(4)),
            FEDERATION: Answers(truth, np.ones(4), np.column_stack([1 - risk, risk])),
            REGRESSION: Answers(
                truth, np.ones(4), None if regression is None else np.column_stack([1 - risk, np.array(regression)])
            ),
        }
    else:
        models = {name: Answers(truth, np.array(regression)) for name in (CONSTANT, FEDERATION, REGRESSION)}
    frame = pl.DataFrame({"x": [0.0] * 4})
    site = SiteRecords(
        "north", frame, frame, frame, frame, frame, SchemaFile(label="y", attributes=(), label_bounds=(0, 9))
    )
    joining = joining_of("north", [joining_scores(site, models)], measure)
    assert (joining.verdict, joining.gain) == ("no answer", None)
    assert reason in joining.reason
    assert reason in Row(Key(0, False, "ada"), joining, WORDS[measure]).verdict


# --- what a deployed study knows by hospital --------------------------------------------------------------


def test_a_curators_own_totals_tell_how_common_a_class_is_at_its_hospital(tmp_path):
    """Six half widths: about twelve standard errors, with the noise of a seed."""
    _, repeat = run_wards(tmp_path)
    learned = repeat.outcomes[0].learned
    facts = by_curator(learned)
    assert set(facts) == {"north", "odd", "south"}
    for name, row in facts.items():
        (value, low, high) = row["shares"]["yes"]
        exact = float((repeat.sites[name].counted["ill"] == "yes").mean())
        assert low <= value <= high
        assert abs(value - exact) < 6 * max(high - value, value - low)
        assert row["validation"] is None


def test_of_a_secure_sum_nothing_is_known_by_hospital(tmp_path):
    scenario, _, _ = load_scenario(str(write_wards(tmp_path)))
    learner = msgspec.structs.replace(scenario.learners[0], pooling="secure", colluders=1, dropouts=0)
    _, repeat = run_wards(tmp_path, learners=(learner,))
    assert repeat.outcomes[0].failure == ""
    assert by_curator(repeat.outcomes[0].learned) == {}


# --- leaving one site out ---------------------------------------------------------------------------------


def run_wards(folder, **changes):
    scenario, _, place = load_scenario(str(write_wards(folder)))
    scenario = msgspec.structs.replace(scenario, **changes)
    return scenario, run_repeat(scenario, load_records(scenario, place), 0)


def test_leaving_one_out_learns_from_the_others_alone_and_leaves_the_runs_evidence(tmp_path):
    scenario, repeat = run_wards(tmp_path, leave_one_out=True)
    before = evidence_of(repeat, 0, with_ledgers=True)
    costs = costs_of(repeat.outcomes[0], repeat)
    leave_one_out(scenario, repeat)
    after = evidence_of(repeat, 0, with_ledgers=True)
    assert before == after
    assert costs == costs_of(repeat.outcomes[0], repeat)
    (outcome,) = repeat.outcomes
    assert set(outcome.others) == {"north", "odd", "south"}
    (scored,) = score_repeat(repeat)
    joining = {name: joining_of(name, [scores], "accuracy") for name, scores in scored.joining.items()}
    assert joining["odd"].others.value < 0.3
    assert joining["odd"].others.value <= joining["odd"].federation.value
    assert joining["north"].others.value > 0.5
    for site in joining.values():
        assert site.contribution.value == pytest.approx(site.federation.value - site.others.value)
        assert site.contribution.low <= site.contribution.value <= site.contribution.high


def test_a_site_is_left_out_with_its_unlabelled_records(tmp_path, monkeypatch):
    scenario, repeat = run_wards(tmp_path, leave_one_out=True)
    sources, curators = [], []

    def fake_fit(learner, federation, source, seed, tick):
        sources.append(source)
        curators.append(set(federation.curators))
        return fit(learner, federation, source, seed, tick)

    monkeypatch.setattr("simulations.leave_one_out.fit", fake_fit)
    leave_one_out(scenario, repeat)
    names = list(repeat.sites)
    for absent, source, present in zip(names, sources, curators, strict=True):
        assert present == set(names) - {absent}
        assert set(source["dose"]) == set(
            pl.concat([site.source["dose"] for name, site in repeat.sites.items() if name != absent])
        )
        assert "ill" not in source.columns


def test_a_secure_learner_of_three_sites_learns_from_two(tmp_path):
    secure = {"pooling": "secure", "colluders": 1, "dropouts": 0}
    scenario, _, _ = load_scenario(str(write_wards(tmp_path)))
    learner = msgspec.structs.replace(scenario.learners[0], **secure)
    scenario, repeat = run_wards(tmp_path, learners=(learner,), leave_one_out=True)
    leave_one_out(scenario, repeat)
    (outcome,) = repeat.outcomes
    assert set(outcome.others) | set(outcome.others_failures) == {"north", "odd", "south"}
    assert all(outcome.others_failures.values())


def test_a_learner_whose_source_is_one_site_says_why_it_learns_nothing_without_it(tmp_path):
    scenario, _, _ = load_scenario(str(write_wards(tmp_path)))
    learner = msgspec.structs.replace(scenario.learners[0], source=("odd",))
    scenario, repeat = run_wards(tmp_path, learners=(learner,), leave_one_out=True)
    leave_one_out(scenario, repeat)
    (scored,) = score_repeat(repeat)
    joining = joining_of("odd", [scored.joining["odd"]], "accuracy")
    assert (joining.others, joining.reason) == (None, ITS_OWN_SOURCE)
    assert joining.gain is not None
    assert set(repeat.outcomes[0].others) == {"north", "south"}


@pytest.mark.parametrize(
    "learner", ['pooling = "site"', 'curators = ["odd"]'], ids=["answers kept apart", "a single curator"]
)
def test_leaving_one_out_is_refused_where_there_is_no_joint_model(tmp_path, learner):
    text = f"leave_one_out = true\n{SCENARIO}{learner}\n"
    path = write_wards(tmp_path, text)
    with pytest.raises(ConfigurationError, match=r"leave_one_out needs a learner that makes one model"):
        simulate(path, out=tmp_path / "runs")


@pytest.mark.slow
def test_the_command_asks_for_it_and_the_run_is_repeated_with_it(tmp_path):
    path = write_wards(tmp_path, SCENARIO.replace("repeats = 2", "repeats = 1"))
    report, folder = simulate(path, out=tmp_path / "runs", leave_one_out=True)
    assert report.command == "expril simulate wards.toml --leave-one-out"
    assert all(joining.others for joining in report.learners[0].joining)
    again, _ = simulate(folder, out=tmp_path / "runs")
    assert all(joining.others for joining in again.learners[0].joining)
    text = Outline(as_page(run_document(report))).text
    assert "model of all others" in text


@pytest.mark.slow
def test_what_the_run_is_about_does_not_change_by_leaving_one_out(tmp_path):
    """The noise has a seed, so equal numbers mean equal answers."""
    path = write_wards(tmp_path, SCENARIO.replace("repeats = 2", "repeats = 1"))
    numbers = [
        (simulate(path, out=tmp_path / "runs", leave_one_out=asked)[1] / METRICS).read_bytes()
        for asked in (False, True)
    ]
    assert numbers[0] == numbers[1]
