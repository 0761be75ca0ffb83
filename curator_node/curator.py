"""The curator: `handle(bytes) -> bytes`.

Order of every answered query: verify, charge durably, compute, add noise, store the signed release, send. A repeat
of a request returns the stored bytes: no new noise, no new charge. A refusal changes nothing and depends on the
request, the policy and the ledger, never on a record. Data, ledger, keys, clock and noise are passed in; transport
is in `client_app`, the rules of each request in `requests`.
"""

import logging
import math
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from curator_node.answerers import ANSWERERS
from curator_node.dataset import PrivateDataset
from curator_node.ledger import Caps, HaltedError, InsufficientBudgetError, Ledger, Reservation
from curator_node.ledger_entries import StudyAccount
from curator_node.mechanisms import NoiseSource, Stamp
from curator_node.policy import Policy
from curator_node.requests import check_next, check_not_ended, check_plan, check_query, check_time
from protocol.envelopes import (
    LABEL,
    LEARNER_TYPES,
    NOT_PRIVATE_LABEL,
    SigningKey,
    digest,
    open_envelope,
    open_receipt,
    request_digest,
    seal,
    seal_receipt,
    verify,
)
from protocol.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from protocol.messages import (
    NO_DIGEST,
    NO_STUDY,
    NOBODY,
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
from protocol.queries import plan_cost, query_cost, query_kind
from protocol.rationals import amount, shorten
from protocol.refusals import EXPLANATIONS, RefusalCode

log = logging.getLogger(__name__)


class Curator:
    """One curator.

    Args:
        dataset: its private records.
        ledger: its durable budget.
        key: its signing key.
        policy: its steward's.
        clock: seconds since 1970 as an int.
        noise: where noise comes from.

    Attributes:
        policy: its steward's.
        label: under which it signs; not the production label where its releases are not private as claimed.

    Raises:
        ConfigurationError: noise from a seed without `simulation = true` in the policy, or a ledger that was kept
            for another privacy unit, or for releases that were not private.
    """

    def __init__(
        self,
        *,
        dataset: PrivateDataset,
        ledger: Ledger,
        key: SigningKey,
        policy: Policy,
        clock: Callable[[], int],
        noise: NoiseSource,
    ) -> None:
        if noise.seeded and not policy.simulation:
            raise ConfigurationError("noise from a seed is for simulations; the policy does not say simulation = true")
        self._dataset = dataset
        self._ledger = ledger
        self._key = key
        self.policy = policy
        self._clock = clock
        self._noise = noise
        self.label = NOT_PRIVATE_LABEL if noise.seeded or not policy.private else LABEL
        terms = f"privacy unit {dataset.steward.unit or 'record'}; signatures {self.label}"
        ledger.bind(terms, clock())
        self._lock = threading.Lock()
        self._priced: set[bytes] = set()

    @property
    def identity(self) -> bytes:
        """The curator's public key."""
        return self._key.public

    def handle(self, data: bytes) -> bytes:
        """Answer one envelope with one envelope; raises only where clock or key do.

        Whatever else goes wrong inside becomes a refusal with a constant text. The steward's log gets the kind of
        error, never its text, which could hold a value.
        """
        with self._lock:
            try:
                return self._answer(data)
            except Exception as error:  # noqa: BLE001 - the last wall: no exception text may cross the wire
                log.error("a request could not be served: %s", type(error).__name__)  # noqa: TRY400
                return self._refuse(data, None, RemoteProtocolError(RefusalCode.UNAVAILABLE))

    def _answer(self, data: bytes) -> bytes:
        message: Message | None = None
        try:
            message, identity = self._authenticate(data)
            return self._serve(data, message, identity)
        except InsufficientBudgetError as error:
            return self._refuse_budget(data, message, error)
        except RemoteProtocolError as error:
            return self._refuse(data, message, error)

    def _authenticate(self, data: bytes) -> tuple[Message, bytes]:
        """Bytes to a verified message of a known learner, and its request digest."""
        envelope, message = open_envelope(data, limit=self.policy.limits.message_bytes, types=LEARNER_TYPES)
        verify(envelope, message.sender)
        if self.policy.learner(message.sender) is None:
            raise RemoteProtocolError(RefusalCode.UNKNOWN_SENDER)
        return message, request_digest(message.sender, envelope.type, envelope.payload)

    def _serve(self, data: bytes, message: Message, identity: bytes) -> bytes:
        if message.recipient != self.identity:
            raise RemoteProtocolError(RefusalCode.WRONG_RECIPIENT)
        kept = self._ledger.store.reply(identity)
        if kept is not None:
            return kept
        now = self._clock()
        check_time(message, now, self.policy)
        if isinstance(message, CardRequest):
            return self._seal(self._card(data, message))
        self._ledger.expire(now)
        try:
            reply = self._advance_study(data, message, identity, now)
        except HaltedError:
            raise RemoteProtocolError(RefusalCode.HALTED) from None
        except LocalProtocolError:
            raise RemoteProtocolError(RefusalCode.OUT_OF_ORDER) from None
        return self._ledger.store.store_reply(identity, self._seal(reply))

    def _advance_study(self, data: bytes, message: Message, identity: bytes, now: int) -> Message:
        match message:
            case StudyProposal():
                return self._propose(data, message, identity, now)
            case Query():
                return self._query(data, message, identity, now)
            case StudyClose():
                return self._close(data, message, identity, now)
        raise RemoteProtocolError(RefusalCode.MALFORMED, "envelope.type", "a request of a learner")

    def _card(self, data: bytes, message: CardRequest) -> Card:
        steward = self._dataset.steward
        return Card(
            **self._header(data, message),
            name=self.policy.name,
            schema=steward.schema,
            privacy_unit=steward.unit or "record",
            most_records_per_unit=steward.most_records_per_unit,
            relation="; ".join(sorted({query_kind(kind).relation for kind in self.policy.limits.query_kinds})),
            round_size=steward.round_size,
            limits=self.policy.limits,
            cap=amount(self.policy.cap_of(message.sender)),
            least_cost=amount(self.policy.least),
        )

    def _propose(self, data: bytes, message: StudyProposal, identity: bytes, now: int) -> StudyAccepted:
        self._check_rollback(message, now)
        account = self._ledger.account
        known = account.studies.get(message.study)
        if known is not None and known.last_request != identity:
            raise RemoteProtocolError(RefusalCode.CHANGED_CONTENT, "study", "a new study identity")
        cost = check_plan(message.plan, self.policy, self._dataset.steward)
        if known is None:
            open_studies = account.open_by_learner.get(message.sender, set())
            if len(open_studies) >= self.policy.open_studies:
                raise RemoteProtocolError(RefusalCode.TOO_MANY_STUDIES, "", f"at most {self.policy.open_studies} open")
            if account.ordinals.get(message.sender, 0) >= self.policy.studies:
                raise RemoteProtocolError(RefusalCode.TOO_MANY_STUDIES, "", f"at most {self.policy.studies} ever")
            wanted = Reservation(
                study=message.study,
                learner=message.sender,
                plan=message.plan,
                cost=cost,
                request=identity,
                expires_at=now + self.policy.reservation_seconds,
                purpose=message.purpose,
            )
            known = self._ledger.reserve(wanted, self._caps(message.sender), now)
        return StudyAccepted(
            **self._header(data, message),
            cost=amount(cost),
            reserved_until=known.expires_at,
            receipt=self._receipt(message, identity, now),
        )

    def _query(self, data: bytes, message: Query, identity: bytes, now: int) -> Release:
        study = self._study(message)
        check_next(message, identity, study, self._last_reply(study))
        body, planned = check_query(message, study.plan, self._dataset.steward, self.policy)
        most = self._dataset.steward.most_records_per_unit
        self._check_terms(message.study, study)
        cost = query_cost(planned, most)
        self._ledger.charge(message.study, message.sequence, cost, identity, now, self._caps(message.sender))
        learner = self.policy.learner(message.sender)
        stamp = Stamp(learner.name if learner else "", study.ordinal, message.sequence)
        released = ANSWERERS[message.kind](body, planned, self._dataset, self._noise, stamp)
        receipt = self._receipt(message, identity, now, charged=cost, release=digest(released))
        return Release(**self._header(data, message), kind=message.kind, body=released, receipt=receipt)

    def _close(self, data: bytes, message: StudyClose, identity: bytes, now: int) -> StudyClosed:
        study = self._study(message)
        if study.last_request != identity:
            check_not_ended(study)
            if message.sequence <= study.sequence:
                raise RemoteProtocolError(RefusalCode.OUT_OF_ORDER, "sequence", "the next sequence of the study")
        refund = self._ledger.close_study(message.study, message.sequence, identity, now)
        receipt = self._receipt(message, identity, now)
        return StudyClosed(**self._header(data, message), refunded=amount(refund), receipt=receipt)

    def _study(self, message: Message) -> StudyAccount:
        study = self._ledger.account.studies.get(message.study)
        if study is None:
            raise RemoteProtocolError(RefusalCode.UNKNOWN_STUDY)
        if study.learner != message.sender:
            raise RemoteProtocolError(RefusalCode.FOREIGN_STUDY)
        return study

    def _check_terms(self, identity: bytes, study: StudyAccount) -> None:
        """Refuse where the steward changed the unit bound: what was reserved, or already charged, is not the price."""
        if identity not in self._priced:
            if plan_cost(study.plan, self._dataset.steward.most_records_per_unit) != study.cost:
                raise RemoteProtocolError(RefusalCode.TERMS_CHANGED)
            self._priced.add(identity)

    def _last_reply(self, study: StudyAccount) -> bytes | None:
        return self._ledger.store.reply(study.last_request)

    def _check_rollback(self, message: StudyProposal, now: int) -> None:
        """Halt where the learner holds a receipt that this ledger does not know and its steward has not seen."""
        suspect = digest(message.newest_receipt)
        if not message.newest_receipt or suspect in self._ledger.account.acknowledged:
            return
        try:
            receipt = open_receipt(message.newest_receipt, self.identity, label=self.label)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(error.code, "newest_receipt") from None
        hashes = self._ledger.account.hashes
        if receipt.ledger_index >= len(hashes) or hashes[receipt.ledger_index] != receipt.ledger_head:
            self._ledger.halt(
                now,
                f"ledger entry {receipt.ledger_index} of a receipt is missing: rolled back or edited; by that "
                f"receipt learner {receipt.learner.hex()} had spent {receipt.spent_by_learner}; ask for its newest one",
                suspect=suspect,
            )
            raise RemoteProtocolError(RefusalCode.LEDGER_ROLLED_BACK)

    def _caps(self, learner: bytes) -> Caps:
        return Caps(learner=self.policy.cap_of(learner), total=self.policy.total_cap)

    def _receipt(
        self,
        message: Message,
        identity: bytes,
        now: int,
        *,
        charged: Fraction = Fraction(0),
        release: bytes = NO_DIGEST,
    ) -> bytes:
        account = self._ledger.account
        receipt = Receipt(
            curator=self.identity,
            learner=message.sender,
            study=message.study,
            sequence=message.sequence,
            request=identity,
            release=release,
            charged=amount(charged),
            spent_by_study=amount(account.studies[message.study].spent),
            spent_by_learner=amount(shorten(account.spent.get(message.sender, Fraction(0)), math.ceil)),
            ledger_index=account.next_index - 1,
            ledger_head=account.head,
            issued_at=now,
        )
        return seal_receipt(receipt, self._key, label=self.label)

    def _refuse_budget(self, data: bytes, message: Message | None, error: InsufficientBudgetError) -> bytes:
        remaining = shorten(error.remaining, math.floor)
        factor = amount(error.requested / remaining) if remaining else ""
        refusal = RemoteProtocolError(RefusalCode.OVER_BUDGET, "plan", f"a cost of at most {remaining}")
        return self._refuse(data, message, refusal, scale_factor=factor)

    def _refuse(
        self, data: bytes, message: Message | None, error: RemoteProtocolError, *, scale_factor: str = ""
    ) -> bytes:
        """A signed refusal. Only a verified learner (`message` is not None) is told a number of its own."""
        code = RefusalCode(error.code)
        log.info("refused: %s", code)
        remaining = ""
        if message is not None:
            remaining = amount(shorten(self._ledger.remaining(message.sender, self._caps(message.sender)), math.floor))
        return self._seal(
            Refusal(
                **self._header(data, message),
                code=code,
                explanation=EXPLANATIONS[code],
                field=error.field,
                limit=error.limit,
                remaining=remaining,
                scale_factor=scale_factor,
            )
        )

    def _header(self, data: bytes, message: Message | None) -> dict[str, Any]:
        return {
            "study": message.study if message else NO_STUDY,
            "sender": self.identity,
            "recipient": message.sender if message else NOBODY,
            "sequence": message.sequence if message else 0,
            "answers": digest(data),
            "expires_at": self._clock() + self.policy.message_seconds,
        }

    def _seal(self, message: Message) -> bytes:
        return seal(message, self._key, label=self.label)
