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
    """A paragraph. A `lead` says how to read what follows; a `fine` one is an aside."""

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
    """Charts side by side under one legend. Only a page shows them; Markdown shows their `file`, if they have one."""

    figures: Sequence[Figure]  # from the left; several stand each under its name
    keys: Sequence[Key] = ()  # of the legend
    rules: Sequence[tuple[str, str]] = ()  # (class in the style sheet, words) of levels in the legend
    columns: Literal[1, 2, 3, 4] = 3  # charts side by side on a wide screen
    lines: bool = True  # whether a key shows a piece of a line
    note: str = ""
    size: float = 0.6  # of the marks
    file: str = ""  # name of an SVG file with the same charts; "" for none
    name: str = ""  # heading above them all


@dataclass(frozen=True)
class Legend:
    """A legend of the tables below: keys, and lines as (class in the style sheet, words)."""

    keys: Sequence[Key] = ()
    marks: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Drawing:
    """A picture as SVG markup, whose maker escaped its texts. Only a page shows it, or its `file`, as with `Charts`."""

    svg: str  # its markup
    name: str = ""  # above it
    caption: str = ""  # below it
    # width and height in pixels if they are fixed; a narrow page then scrolls it. A file needs them
    size: tuple[int, int] | None = None
    images: bool = False  # whether it holds images as data URIs
    file: str = ""  # name of an SVG file with the same picture; "" for none


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
    """One result, large: a name, its value with a strip, and facts."""

    key: Key  # its name, colour and shape
    under: str  # what it is
    value: str  # as text
    error: str = ""  # of the value, "± ..."; "" for none
    strip: Strip | None = None  # a drawing of the value; None for none
    labels: Sequence[tuple[float, str]] = ()  # (value of the strip's axis, words) below the strip
    text: str = ""  # the strip in words, for a screen reader
    facts: Sequence[tuple[str, str]] = ()  # terms and values
    more: Sequence[tuple[str, str]] = ()  # further facts, smaller


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


@dataclass(frozen=True)
class Answer:
    """A reader's question, its answer in one sentence, and sentences that say more."""

    question: str
    answer: str
    more: Sequence[str] = ()

    @property
    def sentences(self) -> str:
        """The answer and the further sentences as one text."""
        return " ".join((self.answer, *self.more))


@dataclass(frozen=True)
class Brief:
    """What a reader asks first, with short answers and one figure: a screen, or a printed sheet of its own.

    A page shows it in two columns, with `beside` below the answers of the second. Markdown shows it, a terminal does
    not.
    """

    answers: Sequence[Answer]
    beside: Sequence["Block"] = ()  # the figure: a table of strips or charts, with legend and note


Block = Text | Heading | Facts | Table[Any] | Charts | Legend | Drawing | Code | Notes | Cards | Grid | Fold | Brief


@dataclass(frozen=True)
class Section:
    """A part of a document; a section without blocks is left out."""

    title: str  # its heading; "" for none
    blocks: Sequence[Block | None]  # in order; a false one (None, an empty table) is left out
    media: frozenset[Medium] = EVERYWHERE  # where it is shown. A terminal shows tables and notes only

    @property
    def present(self) -> list[Block]:
        """The blocks of the section that are not empty."""
        return [block for block in self.blocks if block]


@dataclass(frozen=True)
class Document:
    """A headline, sections, and where the numbers come from."""

    kind: str  # kind of document, shown above a page's headline
    subject: str  # its topic, beside that
    headline: str  # the answer in one line
    summary: Sequence[str] = ()  # sentences below it
    sections: Sequence[Section] = ()  # in order
    created: str = ""  # ISO 8601; "" if unknown or said by the sources
    about: str = ""  # a paragraph in its author's words
    banner: tuple[str, str] | None = None  # (bold words, further words) above everything; None for none
    note: str = ""  # where the numbers are, for readers of the Markdown
    # (title, provenance) of each part; the provenance is None for a part that was not computed
    sources: Sequence[tuple[str, Provenance | None]] = ()
    settings: Written | None = None  # a table below the sources
    files: Mapping[str, Table[Any]] = field(default_factory=dict)  # name of a CSV file -> its table

    def in_medium(self, medium: Medium) -> list[Section]:
        """The sections that a medium shows."""
        return [section for section in self.sections if medium in section.media and section.present]


def leaves(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield all blocks in order. A fold, a grid or a brief is replaced by the blocks in it."""
    for block in blocks:
        if isinstance(block, Fold):
            yield from leaves(block.blocks)
        elif isinstance(block, Grid):
            for group in block.groups:
                yield from leaves(group)
        elif isinstance(block, Brief):
            yield from leaves(block.beside)
        else:
            yield block


def tables(blocks: Iterable[Block]) -> Iterator[Table[Any]]:
    """All tables among blocks and within them, in order."""
    return (block for block in leaves(blocks) if isinstance(block, Table))
