"""Clinical scores, held against scikit-learn's other ways to them, brute force, and what must be None."""

import dataclasses
import itertools
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.calibration import calibration_curve
from sklearn.metrics import auc, precision_score, recall_score

from learner_fakes import NoNoise, federate, open_curator, ring
from learner_node.estimator import ExPriLClassifier
from learner_node.scores.clinical import clinical_scores
from learner_node.scores.thresholds import DEFAULT_THRESHOLDS, read_thresholds
from margins import DEVIATIONS
from protocol.errors import ConfigurationError

COARSE = st.integers(0, 8).map(lambda k: k / 8)
"""Probabilities with many ties."""


@st.composite
def scored(draw):
    n = draw(st.integers(1, 40))
    labels = draw(arrays.arrays(np.bool_, n))
    risk = draw(arrays.arrays(np.float64, n, elements=draw(st.sampled_from([COARSE, st.floats(0, 1)]))))
    return labels, risk


@settings(max_examples=60, deadline=None)
@given(scored())
def test_auc_counts_pairs_and_the_curve_has_that_area(given_):
    labels, risk = given_
    found = clinical_scores(labels, risk)
    pairs = [(a > b) + 0.5 * (a == b) for a, b in itertools.product(risk[labels], risk[~labels])]
    if not pairs:
        assert (found.auc, found.average_precision, found.roc, found.auc_error) == (None, None, None, None)
        return
    assert found.auc == pytest.approx(np.mean(pairs))
    assert auc(found.roc.false_positive_rate, found.roc.sensitivity) == pytest.approx(found.auc)
    assert found.auc_error >= 0
    for point in found.operating_points:  # each lies on the curve, or under a diagonal piece of it
        assert point.sensitivity <= found.roc.at(np.array([1 - point.specificity + 1e-9]))[0] + 1e-6


@settings(max_examples=30, deadline=None)
@given(scored(), st.sampled_from([0.25, 0.5, 0.9]))
def test_operating_points_are_those_of_the_flagged_records(given_, threshold):
    labels, risk = given_
    (point,) = clinical_scores(labels, risk, [threshold]).operating_points
    flagged = risk > threshold
    assert point.flagged == pytest.approx(flagged.mean())
    for name, score, truth, said in (
        ("sensitivity", recall_score, labels, flagged),
        ("specificity", recall_score, ~labels, ~flagged),
        ("ppv", precision_score, labels, flagged),
        ("npv", precision_score, ~labels, ~flagged),
    ):
        value = score(truth, said, zero_division=np.nan)
        told = getattr(point, name)
        assert math.isnan(value) if told is None else told == pytest.approx(value)


@settings(max_examples=60, deadline=None)
@given(scored())
def test_calibration_bins_hold_every_record_once_and_keep_the_means(given_):
    labels, risk = given_
    found = clinical_scores(labels, risk).calibration
    assert sum(found.counts) == len(risk)
    assert max(found.counts) - min(found.counts) <= 1
    assert np.average(found.predicted, weights=found.counts) == pytest.approx(risk.mean())
    assert np.average(found.observed, weights=found.counts) == pytest.approx(labels.mean())
    assert list(found.predicted) == sorted(found.predicted)


def test_calibration_is_that_of_scikit_learn_where_nothing_ties():
    rng = np.random.default_rng(0)
    risk = rng.random(400)
    labels = rng.random(400) < risk
    observed, predicted = calibration_curve(labels, risk, n_bins=10, strategy="quantile")
    found = clinical_scores(labels, risk).calibration
    assert found.predicted == pytest.approx(predicted)
    assert found.observed == pytest.approx(observed)


def test_calibration_does_not_hang_on_the_order_of_equal_records():
    labels = np.array([True] * 30 + [False] * 70)
    assert clinical_scores(labels, np.full(100, 0.2)).calibration.observed == pytest.approx([0.3] * 10)


@pytest.mark.parametrize(("share", "flagged"), [("5%", 5), ("10%", 10), ("12.1%", 12), ("99%", 99)])
def test_a_share_flags_that_many_of_the_highest(share, flagged):
    risk = np.random.default_rng(1).permutation(100) / 100
    (point,) = clinical_scores(risk > 0.5, risk, [share]).operating_points
    assert point.flagged == flagged / 100
    assert (risk > point.threshold).sum() == flagged


def test_a_share_goes_to_the_nearest_cut_where_records_tie():
    risk = np.repeat([0.1, 0.4, 0.8], [80, 12, 8])
    labels = risk > 0.5
    by_share = {share: clinical_scores(labels, risk, [share]).operating_points[0] for share in ("5%", "10%", "19%")}
    assert [by_share[share].flagged for share in ("5%", "10%", "19%")] == [0.08, 0.08, 0.2]
    assert by_share["5%"].ppv == 1
    constant = clinical_scores(labels, np.full(100, 0.3), ["5%"]).operating_points[0]
    assert (constant.flagged, constant.ppv, constant.sensitivity) == (0, None, 0)


def test_prevalence_is_what_the_learner_expects_and_else_the_mean():
    risk, labels = np.array([0.1, 0.2, 0.6]), np.array([0, 0, 1])
    assert clinical_scores(labels, risk, ["prevalence"]).operating_points[0].threshold == pytest.approx(0.3)
    (point,) = clinical_scores(labels, risk, ["prevalence"], prevalence=0.15).operating_points
    assert (point.threshold, point.flagged, point.sensitivity) == (0.15, pytest.approx(2 / 3), 1)


def test_the_error_of_an_auc_is_that_of_drawn_samples():
    """300 samples of two normal scores. The deviation of 300 has an error of 4.1 %, and misses by a quarter with a
    probability of 1e-9; a formula that is wrong by half is found with a probability of 1 - 1e-9."""
    rng = np.random.default_rng(2)
    labels = np.arange(150) < 50
    scores = rng.normal(size=(300, 150)) + labels
    areas = (scores[:, :50, None] > scores[:, None, 50:]).mean(axis=(1, 2))
    errors = [clinical_scores(labels, 1 / (1 + np.exp(-score)), []).auc_error for score in scores[:20]]
    assert np.mean(errors) == pytest.approx(np.std(areas, ddof=1), rel=0.25)


@pytest.mark.parametrize("threshold", [0, 1, 1.5, -0.1, float("nan"), True, "0%", "100%", "half", "-5%", "1e1%"])
def test_what_is_no_threshold_is_refused(threshold):
    with pytest.raises(ConfigurationError, match="is no threshold"):
        read_thresholds([threshold])


def test_a_threshold_twice_is_refused_and_the_default_is_lawful():
    with pytest.raises(ConfigurationError, match="are the same"):
        read_thresholds(["10%", "10.0 %"])
    assert [rule.name for rule in read_thresholds(DEFAULT_THRESHOLDS)] == [
        "above 0.5",
        "above the prevalence",
        "highest 20 %",
        "highest 10 %",
        "highest 5 %",
    ]


@pytest.mark.parametrize(
    ("labels", "risk"),
    [([], []), ([0, 1], [0.5]), ([0, 2], [0.5, 0.5]), ([0, 1], [0.5, 1.1]), ([0, 1], [0.5, np.nan]), ([[0]], [[0.5]])],
)
def test_what_is_no_prediction_is_refused(labels, risk):
    with pytest.raises(ValueError, match=r"must be \(n,\)|neither 0 nor 1|outside \[0, 1\]"):
        clinical_scores(labels, risk)


@pytest.fixture(scope="module")
def fitted():
    curators = {"basel": open_curator("basel", ring(600, seed=1), noise=NoNoise())}
    return ExPriLClassifier(federate(curators), options={"cells": 20}, random_state=0).fit(ring(300, seed=3))


@pytest.mark.slow
def test_an_estimator_scores_records_that_its_user_owns(fitted):
    own = ring(200, seed=4)
    spent = dict(fitted.epsilon_spent_)
    found = fitted.clinical_scores(own, own["sick"], thresholds=[0.5, "prevalence"])
    expected = clinical_scores(
        own["sick"].to_numpy() == "yes",
        fitted.predict_proba(own)[:, 1],
        [0.5, "prevalence"],
        prevalence=fitted.estimates_[""].prevalence,
    )
    assert (
        found.auc == expected.auc > 0.5 + DEVIATIONS * 0.5 * np.sqrt((200 + 1) / (3 * 77 * 123))
    )  # Mann and Whitney's
    for point, wanted in zip(found.operating_points, expected.operating_points, strict=True):
        assert dataclasses.astuple(point)[1:] == pytest.approx(dataclasses.astuple(wanted)[1:])
    shares = (ring(600, seed=1)["sick"] == "yes").mean()
    assert found.operating_points[1].threshold == pytest.approx(shares, abs=DEVIATIONS * np.sqrt(0.25 / 600))
    assert found.operating_points[0].sensitivity == pytest.approx(
        np.mean(fitted.predict(own.filter(pl.col("sick") == "yes")) == "yes")
    )
    assert fitted.epsilon_spent_ == spent


def test_labels_that_are_not_the_cards_are_told_without_a_value(fitted):
    own = ring(5, seed=4)
    for labels in (["secret"] * 5, [1, 0, 1, 0, 1], ["yes"] * 4, [["yes"]] * 5):
        with pytest.raises(ConfigurationError, match=r"y must be one column|X has 5 records and y has 4") as told:
            fitted.clinical_scores(own, labels)
        assert "secret" not in str(told.value)
