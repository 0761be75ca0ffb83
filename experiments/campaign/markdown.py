"""GitHub-flavoured Markdown for readers of a repository: text, tables, commands, and where numbers come from."""

import re
from collections.abc import Iterable, Sequence

from experiments.campaign.provenance import Provenance
from simulations.report.page import moment

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def plain(text: str) -> str:
    """Return text that Markdown shows as it is, on one line, in a table cell, too."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def fence(text: str) -> str:
    """A block of code, whatever backticks it holds."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}\n{text}\n{ticks}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are Markdown already."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def provenance(title: str, where: Provenance) -> list[str]:
    """A paragraph on where numbers come from, and the command."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(where.versions.items()))
    machine = f"{where.jobs} processes" + (f" on {where.cores} cores" if where.cores else "")
    commit = f" Commit {where.commit}." if where.commit else ""
    facts = (
        f"{title}: made {moment(where.created)}, seed {where.seed}, {where.seconds / 60:.1f} minutes, "
        f"{machine}, noise: {where.noise}.{commit} Versions: {versions or 'not recorded'}."
    )
    return [plain(facts), fence(where.command)]
