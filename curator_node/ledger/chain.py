"""A ledger's chain of entries: opened, compared with this process's mark, and appended to.

Whether to charge, for example, is decided from the account of all entries so far. The decision takes effect when an
entry is appended, whose hash the curator signs. If another process appended first, it is decided anew on the longer
chain.
"""

import secrets
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from curator_node.ledger.account import Account
from curator_node.ledger.branches import BranchTrace, holds, stubs_of
from curator_node.ledger.checks import load
from curator_node.ledger.errors import HandedOverError, OvertakenError
from curator_node.ledger.marks import Mark, Marked, OpenBranch
from curator_node.ledger.store import AppendConflictError, LedgerStore, Replies, Row
from curator_node.ledger.studies import StudyKey
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
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
from protocol.rationals import GRID, amount, shorten

_NONCE = 16
"""Bytes of an entry's nonce: nobody guesses 128 bits."""
MOST_SUSPECTS = 256
"""Most lost branches that wait for the steward. A receipt of one more is refused and not entered."""
UNFINISHED = "the ledger was handed to this curator's key, which has not signed in it yet"
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
    spent = tuple((key, amount(shorten(spending, longest=GRID))) for key, spending in account.spent.items() if spending)
    return Marked(account.position(account.next_index - 1), spent)


class Chain:
    """A stored chain that this process may append to.

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
        self.account = self._load()  # the sum of all entries read so far

    def begin(self, terms: str, now: int) -> None:
        """Start serving: compare the chain with this process's mark, and enter the terms of the charges.

        If the chain lacks what the mark names, or there is no mark, the ledger halts until its steward acts. `terms`
        name the privacy unit and the kind of signatures.

        Raises:
            ConfigurationError: the ledger was kept under other terms, so that its epsilons are not comparable; or a
                change of its key was not finished.
        """
        self.refresh(now)
        if not self.account.taken_over:
            raise ConfigurationError(f"{UNFINISHED}; end it by: expril curator rotate")
        if self.account.terms not in ("", terms):
            raise ConfigurationError(
                f"this ledger was kept for other terms ({self.account.terms}; now: {terms}); epsilons of the two do "
                "not add up: make a new ledger, with caps lowered by what was spent"
            )
        marked = self._mark.read()
        self._start(terms, now)
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
        account = self.account
        newest = account.next_index - 1
        rows = self.store.rows(newest)
        if not rows or rows[0].index != newest or entry_hash(rows[0].body) != account.head:
            marked = replace(marked_at_end(account), open=_open_of(account))
            self.account = self._load()
            try:
                self._start(self.account.terms, now)
                self._hold_against(marked, stubs_of(account.hashes), now)
            except BaseException:
                self.account = account  # until the halt is written, what was lost is known here alone
                raise
            return
        for row in rows[1:]:
            if not head_is_signed(account.curator, row.signature, row.index, entry_hash(row.body)):
                raise LedgerCorruptError(f"ledger entry {row.index} is not signed by this curator")
            account.apply(decode_entry(row.body), row.body)
        if account.curator != self._key.public:
            raise HandedOverError

    def check_read_all(self) -> None:
        """Raise OvertakenError if another process has appended what this one has not read."""
        rows = self.store.rows(self.account.next_index - 1)
        if len(rows) != 1 or entry_hash(rows[0].body) != self.account.head:
            raise OvertakenError("the ledger has entries that this process has not read")

    def settle(self) -> None:
        """Move this process's mark to the newest entry, before an answer that rests on that entry is sent.

        While a lost branch waits for the steward, the mark does not move and names that branch, too. So the branch is
        found again whichever copy of the ledger is restored next.
        """
        account, marked = self.account, self._mark.read()
        if marked is not None and (marked.position.head, marked.open) == (account.head, ()):
            return
        branches = _open_of(account)
        if not branches:
            goes_on = marked is not None and holds(marked.position, account.hashes)
            first = marked.position.index + 1 if marked is not None and goes_on else 0
            self._mark.write(marked_at_end(account), account.hashes, first=first)
        elif marked is None:
            self._mark.write(replace(marked_at_end(account), open=branches), account.hashes)
        elif branches != marked.open:
            self._mark.write(replace(marked, open=branches))

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
        return kind_of_entry(
            index=self.account.next_index,
            previous=self.account.head,
            nonce=self._entropy(_NONCE),
            kind=kind,
            at=now,
            **fields,
        )

    def append(self, decide: Callable[[Account], Entry | None], now: int, *, replies: Replies = ()) -> bool:
        """Decide on an entry from the account of all entries, and append it. Returns whether an entry was appended.

        If another process appended first, `decide` is called again. Entries of other processes are read before each
        decision, so that a decision to append nothing is not stale either: another process may have lifted a halt.
        """
        while True:
            self.refresh(now)
            entry = decide(self.account)
            if entry is None:
                return False
            body = encode_entry(entry)
            # What could not be read back, or would not fit, is never stored
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

    def _start(self, terms: str, now: int) -> None:
        """Append a START entry before any other, so that no later entry lies on a branch that may be lost."""
        self.append(lambda _: self.entry(EntryKind.START, now, note=terms), now)

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
