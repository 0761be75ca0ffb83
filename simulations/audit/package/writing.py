"""A claim package is written: evidence first, and everything else from the evidence as it lies in the package."""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import msgspec

from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from simulations.audit.files import write_result
from simulations.audit.package.checklist import as_objects
from simulations.audit.package.deployment import as_yaml, build_entry, check_entry, total_epsilon
from simulations.audit.package.evidence import (
    CuratorSpent,
    Replay,
    Tick,
    collect,
    replay,
    spent_by_curators,
)
from simulations.audit.package.exact import exact_losses
from simulations.audit.package.false_alarms import measured_false_alarms
from simulations.audit.package.manifest import seal_folder
from simulations.audit.package.pages import checklist_page, readme
from simulations.audit.package.people import Facts
from simulations.audit.page.page import write_page
from simulations.audit.page.spent import SpentRow
from simulations.audit.results import AuditResult
from simulations.run_index import LOCAL, TRANSCRIPTS

DEPLOYMENT, CLAIM, LEDGER, EXACT, FALSE_ALARMS = (
    "deployment.yaml",
    "claim.json",
    "ledger.json",
    "exact.json",
    "false-alarms.json",
)
CHECKLIST, CHECKLIST_PAGE, AUDIT, AUDIT_PAGE, README = (
    "checklist.json",
    "checklist.html",
    "audit.json",
    "audit.html",
    "README.txt",
)


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`claim.json`: what is claimed, for machines.

    Attributes:
        epsilon: of one unit, exact, as text.
        one_curator_each: whether every unit is at one curator, by its author's word: then the largest, else the sum.
        curators: name -> epsilon spent there, exact, as text.
        unit: privacy unit.
    """

    epsilon: str
    one_curator_each: bool
    curators: dict[str, str]
    unit: str

    @classmethod
    def of(cls, curators: Sequence[CuratorSpent], *, one_curator_each: bool) -> "Claim":
        """The claim that evidence supports."""
        return cls(
            epsilon=str(total_epsilon(curators, one_curator_each=one_curator_each)),
            one_curator_each=one_curator_each,
            curators={one.name: str(one.spent) for one in curators},
            unit="; ".join(dict.fromkeys(one.unit for one in curators)),
        )


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes:
        folder: of the package.
        files: how many.
        epsilon: of one unit, exact.
        validated: whether the entry was held against the registry's schema.
        open: what the evidence leaves open, a sentence each.
    """

    folder: Path
    files: int
    epsilon: Fraction
    validated: bool
    open: tuple[str, ...]

    def as_object(self) -> dict[str, object]:
        """For machines."""
        return {
            "package": str(self.folder),
            "files": self.files,
            "epsilon": str(self.epsilon),
            "validated": self.validated,
            "open": list(self.open),
        }


def write_package(
    paths: Sequence[Path],
    out: Path,
    *,
    key: SigningKey,
    facts: Facts,
    audit: tuple[AuditResult, str],
    schema: Path | None,
    created: str,
    receipts: Sequence[Path] = (),
    witnessed: Sequence[Path] = (),
    tick: Tick = lambda what, done, total: None,  # noqa: ARG005
) -> Written:
    """Write a package; all of it, or nothing.

    Args:
        paths: folders of runs, exports of ledgers, SQLite ledgers.
        out: folder that must not exist.
        key: of the packager.
        facts: what only people know.
        audit: result of a whole audit, and when it was made.
        schema: the registry's; None leaves the entry unchecked.
        created: now, as ISO 8601.
        receipts: files that learners hold.
        witnessed: files that witnesses hold.
        tick: called with (what, done, total).

    Raises:
        ConfigurationError: the folder exists, the evidence does not prove its sums, or the entry does not fit.
    """
    if out.exists() or out.is_symlink():
        raise ConfigurationError(f"{out} exists; a package is never changed, write another")
    if any(_is_local(path) for path in (*paths, *receipts, *witnessed)):
        raise ConfigurationError(f"nothing of a run's {LOCAL}/ enters a package: hand it on to nobody")
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        written = _fill(
            paths,
            draft,
            key=key,
            facts=facts,
            audit=audit,
            schema=schema,
            created=created,
            receipts=receipts,
            witnessed=witnessed,
            tick=tick,
        )
        draft.chmod(0o755)
        draft.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return replace(written, folder=out)


def _fill(
    paths: Sequence[Path],
    folder: Path,
    *,
    key: SigningKey,
    facts: Facts,
    audit: tuple[AuditResult, str],
    schema: Path | None,
    created: str,
    receipts: Sequence[Path],
    witnessed: Sequence[Path],
    tick: Tick,
) -> Written:
    collect(paths, folder, receipts=receipts, witnessed=witnessed)
    proof = replay(folder, tick=tick)
    if proof.wrong:
        more = f"; and {len(proof.wrong) - 1} more: expril audit run" if len(proof.wrong) > 1 else ""
        raise ConfigurationError(f"the evidence does not prove its sums: {proof.wrong[0]}{more}")
    curators = spent_by_curators(proof)
    result, played = audit
    entry = build_entry(facts, curators, versions=dict(result.versions))
    if schema is not None:
        check_entry(entry, schema)
    claim = Claim.of(curators, one_curator_each=facts.one_curator_each)
    (folder / DEPLOYMENT).write_text(as_yaml(entry), encoding="utf-8")
    _write_json(folder / CLAIM, claim)
    _write_json(folder / LEDGER, proof.as_object())
    _write_json(folder / EXACT, exact_losses(proof.plans))
    _write_json(folder / FALSE_ALARMS, measured_false_alarms())
    _write_json(folder / CHECKLIST, as_objects())
    (folder / CHECKLIST_PAGE).write_text(checklist_page(), encoding="utf-8")
    write_result(result, folder / AUDIT, created=played)
    write_page(result, folder / AUDIT_PAGE, created=played, spent=spent_rows(curators))
    (folder / README).write_text(readme(key.public.hex()), encoding="utf-8")
    manifest = seal_folder(folder, key, expril=result.versions.get("expril", ""), created=created)
    return Written(folder, len(manifest.files) + 2, Fraction(claim.epsilon), schema is not None, open_points(proof))


def _is_local(path: Path) -> bool:
    """Whether a path lies in the `local` folder of a run."""
    return any(place.name == LOCAL and (place.parent / TRANSCRIPTS).is_dir() for place in path.resolve().parents)


def spent_rows(curators: Sequence[CuratorSpent]) -> list[SpentRow]:
    """What the report's page says of spending."""
    return [
        SpentRow(
            who=one.name,
            unit=one.unit,
            claimed=str(one.claimed),
            recomputed=str(one.spent),
            verdict="Every signed message and every entry adds up to this. "
            + (
                f"By learner: {', '.join(f'{name} {spent}' for name, spent in one.learners.items())}."
                if one.learners
                else ""
            ),
            wrong=False,
        )
        for one in curators
    ]


def open_points(proof: Replay) -> tuple[str, ...]:
    """What evidence leaves open although nothing contradicts."""
    texts = [*proof.result.unproven, *(f"unwitnessed: {text}" for text in proof.result.unwitnessed)]
    plain = [text.replace(f"{proof.base}/", "") for text in texts if not text.startswith(f"{LOCAL}/")]
    if proof.left_out:
        plain.append(f"not in the package, as it is not needed: {', '.join(proof.left_out)}")
    return tuple(plain)


def _write_json(path: Path, value: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
