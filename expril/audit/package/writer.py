"""Writes a claim package: the evidence first, and everything else from the evidence as it lies in the package."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from expril.audit.attack.whole_audit import versions
from expril.audit.package.contents import (
    AUDIT,
    CLAIM,
    DEPLOYMENT,
    EXACT,
    FACTS,
    FALSE_ALARMS,
    LEDGER,
    Claim,
    measured_false_alarms,
    open_points,
    pages,
)
from expril.audit.package.deployment import as_yaml, build_entry, check_entry
from expril.audit.package.evidence import Replay, collect, replay, spent_by_curators
from expril.audit.package.facts import Facts
from expril.audit.package.losses import exact_losses, judge
from expril.audit.package.manifest import as_json, seal_folder
from expril.audit.recompute import recompute
from expril.audit.recompute.ledger import Tick, quiet
from expril.audit.results import AuditResult, write_result
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.run_index import LOCAL, TRANSCRIPTS


@dataclass(frozen=True)
class WrittenPackage:
    """What was written."""

    folder: Path
    files: int
    epsilon: Fraction  # of one unit, exact
    validated: bool  # whether the entry was held against the registry's schema
    open: tuple[str, ...]  # what the evidence leaves open, a sentence each

    def as_object(self) -> dict[str, object]:
        """Return the result as plain JSON values."""
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
    tick: Tick = quiet,
) -> WrittenPackage:
    """Write a whole package. If anything fails, nothing is written.

    `paths`: folders of runs, exports of ledgers, SQLite ledgers; `out`: folder to make; `key`: the packager's; `audit`:
    result of a whole audit, and its time; `schema`: the registry's, or None to leave the entry unchecked; `created`:
    time as ISO 8601; `receipts`, `witnessed`: files that learners and witnesses hold.

    Raises:
        ConfigurationError: the folder exists, the evidence does not prove its sums, or the entry does not fit.
    """
    if out.exists() or out.is_symlink():
        raise ConfigurationError(f"{out} exists; a package is never changed, write another")
    if any(_is_local(path) for path in (*paths, *receipts, *witnessed)):
        raise ConfigurationError(f"nothing of a run's {LOCAL}/ enters a package: hand it on to nobody")
    with _draft(out) as folder:
        proof = _proof(paths, folder, receipts=receipts, witnessed=witnessed, tick=tick)
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
        texts = {
            DEPLOYMENT: as_yaml(entry).encode(),
            FACTS: as_json(facts),
            CLAIM: as_json(claim),
            LEDGER: as_json(proof.as_object()),
            EXACT: as_json(exact_losses(proof.plans)),
            FALSE_ALARMS: as_json(measured_false_alarms()),
            **pages(key.public.hex(), audit, curators, proof, claim.epsilon),
        }
        for name, data in texts.items():
            (folder / name).write_bytes(data)
        write_result(result, folder / AUDIT, created=played)
        manifest = seal_folder(folder, key, expril=versions()["expril"], created=created)
        open_texts = open_points(proof)
    return WrittenPackage(out, len(manifest.files) + 2, Fraction(claim.epsilon), schema is not None, open_texts)


@contextmanager
def _draft(out: Path) -> Iterator[Path]:
    """A temporary folder beside `out`, which is renamed to `out` when all is written."""
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        yield draft
        draft.chmod(0o755)
        draft.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _proof(
    paths: Sequence[Path], folder: Path, *, receipts: Sequence[Path], witnessed: Sequence[Path], tick: Tick
) -> Replay:
    """Copy the evidence; it must prove its sums both where it came from and in the package."""
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
    return proof


def _is_local(path: Path) -> bool:
    """Whether a path lies in the `local` folder of a run."""
    return any(place.name == LOCAL and (place.parent / TRANSCRIPTS).is_dir() for place in path.resolve().parents)
