"""Documents for the terminal: their tables and notes, without squeezing a column."""

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
"""Columns of a console that the widest table needs."""


def as_terminal(document: Document) -> Iterator[RenderableType]:
    """A document's notes and tables; each group stands under the table's caption and its own title."""
    for section in document.in_medium("terminal"):
        for table in tables(section.present):
            if any(group.title for group in table.groups):
                for group in table.groups:
                    yield rich_table(replace(table, caption=f"{table.caption}: {group.title}", groups=(group,)))
            else:
                yield rich_table(table)
        for block in section.present:
            if isinstance(block, Notes):
                for note in block.items:
                    words = " ".join(filter(None, (note.alarm, note.text, note.more)))
                    yield Text.from_markup(f"[{'red' if note.alarm else 'yellow'}]note[/] {escape(words)}")


def rich_table(source_table: Table[Item], note: str = "") -> RichTable:
    """The table with its caption above, `note` below (by default its own), and a line between groups."""
    caption = escape(note or source_table.note) or None
    rich = RichTable(title=escape(source_table.caption) or None, caption=caption, box=box.SIMPLE_HEAD)
    rich.collapse_padding, rich.pad_edge = source_table.compact, not source_table.compact
    columns = source_table.visible
    for column in columns:
        how: JustifyMethod = "right" if column.number else "left"
        rich.add_column(escape(column.heading), justify=how, no_wrap=not column.wraps)
    for group in source_table.groups:
        for item in group.rows[: source_table.most]:
            rich.add_row(*(_text(column.text(item)) for column in columns))
        if len(group.rows) > source_table.most:
            rich.add_row(f"and {len(group.rows) - source_table.most} more")
        rich.add_section()
    return rich


_STYLES = {"good": "green", "bad": "bold red", "warn": "yellow"}


def _text(cell: Cell) -> str:
    style = _STYLES.get(cell.tone, "bold" if cell.strong else "")
    return f"[{style}]{escape(cell.text)}[/]" if style else escape(cell.text)
