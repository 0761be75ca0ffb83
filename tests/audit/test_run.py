"""An auditor's view of a run's folder: an honest run is proven, and every attack that was ever tried is named."""

import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from fractions import Fraction
from types import SimpleNamespace

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from absent import in_one_process
from curator_node.ledger import Caps, Reservation
from curator_node.ledger.checks import check
from curator_node.ledger.exports import export_ledger
from curator_node.ledger.places import create_ledger_file, open_ledger_file, read_ledger_file
from curator_node.ledger.store import DatabaseStore, read_only_url
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.recompute import read_pins, recompute
from expril.audit.recompute.losses import rounded_up
from expril.audit.recompute.runs import read_ledger
from expril.audit.recompute.sums import UnitSum
from expril.audit.recompute.verdicts import HELD, IN_PART, NO_LEDGER, NOT_PROVEN, PROVEN, REFUSED, RunProof
from expril.audit.tables import sum_table
from expril.commands.app import app
from histories import History, a_study
from protocol.envelopes import SigningKey, digest
from protocol.errors import ConfigurationError
from protocol.ledger.entries import EntryKind
from protocol.ledger.exports import encode_export
from protocol.rationals import parse_amount
from protocol.run_index import DOMAIN, INDEX, LEDGERS, SIGNATURES, TRANSCRIPTS
from run_forger import Forger, make_run
from trees import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """An honest run of two repeats, and its learners' keys."""
    return make_run(tmp_path_factory.mktemp("honest"), repeats=2)


@pytest.fixture(scope="module")
def other(honest_run):
    """Another honest run of the same scenario."""
    return honest_run


@pytest.fixture
def forger(finished, tmp_path):
    return Forger(finished[0], tmp_path / "copy")


def proof_of(folder):
    """What is found of one run."""
    (proof,) = recompute(folder).runs
    return proof


def said(proof):
    return "\n".join(proof.wrong)


def audit(*arguments, code):
    result = CliRunner().invoke(app, ["audit", "run", *map(str, arguments)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def snapshot(folder):
    return {
        path.relative_to(folder): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in [folder, *folder.rglob("*")]
    }


# An honest run


def test_an_honest_run_is_proven_and_what_is_left_open_is_said(finished):
    proof = proof_of(finished[0])
    assert proof.wrong == []
    verdicts = {(one.entry.repeat, one.entry.learner, one.entry.curator): one for one in proof.transcripts}
    assert len(verdicts) == 16
    assert verdicts[0, "ada", "north"].verdict == PROVEN
    assert verdicts[0, "grace", "west"].verdict == REFUSED
    vanished = verdicts[0, "grace", "east"]
    assert vanished.verdict == IN_PART
    assert "query 2 was never answered and may have cost 1/3" in vanished.unproven[0]
    assert "by the curator's ledger it was charged 1/3 in all" in vanished.unproven[0]
    assert "ledger" not in verdicts[1, "grace", "east"].unproven[0]
    assert {one.ledger for key, one in verdicts.items() if key[0] == 0} == {HELD}
    assert {one.ledger for key, one in verdicts.items() if key[0] == 1} == {NO_LEDGER}
    assert {one.entry.curator: (one.verdict, one.spent) for one in proof.ledgers} == {
        "north": (PROVEN, Fraction(3, 2)),
        "east": (PROVEN, Fraction(5, 6)),
        "south": (PROVEN, Fraction(3, 2)),
        "west": (PROVEN, Fraction(1, 2)),
    }
    assert any("keys not pinned" in text for text in proof.remarks)
    assert any("8 transcripts have no ledger" in text for text in proof.remarks)


def test_every_file_but_the_page_is_in_the_signed_list(finished):
    folder, run = finished
    index = json.loads((folder / TRANSCRIPTS / INDEX).read_bytes())
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there - index["files"].keys() == {"report.html", "transcripts/index.json", "transcripts/signatures.json"}
    assert not [name for name in there if name.endswith(("-wal", "-shm", "-journal"))]
    assert all(digest((folder / name).read_bytes()).hex() == told for name, told in index["files"].items())
    signed = json.loads((folder / TRANSCRIPTS / SIGNATURES).read_bytes())
    assert {one["learner"]: one["key"] for one in signed} == {
        name: key.public.hex() for name, key in run.signers.items()
    }


def test_a_learner_keeps_its_key_and_a_curator_has_one_a_repeat(finished):
    index = proof_of(finished[0]).index
    keys = index.keys()
    for name in index.names("learner"):
        assert keys["learner", name, 0] == keys["learner", name, 1]
    for name in index.names("curator"):
        assert keys["curator", name, 0] != keys["curator", name, 1]


@pytest.mark.slow
def test_exit_codes(finished, forger, tmp_path):
    assert "not proven" not in audit(finished[0], code=0).output.lower()
    forger.path("00000.msgpack").unlink()
    assert "00000.msgpack is missing" in audit(forger.folder, code=1).output
    assert "holds no run" in audit(tmp_path / "nowhere", code=2).output
    both = audit(tmp_path / "nowhere", finished[0], forger.folder, code=1).output
    assert "holds no run" in both
    assert "16 transcripts" in both


def test_json_for_machines(finished, forger):
    told = json.loads(audit(finished[0], "--json", code=0).stdout)
    assert told["unread"] == []
    (run,) = told["runs"]
    assert (run["proven"], run["complaints"]) == (True, [])
    north = next(one for one in run["transcripts"] if (one["curator"], one["learner"]) == ("north", "grace"))
    assert (north["claimed"], north["spent"], north["at_most"], north["releases"]) == ("1", "1", "1", 3)
    assert [one["spent"] for one in run["ledgers"]] == ["3/2", "5/6", "3/2", "1/2"]
    (forger.folder / LEDGERS / "north.ledger").write_bytes(b"x")
    told = json.loads(audit(forger.folder, "--json", code=1).stdout)
    assert told["runs"][0]["proven"] is False


def test_sums_are_in_the_order_of_repeats_curators_and_learners_and_say_which(finished):
    result = recompute(finished[0])
    rows = [(one.curator, one.learner) for one in result.sums if not one.version]
    second = [row for row in rows if row[0].endswith("repeat 1")]
    assert rows[len(rows) - len(second) :] == second
    order = ("north", "east", "south", "west")
    assert list(dict.fromkeys(curator for curator, _ in second)) == [f"{name}, repeat 1" for name in order]
    assert [who for curator, who in second if curator.startswith("north")] == ["ada", "grace", ""]
    lines = [line for line in sum_table(result).note.splitlines() if " at one curator at most" in line]
    assert lines
    assert all(line.startswith(f"{finished[0]}, repeat ") for line in lines)


def test_worlds_that_say_the_same_are_told_as_ranges():
    alike = [
        UnitSum("patient", f"runs/x, repeat {n}", ("a", "b"), Fraction(3, 10), Fraction(3, 5)) for n in (0, 1, 2, 5)
    ]
    other = UnitSum("patient", "runs/x, repeat 3", ("a", "b"), Fraction(1, 10), Fraction(1, 5))
    note = sum_table(SimpleNamespace(sums=[], units=[*alike, other])).note
    assert note.splitlines() == [
        "runs/x, repeat 0 to 2, 5: patient, all learners: 0.3 at one curator at most, 0.6 over all 2",
        "runs/x, repeat 3: patient, all learners: 0.1 at one curator at most, 0.2 over all 2",
    ]


def test_the_sums_are_exact_by_curator_learner_and_unit(finished):
    result = recompute(finished[0])
    found = {(one.curator, one.learner): one for one in result.sums if not one.version}
    assert {key: str(one.spent) for key, one in found.items() if key[0].endswith("repeat 0")} == {
        ("north, repeat 0", "ada"): "1/2",
        ("north, repeat 0", "grace"): "1",
        ("north, repeat 0", ""): "3/2",
        ("east, repeat 0", "ada"): "1/2",
        ("east, repeat 0", "grace"): "1/3",
        ("east, repeat 0", ""): "5/6",
        ("south, repeat 0", "ada"): "1/2",
        ("south, repeat 0", "grace"): "1",
        ("south, repeat 0", ""): "3/2",
        ("west, repeat 0", "ada"): "1/2",
        ("west, repeat 0", ""): "1/2",
    }
    without = found["east, repeat 1", "grace"]
    assert (without.claimed, without.spent, without.at_most) == (1, Fraction(1, 3), 1), (
        "what came after its last envelope is not known"
    )
    for one in found.values():
        assert (one.loss is None) == (one.plans == 0)
        assert one.loss is None or one.loss.epsilon <= float(one.claimed) + 1e-12
    east, north = (found[f"{name}, repeat 0", "grace"].loss.epsilon for name in ("east", "north"))
    assert east == rounded_up(Fraction(1, 3)) < north, "never above what was charged of a plan that ended early"
    assert {(str(one.apart), str(one.shared)) for one in result.units} == {("3/2", "13/3"), ("3/2", "5")}


@pytest.mark.slow
def test_without_the_library_all_but_epsilon_delta_is_computed(finished):
    (told,), _ = in_one_process(["audit", "run", finished[0], "--json"], blocked=("dp_accounting",))
    code, output, _ = told
    assert code == 0
    found = json.loads(output)
    assert any("expril[audit]" in text for text in found["unproven"])
    assert all(one["loss"] is None for one in found["sums"])
    assert {one["spent"] for one in found["sums"]} == {"1/2", "1/3", "5/6", "1", "3/2", "0"}


def test_receipts_in_a_run_are_held_against_an_export_that_is_given_beside_it(finished, tmp_path):
    """What a learner's folder holds finds a ledger that was rolled back, wherever the ledger comes from."""
    with read_ledger_file(finished[0] / LEDGERS / "north.ledger", log=False) as store:
        pairs = [(row.body, row.signature) for row in store.rows(0)]
        replies = [(request, digest(store.reply(request))) for request in store.replied()]
        whole = export_ledger(store)
    (tmp_path / "whole.export").write_bytes(whole)
    result = recompute(finished[0], tmp_path / "whole.export", delta=None)
    assert result.wrong == []
    *_, export = result.ledgers
    assert (export.curator, export.sums) == ("north, repeat 0", []), "it is counted once"
    (tmp_path / "older.export").write_bytes(encode_export(pairs[:-6], replies))
    wrong = recompute(finished[0], tmp_path / "older.export", delta=None).wrong
    assert any("older.export: it lacks the entry that a receipt in" in text for text in wrong)
    assert "rolled back" in audit(finished[0], tmp_path / "older.export", code=1).output


def test_cards_of_other_curators_say_nothing_of_a_ledger(finished, tmp_path):
    """The run's curators count one record of each unit; a stranger's ledger counts three."""
    history = History(3)
    a_study(history)
    (tmp_path / "other.export").write_bytes(history.export())
    result = recompute(finished[0], tmp_path / "other.export", delta=None)
    assert result.wrong == []
    assert [one.audit.bounds.bound for one in result.ledgers] == [1, 1, 1, 1, 3]


def test_the_older_name_is_the_same_command_and_is_not_told():
    commands = typer.main.get_command(app).commands
    older, newer = commands["verify"], commands["audit"].commands["run"]
    assert older.callback.__wrapped__ is newer.callback.__wrapped__
    assert older.hidden


def test_nothing_is_written_beside_the_evidence(finished):
    before = snapshot(finished[0])
    audit(finished[0], code=0)
    assert snapshot(finished[0]) == before


def test_a_folder_that_may_not_be_written_is_verified(forger):
    paths = [forger.folder, *forger.folder.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert proof_of(forger.folder).proven
    finally:
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)


ODD = {
    "a steward halts": ['kind = "vanish"', 'kind = "refuse"'],
    "vanished at the proposal": ["round = 2", "round = 0"],
    "an acceptance that is late": ["round = 1", "round = 0"],
    "nobody answers": [
        'curator = "east"\nkind = "vanish"\nround = 2',
        "\n[[faults]]\n".join(
            f'curator = "{name}"\nkind = "vanish"\nround = 1' for name in ("east", "south", "west", "north")
        ),
    ],
    "a learner with the name of a curator": ['name = "grace"', 'name = "north"'],
    "a learner that asks two": ['name = "grace"', 'name = "grace"\ncurators = ["south", "east"]'],
    "noise from a seed": ["repeats = 3", "repeats = 3\nnoise_seed = 3"],
    "a model a site": ['name = "ada"', 'name = "ada"\npooling = "site"'],
    "three learners of one budget": [
        "[[faults]]",
        '[[learners]]\nname = "mary"\nepsilon = "1/4"\noptions = { networks = false }\n[[faults]]',
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
def test_an_odd_but_honest_run_is_no_false_alarm(change, tmp_path):
    folder, _ = make_run(tmp_path, repeats=2, change=change)
    proof = proof_of(folder)
    assert proof.wrong == []
    charged = sum(one.spent for one in proof.ledgers)
    first = [one.proof for one in proof.transcripts if one.entry.repeat == 0]
    shown, most = sum(one.epsilon_spent for one in first), sum(one.epsilon_at_most for one in first)
    assert charged == shown if all(one.verdict == PROVEN for one in proof.ledgers) else shown < charged <= most


@pytest.mark.slow
def test_a_charge_whose_answer_was_lost_is_said_to_rest_on_the_curators_word(tmp_path):
    """North answers, its answer is lost, and it never replies again."""
    folder, _ = make_run(tmp_path, repeats=1, change=ODD["nobody answers"])
    proof = proof_of(folder)
    assert proof.wrong == []
    (north,) = [one for one in proof.ledgers if one.entry.curator == "north"]
    assert north.verdict == IN_PART
    assert re.search(r"entry \d+ \(charge of 1/2\) was answered, and the answer is not in 00000", north.unproven[0])
    own = next(one for one in proof.transcripts if (one.entry.learner, one.entry.curator) == ("ada", "north"))
    assert (own.proof.epsilon_spent, own.proof.epsilon_at_most) == (0, Fraction(1, 2))
    assert "by the curator's ledger it was charged 1/2 in all" in own.unproven[0]
    audit(folder, code=0)


# The attacks: each is a function of a forger, and what must be said even where all learners sign what was forged


def remove_a_transcript_and_its_line(forger):
    forger.remove(forger.transcripts(repeat=0, learner="grace", curator="north"))


def remove_all_of_one_learner(forger):
    forger.remove(forger.transcripts(learner="grace"))
    forger.index["participants"] = [one for one in forger.index["participants"] if one["name"] != "grace"]

    def without(told):
        told["learners"] = [one for one in told["learners"] if one["learner"] != "grace"]
        for curator in told["curators"]:
            curator["spent_by_round"] = [one for one in curator["spent_by_round"] if one["learner"] != "grace"]

    forger.report(without)


def rebuild_a_ledger_at_a_hundredth(forger):
    """North's, under a new key since nobody has north's, without the transcripts that know better."""
    path, key = forger.folder / LEDGERS / "north.ledger", SigningKey.generate()
    store = DatabaseStore(read_only_url(path))
    checked = check(store)
    store.close()
    path.unlink()
    path.with_suffix(".mark").unlink()
    create_ledger_file(path, key, now=0)
    ledger = open_ledger_file(path, key)
    ledger.begin(checked.account.terms, 0)
    for number, study in enumerate(checked.account.studies.values()):
        costs = tuple(cost / 100 for cost in study.costs)
        caps = Caps(Fraction(9), Fraction(9))
        ledger.reserve(Reservation(study.key, study.plan, costs, digest(bytes([number])), 10**6), caps, 0)
        for sequence, cost in enumerate(costs, start=1):
            request = digest(bytes([number, sequence]))
            ledger.charge(study.key, sequence, cost, request, 0)
            ledger.answer(request, lambda owed: b"reply", 0)
    line = next(one for one in forger.index["ledgers"] if one["curator"] == "north")
    line |= {"key": key.public.hex(), "head": ledger.account.head.hex(), "entries": ledger.account.next_index}
    ledger.close()
    for one in forger.index["participants"]:
        if (one["name"], one["repeat"]) == ("north", 0):
            one["key"] = key.public.hex()
    forger.remove(forger.transcripts(repeat=0, curator="north"))


def empty_the_index(forger):
    forger.remove(list(forger.index["transcripts"]))
    forger.index["participants"] = []
    forger.index["ledgers"] = []


def transcript_ends_at(end):
    """An attack: the transcript of grace with south is cut off."""

    def attack(forger):
        (line,) = forger.transcripts(repeat=0, learner="grace", curator="south")
        forger.rewrite(line, forger.envelopes(line)[:end])

    attack.__name__ = f"transcript_ends_at_{end}"
    return attack


def remove_the_ledgers_folder(forger):
    shutil.rmtree(forger.folder / LEDGERS)
    forger.index["ledgers"] = []


def lower_a_cap_under_what_was_spent(forger):
    path = forger.folder / LEDGERS / "east.policy.toml"
    text = path.read_text()
    assert "cap = 2\n" in text
    path.write_text(text.replace("cap = 2\n", 'cap = "1/4"\n'))


def report_says(value, *place):
    """An attack: the report says `value` at a place."""

    def attack(forger):
        def change(told):
            *path, last = place
            for key in path:
                told = told[key]
            told[last] = value

        forger.report(change)

    attack.__name__ = f"report_says_{value}_of_{place[-1]}"
    return attack


SPENT = report_says("1/10", "learners", 1, "epsilon_spent")


def take_a_transcript_of_another_repeat(forger):
    (line,) = forger.transcripts(repeat=0, learner="grace", curator="south")
    (strange,) = forger.transcripts(repeat=1, learner="grace", curator="south")
    forger.rewrite(line, forger.envelopes(strange))


def tell_one_study_twice(forger):
    """Repeat 1 becomes a copy of repeat 0, so that a cheap repeat hides a dear one."""
    take = {(one["learner"], one["curator"]): one for one in forger.transcripts(repeat=0)}
    for line in forger.transcripts(repeat=1):
        forger.rewrite(line, forger.envelopes(take[line["learner"], line["curator"]]))
    keys = {(one["role"], one["name"]): one["key"] for one in forger.index["participants"] if one["repeat"] == 0}
    for one in forger.index["participants"]:
        one["key"] = keys[one["role"], one["name"]]


def swap_two_ledgers(forger):
    north, south = (forger.folder / LEDGERS / f"{name}.ledger" for name in ("north", "south"))
    kept = north.read_bytes()
    north.write_bytes(south.read_bytes())
    south.write_bytes(kept)


def truncate_a_ledger(forger):
    """The last charge and all after it are gone; each entry left is still signed."""
    path = forger.folder / LEDGERS / "north.ledger"
    with sqlite3.connect(path) as connection:
        (last,) = connection.execute("select max(entry_index) from entries").fetchone()
        connection.execute("delete from entries where entry_index > ?", (last - 4,))
    connection.close()
    line = next(one for one in forger.index["ledgers"] if one["curator"] == "north")
    store = DatabaseStore(read_only_url(path))
    account = check(store).account
    store.close()
    line |= {"head": account.head.hex(), "entries": account.next_index}


ATTACKS = {
    remove_a_transcript_and_its_line: "it charges 1 to study .* of learner grace, of which the run has no transcript",
    remove_all_of_one_learner: "of a learner that the run does not list .*, of which the run has no transcript",
    rebuild_a_ledger_at_a_hundredth: "it charges 1/100 to study .* of learner grace, of which the run has no",
    empty_the_index: "names no transcript: it proves nothing",
    transcript_ends_at(3): r"its entry \d+ \(charge of 1/3\) was made by a request that .* lacks",
    transcript_ends_at(0): "it charges 1 to study .* of learner grace, of which the run has no transcript",
    transcript_ends_at(-4): r"was made by a request that .* lacks",
    remove_the_ledgers_folder: "the run has no policy of north",
    lower_a_cap_under_what_was_spent: "its cap is 1/4, its ledger spent 5/6",
    SPENT: "grace spent 1/10, transcripts and ledgers prove 1",
    report_says("1/10", "learners", 1, "epsilon_claimed"): "grace claimed 1/10, its plans cost 1",
    report_says(
        "999/1000", "curators", 0, "spent_by_round", -1, "spent"
    ): "the budget of north over time is not its ledger's",
    report_says(True, "seeded_noise"): "whether the noise came from a seed",
    report_says("patient", "curators", 0, "private_unit"): "north protects patient, by its card record",
    report_says("1", "curators", 0, "cap"): "north has a cap of 1, its policy of 2",
    take_a_transcript_of_another_repeat: "bad_signature|for somebody else",
    tell_one_study_twice: "tell one and the same study",
    swap_two_ledgers: "opened by another key",
    truncate_a_ledger: "the curator's ledger holds no entry for, although a receipt says so",
}
IDS = [attack.__name__ for attack in ATTACKS]
QUICK = {rebuild_a_ledger_at_a_hundredth, SPENT, swap_two_ledgers}
SOME = [attack if attack in QUICK else pytest.param(attack, marks=pytest.mark.slow) for attack in ATTACKS]


@pytest.mark.family(1)
@pytest.mark.parametrize("attack", SOME, ids=IDS)
def test_attack_without_touching_the_list(attack, forger):
    """The list still says what there was."""
    attack(forger)
    assert not proof_of(forger.folder).proven
    audit(forger.folder, code=1)


@pytest.mark.family(1)
@pytest.mark.parametrize("attack", SOME, ids=IDS)
def test_attack_with_a_list_that_was_made_to_fit(attack, forger):
    """Every digest and head is recomputed, but nobody can sign: that is the first thing said."""
    attack(forger)
    forger.relist()
    proof = proof_of(forger.folder)
    assert "signature of learner" in proof.wrong[0] or "names no learner" in proof.wrong[0]
    audit(forger.folder, code=1)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=IDS)
def test_attack_with_a_fitting_list_and_no_signatures(attack, forger):
    attack(forger)
    forger.path(SIGNATURES).unlink()
    forger.relist()
    proof = proof_of(forger.folder)
    assert "vouches for" in proof.wrong[0]
    audit(forger.folder, code=1)


@pytest.mark.slow
@pytest.mark.parametrize(("attack", "complaint"), ATTACKS.items(), ids=IDS)
def test_attack_signed_by_all_learners(attack, complaint, forger, finished):
    """What curators signed and what transcripts prove contradicts the forgery even where every learner helps."""
    attack(forger)
    there = {one["name"] for one in forger.index["participants"]}
    forger.relist({name: key for name, key in finished[1].signers.items() if name in there})
    proof = proof_of(forger.folder)
    assert not any("signature" in text for text in proof.complaints)
    found = re.search(complaint, said(proof))
    assert found, said(proof)
    audit(forger.folder, code=1)


def test_dropped_signatures_are_named(forger):
    forger.path(SIGNATURES).unlink()
    assert proof_of(forger.folder).wrong == [
        f"{SIGNATURES} is missing: no learner vouches for {INDEX}; anybody may have written it"
    ]


@pytest.mark.parametrize("name", ["ada", "grace"])
def test_one_learner_that_did_not_sign_is_named(name, forger, finished):
    signers = {other: key for other, key in finished[1].signers.items() if other != name}
    forger.relist(signers)
    assert proof_of(forger.folder).wrong == [f"{INDEX} is not signed by learner {name}"]


def test_signatures_by_other_keys_are_named(forger):
    strangers = {name: SigningKey.generate() for name in ("ada", "grace")}
    forger.relist(strangers)
    assert "is not signed by learner ada" in said(proof_of(forger.folder))
    for one in forger.index["participants"]:
        if one["name"] in strangers:
            one["key"] = strangers[one["name"]].public.hex()
    forger.relist(strangers)
    proof = proof_of(forger.folder)
    assert proof.complaints == [one for one in proof.complaints if "signature" not in one]
    assert all(one.verdict == NOT_PROVEN for one in proof.transcripts)


def test_a_signature_of_something_else_is_none(forger, finished):
    """A learner's signature over the same bytes without the list's own label does not count."""
    data = forger.path(INDEX).read_bytes()
    for prefix in (b"", DOMAIN[:-1], b"expril/2 ledger head"):
        signed = [
            {"learner": name, "key": key.public.hex(), "signature": key.sign(prefix + data).hex()}
            for name, key in finished[1].signers.items()
        ]
        forger.path(SIGNATURES).write_bytes(msgspec.json.format(msgspec.json.encode(signed), indent=1))
        assert "does not fit" in proof_of(forger.folder).wrong[0]


@pytest.mark.slow
def test_transcripts_of_another_run_with_its_own_signed_list(forger, other):
    shutil.rmtree(forger.folder / TRANSCRIPTS)
    shutil.copytree(other[0] / TRANSCRIPTS, forger.folder / TRANSCRIPTS)
    text = said(proof_of(forger.folder))
    assert "report.json was changed" in text
    assert "north.ledger was changed" in text
    assert "opened by another key" in text
    audit(forger.folder, code=1)


@pytest.mark.slow
def test_a_transcript_of_another_run(forger, finished, other):
    theirs = Forger(other[0], forger.folder.with_name("theirs"))
    (line,) = forger.transcripts(repeat=0, learner="ada", curator="north")
    (strange,) = theirs.transcripts(repeat=0, learner="ada", curator="north")
    forger.rewrite(line, theirs.envelopes(strange))
    forger.relist(finished[1].signers)
    text = said(proof_of(forger.folder))
    assert "bad_signature" in text
    assert "of learner ada, of which the run has no transcript that proves it" in text


def test_a_run_whose_ledgers_were_dropped_is_not_proven(forger, finished):
    """All learners agree that none was kept: its curators and what it tells of their budgets say otherwise."""
    for path in (forger.folder / LEDGERS).glob("*.ledger"):
        path.unlink()
    forger.index["ledgers"] = []
    forger.relist(finished[1].signers)
    proof = proof_of(forger.folder)
    for name in ("north", "east", "south", "west"):
        assert f"the run's list names no ledger of {name}" in said(proof)
    assert proof.ledgers == []
    assert {one.ledger for one in proof.transcripts} == {NO_LEDGER}
    assert any("16 transcripts have no ledger kept" in text for text in proof.remarks)


def test_one_damaged_ledger_fails_its_curator_only(forger):
    path = forger.folder / LEDGERS / "north.ledger"
    data = bytearray(path.read_bytes())
    data[4096 * 2 : 4096 * 4] = bytes(4096 * 2)
    path.write_bytes(bytes(data))
    proof = proof_of(forger.folder)
    assert [one.entry.curator for one in proof.ledgers if one.verdict == NOT_PROVEN] == ["north"]
    assert {one.entry.curator for one in proof.transcripts if one.ledger == NOT_PROVEN} == {"north"}
    assert not [one for one in proof.transcripts if one.verdict == NOT_PROVEN]


def test_a_log_beside_a_ledger_is_named_and_not_read(forger):
    """SQLite would read it: what it says would then not be what the list's digest is of."""
    wal = forger.folder / LEDGERS / "north.ledger-wal"
    wal.write_bytes(bytes(4096))
    proof = proof_of(forger.folder)
    assert proof.wrong == ["ledgers/north.ledger-wal is not in the run's list"]
    assert wal.read_bytes() == bytes(4096)


def test_a_file_elsewhere_that_nobody_listed_is_a_remark(forger):
    (forger.folder / "notes.txt").write_text("of the auditor")
    proof = proof_of(forger.folder)
    assert proof.proven
    assert any("notes.txt is not in the run's list" in text for text in proof.remarks)


def test_a_listed_file_outside_of_the_folder_is_never_read(forger):
    forger.index["files"]["../outside"] = "0" * 64
    forger.index["transcripts"][0]["file"] = "../../outside"
    forger.save_list()
    assert "nothing in this folder is proven" in said(proof_of(forger.folder))
    (forger.folder.with_name("outside")).write_text("x")
    forger.index["transcripts"][0]["file"] = "00000.msgpack"
    forger.save_list()
    assert "../outside is missing" in said(proof_of(forger.folder))


def test_a_link_in_place_of_a_file_is_named(forger, finished):
    path = forger.folder / LEDGERS / "north.policy.toml"
    path.unlink()
    path.symlink_to(finished[0] / LEDGERS / "north.policy.toml")
    assert "ledgers/north.policy.toml is no plain file" in said(proof_of(forger.folder))


# Pinned keys


def pins_of(folder, path, *, leave_out=()):
    index = proof_of(folder).index
    lines = []
    for role in ("curator", "learner"):
        lines.append(f"[{role}s]")
        for name in index.names(role):
            keys = {one.key for one in index.participants if (one.role, one.name) == (role, name)}
            if name not in leave_out:
                lines.append(f"{name} = {json.dumps(sorted(keys) if len(keys) > 1 else keys.pop())}")
    path.write_text("\n".join(lines))
    return path


@pytest.mark.slow
def test_pinned_keys_that_fit(finished, tmp_path):
    pins = pins_of(finished[0], tmp_path / "keys.toml")
    output = audit(finished[0], "--keys", pins, code=0).output
    assert "pinned" not in output
    pins = pins_of(finished[0], tmp_path / "keys.toml", leave_out=("south", "grace"))
    assert "not pinned: the keys of curator south, learner grace" in audit(finished[0], "--keys", pins, code=0).output


def test_a_run_that_is_forged_as_a_whole_fails_pinned_keys(finished, other, tmp_path):
    """Consistent in itself, it can be told from the true one only by keys from elsewhere."""
    pins = pins_of(finished[0], tmp_path / "keys.toml")
    audit(other[0], code=0)
    output = audit(other[0], "--keys", pins, code=1).output
    assert "the key of curator north in repeat 0 is not the pinned one" in output
    assert "the key of learner ada in repeat 0 is not the pinned one" in output


def test_a_pinned_learner_that_the_run_lacks_is_named(finished, tmp_path):
    (tmp_path / "keys.toml").write_text(f'[learners]\nalan = "{"ab" * 32}"\n')
    output = audit(finished[0], "--keys", tmp_path / "keys.toml", code=1).output
    assert "the run lists no learner alan, whose key is pinned" in output


@pytest.mark.parametrize("text", ["", "[learners]\nada = 'xy'", "[learner]\nada = 'xy'", "x = ["])
def test_a_wrong_keys_file_is_a_usage_error(text, finished, tmp_path):
    (tmp_path / "keys.toml").write_text(text)
    assert "keys file" in audit(finished[0], "--keys", tmp_path / "keys.toml", code=2).output


def test_pins_take_one_key_or_several(tmp_path):
    (tmp_path / "k.toml").write_text(f'[curators]\na = "{"ab" * 32}"\nb = ["{"ab" * 32}", "{"cd" * 32}"]\n')
    pins = read_pins(tmp_path / "k.toml")
    assert {name: len(keys) for name, keys in pins.of("curator").items()} == {"a": 1, "b": 2}


@pytest.mark.parametrize("key", ["''", "['']", "'xy'", f"['{'ab' * 32}', '{'AB' * 32}']"])
def test_a_pin_that_is_no_key_is_named(key, tmp_path):
    (tmp_path / "k.toml").write_text(f"[curators]\na = {key}\n")
    with pytest.raises(ConfigurationError, match="is no public key: write its 64 hexadecimal digits"):
        read_pins(tmp_path / "k.toml")


def test_a_keys_file_that_is_empty_ends_the_process_in_order(tmp_path):
    """It died of SIGSEGV when it ended: what msgspec had freed was freed again. The allocator shows that each time."""
    (tmp_path / "k.toml").write_text("")
    code = (
        "import sys; from pathlib import Path; from protocol.errors import ConfigurationError\n"
        "from expril.audit.recompute import read_pins\n"
        "try: read_pins(Path(sys.argv[1]))\n"
        "except ConfigurationError as error: sys.exit(3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "k.toml")],
        env={**os.environ, "PYTHONMALLOC": "debug"},
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 3, done.stderr


# Older runs


def test_a_run_of_the_first_version_is_refused_by_name(forger, finished):
    forger.path(INDEX).write_text("[]")
    output = audit(forger.folder, code=2).output
    assert "is a run of ExPriL 0.1 (version 1 of the protocol)" in output
    assert "verify it with ExPriL 0.1" in output
    assert "ExPriL 0.1" in audit(finished[0], forger.folder, code=2).output


def test_a_list_of_a_later_format_is_refused_by_name(forger):
    forger.index["format"] = 3
    forger.save_list()
    assert "with the ExPriL that wrote it" in audit(forger.folder, code=1).output


def test_a_ledger_of_the_first_version_is_refused_by_name(forger):
    path = forger.folder / LEDGERS / "north.ledger"
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("create table ledger_entries (entry_index integer, body blob)")
    connection.commit()
    connection.close()
    assert "protocol version 1" in said(proof_of(forger.folder))


def test_a_transcript_of_the_first_version_is_refused_by_name(forger):
    (line,) = forger.transcripts(repeat=0, learner="ada", curator="north")
    envelope = {"label": "expril/1", "type": "card_request", "payload": b"", "signature": bytes(64)}
    forger.rewrite(line, [msgspec.msgpack.encode(envelope)])
    assert "verify runs of that time with ExPriL 0.1" in said(proof_of(forger.folder))


# Damage


def listed(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "report.html")


@pytest.mark.slow
def test_every_deleted_file_is_named(other, tmp_path):
    for number, path in enumerate(listed(other[0])):
        copy = tmp_path / str(number)
        shutil.copytree(other[0], copy)
        (copy / path.relative_to(other[0])).unlink()
        proof = proof_of(copy)
        assert path.name in said(proof)


def flip_bytes(folder, copy, paths, draws):
    rng = random.Random(1)
    shutil.copytree(folder, copy)
    for path in paths:
        path = copy / path.relative_to(folder)  # noqa: PLW2901
        kept = path.read_bytes()
        for position in [0, *(rng.randrange(len(kept)) for _ in range(draws))]:
            changed = bytearray(kept)
            changed[position] ^= rng.choice([1, 0x20, 0x80, rng.randrange(1, 256)])
            path.write_bytes(bytes(changed))
            assert path.name in said(proof_of(copy)), (path, position)
        path.write_bytes(kept)
    assert proof_of(copy).proven


@pytest.mark.slow
def test_a_flipped_byte_of_each_kind_of_file_is_named(other, tmp_path):
    """Any byte: the list holds the digest of every file, and is signed as it is, byte by byte."""
    kinds = {
        path.suffixes[-1] + path.parent.name + path.stem[-3:] * (path.suffix == ".json"): path
        for path in listed(other[0])
    }
    assert len(kinds) == 9
    flip_bytes(other[0], tmp_path / "copy", kinds.values(), 1)


@pytest.mark.slow
def test_a_flipped_byte_of_any_file_is_named(other, tmp_path):
    flip_bytes(other[0], tmp_path / "copy", listed(other[0]), 2)


@pytest.mark.slow
def test_damage_behind_a_list_that_fits_is_never_a_traceback(other, tmp_path):
    """Digests are recomputed and all learners sign, so that the damaged bytes themselves are read."""
    rng = random.Random(2)
    forger = Forger(other[0], tmp_path / "copy")
    for path in listed(forger.folder):
        if path.name in (INDEX, SIGNATURES, "metrics.parquet"):
            continue
        kept = path.read_bytes()
        for _ in range(3):
            changed = bytearray(kept)
            for _ in range(rng.randrange(1, 4)):
                changed[rng.randrange(len(kept))] = rng.randrange(256)
            path.write_bytes(bytes(changed[: rng.randrange(len(kept))] if rng.random() < 0.2 else changed))
            try:
                forger.relist(other[1].signers)
            except msgspec.DecodeError:  # the forger itself reads transcripts
                continue
            proof_of(forger.folder)
        path.write_bytes(kept)


@pytest.mark.slow
def test_a_damaged_ledger_is_never_a_traceback(other, tmp_path):
    rng = random.Random(5)
    (tmp_path / LEDGERS).mkdir()
    entry = next(one for one in proof_of(other[0]).index.ledgers if one.curator == "east")
    kept = (other[0] / LEDGERS / entry.file).read_bytes()
    used = [position for position, byte in enumerate(kept) if byte]
    caught = 0
    for _ in range(400):
        changed = bytearray(kept)
        changed[rng.choice(used)] ^= rng.randrange(1, 256)
        (tmp_path / LEDGERS / entry.file).write_bytes(bytes(changed))
        caught += read_ledger(RunProof(tmp_path), entry, kinds=AUDITED_KINDS).verdict == NOT_PROVEN
    assert caught > 300  # the rest hit what SQLite does not use, or refusals, of which a ledger keeps no digest


# What an honest ledger must add up to


def test_every_charge_of_a_ledger_has_its_receipt(finished):
    """Independently of what is tested: by the ledgers' own entries and the receipts in the transcripts."""
    proof = proof_of(finished[0])
    for verdict in proof.ledgers:
        store = DatabaseStore(read_only_url(finished[0] / LEDGERS / verdict.entry.file))
        entries = check(store).entries
        store.close()
        charged = sum(parse_amount(one.amount) for one in entries if one.kind is EntryKind.CHARGE)
        own = [one for one in proof.transcripts if one.entry.curator == verdict.entry.curator and one.entry.repeat == 0]
        assert charged == sum(one.proof.epsilon_spent for one in own) == verdict.spent
