"""Statistics as a curator tells them: estimators, blocks that no other unit moves, selections, charges and refusals."""

import math
import warnings
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from at_length import at_length
from curator_fakes import NOW, UNIT_KEY, ZeroNoise, key, ledger_over
from curator_node.answering import CuratorQuestion, Seat
from curator_node.kinds import ANSWERERS
from curator_node.kinds.statistic import class_scores
from curator_node.kinds.statistics.estimates import FINE_STEPS, RIDGE, SPLIT, Block, block_values, estimate, solve
from curator_node.mechanisms import OpenDPNoise, Stamp
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.dataset import PrivateDataset
from curator_node.records.schema_file import SchemaFile
from curator_node.site import assemble_site
from learner_node.kinds import READERS
from learner_node.study.session import Session
from protocol.codec import encode
from protocol.envelopes import LABEL
from protocol.kinds import QUERY_KINDS
from protocol.kinds.statistic import STATISTIC, PlannedStatistic, StatisticBody, StatisticLimits
from protocol.kinds.statistics.items import ESTIMATORS, Estimate, Grid, Quantile, Selection
from protocol.kinds.statistics.methods import (
    AggregateMean,
    AggregateMedian,
    Exponential,
    Features,
    Smooth,
)
from protocol.limits import Limits
from protocol.messages import Refusal
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.query_kind import KindTerms, Question, Turn
from protocol.rationals import Rational
from protocol.schema import CategoricalAttribute, NumericAttribute
from simulations.seeded_noise import SeededNoise

pytestmark = pytest.mark.filterwarnings("ignore::curator_node.records.dataset.StewardWarning")

STEWARD = SchemaFile(
    label="y",
    attributes=(NumericAttribute("x", 0, 10), NumericAttribute("z", -1, 1), CategoricalAttribute("c", ("a", "b"))),
    classes=("no", "yes"),
    unit="unit",
    most_records_per_unit=2,
)
GRID = Grid(0.0, 10.0, 100)
HALF = Rational(1, 2)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["p1", "p2", "p3", "p4", "p5", "p6"]),
        st.sampled_from([None, 0.0, 0.05, 3.0, 10.0, 99.0, math.nan]),
        st.sampled_from([None, -1.0, 0.3, 1.0]),
        st.sampled_from(["a", "b", "other", None]),
        st.sampled_from(["no", "yes"]),
    ),
    min_size=1,
    max_size=12,
)


def held(rows, steward=STEWARD):
    frame = pl.DataFrame(
        rows, schema={"unit": pl.String, "x": pl.Float64, "z": pl.Float64, "c": pl.String, "y": pl.String}, orient="row"
    )
    return PrivateDataset(frame, steward, unit_key=UNIT_KEY, cache_bytes=0)


def answered(dataset, method, *items, noise=None):
    """As its reader reads it."""
    turn = Turn(PlannedStatistic(method=method, statistics=len(items)))
    body = STATISTIC.read_body(
        encode(StatisticBody(items)), turn, KindTerms(dataset.schema, StatisticLimits(methods=(method.name,)))
    )
    seat = Seat.of(key("basel"), LABEL, bytes(32), bytes)
    question = CuratorQuestion(turn, body, dataset.schema, (), b"", Stamp("ann", 0, 1), seat)
    release = ANSWERERS["statistic"].answer(question, dataset, noise or ZeroNoise()).release
    assert len(release) <= STATISTIC.release_bytes(Question(turn, body, dataset.schema))
    return READERS["statistic"].read(release, Question(turn, body, dataset.schema))


EVERY = (
    (Exponential(Rational(1, 1), 9), Quantile("x", Rational(9, 10), GRID)),
    (Smooth(Rational(1, 1), Rational(1, 4)), Quantile("x", HALF, GRID)),
    *[
        (AggregateMean(3, 100, Rational(1, 1)), Estimate(name, ("x", "z")[: max(kind.fewest, 1)], GRID))
        for name, kind in ESTIMATORS.items()
    ],
    (AggregateMedian(4, Rational(1, 1)), Estimate("mean", ("x",), GRID)),
    (Features(2, 3, Rational(1, 1)), Selection((FeatureBins("x", (3.0,)), FeatureBins("c", ())), (1, 3))),
)


@settings(max_examples=30, deadline=None)
@given(ROWS, st.sampled_from(EVERY))
def test_no_records_make_an_answer_fail_or_warn(rows, case):
    method, item = case
    dataset = held(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = answered(dataset, method, item, item, noise=SeededNoise(1, "basel"))
    assert answer.numbers.shape == (1, 2, 2 if isinstance(item, Selection) else 1)


test_no_records_make_an_answer_fail_or_warn_at_length = at_length(test_no_records_make_an_answer_fail_or_warn, 100)


@settings(max_examples=30, deadline=None)
@given(ROWS, st.integers(1, 5), st.sampled_from(sorted(ESTIMATORS)))
def test_a_unit_changes_the_value_of_one_block_at_most(rows, count, name):
    kind = ESTIMATORS[name]
    item = Estimate(name, ("x", "z")[: max(kind.fewest, 1)], GRID)
    rest = [row for row in rows if row[0] != rows[0][0]]
    if rest:
        one, two = (
            block_values(dataset, item, dataset.blocks(count, SPLIT), count) for dataset in (held(rows), held(rest))
        )
        assert np.count_nonzero(one != two) <= 1


test_a_unit_changes_the_value_of_one_block_at_most_at_length = at_length(
    test_a_unit_changes_the_value_of_one_block_at_most, 100
)


@settings(max_examples=35, deadline=None)
@given(ROWS, st.sampled_from([(), (1, 3), (2, 2)]))
def test_a_unit_moves_all_scores_of_candidates_one_way(rows, weights):
    item = Selection((FeatureBins("x", (3.0,)), FeatureBins("z", ()), FeatureBins("c", ())), weights)
    rest = [row for row in rows if row[0] != rows[0][0]]
    method = Features(1, max(weights, default=1), Rational(1, 1))
    if rest:
        moved = class_scores(held(rows), item) - class_scores(held(rest), item)
        assert moved.min() >= 0
        assert moved.max() <= method.sensitivity(STEWARD.most_records_per_unit)


test_a_unit_moves_all_scores_of_candidates_one_way_at_length = at_length(
    test_a_unit_moves_all_scores_of_candidates_one_way, 100
)


def block_of(x, z, y):
    steps = np.column_stack([Grid(0.0, 10.0, FINE_STEPS).indices(x), Grid(-1.0, 1.0, FINE_STEPS).indices(z)])
    return Block(steps, y.astype(np.uint8), ((0.0, 10.0), (-1.0, 1.0)))


def test_estimators_are_what_they_say():
    """Against numpy and scikit-learn.

    A value is rounded to half a step of 2^-16 of its range, 0.00008 of x: that moves no estimate by a thousandth.
    """
    rng = np.random.default_rng(3)
    x = np.clip(rng.gamma(2.0, 1.0, 999), 0, 10)
    z = np.clip(0.1 * x - 0.3 + 0.2 * rng.normal(size=999), -1, 1)
    y = rng.random(999) < 1 / (1 + np.exp(1.0 - 0.8 * x))
    block = block_of(x, z, y)
    ordered = np.sort(x)
    wanted = {
        "mean": x.mean(),
        "trimmed_mean": ordered[99:-99].mean(),
        "median": ordered[499],
        "lower_quartile": ordered[249],
        "upper_quartile": ordered[749],
        "interquartile_range": ordered[749] - ordered[249],
        "variance": x.var(ddof=1),
        "standard_deviation": x.std(ddof=1),
        "correlation": np.corrcoef(x, z)[0, 1],
        "slope": np.polyfit(x, z, 1)[0],
        "linear_coefficient": np.polyfit(x, z, 1)[0],
    }
    for name, value in wanted.items():
        assert estimate(name, block) == pytest.approx(value, abs=2e-3, rel=1e-3), name
    one = block._replace(steps=block.steps[:, :1])
    said = estimate("logistic_coefficient", one)
    # The penalised likelihood has one greatest value; a slope of 1e-8 is within 1e-8 of it, as it bends by at least 1.
    points = np.column_stack([np.ones(999), one.steps[:, 0] / (FINE_STEPS / 2) - 1])
    peer = LogisticRegression(C=1 / RIDGE, fit_intercept=False, tol=1e-8).fit(points, y)
    assert said * 5 == pytest.approx(peer.coef_[0, 1], abs=1e-6)
    assert ESTIMATORS.keys() == wanted.keys() | {"logistic_coefficient"}


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_a_block_with_nothing_to_say(name):
    """None, or a number, never an error: of no record, of one, and of several that are all alike."""
    for count in (0, 1, 7):
        said = estimate(name, block_of(np.full(count, 3.0), np.full(count, 0.5), np.ones(count)))
        assert said is None or math.isfinite(said)
    assert estimate(name, block_of(np.empty(0), np.empty(0), np.empty(0))) is None


def test_linear_equations():
    assert solve([[0.0, 2.0], [4.0, 0.0]], [2.0, 4.0]) == [1.0, 1.0]
    assert solve([[1.0, 2.0], [2.0, 4.0]], [1.0, 2.0]) is None


ROWS_OF_PEOPLE = [(f"p{n}", n % 11, (-1) ** n / 2, "ab"[n % 2], ("no", "yes")[n % 2]) for n in range(440)]


def test_exact_answers_without_noise():
    dataset = held(ROWS_OF_PEOPLE)
    one = Rational(1, 1)
    quartile = Quantile("x", Rational(3, 4), GRID)
    assert answered(dataset, Exponential(one, 3), quartile).value == pytest.approx([8.0])
    assert answered(dataset, AggregateMedian(4, one), Estimate("median", ("x",), GRID)).value == pytest.approx([5.0])
    mean = answered(dataset, AggregateMean(4, 100, one), Estimate("mean", ("x",), GRID))
    assert mean.value == pytest.approx([5.0], abs=0.3)
    bins = Selection((FeatureBins("x", ()), FeatureBins("c", ()), FeatureBins("z", (0.0,))))
    assert answered(dataset, Features(2, 1, one), bins).chosen == ((1, 2),)


def test_what_is_told_of_errors():
    dataset = held(ROWS_OF_PEOPLE)
    quantile = Quantile("x", Rational(3, 4), GRID)
    (told,) = answered(dataset, Exponential(Rational(6, 1), 3), quantile).told()
    # 6 ln(101 / 0.1) / 4 records.
    assert (told.error, told.words) == (None, "at most 10.4 records from the rank asked for (95%)")
    (told,) = answered(dataset, AggregateMean(4, 100, Rational(100, 1)), Estimate("mean", ("x",), GRID)).told()
    assert told.error == pytest.approx(10 / 4 * math.log(20))
    (told,) = answered(dataset, Smooth(Rational(1, 1), Rational(1, 4)), quantile).told()
    assert told.error is None
    assert "not known" in told.words


def test_curators_are_read_beside_each_other():
    reader, dataset = READERS["statistic"], held(ROWS_OF_PEOPLE)
    bins = Selection((FeatureBins("c", ()), FeatureBins("x", ()), FeatureBins("z", (0.0,))))
    one = answered(dataset, Features(1, 1, Rational(1, 1)), bins)
    other = one.__class__(one.method, one.asked, np.array([[[2]]]))
    assert reader.pool([one, other, other]).chosen == ((2,),)
    means = [answered(dataset, AggregateMean(4, 100, Rational(1, 1)), Estimate("mean", (name,), GRID)) for name in "xx"]
    pooled = reader.pool(means)
    assert pooled.sites == 2
    assert pooled.value == pytest.approx(means[0].value)
    assert reader.complaint(pooled, None) == ""
    wrong = pooled.__class__(pooled.method, pooled.asked, np.array([[[10**6]]]))
    assert "so many blocks" in reader.complaint(wrong, None)


def curator_of(limits, cap=2):
    policy = Policy(
        name="basel",
        cap=cap,
        learners=(LearnerPolicy(name="ann", key=key("ann").public.hex(), cap=cap),),
        limits=limits,
    )
    return assemble_site(
        held(ROWS_OF_PEOPLE),
        policy,
        key=key("basel"),
        ledger=ledger_over(None, "basel"),
        clock=lambda: NOW,
        noise=OpenDPNoise(),
    ).curator


def asked(curator, planned, body):
    """A whole study: what came last."""
    session = Session(curator=key("basel").public, key=key("ann"), study=b"s" * 16, kinds=QUERY_KINDS)
    session.request_card(NOW)
    session.receive(curator.handle(session.pending))
    session.propose(Plan.of([planned]), "a test", NOW)
    reply = session.receive(curator.handle(session.pending))
    if isinstance(reply, Refusal):
        return reply
    session.query("statistic", body, NOW)
    return session.receive(curator.handle(session.pending))


def test_a_curator_charges_and_tells_a_quantile():
    planned = PlannedStatistic(method=Exponential(Rational(8, 1), 1))
    body = encode(StatisticBody((Quantile("x", HALF, GRID),)))
    release = asked(curator_of(Limits(kinds={"statistic": {}})), planned, body)
    turn = Turn(planned)
    answer = READERS["statistic"].read(
        release.body, Question(turn, StatisticBody((Quantile("x", HALF, GRID),)), held(ROWS_OF_PEOPLE).schema)
    )
    # Scores fall by 40 a point and more: beyond two points with a chance below 1e-9, at a scale of 2 records.
    assert abs(answer.value[0] - 5.0) <= 10
    assert QUERY_KINDS.cost(planned, 2) == Fraction(1, 2)


@pytest.mark.parametrize(
    ("limits", "method", "code"),
    [
        (Limits(), Exponential(Rational(8, 1), 1), "kind_not_allowed"),
        (Limits(kinds={"statistic": {}}), Exponential(Rational(1, 1), 1), "over_budget"),
    ],
)
def test_what_is_refused_is_not_charged(limits, method, code):
    reply = asked(curator_of(limits), PlannedStatistic(method=method), b"")
    assert (reply.code, reply.remaining) == (code, "2" if code == "over_budget" else reply.remaining)
