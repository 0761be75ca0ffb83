"""A claim package is written: evidence first, and everything else from the evidence as it lies in the package."""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from expril.audit.attack.everything import versions
from expril.audit.files import write_result
from expril.audit.package.deployment import as_yaml, build_entry, check_entry
from expril.audit.package.evidence import Tick, collect, replay
from expril.audit.package.exact import exact_losses
from expril.audit.package.false_alarms import measured_false_alarms
from expril.audit.package.judged import judge
from expril.audit.package.manifest import seal_folder
from expril.audit.package.names import (
    AUDIT,
    CLAIM,
    DEPLOYMENT,
    EXACT,
    FACTS,
    FALSE_ALARMS,
    LEDGER,
    Claim,
    open_points,
)
from expril.audit.package.people import Facts
from expril.audit.package.plain_files import as_json
from expril.audit.package.rebuilt import pages
from expril.audit.package.worlds import spent_by_curators
from expril.audit.recompute import recompute
from expril.audit.results import AuditResult
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.run_index import LOCAL, TRANSCRIPTS


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
    source = recompute(*paths, receipts=receipts, witnessed=witnessed, delta=None, tick=tick)
    if source.unread:
        raise ConfigurationError(source.unread[0])
    if source.wrong:
        raise ConfigurationError(f"the evidence does not prove its sums: {source.wrong[0]}; and see expril audit run")
    collect(paths, folder, receipts=receipts, witnessed=witnessed)
    proof = replay(folder, tick=tick)
    if proof.wrong:
        more = f"; and {len(proof.wrong) - 1} more: expril audit run" if len(proof.wrong) > 1 else ""
        raise ConfigurationError(f"the evidence does not prove its sums: {proof.wrong[0]}{more}")
    curators = spent_by_curators(proof, one_curator_each=facts.one_curator_each)
    result, played = audit
    wrong, missing = judge(result, (plan for plan, _ in proof.plans))
    if wrong or missing:
        first = [*wrong, *(f"the broken mechanism {name} was not attacked" for name in missing)][0]
        raise ConfigurationError(f"this audit proves nothing: {first}; play it again: expril audit all")
    entry = build_entry(facts, curators, versions=dict(result.versions))
    if schema is not None:
        check_entry(entry, schema)
    claim = Claim.of(curators, one_curator_each=facts.one_curator_each)
    (folder / DEPLOYMENT).write_text(as_yaml(entry), encoding="utf-8")
    texts = {
        FACTS: as_json(facts),
        CLAIM: as_json(claim),
        LEDGER: as_json(proof.as_object()),
        EXACT: as_json(exact_losses(proof.plans)),
        FALSE_ALARMS: as_json(measured_false_alarms()),
        **pages(key.public.hex(), audit, curators),
    }
    for name, data in texts.items():
        (folder / name).write_bytes(data)
    write_result(result, folder / AUDIT, created=played)
    manifest = seal_folder(folder, key, expril=versions()["expril"], created=created)
    return Written(folder, len(manifest.files) + 2, Fraction(claim.epsilon), schema is not None, open_points(proof))


def _is_local(path: Path) -> bool:
    """Whether a path lies in the `local` folder of a run."""
    return any(place.name == LOCAL and (place.parent / TRANSCRIPTS).is_dir() for place in path.resolve().parents)
