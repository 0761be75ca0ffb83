"""A curator that obeys the protocol and holds no record: it answers zeros. What is left is order, charge and memory.

It can be halted or out of reach, crash between charge and answer, and lose the answers that it kept.
"""

from dataclasses import dataclass, field
from fractions import Fraction

from learner_fakes import ATTRIBUTES, LEARNER, NOW, key
from limits_told import card_limits
from protocol.codec import decode, encode
from protocol.envelopes import digest, open_envelope, request_digest, seal, seal_receipt, verify
from protocol.errors import RemoteProtocolError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody, CountsRelease
from protocol.messages import (
    NO_DIGEST,
    NO_STUDY,
    NOBODY,
    SEALED_BYTES,
    Card,
    CardRequest,
    Query,
    Receipt,
    Refusal,
    Release,
    StudyAccepted,
    StudyClosed,
    StudyProposal,
)
from protocol.plans import Plan
from protocol.query_kind import KindTerms
from protocol.rationals import amount
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.schema import Schema

RESERVATION = 86_400


@dataclass
class Held:
    """One study in the curator's account."""

    plan: Plan
    cost: Fraction
    until: int
    last_reply: bytes
    spent: Fraction = Fraction(0)
    sequence: int = 0
    closed: bool = False


@dataclass
class ObedientCurator:
    """Attributes: what the test may change, then what the curator remembers."""

    name: str = "basel"
    cap: Fraction = Fraction(2)
    most: int = 1
    now: int = NOW
    halted: bool = False
    down: bool = False
    crashes: bool = False
    studies: dict = field(default_factory=dict)
    answers: dict = field(default_factory=dict)
    charged: dict = field(default_factory=dict)
    refused: dict = field(default_factory=dict)
    spent: Fraction = Fraction(0)
    head: bytes = bytes(32)
    draws: list = field(default_factory=list)

    @property
    def identity(self):
        return key(self.name).public

    def forget(self):
        """Lose every answer that is kept."""
        self.answers = dict.fromkeys(self.answers)

    def handle(self, data):
        try:
            envelope, message = open_envelope(data)
            verify(envelope, key(LEARNER).public)
        except RemoteProtocolError as error:
            return self._refuse(data, None, error)
        if self.down:
            return self._refuse(data, None, RemoteProtocolError(RefusalCode.UNAVAILABLE))
        identity = request_digest(message.sender, envelope.type, envelope.payload)
        try:
            if identity in self.answers:
                return self._kept(identity)
            if identity in self.charged:
                return self._release(data, message, identity)
            return self._serve(data, message, identity)
        except RemoteProtocolError as error:
            reply = self._refuse(data, message, error)
            if open_envelope(reply)[1].rules_out:
                self.refused[identity] = reply
            return reply

    def _serve(self, data, message, identity):
        if message.expires_at <= self.now:
            raise RemoteProtocolError(RefusalCode.EXPIRED)
        if identity in self.refused:
            return self.refused[identity]
        if isinstance(message, CardRequest):
            return self._seal(data, message, Card, **self._card())
        if self.halted:
            raise RemoteProtocolError(RefusalCode.HALTED)
        if isinstance(message, StudyProposal):
            return self._propose(data, message, identity)
        held = self.studies.get(message.study)
        if held is None:
            raise RemoteProtocolError(RefusalCode.UNKNOWN_STUDY)
        if held.closed:
            raise RemoteProtocolError(RefusalCode.STUDY_CLOSED)
        if held.until <= self.now:
            raise RemoteProtocolError(RefusalCode.STUDY_EXPIRED)
        return (
            self._query(data, message, identity, held)
            if isinstance(message, Query)
            else self._close(data, message, identity, held)
        )

    def _kept(self, identity):
        if self.answers[identity] is None:
            raise RemoteProtocolError(RefusalCode.ANSWER_GONE)
        return self.answers[identity]

    def _card(self):
        schema = Schema(ATTRIBUTES, "sick", ("no", "yes"))
        words = {"relation": "add or remove one privacy unit", "cap": amount(self.cap), "least_cost": "0"}
        bounds = {"most_records_per_unit": self.most, "round_size": 100, "limits": card_limits()}
        return {"name": self.name, "schema": schema, "unit": None, **words, **bounds}

    def _propose(self, data, message, identity):
        if message.study in self.studies:
            raise RemoteProtocolError(RefusalCode.CHANGED_CONTENT)
        cost = QUERY_KINDS.plan_cost(message.plan, self.most)
        if cost > self.cap - self.spent:
            raise RemoteProtocolError(RefusalCode.OVER_BUDGET)
        held = self.studies[message.study] = Held(message.plan, cost, self.now + RESERVATION, NO_DIGEST)
        terms = {"cost": amount(cost), "reserved_until": held.until}
        return self._answer(data, message, identity, StudyAccepted, **terms)

    def _query(self, data, message, identity, held):
        if message.sequence != held.sequence + 1 or message.answers != held.last_reply:
            raise RemoteProtocolError(RefusalCode.OUT_OF_ORDER)
        turns = QUERY_KINDS.turns(held.plan)
        if message.sequence > len(turns):
            raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN)
        turn = turns[message.sequence - 1]
        card, name = self._card(), turn.planned.kind
        QUERY_KINDS[name].read_body(
            message.body, turn, KindTerms(card["schema"], QUERY_KINDS.limits(card["limits"], name))
        )
        cost = QUERY_KINDS.cost(turn.planned, self.most)
        held.sequence += 1
        held.spent += cost
        self.spent += cost
        self._enter()
        self.charged[identity] = (cost, held.spent, self.spent, self.head)
        if self.crashes:
            self.crashes = False
            raise RemoteProtocolError(RefusalCode.UNAVAILABLE)
        return self._release(data, message, identity)

    def _release(self, data, message, identity):
        schema = self._card()["schema"]
        cells = sum(each.cell_count(schema) for each in decode(message.body, CountsBody).partitions)
        body = encode(CountsRelease(counts=bytes(8 * cells), ratios=b""))
        self.draws.append(identity)
        return self._answer(data, message, identity, Release, kind=message.kind, body=body)

    def _close(self, data, message, identity, held):
        if message.sequence <= held.sequence:
            raise RemoteProtocolError(RefusalCode.OUT_OF_ORDER)
        held.closed = True
        return self._answer(data, message, identity, StudyClosed, refunded=amount(held.cost - held.spent))

    def _answer(self, data, message, identity, kind, /, **fields):
        held = self.studies[message.study]
        if kind is not Release:
            self._enter()
        now = (Fraction(0), held.spent, self.spent, self.head)
        charged, by_study, by_learner, head = self.charged.get(identity, now)
        receipt = Receipt(
            curator=self.identity,
            learner=message.sender,
            study=message.study,
            sequence=message.sequence,
            request=identity,
            release=digest(fields["body"]) if kind is Release else NO_DIGEST,
            charged=amount(charged),
            spent_by_study=amount(by_study),
            spent_by_learner=amount(by_learner),
            ledger_head=head,
            position=bytes(SEALED_BYTES),
            issued_at=self.now,
        )
        reply = self._seal(data, message, kind, receipt=seal_receipt(receipt, key(self.name)), **fields)
        self.answers[identity] = reply
        held.last_reply = digest(reply)
        return reply

    def _enter(self):
        self.head = digest(self.head + b"entry")

    def _refuse(self, data, message, error):
        if error.code == RefusalCode.UNAVAILABLE:
            message = None
        words = {"explanation": EXPLANATIONS[error.code], "field": error.field, "limit": error.limit}
        return self._seal(data, message, Refusal, code=error.code, **words, remaining="", scale_factor="")

    def _seal(self, data, message, kind, /, **fields):
        header = {
            "study": message.study if message else NO_STUDY,
            "sender": self.identity,
            "recipient": message.sender if message else NOBODY,
            "sequence": message.sequence if message else 0,
            "answers": digest(data),
            "expires_at": self.now + 60,
        }
        return seal(kind(**header, **fields), key(self.name))
