"""Files on disk: each is written whole or not at all; a text that a person wrote is read, or refused in one sentence.

A crash, a full disk or an interrupt leaves nothing of a new file, and all of the old one that was to be replaced.
"""

import errno
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from protocol.errors import ConfigurationError
from protocol.strict_toml import decode_text

PRIVATE, PUBLIC = 0o600, 0o644
PRIVATE_FOLDER = 0o700
MOST_TEXT = 2**26
"""Most bytes of a text that people write."""
_TABLES = ("entries", "replies")
"""What is read of a ledger's database."""
_BESIDE = ("-wal", "-shm", "-journal")
"""What a database may leave beside itself."""


@contextmanager
def new_file(path: Path, *, rule: str) -> Iterator[Path]:
    """A name beside `path` to write to; on leaving, the file gets its own name, if nothing went wrong.

    Args:
        path: of a file that must not exist.
        rule: why it must not, for the error ("a key is never overwritten").

    Raises:
        ConfigurationError: it exists, or its folder does not.
    """
    require_new(path, rule=rule)
    draft = _draft(path)
    try:
        yield draft
        _publish(draft, path, rule)
    finally:
        for leftover in (draft, *(draft.with_name(draft.name + suffix) for suffix in _BESIDE)):
            leftover.unlink(missing_ok=True)


def require_new(path: Path, *, rule: str) -> None:
    """Raise ConfigurationError as `new_file`, before what is to be written is computed."""
    if path.exists() or path.is_symlink():
        raise ConfigurationError(f"{path} exists; {rule}")
    if not path.parent.is_dir():
        raise ConfigurationError(f"no folder {path.parent}; make it first, or choose another")


@contextmanager
def private_draft(path: Path, *, rule: str) -> Iterator[Path]:
    """As `new_file`, of a file that is there from the beginning, empty, and that only its owner may read.

    Raises:
        ConfigurationError: as `new_file`, or it cannot be written.
    """
    with new_file(path, rule=rule) as draft:
        try:
            _create(draft, b"", PRIVATE)
        except OSError as error:
            raise _not_written(path, error) from None
        yield draft


def write_new(path: Path, content: bytes, *, rule: str, public: bool = False) -> None:
    """Durably write a file that only its owner may read; or, where it is `public`, everybody.

    Raises:
        ConfigurationError: as `new_file`, or it cannot be written.
    """
    try:
        with new_file(path, rule=rule) as draft:
            _create(draft, content, PUBLIC if public else PRIVATE)
    except OSError as error:
        raise _not_written(path, error) from None


def write_private(path: Path, content: bytes) -> None:
    """Durably write a file that only its owner may read, in place of an older one; OSError, which names `path`."""
    _replace(path, content, PRIVATE)


def replace_text(path: Path, text: str) -> None:
    """Write a UTF-8 text in place of an older one, in one step: a reader sees the one or the other.

    Raises:
        OSError: it cannot be written; the older one is untouched. Names `path`.
    """
    replace_bytes(path, text.encode("utf-8"))


def replace_bytes(path: Path, content: bytes) -> None:
    """As `replace_text`, of any file."""
    _replace(path, content, 0o666)  # less what the user's own mask takes away


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner may enter, where it is absent."""
    path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    return path


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk; OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_text_file(path: Path, what: str, *, remedy: str = "check its name") -> str:
    """The text of a file that people write: UTF-8, with or without a byte order mark.

    Args:
        path: of the file.
        what: what it should be ("policy file"), for the error.
        remedy: what to do where there is none.

    Raises:
        ConfigurationError: there is none, it is a folder, cannot be read, or is not UTF-8 text.
    """
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder, not a {what}; name the file in it")
    try:
        content = read_plain(path, most=MOST_TEXT)
    except FileNotFoundError:
        raise ConfigurationError(f"no {what} {path}; {remedy}") from None
    except OSError as error:
        raise ConfigurationError(f"cannot read the {what} {path}: {error.strerror}") from None
    return decode_text(content, where=f"{what} {path}")


def read_plain(path: Path, *, most: int, follow: bool = True) -> bytes:
    """A file's bytes, of which nothing is known: it may be a pipe or a device, or have an impossible name.

    `most`: bytes. `follow`: whether a link may lead to it.

    Raises:
        FileNotFoundError: there is no plain file.
        OSError: it cannot be read, or is longer than `most`.
    """
    with plain_file(path, most=most, follow=follow) as file:
        return file.read(most)


def read_start(path: Path, count: int) -> bytes:
    """The first bytes of a file of any length; raises as `read_plain`."""
    with plain_file(path) as file:
        return file.read(count)


@contextmanager
def plain_file(path: Path, *, most: int | None = None, follow: bool = True) -> Iterator[BufferedReader]:
    """Open a file to read it, without waiting for a pipe's other end; raises as `read_plain`."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except ValueError:  # NUL in its name
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    facts = os.fstat(handle)
    if not stat.S_ISREG(facts.st_mode):
        os.close(handle)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    with os.fdopen(handle, "rb") as file:
        if most is not None and facts.st_size > most:
            raise OSError(errno.EFBIG, f"it has more than {most} bytes, as no such file has", str(path))
        yield file


def strange_tables(connection: sqlite3.Connection, room: int) -> str:
    """Why the tables of a file from elsewhere are none of a ledger; "" if they are. Their rows may still be anything.

    A view or a computed column could make more of a file than there is in it. `room`: most bytes of a value from then
    on.
    """
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(room, 4096))
    texts = dict(connection.execute("select name, sql from sqlite_master where type = 'table'"))
    for table in _TABLES:
        if not str(texts.get(table, "")).upper().startswith("CREATE TABLE"):
            return f"there is no table {table}"
        if any(hidden for *_, hidden in connection.execute(f"pragma table_xinfo({table})")):
            return f"table {table} has a column that is computed"
    return ""


def rows_within(rows: Iterable[Any], room: int) -> Iterator[Any]:
    """The rows; sqlite3.DatabaseError if they hold more bytes than the file, as rows with shared pages may."""
    for row in rows:
        room -= 1 + sum(len(value) for value in row if isinstance(value, bytes | str))
        if room < 0:
            raise sqlite3.DatabaseError("more rows than the file has room for")
        yield row


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")


def _create(path: Path, content: bytes, mode: int) -> None:
    """Write a file that is not there yet, on disk when this returns; OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _replace(path: Path, content: bytes, mode: int) -> None:
    draft = _draft(path)
    try:
        _create(draft, content, mode)
        draft.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        draft.unlink(missing_ok=True)


def _publish(draft: Path, path: Path, rule: str) -> None:
    """Give the file its name in one step; one that appeared meanwhile stays."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise ConfigurationError(f"{path} exists; {rule}") from None
    except OSError:  # a file system without hard links
        if path.exists():
            raise ConfigurationError(f"{path} exists; {rule}") from None
        draft.rename(path)
    sync_folder(path.parent)


def _not_written(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"cannot write {path}: {error.strerror}; nothing of it was kept")
