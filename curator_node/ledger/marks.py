"""A process's own mark: the newest entry that it wrote or relied on, kept outside the ledger's database.

If the ledger lacks the entry that the mark names, it was rolled back. The mark is written after the commit and before
the answer is sent, so a later process notices if the entry of any sent answer is missing. While a lost branch waits for
the steward, the mark does not move, and names other lost branches as well.

Beside the mark the process keeps its *log*: the first bytes of every entry's hash. With the log any entry of a lost
branch can be recognised.
"""

import errno
import fcntl
import hmac
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from curator_node.ledger.branches import POSITION_BYTES, BranchTrace, read_spent, stubs_of, unpack
from protocol.codec import decode, encode
from protocol.envelopes import digest
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.ledger.entries import MOST_LOST, STUB, Position, Suspect
from protocol.messages import NO_DIGEST, Digest, Key
from protocol.rationals import Amount

FIRST_SLOT = 8192
"""Older programs wrote two slots before it, which the first write empties."""
SLOT = 2**20
"""Bytes of a slot. There are two, written in turn: an interrupted write leaves the other intact."""
_LOG = FIRST_SLOT + 2 * SLOT
_OLD_SLOT = 4096
_TAG = 32
_SERIAL = 8
_LENGTH = 4

Spent = tuple[tuple[Key, Amount], ...]
"""The spending of each learner, by key."""


class OpenBranch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A lost branch that waits for the steward; the fields are those of `LostEntry`."""

    suspect: Suspect
    spent: Spent = ()
    receipt: Digest = NO_DIGEST

    @property
    def trace(self) -> BranchTrace:
        """The branch's trace."""
        return BranchTrace(self.suspect, b"", read_spent(self.spent), self.receipt)


class Marked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a mark says."""

    position: Position  # of the newest entry
    spent: Spent = ()  # what each learner had spent there; empty where it is not known, or too long
    open: tuple[OpenBranch, ...] = ()  # lost branches that the steward has not gone on from
    logged: Digest = NO_DIGEST  # chain of hashes over the log, up to the position; zero where there is none

    def branches(self, log: bytes, hashes: Sequence[bytes]) -> tuple[BranchTrace, ...]:
        """Traces of the branches that a ledger lost, if it lacks what the mark names.

        `log`: stubs of all entries up to the position; empty if they are not known. `hashes`: of the ledger's entries.
        """
        newest = BranchTrace(Suspect(self.position), _from_fork(log, hashes), read_spent(self.spent))
        return newest, *(branch.trace for branch in self.open)


class Mark(Protocol):
    """Where a process keeps its mark."""

    def read(self) -> Marked | None:
        """The mark that was written last; None if the stored one cannot be trusted."""

    def log(self) -> bytes:
        """Stubs of all entries up to the position, one after the other; empty if they cannot be trusted."""

    def write(self, marked: Marked, hashes: Sequence[bytes] = (), *, first: int = 0) -> None:
        """Durably replace the previous mark.

        `marked.logged` is filled in here. `hashes`: of every entry of the chain up to the position; empty leaves the
        log as it is. `first`: the log already holds the chain's entries before this index.
        """

    def close(self) -> None:
        """Release what is held."""


class MemoryMark:
    """A mark in memory, for tests and simulations."""

    def __init__(self) -> None:
        self._kept: Marked | None = None
        self._log = b""

    def read(self) -> Marked | None:
        """See `Mark`."""
        return self._kept

    def log(self) -> bytes:
        """See `Mark`."""
        return self._log

    def write(self, marked: Marked, hashes: Sequence[bytes] = (), *, first: int = 0) -> None:
        """See `Mark`."""
        if hashes:
            begin = first if len(self._log) == STUB * first else 0
            self._log = self._log[: STUB * begin] + stubs_of(hashes[begin : marked.position.index + 1])
        self._kept = marked

    def close(self) -> None:
        """See `Mark`."""


class FileMark:
    """A mark in a small file, authenticated by a secret key, held by one process at a time.

    `path`: of the file; made where there is none. Keep it on another disk than the database, and out of its backups: a
    mark that is restored with the database proves nothing. It grows by 8 bytes an entry. `key`: 32 secret bytes.

    Raises:
        ConfigurationError: the file cannot be opened, or another process holds it.
    """

    def __init__(self, path: Path, key: bytes) -> None:
        self._key = key
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(f"cannot open the mark {path}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise ConfigurationError(
                f"the mark {path} is held by another process; stop it, or give each process a mark of its own"
            ) from None
        self._serial, self._kept = _newest(self._file, key)
        self._old = any(os.pread(self._file, FIRST_SLOT, 0))

    def read(self) -> Marked | None:
        """See `Mark`."""
        return self._kept

    def log(self) -> bytes:
        """See `Mark`."""
        if self._kept is None or self._kept.logged == NO_DIGEST:
            return b""
        stubs = os.pread(self._file, STUB * (self._kept.position.index + 1), _LOG)
        if _chained(NO_DIGEST, stubs) == self._kept.logged:
            return stubs
        self._kept = msgspec.structs.replace(self._kept, logged=NO_DIGEST)  # the next write makes it anew
        return b""

    def write(self, marked: Marked, hashes: Sequence[bytes] = (), *, first: int = 0) -> None:
        """See `Mark`; OSError if the disk does not take it."""
        logged = self._kept.logged if self._kept else NO_DIGEST
        if hashes:
            begin = first if logged != NO_DIGEST else 0
            stubs = stubs_of(hashes[begin : marked.position.index + 1])
            _write_at(self._file, stubs, _LOG + STUB * begin)
            logged = _chained(logged if begin else NO_DIGEST, stubs)
        marked = msgspec.structs.replace(marked, logged=logged)
        serial = self._serial + 1
        _write_at(self._file, _slot_of(self._key, serial, marked), FIRST_SLOT + SLOT * (serial % 2))
        os.fdatasync(self._file)
        if self._old:
            _write_at(self._file, bytes(FIRST_SLOT), 0)
            os.fdatasync(self._file)
            self._old = False
        self._serial, self._kept = serial, marked

    def close(self) -> None:
        """See `Mark`."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _from_fork(log: bytes, hashes: Sequence[bytes]) -> bytes:
    """The part of a log from the last entry in common with a chain on; at most its last `MOST_LOST` entries."""
    count = len(log) // STUB
    shared = min(count, len(hashes))
    fork = next((at for at in range(shared) if log[STUB * at : STUB * (at + 1)] != hashes[at][:STUB]), shared) - 1
    return log[STUB * max(fork, 0, count - MOST_LOST) :]


def read_mark(path: Path, key: bytes) -> Marked | None:
    """The mark of another process, which may be running; None if the file's content cannot be trusted.

    Raises:
        ConfigurationError: there is no such file.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(f"cannot read the mark {path}: {error.strerror}") from None
    try:
        return _newest(file, key)[1]
    finally:
        os.close(file)


def _newest(file: int, key: bytes) -> tuple[int, Marked | None]:
    slots = [read(file, key, number) for read in (_slot, _old_slot) for number in (0, 1)]
    return max(slots, key=lambda slot: slot[0])


def _write_at(file: int, data: bytes, place: int) -> None:
    """Write all of the data; OSError if the disk takes less."""
    while data:
        count = os.pwrite(file, data, place)
        data, place = data[count:], place + count


def _slot_of(key: bytes, serial: int, marked: Marked) -> bytes:
    """A slot's bytes. If they would be too many, the learners' spending is left out.

    Raises:
        OSError: the slot would still be too long.
    """
    bare = msgspec.structs.replace(marked, spent=())
    barest = msgspec.structs.replace(
        bare, open=tuple(msgspec.structs.replace(branch, spent=()) for branch in bare.open)
    )
    for content_of in (marked, bare, barest):
        body = encode(content_of)
        content = serial.to_bytes(_SERIAL, "big") + len(body).to_bytes(_LENGTH, "big") + body
        if len(content) + _TAG <= SLOT:
            return content + _tag(key, b"expril/2 mark 2", content)
    raise OSError(errno.EFBIG, "the mark names more lost branches than it can hold")


def _slot(file: int, key: bytes, number: int) -> tuple[int, Marked | None]:
    place, head = FIRST_SLOT + SLOT * number, _SERIAL + _LENGTH
    length = int.from_bytes(os.pread(file, head, place)[_SERIAL:], "big")
    data = os.pread(file, head + min(length, SLOT) + _TAG, place)
    content, tag = data[: head + length], data[head + length :]
    if len(content) <= head or not hmac.compare_digest(tag, _tag(key, b"expril/2 mark 2", content)):
        return 0, None
    try:
        return int.from_bytes(content[:_SERIAL], "big"), decode(content[head:], Marked)
    except RemoteProtocolError:
        return 0, None


def _old_slot(file: int, key: bytes, number: int) -> tuple[int, Marked | None]:
    """A slot as versions before 0.3 wrote it: a position alone."""
    data = os.pread(file, _SERIAL + POSITION_BYTES + _TAG, _OLD_SLOT * number)
    content, tag = data[:-_TAG], data[-_TAG:]
    if len(content) != _SERIAL + POSITION_BYTES or not hmac.compare_digest(tag, _tag(key, b"expril/2 mark", content)):
        return 0, None
    try:
        return int.from_bytes(content[:_SERIAL], "big"), Marked(unpack(content[_SERIAL:]))
    except RemoteProtocolError:
        return 0, None


def _tag(key: bytes, context: bytes, content: bytes) -> bytes:
    return hmac.digest(key, context + content, "sha256")


def _chained(start: bytes, stubs: bytes) -> bytes:
    """Continue a chain of hashes over more stubs."""
    for place in range(0, len(stubs), STUB):
        start = digest(start + stubs[place : place + STUB])
    return start
