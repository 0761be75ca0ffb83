"""Ledgers that are put back, any number of times: nothing that left is forgotten, and no cap is passed.

Failure conditions: a ledger that was put back, and whose steward has gone on, says less than what left it; a cap is
passed though the mark of the process was never put back; the auditor demands another amount than the curator enters; a
learner makes an amount that stops a command.
"""

import copy
from contextlib import closing
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ledger import CURATOR, spend

from at_length import at_length
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
from curator_node.ledger import Caps, Ledger, create_ledger
from curator_node.ledger.chain import Chain, marked_at_end
from curator_node.ledger.checks import load
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.places import create_ledger_file, open_ledger_file
from curator_node.ledger.store import DatabaseStore, MemoryStore, sqlite_url
from curator_node.site import assemble_site
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.recompute.bounds import Bounds
from expril.audit.recompute.replay import Replayed
from protocol.codec import decode, encode
from protocol.envelopes import LABEL
from protocol.hypotheses import Constant
from protocol.kinds.holdout import HoldoutBody, HoldoutRelease, PlannedHoldout
from protocol.ledger.entries import ledger_terms
from protocol.limits import Limits
from protocol.messages import Refusal
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.refusals import RefusalCode
from restores import LEARNERS, World

# any number of restores


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
    assert all(replayed.feed(row.body, row.signature) for row in store.rows(0))
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


# attacks


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

    def put_back(self, copied):
        for end in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + end).unlink(missing_ok=True)
        self.path.write_bytes(copied.read_bytes())

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
        ward.put_back(monday)
        assert ward.halted()
    assert "entered as spent over all learners: 0.9" in ward.resume()
    if order.startswith("resumed"):
        ward.put_back(monday)
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
        ward.put_back(copies[which])
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


# amounts that a learner makes long


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
    for name in ("", "-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)
    path.write_bytes(copied.read_bytes())
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


test_no_denominator_at_length = at_length(test_no_denominator_makes_an_amount_that_cannot_be_entered, 60)
