"""The curator: `handle(bytes) -> bytes`.

Order of every answered query: verify, charge durably, compute, add noise, store the signed release together with the
entry that holds its digest, move the mark, send. A repeat of a request returns the stored bytes: no new noise, no new
charge. A refusal changes no budget and depends on the request, the policy and the ledger, never on a record. Data,
ledger, keys, clock and noise are passed in; transport is in `client_app`, the rules of each request in `requests`.
"""

import logging
import math
import secrets
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from threadpoolctl import ThreadpoolController

from curator_node.admission import (
    ENVELOPE_ROOM,
    STRAY,
    Meter,
    Proposal,
    Refusals,
    caps_of,
    check_in_time,
    check_next,
    check_not_ended,
    check_query,
    is_awaited,
    reserve,
)
from curator_node.answering import Answerer, Question, Seat, bounded_in, check_size
from curator_node.identities import Identities, Keys
from curator_node.kinds import ANSWERERS
from curator_node.ledger import (
    AnswerGoneError,
    BoundElsewhereError,
    HaltedError,
    InsufficientBudgetError,
    Ledger,
    Owed,
    StateGoneError,
    StoreFullError,
    StudyAccount,
    StudyKey,
    TooManyStudiesError,
)
from curator_node.ledger.sealing import StateSealer
from curator_node.mechanisms import NoiseSource, Stamp
from curator_node.policy import Policy, settled_limits
from curator_node.records.dataset import PrivateDataset
from curator_node.records.schema_file import StewardFile
from protocol.envelopes import (
    LABEL,
    LEARNER_TYPES,
    NOT_PRIVATE_LABEL,
    digest,
    open_envelope,
    request_digest,
    verify,
)
from protocol.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from protocol.ledger.entries import STATE_SEAL_BYTES
from protocol.ledger.terms import ledger_terms
from protocol.limits import Limits
from protocol.messages import (
    Card,
    CardRequest,
    Message,
    Query,
    Release,
    StudyAccepted,
    StudyClose,
    StudyClosed,
    StudyProposal,
)
from protocol.query_kind import Kinds, Past, Turn
from protocol.rationals import amount, shorten
from protocol.refusals import RETRIABLE, RefusalCode
from protocol.schema import Schema


def settled_terms(policy: Policy, kinds: Kinds, noise: NoiseSource) -> tuple[Limits, str]:
    """A policy's limits with every default written out, and the label under which answers are signed.

    Raises:
        ConfigurationError: noise from a seed without `simulation = true`, or as `settled_limits`.
    """
    if noise.seeded and not policy.simulation:
        raise ConfigurationError("noise from a seed is for simulations; the policy does not say simulation = true")
    limits = settled_limits(policy, kinds)
    return limits, NOT_PRIVATE_LABEL if noise.seeded or not kinds.private(limits) else LABEL


def card(header: Mapping[str, Any], policy: Policy, steward: StewardFile, limits: Limits, relation: str) -> Card:
    """What a learner reads of a curator before it asks.

    Args:
        header: of the reply; its recipient is the learner.
        policy: the steward's.
        steward: the schema file.
        limits: see `settled_terms`.
        relation: between two sets of records that the answers protect, in words.
    """
    return Card(
        **header,
        name=policy.name,
        schema=steward.schema,
        unit=steward.unit,
        most_records_per_unit=steward.most_records_per_unit,
        relation=relation,
        round_size=steward.round_size,
        limits=limits,
        cap=amount(policy.cap_of(header["recipient"])),
        least_cost=amount(policy.least),
    )


def bind_known(ledger: Ledger, policy: Policy, now: int) -> None:
    """Bind every key that the ledger has seen to the name under which the policy has it, with what it has spent.

    So a key that is taken out of the policy later leaves its spending with its learner.

    Raises:
        BoundElsewhereError: one is bound to another name.
    """
    for key, learner in policy.keys.items():
        known = ledger.account.name_of(key)
        if known != learner.name and (known or key in ledger.account.ordinals):
            ledger.enrol(key, learner.name, now)


def is_bound_elsewhere(ledger: Ledger, policy: Policy, key: bytes) -> bool:
    """Whether the ledger knows a key under another name than the policy: its steward must say which is right."""
    learner, known = policy.learner(key), ledger.account.name_of(key)
    return bool(known) and (learner is None or learner.name != known)


class Questions:
    """The questions of a curator.

    Args:
        ledger: stored replies and states.
        kinds: the query kinds that the curator can answer.
        identities: sign for it.
        keys: those that seal what answerers keep.
        entropy: n -> n random bytes, for nonces.
    """

    def __init__(
        self, ledger: Ledger, kinds: Kinds, identities: Identities, keys: Keys, entropy: Callable[[int], bytes]
    ) -> None:
        self._ledger = ledger
        self._kinds = kinds
        self._identities = identities
        self._entropy = entropy
        self._sealer = StateSealer(keys.newest_first, entropy)

    def put(
        self, message: Query, study: StudyAccount, turn: Turn, body: Any, policy: Policy, schema: Schema
    ) -> Question:
        """The question of a message, as its answerer gets it.

        Args:
            message: a query, checked so far.
            study: its own.
            turn: of the plan.
            body: as its kind read it.
            policy: of today.
            schema: of today.

        Raises:
            StateGoneError, AnswerGoneError: something that it needs is missing or was changed.
        """
        kind = self._kinds.kind(turn.planned.kind)
        learner = policy.learner(message.sender)
        return Question(
            body=body,
            turn=turn,
            past=self._past(study, message.sequence) if kind.looks_back else (),
            state=self._state(study.key, kind.name) if kind.state_bytes else b"",
            stamp=Stamp(learner.name if learner else "", study.ordinal, message.sequence),
            seat=self._seat(message),
            schema=schema,
        )

    def room(self, question: Question) -> int:
        """Most bytes that are stored with the answer to a question."""
        kind = self._kinds.kind(question.turn.planned.kind)
        kept = kind.state_bytes + STATE_SEAL_BYTES if kind.state_bytes else 0
        return ENVELOPE_ROOM + kind.release_bytes(question.body, question.turn, question.schema) + kept

    def sealed(self, state: bytes | None, study: StudyKey, kind: str) -> tuple[str, bytes] | None:
        """What the ledger stores of an answerer's state: its kind, and bytes that the curator alone can read."""
        return None if state is None else (kind, self._sealer.seal(state, study, kind))

    def _seat(self, message: Query) -> Seat:
        """A request is answered as whom it was addressed to; that may be one of the curator's former keys."""
        identity, identities = message.recipient, self._identities
        return Seat(identity, identities.label, message.sender, partial(identities.say, identity), self._entropy)

    def _state(self, study: StudyKey, kind: str) -> bytes:
        sealed = self._ledger.state(study, kind)
        if not sealed:
            return b""
        state = self._sealer.open(sealed, study, kind)
        if state is None:
            raise StateGoneError(self._ledger.account.states[study, kind].index)
        return state

    def _past(self, study: StudyAccount, sequence: int) -> tuple[Past, ...]:
        """The answered turns of a query's kind before it, from stored replies; AnswerGoneError where one is gone."""
        name = study.kind_of(sequence)
        past = []
        for earlier, reply in self._ledger.replies(study.key):
            message = open_envelope(reply)[1]
            if isinstance(message, Release) and message.kind == name and earlier < sequence:
                past.append(Past(self._kinds.turn(study.plan, study.places[earlier - 1]), message.body))
        return tuple(past)


log = logging.getLogger(__name__)


class Curator:
    """One curator.

    Args:
        dataset: its private records.
        ledger: its durable budget.
        keys: its signing key, and those that it had before.
        policy: its steward's.
        clock: seconds since 1970 as an int.
        noise: where noise comes from.
        entropy: n -> n random bytes, for nonces; never for noise.
        answerers: of the query kinds that it can answer, by name; the policy says which of them it may.

    Attributes:
        policy: its steward's.
        waits: is told the identity of each study whose proposal begins to wait for the steward.
        label: under which it signs; not the production label where its releases are not private as claimed.
        lock: held while the ledger is used; not while records are counted.

    Raises:
        ConfigurationError: noise from a seed without `simulation = true` in the policy, limits of query kinds that
            cannot be read, or that allow what is not private with so many records, or a ledger that was kept for
            another privacy unit, or for releases that were not private.
    """

    def __init__(
        self,
        *,
        dataset: PrivateDataset,
        ledger: Ledger,
        keys: Keys,
        policy: Policy,
        clock: Callable[[], int],
        noise: NoiseSource,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
        answerers: Mapping[str, Answerer] = ANSWERERS,
    ) -> None:
        self._dataset = dataset
        self._ledger = ledger
        self._clock = clock
        self._noise = noise
        self._answerers = dict(answerers)
        self._kinds = Kinds(*(answerer.kind for answerer in answerers.values()))
        self.policy = policy
        self.waits: Callable[[bytes], None] = lambda study: None  # noqa: ARG005
        self._limits, self.label = settled_terms(policy, self._kinds, noise)
        check_size(self._limits, self._answerers, len(dataset.records))
        ledger.begin(ledger_terms(dataset.steward.unit, self.label), clock())
        bind_known(ledger, policy, clock())
        self._identities = Identities(keys, self.label, entropy)
        self._questions = Questions(ledger, self._kinds, self._identities, keys, entropy)
        self._meter = Meter()
        self._refusals = Refusals(ledger, policy, clock, self._meter)
        # The ledger's lock is never held while records are counted: cards, closes and refusals do not wait for a count.
        self.lock = self._lock = threading.RLock()
        self._counting = threading.Lock()
        # Work is stated for one core; several BLAS threads that spin on small products take longer than one.
        self._threads = ThreadpoolController()
        self._in_hand: set[bytes] = set()

    @property
    def identity(self) -> bytes:
        """The curator's public key."""
        return self._identities.current

    @property
    def identities(self) -> tuple[bytes, ...]:
        """Every public key to which requests are answered now, its own in front."""
        return self._identities.served(self._clock())

    def adopt(self, policy: Policy) -> None:
        """Go on under another policy, from the next request on; one that is wrong changes nothing.

        Raises:
            ConfigurationError: as when a curator is made; or its answers would be private in another way, or it newly
                allows what is private up to a number of records only: then the curator must be started anew.
        """
        limits, label = settled_terms(policy, self._kinds, self._noise)
        if bounded_in(limits, self._answerers).keys() - bounded_in(self._limits, self._answerers).keys():
            # Whether there are too many records for it is seen when the curator starts, and then by nobody else.
            raise ConfigurationError(
                "a policy that newly allows what is private up to a number of records is taken up when the curator "
                "starts; stop it, start it"
            )
        if (policy.simulation, label) != (self.policy.simulation, self.label):
            raise ConfigurationError("what a simulation may do changes only when the curator starts; stop it, start it")
        with self._lock:
            self._ledger.refresh(self._clock())
            bind_known(self._ledger, policy, self._clock())
            self.policy = self._refusals.policy = policy
            self._limits = limits

    def handle(self, data: bytes) -> bytes:
        """Answer one envelope with one envelope; raises only where clock or key do. Several threads may call it.

        Whatever else goes wrong inside becomes a refusal with a constant text. The steward's log gets the kind of
        error, never its text, which could hold a value.
        """
        try:
            return self._answer(data)
        except Exception as error:  # noqa: BLE001 - the last wall: no exception text may cross the wire
            log.error("a request could not be served: %s", type(error).__name__)  # noqa: TRY400
            return self._refuse(data, None, b"", RemoteProtocolError(RefusalCode.UNAVAILABLE))

    def _answer(self, data: bytes) -> bytes:
        try:
            message, identity = self._authenticate(data)
        except RemoteProtocolError as error:
            return self._stray(data, None, error)
        try:
            return self._serve(data, message, identity)
        except InsufficientBudgetError as error:
            remaining = shorten(error.remaining, math.floor)
            factor = amount(error.requested / remaining) if remaining else ""
            refusal = RemoteProtocolError(RefusalCode.OVER_BUDGET, "plan", f"a cost of at most {remaining}")
            return self._refuse(data, message, identity, refusal, scale_factor=factor)
        except AnswerGoneError as error:
            if not error.evicted:
                log.error("the stored reply of ledger entry %d is missing or changed", error.index)  # noqa: TRY400
            # The ledger remembers this one, whoever sends it again.
            return self._refuse(data, message, b"", RemoteProtocolError(RefusalCode.ANSWER_GONE))
        except RemoteProtocolError as error:
            if error.code in STRAY:
                return self._stray(data, message, error)
            return self._refuse(data, message, identity, error)

    def _authenticate(self, data: bytes) -> tuple[Message, bytes]:
        """Bytes to a verified message of a known learner, and its request digest."""
        envelope, message = open_envelope(data, limit=self.policy.limits.message_bytes, types=LEARNER_TYPES)
        verify(envelope, message.sender)
        if not self.policy.admits(message.sender, self._clock()):
            raise RemoteProtocolError(RefusalCode.UNKNOWN_SENDER)
        return message, request_digest(message.sender, envelope.type, envelope.payload)

    def _serve(self, data: bytes, message: Message, identity: bytes) -> bytes:
        if not self._identities.serves(message.recipient, self._clock()):
            raise RemoteProtocolError(RefusalCode.WRONG_RECIPIENT)
        with self._lock:
            now = self._clock()
            self._ledger.refresh(now)
            if is_bound_elsewhere(self._ledger, self.policy, message.sender):
                return self._stray(data, None, RemoteProtocolError(RefusalCode.UNKNOWN_SENDER))
            if self._ledger.answered(identity):
                return self._settled(self._ledger.reply(identity))
            owed = self._ledger.took_effect(identity)
            if not owed:
                check_in_time(message, identity, now, self.policy, self._ledger)
            self._refusals.check(identity)
            limit = self._meter.complaint_about(message, identity, now, self.policy)
            if limit and not owed and not is_awaited(self._ledger, identity, now):
                raise RemoteProtocolError(RefusalCode.TOO_MANY_REQUESTS, "", limit)
            if identity in self._in_hand:
                raise RemoteProtocolError(RefusalCode.BUSY)
            if isinstance(message, CardRequest):
                header, relation = self._header(data, message), self._kinds.relation(self._limits)
                return self._identities.seal(card(header, self.policy, self._dataset.steward, self._limits, relation))
            self._ledger.expire(now)
            self._in_hand.add(identity)
        try:
            return self._take(data, message, identity)
        except HaltedError:
            raise RemoteProtocolError(RefusalCode.HALTED) from None
        except StoreFullError:
            raise RemoteProtocolError(RefusalCode.STORE_FULL) from None
        except BoundElsewhereError:
            raise RemoteProtocolError(RefusalCode.UNKNOWN_SENDER) from None
        except TooManyStudiesError as error:
            raise RemoteProtocolError(RefusalCode.TOO_MANY_STUDIES, "", str(error)) from None
        except LocalProtocolError:
            raise RemoteProtocolError(RefusalCode.OUT_OF_ORDER) from None
        finally:
            with self._lock:
                self._in_hand.discard(identity)

    def _take(self, data: bytes, message: Message, identity: bytes) -> bytes:
        match message:
            case Query():
                return self._query(data, message, identity)
            case StudyProposal():
                with self._lock:
                    return self._propose(data, message, identity)
            case StudyClose():
                with self._lock:
                    return self._close(data, message, identity)
        raise RemoteProtocolError(RefusalCode.MALFORMED, "envelope.type", "a request of a learner")

    def _propose(self, data: bytes, message: StudyProposal, identity: bytes) -> bytes:
        now = self._clock()
        if message.newest_receipt:  # it is of all keys of its learner: this one may have been bound on a lost branch
            self._ledger.enrol(message.sender, caps_of(self.policy, message.sender).name, now)
        self._identities.check(message.newest_receipt, self._ledger, now)
        if not self._ledger.took_effect(identity):
            steward, asked = self._dataset.steward, Proposal(data, message, identity, now)
            reserve(asked, self._ledger, self.policy, self._kinds, steward, self.waits)
        study = self._study(message)

        def accept(owed: Owed) -> bytes:
            accepted = StudyAccepted(
                **self._header(data, message),
                cost=amount(owed.amount),
                reserved_until=study.expires_at,
                receipt=self._identities.receipt(message, self._ledger.account, owed, identity, now),
            )
            return self._identities.seal(accepted)

        return self._settled(self._ledger.answer(identity, accept, now))

    def _query(self, data: bytes, message: Query, identity: bytes) -> bytes:
        try:
            return self._released(data, message, identity)
        except RemoteProtocolError as error:
            with self._lock:
                charged = self._ledger.took_effect(identity)
            if error.code in RETRIABLE or not charged:
                raise
            # The steward changed something between charge and answer. Any other final code would deny the charge.
            raise RemoteProtocolError(RefusalCode.ANSWER_GONE, error.field, error.limit) from None

    def _released(self, data: bytes, message: Query, identity: bytes) -> bytes:
        with self._lock:
            study = self._study(message)
            if not self._ledger.took_effect(identity):
                check_next(message, study)
        body, turn = check_query(message, study, self._kinds, self._dataset.steward, self.policy)
        with self._lock:
            now = self._clock()
            self._ledger.refresh(now)
            if self._ledger.answered(identity):  # by another process, meanwhile
                return self._settled(self._ledger.reply(identity))
            question = self._charge(message, identity, turn, body, now)
        with self._counting, self._threads.limit(limits=1, user_api="blas"):
            answered = self._answerers[message.kind].answer(question, self._dataset, self._noise)

        def release(owed: Owed) -> bytes:
            # Stamped with the time before the count: how long it took may depend on the records.
            account, made = self._ledger.account, digest(answered.release)
            receipt = self._identities.receipt(message, account, owed, identity, now, release=made)
            header = self._header(data, message, now)
            return self._identities.seal(Release(**header, kind=message.kind, body=answered.release, receipt=receipt))

        noted = self._kinds.kind(message.kind).noted
        note = noted(answered.release, body, turn) if noted else ""
        with self._lock:
            state = self._questions.sealed(answered.state, study.key, message.kind)
            return self._settled(self._ledger.answer(identity, release, now, state=state, note=note))

    def _charge(self, message: Query, identity: bytes, turn: Turn, body: Any, now: int) -> Question:
        """Charge a question; all that its answerer needs beside the records is read, and checked by it, before."""
        study = self._study(message)
        kind, bound = self._kinds.kind(turn.planned.kind), self._dataset.steward.most_records_per_unit
        if self._kinds.cost(turn.planned, bound) != study.costs[turn.query]:
            # The steward changed the unit bound: what was reserved, or already charged, is not the price.
            raise RemoteProtocolError(RefusalCode.TERMS_CHANGED)
        known = self._ledger.took_effect(identity)
        if not known:
            check_next(message, study)
        try:
            question = self._questions.put(message, study, turn, body, self.policy, self._dataset.schema)
        except (StateGoneError, AnswerGoneError) as error:
            if isinstance(error, AnswerGoneError) and error.evicted:
                raise
            log.error("what was kept of ledger entry %d is missing or changed", error.index)  # noqa: TRY400
            raise RemoteProtocolError(RefusalCode.STATE_GONE) from None
        if not known:
            self._answerers[kind.name].check(question)
            cost = self._kinds.charge(turn, question.past, bound)
            self._ledger.make_room(self._questions.room(question), self.policy.reply_bytes, now)
            caps, remark = caps_of(self.policy, message.sender), kind.remark(body, turn)
            self._ledger.charge(study.key, message.sequence, cost, identity, now, caps, note=remark)
        return question

    def _close(self, data: bytes, message: StudyClose, identity: bytes) -> bytes:
        now = self._clock()
        study = self._study(message)
        if not self._ledger.took_effect(identity):
            check_not_ended(study)
            if message.sequence <= study.sequence:
                raise RemoteProtocolError(RefusalCode.OUT_OF_ORDER, "sequence", "the next sequence of the study")
            self._ledger.close_study(study.key, message.sequence, identity, now)

        def close(owed: Owed) -> bytes:
            receipt = self._identities.receipt(message, self._ledger.account, owed, identity, now)
            return self._identities.seal(
                StudyClosed(**self._header(data, message), refunded=amount(owed.amount), receipt=receipt)
            )

        return self._settled(self._ledger.answer(identity, close, now))

    def _settled(self, reply: bytes) -> bytes:
        """A reply that may leave: this process's mark is at, or after, what it rests on."""
        self._ledger.settle()
        return reply

    def _study(self, message: Message) -> StudyAccount:
        study = self._ledger.account.studies.get(StudyKey(message.sender, message.study))
        if study is None:
            raise RemoteProtocolError(RefusalCode.UNKNOWN_STUDY)
        return study

    def _stray(self, data: bytes, message: Message | None, error: RemoteProtocolError) -> bytes:
        """Refuse what no learner answers for: it counts on the channel alone, and is not remembered."""
        with self._lock:
            self._meter.stray(self._clock(), self.policy)
        return self._refuse(data, message, b"", error)

    def _refuse(
        self,
        data: bytes,
        message: Message | None,
        identity: bytes,
        error: RemoteProtocolError,
        *,
        scale_factor: str = "",
    ) -> bytes:
        """A signed refusal; a final one is remembered, so that the same request never gets another answer.

        With no digest of the request, nothing is remembered.
        """
        with self._lock:
            header = self._header(data, message)
            if error.code == RefusalCode.WRONG_RECIPIENT:
                header["sender"] = self.identity
            refusal = self._refusals.write(header, message, identity, error, scale_factor)
        log.info("refused: %s", refusal.code)
        return self._identities.seal(refusal)

    def _header(self, data: bytes, message: Message | None, now: int | None = None) -> dict[str, Any]:
        at = self._clock() if now is None else now
        return self._identities.header(data, message, at + self.policy.message_seconds)
