"""What there is to say of some results, once: a headline and sections of text, tables and charts.

`page`, `markdown` and `terminal` write a document, and `files` its tables as CSV. All of its strings are untrusted.
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
    """A heading within a section; on a page with the colour and shape of a key, where there is one."""

    text: str
    key: Key | None = None


@dataclass(frozen=True)
class Facts:
    """Terms and what is to be said of each: `facts` in one line, a `glossary` in rows, `reading` in boxes of text."""

    items: Sequence[tuple[str, str]]
    style: Literal["facts", "glossary", "reading"] = "facts"


@dataclass(frozen=True)
class Charts:
    """Charts side by side under one legend; on a page alone, unless they have a file, which Markdown shows.

    Attributes:
        figures: from the left, each under its name where there are several.
        keys: of the legend.
        rules: (class in the style sheet, words) of levels in the legend.
        columns: so many stand side by side on a wide screen.
        lines: whether a key shows a piece of a line.
        note: below.
        size: of the marks.
        file: name of an SVG file that shows them, too; "" for none.
        name: of them all, above them.
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
    """What colours, shapes and lines mean in the tables below: keys, and (class in the style sheet, words)."""

    keys: Sequence[Key] = ()
    marks: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Drawing:
    """A picture of one's own making, which escaped what it shows; on a page alone, unless it has a file, as `Charts`.

    Attributes:
        svg: its markup.
        name, caption: above and below it.
        size: width and height in pixels, where these are fixed: a narrow page scrolls it. A file needs them.
        images: whether it holds images as data URIs.
        file: name of an SVG file that shows it, too; "" for none.
    """

    svg: str
    name: str = ""
    caption: str = ""
    size: tuple[int, int] | None = None
    images: bool = False
    file: str = ""


@dataclass(frozen=True)
class Code:
    """What is typed, or a file's text, as it is."""

    text: str


@dataclass(frozen=True)
class Note:
    """Something to know before one reads on; an `alarm` says that something is wrong; `more` is a detail."""

    text: str
    more: str = ""
    alarm: str = ""


@dataclass(frozen=True)
class Notes:
    """Notes, one below the other."""

    items: Sequence[Note]


@dataclass(frozen=True)
class Card:
    """One result, large: a name, its value with a strip, and facts.

    Attributes:
        key: of its colour and shape, and its name.
        under: what it is.
        value: in digits.
        error: of the value, "± ..."; "" for none.
        strip: where it lies; None where there is nothing to draw.
        labels: (value of the strip's axis, words) below the strip.
        text: the strip in words, for who hears the page.
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
    """Cards; a single one is larger."""

    cards: Sequence[Card]
    title: str = ""


@dataclass(frozen=True)
class Grid:
    """Groups of blocks side by side, so many on a wide screen."""

    groups: Sequence[Sequence["Block"]]
    columns: Literal[2, 3, 4] = 2


@dataclass(frozen=True)
class Fold:
    """What opens on demand on a page; Markdown shows it as it is."""

    summary: str
    blocks: Sequence["Block"]


Block = Text | Heading | Facts | Table[Any] | Charts | Legend | Drawing | Code | Notes | Cards | Grid | Fold


@dataclass(frozen=True)
class Section:
    """A part of a document; one without blocks is left out.

    Attributes:
        title: its heading; "" for none.
        blocks: in order; what is false (None, an empty table) is left out.
        media: where it is shown. A terminal shows tables and notes only.
    """

    title: str
    blocks: Sequence[Block | None]
    media: frozenset[Medium] = EVERYWHERE

    @property
    def shown(self) -> list[Block]:
        """The blocks that are there."""
        return [block for block in self.blocks if block]


@dataclass(frozen=True)
class Document:
    """All that is said.

    Attributes:
        kind: of document, above the headline of a page.
        subject: what it is about, beside that.
        headline: the answer in one line.
        summary: sentences below it.
        sections: in order.
        created: ISO 8601, "" where the sources say it or nobody does.
        about: a paragraph in somebody's own words.
        banner: (in bold, further words) above everything; None for none.
        note: where the numbers are, for readers of the Markdown.
        sources: title and provenance of each part that was computed; None for what was not.
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
        return [section for section in self.sections if medium in section.media and section.shown]


def leaves(blocks: Iterable[Block]) -> Iterator[Block]:
    """All blocks, and in place of a fold or a grid what is within it, in order."""
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
