"""A curator that answers requests in a folder.

Requests are files, and each reply is a file that is written whole or not.

Anybody may be able to write into the folder. So a file is read only if it is a plain file, has a request's name and is
small enough; links are never followed. `Curator.handle` judges its content, as with any other transport.
"""

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from curator_node.site import Site
from protocol.carriage import REPLIES, REQUESTS, SUFFIX
from protocol.codec import MOST_ENVELOPE_BYTES
from protocol.envelopes import open_envelope, verify
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.messages import TYPE_NAMES, Refusal

_NAME = re.compile(rf"[0-9a-f]{{64}}{re.escape(SUFFIX)}\Z")
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ANSWERED, REFUSED, IGNORED = "answered", "refused", "ignored"


@dataclass(frozen=True)
class FileOutcome:
    """The outcome of a request's file."""

    file: str  # its name
    what: str  # `ANSWERED`, `REFUSED` or `IGNORED`
    why: str  # type of the answer, code of the refusal, or why it was ignored
    limit: str = ""  # of a refusal, what would be accepted


def answer_folder(folder: Path, site: Site) -> Iterator[FileOutcome]:
    """Answer every request, also to former keys, that has no reply yet or only a refusal that is not final.

    Args:
        folder: the carrier's folder. Only the part of this curator is read.
        site: the curator's site.

    Yields:
        The outcome of each file that was answered, refused or ignored; files that have their reply are left out.

    Raises:
        ConfigurationError: there is no such folder, it has no part for this curator, or a reply cannot be written.
    """
    addressed = [identity for identity in site.curator.identities if (folder / identity.hex()).is_dir()]
    for identity in addressed or [site.identity]:
        with _open_folders(folder, identity) as (requests, replies):
            for name in sorted(os.listdir(requests)):  # noqa: PTH208 - a handle, no path
                outcome = _answer_file(requests, replies, name, site, identity)
                if outcome is not None:
                    yield outcome


def _answer_file(requests: int, replies: int, name: str, site: Site, identity: bytes) -> FileOutcome | None:
    if not _NAME.match(name):
        return FileOutcome(name, IGNORED, "not the name of a request")
    most = site.policy.limits.message_bytes
    request = _read(requests, name, most)
    if isinstance(request, str):
        return FileOutcome(name, IGNORED, request)
    if hashlib.sha256(request).hexdigest() != name.removesuffix(SUFFIX):
        return FileOutcome(name, IGNORED, "its name is not its digest: it was changed on its way, or is not whole yet")
    earlier_reply = _read(replies, name, MOST_ENVELOPE_BYTES)
    if isinstance(earlier_reply, bytes) and _is_settled(earlier_reply, identity):
        return None
    reply = site.handle(request)
    _write(replies, name, reply)
    message = open_envelope(reply)[1]
    if isinstance(message, Refusal):
        return FileOutcome(name, REFUSED, message.code, message.limit)
    return FileOutcome(name, ANSWERED, TYPE_NAMES[type(message)])


def _is_settled(reply: bytes, curator: bytes) -> bool:
    """Whether a reply is this curator's own and final."""
    try:
        envelope, message = open_envelope(reply)
        verify(envelope, curator, label=envelope.label)
    except RemoteProtocolError:
        return False
    return not isinstance(message, Refusal) or message.final


def _read(folder: int, name: str, most: int) -> bytes | str:
    """The content of a plain file, or why it is not read."""
    try:
        handle = os.open(name, os.O_RDONLY | _PLAIN, dir_fd=folder)
    except OSError:
        return "not a plain file, or not readable"
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return "not a plain file"
        if status.st_size > most:
            return f"{status.st_size} bytes; this curator reads at most {most}"
        with os.fdopen(handle, "rb", closefd=False) as file:
            content = file.read(most + 1)
    finally:
        os.close(handle)
    return content if len(content) <= most else f"more than {most} bytes"


def _write(folder: int, name: str, content: bytes) -> None:
    """Durably write a file, in place of whatever has its name."""
    draft = f".{name}.{secrets.token_hex(4)}.new"
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o644, dir_fd=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(draft, dir_fd=folder)
            raise
        os.fsync(folder)
    except OSError as error:
        raise ConfigurationError(f"cannot write the reply {name}: {error.strerror}; nothing of it was kept") from None


@contextmanager
def _open_folders(folder: Path, curator: bytes) -> Iterator[tuple[int, int]]:
    """Handles of the folders of this curator's requests and replies; everything else is relative to them."""
    with ExitStack() as stack:

        def opened(open_it: Callable[[], int]) -> int:
            handle = open_it()
            stack.callback(os.close, handle)
            return handle

        try:
            base = opened(lambda: os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError as error:
            raise ConfigurationError(
                f"no folder {folder} ({error.strerror}); name the one that requests came in"
            ) from None
        try:
            of_curator = opened(lambda: os.open(curator.hex(), _FOLDER, dir_fd=base))
            requests = opened(lambda: os.open(REQUESTS, _FOLDER, dir_fd=of_curator))
        except OSError:
            raise ConfigurationError(
                f"{folder} holds no requests for this curator: no folder {curator.hex()}/{REQUESTS}; does the learner "
                "know its key?"
            ) from None
        try:
            if REPLIES not in os.listdir(of_curator):  # noqa: PTH208 - a handle, no path
                os.mkdir(REPLIES, dir_fd=of_curator)
            replies = opened(lambda: os.open(REPLIES, _FOLDER, dir_fd=of_curator))
        except OSError as error:
            raise ConfigurationError(
                f"{folder}: no folder {curator.hex()}/{REPLIES} can be made for the replies ({error.strerror})"
            ) from None
        yield requests, replies
