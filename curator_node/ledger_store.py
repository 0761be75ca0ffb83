"""Where ledger entries and stored replies live: memory, or any database that SQLAlchemy speaks (SQLite by default).

An append names its index; two processes that append the same index conflict, and exactly one wins. That is the
only concurrency control that the ledger needs. The only file that imports SQLAlchemy.
"""

from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa

from protocol.errors import ConfigurationError, ExprilError


class LedgerUnavailableError(ExprilError):
    """The store did not take a write (disk full, database away). Nothing was charged by it."""


class AppendConflictError(ExprilError):
    """Another process appended this index first; read its entries and decide anew."""


class LedgerStore(Protocol):
    """What a ledger needs of a store."""

    def entries(self, start: int) -> list[tuple[int, bytes]]:
        """(index, body) of all entries from `start` on, in order."""

    def append(self, index: int, body: bytes) -> None:
        """Durably add an entry; AppendConflictError if the index exists, LedgerUnavailableError on failure."""

    def reply(self, request: bytes) -> bytes | None:
        """The stored reply to a request, or None."""

    def store_reply(self, request: bytes, reply: bytes) -> bytes:
        """Durably keep a reply unless one is kept already; the kept one (the first wins)."""

    def close(self) -> None:
        """Release what is held."""


class MemoryStore:
    """For tests and simulations: gone with the process."""

    def __init__(self) -> None:
        self._entries: list[bytes] = []
        self._replies: dict[bytes, bytes] = {}

    def entries(self, start: int) -> list[tuple[int, bytes]]:
        """See `LedgerStore`."""
        return list(enumerate(self._entries[start:], start))

    def append(self, index: int, body: bytes) -> None:
        """See `LedgerStore`."""
        if index != len(self._entries):
            raise AppendConflictError(str(index))
        self._entries.append(body)

    def reply(self, request: bytes) -> bytes | None:
        """See `LedgerStore`."""
        return self._replies.get(request)

    def store_reply(self, request: bytes, reply: bytes) -> bytes:
        """See `LedgerStore`."""
        return self._replies.setdefault(request, reply)

    def close(self) -> None:
        """See `LedgerStore`."""


METADATA = sa.MetaData()
ENTRIES = sa.Table(
    "ledger_entries",
    METADATA,
    sa.Column("entry_index", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
REPLIES = sa.Table(
    "ledger_replies",
    METADATA,
    sa.Column("request", sa.LargeBinary(32), primary_key=True),
    sa.Column("reply", sa.LargeBinary, nullable=False),
)
_APPEND = ENTRIES.insert()
_STORE = REPLIES.insert()
_FIND = sa.select(REPLIES.c.reply).where(REPLIES.c.request == sa.bindparam("request"))
_READ = (
    sa.select(ENTRIES.c.entry_index, ENTRIES.c.body)
    .where(ENTRIES.c.entry_index >= sa.bindparam("start"))
    .order_by(ENTRIES.c.entry_index)
)


class DatabaseStore:
    """Entries and replies in a database.

    Args:
        url: a SQLAlchemy URL; `sqlite_url` makes one from a path. SQLite runs with a write-ahead log and full
            synchronisation: a committed charge survives a power cut.

    Raises:
        ConfigurationError: the database cannot be opened.
    """

    def __init__(self, url: str | sa.URL) -> None:
        try:
            self._engine = sa.create_engine(url)
            if self._engine.dialect.name == "sqlite":
                sa.event.listen(self._engine, "connect", _make_durable)
            try:
                self._create_tables()
            except sa.exc.IntegrityError:
                # PostgreSQL: another process created them between our look and our act; now they exist.
                self._create_tables()
        except (sa.exc.SQLAlchemyError, ImportError) as error:
            raise ConfigurationError(f"the ledger's database cannot be opened ({type(error).__name__})") from None

    def entries(self, start: int) -> list[tuple[int, bytes]]:
        """See `LedgerStore`."""
        with self._translate(), self._engine.connect() as connection:
            return [(row[0], bytes(row[1])) for row in connection.execute(_READ, {"start": start})]

    def append(self, index: int, body: bytes) -> None:
        """See `LedgerStore`."""
        try:
            with self._translate(), self._engine.begin() as connection:
                connection.execute(_APPEND, {"entry_index": index, "body": body})
        except sa.exc.IntegrityError:
            raise AppendConflictError(str(index)) from None

    def reply(self, request: bytes) -> bytes | None:
        """See `LedgerStore`."""
        with self._translate(), self._engine.connect() as connection:
            found = connection.execute(_FIND, {"request": request}).scalar()
        return None if found is None else bytes(found)

    def store_reply(self, request: bytes, reply: bytes) -> bytes:
        """See `LedgerStore`."""
        try:
            with self._translate(), self._engine.begin() as connection:
                connection.execute(_STORE, {"request": request, "reply": reply})
        except sa.exc.IntegrityError:
            kept = self.reply(request)
            if kept is None:
                raise LedgerUnavailableError("a stored reply has vanished") from None
            return kept
        return reply

    def close(self) -> None:
        """See `LedgerStore`."""
        self._engine.dispose()

    def _create_tables(self) -> None:
        with self._engine.begin() as connection:
            for table in METADATA.sorted_tables:
                connection.execute(sa.schema.CreateTable(table, if_not_exists=True))

    def _translate(self) -> "_Translate":
        return _Translate()


class _Translate:
    """Turns a database failure into LedgerUnavailableError, without its text; conflicts pass."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sa.exc.SQLAlchemyError) and not isinstance(error, sa.exc.IntegrityError):
            raise LedgerUnavailableError(f"the ledger's database failed ({type(error).__name__})") from None


def sqlite_url(path: Path) -> sa.URL:
    """The URL of a SQLite file."""
    return sa.URL.create("sqlite", database=str(path))


def _make_durable(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout=60000")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()
