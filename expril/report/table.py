"""Tables, described once; `files`, `terminal` and `page` write them."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Generic, Literal, Self, TypeVar

from expril.report.chart import Axis, Key, Strip

Item = TypeVar("Item")
Tone = Literal["", "within", "above", "below", "apart", "best", "good", "bad", "warn"]
MARKS: dict[Tone, str] = {
    "within": "=",
    "above": "▲",
    "below": "▼",
    "apart": "≠",
    "best": "★",
    "good": "✓",
    "bad": "✗",
    "warn": "!",
}
"""Marks that tell tones apart without colour."""


_DASHES = "–-— \n"
"""What a cell without a value is made of."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str  # unescaped, with line breaks if it has several lines; each writer escapes it
    strong: bool = False  # bold in all forms but CSV
    tone: Tone = ""  # on a page, a colour and a mark before the text
    title: str = ""  # the meaning of the tone, for a screen reader
    under: str = ""  # on a page, a second line
    shade: int = 0  # on a page, how dark it is, from 0 to 9
    key: Key | None = None  # on a page, a colour and shape before the text

    @property
    def mark(self) -> str:
        """The mark of the tone."""
        return MARKS.get(self.tone, "")


@dataclass(frozen=True)
class Squares:
    """A row of squares, one per outcome: (class in the style sheet, words). Only a page shows them."""

    squares: Sequence[tuple[Literal["full", "crossed", "half", "struck", "dashed"], str]]


@dataclass(frozen=True)
class Column(Generic[Item]):
    """A column of a table."""

    heading: str
    # row's item -> the cell: a `Cell`, or anything with a `str`; in a `drawn` column a `Strip`, `Squares` or None
    show: Callable[[Item], object]
    number: bool = False  # aligned to the right
    names: bool = False  # whether it names the rows; a page makes its cells the rows' headings
    quiet: bool = False  # whether Markdown leaves its heading out
    title: str = ""  # tooltip of the heading on a page
    drawn: bool = False  # whether it holds drawings, which only a page shows
    axis: Axis | None = None  # of its strips; the heading shows the ticks
    page: bool = False  # whether only a page shows it, such as a second form of a number
    wraps: bool = False  # whether the terminal may break its texts over several lines

    def text(self, item: Item) -> Cell:
        """The cell of a row in a column of texts."""
        content = self.show(item)
        return content if isinstance(content, Cell) else Cell(str(content))

    def tells(self, item: Item) -> bool:
        """Whether a row's cell has more than a dash, or a drawing."""
        if self.drawn:
            return self.drawing(item) is not None
        cell = self.text(item)
        return bool(cell.text.strip(_DASHES) or cell.under.strip(_DASHES) or cell.key)

    def drawing(self, item: Item) -> Strip | Squares | None:
        """The drawing of a row in a `drawn` column."""
        content = self.show(item)
        return content if isinstance(content, Strip | Squares) else None


def attributes(names: str, form: Callable[[Any], str] = str) -> tuple[Column[Any], ...]:
    """Make columns for attributes (names separated by spaces) in one format. None shows as ""."""

    def show(name: str, item: Any) -> str:
        value = getattr(item, name)
        return "" if value is None else form(value)

    return tuple(Column(name, partial(show, name)) for name in names.split())


def numbers(attributes: str, form: Callable[[Any], object] = str) -> tuple[Column[Any], ...]:
    """Columns of numbers from "heading = attribute; ..."; "a.b" is nested, and None shows as "–"."""

    def show(path: str, item: Any) -> object:
        value = attrgetter(path)(item)
        return "–" if value is None else form(value)

    pairs = (text.rpartition(" = ") for text in attributes.split("; "))
    return tuple(Column(heading, partial(show, path), number=True) for heading, _, path in pairs)


@dataclass(frozen=True)
class Group(Generic[Item]):
    """A group of rows under a title."""

    rows: Sequence[Item]
    title: str = ""


@dataclass(frozen=True)
class Table(Generic[Item]):
    """A table: columns, and groups of rows."""

    caption: str  # what it shows
    columns: Sequence[Column[Item]]  # from the left
    groups: Sequence[Group[Item]]
    style: str = ""  # its class in a page's style sheet
    most: int = sys.maxsize  # rows of a group that a terminal shows; it says how many more there are
    row_style: Callable[[Item], str] = lambda _item: ""  # row's item -> the row's style
    sortable: bool = False  # whether a page sorts it when a heading is pressed
    note: str = ""
    compact: bool = False  # whether the terminal leaves less room between the columns

    @classmethod
    def of(
        cls, caption: str, columns: Sequence[Column[Item]], rows: Sequence[Item], style: str = "", *, note: str = ""
    ) -> Self:
        """A table of rows in one group."""
        return cls(caption, columns, (Group(rows),) if rows else (), style, note=note)

    def __bool__(self) -> bool:
        """Whether the table has a row."""
        return any(group.rows for group in self.groups)

    @property
    def filled(self) -> list[Column[Item]]:
        """The columns without those whose cells are all empty or "–": pages and terminals leave them out."""
        rows = [row for group in self.groups for row in group.rows]
        return [column for column in self.columns if not rows or any(column.tells(row) for row in rows)]

    @property
    def written(self) -> list[Column[Item]]:
        """The columns of text, which files have."""
        return [column for column in self.columns if not (column.drawn or column.page)]

    @property
    def visible(self) -> list[Column[Item]]:
        """The columns of text that a terminal shows: `written`, without those that tell nothing."""
        return [column for column in self.filled if not (column.drawn or column.page)]

    def without(self, heading: str) -> Self:
        """The table without one column."""
        return replace(self, columns=[column for column in self.columns if column.heading != heading])


Written = Table[Sequence[object]]
"""A table whose rows are lists of texts."""


def text_table(
    caption: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    numbers: bool = False,
    quiet: bool = False,
    style: str = "",
    note: str = "",
    wraps: Sequence[str] = (),
) -> Written:
    """A table of rows of texts. The first column names the row and may be `quiet`; the others may be `numbers`.

    `wraps` names the columns that the terminal may break.
    """
    columns = [
        Column[Sequence[object]](
            heading,
            itemgetter(n),
            number=numbers and n > 0,
            names=n == 0,
            quiet=quiet and n == 0,
            wraps=heading in wraps,
        )
        for n, heading in enumerate(headings)
    ]
    return Table.of(caption, columns, rows, style, note=note)


def strong(*texts: object) -> tuple[Cell, ...]:
    """A row of totals, in bold."""
    return tuple(Cell(str(text), strong=True) for text in texts)


def judged(good: bool, passed: str, failed: str) -> Cell:
    """Make a cell of a verdict's word in its tone."""
    return Cell(passed, tone="good") if good else Cell(failed, tone="bad")
