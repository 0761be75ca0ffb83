"""A ledger in a SQLite file or another database, with its mark in a file beside it or elsewhere."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from curator_node.ledger.book import Ledger
from curator_node.ledger.chain import create_ledger
from curator_node.ledger.marks import FileMark
from curator_node.ledger.store import DatabaseStore, sqlite_url
from curator_node.ledger.storing import LedgerUnavailableError
from expril.files import new_file, private_draft
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError

NEVER_ANEW = "a ledger is never made anew"


def mark_path(ledger: Path) -> Path:
    """Where the mark is kept unless the steward says otherwise: `NAME.mark` beside `NAME.ledger`."""
    return ledger.with_name(ledger.name.removesuffix(".ledger") + ".mark")


def create_ledger_file(
    path: Path | str, key: SigningKey, *, now: int, mark: Path | None = None, note: str = ""
) -> None:
    """Make a new ledger, and its mark: both of them whole, or none.

    Args:
        path: a SQLite file, or a database's URL.
        key: the curator's.
        now: the time.
        mark: None takes the one beside the file.
        note: kept in the ledger.

    Raises:
        ConfigurationError: the ledger or its mark exists, or cannot be made, or a URL comes without a mark.
    """
    url, where = places(path, mark)
    with ExitStack() as drafts:
        if isinstance(path, Path):
            url = sqlite_url(drafts.enter_context(private_draft(path, rule=NEVER_ANEW)))
        draft = drafts.enter_context(new_file(where, rule=NEVER_ANEW))
        try:
            with ExitStack() as opened:
                store = DatabaseStore(url, create=True)
                opened.callback(store.close)
                held = open_mark(draft, key)
                opened.callback(held.close)
                create_ledger(store, key, held, now=now, note=note)
        except (OSError, ConfigurationError, LedgerUnavailableError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            named = f" {path}" if isinstance(path, Path) else ""  # a URL may hold a password
            raise ConfigurationError(f"cannot make the ledger{named}: {why}; nothing of it was kept") from None


def open_ledger_file(
    path: Path | str, key: SigningKey, *, mark: Path | None = None, first: SigningKey | None = None
) -> Ledger:
    """Open a ledger to serve from it.

    Args:
        path: a SQLite file, or a database's URL.
        key: the curator's.
        mark: this process's; None takes the one beside the file.
        first: the curator's first key, where it has had others; the mark's own key is derived from it.

    Raises:
        ConfigurationError: there is none, it is another curator's, another process holds the mark, or a URL comes
            without a mark.
        LedgerCorruptError: its chain does not fit together.
    """
    url, where = places(path, mark)
    with ExitStack() as opened:
        store = DatabaseStore(url)
        opened.callback(store.close)
        held = open_mark(where, first or key)
        opened.callback(held.close)
        ledger = Ledger(store, key=key, mark=held)
        opened.pop_all()
    return ledger


def open_mark(path: Path, key: SigningKey) -> FileMark:
    """The mark of a process that serves for the curator whose first key this is."""
    return FileMark(path, key.derive("ledger mark"))


def places(path: Path | str, mark: Path | None) -> tuple[Any, Path]:
    """URL of a ledger, and where its mark is kept."""
    if isinstance(path, Path):
        return sqlite_url(path), mark or mark_path(path)
    if mark is None:
        raise ConfigurationError("a ledger that is no file has no mark beside it; say where the mark is kept")
    return path, mark
