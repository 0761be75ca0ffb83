"""A witness believes no curator and never contradicts itself; what it co-signed is held against exports."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_enrolled import rotate
from test_ledger import spend

from benchmarks.audit_histories import HONEST, LIES, play
from command_line import TERMS, ledger_and_key, run
from curator_fakes import Clock, frame_of, key, policy, steward_file, toml
from curator_node.key_files import read_key
from curator_node.ledger.places import open_ledger_file
from curator_node.site import create_site
from expril.audit.recompute.receipts import hold_checkpoints
from expril.audit.witness import EquivocationError, MemoryState, open_state, witness
from protocol.errors import ConfigurationError
from protocol.ledger.checkpoints import (
    CheckpointError,
    Submission,
    cosign,
    read_checkpoint,
    read_equivocation,
    sign_checkpoint,
    with_signature,
    witness_name,
    witnesses_of,
)
from protocol.ledger.notes import Signature
from witnessed import NOW, Grown

WITNESS = key("university")
CURATOR = key("basel").public
PROCESS = str(Path(__file__).parents[1] / "support" / "witness_process.py")


def state_of(folder, own=WITNESS):
    return open_state(folder / "state", own.public)


def shown(state, submission, *, now=NOW, trusted=CURATOR, own=WITNESS):
    return witness(submission, own, state, now=now, trusted=trusted)


# --- what is co-signed ------------------------------------------------------------------------------------


def test_a_ledger_that_grows_is_co_signed_again_and_again(tmp_path):
    ward, newest = Grown(5), 0
    for day in range(6):
        with state_of(tmp_path) as state:
            signed = shown(state, ward.submission(newest), now=NOW + day, trusted=None if day else CURATOR)
            assert witnesses_of(signed) == {WITNESS.public: NOW + day}
            newest = ward.account.next_index
            assert state.sizes(CURATOR)[-1] == newest
        ward.grow(3 * day + 1)


@pytest.fixture
def ward():
    return Grown(5)


def test_the_same_checkpoint_gets_the_same_co_signature(tmp_path, ward):
    with state_of(tmp_path) as state:
        first = shown(state, ward.submission())
        ward.grow(2)
        shown(state, ward.submission(5), now=NOW + 1)
        for old, size in ((0, 5), (2, 5), (5, 7), (0, 7)):
            again = shown(state, ward.submission(old, size), now=NOW + 9)
            assert witnesses_of(again) == {WITNESS.public: NOW if size == 5 else NOW + 1}
        assert shown(state, ward.submission(0, 5)).note == first.note
        assert state.sizes(CURATOR) == [5, 7]


def test_co_signatures_of_others_travel_along_and_are_not_kept():
    ward, other = Grown(5), key("registry")
    one, two = MemoryState(WITNESS.public), MemoryState(other.public)
    first = shown(one, ward.submission())
    second = shown(two, ward.submission()._replace(signed=first), own=other)
    assert witnesses_of(second).keys() == {WITNESS.public, other.public}
    assert witnesses_of(two.checkpoint(CURATOR, 5)[0]).keys() == {other.public}
    forged = Signature(witness_name(WITNESS.public), first.note.signatures[1].key, bytes(72))
    with_forged = ward.submission()._replace(signed=with_signature(ward.signed(), forged))
    assert witnesses_of(shown(one, ward.submission())) == {WITNESS.public: NOW}
    with pytest.raises(CheckpointError):
        witnesses_of(shown(one, with_forged))
    assert witnesses_of(one.checkpoint(CURATOR, 5)[0]) == {WITNESS.public: NOW}


def test_a_curator_with_a_new_key_shows_that_the_old_one_said_so(tmp_path, ward):
    with state_of(tmp_path) as state:
        shown(state, ward.submission())
        ward.rotate("basel 2")
        signed = shown(state, ward.submission(5), trusted=None)
        assert signed.curator == key("basel 2").public
        ward.grow(3)
        shown(state, ward.submission(7), trusted=key("basel 2").public)
        assert state.sizes(CURATOR) == [5, 7, 10]


def test_a_ledger_that_a_stranger_took_is_not_co_signed(tmp_path, ward):
    """The stranger has no word of the key that signed what was witnessed; or an old key's, of an entry before."""
    taken = ward.branch(3, salt=50).rotate("mallory").grow(2)
    with state_of(tmp_path) as state:
        shown(state, ward.submission())
        for submission in (
            taken.submission(5),
            taken.submission(5)._replace(proof=ward.grow(3).tree.consistency_proof(5)),
        ):
            with pytest.raises(CheckpointError, match="rolled back or edited"):
                shown(state, submission)
        with pytest.raises(ConfigurationError, match="not of the one you named"):
            shown(state, Grown(5, "mallory").submission())
        assert state.sizes(CURATOR) == [5]


def test_a_curator_that_gave_a_key_up_signs_no_more_with_it():
    """A former key can sign what looks like a ledger that was never handed over."""
    ward = Grown(5).rotate("basel 2").grow(1)
    hidden = sign_checkpoint(ward.checkpoint()._replace(handovers=()), ward.keys[0])
    state = MemoryState(WITNESS.public)
    shown(state, Submission(0, (), hidden))
    with pytest.raises(CheckpointError, match="names other keys"):
        shown(state, ward.submission())
    ward.grow(2)
    with pytest.raises(CheckpointError, match="names other keys for the 8 entries"):
        shown(state, ward.submission(8))
    found = hold_checkpoints(
        ward.account.hashes, ward.account.curators, {"hidden": str(hidden.note), "new": str(ward.signed().note)}
    )
    assert found.signed == 10
    assert [(each.name, each.first, each.last) for each in found.contradicted] == [("hidden", 7, 7)]
    assert "was not the ledger's key at entry 7" in found.contradicted[0].text


# --- what is refused --------------------------------------------------------------------------------------


def test_a_first_sight_needs_a_person_s_trust(tmp_path, ward):
    with state_of(tmp_path) as state:
        with pytest.raises(ConfigurationError, match="--curator KEY"):
            shown(state, ward.submission(), trusted=None)
        with pytest.raises(ConfigurationError, match="not of the one you named"):
            shown(state, ward.submission(), trusted=key("bern").public)
        assert state.sizes(CURATOR) == []
        shown(state, ward.submission(3))
        assert state.sizes(CURATOR) == [5]


def test_a_curator_does_not_witness_itself():
    ward = Grown(5).rotate("basel 2").grow(1)
    for own in ward.keys:
        with pytest.raises(ConfigurationError, match="own key"):
            shown(MemoryState(own.public), ward.submission(), own=own)


@pytest.mark.parametrize("size", [1, 4, 7])
def test_a_smaller_ledger_is_refused(size):
    ward, state = Grown(8), MemoryState(WITNESS.public)
    shown(state, ward.submission())
    with pytest.raises(CheckpointError, match=f"8 entries of this ledger were co-signed already, .* is of {size}"):
        shown(state, ward.submission(0, size))


def test_another_ledger_of_one_size_is_kept_as_evidence(tmp_path):
    """Also where more was co-signed since."""
    ward = Grown(6)
    with state_of(tmp_path) as state:
        shown(state, ward.submission())
        shown(state, ward.grow(3).submission(6))
        for size in (6, 9, 9):
            other = ward.branch(4, salt=70).grow(size - 4)
            with pytest.raises(EquivocationError, match="proves it to anybody") as caught:
                shown(state, other.submission(6 if size > 6 else 0))
            one, two = read_equivocation(caught.value.evidence.read_bytes(), where="it")
            assert one.checkpoint.size == two.checkpoint.size == size
            assert one.checkpoint.root != two.checkpoint.root
        assert state.sizes(CURATOR) == [6, 9]
        shown(state, ward.grow().submission(9))
    assert len(list((tmp_path / "state" / CURATOR.hex()).glob("equivocation-*.json"))) == 3


def test_a_wrong_proof_is_refused(tmp_path):
    ward = Grown(11)
    with state_of(tmp_path) as state:
        shown(state, ward.submission(0, 5))
        right = ward.submission(5)
        for proof in ((), right.proof[:-1], right.proof[::-1], (*right.proof, bytes(32)), ward.submission(4).proof):
            with pytest.raises(CheckpointError, match="the proof does not show"):
                shown(state, right._replace(proof=proof))
        for old in (0, 4, 6):
            with pytest.raises(ConfigurationError, match="--since 5"):
                shown(state, ward.submission(old))
        edited = ward.branch(4, salt=80).grow(9)
        for proof in (edited.submission(5).proof, ward.submission(5).proof):
            with pytest.raises(CheckpointError, match="rolled back or edited"):
                shown(state, edited.submission(5)._replace(proof=proof))
        assert state.sizes(CURATOR) == [5]
        shown(state, right)


def test_a_clock_that_went_back_signs_nothing():
    ward, state = Grown(5), MemoryState(WITNESS.public)
    shown(state, ward.submission())
    with pytest.raises(ConfigurationError, match="clock"):
        shown(state, ward.grow().submission(5), now=NOW - 1)
    shown(state, ward.submission(5))


def test_curators_do_not_touch_each_other(tmp_path):
    wards = {name: Grown(size, name) for name, size in (("basel", 5), ("bern", 9), ("chur", 2))}
    with state_of(tmp_path) as state:
        for name, ward in wards.items():
            shown(state, ward.submission(), trusted=key(name).public)
        for name, ward in wards.items():
            shown(state, ward.grow().submission(ward.account.next_index - 1), trusted=None)
            assert len(state.sizes(key(name).public)) == 2
        with pytest.raises(CheckpointError, match="10 entries"):
            shown(state, wards["bern"].submission(0, 5), trusted=None)


# --- the state --------------------------------------------------------------------------------------------


def test_a_state_belongs_to_one_process_and_one_key(tmp_path, ward):
    with state_of(tmp_path) as state:
        shown(state, ward.submission())
        with pytest.raises(ConfigurationError, match="another process"), state_of(tmp_path):
            pass
    other = key("registry")
    with state_of(tmp_path, other) as state, pytest.raises(ConfigurationError, match="state of its own"):
        shown(state, ward.grow().submission(5), own=other)
    (tmp_path / "a").write_text("no folder")
    with pytest.raises(ConfigurationError, match="cannot use the folder"), open_state(tmp_path / "a", b""):
        pass


def test_a_state_that_was_changed_is_not_gone_on_with(tmp_path, ward):
    with state_of(tmp_path) as state:
        shown(state, ward.submission())
        shown(state, ward.grow(2).submission(5))
    folder = tmp_path / "state" / CURATOR.hex()
    newest = folder / "000000000000007.checkpoint"
    text = newest.read_text(encoding="utf-8")
    for wrong in (
        text[:-1],
        text.replace("expril/witness", "expril/witless"),
        (folder / "000000000000005.checkpoint").read_text(encoding="utf-8"),
        str(ward.signed().note),
    ):
        newest.write_text(wrong, encoding="utf-8")
        with state_of(tmp_path) as state, pytest.raises((ConfigurationError, CheckpointError)):
            shown(state, ward.grow().submission(7))
        assert len(list(folder.iterdir())) == 2
    newest.write_text(text, encoding="utf-8")
    with state_of(tmp_path) as state:
        shown(state, ward.submission(7))


@pytest.mark.slow
def test_a_witness_that_is_killed_at_any_step_never_contradicts_itself(tmp_path):
    """kill -9 before every call that writes: the repeat gives a co-signature of the same checkpoint, and what any
    process put out is what the state holds."""
    ward, pem = Grown(5), tmp_path / "witness.pem"
    own = run("keys", pem).output.strip()
    steps = 20
    for step in range(steps):
        with open_state(tmp_path / f"state{step}", bytes.fromhex(own)) as state:
            shown(state, ward.submission(), own=read_key(pem), now=0)
    newer = tmp_path / "newer.checkpoint"
    newer.write_text(str(ward.grow(4).submission(5)), encoding="utf-8")
    out = tmp_path / "outSTEP"
    command = ["audit", "witness", newer, "--key", pem, "--state", tmp_path / "stateSTEP", "--out", out]
    done = subprocess.run(
        [sys.executable, PROCESS, str(steps), *map(str, command)], capture_output=True, text=True, check=True
    )
    results = json.loads(done.stdout.splitlines()[-1])
    killed = [killed for killed, _ in results]
    assert killed == sorted(killed, reverse=True)
    assert 12 < sum(killed) < steps, "it is killed at each step, and there are no more"
    assert [status for _, status in results] == [0] * steps
    further = ward.grow().submission(9)
    for step in range(steps):
        with open_state(tmp_path / f"state{step}", bytes.fromhex(own)) as state:
            assert state.sizes(CURATOR) == [5, 9]
            kept, _, at = state.checkpoint(CURATOR, 9)
            shown(state, further, own=read_key(pem), now=at)
        given = read_checkpoint((tmp_path / f"out{step}").read_text(encoding="utf-8"), where="it")
        assert given.note == kept.note
        assert witnesses_of(given) == {bytes.fromhex(own): at}
        assert not list((tmp_path / f"state{step}").rglob(".*")), "no draft is left"


# --- exports against checkpoints --------------------------------------------------------------------------


def text_of(signed, *witnesses):
    for number, own in enumerate(witnesses):
        signed = with_signature(signed, cosign(signed, own, NOW + number))
    return str(signed.note)


def test_entries_are_held_against_checkpoints():
    ward, other = Grown(9), key("registry")
    account = ward.account
    checkpoints = {
        "a": text_of(ward.signed(4), WITNESS),
        "b": text_of(ward.signed(7), WITNESS, other),
        "c": text_of(ward.signed(8)),
        "elsewhere": text_of(Grown(5, "bern").signed(), WITNESS),
        "torn": text_of(ward.signed(5))[:-9],
    }
    found = hold_checkpoints(account.hashes, account.curators, checkpoints)
    assert found.in_order
    assert (found.entries, found.witnessed, found.signed) == (9, 7, 8)
    assert found.witnesses == {WITNESS.public.hex(): 7, other.public.hex(): 7}
    assert [name for name, _ in found.unverified] == ["elsewhere", "torn"]
    assert hold_checkpoints(account.hashes, account.curators, checkpoints, witnesses=[]).witnessed == 0
    trusted = hold_checkpoints(account.hashes, account.curators, checkpoints, witnesses=[other.public])
    assert trusted.witnesses == {other.public.hex(): 7}
    assert hold_checkpoints(account.hashes, account.curators, {}).witnessed == 0
    assert hold_checkpoints([], [], checkpoints).unverified
    itself = {"a": text_of(ward.signed(4), ward.keys[0])}
    assert hold_checkpoints(account.hashes, account.curators, itself).witnessed == 0, (
        "a curator does not witness itself"
    )


def test_a_rollback_an_edit_and_an_equivocation_are_named_with_their_places():
    ward = Grown(9)
    account = ward.account
    checkpoints = {"a": text_of(ward.signed(4), WITNESS), "b": text_of(ward.signed(8), WITNESS)}
    rolled = hold_checkpoints(account.hashes[:6], account.curators, checkpoints)
    (missing,) = rolled.contradicted
    assert (missing.name, missing.size, missing.first, missing.last, missing.co_signed) == ("b", 8, 4, 6, True)
    assert "entries from 6 to 7 are missing" in missing.text
    edited = ward.branch(5, salt=60).grow(6)
    found = hold_checkpoints(edited.account.hashes, edited.account.curators, checkpoints)
    assert [(each.first, each.last) for each in found.contradicted] == [(4, 7)]
    assert found.witnessed == 4
    assert not found.in_order
    both = checkpoints | {"x": text_of(edited.signed(8), key("registry"))}
    forked = hold_checkpoints(edited.account.hashes, edited.account.curators, both)
    assert forked.equivocations == (("b", "x", 8),)
    assert forked.witnessed == 8
    assert [each.name for each in forked.contradicted] == ["b"]


@pytest.mark.family(2)
@pytest.mark.parametrize("lie", [HONEST, *LIES])
def test_no_open_lie_of_an_invented_history_is_missed(lie):
    """Nothing here is left to chance but which histories are drawn: each is decided as it truly is."""
    outcomes = [play(seed, lie) for seed in range(34)]
    for seed, outcome in enumerate(outcomes):
        assert outcome.found == outcome.contradicted, seed
        assert (outcome.signed_wrongly, outcome.refused_wrongly, outcome.misplaced) == (0, 0, 0), seed
    assert sum(outcome.shown for outcome in outcomes) > 34
    assert any(outcome.found for outcome in outcomes) == (lie != HONEST)


def test_histories_would_show_a_witness_that_is_blind(monkeypatch):
    """Power: one that believes every proof is caught by what is true."""
    monkeypatch.setattr("expril.audit.witness.check_consistency", lambda *_: True)
    assert sum(play(seed, "fork").signed_wrongly for seed in range(34)) > 0


# --- the commands -----------------------------------------------------------------------------------------


def serve(path, pem, number):
    ledger = open_ledger_file(path, read_key(pem))
    ledger.begin(TERMS, NOW)
    halted = ledger.account.halted
    if not halted:
        spend(ledger, number, learner=key("ann").public)
        ledger.settle()
    ledger.close()
    return halted


def words(result):
    return " ".join(result.output.split())


@pytest.mark.slow
def test_a_steward_and_a_witness_by_their_commands(tmp_path):
    path, pem = ledger_and_key(tmp_path, studies=2)
    own, owner = tmp_path / "witness.pem", read_key(pem).public.hex()
    witness_key = run("keys", own).output.strip()
    first, second, out = (tmp_path / name for name in ("1.checkpoint", "2.checkpoint", "co-signed"))
    common = ("--key", own, "--state", tmp_path / "state")
    assert "10 entries; head" in words(run("ledger", "checkpoint", path, "--key", pem, "--out", first))
    assert "never overwritten" in words(run("ledger", "checkpoint", path, "--key", pem, "--out", first, code=2))
    assert f"curator {owner}" in words(run("audit", "witness", first, *common, code=2))
    assert "64 hexadecimal" in words(run("audit", "witness", first, *common, "--curator", "ab", code=2))
    text = run("audit", "witness", first, *common, "--curator", owner).output
    assert witnesses_of(read_checkpoint(text, where="it")).keys() == {bytes.fromhex(witness_key)}
    assert run("audit", "witness", first, *common, "--out", out).output.count("co-signed") == 2
    assert out.read_text(encoding="utf-8") == text
    serve(path, pem, 3)
    told = json.loads(run("ledger", "checkpoint", path, "--key", pem, "--out", second, "--since", out, "--json").output)
    assert (told["entries"], told["since"], told["mark"], told["curator"]) == (15, 10, True, owner)
    told = json.loads(run("audit", "witness", second, *common, "--json").output)
    assert told["co_signed"]
    assert (told["entries"], told["witness"]) == (15, witness_key)
    refused = run("audit", "witness", first.rename(tmp_path / "old"), *common, "--out", out)
    assert "10 entries" in refused.output, "what was co-signed once is given again"
    small = tmp_path / "small"
    assert "fewer than the 99" in words(
        run("ledger", "checkpoint", path, "--key", pem, "--out", small, "--since", "99", code=1)
    )
    assert not small.exists()


def test_a_refusal_of_the_witness_has_status_1_and_evidence_stands_by_itself(tmp_path):
    ward, own = Grown(6), tmp_path / "witness.pem"
    run("keys", own)
    files = {}
    for name, submission in (
        ("first", ward.submission()),
        ("other", ward.branch(3, salt=40).grow(3).submission()),
        ("smaller", ward.submission(0, 4)),
        ("unsigned", str(ward.submission()).replace("\n6\n", "\n7\n")),
        ("torn", str(ward.submission())[:-20]),
    ):
        files[name] = tmp_path / name
        files[name].write_text(str(submission), encoding="utf-8")
    common = ("--key", own, "--state", tmp_path / "state")
    run("audit", "witness", files["first"], *common, "--curator", CURATOR.hex())
    assert "older one" in words(run("audit", "witness", files["smaller"], *common, code=1))
    assert "is not signed by" in words(run("audit", "witness", files["unsigned"], *common, code=1))
    run("audit", "witness", files["torn"], *common, code=2)
    run("audit", "witness", tmp_path / "none", *common, code=2)
    result = run("audit", "witness", files["other"], *common, "--json", code=1)
    told = json.loads(result.stdout)
    assert not told["co_signed"]
    assert "two different ledgers of 6 entries" in told["refused"]
    assert "proven: the curator" in words(run("audit", "evidence", told["evidence"]))
    Path(told["evidence"]).write_text(Path(told["evidence"]).read_text().replace("\\n6\\n", "\\n5\\n"))
    run("audit", "evidence", told["evidence"], code=1)
    run("audit", "evidence", files["first"], code=2)


def test_a_ledger_that_was_rolled_back_is_not_signed_for(tmp_path):
    path, pem = ledger_and_key(tmp_path, studies=1)
    older, again = tmp_path / "older", ("ledger", "checkpoint", path, "--key", pem, "--out", tmp_path / "new")
    run("ledger", "backup", path, tmp_path / "copy")
    serve(path, pem, 2)
    run("ledger", "checkpoint", path, "--key", pem, "--out", older)
    shutil.copyfile(path, tmp_path / "kept")
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    shutil.copyfile(tmp_path / "copy", path)
    assert "lacks entry" in words(run(*again, code=1))
    (tmp_path / "ward.mark").rename(tmp_path / "elsewhere")
    assert "lacks entry" in words(run(*again, "--mark", tmp_path / "elsewhere", code=1))
    assert "was rolled back or edited" in words(run(*again, "--since", older, code=1))
    assert "no mark was at hand" in words(run(*again))
    (tmp_path / "new").unlink()
    (tmp_path / "ward.mark").write_bytes(bytes(9000))
    assert "or damaged" in words(run(*again, code=1))
    (tmp_path / "elsewhere").rename(tmp_path / "ward.mark")
    assert serve(path, pem, 3)
    assert "is halted" in words(run(*again, code=1))
    run("keys", tmp_path / "other.pem")
    assert "another curator" in words(run(*again[:3], "--key", tmp_path / "other.pem", "--out", tmp_path / "x", code=2))
    assert "cannot read the mark" in words(run(*again, "--mark", tmp_path / "none", code=2))


def test_a_checkpoint_after_a_change_of_the_curator_s_key(tmp_path):
    folder, first, second = tmp_path / "ward", tmp_path / "1", tmp_path / "2"
    rows = [("p1", 1.0, 0.0, "f", "no")]
    create_site(folder, policy=toml(policy()), schema=toml(steward_file()), records=frame_of(rows), clock=Clock())
    own = tmp_path / "witness.pem"
    run("keys", own)
    common = ("--key", own, "--state", tmp_path / "state")
    ledger, pem = folder / "curator.ledger", folder / "curator.pem"
    owner = read_key(pem).public.hex()
    run("ledger", "checkpoint", ledger, "--key", pem, "--out", first)
    run("audit", "witness", first, *common, "--curator", owner)
    rotate(folder)
    assert read_key(pem).public.hex() != owner
    run("ledger", "checkpoint", ledger, "--key", pem, "--out", second, "--since", first)
    told = json.loads(run("audit", "witness", second, *common, "--json").output)
    assert told["curator"] == owner
