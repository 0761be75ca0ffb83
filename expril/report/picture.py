"""Charts, drawings and tables with strips as SVG files of a fixed size that load nothing.

`as_svg` follows the reader's theme, for Markdown; `as_picture` is in pixels and plain colours on white, for programs
that draw or write.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from textwrap import wrap
from typing import Any
from xml.etree import ElementTree as ET

from markupsafe import Markup

from expril.report.chart import Axis, Figure, Key, Strip
from expril.report.document import Card, Cards, Charts, Document, Drawing, Legend, leaves
from expril.report.labels import Words, cut, text_width
from expril.report.plain_svg import WHITE, Sheet, parsed, plain_svg
from expril.report.table import Cell, Column, Table
from expril.report.template import PACKAGE, asset, page_template, style

Picture = Charts | Drawing | Cards | Table[Any]
"""Blocks of which some are drawn as files."""
MARGIN, TITLE = 16, 40
"""Margin around everything, and height of the title, in pixels."""
PANEL, GAP, HEAD = 380, 36, 26
"""Width of one of several charts, space between two, height of a chart's name. A single chart is twice as wide."""
ENTRY, LETTER, LINE = 58, 6.6, 24
"""Width of a legend's entry without its name, width of a letter, and height of a line, in pixels."""
STRIP, STRIPS, CHIP = 320, 170, 20
"""Width of a table's only strip, of one of several, and of a colour and shape before a cell's words, in pixels."""
BOLD = 1.1
"""Width of bold words for one of others, an upper bound."""
WORDS = 15
"""Height of a line of words in a table, in pixels."""
TITLE_LETTER, TITLE_LINE = 9.5, 19
"""Width of a letter of a title, an upper bound, and height of its line, in pixels."""
LONGEST = 48
"""Most letters of a line of words in a table."""
APART = 34
"""Least height of a strip whose dots are below each other, in pixels."""
LEAST = 480
"""Least width, so that a title has room, in pixels."""


@dataclass(frozen=True)
class Entry:
    """A legend's entry and its place: a key, or the words of a level of that style."""

    x: float
    y: int
    name: str
    key: Key | None = None
    style: str = ""


@dataclass(frozen=True)
class Panel:
    """A chart and its place."""

    x: int
    y: int
    width: int
    figure: Figure

    @property
    def name(self) -> str:
        """The chart's name, cut where the next one begins."""
        return cut(Words(self.figure.name, 0, 0), self.width / BOLD).text


@dataclass(frozen=True)
class Label:
    """A text and its place; it ends there if `right`."""

    x: float
    y: float
    text: str
    right: bool = False
    bold: bool = False
    soft: bool = False
    key: Key | None = None  # the colour and shape before it


@dataclass(frozen=True)
class Band:
    """A strip of a table, or the ticks above them, and its place."""

    x: float
    y: float
    width: float
    height: float
    strip: Strip | None = None
    axis: Axis | None = None


def as_files(document: Document) -> dict[str, str]:
    """The SVG files of a document for its Markdown, by name."""
    blocks = [block for section in document.sections for block in leaves(section.present)]
    return {block.file: as_svg(block) for block in blocks if isinstance(block, Charts | Drawing) and block.file}


def as_svg(block: Charts | Drawing, title: str = "") -> str:
    """Return charts under their legend, or a drawing of known size, as one SVG file; `title` replaces its name."""
    name = title or block.name
    if isinstance(block, Drawing):
        width, height = block.size or (0, 0)
        return _render(name, max(width, LEAST), height, drawing=block.svg)
    figures = block.drawn_figures
    single = len(block.figures) == 1
    across, wide = min(block.columns, len(figures)), 2 * PANEL if single else PANEL
    width = across * (wide + GAP) - GAP if across else wide
    entries = _legend(block, width)
    top = max((entry.y + LINE for entry in entries), default=0)
    head = 0 if single else HEAD
    down = max((figure.height for figure in figures), default=0) + head + GAP
    panels = [
        Panel((n % across) * (wide + GAP), top + (n // across) * down, wide, figure) for n, figure in enumerate(figures)
    ]
    height = top + (down * -(-len(panels) // across) - GAP if across else 0)
    return _render(name, width, height, entries=entries, panels=panels, head=head, size=block.size, lines=block.lines)


def _legend(block: Charts, width: int) -> list[Entry]:
    entries = [Entry(0, 0, f"{key.name} {key.text}".rstrip(), key) for key in block.drawn_keys]
    entries += [Entry(0, 0, words, style=name) for name, words in block.drawn_rules]
    return _placed(entries, width)


def _entries(legend: Legend | None, width: float) -> list[Entry]:
    """Entries of a legend of tables or drawings; squares, which only a page shows, are left out."""
    if legend is None:
        return []
    entries = [Entry(0, 0, key.name, key) for key in legend.keys]
    entries += [Entry(0, 0, words, style=name) for name, words in legend.marks if not name.startswith("square-")]
    return _placed(entries, width)


def _placed(entries: Sequence[Entry], width: float) -> list[Entry]:
    """A legend's entries in rows."""
    if not entries:
        return []
    entry_width = ENTRY + LETTER * max(len(entry.name) for entry in entries)
    row = max(1, int(width // entry_width))
    return [replace(entry, x=(n % row) * entry_width, y=(n // row) * LINE) for n, entry in enumerate(entries)]


def _render(name: str, width: float, height: float, **parts: object) -> str:
    title = wrap(name, max(1, int(width / TITLE_LETTER)))
    top = TITLE + TITLE_LINE * max(0, len(title) - 1)
    sheet = {"width": round(width) + 2 * MARGIN, "height": round(height) + top + MARGIN, "margin": MARGIN, "top": top}
    rules = Markup(asset(PACKAGE, "chart.css") + asset(PACKAGE, "drawing.css"))  # noqa: S704 - our own files
    context = {
        "entries": (),
        "panels": (),
        "drawing": "",
        "head": 0,
        "size": 0.6,
        "words": (),
        "bands": (),
        "rules": (),
    }
    context |= {"lines": True, "upright": False, "title": name, "title_lines": title, "title_line": TITLE_LINE}
    return page_template(PACKAGE, "drawing.svg.j2").render(style=rules, **sheet, **context | parts).lstrip()


def has_picture(block: object) -> bool:
    """Whether a block is one that `as_picture` draws."""
    if isinstance(block, Cards):
        return any(card.strip for card in block.cards)
    return isinstance(block, Charts | Drawing) or (isinstance(block, Table) and any(map(_is_strip, block.columns)))


def as_picture(block: Picture, title: str, legend: Legend | None = None) -> str:
    """Return a block as one SVG file in pixels, on white.

    Args:
        block: one of which `has_picture` is true.
        title: above the figure.
        legend: of a table or a drawing, or of charts that have none of their own.
    """
    if isinstance(block, Cards):
        text = _table(_card_table(block), title, None)
    elif isinstance(block, Table):
        text = _table(block, title, legend)
    elif isinstance(block, Drawing) and block.size is None:
        text = _stretched(block, title, legend)
    else:
        if isinstance(block, Charts) and legend is not None:
            block = replace(block, keys=block.keys or legend.keys, rules=block.rules or legend.marks)
        text = as_svg(block, title)
    return plain_svg(text, _sheet())


@cache
def _sheet() -> Sheet:
    return Sheet.of(f"{style()}\n{asset(PACKAGE, 'drawing.css')}", paper=WHITE)


def _stretched(block: Drawing, title: str, legend: Legend | None) -> str:
    """A drawing that fills any width under its legend, and the lines of words below it."""
    width = 2 * PANEL
    entries = _entries(legend, width)
    y = max((entry.y + LINE for entry in entries), default=0.0)
    shapes = []
    for part in parsed(f"<g>{block.svg}</g>"):
        if part.tag == "svg":
            part.set("y", str(y))
            shapes.append(ET.tostring(part, encoding="unicode"))
            y += float(part.get("height", "0"))
        else:
            y += LINE
            line = ET.Element("text", {"x": "50%", "y": str(y - 6), "text-anchor": "middle"})
            line.text = "".join(part.itertext())
            shapes.append(ET.tostring(line, encoding="unicode"))
    frame = f'<svg width="{width}" height="{y}">{"".join(shapes)}</svg>'
    return _render(title, width, y, drawing=frame, entries=entries, lines=False, upright=True)


def _is_strip(column: Column[Any]) -> bool:
    return column.drawn and column.axis is not None


def _card_table(cards: Cards) -> Table[Card]:
    """Cards as a table of their names, strips and values; the words below a card's strip are below its name."""
    axis = next(card.strip.axis for card in cards.cards if card.strip)
    columns: list[Column[Card]] = [
        Column("", lambda card: Cell(card.key.name, key=card.key, under=", ".join(words for _, words in card.labels))),
        Column("", lambda card: card.strip, drawn=True, axis=axis),
        Column("", lambda card: Cell(f"{card.value} {card.error}".rstrip(), strong=True), number=True),
    ]
    return Table.of(cards.title, columns, cards.cards)


def _table(table: Table[Any], title: str, legend: Legend | None) -> str:
    """A table with strips."""
    picture = _TablePicture(table)
    width = max(picture.edges[-1] - MARGIN, LEAST)
    entries = _entries(legend, width)
    picture.y = max((entry.y + LINE for entry in entries), default=0)
    picture.add_heading()
    for group in table.groups:
        if group.title:
            picture.y += LINE
            picture.words.append(Label(0, picture.y - 6, group.title, bold=True))
        for item in group.rows:
            picture.add_row(item)
    parts = {"words": picture.words, "bands": picture.bands, "rules": picture.rules, "lines": False, "upright": True}
    return _render(title, width, picture.y, entries=entries, **parts)


class _TablePicture:
    """The words, strips and rules of a table, from the top."""

    def __init__(self, table: Table[Any]) -> None:
        self.columns = [column for column in table.filled if not column.drawn or column.axis is not None]
        items = [item for group in table.groups for item in group.rows]
        self.strip = STRIP if sum(map(_is_strip, self.columns)) == 1 else STRIPS
        self.edges = [0.0]  # left edge of each column, and of one more
        for column in self.columns:
            width = self.strip if _is_strip(column) else _width(column, items)
            self.edges.append(self.edges[-1] + width + MARGIN)
        self.y = 0.0
        self.words: list[Label] = []
        self.bands: list[Band] = []
        self.rules: list[float] = []

    def add_heading(self) -> None:
        """Add the headings above a rule. A strip's is its ticks, below its name where there are several strips."""
        several = sum(map(_is_strip, self.columns)) > 1
        headings = [column.heading.split("\n") for column in self.columns]
        headings = [
            ([" ".join(lines)] * several + [""]) if _is_strip(column) else lines
            for column, lines in zip(self.columns, headings, strict=True)
        ]
        self.y += WORDS * max(map(len, headings))
        for n, (column, lines) in enumerate(zip(self.columns, headings, strict=True)):
            self._add_lines(n, lines, self.y - WORDS * (len(lines) - 1), soft=len(lines))
            if _is_strip(column):
                self.bands.append(Band(self.edges[n], self.y - 14, self.strip, 18, axis=column.axis))
        self.rules.append(self.y + 6)
        self.y += 10

    def add_row(self, item: object) -> None:
        """Add a row above a rule. Its words stand in the middle of its height."""
        cells = [None if _is_strip(column) else column.text(item) for column in self.columns]
        drawings = [column.drawing(item) if _is_strip(column) else None for column in self.columns]
        height = WORDS * max(len(_texts(cell)) for cell in cells if cell is not None) + 11
        if any(isinstance(drawing, Strip) and drawing.apart for drawing in drawings):
            height = max(height, APART)
        for n, (cell, drawing) in enumerate(zip(cells, drawings, strict=True)):
            if cell is not None:
                lines = _texts(cell)
                base = self.y + height / 2 - WORDS * len(lines) / 2 + 11.5
                self._add_lines(n, lines, base, soft=len(_broken(cell.under)), bold=cell.strong, key=cell.key)
            elif isinstance(drawing, Strip):
                self.bands.append(Band(self.edges[n], self.y, self.strip, height, strip=drawing))
        self.y += height
        self.rules.append(self.y)

    def _add_lines(
        self, number: int, lines: Sequence[str], y: float, *, soft: int, bold: bool = False, key: Key | None = None
    ) -> None:
        """Add lines to a column from a base line on; the last `soft` of them are paler, and not bold."""
        right = self.columns[number].number
        x = self.edges[number + 1] - MARGIN if right else self.edges[number] + (CHIP if key else 0)
        for n, line in enumerate(lines):
            if not line:
                continue
            pale = n >= len(lines) - soft
            chip = key if n == 0 else None
            self.words.append(Label(x, y + n * WORDS, line, right, bold=bold and not pale, soft=pale, key=chip))


def _texts(cell: Cell) -> list[str]:
    """The lines of a cell; long ones are broken."""
    first = f"{cell.mark} {cell.text}" if cell.tone else cell.text
    return [line for text in (*first.split("\n"), cell.under) for line in _broken(text)] or [""]


def _broken(text: str) -> list[str]:
    return wrap(text, LONGEST)


def _width(column: Column[Any], items: Sequence[Any]) -> float:
    """Width of a column of texts, in pixels."""
    cells = [column.text(item) for item in items]
    texts = [(text, CHIP if cell.key else 0) for cell in cells for text in _texts(cell)]
    texts += [(text, 0) for text in column.heading.split("\n")]
    bold = BOLD if any(cell.strong for cell in cells) else 1.0
    return max(bold * text_width(text) + room for text, room in texts)
