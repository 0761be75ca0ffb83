"""Lies that an author of a claim package can sign: each is found by who checks it."""

import json
import os
import shutil
from fractions import Fraction
from types import SimpleNamespace

import msgspec
import pytest

from audit_results import audit, full_audit, kind
from expril.audit.package.checker import check_package
from expril.audit.package.deployment import total_epsilon
from expril.audit.package.evidence import collect, not_private, replay, spent_by_curators
from expril.audit.package.facts import Facts
from expril.audit.package.losses import FORMULA, exact_losses, judge
from expril.audit.package.manifest import as_json, seal_folder
from expril.audit.package.writer import write_package
from expril.audit.recompute.sums import Sum
from expril.audit.results import as_object
from protocol.envelopes import LABEL, SigningKey
from protocol.errors import ConfigurationError
from protocol.kinds.counts import PlannedCounts
from protocol.plans import Plan
from protocol.rationals import Rational
from run_forger import Forger

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
KEY = SigningKey.from_seed(bytes(32))
FACTS = Facts(
    name="Demonstration",
    intended_use="To show it.",
    records="One image.",
    region="USA",
    publication_date="2026-11-22",
    authors=("A",),
    looked_before="nothing",
)


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
def package(honest, tmp_path_factory):
    """A small package: one ledger alone."""
    return write([honest[0] / "ledgers" / "west.ledger"], tmp_path_factory.mktemp("packages") / "claim")


def write(paths, out, result=None):
    told = result or full_audit(), "then"
    write_package(paths, out, key=KEY, facts=FACTS, audit=told, schema=None, created="now")
    return out


@pytest.fixture
def copy(package, tmp_path):
    return shutil.copytree(package, tmp_path / "copy")


def found_in(folder, version="0.3.0"):
    """What a check finds after the author signed the folder anew."""
    version = json.loads((folder / "manifest.json").read_bytes())["expril"] if version == "0.3.0" else version
    (folder / "manifest.json").unlink()
    (folder / "manifest.sig").unlink()
    seal_folder(folder, KEY, expril=version, created="now")
    return check_package(folder, key=KEY.public.hex())


def test_signed_anew_without_a_change_it_is_still_in_order(copy):
    assert found_in(copy).wrong == []


@pytest.mark.parametrize("name", ["audit.html", "checklist.html", "checklist.json", "README.txt"])
def test_a_page_that_says_something_else_is_found(copy, name):
    (copy / name).write_text("<h1>epsilon 0.001</h1>")
    assert [text.partition(" ")[0] for text in found_in(copy).wrong] == [name]


def test_a_page_of_another_version_is_said_not_to_be_compared(copy):
    (copy / "audit.html").write_text("<h1>of then</h1>")
    found = found_in(copy, "9.9")
    assert found.wrong == []
    assert any("not compared: written by version 9.9" in text for text in found.rests)


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
def test_an_entry_that_the_evidence_does_not_give_is_found(copy, said):
    path = copy / "deployment.yaml"
    old, new = ENTRIES[said]
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    wrong = found_in(copy).wrong
    assert any(text.startswith("deployment.yaml") and said in text for text in wrong), wrong


LEDGERS = {
    "units": lambda told: told.update(units=[]),
    "claimed": lambda told: told["sums"][-1].update(claimed="0"),
    "loss": lambda told: told["sums"][-1].update(loss=None),
    "unwitnessed": lambda told: told.update(unwitnessed=[]),
    "sums": lambda told: told.update(sums="abc"),
}


@pytest.mark.parametrize("what", LEDGERS)
def test_every_line_of_the_ledgers_sums_is_compared(copy, what):
    told = json.loads((copy / "ledger.json").read_bytes())
    LEDGERS[what](told)
    (copy / "ledger.json").write_bytes(as_json(told))
    assert found_in(copy).wrong == ["ledger.json says otherwise than the evidence"]


def test_a_key_that_is_there_twice_is_found(copy):
    for name in ("claim.json", "ledger.json", "exact.json", "audit.json", "facts.json", "evidence/inventory.json"):
        whole = (copy / name).read_text()
        (copy / name).write_text(whole.replace("{", '{"epsilon": 0, "epsilon": 0,', 1))
        assert any(name.rpartition("/")[2] in text for text in found_in(copy).wrong), name
        (copy / name).write_text(whole)


def test_evidence_that_nothing_names_is_found(copy):
    (copy / "evidence" / "ledgers" / "1-south.export").write_bytes(b"more was spent")
    wrong = found_in(copy).wrong
    assert "evidence: ledgers/1-south.export lies in the evidence, and nothing there names it" in wrong


@pytest.mark.parametrize("name", ["a\0b", "/etc/passwd", "ledgers/\x1b[2J", "", "ledgers/" + "a" * 5000, "ledgers/.."])
def test_a_name_that_no_package_has_is_found(copy, name):
    (copy / "evidence" / "inventory.json").write_bytes(as_json({"ledgers": [name]}))
    (wrong,) = found_in(copy).wrong
    assert "inventory.json names a file outside" in wrong


def test_what_is_no_plain_file_is_never_opened(copy):
    (copy / "ledger.json").unlink()
    os.mkfifo(copy / "ledger.json")
    assert any("nothing more was looked at" in text for text in check_package(copy).wrong)
    (copy / "ledger.json").unlink()
    (copy / "ledger.json").symlink_to("/dev/zero")
    assert any("nothing more was looked at" in text for text in check_package(copy).wrong)
    (copy / "manifest.json").unlink()
    os.mkfifo(copy / "manifest.json")
    with pytest.raises(ConfigurationError, match="no claim package"):
        check_package(copy)


def test_no_text_of_a_package_moves_a_cursor(copy):
    told = as_object(full_audit(versions={"expril": "\x1b[2J"}), created="\x1b[1A")
    (copy / "audit.json").write_bytes(as_json(told))
    found = found_in(copy)
    assert all(text.isprintable() for text in (*found.wrong, *found.rests, *found.holds))


def test_a_claim_that_takes_forever_to_read_is_refused(copy):
    told = as_json(as_object(full_audit())).replace(b'"1/3"', b'"1e999999999"')
    (copy / "audit.json").write_bytes(told)
    assert "audit.json: a claim is no number; it is written as 1, 0.5 or 1/30" in found_in(copy).wrong


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
    assert "false alarms" in told_of(full_audit(false_alarm=1.0))


def test_what_was_asked_for_must_have_been_attacked(honest, tmp_path):
    with pytest.raises(ConfigurationError, match="never attacked"):
        write([honest[0]], tmp_path / "claim", full_audit(kinds=(kind("counts/other"),)))
    with pytest.raises(ConfigurationError, match="was not attacked"):
        write([honest[0]], tmp_path / "claim", audit(kinds=full_audit().kinds))


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
        write([run], tmp_path / "claim")
