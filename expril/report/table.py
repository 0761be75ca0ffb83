"""What a table holds, said once; `files`, `markdown`, `terminal` and `page` write it."""

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
"""So that a reader who sees no colour can tell tones apart."""


@dataclass(frozen=True)
class Cell:
    """One place of a table.

    Attributes:
        text: as it is, in lines where it has some; each writer escapes it.
        strong: bold in all forms but CSV.
        tone: on a page, a colour and a mark before the text.
        title: what a tone means, for who hears the page.
        under: on a page, a second line.
        key: on a page, its colour and shape before the text.
    """

    text: str
    strong: bool = False
    tone: Tone = ""
    title: str = ""
    under: str = ""
    key: Key | None = None

    @property
    def mark(self) -> str:
        """Of the tone."""
        return MARKS.get(self.tone, "")


@dataclass(frozen=True)
class Squares:
    """One square for each of several outcomes: (class in the style sheet, words); on a page alone."""

    squares: Sequence[tuple[Literal["full", "crossed", "half", "struck", "dashed"], str]]


@dataclass(frozen=True)
class Column(Generic[Item]):
    """What all rows show in one column.

    Attributes:
        heading: of the column.
        show: a row's item -> what stands there: a `Cell`, or anything whose `str` does; where it is `drawn`, a `Strip`,
            `Squares` or None.
        number: aligned to the right.
        names: it says which row it is, as the row's heading on a page.
        quiet: Markdown leaves its heading out.
        title: of the heading, for who points at it on a page.
        drawn: it holds drawings, and stands on a page alone.
        axis: of its strips, whose ticks stand below the heading.
        page: it stands on a page alone, such as a second form of a number.
        wraps: the terminal may break its texts over several lines.
    """

    heading: str
    show: Callable[[Item], object]
    number: bool = False
    names: bool = False
    quiet: bool = False
    title: str = ""
    drawn: bool = False
    axis: Axis | None = None
    page: bool = False
    wraps: bool = False

    def text(self, item: Item) -> Cell:
        """What stands in a row, of a column that is not drawn."""
        shown = self.show(item)
        return shown if isinstance(shown, Cell) else Cell(str(shown))

    def drawing(self, item: Item) -> Strip | Squares | None:
        """What is drawn in a row, of a column that is."""
        shown = self.show(item)
        return shown if isinstance(shown, Strip | Squares) else None


def attributes(names: str, form: Callable[[Any], str] = str) -> tuple[Column[Any], ...]:
    """Columns that show the attributes of these names, apart by spaces, in one form; "" for None."""

    def show(name: str, item: Any) -> str:
        value = getattr(item, name)
        return "" if value is None else form(value)

    return tuple(Column(name, partial(show, name)) for name in names.split())


def numbers(attributes: str, form: Callable[[Any], object] = str) -> tuple[Column[Any], ...]:
    """Columns of numbers, "heading = attribute" each, apart by semicolons; "a.b" is an attribute's own, "–" a None."""

    def show(path: str, item: Any) -> object:
        value = attrgetter(path)(item)
        return "–" if value is None else form(value)

    pairs = (text.rpartition(" = ") for text in attributes.split("; "))
    return tuple(Column(heading, partial(show, path), number=True) for heading, _, path in pairs)


@dataclass(frozen=True)
class Group(Generic[Item]):
    """Rows that belong together, under a title."""

    rows: Sequence[Item]
    title: str = ""


@dataclass(frozen=True)
class Table(Generic[Item]):
    """A table.

    Attributes:
        caption: what it is.
        columns: from the left.
        groups: its rows.
        style: its class in a page's style sheet.
        most: rows of a group that a terminal shows; it says how many more there are.
        row_style: a row's, by its item.
        sortable: on a page, by whoever presses a heading.
        note: below it.
        compact: in the terminal, with less room between its many columns.
    """

    caption: str
    columns: Sequence[Column[Item]]
    groups: Sequence[Group[Item]]
    style: str = ""
    most: int = sys.maxsize
    row_style: Callable[[Item], str] = lambda _item: ""
    sortable: bool = False
    note: str = ""
    compact: bool = False

    @classmethod
    def of(
        cls, caption: str, columns: Sequence[Column[Item]], rows: Sequence[Item], style: str = "", *, note: str = ""
    ) -> Self:
        """A table of rows in one group."""
        return cls(caption, columns, (Group(rows),) if rows else (), style, note=note)

    def __bool__(self) -> bool:
        """Whether there is a row."""
        return any(group.rows for group in self.groups)

    @property
    def written(self) -> list[Column[Item]]:
        """The columns of all forms: those that are text."""
        return [column for column in self.columns if not (column.drawn or column.page)]

    def without(self, heading: str) -> Self:
        """The table but for a column."""
        return replace(self, columns=[column for column in self.columns if column.heading != heading])


Written = Table[Sequence[object]]
"""A table whose rows are written out."""


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
    """A table of rows written out. Their first say which row it is and may be `quiet`; the others may be `numbers`.

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
    """A row of a total, in bold."""
    return tuple(Cell(str(text), strong=True) for text in texts)


def judged(good: bool, passed: str, failed: str) -> Cell:
    """The word of a verdict, in its tone."""
    return Cell(passed, tone="good") if good else Cell(failed, tone="bad")
