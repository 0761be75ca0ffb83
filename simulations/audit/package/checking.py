"""A claim package is checked by who trusts nobody: offline, without data, from the bytes in the folder alone."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from protocol.errors import ConfigurationError, printable
from simulations.audit.files import decode_result
from simulations.audit.package.deployment import read_entry, round_up
from simulations.audit.package.evidence import Replay, Tick, replay, spent_by_curators
from simulations.audit.package.exact import ExactLoss, exact_losses
from simulations.audit.package.manifest import check_folder
from simulations.audit.package.writing import AUDIT, CLAIM, DEPLOYMENT, EXACT, LEDGER, Claim, open_points
from simulations.audit.recompute import Pins
from simulations.report.words import count


@dataclass
class Checked:
    """What was found.

    Attributes:
        folder: of the package.
        key: that signed it, hexadecimal; "" where that cannot be read.
        epsilon: recomputed, of one unit, exact; None where it could not be.
        holds: what was found in order, a sentence each.
        wrong: what was not; each names a file.
        rests: what rests on somebody's word, and on whose.
    """

    folder: Path
    key: str = ""
    epsilon: Fraction | None = None
    holds: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    rests: list[str] = field(default_factory=list)

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
    tick: Tick = lambda what, done, total: None,  # noqa: ARG005
) -> Checked:
    """Check everything in a package that can be checked.

    Args:
        folder: of the package.
        key: public key of the packager, from elsewhere, hexadecimal; "" takes the one in the package, and says so.
        pins: public keys of curators and learners, from elsewhere.
        tick: called with (what, done, total).

    Raises:
        ConfigurationError: the folder holds no package.
    """
    found = Checked(folder)
    manifest, wrong = check_folder(folder, key=key)
    found.wrong += wrong
    if manifest is not None:
        found.key = manifest.key
        if not wrong:
            found.holds.append(
                f"{len(manifest.files)} files are as {manifest.key[:16]} signed them on {printable(manifest.created)}"
            )
    proof = _replayed(found, pins, tick)
    if proof is not None:
        _check_claim(found, proof)
        _check_exact(found, proof)
    _tell_of_attack(found)
    if not key and manifest is not None:
        found.rests.append(f"whose key {manifest.key} is: give the packager's, from elsewhere, by --key")
    if proof is not None:
        found.rests += open_points(proof)
    found.rests.append(
        "that records, units and declared bounds are true, and that each curator drew its noise as it should"
    )
    return found


def _replayed(found: Checked, pins: Pins | None, tick: Tick) -> Replay | None:
    """Replay the evidence, and hold `ledger.json` against it."""
    try:
        proof = replay(found.folder, pins=pins, tick=tick)
    except ConfigurationError as error:
        found.wrong.append(str(error))
        return None
    found.wrong += [f"evidence: {text}" for text in proof.wrong]
    told = _read_json(found, LEDGER)
    if told is not None and not _same_sums(told, proof.as_object()):
        found.wrong.append(f"{LEDGER} says otherwise than the evidence")
    elif not proof.wrong:
        runs, ledgers = len(proof.result.runs), len(proof.result.ledgers)
        found.holds.append(
            f"{count(runs, 'run')} and {count(ledgers, 'ledger')} were replayed: every entry and signed sum fits"
        )
    return proof


def _same_sums(told: Any, now: dict[str, Any]) -> bool:
    """Whether sums, ledgers and units are the same; texts may be those of another version."""

    def facts(plain: Any) -> Any:
        sums = [
            {name: one[name] for name in ("curator", "learner", "version", "spent", "at_most")} for one in plain["sums"]
        ]
        ledgers = [{name: one[name] for name in ("head", "entries", "spent")} for one in plain["ledgers"]]
        return sums, ledgers

    try:
        return bool(facts(told) == facts(now))
    except (KeyError, TypeError):
        return False


def _check_claim(found: Checked, proof: Replay) -> None:
    """Epsilon, curators and unit of the entry against the evidence."""
    try:
        claim = msgspec.json.decode((found.folder / CLAIM).read_bytes(), type=Claim)
        curators = spent_by_curators(proof)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found.wrong.append(f"{CLAIM} is missing or cannot be read")
        return
    except ConfigurationError as error:
        found.wrong.append(f"evidence: {error}")
        return
    now = Claim.of(curators, one_curator_each=claim.one_curator_each)
    found.epsilon = Fraction(now.epsilon)
    if now != claim:
        found.wrong.append(
            f"{CLAIM} claims an epsilon of {printable(claim.epsilon, 60)}, the evidence proves {now.epsilon}"
        )
    try:
        entry = read_entry((found.folder / DEPLOYMENT).read_text(encoding="utf-8"))
        told = (
            entry["deployment"]["privacy_loss"]["privacy_parameters"],
            entry["deployment"]["basic"]["data_curators"],
            entry["deployment"]["privacy_loss"]["privacy_unit"],
        )
    except (OSError, UnicodeDecodeError, ConfigurationError, KeyError, TypeError):
        found.wrong.append(f"{DEPLOYMENT} is missing or cannot be read")
        return
    wanted = ({"epsilon": round_up(found.epsilon), "delta": 0}, list(now.curators), now.unit)
    for what, says, is_so in zip(("privacy parameters", "curators", "privacy unit"), told, wanted, strict=True):
        if says != is_so:
            found.wrong.append(f"{DEPLOYMENT}: its {what} are not what the evidence proves")
    if told == wanted:
        found.holds.append(f"epsilon is {now.epsilon}, recomputed, and {DEPLOYMENT} says so")
    word = "the largest at one curator" if claim.one_curator_each else "the sum over curators"
    found.rests.append(f"epsilon of one unit is {word}: whether units are at one curator each, its author says")


def _check_exact(found: Checked, proof: Replay) -> None:
    """The enumerated losses against what was charged."""
    try:
        told = msgspec.json.decode((found.folder / EXACT).read_bytes(), type=tuple[ExactLoss, ...])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found.wrong.append(f"{EXACT} is missing or cannot be read")
        return
    now = exact_losses(proof.plans)
    if len(told) != len(now) or not all(_same_loss(*pair) for pair in zip(told, now, strict=True)):
        found.wrong.append(f"{EXACT} says otherwise than the enumeration here")
    for one in now:
        if one.holds is False:
            found.wrong.append(
                f"{EXACT}: {printable(one.asks)} loses {one.exact:.12g}, {printable(one.claimed)} was charged"
            )
    if now and not found.wrong:
        counted = [one for one in now if one.holds]
        found.holds.append(
            f"{len(counted)} of {len(now)} different questions were enumerated: each loses what was charged, to 1e-9"
        )


def _same_loss(one: ExactLoss, other: ExactLoss) -> bool:
    if one.exact is None or other.exact is None:
        return one == other
    same = math.isclose(one.exact, other.exact, rel_tol=1e-9, abs_tol=1e-12)
    return same and msgspec.structs.replace(one, exact=0.0) == msgspec.structs.replace(other, exact=0.0)


def _tell_of_attack(found: Checked) -> None:
    try:
        result, played = decode_result((found.folder / AUDIT).read_bytes())
    except (OSError, ConfigurationError) as error:
        found.wrong.append(f"{AUDIT}: {error}")
        return
    if not result.passed:
        found.wrong.append(f"{AUDIT}: the audit in it did not pass")
    when = f" on {printable(played)}" if played else ""
    found.rests.append(
        f"that the attack was played{when} as {AUDIT} says is the packager's word: play it again, expril audit all"
    )


def _read_json(found: Checked, name: str) -> Any:
    try:
        return msgspec.json.decode((found.folder / name).read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found.wrong.append(f"{name} is missing or cannot be read")
        return None
