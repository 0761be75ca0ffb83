"""One ledger contract for every store: exact caps, idempotent retries, an honest chain, crashes, races, full disks."""

import copy
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from at_length import walks_at_length
from curator_fakes import Clock, FlakyStore, Learner, key, mass_body, open_curator, opened, plan_of
from curator_node.ledger import (
    AnswerGoneError,
    Caps,
    HaltedError,
    InsufficientBudgetError,
    Ledger,
    Reservation,
    StoreFullError,
    StudyKey,
    TooManyStudiesError,
    create_ledger,
)
from curator_node.ledger.checks import load
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.store import (
    AppendConflictError,
    DatabaseStore,
    LedgerUnavailableError,
    MemoryStore,
    Row,
    sqlite_url,
)
from protocol.errors import ConfigurationError, LocalProtocolError
from protocol.ledger.entries import LedgerCorruptError, decode_entry, entry_hash, sign_head
from protocol.messages import Refusal, Release, StudyAccepted
from protocol.refusals import RefusalCode

ROOT = Path(__file__).parents[2]
THIRTIETH = Fraction(1, 30)
CAPS = Caps(learner=Fraction(1), total=Fraction(3, 2))
WIDE = Caps(learner=Fraction(10**6), total=Fraction(10**6))

LEARNERS = [name.encode().ljust(32, b".") for name in ("ann", "bob", "cai")]
STUDIES = [bytes([n]) * 16 for n in range(1, 7)]
CURATOR = key("basel")
REQUESTS = [bytes([n]) * 32 for n in (1, 2, 3)]
COSTS = [THIRTIETH, Fraction(1, 7), Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)]


def reservation_of(study, learner, costs, request, expires_at=10**6):
    plan = plan_of(*(1 / cost for cost in costs))
    return Reservation(StudyKey(learner, study), plan, tuple(costs), request, expires_at)


def opened_on(store):
    """A handle as another process would have it."""
    return Ledger(store, key=CURATOR, mark=MemoryMark())


def new_ledger(store):
    create_ledger(store, CURATOR, MemoryMark(), now=0)
    return opened_on(store)


def kinds(store):
    return [decode_entry(row.body).kind for row in store.rows(0)]


class Model:
    """What a ledger should say, in plain Python and without chains."""

    def __init__(self):
        self.studies = {}
        self.restored = dict.fromkeys(LEARNERS, Fraction(0))
        self.halted = False
        self.requests = {}

    def spent(self, learner):
        return self.restored[learner] + sum(s["spent"] for (who, _), s in self.studies.items() if who == learner)

    def reserved(self, learner):
        open_ = [s for (who, _), s in self.studies.items() if who == learner and s["state"] in ("open", "asked")]
        return sum((sum(s["costs"]) - s["spent"] for s in open_), Fraction(0))

    def left(self, learner):
        total = sum(self.spent(name) for name in LEARNERS)
        return max(Fraction(0), min(CAPS.learner - self.spent(learner) - self.reserved(learner), CAPS.total - total))

    def reserve(self, study, learner, costs, request, expires_at):
        if request in self.requests:
            return "repeat"
        if (learner, study) in self.studies:
            return LocalProtocolError
        if self.halted:
            return HaltedError
        if sum(costs) > self.left(learner):
            return InsufficientBudgetError
        fields = {"costs": costs, "spent": Fraction(0), "asked": 0, "expires": expires_at, "state": "open"}
        self.studies[learner, study] = fields
        self.requests[request] = None
        return "done"

    def charge(self, key, sequence, cost, request):
        s = self.studies[key]
        if request in self.requests:
            return "repeat"
        if self.halted:
            return HaltedError
        if s["state"] != "open" or sequence != s["asked"] + 1 or sequence > len(s["costs"]):
            return LocalProtocolError
        if cost > s["costs"][sequence - 1]:
            return LocalProtocolError
        left = min(CAPS.learner - self.spent(key[0]), CAPS.total - sum(self.spent(name) for name in LEARNERS))
        if cost > left:
            return InsufficientBudgetError
        s["spent"] += cost
        s["asked"], s["state"] = sequence, "asked"
        self.requests[request] = None
        return "done"

    def answer(self, key, request, reply):
        if self.requests[request] is not None:
            return "repeat"
        self.requests[request] = reply
        s = self.studies[key]
        if s["state"] == "asked" and request == s.get("query"):
            s["state"] = "open"
        return "done"

    def close(self, key, sequence, request):
        s = self.studies[key]
        if request in self.requests:
            return "repeat"
        if s["state"] not in ("open", "asked") or sequence <= s["asked"]:
            return LocalProtocolError
        s["state"], s["asked"] = "closed", sequence
        self.requests[request] = None
        return "done"


class LedgerMachine(RuleBasedStateMachine):
    """Two handles, as two processes would have, and the model beside them."""

    def open_store(self):
        return MemoryStore()

    @initialize()
    def start(self):
        self.store = self.open_store()
        create_ledger(self.store, CURATOR, MemoryMark(), now=0)
        self.ledgers = [opened_on(self.store), opened_on(self.store)]
        self.model = Model()
        self.now = 0
        self.serial = 0
        self.owner = {}

    def chain(self):
        return self.store.rows(0)

    def request(self, again, choose):
        """A digest: a new one, or one that was used before."""
        if again and self.model.requests:
            return choose(sorted(self.model.requests))
        self.serial += 1
        return self.serial.to_bytes(32, "big")

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
            assert self.ledgers[which].account.head == load(self.store).head
        else:
            assert self.ledgers[which].account.head != head

    which = st.integers(0, 1)

    @rule(
        which=which,
        study=st.sampled_from(STUDIES),
        learner=st.sampled_from(LEARNERS),
        costs=st.lists(st.sampled_from(COSTS), min_size=1, max_size=3),
        lifetime=st.integers(1, 20),
    )
    def reserve(self, which, study, learner, costs, lifetime):
        request = self.request(False, None)
        what = reservation_of(study, learner, costs, request, self.now + lifetime)
        expected = self.model.reserve(study, learner, costs, request, what.expires_at)
        if expected == "done":
            self.owner[request] = (learner, study)
        self.act(which, lambda ledger: ledger.reserve(what, CAPS, self.now), expected)
        if expected == "done":
            self.act(which, lambda ledger: ledger.reserve(what, CAPS, self.now), "repeat")

    @rule(
        which=which, data=st.data(), off=st.sampled_from([0, 0, 0, 0, -1, 1]), extra=st.booleans(), again=st.booleans()
    )
    def charge(self, which, data, off, extra, again):
        if not self.model.studies:
            return
        key = data.draw(st.sampled_from(sorted(self.model.studies)))
        known = self.model.studies[key]
        mine = [request for request, owner in self.owner.items() if owner == key]
        request = self.request(again and bool(mine), lambda _: data.draw(st.sampled_from(mine)))
        sequence = max(0, known["asked"] + 1 + off)
        cost = known["costs"][min(known["asked"], len(known["costs"]) - 1)] + (1 if extra and off else 0)
        expected = self.model.charge(key, sequence, cost, request)
        if expected == "done":
            self.owner[request] = key
            known["query"] = request
        self.act(which, lambda ledger: ledger.charge(StudyKey(*key), sequence, cost, request, self.now, CAPS), expected)

    @rule(which=which, data=st.data())
    def answer(self, which, data):
        """Both handles draw; one reply enters the chain, and both send it."""
        if not self.owner:
            return
        request = data.draw(st.sampled_from(sorted(self.owner)))
        reply = data.draw(st.binary(min_size=1, max_size=8))
        self.act(
            which,
            lambda ledger: ledger.answer(request, lambda _: reply, self.now),
            self.model.answer(self.owner[request], request, reply),
        )
        for ledger in self.ledgers:
            assert ledger.answer(request, lambda _: b"another draw", self.now) == self.model.requests[request]

    @rule(which=which, data=st.data())
    def close_study(self, which, data):
        if not self.model.studies:
            return
        key = data.draw(st.sampled_from(sorted(self.model.studies)))
        request = self.request(False, None)
        sequence = self.model.studies[key]["asked"] + data.draw(st.integers(0, 2))
        expected = self.model.close(key, sequence, request)
        if expected == "done":
            self.owner[request] = key
        self.act(which, lambda ledger: ledger.close_study(StudyKey(*key), sequence, request, self.now), expected)

    @rule(which=which, seconds=st.integers(0, 8))
    def expire(self, which, seconds):
        self.now += seconds
        self.ledgers[which].refresh(self.now)
        self.ledgers[which].expire(self.now)
        for study in self.model.studies.values():
            if study["state"] in ("open", "asked") and study["expires"] <= self.now:
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
        self.ledgers[which] = opened_on(self.store)

    @invariant()
    def balances_are_the_model_s(self):
        if not hasattr(self, "model"):
            return
        account = load(self.store)
        assert account.halted == self.model.halted
        for learner in LEARNERS:
            assert account.spent.get(learner, 0) == self.model.spent(learner)
            assert account.reserved.get(learner, 0) == self.model.reserved(learner)
            used = self.model.spent(learner) + self.model.reserved(learner)
            assert used <= CAPS.learner + self.model.restored[learner]
            assert account.remaining(learner, CAPS.learner, CAPS.total) == self.model.left(learner)
        assert account.total_spent <= CAPS.total + sum(self.model.restored.values())

        self.balances_are_the_sums_of_the_chain(account)

    def balances_are_the_sums_of_the_chain(self, account):
        spent = reserved = Fraction(0)
        signs = {"reserve": (0, 1), "charge": (1, -1), "close": (0, -1), "expire": (0, -1), "resume": (1, 0)}
        for row in self.chain():
            entry = msgspec.msgpack.decode(row.body)
            to_spent, to_reserved = signs.get(entry["kind"], (0, 0))
            spent += to_spent * Fraction(entry["amount"])
            reserved += to_reserved * Fraction(entry["amount"])
        assert (spent, reserved) == (account.total_spent, account.total_reserved)
        assert account.totals[-1] == spent

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()


class DatabaseMachine(LedgerMachine):
    """The same on a SQLite file, where a reopened handle comes from a new connection."""

    @staticmethod
    def made(file):
        with closing(DatabaseStore(sqlite_url(file), create=True)) as store:
            new_ledger(store)

    def open_store(self):
        self.folder = Path(_new_folder())
        return DatabaseStore(sqlite_url(self.folder / "ledger.sqlite"), create=True)

    @rule(which=LedgerMachine.which)
    def reopen_the_file(self, which):
        self.store.close()
        self.store = DatabaseStore(sqlite_url(self.folder / "ledger.sqlite"))
        self.ledgers = [opened_on(self.store), opened_on(self.store)]


_FOLDERS = []


def _new_folder():
    _FOLDERS.append(_FOLDERS[0] / str(len(_FOLDERS)))
    _FOLDERS[-1].mkdir()
    return _FOLDERS[-1]


@pytest.fixture(scope="module", autouse=True)
def _folders(tmp_path_factory):
    _FOLDERS[:] = [tmp_path_factory.mktemp("ledgers")]


TestMemoryLedger = LedgerMachine.TestCase
TestMemoryLedger.settings = settings(max_examples=12, stateful_step_count=30, deadline=None)
TestMemoryLedgerAtLength = walks_at_length(LedgerMachine, max_examples=40, stateful_step_count=40)
TestDatabaseLedger = DatabaseMachine.TestCase
TestDatabaseLedger.settings = settings(max_examples=5, stateful_step_count=25, deadline=None)
TestDatabaseLedgerAtLength = walks_at_length(DatabaseMachine, max_examples=12, stateful_step_count=25)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def database(file):
    with closing(DatabaseStore(sqlite_url(file), create=True)) as opened_store:
        yield opened_store


@pytest.fixture(params=["memory", "database", "postgresql"])
def store(request, file):
    urls = {"database": lambda: sqlite_url(file), "postgresql": lambda: request.getfixturevalue("postgres").new_url()}
    url = urls.get(request.param)
    with closing(DatabaseStore(url(), create=True) if url else MemoryStore()) as opened_store:
        yield opened_store


def study(number):
    return number.to_bytes(16, "big")


def key_of(number, learner=LEARNERS[0]):
    return StudyKey(learner, study(number))


def request_of(number):
    return number.to_bytes(32, "big")


def spend(ledger, number, costs=(THIRTIETH,), *, learner=LEARNERS[0], caps=WIDE):
    """Reserve, charge and answer a study of its own."""
    ledger.reserve(reservation_of(study(number), learner, costs, request_of(100 * number)), caps, 0)
    ledger.answer(request_of(100 * number), lambda _: b"accepted", 0)
    for sequence, cost in enumerate(costs, 1):
        request = request_of(100 * number + sequence)
        ledger.charge(key_of(number, learner), sequence, cost, request, 0, caps)
        ledger.answer(request, lambda _, reply=request: reply, 0)


def signed(index, body, signer=CURATOR):
    return Row(index, body, sign_head(signer, index, entry_hash(body)))


@pytest.mark.family(2)
def test_thirty_charges_of_a_thirtieth_fit_a_cap_of_one_and_the_next_does_not(store):
    ledger = new_ledger(store)
    caps = Caps(learner=Fraction(1), total=Fraction(2))
    for number in range(1, 31):
        spend(ledger, number, caps=caps)
    before = store.rows(0)
    with pytest.raises(InsufficientBudgetError) as caught:
        spend(ledger, 31, caps=caps)
    assert (caught.value.requested, caught.value.remaining) == (THIRTIETH, 0)
    assert ledger.account.spent[LEARNERS[0]] == 1
    assert store.rows(0) == before
    spend(ledger, 32, learner=LEARNERS[1], caps=caps)


@pytest.mark.family(2)
def test_cap_over_all_binds_learners_together(store):
    ledger = new_ledger(store)
    caps = Caps(learner=Fraction(1), total=Fraction(1))
    for number in range(30):
        spend(ledger, number + 1, learner=LEARNERS[number % 3], caps=caps)
    with pytest.raises(InsufficientBudgetError):
        spend(ledger, 31, learner=LEARNERS[1], caps=caps)


def test_query_that_costs_more_than_is_left_of_its_plan_never_enters_the_chain(store):
    ledger = new_ledger(store)
    ledger.reserve(reservation_of(study(1), LEARNERS[0], (THIRTIETH, 2 * THIRTIETH), request_of(1)), CAPS, 0)
    before = store.rows(0)
    for cost in (2 * THIRTIETH, 3 * THIRTIETH):  # the plan has room for it, the query has not
        with pytest.raises(LocalProtocolError):
            ledger.charge(key_of(1), 1, cost, request_of(2), 0)
    assert store.rows(0) == before
    assert load(store).head == ledger.account.head


def test_entry_that_could_not_be_read_back_is_never_stored(store):
    ledger = new_ledger(store)
    ledger.halt(0, "stop")
    with pytest.raises(LedgerCorruptError):
        ledger.resume(-1)
    with pytest.raises(LedgerCorruptError):
        ledger.resume(0, restored=Fraction(-1, 30))
    assert len(store.rows(0)) == 2
    assert load(store).halted


def test_a_reservation_starves_nobody_until_it_is_charged(store):
    ledger = new_ledger(store)
    caps = Caps(learner=Fraction(1), total=Fraction(1))
    ledger.reserve(reservation_of(study(1), LEARNERS[0], (Fraction(1),), request_of(1)), caps, 0)
    assert ledger.remaining(LEARNERS[0], caps) == 0
    assert ledger.remaining(LEARNERS[1], caps) == 1
    spend(ledger, 2, (Fraction(1, 2),), learner=LEARNERS[1], caps=caps)
    with pytest.raises(InsufficientBudgetError) as caught:
        ledger.charge(key_of(1), 1, Fraction(1), request_of(2), 0, caps)
    assert caught.value.remaining == Fraction(1, 2)


def test_the_number_of_studies_is_decided_on_the_newest_chain(store):
    """Two processes at once: the limit is part of the decision that appends."""
    first, second = new_ledger(store), opened_on(store)
    caps = Caps(Fraction(1), Fraction(1), open_studies=1, studies=2)
    first.reserve(reservation_of(study(1), LEARNERS[0], (THIRTIETH,), request_of(1)), caps, 0)
    with pytest.raises(TooManyStudiesError, match="1 open"):
        second.reserve(reservation_of(study(2), LEARNERS[0], (THIRTIETH,), request_of(2)), caps, 0)
    first.close_study(key_of(1), 1, request_of(3), 0)
    second.reserve(reservation_of(study(2), LEARNERS[0], (THIRTIETH,), request_of(4)), caps, 0)
    second.close_study(key_of(2), 1, request_of(5), 0)
    with pytest.raises(TooManyStudiesError, match="2 ever"):
        first.reserve(reservation_of(study(3), LEARNERS[0], (THIRTIETH,), request_of(6)), caps, 0)


def test_two_learners_may_choose_the_same_identity(store):
    ledger = new_ledger(store)
    for number, learner in enumerate(LEARNERS, 1):
        ledger.reserve(reservation_of(study(1), learner, (THIRTIETH,), request_of(number)), CAPS, 0)
    assert len(load(store).studies) == 3


def test_one_reply_enters_the_chain_and_everybody_sends_it(store):
    first, second = new_ledger(store), opened_on(store)
    first.reserve(reservation_of(study(1), LEARNERS[0], (THIRTIETH,), request_of(1)), CAPS, 0)
    assert first.answer(request_of(1), lambda _: b"one", 0) == b"one"
    assert second.answer(request_of(1), lambda _: pytest.fail("drawn again"), 0) == b"one"
    assert kinds(store) == ["open", "reserve", "answered"]


def test_racing_draws_before_either_is_stored_send_one(store):
    first, second = new_ledger(store), opened_on(store)
    first.reserve(reservation_of(study(1), LEARNERS[0], (THIRTIETH,), request_of(1)), CAPS, 0)

    def slow(_):
        assert second.answer(request_of(1), lambda _: b"second", 0) == b"second"
        return b"first"

    assert first.answer(request_of(1), slow, 0) == b"second"
    assert kinds(store).count("answered") == 1
    assert first.reply(request_of(1)) == b"second"


@pytest.mark.parametrize("how", ["lost", "changed"])
def test_a_reply_that_is_missing_or_differs_is_never_drawn_again(store, how):
    ledger = new_ledger(store)
    ledger.reserve(reservation_of(study(1), LEARNERS[0], (THIRTIETH,), request_of(1)), CAPS, 0)
    ledger.answer(request_of(1), lambda _: b"one", 0)
    tamper_with_reply(store, request_of(1), None if how == "lost" else b"two")
    for handle in (ledger, opened_on(store)):
        with pytest.raises(AnswerGoneError) as caught:
            handle.answer(request_of(1), lambda _: pytest.fail("drawn again"), 0)
        assert (caught.value.index, caught.value.evicted) == (2, False)
    assert kinds(store) == ["open", "reserve", "answered"]


def tamper_with_reply(store, request, reply):
    if isinstance(store, MemoryStore):
        store._replies.pop(request)
        if reply is not None:
            store._replies[request] = reply
        return
    with store._engine.begin() as connection:
        if reply is None:
            connection.execute(sa.text("DELETE FROM replies WHERE request = :request"), {"request": request})
        else:
            changed = sa.text("UPDATE replies SET reply = :reply WHERE request = :request")
            connection.execute(changed, {"reply": reply, "request": request})


def test_replies_of_ended_studies_make_room_the_first_to_end_in_front(store):
    ledger = new_ledger(store)
    for number in (1, 2, 3):
        ledger.reserve(reservation_of(study(number), LEARNERS[0], (THIRTIETH,), request_of(number)), CAPS, 0)
        ledger.answer(request_of(number), lambda _: b"x" * 40, 0)
    for number in (2, 1):
        ledger.close_study(key_of(number), 1, request_of(10 + number), 0)
    ledger.make_room(30, 150, 0)
    assert kinds(store).count("evict") == 0
    ledger.make_room(31, 150, 0)
    assert store.reply(request_of(2)) is None
    assert ledger.reply(request_of(1)) == b"x" * 40
    assert ledger.account.kept_bytes == 80
    with pytest.raises(AnswerGoneError) as caught:
        ledger.reply(request_of(2))
    assert caught.value.evicted
    before = store.rows(0)
    with pytest.raises(StoreFullError):
        ledger.make_room(111, 150, 0)
    assert decode_entry(store.rows(0)[-1].body).kind == "evict"
    assert len(store.rows(0)) == len(before) + 1
    assert ledger.reply(request_of(3)) == b"x" * 40
    assert load(store).kept_bytes == 40


def test_append_of_a_taken_index_conflicts_and_rows_are_read_from_where_the_reader_stands(store):
    first, second = Row(0, b"first", b"s"), Row(0, b"second", b"s")
    store.append(first, replies=[(request_of(1), b"one")])
    with pytest.raises(AppendConflictError):
        store.append(second, replies=[(request_of(1), b"two")])
    assert store.rows(0) == [first]
    assert store.reply(request_of(1)) == b"one"
    assert store.replied() == [request_of(1)]
    assert store.rows(1) == []
    later = [Row(index, bytes([index]), b"s") for index in (1, 2, 3)]
    for row in later:
        store.append(row)
    assert (store.rows(0), store.rows(2)) == ([first, *later], later[1:])


def test_refusals_are_remembered_until_they_expire(store):
    for number in (1, 2, 3):
        store.remember(request_of(number), LEARNERS[0], bytes([number]), 10 * number, 0)
    assert store.refusal(request_of(1)) == b"\x01"
    assert [store.refusals(learner, 0) for learner in LEARNERS] == [3, 0, 0]
    assert store.refusals(LEARNERS[0], 10) == 2
    store.remember(request_of(4), LEARNERS[1], b"4", 40, 10)
    assert store.refusal(request_of(1)) is None
    store.remember(request_of(2), LEARNERS[0], b"again", 30, 10)
    assert store.refusal(request_of(2)) == b"again"
    assert store.rows(0) == []


def test_a_ledger_is_made_on_purpose_and_once(file):
    with pytest.raises(ConfigurationError, match="expril ledger create"):
        DatabaseStore(sqlite_url(file))
    assert not file.exists()
    store = DatabaseStore(sqlite_url(file), create=True)
    with pytest.raises(ConfigurationError, match="no first entry"):
        opened_on(store)
    new_ledger(store)
    with pytest.raises(ConfigurationError, match="never made anew"):
        new_ledger(store)
    store.close()
    with pytest.raises(ConfigurationError, match="never made anew"):
        DatabaseStore(sqlite_url(file), create=True)


def test_a_ledger_of_the_first_version_is_refused_by_name(file):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE ledger_entries (entry_index BIGINT PRIMARY KEY, body BLOB)")
    for create in (True, False):
        with pytest.raises(ConfigurationError, match="protocol version 1"):
            DatabaseStore(sqlite_url(file), create=create)


def test_sqlite_is_opened_for_durability(database):
    with database._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 60_000


def test_file_that_is_no_database_is_a_configuration_error(file):
    file.write_bytes(b"a spreadsheet, perhaps" * 100)
    with pytest.raises(ConfigurationError, match="not a SQLite ledger"):
        DatabaseStore(sqlite_url(file))
    for path in (file, file / "below a file"):
        with pytest.raises(ConfigurationError, match="cannot be opened"):
            DatabaseStore(sqlite_url(path), create=True)


def test_failing_database_is_unavailable_without_its_text(database):
    with database._engine.begin() as connection:
        for table in ("entries", "replies", "refusals"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
    for act in (
        lambda: database.append(Row(0, b"canary", b"canary")),
        lambda: database.rows(0),
        lambda: database.reply(b"canary"),
        lambda: database.remember(b"canary", b"canary", b"canary", 1, 0),
        lambda: database.refusal(b"canary"),
    ):
        with pytest.raises(LedgerUnavailableError) as caught:
            act()
        assert "canary" not in str(caught.value)
        assert caught.value.__suppress_context__


@pytest.fixture
def two_ledgers(file):
    """Of two processes on one file."""
    with (
        closing(DatabaseStore(sqlite_url(file), create=True)) as first,
        closing(DatabaseStore(sqlite_url(file))) as second,
    ):
        yield new_ledger(first), opened_on(second)


def test_two_ledgers_on_one_file_admit_thirty_thirtieths(two_ledgers):
    caps = Caps(learner=Fraction(1), total=Fraction(1))
    admitted = 0
    for number in range(1, 40):
        with suppress(InsufficientBudgetError):
            spend(two_ledgers[number % 2], number, caps=caps)
            admitted += 1
    assert admitted == 30
    assert [load(ledger.store).total_spent for ledger in two_ledgers] == [1, 1]


def test_same_reservation_by_two_processes_is_one_even_where_it_uses_up_the_cap(two_ledgers):
    first, second = two_ledgers
    caps = Caps(learner=Fraction(1), total=Fraction(1))
    reservations = [reservation_of(study(1), LEARNERS[0], (Fraction(1),), request_of(number)) for number in (1, 2)]
    assert first.reserve(reservations[0], caps, 0).cost == second.reserve(reservations[0], caps, 0).cost
    assert len(first.store.rows(0)) == 2
    with pytest.raises(LocalProtocolError):
        second.reserve(reservations[1], caps, 0)


RACER = """
import sys
from fractions import Fraction
from pathlib import Path
sys.path[:0] = ["tests/support", "tests/curator_node"]
from test_ledger import *
url, me, denominator = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
ledger = opened_on(DatabaseStore(url))
cost = Fraction(1, denominator)
for number in range(me, me + 10_000):
    try:
        spend(ledger, number, (cost,), learner=LEARNERS[me % 3], caps=Caps(Fraction(1), Fraction(1)))
    except InsufficientBudgetError:
        break
    print(number, flush=True)
"""


def start(url, me, denominator):
    return subprocess.Popen(
        [sys.executable, "-c", RACER, str(url), str(me), str(denominator)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_racing_processes_admit_thirty_thirtieths(file, kind, request):
    url = f"sqlite:///{file}" if kind == "sqlite" else request.getfixturevalue("postgres").new_url()
    with closing(DatabaseStore(url, create=True)) as store:
        new_ledger(store)
    racers = [start(url, me, 30) for me in (10_000, 20_000, 30_000)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    admitted = [racer.communicate()[0].split() for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0, 0]
    assert sum(map(len, admitted)) == 30
    with closing(DatabaseStore(url)) as store:
        account = load(store)
    assert account.total_spent == 1
    assert account.total_reserved <= Fraction(2, 30), "a racer may have set aside what another then spent"
    assert sorted(int.from_bytes(key.study, "big") for key, study in account.studies.items() if study.spent) == sorted(
        int(number) for numbers in admitted for number in numbers
    )


@pytest.mark.slow
def test_killed_process_loses_no_acknowledged_charge(file):
    DatabaseMachine.made(file)
    acknowledged = []
    for kill, lines in enumerate((1, 7, 20), 1):
        me = kill * 10_000
        victim = start(sqlite_url(file), me, 100_000)
        victim.stdout.readline()
        victim.stdin.write("go\n")
        victim.stdin.flush()
        numbers = [int(victim.stdout.readline()) for _ in range(lines)]
        victim.send_signal(signal.SIGKILL)
        numbers += [int(line) for line in victim.communicate()[0].split("\n")[:-1]]
        acknowledged += [key_of(number, LEARNERS[me % 3]) for number in numbers]
        assert victim.returncode == -signal.SIGKILL
        with closing(DatabaseStore(sqlite_url(file))) as store:
            account = load(store)
        assert all(account.studies[key].spent == Fraction(1, 100_000) for key in acknowledged)
        assert account.total_spent >= Fraction(len(acknowledged), 100_000)


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
    curator._ledger.enrol(key("ann").public, "ann", Clock()())
    free = fill(database)
    learner = Learner(curator)
    before, account = database.rows(0), copy.deepcopy(curator._ledger.account)
    refusal = learner.propose(plan_of(*[3_000] * 900))
    assert refusal.code == RefusalCode.UNAVAILABLE
    assert database.rows(0) == before
    assert curator._ledger.account == account
    free()
    sent = learner.session.pending
    assert isinstance(learner.ask(), StudyAccepted)
    assert len(database.rows(0)) == len(before) + 2
    assert curator.handle(sent) == curator.handle(sent)
    assert load(database) == curator._ledger.account


def test_disk_that_fills_up_between_charge_and_answer_costs_one_charge(database):
    curator = open_curator(database)
    learner = opened(curator)
    free = fill(database)
    reply = learner.query(mass_body(*map(float, range(4000))))
    assert reply.code == RefusalCode.UNAVAILABLE
    free()
    assert isinstance(learner.ask(), Release)
    assert kinds(database) == ["open", "start", "enrol", "reserve", "answered", "charge", "answered"]
    assert curator._ledger.account.total_spent == THIRTIETH


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("at", ["propose", "query", "close"])
@pytest.mark.parametrize("write", [0, 1])
def test_each_write_may_fail_or_go_unacknowledged(how, at, write):
    """Write 0 is the entry, write 1 the reply with its digest; the repeat of the same bytes is served, counted once.

    Write -1 binds the learner's key, before its first reservation.
    """
    store = FlakyStore()
    curator = open_curator(store)
    learner = Learner(curator)
    for step in ("propose", "query", "close"):
        if step == at:
            store.failures = [""] * (write + (step == "propose")) + [how]
        reply = getattr(learner, step)()
        if step == at:
            assert reply.code == RefusalCode.UNAVAILABLE
            assert reply.remaining == ""
            reply = learner.ask()
        assert not isinstance(reply, Refusal), reply
    answered = ["reserve", "answered", "charge", "answered", "close", "answered"]
    assert kinds(store) == ["open", "start", "enrol", *answered]
    account = load(store)
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
