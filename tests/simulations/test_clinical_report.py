"""Clinical results of a run: means over repeats, what leads, the page, and result against epsilon."""

from functools import cache
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from expril.report.document import Document, tables
from expril.report.page import as_page
from learner_node.scores.clinical import clinical_scores
from learner_node.scores.estimates import AccuracyEstimate
from learner_node.scores.values import CalibrationCurve, ThresholdScore
from page_outline import Outline
from protocol.errors import ConfigurationError
from simulations.references import Answers
from simulations.report import words
from simulations.report.document import run_document
from simulations.report.epsilons import EpsilonRun, epsilon_document, headline, summary
from simulations.report.model import (
    GRID,
    CurvePoint,
    Expected,
    Headline,
    JudgedInterval,
    LearnerReport,
    Recalibrated,
    RecordCounts,
    RocCurve,
    RunReport,
    Score,
    SiteScore,
    ValidatedBin,
    ValidationReport,
    decode_report,
    encode_report,
)
from simulations.report.scores import score_rows
from simulations.run import mean_of
from simulations.scenario import at_epsilon, load_scenario, read_epsilons
from simulations.scoring import clinical_fields, expected, two_class_scores, within


def build_page(found):
    return as_page(found if isinstance(found, Document) else run_document(found))


def terminal_tables(document):
    """All tables of the terminal."""
    return list(tables(block for section in document.in_medium("terminal") for block in section.present))


def headings(table):
    return [column.heading for column in table.written]


def cells(table, column):
    return [table.columns[column].text(row).text for group in table.groups for row in group.rows]


def repeat(seed, n=200, share=0.2, signal=1.0):
    """Labels and (n, 2) probabilities of one repeat."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(n) < share * n).astype(np.uint8)
    risk = 1 / (1 + np.exp(1.4 - signal * labels - rng.normal(size=n)))
    return labels, np.column_stack([1 - risk, risk])


def scored(labels, probabilities):
    """A score of one repeat of a rare outcome."""
    best = Answers(labels, labels, np.column_stack([1 - labels, labels]).astype(float))
    found = two_class_scores(Answers(labels, labels, probabilities), [0.5, "10%"], 0.2)
    fields = clinical_fields(found, two_class_scores(best), curves=True)
    return Score(value=0.81, value_se=0.03, constant=0.8, regression=0.9, **fields)


@cache
def five():
    """The score of five repeats."""
    return mean_of([scored(*repeat(seed)) for seed in range(5)])


def pooled(**options):
    return msgspec.structs.replace(five(), **{"value_se": 0.004} | options)


def report(score=None, **options):
    score = score or pooled()
    told = {name: getattr(score, name) for name in SiteScore.__struct_fields__ if name != "curator"}
    learner = LearnerReport(
        learner="ada",
        strategy="cells",
        pooling="sum",
        epsilon_claimed="1",
        epsilon_spent="1",
        pooled=score,
        sites=(SiteScore(curator="north", **told),),
        curve=(CurvePoint(1, 0.81, 0.004, score.auc, score.auc_se),),
    )
    values = {
        "title": "wards",
        "description": "",
        "created": "2026-05-09T12:30:00Z",
        "version": "0.2.0",
        "seeded_noise": False,
        "repeats": 5,
        "command": "expril simulate wards",
        "config_toml": "",
        "learners": (learner,),
        "positive": "back",
        "records": (RecordCounts(curator="north", private=1200, source=300, test=301, held=1500, positive=0.2),),
    }
    return RunReport(**(values | options))


def test_means_and_errors_are_those_of_the_repeats():
    each = [
        clinical_scores(labels, probabilities[:, 1], [0.5, "10%"]) for labels, probabilities in map(repeat, range(5))
    ]
    found = five()
    aucs = [one.auc for one in each]
    assert found.auc == pytest.approx(np.mean(aucs))
    assert found.auc_se == pytest.approx(np.std(aucs, ddof=1) / np.sqrt(5))
    assert found.brier == pytest.approx(np.mean([one.brier for one in each]))
    assert found.average_precision == pytest.approx(np.mean([one.average_precision for one in each]))
    assert (found.value, found.value_se) == pytest.approx((0.81, 0))
    assert (found.prevalence, found.auc_regression, found.brier_regression) == (0.2, 1.0, 0.0)
    half, tenth = found.operating_points
    assert half.sensitivity == pytest.approx(np.mean([one.operating_points[0].sensitivity for one in each]))
    assert half.ppv_se == pytest.approx(np.std([one.operating_points[0].ppv for one in each], ddof=1) / np.sqrt(5))
    assert (tenth.rule, tenth.flagged) == ("highest 10 %", 0.1)
    assert found.calibration.counts == (100,) * 10
    assert np.mean(found.calibration.observed) == pytest.approx(0.2)
    bins = [one.calibration.observed[-1] for one in each]
    assert found.calibration.observed_se[-1] == pytest.approx(np.std(bins, ddof=1) / np.sqrt(5))


def test_the_mean_curve_has_the_mean_area():
    """On the grid the trapezoids miss less than half of one step of either axis."""
    assert five().roc_regression.sensitivity == (1.0,) * len(GRID)
    area = np.trapezoid(five().roc.sensitivity, GRID)
    assert area == pytest.approx(five().auc, abs=0.01)
    curves = [scored(*repeat(seed)).roc.sensitivity for seed in range(5)]
    np.testing.assert_allclose(five().roc.sensitivity_se, np.std(curves, axis=0, ddof=1) / np.sqrt(5), atol=1e-15)


def test_one_repeat_has_the_error_of_its_records_and_no_band():
    labels, probabilities = repeat(3)
    found = scored(labels, probabilities)
    assert mean_of([found]) == found
    assert found.auc_se == clinical_scores(labels, probabilities[:, 1]).auc_error
    assert found.roc.sensitivity_se is None
    assert found.operating_points[0].sensitivity_se is None
    assert all(error is not None for error in found.calibration.observed_se)


def test_repeats_without_both_classes_have_no_auc_and_do_not_count():
    one, only = scored(*repeat(1)), scored(np.zeros(20, np.uint8), np.full((20, 2), 0.5))
    found = mean_of([one, only])
    assert (found.auc, found.auc_se, found.roc) == (one.auc, one.auc_se, one.roc)
    assert found.operating_points[0].sensitivity == one.operating_points[0].sensitivity
    assert (only.auc, only.roc) == (None, None)
    assert clinical_fields(None, None, curves=True) == {}


@pytest.mark.parametrize("probabilities", [None, np.full((4, 3), 1 / 3)])
def test_there_are_no_clinical_scores_of_numbers_and_of_three_classes(probabilities):
    labels = np.array([0, 1, 2, 0])
    assert two_class_scores(Answers(labels, labels, probabilities)) is None
    assert two_class_scores(None) is None


def test_auc_leads_where_the_smaller_class_is_rare():
    assert report().lead == "AUC"
    assert report(pooled(prevalence=0.8)).lead == "AUC"
    assert report(pooled(prevalence=0.35)).lead == "accuracy"
    assert report(pooled(auc=None, prevalence=None)).lead == "accuracy"
    score, (learner,) = pooled(), report().learners
    assert learner.pooled.headline("AUC") == Headline(score.auc, score.auc_se, 0.5, score.auc_regression)
    assert learner.pooled.headline("accuracy") == Headline(
        score.value, score.value_se, score.constant, score.regression
    )
    assert learner.curve[0].headline("AUC") == Headline(score.auc, score.auc_se)
    assert [row.headline.value for row in score_rows(report())[0]] == [score.auc] * 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {},
            "ranks records (AUC {auc:.3f}, {way:.0f} % of the way from chance to the 1.000 of {best}) and calls them",
        ),
        ({"value": 0.7}, "though it calls them no better than the majority class"),
        ({"auc": 0.52, "auc_se": 0.02}, "is not shown to rank records better than chance (AUC 0.520 ± 0.020)"),
        ({"auc": 0.42, "auc_se": 0.02}, "does not rank records better than chance (AUC 0.420 ± 0.020)"),
        ({"auc": None}, "cannot be judged"),
        ({"value": None}, "learned nothing"),
    ],
)
def test_the_verdict_on_a_rare_outcome_is_about_ranking(changes, said):
    score = pooled(**changes)
    told = words.verdict(score, "AUC")
    assert said.format(auc=score.auc or 0, best=words.REGRESSION, way=200 * ((score.auc or 0) - 0.5)) in told


def test_a_frequent_outcome_that_is_ranked_but_not_called_says_both():
    score = Score(value=0.6, value_se=0.01, constant=0.6, regression=0.7, auc=0.64, auc_se=0.01)
    shown = "is not shown to be better than the majority class (0.600 ± 0.010 against 0.600)"
    assert words.verdict(score) == f"ranks records (AUC 0.640), though it {shown}"
    assert words.verdict(msgspec.structs.replace(score, auc=0.51)) == shown
    assert (
        words.verdict(msgspec.structs.replace(score, auc=0.51, value=0.57)) == "did no better than the majority class"
    )


def test_the_page_of_a_rare_outcome_leads_with_auc_and_shows_what_was_expected():
    auc = {"auc": 0.71, "auc_low": 0.66, "auc_high": 0.76, "ranks": 1.0, "auc_coverage": 1.0}
    told = Expected(value=0.83, low=0.8, high=0.86, beats_majority=0.0, coverage=1.0, **auc)
    shown = report(pooled(expected=told))
    text = Outline(build_page(shown)).text
    score = pooled()
    assert words.score_line(shown) == f"Pooled AUC {score.auc:.3f} ± {score.auc_se:.3f} at epsilon 1"
    for phrase in (
        "20.0 % of the test records are “back”.",
        "the learner’s own estimate, 71 of 100 pairs (66 to 76)",
        "accuracy 0.830 (0.800 to 0.860); AUC 0.710 (0.660 to 0.760)",
        "AUC by curator",
        "ROC curve",
        "Calibration curve",
        "highest 10 %",
        "A curator never tells how many records it has",
        "1,200",
        "1,500",
        "20.0 %",
    ):
        assert phrase in text, phrase
    for value in (score.auc, score.auc_regression, score.average_precision, score.brier, score.prevalence, 0.81):
        assert f"{value:.3f}" in text
    assert decode_report(encode_report(shown)) == shown


def test_a_report_of_an_earlier_version_is_read_and_shows_no_clinical_section():
    now = report()
    stored = msgspec.json.decode(encode_report(now))
    for name in ("positive", "records"):
        del stored[name]
    for learner in stored["learners"]:
        for score in (learner["pooled"], *learner["sites"]):
            for name in set(score) - {"accuracy", "accuracy_se", "majority", "ceiling", "curator"}:
                del score[name]
        for point in learner["curve"]:
            del point["auc"], point["auc_se"]
    old = decode_report(msgspec.json.encode(stored))
    text = Outline(build_page(old)).text
    assert old.lead == "accuracy"
    assert "ROC" not in text
    assert "Records by site" not in text
    assert [table.caption for table in terminal_tables(run_document(old))] == ["wards: 5 repeats"]


def test_the_terminal_leads_with_auc_and_has_a_table_of_thresholds():
    results, table = terminal_tables(run_document(report()))
    assert headings(results) == [
        "learner",
        "site",
        "AUC ± se",
        "AUC of\nregression",
        "accuracy ± se",
        "majority",
        "epsilon\nclaimed",
        "epsilon\nspent",
    ]
    frequent, *_ = terminal_tables(run_document(report(pooled(prevalence=0.4))))
    assert "AUC\n(regression)" in headings(frequent)
    assert headings(table)[2:] == ["probability", "flagged", "sensitivity", "specificity", "PPV", "NPV"]
    assert cells(table, 1) == ["above 0.5", "highest 10 %"]
    assert "20.0 % of the test records are “back”." in table.note
    assert f"average precision {pooled().average_precision:.3f}" in table.note


def estimate(auc, low, high):
    return AccuracyEstimate(0.8, 0.7, 0.9, 0.8, 0.75, 0.85, 0.4, auc, low, high, 0.01)


def test_the_expected_auc_is_held_against_the_one_on_test_records():
    assert within(0.7, 0.6, 0.8, 0.81, 0.05)
    assert not within(0.7, 0.6, 0.8, 0.81, 0.001)
    told = [estimate(0.7, 0.65, 0.75), 0.8, 500]
    found = mean_of([expected(*told, SimpleNamespace(auc=auc, auc_error=0.001)) for auc in (0.72, 0.9)])
    assert (found.auc, found.auc_low, found.auc_high, found.ranks, found.auc_coverage) == (0.7, 0.65, 0.75, 1.0, 0.5)
    assert expected(*told).auc_coverage is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: CalibrationCurve(counts=(1,), predicted=(0.5,), observed=(), observed_se=(None,)),
        lambda: CalibrationCurve(counts=(1,), predicted=(1.5,), observed=(0.5,), observed_se=(None,)),
        lambda: RocCurve(sensitivity=(0.5,)),
        lambda: ThresholdScore(
            rule="", threshold=0.5, flagged=2.0, sensitivity=None, specificity=None, ppv=None, npv=None
        ),
        lambda: RecordCounts(curator="north", private=1, source=1, test=1, held=1, positive=-0.1),
        lambda: Score(value=0.5, value_se=None, constant=0.5, regression=None, auc=1.1),
        lambda: JudgedInterval(value=0.2, low=0.1, high=0.3, exact=1.1),
    ],
)
def test_what_is_no_clinical_result_is_refused(make):
    with pytest.raises(ValueError, match=r"must lie between|one count, prediction|has 101 values"):
        make()


def runs(*found):
    return tuple(EpsilonRun(epsilon, f"epsilon-{epsilon}", report(pooled(auc=auc))) for epsilon, auc in found)


def test_result_against_epsilon_is_drawn_and_told_from_where_on_it_is_worth_asking():
    shown = runs(("0.1", 0.5), ("1", 0.64), ("3", 0.68))
    line = "At epsilon 0.1 the model is not shown to be better than chance; at 3 “back” is ranked above the others in"
    assert headline(shown).startswith(line)
    assert headline(runs(("1", 0.64))) == "At epsilon 1 “back” is ranked above the others in 64 of 100 pairs"
    assert summary(shown)[0] == "From epsilon 1 on, a learner ranks records better than chance by two standard errors."
    assert summary(runs(("0.1", 0.5)))[0].startswith("At no epsilon")
    outline = Outline(build_page(epsilon_document(shown)))
    for phrase in ("AUC against epsilon", "Accuracy against epsilon", "epsilon-0.1", "0.640", "epsilon, logarithmic"):
        assert phrase in outline.text
    assert outline.text.index("AUC against") < outline.text.index("Accuracy against")
    assert outline.count("script") == 1  # our own
    (table,) = terminal_tables(epsilon_document(shown))
    assert cells(table, 0) == ["0.1", "1", "3"]
    assert headings(table) == ["epsilon", "learner", "accuracy ± se", "majority", "regression", "AUC ± se"]


def test_a_hostile_name_is_inert_on_the_page_of_epsilons():
    bad = "<script>alert(1)</script>"
    shown = report(title=bad, description=bad, command=bad, notes=(f"For epsilon {bad}",))
    outline = Outline(build_page(epsilon_document((EpsilonRun("1", bad, shown),))))
    assert outline.count("script") == 1  # our own
    assert bad in outline.text


def test_a_recalibration_says_whether_it_is_on_and_why():
    share = JudgedInterval(value=0.2, low=0.1, high=0.3, exact=0.2)
    found = ValidationReport(
        epsilon_claimed="1/2",
        epsilon_spent="1/2",
        records=1000.0,
        prevalence=share,
        points=(),
        calibration=(ValidatedBin(predicted=0.21, observed=share),),
        sites=(),
        areas=(share,),
        recalibrated=Recalibrated(
            on=True, factor=99.3, intercept=(0.0, -0.1, 0.1), slope=(0.83, 0.74, 0.93), fitted=(0.2,), brier=0.16,
            brier_raw=0.17,
        ),
    )  # fmt: skip

    def told(recalibrated):
        asked = msgspec.structs.replace(found, recalibrated=recalibrated)
        learner = msgspec.structs.replace(report().learners[0], validation=asked)
        one = report(learners=(learner,))
        *_, table = terminal_tables(run_document(one))
        return table.note, Outline(build_page(one)).text

    table, page = told(found.recalibrated)
    assert "on: the answers favour the change (Bayes factor of the change 99); Brier 0.1600, not 0.1700" in table
    assert "risk as it was" in page
    assert "Brier 0.1600, not 0.1700, by the harness" in page
    off = msgspec.structs.replace(found.recalibrated, on=False, factor=0.2, slope=(1.14, 1.01, 1.27))
    table, page = told(off)
    assert "slope 1.14 (1.01 to 1.27); off: the answers favour the risks as they are (Bayes factor of the" in table
    assert "favour the risks as they are (Bayes factor of the change 0.2)" in page
    assert "risk as it was" not in page
    assert "Recalibrated" not in page


def test_a_list_of_epsilons_is_sorted_and_read_strictly():
    assert read_epsilons("3, 0.1,1/2") == ("0.1", "1/2", "3")
    for wrong in ("", "1,,2", "1,1.0", "0", "-1", "x"):
        with pytest.raises(ConfigurationError, match="--epsilon"):
            read_epsilons(wrong)


def test_an_epsilon_raises_the_caps_that_would_refuse_it_and_says_so():
    scenario, *_ = load_scenario("wdbc-faults")
    there = at_epsilon(scenario, "1")
    assert [learner.epsilon for learner in there.scenario.learners] == ["1", "1"]
    caps = {curator.name: str(curator.cap) for curator in there.scenario.curators}
    assert caps == {"north": "2", "east": "2", "south": "2", "west": "2"}
    (note,) = there.notes
    assert "at west: a real curator's cap does not follow" in note
    assert at_epsilon(load_scenario("wdbc")[0], "0.3").notes == ()
    assert "any other site" in at_epsilon(scenario, "3").notes[0]
    assert at_epsilon(scenario, "3").scenario.curator("unnamed").cap == "6"


def test_a_raised_cap_leaves_room_for_the_validations():
    scenario, *_ = load_scenario("wdbc-faults")
    ada, grace = scenario.learners
    asked = msgspec.structs.replace(scenario, learners=(msgspec.structs.replace(ada, validate="1/2"), grace))
    low = msgspec.structs.replace(scenario.curators[0], name="*", cap=1, learner_cap=1, learner_caps={grace.name: 1})
    (raised,) = at_epsilon(msgspec.structs.replace(asked, curators=(low,)), "3").scenario.curators
    assert (raised.cap, raised.learner_cap) == ("13/2", "7/2")
    assert raised.learner_caps == {grace.name: "3"}


def test_a_scenario_names_its_thresholds():
    text = load_scenario("wdbc")[1]
    from protocol.strict_toml import read_toml
    from simulations.scenario import Scenario

    chosen = read_toml(f'thresholds = [0.2, "5%", "prevalence"]\n{text}', Scenario, where="x")
    assert chosen.thresholds == (0.2, "5%", "prevalence")
    with pytest.raises(ConfigurationError, match="is no threshold; write a probability"):
        read_toml(f"thresholds = [2]\n{text}", Scenario, where="x")
