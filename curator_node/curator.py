"""The curator: `handle(bytes) -> bytes`.

Order of every answered query: verify, charge durably, compute, add noise, store the signed release together with the
entry that holds its digest, move the mark, send. A repeat of a request returns the stored bytes: no new noise, no new
charge. A refusal changes no budget and depends on the request, the policy and the ledger, never on a record.

Data, ledger, keys, clock and noise are passed in. `admission` holds the rules for each request, `client_app` the
transport.
"""

import logging
import math
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from typing import Any

from threadpoolctl import LibController, ThreadpoolController

from curator_node.admission import (
    ENVELOPE_ROOM,
    STRAY,
    Meter,
    PendingRequest,
    Refusals,
    check_in_time,
    check_next,
    check_not_ended,
    check_query,
    is_awaited,
    reserve,
    settled_terms,
)
from curator_node.answering import Answerer, CuratorQuestion, Seat, check_size, record_bounds
from curator_node.identities import Identities, Keys
from curator_node.kinds import ANSWERERS
from curator_node.ledger import (
    AnswerGoneError,
    BoundElsewhereError,
    HaltedError,
    InsufficientBudgetError,
    Ledger,
    OvertakenError,
    Owed,
    StateGoneError,
    StoreFullError,
    StudyAccount,
    StudyKey,
    TooManyStudiesError,
)
from curator_node.ledger.sealing import StateSealer
from curator_node.mechanisms import NoiseSource, Stamp
from curator_node.policy import Policy
from curator_node.records.dataset import PrivateDataset
from protocol.envelopes import (
    LEARNER_TYPES,
    digest,
    open_envelope,
    request_digest,
    verify,
)
from protocol.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from protocol.ledger.entries import STATE_SEAL_BYTES, ledger_terms
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
from protocol.query_kind import Kinds, Past, Question, table_of
from protocol.rationals import amount, shorten
from protocol.refusals import RETRIABLE, RefusalCode

log = logging.getLogger(__name__)


def bind_known(ledger: Ledger, policy: Policy, now: int) -> None:
    """Bind every key that the ledger has seen, with its spending, to the learner's name in the policy.

    If a key is taken out of the policy later, its spending stays with its learner.

    Raises:
        BoundElsewhereError: a key is bound to another name.
    """
    for key, learner in policy.keys.items():
        bound_name = ledger.account.name_of(key)
        if bound_name != learner.name and (bound_name or key in ledger.account.ordinals):
            ledger.enrol(key, learner.name, now)


@contextmanager
def as_refusals(request: PendingRequest) -> Iterator[None]:
    """Turn an error of the ledger into the refusal that the learner gets.

    A query that was already charged is refused with ANSWER_GONE, unless it may be sent again: any other code would deny
    the charge. This happens if the steward changed something between charge and answer.
    """
    try:
        yield
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
    except RemoteProtocolError as error:
        if not isinstance(request.message, Query) or not request.took_effect or error.code in RETRIABLE:
            raise
        raise RemoteProtocolError(RefusalCode.ANSWER_GONE, error.field, error.limit) from None


@lru_cache(maxsize=1)
def _linear_algebra(modules: int) -> tuple[LibController, ...]:  # noqa: ARG001 - more may have loaded another library
    """The process's libraries with threads of their own; many curators share what takes milliseconds to find."""
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def _one_thread(libraries: Sequence[LibController]) -> Iterator[None]:
    """One thread for each library meanwhile. One that has no more is left alone, which takes a tenth of the time."""
    numbers = [(library, library.get_num_threads()) for library in libraries]
    wider = [(library, number) for library, number in numbers if number != 1]
    for library, _ in wider:
        library.set_num_threads(1)
    try:
        yield
    finally:
        for library, number in wider:
            library.set_num_threads(number)


class Curator:
    """One curator.

    Args:
        dataset: its private records.
        ledger: its durable budget.
        keys: its signing key, and those that it had before.
        policy: what its steward allows.
        clock: seconds since 1970 as an int.
        noise: where noise comes from.
        entropy: n -> n random bytes, for nonces; never for noise.
        answerers: of the query kinds that it can answer, by name; the policy says which of them it may.

    Attributes:
        waits: called with the identity of each study whose proposal begins to wait for the steward.
        lock: the ledger's; held while its account is used, but not while records are counted.

    Raises:
        ConfigurationError: the noise is seeded, but the policy does not say `simulation = true`; limits of a query kind
            cannot be read, or allow a method that is not private with so many records; or the ledger was kept for
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
        self._kinds = table_of(answerer.kind for answerer in answerers.values())
        self.waits: Callable[[bytes], None] = lambda study: None  # noqa: ARG005
        self._terms = settled_terms(policy, self._kinds, noise)
        check_size(self._terms.limits, self._answerers, len(dataset.records))
        ledger.begin(ledger_terms(dataset.steward.unit, self.label), clock())
        bind_known(ledger, policy, clock())
        self._identities = Identities(keys, self.label, entropy)
        self._sealer = StateSealer(keys.newest_first, entropy)
        self._entropy = entropy
        self._meter = Meter()
        self._refusals = Refusals(ledger, clock, self._meter)
        # Not held while a question is read, charged, counted or answered: only what the ledger itself does is in turn
        self.lock = self._lock = ledger.lock
        self._counting = threading.Lock()
        # Work is stated for one core; several BLAS threads that spin on small products take longer than one.
        self._threads = _linear_algebra(len(sys.modules))
        self._in_hand: set[bytes] = set()

    @property
    def kinds(self) -> Kinds:
        """The query kinds that it can answer."""
        return self._kinds

    @property
    def policy(self) -> Policy:
        """The policy that is in force now."""
        return self._terms.policy

    @property
    def label(self) -> str:
        """The label under which the curator signs.

        It is the production label only if its releases are private as claimed.
        """
        return self._terms.label

    @property
    def identity(self) -> bytes:
        """The curator's public key."""
        return self._identities.current

    @property
    def identities(self) -> tuple[bytes, ...]:
        """Every public key to which requests are answered now, the current one first."""
        return self._identities.served(self._clock())

    def adopt(self, policy: Policy) -> None:
        """Serve under another policy from the next request on. A policy that raises an error changes nothing.

        Raises:
            ConfigurationError: a curator could not be made with this policy; or its answers would be private in another
                way; or it names other plug-ins or another source of noise; or it newly allows a method that is private
                only up to some number of records. In all but the first case the curator must be started anew.
        """
        if policy.plug_ins != self.policy.plug_ins:
            raise ConfigurationError("plug-ins are loaded when the curator starts; stop it, start it")
        if policy.noise != self.policy.noise:
            raise ConfigurationError("the source of noise is chosen when the curator starts; stop it, start it")
        terms = settled_terms(policy, self._kinds, self._noise)
        bounds = partial(record_bounds, answerers=self._answerers)
        if bounds(terms.limits).keys() - bounds(self._terms.limits).keys():
            # Whether there are too many records for it is seen when the curator starts, and then by nobody else.
            raise ConfigurationError(
                "a policy that newly allows what is private up to a number of records is taken up when the curator "
                "starts; stop it, start it"
            )
        if (policy.simulation, terms.label) != (self.policy.simulation, self.label):
            raise ConfigurationError("what a simulation may do changes only when the curator starts; stop it, start it")
        with self._lock:
            self._ledger.refresh(self._clock())
            bind_known(self._ledger, policy, self._clock())
            self._terms = terms

    def handle(self, data: bytes) -> bytes:
        """Answer one envelope with one envelope. Several threads may call it.

        Only errors of the clock or of the key are raised. Any other error becomes a refusal with a constant text. The
        steward's log gets the error's type, never its text, which could hold a value.
        """
        try:
            return self._answer(data)
        except Exception as error:  # noqa: BLE001 - the last wall: no exception text may cross the wire
            log.error("a request could not be served: %s", type(error).__name__)  # noqa: TRY400
            return self._refuse(data, None, b"", RemoteProtocolError(RefusalCode.UNAVAILABLE))

    def _answer(self, data: bytes) -> bytes:
        message: Message | None = None
        identity = b""
        try:
            message, identity = self._authenticate(data)
            while True:
                # Whenever this goes round again, another process has entered something: somebody is served.
                with suppress(OvertakenError):
                    return self._serve(data, message, identity)
        except BoundElsewhereError:
            return self._stray(data, None, RemoteProtocolError(RefusalCode.UNKNOWN_SENDER))
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
            if message is None or error.code in STRAY:
                return self._stray(data, message, error)
            return self._refuse(data, message, identity, error)

    def _authenticate(self, data: bytes) -> tuple[Message, bytes]:
        """Verify an envelope. Returns the message of a known learner and the digest of the request."""
        envelope, message = open_envelope(data, limit=self.policy.limits.message_bytes, types=LEARNER_TYPES)
        verify(envelope, message.sender)
        if not self.policy.admits(message.sender, self._clock()):
            raise RemoteProtocolError(RefusalCode.UNKNOWN_SENDER)
        return message, request_digest(message.sender, envelope.type, envelope.payload)

    def _serve(self, data: bytes, message: Message, identity: bytes) -> bytes:
        """The reply to a verified message. While a query is served, the lock is held only until it is in hand."""
        if not self._identities.serves(message.recipient, self._clock()):
            raise RemoteProtocolError(RefusalCode.WRONG_RECIPIENT)
        with self._lock:
            now = self._clock()
            self._ledger.refresh(now)
            account, caps = self._ledger.account, self._terms.caps(message.sender)
            bound_name = account.name_of(message.sender)
            if bound_name not in ("", caps.name):  # its steward must say which name is right
                raise BoundElsewhereError(message.sender, bound_name, caps.name)
            if self._ledger.answered(identity):
                return self._settled(self._ledger.reply(identity), identity)
            study = account.studies.get(StudyKey(message.sender, message.study))
            took_effect = self._ledger.took_effect(identity)
            request = PendingRequest(data, message, identity, now, self.policy, caps, study, took_effect)
            self._check_attention(request)
            if isinstance(message, CardRequest):
                return self._card(request)
            if not isinstance(message, Query):
                self._ledger.expire(now)
                with as_refusals(request):
                    return self._settle_terms(request, message)
            self._in_hand.add(identity)
        try:
            self._ledger.expire(now)
            with as_refusals(request):
                return self._release(request, message, self._charge(request, message))
        finally:
            with self._lock:
                self._in_hand.discard(identity)

    def _settle_terms(self, request: PendingRequest, message: Message) -> bytes:
        """The reply to a proposal or a closing."""
        match message:
            case StudyProposal():
                return self._propose(request, message)
            case StudyClose():
                return self._close(request, message)
        raise RemoteProtocolError(RefusalCode.MALFORMED, "envelope.type", "a request of a learner")

    def _check_attention(self, request: PendingRequest) -> None:
        """Raise if a request is late, was finally refused, exceeds its learner's limits, or is being answered now."""
        if not request.took_effect:
            check_in_time(request, self._ledger)
        self._refusals.check(request.identity)
        limit = self._meter.complaint_about(request)
        if limit and not request.took_effect and not is_awaited(request, self._ledger):
            raise RemoteProtocolError(RefusalCode.TOO_MANY_REQUESTS, "", limit)
        if request.identity in self._in_hand:
            raise RemoteProtocolError(RefusalCode.BUSY)

    def _card(self, request: PendingRequest) -> bytes:
        """The signed card, which a learner reads before it asks."""
        steward, policy = self._dataset.steward, request.policy
        card = Card(
            **self._header(request.data, request.message),
            name=policy.name,
            schema=steward.schema,
            unit=steward.unit,
            most_records_per_unit=steward.most_records_per_unit,
            relation=self._kinds.relation(self._terms.limits),
            round_size=steward.round_size,
            limits=self._terms.limits,
            cap=amount(request.caps.learner),
            least_cost=amount(policy.least),
        )
        return self._identities.seal(card)

    def _propose(self, request: PendingRequest, message: StudyProposal) -> bytes:
        now, identity = request.now, request.identity
        if message.newest_receipt:  # it is of all keys of its learner: this one may have been bound on a lost branch
            self._ledger.enrol(message.sender, request.caps.name, now)
        self._identities.check(message.newest_receipt, self._ledger, now)
        if not request.took_effect:
            reserve(request, message, self._ledger, self._kinds, self._dataset.steward, self.waits)
        study = self._ledger.account.studies[StudyKey(message.sender, message.study)]

        def accept(owed: Owed) -> bytes:
            accepted = StudyAccepted(
                **self._header(request.data, message),
                cost=amount(owed.amount),
                reserved_until=study.expires_at,
                receipt=self._identities.receipt(message, self._ledger.account, owed, identity, now),
            )
            return self._identities.seal(accepted)

        return self._settled(self._ledger.answer(identity, accept, now), identity)

    def _charge(self, request: PendingRequest, message: Query) -> CuratorQuestion:
        """Charge a query.

        Before the charge, its answerer checks the question and everything that it needs except the records.
        """
        study, policy, steward = request.known_study(), request.policy, self._dataset.steward
        if not request.took_effect:
            check_next(message, study)
        checked = check_query(message, study, self._kinds, steward, policy)
        turn = checked.turn
        kind, bound = self._kinds.kind(turn.planned.kind), steward.most_records_per_unit
        if self._kinds.cost(turn.planned, bound) != study.costs[turn.query]:
            # The steward changed the unit bound: what was reserved, or already charged, is not the price.
            raise RemoteProtocolError(RefusalCode.TERMS_CHANGED)
        try:
            question = self._question(request, message, checked)
        except (StateGoneError, AnswerGoneError) as error:
            if isinstance(error, AnswerGoneError) and error.evicted:
                raise
            log.error("what was kept of ledger entry %d is missing or changed", error.index)  # noqa: TRY400
            raise RemoteProtocolError(RefusalCode.STATE_GONE) from None
        if not request.took_effect:
            self._answerers[kind.name].check(question)
            cost = self._kinds.charge(turn, question.past, bound)
            self._ledger.make_room(self._room(question), policy.reply_bytes, request.now)
            note = kind.charge_note(checked)
            self._ledger.charge(
                study.key, message.sequence, cost, request.identity, request.now, request.caps, note=note
            )
            request.took_effect = True
        return question

    def _question(self, request: PendingRequest, message: Query, checked: Question) -> CuratorQuestion:
        """A checked query as its answerer gets it.

        Raises StateGoneError or AnswerGoneError if a kept state or an answer is gone.
        """
        study, identities = request.known_study(), self._identities
        kind, identity = self._kinds.kind(checked.turn.planned.kind), message.recipient
        return CuratorQuestion(
            turn=checked.turn,
            body=checked.body,
            schema=self._dataset.schema,
            past=self._past(study, message.sequence) if kind.looks_back else (),
            state=self._state(study.key, kind.name) if kind.state_bytes else b"",
            stamp=Stamp(request.caps.name, study.ordinal, message.sequence),
            # Answered as whom it was addressed to; that may be one of the curator's former keys.
            seat=Seat(identity, identities.label, message.sender, partial(identities.say, identity), self._entropy),
        )

    def _room(self, question: CuratorQuestion) -> int:
        """Most bytes that are stored with the answer to a question."""
        kind = self._kinds.kind(question.turn.planned.kind)
        state_bytes = kind.state_bytes + STATE_SEAL_BYTES if kind.state_bytes else 0
        return ENVELOPE_ROOM + kind.release_bytes(question) + state_bytes

    def _state(self, study: StudyKey, kind: str) -> bytes:
        """The decrypted state that a kind's answerer last kept of a study.

        Raises StateGoneError if it cannot be decrypted.
        """
        sealed = self._ledger.state(study, kind)
        if not sealed:
            return b""
        state = self._sealer.open(sealed, study, kind)
        if state is None:
            raise StateGoneError(self._ledger.account.states[study, kind].index)
        return state

    def _past(self, study: StudyAccount, sequence: int) -> tuple[Past, ...]:
        """The earlier turns of a query's kind, read from stored replies. Raises AnswerGoneError if a reply is gone."""
        name = study.kind_of(sequence)
        past = []
        for earlier, reply in self._ledger.replies(study.key):
            message = open_envelope(reply)[1]
            if isinstance(message, Release) and message.kind == name and earlier < sequence:
                past.append(Past(self._kinds.turn(study.plan, study.places[earlier - 1]), message.body))
        return tuple(past)

    def _release(self, request: PendingRequest, message: Query, question: CuratorQuestion) -> bytes:
        """Answer a charged question, and store the signed release with the entry that holds its digest."""
        identity, now = request.identity, request.now
        with self._counting, _one_thread(self._threads):
            answered = self._answerers[message.kind].answer(question, self._dataset, self._noise)

        def release(owed: Owed) -> bytes:
            # Stamped with the time before the count: how long it took may depend on the records.
            account, released = self._ledger.account, digest(answered.release)
            receipt = self._identities.receipt(message, account, owed, identity, now, release=released)
            header = self._header(request.data, message, now)
            return self._identities.seal(Release(**header, kind=message.kind, body=answered.release, receipt=receipt))

        note = self._kinds.kind(message.kind).release_note(answered.release, question)
        state = None
        if answered.state is not None:
            sealed = self._sealer.seal(answered.state, request.known_study().key, message.kind)
            state = (message.kind, sealed)
        return self._settled(self._ledger.answer(identity, release, now, state=state, note=note), identity)

    def _close(self, request: PendingRequest, message: StudyClose) -> bytes:
        study, now, identity = request.known_study(), request.now, request.identity
        if not request.took_effect:
            check_not_ended(study)
            if message.sequence <= study.sequence:
                raise RemoteProtocolError(RefusalCode.OUT_OF_ORDER, "sequence", "the next sequence of the study")
            self._ledger.close_study(study.key, message.sequence, identity, now)

        def close(owed: Owed) -> bytes:
            receipt = self._identities.receipt(message, self._ledger.account, owed, identity, now)
            return self._identities.seal(
                StudyClosed(**self._header(request.data, message), refunded=amount(owed.amount), receipt=receipt)
            )

        return self._settled(self._ledger.answer(identity, close, now), identity)

    def _settled(self, reply: bytes, request: bytes) -> bytes:
        """Return the reply to a request after moving this process's mark to the ledger entries on which it rests."""
        self._ledger.settle(request)
        return reply

    def _stray(self, data: bytes, message: Message | None, error: RemoteProtocolError) -> bytes:
        """Refuse a stray message. It counts on the channel and against no learner, and its refusal is not kept."""
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
        """A signed refusal. A final refusal is kept, so that the same request never gets another answer.

        Without a digest of the request, nothing is kept.
        """
        with self._lock:
            header = self._header(data, message)
            if error.code == RefusalCode.WRONG_RECIPIENT:
                header["sender"] = self.identity
            refusal = self._refusals.write(header, message, identity, error, self._terms, scale_factor)
        log.info("refused: %s", refusal.code)
        return self._identities.seal(refusal)

    def _header(self, data: bytes, message: Message | None, now: int | None = None) -> dict[str, Any]:
        at = self._clock() if now is None else now
        return self._identities.header(data, message, at + self.policy.message_seconds)
