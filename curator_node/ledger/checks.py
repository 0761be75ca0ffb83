"""Checks of a stored chain: those of opening it, and those of `expril ledger verify`, entry by entry."""

from dataclasses import dataclass
from typing import Protocol

from curator_node.ledger.account import Account
from curator_node.ledger.store import LedgerStore, Row
from curator_node.ledger.studies import state_key
from protocol.envelopes import digest
from protocol.errors import ConfigurationError, ExprilError
from protocol.ledger.entries import Entry, LedgerCorruptError, decode_entry, entry_hash, head_is_signed


@dataclass(frozen=True)
class Finding:
    """Something wrong with a ledger."""

    index: int  # of the entry; -1 where no entry is meant
    text: str  # what is wrong


@dataclass(frozen=True)
class CheckedLedger:
    """A ledger, entry by entry."""

    account: Account  # the sum of the entries up to the first that does not fit
    entries: tuple[Entry, ...]  # those that could be read, up to the same
    findings: tuple[Finding, ...]  # what is wrong; empty where all is in order


class Evidence(Protocol):
    """The parts of a ledger that are checked, from a store or an export."""

    def rows(self, start: int) -> list[Row]:
        """All entries from `start` on, in order."""

    def replied(self) -> list[bytes]:
        """Digests of all requests whose replies are stored."""

    def reply_digest(self, request: bytes) -> bytes | None:
        """SHA-256 of the reply that is stored for a request, or None."""


@dataclass(frozen=True)
class StoredLedger:
    """A store as evidence."""

    store: LedgerStore

    def rows(self, start: int) -> list[Row]:
        """See `Evidence`."""
        return self.store.rows(start)

    def replied(self) -> list[bytes]:
        """See `Evidence`."""
        return self.store.replied()

    def reply_digest(self, request: bytes) -> bytes | None:
        """See `Evidence`."""
        reply = self.store.reply(request)
        return None if reply is None else digest(reply)


def load(store: LedgerStore) -> Account:
    """The sum of a stored chain, whose last entry the curator signed.

    Raises:
        ConfigurationError: there is no entry.
        LedgerCorruptError: the chain does not fit together. The text names the entry.
    """
    rows = store.rows(0)
    if not rows:
        raise ConfigurationError("this ledger has no first entry; a new one is made by: expril ledger create")
    account = Account()
    for row in rows:
        try:
            account.apply(_decoded(row), row.body)
        except LedgerCorruptError as error:
            raise LedgerCorruptError(_where(rows, account, error)) from None
    last = rows[-1]
    if not head_is_signed(account.signer_of(last.index), last.signature, last.index, account.head):
        raise LedgerCorruptError(f"ledger entry {last.index} is not signed by its curator: it was changed, or forged")
    return account


def check(store: LedgerStore, curator: bytes | None = None) -> CheckedLedger:
    """Check a ledger in a store by `check_evidence`."""
    return check_evidence(StoredLedger(store), curator)


def check_evidence(ledger: Evidence, curator: bytes | None = None) -> CheckedLedger:
    """Check every entry's place, content and signature, and every stored reply against the chain.

    `curator` is one of the public keys that must have signed it; None takes the keys that the ledger itself names.

    Raises:
        ConfigurationError: there is no entry.
        LedgerCorruptError, LedgerUnavailableError: the store cannot be read at all.
    """
    rows = ledger.rows(-(2**62))
    if not rows:
        raise ConfigurationError("this ledger has no first entry")
    findings: list[Finding] = []
    account, entries = Account(), []
    for place, row in enumerate(rows):
        try:
            entry = _decoded(row)
            account.apply(entry, row.body)
        except LedgerCorruptError as error:
            findings.append(Finding(place, _where(rows[: place + 1], account, error)))
            break
        entries.append(entry)
    stranger = curator is not None and curator not in {key for _, key in account.curators}
    if stranger:
        findings.append(Finding(0, "the ledger was opened by another key"))
    for place, row in enumerate(rows):
        signer = curator if curator is not None and stranger else account.signer_of(place)
        head = account.hashes[place] if place < len(account.hashes) else entry_hash(row.body)
        if not head_is_signed(signer, row.signature, row.index, head):
            findings.append(Finding(place, f"ledger entry {place} is not signed by the curator"))
    if not findings:
        findings += _check_replies(ledger, account)
    return CheckedLedger(account, tuple(entries), tuple(findings))


def _check_replies(ledger: Evidence, account: Account) -> list[Finding]:
    requests = {request for request in account.answers if request not in account.evicted}
    there = set(ledger.replied())
    findings = []
    for request in requests:
        answer = account.answers[request]
        reply = ledger.reply_digest(request) if request in there else None
        if reply is None:
            findings.append(Finding(answer.index, f"the reply of ledger entry {answer.index} is missing"))
        elif reply != answer.reply:
            findings.append(Finding(answer.index, f"the reply of ledger entry {answer.index} was changed"))
    states = {state_key(*place): state for place, state in account.states.items()}
    for place, state in states.items():
        stored = ledger.reply_digest(place) if place in there else None
        if stored != state.state:
            how = "missing" if stored is None else "changed"
            findings.append(Finding(state.index, f"what the answerer kept with ledger entry {state.index} is {how}"))
    strangers = len(there - requests - states.keys())
    if strangers:
        findings.append(Finding(-1, f"{strangers} stored replies belong to no entry"))
    return findings


def _decoded(row: Row) -> Entry:
    entry = decode_entry(row.body)
    if entry.index != row.index:
        raise LedgerCorruptError(f"ledger entry {row.index} is stored under another number")
    return entry


def _where(rows: list[Row], account: Account, error: ExprilError) -> str:
    """The findings on a broken chain. If an entry does not fit, the one before it may have been changed."""
    place = account.next_index
    before, row = rows[place - 1], rows[place]
    if row.index != place:
        return f"ledger entry {place} is missing"
    if place and not head_is_signed(account.signer_of(before.index), before.signature, before.index, account.head):
        return f"ledger entry {before.index} was changed"
    if not head_is_signed(account.signer_of(row.index), row.signature, row.index, entry_hash(row.body)):
        return f"ledger entry {place} was changed ({error})"
    return str(error)
