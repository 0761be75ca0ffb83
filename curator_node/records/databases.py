"""Private records from a database: one query, read in batches, by a session that can write nothing.

Text stays text; the schema decides what it means. The text of a database's error is shown to nobody: it may hold a
value, a part of the query, or a password.
"""

import datetime as dt
import os
import re
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NoReturn
from urllib.parse import quote

import msgspec
import polars as pl
import sqlalchemy as sa

from curator_node.ledger.engines import open_engine, read_url, reason_of, shown_url
from expril.files import read_text_file
from protocol.errors import ConfigurationError
from protocol.record_frames import column_texts
from protocol.strict_toml import read_toml

SOURCE = "source.toml"
_MOST_WHOLE = 2**53
"""Whole numbers up to this are floats, too."""
_ASIDE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)
"""Texts, quoted names and comments of SQL, as far as they hold no backslash and no dollar."""
_ONE_SELECT = "write one SELECT (or WITH ... SELECT), without a semicolon inside"
_SECRETS = ("password", "sslpassword", "passwd")
_TEMPORAL = (pl.Date, pl.Datetime, pl.Time)


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Contents of `source.toml`: the database that holds a site's records, and the query that reads them."""

    url: str = ""  # of the database, for SQLAlchemy, without a password. Or
    url_env: str = ""  # name of the environment variable that holds it
    query: str = ""  # one SELECT. Or
    query_file: str = ""  # a file that holds it, beside this one
    fetch_rows: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000  # how many rows are in hand at a time

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.url_env):
            raise ValueError("give either url or url_env, one of the two")
        if bool(self.query) == bool(self.query_file):
            raise ValueError("give either query or query_file, one of the two")


def read_database(path: Path) -> pl.DataFrame:
    """The records that a source file names.

    Args:
        path: of the source file. Files that it names (a query, a SQLite file) are looked for in its folder.

    Returns:
        Columns as the query returns them. Decimals and whole numbers of more than 64 bits are text, every digit kept.

    Raises:
        ConfigurationError: there is no such file, or a key or value in it is wrong; there is no such database, or it is
            neither PostgreSQL nor SQLite; or the query fails, writes, finds no rows, or has two columns of one name or
            a column whose type no record can hold. The text names file and column, never a value, the query or a
            password.
    """
    source = read_toml(read_text_file(path, "source file"), Source, where=str(path))
    query = _query(source, path)
    with _connected(source, path) as connection:
        frame = _fetch(connection, query, source.fetch_rows, path)
    if frame.is_empty():
        raise ConfigurationError(f"{path}: the query finds no rows")
    return frame


def read_database_columns(path: Path) -> list[str]:
    """The names of the columns of the records that a source file names. The database is asked for no row.

    Raises:
        ConfigurationError: as `read_database`, as far as the columns show it.
    """
    source = read_toml(read_text_file(path, "source file"), Source, where=str(path))
    query = _query(source, path)
    with _connected(source, path) as connection:
        # The bracket stands on a line of its own, as the query may end in a comment.
        no_row = f"SELECT * FROM (\n{query}\n) AS records WHERE 1 = 0"  # noqa: S608 - the steward's own query
        return list(_fetch(connection, no_row, 1, path).columns)


@contextmanager
def _connected(source: Source, path: Path) -> Iterator[sa.Connection]:
    """A session in the database; its errors become one sentence that quotes nothing."""
    url = _url(source, path)
    engine = open_engine(url)
    try:
        with _session(engine, url) as connection:
            yield connection
    except (sa.exc.SQLAlchemyError, sqlite3.Error, UnicodeDecodeError, ValueError) as error:
        raise ConfigurationError(
            f"{path}: the records cannot be read from {shown_url(url)} ({_reason(error)}); nothing was changed there"
        ) from None
    finally:
        engine.dispose()


def _query(source: Source, path: Path) -> str:
    text = source.query
    where = f"{path}: the query"
    if source.query_file:
        file = path.parent / source.query_file
        text, where = read_text_file(file, "query file"), str(file)
    text = text.strip().removesuffix(";").rstrip()
    plain = _ASIDE.sub(" ", text)
    # One statement, for a second could leave the transaction in which nothing can be written.
    if not text or ";" in plain or (";" in text and re.search(r"[\\$]", text)):
        raise ConfigurationError(f"{where} is empty, or holds a semicolon; {_ONE_SELECT}")
    if re.match(r"[\s(]*(select|with)\b", plain, re.IGNORECASE) is None:
        raise ConfigurationError(f"{where} begins with another word; {_ONE_SELECT}")
    return text


def _url(source: Source, path: Path) -> sa.URL:
    where = f"{path}: url"
    text = source.url
    if source.url_env:
        where = f"{path}: the environment variable {source.url_env}"
        text = os.environ.get(source.url_env, "")
        if not text:
            raise ConfigurationError(f"{where} is not set; it holds the database's URL")
    url = read_url(text, where)
    if source.url and (url.password or any(name in url.query for name in _SECRETS)):
        raise ConfigurationError(
            f"{where} holds a password; put it into ~/.pgpass or PGPASSFILE, or the whole URL into an environment "
            "variable that url_env names"
        )
    backend = url.get_backend_name()
    if backend == "postgresql":
        return url
    if backend != "sqlite" or not url.database:
        raise ConfigurationError(f"{where}: records are read from PostgreSQL or from a SQLite file")
    file = path.parent / url.database
    if not file.is_file():
        raise ConfigurationError(f"{where}: no file {file}")
    return sa.URL.create("sqlite", database=f"file:{quote(str(file.resolve()))}", query={"mode": "ro", "uri": "true"})


@contextmanager
def _session(engine: sa.Engine, url: sa.URL) -> Iterator[sa.Connection]:
    """A session in which nothing can be written, whatever the query says."""
    with engine.connect() as plain:
        if url.get_backend_name() == "sqlite":
            plain.exec_driver_sql("PRAGMA query_only = ON")
            yield plain
        else:
            connection = plain.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            connection.exec_driver_sql("SET default_transaction_read_only = on")
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")  # a cohort's query may take its time
            yield connection


def _fetch(connection: sa.Connection, query: str, size: int, path: Path) -> pl.DataFrame:
    # A cursor of the server, where it has them: only a query can be declared as one.
    options = {"no_parameters": True, "stream_results": True, "max_row_buffer": size}
    with closing(connection.exec_driver_sql(query, execution_options=options)) as result:
        return _frame(result, size, path)


def _frame(result: sa.CursorResult[Any], size: int, path: Path) -> pl.DataFrame:
    names = list(result.keys())
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"{path}: the query has the column(s) {', '.join(map(repr, twice))} more than once")
    parts: list[list[pl.Series]] = [[] for _ in names]
    for rows in result.partitions(size):
        for name, part, values in zip(names, parts, zip(*rows, strict=True), strict=True):
            part.append(_series(name, values, path))
    return pl.DataFrame([_joined(name, part) for name, part in zip(names, parts, strict=True)])


def _series(name: str, values: Sequence[Any], path: Path) -> pl.Series:
    """A column of one batch. If its types are mixed, as SQLite allows, all become text, unless all are numbers."""
    kinds = {type(value) for value in values} - {type(None)}
    if any(not issubclass(kind, _KNOWN) for kind in kinds):
        _refuse(name, next(kind for kind in kinds if not issubclass(kind, _KNOWN)), path)
    if not kinds:
        return pl.Series(name, [None] * len(values), pl.Null)
    if kinds <= {bool}:
        return pl.Series(name, values, pl.Boolean)
    if kinds <= {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pl.Series(name, values, pl.Int64)
    if kinds <= {int, float} and all(type(value) is not int or abs(value) <= _MOST_WHOLE for value in values):
        return pl.Series(name, [None if value is None else float(value) for value in values], pl.Float64)
    if kinds <= {dt.date}:
        return pl.Series(name, values, pl.Date)
    if kinds <= {dt.time} and all(value is None or value.tzinfo is None for value in values):
        return pl.Series(name, values, pl.Time)
    if kinds <= {dt.datetime}:
        return pl.Series(name, [value if value is None else _universal(value) for value in values], pl.Datetime("us"))
    return pl.Series(name, [None if value is None else _text(value) for value in values], pl.String)


_KNOWN = (bool, int, float, Decimal, str, dt.date, dt.time, uuid.UUID)
"""What a record may hold; a datetime is a date."""


def _joined(name: str, parts: list[pl.Series]) -> pl.Series:
    if not parts:
        return pl.Series(name, [], pl.String)
    kinds: set[Any] = {part.dtype for part in parts} - {pl.Null}
    if kinds == {pl.Int64, pl.Float64}:
        integers = [part for part in parts if part.dtype == pl.Int64]
        large = any((part.abs() > _MOST_WHOLE).any() or (part == -(2**63)).any() for part in integers)
        kinds = {pl.String} if large else {pl.Float64}
    dtype = next(iter(kinds)) if len(kinds) == 1 else pl.String if kinds else pl.Null
    return pl.concat([part if part.dtype == dtype else _cast(part, dtype) for part in parts], rechunk=True)


def _cast(part: pl.Series, dtype: Any) -> pl.Series:
    if dtype == pl.String and part.dtype.is_numeric():
        return column_texts(part)
    return part.cast(dtype)


def _text(value: Any) -> str:
    """As `protocol.record_frames.column_texts` would have it: 2, 2.0 and the decimal 2.00 are the same text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < _MOST_WHOLE else repr(value)
    if isinstance(value, Decimal):
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, dt.datetime):
        return str(_universal(value))
    return str(value)


def _universal(value: dt.datetime) -> dt.datetime:
    """A time without a time zone. A time that has one is converted to UTC."""
    return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError | ValueError):
        return "it holds text that is not UTF-8, or a date that no calendar has"
    inner = getattr(error, "orig", None)
    if getattr(inner, "sqlstate", None) in ("25006", "0A000") or "readonly" in str(inner):
        return "the query writes, and records are only read"
    if isinstance(error, sa.exc.DataError) and getattr(inner, "sqlstate", None) is None:
        return "a value cannot be read, such as a date that never ends"
    if isinstance(error, sa.exc.OperationalError) and getattr(inner, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR:
        return "the query is no SELECT that this database understands, or names what is not there"
    return reason_of(error)


def _refuse(name: str, kind: type, path: Path) -> NoReturn:
    raise ConfigurationError(
        f"{path}: the query's column {name!r} has values of type {kind.__name__}, which no record can hold; leave it "
        "out, or cast it to text or a number in the query"
    )
