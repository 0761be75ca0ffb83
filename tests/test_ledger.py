"""One ledger contract for every store: exact caps, idempotent retries, an honest chain, crashes, races, full disks."""

import copy
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
from curator_fakes import Clock, FlakyStore, Learner, mass_body, open_curator, opened, plan_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from curator_node.ledger import Caps, HaltedError, InsufficientBudgetError, Ledger, Reservation
from curator_node.ledger.entries import Account, Entry, EntryKind, LedgerCorruptError, decode_entry
from curator_node.ledger.store import (
    AppendConflictError,
    DatabaseStore,
    LedgerUnavailableError,
    MemoryStore,
    sqlite_url,
)
from protocol.errors import ConfigurationError, LocalProtocolError
from protocol.messages import Refusal, Release, StudyAccepted
from protocol.refusals import RefusalCode

ROOT = Path(__file__).parent.parent
THIRTIETH = Fraction(1, 30)
CAPS = Caps(learner=Fraction(1), total=Fraction(3, 2))
WIDE = Caps(learner=Fraction(10**6), total=Fraction(10**6))

LEARNERS = [name.encode().ljust(32, b".") for name in ("ann", "bob", "cai")]
STUDIES = [bytes([n]) * 16 for n in range(1, 7)]
REQUESTS = [bytes([n]) * 32 for n in (1, 2, 3)]
COSTS = [THIRTIETH, Fraction(1, 7), Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)]


def wanted(study, learner, costs, request, expires_at=10**6):
    plan = plan_of(*(1 / cost for cost in costs))
    return Reservation(study, learner, plan, sum(costs, Fraction(0)), request, expires_at)


class Model:
    """What a ledger should say, in plain Python and without chains."""

    def __init__(self):
        self.studies = {}
        self.restored = dict.fromkeys(LEARNERS, Fraction(0))
        self.halted = False

    def spent(self, learner):
        return self.restored[learner] + sum(s["spent"] for s in self.studies.values() if s["learner"] == learner)

    def reserved(self, learner):
        open_ = [s for s in self.studies.values() if s["learner"] == learner and s["state"] == "open"]
        return sum((sum(s["costs"]) - s["spent"] for s in open_), Fraction(0))

    def left(self, learner):
        used = {name: self.spent(name) + self.reserved(name) for name in LEARNERS}
        return max(Fraction(0), min(CAPS.learner - used[learner], CAPS.total - sum(used.values())))

    def reserve(self, study, learner, costs, request, expires_at):
        known = self.studies.get(study)
        if known:
            return "repeat" if known["last"] == request else LocalProtocolError
        if self.halted:
            return HaltedError
        if sum(costs) > self.left(learner):
            return InsufficientBudgetError
        self.studies[study] = {
            "learner": learner,
            "costs": costs,
            "spent": Fraction(0),
            "asked": 0,
            "last": request,
            "expires": expires_at,
            "state": "open",
        }
        return "done"

    def charge(self, study, sequence, cost, request):
        s = self.studies[study]
        if s["last"] == request:
            return "repeat"
        if self.halted:
            return HaltedError
        if s["state"] != "open" or sequence != s["asked"] + 1 or s["spent"] + cost > sum(s["costs"]):
            return LocalProtocolError
        s["spent"] += cost
        s["asked"], s["last"] = sequence, request
        return "done"

    def close(self, study, sequence, request):
        s = self.studies[study]
        if s["last"] == request:
            return "repeat"
        if s["state"] != "open":
            return LocalProtocolError
        s["state"], s["last"], s["asked"] = "closed", request, sequence
        return "done"


class LedgerMachine(RuleBasedStateMachine):
    """Two handles, as two processes would have, and the model beside them."""

    def open_store(self):
        return MemoryStore()

    @initialize()
    def start(self):
        self.store = self.open_store()
        self.ledgers = [Ledger(self.store), Ledger(self.store)]
        self.model = Model()
        self.now = 0

    def chain(self):
        return self.store.entries(0)

    def act(self, which, operate, expected):
        """Run `operate` on a handle that may not have seen what the other did."""
        before = self.chain()
        head = self.ledgers[which].account.head
        try:
            operate(self.ledgers[which])
            seen = "done" if len(self.chain()) == len(before) + 1 else "repeat"
        except (HaltedError, InsufficientBudgetError, LocalProtocolError) as error:
            seen = type(error)
        assert seen == expected
        assert self.chain()[: len(before)] == before
        if seen != "done":
            assert self.chain() == before
            assert self.ledgers[which].account.head == Ledger(self.store).account.head
        else:
            assert self.ledgers[which].account.head != head

    which = st.integers(0, 1)

    @rule(
        which=which,
        study=st.sampled_from(STUDIES),
        learner=st.sampled_from(LEARNERS),
        costs=st.lists(st.sampled_from(COSTS), min_size=1, max_size=3),
        request=st.sampled_from(REQUESTS),
        lifetime=st.integers(1, 20),
    )
    def reserve(self, which, study, learner, costs, request, lifetime):
        what = wanted(study, learner, costs, request, self.now + lifetime)
        self.act(
            which,
            lambda ledger: ledger.reserve(what, CAPS, self.now),
            self.model.reserve(study, learner, costs, request, what.expires_at),
        )

    @rule(which=which, data=st.data(), off=st.sampled_from([0, 0, 0, 0, -1, 1]), extra=st.booleans())
    def charge(self, which, data, off, extra):
        if not self.model.studies:
            return
        study = data.draw(st.sampled_from(sorted(self.model.studies)))
        request = data.draw(st.sampled_from(REQUESTS))
        known = self.model.studies[study]
        sequence = max(0, known["asked"] + 1 + off)
        cost = known["costs"][min(known["asked"], len(known["costs"]) - 1)] + (1 if extra and off else 0)
        self.act(
            which,
            lambda ledger: ledger.charge(study, sequence, cost, request, self.now),
            self.model.charge(study, sequence, cost, request),
        )

    @rule(which=which, data=st.data())
    def close_study(self, which, data):
        if not self.model.studies:
            return
        study = data.draw(st.sampled_from(sorted(self.model.studies)))
        request = data.draw(st.sampled_from(REQUESTS))
        sequence = self.model.studies[study]["asked"] + 1
        self.act(
            which,
            lambda ledger: ledger.close_study(study, sequence, request, self.now),
            self.model.close(study, sequence, request),
        )

    @rule(which=which, seconds=st.integers(0, 8))
    def expire(self, which, seconds):
        self.now += seconds
        self.ledgers[which].expire(self.now)
        for study in self.model.studies.values():
            if study["state"] == "open" and study["expires"] <= self.now:
                study["state"] = "expired"

    @rule(which=which)
    def halt(self, which):
        self.ledgers[which].halt(self.now, "stop")
        self.model.halted = True

    @rule(which=which, learner=st.sampled_from(LEARNERS), restored=st.sampled_from([Fraction(0), THIRTIETH]))
    def resume(self, which, learner, restored):
        self.ledgers[which].resume(self.now, learner=learner, restored=restored)
        if self.model.halted:
            self.model.halted = False
            self.model.restored[learner] += restored

    @rule(which=which)
    def reopen(self, which):
        self.ledgers[which] = Ledger(self.store)

    @invariant()
    def balances_are_the_model_s(self):
        if not hasattr(self, "model"):
            return
        account = Ledger(self.store).account
        assert account.halted == self.model.halted
        for learner in LEARNERS:
            assert account.spent.get(learner, 0) == self.model.spent(learner)
            assert account.reserved.get(learner, 0) == self.model.reserved(learner)
            used = self.model.spent(learner) + self.model.reserved(learner)
            assert used <= CAPS.learner + self.model.restored[learner]
            assert Ledger(self.store).remaining(learner, CAPS) == self.model.left(learner)
        assert account.total_spent + account.total_reserved <= CAPS.total + sum(self.model.restored.values())

    @invariant()
    def balances_are_the_sums_of_the_chain(self):
        if not hasattr(self, "model"):
            return
        spent = reserved = Fraction(0)
        signs = {"reserve": (0, 1), "charge": (1, -1), "close": (0, -1), "expire": (0, -1), "resume": (1, 0)}
        for _, body in self.chain():
            entry = msgspec.msgpack.decode(body)
            to_spent, to_reserved = signs.get(entry["kind"], (0, 0))
            spent += to_spent * Fraction(entry["amount"])
            reserved += to_reserved * Fraction(entry["amount"])
        account = Ledger(self.store).account
        assert (spent, reserved) == (account.total_spent, account.total_reserved)

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()


class DatabaseMachine(LedgerMachine):
    """The same on a SQLite file, where a reopened handle comes from a new connection."""

    def open_store(self):
        self.folder = Path(_new_folder())
        return DatabaseStore(sqlite_url(self.folder / "ledger.sqlite"))

    @rule(which=LedgerMachine.which)
    def reopen_the_file(self, which):
        self.store.close()
        self.store = DatabaseStore(sqlite_url(self.folder / "ledger.sqlite"))
        self.ledgers = [Ledger(self.store), Ledger(self.store)]


_FOLDERS = []


def _new_folder():
    _FOLDERS.append(_FOLDERS[0] / str(len(_FOLDERS)))
    _FOLDERS[-1].mkdir()
    return _FOLDERS[-1]


@pytest.fixture(scope="module", autouse=True)
def _folders(tmp_path_factory):
    _FOLDERS[:] = [tmp_path_factory.mktemp("ledgers")]


TestMemoryLedger = LedgerMachine.TestCase
TestMemoryLedger.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestDatabaseLedger = DatabaseMachine.TestCase
TestDatabaseLedger.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def database(file):
    store = DatabaseStore(sqlite_url(file))
    yield store
    store.close()


@pytest.fixture(params=["memory", "database"])
def store(request, file):
    made = MemoryStore() if request.param == "memory" else DatabaseStore(sqlite_url(file))
    yield made
    made.close()


def study(number):
    return number.to_bytes(16, "big")


def request_of(number):
    return number.to_bytes(32, "big")


def spend(ledger, number, costs=(THIRTIETH,), *, learner=LEARNERS[0], caps=WIDE):
    """Reserve and charge a study of its own."""
    ledger.reserve(wanted(study(number), learner, costs, request_of(100 * number)), caps, 0)
    for sequence, cost in enumerate(costs, 1):
        ledger.charge(study(number), sequence, cost, request_of(100 * number + sequence), 0)


# exactness


def test_thirty_charges_of_a_thirtieth_fit_a_cap_of_one_and_the_next_does_not(store):
    ledger = Ledger(store)
    caps = Caps(learner=Fraction(1), total=Fraction(2))
    for number in range(1, 31):
        spend(ledger, number, caps=caps)
    before = store.entries(0)
    with pytest.raises(InsufficientBudgetError) as caught:
        spend(ledger, 31, caps=caps)
    assert (caught.value.requested, caught.value.remaining) == (THIRTIETH, 0)
    assert ledger.account.spent[LEARNERS[0]] == 1
    assert store.entries(0) == before
    spend(ledger, 32, learner=LEARNERS[1], caps=caps)


def test_cap_over_all_binds_learners_together(store):
    ledger = Ledger(store)
    caps = Caps(learner=Fraction(1), total=Fraction(1))
    for number in range(30):
        spend(ledger, number + 1, learner=LEARNERS[number % 3], caps=caps)
    with pytest.raises(InsufficientBudgetError):
        spend(ledger, 31, learner=LEARNERS[1], caps=caps)


def test_query_that_costs_more_than_is_left_of_its_plan_never_enters_the_chain(store):
    ledger = Ledger(store)
    ledger.reserve(wanted(study(1), LEARNERS[0], (THIRTIETH,), request_of(1)), CAPS, 0)
    before = store.entries(0)
    with pytest.raises(LocalProtocolError):
        ledger.charge(study(1), 1, 2 * THIRTIETH, request_of(2), 0)
    assert store.entries(0) == before
    assert Ledger(store).account.head == ledger.account.head


def test_entry_that_could_not_be_read_back_is_never_stored(store):
    ledger = Ledger(store)
    ledger.halt(0, "stop")
    with pytest.raises(LedgerCorruptError):
        ledger.resume(-1)
    with pytest.raises(LedgerCorruptError):
        ledger.resume(0, restored=Fraction(-1, 30))
    assert len(store.entries(0)) == 1
    assert Ledger(store).account.halted


# the chain


def edit(file, *statements):
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement, values in statements:
            connection.execute(statement, values)


def bodies(file):
    with closing(sqlite3.connect(file)) as connection:
        return [row[0] for row in connection.execute("SELECT body FROM ledger_entries ORDER BY entry_index")]


def _edited(body):
    """The same entry with a smaller amount."""
    entry = decode_entry(body)
    return msgspec.msgpack.encode(msgspec.structs.replace(entry, amount="1/31"))


SET = "UPDATE ledger_entries SET body = ? WHERE entry_index = ?"
TAMPERING = {
    "edit": lambda b: [(SET, (_edited(b[3]), 3))],
    "edit the newest": lambda b: [(SET, (b[-1][:-1] + b"\xff", len(b) - 1))],
    "garbage": lambda b: [(SET, (b"\x00garbage", 2))],
    "nothing": lambda b: [(SET, (b"", 2))],
    "delete the first": lambda b: [("DELETE FROM ledger_entries WHERE entry_index = ?", (0,))],
    "delete one within": lambda b: [("DELETE FROM ledger_entries WHERE entry_index = ?", (3,))],
    "delete and close the gap": lambda b: [
        ("DELETE FROM ledger_entries WHERE entry_index = ?", (3,)),
        ("UPDATE ledger_entries SET entry_index = entry_index - 1 WHERE entry_index > ?", (3,)),
    ],
    "insert a copy": lambda b: [("INSERT INTO ledger_entries VALUES (?, ?)", (len(b), b[1]))],
    "insert before the first": lambda b: [("INSERT INTO ledger_entries VALUES (?, ?)", (-1, b[0]))],
    "swap": lambda b: [(SET, (b[3], 2)), (SET, (b[2], 3))],
    "replace by another ledger's": lambda b: [(SET, (b[1], 3))],
}


@pytest.mark.parametrize("how", TAMPERING)
def test_tampered_chain_does_not_open(how, file):
    store = DatabaseStore(sqlite_url(file))
    for number in (1, 2, 3):
        spend(Ledger(store), number)
    store.close()
    edit(file, *TAMPERING[how](bodies(file)))
    store = DatabaseStore(sqlite_url(file))
    if how == "insert before the first":  # not part of the chain: indices start at 0
        assert Ledger(store).account.next_index == 6
    else:
        with pytest.raises(LedgerCorruptError):
            Ledger(store)
    store.close()


def _entry(account, kind, amount, **fields):
    names = {"study": study(1), "learner": LEARNERS[0], "sequence": 1, "request": request_of(9), **fields}
    return Entry(index=account.next_index, previous=account.head, kind=kind, at=0, amount=amount, **names)


@pytest.mark.parametrize(
    ("kind", "amount", "fields"),
    [
        (EntryKind.CHARGE, "1/29", {}),
        (EntryKind.CHARGE, "1/30", {"study": study(2)}),
        (EntryKind.CHARGE, "1/30", {"learner": LEARNERS[1]}),
        (EntryKind.CLOSE, "1/29", {}),
        (EntryKind.EXPIRE, "0", {}),
        (EntryKind.RESERVE, "1/30", {}),
        (EntryKind.RESERVE, "1/30", {"study": study(2)}),
    ],
)
def test_entry_that_breaks_a_rule_does_not_open_even_in_a_valid_chain(kind, amount, fields):
    store = MemoryStore()
    ledger = Ledger(store)
    ledger.reserve(wanted(study(1), LEARNERS[0], (THIRTIETH,), request_of(1)), WIDE, 0)
    store.append(1, msgspec.msgpack.encode(_entry(ledger.account, kind, amount, **fields)))
    with pytest.raises(LedgerCorruptError):
        Ledger(store)


@pytest.mark.parametrize("kind", [EntryKind.CHARGE, EntryKind.CLOSE, EntryKind.EXPIRE])
def test_study_that_has_ended_cannot_go_on_even_in_a_valid_chain(kind):
    store = MemoryStore()
    ledger = Ledger(store)
    spend(ledger, 1)
    ledger.close_study(study(1), 2, request_of(3), 0)
    store.append(3, msgspec.msgpack.encode(_entry(ledger.account, kind, "0", sequence=3)))
    with pytest.raises(LedgerCorruptError):
        Ledger(store)


def test_account_of_the_chain_does_not_depend_on_the_process_that_reads_it(store):
    writer, reader = Ledger(store), Ledger(store)
    for number in (1, 2, 3):
        spend(writer, number, learner=LEARNERS[number % 2])
        reader.refresh()
    writer.halt(0, "stop")
    reader.refresh()
    assert reader.account == writer.account == Ledger(store).account
    assert reader.account != Account()


def test_store_rolled_back_under_a_running_ledger_is_noticed():
    store = MemoryStore()
    ledger = Ledger(store)
    spend(ledger, 1)
    saved = list(store._entries)
    spend(ledger, 2)
    store._entries = saved
    with pytest.raises(LedgerCorruptError):
        ledger.refresh()
    other = Ledger(store)
    spend(other, 3)
    with pytest.raises(LedgerCorruptError):
        ledger.refresh()


# the stores


def test_append_of_a_taken_index_conflicts_and_changes_nothing(store):
    store.append(0, b"first")
    with pytest.raises(AppendConflictError):
        store.append(0, b"second")
    assert store.entries(0) == [(0, b"first")]
    assert store.entries(1) == []


def test_first_stored_reply_wins(store):
    assert store.reply(request_of(1)) is None
    assert store.store_reply(request_of(1), b"first") == b"first"
    assert store.store_reply(request_of(1), b"second") == b"first"
    assert store.reply(request_of(1)) == b"first"


def test_entries_are_read_from_where_the_reader_stands(store):
    for index in range(4):
        store.append(index, bytes([index]))
    assert store.entries(2) == [(2, b"\x02"), (3, b"\x03")]


def test_sqlite_is_opened_for_durability(database):
    with database._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 60_000


def test_file_that_is_no_database_is_a_configuration_error(file):
    file.write_bytes(b"a spreadsheet, perhaps" * 100)
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        DatabaseStore(sqlite_url(file))
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        DatabaseStore(sqlite_url(file / "below a file"))


def test_failing_database_is_unavailable_without_its_text(database):
    with database._engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE ledger_entries")
        connection.exec_driver_sql("DROP TABLE ledger_replies")
    for act in (
        lambda: database.append(0, b"canary"),
        lambda: database.entries(0),
        lambda: database.reply(b"canary"),
        lambda: database.store_reply(b"canary", b"canary"),
    ):
        with pytest.raises(LedgerUnavailableError) as caught:
            act()
        assert "canary" not in str(caught.value)
        assert caught.value.__suppress_context__


# several at once


def test_two_ledgers_on_one_file_admit_thirty_thirtieths(file):
    stores = [DatabaseStore(sqlite_url(file)) for _ in range(2)]
    ledgers = [Ledger(store) for store in stores]
    caps = Caps(learner=Fraction(1), total=Fraction(1))
    admitted = 0
    for number in range(1, 40):
        try:
            spend(ledgers[number % 2], number, caps=caps)
        except InsufficientBudgetError:
            continue
        admitted += 1
    assert admitted == 30
    for store in stores:
        assert Ledger(store).account.total_spent == 1
        store.close()


def test_same_reservation_by_two_processes_is_one_even_where_it_uses_up_the_cap(file):
    stores = [DatabaseStore(sqlite_url(file)) for _ in range(2)]
    first, second = (Ledger(store) for store in stores)
    caps = Caps(learner=Fraction(1), total=Fraction(1))
    what = wanted(study(1), LEARNERS[0], (Fraction(1),), request_of(1))
    assert first.reserve(what, caps, 0).cost == second.reserve(what, caps, 0).cost
    assert len(first.store.entries(0)) == 1
    other = wanted(study(1), LEARNERS[1], (Fraction(1),), request_of(2))
    with pytest.raises(LocalProtocolError):
        second.reserve(other, caps, 0)
    for store in stores:
        store.close()


RACER = """
import sys
from fractions import Fraction
from pathlib import Path
sys.path.insert(0, "tests")
from test_ledger import *
file, me, denominator = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
ledger = Ledger(DatabaseStore(sqlite_url(file)))
cost = Fraction(1, denominator)
for number in range(me, me + 10_000):
    try:
        spend(ledger, number, (cost,), learner=LEARNERS[me % 3], caps=Caps(Fraction(1), Fraction(1)))
    except InsufficientBudgetError:
        break
    print(number, flush=True)
"""


def start(file, me, denominator):
    return subprocess.Popen(
        [sys.executable, "-c", RACER, str(file), str(me), str(denominator)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.slow
def test_racing_processes_admit_thirty_thirtieths(file):
    """They also race to create the file."""
    racers = [start(file, me, 30) for me in (10_000, 20_000, 30_000)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    admitted = [racer.communicate()[0].split() for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0, 0]
    assert sum(map(len, admitted)) == 30
    store = DatabaseStore(sqlite_url(file))
    account = Ledger(store).account
    store.close()
    assert account.total_spent == 1
    assert account.total_reserved == 0
    assert sorted(int.from_bytes(name, "big") for name in account.studies) == sorted(
        int(number) for numbers in admitted for number in numbers
    )


@pytest.mark.slow
def test_killed_process_loses_no_acknowledged_charge(file):
    acknowledged = []
    for kill, lines in enumerate((1, 7, 20), 1):
        victim = start(file, kill * 10_000, 100_000)
        victim.stdout.readline()
        victim.stdin.write("go\n")
        victim.stdin.flush()
        acknowledged += [int(victim.stdout.readline()) for _ in range(lines)]
        victim.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in victim.communicate()[0].split("\n")[:-1]]
        assert victim.returncode == -signal.SIGKILL
        store = DatabaseStore(sqlite_url(file))
        account = Ledger(store).account
        store.close()
        assert all(account.studies[study(number)].spent == Fraction(1, 100_000) for number in acknowledged)
        assert account.total_spent >= Fraction(len(acknowledged), 100_000)


# full disks


def fill(store):
    """From now on the file cannot grow by a page."""

    def limit(connection, _record):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")

    sa.event.listen(store._engine, "connect", limit)
    store._engine.dispose()
    return lambda: (sa.event.remove(store._engine, "connect", limit), store._engine.dispose())


def test_full_disk_refuses_as_unavailable_and_the_same_request_succeeds_later(database):
    curator = open_curator(database)
    free = fill(database)
    learner = Learner(curator)
    before, account = database.entries(0), copy.deepcopy(curator._ledger.account)
    refusal = learner.propose(plan_of(*[3_000] * 900))
    assert refusal.code == RefusalCode.UNAVAILABLE
    assert database.entries(0) == before
    assert curator._ledger.account == account
    free()
    sent = learner.session.pending
    assert isinstance(learner.ask(), StudyAccepted)
    assert len(database.entries(0)) == len(before) + 1
    assert curator.handle(sent) == curator.handle(sent)
    assert Ledger(database).account == curator._ledger.account


def test_disk_that_fills_up_between_charge_and_answer_costs_one_charge(database):
    curator = open_curator(database)
    learner = opened(curator)
    free = fill(database)
    reply = learner.query(mass_body(*map(float, range(4000))))
    assert reply.code == RefusalCode.UNAVAILABLE
    free()
    assert isinstance(learner.ask(), Release)
    assert [decode_entry(body).kind for _, body in database.entries(0)] == ["bind", "reserve", "charge"]
    assert curator._ledger.account.total_spent == THIRTIETH


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("at", ["propose", "query", "close"])
@pytest.mark.parametrize("write", [0, 1])
def test_each_write_may_fail_or_go_unacknowledged(how, at, write):
    """Write 0 is the entry, write 1 the stored reply; the repeat of the same bytes is served and counted once."""
    store = FlakyStore()
    curator = open_curator(store)
    learner = Learner(curator)
    for step in ("propose", "query", "close"):
        if step == at:
            store.failures = [""] * write + [how]
        reply = getattr(learner, step)()
        if step == at:
            assert reply.code == RefusalCode.UNAVAILABLE
            assert reply.remaining == ""
            reply = learner.ask()
        assert not isinstance(reply, Refusal), reply
    kinds = [decode_entry(body).kind for _, body in store.entries(0)]
    assert kinds == ["bind", "reserve", "charge", "close"]
    account = Ledger(store).account
    assert (account.total_spent, account.total_reserved) == (THIRTIETH, 0)


def test_full_disk_refuses_even_what_only_expires(file):
    store, clock = FlakyStore(), Clock()
    curator = open_curator(store, clock=clock)
    learner = opened(curator, clock=clock)
    clock.advance(10**5)
    store.full = True
    assert learner.query().code == RefusalCode.UNAVAILABLE
    store.full = False
    assert learner.ask().code == RefusalCode.STUDY_EXPIRED
    assert curator._ledger.account.total_reserved == 0
