"""A document of results: a headline and sections of text, tables and charts, described once for all writers.

`page`, `files` and `terminal` write a document, and `files` its tables as CSV. All of its strings are untrusted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from expril.report.chart import Figure, Key, Strip
from expril.report.provenance import Provenance
from expril.report.table import Table, Written

Medium = Literal["page", "markdown", "terminal"]
EVERYWHERE: frozenset[Medium] = frozenset({"page", "markdown", "terminal"})
PAGE: frozenset[Medium] = frozenset({"page"})
PAPER: frozenset[Medium] = frozenset({"page", "markdown"})
TERMINAL: frozenset[Medium] = frozenset({"terminal"})


@dataclass(frozen=True)
class Text:
    """A paragraph; a `lead` says how to read what follows, a `fine` one is an aside."""

    text: str
    style: Literal["lead", "prose", "fine"] = "lead"


@dataclass(frozen=True)
class Heading:
    """A heading within a section; a page shows the colour and shape of its key, if it has one."""

    text: str
    key: Key | None = None


@dataclass(frozen=True)
class Facts:
    """Terms with a text for each: `facts` on one line, a `glossary` in rows, `reading` in boxes of text."""

    items: Sequence[tuple[str, str]]
    style: Literal["facts", "glossary", "reading"] = "facts"


@dataclass(frozen=True)
class Charts:
    """Charts side by side under one legend. Only a page shows them; Markdown shows their `file`, if they have one.

    Attributes:
        figures: from the left; several stand each under its name.
        keys: of the legend.
        rules: (class in the style sheet, words) of levels in the legend.
        columns: charts side by side on a wide screen.
        lines: whether a key shows a piece of a line.
        note: text below.
        size: of the marks.
        file: name of an SVG file with the same charts; "" for none.
        name: heading above them all.
    """

    figures: Sequence[Figure]
    keys: Sequence[Key] = ()
    rules: Sequence[tuple[str, str]] = ()
    columns: Literal[1, 2, 3, 4] = 3
    lines: bool = True
    note: str = ""
    size: float = 0.6
    file: str = ""
    name: str = ""


@dataclass(frozen=True)
class Legend:
    """A legend of the tables below: keys, and lines as (class in the style sheet, words)."""

    keys: Sequence[Key] = ()
    marks: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Drawing:
    """A picture as SVG markup, whose maker escaped its texts. Only a page shows it, or its `file`, as with `Charts`.

    Attributes:
        svg: its markup.
        name, caption: above and below it.
        size: width and height in pixels if they are fixed; a narrow page then scrolls it. A file needs them.
        images: whether it holds images as data URIs.
        file: name of an SVG file with the same picture; "" for none.
    """

    svg: str
    name: str = ""
    caption: str = ""
    size: tuple[int, int] | None = None
    images: bool = False
    file: str = ""


@dataclass(frozen=True)
class Code:
    """A command, or a file's text, shown unchanged."""

    text: str


@dataclass(frozen=True)
class Note:
    """A note to read first. An `alarm` says that something is wrong; `more` is a detail."""

    text: str
    more: str = ""
    alarm: str = ""


@dataclass(frozen=True)
class Notes:
    """A list of notes."""

    items: Sequence[Note]


@dataclass(frozen=True)
class Card:
    """One result, large: a name, its value with a strip, and facts.

    Attributes:
        key: its name, colour and shape.
        under: what it is.
        value: as text.
        error: of the value, "± ..."; "" for none.
        strip: a drawing of the value; None for none.
        labels: (value of the strip's axis, words) below the strip.
        text: the strip in words, for a screen reader.
        facts: terms and values.
        more: further facts, smaller.
    """

    key: Key
    under: str
    value: str
    error: str = ""
    strip: Strip | None = None
    labels: Sequence[tuple[float, str]] = ()
    text: str = ""
    facts: Sequence[tuple[str, str]] = ()
    more: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Cards:
    """Cards side by side; a single one is larger."""

    cards: Sequence[Card]
    title: str = ""


@dataclass(frozen=True)
class Grid:
    """Groups of blocks side by side, `columns` of them on a wide screen."""

    groups: Sequence[Sequence["Block"]]
    columns: Literal[2, 3, 4] = 2


@dataclass(frozen=True)
class Fold:
    """Blocks that a page shows on demand; Markdown shows them always."""

    summary: str
    blocks: Sequence["Block"]


Block = Text | Heading | Facts | Table[Any] | Charts | Legend | Drawing | Code | Notes | Cards | Grid | Fold


@dataclass(frozen=True)
class Section:
    """A part of a document; a section without blocks is left out.

    Attributes:
        title: its heading; "" for none.
        blocks: in order; a false one (None, an empty table) is left out.
        media: where it is shown. A terminal shows tables and notes only.
    """

    title: str
    blocks: Sequence[Block | None]
    media: frozenset[Medium] = EVERYWHERE

    @property
    def present(self) -> list[Block]:
        """The blocks that are not left out."""
        return [block for block in self.blocks if block]


@dataclass(frozen=True)
class Document:
    """A headline, sections, and where the numbers come from.

    Attributes:
        kind: kind of document, shown above a page's headline.
        subject: its topic, beside that.
        headline: the answer in one line.
        summary: sentences below it.
        sections: in order.
        created: ISO 8601; "" if unknown or said by the sources.
        about: a paragraph in its author's words.
        banner: (bold words, further words) above everything; None for none.
        note: where the numbers are, for readers of the Markdown.
        sources: (title, provenance) of each part; the provenance is None for a part that was not computed.
        settings: a table below the sources.
        files: name of a CSV file -> its table.
    """

    kind: str
    subject: str
    headline: str
    summary: Sequence[str] = ()
    sections: Sequence[Section] = ()
    created: str = ""
    about: str = ""
    banner: tuple[str, str] | None = None
    note: str = ""
    sources: Sequence[tuple[str, Provenance | None]] = ()
    settings: Written | None = None
    files: Mapping[str, Table[Any]] = field(default_factory=dict)

    def in_medium(self, medium: Medium) -> list[Section]:
        """The sections that a medium shows."""
        return [section for section in self.sections if medium in section.media and section.present]


def leaves(blocks: Iterable[Block]) -> Iterator[Block]:
    """All blocks in order, with the blocks within a fold or a grid in its place."""
    for block in blocks:
        if isinstance(block, Fold):
            yield from leaves(block.blocks)
        elif isinstance(block, Grid):
            for group in block.groups:
                yield from leaves(group)
        else:
            yield block


def tables(blocks: Iterable[Block]) -> Iterator[Table[Any]]:
    """All tables among blocks and within them, in order."""
    return (block for block in leaves(blocks) if isinstance(block, Table))
