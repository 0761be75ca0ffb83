"""Tables for the terminal; the command prints them without squeezing a column."""

from collections.abc import Iterator
from dataclasses import replace

from rich import box
from rich.markup import escape
from rich.table import Table as RichTable

from expril.report.table import Item, Table, Text

LEAST_WIDTH = 132
"""Of a console, in columns, for the widest of these tables."""


def rich_tables(shown: Table[Item]) -> Iterator[RichTable]:
    """A table of each group, under the caption and the group's title."""
    for group in shown.groups:
        yield rich_table(replace(shown, caption=f"{shown.caption}: {group.title}", groups=(group,)))


def rich_table(shown: Table[Item], note: str = "") -> RichTable:
    """The table with its caption above, and a note below; a line stands between groups."""
    made = RichTable(title=escape(shown.caption), caption=escape(note) or None, box=box.SIMPLE_HEAD)
    for column in shown.columns:
        made.add_column(escape(column.heading), justify="right" if column.number else "left", no_wrap=True)
    for group in shown.groups:
        for item in group.rows:
            made.add_row(*(_text(column.text(item)) for column in shown.columns))
        made.add_section()
    return made


def _text(text: Text) -> str:
    return f"[bold]{escape(text.text)}[/]" if text.strong else escape(text.text)
