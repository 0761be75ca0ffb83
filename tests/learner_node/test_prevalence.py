"""Shares of the classes as the answers' totals tell them, and models that are moved to them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binomtest, norm, t

from learner_node.kinds.counts import CountsAnswer
from learner_node.models.source import coordinates, held_apart
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
from learner_node.strategies.base import Problem
from learner_node.strategies.cells import CellsClassesStrategy, CellsStrategy
from protocol.records import Records
from protocol.schema import NumericAttribute, Schema

shares = st.floats(1e-6, 1 - 1e-6)
totals = st.floats(-1e7, 1e7)


# --- the estimate


def drawn(share, *, records, noise, most=1, declared=None, runs=2000, seed=0):
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
    found = drawn(share, records=records, noise=noise, most=most)
    off = np.array([(each.share - share) / each.error for each in found])
    reach = t(len(off) - 1).isf(0.5e-9) * off.std(ddof=1) / np.sqrt(len(off))
    assert abs(off.mean()) <= 0.25 + reach
    held = sum(each.low <= share <= each.high for each in found)
    assert binomtest(held, len(found), 0.93, "less").pvalue > 1e-9


def test_the_implied_error_is_the_spread_of_the_estimates():
    """Within 15 %: of 2,000 runs the spread's own error is 1.6 %."""
    found = drawn(0.3, records=20_000, noise=30_000.0)
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


@given(
    probability=st.lists(shares, min_size=2, max_size=30),
    wanted=st.floats(0.001, 0.999),
    seed=st.integers(0, 100),
)
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
