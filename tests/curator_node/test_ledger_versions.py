"""Versions of the ledger's tables: made at the newest, upgraded from each, never opened where unknown."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from test_ledger import CURATOR, spend

from curator_node.ledger.checks import check
from curator_node.ledger.places import create_ledger_file, open_ledger_file, read_store
from curator_node.ledger.tables import METADATA, VERSIONS
from curator_node.ledger.upgrades import alembic_config, revisions, upgrade
from protocol.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]
NEWER = {"held": "0001"}
"""Table -> the version before it."""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'fresh'}"
    return request.getfixturevalue("postgres").new_url()


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request, tmp_path):
    """A ledger with a study, whose tables are those of ExPriL 0.2."""
    where = tmp_path / "a.ledger"
    if request.param == "postgresql":
        where = request.getfixturevalue("postgres").new_url()
    create_ledger_file(where, CURATOR, now=0, mark=tmp_path / "mark")
    ledger = open_ledger_file(where, CURATOR, mark=tmp_path / "mark")
    ledger.begin("each record", 1)
    spend(ledger, 1)
    ledger.settle()
    ledger.close()
    execute(where, "DROP TABLE alembic_version", *(f"DROP TABLE {name}" for name in NEWER))
    return where


def execute(where, *statements):
    engine = sa.create_engine(f"sqlite:///{where}" if isinstance(where, Path) else where)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def test_revisions_lead_to_the_tables_that_are_made(url):
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        command.upgrade(alembic_config(connection), "head")
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
        connection.commit()
    engine.dispose()
    assert revisions() == VERSIONS


def test_a_new_ledger_is_at_the_newest_version_as_alembic_sees_it(url, tmp_path):
    create_ledger_file(url, CURATOR, now=0, mark=tmp_path / "mark")
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        assert MigrationContext.configure(connection).get_current_revision() == VERSIONS[-1]
    engine.dispose()
    assert upgrade(url) == (VERSIONS[-1], None)


def test_an_older_ledger_is_read_and_is_served_after_an_upgrade(old, tmp_path):
    with read_store(old) as store:
        before = check(store)
    assert before.findings == ()
    with pytest.raises(ConfigurationError, match="then type: expril ledger upgrade LEDGER"):
        open_ledger_file(old, CURATOR, mark=tmp_path / "mark")
    version, copy = upgrade(old)
    assert version == "0001"
    if isinstance(old, Path):
        assert copy == tmp_path / "a.ledger.version-0001"
        with read_store(copy) as store:
            assert check(store).entries == before.entries
    ledger = open_ledger_file(old, CURATOR, mark=tmp_path / "mark")
    ledger.begin("each record", 2)
    spend(ledger, 2)
    assert not ledger.account.halted
    assert check(ledger.store).findings == ()
    ledger.close()
    assert upgrade(old) == (VERSIONS[-1], None)


def test_an_upgrade_that_fails_changes_nothing(old):
    execute(old, "CREATE TABLE held (other INTEGER)")
    with pytest.raises(ConfigurationError, match="nothing was changed"):
        upgrade(old)
    engine = sa.create_engine(f"sqlite:///{old}" if isinstance(old, Path) else old)
    with engine.connect() as connection:
        assert "alembic_version" not in sa.inspect(connection).get_table_names()
    engine.dispose()


def test_a_ledger_of_a_newer_program_is_refused_by_all(old, tmp_path):
    execute(
        old, "CREATE TABLE alembic_version (version_num VARCHAR(32))", "INSERT INTO alembic_version VALUES ('0999')"
    )
    for opening in (lambda: open_ledger_file(old, CURATOR, mark=tmp_path / "mark"), lambda: upgrade(old)):
        with pytest.raises(ConfigurationError, match="version 0999, which this program does not know"):
            opening()
    with pytest.raises(ConfigurationError, match="install that one"), read_store(old):
        pass


@pytest.mark.slow
def test_nobody_who_serves_needs_alembic():
    code = "import curator_node.site, sys; print('alembic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"


def test_a_copy_is_never_overwritten(tmp_path):
    path = tmp_path / "a.ledger"
    create_ledger_file(path, CURATOR, now=0)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript("DROP TABLE alembic_version; DROP TABLE held")
    (tmp_path / "a.ledger.version-0001").write_text("mine")
    with pytest.raises(ConfigurationError, match="never overwritten"):
        upgrade(path)
    assert (tmp_path / "a.ledger.version-0001").read_text() == "mine"
