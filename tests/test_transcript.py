"""Replay by an auditor without data: an honest study proves its epsilon, every tampering is noticed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import msgspec
import polars as pl
import pytest
from generators import KEYS

from curator_node.curator import Curator
from curator_node.dataset import PrivateDataset
from curator_node.ledger import Ledger
from curator_node.ledger.store import MemoryStore
from curator_node.mechanisms import OpenDPNoise
from curator_node.policy import LearnerPolicy, Policy
from curator_node.steward import StewardFile
from learner_node.session import Session
from protocol.codec import encode
from protocol.envelopes import (
    NOT_PRIVATE_LABEL,
    decode,
    digest,
    open_envelope,
    request_digest,
    seal,
    seal_receipt,
)
from protocol.envelopes import Envelope as SignedEnvelope
from protocol.errors import RemoteProtocolError
from protocol.messages import (
    NO_DIGEST,
    NOBODY,
    TYPE_NAMES,
    Card,
    CardRequest,
    Query,
    Receipt,
    Refusal,
    Release,
    StudyAccepted,
    StudyClose,
    StudyClosed,
    StudyProposal,
)
from protocol.partitions import FeatureBins
from protocol.plans import Plan, PlannedQuery
from protocol.queries.counts import CountsBody, CountsRelease
from protocol.queries.limits import Limits
from protocol.rationals import Rational
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.schema import NumericAttribute, Schema
from protocol.transcript import START, ReplayError, Transcript, replay
from protocol.transitions import State

CURATOR, LEARNER, STRANGER = KEYS
STUDY = b"study-0123456789"
SCHEMA = Schema((NumericAttribute("x", 0.0, 1.0),), "y", ("0", "1"))
PLAN = Plan(
    (
        PlannedQuery(kind="counts", release="mass", partitions=1, scale=Rational(30, 1)),
        PlannedQuery(kind="counts", release="mass", partitions=2, scale=Rational(10, 1)),
    )
)
MOST = 2
COSTS = [Fraction(1, 15), Fraction(2, 5)]
CARD_REQUEST, CARD, PROPOSAL, ACCEPTED, QUERY1, RELEASE1, QUERY2, RELEASE2, CLOSE, CLOSED = range(10)


def unchanged(value):
    return value


def set_to(**fields) -> Callable:
    return lambda value: msgspec.structs.replace(value, **fields)


@dataclass
class Story:
    """Writes both sides of a study; changes apply before signing, and what follows builds on the changed bytes."""

    messages: dict[int, Callable] = field(default_factory=dict)
    receipts: dict[int, Callable] = field(default_factory=dict)
    learner: object = LEARNER
    curator: object = CURATOR
    label: str = "expril/1"
    written: list[bytes] = field(default_factory=list)
    last_reply: bytes = NO_DIGEST
    spent: Fraction = Fraction(0)

    def request(self, kind, sequence, /, **fields):
        message = kind(
            study=STUDY,
            sender=LEARNER.public,
            recipient=CURATOR.public,
            sequence=sequence,
            answers=self.last_reply,
            expires_at=1000,
            **fields,
        )
        message = self.messages.get(len(self.written), unchanged)(message)
        self.asked = message
        self.written.append(seal(message, self.learner))

    def reply(self, kind, /, *, receipt=True, charged=Fraction(0), **fields):
        position = len(self.written)
        self.spent += charged
        header = {
            "study": STUDY,
            "sender": CURATOR.public,
            "recipient": LEARNER.public,
            "sequence": self.asked.sequence,
            "answers": digest(self.written[-1]),
            "expires_at": 1000,
        }
        if receipt:
            identity = request_digest(LEARNER.public, TYPE_NAMES[type(self.asked)], encode(self.asked))
            made = Receipt(
                curator=CURATOR.public,
                learner=LEARNER.public,
                study=STUDY,
                sequence=self.asked.sequence,
                request=identity,
                release=digest(fields["body"]) if kind is Release else NO_DIGEST,
                charged=str(charged),
                spent_by_study=str(self.spent),
                spent_by_learner=str(self.spent),
                ledger_index=position,
                ledger_head=bytes(32),
                issued_at=1,
            )
            made = self.receipts.get(position, unchanged)(made)
            fields["receipt"] = seal_receipt(made, self.curator, label=self.label)
        message = self.messages.get(position, unchanged)(kind(**header, **fields))
        self.written.append(seal(message, self.curator, label=self.label))
        if kind not in (Card, Refusal):
            self.last_reply = digest(self.written[-1])

    def refuse(self, code=RefusalCode.HALTED, **fields):
        words = {"explanation": EXPLANATIONS[code], "field": "", "limit": "", "remaining": "", "scale_factor": ""}
        self.reply(Refusal, receipt=False, code=code.value, **words, **fields)

    def card(self):
        self.request(CardRequest, 0)
        self.reply(
            Card,
            receipt=False,
            name="basel",
            schema=SCHEMA,
            privacy_unit="patient",
            most_records_per_unit=MOST,
            relation="add or remove one privacy unit",
            round_size=None,
            limits=Limits(),
            cap="1",
            least_cost="1/1000",
        )

    def propose(self):
        self.request(StudyProposal, 0, plan=PLAN, purpose="test", newest_receipt=b"")

    def accept(self):
        self.reply(StudyAccepted, cost=str(sum(COSTS)), reserved_until=1000)

    def query(self, number):
        body = CountsBody((FeatureBins("x", (0.5,)),) * (number + 1), None)
        self.request(Query, number + 1, kind="counts", body=encode(body))

    def release(self, number):
        body = encode(CountsRelease(counts=bytes(24 * (number + 1)), ratios=b""))
        self.reply(Release, charged=COSTS[number], kind="counts", body=body)

    def close(self, sequence=3):
        self.request(StudyClose, sequence)
        self.reply(StudyClosed, refunded=str(sum(COSTS) - self.spent))

    def whole(self):
        self.card()
        self.propose()
        self.accept()
        for number in range(2):
            self.query(number)
            self.release(number)
        self.close()
        return self.written

    def replay(self):
        return replay(self.written, CURATOR.public, LEARNER.public, label=self.label)


def told(*, messages=None, receipts=None, **options):
    story = Story(messages=messages or {}, receipts=receipts or {}, **options)
    story.whole()
    return story


def assert_noticed(envelopes, complaint=None):
    with pytest.raises((ReplayError, RemoteProtocolError), match=complaint):
        replay(envelopes, CURATOR.public, LEARNER.public)


def test_an_honest_study_proves_its_epsilon():
    proof = told().replay()
    assert proof.epsilon_claimed == proof.epsilon_spent == Fraction(7, 15)
    assert (proof.releases, proof.refusals, proof.state) == (2, [], State.CLOSED)
    assert proof.plan == PLAN


def test_a_study_closed_early_spends_less_than_it_claimed():
    story = Story()
    story.card()
    story.propose()
    story.accept()
    story.query(0)
    story.release(0)
    story.close(2)
    proof = story.replay()
    assert (proof.epsilon_claimed, proof.epsilon_spent) == (Fraction(7, 15), Fraction(1, 15))
    assert proof.state is State.CLOSED


@pytest.mark.parametrize("charged", [True, False])
def test_a_query_whose_release_was_lost_is_accounted_for_at_the_close(charged):
    story = Story()
    story.card()
    story.propose()
    story.accept()
    story.query(0)
    story.spent += COSTS[0] if charged else 0
    story.close(2)
    proof = story.replay()
    assert proof.state is State.CLOSED
    assert proof.epsilon_spent == (COSTS[0] if charged else 0)
    assert proof.releases == 0


def test_a_close_that_charges_more_than_the_lost_query_is_noticed():
    story = Story()
    story.card()
    story.propose()
    story.accept()
    story.query(0)
    story.spent += COSTS[0] + COSTS[1]
    story.close(2)
    assert_noticed(story.written, "the refund is not what was left")


def test_a_study_under_way_shows_that_it_is_not_closed():
    for length in range(10):
        proof = replay(told().written[:length], CURATOR.public, LEARNER.public)
        assert proof.state is not State.CLOSED
        assert proof.epsilon_spent == sum(COSTS[: max(0, length - 4) // 2])


def test_seeded_noise_replays_under_its_own_label_only():
    story = told(label=NOT_PRIVATE_LABEL)
    assert story.replay().epsilon_spent == Fraction(7, 15)
    assert_noticed(story.written, "bad_signature")
    with pytest.raises(RemoteProtocolError):
        replay(told().written, CURATOR.public, LEARNER.public, label=NOT_PRIVATE_LABEL)


def test_retries_and_stored_replies_count_once():
    honest = told().written
    doubled = [data for data in honest[2:] for _ in range(2)]
    retried = [*honest[:2], *(x for i in range(0, 8, 2) for x in (*doubled[2 * i : 2 * i + 4],))]
    proof = replay(retried, CURATOR.public, LEARNER.public)
    assert (proof.epsilon_spent, proof.releases) == (Fraction(7, 15), 2)


@pytest.mark.parametrize("position", range(9))
def test_a_dropped_envelope_is_noticed(position):
    honest = told().written
    assert_noticed(honest[:position] + honest[position + 1 :])


@pytest.mark.parametrize("position", range(9))
def test_two_swapped_envelopes_are_noticed(position):
    envelopes = list(told().written)
    envelopes[position], envelopes[position + 1] = envelopes[position + 1], envelopes[position]
    assert_noticed(envelopes)


@pytest.mark.parametrize("position", range(2, 10))
def test_an_envelope_of_another_run_is_noticed(position):
    other = told(messages={PROPOSAL: set_to(purpose="other")}).written
    envelopes = list(told().written)
    envelopes[position] = other[position]
    assert_noticed(envelopes)


@pytest.mark.parametrize("position", range(10))
def test_an_envelope_with_a_flipped_bit_is_noticed(position):
    envelopes = list(told().written)
    envelopes[position] = envelopes[position][:-1] + bytes([envelopes[position][-1] ^ 1])
    assert_noticed(envelopes, "bad_signature")


def test_keys_of_others_are_noticed():
    assert_noticed(told(learner=STRANGER).written, "bad_signature")
    assert_noticed(told(curator=STRANGER).written, "bad_signature")
    with pytest.raises(RemoteProtocolError):
        replay(told().written, LEARNER.public, CURATOR.public)


@pytest.mark.parametrize(
    ("position", "change", "complaint"),
    [
        (ACCEPTED, set_to(cost="1/15"), "quoted cost"),
        (CLOSED, set_to(refunded="1/15"), "refund"),
        (QUERY1, set_to(answers=bytes(32)), "follows another reply"),
        (RELEASE1, set_to(answers=bytes(32)), "answers another request"),
        (CARD, set_to(answers=b"\x01" * 32), "card answers another request"),
        (CARD, set_to(most_records_per_unit=1), "quoted cost"),
        (RELEASE1, set_to(sequence=2), "another study or sequence"),
        (RELEASE1, set_to(study=bytes(16)), "another study or sequence"),
        (RELEASE1, set_to(body=b""), "receipt is for another release"),
        (RELEASE1, set_to(kind="other"), "kind is not the planned one"),
        (QUERY1, set_to(kind="other"), "kind is not the planned one"),
        (QUERY1, set_to(study=bytes(16)), "of another study"),
        (CLOSE, set_to(study=bytes(16)), "of another study"),
        (QUERY1, set_to(recipient=STRANGER.public), "for somebody else"),
        (RELEASE1, set_to(recipient=STRANGER.public), "for somebody else"),
        (ACCEPTED, set_to(recipient=NOBODY), "for somebody else"),
        (QUERY1, set_to(sender=STRANGER.public), "sender is not the signer"),
        (CARD, set_to(sender=STRANGER.public), "sender is not the signer"),
        (QUERY1, set_to(body=encode(CountsBody((FeatureBins("x", ()),) * 2, None))), "not_in_plan"),
        (QUERY1, set_to(body=encode(CountsBody((FeatureBins("x", (1.0, 0.0)),), None))), "bad_query"),
        (QUERY1, set_to(body=b"junk"), "malformed"),
        (CARD, set_to(limits=Limits(cells=2)), "over_limit"),
        (RELEASE1, set_to(receipt=b""), "malformed"),
        (PROPOSAL, set_to(plan=Plan(PLAN.queries[:1])), "quoted cost"),
    ],
)
def test_a_message_that_lies_is_noticed(position, change, complaint):
    assert_noticed(told(messages={position: change}).written, complaint)


@pytest.mark.parametrize("position", [ACCEPTED, RELEASE1, RELEASE2, CLOSED])
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (set_to(charged="1/16"), "charge"),
        (set_to(spent_by_study="1/16"), "total"),
        (set_to(request=bytes(32)), "another request"),
        (set_to(sequence=7), "another request"),
        (set_to(study=bytes(16)), "another request"),
        (set_to(learner=STRANGER.public), "another request"),
        (set_to(curator=STRANGER.public), "bad_signature"),
    ],
)
def test_a_receipt_that_lies_is_noticed(position, change, complaint):
    assert_noticed(told(receipts={position: change}).written, complaint)


@pytest.mark.parametrize("position", [RELEASE1, RELEASE2])
def test_the_receipt_of_another_release_is_noticed(position):
    assert_noticed(told(receipts={position: set_to(release=bytes(32))}).written, "another release")


def test_the_receipt_of_another_message_is_noticed():
    stolen = open_envelope(told().written[RELEASE1])[1].receipt
    assert_noticed(told(messages={RELEASE2: set_to(receipt=stolen)}).written, "another request")


def test_a_receipt_by_another_key_is_noticed():
    honest = open_envelope(told().written[RELEASE1])[1]
    receipt = msgspec.msgpack.decode(decode(honest.receipt, SignedEnvelope).payload, type=Receipt)
    assert_noticed(told(messages={RELEASE1: set_to(receipt=seal_receipt(receipt, STRANGER))}).written, "bad_signature")


def test_without_a_card_even_a_free_study_proves_nothing():
    story = Story(messages={1: set_to(cost="0")})
    story.propose()
    story.accept()
    assert_noticed(story.written, "before the card")


def test_a_contribution_bound_that_changes_within_the_study_is_noticed():
    story = Story(messages={5: set_to(most_records_per_unit=1)})
    story.card()
    story.propose()
    story.accept()
    story.card()
    assert_noticed(story.written, "contribution bound changed")


def test_a_card_read_again_with_the_same_bound_is_fine():
    story = Story()
    story.card()
    story.propose()
    story.accept()
    story.card()
    story.query(0)
    story.release(0)
    assert story.replay().releases == 1


def test_more_releases_than_planned_are_noticed():
    story = Story()
    story.card()
    story.propose()
    story.accept()
    for number in (0, 1):
        story.query(number)
        story.release(number)
    story.query(1)
    story.release(1)
    assert_noticed(story.written, "more releases than planned")


def test_a_release_of_another_shape_than_was_asked_is_noticed():
    story = Story()
    story.card()
    story.propose()
    story.accept()
    story.query(0)
    story.reply(Release, charged=COSTS[0], kind="counts", body=encode(CountsRelease(counts=bytes(8), ratios=b"")))
    assert_noticed(story.written, "numbers")


def test_a_ledger_that_does_not_grow_is_noticed():
    story = told(receipts={RELEASE1: set_to(ledger_index=0)})
    assert_noticed(story.written, "does not grow")


def test_a_learner_total_below_its_study_is_noticed():
    story = told(receipts={RELEASE1: set_to(spent_by_learner="0")})
    assert_noticed(story.written, "spent less than its study")


def test_a_second_release_for_one_query_is_noticed():
    story = Story()
    story.card()
    story.propose()
    story.accept()
    story.query(0)
    story.release(0)
    query = story.written[4]
    story.written.append(query)
    story.release(0)
    assert_noticed(story.written, r"two answers|another request")


def test_refusals_are_listed_and_cost_nothing():
    story = Story()
    story.request(CardRequest, 0)
    story.refuse(RefusalCode.EXPIRED)
    story.card()
    story.propose()
    story.refuse(RefusalCode.OVER_BUDGET)
    story.propose()
    story.accept()
    story.query(0)
    story.refuse(RefusalCode.HALTED)
    story.query(0)
    story.refuse(RefusalCode.HALTED)
    story.query(0)
    story.release(0)
    story.close(2)
    proof = story.replay()
    assert proof.refusals == ["expired", "over_budget", "halted", "halted"]
    assert proof.epsilon_spent == Fraction(1, 15)


@pytest.mark.parametrize("junk", [b"", b"\x00" * 50, seal_receipt.__name__.encode()])
def test_junk_in_a_transcript_is_noticed(junk):
    assert_noticed([*told().written, junk], "malformed")


def test_the_head_depends_on_every_envelope_and_their_order():
    def head(envelopes):
        transcript = Transcript()
        for data in envelopes:
            transcript.append(data)
        assert transcript.envelopes == list(envelopes)
        return transcript.head

    heads = {head(x) for x in ([], [b"a"], [b"b"], [b"a", b"b"], [b"b", b"a"], [b"ab"], [b"a", b"a"])}
    assert len(heads) == 7
    assert head([]) == START
    assert head([b"a", b"b"]) == digest(digest(START + digest(b"a")) + digest(b"b"))


def real_study(rows):
    steward = StewardFile(
        label="y", classes=("0", "1"), attributes=SCHEMA.attributes, unit="p", most_records_per_unit=2
    )
    frame = pl.DataFrame(
        {"x": [i / rows for i in range(rows)], "y": [i % 2 for i in range(rows)], "p": [i // 3 for i in range(rows)]}
    )
    curator = Curator(
        dataset=PrivateDataset(frame, steward, unit_key=bytes(32), cache_bytes=10**6),
        ledger=Ledger(MemoryStore()),
        key=CURATOR,
        policy=Policy(name="basel", cap=1, learners=(LearnerPolicy("me", LEARNER.public.hex(), 1),)),
        clock=lambda: 100,
        noise=OpenDPNoise(),
    )
    return curator, Session(curator=CURATOR.public, key=LEARNER, study=STUDY)


def test_the_transcript_of_a_real_curator_and_learner_proves_the_epsilon():
    curator, session = real_study(60)

    def exchange(request):
        return session.receive(curator.handle(request))

    exchange(session.request_card(100))
    assert isinstance(exchange(session.propose(PLAN, "test", 100)), StudyAccepted)
    bad = encode(CountsBody((FeatureBins("nowhere", ()),), None))
    for _ in range(2):
        assert isinstance(exchange(session.query("counts", bad, 100)), Refusal)
    for number in range(2):
        body = CountsBody((FeatureBins("x", (0.5,)),) * (number + 1), None)
        assert isinstance(exchange(session.query("counts", encode(body), 100)), Release)
    assert isinstance(exchange(session.close(100)), StudyClosed)
    proof = replay(session.transcript.envelopes, CURATOR.public, LEARNER.public)
    assert proof.epsilon_claimed == proof.epsilon_spent == Fraction(7, 15)
    assert proof.refusals == ["bad_query", "bad_query"]
    assert proof.state is State.CLOSED
