"""The hash-chained list of every envelope of a study, and its replay by an auditor who holds no data."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from protocol.envelopes import (
    LABEL,
    LEARNER_TYPES,
    Envelope,
    digest,
    open_envelope,
    open_receipt,
    request_digest,
    verify,
)
from protocol.errors import ExprilError, LocalProtocolError
from protocol.messages import (
    Card,
    CardRequest,
    Message,
    Query,
    Receipt,
    Refusal,
    Release,
    StudyAccepted,
    StudyClose,
    StudyClosed,
    StudyProposal,
)
from protocol.plans import Plan
from protocol.queries import plan_cost, query_cost, query_kind
from protocol.rationals import parse_amount
from protocol.transitions import Event, State, advance

START = digest(b"expril/2 transcript")


class ReplayError(ExprilError):
    """A transcript does not prove what it claims; the text says what is wrong and at which envelope."""


@dataclass
class Transcript:
    """Envelopes in the order sent, with the running head h_{i+1} = SHA-256(h_i || SHA-256(envelope))."""

    envelopes: list[bytes] = field(default_factory=list)
    head: bytes = START

    def append(self, envelope: bytes) -> None:
        """Add an envelope and move the head."""
        self.envelopes.append(envelope)
        self.head = digest(self.head + digest(envelope))


@dataclass
class Replay:
    """The replay of one learner's exchange with one curator; call `feed` for each envelope in order.

    Attributes:
        curator: the curator's public key.
        learner: the learner's public key.
        label: the signature label expected of the curator.
        card: the curator's, as signed; it states the contribution bound c.
        plan: of the accepted study.
        epsilon_claimed: exact cost of the accepted plan; 0 where none was accepted.
        epsilon_spent: sum of what the receipts charge.
        releases: number of releases.
        refusals: codes in order.
        state: of the study.
    """

    curator: bytes
    learner: bytes
    label: str = LABEL
    card: Card | None = None
    plan: Plan | None = None
    epsilon_claimed: Fraction = Fraction(0)
    epsilon_spent: Fraction = Fraction(0)
    releases: int = 0
    refusals: list[str] = field(default_factory=list)
    state: State = State.NEW
    _card_request: bytes = b""
    _asked: Message | None = None
    _request: bytes = b""
    _request_envelope: bytes = b""
    _answered: bool = False
    _unanswered: Fraction = Fraction(0)
    _last_reply: bytes = b""
    _position: int = 0
    _ledger_index: int = -1

    def feed(self, data: bytes) -> None:
        """Check the next envelope: signature, order, plan, exact cost and receipt.

        Raises:
            ReplayError: anything is wrong.
            RemoteProtocolError: the bytes are no envelope, a signature is wrong, or what was answered breaks the
                plan or the card.
        """
        self._position += 1
        envelope, message = open_envelope(data)
        from_learner = envelope.type in LEARNER_TYPES
        signer = self.learner if from_learner else self.curator
        verify(envelope, signer, label=LABEL if from_learner else self.label)
        self._require(message.sender == signer, "the sender is not the signer")
        if not isinstance(message, Refusal):
            recipient = self.curator if from_learner else self.learner
            self._require(message.recipient == recipient, "the message is for somebody else")
        if isinstance(message, CardRequest):
            self._card_request = data
        elif isinstance(message, Card):
            self._feed_card(message)
        elif isinstance(message, Refusal) and message.answers == digest(self._card_request):
            self.refusals.append(message.code)
        elif from_learner:
            self._feed_request(data, envelope, message)
        else:
            self._feed_reply(data, envelope, message)

    def _feed_card(self, card: Card) -> None:
        self._require(card.answers == digest(self._card_request), "the card answers another request")
        if self.card is not None and self.state is not State.NEW:
            same = card.most_records_per_unit == self.card.most_records_per_unit
            self._require(same, "the contribution bound changed within the study")
        self.card = card

    def _feed_request(self, data: bytes, envelope: Envelope, message: Message) -> None:
        identity = request_digest(message.sender, envelope.type, envelope.payload)
        if identity == self._request:
            return
        if self._asked is not None and not isinstance(message, StudyProposal):
            self._require(message.study == self._asked.study, "the request is of another study")
        if self._last_reply:
            self._require(message.answers == digest(self._last_reply), "the request follows another reply")
        if isinstance(message, StudyClose) and self.state is State.ASKED and self.plan is not None and self.card:
            self._unanswered = query_cost(self.plan.queries[self.releases], self.card.most_records_per_unit)
        self._advance(envelope)
        self._asked = message
        self._request, self._request_envelope, self._answered = identity, data, False
        if isinstance(message, StudyProposal):
            self._require(self.card is not None, "the plan is proposed before the card is known")
            self.plan = message.plan

    def _feed_reply(self, data: bytes, envelope: Envelope, message: Message) -> None:
        if self._answered:
            self._require(data == self._last_reply or isinstance(message, Refusal), "two answers to one request")
            return
        self._require(message.answers == digest(self._request_envelope), "the reply answers another request")
        self._advance(envelope)
        if isinstance(message, Refusal):
            self.refusals.append(message.code)
            self._request = b""  # refused, so the same request may be made anew
            return
        self._answered, self._last_reply = True, data
        if self.card is None or self.plan is None or self._asked is None:
            raise ReplayError(f"envelope {self._position}: {envelope.type} without a card and a plan")
        if not isinstance(message, StudyAccepted | Release | StudyClosed):
            raise ReplayError(f"envelope {self._position}: {envelope.type} is no reply of a study")
        receipt = open_receipt(message.receipt, self.curator, label=self.label)
        names = (receipt.request, receipt.learner, receipt.study, receipt.sequence)
        asked = (self._asked.study, self._asked.sequence)
        self._require(names == (self._request, self.learner, *asked), "the receipt is for another request")
        self._require((message.study, message.sequence) == asked, "the reply names another study or sequence")
        charged = Fraction(0)
        if isinstance(message, StudyAccepted):
            self.epsilon_claimed = plan_cost(self.plan, self.card.most_records_per_unit)
            self._require(parse_amount(message.cost) == self.epsilon_claimed, "the quoted cost is not the plan's")
        elif isinstance(message, Release):
            charged = self._check_release(message, receipt, self.plan, self.card)
        else:
            self._check_closing(message, receipt)
        self.epsilon_spent += charged
        self._require(receipt.ledger_index > self._ledger_index, "the ledger's chain does not grow")
        self._ledger_index = receipt.ledger_index
        self._require(parse_amount(receipt.charged) == charged, "the charge is not the query's cost")
        self._require(parse_amount(receipt.spent_by_study) == self.epsilon_spent, "the total is not the sum")
        enough = parse_amount(receipt.spent_by_learner) >= self.epsilon_spent
        self._require(enough, "the learner spent less than its study")

    def _check_release(self, message: Release, receipt: Receipt, plan: Plan, card: Card) -> Fraction:
        """The exact cost of what was released."""
        self._require(self.releases < len(plan.queries), "more releases than planned queries")
        planned = plan.queries[self.releases]
        self.releases += 1
        self._require(receipt.release == digest(message.body), "the receipt is for another release")
        if isinstance(self._asked, Query):
            self._require(self._asked.kind == message.kind == planned.kind, "the kind is not the planned one")
            kind = query_kind(planned.kind)
            body = kind.read_body(self._asked.body, planned, card.schema, card.limits)
            kind.read_release(message.body, body, planned, card.schema)
        return query_cost(planned, card.most_records_per_unit)

    def _check_closing(self, message: StudyClosed, receipt: Receipt) -> None:
        """The refund, given that one query may have been charged whose release was lost on the way."""
        if parse_amount(receipt.spent_by_study) == self.epsilon_spent + self._unanswered:
            self.epsilon_spent += self._unanswered
        rest = self.epsilon_claimed - self.epsilon_spent
        self._require(parse_amount(message.refunded) == rest, "the refund is not what was left")

    def _advance(self, envelope: Envelope) -> None:
        try:
            self.state = advance(self.state, Event(envelope.type))
        except LocalProtocolError as error:
            raise ReplayError(f"envelope {self._position}: {error}") from error

    def _require(self, fact: bool, complaint: str) -> None:
        if not fact:
            raise ReplayError(f"envelope {self._position}: {complaint}")


def replay(envelopes: Iterable[bytes], curator: bytes, learner: bytes, *, label: str = LABEL) -> Replay:
    """Replay a learner's whole exchange with one curator (card, proposal, queries, close), without data.

    Raises:
        ReplayError, RemoteProtocolError: as `Replay.feed`.
    """
    state = Replay(curator=curator, learner=learner, label=label)
    for data in envelopes:
        state.feed(data)
    return state
