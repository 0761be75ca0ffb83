"""Where a ledger lies, and how it is made, opened and read there: a SQLite file, an export, or a database's URL."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from curator_node.ledger.chain import create_ledger
from curator_node.ledger.checks import Evidence, StoredLedger
from curator_node.ledger.engines import read_url, require_sqlite, shown_url
from curator_node.ledger.exports import is_export, read_export
from curator_node.ledger.ledger import Ledger
from curator_node.ledger.marks import FileMark
from curator_node.ledger.store import DatabaseStore, LedgerUnavailableError, read_only_url, sqlite_url
from expril.files import new_file, private_draft
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError

Place = Path | str
"""A file, or a database's URL."""


def ledger_place(text: str) -> Place:
    """The place that a person typed. The URL of a SQLite file becomes the file's path.

    Raises:
        ConfigurationError: the URL is of an unknown sort of database.
    """
    if "://" not in text:
        return Path(text)
    url = read_url(text, "the ledger's place")
    if url.get_backend_name() == "sqlite" and url.database and not url.query:
        return Path(url.database)
    return text


def place_text(where: Place) -> str:
    """A place as text for people: a path, or a URL without its password and options."""
    return str(where) if isinstance(where, Path) else shown_url(read_url(where, "the ledger's place"))


@contextmanager
def read_store(where: Place) -> Iterator[DatabaseStore]:
    """Open a ledger in a database to read one state of it.

    Raises:
        ConfigurationError: there is no ledger.
    """
    if isinstance(where, Path):
        with read_ledger_file(where) as store, store.snapshot():
            yield store
        return
    try:
        store = DatabaseStore(where, read_only=True)
    except ConfigurationError as error:
        raise ConfigurationError(f"{place_text(where)}: {error}") from None
    try:
        with store.snapshot():
            yield store
    finally:
        store.close()


@contextmanager
def read_evidence(where: Place) -> Iterator[Evidence]:
    """Open a ledger in a database or an export to read it; raises the errors of `read_store`."""
    if isinstance(where, Path) and is_export(where):
        yield read_export(where)
        return
    with read_store(where) as store:
        yield StoredLedger(store)


@contextmanager
def read_ledger_file(path: Path, *, log: bool = True) -> Iterator[DatabaseStore]:
    """Open a SQLite ledger to read it. Nothing is written beside it.

    If a process serves the ledger, it is read in place with its write-ahead log. If none does, as in a copy of a
    folder, reading the log would write beside it, so file and log are copied first. Without `log` the log is ignored.

    Raises:
        ConfigurationError: the file is no ledger, or cannot be copied.
    """
    require_sqlite(path)
    wal, shared = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if not log or not wal.is_file() or not wal.stat().st_size:
        yield from _opened(path, log=False)
    elif shared.is_file():
        yield from _opened(path, log=True)
    else:
        with tempfile.TemporaryDirectory() as place:
            copy = Path(place) / "copy"
            shutil.copyfile(path, copy)
            shutil.copyfile(wal, copy.with_name("copy-wal"))
            yield from _opened(copy, log=True)


def _opened(path: Path, *, log: bool) -> Iterator[DatabaseStore]:
    try:
        store = DatabaseStore(read_only_url(path, log=log))
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    try:
        yield store
    finally:
        store.close()


NEVER_ANEW = "a ledger is never made anew"


def mark_path(ledger: Path) -> Path:
    """The default place of the mark: `NAME.mark` beside `NAME.ledger`."""
    return ledger.with_name(ledger.name.removesuffix(".ledger") + ".mark")


def create_ledger_file(
    path: Path | str, key: SigningKey, *, now: int, mark: Path | None = None, note: str = ""
) -> None:
    """Make a new ledger and its mark, either both or none.

    `path`: a SQLite file, or a database's URL; `mark`: None takes the one beside the file; `note`: kept in the ledger.

    Raises:
        ConfigurationError: the ledger or its mark exists, or cannot be made, or a URL comes without a mark.
    """
    url, where = url_and_mark(path, mark)
    with ExitStack() as drafts:
        if isinstance(path, Path):
            url = sqlite_url(drafts.enter_context(private_draft(path, rule=NEVER_ANEW)))
        draft = drafts.enter_context(new_file(where, rule=NEVER_ANEW))
        try:
            with ExitStack() as opened:
                store = DatabaseStore(url, create=True)
                opened.callback(store.close)
                process_mark = open_mark(draft, key)
                opened.callback(process_mark.close)
                create_ledger(store, key, process_mark, now=now, note=note)
        except (OSError, ConfigurationError, LedgerUnavailableError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            named = f" {path}" if isinstance(path, Path) else ""  # a URL may hold a password
            raise ConfigurationError(f"cannot make the ledger{named}: {why}; nothing of it was kept") from None


def open_ledger_file(
    path: Path | str, key: SigningKey, *, mark: Path | None = None, first: SigningKey | None = None
) -> Ledger:
    """Open a ledger to serve from it.

    `path`: a SQLite file, or a database's URL; `mark`: this process's; None takes the one beside the file; `first`: the
    curator's first key, where it has had others; the mark's own key is derived from it.

    Raises:
        ConfigurationError: there is no ledger, it is another curator's, another process holds the mark, or a URL is
            given without a mark.
        LedgerCorruptError: the ledger's chain does not fit together.
    """
    url, where = url_and_mark(path, mark)
    with ExitStack() as opened:
        store = DatabaseStore(url)
        opened.callback(store.close)
        process_mark = open_mark(where, first or key)
        opened.callback(process_mark.close)
        ledger = Ledger(store, key=key, mark=process_mark)
        opened.pop_all()
    return ledger


def open_mark(path: Path, key: SigningKey) -> FileMark:
    """The mark of a process that serves for the curator whose first key this is."""
    return FileMark(path, key.derive("ledger mark"))


def url_and_mark(path: Path | str, mark: Path | None) -> tuple[Any, Path]:
    """URL of a ledger, and the place of its mark."""
    if isinstance(path, Path):
        return sqlite_url(path), mark or mark_path(path)
    if mark is None:
        raise ConfigurationError("a ledger that is no file has no mark beside it; say where the mark is kept")
    return path, mark
