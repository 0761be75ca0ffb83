"""What a learner, a relay or an operator might try, against `Curator.handle`. Each test is named after the attack."""

import inspect
import logging
import math
import struct
import threading
import types
from collections import Counter
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from curator_fakes import (
    MARKS,
    NOW,
    ROWS,
    Clock,
    CountingEntropy,
    CountingNoise,
    FlakyStore,
    Learner,
    ZeroNoise,
    dataset,
    error_body,
    frame_of,
    hold,
    key,
    ledger_over,
    mass_body,
    message_of,
    numbers,
    open_curator,
    opened,
    plan_of,
    planned,
    policy,
    primes_from,
    steward_file,
)
from curator_node.admission import caps_of
from curator_node.ledger import Ledger
from curator_node.ledger.checks import load
from curator_node.ledger.store import DatabaseStore, LedgerUnavailableError, MemoryStore, sqlite_url
from curator_node.mechanisms import ExactNoise
from limits_told import limits_with
from protocol.codec import decode, encode
from protocol.envelopes import NOT_PRIVATE_LABEL, Envelope, open_envelope, open_receipt, seal, verify
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.feature_map import FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Mlp
from protocol.kinds.counts import COUNTS, CountsBody
from protocol.ledger.entries import decode_entry
from protocol.messages import (
    MESSAGE_TYPES,
    NO_DIGEST,
    NO_STUDY,
    NOBODY,
    Card,
    CardRequest,
    Query,
    Refusal,
    Release,
    StudyAccepted,
    StudyClose,
    StudyClosed,
    StudyProposal,
)
from protocol.partitions import FeatureBins, NearestCentre
from protocol.plans import Plan
from protocol.query_kind import Question, Turn
from protocol.rationals import MOST, Rational
from protocol.refusals import EXPLANATIONS, RefusalCode
from simulations.kinds import SIMULATED_ANSWERERS
from simulations.paper_ratio import SIMULATED_KINDS
from simulations.seeded_noise import SeededNoise

THIRTIETH = Fraction(1, 30)
STRANGERS = {RefusalCode.MALFORMED, RefusalCode.TOO_LARGE, RefusalCode.UNKNOWN_SENDER, RefusalCode.BAD_SIGNATURE}


def chain(curator):
    """All that the curator keeps: entries and replies."""
    store = curator._ledger.store
    return store.rows(0), {request: store.reply(request) for request in store.replied()}


def refused(curator, data, code, *, field=None, numbers_told=None):
    """Send bytes that must be refused with `code`, twice; the refusal is well formed and nothing has changed."""
    before, head = chain(curator), curator._ledger.account.head
    for _ in range(2):
        reply = curator.handle(data)
        envelope, refusal = open_envelope(reply)
        verify(envelope, curator.identity)
        assert isinstance(refusal, Refusal), refusal
        assert refusal.code == code, refusal
        assert refusal.explanation == EXPLANATIONS[code]
        if field is not None:
            assert refusal.field == field
        told = code not in STRANGERS if numbers_told is None else numbers_told
        assert (refusal.remaining != "") == told
        assert (refusal.recipient != NOBODY) == told
        assert chain(curator) == before
        assert curator._ledger.account.head == head
    return refusal


def header(curator, name="ann", **changes):
    fields = {
        "study": b"s" * 16,
        "sender": key(name).public,
        "recipient": curator.identity,
        "sequence": 0,
        "answers": NO_DIGEST,
        "expires_at": NOW + 600,
    }
    return {**fields, **changes}


def proposal(curator, plan=None, name="ann", *, receipt=b"", signer=None, **changes):
    message = StudyProposal(
        **header(curator, name, **changes), plan=plan or plan_of(30, 30), purpose="", newest_receipt=receipt
    )
    return seal(message, key(signer or name))


def query(learner, body=None, *, kind="counts", signer="ann", **changes):
    """The learner's next query, with changes; the learner itself does not move."""
    session = learner.session
    fields = {"study": session.study, "sequence": session.sequence + 1, "answers": session._last_reply, **changes}
    message = Query(**header(learner.curator, **fields), kind=kind, body=mass_body() if body is None else body)
    return seal(message, key(signer))


# envelopes


def test_bytes_that_are_no_envelope_are_refused():
    curator = open_curator()
    for data in (b"", b"\xc1", b"\x00" * 1000, b"{}", encode({}), encode([]), encode("canary"), b"\x81" * 500):
        refused(curator, data, RefusalCode.MALFORMED)


def test_envelope_cut_anywhere_or_with_a_tail_is_refused():
    curator = open_curator()
    data = proposal(curator)
    for end in range(0, len(data), 7):
        refused(curator, data[:end], RefusalCode.MALFORMED)
    refused(curator, data + b"\x00", RefusalCode.MALFORMED)


def test_envelope_with_a_flipped_bit_is_refused():
    curator = open_curator()
    data = proposal(curator)
    for position in range(0, len(data), 3):
        forged = bytearray(data)
        forged[position] ^= 1
        before = chain(curator)
        assert message_of(curator.handle(bytes(forged))).code in STRANGERS
        assert chain(curator) == before


def test_oversized_envelope_is_refused_unread():
    curator = open_curator(rules=policy(limits=limits_with(message_bytes=1000)))
    refused(curator, b"\x00" * 1001, RefusalCode.TOO_LARGE)
    refused(curator, proposal(curator, plan_of(*[300] * 100)), RefusalCode.TOO_LARGE)


def test_payload_with_a_second_encoding_is_refused():
    curator = open_curator()
    envelope, message = open_envelope(proposal(curator))
    fields = msgspec.msgpack.decode(envelope.payload)
    for other in (
        encode({**fields, "admin": True}),
        encode(dict(reversed(fields.items()))),
        envelope.payload.replace(b"\xa7version\x02", b"\xa7version\xcc\x02"),
        encode({**fields, "version": 1}),
    ):
        assert other != envelope.payload
        refused(curator, encode(msgspec.structs.replace(envelope, payload=other)), RefusalCode.MALFORMED)
    assert message.version == 2


def test_forged_signature_is_refused():
    curator = open_curator()
    refused(curator, proposal(curator, signer="bob"), RefusalCode.BAD_SIGNATURE)
    envelope, _ = open_envelope(proposal(curator))
    _, other = open_envelope(proposal(curator, plan_of(15)))
    swapped = msgspec.structs.replace(envelope, payload=encode(other))
    refused(curator, encode(swapped), RefusalCode.BAD_SIGNATURE)


def test_signature_over_another_type_or_label_is_refused():
    curator = open_curator()
    message = CardRequest(**header(curator))
    envelope = decode(seal(message, key("ann")), Envelope)
    close = msgspec.structs.replace(envelope, type="study_close")
    refused(curator, encode(close), RefusalCode.BAD_SIGNATURE)
    refused(curator, seal(message, key("ann"), label=NOT_PRIVATE_LABEL), RefusalCode.BAD_SIGNATURE)


def test_stranger_learns_no_number():
    curator = open_curator()
    for kind in (CardRequest, StudyClose):
        refused(curator, seal(kind(**header(curator, "eve")), key("eve")), RefusalCode.UNKNOWN_SENDER)
    refused(curator, proposal(curator, plan_of("1/1000"), "eve"), RefusalCode.UNKNOWN_SENDER)
    refused(curator, seal(CardRequest(**header(curator)), key("eve")), RefusalCode.BAD_SIGNATURE)


def test_message_for_another_curator_is_refused():
    curator = open_curator()
    refused(curator, proposal(curator, recipient=key("zurich").public), RefusalCode.WRONG_RECIPIENT)
    refused(curator, proposal(curator, recipient=NOBODY), RefusalCode.WRONG_RECIPIENT)


@pytest.mark.parametrize("name", [n for n in MESSAGE_TYPES if n not in ("card_request", "study_proposal", "query")])
def test_message_of_a_curator_sent_by_a_learner_is_refused(name):
    """A reply reflected to the curator, signed by a learner."""
    curator = open_curator()
    learner = opened(curator)
    common = header(curator)
    text = {"remaining": "", "scale_factor": "", "explanation": "", "field": "", "limit": "", "code": "x"}
    made = {
        "card": lambda: msgspec.structs.replace(message_of_card(learner), **common),
        "study_accepted": lambda: StudyAccepted(**common, cost="1", reserved_until=0, receipt=b""),
        "release": lambda: Release(**common, kind="counts", body=b"", receipt=b""),
        "study_closed": lambda: StudyClosed(**common, refunded="1", receipt=b""),
        "refusal": lambda: Refusal(**common, **text),
        "study_close": lambda: StudyClose(**common),
    }[name]()
    code = RefusalCode.UNKNOWN_STUDY if name == "study_close" else RefusalCode.MALFORMED
    refused(curator, seal(made, key("ann")), code, numbers_told=name == "study_close")


def message_of_card(learner):
    card = Learner(learner.curator).card()
    assert isinstance(card, Card)
    return card


def test_curator_s_own_reply_reflected_is_refused():
    curator = open_curator()
    learner = opened(curator)
    refused(curator, curator.handle(learner.session.transcript.envelopes[0]), RefusalCode.MALFORMED)


# time


def test_expired_and_far_future_messages_are_refused():
    clock = Clock()
    curator = open_curator(clock=clock, rules=policy(message_seconds=100))
    for expiry in (0, NOW - 1, NOW):
        refused(curator, proposal(curator, expires_at=expiry), RefusalCode.EXPIRED)
    for expiry in (NOW + 101, 2**40):
        refused(curator, proposal(curator, expires_at=expiry), RefusalCode.NOT_YET_VALID)
    assert message_of(curator.handle(proposal(curator, expires_at=NOW + 100))).cost == "1/15"


def test_message_held_back_until_it_expires_is_refused_but_an_answered_one_is_repeated():
    clock = Clock()
    curator = open_curator(clock=clock)
    learner = opened(curator, clock=clock)
    learner.query()
    sent, got = learner.session.transcript.envelopes[-2:]
    held_back = query(learner)
    clock.advance(601)
    refused(curator, held_back, RefusalCode.EXPIRED)
    assert curator.handle(sent) == got


# order, replay, other studies


def test_replayed_requests_are_answered_with_the_same_bytes_and_charged_once():
    noise = CountingNoise()
    curator = open_curator(noise=noise)
    learner = opened(curator)
    for act in (learner.query, learner.query, learner.close):
        act()
    envelopes = learner.session.transcript.envelopes
    before = chain(curator)
    for _ in range(3):
        for sent, got in zip(envelopes[::2], envelopes[1::2], strict=True):
            assert curator.handle(sent) == got
    assert chain(curator) == before
    assert noise.draws == 2
    assert curator._ledger.account.total_spent == 2 * THIRTIETH


def test_replay_with_another_signature_envelope_is_the_same_request():
    """What counts is sender, type and payload."""
    curator = open_curator()
    learner = opened(curator)
    learner.query()
    sent, got = learner.session.transcript.envelopes[-2:]
    message = message_of(sent)
    assert curator.handle(seal(message, key("ann"))) == got


def test_replay_to_a_restarted_curator_is_answered_with_the_same_bytes():
    store = MemoryStore()
    learner = opened(open_curator(store))
    learner.query()
    sent, got = learner.session.transcript.envelopes[-2:]
    assert open_curator(store).handle(sent) == got


def test_same_sequence_with_other_content_is_refused():
    curator = open_curator()
    learner = opened(curator)
    first = learner.session._last_reply
    learner.query()
    other = query(learner, mass_body(50.0), sequence=1, answers=first)
    refused(curator, other, RefusalCode.CHANGED_CONTENT)
    refused(curator, query(learner, mass_body(50.0), sequence=1), RefusalCode.CHANGED_CONTENT)
    refused(curator, query(learner, sequence=0), RefusalCode.CHANGED_CONTENT)


def test_query_out_of_order_is_refused():
    curator = open_curator()
    learner = opened(curator)
    refused(curator, query(learner, sequence=2), RefusalCode.OUT_OF_ORDER)
    refused(curator, query(learner, sequence=2**20), RefusalCode.OUT_OF_ORDER)
    refused(curator, query(learner, answers=NO_DIGEST), RefusalCode.OUT_OF_ORDER, field="answers")
    learner.query()
    learner.query()
    refused(curator, query(learner), RefusalCode.NOT_IN_PLAN)


def test_query_that_follows_a_release_of_another_study_is_refused():
    curator = open_curator()
    one, two = opened(curator, study=b"one"), opened(curator, study=b"two")
    one.query()
    two.query()
    refused(curator, query(one, answers=two.session._last_reply), RefusalCode.OUT_OF_ORDER, field="answers")


def test_study_of_another_learner_is_unknown_to_everybody_else():
    curator = open_curator()
    learner = opened(curator)
    study = learner.session.study
    stolen = query(learner, signer="bob", sender=key("bob").public)
    refused(curator, stolen, RefusalCode.UNKNOWN_STUDY)
    close = StudyClose(**header(curator, "bob", study=study, sequence=1))
    refused(curator, seal(close, key("bob")), RefusalCode.UNKNOWN_STUDY)
    refused(curator, proposal(curator, plan_of(15), study=study), RefusalCode.CHANGED_CONTENT)


def test_nobody_can_squat_on_the_identity_of_a_study():
    """Whoever hears an identity (a relay) and has a friend among the learners."""
    curator = open_curator()
    opened(curator, "bob", study=b"one")
    learner = opened(curator, "ann", study=b"one")
    assert isinstance(learner.query(), Release)
    assert len(curator._ledger.account.studies) == 2


def test_the_identity_of_no_study_is_nobody_s():
    """An entry that would not fit is never stored: it would have closed the ledger to everybody."""
    curator = open_curator()
    refused(curator, proposal(curator, study=NO_STUDY), RefusalCode.CHANGED_CONTENT)
    assert load(curator._ledger.store).studies == {}


def test_query_without_a_study_is_refused():
    curator = open_curator()
    learner = Learner(curator)
    refused(curator, query(learner), RefusalCode.UNKNOWN_STUDY)
    refused(curator, query(learner, study=NO_STUDY), RefusalCode.UNKNOWN_STUDY)
    refused(curator, seal(StudyClose(**header(curator, sequence=1)), key("ann")), RefusalCode.UNKNOWN_STUDY)


def test_close_twice_refunds_once_and_ends_everything():
    curator = open_curator()
    learner = opened(curator)
    learner.query()
    before_closing = learner.session._last_reply
    closed = learner.close()
    assert closed.refunded == "1/30"
    sent, got = learner.session.transcript.envelopes[-2:]
    assert curator.handle(sent) == got
    account = curator._ledger.account
    assert (account.total_spent, account.total_reserved) == (THIRTIETH, 0)
    for sequence in (1, 2, 3):
        again = StudyClose(**header(curator, study=learner.session.study, sequence=sequence))
        refused(curator, seal(again, key("ann")), RefusalCode.STUDY_CLOSED)
        late = query(learner, sequence=sequence, answers=before_closing)
        refused(curator, late, RefusalCode.STUDY_CLOSED)


def test_query_or_close_after_expiry_is_refused_and_the_rest_is_free():
    clock = Clock()
    curator = open_curator(clock=clock, rules=policy(reservation_seconds=500))
    learner = opened(curator, clock=clock)
    learner.query()
    clock.advance(499)
    late = query(learner, expires_at=NOW + 10_000_000)
    refused(curator, late, RefusalCode.NOT_YET_VALID)
    late = query(learner, expires_at=NOW + 1000)
    close = seal(
        StudyClose(**header(curator, study=learner.session.study, sequence=2, expires_at=NOW + 1000)), key("ann")
    )
    clock.advance(1)
    reply = message_of(curator.handle(late))
    assert reply.code == RefusalCode.STUDY_EXPIRED
    assert reply.remaining == "29/30"
    refused(curator, late, RefusalCode.STUDY_EXPIRED)
    refused(curator, close, RefusalCode.STUDY_EXPIRED)
    account = curator._ledger.account
    assert (account.total_spent, account.total_reserved) == (THIRTIETH, 0)


# plans and budgets


def test_plan_over_the_cap_is_refused_with_the_factor_that_makes_it_fit():
    curator = open_curator(rules=policy(cap="1/3", learner_cap="1/7"))
    refusal = refused(curator, proposal(curator, plan_of(3, "10/3", 6)), RefusalCode.OVER_BUDGET)
    assert refusal.remaining == "1/7"
    factor = Fraction(refusal.scale_factor)
    assert factor == (Fraction(1, 3) + Fraction(3, 10) + Fraction(1, 6)) * 7
    scales = [factor * scale for scale in (Fraction(3), Fraction(10, 3), Fraction(6))]
    almost = Fraction(10**6 - 1, 10**6)
    refused(curator, proposal(curator, plan_of(*(s * almost for s in scales))), RefusalCode.OVER_BUDGET)
    assert message_of(curator.handle(proposal(curator, plan_of(*scales)))).cost == "1/7"
    refusal = refused(curator, proposal(curator, study=b"t" * 16), RefusalCode.OVER_BUDGET)
    assert (refusal.remaining, refusal.scale_factor) == ("0", "")


def test_colluding_learners_meet_the_cap_over_all():
    curator = open_curator(rules=policy(cap="1/10", learner_cap="1/15"))
    ann, bob = opened(curator, "ann"), opened(curator, "bob")
    for learner in (ann, bob, ann):
        assert isinstance(learner.query(), Release)
    refusal = bob.query()
    assert (refusal.code, refusal.remaining, refusal.scale_factor) == (RefusalCode.OVER_BUDGET, "0", "")
    assert curator._ledger.account.total_spent == Fraction(1, 10)


def test_reservations_that_are_never_used_starve_nobody():
    """Reserving everything, day after day, costs nothing; it used to block all others."""
    clock = Clock()
    curator = open_curator(rules=policy(cap=1), clock=clock)
    for day in range(30):
        opened(curator, "ann", plan=plan_of(2), clock=clock, study=b"ann %d" % day)
        learner = opened(curator, "bob", plan=plan_of(60), clock=clock, study=b"bob %d" % day)
        assert isinstance(learner.query(), Release)
        clock.advance(86_400)
    refusal = message_of(curator.handle(proposal(curator, plan_of(1), expires_at=clock() + 600)))
    assert refusal.code == RefusalCode.OVER_BUDGET


def test_thirty_studies_of_a_thirtieth_and_not_one_more():
    curator = open_curator(rules=policy(open_studies=100))
    for number in range(30):
        opened(curator, plan=plan_of(30), study=bytes([number])).query()
    refused(curator, proposal(curator, plan_of(30)), RefusalCode.OVER_BUDGET)
    refused(curator, proposal(curator, plan_of(1000), name="bob"), RefusalCode.OVER_BUDGET)


def test_plan_below_the_least_cost_is_refused():
    curator = open_curator(rules=policy(least_cost="1/100"))
    refused(curator, proposal(curator, plan_of("1000/9")), RefusalCode.BELOW_LEAST_COST)
    assert isinstance(message_of(curator.handle(proposal(curator, plan_of(100)))), StudyAccepted)


def test_too_many_open_studies_are_refused_until_one_is_closed():
    curator = open_curator(rules=policy(open_studies=2))
    first = opened(curator, study=b"1")
    opened(curator, study=b"2")
    refused(curator, proposal(curator), RefusalCode.TOO_MANY_STUDIES)
    opened(curator, "bob")
    first.close()
    refused(curator, proposal(curator), RefusalCode.TOO_MANY_STUDIES)
    assert isinstance(message_of(curator.handle(proposal(curator, study=b"another identity"))), StudyAccepted)


def test_plan_with_unknown_or_forbidden_parts_is_refused():
    curator = open_curator(rules=policy(limits=limits_with(release_kinds=("mass",), partitions=5)))
    for part, code in (
        (planned(kind="sql"), RefusalCode.UNKNOWN_KIND),
        (planned(release="raw"), RefusalCode.BAD_PLAN),
        (planned(release="signed_error"), RefusalCode.KIND_NOT_ALLOWED),
        (planned(release="paper_ratio"), RefusalCode.BAD_PLAN),
        (planned(m=6, scale=1000), RefusalCode.OVER_LIMIT),
        (planned(scale=Fraction(1, MOST), m=5), RefusalCode.BAD_PLAN),
        ({"kind": "counts"}, RefusalCode.MALFORMED),
        ({**msgspec.to_builtins(planned()), "turns": 2}, RefusalCode.MALFORMED),
    ):
        refused(curator, proposal(curator, Plan.of((planned(), part))), code, numbers_told=True)
    limited = open_curator(rules=policy(limits=limits_with(query_kinds=())))
    refused(limited, proposal(limited), RefusalCode.KIND_NOT_ALLOWED)


def test_plan_whose_partial_sums_outgrow_every_message_is_refused():
    """Pairs 1/pq + (p-1)/pq add up to 1/q, but half-way the sum needs a denominator of thousands of digits."""
    curator = open_curator(rules=policy(least_cost="1/100000"))
    q = 2**15
    primes = primes_from(2**16, 480)
    scales = [Fraction(p * q) for p in primes] + [Fraction(p * q, p - 1) for p in primes]
    plan = plan_of(*scales)
    assert sum(1 / scale for scale in scales) == Fraction(480, q)
    refused(curator, proposal(curator, plan), RefusalCode.BAD_PLAN, field="plan")


@pytest.mark.slow
def test_totals_that_outgrow_every_message_stop_nobody():
    """Hundreds of closed studies with coprime costs: exact in the ledger, rounded against the learner on the wire."""
    store = MemoryStore()
    rules = policy(learner_cap="1/2", least_cost=f"1/{MOST}", least_query_cost=f"1/{MOST}")
    curator = open_curator(store, rules=rules)
    exact = Fraction(0)
    for number, prime in enumerate(primes_from(2**31, 480)):
        learner = opened(curator, plan=plan_of(prime), study=number.to_bytes(2, "big"))
        assert isinstance(learner.query(), Release)
        assert isinstance(learner.close(), StudyClosed)
        exact += Fraction(1, prime)
    with pytest.raises(ValueError, match="digits"):
        str(exact)
    assert curator._ledger.account.total_spent == exact
    receipt = open_receipt(learner.session.newest_receipt, curator.identity)
    assert exact <= Fraction(receipt.spent_by_learner) <= exact + Fraction(1, 2**64)
    for name in ("ann", "bob"):
        refusal = refused(curator, proposal(curator, plan_of("1/2"), name), RefusalCode.OVER_BUDGET)
        left = curator._ledger.remaining(key(name).public, caps_of(curator.policy, key(name).public))
        assert left - Fraction(1, 2**64) <= Fraction(refusal.remaining) <= left
        assert 2 / Fraction(refusal.scale_factor) <= left
    assert load(store).total_spent == exact


# queries


def names(*layers):
    return FeatureMap(features=(NumericFeature(attribute="age", offset=0.0, factor=0.01, imputation=0.0),))


def mlp(weight, bias):
    return Mlp.of(names(), [(np.array(weight, np.float32), np.array(bias, np.float32))])


def raw_safetensors(head, data=b""):
    text = msgspec.json.encode(head)
    return struct.pack("<Q", len(text)) + text + data


F8 = b"\x00" * 8
GOOD = {
    "0.weight": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]},
    "0.bias": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
}
BAD_WEIGHTS = {
    "NaN": mlp([[math.nan]], [0]),
    "infinite": mlp([[1]], [math.inf]),
    "huge": mlp([[64.1]], [0]),
    "minus huge": mlp([[-1e30]], [0]),
    "two logits": mlp([[1], [1]], [0, 0]),
    "no logit": mlp(np.empty((0, 1)), []),
    "wrong width": mlp([[1, 1]], [0]),
    "flat": mlp([1], [0]),
    "layers that do not fit": Mlp.of(names(), [(np.ones((3, 1)), np.ones(3)), (np.ones((1, 2)), np.ones(1))]),
    "an empty layer": Mlp.of(names(), [(np.ones((0, 1)), np.ones(0)), (np.ones((1, 0)), np.ones(1))]),
    "seventeen layers": Mlp.of(names(), [(np.ones((1, 1)), np.ones(1))] * 17),
    "no file": Mlp(features=names(), weights=b"x"),
    "a pickle": Mlp(features=names(), weights=b"cos\nsystem\n(S'true'\ntR."),
    "no tensors": Mlp(features=names(), weights=raw_safetensors({})),
    "a long header": Mlp(features=names(), weights=struct.pack("<Q", 2**60) + b"{}"),
    "other names": Mlp(features=names(), weights=raw_safetensors({"w": GOOD["0.weight"]}, b"\x00" * 4)),
    "doubles": Mlp(
        features=names(), weights=raw_safetensors({**GOOD, "0.bias": {**GOOD["0.bias"], "dtype": "I32"}}, F8)
    ),
    "overlapping": Mlp(
        features=names(), weights=raw_safetensors({**GOOD, "0.bias": {**GOOD["0.bias"], "data_offsets": [0, 4]}}, F8)
    ),
    "a false shape": Mlp(
        features=names(), weights=raw_safetensors({**GOOD, "0.bias": {**GOOD["0.bias"], "shape": [2**62]}}, F8)
    ),
    "an overflowing shape": Mlp(
        features=names(),
        weights=raw_safetensors({**GOOD, "0.weight": {**GOOD["0.weight"], "shape": [2**62, 4, 2**62]}}, F8),
    ),
    "an unknown attribute": Mlp(
        features=FeatureMap(features=(NumericFeature(attribute="name", offset=0.0, factor=1.0, imputation=0.0),)),
        weights=mlp([[1]], [0]).weights,
    ),
    "an infinite factor": Mlp(
        features=FeatureMap(features=(NumericFeature(attribute="age", offset=0.0, factor=math.inf, imputation=0.0),)),
        weights=mlp([[1]], [0]).weights,
    ),
}


@pytest.mark.parametrize("bad", BAD_WEIGHTS)
def test_hostile_hypothesis_is_refused_before_anything_is_charged(bad):
    curator = open_curator()
    learner = opened(curator, plan=plan_of(30, release="signed_error"))
    refused(curator, query(learner, error_body(BAD_WEIGHTS[bad])), RefusalCode.BAD_QUERY)
    assert isinstance(learner.query(error_body(mlp([[1]], [0]))), Release)


def bins(*edges, attribute="age"):
    return encode(CountsBody(partitions=(FeatureBins(attribute=attribute, edges=edges),), hypothesis=None))


def centres(data, features=None):
    return encode(CountsBody(partitions=(NearestCentre(features=features or names(), centres=data),), hypothesis=None))


BAD_BODIES = {
    "unsorted edges": (bins(2.0, 1.0), RefusalCode.BAD_QUERY),
    "duplicate edges": (bins(1.0, 1.0), RefusalCode.BAD_QUERY),
    "infinite edge": (bins(1.0, math.inf), RefusalCode.BAD_QUERY),
    "NaN edge": (bins(math.nan), RefusalCode.BAD_QUERY),
    "both zeros": (bins(-0.0, 0.0), RefusalCode.BAD_QUERY),
    "edges of a category": (bins(1.0, attribute="sex"), RefusalCode.BAD_QUERY),
    "the label": (bins(attribute="sick"), RefusalCode.BAD_QUERY),
    "the unit": (bins(attribute="patient"), RefusalCode.BAD_QUERY),
    "a million cells": (centres(np.arange(10**6, dtype="<i4").tobytes()), RefusalCode.OVER_LIMIT),
    "a million cells in bounds": (centres(bytes(4 * 10**6)), RefusalCode.OVER_LIMIT),
    "a hundred thousand edges": (bins(*map(float, range(99_999))), RefusalCode.OVER_LIMIT),
    "more edges than any message": (bins(*map(float, range(100_001))), RefusalCode.MALFORMED),
    "half a centre": (centres(bytes(5)), RefusalCode.BAD_QUERY),
    "a far centre": (centres((2**31 - 1).to_bytes(4, "little")), RefusalCode.BAD_QUERY),
    "the farthest centre": (centres(b"\x00\x00\x00\x80"), RefusalCode.BAD_QUERY),
    "a hypothesis with masses": (error_body(), RefusalCode.BAD_QUERY),
    "two partitions": (mass_body(m=2), RefusalCode.NOT_IN_PLAN),
    "no partition": (encode({"partitions": [], "hypothesis": None}), RefusalCode.MALFORMED),
    "nothing": (b"", RefusalCode.MALFORMED),
    "code": (b"import os", RefusalCode.MALFORMED),
    "an integer edge": (
        encode({"partitions": [{"type": "feature_bins", "attribute": "age", "edges": [1]}], "hypothesis": None}),
        RefusalCode.MALFORMED,
    ),
    "an unknown partition": (
        encode({"partitions": [{"type": "lambda", "attribute": "age", "edges": []}], "hypothesis": None}),
        RefusalCode.MALFORMED,
    ),
}


@pytest.mark.parametrize("bad", BAD_BODIES)
def test_hostile_workload_is_refused_before_anything_is_charged(bad):
    curator = open_curator()
    learner = opened(curator, plan=plan_of(30))
    body, code = BAD_BODIES[bad]
    refused(curator, query(learner, body), code, numbers_told=True)
    assert isinstance(learner.query(), Release)


def test_unknown_and_unplanned_kinds_are_refused():
    curator = open_curator()
    learner = opened(curator)
    refused(curator, query(learner, kind="pickle"), RefusalCode.UNKNOWN_KIND)
    refused(curator, query(learner, error_body()), RefusalCode.BAD_QUERY)


def test_query_that_is_too_much_work_is_refused():
    rules = policy(limits=limits_with(multiply_adds=1000, parameters=10))
    curator = open_curator(rules=rules)
    learner = opened(curator, plan=plan_of(30, release="signed_error"))
    wide = mlp([[1]], [0])
    refused(curator, query(learner, error_body(wide)), RefusalCode.OVER_LIMIT, field="body.hypothesis")
    curator = open_curator(rules=policy(limits=limits_with(multiply_adds=1000)))
    learner = opened(curator, plan=plan_of(30, release="signed_error"))
    refused(curator, query(learner, error_body(wide)), RefusalCode.OVER_LIMIT, field="body")


def test_work_is_bounded_by_the_declared_size_and_never_by_the_true_one():
    """The same query is refused or served whatever the number of records."""
    few = CountsBody((FeatureBins("age", (30.0,)),), None)
    declared = dataset().steward
    rules = policy(
        limits=limits_with(
            multiply_adds=COUNTS.work(Question(Turn(planned(30)), few, declared.schema), declared.round_size)
        )
    )
    many = [(f"p{n}", 1.0, 1.0, "f", "no") for n in range(500)] + [ROWS[1]]
    for records in (dataset(), dataset(many)):
        learner = opened(open_curator(rules=rules, records=records))
        assert isinstance(learner.query(mass_body(30.0)), Release)
        refused(learner.curator, query(learner, mass_body(*map(float, range(1, 9)))), RefusalCode.OVER_LIMIT)


# crashes and races


def test_crash_between_charge_and_answer_draws_once_and_charges_once():
    """The charge is durable, the answer was never stored: the repeat draws once and is not charged again."""
    store, noise = FlakyStore(), CountingNoise()
    learner = opened(open_curator(store, noise=noise))
    store.failures = ["", "before"]
    assert learner.query().code == RefusalCode.UNAVAILABLE
    assert noise.draws == 1
    noise = CountingNoise()
    curator = learner.curator = open_curator(store, noise=noise)
    other = query(learner, mass_body(50.0), sequence=1, answers=learner.session._last_reply)
    refused(curator, other, RefusalCode.CHANGED_CONTENT)
    following = query(learner, sequence=2)
    refused(curator, following, RefusalCode.OUT_OF_ORDER, field="answers")
    sent = learner.session.pending
    released = learner.ask()
    assert isinstance(released, Release)
    assert open_receipt(released.receipt, curator.identity).charged == "1/30"
    assert noise.draws == 1
    assert curator._ledger.account.total_spent == THIRTIETH
    assert curator.handle(sent) == learner.session.transcript.envelopes[-1]
    assert noise.draws == 1


def test_crash_between_charge_and_answer_survives_halt_and_expiry():
    clock, store = Clock(), FlakyStore()
    curator = open_curator(store, clock=clock, rules=policy(reservation_seconds=100))
    learner = opened(curator, clock=clock)
    store.failures = ["", "before"]
    learner.query()
    curator._ledger.halt(clock(), "stop")
    clock.advance(200)
    assert isinstance(learner.ask(), Release)
    assert curator._ledger.account.total_spent == THIRTIETH


def test_two_processes_racing_the_same_request_send_the_same_bytes(tmp_path):
    stores = [DatabaseStore(sqlite_url(tmp_path / "ledger"), create=first) for first in (True, False)]
    noises = [CountingNoise(), CountingNoise()]
    curators = [open_curator(store, noise=noise) for store, noise in zip(stores, noises, strict=True)]
    ledger_over(stores[0]).resume(NOW, note="the second process is new, so it has no mark")
    learner = Learner(curators[0])
    for step in range(8):
        act = learner.session.propose, learner.session.query, learner.session.close
        if step == 0:
            sent = act[0](plan_of(*[30] * 6), "", NOW)
        elif step < 7:
            sent = act[1]("counts", mass_body(float(step)), NOW)
        else:
            sent = act[2](NOW)
        barrier = threading.Barrier(2)
        replies = [b"", b""]

        def race(which, sent=sent, barrier=barrier, replies=replies):
            barrier.wait()
            replies[which] = curators[which].handle(sent)

        threads = [threading.Thread(target=race, args=(which,)) for which in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert replies[0] == replies[1]
        assert not isinstance(learner.session.receive(replies[0]), Refusal)
    kinds = Counter(decode_entry(row.body).kind for row in stores[0].rows(0))
    assert (kinds["reserve"], kinds["charge"], kinds["close"], kinds["answered"]) == (1, 6, 1, 8)
    assert load(stores[1]).total_spent == 6 * THIRTIETH
    for store in stores:
        store.close()


def test_process_that_slept_sees_what_the_other_did(tmp_path):
    """Two curators share a ledger; every request goes to the one that did not serve the last."""
    stores = [DatabaseStore(sqlite_url(tmp_path / "ledger"), create=first) for first in (True, False)]
    curators = [open_curator(store) for store in stores]
    ledger_over(stores[0]).resume(NOW, note="the second process is new, so it has no mark")
    learner = Learner(curators[0])
    learner.propose(plan_of(30, 30, 30))
    for step in range(3):
        learner.curator = curators[(step + 1) % 2]
        assert isinstance(learner.query(), Release)
    learner.curator = curators[0]
    assert isinstance(learner.close(), StudyClosed)
    for switch in (Ledger.halt, Ledger.resume):
        switch(ledger_over(stores[0]), NOW, note="by the steward's own command")
        for number, curator in enumerate(curators, 1):
            reply = message_of(curator.handle(proposal(curator, study=bytes([number]) * 16)))
            assert (switch is Ledger.halt) == isinstance(reply, Refusal)
    for store in stores:
        store.close()


def test_halted_curator_refuses_but_closes_and_repeats():
    curator = open_curator()
    learner = opened(curator)
    learner.query()
    sent, got = learner.session.transcript.envelopes[-2:]
    curator._ledger.halt(NOW, "stop")
    refused(curator, query(learner), RefusalCode.HALTED)
    refused(curator, proposal(curator), RefusalCode.HALTED)
    assert curator.handle(sent) == got
    assert isinstance(Learner(curator).card(), Card)
    assert isinstance(learner.close(), StudyClosed)
    curator._ledger.resume(NOW)
    assert isinstance(message_of(curator.handle(proposal(curator))), StudyAccepted)


def test_a_learner_cannot_make_the_ledger_grow_for_ever():
    curator = open_curator(rules=policy(studies=3))
    for number in range(3):
        assert isinstance(opened(curator, study=bytes([65 + number]) * 16).close(), StudyClosed)
    refused(curator, proposal(curator), RefusalCode.TOO_MANY_STUDIES)
    assert isinstance(opened(curator, name="bob").close(), StudyClosed), "the limit is each learner's own"


def test_unit_bound_raised_under_an_open_study_corrupts_nothing():
    store = MemoryStore()
    learner = opened(open_curator(store, records=dataset(most=1, unit=True)))
    curator = learner.curator = open_curator(store, records=dataset(most=3))
    refused(curator, query(learner), RefusalCode.TERMS_CHANGED)
    assert load(store).total_spent == 0
    assert isinstance(learner.close(), StudyClosed)


def test_an_answer_charged_before_a_crash_is_not_sold_under_a_raised_unit_bound():
    store = FlakyStore()
    learner = opened(open_curator(store, records=dataset(most=1, unit=True)))
    store.failures = ["", "before"]
    assert learner.query().code == RefusalCode.UNAVAILABLE
    assert load(store).total_spent == THIRTIETH
    learner.curator = open_curator(store, records=dataset(most=3))
    refusal = learner.ask()
    assert (refusal.code, refusal.rules_out) == (RefusalCode.ANSWER_GONE, False), "the charge is not denied"
    assert isinstance(learner.close(), StudyClosed)


def test_a_lowered_cap_binds_studies_that_are_open():
    store = MemoryStore()
    learner = opened(open_curator(store), plan=plan_of(2, 2))
    learner.curator = open_curator(store, rules=policy(cap="1/4"))
    refusal = learner.query()
    assert (refusal.code, refusal.remaining) == (RefusalCode.OVER_BUDGET, "0")
    assert load(store).total_spent == 0


def test_a_withdrawn_release_kind_binds_studies_that_are_open():
    store = MemoryStore()
    learner = opened(open_curator(store))
    learner.curator = open_curator(store, rules=policy(limits=limits_with(release_kinds=("signed_error",))))
    assert learner.query().code == RefusalCode.KIND_NOT_ALLOWED
    assert load(store).total_spent == 0


def test_a_ledger_is_not_carried_over_to_other_terms():
    store = MemoryStore()
    opened(open_curator(store))
    with pytest.raises(ConfigurationError, match="other terms"):
        open_curator(store, records=dataset(most=2))
    printed = limits_with(release_kinds=("mass", "paper_ratio"))
    with pytest.raises(ConfigurationError, match="other terms"):
        open_curator(store, rules=policy(simulation=True, limits=printed), answerers=SIMULATED_ANSWERERS)
    before = store.rows(0)
    open_curator(store)
    added = [decode_entry(row.body).kind for row in store.rows(0)[len(before) :]]
    assert added == ["start"], "the same terms go on"


def test_a_unit_column_called_record_is_not_the_record():
    store = MemoryStore()
    open_curator(store)
    frame = frame_of(ROWS).rename({"patient": "record"})
    steward = msgspec.structs.replace(steward_file(), unit="record", most_records_per_unit=3)
    records = hold(frame, steward)
    with pytest.raises(ConfigurationError, match="other terms"):
        open_curator(store, records=records)
    assert Learner(open_curator(records=records)).card().unit == "record"
    assert Learner(open_curator()).card().unit is None


def test_crumbs_of_queries_are_refused():
    curator = open_curator()
    refused(curator, proposal(curator, plan_of(*[20_000] * 100)), RefusalCode.BELOW_LEAST_COST)


def test_the_stewards_hear_the_purpose():
    curator = open_curator()
    learner = Learner(curator)
    learner.card()
    learner.session.propose(plan_of(30), "who falls ill?", NOW)
    learner.ask()
    entries = [decode_entry(row.body) for row in curator._ledger.store.rows(0)]
    assert [entry.note for entry in entries if entry.kind == "reserve"] == ["who falls ill?"]


# rolled-back ledgers


def rolled_back(*, mark=True):
    """A curator whose ledger lost the second of ann's two charges, ann's session, and its receipts from old to new.

    With `mark` its mark was put back with the ledger, so that only receipts can tell.
    """
    store = MemoryStore()
    learner = opened(open_curator(store), study=b"1", plan=plan_of(30, 30, 30))
    receipts = [learner.session.newest_receipt]
    learner.query()
    receipts.append(learner.session.newest_receipt)
    kept = list(store._rows), dict(store._replies), MARKS[store].read()
    learner.curator = open_curator(store)
    for _ in range(2):
        learner.query()
        receipts.append(learner.session.newest_receipt)
    store._rows, store._replies = kept[:2]
    if mark:
        MARKS[store].write(kept[2])
    return open_curator(store), learner, receipts


def test_rolled_back_ledger_is_found_by_the_curator_s_own_mark():
    curator, _, _ = rolled_back(mark=False)
    refused(curator, proposal(curator, name="bob"), RefusalCode.HALTED)
    found = curator._ledger.resume(NOW, note="the backup of Monday")
    assert [item.total for item in found] == [2 * THIRTIETH]
    assert curator._ledger.account.total_spent == 3 * THIRTIETH
    assert isinstance(message_of(curator.handle(proposal(curator, name="bob"))), StudyAccepted)


def test_rolled_back_ledger_is_detected_from_a_receipt_and_halts_until_resume():
    curator, _, receipts = rolled_back()
    store = curator._ledger.store
    assert curator._ledger.account.total_spent == THIRTIETH
    lost = proposal(curator, study=b"f" * 16, receipt=receipts[2])
    assert message_of(curator.handle(lost)).code == RefusalCode.LEDGER_ROLLED_BACK
    refused(curator, lost, RefusalCode.LEDGER_ROLLED_BACK)
    forgotten = proposal(curator, study=b"g" * 16)
    refused(curator, forgotten, RefusalCode.HALTED)
    refused(curator, proposal(curator, name="bob"), RefusalCode.HALTED)
    curator = open_curator(store)
    refused(curator, forgotten, RefusalCode.HALTED)
    last = decode_entry(store.rows(0)[-2].body)
    assert (last.kind, key("ann").public.hex() in last.note) == ("halt", True)
    curator._ledger.resume(NOW, note="from ann's receipt")
    assert curator._ledger.account.spent[key("ann").public] == 2 * THIRTIETH
    assert isinstance(message_of(curator.handle(lost)), StudyAccepted), "it waited for the steward; the same bytes do"


def test_an_old_receipt_halts_once_at_most_and_adds_nothing():
    """The newest proves what the branch spent. No mark knows that, so each older one is entered once, and adds nothing.

    Were it not entered, a second answer to its request would not be found out.
    """
    curator, learner, receipts = rolled_back()
    lost = proposal(curator, study=b"f" * 16, receipt=receipts[3])
    assert message_of(curator.handle(lost)).code == RefusalCode.LEDGER_ROLLED_BACK
    curator._ledger.resume(NOW, note="from ann's newest receipt")
    assert curator._ledger.account.total_spent == 3 * THIRTIETH
    for number, receipt in enumerate(receipts, 1):
        shown = proposal(curator, plan_of(10**6), study=bytes([100 + number]) * 16, receipt=receipt)
        curator.handle(shown)
        if curator._ledger.account.halted:
            assert [item.total for item in curator._ledger.resume(NOW, note="an older one")] == [0]
        again = proposal(curator, plan_of(1000), study=bytes([number]) * 16, receipt=receipt)
        assert isinstance(message_of(curator.handle(again)), StudyAccepted), number
        closing = StudyClose(**header(curator, study=bytes([number]) * 16, sequence=1))
        curator.handle(seal(closing, key("ann")))
    assert not curator._ledger.account.halted
    assert isinstance(learner.ask() if learner.session.pending else learner.card(), Card)


def test_a_newer_receipt_of_a_lost_branch_halts_once_more_and_adds_only_what_is_new():
    curator, _, receipts = rolled_back()
    for number, (receipt, total) in enumerate(((receipts[2], 2), (receipts[3], 3)), 1):
        lost = proposal(curator, study=bytes([number]) * 16, receipt=receipt)
        assert message_of(curator.handle(lost)).code == RefusalCode.LEDGER_ROLLED_BACK
        curator._ledger.resume(NOW, note="from ann's receipt")
        assert curator._ledger.account.total_spent == total * THIRTIETH
        assert curator._ledger.account.spent[key("ann").public] == total * THIRTIETH


def test_ledger_rolled_back_under_a_running_curator_is_not_continued():
    store = MemoryStore()
    curator = open_curator(store)
    learner = opened(curator)
    saved = list(store._rows)
    learner.query()
    store._rows = list(saved)
    assert message_of(curator.handle(proposal(curator, name="bob"))).code == RefusalCode.HALTED
    assert [decode_entry(row.body).kind for row in store._rows[len(saved) :]] == ["start", "halt"]
    curator._ledger.resume(NOW, note="a test")
    assert curator._ledger.account.total_spent == THIRTIETH


def test_forged_or_foreign_receipt_halts_nobody():
    curator = open_curator()
    learner = opened(curator)
    elsewhere = opened(open_curator(name="zurich"))
    seeded = opened_seeded()
    own = learner.session.newest_receipt
    for receipt, code in (
        (b"x", RefusalCode.MALFORMED),
        (own[:-1], RefusalCode.MALFORMED),
        (own[:-1] + bytes([own[-1] ^ 1]), RefusalCode.BAD_SIGNATURE),
        (elsewhere.session.newest_receipt, RefusalCode.BAD_SIGNATURE),
        (seeded, RefusalCode.BAD_SIGNATURE),
        (learner.session.transcript.envelopes[-1], RefusalCode.MALFORMED),
    ):
        data = proposal(curator, receipt=receipt)
        refused(curator, data, code, field="newest_receipt", numbers_told=True)
    assert not curator._ledger.account.halted
    theirs = proposal(curator, name="bob", receipt=own)
    assert isinstance(message_of(curator.handle(theirs)), StudyAccepted)


def opened_seeded():
    """A receipt of the same key, signed over seeded noise."""
    curator = open_curator(rules=policy(simulation=True), noise=SeededNoise(1, "basel"))
    learner = Learner(curator, allow_not_private=True)
    assert isinstance(learner.propose(), StudyAccepted)
    return learner.session.newest_receipt


def test_seeded_release_never_verifies_as_production():
    curator = open_curator(rules=policy(simulation=True), noise=SeededNoise(1, "basel"))
    learner = Learner(curator)
    learner.session.propose(plan_of(30), "", NOW)
    with pytest.raises(RemoteProtocolError, match="bad_signature"):
        learner.ask()


# what is released


def test_paper_ratio_is_unknown_to_a_curator_and_served_within_a_simulation():
    plan = plan_of(30, release="paper_ratio")
    rules = policy(simulation=True, limits=limits_with(release_kinds=("paper_ratio", "mass")))
    for own in (rules, msgspec.structs.replace(rules, simulation=False)):
        with pytest.raises(ConfigurationError, match="unknown release kind 'paper_ratio'"):
            open_curator(rules=own)
    for simulation in (False, True):
        outside = open_curator(rules=policy(simulation=simulation))
        refused(outside, proposal(outside, plan), RefusalCode.BAD_PLAN)
    with pytest.raises(ConfigurationError, match="not private"):
        open_curator(rules=msgspec.structs.replace(rules, simulation=False), answerers=SIMULATED_ANSWERERS)
    printed = open_curator(rules=rules, answerers=SIMULATED_ANSWERERS)
    wary = Learner(printed, kinds=SIMULATED_KINDS)
    with pytest.raises(RemoteProtocolError, match="label"):
        wary.propose(plan)
    assert printed.label == NOT_PRIVATE_LABEL, "a wrong claim is never signed as if it were a right one"
    learner = opened(printed, plan=plan, name="ann", study=b"another", allow_not_private=True, kinds=SIMULATED_KINDS)
    assert isinstance(learner.query(error_body()), Release)


def test_released_counts_carry_noise_and_the_receipt_says_what_they_cost():
    learner = opened(open_curator(), plan=plan_of(30))
    released = learner.query()
    assert len(numbers(released)) == 4
    receipt = open_receipt(released.receipt, learner.curator.identity)
    assert (receipt.charged, receipt.spent_by_study, receipt.spent_by_learner) == ("1/30", "1/30", "1/30")
    exact = opened(open_curator(noise=ZeroNoise()), plan=plan_of(30)).query()
    assert numbers(exact) == [1, 1, 2, 1]


CANARY = "canary-7f3a"
NUMBER_CANARY = 98.76543210123


class Bomb:
    """Fails with the canary in its text, whatever is asked of it."""

    seeded = False

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._explode

    def _explode(self, *args, **kwargs):
        raise ValueError(CANARY, NUMBER_CANARY)


class BombStore(FlakyStore):
    """Fails with the canary at the n-th operation."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def __getattribute__(self, name):
        if name in ("rows", "append", "reply", "remember", "refusal", "refusals"):
            self.at -= 1
            if self.at == 0:
                raise LedgerUnavailableError(CANARY) if name == "append" else OSError(CANARY)
        return super().__getattribute__(name)


def canary_dataset():
    """Records whose every value would be known again: text in a category, the unit, and a number."""
    rows = [(CANARY, NUMBER_CANARY, 0.123, CANARY, "no"), *ROWS]
    return dataset(rows, unit=True)


def every_message(curator):
    """Replies to every kind of message and many failures."""
    learner = Learner(curator)
    session = learner.session
    replies = [curator.handle(data) for data in (b"", b"\xc1", b"\x00" * 10)]

    def send(data):
        reply = curator.handle(data)
        replies.append(reply)
        session.receive(reply)

    send(session.request_card(NOW))
    send(session.propose(plan_of(30, 30, release="error_correct"), "", NOW))
    if session.accepted is not None and not session.pending:
        send(session.query("counts", error_body(mlp([[1]], [0])), NOW))
        if not session.pending:
            send(session.query("counts", error_body(Constant(predicted=0)), NOW))
        if not session.pending:
            send(session.close(NOW))
    failures = (
        query(learner, b""),
        query(learner, error_body(BAD_WEIGHTS["NaN"])),
        query(learner, bins(attribute=CANARY[:3])),
        proposal(curator, plan_of("1/1000")),
        proposal(curator, name="eve"),
        proposal(curator, signer="bob"),
        proposal(curator, expires_at=NOW - 1),
        proposal(curator, receipt=b"x"),
        proposal(curator, name="bob", study=session.study),
    )
    return replies + [curator.handle(data) for data in failures]


def assert_no_canary(replies, caplog, capsys):
    texts = [CANARY.encode(), repr(NUMBER_CANARY)[:8].encode(), struct.pack("<d", NUMBER_CANARY)]
    texts.append(struct.pack(">d", NUMBER_CANARY))
    heard = "".join(capsys.readouterr()).encode()
    for record in caplog.records:
        heard += repr(vars(record)).encode() + record.getMessage().encode() + str(record.exc_info).encode()
        assert record.exc_info is None
    for text in texts:
        assert text not in heard
        for reply in replies:
            assert text not in reply


@pytest.mark.parametrize("part", ["nothing", "noise", "records", "counting", "predictions"])
def test_no_private_value_or_exception_text_leaves_the_curator(part, caplog, capsys, monkeypatch):
    caplog.set_level(logging.DEBUG)
    records = canary_dataset()
    noise = ExactNoise()
    if part == "noise":
        noise = Bomb()
    if part == "records":
        records = types.SimpleNamespace(steward=records.steward, warnings=(), records=(), count=Bomb()._explode)
    if part == "counting":
        records._cache = Bomb()
    if part == "predictions":
        monkeypatch.setattr(Mlp, "logits", Bomb()._explode)
    replies = every_message(open_curator(noise=noise, records=records))
    assert len(replies) > 10
    kinds = {type(message_of(reply)) for reply in replies}
    assert {Card, StudyAccepted, Refusal} <= kinds
    assert (part == "nothing") == (StudyClosed in kinds)
    assert_no_canary(replies, caplog, capsys)


@pytest.mark.parametrize("at", range(2, 24, 2))
def test_no_text_of_a_failing_store_leaves_the_curator(at, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    store = BombStore(10**9)
    curator = open_curator(store, records=canary_dataset())
    store.at = at
    replies = every_message(curator)
    assert RefusalCode.UNAVAILABLE in [getattr(message_of(reply), "code", "") for reply in replies]
    assert "OSError" in caplog.text or "LedgerUnavailableError" in caplog.text
    assert_no_canary(replies, caplog, capsys)


def test_log_holds_nothing_that_a_learner_wrote(caplog):
    caplog.set_level(logging.DEBUG)
    curator = open_curator()
    learner = Learner(curator)
    learner.session.propose(plan_of(30), CANARY, NOW)
    learner.ask()
    learner.query(kind=CANARY)
    learner.query(bins(attribute=CANARY))
    learner.query(bins(1.0, attribute=f"{CANARY}\nERROR forged line"))
    curator.handle(proposal(curator, Plan.of((planned(kind=CANARY),)), study=CANARY.encode()[:11].ljust(16)))
    curator.handle(encode(Envelope(label=CANARY, type=CANARY, payload=b"", signature=bytes(64))))
    assert caplog.records
    assert CANARY not in caplog.text
    assert {record.getMessage().removeprefix("refused: ") for record in caplog.records} <= set(RefusalCode)


def test_refusals_of_a_curator_are_the_same_whatever_its_records():
    """One hostile script against three data sets: the same bytes."""
    seen = []
    for rows in (ROWS, [ROWS[0], ROWS[1]] * 40, [(f"p{n}", None, None, None, "no" if n else "yes") for n in range(9)]):
        curator = open_curator(noise=ZeroNoise(), records=dataset(rows), entropy=CountingEntropy())
        learner = opened(curator, plan=plan_of(30, 30, release="signed_error"))
        script = [query(learner, error_body(bad)) for bad in BAD_WEIGHTS.values()]
        script += [query(learner, body) for name, (body, _) in BAD_BODIES.items() if name != "a hypothesis with masses"]
        script += [query(learner, sequence=5), proposal(curator, plan_of("1/1000"))]
        seen.append([curator.handle(data) for data in script])
        assert all(isinstance(message_of(reply), Refusal) for reply in seen[-1])
    assert seen[0] == seen[1] == seen[2]


def test_curator_opens_no_file_and_runs_no_code_it_was_sent():
    """The room that answers imports nothing that could: no pickle, eval, exec or import by name."""
    import curator_node.curator
    import curator_node.kinds.counts
    import curator_node.records.dataset
    import protocol.codec
    import protocol.hypotheses

    for module in (
        curator_node.curator,
        curator_node.records.dataset,
        curator_node.kinds.counts,
        protocol.codec,
        protocol.hypotheses,
    ):
        source = inspect.getsource(module)
        for word in ("pickle", "eval(", "exec(", "importlib", "__import__", "torch", "open("):
            assert word not in source.replace("open_envelope(", "").replace("open_receipt(", "").replace(
                "_sealer.open(", ""
            ), (module, word)


def test_every_refusal_code_has_one_explanation_without_a_place_for_data():
    assert set(EXPLANATIONS) == set(RefusalCode)
    assert not any(sign in text for text in EXPLANATIONS.values() for sign in "{}%")


def test_scale_factor_leads_to_scales_that_a_plan_can_hold():
    curator = open_curator(rules=policy(cap=1))
    refusal = message_of(curator.handle(proposal(curator, plan_of("1/2"))))
    assert Rational.of(Fraction(refusal.scale_factor) * Fraction(1, 2)) == Rational(1, 1)
