"""Checks a claim package offline, without data and from the folder's bytes alone, for somebody who trusts nobody."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from expril.audit.attack.whole_audit import versions
from expril.audit.brief import quick_words
from expril.audit.package.contents import (
    AUDIT,
    CLAIM,
    COMPARED_BY_ONE_VERSION,
    DEPLOYMENT,
    EXACT,
    FACTS,
    FALSE_ALARMS,
    LEDGER,
    NAMES,
    Claim,
    alike,
    changed_alarms,
    changed_entry,
    changed_pages,
    measured_false_alarms,
    open_points,
    pages,
)
from expril.audit.package.evidence import EVIDENCE, REPEATED, SIMULATED, Replay, replay, spent_by_curators
from expril.audit.package.facts import Facts, check_facts
from expril.audit.package.losses import FORMULA, ExactLoss, exact_losses, judge
from expril.audit.package.manifest import Manifest, as_json, check_folder, foreign_files, read_bytes, read_json
from expril.audit.recompute import Pins
from expril.audit.recompute.ledger import Tick, quiet
from expril.audit.results import AuditResult, decode_result
from expril.report.numbers import count
from protocol.errors import ConfigurationError, ExprilError, printable

T = TypeVar("T")


@dataclass
class PackageCheck:
    """What was found in a package."""

    folder: Path
    key: str = ""  # that signed it, hexadecimal; "" where that cannot be read
    epsilon: Fraction | None = None  # recomputed, of one unit, exact; None where it could not be
    holds: list[str] = field(default_factory=list)  # what was found in order, a sentence each
    wrong: list[str] = field(default_factory=list)  # what was not; each names a file
    rests: list[str] = field(default_factory=list)  # what rests on somebody's word, and on whose

    def as_object(self) -> dict[str, Any]:
        """Return the findings as plain JSON values."""
        return {
            "package": str(self.folder),
            "passed": not self.wrong,
            "key": self.key,
            "epsilon": None if self.epsilon is None else str(self.epsilon),
            "holds": self.holds,
            "wrong": self.wrong,
            "rests": self.rests,
        }


def check_package(folder: Path, *, key: str = "", pins: Pins | None = None, tick: Tick = quiet) -> PackageCheck:
    """Check everything in a package that can be checked.

    `key`: the packager's public key, hexadecimal, from another source than the package; "" takes the one in the
    package, and the result says so. `pins`: public keys of curators and learners, also from another source.

    Raises:
        ConfigurationError: the folder holds no package.
    """
    check = PackageCheck(folder)
    manifest, wrong = check_folder(folder, key=key)
    check.wrong += wrong
    if manifest is None:
        return _printable(check)
    check.key = manifest.key
    if not wrong:
        check.holds.append(f"{len(manifest.files)} files are as {manifest.key[:16]} signed them on {manifest.created}")
    if foreign := foreign_files(folder):
        check.wrong.append(f"{foreign[0]} is no plain file: nothing more was looked at")
        return _printable(check)
    same = manifest.expril == versions()["expril"]
    _check_files(check, manifest, same_version=same)
    proof = _guarded(check, "evidence", lambda: _check_evidence(check, pins, tick, same_version=same))
    audit = _guarded(check, AUDIT, lambda: _read_audit(folder))
    if proof is not None:
        _guarded(check, "claim", lambda: _check_claim(check, proof, manifest, audit, same_version=same))
        _guarded(check, EXACT, lambda: _check_exact(check, proof, same_version=same))
    if audit is not None:
        _guarded(check, AUDIT, lambda: _judge_attack(check, audit, proof, same_version=same))
    if not key:
        check.rests.append(f"whose key {manifest.key} is: give the packager's, from elsewhere, by --key")
    if proof is not None:
        check.rests += open_points(proof)
    check.rests.append(
        "that records, units and declared bounds are true, and that each curator drew its noise as it should"
    )
    return _printable(check)


def _read_audit(folder: Path) -> tuple[AuditResult, str]:
    read_json(folder, AUDIT)  # in its one form: no key is there twice
    return decode_result(read_bytes(folder, AUDIT))


def _printable(check: PackageCheck) -> PackageCheck:
    """Make the findings fit for a terminal: a package's author chose the names in them."""
    for texts in (check.holds, check.wrong, check.rests):
        texts[:] = [printable(text, 2000) for text in texts]
    return check


def _guarded(result: PackageCheck, file: str, check: Callable[[], T]) -> T | None:
    """Do a part of the check. If it cannot read something, that is a finding, and the other parts go on."""
    try:
        return check()
    except ConfigurationError as error:
        text = str(error)
        result.wrong.append(text if text.startswith(file) else f"{file}: {text}")
    except (
        ExprilError,
        ArithmeticError,
        LookupError,
        MemoryError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,
    ) as e:
        result.wrong.append(f"{file} cannot be checked ({type(e).__name__})")
    return None


def _check_evidence(check: PackageCheck, pins: Pins | None, tick: Tick, *, same_version: bool) -> Replay:
    """Replay the evidence, and compare `ledger.json` with it."""
    proof = replay(check.folder, pins=pins, tick=tick)
    check.wrong += [f"evidence: {text}" for text in proof.wrong]
    ledger_file = _guarded(check, LEDGER, lambda: read_json(check.folder, LEDGER))
    skip = frozenset() if same_version and pins is None else frozenset({"wrong", "unproven", "why", "findings"})
    now = msgspec.json.decode(as_json(proof.as_object()))
    apart: set[str] = set()
    if ledger_file is not None and not alike(ledger_file, now, skip, None if same_version else apart):
        check.wrong.append(f"{LEDGER} says otherwise than the evidence")
    elif not proof.wrong:
        runs, ledgers = len(proof.result.runs), len(proof.result.ledgers)
        check.holds.append(
            f"{count(runs, 'run')} and {count(ledgers, 'ledger')} were replayed: every entry and signed sum fits"
        )
    if apart:
        names = ", ".join(sorted(apart))
        check.rests.append(f"{LEDGER}: not compared, as it or this version does not know them: {names}")
    return proof


def _check_files(check: PackageCheck, manifest: Manifest, *, same_version: bool) -> None:
    """Name the files that no package has, and those that nothing here compares."""
    beside = [name for name in manifest.files if name not in NAMES and not name.startswith(f"{EVIDENCE}/")]
    if same_version:
        check.wrong += [f"{name} is no file of a package: nothing checks what it says" for name in beside]
    elif beside:
        check.rests.append(f"what this version does not know, and did not look at: {', '.join(beside)}")


def _check_claim(
    check: PackageCheck, proof: Replay, manifest: Manifest, audit: tuple[AuditResult, str] | None, *, same_version: bool
) -> None:
    """Check the claim, and what is written from the facts and the evidence."""
    folder = check.folder
    facts: Facts = read_json(folder, FACTS, Facts)
    check_facts(facts, FACTS)
    curators = spent_by_curators(proof, one_curator_each=facts.one_curator_each)
    now = Claim.of(curators, one_curator_each=facts.one_curator_each)
    check.epsilon = Fraction(now.epsilon)
    claim: Claim | None = _guarded(check, CLAIM, lambda: read_json(folder, CLAIM, Claim))
    if claim is not None and now != claim:
        check.wrong.append(f"{CLAIM} claims an epsilon of {claim.epsilon[:60]}, the evidence proves {now.epsilon}")
    check.rests += [text for text in (SIMULATED, REPEATED) if any(text in curator.note for curator in curators)]
    word = "the largest at one curator" if facts.one_curator_each else "the sum over curators"
    check.rests.append(f"epsilon of one unit is {word}: whether units are at one curator each, its author says")
    check.rests.append(f"what only people know is their word: {FACTS}")
    if audit is None:
        return
    entry = changed_entry(folder, facts, curators, audit[0], same_version=same_version)
    check.wrong += entry
    if not entry:
        check.holds.append(f"epsilon is {now.epsilon}, recomputed, and {DEPLOYMENT} says so")
    if not same_version:
        check.rests.append(
            "what is on pages and in descriptions was not compared: written by version "
            f"{printable(manifest.expril, 40)}, and {versions()['expril']} is installed. They may say anything: "
            f"{', '.join(COMPARED_BY_ONE_VERSION)}"
        )
        return
    changed = changed_pages(folder, pages(manifest.key, audit, curators, proof, now.epsilon))
    alarms = changed_alarms(folder)
    check.wrong += [*changed, *([alarms] if alarms else [])]
    if not measured_false_alarms()["measured"]:
        check.rests.append(f"{FALSE_ALARMS} is the packager's word: no measurement is installed here")
    if not changed:
        check.holds.append("pages for people are what this version writes from that")


def _check_exact(check: PackageCheck, proof: Replay, *, same_version: bool) -> None:
    """Compare the enumerated losses with what was charged."""
    written: tuple[ExactLoss, ...] = read_json(check.folder, EXACT, tuple[ExactLoss, ...])
    now = exact_losses(proof.plans)
    if len(written) != len(now) or not all(
        _same_loss(*pair, same_version=same_version) for pair in zip(written, now, strict=True)
    ):
        check.wrong.append(f"{EXACT} says otherwise than the enumeration here")
    for loss in now:
        if loss.holds is False:
            check.wrong.append(f"{EXACT}: {loss.asks} loses {loss.exact:.12g}, {loss.claimed} was charged")
    if now and not check.wrong:
        counted = [loss for loss in now if loss.holds and not loss.how]
        check.holds.append(
            f"{len(counted)} of {len(now)} different questions were enumerated: each loses what was charged, to 1e-9"
        )
        wide = sum(loss.how == FORMULA for loss in now)
        open_ = len(now) - len(counted) - wide
        if wide:
            check.rests.append(f"the loss of {count(wide, 'question')} with wide noise is by formula, not enumerated")
        if open_:
            check.rests.append(f"the loss of {count(open_, 'question')} was not computed: {EXACT} says why")


def _same_loss(written: ExactLoss, now: ExactLoss, *, same_version: bool) -> bool:
    """Whether two losses agree. Another version's words may differ, and a later version may enumerate more."""
    left_out: dict[str, Any] = {"exact": None} if same_version else {"exact": None, "why_not": "", "how": ""}
    if not same_version and (written.exact, written.holds) == (None, None):
        left_out["holds"] = None
    if msgspec.structs.replace(written, **left_out) != msgspec.structs.replace(now, **left_out):
        return False
    if written.exact is None:
        return now.exact is None or not same_version
    return now.exact is not None and math.isclose(written.exact, now.exact, rel_tol=1e-9, abs_tol=1e-12)


def _judge_attack(
    check: PackageCheck, audit: tuple[AuditResult, str], proof: Replay | None, *, same_version: bool
) -> None:
    result, played = audit
    wrong, missing = judge(result, [] if proof is None else [plan for plan, _ in proof.plans])
    check.wrong += [f"{AUDIT}: {text}" for text in wrong]
    if not result.passed:
        check.wrong.append(f"{AUDIT}: the audit in it did not pass")
    if missing:
        text = f"{AUDIT}: {count(len(missing), 'broken mechanism')} of this version were not attacked: {missing[0]}"
        (check.wrong if same_version else check.rests).append(text)
    if result.quick:
        check.rests.append(quick_words(result))
    when = f" on {played}" if played else ""
    software = ", ".join(f"{name} {version}" for name, version in result.versions.items()) or "unknown software"
    check.rests.append(
        f"that the attack was played{when} on {software} as {AUDIT} says is the packager's word: play it again, "
        "expril audit all"
    )
