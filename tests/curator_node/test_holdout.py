"""`holdout` at a curator: exact sums, its law by enumeration, charges, what is kept between turns, and bad input."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from curator_fakes import NOW, ZeroNoise, dataset, key, message_of, open_curator, policy
from curator_node.answering import CuratorQuestion
from curator_node.kinds.holdout import Running
from curator_node.ledger.checks import check
from curator_node.ledger.store import MemoryStore
from expril.audit.generators.queries import holdout_bodies_of, planned_holdouts
from expril.audit.generators.values import hypotheses_of, records_of, schemas
from holdouts import HOLDOUT, NO, ROWS, STAMP, YES, Scripted, asked, body, planned
from learner_node.study.session import Session
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.hypotheses import Constant
from protocol.kinds import QUERY_KINDS, holdout
from protocol.kinds.holdout import HoldoutBody, HoldoutRelease
from protocol.limits import Limits
from protocol.messages import Refusal, Release
from protocol.plans import Plan
from protocol.query_kind import KindTerms, Past, Turn
from protocol.refusals import RefusalCode
from protocol.transcript import replay
from simulations.seeded_noise import SeededNoise

ALL = policy(cap=100, limits=Limits(kinds={"holdout": {}}))


def test_the_sum_is_compared_from_both_sides_with_the_planned_noise():
    data, plan = dataset(ROWS), planned()
    noise = Scripted()
    (told,) = asked(plan, [HoldoutBody(YES, 3)], data, noise)  # 10 * 12 - 3 * 40 = 0
    assert told.close
    assert noise.asked == [("threshold", [30], 10, 40), ("comparison", [0], 20, 40)]
    for estimate, distance, close in ((2, 40, False), (4, 40, False), (3, 0, True)):
        noise = Scripted(threshold=5)
        (told,) = asked(plan, [HoldoutBody(YES, estimate)], data, noise)
        assert noise.asked[1][1] == [distance]
        assert told.close is close
        if not close:
            assert noise.asked[2:] == [("counts", [28, 12], 1, 4)]
            assert told.counts == (28, 12)


def test_at_the_threshold_is_above_and_a_step_below_is_not():
    data, plan = dataset(ROWS), planned()
    for moved, close in ((10, False), (11, True)):  # |S| = 40; the threshold is 30
        (told,) = asked(plan, [HoldoutBody(YES, 2)], data, Scripted(threshold=moved))
        assert told.close is close
        (told,) = asked(plan, [HoldoutBody(YES, 2)], data, Scripted(comparison=-moved))
        assert told.close is close


def test_one_threshold_an_instance_and_new_noise_for_each_comparison():
    data, plan = dataset(ROWS), planned(turns=5, answers=2)
    noise = Scripted()
    questions = [HoldoutBody(YES, 3), HoldoutBody(YES, 3), HoldoutBody(NO, 3), HoldoutBody(NO, 7), HoldoutBody(NO, 0)]
    told = asked(plan, questions, data, noise)
    assert [one.instance for one in told] == [1, 1, 1, 2, 2]
    assert [one.close for one in told] == [True, True, False, True, False]
    names = [name for name, *_ in noise.asked]
    assert names == ["threshold", *["comparison"] * 3, "counts", "threshold", *["comparison"] * 2, "counts"]


def test_parts_of_an_answer_are_drawn_apart_where_a_seed_draws_them():
    """One draw for threshold and comparison would cancel out of every comparison."""
    plan = planned(turns=1, answers=1, threshold=0, scales=(1000, 1000, 1000))
    data = dataset(ROWS)
    above = [not asked(plan, [HoldoutBody(YES, 3)], data, SeededNoise(seed, "basel"))[0].close for seed in range(200)]
    assert 60 < sum(above) < 140  # one half: outside with a chance below 1e-8


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_unit_moves_the_sum_by_no_more_than_is_charged(draw):
    schema = draw.draw(schemas().filter(lambda one: len(one.classes) == 2))
    records = draw.draw(records_of(schema))
    labels = np.array(draw.draw(st.lists(st.integers(0, 1), min_size=len(records), max_size=len(records))), np.uint8)
    plan = draw.draw(planned_holdouts())
    question = draw.draw(holdout_bodies_of(hypotheses_of(schema), plan))
    bound = draw.draw(st.integers(1, 3))
    kept = np.ones(len(records), bool)
    kept[: min(bound, len(records))] = False

    def distance(rows):
        correct = int((question.hypothesis.predict(records.take(rows)) == labels[rows]).sum())
        return plan.resolution * correct - question.estimate * len(rows)

    moved = abs(distance(np.arange(len(records))) - distance(np.flatnonzero(kept)))
    assert moved <= plan.sensitivity(bound)
    assert plan.resolution * bound <= 2 * plan.sensitivity(bound) <= 2 * plan.resolution * bound


RANGES = {(0, None): 10, (3, 7): 7, (0, 7): 10, (7, 9): 9, (1, 2): 9, (5, 5): 5, (10, 10): 10, (4, 5): 6}
"""p_low and p_high of 10 -> how far a record moves S at most."""


@pytest.mark.parametrize(("between", "moved"), RANGES.items())
def test_the_sensitivity_is_attained_at_an_end_of_the_range(between, moved):
    plan = structs.replace(planned(), least_estimate=between[0], most_estimate=between[1])
    with_one, without = dataset(ROWS), dataset(ROWS[1:])
    seen = []
    for hypothesis, estimate in itertools.product((YES, NO), plan.estimates):
        levels = []
        for data in (with_one, without):
            noise = Scripted(threshold=-1000)
            asked(plan, [HoldoutBody(hypothesis, estimate)], data, noise)
            levels.append(noise.asked[1][1][0])
            assert noise.asked[0][2:] == (moved, 40)
            assert noise.asked[1][2:] == (2 * moved, 40)
        seen.append(abs(levels[0] - levels[1]))
    assert max(seen) == moved == plan.sensitivity(1)
    assert plan.instance_cost(1) == Fraction(3 * moved, 40) + Fraction(1, 4)


def test_an_accuracy_outside_the_planned_range_is_refused_before_any_charge():
    """It would move the sum by more than was paid for: by 9 at an accuracy of 9 / 10, where 7 are charged."""
    store = MemoryStore()
    asker = Asker(store, structs.replace(planned(), least_estimate=3, most_estimate=7))
    assert Fraction(asker.accepted.cost) == 2 * (Fraction(21, 40) + Fraction(1, 4))
    for outside in (0, 2, 8, 9, 10):
        refused = asker.ask(YES, outside)
        assert (refused.code, refused.limit) == (RefusalCode.BAD_QUERY, "3 to 7")
    assert not asker.charges()
    assert isinstance(asker.ask(YES, 3), HoldoutRelease)
    assert asker.charges() == [Fraction(21, 40) + Fraction(1, 4)]


@pytest.mark.parametrize("between", [(5, 4), (10, 0), (0, 11), (11, None)])
def test_a_range_that_is_none_is_refused(between):
    """From 10 to 0, no record would move anything, and an instance would cost nothing but its counts."""
    plan = structs.replace(planned(), least_estimate=between[0], most_estimate=between[1])
    with pytest.raises(RemoteProtocolError) as refused:
        QUERY_KINDS.query(Plan.of([plan]), 0)
    assert (refused.value.code, refused.value.limit) == (RefusalCode.BAD_PLAN, "least_estimate to 10")


class Asker:
    """A learner with one study at a curator that may be another process after a restart."""

    def __init__(self, store, plan, noise=None, rules=ALL, rows=ROWS):
        self.store, self.noise, self.rules, self.rows = store, noise or Scripted(), rules, rows
        self.restart()
        self.session = Session(curator=key("basel").public, key=key("ann"), study=b"holdout---------", lifetime=3000)
        self.session.request_card(NOW)
        self.send()
        self.session.propose(Plan.of([plan]), "", NOW)
        self.accepted = self.send()

    def restart(self):
        self.curator = open_curator(self.store, rules=self.rules, noise=self.noise, records=dataset(self.rows))

    def send(self):
        return self.session.receive(self.curator.handle(self.session.pending))

    def ask(self, hypothesis, estimate):
        self.session.query("holdout", body(hypothesis, estimate), NOW)
        reply = self.send()
        return decode(reply.body, HoldoutRelease) if isinstance(reply, Release) else reply

    def entries(self, kind):
        return [entry for entry in check(self.store).entries if entry.kind == kind]

    def charges(self):
        return [Fraction(entry.amount) for entry in self.entries("charge")]


def test_an_instance_is_charged_whole_when_it_begins_and_its_end_is_in_the_chain():
    store = MemoryStore()
    asker = Asker(store, planned(turns=7, answers=3))
    assert Fraction(asker.accepted.cost) == 3
    told = [asker.ask(YES, p) for p in (3, 3, 9, 3, 0, 3)]
    assert [one.close for one in told] == [True, True, False, True, False, True]
    assert asker.charges() == [1, 0, 0, 1, 0, 1]
    notes = [entry.note for entry in asker.entries("answered") if entry.sequence]
    assert notes == ["", "", "instance 1 of 3 ended", "", "instance 2 of 3 ended", ""]
    assert asker.session.spent == 3
    asker.session.close(NOW)
    assert Fraction(asker.send().refunded) == 0
    proof = replay(asker.session.transcript.envelopes, key("basel").public, key("ann").public)
    assert (proof.epsilon_spent, proof.unproven) == (3, "")
    assert check(store).findings == ()


def test_a_study_that_stops_early_gets_back_what_no_instance_took():
    asker = Asker(MemoryStore(), planned(turns=6, answers=5))
    asker.ask(YES, 3)
    asker.session.close(NOW)
    assert Fraction(asker.send().refunded) == 4
    assert asker.session.spent == 1


def test_a_question_after_the_last_answer_is_refused_with_what_is_left_and_nothing_is_charged():
    store = MemoryStore()
    asker = Asker(store, planned(turns=6, answers=2))
    assert [asker.ask(YES, 10).counts, asker.ask(NO, 10).counts] == [(28, 12), (12, 28)]
    before = asker.charges()
    refusal = asker.ask(YES, 3)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.final) == (RefusalCode.NOT_IN_PLAN, True)
    assert refusal.field == "plan.queries.answers"
    assert refusal.limit == "2 answers above the threshold, of which 0 are left; close the study"
    assert asker.charges() == before == [1, 1]
    assert check(store).findings == ()


def test_after_a_restart_the_instance_goes_on_with_its_noisy_threshold():
    asker = Asker(MemoryStore(), planned(), Scripted(threshold=10**6))
    assert asker.ask(YES, 3).close
    asker.noise = Scripted()  # the new process would draw a threshold of 30
    asker.restart()
    assert asker.ask(YES, 10).close
    assert [name for name, *_ in asker.noise.asked] == ["comparison"]
    assert asker.charges() == [1, 0]


def test_the_threshold_is_not_to_be_read_from_the_store():
    store = MemoryStore()
    asker = Asker(store, planned(), Scripted(threshold=123_456_789))
    asker.ask(YES, 3)
    plain = encode(Running.of(0, 1, 30 + 123_456_789))
    kept = [bytes(value) for value in store._replies.values()]
    assert kept
    assert not any(plain in value or (30 + 123_456_789).to_bytes(4, "big") in value for value in kept)


def test_a_lost_threshold_is_refused_and_never_drawn_again():
    store = MemoryStore()
    asker = Asker(store, planned())
    asker.ask(YES, 3)
    rows, replies = len(store.rows(0)), dict(store._replies)
    asker.ask(YES, 3)
    sent = asker.session.transcript.envelopes[-2]
    del store._rows[rows:]
    store._replies = replies  # the copy of before; the mark is the newest
    asker.restart()
    assert message_of(asker.curator.handle(sent)).code in (RefusalCode.STATE_GONE, RefusalCode.HALTED)
    asker.curator._ledger.resume(NOW, note="restored from the copy")
    refusal = message_of(asker.curator.handle(sent))
    assert (refusal.code, refusal.final) == (RefusalCode.STATE_GONE, True)
    assert asker.charges() == [1]


def test_what_is_kept_is_as_long_whatever_the_threshold():
    """A ledger's entries state its length, and whoever reads them must learn nothing of the threshold by it."""
    thresholds = (0, 30, 128, 70_000, 2**40, -1, -(2**63), 2**63 - 1)
    kept = [encode(Running.of(0, 1, threshold)) for threshold in thresholds]
    assert len(set(map(len, kept))) == 1
    assert [decode(one, Running).threshold for one in kept] == list(thresholds)


def test_a_state_of_another_instance_is_refused():
    turn = Turn(planned(), 0, 1)
    past = (Past(Turn(planned(), 0, 0), encode(HoldoutRelease(1, None))),)
    question = CuratorQuestion(turn, HoldoutBody(YES, 3), None, past, b"", STAMP, None)
    for state in (b"", encode(Running.of(0, 2, 30)), encode(Running.of(1, 1, 30))):
        with pytest.raises(RemoteProtocolError, match="state_gone"):
            HOLDOUT.check(replace(question, state=state))
    HOLDOUT.check(replace(question, state=encode(Running.of(0, 1, 30))))


def test_what_another_holdout_of_the_study_released_is_not_its_past():
    plan = planned(turns=1, answers=1)
    past = (Past(Turn(plan, 0, 0), encode(HoldoutRelease(1, (3, 4)))),)
    assert holdout.HOLDOUT.charge(Turn(plan, 1, 0), past, 1) == 1
    HOLDOUT.check(CuratorQuestion(Turn(plan, 1, 0), HoldoutBody(YES, 3), None, past, b"", STAMP, None))


@pytest.mark.parametrize(
    "rows", [ROWS[:1], ROWS[:12], ROWS[12:], [("p1", None, None, None, "no")], [("p1", 1e308, -1e308, "?", "yes")] * 9]
)
def test_one_record_and_one_class_answer_like_any(rows):
    """The same noise, the same answer: only its numbers differ."""
    noise = ZeroNoise()
    noise.discrete_laplace = lambda exact, l1, law, stamp: np.full_like(exact, 7)
    told = asked(planned(turns=2, answers=2), [HoldoutBody(YES, 3), HoldoutBody(NO, 0)], dataset(rows), noise)
    assert told == asked(planned(turns=2, answers=2), [HoldoutBody(YES, 3), HoldoutBody(NO, 0)], dataset(ROWS), noise)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (body(YES, 11), RefusalCode.BAD_QUERY),
        (encode({"hypothesis": Constant(1), "estimate": -1}), RefusalCode.MALFORMED),
        (encode({"hypothesis": Constant(1), "estimate": float("nan")}), RefusalCode.MALFORMED),
        (encode({"hypothesis": Constant(1), "estimate": 0.5}), RefusalCode.MALFORMED),
        (encode({"hypothesis": None, "estimate": 1}), RefusalCode.MALFORMED),
        (b"", RefusalCode.MALFORMED),
    ],
)
def test_a_stated_accuracy_outside_of_0_to_1_is_refused_and_not_charged(data, code):
    asker = Asker(MemoryStore(), planned())
    asker.session.query("holdout", data, NOW)
    refusal = asker.send()
    assert (refusal.code, refusal.final) == (code, True)
    assert asker.charges() == []


def test_more_answers_than_questions_and_other_labels_are_no_plan():
    with pytest.raises(RemoteProtocolError, match="at most the 2 turns"):
        QUERY_KINDS.cost(planned(turns=2, answers=3), 1)
    with pytest.raises(RemoteProtocolError, match="32 bits"):
        QUERY_KINDS.cost(planned(scales=(Fraction(2**32 - 1, 7), Fraction(3, 2**31), 4)), 1)
    limits = holdout.HoldoutLimits(turns=5)
    schema = dataset(ROWS).schema
    with pytest.raises(RemoteProtocolError, match="at most 5 turns"):
        holdout.HOLDOUT.check_allowed(planned(turns=6), KindTerms(schema, limits), "plan")
    for other in ({"classes": ("a", "b", "c")}, {"classes": (), "label_bounds": (0.0, 1.0)}):
        fields = {"attributes": schema.attributes, "label": "sick", **other}
        with pytest.raises(RemoteProtocolError, match="two classes"):
            holdout.HOLDOUT.check_allowed(planned(), KindTerms(type(schema)(**fields), limits), "plan")


def test_it_is_off_until_a_policy_names_it():
    asker = Asker(MemoryStore(), planned(), rules=policy(cap=100))
    assert asker.accepted.code == RefusalCode.KIND_NOT_ALLOWED
