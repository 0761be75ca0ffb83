"""Where a ledger is: a SQLite file, an export, or a database's URL; told without a password, and read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from curator_node.ledger.checks import Evidence, StoredLedger
from curator_node.ledger.engines import read_url, told
from curator_node.ledger.exports import is_export, read_export
from curator_node.ledger.reading import read_ledger_file
from curator_node.ledger.store import DatabaseStore
from protocol.errors import ConfigurationError

Place = Path | str
"""A file, or a database's URL."""


def ledger_place(text: str) -> Place:
    """What a person typed; the URL of a SQLite file is that file.

    Raises:
        ConfigurationError: the URL of no database that is known here.
    """
    if "://" not in text:
        return Path(text)
    url = read_url(text, "the ledger's place")
    if url.get_backend_name() == "sqlite" and url.database and not url.query:
        return Path(url.database)
    return text


def told_place(where: Place) -> str:
    """For people: a path, or a URL without its password and options."""
    return str(where) if isinstance(where, Path) else told(read_url(where, "the ledger's place"))


@contextmanager
def read_store(where: Place) -> Iterator[DatabaseStore]:
    """Open a ledger in a database that is only read, and see one state of it.

    Raises:
        ConfigurationError: there is none.
    """
    if isinstance(where, Path):
        with read_ledger_file(where) as store, store.snapshot():
            yield store
        return
    try:
        store = DatabaseStore(where, read_only=True)
    except ConfigurationError as error:
        raise ConfigurationError(f"{told_place(where)}: {error}") from None
    try:
        with store.snapshot():
            yield store
    finally:
        store.close()


@contextmanager
def read_evidence(where: Place) -> Iterator[Evidence]:
    """As `read_store`, and exports, too."""
    if isinstance(where, Path) and is_export(where):
        yield read_export(where)
        return
    with read_store(where) as store:
        yield StoredLedger(store)
