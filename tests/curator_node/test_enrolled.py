"""A learner's budget is spent once, whatever becomes of its keys; under a curator's new key all promises hold."""

import itertools
import shutil
from contextlib import closing, suppress
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

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
    frame_of,
    key,
    ledger_over,
    message_of,
    numbers,
    open_curator,
    opened,
    plan_of,
    policy,
    steward_file,
    toml,
)
from curator_node.daemon.folder import answer_folder
from curator_node.ledger import BoundElsewhereError, Caps, HandedOverError, Ledger, Reservation, StudyKey, create_ledger
from curator_node.ledger.checks import check, load
from curator_node.ledger.ledger import hand_over
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.store import DatabaseStore, MemoryStore, Row, sqlite_url
from curator_node.policy import EnrolledKey, EnrolledLearner, LearnerPolicy, Policy
from curator_node.site import create_site, open_site
from curator_node.steward import keyring
from protocol.carriage import REQUESTS, SUFFIX
from protocol.envelopes import SigningKey, digest, open_envelope, open_receipt, verify
from protocol.errors import ConfigurationError, LocalProtocolError
from protocol.identity import IdentityCard, read_identity, write_identity
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


# --- A curator's new key: nothing that was promised under the old one is lost, and nothing that it kept apart mixes.

DAY = 86_400
MANY = [(f"p{number % 7}", float(number), 0.0, "f", "no") for number in range(60)]
"""Patients with more records than are kept."""


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "ward"
    schema = toml(steward_file(most=2, unit=True))
    create_site(path, policy=toml(policy(cap=3)), schema=schema, records=frame_of(MANY), clock=Clock())
    return path


def rotate(folder, *, now=NOW, days=30, **options):
    return keyring.rotate(folder, now=now, overlap=days * DAY, **options)


def identity(folder):
    return SigningKey.from_pem((folder / "curator.pem").read_bytes()).public


def counted(site, clock, study):
    """Exact counts by age, as the curator keeps the records."""
    learner = Learner(site, clock=clock, study=study)
    learner.propose(plan_of(30))
    return numbers(learner.query())


class OldPin:
    """The same site, for a learner that pins an earlier key."""

    def __init__(self, site, pinned):
        self.site, self.identity = site, pinned

    def handle(self, data):
        return self.site.handle(data)


def test_the_same_records_are_kept_under_the_new_key(folder, clock):
    with open_site(folder, clock=clock, noise=ZeroNoise()) as site:
        before = counted(site, clock, b"before")
    old = identity(folder)
    assert rotate(folder) == identity(folder) != old
    with open_site(folder, clock=clock, noise=ZeroNoise()) as site:
        assert counted(site, clock, b"after") == before
        assert not site.ledger.account.halted
        assert site.identity == identity(folder)


def test_requests_to_the_old_key_are_answered_under_it_until_the_overlap_ends(folder):
    clock, old = Clock(), identity(folder)
    with open_site(folder, clock=clock) as site:
        learner = opened(site, clock=clock)
        learner.query()
        sent, answer = learner.session.transcript.envelopes[-2:]
    new = rotate(folder, now=clock(), days=7)
    with open_site(folder, clock=clock) as site:
        assert site.handle(sent) == answer
        learner.curator = site
        release = learner.query()
        assert isinstance(release, Release)
        assert (release.sender, open_receipt(release.receipt, old).curator) == (old, old)
        fresh = opened(site, "bob", clock=clock)
        assert open_receipt(fresh.session.newest_receipt, new).curator == new
        stranger = open_envelope(Learner(OldPin(site, old), "eve", clock=clock).session.request_card(clock()))
        assert stranger[1].recipient == old
        reply = Learner(OldPin(site, old), "eve", clock=clock).card()
        assert (reply.code, reply.sender) == (RefusalCode.UNKNOWN_SENDER, old)
        clock.advance(7 * DAY)
        request = Learner(OldPin(site, old), clock=clock).session.request_card(clock())
        for data in (sent, request):
            reply = site.handle(data)
            verify(open_envelope(reply)[0], new)
            assert message_of(reply).code == RefusalCode.WRONG_RECIPIENT
        assert isinstance(Learner(site, clock=clock).card(), Card)


def test_requests_that_came_as_files_for_the_old_key_are_answered_too(folder, tmp_path):
    clock, old = Clock(), identity(folder)
    rotate(folder, now=clock(), days=7)
    post = tmp_path / "post"
    with open_site(folder, clock=clock) as site:
        assert site.curator.identities == (site.identity, old)
        for pinned in site.curator.identities:
            data = Learner(OldPin(site, pinned), clock=clock).session.request_card(clock())
            place = post / pinned.hex() / REQUESTS
            place.mkdir(parents=True)
            (place / f"{digest(data).hex()}{SUFFIX}").write_bytes(data)
        assert [outcome.why for outcome in answer_folder(post, site)] == ["card", "card"]
        assert list(answer_folder(post, site)) == []
        clock.advance(7 * DAY)
        assert site.curator.identities == (site.identity,)


def test_a_ledger_is_verified_through_every_key(folder):
    keys = [identity(folder)]
    with open_site(folder, clock=Clock()) as site:
        opened(site)
    for number in range(2):
        keys.append(rotate(folder, now=NOW + number))
        with open_site(folder, clock=Clock(NOW + number)) as site:
            opened(site, study=bytes([number + 1]))
            assert not site.export().findings
    with closing(DatabaseStore(sqlite_url(folder / "curator.ledger"))) as store:
        for pinned in (None, *keys):
            assert not check(store, pinned).findings
        assert check(store, key("zurich").public).findings
        assert [public for _, public in load(store).curators] == keys


def test_a_receipt_of_the_old_key_still_proves_a_rollback(folder, tmp_path, clock):
    with open_site(folder, clock=clock) as site:
        opened(site, study=b"0").query()
    copy = tmp_path / "monday.ledger"
    rotate(folder, now=clock())
    with open_site(folder, clock=clock):
        shutil.copy(folder / "curator.ledger", copy)
    old = keyring.read_keys(folder).first.public
    with open_site(folder, clock=clock) as site:
        learner = opened(OldPin(site, old), study=b"lost", clock=clock)
        learner.query()
        receipt = learner.session.newest_receipt
    shutil.copy(copy, folder / "curator.ledger")
    (folder / "curator.mark").unlink()
    with open_site(folder, clock=clock) as site:
        ledger = site.ledger
        ledger.resume(clock(), note="the mark was lost")
        assert ledger.account.total_spent == Fraction(2, 30)
        asker = Learner(site, study=b"next", receipt=receipt, clock=clock)
        assert asker.propose().code == RefusalCode.LEDGER_ROLLED_BACK
        ledger.resume(clock(), note="a receipt was shown")
        assert ledger.account.total_spent == Fraction(4, 30)


def test_a_receipt_of_a_leaked_key_proves_nothing(folder, clock):
    with open_site(folder, clock=clock) as site:
        learner = opened(site, clock=clock)
        learner.query()
        receipt, old = learner.session.newest_receipt, site.identity
        forged = SigningKey.from_pem((folder / "curator.pem").read_bytes())
        assert forged.public == old
    rotate(folder, now=clock(), leaked=True)
    with open_site(folder, clock=clock) as site:
        reply = Learner(OldPin(site, old), clock=clock).session
        refusal = message_of(site.handle(reply.request_card(clock())))
        assert refusal.code == RefusalCode.WRONG_RECIPIENT
        assert site.handle(reply.request_card(clock()))
        del site.ledger.account.answers[open_receipt(receipt, old).request]
        assert not isinstance(Learner(site, study=b"next", receipt=receipt, clock=clock).propose(), Refusal)


def test_an_older_copy_of_the_ledger_is_handed_over_again_and_halts(folder, tmp_path, clock):
    with open_site(folder, clock=clock) as site:
        opened(site).query()
    copy = tmp_path / "monday.ledger"
    shutil.copy(folder / "curator.ledger", copy)
    new = rotate(folder, now=clock())
    with open_site(folder, clock=clock) as site:
        opened(site, study=b"2").query()
    shutil.copy(copy, folder / "curator.ledger")
    with pytest.raises(ConfigurationError, match="another curator's key"):
        open_site(folder, clock=clock)
    assert rotate(folder, now=clock()) == new == identity(folder)
    with open_site(folder, clock=clock) as site:
        assert site.ledger.account.halted
        site.ledger.resume(clock(), note="restored")
        assert site.ledger.account.total_spent == Fraction(4, 30)


@pytest.mark.family(4)
@pytest.mark.parametrize("step", ["write_key", "write_new", "hand_over", "accept", "replace_text", "replace"])
@pytest.mark.parametrize("after", [False, True])
def test_a_rotation_that_is_cut_off_is_ended_by_the_same_command(folder, monkeypatch, step, after):
    """Whatever was done before the crash: one new key in the end, and until then nobody serves under a wrong one."""
    clock, old = Clock(), identity(folder)
    with open_site(folder, clock=clock, noise=ZeroNoise()) as site:
        before = counted(site, clock, b"before")

    def cut_off(real):
        def broken(*args, **options):
            if after:
                real(*args, **options)
            raise KeyboardInterrupt

        return broken

    with monkeypatch.context() as patch:
        if step == "replace":
            real = Path.replace
            patch.setattr(
                Path, "replace", lambda path, to: (cut_off(real) if path.name == "next.pem" else real)(path, to)
            )
        elif step == "accept":
            append, appends = Ledger.append, []

            def second(self, *args, **options):
                appends.append(self)
                return (cut_off(append) if len(appends) == 2 else append)(self, *args, **options)

            patch.setattr("curator_node.ledger.chain.Chain.append", second)
        else:
            patch.setattr(keyring, step, cut_off(getattr(keyring, step)))
        with pytest.raises(KeyboardInterrupt):
            rotate(folder, now=clock())
    if not (step == "write_key" and not after) and not (step == "replace" and after):
        with pytest.raises(ConfigurationError, match="expril curator rotate"):
            open_site(folder, clock=clock)
    if not (step == "replace" and after):
        rotate(folder, now=clock())
    keys = keyring.read_keys(folder)
    assert [former.key.public for former in keys.former] == [old]
    with open_site(folder, clock=clock, noise=ZeroNoise()) as site:
        assert counted(site, clock, b"after") == before
        assert not site.export().findings
        assert [public for _, public in site.ledger.account.curators] == [old, keys.current.public]


def test_nobody_serves_while_the_key_changes(folder):
    with open_site(folder, clock=Clock()), pytest.raises(ConfigurationError, match="held by another process"):
        rotate(folder)


def test_a_process_that_serves_elsewhere_under_the_old_key_stops_answering(folder, tmp_path, clock):
    """Two daemons share a ledger, and one folder's key was changed."""
    with open_site(folder, clock=clock) as site:
        opened(site)
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    with open_site(other, ledger=folder / "curator.ledger", mark=other / "curator.mark", clock=clock) as site:
        rotate(folder, now=clock())
        assert Learner(site, "bob", clock=clock).card().code == RefusalCode.UNAVAILABLE
        with pytest.raises(HandedOverError):
            site.ledger.refresh(clock())


@pytest.mark.parametrize("lost", ["keys", "keys/rotations.toml"])
def test_without_the_first_key_nothing_opens(folder, lost):
    """Other records of a unit would be kept, and more of the unit counted over time."""
    with open_site(folder, clock=Clock()):
        pass
    rotate(folder)
    shutil.rmtree(folder / lost) if lost == "keys" else (folder / lost).unlink()
    with pytest.raises(ConfigurationError, match="former key"):
        open_site(folder, clock=Clock())


def test_a_former_key_that_is_another_is_refused(folder):
    old = identity(folder).hex()[:16]
    rotate(folder)
    (folder / "keys" / f"{old}.pem").write_bytes(key("other").to_pem())
    with pytest.raises(ConfigurationError, match="another key"):
        open_site(folder, clock=Clock())


def test_a_stranger_s_ledger_is_not_taken_over(folder):
    rotate(folder)
    current = keyring.read_keys(folder).current
    for place in ("curator.ledger", "curator.mark"):
        (folder / place).unlink()
    with closing(DatabaseStore(sqlite_url(folder / "curator.ledger"), create=True)) as store:
        create_ledger(store, key("eve"), MemoryMark(), now=NOW)
    with pytest.raises(ConfigurationError, match="another curator"):
        rotate(folder)
    assert keyring.read_keys(folder).current.public == current.public


def ledger(*keys):
    store = MemoryStore()
    create_ledger(store, keys[0], MemoryMark(), now=NOW)
    for old, new in itertools.pairwise(keys):
        hand_over(store, old, new, NOW)
    return store


def test_each_entry_is_signed_by_the_key_of_its_time():
    old, new = key("old"), key("new")
    store = ledger(old, new)
    account = load(store)
    assert [account.signer_of(index) for index in range(4)] == [old.public, old.public, new.public, new.public]
    with pytest.raises(ConfigurationError):
        Ledger(store, key=old, mark=MemoryMark())
    assert Ledger(store, key=new, mark=MemoryMark()).account.taken_over
    hand_over(store, old, new, NOW)
    assert len(store.rows(0)) == 3


def test_a_chain_that_a_thief_of_the_old_key_hands_over_is_not_opened():
    """It ends with the hand-over: what the new key has to sign, the thief cannot."""
    thief, new = key("old"), key("new")
    store = ledger(thief)
    chain = Ledger(store, key=thief, mark=MemoryMark())
    chain.append(lambda _: chain.entry(EntryKind.HANDOVER, NOW, learner=new.public), NOW)
    forged = Ledger(store, key=new, mark=MemoryMark())
    assert not forged.account.taken_over
    with pytest.raises(ConfigurationError, match="not signed in it yet"):
        forged.begin("terms", NOW)
    row = store.rows(0)[-1]
    store._rows.append(Row(row.index + 1, row.body, thief.sign(b"anything")))
    with pytest.raises(LedgerCorruptError):
        load(store)


@pytest.mark.parametrize("to", ["old", "new", "nobody"])
def test_a_ledger_never_goes_back_to_a_key_that_had_it(to):
    store = ledger(key("old"), key("new"))
    chain = Ledger(store, key=key("new"), mark=MemoryMark())
    public = bytes(32) if to == "nobody" else key(to).public
    with pytest.raises(LedgerCorruptError, match="hands over"):
        chain.append(lambda _: chain.entry(EntryKind.HANDOVER, NOW, learner=public), NOW)


def card_of(folder, now):
    draft = IdentityCard(role="curator", name="ward", key=bytes(32), issued=now)
    card, signing_key = keyring.curator_card(folder, draft)
    return read_identity(write_identity(card, signing_key), where="card")


def test_a_card_carries_the_word_of_former_keys_but_not_of_a_leaked_one(folder):
    first = card_of(folder, NOW)
    rotate(folder, now=NOW + 1)
    second = card_of(folder, NOW + 2)
    assert second.succeeds(first.key)
    rotate(folder, now=NOW + 3, leaked=True)
    third = card_of(folder, NOW + 4)
    assert third.successions == ()
    rotate(folder, now=NOW + 5)
    fourth = card_of(folder, NOW + 6)
    assert [fourth.succeeds(card.key) for card in (first, second, third)] == [False, False, True]
    assert fourth.key == identity(folder)
