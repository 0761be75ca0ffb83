"""A process's own mark: the newest entry that it wrote or relied on, kept outside the ledger's database.

A ledger must hold the entry that the mark names; one that does not was rolled back. The mark is written after the
commit and before the answer leaves, so no answer is out whose entry a later process would not miss.
"""

import fcntl
import hmac
import os
from pathlib import Path
from typing import Protocol

from curator_node.ledger.branches import POSITION_BYTES, pack, unpack
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.ledger.entries import Position

SLOT = 4096
"""Two slots, written in turn, each in a block of its own: a torn write leaves the other whole."""
_TAG = 32
_SERIAL = 8


class Mark(Protocol):
    """Where a process keeps its mark."""

    def read(self) -> Position | None:
        """The newest position written; None where there is none that can be trusted."""

    def write(self, position: Position) -> None:
        """Durably keep a position in place of the one before."""

    def close(self) -> None:
        """Release what is held."""


class MemoryMark:
    """For tests and simulations: gone with the process."""

    def __init__(self) -> None:
        self._kept: Position | None = None

    def read(self) -> Position | None:
        """See `Mark`."""
        return self._kept

    def write(self, position: Position) -> None:
        """See `Mark`."""
        self._kept = position

    def close(self) -> None:
        """See `Mark`."""


class FileMark:
    """A mark in a small file, authenticated by a secret key, held by one process at a time.

    Args:
        path: of the file; made where there is none. Keep it on another disk than the database, and out of its backups:
            a mark that is restored with the database proves nothing.
        key: 32 secret bytes.

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

    def read(self) -> Position | None:
        """See `Mark`."""
        return self._kept

    def write(self, position: Position) -> None:
        """See `Mark`. Raises OSError where the disk does not take it."""
        serial = self._serial + 1
        content = serial.to_bytes(_SERIAL, "big") + pack(position)
        slot = (content + _tag(self._key, content)).ljust(SLOT, b"\0")
        os.pwrite(self._file, slot, SLOT * (serial % 2))
        os.fdatasync(self._file)
        self._serial, self._kept = serial, position

    def close(self) -> None:
        """See `Mark`."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def read_mark(path: Path, key: bytes) -> Position | None:
    """What another process's mark names; None where nothing there can be trusted. It may be held, and moved meanwhile.

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


def _newest(file: int, key: bytes) -> tuple[int, Position | None]:
    return max((_slot(file, key, number) for number in (0, 1)), key=lambda slot: slot[0])


def _slot(file: int, key: bytes, number: int) -> tuple[int, Position | None]:
    data = os.pread(file, _SERIAL + POSITION_BYTES + _TAG, SLOT * number)
    content, tag = data[:-_TAG], data[-_TAG:]
    if len(content) != _SERIAL + POSITION_BYTES or not hmac.compare_digest(tag, _tag(key, content)):
        return 0, None
    try:
        return int.from_bytes(content[:_SERIAL], "big"), unpack(content[_SERIAL:])
    except RemoteProtocolError:
        return 0, None


def _tag(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, b"expril/2 mark" + content, "sha256")
