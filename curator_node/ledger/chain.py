"""A ledger's chain of entries: opened, compared with this process's mark, and appended to.

Whether to charge, for example, is decided from the account of all entries so far. The decision takes effect when an
entry is appended, whose hash the curator signs. If another process appended first, it is decided anew on the longer
chain.

Threads that append at the same time share one commit: the first of them appends for all, and each returns when its own
entry is durable. In a group no entry may change how another one is decided (`Chain.append`). The account holds durable
entries only, and nobody holds its lock while heads are signed and the disk is waited for.
"""

import secrets
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from msgspec.structs import replace

from curator_node.ledger.account import Account
from curator_node.ledger.branches import BranchTrace, holds, stubs_of
from curator_node.ledger.checks import load
from curator_node.ledger.errors import HandedOverError, OvertakenError
from curator_node.ledger.marks import Mark, Marked, OpenBranch
from curator_node.ledger.store import AppendConflictError, LedgerStore, Replies, Row
from curator_node.ledger.studies import StudyKey
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError, ExprilError
from protocol.ledger.entries import (
    Entry,
    EntryKind,
    LedgerCorruptError,
    LostEntry,
    StatefulEntry,
    Suspect,
    decode_entry,
    encode_entry,
    entry_hash,
    head_is_signed,
    sign_head,
)
from protocol.messages import NO_DIGEST
from protocol.rationals import parse_amount

_NONCE = 16
"""Bytes of an entry's nonce: nobody guesses 128 bits."""
MOST_SUSPECTS = 256
"""Most lost branches that wait for the steward. A receipt of one more is refused and not entered."""
UNFINISHED = "the ledger was handed to this curator's key, which has not signed in it yet"
MOST_GROUPED = 64
"""Most entries of one commit."""
NO_MARK = "this process's mark is missing or damaged: the ledger may have been replaced by an older one"


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
    mark.write(marked_at_end(account), account.hashes)


def marked_at_end(account: Account) -> Marked:
    """The mark at a chain's newest entry."""
    return Marked(account.position(account.next_index - 1), tuple(account.spent_texts.items()))


class LaterError(ExprilError):
    """A decision that depends on an entry of the group that is being made; it is taken once that is durable."""


@dataclass
class _Order:
    """What one thread wants appended."""

    decide: Callable[[Account], Entry | None]
    replies: Replies
    group: Hashable  # None: it shares no commit
    stale: bool = False  # whether it must be decided anew, on all entries
    stored: bool = False  # whether its entry is durable
    error: Exception | None = None  # with which it ended

    @property
    def waits(self) -> bool:
        """Whether another thread may still commit it."""
        return not self.stale and not self.stored and self.error is None


@dataclass(frozen=True)
class _Line:
    """An entry of a group that is being committed."""

    order: _Order
    entry: Entry
    body: bytes
    head: bytes
    evicted: Sequence[bytes]  # keys of replies that are dropped with it


class Chain:
    """A stored chain that this process may append to. Several threads may use it.

    `store`: its entries and replies; `key`: the curator's; it signs every entry's hash, and is never in the store;
    `mark`: this process's own; `entropy`: n -> n random bytes, for the entries' nonces.

    Raises:
        ConfigurationError: there is no ledger, or it is another curator's.
        LedgerCorruptError: the stored chain does not fit together, or its last entry is not signed by the curator.
    """

    def __init__(
        self, store: LedgerStore, *, key: SigningKey, mark: Mark, entropy: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        self.store = store
        self._key = key
        self._mark = mark
        self._entropy = entropy
        # held while the account is used or changed, but not while a commit is waited for
        self.lock = threading.Condition()
        self.pending: list[tuple[bytes, Fraction]] = []  # (learner's key, charge) of the group that is being made
        self._orders: list[_Order] = []  # that wait for the next commit
        self._nonces: list[bytes] = []  # that were drawn for entries that nobody stored or saw
        self._terms = ""  # what its charges mean, once it serves
        self._behind = False  # whether another process has appended what this one has not read
        self._commits = False  # whether a thread is signing and storing a group
        self._place: tuple[int, bytes] | None = None  # index and head before the next entry of a group
        self._moves_mark = False  # whether a thread is writing the mark
        self.account = self._load()  # the sum of all entries read so far

    def begin(self, terms: str, now: int) -> None:
        """Start serving: compare the chain with this process's mark, and enter the terms of the charges.

        If the chain lacks what the mark names, or there is no mark, the ledger halts until its steward acts. `terms`
        name the privacy unit and the kind of signatures.

        Raises:
            ConfigurationError: the ledger was kept under other terms, so that its epsilons are not comparable; or a
                change of its key was not finished.
        """
        self._terms = terms
        self.refresh(now)
        if not self.account.taken_over:
            raise ConfigurationError(f"{UNFINISHED}; end it by: expril curator rotate")
        if self.account.terms not in ("", terms):
            raise ConfigurationError(
                f"this ledger was kept for other terms ({self.account.terms}; now: {terms}); epsilons of the two do "
                "not add up: make a new ledger, with caps lowered by what was spent"
            )
        marked = self._mark.read()
        self._start(now)
        if marked is None:
            self.halt(now, NO_MARK, trace=BranchTrace(Suspect()))
        else:
            self._hold_against(marked, self._mark.log(), now)
        self.settle()

    def refresh(self, now: int) -> None:
        """Read what other processes have appended.

        A store that was rolled back under a running curator halts the ledger.

        Raises:
            LedgerCorruptError: the chain does not fit together.
            HandedOverError: another key signs from now on.
        """
        with self.lock:
            self._refresh(now)

    def _refresh(self, now: int) -> None:
        while not self._read_on():
            if not self._commits:
                self._halt_restored(now)
                return
            self.lock.wait()  # what is being stored may be lost as well

    def _read_on(self) -> bool:
        """Add what other processes have appended. False if the store was rolled back."""
        account = self.account
        newest = account.next_index - 1
        rows = self.store.rows(newest)
        if not rows or rows[0].index != newest or entry_hash(rows[0].body) != account.head:
            return False
        for row in rows[1:]:
            if not head_is_signed(account.curator, row.signature, row.index, entry_hash(row.body)):
                raise LedgerCorruptError(f"ledger entry {row.index} is not signed by this curator")
            account.apply(decode_entry(row.body), row.body)
        if account.curator != self._key.public:
            raise HandedOverError
        return True

    def _halt_restored(self, now: int) -> None:
        """Load a store that was rolled back, and halt it. The lock is held, so nobody decides before the halt."""
        account = self.account
        marked = replace(marked_at_end(account), open=_open_of(account))
        others, self._orders = self._orders, []
        try:
            self.account = self._load()
            self._start(now)
            self._hold_against(marked, stubs_of(account.hashes), now)
        except BaseException:
            self.account = account  # until the halt is written, what was lost is known here alone
            raise
        finally:
            for order in others:
                order.stale = True
            self.lock.notify_all()

    def check_read_all(self) -> None:
        """Raise OvertakenError if another process has appended what this one has not read."""
        rows = self.store.rows(self.account.next_index - 1)
        if len(rows) != 1 or entry_hash(rows[0].body) != self.account.head:
            raise OvertakenError("the ledger has entries that this process has not read")

    def settle(self, request: bytes = NO_DIGEST) -> None:
        """Move this process's mark to the newest entry, before an answer that rests on that entry is sent.

        `request`: of the answer: nothing is done if the mark has passed its entry already, for another answer.

        While a lost branch waits for the steward, the mark does not move and names that branch, too. So the branch is
        found again whichever copy of the ledger is restored next.
        """
        with self.lock:
            answer = self.account.answers.get(request)
            needed = self.account.next_index - 1 if answer is None else answer.index
            while self._moves_mark:
                self.lock.wait()
            account, marked, branches = self.account, self._mark.read(), _open_of(self.account)
            goes_on = marked is not None and holds(marked.position, account.hashes)
            if marked is not None and goes_on and not (marked.open or branches) and marked.position.index >= needed:
                return
            newest, self._moves_mark = marked_at_end(account), True
        try:
            if not branches:
                first = marked.position.index + 1 if marked is not None and goes_on else 0
                self._mark.write(newest, account.hashes, first=first)
            elif marked is None:
                self._mark.write(replace(newest, open=branches), account.hashes)
            elif branches != marked.open:
                self._mark.write(replace(marked, open=branches))
        finally:
            with self.lock:
                self._moves_mark = False
                self.lock.notify_all()

    def halt(self, now: int, note: str, *, trace: BranchTrace | None = None) -> None:
        """Stop reserving and charging until `resume`.

        A `trace` means that the ledger may have lost entries. Charged requests without a reply may have been answered
        there, so they are never answered again.
        """

        def decide(account: Account) -> Entry | None:
            if trace is None:
                return None if account.halted else self.entry(EntryKind.HALT, now, note=note)
            too_many = len(account.suspects) >= MOST_SUSPECTS and trace.receipt != NO_DIGEST
            if too_many or any(trace.is_same(suspect) for suspect in account.suspects):
                return None
            more = {"lost_stubs": trace.entries, "spent": trace.written, "receipt": trace.receipt}
            return self.entry(EntryKind.HALT, now, suspect=trace.suspect, note=note, **more)

        self.append(decide, now)

    def close(self) -> None:
        """Release the store and the mark."""
        self.store.close()
        self._mark.close()

    def entry(self, kind: EntryKind, now: int, **fields: Any) -> Entry:
        """The next entry, not yet appended."""
        kind_of_entry = StatefulEntry if "state" in fields else LostEntry if "lost_stubs" in fields else Entry
        index, previous = self._place or (self.account.next_index, self.account.head)
        return kind_of_entry(
            index=index,
            previous=previous,
            nonce=self._nonces.pop(0) if self._nonces else self._entropy(_NONCE),
            kind=kind,
            at=now,
            **fields,
        )

    def append(
        self,
        decide: Callable[[Account], Entry | None],
        now: int,
        *,
        replies: Replies = (),
        group: Hashable = None,
    ) -> bool:
        """Decide on an entry from the account of all entries, and append it. Returns whether an entry was appended.

        `decide` may be called again: if another process appended first, and before it is final that nothing is
        appended, as another process may have lifted a halt. Entries of other processes are read before.

        `group`: entries of different groups may share a commit. Then each of them is decided from the entries before
        the commit, and must come out the same from those of the commit too: `decide` reads its own group and
        `pending`, and raises LaterError if that matters. None: the entry has a commit of its own.
        """
        order = _Order(decide, replies, group)
        with self.lock:
            self._orders.append(order)
        while True:
            with self.lock:
                while self._commits and order.waits:
                    self.lock.wait()
                if order.error is not None:
                    raise order.error
                if order.stored:
                    return True
                if order.stale:
                    self.refresh(now)
                    if (entry := decide(self.account)) is None:
                        return False
                    self._nonces.insert(0, entry.nonce)
                    order.stale = False
                    self._orders.insert(0, order)
                    continue
                if self._behind:  # read once for all that are decided anew, and right before
                    self._catch_up(order, now)
                    continue
                self._commits = True
            self._commit(order)

    def _catch_up(self, order: _Order, now: int) -> None:
        """Read what another process has appended. An order is given up if that fails."""
        try:
            self._behind = False
            self.refresh(now)
        except BaseException:
            self._behind = True
            self._orders = [other for other in self._orders if other is not order]
            raise

    def _decided(self) -> list[_Line]:
        """The entries of the next commit. Orders that may append nothing become stale."""
        lines: list[_Line] = []
        waiting, self._orders = self._orders, []
        index, head = self.account.next_index, self.account.head
        groups: set[Hashable] = set()
        try:
            for order in waiting:
                ungrouped = bool(lines) and None in (order.group, lines[0].order.group)
                if ungrouped or order.group in groups or len(lines) >= MOST_GROUPED:
                    self._orders.append(order)
                    continue
                self._place = (index, head)
                if (line := self._line_of(order)) is not None:
                    lines.append(line)
                    groups.add(order.group)
                    index, head = index + 1, line.head
                    if line.entry.kind is EntryKind.CHARGE:
                        self.pending.append((line.entry.learner, parse_amount(line.entry.amount)))
        except BaseException:
            self._orders = []
            for order in waiting:
                order.stale = True
            raise
        finally:
            self._place, self.pending = None, []
            self.lock.notify_all()
        return lines

    def _line_of(self, order: _Order) -> _Line | None:
        """The entry that an order appends next; None if it waits, or its own thread goes on."""
        try:
            entry = order.decide(self.account)
        except LaterError:
            self._orders.append(order)
            return None
        except Exception:  # noqa: BLE001 - its own thread decides once more, and raises it
            entry = None
        if entry is None:
            order.stale = True
            return None
        body = encode_entry(entry)
        try:
            # What could not be read back, or would not fit, is never stored
            self.account.check(decode_entry(body), self._place)
        except LedgerCorruptError as error:
            order.error = error
            return None
        evicted: Sequence[bytes] = ()
        if entry.kind is EntryKind.EVICT:
            evicted = self.account.stored(StudyKey(entry.learner, entry.study))
        return _Line(order, entry, body, entry_hash(body), evicted)

    def _commit(self, order: _Order) -> None:
        """Decide, sign and store the entries of a group, all or none, and add them to the account.

        `order`: of this thread, which is told of an interrupt.
        """
        lines: list[_Line] = []
        error: BaseException | None = None
        try:
            with self.store.turn() as exclusive:
                with self.lock:
                    self._behind = exclusive and not self._read_on()  # then it was rolled back
                    lines = [] if self._behind else self._decided()
                if lines:
                    self._store(lines)
        except BaseException as caught:  # noqa: BLE001 - told to each of its threads
            error = caught
        with self.lock:
            try:
                if isinstance(error, AppendConflictError):
                    self._behind = True
                    self._orders[:0] = [line.order for line in lines]
                    self._nonces[:0] = [line.entry.nonce for line in lines]
                elif lines:
                    for line in lines:
                        self._finish(line, error)
                elif isinstance(error, Exception):
                    waiting, self._orders = self._orders, []
                    for other in waiting:
                        other.error = error
                elif error is not None:
                    self._orders = [other for other in self._orders if other is not order]
            except BaseException:
                for line in lines:
                    line.order.stale = line.order.stale or line.order.waits
                raise
            finally:
                self._commits = False
                self.lock.notify_all()
        if error is not None and not isinstance(error, Exception):
            raise error

    def _store(self, lines: Sequence[_Line]) -> None:
        rows = [Row(line.entry.index, line.body, sign_head(self._key, line.entry.index, line.head)) for line in lines]
        replies = [pair for line in lines for pair in line.order.replies]
        evicted = [request for line in lines for request in line.evicted]
        self.store.append(*rows, replies=replies, evicted=evicted, after=lines[0].entry.previous)

    def _finish(self, line: _Line, error: BaseException | None) -> None:
        """Add a stored entry to the account, or tell its thread why it is not stored."""
        account, order, entry = self.account, line.order, line.entry
        if error is not None:
            # An interrupt ends the thread that it meets, and no other
            order.stale = not isinstance(error, Exception)
            order.error = None if order.stale else cast(Exception, error)
        elif (entry.index, entry.previous) == (account.next_index, account.head):
            account.add(entry, line.head)
            order.stored = True
        elif account.hashes[entry.index : entry.index + 1] == [line.head]:
            order.stored = True  # another thread has read it meanwhile
        else:
            order.error = OvertakenError("the ledger was put back while an entry was stored")

    def _start(self, now: int) -> None:
        """Append a START entry before any other, so that no later entry lies on a branch that may be lost."""
        self.append(lambda account: self.entry(EntryKind.START, now, note=self._terms or account.terms), now)

    def _load(self) -> Account:
        account = load(self.store)
        if account.curator != self._key.public:
            raise ConfigurationError("this ledger belongs to another curator's key; a new one never carries it on")
        return account

    def _hold_against(self, marked: Marked, log: bytes, now: int) -> None:
        """Halt for each entry that the mark names and the chain lacks.

        `log`: stubs of all entries up to the mark's position; empty if they are not known.
        """
        for trace in marked.branches(log, self.account.hashes):
            if not self.account.knows(trace) and trace.position is not None:
                place = trace.position.index
                self.halt(
                    now, f"ledger entry {place}, which was written, is missing: rolled back or edited", trace=trace
                )


def _open_of(account: Account) -> tuple[OpenBranch, ...]:
    """The lost branches of a chain that wait for its steward."""
    traces = (trace for trace in account.suspects if trace.position is not None)
    return tuple(OpenBranch(trace.suspect, trace.written, trace.receipt) for trace in traces)
