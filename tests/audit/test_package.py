"""A claim package from end to end: written from a run, checked by a stranger; each lie in one is found."""

import json
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from types import SimpleNamespace

import msgspec
import pytest
from typer.testing import CliRunner

from audit_results import FACTS, audit, curve, full_audit, kind
from curator_node.key_files import write_key
from expril.audit.attack import whole_audit as everything
from expril.audit.attack.whole_audit import versions
from expril.audit.document import rows_of
from expril.audit.package.checker import check_package
from expril.audit.package.contents import ROW, measured_false_alarms
from expril.audit.package.deployment import as_yaml, read_entry, total_epsilon
from expril.audit.package.evidence import collect, not_private, replay, spent_by_curators
from expril.audit.package.losses import FORMULA, exact_losses, judge
from expril.audit.package.manifest import as_json, check_folder, seal_folder
from expril.audit.package.writer import write_package
from expril.audit.recompute import recompute
from expril.audit.recompute.sums import Sum
from expril.audit.results import as_object, write_result
from expril.commands.app import app
from page_outline import Outline
from protocol.envelopes import LABEL, SigningKey
from protocol.errors import ConfigurationError
from protocol.kinds.counts import PlannedCounts
from protocol.plans import Plan
from protocol.rationals import Rational
from run_forger import Forger, make_run
from trees import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
KEY = SigningKey.from_seed(bytes(32))


def write(paths, out, *, key=KEY, facts=FACTS, result=None, **more):
    return write_package(
        paths, out, key=key, facts=facts, audit=(result or full_audit(), "then"), schema=None, created="now", **more
    )


@pytest.fixture(scope="module")
def run(honest_run, tmp_path_factory):
    """An honest run of one repeat: two learners, four curators, one that vanished."""
    return shutil.copytree(honest_run[0], tmp_path_factory.mktemp("run") / honest_run[0].name)


@pytest.fixture(scope="module")
def package(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("packages") / "claim"
    (run / "local" / "predictions").mkdir(parents=True, exist_ok=True)
    (run / "local" / "predictions" / "secret.txt").write_text("record 7 is malignant")
    write([run], out)
    return out


@pytest.fixture
def copy(package, tmp_path):
    """A copy that somebody may change; to sign it anew takes a key of one's own."""
    return shutil.copytree(package, tmp_path / "copy")


def checked(folder, **more):
    return check_package(folder, **more)


def signed_anew(folder):
    written = json.loads((folder / "manifest.json").read_bytes())["expril"]
    (folder / "manifest.json").unlink()
    (folder / "manifest.sig").unlink()
    seal_folder(folder, SigningKey.from_seed(bytes([7] * 32)), expril=written, created="now")
    return folder


# An honest package


@pytest.mark.slow
def test_repeats_of_a_simulation_add_up_and_it_is_called_one(tmp_path):
    """Every repeat has the same plans and people; a person may be at another curator in each."""
    one, three = (make_run(tmp_path / str(repeats), repeats=repeats)[0] for repeats in (1, 3))
    single, several = write([one], tmp_path / "single"), write([three], tmp_path / "several")
    assert several.epsilon == 3 * single.epsilon > 0
    entry = (tmp_path / "several" / "deployment.yaml").read_text()
    assert "This was a simulation" in entry
    told = checked(tmp_path / "several", key=KEY.public.hex())
    assert told.wrong == []
    assert told.epsilon == several.epsilon
    assert any("repeats of one simulation" in text for text in told.rests)


@pytest.mark.slow
def test_a_stranger_checks_a_package_without_data_and_without_a_network(package, tmp_path):
    shutil.copytree(package, tmp_path / "elsewhere")
    code = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise OSError('no network here')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "from expril.__main__ import main\n"
        f"sys.argv = ['expril', 'audit', 'check-package', 'elsewhere', '--key', '{KEY.public.hex()}', '--json']\n"
        "main()\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EXPRIL_")}
    environment |= {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    told = json.loads(done.stdout)
    assert told["passed"] is True
    assert told["wrong"] == []
    assert told["epsilon"] == "3/2"
    assert not any("whose key" in text for text in told["rests"])
    assert any("play it again, expril audit all" in text for text in told["rests"])


def test_what_was_found_and_what_rests_on_whom_is_said(package):
    found = checked(package)
    assert found.wrong == []
    assert any("hash" not in text and "files are as" in text for text in found.holds)
    assert any("4 ledgers were replayed" in text for text in found.holds)
    assert any("deployment.yaml says so" in text for text in found.holds)
    assert any("to 1e-9" in text for text in found.holds)
    assert any("whose key" in text for text in found.rests)
    assert any("never answered" in text for text in found.rests)  # the curator that vanished
    assert str(package) not in "".join(found.rests)


def test_nothing_of_a_record_of_a_model_or_of_a_score_is_in_it(package, run):
    names = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    assert not any(
        part in name for name in names for part in ("local", "report.json", "metrics", "models", ".pem", ".mark")
    )
    assert all(b"record 7 is malignant" not in (package / name).read_bytes() for name in names)
    assert {"README.txt", "deployment.yaml", "checklist.html", "audit.html", "exact.json", "ledger.json"} <= names
    private = {path.read_bytes() for path in (run / "local").rglob("*") if path.is_file()}
    assert not private & {(package / name).read_bytes() for name in names}


def test_the_same_evidence_gives_the_same_package_wherever_it_lies(package, run, tmp_path):
    write([run], tmp_path / "second")
    ours, theirs = check_folder(package)[0], check_folder(tmp_path / "second")[0]
    assert ours == theirs


@pytest.mark.slow
def test_a_ledger_alone_is_evidence_and_leaves_no_reply(run, tmp_path):
    write([run / "ledgers" / "north.ledger"], tmp_path / "claim")
    (export,) = (tmp_path / "claim" / "evidence" / "ledgers").iterdir()
    assert not export.read_bytes().startswith(b"SQLite")
    found = checked(tmp_path / "claim")
    assert found.wrong == []
    assert str(found.epsilon) == "3/2"
    assert any("unwitnessed" in text for text in found.rests)


@pytest.mark.slow
def test_a_folder_that_happens_to_be_called_local_is_no_run_s(run, tmp_path):
    (tmp_path / "local").mkdir()
    shutil.copy(run / "ledgers" / "west.ledger", tmp_path / "local")
    write([tmp_path / "local" / "west.ledger"], tmp_path / "claim")
    assert checked(tmp_path / "claim").wrong == []


@pytest.mark.slow
def test_an_audit_that_did_not_pass_is_named(run, tmp_path):
    others = [one for one in full_audit().kinds if one.kind != "counts/mass"]
    write([run], tmp_path / "claim", result=full_audit(kinds=(kind(violation=True, bound=2.0), *others)))
    assert checked(tmp_path / "claim").wrong == ["audit.json: the audit in it did not pass"]


def test_false_alarms_are_those_that_were_measured(tmp_path):
    assert measured_false_alarms(tmp_path / "none.json")["measured"] == []
    row = {"name": f"{ROW}, of 200 at 5 %", "value": 7.0, "machine": {}}
    (tmp_path / "stored.json").write_text(json.dumps([row, {"name": "else", "value": 1}]))
    (found,) = measured_false_alarms(tmp_path / "stored.json")["measured"]
    assert (found["value"], "machine" in found) == (7.0, False)


# Somebody changes it


def test_a_flipped_byte_in_any_file_is_named(copy):
    files = [path for path in copy.rglob("*") if path.is_file()]
    assert len(files) > 20
    for path in files:
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        wrong = check_folder(copy)[1]
        assert any(path.relative_to(copy).as_posix() in text for text in wrong), path
        path.write_bytes(whole)
    assert check_folder(copy)[1] == []


@pytest.mark.slow
def test_a_flipped_byte_never_ends_a_check_with_a_fault(copy):
    for name in ("claim.json", "exact.json", "ledger.json", "audit.json", "deployment.yaml", "evidence/inventory.json"):
        whole = (copy / name).read_bytes()
        (copy / name).write_bytes(b"\xff" + whole[1:])
        assert any(text.startswith(name) for text in checked(copy).wrong), name
        (copy / name).write_bytes(whole)
    for path in sorted((copy / "evidence").rglob("*.msgpack"))[:1] + sorted((copy / "evidence").rglob("*.ledger"))[:1]:
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        assert len(checked(copy).wrong) > 1
        path.write_bytes(whole)


FORGED = {
    "deployment.yaml: its deployment.privacy_loss.privacy_parameters.epsilon": (
        "deployment.yaml",
        "epsilon: 1.5",
        "epsilon: 0.15",
    ),
    "deployment.yaml: its deployment.basic.data_curators": ("deployment.yaml", "- north", "- nord"),
    "claim.json claims": ("claim.json", '"epsilon": "3/2"', '"epsilon": "1/2"'),
    "ledger.json says otherwise": ("ledger.json", '"spent": "3/2"', '"spent": "1/2"'),
    "exact.json says otherwise": ("exact.json", '"partitions": 1', '"partitions": 2'),
    "does not follow from its lines": ("audit.json", '"violation": false', '"violation": true'),
}


@pytest.mark.family(2)
@pytest.mark.parametrize("said", FORGED)
def test_what_was_forged_and_signed_anew_contradicts_the_evidence(copy, said):
    name, old, new = FORGED[said]
    text = (copy / name).read_text()
    assert old in text
    (copy / name).write_text(text.replace(old, new))
    found = checked(signed_anew(copy))
    assert any(said in text for text in found.wrong), found.wrong


def test_what_another_key_signed_anew_is_not_by_the_expected_one(copy):
    assert any("not by the key" in text for text in checked(signed_anew(copy), key=KEY.public.hex()).wrong)


def test_evidence_that_was_cut_and_signed_anew_is_found(copy):
    transcript = max((copy / "evidence").rglob("*.msgpack"), key=lambda path: path.stat().st_size)
    transcript.unlink()
    found = checked(signed_anew(copy))
    assert any(transcript.name in text and "missing" in text for text in found.wrong)


def test_a_ledger_cannot_be_declared_left_out(copy):
    inventory = json.loads((copy / "evidence" / "inventory.json").read_bytes())
    (name,) = inventory["runs"]
    inventory["runs"][name] += ["ledgers/north.ledger", "transcripts/00000.msgpack"]
    (copy / "evidence" / "inventory.json").write_text(json.dumps(inventory))
    (copy / "evidence" / name / "ledgers" / "north.ledger").unlink()
    found = checked(signed_anew(copy))
    assert any("north.ledger" in text for text in found.wrong)


@pytest.mark.parametrize("name", ["../..", "/etc", "runs/../../other"])
def test_an_inventory_leads_nowhere_else(copy, name):
    (copy / "evidence" / "inventory.json").write_text(json.dumps({"runs": {name: []}}))
    assert any("outside of the package" in text for text in checked(copy).wrong)


# What is not written


def test_what_the_evidence_does_not_prove_is_not_packed(run, tmp_path):
    broken = shutil.copytree(run, tmp_path / "broken")
    next((broken / "transcripts").glob("00000.msgpack")).write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"does not prove its sums: .*00000\.msgpack"):
        write([broken], tmp_path / "claim")
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]  # nothing half-written stays


def test_a_package_is_never_written_over(package, run):
    with pytest.raises(ConfigurationError, match="never changed"):
        write([run], package)


def test_nothing_private_or_foreign_can_be_named_as_evidence(run, tmp_path):
    with pytest.raises(ConfigurationError, match="local/"):
        write([run / "local" / "predictions" / "secret.txt"], tmp_path / "claim")
    with pytest.raises(ConfigurationError, match="local/"):
        write([run], tmp_path / "claim", receipts=[run / "local" / "predictions" / "secret.txt"])
    with pytest.raises(ConfigurationError, match="no ledger"):
        write([run / "scenario.toml"], tmp_path / "claim")
    with pytest.raises(ConfigurationError, match="holds no run"):
        write([tmp_path], tmp_path / "claim")


@pytest.mark.slow
def test_what_protects_nobody_makes_no_claim(tmp_path):
    seeded = make_run(tmp_path / "run", repeats=1, change=("repeats = 3", "noise_seed = 1\nrepeats = 3"))[0]
    with pytest.raises(ConfigurationError, match="no claim to hand over"):
        write([seeded], tmp_path / "claim")


# The commands


def call(*arguments, code):
    done = CliRunner().invoke(app, ["audit", *map(str, arguments)])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done


def test_a_run_that_was_given_is_recomputed_on_the_page(run, tmp_path, monkeypatch):
    monkeypatch.setattr(everything, "tasks_of", lambda **asked: [])
    folder = shutil.copytree(run, tmp_path / "run")
    assert {(row.who, row.recomputed, row.wrong) for row in rows_of(recompute(folder))} == {
        ("north", "1.5", False),
        ("east", "5/6", False),
        ("south", "1.5", False),
        ("west", "0.5", False),
    }
    files = tmp_path / "files"
    call("all", "--workers", 1, "--out", tmp_path / "out", "--run", folder, "--files", files, code=0)
    assert "north,1.5,1.5," in (files / "what-was-spent.csv").read_text(encoding="utf-8-sig")
    page = tmp_path / "out" / "audit.html"
    assert "Every signed message and every entry adds up to this." in Outline(page.read_text()).text
    (folder / "ledgers" / "north.ledger").write_bytes(b"")
    told = call("all", "--workers", 1, "--out", tmp_path / "out", "--run", folder, code=1).output
    assert "north.ledger" in told
    assert "CONTRADICTED" in Outline(page.read_text()).text
    call("all", "--run", tmp_path / "nowhere", code=2)


@pytest.mark.slow
def test_the_commands_write_and_check(run, tmp_path):
    key = write_key(tmp_path / "key.pem")
    facts = tmp_path / "facts.toml"
    call("package", "--template", facts, code=0)
    assert "fill in name" in call("package", run, "--key", tmp_path / "key.pem", "--facts", facts, code=2).output
    filled = {"name": "Demo", "intended_use": "x", "records": "x", "region": "EU", "looked_before": "nothing"}
    text = facts.read_text().replace("authors = []", 'authors = ["A"]')
    text = text.replace('publication_date = ""', 'publication_date = "2026-11-22"')
    for name, value in filled.items():
        text = text.replace(f'{name} = ""', f'{name} = "{value}"')
    facts.write_text(text)
    write_result(full_audit(), tmp_path / "audit.json", created="2026-11-22T15:00:00+00:00")
    options = ("--key", tmp_path / "key.pem", "--facts", facts, "--audit", tmp_path / "audit.json")
    options += ("--out", tmp_path / "claim")
    told = json.loads(call("package", run, *options, "--json", code=0).stdout)
    assert told["epsilon"] == "13/3"  # the sum: nobody said that everybody is at one curator
    assert told["validated"] is False
    assert (
        "deployment.yaml was not validated"
        not in call("check-package", tmp_path / "claim", "--key", key, code=0).output
    )
    (tmp_path / "claim" / "exact.json").write_text("[]")
    assert "exact.json" in call("check-package", tmp_path / "claim", code=1).output
    assert "no claim package" in call("check-package", tmp_path, code=2).output
    call("check-package", tmp_path / "claim", "--key", "zz", code=2)
    assert "--key KEY.pem" in call("package", run, code=2).output


APART = msgspec.structs.replace(FACTS, one_curator_each=False)


@pytest.fixture(scope="module")
def honest(honest_run):
    """A run of one repeat, and who can sign for it."""
    folder, run = honest_run
    return folder, run.signers


def part_of(honest, target, who):
    """What one learner of a run hands over: its own transcripts, and no ledger."""
    folder, signers = honest
    forger = Forger(folder, target)
    forger.remove([line for line in forger.index["transcripts"] if line["learner"] != who])
    for line in forger.index["ledgers"]:
        (forger.folder / "ledgers" / line["file"]).unlink()
    forger.index["ledgers"] = []
    forger.index["participants"] = [
        line for line in forger.index["participants"] if line["role"] == "curator" or line["name"] == who
    ]
    for name in [name for name in forger.index["files"] if name in ("report.json", "scenario.toml")]:
        (forger.folder / name).unlink()
        del forger.index["files"][name]
    forger.relist({who: signers[who]})
    return forger.folder


def spent(paths, folder, *, one_curator_each):
    folder.mkdir()
    collect(paths, folder, receipts=(), witnessed=())
    curators = spent_by_curators(replay(folder), one_curator_each=one_curator_each)
    return {one.name: one.spent for one in curators}


@pytest.mark.slow
def test_what_one_curator_spent_in_several_runs_adds_up(honest, tmp_path):
    parts = [part_of(honest, tmp_path / who, who) for who in sorted(honest[1])]
    assert len(parts) == 2
    one, other = (spent([part], tmp_path / f"of-{part.name}", one_curator_each=True) for part in parts)
    both = spent(parts, tmp_path / "both", one_curator_each=True)
    assert both == {name: one.get(name, Fraction(0)) + other.get(name, Fraction(0)) for name in one | other}
    assert max(both.values()) > max(*one.values(), *other.values())


@pytest.mark.slow
def test_a_run_that_is_given_twice_with_its_ledgers_counts_what_they_say(honest, tmp_path):
    again = shutil.copytree(honest[0], tmp_path / "again")
    once = spent([honest[0]], tmp_path / "once", one_curator_each=False)
    assert spent([honest[0], again], tmp_path / "twice", one_curator_each=False) == once


def ledger_sum(name, key, version, amount, world=""):
    """A ledger of one curator, as a recomputation tells it, and its sum."""
    told = Sum(name, world, "each record", at_most=Fraction(amount))
    held = SimpleNamespace(curators={key}, replayed=SimpleNamespace(data=[(1, version)], label=LABEL))
    held.bounds = SimpleNamespace(bound=1)
    return SimpleNamespace(audit=held, sums=[told], world=world, curator=name)


@pytest.mark.parametrize(
    ("first", "second", "apart", "shared"),
    [
        (("a", b"1", "x", 1), ("b", b"2", "y", 2), 2, 3),  # two curators
        (("a", b"1", "x", 1), ("b", b"2", "x", 2), 3, 3),  # one set of records under two keys
        (("a", b"1", "", 1), ("b", b"1", "", 2), 3, 3),  # one key
        (("a", b"1", "", 1), ("b", b"2", "", 2), 2, 3),  # records without names are not the same
    ],
)
def test_only_separate_curators_compose_in_parallel(first, second, apart, shared):
    ledgers = [ledger_sum(*first), ledger_sum(*second)]
    result = SimpleNamespace(runs=[], ledgers=ledgers, sums=[one for each in ledgers for one in each.sums])
    proof = SimpleNamespace(result=result, plans=[])
    each, over_all = (
        total_epsilon(spent_by_curators(proof, one_curator_each=is_one), one_curator_each=is_one)
        for is_one in (True, False)
    )
    assert (each, over_all) == (apart, shared)


# Lies


@pytest.fixture(scope="module")
def ledger_package(honest, tmp_path_factory):
    """A small package: one ledger alone."""
    return write_claim([honest[0] / "ledgers" / "west.ledger"], tmp_path_factory.mktemp("packages") / "claim")


def write_claim(paths, out, result=None):
    write(paths, out, facts=APART, result=result)
    return out


@pytest.fixture
def ledger_copy(ledger_package, tmp_path):
    return shutil.copytree(ledger_package, tmp_path / "copy")


def found_in(folder, version=None):
    """What a check finds after the author signed the folder anew."""
    version = version or json.loads((folder / "manifest.json").read_bytes())["expril"]
    (folder / "manifest.json").unlink()
    (folder / "manifest.sig").unlink()
    seal_folder(folder, KEY, expril=version, created="now")
    return check_package(folder, key=KEY.public.hex())


def test_signed_anew_without_a_change_it_is_still_in_order(ledger_copy):
    assert found_in(ledger_copy).wrong == []


@pytest.mark.parametrize("name", ["audit.html", "checklist.html", "checklist.json", "README.txt"])
def test_a_page_that_says_something_else_is_found(ledger_copy, name):
    (ledger_copy / name).write_text("<h1>epsilon 0.001</h1>")
    assert [text.partition(" ")[0] for text in found_in(ledger_copy).wrong] == [name]


def test_a_page_of_another_version_is_said_not_to_be_compared(ledger_copy):
    (ledger_copy / "audit.html").write_text("<h1>of then</h1>")
    found = found_in(ledger_copy, "9.9")
    assert found.wrong == []
    assert any("not compared: written by version 9.9" in text for text in found.rests)


def test_a_comma_of_another_version_breaks_no_package(ledger_copy):
    """Words of ours may change; the numbers in them may not, and neither may what the evidence gives alone."""
    path = ledger_copy / "deployment.yaml"
    text = path.read_text()
    path.write_text(text.replace("Exact epsilon spent, over", "Exact epsilon spent - over"))
    assert path.read_text() != text
    assert found_in(ledger_copy, versions()["expril"]).wrong != []
    assert found_in(ledger_copy, "0.4.0").wrong == []
    exact = ledger_copy / "exact.json"
    losses = json.loads(exact.read_text())
    exact.write_bytes(as_json([loss | {"why_not": "", "how": ""} for loss in losses]))
    assert found_in(ledger_copy, "0.4.0").wrong == []


@pytest.mark.parametrize("lie", ["privacy_parameters_details", "privacy_unit_details"])
def test_a_number_of_another_version_is_compared(ledger_copy, lie):
    path = ledger_copy / "deployment.yaml"
    entry = read_entry(path.read_text())
    entry["deployment"]["privacy_loss"][lie] = f"{entry['deployment']['privacy_loss'][lie]} And 1/100."
    path.write_text(as_yaml(entry))
    assert [lie in text for text in found_in(ledger_copy, "0.4.0").wrong] == [True]


ENTRIES = {
    "epsilon": ("epsilon: 0.5", "epsilon: true"),
    "delta": ("delta: 0", "delta: false"),
    "tier": ("tier: 3", "tier: 1"),
    "status": ("status: Draft", "status: Published"),
    "variant_name": ("variant_name: Pure DP", "variant_name: Local DP of epsilon 0.01"),
    "a key twice": ("privacy_parameters:", "privacy_parameters: {epsilon: 0.001, delta: 0}\n    privacy_parameters:"),
    "no YAML": ("tier: 3", "tier: 2001-13-45"),
    "no YAML of": ("tier: 3", "tier: " + "1" * 5000),
    "is no YAML": ("tier: 3", "tier: " + "[" * 2000),
    "details": ("Exact epsilon spent", "Not the exact epsilon spent"),
    "form": ("status: Draft", "status: 'Draft'"),
}


@pytest.mark.family(3)
@pytest.mark.parametrize("said", ENTRIES)
def test_an_entry_that_the_evidence_does_not_give_is_found(ledger_copy, said):
    path = ledger_copy / "deployment.yaml"
    old, new = ENTRIES[said]
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    wrong = found_in(ledger_copy).wrong
    assert any(text.startswith("deployment.yaml") and said in text for text in wrong), wrong


LEDGERS = {
    "units": lambda told: told.update(units=[]),
    "claimed": lambda told: told["sums"][-1].update(claimed="0"),
    "loss": lambda told: told["sums"][-1].update(loss=None),
    "unwitnessed": lambda told: told.update(unwitnessed=[]),
    "sums": lambda told: told.update(sums="abc"),
}


@pytest.mark.parametrize("what", LEDGERS)
def test_every_line_of_the_ledgers_sums_is_compared(ledger_copy, what):
    told = json.loads((ledger_copy / "ledger.json").read_bytes())
    LEDGERS[what](told)
    (ledger_copy / "ledger.json").write_bytes(as_json(told))
    assert found_in(ledger_copy).wrong == ["ledger.json says otherwise than the evidence"]


@pytest.mark.slow
def test_a_key_that_is_there_twice_is_found(ledger_copy):
    for name in ("claim.json", "ledger.json", "exact.json", "audit.json", "facts.json", "evidence/inventory.json"):
        whole = (ledger_copy / name).read_text()
        (ledger_copy / name).write_text(whole.replace("{", '{"epsilon": 0, "epsilon": 0,', 1))
        assert any(name.rpartition("/")[2] in text for text in found_in(ledger_copy).wrong), name
        (ledger_copy / name).write_text(whole)


def test_evidence_that_nothing_names_is_found(ledger_copy):
    (ledger_copy / "evidence" / "ledgers" / "1-south.export").write_bytes(b"more was spent")
    wrong = found_in(ledger_copy).wrong
    assert "evidence: ledgers/1-south.export lies in the evidence, and nothing there names it" in wrong


@pytest.mark.parametrize("name", ["a\0b", "/etc/passwd", "ledgers/\x1b[2J", "", "ledgers/" + "a" * 5000, "ledgers/.."])
def test_a_name_that_no_package_has_is_found(ledger_copy, name):
    (ledger_copy / "evidence" / "inventory.json").write_bytes(as_json({"ledgers": [name]}))
    (wrong,) = found_in(ledger_copy).wrong
    assert "inventory.json names a file outside" in wrong


def test_what_is_no_plain_file_is_never_opened(ledger_copy):
    (ledger_copy / "ledger.json").unlink()
    os.mkfifo(ledger_copy / "ledger.json")
    assert any("nothing more was looked at" in text for text in check_package(ledger_copy).wrong)
    (ledger_copy / "ledger.json").unlink()
    (ledger_copy / "ledger.json").symlink_to("/dev/zero")
    assert any("nothing more was looked at" in text for text in check_package(ledger_copy).wrong)
    (ledger_copy / "manifest.json").unlink()
    os.mkfifo(ledger_copy / "manifest.json")
    with pytest.raises(ConfigurationError, match="no claim package"):
        check_package(ledger_copy)


def test_no_text_of_a_package_moves_a_cursor(ledger_copy):
    told = as_object(full_audit(versions={"expril": "\x1b[2J"}), created="\x1b[1A")
    (ledger_copy / "audit.json").write_bytes(as_json(told))
    found = found_in(ledger_copy)
    assert all(text.isprintable() for text in (*found.wrong, *found.rests, *found.holds))


FOREVER = "1e999999999"
AMOUNTS = {
    "a claim": lambda told: set_claim(told["kinds"][0]),
    "a control's claim": lambda told: set_claim(told["controls"][0]),
    "a delta": lambda told: told["kinds"][0]["attack"].update(delta=FOREVER),
    "a curve": lambda told: told["curves"][0].update(epsilons=[FOREVER, *told["curves"][0]["epsilons"][1:]]),
    "colluders' claim": lambda told: told["colluders"][0].update(claimed=FOREVER),
    "colluders' unknown shares": lambda told: told["colluders"][0].update(unknown=FOREVER),
    "a study": lambda told: told["studies"][0].update(epsilon=FOREVER),
}


def set_claim(row):
    row["claimed"] = row["attack"]["claimed"] = FOREVER


@pytest.mark.parametrize("what", AMOUNTS)
def test_an_amount_that_takes_forever_to_read_is_refused(what, ledger_copy):
    told = as_object(full_audit())
    AMOUNTS[what](told)
    (ledger_copy / "audit.json").write_bytes(as_json(told))
    for version in (versions()["expril"], "9.9"):
        assert any("audit.json: Expected `str` matching" in text for text in found_in(ledger_copy, version).wrong)


def test_an_infinite_loss_on_a_curve_is_above_its_claim():
    assert not curve(exact=(0.25, 0.5, 1.0, float("inf"))).holds
    assert not curve(proven=(None, None, float("inf"), None)).holds


# Another version, so that less is compared


@pytest.mark.parametrize("name", ["sums", "units", "ledgers", "spent", "claimed"])
def test_a_ledger_file_of_another_version_that_lacks_a_sum(name, ledger_copy):
    told = json.loads((ledger_copy / "ledger.json").read_bytes())
    for part in (told, *told["sums"]):
        part.pop(name, None)
    (ledger_copy / "ledger.json").write_bytes(as_json(told))
    assert "ledger.json says otherwise than the evidence" in found_in(ledger_copy, "9.9").wrong


def test_an_audit_of_another_version_without_any_control_proves_nothing(ledger_copy):
    (ledger_copy / "audit.json").write_bytes(as_json(as_object(full_audit(controls=()))))
    assert "audit.json: it holds no mechanism that is broken on purpose" in found_in(ledger_copy, "9.9").wrong


def test_a_number_of_another_version_that_nothing_compares_is_named(ledger_copy):
    told = json.loads((ledger_copy / "ledger.json").read_bytes()) | {"epsilon": "1/100"}
    del told["sums"][0]["provisos"]
    (ledger_copy / "ledger.json").write_bytes(as_json(told))
    found = found_in(ledger_copy, "9.9")
    assert found.wrong == []
    assert any("ledger.json: not compared" in text and "epsilon, provisos" in text for text in found.rests)
    assert any("audit.html, checklist.html, checklist.json, README.txt" in text for text in found.rests)


@pytest.mark.parametrize("number", ["\u0660.\u0660\u0661", "\u00bd", "1/2 %"])
def test_a_number_in_other_signs_is_compared(number, ledger_copy):
    path = ledger_copy / "deployment.yaml"
    entry = read_entry(path.read_text())
    loss = entry["deployment"]["privacy_loss"]
    loss["privacy_parameters_details"] = f"{loss['privacy_parameters_details']} That is {number}."
    path.write_text(as_yaml(entry))
    assert any("privacy_parameters_details" in text for text in found_in(ledger_copy, "9.9").wrong)


@pytest.mark.parametrize(
    "lie", [{"why_not": "it loses 0.001"}, {"exact": None}, {"exact": None, "holds": None}, {"holds": False}]
)
def test_a_loss_in_other_words_of_one_version_is_found(lie, ledger_copy):
    (loss,) = json.loads((ledger_copy / "exact.json").read_bytes())
    (ledger_copy / "exact.json").write_bytes(as_json([loss | lie]))
    assert "exact.json says otherwise than the enumeration here" in found_in(ledger_copy).wrong
    if "holds" in lie and "exact" not in lie:
        assert "exact.json says otherwise than the enumeration here" in found_in(ledger_copy, "9.9").wrong


def test_a_file_that_no_package_has_is_named(ledger_copy):
    (ledger_copy / "statement.html").write_text("<h1>epsilon 0.001</h1>")
    assert "statement.html is no file of a package: nothing checks what it says" in found_in(ledger_copy).wrong
    found = found_in(ledger_copy, "9.9")
    assert found.wrong == []
    assert any("did not look at: statement.html" in text for text in found.rests)


# The attack


def told_of(result):
    wrong, missing = judge(result, [])
    return "; ".join([*wrong, *missing])


def test_an_attack_is_judged_by_its_numbers():
    assert told_of(full_audit()) == ""
    assert "no violation" in told_of(full_audit(kinds=(kind(bound=5.0),)))
    assert "no violation" in told_of(full_audit(kinds=(kind(exact=7.0),)))
    assert "no violation" in told_of(full_audit(kinds=(kind(bound=float("inf")),)))
    assert "draws prove nothing" in told_of(full_audit(kinds=(kind(draws=1),)))
    assert "wrong more often" in told_of(full_audit(kinds=(kind(error_rate=1.0),)))
    assert told_of(full_audit(kinds=(kind("holdout", draws=2_000),))) == ""  # as many as an audit of this kind takes
    assert "draws prove nothing" in told_of(full_audit(kinds=(kind("holdout", draws=1_999),)))
    assert not full_audit(kinds=(kind(), kind("holdout", draws=2_000))).quick
    assert full_audit(kinds=(kind(draws=10_000), kind("holdout", draws=2_000))).quick
    assert "no number" in told_of(full_audit(kinds=(kind(claimed="much"),)))
    first, *others = full_audit().controls
    weak = msgspec.structs.replace(first, attack=msgspec.structs.replace(first.attack, lower_bound=0.0))
    assert "said to be caught" in told_of(full_audit(controls=(weak, *others)))
    assert first.name in told_of(full_audit(controls=others))
    assert "no check" in told_of(full_audit(checks=()))
    assert "kind claims none" in told_of(full_audit(kinds=(kind(delta="1/2"),)))
    assert "false alarms" in told_of(full_audit(false_alarm=1.0))


def test_what_was_asked_for_must_have_been_attacked(honest, tmp_path):
    with pytest.raises(ConfigurationError, match="never attacked"):
        write_claim([honest[0]], tmp_path / "claim", full_audit(kinds=(kind("counts/other"),)))
    with pytest.raises(ConfigurationError, match="was not attacked"):
        write_claim([honest[0]], tmp_path / "claim", audit(kinds=full_audit().kinds))


# What proves no privacy


def plan_of(release, scale=1):
    return Plan.of([PlannedCounts(release, 1, Rational.of(Fraction(scale)))])


def test_a_plan_that_is_not_private_or_not_known_makes_no_claim():
    assert not_private(plan_of("mass")) == ""
    assert "counts/paper_ratio, which is not private" in not_private(plan_of("paper_ratio"))
    assert "not installed" in not_private(Plan.of([{"kind": "raw_records"}]))
    (loss,) = exact_losses([(plan_of("paper_ratio"), 1)])
    assert (loss.exact, loss.holds, loss.why_not) == (None, None, "what it releases is not private as claimed")
    assert exact_losses([(Plan.of([{"kind": "raw_records"}]), 1)]) == ()


def test_wide_noise_takes_no_minutes():
    (near, far) = exact_losses([(plan_of("mass", 200), 1), (plan_of("mass", 10**9), 1)])
    assert (near.holds, near.how) == (True, "")
    assert (far.holds, far.how) == (True, FORMULA)


def test_a_run_that_contradicts_itself_is_not_packed(honest, tmp_path):
    run = shutil.copytree(honest[0], tmp_path / "run")
    report = json.loads((run / "report.json").read_bytes())
    (run / "report.json").write_text(json.dumps(report | {"title": "another"}))
    with pytest.raises(ConfigurationError, match=r"does not prove its sums: .*report\.json"):
        write_claim([run], tmp_path / "claim")
