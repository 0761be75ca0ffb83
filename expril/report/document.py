"""A document of results: a headline and sections of text, tables and charts, described once for all writers.

`page`, `files` and `terminal` write a document, and `files` its tables as CSV. All of its strings are untrusted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Literal

from expril.report.chart import Figure, Key, Strip
from expril.report.labels import LEAST_OF_FOUR, LEAST_WIDTH
from expril.report.provenance import Provenance
from expril.report.table import Squares, Table, Written

Medium = Literal["page", "markdown", "terminal"]
EVERYWHERE: frozenset[Medium] = frozenset({"page", "markdown", "terminal"})
PAGE: frozenset[Medium] = frozenset({"page"})
PAPER: frozenset[Medium] = frozenset({"page", "markdown"})
TERMINAL: frozenset[Medium] = frozenset({"terminal"})
_FOUR = 4


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

    def __bool__(self) -> bool:
        """Whether a chart tells something."""
        return bool(self.drawn_figures)

    @property
    def drawn_figures(self) -> list[Figure]:
        """The charts without flat ones, of which a sentence tells as much."""
        return [figure for figure in self.figures if not figure.flat]

    @property
    def drawn_keys(self) -> list[Key]:
        """The legend's entries without those that no chart draws."""
        lines = {(line.index, line.hollow) for figure in self.drawn_figures for line in figure.lines}
        return [key for key in self.keys if (key.index, key.hollow) in lines]

    @property
    def drawn_rules(self) -> list[tuple[str, str]]:
        """The legend's levels without those that no chart draws."""
        styles = {rule.style for figure in self.drawn_figures for rule in figure.rules}
        styles |= {"band" for figure in self.drawn_figures for line in figure.lines if line.band}
        styles |= {"diagonal" for figure in self.drawn_figures if figure.diagonal}
        return [(style, words) for style, words in self.rules if not style or {style, style.partition(" ")[0]} & styles]

    @property
    def least_width(self) -> int:
        """Pixels that a page gives a chart at least."""
        return LEAST_OF_FOUR if self.columns == _FOUR else LEAST_WIDTH


@dataclass(frozen=True)
class Legend:
    """A legend of the tables below: keys, and lines as (class in the style sheet, words)."""

    keys: Sequence[Key] = ()
    marks: Sequence[tuple[str, str]] = ()

    def __bool__(self) -> bool:
        """Whether it has an entry."""
        return bool(self.keys or self.marks)

    def limited(self, styles: AbstractSet[object]) -> "Legend":
        """The legend without entries that are not drawn; `styles` as from `_drawn_styles`."""
        keys = [key for key in self.keys if (key.index, key.hollow) in styles]
        return Legend(keys, [mark for mark in self.marks if mark[0].partition(" ")[0] in styles])


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
        """The blocks of the section that are not empty; legends without entries that no table of it draws."""
        blocks = [block for block in self.blocks if block]
        if any(isinstance(block, Drawing) for block in leaves(blocks)):
            return blocks
        styles = {style for table in tables(blocks) for style in _drawn_styles(table)}
        legends = (block.limited(styles) if isinstance(block, Legend) and styles else block for block in blocks)
        return [block for block in legends if block]


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


def _drawn_styles(table: Table[Any]) -> Iterator[object]:
    """What a table draws: (index, hollow) of each dot or key, and the style of each mark, span, bar and square."""
    for column in table.columns:
        for row in (row for group in table.groups for row in group.rows):
            if not column.drawn:
                key = column.text(row).key
                yield from [(key.index, key.hollow)] if key else []
                continue
            drawing = column.drawing(row)
            if isinstance(drawing, Squares):
                yield from (f"square-{style}" for style, _ in drawing.squares)
            elif drawing is not None:
                styles = [part for _, _, style, _ in drawing.spans for part in style.split()]
                yield from styles
                yield from (style.partition(" ")[0] for _, style in drawing.marks)
                yield from ((int(index), index % 1 > 0) for index, *_ in drawing.dots)
                yield from ((index, False) for _, _, _, index, _ in drawing.diamonds)
                yield from ("bar" for _, _, error, _ in drawing.dots if error and error[0] < error[1])
                yield from ((int(style[1:]), False) for style in styles if style[1:].isdigit())


def tables(blocks: Iterable[Block]) -> Iterator[Table[Any]]:
    """All tables among blocks and within them, in order."""
    return (block for block in leaves(blocks) if isinstance(block, Table))
