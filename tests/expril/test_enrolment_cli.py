"""What a steward and a learner type to become known to each other: cards, enrolment, rotation, approval."""

import json
import re
import shutil
import time
from fractions import Fraction

import pytest

from command_line import run
from curator_fakes import ROWS, Learner, frame_of, plan_of, steward_file, toml
from curator_node.key_files import read_key
from curator_node.ledger.checks import load
from curator_node.ledger.store import DatabaseStore, sqlite_url
from curator_node.site import open_site
from protocol.identity import read_identity
from protocol.messages import Refusal, Release, StudyAccepted
from protocol.query_kind import Kinds
from protocol.refusals import RefusalCode

POLICY = 'name = "ward"\ncap = 2\n'


@pytest.fixture
def ward(tmp_path):
    """A site's folder, made by hand."""
    folder = tmp_path / "ward"
    folder.mkdir()
    (folder / "policy.toml").write_text(POLICY)
    (folder / "schema.toml").write_text(toml(steward_file(round_size=None)))
    frame_of(ROWS).write_csv(folder / "records.csv")
    run("keys", folder / "curator.pem")
    run("ledger", "create", folder / "curator.ledger", "--key", folder / "curator.pem")
    return folder


def card(path):
    return read_identity(path.read_text(), where=str(path))


def made_card(folder, name="ann", **options):
    """A learner's key and card; returns the card's file."""
    key, out = folder / f"{name}.pem", folder / f"{name}.card"
    run("keys", key)
    arguments = [text for option, value in options.items() for text in (f"--{option.replace('_', '-')}", value)]
    result = run("learner", "card", key, "--name", name, "--out", out, *arguments)
    assert card(out).fingerprint in result.output
    return out


def enrol(ward, path, *options, code=0):
    return run("curator", "enrol", ward, path, "--fingerprint", card(path).fingerprint, *options, code=code)


def asker(site, folder, name="ann", study=b"s"):
    learner = Learner(site, study=study, clock=lambda: int(time.time()))
    learner.session.key = read_key(folder / f"{name}.pem")
    return learner


def test_from_two_cards_to_an_answer(ward, tmp_path):
    path = made_card(tmp_path, organisation="University of B", contact="ann@example.org")
    there = card(path).fingerprint
    misheard = ("8" if there[0] == "7" else "7") + there[1:4]
    wrong = run("curator", "enrol", ward, path, "--cap", "1", "--fingerprint", misheard, code=2)
    assert "another fingerprint" in wrong.output
    assert f"told         {misheard}\non the card  {there}\n             ^   ^" in wrong.output
    assert not (ward / "learners").exists()
    typed = card(path).fingerprint.lower().replace("-", " ")
    result = run("curator", "enrol", ward, path, "--cap", "1/3", typed=f"{typed}\n")
    assert "University of B" in result.output
    before, after = result.output.split("as its holder reads it out to you")
    assert card(path).fingerprint in before, "a steward compares what it hears with what it sees"
    assert after.count(card(path).fingerprint) == 2
    assert "^" not in after
    run("curator", "card", ward, "--out", tmp_path / "ward.card")
    with open_site(ward) as site:
        assert card(tmp_path / "ward.card").key == site.identity
        learner = asker(site, tmp_path)
        assert learner.card().cap == "1/3"
        assert isinstance(learner.propose(plan_of(5)), StudyAccepted)
        assert isinstance(learner.query(), Release)
    listed = run("curator", "learners", ward).output
    assert all(text in listed for text in ("ann", "0.2", "≈ 0.1333", card(path).fingerprint))
    checked = run("curator", "check", ward).output
    assert all(text in checked for text in ("set aside", "if all changed", "no limit", "e^2x"))
    assert "ann" in run("ledger", "show", ward / "curator.ledger", "--policy", ward / "policy.toml").output


def test_a_fingerprint_is_seen_whatever_else_is_missing(ward, tmp_path):
    path = made_card(tmp_path)
    result = run("curator", "enrol", ward, path, code=2)
    assert card(path).fingerprint in result.output
    assert "--cap" in result.output


@pytest.mark.parametrize("option", ["--name", "--organisation", "--contact"])
@pytest.mark.parametrize("text", ["an\x1b[2Jn", "an\nn", "an\tn", "\udce9", "x" * 201])
def test_a_card_of_words_that_it_cannot_hold_is_refused_in_a_sentence(option, text, ward, tmp_path):
    run("keys", tmp_path / "ann.pem")
    for command in (("learner", "card", tmp_path / "ann.pem"), ("curator", "card", ward)):
        output = run(*command, "--name", "ann", option, text, code=2).output
        assert re.search(rf"error {option} (holds a .*; leave it out|has 201 characters; write \d to \d+)", output)
        assert all(letter.isprintable() or letter == "\n" for letter in output)
    if option == "--name":
        run("curator", "init", tmp_path / "new", "--name", text, code=2)
        assert not (tmp_path / "new").exists()


def test_a_path_with_control_characters_is_told_without_them(ward, tmp_path):
    output = run("curator", "enrol", ward, tmp_path / "an\x1b[2Jn.card", "--cap", "1", code=2).output
    assert "an?[2Jn.card" in output
    assert "\x1b" not in output


def test_a_learner_s_next_key_takes_the_budget_over_and_revoking_refills_nothing(ward, tmp_path):
    path = made_card(tmp_path)
    enrol(ward, path, "--cap", "1/3")
    with open_site(ward) as site:
        learner = asker(site, tmp_path)
        learner.propose(plan_of(5))
        learner.query()
    new = tmp_path / "ann2.card"
    run("learner", "rotate", tmp_path / "ann.pem", tmp_path / "ann2.pem", "--card", path, "--out", new)
    assert card(new).succeeds(card(path).key)
    assert "1/5 is spent" in enrol(ward, new, "--overlap", 7).output
    with open_site(ward) as site:
        for name in ("ann", "ann2"):
            refusal = asker(site, tmp_path, name, study=name.encode()).propose(plan_of(5))
            assert (refusal.code, refusal.remaining) == (RefusalCode.OVER_BUDGET, "2/15")
    assert run("curator", "revoke", ward, "ann").output.count("revoked") == 2
    assert "revoked before" in run("curator", "revoke", ward, "ann").output
    with open_site(ward) as site:
        assert asker(site, tmp_path, "ann2").card().code == RefusalCode.UNKNOWN_SENDER
    third = made_card(tmp_path, "ann3")
    assert "--add" in enrol(ward, third, "--name", "ann", code=2).output
    enrol(ward, third, "--name", "ann", "--add")
    shutil.copy(ward / "learners" / "ann.toml", tmp_path)
    with open_site(ward) as site:
        assert asker(site, tmp_path, "ann3").propose(plan_of(5)).remaining == "2/15"
    (ward / "learners" / "ann.toml").unlink()
    other = made_card(tmp_path, "ann4")
    enrol(ward, other, "--name", "ann", "--cap", "1/3")
    with open_site(ward) as site:
        assert asker(site, tmp_path, "ann4").propose(plan_of(5)).remaining == "2/15"


def test_a_card_that_does_not_fit_is_refused_in_one_sentence(ward, tmp_path):
    path = made_card(tmp_path)
    run("curator", "card", ward, "--out", tmp_path / "ward.card")
    assert "card of a curator" in enrol(ward, tmp_path / "ward.card", "--cap", 1, code=2).output
    assert "--cap" in enrol(ward, path, code=2).output
    assert "letters, digits" in enrol(ward, path, "--cap", 1, "--name", "../ann", code=2).output
    damaged = tmp_path / "damaged.card"
    lines = path.read_text().splitlines()
    damaged.write_text("\n".join([lines[0], lines[1][::-1], *lines[2:]]))
    assert "damaged" in run("curator", "enrol", ward, damaged, "--cap", 1, "--fingerprint", "x", code=2).output
    assert "card file" in run("curator", "enrol", ward, tmp_path / "none.card", "--cap", 1, code=2).output
    enrol(ward, path, "--cap", 1)
    assert "enrolled already" in enrol(ward, path, "--cap", 2, code=2).output
    assert (
        "card is never overwritten"
        in run("learner", "card", tmp_path / "ann.pem", "--name", "ann", "--out", path, code=2).output
    )
    case = made_card(tmp_path, "Ann")
    assert "case alone" in enrol(ward, case, "--cap", 1, code=2).output
    assert "nobody is enrolled" in run("curator", "revoke", ward, "eve", code=2).output
    assert "0 keys" in run("curator", "revoke", ward, "ann", "--key", "zz", code=2).output
    rotated = run("learner", "rotate", tmp_path / "Ann.pem", tmp_path / "x.pem", "--card", path, code=2)
    assert "is not the card of" in rotated.output
    store = DatabaseStore(sqlite_url(ward / "curator.ledger"))
    assert len(load(store).bound) == 1
    store.close()


def test_an_expired_card_and_one_from_the_future_are_refused(ward, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("expril.commands.steward.learners.time.time", lambda: 1_000_000_000.0)
        old = made_card(tmp_path, "old", valid_days=9)
    with monkeypatch.context() as patch:
        patch.setattr("expril.commands.steward.learners.time.time", lambda: 9_000_000_000.0)
        future = made_card(tmp_path, "future")
    assert "was valid until 2001-09-18" in enrol(ward, old, "--cap", 1, code=2).output
    assert "check the clock" in enrol(ward, future, "--cap", 1, code=2).output


def test_a_learner_in_the_policy_moves_to_a_file_under_the_same_name(ward, tmp_path):
    path = made_card(tmp_path)
    entry = f'[[learners]]\nname = "ann"\nkey = "{card(path).key.hex()}"\ncap = "1/3"\n'
    (ward / "policy.toml").write_text(POLICY + entry)
    with open_site(ward) as site:
        learner = asker(site, tmp_path)
        learner.propose(plan_of(5))
        learner.query()
    new = tmp_path / "ann2.card"
    run("learner", "rotate", tmp_path / "ann.pem", tmp_path / "ann2.pem", "--card", path, "--out", new)
    assert "take that entry out" in enrol(ward, new, "--cap", "1/3", code=2).output
    (ward / "policy.toml").write_text(POLICY)
    enrol(ward, new, "--cap", "1/3")
    with open_site(ward) as site:
        assert asker(site, tmp_path, "ann2").propose(plan_of(5)).remaining == "2/15"


def test_a_learner_with_several_keys_in_the_policy_is_moved_by_hand_first(ward, tmp_path):
    path = made_card(tmp_path)
    entry = f'[[enrolled]]\nname = "ann"\ncap = 1\n[[enrolled.keys]]\nkey = "{card(path).key.hex()}"\n'
    (ward / "policy.toml").write_text(POLICY + entry)
    new = tmp_path / "ann2.card"
    run("learner", "rotate", tmp_path / "ann.pem", tmp_path / "ann2.pem", "--card", path, "--out", new)
    assert "learners/ann.toml first" in enrol(ward, new, code=2).output
    open_site(ward).close()


def test_a_curator_s_next_key_has_a_card_with_the_old_one_s_word(ward, tmp_path):
    run("curator", "card", ward, "--out", tmp_path / "first.card")
    result = run("curator", "rotate", ward, "--overlap", 7)
    run("curator", "card", ward, "--out", tmp_path / "second.card")
    first, second = card(tmp_path / "first.card"), card(tmp_path / "second.card")
    assert second.key.hex() in result.output
    assert second.succeeds(first.key)
    assert run("ledger", "verify", ward / "curator.ledger", "--curator", first.key.hex())
    with open_site(ward) as site:
        assert site.identity == second.key
        assert "held by another process" in run("curator", "rotate", ward, code=2).output


def test_a_plan_that_cannot_be_read_any_more_is_listed_and_declined_and_never_approved(ward, tmp_path, monkeypatch):
    (ward / "policy.toml").write_text(f'{POLICY}approval = "manual"\n')
    enrol(ward, made_card(tmp_path), "--cap", 1)
    with open_site(ward) as site:
        learner = asker(site, tmp_path)
        learner.propose(plan_of(30))
        study = learner.session.study.hex()[:8]
        monkeypatch.setattr("expril.commands.steward.learners._terms", lambda _: (Kinds(), steward_file()))
        assert study in run("curator", "studies", ward).output
        assert "decline it" in run("curator", "approve", ward, study, typed="y\n", code=2).output
        assert "declined" in run("curator", "decline", ward, study, "--reason", "it cannot be read", typed="y\n").output
        assert learner.ask().code == RefusalCode.DECLINED


def test_a_study_waits_for_the_steward(ward, tmp_path):
    (ward / "policy.toml").write_text(f'{POLICY}approval = "manual"\n')
    enrolled = enrol(ward, made_card(tmp_path), "--cap", 1).output
    assert "2.72 (e^1) as to whether it is among the records" in enrolled
    assert "7.39 (e^2) as to its label" in enrolled
    assert "no study waits" in run("curator", "studies", ward).output
    assert json.loads(run("curator", "studies", ward, "--json").output) == {"studies": []}
    with open_site(ward) as site:
        learner, other = asker(site, tmp_path), asker(site, tmp_path, study=b"t")
        for each in (learner, other):
            assert each.propose(plan_of(30, 30)).code == RefusalCode.AWAITING_APPROVAL
        study = learner.session.study.hex()[:4]
        listed = run("curator", "studies", ward).output
        assert all(text in listed for text in (study, "ann", "1/15", "a test", "1.07", "1.00", "1.15"))
        proposals = json.loads(run("curator", "studies", ward, "--json").output)["studies"]
        proposal = next(each for each in proposals if each["study"].startswith(study))
        times = {
            "received_at": proposal["received_at"],
            "expires_at": proposal["received_at"] + site.policy.approval_seconds,
        }
        assert proposal == {
            "study": learner.session.study.hex(),
            "learner": "ann",
            "key": learner.session.key.public.hex(),
            **times,
            "epsilon": "1/15",
            "purpose": "a test",
            "announces": None,
            "validates": None,
            "summary": proposal["summary"],
            "unreadable": "",
        }
        page = " ".join(run("curator", "approve", ward, study, typed="n\n").output.split())
        assert all(f"{heading} {' '.join(text.split())}" in page for heading, text in proposal["summary"].items())
        assert "nothing was decided" in run("curator", "approve", ward, study, typed="n\n").output
        assert isinstance(learner.ask(), Refusal)
        output = run("curator", "approve", ward, study, typed="y\n").output
        assert all(text in output for text in ("who", "why", "a test", "1/15", "1.07 (e^(1/15))", "approved"))
        assert isinstance(learner.ask(), StudyAccepted)
        named = other.session.study.hex()[:4]
        assert "declined" in run("curator", "decline", ward, named, "--reason", "no ethics vote", "--yes").output
        assert other.ask().code == RefusalCode.DECLINED
        assert "those that wait: none" in run("curator", "approve", ward, named, "--yes", code=2).output
        assert site.ledger.account.reserved_by(learner.session.key.public) == Fraction(1, 15)
    assert "no ethics vote" in run("ledger", "show", ward / "curator.ledger").output
