"""Clinical scores, areas from noisy counts, recalibration and class shares, against other computations."""

import copy
import itertools
import math
from fractions import Fraction

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq
from scipy.special import expit, gammaln, logit, ndtr, ndtri
from scipy.stats import binom, binomtest, nbinom, norm, t
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import auc, confusion_matrix, precision_score, recall_score, roc_auc_score

from learner_fakes import NoNoise, federate, open_curator, ring
from learner_node.estimator import ExPriLClassifier
from learner_node.kinds.counts import CountsAnswer
from learner_node.models.codec import pack, unpack
from learner_node.models.files import StudyModel, encode_model, load_model
from learner_node.models.label_model.likelihood import noise_log_pmf
from learner_node.models.source import coordinates, held_apart
from learner_node.scores.auc import roc_area
from learner_node.scores.clinical import clinical_scores
from learner_node.scores.performance import Interval, performance
from learner_node.scores.prevalence import (
    LEAST,
    LEAST_IN_ERRORS,
    TOLERATED_ERRORS,
    Prevalence,
    estimate_prevalence,
    matching_factors,
    matching_intercept,
    mean_probability,
    rescaled,
    shifted,
)
from learner_node.scores.recalibration import Recalibration, _Likelihood, recalibrate
from learner_node.scores.score_posterior import _SHAPES, Bins, _Table, draw_counts
from learner_node.scores.thresholds import DEFAULT_THRESHOLDS, read_thresholds
from learner_node.strategies.base import Problem
from learner_node.strategies.cells import CellsClassesStrategy, CellsStrategy
from margins import DEVIATIONS
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace
from protocol.noise_shares import LaplaceShares
from protocol.records import Records
from protocol.schema import NumericAttribute, Schema

COARSE = st.integers(0, 8).map(lambda k: k / 8)
"""Probabilities with many ties."""


@st.composite
def scored(draw):
    n = draw(st.integers(1, 40))
    labels = draw(arrays(np.bool_, n))
    risk = draw(arrays(np.float64, n, elements=draw(st.sampled_from([COARSE, st.floats(0, 1)]))))
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
        assert msgspec.structs.astuple(point)[1:] == pytest.approx(msgspec.structs.astuple(wanted)[1:])
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


FALSE_ALARM = 1e-9


def even_bins(k, source=1000, seed=0):
    """Edges, and bins, of even shares of a standard normal source."""
    scores = np.random.default_rng(seed).standard_normal(source)
    edges = np.quantile(scores, np.arange(1, k) / k)
    return edges, Bins.of(scores, np.searchsorted(edges, scores, side="right"), k)


def counted(scores, labels, edges):
    cells = np.searchsorted(edges, scores, side="right")
    return np.bincount(2 * cells + labels, minlength=2 * len(edges) + 2).reshape(-1, 2).astype(float)


def tell(counts, bins, edges, *, scale, noises=1, draws=400, seed=0, design=1.0):
    draws_ = draw_counts(counts, bins, scale=scale, noises=noises, draws=draws, seed=seed, design=design)
    return performance(draws_, list(edges), [0.0] * len(counts))


@given(arrays(np.int64, (7, 2), elements=st.integers(0, 6)))
def test_the_area_of_counts_is_that_of_their_records(counts):
    if not counts.sum(axis=0).all():
        return
    scores, labels = np.divmod(np.repeat(np.arange(14), counts.ravel()), 2)
    assert roc_area(counts[:, 0] * 1.0, counts[:, 1] * 1.0) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


def test_with_every_score_a_bin_of_its_own_the_area_is_scikit_learn_s():
    rng = np.random.default_rng(1)
    scores, labels = rng.standard_normal(300), rng.integers(0, 2, 300)
    edges = (np.sort(scores)[1:] + np.sort(scores)[:-1]) / 2
    counts = counted(scores, labels, edges)
    assert roc_area(counts[:, 0], counts[:, 1]) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


def test_without_noise_and_with_many_records_it_is_told_what_scikit_learn_tells():
    rng = np.random.default_rng(2)
    labels = rng.random(200_000) < 0.2
    scores = rng.standard_normal(len(labels)) + 1.2 * labels
    edges, bins = even_bins(30)
    told = tell(counted(scores, labels, edges), bins, edges, scale=0.0)
    # Of so many records the posterior is as narrow as sampling; bins of a thirtieth lose less than a thousandth.
    assert told.auc == pytest.approx(roc_auc_score(labels, scores), abs=0.003)
    assert told.prevalence.value == pytest.approx(labels.mean(), abs=0.003)
    (zeros, false), (missed, found) = confusion_matrix(labels, scores >= edges[20])
    point = told.points[20]
    assert point.sensitivity.value == pytest.approx(found / (found + missed), abs=0.006)
    assert point.specificity.value == pytest.approx(zeros / (zeros + false), abs=0.003)
    assert point.ppv.value == pytest.approx(found / (found + false), abs=0.006)
    assert point.npv.value == pytest.approx(zeros / (zeros + missed), abs=0.003)


@settings(max_examples=12, deadline=None)
@given(
    arrays(np.int64, (5, 2), elements=st.integers(-60, 400)),
    st.sampled_from([0.0, 0.4, 3.0, 30.0]),
    st.sampled_from([1, 3, 50]),
    st.sampled_from([1.0, 4.0]),
)
def test_whatever_the_answer_says_curves_rise_and_intervals_hold_their_values(counts, scale, noises, design):
    edges, bins = even_bins(5)
    told = tell(counts.astype(float), bins, edges, scale=scale, noises=noises, draws=60, design=design)
    assert (np.diff(told.roc, axis=0) >= 0).all()
    assert told.roc[0].tolist() == [0, 0]
    assert told.roc[-1].tolist() == [1, 1]
    intervals = [told.area, told.prevalence, *(own.observed for own in told.calibration)]
    for point in told.points:
        intervals += [point.flagged, point.sensitivity, point.specificity, point.ppv, point.npv]
    for one in intervals:
        assert 0 <= one.low <= one.value <= one.high <= 1
    for before, after in zip(told.points, told.points[1:], strict=False):
        assert before.sensitivity.value >= after.sensitivity.value
        assert before.specificity.value <= after.specificity.value
        assert before.flagged.value >= after.flagged.value


def test_one_bin_is_enough_for_the_prevalence():
    bins = Bins.of(np.arange(10.0), np.zeros(10, np.intp), 1)
    told = tell(np.array([[300.0, 100.0]]), bins, [], scale=1.0)
    assert 0.25 in told.prevalence
    assert told.points == ()
    assert told.area.low < 0.4
    assert told.area.high > 0.6


def test_nothing_is_known_where_noise_is_all_there_is():
    edges, bins = even_bins(4)
    told = tell(np.array([[3.0, -8], [1, 9], [-2, 1], [6, 4]]), bins, edges, scale=1000.0)
    assert told.area.low < 0.2
    assert told.area.high > 0.8


def test_more_noise_and_records_of_fewer_units_widen_the_interval():
    edges, bins = even_bins(8)
    counts = np.array([[90.0, 5], [80, 9], [70, 12], [60, 18], [50, 25], [40, 33], [30, 44], [20, 60]])
    widths = [
        told.area.high - told.area.low
        for told in (
            tell(counts, bins, edges, scale=0.0),
            tell(counts, bins, edges, scale=6.0),
            tell(counts, bins, edges, scale=6.0, noises=4),
        )
    ]
    assert widths[0] < widths[1] < widths[2]
    clustered = tell(counts, bins, edges, scale=0.0, design=4.0)
    assert clustered.area.high - clustered.area.low > 1.5 * widths[0]


def test_draws_are_a_pure_function_of_the_arguments():
    edges, bins = even_bins(4)
    counts = np.array([[9.0, 1], [8, 4], [3, 5], [2, 9]])
    first, second = (tell(counts, bins, edges, scale=1.0, seed=5) for _ in range(2))
    assert first == second
    assert first != tell(counts, bins, edges, scale=1.0, seed=6)


def test_an_interval_of_a_share_cannot_rule_out_what_half_a_record_decides():
    rng = np.random.default_rng(0)
    part, rest = rng.gamma(50.0, size=4000), rng.gamma(0.5, size=4000)
    assert Interval.of_share(part, rest).high == 1.0
    assert Interval.of_share(rest, part).low == 0.0
    known = Interval.of_share(part, rng.gamma(50.0, size=4000))
    assert 0.3 < known.low < 0.5 < known.high < 0.7
    assert known.low * 1000 == pytest.approx(round(known.low * 1000))


def test_a_threshold_is_found_by_value_and_by_rule():
    _, bins = even_bins(3)
    draws = draw_counts(np.full((3, 2), 30.0), bins, scale=1.0, noises=1, draws=50, seed=0)
    told = performance(draws, [0.2, 0.5], [0.1, 0.3, 0.8], ["highest 10 %, above the prevalence", ""])
    assert told.at(0.5) is told.points[1]
    assert told.at("10%") is told.at("prevalence") is told.at(0.2)
    assert told.chosen_points == told.points[:1]
    with pytest.raises(ConfigurationError, match=r"no bin ends at the threshold 0.7: name it"):
        told.at(0.7)


@pytest.mark.parametrize(
    ("answer", "scale", "noises"), [(3, 10.0, 1), (-20, 10.0, 1), (40, 10.0, 4), (2, 1.0, 1), (700, 30.0, 2)]
)
def test_the_likelihood_of_an_answer_is_the_sum_over_true_counts(answer, scale, noises):
    """A negative binomial count and the noise, convolved in full; below a log of -14 nothing hangs on it."""
    table = _Table.of(np.array([float(answer)]), scale, noises)
    true = np.arange(6000)
    noise = np.exp(noise_log_pmf(answer - true, scale, noises))
    for number, shape in enumerate(_SHAPES):
        for column in range(0, len(table.means), 6):
            mean = np.exp(table.means[column])
            exact = np.log(nbinom.pmf(true, shape, shape / (shape + mean)) @ noise)
            if exact > -14:
                assert table.values[0, number, column] == pytest.approx(exact, abs=0.05)


def noise_draws(law, noises, rng, shape):
    """Noise of so many curators, or, where the number is not whole, of a secure sum."""
    if isinstance(noises, int):
        return law.simulate(rng, (noises, *shape)).sum(axis=0)
    return LaplaceShares(law.scale, Fraction(noises).limit_denominator(100)).simulate(rng, shape)


def covered(area, prevalence, size, *, epsilon, noises, bins, runs, records_per_unit=1, design=1.0):
    """How often nominal 95 % intervals hold: of the area, of all sensitivities, of all PPVs and calibration bins."""
    apart = np.sqrt(2.0) * ndtri(area)
    rng = np.random.default_rng(8)
    law = DiscreteLaplace(design / epsilon)
    held = {"area": [], "sensitivity": [], "ppv": [], "calibration": []}
    for run in range(runs):
        source_labels = rng.random(800) < prevalence
        source = rng.standard_normal(800) + apart * source_labels
        edges = np.quantile(source, np.arange(1, bins) / bins)
        place = Bins.of(source, np.searchsorted(edges, source, side="right"), bins)
        labels = rng.random(size) < prevalence
        scores = rng.standard_normal(size) + apart * labels
        labels, scores = np.repeat(labels, records_per_unit), np.repeat(scores, records_per_unit)
        counts = counted(scores, labels.astype(int), edges) + noise_draws(law, noises, rng, (bins, 2))
        told = tell(counts, place, edges, scale=float(law.scale), noises=noises, seed=run, design=design)
        found, false = 1 - ndtr(edges - apart), 1 - ndtr(edges)
        held["area"].append(area in told.area)
        held["sensitivity"] += [one in point.sensitivity for one, point in zip(found, told.points, strict=True)]
        ppv = prevalence * found / (prevalence * found + (1 - prevalence) * false)
        held["ppv"] += [one in point.ppv for one, point in zip(ppv, told.points, strict=True)]
        ends = np.concatenate([[-np.inf], edges, [np.inf]])
        ones, zeros = prevalence * np.diff(ndtr(ends - apart)), (1 - prevalence) * np.diff(ndtr(ends))
        held["calibration"] += [
            one in own.observed for one, own in zip(ones / (ones + zeros), told.calibration, strict=True)
        ]
    return held


@pytest.mark.slow
@pytest.mark.parametrize(
    ("area", "prevalence", "size", "epsilon", "noises", "bins"),
    [
        (0.80, 0.3, 900, "1/10", 2, 5),
        (0.64, 0.1, 4000, "1", 4, 20),
        (0.97, 0.4, 280, "1", 3, 12),
        (0.50, 0.3, 600, "3/10", 1, 6),
        (0.66, 0.08, 2500, "1/10", 1, 25),
        (0.80, 0.3, 900, "1/10", 5 / 3, 5),
    ],
)
def test_nominal_intervals_cover(area, prevalence, size, epsilon, noises, bins):
    """Of 150 areas, at a true coverage of 0.95, 117 hold but with a probability of 1e-9.

    Power: at a true coverage of 0.7, 118 or more of 150 hold with a probability of 1 %. Points of one curve go
    together, so that of these the share is held against the documented 0.85.
    """
    runs = 150
    held = covered(area, prevalence, size, epsilon=Fraction(epsilon), noises=noises, bins=bins, runs=runs)
    assert sum(held["area"]) >= binom.ppf(FALSE_ALARM, runs, 0.95)
    for name in ("sensitivity", "ppv", "calibration"):
        assert np.mean(held[name]) > 0.85, name


def levelled(least, most, intercept, slope, *, size, epsilon, noises, bins, runs):
    """How often 95 % intervals hold where the surest scores are wrong at times: first bin, last bin, NPVs, areas."""
    rng = np.random.default_rng(9)
    law = DiscreteLaplace(1 / epsilon)
    population = np.sort(rng.standard_normal(200_000))

    def risk(scores):
        return least + (most - least) * expit(intercept + slope * scores)

    ones = risk(population)
    held = {"first": [], "last": [], "npv": [], "area": []}
    area = roc_area(1.0 - ones, ones)
    for run in range(runs):
        edges, place = even_bins(bins, source=1500, seed=run)
        scores = rng.standard_normal(size)
        labels = (rng.random(size) < risk(scores)).astype(int)
        told = tell(
            counted(scores, labels, edges) + noise_draws(law, noises, rng, (bins, 2)),
            place,
            edges,
            scale=float(law.scale),
            noises=noises,
            seed=run,
        )
        starts = np.concatenate([[0], np.searchsorted(population, edges)])
        positive = np.add.reduceat(ones, starts)
        records = np.diff(starts, append=len(population))
        held["first"].append(positive[0] / records[0] in told.calibration[0].observed)
        held["last"].append(positive[-1] / records[-1] in told.calibration[-1].observed)
        npv = 1 - np.cumsum(positive) / np.cumsum(records)
        held["npv"] += [one in point.npv for one, point in zip(npv, told.points, strict=False)]
        held["area"].append(area in told.area)
    return {name: float(np.mean(shares)) for name, shares in held.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("least", "most", "intercept", "slope", "size", "epsilon", "noises", "bins"),
    [
        (0.045, 1.0, -1.6, 2.2, 7000, "1/4", 4, 30),
        (0.04, 0.9, -1.3, 2.5, 3000, "1/2", 2, 20),
        (0.02, 1.0, -4.2, 1.5, 8000, "1/2", 4, 20),
        (0.0, 1.0, -1.3, 1.6, 3000, "1/4", 3, 20),
    ],
)
def test_the_surest_scores_may_be_wrong_at_times(least, most, intercept, slope, size, epsilon, noises, bins):
    """Of 60 intervals at a true coverage of 0.9, 37 hold but with a probability of 1e-9.

    Power: a trend that is a line in the logit holds the first bin's share in at most 16 of 100 where the curve levels
    off; 37 or more of 60 then hold with a probability of 2e-15. Points of one curve go together: their share is held
    against 0.85, as documented.
    """
    runs = 60
    shape = {"size": size, "epsilon": Fraction(epsilon), "noises": noises, "bins": bins, "runs": runs}
    held = levelled(least, most, intercept, slope, **shape)
    for name in ("first", "last", "area"):
        assert held[name] * runs >= binom.ppf(FALSE_ALARM, runs, 0.9), name
    assert held["npv"] > 0.85


@pytest.mark.slow
def test_records_that_come_in_units_need_the_design_effect():
    """Four equal records a unit: with the design effect intervals cover as of single records; without, they do not.

    Of 100 areas at a true coverage of 0.95, 73 hold but with a probability of 1e-9; without the effect (half the
    width) about 0.67 hold.
    """
    told = {
        design: covered(
            0.8, 0.3, 300, epsilon=Fraction(30), noises=1, bins=12, runs=100, records_per_unit=4, design=design
        )
        for design in (4.0, 1.0)
    }
    assert sum(told[4.0]["area"]) >= binom.ppf(FALSE_ALARM, 100, 0.95)
    assert sum(told[1.0]["area"]) < sum(told[4.0]["area"])
    assert np.mean(told[4.0]["calibration"]) > 0.85  # as documented


ROUNDING = 2.0**-40
"""Of some sums of numbers up to 1, with room for exp and log."""
LEVELS = np.linspace(-2.5, 2.5, 12)
"""Logits of the invented model; each is a bin."""


def answers(rng, intercept, slope, records, scale, sites=1):
    """Noisy counts of twelve bins whose risks the map mends."""
    per_bin = rng.poisson(records / len(LEVELS), len(LEVELS))
    ones = rng.binomial(per_bin, expit(intercept + slope * LEVELS))
    counts = np.column_stack([per_bin - ones, ones])
    if scale:
        counts = counts + DiscreteLaplace(Fraction(scale)).simulate(rng, (sites, *counts.shape)).sum(axis=0)
    return counts.astype(float)


def recalibrated(counts, scale, noises=1, **options):
    places = np.repeat(np.arange(len(LEVELS)), 10)
    return recalibrate(counts, expit(LEVELS[places]), places, scale=scale, noises=noises, **options)


def test_many_exact_counts_give_logistic_regression():
    """By scikit-learn's maximum of the likelihood; the priors move it by less than a fifth of its own interval."""
    counts = answers(np.random.default_rng(0), 0.5, 1.4, 40_000, 0)
    column, weights = np.tile(LEVELS, 2)[:, None], np.concatenate([counts[:, 0], counts[:, 1]])
    labels = np.repeat([0, 1], len(LEVELS))
    best = LogisticRegression(C=np.inf, tol=1e-10).fit(column, labels, sample_weight=weights)
    found = recalibrated(counts, 0.0)
    for told, exact in ((found.intercept, best.intercept_[0]), (found.slope, best.coef_[0, 0])):
        assert abs(told.value - exact) < 0.2 * (told.high - told.low)
    assert found.on


def slow_log_likelihood(counts, shift, log_slope, scale, sizes, weights):
    """By adding up all true counts that matter, for one noise a count."""
    true = np.arange(400)
    q = np.exp(-1.0 / scale)
    total = 0.0
    for bin_, own in enumerate(counts):
        risk = expit(shift + np.exp(log_slope) * LEVELS[bin_])
        probability = np.zeros(len(sizes[bin_]))
        for place, size in enumerate(sizes[bin_]):
            both = 1.0
            for answer, mean in zip(own, (size * (1 - risk), size * risk), strict=True):
                poisson = np.exp(true * np.log(mean) - mean - gammaln(true + 1))
                both *= np.sum(poisson * (1 - q) / (1 + q) * q ** np.abs(answer - true))
            probability[place] = np.exp(weights[bin_][place]) * both
        total += np.log(probability.sum())
    return total


def test_the_likelihood_is_that_of_a_slow_sum():
    """To a hundredth where the answers are likely: a hundredth of what moves an end of an interval by a hundredth."""
    counts = answers(np.random.default_rng(1), 0.2, 0.8, 900, 4)
    places = np.repeat(np.arange(len(LEVELS)), 10)
    likelihood = _Likelihood.of(counts, expit(LEVELS[places]), places, 4.0, 1, 1.0)
    assert likelihood.centre == pytest.approx(0.0, abs=1e-9)
    at = np.array([[0.2, np.log(0.8)], [0.0, 0.0], [-0.1, 0.2]])
    slow = [slow_log_likelihood(counts, *pair, 4.0, likelihood.sizes, likelihood.size_weights) for pair in at]
    np.testing.assert_allclose(likelihood.log_likelihood(at), slow, rtol=0, atol=0.03)


def test_the_order_of_risks_is_kept_and_so_are_the_ends():
    found = Recalibration(Interval(-0.7, -1.0, -0.5), Interval(0.4, 0.2, 0.6), 50.0)
    risks = np.array([0.0, 1e-6, 0.2, 0.5, 0.9, 1.0])
    assert (np.diff(found.probability(risks)) > 0).all()
    assert found.probability(risks)[[0, -1]].tolist() == [0.0, 1.0]
    assert found.probability(np.array([0.2]))[0] == pytest.approx(expit(-0.7 + 0.4 * logit(0.2)))


def test_where_it_is_off_risks_stay_to_the_last_bit():
    found = Recalibration(Interval(-0.7, -1.0, -0.5), Interval(0.4, 0.2, 0.6), 0.9)
    risks = np.array([0.0, 1e-6, 0.2, 0.5])
    assert not found.on
    assert found.probability(risks).tolist() == risks.tolist()


@pytest.mark.slow
def test_right_risks_are_left_alone_and_wrong_ones_are_mended():
    """A right model's factor is above 1 in one of five at most (docs/learner/validation.md); false alarm 1e-9."""
    rng = np.random.default_rng(2)
    right = [recalibrated(answers(rng, 0.0, 1.0, 3000, 4, 3), 4.0, 3).on for _ in range(20)]
    wrong = [recalibrated(answers(rng, -1.0, 1.0, 3000, 4, 3), 4.0, 3).on for _ in range(20)]
    assert sum(right) <= binom.isf(1e-9, 20, 0.2)
    assert all(wrong)


@pytest.mark.slow
def test_units_of_many_records_say_less():
    counts = answers(np.random.default_rng(3), 0.0, 1.0, 5000, 4)
    alone, clustered = (recalibrated(counts, 4.0, design=design) for design in (1.0, 9.0))
    widths = [found.slope.high - found.slope.low for found in (alone, clustered)]
    assert widths[1] > 2 * widths[0]


@pytest.mark.slow
def test_intervals_cover_the_truth_nineteen_times_in_twenty():
    """160 answers, of right and wrong risks; 95 % fail with a chance of 1e-9, 70 % is found with one of 0.99."""
    rng = np.random.default_rng(4)
    inside = np.zeros(2)
    for intercept, slope, records in itertools.product((0.0, -0.6), (0.7, 1.0), (300, 5000)):
        for _ in range(20):
            found = recalibrated(answers(rng, intercept, slope, records, 4, 3), 4.0, 3)
            inside += [intercept in found.intercept, slope in found.slope]
    assert (inside >= binom.ppf(1e-9, 160, 0.95)).all()


# a study's model


@pytest.fixture(scope="module")
def model():
    curators = {name: open_curator(name, ring(400, seed=seed)) for seed, name in enumerate(("basel", "bern"))}
    options = {"networks": False}
    return ExPriLClassifier(federate(curators), options=options, random_state=0).fit(ring(120, seed=9).drop("sick"))


@pytest.mark.slow
def test_a_validation_recalibrates_at_no_further_cost(model):
    test = ring(50, seed=5).drop("sick")
    raw = model.predict_proba(test)
    assert not hasattr(model, "recalibrated_")
    found = model.validate("1/4", recalibrate=True)
    assert set(found.epsilon_spent.values()) == {Fraction(1, 4)}
    assert model.predict_proba(test).tolist() == raw.tolist()
    mended = model.recalibrated_.predict_proba(test)
    assert mended[:, 1].tolist() == found.recalibration.probability(raw[:, 1]).tolist()
    assert np.argsort(mended[:, 1], kind="stable").tolist() == np.argsort(raw[:, 1], kind="stable").tolist()
    assert np.allclose(mended.sum(axis=1), 1.0)
    assert "Recalibrated, fitted to these answers (no validation)" in found.to_text()


def test_a_recalibrated_model_is_kept_in_its_file(model, tmp_path):
    test = ring(50, seed=5).drop("sick")
    kept = StudyModel.of(
        model.learned_, recalibration=Recalibration(Interval(0.3, 0.0, 1.0), Interval(1.5, 1.0, 2.0), 9.0)
    )
    path = tmp_path / "model.safetensors"
    path.write_bytes(encode_model(kept))
    found = load_model(path)
    assert found.recalibration == kept.recalibration
    # One adds the two classes up to 1 once more than the other.
    np.testing.assert_allclose(found.predict_proba(test), model.predict_proba(test), rtol=0, atol=ROUNDING)
    expected = kept.recalibration.probability(model.predict_proba(test)[:, 1])
    np.testing.assert_allclose(found.recalibrated_.predict_proba(test)[:, 1], expected, rtol=0, atol=ROUNDING)
    assert encode_model(found) == path.read_bytes()


def test_a_file_without_one_says_how_to_ask_for_it(model, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(encode_model(StudyModel.of(model.learned_)))
    with pytest.raises(ConfigurationError, match="recalibrate = true"):
        load_model(path).recalibrated_  # noqa: B018


@pytest.mark.parametrize("slope", [-1.0, 0.0, float("nan")])
def test_a_file_with_a_map_that_turns_the_order_is_damaged(model, tmp_path, slope):
    path = tmp_path / "model.safetensors"
    wrong = Recalibration(Interval(0.3, 0.0, 1.0), Interval(slope, slope, slope), 9.0)
    path.write_bytes(encode_model(StudyModel.of(model.learned_, recalibration=wrong)))
    with pytest.raises(ConfigurationError, match="damaged"):
        load_model(path)


shares = st.floats(1e-6, 1 - 1e-6)
totals = st.floats(-1e7, 1e7)


# --- the estimate


def simulated_shares(share, *, records, noise, most=1, declared=None, runs=2000, seed=0):
    """Estimates from binomial totals and normal noise of that variance in either; a unit's records are alike."""
    rng = np.random.default_rng(seed)
    ones = most * rng.binomial(records // most, share, runs)
    counted = np.stack([ones, records - ones]) + np.sqrt(noise) * rng.standard_normal((2, runs))
    return [
        estimate_prevalence(tuple(each), (noise, noise), declared=declared or records, records_per_unit=most)
        for each in counted.T
    ]


@pytest.mark.family(3)
@pytest.mark.parametrize("share", [0.02, 0.15, 0.5, 0.98])
@pytest.mark.parametrize(
    ("records", "noise", "most"),
    [(9000, 90_000.0, 1), (90_000, 6_000.0, 1), (900, 300.0, 1), (9000, 90_000.0, 3), (300_000, 3000.0, 1)],
)
def test_the_estimate_is_unbiased_and_its_interval_holds(share, records, noise, most):
    """Bias within a quarter of the implied error, coverage at least .93: tests of 2,000 runs, false alarm 1e-9 each.

    A bias of .4 and a coverage of .87 are found with a probability above .999.
    """
    found = simulated_shares(share, records=records, noise=noise, most=most)
    off = np.array([(each.share - share) / each.error for each in found])
    reach = t(len(off) - 1).isf(0.5e-9) * off.std(ddof=1) / np.sqrt(len(off))
    assert abs(off.mean()) <= 0.25 + reach
    held = sum(each.low <= share <= each.high for each in found)
    assert binomtest(held, len(found), 0.93, "less").pvalue > 1e-9


def test_the_implied_error_is_the_spread_of_the_estimates():
    """Within 15 %: of 2,000 runs the spread's own error is 1.6 %."""
    found = simulated_shares(0.3, records=20_000, noise=30_000.0)
    assert np.std([each.share for each in found]) == pytest.approx(found[0].error, rel=0.15)


def test_the_interval_is_the_set_of_shares_that_a_score_test_keeps():
    """Of totals of a thousand records with a declared size that says nothing: both ends by root finding."""
    ones, others, noise = 180.0, 820.0, 400.0

    def score(share):
        spread = noise * (share**2 + (1 - share) ** 2) + 1000.0 * share * (1 - share)
        return ((1 - share) * ones - share * others) ** 2 - norm.isf(0.025) ** 2 * spread

    found = estimate_prevalence((ones, others), (noise, noise), declared=1e9)
    assert found.share == pytest.approx(0.18, abs=1e-4)
    # The number of records is the counted one, to what the declared number of a thousand million leaves of it.
    assert found.low == pytest.approx(brentq(score, 1e-6, 0.18), abs=2e-3)
    assert found.high == pytest.approx(brentq(score, 0.18, 1 - 1e-6), abs=2e-3)


@pytest.mark.parametrize("declared", [90, 500, 100_000])
def test_a_declared_size_is_one_more_observation_of_both_totals(declared):
    """Its weight is that of a normal law with half of it as deviation: least squares of three observations, by hand."""
    noise = 3600.0
    found = estimate_prevalence((45.0, 20.0), (noise, noise), declared=declared)
    size = np.average([65.0, declared], weights=[1 / (2 * noise), 1 / (0.5 * declared) ** 2])
    spread = np.array([noise + size * found.share, noise + size * (1 - found.share), (0.5 * declared) ** 2])
    design = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    ones, others = np.linalg.solve((design.T / spread) @ design, (design.T / spread) @ [45.0, 20.0, declared])
    assert found.share == pytest.approx(ones / (ones + others), abs=1e-4)


@given(ones=totals, others=totals, noise=st.floats(0, 1e9), declared=st.floats(1, 1e9), most=st.integers(1, 50))
def test_every_answer_has_an_estimate_within_its_interval(ones, others, noise, declared, most):
    found = estimate_prevalence((ones, others), (noise, noise), declared=declared, records_per_unit=most)
    assert 0.0 <= found.low <= found.share <= found.high <= 1.0
    assert 0.0 < found.share < 1.0
    assert found.error > 0.0
    assert min(found.share, 1 - found.share) >= min(LEAST_IN_ERRORS * found.error, 0.5) - 1e-12


@given(ones=st.floats(-1e5, 1e5), others=st.floats(-1e5, 1e5), noise=st.floats(1, 1e6))
def test_the_other_class_has_the_rest(ones, others, noise):
    found = estimate_prevalence((ones, others), (noise, noise), declared=1000)
    mirror = estimate_prevalence((others, ones), (noise, noise), declared=1000)
    assert mirror.share == pytest.approx(1 - found.share, abs=1e-6)
    assert (mirror.low, mirror.high) == (
        pytest.approx(1 - found.high, abs=1e-6),
        pytest.approx(1 - found.low, abs=1e-6),
    )


# --- moving a model


@given(probability=st.lists(shares, min_size=2, max_size=30), wanted=st.floats(0.001, 0.999), seed=st.integers(0, 100))
def test_a_shift_gives_the_wanted_mean_and_keeps_the_order(probability, wanted, seed):
    values = np.array(probability)
    mass = np.random.default_rng(seed).uniform(0.1, 5.0, len(values))
    moved = shifted(values, matching_intercept(values, mass, wanted))
    assert mean_probability(moved, mass) == pytest.approx(wanted, abs=1e-6)
    order = np.argsort(values, kind="stable")
    assert (np.diff(moved[order]) >= 0).all()


def test_a_shift_is_constant_in_probits():
    values = np.array([0.01, 0.3, 0.5, 0.9])
    assert norm.ppf(shifted(values, 0.7)) - norm.ppf(values) == pytest.approx(np.full(4, 0.7))
    assert shifted(np.array([0.0, 1.0]), 3.0).tolist() == [0.0, 1.0]


@given(
    rows=st.lists(st.lists(st.floats(1e-3, 1.0), min_size=3, max_size=3), min_size=3, max_size=20),
    wanted=st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3),
)
def test_factors_give_each_class_its_share_and_move_log_odds_by_constants(rows, wanted):
    apart = np.array(rows) / np.sum(rows, axis=1, keepdims=True)
    mass = np.linspace(1.0, 2.0, len(apart))
    moved = rescaled(apart, matching_factors(apart, mass, wanted))
    assert np.average(moved, axis=0, weights=mass) == pytest.approx(np.array(wanted) / np.sum(wanted), abs=1e-3)
    for first, second in ((0, 1), (1, 2)):
        change = np.log(moved[:, first] / moved[:, second]) - np.log(apart[:, first] / apart[:, second])
        assert np.ptp(change) < 1e-6


# --- in the strategies


def asked(strategy, classes, counts_of, *, epsilon=1, declared=6000):
    """What a strategy learns of exact counts, from the probabilities of 300 source records of one attribute."""
    rng = np.random.default_rng(2)
    schema = Schema(
        label="y",
        attributes=(NumericAttribute(name="x", lower=-9.0, upper=9.0),),
        classes=tuple(map(str, range(classes))),
    )
    source = Records(schema, rng.standard_normal((300, 1)), np.zeros((300, 0), dtype=np.int64))
    asking = strategy.run(Problem(source, Fraction(epsilon), 1, declared, 1, 0))
    body, _ = next(asking)
    (partition,) = body.partitions
    cells = partition.cells(source)
    counts = counts_of(source.numeric[:, 0], cells, partition.cell_count(schema))
    release = "error_correct" if classes == 2 else "class_counts"
    answer = CountsAnswer(body, counts, (len(counts),), release, Fraction(epsilon))
    with pytest.raises(StopIteration) as finished:
        asking.send([answer])
    model, estimate = finished.value.value
    return model, estimate, source, cells


@pytest.mark.family(2)
@pytest.mark.parametrize("share", [0.02, 0.1, 0.17, 0.25, 0.5, 0.98])
@pytest.mark.parametrize("networks", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_cells_say_a_mean_that_the_totals_bear_out(share, networks):
    """At every prevalence: there is no gate, and no class is too common for it."""

    def counts_of(x, cells, size):
        ones = 20.0 * np.bincount(cells, norm.cdf(x + norm.ppf(share) * np.sqrt(2)), minlength=size)
        return np.round(np.column_stack([20.0 * np.bincount(cells, minlength=size) - ones, ones]))

    model, estimate, source, cells = asked(CellsStrategy(cells=12, networks=networks), 2, counts_of)
    assert isinstance(estimate.counted, Prevalence)
    assert estimate.counted.share == pytest.approx(share, abs=5 * estimate.counted.error)
    points = coordinates(model.features, source)
    elsewhere = shifted(model.unshifted(held_apart(points, cells)), model.intercept)
    mean = mean_probability(elsewhere, estimate.weights)
    assert abs(mean - estimate.counted.share) <= (TOLERATED_ERRORS + 1) * estimate.counted.error
    assert (model.probability(source) == estimate.probability).all()
    assert estimate.probability == pytest.approx(shifted(model.unshifted(points), model.intercept))


@pytest.mark.parametrize("classes", [2, 3])
def test_of_a_large_source_probabilities_are_computed_when_they_are_read(classes, monkeypatch):
    """The strategy evaluates its model at a sample; whoever reads the estimate has all records, also from a file."""
    monkeypatch.setattr("learner_node.models.source.MOST_JUDGED", 100)
    strategy = CellsStrategy(cells=6, networks=False) if classes == 2 else CellsClassesStrategy(cells=6)

    def counts_of(x, cells, size):
        return np.column_stack([20.0 * np.bincount(cells, x > cut, minlength=size) for cut in range(classes)])

    model, estimate, source, _ = asked(strategy, classes, counts_of)
    field = "probability" if classes == 2 else "probabilities"
    assert field not in vars(estimate)
    assert not hasattr(estimate, "absent")
    again = copy.deepcopy(estimate)
    written = unpack(pack(estimate, type(estimate)), type(estimate))
    for one in (estimate, again, written):
        assert (getattr(one, field) == getattr(model, field)(source)).all()
        assert one.weights.shape == (300,)
        assert one.counted == estimate.counted
    assert estimate.accuracy is not None if classes == 2 else estimate.recalls is not None


@given(shares, st.floats(1e-6, 2.0), st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_a_model_is_moved_no_farther_than_the_totals_ask(share, error, said):
    probability, mass = np.array(said), np.arange(1.0, 1.0 + len(said))
    own = mean_probability(probability, mass)
    wanted = Prevalence(share, 0.0, 1.0, error).nearest(probability, mass)
    assert 0 < wanted < 1
    assert abs(wanted - share) <= (TOLERATED_ERRORS + 1) * error * (1 + 1e-9)
    assert min(own, share) - LEAST <= wanted <= max(own, share) + LEAST
    if abs(own - share) <= TOLERATED_ERRORS * error and LEAST <= own <= 1 - LEAST:
        assert wanted == own


@pytest.mark.parametrize(("said", "borne_out"), [([0.4, 0.4], 0.25), ([0.0, 0.8], 0.25 + 0.16 / 0.24)])
def test_a_surer_model_is_moved_less(said, borne_out):
    """Both say .4 on average: one of everybody, the other of sure cases, .16 / .24 of the variance explained."""
    assert Prevalence(0.2, 0.0, 1.0, 0.1).nearest(np.array(said), np.ones(2)) == pytest.approx(0.2 + 0.1 * borne_out)


def test_each_of_several_classes_has_a_mean_that_the_totals_bear_out():
    def counts_of(x, cells, size):
        third = norm.cdf(x - 1.5)
        apart = np.column_stack([0.6 * (1 - third), 0.4 * (1 - third), third])
        return np.round(20.0 * np.column_stack([np.bincount(cells, one, minlength=size) for one in apart.T]))

    model, estimate, source, cells = asked(CellsClassesStrategy(cells=10), 3, counts_of)
    counted = np.array([each.share for each in estimate.counted])
    points = held_apart(coordinates(model.features, source), cells)
    elsewhere = rescaled(model.labels.probabilities(points), model.factors)
    means = np.average(elsewhere, axis=0, weights=estimate.weights)
    error = max(each.error for each in estimate.counted)
    assert means == pytest.approx(counted, abs=(TOLERATED_ERRORS + 1) * error * 3)  # three classes share what is over
    assert counted.sum() == pytest.approx(1.0, abs=1e-3)
    assert model.probabilities(source) == pytest.approx(estimate.probabilities)
