"""A carrier over a folder of envelope files, for sites without a network connection.

    FOLDER/<curator's public key>/requests/<SHA-256 of the request>.envelope
    FOLDER/<curator's public key>/replies/<SHA-256 of the request>.envelope

Such a folder, or parts of it, may travel in either direction by a shared drive, e-mail or memory stick. Files appear
atomically and never change. A repeated request has the same name, so it adds no file.
"""

import os
import stat
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from expril.files import write_private
from learner_node.study.federation import UnfinishedError
from protocol.carriage import REPLIES, REQUESTS, envelope_file
from protocol.codec import MOST_ENVELOPE_BYTES
from protocol.envelopes import digest
from protocol.errors import ConfigurationError

LOOK_SECONDS = 0.2
"""Seconds between two looks for replies."""


class FolderCarrier:
    """Writes requests into a folder and reads replies from it; implements `learner_node.study.federation.Carrier`.

    Args:
        folder: created if absent.
        names: public key -> the learner's name, for all curators that may be asked.
        wait: seconds to wait for missing replies.
        without: public keys of curators that are not waited for.
    """

    def __init__(
        self, folder: Path, names: Mapping[bytes, str], *, wait: float = 0.0, without: Collection[bytes] = ()
    ) -> None:
        self._folder = folder
        self._names = dict(names)
        self._wait = wait
        self._without = frozenset(without)

    def exchange(self, requests: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Write requests and collect replies.

        Raises:
            UnfinishedError: a reply is not there yet; the text names its curator.
            ConfigurationError: a file cannot be written.
        """
        for key, data in requests.items():
            self._send(key, data)
        end = time.monotonic() + self._wait
        while True:
            replies = {key: reply for key, data in requests.items() if (reply := self._reply(key, data)) is not None}
            missing = requests.keys() - replies.keys() - self._without
            if not missing:
                return replies
            if time.monotonic() >= end:
                raise UnfinishedError(self._awaited(missing))
            time.sleep(LOOK_SECONDS)

    def _send(self, key: bytes, data: bytes) -> None:
        path = self._folder / key.hex() / REQUESTS / envelope_file(digest(data))
        if path.is_file():
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_private(path, data)
        except OSError as error:
            raise ConfigurationError(f"cannot write {path}: {error.strerror}; choose another folder") from None

    def _reply(self, key: bytes, data: bytes) -> bytes | None:
        return read_small_file(self._folder / key.hex() / REPLIES / envelope_file(digest(data)), MOST_ENVELOPE_BYTES)

    def _awaited(self, missing: Collection[bytes]) -> str:
        names = ", ".join(sorted(self._names.get(key, key.hex()) for key in missing))
        return (
            f"no reply yet from {names}: bring the requests in {self._folder} there, and the replies back (there: "
            f"expril curator answer FOLDER --site SITE); then the same command goes on"
        )


def read_small_file(path: Path, most: int) -> bytes | None:
    """Content of a regular file of at most `most` bytes; None if there is no such regular file, or it is larger."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(most)
    except OSError:
        return None
    finally:
        os.close(handle)
