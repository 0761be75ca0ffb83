"""A claim package is checked by who trusts nobody: offline, without data, from the bytes in the folder alone."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from expril.audit.attack.whole_audit import versions
from expril.audit.document import QUICK
from expril.audit.package.contents import (
    AUDIT,
    CLAIM,
    DEPLOYMENT,
    EXACT,
    FACTS,
    LEDGER,
    Claim,
    alike,
    changed_alarms,
    changed_entry,
    changed_pages,
    open_points,
    pages,
)
from expril.audit.package.evidence import Replay, replay
from expril.audit.package.facts import Facts, check_facts
from expril.audit.package.losses import FORMULA, ExactLoss, exact_losses, judge
from expril.audit.package.manifest import Manifest, as_json, check_folder, foreign_files, read_bytes, read_json
from expril.audit.package.spending import REPEATED, SIMULATED, spent_by_curators
from expril.audit.recompute import Pins
from expril.audit.recompute.ledger import Tick, quiet
from expril.audit.results import AuditResult, decode_result
from expril.report.numbers import count
from protocol.errors import ConfigurationError, ExprilError, printable

T = TypeVar("T")


@dataclass
class Checked:
    """What was found."""

    folder: Path
    key: str = ""  # that signed it, hexadecimal; "" where that cannot be read
    epsilon: Fraction | None = None  # recomputed, of one unit, exact; None where it could not be
    holds: list[str] = field(default_factory=list)  # what was found in order, a sentence each
    wrong: list[str] = field(default_factory=list)  # what was not; each names a file
    rests: list[str] = field(default_factory=list)  # what rests on somebody's word, and on whose

    def as_object(self) -> dict[str, Any]:
        """For machines."""
        return {
            "package": str(self.folder),
            "passed": not self.wrong,
            "key": self.key,
            "epsilon": None if self.epsilon is None else str(self.epsilon),
            "holds": self.holds,
            "wrong": self.wrong,
            "rests": self.rests,
        }


def check_package(
    folder: Path,
    *,
    key: str = "",
    pins: Pins | None = None,
    tick: Tick = quiet,
) -> Checked:
    """Check everything in a package that can be checked.

    `key`: public key of the packager, from elsewhere, hexadecimal; "" takes the one in the package, and says so;
    `pins`: public keys of curators and learners, from elsewhere.

    Raises:
        ConfigurationError: the folder holds no package.
    """
    found = Checked(folder)
    manifest, wrong = check_folder(folder, key=key)
    found.wrong += wrong
    if manifest is None:
        return _told(found)
    found.key = manifest.key
    if not wrong:
        found.holds.append(f"{len(manifest.files)} files are as {manifest.key[:16]} signed them on {manifest.created}")
    if foreign := foreign_files(folder):
        found.wrong.append(f"{foreign[0]} is no plain file: nothing more was looked at")
        return _told(found)
    same = manifest.expril == versions()["expril"]
    proof = _guarded(found, "evidence", lambda: _replayed(found, pins, tick, same_version=same))
    audit = _guarded(found, AUDIT, lambda: _read_audit(folder))
    if proof is not None:
        _guarded(found, "claim", lambda: _check_claim(found, proof, manifest, audit, same_version=same))
        _guarded(found, EXACT, lambda: _check_exact(found, proof))
    if audit is not None:
        _guarded(found, AUDIT, lambda: _judge_attack(found, audit, proof, same_version=same))
    if not key:
        found.rests.append(f"whose key {manifest.key} is: give the packager's, from elsewhere, by --key")
    if proof is not None:
        found.rests += open_points(proof)
    found.rests.append(
        "that records, units and declared bounds are true, and that each curator drew its noise as it should"
    )
    return _told(found)


def _read_audit(folder: Path) -> tuple[AuditResult, str]:
    read_json(folder, AUDIT)  # in its one form: no key is there twice
    result, played = decode_result(read_bytes(folder, AUDIT))
    attacks = [*(one.attack for one in result.kinds), *(one.attack for one in result.controls)]
    for one in attacks:
        if re.fullmatch(r"[0-9]{1,300}([./][0-9]{1,300})?", one.claimed) is None:  # such as 1e999999999
            raise ConfigurationError(f"{AUDIT}: a claim is no number; it is written as 1, 0.5 or 1/30")
    return result, played


def _told(found: Checked) -> Checked:
    """What was found, fit for a terminal: names in a package are its author's."""
    for texts in (found.holds, found.wrong, found.rests):
        texts[:] = [printable(text, 2000) for text in texts]
    return found


def _guarded(found: Checked, what: str, check: Callable[[], T]) -> T | None:
    """Do a part of the check; what cannot be read is wrong, and the other parts go on."""
    try:
        return check()
    except ConfigurationError as error:
        text = str(error)
        found.wrong.append(text if text.startswith(what) else f"{what}: {text}")
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
        found.wrong.append(f"{what} cannot be checked ({type(e).__name__})")
    return None


def _replayed(found: Checked, pins: Pins | None, tick: Tick, *, same_version: bool) -> Replay:
    """Replay the evidence, and hold `ledger.json` against it."""
    proof = replay(found.folder, pins=pins, tick=tick)
    found.wrong += [f"evidence: {text}" for text in proof.wrong]
    told = _guarded(found, LEDGER, lambda: read_json(found.folder, LEDGER))
    skip = frozenset() if same_version and pins is None else frozenset({"wrong", "unproven", "why", "findings"})
    if told is not None and not alike(told, msgspec.json.decode(as_json(proof.as_object())), skip):
        found.wrong.append(f"{LEDGER} says otherwise than the evidence")
    elif not proof.wrong:
        runs, ledgers = len(proof.result.runs), len(proof.result.ledgers)
        found.holds.append(
            f"{count(runs, 'run')} and {count(ledgers, 'ledger')} were replayed: every entry and signed sum fits"
        )
    return proof


def _check_claim(
    found: Checked, proof: Replay, manifest: Manifest, audit: tuple[AuditResult, str] | None, *, same_version: bool
) -> None:
    """What people told, what the evidence proves, and all that is written from both."""
    folder = found.folder
    facts: Facts = read_json(folder, FACTS, Facts)
    check_facts(facts, FACTS)
    curators = spent_by_curators(proof, one_curator_each=facts.one_curator_each)
    now = Claim.of(curators, one_curator_each=facts.one_curator_each)
    found.epsilon = Fraction(now.epsilon)
    claim: Claim | None = _guarded(found, CLAIM, lambda: read_json(folder, CLAIM, Claim))
    if claim is not None and now != claim:
        found.wrong.append(f"{CLAIM} claims an epsilon of {claim.epsilon[:60]}, the evidence proves {now.epsilon}")
    found.rests += [text for text in (SIMULATED, REPEATED) if any(text in one.note for one in curators)]
    word = "the largest at one curator" if facts.one_curator_each else "the sum over curators"
    found.rests.append(f"epsilon of one unit is {word}: whether units are at one curator each, its author says")
    found.rests.append(f"what only people know is their word: {FACTS}")
    if audit is None:
        return
    entry = changed_entry(folder, facts, curators, audit[0], same_version=same_version)
    found.wrong += entry
    if not entry:
        found.holds.append(f"epsilon is {now.epsilon}, recomputed, and {DEPLOYMENT} says so")
    if not same_version:
        found.rests.append(
            "what is on pages and in descriptions was not compared: written by version "
            f"{printable(manifest.expril, 40)}, and {versions()['expril']} is installed"
        )
        return
    changed = changed_pages(folder, pages(manifest.key, audit, curators))
    alarms = changed_alarms(folder)
    found.wrong += [*changed, *([alarms] if alarms else [])]
    if not changed:
        found.holds.append("pages for people are what this version writes from that")


def _check_exact(found: Checked, proof: Replay) -> None:
    """The enumerated losses against what was charged."""
    told: tuple[ExactLoss, ...] = read_json(found.folder, EXACT, tuple[ExactLoss, ...])
    now = exact_losses(proof.plans)
    if len(told) != len(now) or not all(_same_loss(*pair) for pair in zip(told, now, strict=True)):
        found.wrong.append(f"{EXACT} says otherwise than the enumeration here")
    for one in now:
        if one.holds is False:
            found.wrong.append(f"{EXACT}: {one.asks} loses {one.exact:.12g}, {one.claimed} was charged")
    if now and not found.wrong:
        counted = [one for one in now if one.holds and not one.how]
        found.holds.append(
            f"{len(counted)} of {len(now)} different questions were enumerated: each loses what was charged, to 1e-9"
        )
        wide = sum(one.how == FORMULA for one in now)
        open_ = len(now) - len(counted) - wide
        if wide:
            found.rests.append(f"the loss of {count(wide, 'question')} with wide noise is by formula, not enumerated")
        if open_:
            found.rests.append(f"the loss of {count(open_, 'question')} was not computed: {EXACT} says why")


def _same_loss(one: ExactLoss, other: ExactLoss) -> bool:
    if one.exact is None or other.exact is None:
        return one == other
    same = math.isclose(one.exact, other.exact, rel_tol=1e-9, abs_tol=1e-12)
    return same and msgspec.structs.replace(one, exact=0.0) == msgspec.structs.replace(other, exact=0.0)


def _judge_attack(found: Checked, audit: tuple[AuditResult, str], proof: Replay | None, *, same_version: bool) -> None:
    result, played = audit
    wrong, missing = judge(result, [] if proof is None else [plan for plan, _ in proof.plans])
    found.wrong += [f"{AUDIT}: {text}" for text in wrong]
    if not result.passed:
        found.wrong.append(f"{AUDIT}: the audit in it did not pass")
    if missing:
        text = f"{AUDIT}: {count(len(missing), 'broken mechanism')} of this version were not attacked: {missing[0]}"
        (found.wrong if same_version else found.rests).append(text)
    if result.quick:
        found.rests.append(QUICK)
    when = f" on {played}" if played else ""
    software = ", ".join(f"{name} {version}" for name, version in result.versions.items()) or "unknown software"
    found.rests.append(
        f"that the attack was played{when} on {software} as {AUDIT} says is the packager's word: play it again, "
        "expril audit all"
    )
