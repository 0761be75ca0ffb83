"""The ledger: a durable privacy filter (it refuses) and odometer (it reports), in exact rationals.

Every decision is taken on the sum of a hash-chained list of entries, and takes effect by appending the next one.
If another process appended first, the decision is taken anew on the longer list: so caps hold across processes
and machines that share a store.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from curator_node.ledger_entries import (
    Account,
    Entry,
    EntryKind,
    LedgerCorruptError,
    StudyAccount,
    decode_entry,
    encode_entry,
    entry_hash,
)
from curator_node.ledger_store import AppendConflictError, LedgerStore
from protocol.errors import ConfigurationError, ExprilError, LocalProtocolError
from protocol.messages import NO_DIGEST, NO_STUDY, NOBODY
from protocol.plans import Plan
from protocol.rationals import amount
from protocol.transitions import State


class InsufficientBudgetError(ExprilError):
    """A reservation does not fit.

    Attributes:
        requested: its cost.
        remaining: what the learner may still reserve.
    """

    def __init__(self, requested: Fraction, remaining: Fraction) -> None:
        self.requested = requested
        self.remaining = remaining
        super().__init__("the reservation does not fit")


class HaltedError(ExprilError):
    """The ledger is halted until its steward acts."""


@dataclass(frozen=True)
class Caps:
    """Most epsilon of the learner at hand, and over all learners."""

    learner: Fraction
    total: Fraction


@dataclass(frozen=True)
class Reservation:
    """What a proposal wants set aside."""

    study: bytes
    learner: bytes
    plan: Plan
    cost: Fraction
    request: bytes
    expires_at: int
    purpose: str = ""


class Ledger:
    """A ledger over a store.

    Raises:
        LedgerCorruptError: on opening, where the stored chain does not fit together.
    """

    def __init__(self, store: LedgerStore) -> None:
        self.store = store
        self.account = Account()
        self.refresh()

    def refresh(self) -> None:
        """Read what other processes have appended.

        Raises:
            LedgerCorruptError: the chain does not fit together, or no longer holds the entry read last (a store
                rolled back under a running curator).
        """
        newest = self.account.next_index - 1
        found = self.store.entries(max(newest, 0))
        if newest >= 0:
            if not found or found[0][0] != newest or entry_hash(found[0][1]) != self.account.head:
                raise LedgerCorruptError(f"ledger entry {newest} has changed or vanished")
            found = found[1:]
        for index, body in found:
            if index != self.account.next_index:
                raise LedgerCorruptError(f"ledger entry {self.account.next_index} is missing")
            self.account.apply(decode_entry(body), body)

    def remaining(self, learner: bytes, caps: Caps) -> Fraction:
        """Epsilon that a learner may still reserve: below its own cap and the cap over all."""
        account = self.account
        zero = Fraction(0)
        own = caps.learner - account.spent.get(learner, zero) - account.reserved.get(learner, zero)
        every = caps.total - account.total_spent - account.total_reserved
        return max(zero, min(own, every))

    def reserve(self, wanted: Reservation, caps: Caps, now: int) -> StudyAccount:
        """Set a plan's cost aside; idempotent by request digest.

        Raises:
            HaltedError: the ledger is halted.
            InsufficientBudgetError: it does not fit; nothing is changed.
            LocalProtocolError: another request has reserved this study; nothing is changed.
        """

        def decide(account: Account) -> Entry | None:
            known = account.studies.get(wanted.study)
            if known is not None:
                if known.last_request == wanted.request:
                    return None
                raise LocalProtocolError("the study is reserved already")
            if account.halted:
                raise HaltedError
            left = self.remaining(wanted.learner, caps)
            if wanted.cost > left:
                raise InsufficientBudgetError(wanted.cost, left)
            return self._entry(
                EntryKind.RESERVE,
                now,
                wanted.learner,
                study=wanted.study,
                amount_=wanted.cost,
                request=wanted.request,
                expires_at=wanted.expires_at,
                plan=wanted.plan,
                note=wanted.purpose,
            )

        self._append(decide)
        return self.account.studies[wanted.study]

    def bind(self, terms: str, now: int) -> None:
        """Write what the charges mean (the privacy unit, the kind of signatures) as the first entry.

        Raises:
            ConfigurationError: the ledger was opened under other terms; its epsilons are not comparable.
        """

        def decide(account: Account) -> Entry | None:
            if account.terms not in ("", terms):
                raise ConfigurationError(
                    f"this ledger was kept for other terms ({account.terms}; now: {terms}); epsilons of the two do not "
                    "add up: start a new ledger, with caps lowered by what was spent"
                )
            return None if account.terms else self._entry(EntryKind.BIND, now, NOBODY, note=terms)

        self._append(decide)

    def charge(
        self, study: bytes, sequence: int, cost: Fraction, request: bytes, now: int, caps: Caps | None = None
    ) -> None:
        """Charge the next query of an open study; idempotent by request digest.

        Args:
            study: its identity.
            sequence: of the query.
            cost: exact.
            request: digest of the request.
            now: the time.
            caps: of today; they may be lower than when the plan was accepted. None checks the reservation only.

        Raises:
            HaltedError: the ledger is halted.
            InsufficientBudgetError: a cap was lowered below what would be spent; nothing is changed.
            LocalProtocolError: the study is not open, this is not its next query, or it costs more than is
                reserved (the unit bound was raised meanwhile); nothing is changed.
        """

        def decide(account: Account) -> Entry | None:
            found = account.studies[study]
            if found.last_request == request:
                return None
            if account.halted:
                raise HaltedError
            if found.state is not State.OPEN or found.sequence + 1 != sequence:
                raise LocalProtocolError("the study is not waiting for this query")
            if cost > found.reserved:
                raise LocalProtocolError("the query costs more than is reserved")
            if caps is not None:
                own = caps.learner - account.spent.get(found.learner, Fraction(0))
                left = min(own, caps.total - account.total_spent)
                if cost > left:
                    raise InsufficientBudgetError(cost, max(left, Fraction(0)))
            return self._entry(
                EntryKind.CHARGE,
                now,
                found.learner,
                study=study,
                sequence=sequence,
                amount_=cost,
                request=request,
            )

        self._append(decide)

    def close_study(self, study: bytes, sequence: int, request: bytes, now: int) -> Fraction:
        """Close a study and refund what was reserved and never used; the refund. Idempotent by request digest."""
        refund = Fraction(0)

        def decide(account: Account) -> Entry | None:
            nonlocal refund
            found = account.studies[study]
            if found.last_request == request:
                refund = found.cost - found.spent
                return None
            if found.state is not State.OPEN:
                raise LocalProtocolError("the study is not open")
            refund = found.reserved
            return self._entry(
                EntryKind.CLOSE,
                now,
                found.learner,
                study=study,
                sequence=sequence,
                amount_=refund,
                request=request,
            )

        self._append(decide)
        return refund

    def expire(self, now: int) -> None:
        """Read what other processes have appended, then refund every reservation whose time has passed."""
        self.refresh()
        due = [
            study
            for studies in self.account.open_by_learner.values()
            for study in studies
            if self.account.studies[study].expires_at <= now
        ]
        for study in due:
            self._append(lambda account, study=study: self._expiry(account, study, now))  # type: ignore[misc]

    def halt(self, now: int, note: str, *, suspect: bytes = NO_DIGEST) -> None:
        """Stop reserving and charging until `resume`; `suspect` is the digest of a receipt that this ledger lacks."""

        def decide(account: Account) -> Entry | None:
            return None if account.halted else self._entry(EntryKind.HALT, now, NOBODY, request=suspect, note=note)

        self._append(decide)

    def resume(self, now: int, *, learner: bytes = NOBODY, restored: Fraction = Fraction(0), note: str = "") -> None:
        """The steward's act after a halt: epsilon that a lost ledger no longer shows is entered as spent.

        The receipt that the ledger was halted for does not halt it again.
        """

        def decide(account: Account) -> Entry | None:
            return self._entry(EntryKind.RESUME, now, learner, amount_=restored, note=note) if account.halted else None

        self._append(decide)

    def _expiry(self, account: Account, study: bytes, now: int) -> Entry | None:
        found = account.studies[study]
        if found.state is not State.OPEN:
            return None
        return self._entry(
            EntryKind.EXPIRE, now, found.learner, study=study, sequence=found.sequence, amount_=found.reserved
        )

    def _entry(
        self,
        kind: EntryKind,
        now: int,
        learner: bytes,
        *,
        study: bytes = NO_STUDY,
        sequence: int = 0,
        amount_: Fraction = Fraction(0),
        request: bytes = NO_DIGEST,
        expires_at: int = 0,
        plan: Plan | None = None,
        note: str = "",
    ) -> Entry:
        return Entry(
            index=self.account.next_index,
            previous=self.account.head,
            kind=kind,
            at=now,
            learner=learner,
            study=study,
            sequence=sequence,
            amount=amount(amount_),
            request=request,
            expires_at=expires_at,
            plan=plan,
            note=note,
        )

    def _append(self, decide: Callable[[Account], Entry | None]) -> None:
        """Decide on the sum of all entries and append; again where another process was first.

        What others have appended is read before each decision: one that appends nothing must not be stale either
        (a halt that another process has lifted meanwhile, say).
        """
        while True:
            self.refresh()
            entry = decide(self.account)
            if entry is None:
                return
            body = encode_entry(entry)
            decode_entry(body)  # what could not be read back is never stored
            try:
                self.store.append(entry.index, body)
            except AppendConflictError:
                continue
            self.account.apply(entry, body)
            return
