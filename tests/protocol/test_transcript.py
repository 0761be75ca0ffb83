"""Replay by an auditor without data: an honest study proves its epsilon, every tampering is noticed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import msgspec
import pytest

from generators import KEYS
from limits_told import card_limits
from protocol.codec import encode
from protocol.envelopes import (
    LABEL,
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
from protocol.kinds.counts import CountsBody, CountsRelease, PlannedCounts
from protocol.limits import Limits
from protocol.messages import (
    NO_DIGEST,
    NO_STUDY,
    NOBODY,
    SEALED_BYTES,
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
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.schema import NumericAttribute, Schema
from protocol.transcript import START, ReplayError, Transcript, replay
from protocol.transitions import State

CURATOR, LEARNER, STRANGER = KEYS
STUDY = b"study-0123456789"
SCHEMA = Schema((NumericAttribute("x", 0.0, 1.0),), "y", ("0", "1"))
PLAN = Plan.of(
    (
        PlannedCounts(release="mass", partitions=1, scale=Rational(30, 1)),
        PlannedCounts(release="mass", partitions=2, scale=Rational(10, 1)),
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
    label: str = LABEL
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

    def reply(self, kind, /, *, receipt=True, charged=Fraction(0), to=-1, **fields):
        """Answer the request written at `to`; the account at that entry is `spent`."""
        position = len(self.written)
        self.spent += charged
        header = {
            "study": STUDY,
            "sender": CURATOR.public,
            "recipient": LEARNER.public,
            "sequence": self.asked.sequence,
            "answers": digest(self.written[to]),
            "expires_at": 1000,
        } | {name: fields.pop(name) for name in ("study", "recipient", "sequence") if name in fields}
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
                ledger_head=digest(b"head %d" % position),
                position=bytes(SEALED_BYTES),
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
            unit="patient",
            most_records_per_unit=MOST,
            relation="add or remove one privacy unit",
            round_size=None,
            limits=card_limits(),
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
        self.closed()

    def closed(self):
        self.reply(StudyClosed, refunded=str(sum(COSTS) - self.spent))

    def open(self):
        self.card()
        self.propose()
        self.accept()
        return self

    def late_release(self, query, *, spent=None):
        """The release of the query written at `query`, from the account as it was then."""
        now, asked = self.spent, self.asked
        self.asked = open_envelope(self.written[query])[1]
        self.spent = (now if spent is None else spent) - COSTS[self.asked.sequence - 1]
        body = encode(CountsRelease(counts=bytes(24 * self.asked.sequence), ratios=b""))
        self.reply(Release, charged=COSTS[self.asked.sequence - 1], to=query, kind="counts", body=body)
        self.spent, self.asked = now, asked

    def whole(self):
        self.open()
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


def asked():
    """A story up to its first query."""
    story = Story().open()
    story.query(0)
    return story


def answered():
    story = asked()
    story.release(0)
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
    story = answered()
    story.close(2)
    proof = story.replay()
    assert (proof.epsilon_claimed, proof.epsilon_spent) == (Fraction(7, 15), Fraction(1, 15))
    assert proof.state is State.CLOSED


@pytest.fixture
def story():
    return asked()


@pytest.mark.parametrize("charged", [True, False])
def test_a_query_whose_release_was_lost_is_accounted_for_at_the_close(charged, story):
    story.spent += COSTS[0] if charged else 0
    story.close(2)
    proof = story.replay()
    assert (proof.state, proof.unproven) == (State.CLOSED, "")
    assert proof.epsilon_spent == proof.epsilon_at_most == (COSTS[0] if charged else 0)
    assert proof.releases == 0


def test_a_close_that_charges_more_than_the_lost_query_is_noticed(story):
    story.spent += COSTS[0] + COSTS[1]
    story.close(2)
    assert_noticed(story.written, "the total is not the sum")


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
def test_a_dropped_envelope_and_two_swapped_ones_are_noticed(position):
    honest = told().written
    first, second = honest[position : position + 2]
    assert_noticed([*honest[:position], *honest[position + 1 :]])
    assert_noticed([*honest[:position], second, first, *honest[position + 2 :]])


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
        (CARD, set_to(limits=card_limits(cells=2)), "over_limit"),
        (CARD, set_to(limits=card_limits(message_bytes=20)), "too_large"),
        (CARD, set_to(limits=Limits(kinds={})), "kind_not_allowed"),
        (CARD, set_to(limits=Limits(kinds={"counts": {"cels": 1}})), "malformed"),
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


def test_the_receipt_of_another_release_or_message_or_by_another_key_is_noticed():
    for position in (RELEASE1, RELEASE2):
        assert_noticed(told(receipts={position: set_to(release=bytes(32))}).written, "another release")
    stolen = open_envelope(told().written[RELEASE1])[1].receipt
    assert_noticed(told(messages={RELEASE2: set_to(receipt=stolen)}).written, "another request")
    receipt = msgspec.msgpack.decode(decode(stolen, SignedEnvelope).payload, type=Receipt)
    assert_noticed(told(messages={RELEASE1: set_to(receipt=seal_receipt(receipt, STRANGER))}).written, "bad_signature")


def test_without_a_card_even_a_free_study_proves_nothing():
    story = Story(messages={1: set_to(cost="0")})
    story.propose()
    story.accept()
    assert_noticed(story.written, "before the card")


def test_a_contribution_bound_that_changes_within_the_study_is_noticed():
    story = Story(messages={5: set_to(most_records_per_unit=1)}).open()
    story.card()
    assert_noticed(story.written, "contribution bound changed")


def test_a_card_read_again_with_the_same_bound_is_fine():
    story = Story().open()
    story.card()
    story.query(0)
    story.release(0)
    assert story.replay().releases == 1


def test_more_releases_than_planned_are_noticed():
    story = Story().open()
    for number in (0, 1):
        story.query(number)
        story.release(number)
    body = CountsBody((FeatureBins("x", (0.5,)),) * 2, None)
    story.request(Query, 3, kind="counts", body=encode(body))
    story.release(1)
    assert_noticed(story.written, "more releases than planned")


@pytest.mark.parametrize("sequence", [1, 3])
def test_a_query_out_of_sequence_is_noticed(sequence):
    story = answered()
    body = CountsBody((FeatureBins("x", (0.5,)),) * 2, None)
    story.request(Query, sequence, kind="counts", body=encode(body))
    assert_noticed(story.written, "a request is missing, or its sequence is wrong")


def test_a_release_of_another_shape_than_was_asked_is_noticed(story):
    story.reply(Release, charged=COSTS[0], kind="counts", body=encode(CountsRelease(counts=bytes(8), ratios=b"")))
    assert_noticed(story.written, "numbers")


@pytest.mark.parametrize(("total", "complaint"), [("1/2", "total falls"), ("0", "spent less than its study")])
def test_a_learner_total_that_falls_or_is_below_its_study_is_noticed(total, complaint):
    assert_noticed(told(receipts={RELEASE1: set_to(spent_by_learner=total)}).written, complaint)


def test_a_second_release_for_one_query_is_noticed():
    story = answered()
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
    story.refuse(RefusalCode.HALTED)
    story.written.append(story.written[-2])
    story.accept()
    story.query(0)
    story.refuse(RefusalCode.BAD_QUERY)
    story.query(0)
    story.written[-1] = seal(set_to(expires_at=1001)(story.asked), LEARNER)  # the same bytes stay refused
    story.asked = open_envelope(story.written[-1])[1]
    nobody = {"recipient": NOBODY, "study": NO_STUDY, "sequence": 0}
    story.refuse(RefusalCode.UNAVAILABLE, **nobody)
    story.refuse(RefusalCode.BAD_SIGNATURE, to=-2, **nobody)
    story.refuse(RefusalCode.HALTED, to=-3)
    story.written.append(story.written[-4])
    story.release(0)
    story.close(2)
    proof = story.replay()
    assert proof.refusals == ["expired", "halted", "bad_query", "unavailable", "bad_signature", "halted"]
    assert proof.epsilon_spent == Fraction(1, 15)


def test_a_refused_proposal_ends_the_study():
    story = Story()
    story.card()
    story.propose()
    story.refuse(RefusalCode.OVER_BUDGET)
    proof = story.replay()
    assert (proof.state, proof.epsilon_claimed, proof.unproven) == (State.REFUSED, 0, "")
    proposal = story.written[2]
    for again in (proposal, seal(set_to(study=bytes(16))(story.asked), LEARNER)):
        other = Story(written=[*story.written, again])
        other.asked = open_envelope(again)[1]
        other.accept()
        assert_noticed(other.written, r"refused for good|not lawful in a study that is refused")


def test_a_release_after_a_final_refusal_breaks_the_curators_word(story):
    story.refuse(RefusalCode.BAD_QUERY)
    assert story.replay().epsilon_at_most == 0
    story.late_release(4, spent=COSTS[0])
    assert_noticed(story.written, "answers what it had refused for good")


def test_a_final_refusal_after_a_release_breaks_the_curators_word():
    story = answered()
    for code in (RefusalCode.HALTED, RefusalCode.ANSWER_GONE):
        story.refuse(code, to=4)
    assert story.replay().epsilon_spent == COSTS[0]
    story.refuse(RefusalCode.BAD_QUERY, to=4)
    assert_noticed(story.written, "two answers to one request")


@pytest.mark.parametrize("closed_first", [True, False])
def test_a_release_that_comes_late_is_taken_with_what_the_close_says(closed_first, story):
    story.request(StudyClose, 2)
    story.spent += COSTS[0]
    if closed_first:
        story.closed()
        assert story.replay().epsilon_spent == COSTS[0]
        story.late_release(4)
    else:
        story.late_release(4)
        assert story.replay().state is State.CLOSING
        story.reply(StudyClosed, to=5, refunded=str(COSTS[1]))
    proof = story.replay()
    assert (proof.epsilon_spent, proof.epsilon_at_most, proof.releases) == (COSTS[0], COSTS[0], 1)
    assert (proof.state, proof.unproven) == (State.CLOSED, "")


def test_a_release_after_a_close_that_never_charged_it_is_noticed(story):
    story.close(2)
    story.late_release(4, spent=COSTS[0])
    assert_noticed(story.written, "refused for good")


def test_a_late_release_is_checked_as_any_other():
    cases = [
        ("messages", set_to(body=b""), "another release"),
        ("messages", set_to(sequence=2), "another study or sequence"),
        ("messages", set_to(kind="other"), "kind is not the planned one"),
        ("receipts", set_to(charged="0"), "charge"),
        ("receipts", set_to(spent_by_learner="1"), "total falls"),
    ]
    for part, change, complaint in cases:
        story = Story(**{part: {7: change}}).open()
        story.query(0)
        story.spent += COSTS[0]
        story.close(2)
        story.late_release(4)
        assert_noticed(story.written, complaint)


def test_a_query_that_the_close_shows_to_be_charged_is_not_refused_after_it(story):
    story.spent += COSTS[0]
    story.close(2)
    story.refuse(RefusalCode.ANSWER_GONE, to=4, sequence=1)
    assert story.replay().epsilon_spent == COSTS[0]
    story.refuse(RefusalCode.BAD_QUERY, to=4, sequence=1)
    assert_noticed(story.written, "refuses what its closing shows to be charged")


def test_an_answer_that_is_gone_leaves_the_charge_open_until_the_close(story):
    story.refuse(RefusalCode.ANSWER_GONE)
    proof = story.replay()
    assert (proof.state, proof.epsilon_spent, proof.epsilon_at_most) == (State.ASKED, 0, COSTS[0])
    story.spent += COSTS[0]
    story.close(2)
    assert story.replay().epsilon_spent == COSTS[0]


def test_a_query_after_one_without_an_answer_is_noticed(story):
    story.request(StudyClose, 2)
    story.refuse(RefusalCode.EXPIRED)
    assert story.replay().state is State.OPEN
    story.query(1)
    assert_noticed(story.written, "the query before was never answered")


def test_a_refusal_to_another_learner_is_noticed(story):
    story.refuse(RefusalCode.HALTED, recipient=STRANGER.public)
    assert_noticed(story.written, "for somebody else")


def test_an_unanswered_query_that_was_cut_out_shows_in_the_sequence_of_the_close(story):
    story.request(StudyClose, 2)
    assert story.replay().epsilon_at_most == COSTS[0]
    del story.written[4]
    assert_noticed(story.written, "a request is missing")


UNPROVEN = {
    2: "it ends before any proposal; whether a plan was proposed, and what it was charged, is not shown",
    3: "the proposal was never answered; whether the plan was accepted is not shown",
    4: "the study was never closed: up to 7/15 more than is proven here may have been charged",
    5: "query 1 was never answered and may have cost 1/15; the study was never closed: up to 7/15 more",
    6: "the study was never closed: up to 2/5 more than is proven here may have been charged",
    7: "query 2 was never answered and may have cost 2/5; the study was never closed: up to 2/5 more",
    8: "",
    9: "",
    10: "",
}


@pytest.mark.parametrize("length", UNPROVEN)
def test_a_transcript_without_its_tail_says_what_it_leaves_open(length):
    proof = replay(told().written[:length], CURATOR.public, LEARNER.public)
    assert proof.unproven.startswith(UNPROVEN[length])
    assert bool(proof.unproven) == bool(UNPROVEN[length])
    asked = {5: COSTS[0], 7: COSTS[1]}.get(length, 0)
    assert proof.epsilon_at_most == proof.epsilon_spent + asked


def test_a_close_without_an_answer_is_said_to_be_open(story):
    story.request(StudyClose, 2)
    assert story.replay().unproven == (
        "query 1 was never answered and may have cost 1/15; the close was never answered: "
        "up to 7/15 more than is proven here may have been charged"
    )


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


def test_a_closing_in_answer_to_the_unanswered_query_is_noticed(story):
    query = story.asked
    story.request(StudyClose, 2)
    story.asked = query
    story.reply(StudyClosed, to=4, refunded=str(sum(COSTS)))
    assert_noticed(story.written, "not of the kind asked for")
