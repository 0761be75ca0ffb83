"""A steward's desk: policy, ledger and schema of a site's folder, opened beside the process that serves from it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from curator_node.daemon.settings import DAEMON, inside, ledger_of, read_settings
from curator_node.ledger import Ledger
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.places import ledger_place
from curator_node.ledger.store import DatabaseStore, sqlite_url
from curator_node.policy import Policy
from curator_node.steward.enrolment import read_policy_of
from curator_node.steward.keyring import LEDGER, read_keys


@dataclass(frozen=True)
class Desk:
    """What a steward acts on.

    Attributes:
        folder: the site's.
        policy: with the enrolled learners.
        ledger: it may be appended to, whoever else serves from it.
    """

    folder: Path
    policy: Policy
    ledger: Ledger


def places_of(folder: Path, ledger: str = "", mark: Path | None = None) -> tuple[Path | str, Path | None]:
    """Where a site's ledger and the mark of its process are: as told, else as its daemon file says, else its folder.

    Args:
        folder: the site's.
        ledger: a file or a database's URL; "" where it is not told.
        mark: a file; None where it is not told.
    """
    told = ledger_place(ledger) if ledger else None
    if (folder / DAEMON).is_file():
        settings = read_settings(folder)
        return told or ledger_of(settings) or folder / LEDGER, mark or inside(folder, settings.mark)
    return told or folder / LEDGER, mark


@contextmanager
def open_desk(folder: Path, ledger: str = "") -> Iterator[Desk]:
    """Open a folder for its steward; no mark is held, so the process that serves goes on.

    Args:
        folder: the site's.
        ledger: a file or a database's URL; "" takes the site's own.

    Raises:
        ConfigurationError: a file is absent or wrong, or the ledger is another curator's.
        LedgerCorruptError, LedgerUnavailableError: the ledger cannot be read.
    """
    policy, keys = read_policy_of(folder, kinds=None), read_keys(folder)
    where, _ = places_of(folder, ledger)
    store = DatabaseStore(sqlite_url(where) if isinstance(where, Path) else where)
    try:
        yield Desk(folder, policy, Ledger(store, key=keys.current, mark=MemoryMark()))
    finally:
        store.close()
