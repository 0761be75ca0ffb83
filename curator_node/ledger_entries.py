"""The ledger's entries, their hash chain, and the account that they add up to. No storage here."""

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

import msgspec

from protocol.codec import decode, encode
from protocol.envelopes import digest
from protocol.errors import ExprilError, LocalProtocolError, RemoteProtocolError
from protocol.messages import NO_DIGEST, Digest, Key, Seconds, Sequence, StudyId
from protocol.plans import Plan
from protocol.rationals import Amount, parse_amount
from protocol.transitions import Event, State, advance

GENESIS = digest(b"expril/1 ledger")


class LedgerCorruptError(ExprilError):
    """The stored chain does not fit together: an entry was edited, removed or inserted."""


class EntryKind(StrEnum):
    """What happened."""

    BIND = "bind"
    RESERVE = "reserve"
    CHARGE = "charge"
    CLOSE = "close"
    EXPIRE = "expire"
    HALT = "halt"
    RESUME = "resume"


STEPS: dict[EntryKind, tuple[Event, ...]] = {
    EntryKind.RESERVE: (Event.PROPOSAL, Event.ACCEPTED),
    EntryKind.CHARGE: (Event.QUERY, Event.RELEASE),
    EntryKind.CLOSE: (Event.CLOSE, Event.CLOSED),
    EntryKind.EXPIRE: (Event.EXPIRY,),
}
"""How an entry moves its study through `protocol.transitions`. A charge and its release are one step here: between
them only a repeat of the same request is served."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One line of the ledger. It never holds a count, a release or a noise value.

    Attributes:
        index: from 0, without gaps.
        previous: hash of the entry before.
        kind: an `EntryKind`.
        at: by the curator's clock.
        learner: public key.
        study: the study's identity; zero for halt and resume.
        sequence: of the request.
        amount: reserved, charged or refunded epsilon; for resume, what is restored as spent.
        request: digest of the request; for halt, of the receipt that the ledger lacks; zero where there was none.
        expires_at: end of a reservation.
        plan: of a reservation.
        note: for people; from the steward, or the purpose a learner stated; never from a record.
    """

    index: int
    previous: Digest
    kind: EntryKind
    at: Seconds
    learner: Key
    study: StudyId
    sequence: Sequence
    amount: Amount
    request: Digest
    expires_at: Seconds = 0
    plan: Plan | None = None
    note: str = ""


def entry_hash(body: bytes) -> bytes:
    """Hash of an encoded entry; the entry names its predecessor's."""
    return digest(b"expril/1 ledger entry" + body)


@dataclass
class StudyAccount:
    """A study as the ledger knows it."""

    learner: bytes
    ordinal: int
    plan: Plan
    cost: Fraction
    expires_at: int
    spent: Fraction = Fraction(0)
    sequence: int = 0
    last_request: bytes = b""
    state: State = State.OPEN

    @property
    def reserved(self) -> Fraction:
        """What is still set aside."""
        return self.cost - self.spent if self.state is State.OPEN else Fraction(0)


@dataclass
class Account:
    """The sum of all entries so far.

    Attributes:
        head: hash of the last entry.
        hashes: of every entry, by index.
        spent: epsilon spent by learner.
        reserved: epsilon set aside by learner.
        total_spent, total_reserved: over all learners.
        studies: by identity.
        halted: whether the curator has stopped.
        terms: what the charges mean.
        suspect: digest of the receipt that it was halted for; zero where a person halted it.
        acknowledged: digests of such receipts after which the steward resumed: they do not halt again.
    """

    head: bytes = GENESIS
    hashes: list[bytes] = field(default_factory=list)
    spent: dict[bytes, Fraction] = field(default_factory=dict)
    reserved: dict[bytes, Fraction] = field(default_factory=dict)
    total_spent: Fraction = Fraction(0)
    total_reserved: Fraction = Fraction(0)
    studies: dict[bytes, StudyAccount] = field(default_factory=dict)
    open_by_learner: dict[bytes, set[bytes]] = field(default_factory=dict)
    ordinals: dict[bytes, int] = field(default_factory=dict)
    halted: bool = False
    terms: str = ""
    suspect: bytes = NO_DIGEST
    acknowledged: set[bytes] = field(default_factory=set)

    @property
    def next_index(self) -> int:
        """Index of the entry to come."""
        return len(self.hashes)

    def apply(self, entry: Entry, body: bytes) -> None:
        """Add one entry.

        Raises:
            LedgerCorruptError: it is not the next one, or breaks a rule of the ledger.
        """
        if entry.index != self.next_index or entry.previous != self.head:
            raise LedgerCorruptError(f"ledger entry {entry.index} does not follow the one before it")
        amount = parse_amount(entry.amount)
        match entry.kind:
            case EntryKind.BIND:
                if self.terms:
                    raise LedgerCorruptError(f"ledger entry {entry.index} binds a bound ledger")
                self.terms = entry.note
            case EntryKind.RESERVE:
                self._reserve(entry, amount)
            case EntryKind.CHARGE:
                self._charge(entry, amount)
            case EntryKind.CLOSE | EntryKind.EXPIRE:
                self._end(entry, amount)
            case EntryKind.HALT:
                self.halted, self.suspect = True, entry.request
            case EntryKind.RESUME:
                self.halted = False
                self.acknowledged.add(self.suspect)
                self._spend(entry.learner, amount)
        self.head = entry_hash(body)
        self.hashes.append(self.head)

    def _reserve(self, entry: Entry, amount: Fraction) -> None:
        if entry.study in self.studies or entry.plan is None:
            raise LedgerCorruptError(f"ledger entry {entry.index} reserves a known study, or without a plan")
        ordinal = self.ordinals.get(entry.learner, 0)
        self.ordinals[entry.learner] = ordinal + 1
        state = _step(State.NEW, entry)
        self.studies[entry.study] = StudyAccount(
            entry.learner, ordinal, entry.plan, amount, entry.expires_at, last_request=entry.request, state=state
        )
        self.open_by_learner.setdefault(entry.learner, set()).add(entry.study)
        self._set_aside(entry.learner, amount)

    def _charge(self, entry: Entry, amount: Fraction) -> None:
        study = self._study(entry)
        if amount > study.reserved:
            raise LedgerCorruptError(f"ledger entry {entry.index} charges more than is reserved")
        study.state = _step(study.state, entry)
        study.spent += amount
        study.sequence, study.last_request = entry.sequence, entry.request
        self._set_aside(entry.learner, -amount)
        self._spend(entry.learner, amount)

    def _end(self, entry: Entry, amount: Fraction) -> None:
        study = self._study(entry)
        if amount != study.reserved:
            raise LedgerCorruptError(f"ledger entry {entry.index} refunds another amount than is left")
        study.state = _step(study.state, entry)
        if entry.kind is EntryKind.CLOSE:
            study.sequence, study.last_request = entry.sequence, entry.request
        self.open_by_learner[entry.learner].discard(entry.study)
        self._set_aside(entry.learner, -amount)

    def _study(self, entry: Entry) -> StudyAccount:
        study = self.studies.get(entry.study)
        if study is None or study.learner != entry.learner:
            raise LedgerCorruptError(f"ledger entry {entry.index} names an unknown study")
        return study

    def _set_aside(self, learner: bytes, amount: Fraction) -> None:
        self.reserved[learner] = self.reserved.get(learner, Fraction(0)) + amount
        self.total_reserved += amount

    def _spend(self, learner: bytes, amount: Fraction) -> None:
        self.spent[learner] = self.spent.get(learner, Fraction(0)) + amount
        self.total_spent += amount


def _step(state: State, entry: Entry) -> State:
    try:
        for event in STEPS[entry.kind]:
            state = advance(state, event)
    except LocalProtocolError as error:
        raise LedgerCorruptError(f"ledger entry {entry.index}: {error}") from None
    return state


def encode_entry(entry: Entry) -> bytes:
    """The stored bytes of an entry."""
    return encode(entry)


def decode_entry(body: bytes) -> Entry:
    """Inverse of `encode_entry`; LedgerCorruptError for anything else."""
    try:
        return decode(body, Entry)
    except RemoteProtocolError:
        raise LedgerCorruptError("a ledger entry cannot be read") from None
