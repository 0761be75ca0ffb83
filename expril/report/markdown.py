"""GitHub-flavoured Markdown for readers of a repository: text, tables, commands, and where numbers come from."""

import re
from collections.abc import Iterable, Sequence

from expril.report.numbers import moment
from expril.report.provenance import Provenance
from expril.report.table import Item, Table, Text, Written

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def plain(text: str) -> str:
    """Return text that Markdown shows as it is, on one line, in a table cell, too."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def fence(text: str) -> str:
    """A block of code, whatever backticks it holds."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}\n{text}\n{ticks}"


def lines(head: Sequence[str], rows: Iterable[Sequence[str]], *, rule: str = "---") -> str:
    """A table whose cells are Markdown already."""
    written = ["| " + " | ".join(head) + " |", "|" + f"{rule}|" * len(head)]
    written += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(written)


def table(shown: Table[Item]) -> str:
    """A table of plain texts."""
    rows = []
    for group in shown.groups:
        if group.title:
            rows.append([f"*{plain(group.title)}*", *[""] * (len(shown.columns) - 1)])
        rows += [[_text(column.text(item)) for column in shown.columns] for item in group.rows]
    return lines(["" if column.quiet else plain(column.heading) for column in shown.columns], rows)


def _text(text: Text) -> str:
    return f"**{plain(text.text)}**" if text.strong else plain(text.text)


def origin(sources: Iterable[tuple[str, Provenance | None]], settings: Written | None = None) -> list[str]:
    """A section on where numbers come from: of each source in words, its command, what was left out; and settings."""
    parts = [text for title, where in sources if where is not None for text in _provenance(title, where)]
    if settings:
        parts += [f"### {plain(settings.caption)}", table(settings)]
    return ["## Where the numbers come from", *parts] if parts else []


def _provenance(title: str, where: Provenance) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(where.versions.items()))
    place = where.workers or (f"on {where.cores} cores" if where.cores else "")
    machine = f"{where.jobs} processes {place}".strip()
    commit = f" Commit {where.commit}." if where.commit else ""
    facts = (
        f"{title}: made {moment(where.created)}, seed {where.seed}, {where.seconds / 60:.1f} minutes, "
        f"{machine}, noise: {where.noise}.{commit} Versions: {versions or 'not recorded'}."
    )
    skipped = [f"{plain(name)} was left out: {plain(why)}" for name, why in where.skipped.items()]
    return [plain(facts), fence(where.command), *skipped]
