"""Documents and tables as text files: GitHub-flavoured Markdown, CSV (RFC 4180, one header line) and JSON values."""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from expril.report.document import (
    Block,
    Brief,
    Charts,
    Code,
    Document,
    Drawing,
    Facts,
    Fold,
    Grid,
    Heading,
    Notes,
    Text,
)
from expril.report.numbers import moment
from expril.report.provenance import Provenance
from expril.report.table import Cell, Item, Table, Written

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def plain(text: str) -> str:
    """Return text escaped so that Markdown shows it unchanged on one line, also in a table cell."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def fence(text: str) -> str:
    """Return a Markdown block of code, which may hold backticks."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}\n{text}\n{ticks}"


def lines(head: Sequence[str], rows: Iterable[Sequence[str]], *, rule: str = "---") -> str:
    """Return a Markdown table, whose cells are Markdown."""
    written = ["| " + " | ".join(head) + " |", "|" + f"{rule}|" * len(head)]
    written += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(written)


def table(source: Table[Item]) -> str:
    """Return a Markdown table, whose cells are plain texts."""
    columns = source.written
    rows = []
    for group in source.groups:
        if group.title:
            rows.append([f"*{plain(group.title)}*", *[""] * (len(columns) - 1)])
        rows += [[_text(column.text(item)) for column in columns] for item in group.rows]
    return lines(["" if column.quiet else plain(column.heading) for column in columns], rows)


def as_markdown(document: Document) -> str:
    """A document for readers of a repository; charts without a file are left to the page."""
    parts = [f"# {plain(document.headline)}", plain(" ".join(document.summary)), document.note]
    for section in document.in_medium("markdown"):
        written = [text for block in section.present for text in _block(block)]
        parts += [f"## {plain(section.title)}" if section.title else "", *written] if written else []
    return "\n\n".join(filter(None, [*parts, *origin(document.sources, document.settings)])) + "\n"


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Text):
        yield plain(block.text)
    elif isinstance(block, Heading):
        yield f"### {plain(block.text)}"
    elif isinstance(block, Facts):
        yield "\n".join(f"* {plain(term)}: {plain(text)}" for term, text in block.items)
    elif isinstance(block, Table):
        yield table(block)
        yield plain(block.note)
    elif isinstance(block, Charts | Drawing) and block.file:
        yield f"![{plain(block.name)}]({block.file})"
    elif isinstance(block, Code):
        yield fence(block.text)
    elif isinstance(block, Notes):
        yield "\n".join(f"* {plain(note.text)}" for note in block.items)
    elif isinstance(block, Fold):
        yield from (text for inner in block.blocks for text in _block(inner))
    elif isinstance(block, Brief):
        for entry in block.answers:
            yield f"### {plain(entry.question)}"
            yield f"**{plain(entry.answer)}** {plain(' '.join(entry.more))}".rstrip()
        yield from (text for inner in block.beside if inner for text in _block(inner))
    elif isinstance(block, Grid):
        yield from (text for group in block.groups for inner in group for text in _block(inner))


def _text(text: Cell) -> str:
    return f"**{plain(text.text)}**" if text.strong else plain(text.text)


def origin(sources: Iterable[tuple[str, Provenance | None]], settings: Written | None = None) -> list[str]:
    """Return the section on sources: each in words, with its command and what was left out; then the settings."""
    parts = [text for title, where in sources if where is not None for text in _provenance(title, where)]
    if settings:
        parts += [f"### {plain(settings.caption)}", table(settings)]
    return ["## Where the numbers come from", *parts] if parts else []


def _provenance(title: str, where: Provenance) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(where.versions.items()))
    place = f"on {where.cores} cores" if where.cores else ""
    machine = f"{where.jobs} processes {place}".strip()
    commit = f" Commit {where.commit}." if where.commit else ""
    facts = (
        f"{title}: made {moment(where.created)}, seed {where.seed}, {where.seconds / 60:.1f} minutes, "
        f"{machine}, noise: {where.noise}.{commit} Versions: {versions or 'not recorded'}."
    )
    skipped = [f"{plain(name)} was left out: {plain(why)}" for name, why in where.skipped.items()]
    return [plain(facts), fence(where.command), *skipped]


def csv_table(source: Table[Any]) -> str:
    """A header line and a table's rows, group after group; titles of groups are left out."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column.heading for column in source.written)
    writer.writerows(
        [column.text(item).text for column in source.written] for group in source.groups for item in group.rows
    )
    return out.getvalue()


def as_object(struct: object) -> object:
    """A msgspec struct as JSON values; a number that is not finite becomes its text, such as "inf", as in CSV."""

    def jsonable(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: jsonable(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [jsonable(inner) for inner in value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return jsonable(msgspec.to_builtins(struct))
