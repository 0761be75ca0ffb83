"""The ledger: a durable privacy filter (it refuses) and odometer (it reports), in exact rationals.

Every decision is taken on the sum of a hash-chained list of entries, and takes effect by appending the next one, whose
hash the curator signs. If another process appended first, the decision is taken anew on the longer list: so caps hold
across processes and machines that share a store.
"""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from curator_node.ledger.account import Account
from curator_node.ledger.checks import load
from curator_node.ledger.entries import (
    Entry,
    EntryKind,
    LedgerCorruptError,
    Position,
    StatefulEntry,
    Suspect,
    decode_entry,
    encode_entry,
    entry_hash,
)
from curator_node.ledger.errors import (
    AnswerGoneError,
    HaltedError,
    InsufficientBudgetError,
    StateGoneError,
    StoreFullError,
    TooManyStudiesError,
)
from curator_node.ledger.marks import Mark, MemoryMark
from curator_node.ledger.sealing import head_is_signed, sign_head
from curator_node.ledger.store import AppendConflictError, LedgerStore, MemoryStore, Replies, Row
from curator_node.ledger.studies import ZERO, Owed, Restored, StudyAccount, StudyKey, state_key
from protocol.envelopes import SigningKey, digest
from protocol.errors import ConfigurationError, LocalProtocolError
from protocol.messages import NOBODY
from protocol.plans import Plan
from protocol.rationals import amount
from protocol.transitions import State

_NONCE = 16
NO_MARK = "this process's mark is missing or damaged: the ledger may have been replaced by an older one"


@dataclass(frozen=True)
class Caps:
    """What a learner may do.

    Attributes:
        learner: most epsilon of the learner at hand.
        total: most epsilon over all learners.
        open_studies: most studies that it may have open.
        studies: most studies that it may ever propose.
    """

    learner: Fraction
    total: Fraction
    open_studies: int = 10**9
    studies: int = 10**9


@dataclass(frozen=True)
class Reservation:
    """What a proposal wants set aside; `costs` are the most that each planned query may be charged."""

    key: StudyKey
    plan: Plan
    costs: tuple[Fraction, ...]
    request: bytes
    expires_at: int
    purpose: str = ""


def create_ledger(
    store: LedgerStore,
    key: SigningKey,
    mark: Mark,
    *,
    now: int,
    note: str = "",
    entropy: Callable[[int], bytes] = secrets.token_bytes,
) -> None:
    """Write a new ledger's first entry, and the mark beside it.

    Raises:
        ConfigurationError: the store holds a ledger already.
    """
    if store.rows(0):
        raise ConfigurationError("there is a ledger already; a ledger is never made anew")
    entry = Entry(
        index=0,
        previous=Account().head,
        nonce=entropy(_NONCE),
        kind=EntryKind.OPEN,
        at=now,
        learner=key.public,
        note=note,
    )
    body = encode_entry(entry)
    store.append(Row(0, body, sign_head(key, 0, entry_hash(body))))
    account = Account()
    account.apply(entry, body)
    mark.write(account.position(0))


def memory_ledger(key: SigningKey) -> "Ledger":
    """A new ledger that is gone with the process; for tests and simulations."""
    store, mark = MemoryStore(), MemoryMark()
    create_ledger(store, key, mark, now=0)
    return Ledger(store, key=key, mark=mark)


class Ledger:
    """A ledger over a store.

    Args:
        store: its entries and replies.
        key: the curator's; it signs every entry's hash, and is never in the store.
        mark: this process's own.
        entropy: n -> n random bytes, for the entries' nonces.

    Raises:
        ConfigurationError: there is no ledger, or it is another curator's.
        LedgerCorruptError: the stored chain does not fit together, or its last entry is not signed by the curator.
    """

    def __init__(
        self,
        store: LedgerStore,
        *,
        key: SigningKey,
        mark: Mark,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.store = store
        self._key = key
        self._mark = mark
        self._entropy = entropy
        self._marked = -1
        self.account = self._load()

    def begin(self, terms: str, now: int) -> None:
        """Start serving: hold the chain against this process's mark, and write what the charges mean.

        Where the chain does not hold what the mark names, or there is no mark, the ledger halts until its steward acts.

        Args:
            terms: the privacy unit and the kind of signatures, unambiguously.
            now: the time.

        Raises:
            ConfigurationError: the ledger was kept under other terms; its epsilons are not comparable.
        """
        self.refresh(now)
        if self.account.terms not in ("", terms):
            raise ConfigurationError(
                f"this ledger was kept for other terms ({self.account.terms}; now: {terms}); epsilons of the two do "
                "not add up: make a new ledger, with caps lowered by what was spent"
            )
        marked = self._mark.read()
        self._start(terms, now)
        if marked is None:
            self.halt(now, NO_MARK, suspect=Suspect())
        else:
            self._hold_against(marked, now)
        self.settle()

    def refresh(self, now: int) -> None:
        """Read what other processes have appended.

        A store that was rolled back under a running curator halts the ledger.

        Raises:
            LedgerCorruptError: the chain does not fit together.
        """
        account = self.account
        newest = account.next_index - 1
        found = self.store.rows(newest)
        if not found or found[0].index != newest or entry_hash(found[0].body) != account.head:
            known = account.position(newest)
            self.account = self._load()
            self._start(self.account.terms, now)
            self._hold_against(known, now)
            return
        for row in found[1:]:
            if not head_is_signed(self._key.public, row.signature, row.index, entry_hash(row.body)):
                raise LedgerCorruptError(f"ledger entry {row.index} is not signed by this curator")
            account.apply(decode_entry(row.body), row.body)

    def settle(self) -> None:
        """Move this process's mark to the newest entry; before any answer that rests on it leaves."""
        newest = self.account.next_index - 1
        if newest > self._marked:
            self._mark.write(self.account.position(newest))
            self._marked = newest

    def remaining(self, learner: bytes, caps: Caps) -> Fraction:
        """Epsilon that a learner may still reserve; see `Account.remaining`."""
        return self.account.remaining(learner, caps.learner, caps.total)

    def reserve(self, wanted: Reservation, caps: Caps, now: int) -> StudyAccount:
        """Set a plan's cost aside from the learner's own cap; idempotent by request digest.

        Raises:
            HaltedError: the ledger is halted.
            InsufficientBudgetError: it does not fit; nothing is changed.
            TooManyStudiesError: the learner has as many as it may; nothing is changed.
            LocalProtocolError: another request has reserved this study; nothing is changed.
        """
        learner, study = wanted.key
        cost = sum(wanted.costs, ZERO)

        def decide(account: Account) -> Entry | None:
            if self.known(wanted.request):
                return None
            if wanted.key in account.studies:
                raise LocalProtocolError("the study is reserved already")
            if account.halted:
                raise HaltedError
            if len(account.open_by_learner.get(learner, ())) >= caps.open_studies:
                raise TooManyStudiesError(f"at most {caps.open_studies} open")
            if account.ordinals.get(learner, 0) >= caps.studies:
                raise TooManyStudiesError(f"at most {caps.studies} ever")
            left = self.remaining(learner, caps)
            if cost > left:
                raise InsufficientBudgetError(cost, left)
            return self._entry(
                EntryKind.RESERVE,
                now,
                learner=learner,
                study=study,
                amount=amount(cost),
                request=wanted.request,
                expires_at=wanted.expires_at,
                plan=wanted.plan,
                costs=tuple(map(amount, wanted.costs)),
                note=wanted.purpose,
            )

        self._append(decide, now)
        return self.account.studies[wanted.key]

    def charge(
        self, key: StudyKey, sequence: int, cost: Fraction, request: bytes, now: int, caps: Caps | None = None
    ) -> None:
        """Charge the next query of an open study; idempotent by request digest.

        Args:
            key: the study.
            sequence: of the query.
            cost: exact.
            request: digest of the request.
            now: the time.
            caps: of today; they may be lower than when the plan was accepted. None checks the reservation only.

        Raises:
            HaltedError: the ledger is halted.
            InsufficientBudgetError: other learners have spent what is left of the cap over all, or a cap was lowered;
                nothing is changed.
            LocalProtocolError: the study is not open, this is not its next query, or it costs more than was reserved
                for it; nothing is changed.
        """

        def decide(account: Account) -> Entry | None:
            if self.known(request):
                return None
            found = account.studies[key]
            if account.halted:
                raise HaltedError
            if found.state is not State.OPEN or found.sequence + 1 != sequence or sequence > len(found.places):
                raise LocalProtocolError("the study is not waiting for this query")
            if cost > found.left_for(sequence):
                raise LocalProtocolError("the query costs more than was reserved for it")
            if caps is not None:
                own = caps.learner - account.spent.get(key.learner, ZERO)
                left = min(own, caps.total - account.total_spent)
                if cost > left:
                    raise InsufficientBudgetError(cost, max(left, ZERO))
            return self._study_entry(EntryKind.CHARGE, now, key, sequence, cost, request)

        self._append(decide, now)

    def close_study(self, key: StudyKey, sequence: int, request: bytes, now: int) -> None:
        """Close a study and refund what was reserved and never used; idempotent by request digest.

        Raises:
            LocalProtocolError: the study has ended, or a later query was charged; nothing is changed.
        """

        def decide(account: Account) -> Entry | None:
            if self.known(request):
                return None
            found = account.studies[key]
            if found.ended or sequence <= found.sequence:
                raise LocalProtocolError("the study is not open, or has gone on")
            return self._study_entry(EntryKind.CLOSE, now, key, sequence, found.reserved, request)

        self._append(decide, now)

    def answer(
        self, request: bytes, make: Callable[[Owed], bytes], now: int, *, state: tuple[str, bytes] | None = None
    ) -> bytes:
        """The one signed reply to a request that took effect: stored together with the entry that holds its digest.

        Where another process answered first, its reply is returned, and the one made here is dropped.

        Args:
            request: digest of the request.
            make: what took effect -> the signed reply.
            now: the time.
            state: (query kind, what its answerer keeps of the study from now on), stored with the reply.

        Raises:
            AnswerGoneError: it was answered, and the reply is gone.
        """
        self.refresh(now)
        owed = self.account.owed.get(request)
        if owed is None:
            return self.reply(request)
        reply = make(owed)
        kept = [(request, reply)]
        more: dict[str, Any] = {}
        if state is not None:
            kept.append((state_key(owed.key, state[0]), state[1]))
            more = {"state": digest(state[1]), "state_size": len(state[1])}

        def decide(account: Account) -> Entry | None:
            if request in account.answers:
                return None
            return self._entry(
                EntryKind.ANSWERED,
                now,
                learner=owed.key.learner,
                study=owed.key.study,
                sequence=owed.sequence,
                request=request,
                reply=digest(reply),
                size=len(reply),
                **more,
            )

        ours = self._append(decide, now, replies=kept)
        return reply if ours else self.reply(request)

    def known(self, request: bytes) -> bool:
        """Whether a request has taken effect."""
        return self.account.took_effect(request)

    def reply(self, request: bytes) -> bytes:
        """The stored reply to an answered request, as the chain holds its digest.

        Raises:
            AnswerGoneError: it was evicted, or the store lost or changed it; it is never drawn again.
        """
        if request in self.account.lost:
            raise AnswerGoneError(self.account.lost[request], evicted=False)
        answer = self.account.answers[request]
        if request in self.account.evicted:
            raise AnswerGoneError(answer.index, evicted=True)
        kept = self.store.reply(request)
        if kept is None or digest(kept) != answer.reply:
            raise AnswerGoneError(answer.index, evicted=False)
        return kept

    def replies(self, key: StudyKey) -> list[tuple[int, bytes]]:
        """(sequence, stored reply) of every charged and answered request of a study, in order; raises as `reply`."""
        owed = {request: self.account.answers[request].owed for request in self.account.kept.get(key, ())}
        return sorted((item.sequence, self.reply(request)) for request, item in owed.items() if item.charged)

    def state(self, key: StudyKey, kind: str) -> bytes:
        """What the answerer of a query kind last kept of a study; empty where it has kept nothing yet.

        Raises:
            StateGoneError: the store lost or changed it.
        """
        known = self.account.states.get((key, kind))
        if known is None:
            return b""
        kept = self.store.reply(state_key(key, kind))
        if kept is None or digest(kept) != known.state:
            raise StateGoneError(known.index)
        return kept

    def make_room(self, size: int, most: int, now: int) -> None:
        """Drop replies of ended studies, the one that ended first in front, until `size` bytes more fit into `most`.

        Raises:
            StoreFullError: open studies need all that is kept; nothing more is changed.
        """

        def decide(account: Account) -> Entry | None:
            if account.kept_bytes + size <= most:  # another process has made room meanwhile
                return None
            ended = next((key for key in account.kept if account.studies[key].ended), None)
            if ended is None:
                raise StoreFullError("open studies need all replies that are kept")
            return self._entry(EntryKind.EVICT, now, learner=ended.learner, study=ended.study)

        while self.account.kept_bytes + size > most:
            self._append(decide, now)

    def expire(self, now: int) -> None:
        """Refund every reservation whose time has passed, as far as this process has read."""
        due = [
            key
            for studies in self.account.open_by_learner.values()
            for key in studies
            if self.account.studies[key].expires_at <= now
        ]
        for key in due:
            self._append(lambda account, key=key: self._expiry(account, key, now), now)  # type: ignore[misc]

    def halt(self, now: int, note: str, *, suspect: Suspect | None = None) -> None:
        """Stop reserving and charging until `resume`.

        With a `suspect`, the ledger may have lost entries. Then charged requests that have no reply in it may have had
        one, and are never answered again.
        """

        def decide(account: Account) -> Entry | None:
            seen = account.halted if suspect is None else suspect in account.suspects
            return None if seen else self._entry(EntryKind.HALT, now, suspect=suspect, note=note)

        self._append(decide, now)

    def resume(self, now: int, *, learner: bytes = NOBODY, restored: Fraction = ZERO, note: str = "") -> list[Restored]:
        """The steward's act after a halt: epsilon that the ledger lost is entered as spent.

        What the positions prove that it was halted for is entered by itself: each one's total over all learners less
        the total at the last entry in common. It is a lower bound: what was charged after the newest position is not
        in it.

        Args:
            now: the time.
            learner: to whom `restored` belongs; zero for nobody in particular.
            restored: what the steward knows to be lost beyond that.
            note: why it is safe to go on.

        Returns:
            What was entered for each suspect; empty where the ledger was not halted.
        """
        found: list[Restored] = []

        def decide(account: Account) -> Entry | None:
            if not account.halted:
                return None
            found[:] = account.restored()
            total = restored + sum((item.total for item in found), ZERO)
            return self._entry(
                EntryKind.RESUME, now, learner=learner, amount=amount(total), own=amount(restored), note=note
            )

        self._append(decide, now)
        return found

    def close(self) -> None:
        """Release the store and the mark."""
        self.store.close()
        self._mark.close()

    def _start(self, terms: str, now: int) -> None:
        """Write a START: first of all, so that what comes is on no branch that may have been lost."""
        self._append(lambda _: self._entry(EntryKind.START, now, note=terms), now)

    def _load(self) -> Account:
        account = load(self.store)
        if account.curator != self._key.public:
            raise ConfigurationError("this ledger belongs to another curator's key; a new one never carries it on")
        return account

    def _hold_against(self, known: Position, now: int) -> None:
        """Halt where the chain does not hold what this process knows to have been in it."""
        if not self.account.knows(known):
            note = f"ledger entry {known.index}, which this curator had written, is missing: rolled back or edited"
            self.halt(now, note, suspect=Suspect(known))
            self._marked = -1

    def _expiry(self, account: Account, key: StudyKey, now: int) -> Entry | None:
        found = account.studies[key]
        if found.ended:
            return None
        return self._study_entry(EntryKind.EXPIRE, now, key, found.sequence, found.reserved)

    def _study_entry(
        self, kind: EntryKind, now: int, key: StudyKey, sequence: int, cost: Fraction, request: bytes = bytes(32)
    ) -> Entry:
        return self._entry(
            kind, now, learner=key.learner, study=key.study, sequence=sequence, amount=amount(cost), request=request
        )

    def _entry(self, kind: EntryKind, now: int, **fields: Any) -> Entry:
        return (StatefulEntry if "state" in fields else Entry)(
            index=self.account.next_index,
            previous=self.account.head,
            nonce=self._entropy(_NONCE),
            kind=kind,
            at=now,
            **fields,
        )

    def _append(self, decide: Callable[[Account], Entry | None], now: int, *, replies: Replies = ()) -> bool:
        """Decide on the sum of all entries and append; again where another process was first. Whether it appended.

        What others have appended is read before each decision: one that appends nothing must not be stale either
        (a halt that another process has lifted meanwhile, say).
        """
        while True:
            self.refresh(now)
            entry = decide(self.account)
            if entry is None:
                return False
            body = encode_entry(entry)
            # What could not be read back, or would not fit, is never stored.
            self.account.check(decode_entry(body))
            evicted: Iterable[bytes] = ()
            if entry.kind is EntryKind.EVICT:
                evicted = self.account.stored(StudyKey(entry.learner, entry.study))
            row = Row(entry.index, body, sign_head(self._key, entry.index, entry_hash(body)))
            try:
                self.store.append(row, replies=replies, evicted=evicted)
            except AppendConflictError:
                continue
            self.account.apply(entry, body)
            return True
