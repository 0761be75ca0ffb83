"""A curator that answers `sample`: what is refused is not charged, records never refuse, k epsilon is charged."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from curator_fakes import (
    ATTRIBUTES,
    ROWS,
    Clock,
    dataset,
    ledger_over,
    mass_body,
    open_curator,
    opened,
    planned,
    policy,
)
from curator_fakes import Learner as FakeLearner
from curator_node.budgets import standing_of
from curator_node.kinds.sample import points_of
from curator_node.ledger.store import MemoryStore
from generators_sample import sample_queries_of
from learner_node.kinds.sample import put_together, read
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.grids import LevelAxis, NumberAxis
from protocol.kinds import QUERY_KINDS
from protocol.kinds.sample import PlannedSample, SampleBody, SampleRelease
from protocol.limits import Limits
from protocol.messages import Refusal, Release
from protocol.plans import Plan
from protocol.query_kind import Question, Turn
from protocol.rationals import Rational
from protocol.record_frames import encode_frame
from protocol.schema import Schema

AXES = (NumberAxis("age", 18, 90, 8, 50, 20), LevelAxis("sex"), LevelAxis("sick"))
LIMITS = Limits(kinds={"counts": {}, "sample": {"records": 50, "axes": 3}})
SCHEMA = Schema(ATTRIBUTES, "sick", ("no", "yes"))


def rules(**told):
    return policy(cap=2, limits=LIMITS, **told)


def sampled(records=20, epsilon=Fraction(1, 40), axes=AXES, **told):
    told = {"learner": "naive_bayes", "examples": 50, "rounds": 2, **told}
    return PlannedSample(records=records, epsilon=Rational.of(epsilon), axes=axes, **told)


def asked(curator, *queries, body=None):
    """Proposed, asked once; the study's session and the reply."""
    learner = opened(curator, plan=Plan.of(queries))
    return learner, learner.query(encode(SampleBody()) if body is None else body, kind="sample")


def answer_of(reply, query):
    assert isinstance(reply, Release), reply
    return read(reply.body, Question(Turn(query), SampleBody(), SCHEMA))


def test_a_sample_is_drawn_and_charged_whole():
    curator = open_curator(rules=rules())
    query = sampled()
    learner, reply = asked(curator, query)
    answer = answer_of(reply, query)
    assert answer.cells.shape == (20, 3)
    assert learner.session.spent == Fraction(1, 2)
    frame = answer.frame()
    assert frame.columns == ["age", "dose", "sex", "sick"]
    assert frame["dose"].null_count() == 20
    assert set(frame["age"]) <= set(np.arange(22.5, 90, 9))
    assert set(frame["sex"]) <= {"f", "m"}
    assert set(frame["sick"]) <= {"no", "yes"}
    assert len(encode_frame(frame, SCHEMA)) == 20


def test_answers_of_several_curators_are_put_together():
    query = sampled(3, axes=AXES[:1])
    answers = [answer_of(asked(open_curator(rules=rules()), query)[1], query) for _ in range(2)]
    both = put_together(answers)
    assert both.sites == 2
    assert both.cells.tolist() == [*answers[0].cells.tolist(), *answers[1].cells.tolist()]


NOTHING = [("p1", None, None, None, "no")]
BEYOND = [("p1", 1e300, 99.0, "zz", "yes"), ("p2", -1e300, None, "f", "yes")]


@pytest.mark.parametrize("rows", [NOTHING, BEYOND, ROWS, ROWS[:1] * 9], ids=["missing", "beyond", "some", "alike"])
@pytest.mark.parametrize("learner", ["naive_bayes", "network"])
def test_records_never_refuse(rows, learner):
    query = sampled(5, learner=learner, epochs=3)
    session, reply = asked(open_curator(rules=rules(), records=dataset(rows)), query)
    assert answer_of(reply, query).cells.shape == (5, 3)
    assert len(reply.body) == len(encode(SampleRelease(bytes(2 * 5 * 3))))
    assert session.session.spent == Fraction(1, 8)


def test_records_outside_the_support_count_at_its_bounds():
    """Missing ones, and those of no declared level, are left out."""
    rows = [
        ("p", age, 1.0, sex, "yes") for age, sex in [(90.0, "f"), (89.9, "m"), (18.0, "m"), (-1e9, "f"), (1e9, "f")]
    ]
    missing = [("p", None, 1.0, "f", "no"), ("p", 30.0, 1.0, None, "no"), ("p", 30.0, 1.0, "x", "no")]
    base = sampled().base_law(SCHEMA)
    cells = base.cells(points_of(dataset([*rows, *missing]), base))
    assert cells.tolist() == [[7, 0, 1], [7, 1, 1], [0, 1, 1], [0, 0, 1], [7, 0, 1]]


LAWFUL = encode(sampled())
NAN = encode(math.nan)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: data.replace(encode("records") + encode(20), encode("records") + encode(0)), "malformed"),
        (lambda data: data.replace(encode("records") + encode(20), encode("records") + encode(-1)), "malformed"),
        (lambda data: data.replace(encode(50.0), NAN), "malformed"),
        (lambda data: data.replace(encode(20.0), NAN), "malformed"),
        (lambda data: data.replace(encode(90.0), encode(math.inf)), "malformed"),
        (lambda data: data.replace(encode(90.0), encode(1.0)), "malformed"),
        (lambda data: data.replace(encode("points") + encode(8), encode("points") + encode(1)), "malformed"),
        (lambda data: data.replace(encode("naive_bayes"), encode("memory")), "malformed"),
    ],
    ids=["k = 0", "k < 0", "centre", "deviation", "infinite", "upper < lower", "one point", "learner"],
)
def test_a_plan_that_no_density_has_is_not_read(change, code):
    assert change(LAWFUL) != LAWFUL
    with pytest.raises(RemoteProtocolError) as caught:
        decode(change(LAWFUL), PlannedSample)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("query", "code", "field"),
    [
        (sampled(epsilon=Fraction(33, 2)), "bad_plan", "epsilon"),
        (sampled(epsilon=Fraction(1, 2**16 + 1)), "bad_plan", "epsilon"),
        (sampled(axes=AXES[:1] * 2), "bad_plan", "axes"),
        (sampled(axes=(LevelAxis("age"),)), "bad_plan", "axes"),
        (sampled(axes=(NumberAxis("sick", 0, 1, 2),)), "bad_plan", "axes"),
        (sampled(axes=(LevelAxis("nobody's"),)), "bad_plan", "axes"),
        (sampled(records=51, epsilon=Fraction(1, 100)), "over_limit", "records"),
        (sampled(axes=(*AXES, NumberAxis("dose", 0, 1, 2))), "over_limit", "axes"),
        (sampled(records=50, epsilon=Fraction(1, 20)), "over_budget", ""),
    ],
)
def test_what_cannot_be_answered_is_refused_before_anything_is_reserved(query, code, field):
    store = MemoryStore()
    curator = open_curator(store, rules=rules())
    reply = FakeLearner(curator).propose(Plan.of([query]))
    assert isinstance(reply, Refusal)
    assert reply.code == code
    assert field in reply.field
    assert standing_of(curator._ledger.account, curator.policy).spent == "0"


def test_a_body_that_says_anything_is_refused_and_charged_nothing():
    learner, reply = asked(open_curator(rules=rules()), sampled(), body=mass_body())
    assert isinstance(reply, Refusal)
    assert learner.session.spent == 0


def test_what_was_spent_under_integral_privacy_is_exact_until_a_count():
    """Whatever bound c a unit has: only the count's own cost grows with it."""
    store, clock = MemoryStore(), Clock()
    curator = open_curator(store, rules=rules(), clock=clock, records=dataset(most=2))
    learner = FakeLearner(curator, clock=clock)
    learner.card()
    learner.propose(Plan.of([sampled(), sampled(1), planned(30)]))

    def standing():
        told = standing_of(curator._ledger.account, curator.policy)
        return told.spent, told.integral, told.learners["ann"].integral, told.learners["bob"].integral

    assert standing() == ("0", "0", "0", "0")
    learner.query(encode(SampleBody()), kind="sample")
    assert standing() == ("1/2", "1/2", "1/2", "0")
    learner.query(encode(SampleBody()), kind="sample")
    assert standing() == ("21/40", "21/40", "21/40", "0")
    learner.query(mass_body(), kind="counts")
    assert standing() == ("71/120", "infinite", "infinite", "0")
    again = standing_of(ledger_over(store).account, curator.policy)
    assert (again.integral, again.learners["bob"].integral) == ("infinite", "0")


def test_a_kind_that_is_not_installed_is_infinite():
    store = MemoryStore()
    curator = open_curator(store, rules=rules())
    asked(curator, sampled())
    account = curator._ledger.account
    assert standing_of(account, curator.policy).integral == "1/2"
    others = type(QUERY_KINDS)(QUERY_KINDS["counts"])
    assert standing_of(account, curator.policy, others).integral == "infinite"


def test_a_release_of_another_shape_is_no_answer():
    query = sampled(2)
    for cells in (b"", bytes(11), bytes(13), bytes([8, *bytes(11)]), bytes([0, 0, 2, *bytes(9)])):
        with pytest.raises(RemoteProtocolError):
            read(encode(SampleRelease(cells)), Question(Turn(query), SampleBody(), SCHEMA))
    assert (
        read(encode(SampleRelease(bytes(12))), Question(Turn(query), SampleBody(), SCHEMA)).cells.tolist()
        == [[0] * 3] * 2
    )


@settings(max_examples=12, deadline=None)
@given(sample_queries_of(SCHEMA))
def test_every_lawful_query_is_answered_alike_whatever_the_records(asked_for):
    query, body = asked_for
    seen = []
    for rows in (NOTHING, BEYOND, ROWS):
        told = policy(cap=2, limits=Limits(kinds={"sample": {}}))
        learner = opened(open_curator(rules=told, records=dataset(rows)), plan=Plan.of([query]))
        reply = learner.query(body, kind="sample")
        assert answer_of(reply, query).cells.shape == (query.records, len(query.axes))
        seen.append((len(reply.body), learner.session.spent))
    assert seen == [(len(reply.body), query.records * query.epsilon.fraction)] * 3
