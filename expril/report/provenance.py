"""Where numbers come from: the command, the machine and the versions, kept beside the results."""

import os
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from expril.files import replace_text
from expril.report.numbers import moment

FILE = "provenance.json"
LIBRARIES = ("expril", "numpy", "opendp", "polars", "scikit-learn", "scipy", "torch")


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a set of numbers comes from."""

    command: str  # as typed
    created: str  # end of the newest session, ISO 8601
    seed: int  # of the first run
    seconds: float  # sum over all sessions of a resumed run
    jobs: int  # processes of the newest session
    versions: dict[str, str]  # of Python and of the libraries
    noise: str  # its source, in words
    commit: str = ""  # of the source tree; "" if unknown
    cores: int = 0  # that the newest session could use; 0 if unknown
    skipped: dict[str, str] = {}  # strategy -> why it was left out

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Terms and values for a page, without those that are unknown."""
        minutes = f"{self.seconds / 60:.1f} minutes"
        pairs = [
            ("made", moment(self.created)),
            ("seed", str(self.seed)),
            ("time", minutes),
            ("processes", str(self.jobs)),
        ]
        pairs += [("cores", str(self.cores))] if self.cores else []
        return [*pairs, ("noise", self.noise), *([("commit", self.commit[:12])] if self.commit else [])]


def read_provenance(out: Path) -> dict[str, Provenance]:
    """Read the provenance of each experiment in a folder of results; empty if the folder has none."""
    path = out / FILE
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Provenance]) if path.exists() else {}


def note_provenance(out: Path, name: str, session: Provenance) -> None:
    """Add a session to an experiment. Seconds add up; the newest session replaces everything else."""
    provenances = read_provenance(out)
    before = provenances[name].seconds if name in provenances else 0.0
    provenances[name] = msgspec.structs.replace(session, seconds=round(before + session.seconds, 1))
    encoded = msgspec.json.format(msgspec.json.encode(provenances, order="sorted"), indent=2)
    replace_text(out / FILE, f"{encoded.decode()}\n")


def versions(more: Mapping[str, str] | None = None, libraries: Iterable[str] = LIBRARIES) -> dict[str, str]:
    """Versions of Python, of the libraries that decide numbers, and of `more`; "absent" for one of an extra."""
    return {"python": platform.python_version()} | {name: _version(name) for name in libraries} | dict(more or {})


def _version(library: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - a command that shows none starts without it

    try:
        return version(library)
    except PackageNotFoundError:
        return "absent"


def now() -> str:
    """The current time, ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def commit_of(tree: Path) -> str:
    """The checked-out commit of a source tree, read from git's files without running anything; "" if it is no clone."""
    git = tree / ".git"
    try:
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return head
        name = head.removeprefix("ref: ")
        if (git / name).is_file():
            return (git / name).read_text(encoding="utf-8").strip()
        packed = (git / "packed-refs").read_text(encoding="utf-8")
        return next((line.split()[0] for line in packed.splitlines() if line.endswith(f" {name}")), "")
    except (OSError, UnicodeDecodeError):
        return ""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
