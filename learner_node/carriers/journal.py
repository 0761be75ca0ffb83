"""A study's journal: what the learner read, drew, decided, sent and received, so that another process can resume it.

Each request is on disk before it is sent, and each reply before it is used. Computed values that later messages depend
on (plans, questions, models) are also stored before they are used. A process that resumes the study replays the journal
from its beginning, and so sends the very same bytes on any processor. Curators answer these from what they stored, and
charge nothing twice. If the requests differ all the same, nothing is sent.

The file is a list of records: length (4 bytes, big-endian), the first 4 bytes of the SHA-256 of the length, the first 8
of the SHA-256 of the value, and the value in MessagePack. An incomplete last record was being written when the process
ended, and nothing followed from it. Any other mismatch is damage, and the journal is not used.
"""

import fcntl
import os
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self, TypeVar

import msgspec

from expril.files import sync_folder
from learner_node.study.federation import Carrier
from protocol.codec import decode, encode
from protocol.envelopes import digest, open_envelope
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.messages import Digest, Key, Seconds, StudyProposal

FORMAT, OLDEST = 2, 1
"""The format that is written, and the oldest that can be resumed. The oldest holds no decisions, so they are
recomputed."""
HEAD = 4 + 4 + 8
MOST_RECORD = 2**31
"""Largest record, in bytes: an exchange with 100 curators at the protocol's largest message."""


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="what"):
    pass


class Beginning(_Record, frozen=True, tag="begun"):
    """The identity of the study."""

    format: Annotated[int, msgspec.Meta(ge=OLDEST, le=FORMAT)]
    expril: str  # version that began it
    about: Digest  # of what is asked, of whom, with which source and key
    receipts: dict[Key, bytes]  # curator's public key -> the newest receipt that the learner held


class ClockReading(_Record, frozen=True, tag="read"):
    """A reading of the clock."""

    seconds: Seconds


class Randomness(_Record, frozen=True, tag="drew"):
    """Random bytes that were drawn."""

    data: bytes


class Decision(_Record, frozen=True, tag="decided"):
    """A computed value that later messages depend on, as bytes; the code that records it also decodes it."""

    data: bytes


class Requests(_Record, frozen=True, tag="asked"):
    """Requests that were about to be sent: curator's public key -> envelope."""

    requests: dict[Key, bytes]


class Replies(_Record, frozen=True, tag="answered"):
    """The replies to the last requests, once the wait for them was over."""

    replies: dict[Key, bytes]


Record = Beginning | ClockReading | Randomness | Decision | Requests | Replies
R = TypeVar("R", Beginning, ClockReading, Randomness, Decision, Requests, Replies)
T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """The study that a journal is kept for."""

    version: str  # of ExPriL
    about: bytes  # digest of what is asked, of whom, with which source and key; one journal is of one of these
    receipts: Mapping[bytes, bytes]  # curator's public key -> newest receipt, as the study begins


class Journal:
    """A study's journal in a file that only its owner may read; a context manager.

    `receipts` are the newest ones that the learner held when the study began. `resumed` is True if an earlier process
    began it.

    Args:
        path: the file; it is created, or resumed if it exists.
        settings: the study's settings.
        clock: seconds since 1970 as an int.
        entropy: n -> n random bytes.

    Raises:
        ConfigurationError: another process writes the file, it is damaged, or it belongs to another study.
    """

    def __init__(
        self, path: Path, settings: Settings, *, clock: Callable[[], int], entropy: Callable[[int], bytes]
    ) -> None:
        self._path = path
        self._version = settings.version
        self._clock = clock
        self._entropy = entropy
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._begun, self._past = self._open(settings)
        except BaseException:
            os.close(self._handle)
            raise
        self.receipts = dict(self._begun.receipts)
        self._proposed = any(map(_binds, self._past))

    @property
    def replaying(self) -> bool:
        """Whether records of an earlier process remain to be replayed."""
        return bool(self._past)

    def clock(self) -> int:
        """Seconds since 1970, as an earlier process read them, or now."""
        if self._past:
            return self._next(ClockReading).seconds
        now = self._clock()
        self._write(ClockReading(now))
        return now

    def entropy(self, size: int) -> bytes:
        """Random bytes, as an earlier process drew them, or new ones."""
        if self._past:
            data = self._next(Randomness).data
            if len(data) != size:
                raise self._other()
            return data
        data = self._entropy(size)
        self._write(Randomness(data))
        return data

    def decided(self, value: T, write: Callable[[T], bytes], read: Callable[[bytes], T]) -> T:
        """Return the value that an earlier process decided here, else `value`; see `learner_node.study.decisions`.

        Raises ConfigurationError: another version of ExPriL stored another value here, or the stored one is unreadable.
        """
        data = write(value)
        if not self._past:
            self._write(Decision(data))
            return value
        if self._begun.format == OLDEST and not isinstance(self._past[0], Decision):
            return value
        data_before = self._next(Decision).data
        if data_before == data:
            return value
        if self._begun.expril != self._version:
            raise self._other()
        try:
            return read(data_before)
        except RemoteProtocolError:
            raise self._other() from None

    def through(self, carrier: Carrier) -> Carrier:
        """Wrap a carrier to journal its exchanges. Requests whose replies the journal holds are not sent again."""
        return _JournalledCarrier(self, carrier)

    def exchange(self, carrier: Carrier, requests: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Send requests, or return the replies that an earlier process got.

        Raises ConfigurationError: an earlier process sent other requests at this point; nothing is sent.
        """
        record = Requests(dict(requests))
        if self._past:
            if self._next(Requests).requests != record.requests:
                raise self._other()
            if self._past:
                return dict(self._next(Replies).replies)
        else:
            self._write(record, sync=True)
            self._proposed = self._proposed or _binds(record)
        replies = {key: data for key, data in carrier.exchange(record.requests).items() if key in record.requests}
        self._write(Replies(replies), sync=True)
        return replies

    def forget(self) -> None:
        """Discard the study, so that the next process begins another one; for a study that cost nothing."""
        self._cut(0)
        self._past.clear()

    @property
    def proposed(self) -> bool:
        """Whether a plan was ever proposed. From then on a curator may hold a reservation, and charge."""
        return self._proposed

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, settings: Settings) -> tuple[Beginning, deque[Record]]:
        """The study's identity, and the records of an earlier process."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"another process runs this study: it writes {self._path}; wait for it"
            raise ConfigurationError(text) from None
        records = self._read()
        self.resumed = bool(records)
        if not records:
            records = [Beginning(FORMAT, settings.version, settings.about, dict(settings.receipts))]
            self._write(records[0], sync=True)
            sync_folder(self._path.parent)
        begun, *rest = records
        if not isinstance(begun, Beginning):
            raise ConfigurationError(f"{self._path} is damaged: it does not begin with what the study is")
        if begun.about != settings.about and not any(map(_binds, rest)):
            self._cut(0)
            return self._open(settings)
        if begun.about != settings.about:
            raise ConfigurationError(
                f"{self._path} is of a study with other settings, another source or another key: put them back, or let "
                "this study have a folder of its own"
            )
        return begun, deque(rest)

    def _next(self, kind: type[R]) -> R:
        record = self._past.popleft()
        if not isinstance(record, kind):
            self._past.appendleft(record)
            raise self._other()
        return record

    def _other(self) -> ConfigurationError:
        machine = ", on the same machine" if self._begun.format == OLDEST else ""
        return ConfigurationError(
            f"the study of {self._path} cannot go on: it would now ask something else than before, so nothing was "
            f"sent. ExPriL {printable(self._begun.expril)} began it: go on with that version{machine}; or begin "
            "another study in another folder"
        )

    def _read(self) -> list[Record]:
        """All complete records; an incomplete last one is cut off."""
        os.lseek(self._handle, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self._handle), "rb") as file:
            content = file.read()
        records: list[Record] = []
        place = 0
        while place < len(content):
            head = content[place : place + HEAD]
            end = place + HEAD + int.from_bytes(head[:4], "big")
            data = content[place + HEAD : end]
            true = head[4:8] == digest(head[:4])[:4]
            if not true or len(content) < end or digest(data)[:8] != head[8:]:
                complete = len(head) == HEAD and any(content[place:])
                if complete and (not true or len(content) > end):
                    raise ConfigurationError(f"{self._path} is damaged after {place} bytes; put a copy of it back")
                break
            try:
                records.append(decode(data, Record, limit=MOST_RECORD))  # type: ignore[arg-type]
            except RemoteProtocolError:
                raise ConfigurationError(
                    f"{self._path} was written by another version of ExPriL, or is damaged, after {place} bytes"
                ) from None
            place = end
        self._cut(place)
        return records

    def _cut(self, place: int) -> None:
        os.ftruncate(self._handle, place)
        os.lseek(self._handle, place, os.SEEK_SET)

    def _write(self, record: Record, *, sync: bool = False) -> None:
        """Append a record. If the disk is full, no part of it stays."""
        data = encode(record)
        place = os.lseek(self._handle, 0, os.SEEK_CUR)
        length = len(data).to_bytes(4, "big")
        rest = memoryview(length + digest(length)[:4] + digest(data)[:8] + data)
        try:
            while rest:
                rest = rest[os.write(self._handle, rest) :]
            if sync:
                os.fsync(self._handle)
        except OSError as error:
            self._cut(place)
            raise OSError(error.errno, error.strerror, str(self._path)) from None


@dataclass(frozen=True)
class _JournalledCarrier:
    _journal: Journal
    _carrier: Carrier

    def exchange(self, requests: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Exchange envelopes through the journal."""
        return self._journal.exchange(self._carrier, requests)


def _binds(record: Record) -> bool:
    """Whether a record contains the proposal of a plan."""
    if not isinstance(record, Requests):
        return False
    return any(isinstance(open_envelope(data)[1], StudyProposal) for data in record.requests.values())
