"""The audit of one ledger's file: its chain, rules, costs, signatures, stored replies, terms and plans.

The file is an export or a SQLite ledger. Nothing is written, not even beside the file, which SQLite opens as read-only
and immutable. A write-ahead log beside it is not read.

Verifying a signature takes longer than the rest of the work on an entry, so not every signature of a long ledger is
checked. The newest signature of each key covers all entries before it, as they are chained by hashes. The other
signatures of an export are covered by the digests of its blocks.
"""

import hashlib
import os
import random
import secrets
import sqlite3
import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice, pairwise
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from expril.audit.kinds.kind_audit import AuditedKinds
from expril.audit.recompute.bounds import Bounds, Cards
from expril.audit.recompute.entries import Findings
from expril.audit.recompute.replay import Replayed
from expril.files import plain_file, read_plain, read_start, rows_within, strange_tables
from protocol.codec import encode
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL, digest
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.ledger.entries import LedgerCorruptError, decode_entry, entry_hash, head_is_signed
from protocol.ledger.exports import (
    BLOCK,
    MOST,
    OLD_START,
    START,
    ExportReader,
    LedgerExport,
    Pair,
    read_block,
    state_key,
)
from protocol.messages import NOBODY
from protocol.rationals import plus
from protocol.run_index import is_listed
from protocol.strict_json import UNREADABLE, in_short

_SQLITE = b"SQLite format 3\x00"
_FIRST_VERSION = (
    "it is a ledger of protocol version 1 (ExPriL 0.1), which kept no digests of replies and no signatures: verify it "
    "with ExPriL 0.1"
)


class UnreadableError(ConfigurationError):
    """The file begins as a ledger does, but nothing more of it can be read."""


class Part(NamedTuple):
    """Some entries of a ledger's file, one after the other."""

    pairs: list[Pair]  # with their signatures
    damaged: bool  # whether its digest is not its content's: all its signatures are checked


@dataclass
class Evidence:
    """The content of a ledger's file, which is read once: first all parts, then the replies."""

    parts: Iterator[Part]  # all entries, in order
    # (digest of a request, or `state_key`; SHA-256 of what is stored under it), to be read after all parts
    replies: Iterator[tuple[bytes, bytes]]
    findings: Findings  # what is wrong with the file, whatever it says; as far as it was read


def is_ledger(path: Path) -> bool:
    """Whether a path is a ledger's file, judged by its first bytes.

    Raises:
        ConfigurationError: the file begins neither as an export nor as a SQLite file does.
    """
    try:
        start = read_start(path, len(START))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None
    if start not in (START, OLD_START) and not start.startswith(_SQLITE):
        raise ConfigurationError(f"{path} is no run's folder and no ledger; make an export: expril ledger export")
    return True


@contextmanager
def open_evidence(path: Path) -> Iterator[Evidence]:
    """Open a ledger's file.

    Raises:
        ConfigurationError: the file is no ledger.
        UnreadableError: the file is a ledger, but so damaged that nothing of it can be read. That may show only when
            its end is read.
        OSError: the file is missing or cannot be read.
    """
    start = read_start(path, len(START))
    if start.startswith(_SQLITE):
        with _sqlite(path) as evidence:
            yield evidence
        return
    if start == OLD_START:
        raise ConfigurationError(f"{path} is an export of format 1; make one of format 2: expril ledger export")
    if start != START:
        raise ConfigurationError(f"{path} is no ledger's export and no ledger; make one: expril ledger export")
    findings = Findings()
    try:
        with plain_file(path, most=MOST) as file:
            export = ExportReader(file)
            yield Evidence(_parts(export, findings), export.replies(), findings)
    except RemoteProtocolError:
        where = _where(read_plain(path, most=MOST))
        raise UnreadableError(f"{path} was changed: it cannot be read as an export ({where})") from None


def _where(data: bytes) -> str:
    """Return where the outer form of an export breaks."""
    try:
        again = encode(msgspec.msgpack.decode(data, type=LedgerExport))
    except UNREADABLE as error:
        return in_short(error)
    if again == data:
        return "its replies are not in rising order"
    start, end = 0, max(len(again), len(data))
    while end - start > 1:  # they are the same before `start`, and differ before `end`
        middle = (start + end) // 2
        start, end = (middle, end) if again[start:middle] == data[start:middle] else (start, middle)
    return f"at byte {start}"


def _parts(export: ExportReader, findings: Findings) -> Iterator[Part]:
    first = 0
    for number, block in enumerate(export.blocks(), start=1):
        content = read_block(block)
        last = first + len(content.pairs) - 1
        full = len(content.pairs) == BLOCK or number == export.block_count
        damaged = not (content.intact and full)
        if damaged:
            how = "it has too few entries" if content.intact else "its SHA-256 is not the one written beside it"
            text = f"block {number} of the export (entries {first} to {last}) was changed: {how}"
            findings.add(first, text)
        yield Part(content.pairs, damaged)
        first = last + 1


@contextmanager
def _sqlite(path: Path) -> Iterator[Evidence]:
    where = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(where, uri=True)) as connection:
            room = path.stat().st_size
            if connection.execute("select 1 from sqlite_master where name = 'ledger_entries'").fetchone():
                raise UnreadableError(f"{path}: {_FIRST_VERSION}")
            if strange := strange_tables(connection, room):
                raise UnreadableError(f"{path} holds no ledger: {strange}")
            findings = Findings()
            yield Evidence(_rows(connection, room, findings), _replies(connection, room, findings), findings)
    except (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError) as error:
        raise UnreadableError(f"{path}: the database cannot be read ({type(error).__name__})") from None


def _rows(connection: sqlite3.Connection, room: int, findings: Findings) -> Iterator[Part]:
    """The entries of a database up to the first that is not in its place; all rows are read."""
    entries = connection.execute("select entry_index, body, signature from entries order by entry_index")
    rows = enumerate(rows_within(entries, room))
    while part := list(islice(rows, BLOCK)):
        pairs: list[Pair] = []
        for place, (index, body, signature) in part:
            if index != place or not isinstance(body, bytes) or not isinstance(signature, bytes):
                text = f"ledger entry {place} is missing" if index != place else f"ledger entry {place} holds no bytes"
                findings.add(place, text)
                break
            pairs.append((body, signature))
        yield Part(pairs, damaged=False)
        if len(pairs) < len(part):
            deque(rows, maxlen=0)


def _replies(connection: sqlite3.Connection, room: int, findings: Findings) -> Iterator[tuple[bytes, bytes]]:
    strange = 0
    for request, reply in rows_within(connection.execute("select request, reply from replies"), room):
        if isinstance(request, bytes) and isinstance(reply, bytes):
            yield request, digest(reply)
        else:
            strange += 1
    if strange:
        findings.add(-1, f"{strange} stored replies hold no bytes")


def listed_files(folder: Path) -> dict[str, Path]:
    """Map relative to full paths of all files that a run's list should have."""
    there = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*"))}
    return {name: path for name, path in there.items() if is_listed(name) and (path.is_symlink() or not path.is_dir())}


def digest_of(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal; "" if it cannot be read."""
    try:
        with plain_file(path, most=MOST) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


Tick = Callable[[str, int, int], None]
"""(stage, done, total): called as work goes on."""


def quiet(_stage: str, _done: int, _total: int) -> None:
    """Show no progress."""


@dataclass(eq=False)
class LedgerAudit:
    """The result of auditing a ledger's file."""

    path: Path
    replayed: Replayed  # the sum of its entries
    bounds: Bounds  # what is known of the bound c
    kinds: AuditedKinds  # the query kinds that could be read
    entries: int  # how many the file holds
    checked: int = 0  # how many signatures were verified
    unproven: list[str] = field(default_factory=list)  # what rests on the curator's word
    # (first, last) entry that nothing outside of the curator's hands covers; None where there is none
    unwitnessed: tuple[int, int] | None = None
    covered_by: str = ""  # what the newest entry that is covered rests on

    @property
    def findings(self) -> Findings:
        """The texts of all findings."""
        return self.replayed.findings

    @property
    def curators(self) -> set[bytes]:
        """All keys that signed an entry. A key that took the ledger over, but signed nothing, is left out."""
        return {key for start, key in self.replayed.keys if start < len(self.replayed)}


def audit_ledger(
    path: Path,
    *,
    kinds: AuditedKinds,
    cards_of: Callable[[bytes], Cards] = lambda curator: {},  # noqa: ARG005
    curator: bytes = b"",
    named: Collection[bytes] = (),
    every_signature: bool = False,
    tick: Tick = quiet,
) -> LedgerAudit:
    """Replay a ledger's file.

    `path`: an export, or a SQLite ledger. `cards_of`: curator's public key -> (learner, study) -> contribution bound c
    of its signed card. `curator`: a public key that must be one of the ledger's; empty takes the keys that it names.
    `named`: hashes of entries, as receipts name them, whose signatures must be checked. `every_signature`: check all
    signatures, however many there are.

    Raises:
        ConfigurationError: the file is no ledger, or nothing of it can be read.
        OSError: the file is missing or cannot be read.
    """
    bounds = Bounds(kinds, cards_of)
    replayed = Replayed(bounds)
    with open_evidence(path) as evidence:
        heads = _Heads(named, every=every_signature)
        entries, odd = _feed(replayed, heads, evidence, tick)
        stored = _StoredReplies(replayed, evidence.replies)
    for finding in evidence.findings:
        replayed.findings.add(finding.index, finding.text)
    if not entries:
        replayed.findings.add(-1, "the ledger has no first entry")
    audit = LedgerAudit(path, replayed, bounds, kinds, entries)
    stranger = bool(curator) and curator not in audit.curators
    if stranger:
        replayed.findings.add(0, "the ledger was opened by another key")
    chosen = heads.chosen()
    wrong = unsigned(replayed, chosen, curator if stranger else b"")
    audit.checked = len(chosen)
    if odd is not None:
        replayed.findings.add(len(replayed), _broken(replayed, odd, changed=len(replayed) - 1 in wrong))
    for place in wrong:
        replayed.findings.add(
            place, f"ledger entry {place} is not signed by the curator: it or its signature was changed"
        )
    for study, text in bounds.contradictions(iter(replayed.studies.values())):
        replayed.findings.add(study.index, text)
    for study in bounds.wrong:
        cell = study.learner, study.versions[-1]
        replayed.under[cell] = plus(replayed.under[cell], bounds.shortfall(study))
    check_meaning(replayed)
    if not replayed.findings:
        stored.compare(replayed.findings)
    _tell(audit)
    return audit


def _feed(replayed: Replayed, heads: "_Heads", evidence: Evidence, tick: Tick) -> tuple[int, Pair | None]:
    """Replay all entries. Return the number of entries in the file, and the first that does not belong to the chain."""
    entries = 0
    odd: Pair | None = None
    for part in evidence.parts:
        if not replayed.broken:
            count = replayed.feed_all([body for body, _ in part.pairs])
            heads.take(entries, part.pairs[:count], replayed, every=part.damaged)
            odd = part.pairs[count] if count < len(part.pairs) else None
        entries += len(part.pairs)
        tick("entries", entries, 0)
    return entries, odd


def _broken(replayed: Replayed, odd: Pair, *, changed: bool) -> str:
    """Say why the chain ends. If an entry does not fit, the one before it may have been changed."""
    place = len(replayed)
    body, signature = odd
    head = entry_hash(body)
    if changed:
        how = f"ledger entry {place - 1} was changed"
    elif _stands_elsewhere(replayed, body, signature, head):
        how = replayed.broken
    elif not head_is_signed(replayed.signer_of(place), signature, place, head):
        how = f"ledger entry {place} was changed ({replayed.broken})"
    else:
        how = f"{replayed.broken}, and its curator signed both: it keeps two histories, or entries were put in"
    return f"{how}; nothing from ledger entry {place} on is counted"


def _stands_elsewhere(replayed: Replayed, body: bytes, signature: bytes, head: bytes) -> bool:
    """Whether this signed entry belongs to another place, as if the right one was dropped or moved."""
    try:
        index = decode_entry(body).index
    except LedgerCorruptError:
        return False
    return index != len(replayed) and head_is_signed(replayed.signer_of(index), signature, index, head)


class _StoredReplies:
    """The digests of stored replies, and of the state that answerers keep, beside those in the chain.

    All `replies` are read, and only those that belong to no answer are kept.
    """

    def __init__(self, replayed: Replayed, replies: Iterable[tuple[bytes, bytes]]) -> None:
        self._requests = replayed.requests
        self._states = {
            state_key(*key, kind): state
            for key, studied in replayed.studies.items()
            for kind, state in studied.states.items()
        }
        find = self._requests.find
        self._others = {key: stored for key, stored in replies if not find(key, stored)}

    def compare(self, findings: Findings) -> None:
        """Add what differs to the findings."""
        for index, is_stored in self._requests.not_found():
            findings.add(index, f"the reply of ledger entry {index} {'was changed' if is_stored else 'is missing'}")
        for key, (index, state_digest) in self._states.items():
            stored = self._others.get(key)
            if stored != state_digest:
                how = "is missing" if stored is None else "was changed"
                findings.add(index, f"what the answerer kept with ledger entry {index} {how}")
        strangers = len(self._others.keys() - self._states.keys())
        if strangers:
            findings.add(-1, f"{strangers} stored replies belong to no entry")


def _tell(audit: LedgerAudit) -> None:
    """List what rests on the curator's word alone."""
    replayed = audit.replayed
    for entry in replayed.resumes:
        restored = (
            "" if entry.learner == NOBODY else f", of it {entry.learner_amount} of learner {entry.learner.hex()[:16]}"
        )
        audit.unproven.append(f"its entry {entry.index} enters {entry.amount} as spent on its steward's word{restored}")
    shapes = {id(study.shape): study.shape for study in replayed.studies.values() if not all(study.shape.fixed)}
    loose: dict[str, str] = {}
    for shape in shapes.values():
        for kind, fixed, noted in zip(shape.kinds, shape.fixed, shape.noted, strict=True):
            if noted:
                loose[kind] = "rests on the curator's notes on its answers, which only a transcript confirms"
            elif not fixed:
                why = "it depends on releases" if kind in audit.kinds else "the kind is not installed"
                loose[kind] = f"is not computed anew: {why}"
    audit.unproven += [f"what queries of kind {printable(kind)} were charged {loose[kind]}" for kind in sorted(loose)]
    if replayed.studies and not audit.bounds.cards and audit.bounds.bound is not None:
        audit.unproven.append(f"c = {audit.bounds.bound} as implied by its costs: no card shows it")
    bounds = sorted(set(audit.bounds.cards.values()))
    if len(bounds) > 1:
        audit.unproven.append(
            f"its curator's cards show c = {' and '.join(map(str, bounds))}: what a study without a card of its own "
            "costs is not known, unless the steward changed c"
        )


MOST_ALL = 50_000
"""Length of a ledger, in entries, up to which every signature is checked."""
SAMPLE = 2_000
"""Signatures drawn at random from a longer ledger."""
_AT_A_TIME = 256


class Head(NamedTuple):
    """What is signed of an entry, with its signature."""

    place: int  # index of the entry
    head: bytes  # its hash
    signature: bytes


class _Heads:
    """The heads whose signatures are checked: all of a short ledger, and of a longer one those that `take` names.

    `named`: hashes of entries that receipts name. `every`: whether to check all signatures.
    """

    def __init__(self, named: Collection[bytes], *, every: bool) -> None:
        self._named = frozenset(named)
        self._most = sys.maxsize if every else MOST_ALL
        self._all: list[Head] = []  # while there are not too many
        self._always: dict[int, Head] = {}
        # those at random: each entry is as likely to be one as any other. Nobody sees the numbers but this process
        self._sample: list[Head] = []
        self._random = random.Random(secrets.randbits(256))  # noqa: S311 - ten times as fast as the system's
        self._last = Head(-1, b"", b"")

    def take(self, first: int, pairs: Sequence[Pair], replayed: Replayed, *, every: bool) -> None:
        """Take the heads of these entries, from a place on, that were replayed last.

        `every`: whether all of them are checked in any case, since the file was changed around them. Starts and
        handovers always are.
        """
        end = first + len(pairs)

        def head_at(place: int) -> Head:
            return Head(place, replayed.hashes[place], pairs[place - first][1])

        places = set(range(first, end)) if every else {place for place in replayed.marked if first <= place < end}
        replayed.marked.clear()
        if self._named:
            places |= {place for place in range(first, end) if replayed.hashes[place] in self._named}
        self._always |= {place: head_at(place) for place in places}
        short = min(max(first, self._most), end)
        self._all += map(head_at, range(first, short))
        if end <= self._most:
            return
        if first <= self._most:
            self._sample, self._all = self._random.sample(self._all, SAMPLE), []
        chance = self._random.random
        for place in range(short, end):
            if chance() * (place + 1) < SAMPLE:
                self._sample[self._random.randrange(SAMPLE)] = head_at(place)
        self._last = head_at(end - 1)

    def chosen(self) -> list[Head]:
        """Return those that are checked, in order. The newest of each key is one: it hands over, or is the last."""
        if self._all or self._last.place < 0:
            return self._all
        return sorted({**self._always, **{head.place: head for head in (*self._sample, self._last)}}.values())


def unsigned(replayed: Replayed, heads: Sequence[Head], signer: bytes = b"") -> list[int]:
    """Return the places of those of these heads, in order, whose signature does not fit the key.

    The key is `signer`. If that is empty, it is the one that the ledger names at each place.
    """
    spans = [*replayed.keys, (len(replayed), b"")]
    tasks: list[tuple[bytes, Sequence[Head]]] = []
    for (start, key), (end, _) in pairwise(spans):
        first, last = (bisect_left(heads, place, key=attrgetter("place")) for place in (start, end))
        tasks += [(signer or key, heads[at : min(at + _AT_A_TIME, last)]) for at in range(first, last, _AT_A_TIME)]

    def check(task: tuple[bytes, Sequence[Head]]) -> list[int]:
        key, part = task
        return [place for place, head, signature in part if not head_is_signed(key, signature, place, head)]

    # The library lets go of the interpreter's lock while it verifies
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        return [place for found_places in pool.map(check, tasks) for place in found_places]


SIMULATED = "its signatures are those of a simulation: NOT PRIVATE, whatever it charges"


def check_meaning(replayed: Replayed) -> None:
    """Add what is wrong with a ledger's terms and plans to its findings."""
    if replayed.unexplained >= 0:
        replayed.findings.add(
            replayed.unexplained,
            f"ledger entry {replayed.unexplained} accepts a plan before a START entry says what its charges mean",
        )
    if replayed.terms and replayed.label not in (LABEL, NOT_PRIVATE_LABEL):
        replayed.findings.add(
            replayed.starts[0],
            f"the ledger's terms are none that this program knows ({printable(replayed.terms, 200)}): nothing says "
            "what its charges mean",
        )
    if replayed.label == NOT_PRIVATE_LABEL:
        return
    for study in replayed.studies.values():
        if study.shape.not_private:
            replayed.findings.add(
                study.index,
                f"ledger entry {study.index} (reserve) accepts query {study.shape.not_private[0]}, which is not as "
                "private as its cost says, under terms that say nothing of a simulation: it has no epsilon",
            )
