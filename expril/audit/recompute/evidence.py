"""A ledger as it lies in a file: entries, signatures and digests of replies, from an export or a SQLite file.

Nothing is written, beside it neither: SQLite opens the file read-only and as one that nobody changes. What stands in a
write-ahead log beside it is not read. A run's files, too, are read by the auditor's own code, as they lie there.
"""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from expril.audit.recompute.known import Findings
from protocol.codec import encode
from protocol.envelopes import digest
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.ledger.exports import BLOCK, OLD_START, START, LedgerExport, Pair, decode_export, read_block
from protocol.run_index import is_listed

_SQLITE = b"SQLite format 3\x00"
_FIRST_VERSION = (
    "it is a ledger of protocol version 1 (ExPriL 0.1), which kept no digests of replies and no signatures: verify it "
    "with ExPriL 0.1"
)


class UnreadableError(ConfigurationError):
    """A file that is a ledger by its first bytes, and of which nothing more can be read."""


@dataclass
class Evidence:
    """What there is of a ledger.

    Attributes:
        parts: entries with their signatures, in order, a part of the file at a time.
        replies: digest of a request, or `state_key` -> SHA-256 of what is stored under it.
        findings: what is wrong with the file, whatever it says.
        damaged: (first, last) entry of each part whose digest is not its content's: all its signatures are checked.
    """

    parts: Iterator[list[Pair]]
    replies: dict[bytes, bytes]
    findings: Findings
    damaged: list[tuple[int, int]]


def is_ledger(path: Path) -> bool:
    """Whether a path is a ledger's file, by its first bytes.

    Raises:
        ConfigurationError: it is a file that begins neither as an export nor as a SQLite file does.
    """
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            start = file.read(len(START))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None
    if start not in (START, OLD_START) and not start.startswith(_SQLITE):
        raise ConfigurationError(f"{path} is no run's folder and no ledger; make an export: expril ledger export")
    return True


def open_evidence(path: Path) -> Evidence:
    """A ledger's file.

    Raises:
        ConfigurationError: it is none.
        UnreadableError: it is one, and damaged so that nothing of it can be read.
        OSError: it is missing or cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(len(START))
    if start.startswith(_SQLITE):
        return _sqlite(path)
    if start == OLD_START:
        raise ConfigurationError(f"{path} is an export of format 1; make one of format 2: expril ledger export")
    if start != START:
        raise ConfigurationError(f"{path} is no ledger's export and no ledger; make one: expril ledger export")
    findings = Findings()
    damaged: list[tuple[int, int]] = []
    data = path.read_bytes()
    try:
        export = decode_export(data)
    except RemoteProtocolError:
        raise UnreadableError(f"{path} was changed: it cannot be read as an export ({_where(data)})") from None
    return Evidence(_parts(export, findings, damaged), dict(export.replies), findings, damaged)


def _where(data: bytes) -> str:
    """Where the outer form of an export breaks."""
    try:
        again = encode(msgspec.msgpack.decode(data, type=LedgerExport))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        return printable(str(error))
    end = min(len(again), len(data))
    place = next((place for place in range(end) if again[place] != data[place]), end)
    return f"at byte {place}" if again != data else "its replies are not in rising order"


def _parts(export: LedgerExport, findings: Findings, damaged: list[tuple[int, int]]) -> Iterator[list[Pair]]:
    first = 0
    for number, block in enumerate(export.blocks, start=1):
        found = read_block(block)
        last = first + len(found.pairs) - 1
        full = len(found.pairs) == BLOCK or number == len(export.blocks)
        if not (found.whole and full):
            findings.add(
                first, f"block {number} of the export (entries {first} to {last}) was changed: {_how(found.whole)}"
            )
            damaged.append((first, last))
        yield found.pairs
        first = last + 1


def _how(whole: bool) -> str:
    return "it has too few entries" if whole else "its SHA-256 is not the one written beside it"


def _sqlite(path: Path) -> Evidence:
    where = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(where, uri=True)) as connection:
            names = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
            if "ledger_entries" in names:
                raise UnreadableError(f"{path}: {_FIRST_VERSION}")
            if not names >= {"entries", "replies"}:
                raise UnreadableError(f"{path} holds no ledger: its tables are not those of one")
            room = path.stat().st_size
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(room, 1))
            for table in ("entries", "replies"):
                if any(hidden for *_, hidden in connection.execute(f"pragma table_xinfo({table})")):
                    raise UnreadableError(f"{path} holds no ledger: table {table} has a column that is computed")
            rows = _rows(connection, "select entry_index, body, signature from entries order by entry_index", room)
            stored = _rows(connection, "select request, reply from replies", room)
    except (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError) as error:
        raise UnreadableError(f"{path}: the database cannot be read ({type(error).__name__})") from None
    findings = Findings()
    pairs: list[Pair] = []
    for place, (index, body, signature) in enumerate(rows):
        if index != place or not isinstance(body, bytes) or not isinstance(signature, bytes):
            what = f"ledger entry {place} is missing" if index != place else f"ledger entry {place} holds no bytes"
            findings.add(place, what)
            break
        pairs.append((body, signature))
    whole = [(request, reply) for request, reply in stored if isinstance(request, bytes) and isinstance(reply, bytes)]
    if len(whole) < len(stored):
        findings.add(-1, f"{len(stored) - len(whole)} stored replies hold no bytes")
    return Evidence(iter([pairs]), {request: digest(reply) for request, reply in whole}, findings, [])


def _rows(connection: sqlite3.Connection, query: str, room: int) -> list[tuple[Any, ...]]:
    """All rows; OverflowError where they hold more than the file can, as rows that share their pages do."""
    rows = []
    for row in connection.execute(query):
        room -= sum(len(value) for value in row if isinstance(value, bytes | str))
        if room < 0:
            raise OverflowError
        rows.append(row)
    return rows


def read_plain(path: Path) -> bytes:
    """Content of a plain file; OSError for anything else, which might never end, and for names that none can have."""
    try:
        if path.is_file():
            return path.read_bytes()
    except ValueError as error:
        raise OSError(str(error)) from None
    raise FileNotFoundError(str(path))


def listed_files(folder: Path) -> dict[str, Path]:
    """Path inside a run's folder -> path, of every file that its list should have."""
    there = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*"))}
    return {name: path for name, path in there.items() if is_listed(name) and (path.is_symlink() or not path.is_dir())}


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal; "" where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
