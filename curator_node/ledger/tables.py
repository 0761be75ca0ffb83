"""The tables of a ledger in a database, and their versions.

`migrations` leads from each version to the next; a test compares its result with these tables.
"""

import sqlalchemy as sa

VERSIONS = ("0001", "0002")
"""Versions of the tables, oldest first; each is a revision in `migrations`. ExPriL 0.2 made 0001, without a version's
name. 0002 adds proposals that wait for approval."""
FIRST_PROTOCOL = "ledger_entries"
"""A table of ExPriL 0.1."""

METADATA = sa.MetaData()
ENTRIES = sa.Table(
    "entries",
    METADATA,
    sa.Column("entry_index", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("signature", sa.LargeBinary, nullable=False),
)
REPLIES = sa.Table(
    "replies",
    METADATA,
    sa.Column("request", sa.LargeBinary(32), primary_key=True),
    sa.Column("reply", sa.LargeBinary, nullable=False),
)
REFUSALS = sa.Table(
    "refusals",
    METADATA,
    sa.Column("request", sa.LargeBinary(32), primary_key=True),
    sa.Column("learner", sa.LargeBinary(32), nullable=False, index=True),
    sa.Column("refusal", sa.LargeBinary, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
)
HELD = sa.Table(
    "held",
    METADATA,
    sa.Column("request", sa.LargeBinary(32), primary_key=True),
    sa.Column("learner", sa.LargeBinary(32), nullable=False, index=True),
    sa.Column("envelope", sa.LargeBinary, nullable=False),
    sa.Column("received_at", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
)
"""Proposals that wait for the steward's decision."""

VERSION = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Alembic's table of the version. It is read and first written here, so that a serving curator needs no alembic."""


def make_tables(connection: sa.Connection) -> None:
    """Make the tables of a new ledger, at the newest version."""
    METADATA.create_all(connection)
    VERSION.create(connection, checkfirst=True)
    connection.execute(VERSION.delete())
    connection.execute(VERSION.insert(), {"version_num": VERSIONS[-1]})


def version_of(connection: sa.Connection, there: set[str]) -> str:
    """The version of a ledger's tables, which need not be one of `VERSIONS`.

    `connection`: to a database that holds a ledger; `there`: the names of the tables in it.
    """
    if VERSION.name not in there:
        return VERSIONS[0]
    return str(connection.execute(sa.select(VERSION.c.version_num)).scalar())
