"""Charts and drawings as SVG files of fixed size that hold their style and load nothing."""

from dataclasses import dataclass
from functools import cache

from markupsafe import Markup

from expril.report.chart import Figure, Key
from expril.report.document import Charts, Document, Drawing, leaves
from expril.report.templates import Template, asset, page_template

PACKAGE = "expril.report"
MARGIN, TITLE = 16, 40
"""Margin around everything, and height of the title, in pixels."""
PANEL, GAP, HEAD = 380, 36, 26
"""Width of one of several charts, space between two, height of a chart's name. A single chart is twice as wide."""
ENTRY, LETTER, LINE = 58, 6.6, 24
"""Width of a legend's entry without its name, width of a letter, and height of a line, in pixels."""


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


@cache
def _template() -> Template:
    return page_template(PACKAGE, {"markup": Markup}, "drawing.svg.j2")


def as_files(document: Document) -> dict[str, str]:
    """The SVG files of a document, by name."""
    blocks = [block for section in document.sections for block in leaves(section.present)]
    return {block.file: as_svg(block) for block in blocks if isinstance(block, Charts | Drawing) and block.file}


def as_svg(block: Charts | Drawing) -> str:
    """Return charts under their legend, or a drawing of known size, as one SVG file that loads nothing."""
    if isinstance(block, Drawing):
        width, height = block.size or (0, 0)
        return _render(block.name, max(width, 480), height, drawing=block.svg)
    single = len(block.figures) == 1
    across, wide = min(block.columns, len(block.figures)), 2 * PANEL if single else PANEL
    width = across * (wide + GAP) - GAP if across else wide
    entries = _legend(block, width)
    top = max((entry.y + LINE for entry in entries), default=0)
    head = 0 if single else HEAD
    down = max((figure.height for figure in block.figures), default=0) + head + GAP
    panels = [
        Panel((n % across) * (wide + GAP), top + (n // across) * down, wide, figure)
        for n, figure in enumerate(block.figures)
    ]
    height = top + (down * -(-len(panels) // across) - GAP if across else 0)
    return _render(block.name, width, height, entries=entries, panels=panels, head=head, size=block.size)


def _legend(block: Charts, width: int) -> list[Entry]:
    entries = [Entry(0, 0, key.name, key) for key in block.keys]
    entries += [Entry(0, 0, words, style=style) for style, words in block.rules]
    if not entries:
        return []
    entry_width = ENTRY + LETTER * max(len(entry.name) for entry in entries)
    row = max(1, int(width // entry_width))
    return [
        Entry((n % row) * entry_width, (n // row) * LINE, entry.name, entry.key, entry.style)
        for n, entry in enumerate(entries)
    ]


def _render(name: str, width: int, height: int, **parts: object) -> str:
    sheet = {"width": width + 2 * MARGIN, "height": height + TITLE + MARGIN, "margin": MARGIN, "top": TITLE}
    style = Markup(asset(PACKAGE, "chart.css"))  # noqa: S704 - our own file, no text of a document
    context = {"entries": (), "panels": (), "drawing": "", "head": 0, "size": 0.6} | parts
    return _template().render(title=name, style=style, **sheet, **context).lstrip()
