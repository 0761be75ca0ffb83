"""The page of a deployed study: what curators wrote is shown as text, and nothing is loaded."""

import re

import pytest

from expril.report.document import Brief
from expril.report.page import as_page
from learner_node.result.document import study_document

HOSTILE = "<script>alert(1)</script>"
EXPECTED = {"accuracy": 0.93, "low": 0.83, "high": 0.98, "majority": 0.66, "majority_low": 0.55, "majority_high": 0.76}
EXPECTED |= {"p_value": 0.01, "auc": 0.97, "auc_low": 0.9, "auc_high": 1.0, "ranking_p_value": 0.0, "method": "m"}
VALIDATION = {
    "epsilon": "1/2",
    "records": [206.0, 190.0, 220.0],
    "prevalence": [0.3, 0.2, 0.4],
    "auc": [0.97, 0.9, 1.0],
    "recalibration": None,
    "points": [{"rule": HOSTILE, "threshold": 0.5}],
    "calibration": [{"predicted": 0.1, "observed": [0.1, 0.0, 0.2], "records": [0.5, 0.4, 0.6]}],
}
VALIDATION["points"][0] |= {name: [0.5, 0.4, 0.6] for name in ("flagged", "sensitivity", "specificity", "ppv", "npv")}


def page_of(told):
    return as_page(study_document(told))


def told(**changes):
    one = {"key": "ab" * 32, "spent": "1", "at_most": "3/2", "newest_receipt": "cd" * 32}
    one["fit"] = {"spent": "1", "at_most": "3/2", "state": "closed"}
    return {
        **dict.fromkeys(("title", "purpose", "learner", "label", "positive"), HOSTILE),
        **dict.fromkeys(("population", "validation_text", "validation_failure"), ""),
        **dict.fromkeys(("expected_errors", "expected_recalls")),
        "expril": "0.2.0",
        "finished": "2026-11-22T12:00:00+00:00",
        "strategy": "cells",
        "pooling": "sum",
        "source_records": 100,
        "private_records": 206,
        "expected": EXPECTED | {"beats_majority": True, "ranks": True},
        "shares": {HOSTILE: [0.321, 0.219, 0.436]},
        "validation": VALIDATION,
        "advice": f"many attributes vary {HOSTILE}",
        "left_out": {HOSTILE: f"its words: {HOSTILE}"},
        "answered_late": {HOSTILE: 1},
        "not_private": [HOSTILE],
        "cards": {HOSTILE: {"unit": HOSTILE, "records": 1, "cap": "4"}},
        "cost": {"learner": "ef" * 32, "claimed": {"fit": "1"}, "curators": {HOSTILE: one}},
    } | changes


def test_nothing_that_a_curator_wrote_is_markup():
    page = page_of(told())
    assert HOSTILE not in page
    assert page.count("&lt;script&gt;") > 8
    assert "default-src 'none'" in page
    assert not re.findall(r"(?:src|href)=", page)
    assert page == page_of(told())


def test_curators_are_apart_where_answers_are_and_a_secure_sum_says_that_it_tells_nothing():
    row = {"shares": {HOSTILE: [0.123, 0.1, 0.2]}, "validation": {"auc": [0.876, 0.8, 0.9], "prevalence": [0.2, 0, 1]}}
    page = page_of(told(by_curator={HOSTILE: row, "south": {"shares": {}, "validation": None}}))
    assert HOSTILE not in page
    assert "0.123 (0.100 to 0.200)" in page
    assert "0.876 (0.800 to 0.900)" in page
    assert "only the hospital can compute" in page
    assert "nothing is known of any one of them" in page_of(told(pooling="secure"))
    assert "tell nothing by curator" in page_of(told())


def test_errors_and_recalls_are_shown_with_their_intervals_and_untrusted_names_as_text():
    errors = {"r2": [0.4, -0.2, 0.7], "mean_absolute_error": [3.25, 2.5, 4.0], "mean_squared_error": [16.0, 9.0, 25.0]}
    page = page_of(told(expected=None, expected_errors=errors, expected_recalls={HOSTILE: [0.6, 0.5, 0.75]}))
    assert "It explains 40\xa0% (−20 to 70) of the differences between records, so it is not shown to be better" in page
    assert "On average it is off by 3.25 (2.5 to 4)." in page
    assert "It recognises 60 of 100 (50 to 75) that are" not in page
    assert "Mean absolute error 3.25 (2.5 to 4), in units of the label" in page
    assert "0.750" in page
    assert "Of them 32 of 100 (21 to 44) have the outcome “&lt;script" in page
    assert HOSTILE not in page
    # The bar of an end below 0 starts at 0.
    assert 'style="left: -' not in page


def test_recalibrated_risks_are_shown_as_fitted_not_as_validated():
    fitted = {"on": True, "intercept": [0.4, 0.3, 0.5], "slope": [1.3, 1.2, 1.4], "bayes_factor": 9.0}
    page = page_of(told(validation=VALIDATION | {"recalibration": fitted}))
    assert "a fit to answers is no validation by them" in page
    assert "1.300" in page
    off = page_of(told(validation=VALIDATION | {"recalibration": fitted | {"on": False}}))
    assert "so these stay" in off
    assert "Recalibrated" not in page_of(told())


def test_what_secure_sums_cost_is_said_to_hold_on_conditions():
    conditions = ("no more curators collude with the learner than its plan assumes", "no more hospitals conspire with")
    for condition in conditions:
        assert condition in page_of(told(pooling="secure", not_private=[]))
        assert condition not in page_of(told(not_private=[]))


def test_what_is_not_known_is_not_shown():
    page = page_of(told(shares={}, expected=None, validation=None, left_out={}, not_private=[], answered_late={}))
    assert "records that count" not in page
    assert "Note: many attributes vary" in page
    assert "Note:" not in page_of(told(advice=""))
    assert "do not tell how good the model is" in page
    assert "every curator that was asked answered" in page
    assert "That is not known: the answers do not tell it, and the hospitals did not check the model." in page
    assert "That is not known: only a check by the hospitals would tell" in page
    assert "Validated by the curators" not in page
    assert "Not private" not in page


def test_what_it_cost_counts_the_validation_and_names_it():
    found = told()
    (one,) = found["cost"]["curators"].values()
    one |= {"spent": "3/2", "validation": {"spent": "1/2", "at_most": "1/2", "state": "closed"}}
    found["cost"]["claimed"]["validation"] = "1/2"
    page = page_of(found)
    assert "It cost each hospital a privacy loss of 1.5, of the 4 that this learner may ever spend there." in page
    assert "Planned: model 1, validation 0.5." in page


@pytest.mark.parametrize(("beats", "shown"), [(True, False), (False, True)])
def test_the_verdict_is_said_first(beats, shown):
    page = page_of(told(expected=EXPECTED | {"beats_majority": beats, "ranks": True}))
    first = page[: page.index("What the model is worth")]
    assert "it is right for 93 of 100 records (83 to 98); always naming the more frequent class" in first
    assert ("so it is not shown to be better" in first) == shown


def answers(**changes):
    document = study_document(told(**{"not_private": [], "positive": "died", **changes}))
    (brief,) = (block for section in document.sections for block in section.present if isinstance(block, Brief))
    return [answer.sentences for answer in brief.answers]


def test_what_was_asked_and_who_is_missing_is_said():
    asked = answers(purpose="Who dies?", learner="ada", label="hospdead", left_out={"bern": "refused"})[0]
    assert asked.startswith(
        "“Who dies?” was asked of 1 hospital, by the learner ada. The model is to recognise “died” ("
    )
    unsaid = answers(purpose="", learner="ada", label="hospdead")[0]
    assert unsaid.startswith("1 hospital was asked by the learner ada how to recognise “died” (column “hospdead”).")
    assert "The model is without bern; why is said below." in asked
    assert "All of them took part." in answers(left_out={})[0]
    assert "has learnt nothing from bern" in answers(left_out={"bern": "refused"})[2]


def test_the_pairs_are_validated_or_expected_or_not_shown_to_be_better_than_chance():
    assert "97 of 100 such pairs (90 to 100): the hospitals checked that in a second study." in answers()[1]
    expected = EXPECTED | {"beats_majority": True, "ranks": True}
    by_answers = answers(validation=None, expected=expected)[1]
    assert "97 of 100 such pairs (90 to 100); chance would in 50." in by_answers
    assert "The hospitals were not asked to check it." in by_answers
    assert "not shown to be better than chance" in answers(validation=None, expected=expected | {"ranks": False})[1]
    assert "to check it brought nothing" in answers(validation=None, expected=expected, validation_failure="late")[1]


@pytest.mark.parametrize(
    ("observed", "phrase"),
    [
        ([0.6, 0.56, 0.64], "Risks of about 70 % are too high: of 100 such records 60 have the outcome “died”."),
        ([0.8, 0.76, 0.84], "Risks of about 70 % are too low: of 100 such records 80 have the outcome “died”."),
        ([0.66, 0.62, 0.71], "Its risks agree with what the hospitals found, as far as can be told."),
        ([0.64, 0.59, 0.69], "Its risks agree"),  # outside of its own interval, but of ten some are by chance
    ],
)
def test_risks_that_the_validation_shows_to_be_wrong_are_said(observed, phrase):
    row = {"predicted": 0.7, "observed": observed, "records": [9.0, 8.0, 10.0]}
    assert phrase in answers(validation=VALIDATION | {"calibration": [row]}, cards={})[2]
    rare = row | {"predicted": 0.004, "observed": [0.001, 0.0005, 0.0015]}
    text = answers(validation=VALIDATION | {"calibration": [rare]}, cards={})[2]
    assert "Risks of about 0.4 % are too high: 0.1 % of such records have the outcome “died”." in text


def test_classes_that_are_recognised_clearly_less_often_are_said():
    expected = EXPECTED | {"beats_majority": True, "ranks": True}
    poor = answers(expected=expected, validation=None, expected_recalls={"a": [0.4, 0.3, 0.5], "b": [0.9, 0.8, 0.95]})
    assert poor[2].startswith("It recognises 40 of 100 (30 to 50) that are “a”: clearly fewer than of the others.")
    even = answers(expected=expected, validation=None, expected_recalls={"a": [0.85, 0.8, 0.9]})
    assert even[2].startswith("No class is shown to be recognised less often than the others.")


def test_of_many_classes_that_are_all_recognised_seldom_none_is_said_to_be_so_less_than_others():
    recalls = {f"class {n}": [0.3, 0.2, 0.4] for n in range(10)}
    shares = {name: [0.1, 0.05, 0.15] for name in recalls}
    many = told(expected=None, validation=None, positive=None, expected_recalls=recalls, shares=shares)
    assert "clearly fewer" not in page_of(many)
    assert "No class is shown to be recognised less often" in page_of(many)
    worst = recalls | {"class 3": [0.1, 0.05, 0.15]}
    assert page_of(many | {"expected_recalls": worst}).count("clearly fewer than of the others") == 1
    assert page_of(many | {"expected_recalls": worst, "shares": {}}).count("clearly fewer than of the others") == 1


def test_patients_with_several_records_are_not_as_many_as_their_records():
    card = {"unit": "patient", "records": 5, "cap": "4"}
    page = page_of(told(cards={HOSTILE: card}))
    assert "They answered for about 206 records" in page
    assert "They answered for about 206 patients" in page_of(told(cards={HOSTILE: card | {"records": 1}}))


def test_a_hospital_where_the_validation_finds_less_is_named():
    def at(*areas):
        sites = {
            name: {"shares": {}, "validation": {"auc": area, "prevalence": [0.2, 0.1, 0.3]}}
            for name, area in zip("abc", areas, strict=False)
        }
        return answers(by_curator=sites)[2]

    alike = [0.96, 0.9, 0.99]
    assert "Worse at b: 70 of 100 such pairs (60 to 80), 97 over all." in at(alike, [0.7, 0.6, 0.8], alike)
    assert "No hospital stands out in what they found." in at(alike, [0.9, 0.85, 0.95], alike)
    assert "each can tell from its own records alone" in at(alike)


def test_what_a_patient_gave_away_counts_what_may_have_been_charged():
    away = answers(cards={"a": {"unit": "patient", "records": 1, "cap": "4"}})[3]
    assert "(epsilon) of 1.5 means. It covers all records of one patient." in away  # at most 3/2, although 1 is spent
    assert "82 % sure" in away  # e^1.5 to 1
    assert answers(not_private=["bern"])[3].startswith("Nothing is protected at bern")
    free = told()["cost"]
    (one,) = free["curators"].values()
    one |= {"spent": "0", "at_most": "0"}
    assert answers(cost=free)[3] == "Nothing: no answer left a hospital."


def test_costs_that_differ_are_said_apart_and_many_by_their_ends():
    cost = told()["cost"]
    (one,) = cost["curators"].values()
    names = ("a", "b", "c", "d")
    two = cost | {"curators": {name: one | {"spent": str(1 + n // 2)} for n, name in enumerate(names)}}
    assert "It cost a and b a privacy loss of 1. It cost c and d a privacy loss of 2." in answers(cost=two)[4]
    four = cost | {"curators": {name: one | {"spent": str(n)} for n, name in enumerate(names, 1)}}
    assert "It cost the hospitals a privacy loss of 1 to 4; see below." in answers(cost=four)[4]


def test_an_additive_model_is_drawn_with_its_units_and_a_result_without_one_is_not():
    bins = [
        {"label": "below 1.0", "low": None, "high": 1.0, "share": 0.4, "log_odds": -0.5, "lower": -0.8, "upper": -0.2},
        {"label": "1.0 or more", "low": 1.0, "high": None, "share": 0.6, "log_odds": 0.6, "lower": 0.3, "upper": 0.9},
    ]
    part = {"attribute": HOSTILE, "units": "mg/dl", "description": HOSTILE, "bounds": [0.0, 25.0], "bins": bins}
    page = page_of(told(parts=[part], positive="died"))

    assert "The log-odds of “died” are an intercept" in page
    assert "below 1.0: log-odds −0.50 (−0.80 to −0.20), odds times 0.61, 40 % of the records" in page
    assert "mg/dl" in page
    assert HOSTILE not in page
    assert "What the model adds up" not in page_of(told())
    assert "What the model adds up" not in page_of(told(parts=[]))


def test_errors_of_a_number_have_its_unit():
    errors = {"r2": [0.4, 0.2, 0.7], "mean_absolute_error": [45_245.6, 38_332.1, 45_245.7]}
    errors |= {"mean_squared_error": [16.0, 9.0, 25.0]}
    page = page_of(told(expected=None, expected_errors=errors, units="US dollars"))
    assert "On average it is off by 45,200 US dollars (38,300 to 45,200)." in page
    assert "Mean absolute error 45,200 (38,300 to 45,200), in US dollars" in page
