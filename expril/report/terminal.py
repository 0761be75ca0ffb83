"""Documents for the terminal: their tables and notes; a command prints them without squeezing a column."""

from collections.abc import Iterator
from dataclasses import replace

from rich import box
from rich.console import JustifyMethod, RenderableType
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from expril.report.document import Document, Notes, tables
from expril.report.table import Cell, Item, Table

LEAST_WIDTH = 132
"""Of a console, in columns, for the widest of these tables."""


def as_terminal(document: Document) -> Iterator[RenderableType]:
    """The tables of a document, each group under the table's caption and its own title, and its notes."""
    for section in document.in_medium("terminal"):
        for table in tables(section.shown):
            yield from rich_tables(table) if any(group.title for group in table.groups) else [rich_table(table)]
        for block in section.shown:
            if isinstance(block, Notes):
                for note in block.items:
                    words = " ".join(filter(None, (note.alarm, note.text, note.more)))
                    yield Text.from_markup(f"[{'red' if note.alarm else 'yellow'}]note[/] {escape(words)}")


def rich_tables(shown: Table[Item]) -> Iterator[RichTable]:
    """A table of each group, under the caption and the group's title."""
    for group in shown.groups:
        yield rich_table(replace(shown, caption=f"{shown.caption}: {group.title}", groups=(group,)))


def rich_table(shown: Table[Item], note: str = "") -> RichTable:
    """The table with its caption above, and a note below, its own by default; a line stands between groups."""
    caption = escape(note or shown.note) or None
    made = RichTable(title=escape(shown.caption) or None, caption=caption, box=box.SIMPLE_HEAD)
    made.collapse_padding, made.pad_edge = shown.compact, not shown.compact
    for column in shown.written:
        how: JustifyMethod = "right" if column.number else "left"
        made.add_column(escape(column.heading), justify=how, no_wrap=not column.wraps)
    for group in shown.groups:
        for item in group.rows[: shown.most]:
            made.add_row(*(_text(column.text(item)) for column in shown.written))
        if len(group.rows) > shown.most:
            made.add_row(f"and {len(group.rows) - shown.most} more")
        made.add_section()
    return made


_STYLES = {"good": "green", "bad": "bold red", "warn": "yellow"}


def _text(cell: Cell) -> str:
    style = _STYLES.get(cell.tone, "bold" if cell.strong else "")
    return f"[{style}]{escape(cell.text)}[/]" if style else escape(cell.text)
