"""The statistic query as both sides read it: costs, refusals before any charge, grids, releases."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from expril.audit.generators.queries import GRIDS, statistic_queries_of
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.statistic import STATISTIC, PlannedStatistic, StatisticBody, StatisticLimits, StatisticRelease
from protocol.kinds.statistics.items import Estimate, Grid, Quantile, Selection
from protocol.kinds.statistics.methods import (
    METHODS,
    POLYNOMIALS,
    AggregateMean,
    AggregateMedian,
    Exponential,
    Features,
    Smooth,
    distribution,
)
from protocol.partitions import FeatureBins
from protocol.query_kind import KindTerms, Question, Turn
from protocol.rationals import Rational
from protocol.refusals import RefusalCode
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

ONE, HALF = Rational(1, 1), Rational(1, 2)
CLASSES = Schema((NumericAttribute("x", -2, 3), CategoricalAttribute("c", ("a", "b"))), "y", ("no", "yes"))
NUMBER = Schema((NumericAttribute("x", -2, 3),), "y", label_bounds=(0.0, 10.0))
GRID = Grid(0.0, 10.0, 10)
MEDIAN = Quantile("x", HALF, GRID)
MEANS = Estimate("mean", ("x",), GRID)
BINS = Selection((FeatureBins("x", (0.0,)), FeatureBins("c", ())))


@pytest.mark.parametrize(
    ("method", "cost_of_one", "cost_of_three"),
    [
        (Exponential(Rational(4, 1), 1), Fraction(1, 2), Fraction(3, 2)),
        (Exponential(Rational(36, 1), 9), Fraction(1, 2), Fraction(3, 2)),
        (Smooth(Rational(10, 1), Rational(1, 16)), Fraction(1, 2), Fraction(1, 2)),
        (Smooth(Rational(3, 1), Rational(1, 4), degrees=2), Fraction(1), Fraction(1)),
        (Smooth(Rational(3, 1), Rational(1, 4), degrees=2, version=2), *[Fraction(698_357, 10**6)] * 2),
        (AggregateMean(50, 10, Rational(20, 1)), Fraction(1, 2), Fraction(1, 2)),
        (AggregateMedian(50, Rational(4, 1)), Fraction(1, 2), Fraction(1, 2)),
        (Features(2, 3, Rational(12, 1)), Fraction(1, 2), Fraction(3, 2)),
    ],
)
def test_what_a_method_costs(method, cost_of_one, cost_of_three):
    """For units of one record and of three; blocks and smooth sensitivity have the bound in them."""
    planned = PlannedStatistic(method=method)
    assert (QUERY_KINDS.cost(planned, 1), QUERY_KINDS.cost(planned, 3)) == (cost_of_one, cost_of_three)
    assert QUERY_KINDS.cost(PlannedStatistic(method=method, statistics=5), 1) == 5 * cost_of_one
    assert decode(encode(planned), PlannedStatistic) == planned


def test_what_is_not_pure_is_no_default_and_not_private():
    assert tuple(METHODS) == StatisticLimits().methods
    assert not STATISTIC.by_default
    assert STATISTIC.private(StatisticLimits())
    with pytest.raises(ValueError, match="unknown method 'smoth'"):
        StatisticLimits(methods=("smoth",))


@pytest.mark.parametrize(
    ("planned", "code"),
    [
        (PlannedStatistic(method=Smooth(ONE, Rational(1, 10_001))), RefusalCode.BAD_PLAN),
        (PlannedStatistic(method=Smooth(ONE, Rational(11, 1))), RefusalCode.BAD_PLAN),
        (PlannedStatistic(method=Exponential(Rational(1, 2**31), 1000)), RefusalCode.BAD_PLAN),
    ],
)
def test_a_bad_plan(planned, code):
    with pytest.raises(RemoteProtocolError) as refused:
        STATISTIC.check_planned(planned)
    assert refused.value.code is code


@pytest.mark.parametrize(
    ("method", "schema", "limits", "code"),
    [
        (Features(1, 1, ONE), CLASSES, {"methods": ("smooth",)}, RefusalCode.KIND_NOT_ALLOWED),
        (Features(1, 1, ONE), NUMBER, {}, RefusalCode.BAD_PLAN),
        (AggregateMedian(11, ONE), CLASSES, {"blocks": 10}, RefusalCode.OVER_LIMIT),
        (AggregateMean(2, 10, ONE), CLASSES, {"candidates": 10}, RefusalCode.OVER_LIMIT),
    ],
)
def test_what_a_curator_does_not_allow(method, schema, limits, code):
    with pytest.raises(RemoteProtocolError) as refused:
        STATISTIC.check_allowed(PlannedStatistic(method=method), KindTerms(schema, StatisticLimits(**limits)), "plan")
    assert refused.value.code is code


def asked_of(method, *items, schema=CLASSES, **limits):
    turn = Turn(PlannedStatistic(method=method, statistics=max(len(items), 1)))
    return STATISTIC.read_body(encode(StatisticBody(items)), turn, KindTerms(schema, StatisticLimits(**limits)))


EXPONENTIAL = Exponential(ONE, 3)


@pytest.mark.parametrize(
    ("method", "items", "code"),
    [
        (EXPONENTIAL, (), RefusalCode.MALFORMED),
        (EXPONENTIAL, (MEANS,), RefusalCode.NOT_IN_PLAN),
        (Features(1, 1, ONE), (MEDIAN,), RefusalCode.NOT_IN_PLAN),
        (EXPONENTIAL, (Quantile("c", HALF, GRID),), RefusalCode.BAD_QUERY),
        (EXPONENTIAL, (Quantile("y", HALF, GRID),), RefusalCode.BAD_QUERY),
        (EXPONENTIAL, (Quantile("x", ONE, GRID),), RefusalCode.BAD_QUERY),
        (EXPONENTIAL, (Quantile("x", Rational(3, 2), GRID),), RefusalCode.BAD_QUERY),
        (EXPONENTIAL, (Quantile("x", Rational(1, 5), GRID),), RefusalCode.NOT_IN_PLAN),
        (EXPONENTIAL, (Quantile("x", HALF, Grid(1.0, 1.0, 5)),), RefusalCode.BAD_QUERY),
        (EXPONENTIAL, (Quantile("x", HALF, Grid(float("nan"), 1.0, 5)),), RefusalCode.BAD_QUERY),
        (EXPONENTIAL, (Quantile("x", HALF, Grid(0.0, float("inf"), 5)),), RefusalCode.BAD_QUERY),
        (EXPONENTIAL, (Quantile("x", HALF, Grid(0.0, 1.0, 10_001)),), RefusalCode.OVER_LIMIT),
        (AggregateMean(3, 9, ONE), (MEANS,), RefusalCode.NOT_IN_PLAN),
        (AggregateMedian(3, ONE), (Estimate("mode", ("x",), GRID),), RefusalCode.BAD_QUERY),
        (AggregateMedian(3, ONE), (Estimate("correlation", ("x",), GRID),), RefusalCode.BAD_QUERY),
        (AggregateMedian(3, ONE), (Estimate("correlation", ("x", "x"), GRID),), RefusalCode.BAD_QUERY),
        (Features(3, 1, ONE), (BINS,), RefusalCode.NOT_IN_PLAN),
        (Features(1, 1, ONE), (Selection(BINS.candidates, (1,)),), RefusalCode.BAD_QUERY),
        (Features(1, 1, ONE), (Selection(BINS.candidates, (1, 2)),), RefusalCode.NOT_IN_PLAN),
        (Features(1, 1, ONE), (Selection((FeatureBins("z", ()),)),), RefusalCode.BAD_QUERY),
    ],
)
def test_a_bad_question_is_refused_before_the_charge(method, items, code):
    with pytest.raises(RemoteProtocolError) as refused:
        asked_of(method, *items)
    assert refused.value.code is code


def test_a_logistic_coefficient_needs_two_classes_and_cells_are_limited():
    with pytest.raises(RemoteProtocolError):
        asked_of(AggregateMedian(3, ONE), Estimate("logistic_coefficient", ("x",), GRID), schema=NUMBER)
    with pytest.raises(RemoteProtocolError) as refused:
        asked_of(Features(1, 1, ONE), BINS, cells=6)
    assert refused.value.code is RefusalCode.OVER_LIMIT
    assert asked_of(Features(1, 1, ONE), BINS, cells=7).asked == (BINS,)


@given(
    st.sampled_from([CLASSES, NUMBER]).flatmap(lambda schema: st.tuples(st.just(schema), statistic_queries_of(schema)))
)
def test_lawful_queries_are_read_and_written_again(case):
    schema, (planned, body) = case
    STATISTIC.check_planned(planned)
    STATISTIC.check_allowed(planned, KindTerms(schema, StatisticLimits()), "plan")
    read = STATISTIC.read_body(body, Turn(planned), KindTerms(schema, StatisticLimits()))
    assert encode(read) == body
    assert STATISTIC.work(Question(Turn(planned), read, schema), 100) < STATISTIC.work(
        Question(Turn(planned), read, schema), None
    )
    assert QUERY_KINDS.cost(planned, 1) in (Fraction(1, 2), Fraction(1, 3), Fraction(1, 10))


@given(GRIDS, st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=5))
def test_a_number_stands_for_the_nearest_point(grid, values):
    found = grid.indices(np.array(values))
    points = np.array([grid.value(index) for index in range(grid.points)])
    nearest = np.abs(points - np.clip(values, grid.lower, grid.upper)[:, None]).min(axis=1)
    own = np.abs(points[found] - np.clip(values, grid.lower, grid.upper))
    assert own == pytest.approx(nearest, abs=1e-12)
    # One by one and all together: of that number alone.
    assert found.tolist() == [int(grid.indices(np.array([value]))[0]) for value in values]


def test_ends_so_close_that_a_quotient_has_no_float():
    assert Grid(0.0, 5e-324, 7).indices(np.array([-1e15, 0.0, 5e-324, 1e15])).tolist() == [0, 0, 7, 7]


@pytest.mark.parametrize("numbers", [[11], [-1], [0, 1], []])
def test_a_release_that_answers_nothing_is_refused(numbers):
    turn = Turn(PlannedStatistic(method=EXPONENTIAL))
    data = encode(StatisticRelease(np.array(numbers, "<i8").tobytes()))
    with pytest.raises(RemoteProtocolError):
        STATISTIC.read_release(data, Question(turn, StatisticBody((MEDIAN,)), CLASSES))


def test_chosen_candidates_are_different():
    turn = Turn(PlannedStatistic(method=Features(2, 1, ONE)))
    data = encode(StatisticRelease(np.array([1, 1], "<i8").tobytes()))
    with pytest.raises(RemoteProtocolError):
        STATISTIC.read_release(data, Question(turn, StatisticBody((BINS,)), CLASSES))


@pytest.mark.parametrize("degrees", POLYNOMIALS)
def test_the_heavy_tailed_law_is_students(degrees):
    student = stats.t(degrees)
    for z in (-30.0, -1.0, -0.1, 0.0, 0.5, 3.0, 1000.0):
        assert distribution(degrees, z) == pytest.approx(float(student.cdf(z * degrees**0.5)), abs=1e-12)
