"""Lawful but extreme questions: answers come without an error or a warning, and their work is not understated."""

import numpy as np
import pytest

from curator_node.kinds.samples.learning import NetworkLearner, learn_density, public_stream
from curator_node.kinds.statistics.estimates import Block, estimate
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.feature_map import FeatureMap, NumericFeature
from protocol.grids import LEAST_RANGE, BaseLaw, NumberAxis
from protocol.kinds.model import MODEL, ModelBody, PlannedModel
from protocol.kinds.models import Centres, KernelSvm, KMeans, LinearSvm, Points
from protocol.kinds.sample import PlannedSample
from protocol.kinds.statistic import STATISTIC, PlannedStatistic, StatisticBody
from protocol.kinds.statistics.items import Estimate, Grid
from protocol.kinds.statistics.methods import AggregateMean
from protocol.query_kind import Question, Turn
from protocol.rationals import Rational
from protocol.schema import NumericAttribute, Schema

SCHEMA = Schema((NumericAttribute("x", 0.0, 1.0),), "y", ("no", "yes"))
LINE = FeatureMap((NumericFeature("x", 0.0, 1.0, 0.0),))
ONE = Rational(1, 1)


@pytest.mark.parametrize("law", [(None, None), (0.0, 5e-324), (0.0, 0.0), (1e15, 1e-300)])
def test_an_axis_too_narrow_for_floats_is_no_axis(law):
    """Its deviation, or a number over it, had no float: a planned sample failed after it was charged."""
    with pytest.raises(ValueError, match=r"needs a range|deviation"):
        NumberAxis("x", 0.0, 5e-324, 2, *law)


def test_a_plan_with_such_an_axis_is_not_read():
    lawful = encode(PlannedSample(records=1, epsilon=ONE, axes=(NumberAxis("x", 0.0, 0.5, 2),)))
    assert decode(lawful, PlannedSample)
    with pytest.raises(RemoteProtocolError):
        decode(lawful.replace(encode(0.5), encode(5e-324)), PlannedSample)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("lower", [0.0, -LEAST_RANGE])
def test_the_narrowest_axis_is_drawn_by_the_farthest_bell(lower):
    axis = NumberAxis("x", lower, lower + LEAST_RANGE, 4, 1e15, LEAST_RANGE / 2**39)
    points = np.array([[np.nan], [0.0], [-1e300], [1e300]])
    for each in (axis, NumberAxis("x", lower, lower + LEAST_RANGE, 4)):
        learner = NetworkLearner(1, None)
        from_records = learn_density(points, BaseLaw.of((each,)), ONE.fraction, 1, learner=learner, examples=5)
        assert len(from_records.draw_cells(5, public_stream(b"test"))) == 5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["slope", "linear_coefficient", "logistic_coefficient", "correlation", "variance"])
@pytest.mark.parametrize("narrow", [0, 1])
def test_a_declared_range_without_steps_is_no_error(name, narrow):
    ranges = [(-1e15, 1e15), (-1e15, 1e15)]
    ranges[narrow] = (0.0, 5e-324)
    steps = np.array([[0, 5], [65536, 9], [7, 7], [100, 200], [65536, 0]], np.int64)
    found = estimate(name, Block(steps, np.array([0, 1, 1, 0, 1], np.uint8), tuple(ranges)))
    assert found is None or np.isfinite(found)


def test_runs_of_k_means_from_the_same_centres_are_work_of_their_own():
    """After the noise of the first iteration each run has centres of its own."""
    method = KMeans(points=Points(width=1, radius=100, constant=1), clusters=1000, iterations=50)
    body = Centres.of(LINE, np.zeros((1000, 1), np.int64))

    def per_record(models):
        turn, asked = Turn(PlannedModel(method=method, epsilon=ONE, models=models)), ModelBody((body,) * models)
        return MODEL.work(Question(turn, asked, SCHEMA), 2) - MODEL.work(Question(turn, asked, SCHEMA), 1)

    assert per_record(100) > 95 * per_record(1)


def test_small_blocks_of_a_regression_are_work():
    """Twelve steps of Newton's method in each of 10,000 blocks of a few records: about ten seconds."""
    grid = Grid(-1.0, 1.0, 100)
    asked = StatisticBody((Estimate("logistic_coefficient", ("x",), grid),))
    turn = Turn(PlannedStatistic(method=AggregateMean(10_000, 100, ONE)))
    assert STATISTIC.work(Question(turn, asked, SCHEMA), 30_000) > 8e10


@pytest.mark.parametrize("radius", [1, 3, 1000, 4096])
def test_a_linear_classifier_has_a_constant_of_at_most_its_radius(radius):
    """What is left to errors of floats is proven for vectors of at most about sqrt(2) units, not of thousands."""
    for constant in (0, 1, radius, min(radius + 2, 4096), 4096):
        points = Points(width=2, radius=radius, constant=constant)
        for method in (
            LinearSvm(points=points, regulariser=ONE, steps=64),
            KernelSvm(width=2, frequencies=2, seed=0, radius=radius, constant=constant, regulariser=ONE, steps=64),
        ):
            assert bool(method.complaint()) is (constant > radius)
