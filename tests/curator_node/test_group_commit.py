"""Questions that are charged and answered in one commit: whoever dies when, each answer was charged, once."""

import random
import threading
import time
from collections import Counter
from contextlib import ExitStack
from copy import copy, deepcopy
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from at_length import also_at_length
from curator_fakes import MARKS, NOW, mass_body, message_of, open_curator, opened, plan_of, policy
from curator_node.ledger.checks import check
from curator_node.ledger.store import AppendConflictError, DatabaseStore, LedgerUnavailableError, MemoryStore
from protocol.envelopes import digest
from protocol.messages import Release
from protocol.refusals import RefusalCode

NAMES = ("ann", "bob", "cai", "dee", "eve", "fay")
COST = Fraction(1, 30)
PATIENCE = 60


class DyingStore:
    """A store whose next commit waits until others wait behind it, and which dies at a commit.

    Attributes:
        groups: number of entries of each commit since `hold`.
    """

    def __init__(self):
        self.inner, self.groups = MemoryStore(), []
        self._ledger, self._others, self._left, self._how, self.dead = None, 0, 0, "", False

    def hold(self, ledger, others, dies_at, how):
        """The next commit waits for `others`; the one of number `dies_at` is the last, written or not."""
        self._ledger, self._others, self._left, self._how = ledger, others, dies_at, how

    def revive(self):
        """What was written is there, as after a restart."""
        self.dead, self._left = False, 0

    def append(self, *rows, **more):
        end = time.monotonic() + PATIENCE
        while self._others and len(self._ledger._orders) < self._others and time.monotonic() < end:
            time.sleep(0)
        self._others = 0
        self._check_alive()
        self._left -= 1
        self.dead = self._left == 0
        if not self.dead or self._how == "after":
            self.inner.append(*rows, **more)
        self.groups.append(len(rows))
        self._check_alive()

    def remember(self, *refusal):
        self._check_alive()
        self.inner.remember(*refusal)

    def _check_alive(self):
        if self.dead:
            raise LedgerUnavailableError("the process is dead")

    def __getattr__(self, name):
        return getattr(self.inner, name)


def handled(curator, requests):
    """The replies to requests that come at the same time."""
    replies = {}
    threads = [
        threading.Thread(target=lambda data=data: replies.update({data: curator.handle(data)})) for data in requests
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    return replies


def charges_of(store):
    """How often each request was charged, and the account of a ledger that is in order."""
    checked = check(store)
    assert checked.findings == ()
    charged = Counter(entry.request for entry in checked.entries if entry.kind == "charge")
    return charged, checked.account


@also_at_length(60)
@settings(max_examples=6, deadline=None)
@given(
    number=st.integers(2, len(NAMES)),
    fits=st.integers(1, len(NAMES)),
    dies_at=st.integers(0, 8),
    how=st.sampled_from(["before", "after"]),
)
@example(number=6, fits=4, dies_at=0, how="before")
@example(number=6, fits=6, dies_at=2, how="after")
@example(number=6, fits=6, dies_at=2, how="before")
def test_every_answer_was_charged_once_whenever_the_process_dies(number, fits, dies_at, how):
    """All learners ask at once; the cap over all fits some of the questions, and the process dies at some commit."""
    names, store = NAMES[:number], DyingStore()
    rules = policy(names, cap=fits * COST, learner_cap=COST)
    curator = open_curator(store, rules=rules)
    learners = [opened(curator, name, plan=plan_of(1 / COST)) for name in names]
    requests = [learner.session.query("counts", mass_body(), NOW) for learner in learners]
    store.hold(curator._ledger, number - 1, dies_at, how)
    replies = handled(curator, requests)
    released = {data for data, reply in replies.items() if isinstance(message_of(reply), Release)}
    charged, account = charges_of(store.inner)
    assert set(charged.values()) <= {1}
    assert len(released) <= len(charged) <= min(fits, number)
    assert account.total_spent == len(charged) * COST
    kept = {digest(store.inner.reply(request)): answer.index for request, answer in account.answers.items()}
    mark = MARKS[store].read().position.index
    assert all(kept[digest(replies[data])] <= mark for data in released), "durable, and marked, before it is sent"
    if not dies_at:
        codes = Counter(getattr(message_of(reply), "code", "released") for reply in replies.values())
        assert (codes["released"], codes[RefusalCode.OVER_BUDGET]) == (min(fits, number), number - min(fits, number))
        if min(fits, number) > 2:
            assert max(store.groups) > 1, "the test groups"
    store.revive()
    again = handled(open_curator(store, rules=rules), requests)
    assert all(again[data] == replies[data] for data in released), "an answer is drawn once"
    charged, account = charges_of(store.inner)
    assert set(charged.values()) <= {1}
    assert sum(isinstance(message_of(reply), Release) for reply in again.values()) == len(charged)
    assert len(charged) == min(fits, number), "nothing is lost: what did not fit was refused, and nothing else"
    assert account.total_spent == len(charged) * COST


def test_nobody_is_charged_between_a_restored_ledger_and_its_halt():
    """One commit is under way and a charge waits for it while another thread notices that the ledger was put back."""
    store, held, go_on = MemoryStore(), threading.Event(), threading.Event()
    names = NAMES[:3]
    curator = open_curator(store, rules=policy(names, cap=9, learner_cap=1))
    learners = [opened(curator, name, plan=plan_of(1 / COST)) for name in names]
    kept = len(store.rows(0))
    asked = [learner.session.query("counts", mass_body(), NOW) for learner in learners]
    assert isinstance(message_of(curator.handle(asked[0])), Release)
    append, ledger = store.append, curator._ledger

    def slow(*rows, **more):
        if not held.is_set():
            held.set()
            go_on.wait(PATIENCE)
        append(*rows, **more)

    store.append = slow
    replies = {}
    threads = [
        threading.Thread(target=lambda data=data: replies.update({data: curator.handle(data)})) for data in asked
    ]
    for thread, waiting in zip((threads[1], threads[2], threads[0]), (0, 1, 2), strict=True):
        if not waiting:
            thread.start()
            assert held.wait(PATIENCE)
            continue
        if waiting == 2:
            del store._rows[kept:]
        thread.start()
        end = time.monotonic() + PATIENCE
        while len(ledger.lock._waiters) < waiting and time.monotonic() < end:
            time.sleep(0)
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    kinds = [entry.kind for entry in check(store).entries[kept:]]
    assert kinds == ["start", "halt"]
    assert {message_of(reply).code for reply in replies.values()} == {RefusalCode.HALTED}


def test_a_ledger_that_is_put_back_twice_while_a_curator_starts_keeps_its_terms():
    """The first copy has no terms yet, and the second has them."""
    store = MemoryStore()
    open_curator(store)
    whole, append = list(store.rows(0)), store.append
    copies = [whole[:1], whole]

    def put_back(*rows, **more):
        if copies:
            store._rows[:] = copies.pop(0)
        append(*rows, **more)

    store.append = put_back
    curator = open_curator(store)
    checked = check(store)
    assert checked.findings == ()
    assert {entry.note for entry in checked.entries if entry.kind == "start"} == {curator._ledger.account.terms}


class ReplacedStore(MemoryStore):
    """A store that is put back, or forward, to a copy of an earlier moment before some of its appends.

    Attributes:
        due: numbers of these appends, from the next one on.
    """

    def __init__(self, chance):
        super().__init__()
        self.due, self._chance, self._lock, self._copies = set(), chance, threading.Lock(), []

    def append(self, *rows, **more):
        with self._lock:
            self.due = {number - 1 for number in self.due}
            if 0 in self.due:
                self._rows, self._replies = map(copy, self._chance.choice(self._copies))
            super().append(*rows, **more)
            self._copies.append((copy(self._rows), copy(self._replies)))


@pytest.mark.parametrize("seed", range(15))
def test_no_answer_is_lost_unnoticed_however_often_a_ledger_is_put_back(seed):
    """Learners ask at once while copies come back in the middle of commits."""
    chance = random.Random(seed)
    names, store = NAMES[: chance.randint(2, len(NAMES))], ReplacedStore(chance)
    rules = policy(names, cap=9, learner_cap=1)
    curator = open_curator(store, rules=rules)
    learners = [opened(curator, name, plan=plan_of(30, 30, 30)) for name in names]
    store.due = {chance.randint(1, 2 * len(names)) for _ in range(chance.randint(1, 4))}
    sent = []

    def ask(learner):
        for _ in range(3):
            learner.session.query("counts", mass_body(), NOW)
            reply = curator.handle(learner.session.pending)
            if not isinstance(learner.session.receive(reply), Release):
                return
            sent.append(digest(reply))

    threads = [threading.Thread(target=ask, args=(learner,)) for learner in learners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    account = open_curator(store, rules=rules)._ledger.account
    kept = {digest(reply) for request in account.answers if (reply := store.reply(request))}
    kinds = [entry.kind for entry in check(store).entries]
    assert set(sent) <= kept or (account.halted and account.suspects)
    assert "halt" not in kinds or "charge" not in kinds[kinds.index("halt") :]


def counted(append, conflicts):
    """The method, and a list that gets each conflict."""

    def appended(*rows, **more):
        try:
            append(*rows, **more)
        except AppendConflictError as error:
            conflicts.append(error)
            raise

    return appended


def test_processes_that_share_a_database_take_turns(postgres):
    """Two curators are asked by two learners each: none is overtaken while it decides, and the chain is in order."""
    url, rules, sites = postgres.new_url(), policy(NAMES[:4], cap=9), []
    conflicts = []
    with ExitStack() as opened_stores:
        for number in range(2):
            store = DatabaseStore(url, create=not number)
            opened_stores.callback(store.close)
            if sites:
                MARKS[store] = deepcopy(sites[0]._ledger._mark)
            sites.append(open_curator(store, rules=rules))
            store.append = counted(store.append, conflicts)
        learners = [opened(sites[n % 2], name, plan=plan_of(30, 30, 30)) for n, name in enumerate(NAMES[:4])]

        def ask(learner):
            for _ in range(3):
                learner.query()

        threads = [threading.Thread(target=ask, args=(learner,)) for learner in learners]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        charged, account = charges_of(store)
    assert conflicts == []
    assert (len(charged), account.total_spent) == (12, Fraction(12, 30))
