"""The page of a deployed study: what curators wrote is shown as text, and nothing is loaded."""

import re

import pytest

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
    assert "explain 40% of the label" in page
    assert "(-20% to 70%)" in page
    assert "3.250" in page
    assert "0.750" in page
    assert "32.1% (21.9% to 43.6%) are “&lt;script" in page
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
    condition = "no more curators collude with the learner than its plan assumes"
    assert condition in page_of(told(pooling="secure"))
    assert condition not in page_of(told())


def test_what_is_not_known_is_not_shown():
    page = page_of(told(shares={}, expected=None, validation=None, left_out={}, not_private=[], answered_late={}))
    assert "records that count" not in page
    assert "Note: many attributes vary" in page
    assert "Note:" not in page_of(told(advice=""))
    assert "do not tell how good the model is" in page
    assert "every curator that was asked answered" in page
    assert "Validated by the curators" not in page
    assert "Not private" not in page


def test_what_it_cost_counts_the_validation_and_names_it():
    found = told()
    (one,) = found["cost"]["curators"].values()
    one |= {"spent": "3/2", "validation": {"spent": "1/2", "at_most": "1/2", "state": "closed"}}
    found["cost"]["claimed"]["validation"] = "1/2"
    page = page_of(found)
    assert "That cost epsilon 1.5 (model 1, validation 0.5) at the costliest." in page
    assert "Planned: model 1, validation 0.5." in page


@pytest.mark.parametrize(("beats", "words"), [(True, "better than always"), (False, "not shown to be better than")])
def test_the_verdict_is_said_first(beats, words):
    page = page_of(told(expected=EXPECTED | {"beats_majority": beats, "ranks": True}))
    assert words in page[: page.index("What the model is worth")]
