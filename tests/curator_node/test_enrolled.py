"""A budget belongs to the enrolled learner: whatever becomes of its keys and files, its cap is spent once."""

from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from at_length import walks_at_length
from curator_fakes import (
    NOW,
    Clock,
    Learner,
    ZeroNoise,
    dataset,
    key,
    ledger_over,
    message_of,
    open_curator,
    opened,
    plan_of,
    policy,
)
from curator_node.ledger import BoundElsewhereError, Caps, Reservation, StudyKey
from curator_node.ledger.checks import check, load
from curator_node.ledger.store import MemoryStore
from curator_node.policy import EnrolledKey, EnrolledLearner, LearnerPolicy, Policy
from protocol.envelopes import open_envelope, open_receipt
from protocol.errors import ConfigurationError, LocalProtocolError
from protocol.ledger.entries import EntryKind, LedgerCorruptError, decode_entry
from protocol.messages import NOBODY, Card, Refusal, Release, StudyAccepted
from protocol.refusals import RefusalCode
from simulations.seeded_noise import SeededNoise

KEYS = {"ann": ("ann0", "ann1", "ann2"), "bob": ("bob0", "bob1")}
NAMES = st.sampled_from([name for names in KEYS.values() for name in names])
OWNERS = {key(name).public: owner for owner, names in KEYS.items() for name in names}
LEARNER_CAPS = {"ann": Fraction(1, 3), "bob": Fraction(1, 2)}
TOTAL = Fraction(2, 3)
TENTH, THIRTIETH = Fraction(1, 10), Fraction(1, 30)


def at(seconds):
    return datetime.fromtimestamp(seconds, UTC)


def enrolled(name, *keys, cap="1/3", **states):
    """A learner with these keys; `states` says of a key what its entry says beside."""
    entries = tuple(EnrolledKey(key(key_name).public.hex(), **states.get(key_name, {})) for key_name in keys)
    return EnrolledLearner(name=name, cap=cap, keys=entries)


def rules(*learners, **options):
    return Policy(name="basel", cap="2/3", enrolled=learners, **({"studies": 1000} | options))


def charged(store):
    """What was charged to each name, by the entries alone."""
    sums = dict.fromkeys(KEYS, Fraction(0))
    for row in store.rows(0):
        entry = decode_entry(row.body)
        if entry.kind is EntryKind.CHARGE:
            sums[OWNERS[entry.learner]] += Fraction(entry.amount)
    return sums


class Histories(RuleBasedStateMachine):
    """A steward who enrols, revokes, forgets and restores, and learners who ask with whatever keys they have."""

    def __init__(self):
        super().__init__()
        self.store, self.clock = MemoryStore(), Clock()
        self.files = {name: {key_name: {} for key_name in keys} for name, keys in KEYS.items()}
        self.inline = dict.fromkeys(KEYS)
        self.learners, self.number = [], 0
        self.serve()

    def policy_now(self):
        entries = tuple(
            EnrolledLearner(
                name=name,
                cap=str(LEARNER_CAPS[name]),
                keys=tuple(EnrolledKey(key(key_name).public.hex(), **state) for key_name, state in keys.items()),
            )
            for name, keys in self.files.items()
            if keys and self.inline[name] is None
        )
        single = tuple(
            LearnerPolicy(name=name, key=key(key_name).public.hex(), cap=str(LEARNER_CAPS[name]))
            for name, key_name in self.inline.items()
            if key_name is not None
        )
        empty = policy((), cap=str(TOTAL), open_studies=3, studies=30)
        return msgspec.structs.replace(empty, enrolled=entries, learners=single)

    @rule()
    def serve(self):
        self.curator = open_curator(self.store, rules=self.policy_now(), clock=self.clock, noise=ZeroNoise())
        for learner in self.learners:
            learner.curator = self.curator

    @rule(name=NAMES, state=st.sampled_from(["new", "revoked", "ends", "gone"]))
    def change_key(self, name, state):
        keys = self.files[name.rstrip("012")]
        if state == "gone":
            keys.pop(name, None)
        else:
            ends = {"until": at(self.clock.now + 500)}
            keys[name] = {"new": {}, "revoked": {"revoked": at(self.clock.now)}, "ends": ends}[state]
        self.curator.adopt(self.policy_now())

    @rule(owner=st.sampled_from(list(KEYS)), place=st.sampled_from([None, 0, 1]))
    def write_into_the_policy(self, owner, place):
        self.inline[owner] = None if place is None else KEYS[owner][place]
        self.curator.adopt(self.policy_now())

    @rule(seconds=st.sampled_from([1, 400, 90_000]))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @rule(name=NAMES, scale=st.sampled_from([5, 10]), asked=st.integers(0, 2), close=st.booleans())
    def study(self, name, scale, asked, close):
        self.number += 1
        study = self.number.to_bytes(16, "big")
        learner = Learner(self.curator, name, clock=self.clock, study=study)
        admitted = self.policy_now().admits(key(name).public, self.clock.now)
        reply = learner.propose(plan_of(scale, scale))
        if isinstance(reply, StudyAccepted):
            self.learners.append(learner)
            for _ in range(asked):
                learner.query()
            if close:
                learner.close()
        assert admitted == (getattr(reply, "code", "") != RefusalCode.UNKNOWN_SENDER)
        if not admitted:
            assert (reply.recipient, reply.remaining) == (NOBODY, "")

    @precondition(lambda self: self.learners)
    @rule(data=st.data())
    def ask(self, data):
        learner = data.draw(st.sampled_from(self.learners))
        with suppress(LocalProtocolError):  # all was asked
            learner.ask() if learner.session.state == "asked" else learner.query()

    @precondition(lambda self: self.learners)
    @rule(data=st.data())
    def close(self, data):
        learner = self.learners.pop(data.draw(st.integers(0, len(self.learners) - 1)))
        with suppress(LocalProtocolError):  # closed, or not answered
            learner.close()

    @invariant()
    def no_name_is_charged_more_than_its_cap(self):
        sums = charged(self.store)
        assert all(spent <= LEARNER_CAPS[name] for name, spent in sums.items())
        assert sum(sums.values()) <= TOTAL
        account = load(self.store)
        assert account == self.curator._ledger.account
        for public, owner in OWNERS.items():
            if public in account.bound:
                assert account.name_of(public) == owner
                assert account.spent_by(public) == sums[owner]
                assert account.spent_by(public) + account.reserved_by(public) <= LEARNER_CAPS[owner]
                assert account.open_of(public) <= 3
            else:
                assert public not in account.spent


Histories.TestCase.settings = settings(max_examples=8, stateful_step_count=20, deadline=None)
TestHistoriesAtLength = walks_at_length(Histories, max_examples=25, stateful_step_count=25)
TestHistories = Histories.TestCase


def test_a_second_key_finds_what_the_first_has_left():
    store = MemoryStore()
    curator = open_curator(store, rules=rules(enrolled("ann", "ann0", "ann1")))
    first = opened(curator, "ann0", plan=plan_of(10, 10))
    first.query()
    refusal = Learner(curator, "ann1").propose(plan_of(5))
    assert (refusal.code, refusal.remaining) == (RefusalCode.OVER_BUDGET, str(Fraction(1, 3) - 2 * TENTH))
    first.close()
    second = opened(curator, "ann1", plan=plan_of(5), study=b"2")
    receipt = open_receipt(second.query().receipt, curator.identity)
    assert (receipt.spent_by_study, receipt.spent_by_learner) == ("1/5", str(TENTH + Fraction(1, 5)))
    account = load(store)
    assert account.spent_at(key("ann1").public, 2) == 0
    assert not check(store).findings


def test_a_revoked_learner_that_is_enrolled_again_goes_on_with_what_it_had():
    store, clock = MemoryStore(), Clock()
    curator = open_curator(store, rules=rules(enrolled("ann", "ann0")), clock=clock)
    opened(curator, "ann0", plan=plan_of(5), clock=clock).query()
    curator.adopt(rules(enrolled("ann", "ann0", ann0={"revoked": at(NOW)})))
    assert Learner(curator, "ann0", clock=clock).card().code == RefusalCode.UNKNOWN_SENDER
    curator.adopt(rules())
    curator = open_curator(store, rules=rules(enrolled("ann", "ann2")), clock=clock)
    assert Learner(curator, "ann2", clock=clock).propose(plan_of(5)).remaining == str(Fraction(1, 3) - Fraction(1, 5))


@pytest.mark.parametrize("state", [{"revoked": at(NOW - 9)}, {"until": at(NOW)}, {"name_": at(NOW + 1)}], ids=str)
def test_a_key_that_is_not_valid_is_a_stranger_s(state):
    """Constant: nothing in the refusal tells a revoked key from one that nobody knows."""
    state = {"start": state["name_"]} if "name_" in state else state
    curator = open_curator(rules=rules(enrolled("ann", "ann0", "ann1", ann0=state)))
    invalid, unknown = (Learner(curator, name).card() for name in ("ann0", "nobody"))
    assert isinstance(Learner(curator, "ann1").card(), Card)
    same = {"answers": invalid.answers}
    assert msgspec.structs.replace(unknown, **same) == invalid
    assert (invalid.code, invalid.final) == (RefusalCode.UNKNOWN_SENDER, False)


def test_a_revoked_key_gets_not_even_what_it_was_answered(clock):
    curator = open_curator(rules=rules(enrolled("ann", "ann0")), clock=clock)
    learner = opened(curator, "ann0", clock=clock)
    learner.query()
    sent = learner.session.transcript.envelopes[-2]
    assert isinstance(message_of(curator.handle(sent)), Release)
    curator.adopt(rules(enrolled("ann", "ann0", ann0={"revoked": at(NOW)})))
    assert message_of(curator.handle(sent)).code == RefusalCode.UNKNOWN_SENDER


def test_studies_and_requests_are_counted_over_all_keys():
    ann = enrolled("ann", "ann0", "ann1")
    curator = open_curator(rules=rules(ann, open_studies=1))
    opened(curator, "ann0")
    assert Learner(curator, "ann1").propose().code == RefusalCode.TOO_MANY_STUDIES
    curator = open_curator(rules=rules(ann, studies=1))
    opened(curator, "ann0").close()
    assert Learner(curator, "ann1").propose().code == RefusalCode.TOO_MANY_STUDIES
    curator = open_curator(rules=rules(ann, requests_per_day=1))
    assert isinstance(Learner(curator, "ann0").card(), Card)
    assert Learner(curator, "ann1").card().code == RefusalCode.TOO_MANY_REQUESTS


def test_two_keys_of_a_learner_never_get_the_same_noise_from_a_seed():
    """Noise from a seed is drawn for (learner, study, sequence): studies are numbered over all keys."""
    noise = SeededNoise(7, "basel")
    curator = open_curator(rules=rules(enrolled("ann", "ann0", "ann1"), simulation=True), noise=noise)
    for name in ("ann0", "ann1"):
        opened(curator, name, plan=plan_of(30), study=name.encode(), allow_not_private=True).query()
    assert {study.ordinal for study in curator._ledger.account.studies.values()} == {0, 1}


def legacy(store, name, *, scale=5):
    """A study of a key that no entry binds, as ledgers had them before there were names."""
    ledger = ledger_over(store)
    ledger.begin('privacy unit: each record; signatures: "expril/2"', NOW)
    study = StudyKey(key(name).public, name.encode().ljust(16, b"-"))
    cost = Fraction(1, scale)
    ledger.reserve(Reservation(study, plan_of(scale), (cost,), bytes(32), NOW + 10**6), Caps(cost, cost), NOW)
    ledger.charge(study, 1, cost, b"\x01" * 32, NOW)


def test_a_ledger_without_names_still_opens_and_its_keys_get_them_with_what_they_spent():
    store = MemoryStore()
    legacy(store, "ann0")
    assert not load(store).bound
    open_curator(store, rules=rules(enrolled("ann", "ann0")))
    curator = open_curator(store, rules=rules(enrolled("ann", "ann1")))
    assert Learner(curator, "ann1").propose(plan_of(5)).remaining == str(Fraction(1, 3) - Fraction(1, 5))


def test_a_key_keeps_its_name():
    store = MemoryStore()
    curator = open_curator(store, rules=rules(enrolled("ann", "ann0")))
    opened(curator, "ann0")
    for names in ("Ann", "bob"):
        with pytest.raises(ConfigurationError, match="'ann'"):
            curator.adopt(rules(enrolled(names, "ann0")))
        with pytest.raises(ConfigurationError, match="'ann'"):
            open_curator(store, rules=rules(enrolled(names, "ann0")))
    assert isinstance(Learner(curator, "ann0").card(), Card)


def test_a_key_that_another_process_bound_elsewhere_is_a_stranger_s():
    store = MemoryStore()
    curator = open_curator(store, rules=rules(enrolled("ann", "ann0")))
    ledger_over(store).enrol(key("ann0").public, "bob", NOW)
    refusal = Learner(curator, "ann0").propose()
    assert (refusal.code, refusal.recipient) == (RefusalCode.UNKNOWN_SENDER, NOBODY)
    with pytest.raises(BoundElsewhereError):
        ledger_over(store).enrol(key("ann0").public, "ann", NOW)


def test_a_key_is_bound_only_where_its_first_study_fits():
    store = MemoryStore()
    curator = open_curator(store, rules=rules(enrolled("ann", "ann0")))
    before = store.rows(0)[:]
    assert Learner(curator, "ann0").propose(plan_of(1)).code == RefusalCode.OVER_BUDGET
    assert store.rows(0) == before
    opened(curator, "ann0")
    kinds = [decode_entry(row.body).kind for row in store.rows(len(before))]
    assert kinds == ["enrol", "reserve", "answered"]


def test_a_key_is_bound_once_and_to_some_name():
    ledger = ledger_over()
    assert ledger.enrol(key("ann0").public, "ann", NOW)
    assert not ledger.enrol(key("ann0").public, "ann", NOW)
    for who, name in ((key("ann0").public, "ann"), (NOBODY, "x"), (key("x").public, ""), (key("x").public, "x" * 201)):
        with pytest.raises(LedgerCorruptError):
            ledger.account.check(ledger.entry(EntryKind.ENROL, NOW, learner=who, note=name))


def test_what_a_lost_branch_spent_under_two_keys_is_restored_once():
    store = MemoryStore()
    curator = open_curator(store, rules=rules(enrolled("ann", "ann0", "ann1")))
    opened(curator, "ann0", plan=plan_of(30)).query()
    opened(curator, "ann1", plan=plan_of(30), study=b"warm").query()
    there = len(store.rows(0))
    receipts = []
    for name in ("ann0", "ann1"):
        learner = opened(curator, name, plan=plan_of(20), study=name.encode() + b"lost")
        learner.query()
        receipts.append(learner.session.newest_receipt)
    del store._rows[there:]
    spent = 2 * Fraction(1, 20)
    for receipt in reversed(receipts):
        curator = open_curator(store, rules=rules(enrolled("ann", "ann0", "ann1")))
        Learner(curator, "ann0", study=b"after", receipt=receipt).propose()
    ledger = ledger_over(store)
    assert ledger.account.halted
    ledger.resume(NOW, note="both receipts were shown")
    assert ledger.account.total_spent == 2 * THIRTIETH + spent
    assert ledger.account.spent_by(key("ann0").public) == 2 * THIRTIETH + spent


def test_two_learners_share_no_name_and_no_key():
    with pytest.raises(ValueError, match="same name"):
        rules(enrolled("ann", "ann0"), enrolled("ann", "ann1"))
    with pytest.raises(ValueError, match="same key"):
        rules(enrolled("ann", "ann0"), enrolled("bob", "ann0"))
    single = policy(("ann0",))
    with pytest.raises(ValueError, match="same key"):
        msgspec.structs.replace(single, enrolled=(enrolled("ann", "ann0"),))


def test_an_unverified_refusal_names_nobody_and_no_number():
    curator = open_curator(records=dataset(), rules=rules(enrolled("ann", "ann0")))
    reply = Learner(curator, "ann1").propose()
    assert isinstance(reply, Refusal)
    envelope, _ = open_envelope(curator.handle(b"junk"))
    assert envelope.type == "refusal"
