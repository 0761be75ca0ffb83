"""Stores of ledger entries and replies: in memory, or in a database by SQLAlchemy (SQLite by default).

An append names its index. If two processes append the same index, exactly one wins. The ledger needs no other
concurrency control.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import quote, unquote

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from curator_node.ledger.engines import open_engine, read_url, reason_of, require_sqlite
from curator_node.ledger.tables import (
    ENTRIES,
    FIRST_PROTOCOL,
    HELD,
    REFUSALS,
    REPLIES,
    VERSIONS,
    make_tables,
    version_of,
)
from expril.files import private_draft, rows_within, strange_tables
from protocol.errors import ConfigurationError, ExprilError
from protocol.ledger.entries import LedgerCorruptError, entry_hash


class LedgerUnavailableError(ExprilError):
    """The store did not take a write (full disk, unreachable database). Nothing was charged."""

    kind = "ledger"


class AppendConflictError(ExprilError):
    """Another process appended this index first; read its entries and decide anew."""


@dataclass(frozen=True)
class Row:
    """One stored entry."""

    index: int  # from 0, without gaps
    body: bytes  # the encoded entry
    signature: bytes  # the curator's, over the entry's place and hash; 64 bytes


@dataclass(frozen=True)
class PendingProposal:
    """A proposal that waits for the steward's decision."""

    request: bytes
    learner: bytes  # who signed it
    envelope: bytes  # its bytes, as they came
    received_at: int  # when they first came
    expires_at: int  # until when it is kept, and may be accepted


Replies = Iterable[tuple[bytes, bytes]]
"""(digest of the request, signed reply), or (`state_key`, what an answerer keeps)."""


class LedgerStore(Protocol):
    """A store of entries, replies, refusals and waiting proposals."""

    def rows(self, start: int) -> list[Row]:
        """All entries from `start` on, in order; LedgerUnavailableError, LedgerCorruptError."""

    def turn(self) -> AbstractContextManager[bool]:
        """A context of one thread for one append: other processes' turns wait until the append, or the end of it.

        What the thread reads in it is newer than every former turn. False if there are no turns: then only the append
        itself tells whether another process was first. Raises LedgerUnavailableError.
        """

    def append(self, *rows: Row, replies: Replies = (), evicted: Iterable[bytes] = (), after: bytes = b"") -> None:
        """Durably add entries, store or replace `replies` and drop `evicted` ones, either all or nothing.

        `rows` have successive indices; `after` is the hash of the entry before them, if that is checked here.

        Raises:
            AppendConflictError: the first index exists, or another entry is before it.
            LedgerUnavailableError: the store failed.
        """

    def reply(self, request: bytes) -> bytes | None:
        """The stored reply to a request, or None."""

    def replied(self) -> list[bytes]:
        """Digests of all requests whose replies are stored."""

    def remember(self, request: bytes, learner: bytes, refusal: bytes, expires_at: int, now: int) -> None:
        """Durably keep a final refusal until its request expires, and drop expired ones."""

    def refusal(self, request: bytes) -> bytes | None:
        """The refusal remembered for a request, or None."""

    def refusals(self, learner: bytes, now: int) -> int:
        """How many unexpired refusals of a learner's requests are kept."""

    def hold(self, proposal: PendingProposal, now: int) -> bool:
        """Durably keep a proposal, and drop expired ones. Returns False if it is kept already."""

    def pending(self, now: int) -> list[PendingProposal]:
        """The unexpired proposals that are kept, in the order in which they came."""

    def release(self, request: bytes) -> None:
        """Drop a proposal."""

    def close(self) -> None:
        """Release what is held."""


class MemoryStore:
    """A store in memory, for tests and simulations."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._replies: dict[bytes, bytes] = {}
        self._refusals: dict[bytes, tuple[bytes, bytes, int]] = {}
        self._proposals: dict[bytes, PendingProposal] = {}

    def rows(self, start: int) -> list[Row]:
        """See `LedgerStore`."""
        return self._rows[max(start, 0) :]

    def turn(self) -> AbstractContextManager[bool]:
        """See `LedgerStore`."""
        return nullcontext(False)

    def append(self, *rows: Row, replies: Replies = (), evicted: Iterable[bytes] = (), after: bytes = b"") -> None:
        """See `LedgerStore`."""
        first = rows[0].index
        if first != len(self._rows) or (after and first and entry_hash(self._rows[-1].body) != after):
            raise AppendConflictError(str(first))
        self._rows += rows
        self._replies.update(replies)
        for request in evicted:
            self._replies.pop(request, None)

    def reply(self, request: bytes) -> bytes | None:
        """See `LedgerStore`."""
        return self._replies.get(request)

    def replied(self) -> list[bytes]:
        """See `LedgerStore`."""
        return list(self._replies)

    def remember(self, request: bytes, learner: bytes, refusal: bytes, expires_at: int, now: int) -> None:
        """See `LedgerStore`."""
        self._refusals = {key: row for key, row in self._refusals.items() if row[2] > now}
        self._refusals[request] = (learner, refusal, expires_at)

    def refusal(self, request: bytes) -> bytes | None:
        """See `LedgerStore`."""
        return self._refusals[request][1] if request in self._refusals else None

    def refusals(self, learner: bytes, now: int) -> int:
        """See `LedgerStore`."""
        return sum(row[0] == learner and row[2] > now for row in self._refusals.values())

    def hold(self, proposal: PendingProposal, now: int) -> bool:
        """See `LedgerStore`."""
        self._proposals = {key: waiting for key, waiting in self._proposals.items() if waiting.expires_at > now}
        return self._proposals.setdefault(proposal.request, proposal) is proposal

    def pending(self, now: int) -> list[PendingProposal]:
        """See `LedgerStore`."""
        return sorted((waiting for waiting in self._proposals.values() if waiting.expires_at > now), key=_arrival)

    def release(self, request: bytes) -> None:
        """See `LedgerStore`."""
        self._proposals.pop(request, None)

    def close(self) -> None:
        """See `LedgerStore`."""


_NAMED = sqlite.dialect(paramstyle="named")
Run = Callable[[Any, Any], Iterable[Any]]
"""(statement, its values or a list of them) -> rows."""

_TURN = sa.text(f"SELECT pg_advisory_xact_lock({int.from_bytes(b'expril')})")
"""Waits for the one lock of a database's ledger, which the end of the transaction releases."""
_APPEND = ENTRIES.insert()
_BODY = sa.select(ENTRIES.c.body).where(ENTRIES.c.entry_index == sa.bindparam("at"))
_STORE = REPLIES.insert()
_EVICT = REPLIES.delete().where(REPLIES.c.request == sa.bindparam("evicted"))
_FIND = sa.select(REPLIES.c.reply).where(REPLIES.c.request == sa.bindparam("request"))
_REPLIED = sa.select(REPLIES.c.request).order_by(REPLIES.c.request)
_READ = (
    sa.select(ENTRIES.c.entry_index, ENTRIES.c.body, ENTRIES.c.signature)
    .where(ENTRIES.c.entry_index >= sa.bindparam("start"))
    .order_by(ENTRIES.c.entry_index)
)
_FORGET = REFUSALS.delete().where(
    (REFUSALS.c.expires_at <= sa.bindparam("now")) | (REFUSALS.c.request == sa.bindparam("again"))
)
_REMEMBER = REFUSALS.insert()
_REMEMBERED = sa.select(REFUSALS.c.refusal).where(REFUSALS.c.request == sa.bindparam("request"))
_HOW_MANY = (
    sa.select(sa.func.count())
    .select_from(REFUSALS)
    .where((REFUSALS.c.learner == sa.bindparam("learner")) & (REFUSALS.c.expires_at > sa.bindparam("now")))
)
_WAITING = sa.select(HELD).where(HELD.c.expires_at > sa.bindparam("now"))
_OVERDUE = HELD.delete().where(HELD.c.expires_at <= sa.bindparam("now"))
_RELEASE = HELD.delete().where(HELD.c.request == sa.bindparam("released"))


MOST_IDLE = 3
"""Most connections to a SQLite file that stay out of the pool between uses; it has five and ten more."""


class DatabaseStore:
    """Entries and replies in a database.

    `url` is a SQLAlchemy URL; `sqlite_url` makes one from a path. A committed charge survives a power cut: SQLite runs
    with a write-ahead log and full synchronisation, and commits of PostgreSQL wait for the disk. With `create` the
    tables of a new ledger are made. Otherwise they must exist, since a missing ledger is a lost one. With `read_only`,
    or a `read_only_url`, nothing is written, and tables of older versions are read, too.

    Raises:
        ConfigurationError: the database cannot be opened; it holds no ledger, one of ExPriL 0.1, or one whose tables
            have another version than this program's; or, with `create`, it holds a ledger already.
    """

    def __init__(self, url: str | sa.URL, *, create: bool = False, read_only: bool = False) -> None:
        where = read_url(url, "the ledger's place")
        self._engine = self._reading = open_engine(where)
        self._snapshot: sa.Connection | None = None
        self._turns = threading.local()  # its `held`: see `_turn`
        self._idle: list[tuple[Any, sa.Pool]] = []  # connections that wait for their next use, each with its pool
        self._file: Path | None = None
        self._room: int | None = None  # most bytes of a SQLite file's rows, where it is only read
        try:
            if where.get_backend_name() == "sqlite":
                read_only = read_only or "mode" in where.query
                self._open_sqlite(where, create=create, read_only=read_only)
            else:
                # One statement sees one state by itself; a transaction would take two journeys more
                options = {"isolation_level": "AUTOCOMMIT", "postgresql_readonly": read_only}
                self._reading = self._engine.execution_options(**options)
            self._check_tables(create=create, read_only=read_only)
        except (sa.exc.SQLAlchemyError, sqlite3.Error, UnicodeDecodeError) as error:
            self.close()
            raise ConfigurationError(f"the ledger's database cannot be opened ({reason_of(error)})") from None
        except ConfigurationError:
            self.close()
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A context in which all reads of a thread are of one moment, even while a curator serves."""
        with self._translate(), self._engine.connect() as connection:
            if self._engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN")
            else:
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            self._snapshot = connection
            try:
                yield
            finally:
                self._snapshot = None

    def rows(self, start: int) -> list[Row]:
        """See `LedgerStore`."""
        self._follow_file()
        with self._translate(), self._reader() as run:
            return [_row(row) for row in self._within(run(_READ, {"start": start}))]

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """See `LedgerStore`. A SQLite file has no turns: who waits for one would keep refusals from being stored."""
        if self._file is not None:
            yield False
            return
        with self._translate(), self._driver() as driver:
            # A statement whose rows are not read yet travels with the next: two journeys before the commit's, not nine
            pipeline = driver.pipeline() if self._dbapi.Pipeline.is_supported() else nullcontext()
            with pipeline:
                run = partial(_run, driver, self._engine.dialect)
                run(_TURN, {})
                self._turns.held = run, driver.commit
                try:
                    yield True
                finally:
                    self._turns.held = None

    def append(self, *rows: Row, replies: Replies = (), evicted: Iterable[bytes] = (), after: bytes = b"") -> None:
        """See `LedgerStore`."""
        self._follow_file()
        first = rows[0].index
        added = [{"entry_index": row.index, "body": row.body, "signature": row.signature} for row in rows]
        stored = [{"request": request, "reply": reply} for request, reply in replies]
        replaced = [{"evicted": pair["request"]} for pair in stored]
        dropped = [{"evicted": request} for request in evicted]
        try:
            with self._translate(), self._transaction() as run:
                for statement, values in ((_APPEND, added), (_EVICT, replaced), (_STORE, stored), (_EVICT, dropped)):
                    if values:
                        run(statement, values)
                before = [entry_hash(_bytes(row[0])) for row in run(_BODY, {"at": first - 1})] if first else [after]
                if not before or after not in (b"", *before):
                    raise AppendConflictError(str(first))  # the ledger was put back meanwhile
        except (sa.exc.IntegrityError, self._dbapi.IntegrityError):
            raise AppendConflictError(str(first)) from None

    def reply(self, request: bytes) -> bytes | None:
        """See `LedgerStore`."""
        return self._scalar(_FIND, {"request": request})

    def replied(self) -> list[bytes]:
        """See `LedgerStore`."""
        with self._translate(), self._connected() as connection:
            return [_bytes(row[0]) for row in self._within(connection.execute(_REPLIED))]

    def remember(self, request: bytes, learner: bytes, refusal: bytes, expires_at: int, now: int) -> None:
        """See `LedgerStore`."""
        another_was_first = suppress(sa.exc.IntegrityError)
        with another_was_first, self._translate(), self._engine.begin() as connection:
            connection.execute(_FORGET, {"now": now, "again": request})
            row = {"request": request, "learner": learner, "refusal": refusal, "expires_at": expires_at}
            connection.execute(_REMEMBER, row)

    def refusal(self, request: bytes) -> bytes | None:
        """See `LedgerStore`."""
        return self._scalar(_REMEMBERED, {"request": request})

    def refusals(self, learner: bytes, now: int) -> int:
        """See `LedgerStore`."""
        with self._translate(), self._connected() as connection:
            return int(connection.execute(_HOW_MANY, {"learner": learner, "now": now}).scalar_one())

    def hold(self, proposal: PendingProposal, now: int) -> bool:
        """See `LedgerStore`."""
        try:
            with self._translate(), self._engine.begin() as connection:
                connection.execute(_OVERDUE, {"now": now})
                connection.execute(HELD.insert(), asdict(proposal))
        except sa.exc.IntegrityError:  # it is kept already
            return False
        return True

    def pending(self, now: int) -> list[PendingProposal]:
        """See `LedgerStore`."""
        with self._translate(), self._connected() as connection:
            rows = connection.execute(_WAITING, {"now": now}).all()
        proposals = [
            PendingProposal(_bytes(row[0]), _bytes(row[1]), _bytes(row[2]), int(row[3]), int(row[4])) for row in rows
        ]
        return sorted(proposals, key=_arrival)

    def release(self, request: bytes) -> None:
        """See `LedgerStore`."""
        with self._translate(), self._engine.begin() as connection:
            connection.execute(_RELEASE, {"released": request})

    def close(self) -> None:
        """See `LedgerStore`."""
        self._let_go()

    def _open_sqlite(self, where: sa.URL, *, create: bool, read_only: bool) -> None:
        path = where.database or ""
        if not create:
            require_sqlite(Path(path))
        if read_only:
            self._room = _SLACK + 2 * sum(file.stat().st_size for file in _files_of(where))
        else:
            sa.event.listen(self._engine, "connect", _make_durable)
            self._file = Path(path)
            self._inode = self._file.stat().st_ino if self._file.is_file() else None

    def _within(self, rows: Iterable[Any]) -> Iterable[Any]:
        return rows if self._room is None else rows_within(rows, self._room)

    @contextmanager
    def _transaction(self) -> Iterator[Run]:
        """What runs statements that take effect together, or not at all.

        SQLite's driver is spoken to directly: SQLAlchemy takes several times as long as a statement itself.
        """
        if (turn := self._turn) is not None:
            run, commit = turn
            yield run
            commit()
            return
        if self._file is None:
            with self._engine.begin() as connection:
                yield connection.execute
            return
        with self._driver() as driver:
            driver.execute("BEGIN IMMEDIATE")  # so that what is read is what is written after
            yield partial(_run, driver, _NAMED)
            driver.commit()

    @contextmanager
    def _reader(self) -> Iterator[Run]:
        """What runs statements that only read."""
        if (turn := self._turn) is not None:
            yield turn[0]
            return
        if self._file is not None and self._snapshot is None:
            with self._driver() as driver:
                yield partial(_run, driver, _NAMED)
            return
        with self._connected() as connection:
            yield connection.execute

    @contextmanager
    def _driver(self) -> Iterator[Any]:
        """The driver's connection. Those of a SQLite file stay at hand: its pool takes as long as a statement."""
        pool = self._engine.pool
        pooled = self._spare(pool) or self._engine.raw_connection()
        driver: Any = pooled.driver_connection
        done = False
        try:
            yield driver
            done = self._file is not None and not driver.in_transaction
        finally:
            if done and pool is self._engine.pool and len(self._idle) < MOST_IDLE:
                self._idle.append((pooled, pool))
            else:
                pooled.close()  # and what was not committed is rolled back

    def _spare(self, pool: sa.Pool) -> Any:
        """A connection of this pool that was used before, or None."""
        with suppress(IndexError):
            while True:
                pooled, origin = self._idle.pop()
                if origin is pool:
                    return pooled
                pooled.close()
        return None

    def _let_go(self) -> None:
        """Close all connections that nobody uses."""
        with suppress(IndexError):
            while True:
                self._idle.pop()[0].close()
        self._engine.dispose()

    @property
    def _turn(self) -> tuple[Run, Callable[[], None]] | None:
        """What runs statements in this thread's turn, and what ends it durably."""
        return getattr(self._turns, "held", None)

    @property
    def _dbapi(self) -> Any:
        return self._engine.dialect.loaded_dbapi

    def _connected(self) -> AbstractContextManager[sa.Connection]:
        return self._reading.connect() if self._snapshot is None else nullcontext(self._snapshot)

    def _follow_file(self) -> None:
        """Connect anew if another file has replaced the open one, since writes to the old one are lost."""
        if self._file is None:
            return
        try:
            there = self._file.stat().st_ino
        except OSError:
            raise LedgerUnavailableError("the ledger's file is not there") from None
        if there != self._inode:
            self._let_go()
            self._inode = there

    def _scalar(self, statement: sa.Select[Any], values: dict[str, bytes]) -> bytes | None:
        with self._translate(), self._reader() as run:
            row = next(iter(run(statement, values)), None)
        return None if row is None else _bytes(row[0])

    def _check_tables(self, *, create: bool, read_only: bool) -> None:
        with self._engine.begin() as connection:
            there = set(sa.inspect(connection).get_table_names())
            if FIRST_PROTOCOL in there:
                raise ConfigurationError(
                    "this is a ledger of protocol version 1 (ExPriL 0.1), which kept no digests of replies and no "
                    "signatures: make a new one (expril ledger create) and lower the policy's caps by what this one "
                    "spent"
                )
            if create:
                # Tables without an entry are what a creation left that failed
                if ENTRIES.name in there and connection.execute(sa.select(ENTRIES.c.entry_index).limit(1)).first():
                    raise ConfigurationError("there is a ledger already; a ledger is never made anew")
                make_tables(connection)
            elif ENTRIES.name not in there:
                raise ConfigurationError("this database holds no ledger; a new one is made by: expril ledger create")
            elif self._room is not None and (strange := strange_tables(_driver_of(connection), self._room)):
                raise ConfigurationError(f"this database holds no ledger: {strange}")
            else:
                _check_version(version_of(connection, there), read_only=read_only)

    def _translate(self) -> "_Translate":
        return _Translate(self._dbapi)


class _Translate:
    """Turns a failure of a database or its driver into LedgerUnavailableError, without its text; no conflict."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (sa.exc.IntegrityError, self._driver.IntegrityError)):
            return
        if isinstance(error, (sa.exc.SQLAlchemyError, self._driver.Error, UnicodeDecodeError)):
            raise LedgerUnavailableError(f"the ledger's database failed ({reason_of(error)})") from None


def _check_version(number: str, *, read_only: bool) -> None:
    if number not in VERSIONS:
        raise ConfigurationError(
            f"this ledger's tables have version {number[:32]}, which this program does not know: it was upgraded by a "
            f"newer ExPriL; install that one (this one knows up to {VERSIONS[-1]})"
        )
    if number != VERSIONS[-1] and not read_only:
        raise ConfigurationError(
            f"this ledger's tables have version {number}, and this program's {VERSIONS[-1]}: stop every curator that "
            "serves from it, then type: expril ledger upgrade LEDGER"
        )


def sqlite_url(path: Path) -> sa.URL:
    """The URL of a SQLite file."""
    return sa.URL.create("sqlite", database=str(path))


def read_only_url(path: Path, *, log: bool = False) -> sa.URL:
    """The URL under which a SQLite file is only read.

    `log`: whether its write-ahead log is read, too; if not, nothing is ever written beside the file.
    """
    how = {"mode": "ro", "uri": "true"} if log else {"mode": "ro", "uri": "true", "immutable": "1"}
    return sa.URL.create("sqlite", database=f"file:{quote(str(path.resolve()))}", query=how)


def backup(path: Path, copy: Path) -> None:
    """Copy a SQLite ledger while its curator serves.

    Raises:
        ConfigurationError: the file is no ledger, or the copy exists or cannot be written.
    """
    require_sqlite(path)
    # A curator that serves is synchronised with; on a medium that nobody can write, nobody serves
    served = os.access(path.parent, os.W_OK)
    where = str(path) if served else f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    try:
        with (
            private_draft(copy, rule="a backup is never overwritten") as draft,
            closing(sqlite3.connect(where, uri=not served)) as source,
            closing(sqlite3.connect(draft)) as target,
        ):
            source.backup(target)
    except (OSError, sqlite3.Error) as error:
        why = error.strerror if isinstance(error, OSError) else reason_of(error)
        raise ConfigurationError(f"{path} cannot be copied to {copy}: {why}; nothing of it was kept") from None


_SLACK = 2**26
"""Bytes that a curator may add to its ledger while a command reads it."""


def _files_of(url: sa.URL) -> list[Path]:
    """A SQLite file and its write-ahead log."""
    path = Path(unquote((url.database or "").removeprefix("file:")))
    return [file for file in (path, path.with_name(f"{path.name}-wal")) if file.is_file()]


@cache
def _text_of(statement: Any, dialect: sa.Dialect) -> str:
    return str(statement.compile(dialect=dialect))


def _run(driver: Any, dialect: sa.Dialect, statement: Any, values: Any) -> Iterable[Any]:
    text = _text_of(statement, dialect)
    if not isinstance(values, list):
        return cast("Iterable[Any]", driver.execute(text, values))
    for row in values:
        driver.execute(text, row)
    return ()


def _driver_of(connection: sa.Connection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.connection.driver_connection)


def _row(columns: Any) -> Row:
    if type(columns[0]) is not int:
        raise LedgerCorruptError("a ledger entry has no number")
    return Row(columns[0], _bytes(columns[1]), _bytes(columns[2]))


def _arrival(proposal: PendingProposal) -> tuple[int, bytes]:
    return proposal.received_at, proposal.request


def _bytes(value: Any) -> bytes:
    """A column's bytes; a damaged SQLite file may hold text or a number instead."""
    if not isinstance(value, bytes | memoryview):
        raise LedgerCorruptError("the ledger's database holds something else where bytes were written")
    return bytes(value)


def _make_durable(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout=60000")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    # A state that an answerer replaced is overwritten, so that no copy made later holds a former one
    cursor.execute("PRAGMA secure_delete=ON")
    cursor.close()
