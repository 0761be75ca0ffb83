"""Files that are written whole: a crash, a full disk or an interrupt leaves nothing of one, or all of it."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from protocol.errors import ConfigurationError

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
    if path.exists() or path.is_symlink():
        raise ConfigurationError(f"{path} exists; {rule}")
    if not path.parent.is_dir():
        raise ConfigurationError(f"no folder {path.parent}; make it first, or choose another")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        yield draft
        _publish(draft, path, rule)
    finally:
        for left in (draft, *(draft.with_name(draft.name + suffix) for suffix in _BESIDE)):
            left.unlink(missing_ok=True)


@contextmanager
def private_draft(path: Path, *, rule: str) -> Iterator[Path]:
    """As `new_file`, of a file that is there from the beginning, empty, and that only its owner may read.

    Raises:
        ConfigurationError: as `new_file`, or it cannot be written.
    """
    with new_file(path, rule=rule) as draft:
        try:
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            raise ConfigurationError(f"cannot write {path}: {error.strerror}; nothing of it was kept") from None
        yield draft


def write_new(path: Path, content: bytes, *, rule: str, public: bool = False) -> None:
    """Durably write a file that only its owner may read; or, where it is `public`, everybody.

    Raises:
        ConfigurationError: as `new_file`, or it cannot be written.
    """
    try:
        with new_file(path, rule=rule) as draft:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644 if public else 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}; nothing of it was kept") from None


def replace_text(path: Path, text: str) -> None:
    """Write a UTF-8 text in place of an older one, in one step: a reader sees the one or the other.

    Raises:
        OSError: it cannot be written; the older one is untouched. Names `path`.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
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


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk; OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
