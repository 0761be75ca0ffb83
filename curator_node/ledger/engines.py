"""Connections to SQLite and PostgreSQL, and the texts of their failures that may be shown.

A database's own text is never shown: it may hold a value, a part of a query, or a password.
"""

import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from expril.files import read_start
from protocol.errors import ConfigurationError

CONNECT_SECONDS = 10
SQLITE_MAGIC = b"SQLite format 3\x00"
SESSION = {"lock_timeout": "15s", "statement_timeout": "120s", "idle_in_transaction_session_timeout": "60s"}
"""Settings of a PostgreSQL session, so that a stalled or vanished process does not hold up the others."""
_LINK = {"connect_timeout": CONNECT_SECONDS, "keepalives_idle": 30, "tcp_user_timeout": 20_000}
"""Settings of libpq that notice a silent server, in seconds, seconds and milliseconds."""
_SQLITE_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk is full or fails",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "the file or its folder is not there, or may not be written",
    sqlite3.SQLITE_BUSY: "another process holds it",
    sqlite3.SQLITE_CORRUPT: "it is damaged",
    sqlite3.SQLITE_NOTADB: "it is no SQLite database",
}
_POSTGRESQL_REASONS = {
    "53100": "its disk is full",
    "53300": "it has too many connections",
    "42501": "its user may not do this",
    "25006": "it is read-only",
    "28P01": "its user or password is refused",
    "3D000": "there is no such database",
    "42P01": "a table is missing",
    "42703": "a column is missing",
    "42601": "a syntax error",
    "55P03": "another process holds it",
    "57014": "it took too long",
    "57P01": "the server is stopping",
    "57P03": "the server is starting",
}
_CONNECTION_REASONS = {
    "password authentication failed": "its user or password is refused",
    "no password supplied": "it wants a password: libpq reads PGPASSWORD and ~/.pgpass",
    "does not exist": "there is no such database or user",
    "no pg_hba.conf entry": "the server admits nobody from here",
    "too many clients": "it has too many connections",
    "starting up": "the server is starting",
    "shutting down": "the server is stopping",
    "SSL": "the server or this side refuses to speak TLS as it is set",
    "certificate": "a certificate is not accepted",
    "could not translate host name": "nobody knows this host",
    "failed to resolve host": "nobody knows this host",
}
"""Texts of libpq if no session begins, since these failures have no code."""


def read_url(text: str | sa.URL, setting: str) -> sa.URL:
    """The URL of a PostgreSQL or SQLite database; an error names `setting` and nothing of the URL."""
    try:
        url = sa.make_url(text)
        url.get_dialect()
    except (sa.exc.SQLAlchemyError, ValueError):
        raise ConfigurationError(
            f"{setting} is no URL of a database that is known here, such as postgresql+psycopg://user@host/name or "
            "sqlite:////folder/file"
        ) from None
    if url.get_backend_name() not in ("postgresql", "sqlite"):
        raise ConfigurationError(
            f"{setting} is a {url.get_backend_name()} database; PostgreSQL and SQLite are spoken here"
        )
    if url.drivername == "postgresql":  # SQLAlchemy's own default is a driver that we do not install
        url = url.set(drivername="postgresql+psycopg")
    return url


def shown_url(url: sa.URL) -> str:
    """A URL as it may be shown: without password and options."""
    if url.get_backend_name() == "sqlite":
        return str(url.database).removeprefix("file:")
    return url._replace(password=None, query=sa.util.immutabledict()).render_as_string()


def open_engine(url: sa.URL) -> sa.Engine:
    """A SQLAlchemy engine that has not connected yet.

    Connections are tested when they are taken from the pool, so that a database that was gone and is back serves the
    next request.

    Raises:
        ConfigurationError: the driver is not installed.
    """
    name = url.get_backend_name()
    try:
        if name != "postgresql":
            return sa.create_engine(url)
        engine = sa.create_engine(
            url,
            connect_args={key: value for key, value in _LINK.items() if key not in url.query},
            isolation_level="READ COMMITTED",
            pool_pre_ping=True,
            pool_size=4,
            max_overflow=4,
            pool_timeout=CONNECT_SECONDS,
            pool_recycle=1800,
            hide_parameters=True,
        )
    except ImportError:
        extra = "; install expril[postgresql]" if name == "postgresql" else ""
        raise ConfigurationError(f"the driver of {url.drivername} is not installed{extra}") from None
    sa.event.listen(engine, "connect", _set_session)
    return engine


def reason_of(error: BaseException) -> str:
    """Why a database failed, in our own words or else as the error's type and code."""
    inner = getattr(error, "orig", None) or error
    code = getattr(inner, "sqlite_errorcode", None)
    if isinstance(code, int):
        return _SQLITE_REASONS.get(code & 0xFF, type(error).__name__)
    state = getattr(inner, "sqlstate", None)
    if isinstance(state, str):
        return _POSTGRESQL_REASONS.get(state, f"{type(error).__name__}, code {state}")
    if isinstance(error, sa.exc.OperationalError) or (state is None and type(error).__name__ == "OperationalError"):
        text = str(inner)
        reasons = (reason for sign, reason in _CONNECTION_REASONS.items() if sign in text)
        return next(reasons, "nobody answers there, or the connection broke")
    return type(error).__name__


def _set_session(connection: Any, _record: Any) -> None:
    """Set a session's time-outs, and make commits wait for the disk, whatever the server's default is."""
    with connection.cursor() as cursor:
        for name, value in SESSION.items():
            cursor.execute(f"SET {name} = '{value}'")
        cursor.execute("SHOW synchronous_commit")
        if cursor.fetchone()[0] == "off":
            cursor.execute("SET synchronous_commit = on")
    connection.commit()


def is_sqlite(path: Path) -> bool:
    """Whether there is a SQLite file. The content of a file that a URI names is not read."""
    if str(path).startswith("file:"):
        return True
    try:
        return read_start(path, len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return False


def require_sqlite(path: Path) -> None:
    """Raise ConfigurationError if there is no SQLite file. Its text says what is there instead, and what to do."""
    if is_sqlite(path):
        return
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder; name the ledger in it, such as {path / 'curator.ledger'}")
    if not path.is_file():
        raise ConfigurationError(
            f"no ledger {path}; check its name. One that was there is lost: bring back a backup. A new site's is made "
            "by expril ledger create"
        )
    raise ConfigurationError(
        f"{path} is not a SQLite ledger: it is another kind of file, or damaged; name the ledger's own file, or bring "
        "back a backup"
    )
