"""Documents as web pages and their charts as SVG files, made from templates: the only file that imports jinja2.

A page is one HTML file that holds every number and loads nothing; an SVG file has a fixed size and holds its style.

Every string of a document is untrusted and reaches the page through one template, which escapes it. The content
security policy of a page allows no request, and no script but our own (named by its digest), which sorts tables. Images
are allowed as data URIs if a drawing has some.
"""

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

import jinja2
from markupsafe import Markup

from expril.report.chart import COLOURS, SHAPES, Figure, Key
from expril.report.document import Charts, Document, Drawing, leaves, tables
from expril.report.numbers import count, moment

PACKAGE = "expril.report"


@cache
def asset(package: str, name: str) -> str:
    """The text of a file in a package's folder."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def style(*packages: str) -> Markup:
    """A page's style sheet: the shared styles, then the `page.css` of further packages."""
    sheets = [asset(PACKAGE, "chart.css")]
    sheets += [asset(package, "page.css") for package in dict.fromkeys((PACKAGE, *packages))]
    return Markup("\n".join(sheets))  # noqa: S704 - our own files, not a report's text


@cache
def page_template(package: str, name: str) -> jinja2.Template:
    """A package's template. Every value is escaped, and a name without a value is an error.

    It may extend and import templates of any package as "package/name": `expril.report/frame.html.j2` frames all
    pages, `expril.report/chart.html.j2` draws charts.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda template: asset(*template.split("/", 1))),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"count": count, "kind": _kind, "markup": Markup, "moment": moment}
    environment.globals |= {"shapes": SHAPES, "colours": COLOURS}
    return environment.get_template(f"{package}/{name}")


def _kind(block: object) -> str:
    return type(block).__name__


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


def as_files(document: Document) -> dict[str, str]:
    """The SVG files of a document, by name."""
    blocks = [block for section in document.sections for block in leaves(section.present)]
    return {block.file: as_svg(block) for block in blocks if isinstance(block, Charts | Drawing) and block.file}


def as_svg(block: Charts | Drawing) -> str:
    """Return charts under their legend, or a drawing of known size, as one SVG file that loads nothing."""
    if isinstance(block, Drawing):
        width, height = block.size or (0, 0)
        return _render(block.name, max(width, 480), height, drawing=block.svg)
    single = len(block.drawn_figures) == 1
    across, wide = min(block.columns, len(block.drawn_figures)), 2 * PANEL if single else PANEL
    width = across * (wide + GAP) - GAP if across else wide
    entries = _legend(block, width)
    top = max((entry.y + LINE for entry in entries), default=0)
    head = 0 if single else HEAD
    down = max((figure.height for figure in block.drawn_figures), default=0) + head + GAP
    panels = [
        Panel((n % across) * (wide + GAP), top + (n // across) * down, wide, figure)
        for n, figure in enumerate(block.drawn_figures)
    ]
    height = top + (down * -(-len(panels) // across) - GAP if across else 0)
    return _render(block.name, width, height, entries=entries, panels=panels, head=head, size=block.size)


def _legend(block: Charts, width: int) -> list[Entry]:
    entries = [Entry(0, 0, key.name, key) for key in block.drawn_keys]
    entries += [Entry(0, 0, words, style=style) for style, words in block.drawn_rules]
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
    return page_template(PACKAGE, "drawing.svg.j2").render(title=name, style=style, **sheet, **context).lstrip()


def as_page(document: Document) -> str:
    """Return a document as one HTML page; the same document gives the same text."""
    parts = {"document": document, "headline": document.headline, "summary": document.summary, "style": style()}
    blocks = [block for section in document.in_medium("page") for block in leaves(section.present)]
    if any(isinstance(block, Drawing) and block.images for block in blocks):
        parts["images"] = True
    if any(table.sortable for table in tables(blocks)):
        script = asset(PACKAGE, "page.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        parts |= {"script": Markup(script), "digest": digest}  # noqa: S704 - our own file, no text of a document
    return page_template(PACKAGE, "document.html.j2").render(**parts)
