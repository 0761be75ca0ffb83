"""A curator's new key: nothing that was promised under the old one is lost, and nothing that it kept apart mixes."""

import itertools
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from curator_fakes import (
    NOW,
    Clock,
    Learner,
    ZeroNoise,
    frame_of,
    key,
    message_of,
    numbers,
    opened,
    plan_of,
    steward_file,
    toml,
)
from curator_fakes import policy as policy_for
from curator_node.daemon.folder import answer_folder
from curator_node.ledger import HandedOverError, Ledger, create_ledger
from curator_node.ledger.book import hand_over
from curator_node.ledger.checks import check, load
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.store import DatabaseStore, MemoryStore, Row, sqlite_url
from curator_node.site import create_site, open_site
from curator_node.steward import keyring
from protocol.carriage import REQUESTS, SUFFIX
from protocol.envelopes import SigningKey, digest, open_envelope, open_receipt, verify
from protocol.errors import ConfigurationError
from protocol.identity import IdentityCard, read_identity, write_identity
from protocol.ledger.entries import EntryKind, LedgerCorruptError
from protocol.messages import Card, Refusal, Release
from protocol.refusals import RefusalCode

DAY = 86_400
MANY = [(f"p{number % 7}", float(number), 0.0, "f", "no") for number in range(60)]
"""Patients with more records than are kept."""


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "ward"
    schema = toml(steward_file(most=2, unit=True))
    create_site(path, policy=toml(policy_for(cap=3)), schema=schema, records=frame_of(MANY), clock=Clock())
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
    store = DatabaseStore(sqlite_url(folder / "curator.ledger"))
    for pinned in (None, *keys):
        assert not check(store, pinned).findings
    assert check(store, key("zurich").public).findings
    assert [public for _, public in load(store).curators] == keys
    store.close()


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
    store = DatabaseStore(sqlite_url(folder / "curator.ledger"), create=True)
    create_ledger(store, key("eve"), MemoryMark(), now=NOW)
    store.close()
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
