"""Ledgers that are put back, any number of times: nothing that left is forgotten, and no cap is passed.

Failure conditions: a ledger that was put back, and whose steward has gone on, says less than what left it; a cap is
passed though the mark of the process was never put back; the auditor demands another amount than the curator enters; a
learner makes an amount that stops a command; a failing store or disk, or a crash within a write, makes a later restore
forget what was spent; the order in which receipts are shown decides what is restored.
"""

import copy
import hmac
import os
import resource
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_enrolled import enrolled, rules
from test_ledger import CURATOR, spend
from test_ledger_chain import grown, halted_for, receipt_of

from at_length import also_at_length
from command_line import run
from curator_fakes import (
    MARKS,
    NOW,
    Clock,
    Learner,
    ZeroNoise,
    dataset,
    key,
    open_curator,
    opened,
    plan_of,
    policy,
    primes_from,
)
from curator_node.key_files import write_key
from curator_node.ledger import Caps, HaltedError, Ledger, Reservation, StudyKey, create_ledger
from curator_node.ledger.branches import pack, position_at, stubs_of
from curator_node.ledger.chain import Chain, marked_at_end
from curator_node.ledger.checks import load
from curator_node.ledger.ledger import hand_over
from curator_node.ledger.marks import FIRST_SLOT, SLOT, FileMark, Marked, MemoryMark, OpenBranch, read_mark
from curator_node.ledger.places import create_ledger_file, open_ledger_file
from curator_node.ledger.store import DatabaseStore, LedgerUnavailableError, MemoryStore, backup, sqlite_url
from curator_node.site import assemble_site
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.recompute.bounds import Bounds
from expril.audit.recompute.replay import Replayed
from protocol.codec import decode, encode
from protocol.envelopes import LABEL, digest
from protocol.errors import ConfigurationError
from protocol.hypotheses import Constant
from protocol.kinds import QUERY_KINDS
from protocol.kinds.holdout import HoldoutBody, HoldoutRelease, PlannedHoldout
from protocol.ledger.entries import (
    STATE_SEAL_BYTES,
    STUB,
    EntryKind,
    LedgerCorruptError,
    LostEntry,
    Position,
    Suspect,
    decode_entry,
    encode_entry,
    ledger_terms,
)
from protocol.limits import Limits
from protocol.messages import Refusal
from protocol.plans import Plan
from protocol.rationals import Rational, amount
from protocol.refusals import RefusalCode
from restores import INSTANCE, LEARNERS, PLANS, TERMS, World


def put_back(path, copied):
    """A copy takes the place of a ledger's file."""
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    path.write_bytes(copied.read_bytes())


def look(world):
    """Every process serves a request; where copies hold the marks, learners show all receipts; the steward goes on."""
    for which in range(len(world.running)):
        world.ledger(which)
    for receipt in world.receipts if world.marks_too else ():
        world.show(receipt)
        world.resume()
    world.resume()


def walk(seed, steps, **options):
    world = World(seed=seed, **options)
    for _ in range(steps):
        world.step()
        if world.choose.random() < 0.05:
            look(world)
            assert world.shortfall() <= 0, (seed, world.steps)
    look(world)
    assert world.shortfall() <= 0, (seed, world.steps)
    return world


def audited(store):
    """What the auditor's own replay finds."""
    replayed = Replayed(Bounds(AUDITED_KINDS))
    assert all(replayed.feed(row.body) for row in store.rows(0))
    return replayed


@pytest.mark.family(4)
@pytest.mark.parametrize("seed", range(400))
def test_no_number_of_restores_brings_back_a_budget(seed):
    """One process, whose mark is where it belongs; 400 walks of 250 steps are 10^5."""
    world = walk(seed, 250, cap=2, learner_cap=1)
    assert world.lost() <= 2
    assert all(world.lost(learner) <= 1 for learner in LEARNERS)


@pytest.mark.family(2)
@pytest.mark.parametrize("options", [{"processes": 2}, {"processes": 3}, {"marks_too": True}], ids=str)
@pytest.mark.parametrize("seed", range(20))
def test_what_several_processes_or_all_receipts_know_is_restored(seed, options):
    """Where marks were put back, too, or other processes' marks know more, nothing is missing once they were asked."""
    walk(seed, 120, cap=1000, **options)


@pytest.mark.family(3)
@pytest.mark.parametrize("options", [{}, {"processes": 2}, {"marks_too": True}], ids=str)
@pytest.mark.parametrize("seed", range(10))
def test_the_auditor_demands_what_the_curator_enters(seed, options):
    """Two programs that share no code agree to the last digit, by ledger and by learner."""
    world = walk(seed, 120, cap=1000, **options)
    account, found = load(world.store), audited(world.store)
    assert not found.findings
    assert found.total == account.total_spent
    assert {key: found.purses.by_learner(key, len(found)) for key in LEARNERS} == {
        key: account.spent.get(key, Fraction(0)) for key in LEARNERS
    }


@pytest.mark.slow
def test_a_mark_that_moves_on_while_the_ledger_is_halted_is_found_out(monkeypatch):
    """The mutant: after a second restore nothing proves what the first one lost."""

    def settle(self):
        self._mark.write(marked_at_end(self.account), self.account.hashes)

    monkeypatch.setattr(Chain, "settle", settle)
    with pytest.raises(AssertionError):
        list(map(test_no_number_of_restores_brings_back_a_budget, range(40)))


def test_the_walks_do_what_they_are_about():
    """Power: they restore, resume, show receipts, and spend."""
    worlds = [walk(seed, 120, cap=2, learner_cap=1) for seed in range(9)]
    assert all(sum(world.steps[what] for world in worlds) > 5 for what in worlds[0].steps)
    assert max(world.lost() for world in worlds) > Fraction(1, 2)


class Ward:
    """A ledger in files, its key, and what a steward and a process do with them."""

    def __init__(self, folder, cap=1):
        self.folder, self.path, self.pem = folder, folder / "ward.ledger", folder / "curator.pem"
        create_ledger_file(self.path, key("basel"), now=NOW)
        write_key(self.pem, key("basel"))
        self.rules = policy(("ann",), cap=cap)

    def start(self):
        ledger = open_ledger_file(self.path, key("basel"))
        return assemble_site(dataset(), self.rules, key=key("basel"), ledger=ledger, clock=Clock())

    def halted(self):
        with closing(self.start()) as site:
            return site.ledger.account.halted

    def resume(self):
        return run("ledger", "resume", self.path, "--key", self.pem, "--note", "Monday's copy").output


@pytest.mark.parametrize("order", ["restored twice", "restored three times", "resumed, and restored before it served"])
def test_double_restore(order, tmp_path):
    """9/10 of a cap of 1 are spent, and Monday's copy is put back more than once: it is never 9/5."""
    ward, monday = Ward(tmp_path), tmp_path / "monday.ledger"
    with closing(ward.start()) as site:
        run("ledger", "backup", ward.path, monday)
        ann = opened(site.curator, plan=plan_of(2, "5/2"))
        ann.query()
        ann.query()
        assert site.ledger.account.total_spent == Fraction(9, 10)
    for _ in range({"restored twice": 2, "restored three times": 3}.get(order, 1)):
        put_back(ward.path, monday)
        assert ward.halted()
    assert "entered as spent over all learners: 0.9" in ward.resume()
    if order.startswith("resumed"):
        put_back(ward.path, monday)
        assert ward.halted()
        assert "entered as spent over all learners: 0.9" in ward.resume()
    with closing(ward.start()) as site:
        assert site.ledger.account.total_spent == site.ledger.account.spent[key("ann").public] == Fraction(9, 10)
        refused = Learner(site.curator, study=b"two").propose(plan_of(2, "5/2"))
        assert refused.code == RefusalCode.OVER_BUDGET
        shown = Learner(site.curator, study=b"three", receipt=ann.session.newest_receipt).propose(plan_of(20))
        assert not isinstance(shown, Refusal), "its receipt is of a branch that is known"
    run("ledger", "verify", ward.path)
    receipt = tmp_path / "ann.receipt"
    receipt.write_bytes(ann.session.newest_receipt)
    assert "of entries that this ledger lost" in run("audit", "run", ward.path, "--receipt", receipt).output


def test_another_copy_that_is_put_back_before_the_steward_goes_on(tmp_path):
    """Monday's, then Tuesday's, then Monday's: each time what the mark knows is found."""
    ward = Ward(tmp_path)
    copies = [tmp_path / "monday.ledger", tmp_path / "tuesday.ledger"]
    with closing(ward.start()) as site:
        for number, copied in enumerate([*copies, None]):
            ann = opened(site.curator, study=b"%d" % number, plan=plan_of(4))
            ann.query()
            if copied:
                run("ledger", "backup", ward.path, copied)
    for which in (0, 1, 0):
        put_back(ward.path, copies[which])
        assert ward.halted()
    ward.resume()
    with closing(ward.start()) as site:
        assert site.ledger.account.total_spent == Fraction(3, 4)


def test_a_receipt_that_halted_it_is_found_again_after_the_next_restore():
    """The mark was put back with the ledger. A receipt shows what is lost; then the copy is put back once more."""
    store = MemoryStore()
    curator = open_curator(store, rules=policy(cap=5))
    kept, mark = copy.copy(store._rows), MARKS[store].read()
    ann = opened(curator, plan=plan_of(2))
    ann.query()

    def put_back(*, mark_too):
        store._rows, store._replies = list(kept), {}
        if mark_too:
            MARKS[store] = MemoryMark()
            MARKS[store].write(mark)
        return open_curator(store, rules=policy(cap=5))

    curator = put_back(mark_too=True)
    shown = Learner(curator, study=b"two", receipt=ann.session.newest_receipt)
    assert shown.propose(plan_of(30)).code == RefusalCode.LEDGER_ROLLED_BACK
    curator = put_back(mark_too=False)
    curator._ledger.resume(NOW)
    assert curator._ledger.account.total_spent == curator._ledger.account.spent[key("ann").public] == Fraction(1, 2)


HOLDOUT = PlannedHoldout(
    turns=9,
    answers=1,
    resolution=10,
    threshold=8,
    threshold_scale=Rational(40, 1),
    comparison_scale=Rational(80, 1),
    count_scale=Rational(4, 1),
)
HALF = tuple((f"p{number}", 30.0, 0.0, "f", "yes" if number % 2 else "no") for number in range(40))


def asked(learner, estimate):
    """Whether an answer to "this share of all are sick" was close."""
    reply = learner.query(encode(HoldoutBody(Constant(predicted=1), estimate)), kind="holdout")
    return decode(reply.body, HoldoutRelease).close


@pytest.mark.parametrize("branches", [2, 6])
def test_holdout_rollback(branches):
    """Ledger and mark are put back to an instance's first "close", and each time it ends anew: each is paid for."""
    rules, records = policy(cap=50, limits=Limits(kinds={"holdout": {}}), simulation=True), dataset(HALF)

    def curator_of(store):
        return open_curator(store, rules=rules, records=records, noise=ZeroNoise())

    store = MemoryStore()
    first = opened(curator_of(store), plan=Plan.of([HOLDOUT]), allow_not_private=True)
    assert asked(first, 5)
    kept = list(store._rows), dict(store._replies), MARKS[store].read()
    ends = []
    for _ in range(branches):
        store = MemoryStore()
        store._rows, store._replies = list(kept[0]), dict(kept[1])
        MARKS[store] = MemoryMark()
        MARKS[store].write(kept[2])
        curator = curator_of(store)
        learner = Learner(curator, allow_not_private=True)
        learner.session = copy.deepcopy(first.session)
        assert asked(learner, 5)
        assert not asked(learner, 0)
        ends.append(learner.session.newest_receipt)
    cost = HOLDOUT.instance_cost(1)
    ledger = curator._ledger
    assert ledger.account.total_spent == cost
    for number, receipt in enumerate(ends[:-1]):
        late = Learner(curator, study=b"late %d" % number, receipt=receipt, allow_not_private=True)
        assert late.propose(Plan.of([HOLDOUT])).code in (RefusalCode.LEDGER_ROLLED_BACK, RefusalCode.HALTED)
        ledger.resume(NOW)
    assert ledger.account.total_spent == ledger.account.spent[key("ann").public] == branches * cost
    found = audited(store)
    assert (found.total, bool(found.findings)) == (branches * cost, False)


def hostile(ledger, denominators, caps=Caps(Fraction(10**6), Fraction(10**6))):  # noqa: B008 - frozen
    for number, prime in enumerate(denominators):
        spend(ledger, number + 1, costs=(Fraction(prime // 1000 + 1, prime),), caps=caps)


@pytest.mark.slow
def test_coprime_scales_stop_no_restore_and_no_command(tmp_path):
    """230 studies of coprime scales, epsilon 0.23 in all; then a copy of before the last is put back."""
    path, pem, copied = tmp_path / "ward.ledger", tmp_path / "curator.pem", tmp_path / "monday.ledger"
    create_ledger_file(path, CURATOR, now=NOW)
    write_key(pem, CURATOR)
    terms = ledger_terms(None, LABEL)
    primes = primes_from(2**31, 230)
    with closing(open_ledger_file(path, CURATOR)) as ledger:
        ledger.begin(terms, NOW)
        run("ledger", "backup", path, copied)
        hostile(ledger, primes)
        ledger.settle()
        exact = sum((Fraction(prime // 1000 + 1, prime) for prime in primes), Fraction(0))
        assert ledger.account.total_spent == exact
    put_back(path, copied)
    with closing(open_ledger_file(path, CURATOR)) as ledger:
        ledger.begin(terms, NOW)
        assert ledger.account.halted
    run("ledger", "resume", path, "--key", pem, "--note", "Monday's copy")
    for command in ("show", "verify"):
        run("ledger", command, path)
    run("ledger", "export", path, "--out", tmp_path / "ward.export")
    run("ledger", "show", tmp_path / "ward.export", "--json")
    with closing(open_ledger_file(path, CURATOR)) as ledger:
        ledger.begin(terms, NOW)
        assert not ledger.account.halted
        assert 0 <= ledger.account.total_spent - exact < Fraction(1, 2**60)
    with closing(DatabaseStore(sqlite_url(path), read_only=True)) as store:
        found = audited(store)
    assert not found.findings


@also_at_length(60)
@settings(max_examples=3)
@given(start=st.integers(2**30, 2**32 - 2**17), count=st.integers(20, 60), lost=st.integers(1, 20))
def test_no_denominator_makes_an_amount_that_cannot_be_entered(start, count, lost):
    """Whatever the scales: the sums are written down, restored, and agree with the auditor's."""
    store, mark = MemoryStore(), MemoryMark()
    create_ledger(store, CURATOR, mark, now=0)
    ledger = Ledger(store, key=CURATOR, mark=mark)
    ledger.begin("each record", 0)
    primes = primes_from(start, count)
    hostile(ledger, primes[:-lost])
    kept = list(store._rows)
    for number, prime in enumerate(primes[-lost:]):
        spend(ledger, 1000 + number, costs=(Fraction(1, prime),), caps=Caps(Fraction(10**6), Fraction(10**6)))
    ledger.settle()
    store._rows = kept
    again = Ledger(store, key=CURATOR, mark=mark)
    again.begin("each record", 0)
    again.resume(1)
    assert again.account.total_spent >= ledger.account.total_spent
    assert audited(store).total == load(store).total_spent


# --- Attacks on what a ledger remembers of lost branches: failing stores and disks, and receipts in any order.

INSTANCE_COST = INSTANCE.instance_cost(1)


class FailingStore:
    """A store of which one append fails.

    Args:
        store: the store.
        nth: which append it is, from 1.
    """

    def __init__(self, store, nth):
        self._append, self._left = store.append, nth
        store.append = self.append

    def append(self, *rows, **more):
        self._left -= 1
        if not self._left:
            raise LedgerUnavailableError("the ledger's database failed")
        self._append(*rows, **more)


@pytest.mark.parametrize("nth", [1, 2], ids=["at its START", "at its HALT"])
def test_a_store_that_fails_as_a_restore_is_found_makes_nothing_forgotten(nth):
    """The process stays up. With the next request it knows what it knew before."""
    world = World(cap=1000)
    world.ledger(0)
    world.copy()
    spend(world.ledger(0), 1, costs=(Fraction(9, 10),))
    world.ledger(0).settle()
    world.restore()
    FailingStore(world.store, nth)
    with pytest.raises(LedgerUnavailableError):
        world.ledger(0)
    world.ledger(0).settle()
    assert world.ledger(0).account.halted
    world.resume()
    assert world.ledger(0).account.total_spent == Fraction(9, 10)


def begin(world, plan=PLANS[0], learner=0):
    """A study of its own."""
    ledger, name, request = world.ledger(0), StudyKey(LEARNERS[learner], world.digest()[:16]), world.digest()
    costs = QUERY_KINDS.costs(plan, 1)
    ledger.reserve(Reservation(name, plan, costs, request, 10**9), world.caps, world.now)
    ledger.answer(request, lambda _: b"accepted", world.now)
    ledger.settle()
    return name


def charge(world, name, cost=None):
    """Its next turn, without an answer."""
    ledger, request = world.ledger(0), world.digest()
    study = ledger.account.studies[name]
    cost = study.costs[study.places[study.sequence][0]] if cost is None else cost
    ledger.charge(name, study.sequence + 1, cost, request, world.now, world.caps)
    return request


def answer(world, request, *, keeps=None):
    """The answer leaves; `keeps` says whether an instance goes on."""
    ledger = world.ledger(0)
    kept = None if keeps is None else ("holdout", bytes(100 if keeps else STATE_SEAL_BYTES))
    ledger.answer(request, lambda _: world.digest(), world.now, state=kept)
    ledger.settle()
    owed = ledger.account.answers[request].owed
    world.deliver(ledger, request, ledger.account.studies[owed.key].places[owed.sequence - 1][0])
    return world.receipts[-1]


def restore(world, copy):
    world.copies, world.marks_too = [copy], len(copy[2]) > 0
    world.restore()


def copy_of(world, *, marks=True):
    world.copy()
    rows, replies, kept = world.copies[-1]
    return rows, replies, kept if marks else []


def show(world, *receipts):
    """Each is shown, and the steward goes on from it."""
    for receipt in receipts:
        world.show(receipt)
        world.resume()
    assert not audited(world.store).findings
    return world.ledger(0).account.total_spent


@pytest.mark.parametrize("between", [0, 1, 40])
def test_a_question_that_was_open_at_the_fork_is_entered_once_though_its_receipt_is_shown(between):
    """The mark is where it belongs: what is entered is what was lost and what ran, for all receipts together."""
    world = World(cap=1000)
    pending = charge(world, begin(world))
    for _ in range(between):
        begin(world)
    monday = copy_of(world, marks=False)
    answer(world, pending)
    for _ in range(3):
        answer(world, charge(world, begin(world, learner=1)))
    restore(world, monday)
    world.ledger(0)
    world.resume()
    assert show(world, *world.receipts) == Fraction(1 + 1 + 3, 30)
    assert world.ledger(0).account.spent == dict(zip(LEARNERS, (Fraction(2, 30), Fraction(3, 30)), strict=True))


@pytest.mark.parametrize("newest_first", [True, False])
def test_one_request_with_two_answers_is_two_branches_in_whatever_order_they_are_shown(newest_first):
    """Ledger and mark are put back to an open question, and it is answered anew; then both are put back once more."""
    world = World(cap=1000)
    monday = copy_of(world)
    pending = charge(world, begin(world))
    tuesday = copy_of(world)
    answer(world, pending)
    restore(world, tuesday)
    answer(world, pending)
    answer(world, charge(world, begin(world)))
    restore(world, monday)
    show(world, *world.receipts[:: -1 if newest_first else 1])
    assert world.lost() == Fraction(3, 30)
    assert world.shortfall() <= 0


@pytest.mark.parametrize("together", [True, False])
def test_two_questions_that_were_open_at_the_fork_are_both_entered(together):
    """The chain answers both, too, before anything is shown."""
    world = World(cap=1000)
    pending = [charge(world, begin(world, learner=learner)) for learner in (0, 1)]
    monday = copy_of(world)
    shown = [answer(world, request) for request in pending]
    restore(world, monday)
    for request in pending:
        answer(world, request)
    for receipt in shown if together else ():
        world.show(receipt)
    assert show(world, *shown) == world.lost() == Fraction(4, 30)


def test_the_order_in_which_receipts_halted_it_is_no_proof():
    """A branch of which three receipts are known; then one of another branch that goes on from the oldest of them.

    An instance runs where the two part, and each ends it.
    """
    world = World(cap=1000)
    monday = copy_of(world)
    charged = charge(world, begin(world, PLANS[2]), INSTANCE_COST)
    oldest = answer(world, charged, keeps=True)
    study = next(name for name, each in world.ledger(0).account.studies.items() if not each.ended)
    tuesday = copy_of(world)
    for _ in range(9):
        begin(world, learner=1)
    middle = answer(world, charge(world, begin(world, learner=1)))
    for _ in range(6):
        begin(world, learner=1)
    newest = answer(world, charge(world, study, Fraction(0)), keeps=False)
    restore(world, tuesday)
    other = answer(world, charge(world, study, Fraction(0)), keeps=False)
    restore(world, monday)
    for receipt in (newest, oldest, middle):
        world.show(receipt)
    world.resume()
    assert show(world, other) >= world.lost() == 2 * INSTANCE_COST + Fraction(1, 30)


def test_a_receipt_of_a_key_that_was_bound_on_the_lost_branch_is_no_news():
    """It says what its learner spent with all keys; the chain knows this one no more, and would enter all again."""
    store, both = MemoryStore(), rules(enrolled("ann", "ann0", "ann1"))
    curator = open_curator(store, rules=both)
    first = opened(curator, "ann0", plan=plan_of(20))
    first.query()
    kept = list(store._rows), dict(store._replies)
    second = opened(curator, "ann1", plan=plan_of(10))
    second.query()
    store._rows, store._replies = kept
    curator = open_curator(store, rules=both)
    curator._ledger.resume(NOW)
    receipt = second.session.newest_receipt
    reply = Learner(curator, "ann1", study=b"two", receipt=receipt).propose(plan_of(30))
    assert not isinstance(reply, Refusal), reply
    assert curator._ledger.account.spent_by(key("ann1").public) == Fraction(3, 20)


SECRET = bytes(32)
HASHES = [digest(b"%d" % number) for number in range(60)]


def marked(index, learners=0, lost=0):
    """A mark at an entry; each of its learners takes 700 bytes."""
    long = Fraction(10**300 + 7, 10**300 + 1)
    spent = tuple((digest(b"learner %d" % number), amount(long)) for number in range(learners))
    positions = [position_at(at, HASHES, [Fraction(0)] * 60) for at in range(60)]
    return Marked(positions[index], spent, tuple(OpenBranch(Suspect(positions[at]), spent) for at in range(lost)))


def reopened(path):
    with closing(FileMark(path, SECRET)) as mark:
        return mark.read(), mark.log()


def test_a_full_disk_is_an_error_and_not_half_a_mark(tmp_path):
    """The disk takes a part of what is written: nothing leaves that the mark does not know."""
    path, limits = tmp_path / "mark", resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(FileMark(path, SECRET)) as mark:
        for index in (1, 2):
            mark.write(marked(index, 20), HASHES, first=index if index > 1 else 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FIRST_SLOT + SLOT + 4096, limits[1]))
        try:
            with pytest.raises(OSError, match="too large"):
                mark.write(marked(3, 20))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert read_mark(path, SECRET).position == marked(2, 20).position
        mark.write(marked(4, 20), HASHES, first=3)
    assert reopened(path)[0].position.index == 4
    assert len(reopened(path)[1]) == 5 * STUB


def test_a_crash_in_the_first_write_of_a_newer_program_leaves_the_old_mark(tmp_path):
    """What is written first, far behind the old slots, makes them no less true."""
    path, position = tmp_path / "mark", marked(7).position
    content = (5).to_bytes(8, "big") + pack(position)
    slot = content + hmac.digest(SECRET, b"expril/2 mark" + content, "sha256")
    path.write_bytes(bytes(4096) + slot.ljust(4096, b"\0") + bytes(3 * SLOT))
    assert reopened(path)[0] == Marked(position)


def test_a_mark_that_names_too_much_leaves_out_what_learners_spent_and_no_branch(tmp_path):
    path = tmp_path / "mark"
    with closing(FileMark(path, SECRET)) as mark:
        mark.write(marked(3))
        mark.write(marked(5, learners=1000, lost=2))
    kept, _ = reopened(path)
    assert (kept.position.index, [each.suspect for each in kept.open]) == (
        5,
        [each.suspect for each in marked(5, 0, 2).open],
    )


def test_a_log_that_was_damaged_is_made_anew(tmp_path):
    path = tmp_path / "mark"
    with closing(FileMark(path, SECRET)) as mark:
        mark.write(marked(20), HASHES)
    with path.open("r+b") as file:
        file.seek(-4 * STUB, os.SEEK_END)
        file.write(bytes(STUB))
    with closing(FileMark(path, SECRET)) as mark:
        assert mark.log() == b""
        mark.write(marked(30), HASHES, first=21)
    assert reopened(path)[1] == stubs_of(HASHES[:31])


def test_a_position_with_endless_ancestors_is_read_by_nobody():
    """The auditor would need 2^(2^17)-sized numbers: of an entry of 2 MB it died for want of memory."""
    store = World().store
    account = load(store)
    position = Position(9, bytes(32), "1", (bytes(STUB),) * 49, ())
    body = encode_entry(
        LostEntry(
            index=account.next_index,
            previous=account.head,
            nonce=bytes(16),
            kind=EntryKind.HALT,
            at=NOW,
            suspect=Suspect(position),
            lost_stubs=b"",
            spent=(),
            receipt=bytes(32),
        )
    )
    with pytest.raises(LedgerCorruptError):
        decode_entry(body)
    replayed = audited(store)
    assert not replayed.feed(body)
    assert "cannot be read" in replayed.broken


def test_a_file_that_is_put_back_between_reading_and_writing_gets_no_gap(tmp_path):
    """Entries go while a charge is on its way: it is not written after a hole, and the ledger halts."""
    path = tmp_path / "ward.ledger"
    create_ledger_file(path, key("basel"), now=NOW)
    with closing(open_ledger_file(path, key("basel"))) as ledger:
        ledger.begin(TERMS, NOW)
        spend(ledger, 1)
        append = ledger.store.append

        def late(row, **more):
            ledger.store.append = append
            with closing(sqlite3.connect(path)) as file, file:
                file.execute("DELETE FROM entries WHERE entry_index > 2")
            append(row, **more)

        ledger.store.append = late
        with pytest.raises(HaltedError):
            spend(ledger, 2)
        rows = ledger.store.rows(0)
        assert [row.index for row in rows] == list(range(len(rows)))
        assert load(ledger.store).halted


def test_a_copy_of_before_a_change_of_the_key_forgets_nothing_however_often(tmp_path):
    """1/2 before the copy, 1/4 after it, 1/8 under the next key; the change is finished anew after each restore."""
    path, copied, old, new = tmp_path / "ward.ledger", tmp_path / "monday", key("old"), key("new")

    def change_key():
        with closing(DatabaseStore(sqlite_url(path))) as store:
            hand_over(store, old, new, NOW)

    create_ledger_file(path, old, now=NOW)
    with closing(open_ledger_file(path, old)) as ledger:
        ledger.begin(TERMS, NOW)
        spend(ledger, 1, costs=(Fraction(1, 2),))
        backup(path, copied)
        spend(ledger, 2, costs=(Fraction(1, 4),))
        ledger.settle()
    change_key()
    with closing(open_ledger_file(path, new, first=old)) as ledger:
        ledger.begin(TERMS, NOW)
        spend(ledger, 3, costs=(Fraction(1, 8),))
        ledger.settle()
    for resumes in (True, False, True):
        put_back(path, copied)
        with pytest.raises(ConfigurationError, match="another curator's key"):
            open_ledger_file(path, new, first=old)
        change_key()
        with closing(open_ledger_file(path, new, first=old)) as ledger:
            ledger.begin(TERMS, NOW)
            assert ledger.account.halted
            if resumes:
                ledger.resume(NOW, note="Monday's copy")
                assert ledger.account.total_spent == Fraction(7, 8)
    with closing(DatabaseStore(sqlite_url(path), read_only=True)) as store:
        found = audited(store)
    assert (found.total, bool(found.findings)) == (Fraction(7, 8), False)


def test_a_receipt_that_names_no_hash_of_an_older_one_goes_on_from_it_if_the_ledger_shows_both_to_share_more():
    store, positions, _ = grown(first=9, lost=3)
    account, newest = load(store), receipt_of(positions[-1])
    older = next(position for position in map(account.position, range(20, 30)) if not newest.holds(position))
    ledger = halted_for(store, receipt_of(older), newest)
    ledger.resume(1)
    assert len(ledger.account.branches) == len(audited(store).branches) == 1
