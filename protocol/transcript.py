"""The hash-chained list of every envelope of a study, and its replay by an auditor who holds no data."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from protocol.envelopes import LABEL, LEARNER_TYPES, digest, open_envelope, open_receipt, request_digest, verify
from protocol.errors import ExprilError, LocalProtocolError, NotInstalledError, RemoteProtocolError, printable
from protocol.kinds import QUERY_KINDS
from protocol.messages import (
    NO_DIGEST,
    NOBODY,
    TYPE_NAMES,
    Card,
    CardRequest,
    Message,
    Query,
    Refusal,
    Release,
    StudyAccepted,
    StudyClose,
    StudyClosed,
    StudyProposal,
)
from protocol.plans import Plan
from protocol.query_kind import Kinds, KindTerms, Past, Question, Turn
from protocol.rationals import parse_amount
from protocol.spending import Spending
from protocol.transitions import Event, State, advance

START = digest(b"expril/2 transcript")

_REPLIES: dict[type[Message], type[Message]] = {StudyProposal: StudyAccepted, Query: Release, StudyClose: StudyClosed}


class ReplayError(ExprilError):
    """A transcript does not prove what it claims; the error says what is wrong, and at which envelope."""


@dataclass
class Transcript:
    """Envelopes in the order sent, with the running head h_{i+1} = SHA-256(h_i || SHA-256(envelope))."""

    envelopes: list[bytes] = field(default_factory=list)
    head: bytes = START

    def append(self, envelope: bytes) -> bytes:
        """Add an envelope and move the head. Returns the envelope's digest."""
        self.envelopes.append(envelope)
        name = digest(envelope)
        self.head = digest(self.head + name)
        return name


@dataclass(frozen=True)
class _Request:
    """A request of the study, and the digest of the envelope that carried it."""

    message: StudyProposal | Query | StudyClose
    identity: bytes
    envelope: bytes


@dataclass
class Replay:
    """The replay of one learner's study with one curator; call `feed` for each envelope in order."""

    curator: bytes  # the curator's public key
    learner: bytes  # the learner's public key
    label: str = LABEL  # the signature label expected of the curator
    kinds: Kinds = QUERY_KINDS
    card: Card | None = None  # the curator's, as signed; it states the contribution bound c
    plan: Plan | None = None  # what was proposed
    spending: Spending = field(default_factory=Spending)  # what the receipts charge
    releases: int = 0  # number of releases
    refusals: list[str] = field(default_factory=list)  # codes in order
    state: State = State.NEW
    _card_request: bytes = b""
    _study: bytes = b""
    _pending: _Request | None = None
    _unanswered: _Request | None = None
    _identities: set[bytes] = field(default_factory=set)
    _answers: dict[bytes, bytes] = field(default_factory=dict)
    _ruled_out: set[bytes] = field(default_factory=set)
    _last_reply: bytes = NO_DIGEST
    _released: int = 0
    _position: int = 0
    _places: tuple[tuple[int, int], ...] = ()
    _turns: tuple[Turn, ...] | None = None
    _past: list[Past] = field(default_factory=list)
    _unread: dict[str, None] = field(default_factory=dict)

    @property
    def epsilon_claimed(self) -> Fraction:
        """Exact cost of the accepted plan; 0 if none was accepted."""
        return self.spending.claimed

    @property
    def epsilon_spent(self) -> Fraction:
        """Sum of what the receipts charge."""
        return self.spending.proven

    @property
    def epsilon_at_most(self) -> Fraction:
        """`epsilon_spent` plus the cost of a query that may or may not have been charged."""
        return self.spending.at_most

    @property
    def most_charged(self) -> Fraction | None:
        """The most that the study was charged, also by envelopes that were left out here; None if nothing bounds it.

        Only the curator's final refusal of the plan, or its closing, ends a study.
        """
        if self.state is State.NEW:
            return None
        if self.state is State.REFUSED:
            return Fraction(0)
        if self.state is State.PROPOSED:
            return self.plan_cost
        return self.epsilon_at_most if self.state is State.CLOSED else self.epsilon_claimed

    @property
    def plan_cost(self) -> Fraction | None:
        """Exact cost of the proposed plan; None if it cannot be computed here."""
        if self.plan is None or self.card is None or self.not_installed:
            return None
        try:
            return self.kinds.plan_cost(self.plan, self.card.most_records_per_unit)
        except RemoteProtocolError:
            return None

    @property
    def not_installed(self) -> tuple[str, ...]:
        """Kinds in the plan that are not installed here; their costs are not checked."""
        return () if self.plan is None else tuple(map(printable, self.kinds.missing(self.plan)))

    @property
    def unproven(self) -> str:
        """What these envelopes leave open, in plain words; empty if they prove exactly what was charged.

        Only a closing ends a transcript: without one, later envelopes may have been omitted.
        """
        if self.not_installed:
            return f"query kind not installed: unproven, what it costs and releases: {', '.join(self.not_installed)}"
        unread = f"not installed: unproven, what is released in its cells: {', '.join(self._unread)}"
        return "; ".join(filter(None, (unread if self._unread else "", self._left_open)))

    @property
    def _left_open(self) -> str:
        """What the end of these envelopes leaves open; empty if nothing."""
        if self.state in (State.REFUSED, State.CLOSED):
            return ""
        if self.state is State.NEW:
            return "it ends before any proposal; whether a plan was proposed, and what it was charged, is not shown"
        if self.state is State.PROPOSED:
            cost = self.plan_cost
            most = "" if cost is None else f": up to {cost} may have been charged"
            return f"the proposal was never answered; whether the plan was accepted is not shown{most}"
        rest = self.epsilon_claimed - self.epsilon_spent
        if not rest:
            return ""
        text = "the close was never answered" if self.state is State.CLOSING else "the study was never closed"
        request = self._unanswered or self._pending
        if request is not None and isinstance(request.message, Query):
            cost = self.spending.uncertain
            text = f"query {request.message.sequence} was never answered and may have cost {cost}; {text}"
        return f"{text}: up to {rest} more than is proven here may have been charged"

    def feed(self, data: bytes) -> None:
        """Check the next envelope: signature, order, plan, exact cost and receipt.

        Raises:
            ReplayError: the envelope does not fit the study so far, or its receipt is wrong.
            RemoteProtocolError: the bytes are no envelope, a signature is wrong, or the answered request breaks the
                plan or the card.
        """
        self._position += 1
        envelope, message = open_envelope(data)
        from_learner = envelope.type in LEARNER_TYPES
        signer = self.learner if from_learner else self.curator
        verify(envelope, signer, label=LABEL if from_learner else self.label)
        self._require(message.sender == signer, "the sender is not the signer")
        recipients = {self.curator} if from_learner else {self.learner}
        if isinstance(message, Refusal):
            recipients.add(NOBODY)
        self._require(message.recipient in recipients, "the message is for somebody else")
        if isinstance(message, CardRequest):
            self._card_request = digest(data)
        elif isinstance(message, Card):
            self._feed_card(message)
        elif isinstance(message, Refusal) and message.answers == self._card_request:
            self.refusals.append(message.code)
        elif isinstance(message, StudyProposal | Query | StudyClose):
            identity = request_digest(message.sender, envelope.type, envelope.payload)
            self._feed_request(_Request(message, identity, digest(data)))
        else:
            self._feed_reply(data, message)

    def _feed_card(self, card: Card) -> None:
        self._require(card.answers == self._card_request, "the card answers another request")
        if self.card is not None and self.state is not State.NEW:
            same = card.most_records_per_unit == self.card.most_records_per_unit
            self._require(same, "the contribution bound changed within the study")
        self.card = card

    def _feed_request(self, request: _Request) -> None:
        in_vain = request.envelope in self._ruled_out
        if request.identity in self._identities and not in_vain:  # sent again
            return
        message = request.message
        if isinstance(message, StudyProposal):
            self._require(self.card is not None, "the plan is proposed before the card is known")
        else:
            self._require(message.study == self._study, "the request is of another study")
            self._require(message.answers == self._last_reply, "the request follows another reply")
        earlier = self._unanswered
        if self.state is State.ASKED and isinstance(message, StudyClose):
            earlier = self._pending
        self._require(earlier is None or not isinstance(message, Query), "the query before was never answered")
        last = self._released if earlier is None else earlier.message.sequence
        expected = 0 if isinstance(message, StudyProposal) else last + 1
        self._require(message.sequence == expected, "a request is missing, or its sequence is wrong")
        self._advance(TYPE_NAMES[type(message)])
        if isinstance(message, StudyProposal):
            self._study, self.plan, self._places = message.study, message.plan, message.plan.places
        elif isinstance(message, Query) and not in_vain:
            self.spending.ask(message.sequence, self._cost(message.sequence))
        self._pending, self._unanswered = request, earlier
        self._identities.add(request.identity)

    def _feed_reply(self, data: bytes, message: Message) -> None:
        kept_word = isinstance(message, Refusal) or message.answers not in self._ruled_out
        self._require(kept_word, "the curator answers what it had refused for good")
        waiting = [request for request in (self._pending, self._unanswered) if request is not None]
        request = next((request for request in waiting if message.answers == request.envelope), None)
        if request is None:
            self._feed_repeat(data, message)
            return
        if not (isinstance(message, Refusal) and message.recipient == NOBODY):
            same = (message.study, message.sequence) == (request.message.study, request.message.sequence)
            self._require(same, "the reply names another study or sequence")
        if isinstance(message, Refusal):
            self.refusals.append(message.code)
            if message.rules_out:
                self._rule_out(request)
        elif isinstance(message, StudyAccepted | Release | StudyClosed):
            self._feed_answer(data, message, request)
        else:
            raise ReplayError(f"envelope {self._position}: {TYPE_NAMES[type(message)]} is no reply of a study")

    def _feed_repeat(self, data: bytes, message: Message) -> None:
        """Check another reply to an answered request: it must be the same reply, or a refusal that retracts nothing."""
        if message.answers not in self._ruled_out:
            is_known = message.answers in self._answers
            self._require(is_known, "the reply answers another request")
            harmless = isinstance(message, Refusal) and not message.rules_out
            self._require(harmless or self._answers.get(message.answers) == digest(data), "two answers to one request")
        if isinstance(message, Refusal):
            self.refusals.append(message.code)

    def _rule_out(self, request: _Request) -> None:
        if request is self._unanswered:
            self._require(not self.spending.total_shown, "the curator refuses what its closing shows to be charged")
            self._unanswered = None
        else:
            self._advance(Event.REFUSAL)
            self._pending = None
        if isinstance(request.message, Query):
            self.spending.rule_out()
        self._ruled_out.add(request.envelope)

    def _feed_answer(self, data: bytes, message: StudyAccepted | Release | StudyClosed, request: _Request) -> None:
        late = request is self._unanswered
        if self.card is None or self.plan is None:
            raise ReplayError(f"envelope {self._position}: {TYPE_NAMES[type(message)]} without a card and a plan")
        self._require(isinstance(message, _REPLIES[type(request.message)]), "the reply is not of the kind asked for")
        receipt = open_receipt(message.receipt, self.curator, label=self.label)
        names = (receipt.request, receipt.learner, receipt.study, receipt.sequence)
        expected = (request.identity, self.learner, request.message.study, request.message.sequence)
        self._require(names == expected, "the receipt is for another request")
        body = digest(message.body) if isinstance(message, Release) else NO_DIGEST
        self._require(receipt.release == body, "the receipt is for another release")
        try:
            if isinstance(message, StudyAccepted):
                cost = None
                if not self.not_installed:
                    self._turns = self.kinds.turns(self.plan)
                    cost = self.kinds.plan_cost(self.plan, self.card.most_records_per_unit)
                    self._require(parse_amount(message.cost) == cost, "the quoted cost is not the plan's")
                self.spending.accept(message, receipt, cost)
            elif isinstance(message, Release):
                self._check_release(message, request.message, self.plan, self.card)
                self.spending.release(receipt)
                self.releases += 1
                self._released = request.message.sequence
            elif not self.spending.close(message, receipt) and self._unanswered is not None:
                self._ruled_out.add(self._unanswered.envelope)
                self._unanswered = None
        except RemoteProtocolError as error:
            raise ReplayError(f"envelope {self._position}: {error}") from error
        self._last_reply = self._answers[request.envelope] = digest(data)
        if late:
            self._unanswered = None
        else:
            self._advance(TYPE_NAMES[type(message)])
            self._pending = None

    def _cost(self, sequence: int) -> Fraction | None:
        """Exact cost of a query; 0 if it is beyond the plan, so that it can only be refused; None if unknown here."""
        if self._turns is None or self.card is None:
            return None
        if not 1 <= sequence <= len(self._turns):
            return Fraction(0)
        return self.kinds.charge(self._turns[sequence - 1], self._past, self.card.most_records_per_unit)

    def _check_release(self, message: Release, query: Message, plan: Plan, card: Card) -> None:
        """Check that a query was planned and, if its kind is installed, that the release answers it."""
        self._require(query.sequence <= len(self._places), "more releases than planned queries")
        name = plan.head(self._places[query.sequence - 1][0]).kind
        if isinstance(query, Query):
            self._require(query.kind == message.kind == name, "the kind is not the planned one")
            most = card.limits.message_bytes
            self._require(len(query.body) <= most, f"the question is too_large for the card: at most {most} bytes")
            if self._turns is None:
                return
            kind, turn = self.kinds.kind(name), self._turns[query.sequence - 1]
            terms = KindTerms(card.schema, self.kinds.limits(card.limits, name))
            try:
                body = kind.read_body(query.body, turn, terms)
            except NotInstalledError as error:
                self._unread |= {printable(error.part): None}
                return
            kind.read_release(message.body, Question(turn, body, card.schema))
            if kind.looks_back:
                self._past.append(Past(turn, message.body))

    def _advance(self, event: str) -> None:
        try:
            self.state = advance(self.state, Event(event))
        except LocalProtocolError as error:
            raise ReplayError(f"envelope {self._position}: {error}") from error

    def _require(self, fact: bool, complaint: str) -> None:
        if not fact:
            raise ReplayError(f"envelope {self._position}: {complaint}")


def replay(
    envelopes: Iterable[bytes], curator: bytes, learner: bytes, *, label: str = LABEL, kinds: Kinds = QUERY_KINDS
) -> Replay:
    """Replay a learner's whole exchange with one curator (card, proposal, queries, close), without data.

    Raises ReplayError, RemoteProtocolError: as `Replay.feed`.
    """
    state = Replay(curator=curator, learner=learner, label=label, kinds=kinds)
    for data in envelopes:
        state.feed(data)
    return state
