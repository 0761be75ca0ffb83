"""Upgrades of a ledger's tables to this program's version.

This module alone loads alembic, which a serving curator does not need.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from curator_node.ledger.engines import open_engine, read_url, reason_of
from curator_node.ledger.store import DatabaseStore, backup, sqlite_url
from curator_node.ledger.tables import ENTRIES, VERSIONS, version_of
from protocol.errors import ConfigurationError

_REVISIONS = Path(__file__).parent / "migrations"


def upgrade(where: Path | str) -> tuple[str, Path | None]:
    """Bring a ledger's tables to the newest version, in one transaction.

    `where`: a SQLite file, of which a copy is made first, or a database's URL.

    Returns:
        (the version that it had, the copy); the copy is None if the version was the newest, or for a URL.

    Raises:
        ConfigurationError: there is no ledger, a newer program made it, or it cannot be copied or changed.
    """
    url = sqlite_url(where) if isinstance(where, Path) else read_url(where, "the ledger's place")
    DatabaseStore(url, read_only=True).close()  # it is a ledger, of a version that is known
    with _connected(url) as connection:
        version = version_of(connection, set(sa.inspect(connection).get_table_names()))
    if version == VERSIONS[-1] and _is_stamped(url):
        return version, None
    copy = None
    if isinstance(where, Path):
        copy = where.with_name(f"{where.name}.version-{version}")
        backup(where, copy)
    with _connected(url) as connection:
        if url.get_backend_name() == "postgresql":
            connection.execute(sa.text(f"LOCK TABLE {ENTRIES.name} IN ACCESS EXCLUSIVE MODE"))
        else:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        command.upgrade(alembic_config(connection), "head")
        connection.commit()
    return version, copy


def alembic_config(connection: sa.Connection | None = None) -> Config:
    """Alembic's configuration, made without an ini file."""
    config = Config()
    config.set_main_option("script_location", str(_REVISIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def revisions() -> tuple[str, ...]:
    """All revisions, oldest first."""
    script = ScriptDirectory.from_config(alembic_config())
    return tuple(revision.revision for revision in script.walk_revisions())[::-1]


def _is_stamped(url: sa.URL) -> bool:
    with _connected(url) as connection:
        return "alembic_version" in sa.inspect(connection).get_table_names()


@contextmanager
def _connected(url: sa.URL) -> Iterator[sa.Connection]:
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            yield connection
    except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
        raise ConfigurationError(f"the ledger cannot be upgraded ({reason_of(error)}); nothing was changed") from None
    finally:
        engine.dispose()
