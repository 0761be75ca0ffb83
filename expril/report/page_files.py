"""Figures and tables of a document as files for other programs: SVG or PNG, and CSV.

A page saves the same files by its buttons, byte for byte; only PNGs differ, which a browser draws there.
"""

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from expril.files import replace_bytes
from expril.report.document import Block, Cards, Charts, Document, Drawing, Fold, Heading, Legend, leaves
from expril.report.picture import Picture, as_picture, has_picture
from expril.report.png import as_png
from expril.report.table import Table

_FEW = 2
"""Most words of a title that need others around them."""
_LONGEST = 60
"""Most letters of a file's name."""
_NUMBER = re.compile(
    r"[-+−]?([0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?|[0-9]+(\.[0-9]*)?|\.[0-9]+)(e[-+−]?[0-9]+)?", re.IGNORECASE
)
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the beginning of a formula."""
_FURTHER_FORMULA = re.compile(f"(;\\s*)(?=[{re.escape(''.join(_FORMULA))}])")
"""Likewise within a text, where the separator of columns is a semicolon, as in many countries."""


@dataclass(frozen=True)
class PageFile:
    """A figure, a table, or a table with strips, which is both."""

    name: str  # of its files, without their ending
    title: str
    block: Picture
    legend: Legend | None = None

    @cached_property
    def svg(self) -> str:
        """The figure as a file; "" if there is none."""
        return as_picture(self.block, self.title, self.legend) if has_picture(self.block) else ""

    @property
    def csv(self) -> str:
        """The table as a file; "" if there is none."""
        return as_csv(self.block) if isinstance(self.block, Table) else ""


def page_files(document: Document) -> list[PageFile]:
    """Every figure and table that a document's page shows, in its order, each with a name of its own."""
    places = list(_places(document))
    times = Counter(place.title for place in places)
    names: set[str] = set()
    files = []
    for place in places:
        further = place.heading if times[place.title] > 1 and place.heading else ""
        title = f"{place.title}: {further}" if further else place.title
        # Cards stand below a title that says their result.
        name = base = file_name(place.block.title if isinstance(place.block, Cards) else title)
        number = 1
        while name in names:
            number += 1
            name = f"{base}-{number}"
        names.add(name)
        files.append(PageFile(name, title, place.block, place.legend))
    return files


class _Place(NamedTuple):
    """A figure or table with the words nearest to it, the heading above it ("" for none), and its legend."""

    block: Picture
    title: str
    heading: str
    legend: Legend | None = None


def _places(document: Document) -> Iterator[_Place]:
    """Each figure or table of a document's page."""
    sections: list[tuple[str, list[Block]]] = [
        (section.title, section.present) for section in document.in_medium("page")
    ]
    sections += [("Where the numbers come from", [document.settings])] if document.settings else []
    section_title = ""
    for title, blocks in sections:
        section_title = title or section_title
        heading = ""
        # The legends of the blocks below; that of drawings ends with a table.
        of_tables = of_drawings = of_charts = None
        for outer, block in ((part, leaf) for part in blocks for leaf in leaves([part])):
            around_all = outer.summary if isinstance(outer, Fold) else section_title
            around = heading or around_all or "figure"
            if isinstance(block, Heading):
                heading = block.text
            elif isinstance(block, Legend):
                of_tables = of_drawings = block
            elif isinstance(block, Table) and block.filled:
                of_drawings = None
                yield _Place(block, _titled(block.caption or around, around_all), heading, of_tables)
            elif isinstance(block, Charts) and block:
                of_charts = Legend(block.keys, block.rules) or of_charts
                yield _Place(block, _titled(_chart_title(block, around), around_all), heading, of_charts)
            elif isinstance(block, Cards) and has_picture(block):
                yield _Place(block, around, heading)
            elif isinstance(block, Drawing):
                yield _Place(block, _titled(block.name or around, around_all), heading, of_drawings)


def _titled(words: str, section: str) -> str:
    """One or two words with the title of their section before them, unless it has a result, which names no file."""
    needless = len(words.split()) > _FEW or section in words or re.search("[0-9]", section)
    return words if needless else f"{section}: {words}"


def _chart_title(charts: Charts, around: str) -> str:
    """The name of charts, or of the only one; or the words around several, and how all their names begin."""
    if charts.name or len(charts.drawn_figures) == 1:
        return charts.name or charts.drawn_figures[0].name or around
    names = {figure.name.partition(", ")[0] for figure in charts.drawn_figures}
    return f"{around}, {names.pop()}" if len(names) == 1 else around


def file_name(title: str) -> str:
    """Return a title's words as a file's name: lower case, letters of ASCII, hyphens between words."""
    words = "".join(_spelt(letter) for letter in unicodedata.normalize("NFKD", re.sub("['’]", "", title))).lower()
    name = re.sub(r"[^a-z0-9]+", "-", words).strip("-")
    return (name if len(name) <= _LONGEST else name[: _LONGEST + 1].rpartition("-")[0] or name[:_LONGEST]) or "figure"


def _spelt(letter: str) -> str:
    """A Greek letter's name; "" for an accent; any other letter as it is."""
    name = unicodedata.name(letter, "")
    if name.startswith("GREEK"):
        return f" {name.rpartition(' ')[2]} "
    return "" if unicodedata.combining(letter) else letter


def as_csv(table: Table[Any]) -> str:
    """Return the texts of a table as CSV (RFC 4180): a line of headings, then a line for each row.

    A byte order mark tells a spreadsheet that it is UTF-8. Titles of groups are a first column. A cell's second line
    follows the first after a dash. Numbers are written as programs read them, without separators of thousands; a
    text that a spreadsheet would take for a formula begins with an apostrophe, also after a semicolon.
    """
    columns = [column for column in table.filled if not column.drawn]
    grouped = any(group.title for group in table.groups)
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([_field(text) for text in (["group"] if grouped else []) + [column.heading for column in columns]])
    for group in table.groups:
        for item in group.rows:
            cells = [column.text(item) for column in columns]
            texts = [f"{cell.text} – {cell.under}" if cell.under else cell.text for cell in cells]
            writer.writerow([_field(text) for text in ([group.title] if grouped else []) + texts])
    return f"\ufeff{out.getvalue()}"


def _field(text: str) -> str:
    """A cell's text on one line, such that a program reads a number as a number and nothing as a formula."""
    line = " ".join(text.split())
    if _NUMBER.fullmatch(line):
        return line.replace(",", "").replace("−", "-")
    return without_formula(line)


def without_formula(text: str) -> str:
    """The text with an apostrophe before what a spreadsheet takes for a formula; a number as it is."""
    if _NUMBER.fullmatch(text):
        return text
    text = _FURTHER_FORMULA.sub(r"\1'", text)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def write_page_files(document: Document, folder: Path, *, png: bool = False) -> list[Path]:
    """Write every figure and table of a document's page to a folder, which is made; return the files' paths.

    Raises:
        ModuleNotFoundError: PNG is asked for, and resvg_py is not installed.
        OSError: a file cannot be written.
    """
    files: dict[str, bytes] = {}
    for entry in page_files(document):
        if entry.svg:
            files[f"{entry.name}.svg"] = entry.svg.encode()
            if png:
                files[f"{entry.name}.png"] = as_png(entry.svg)
        if entry.csv:
            files[f"{entry.name}.csv"] = entry.csv.encode()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        replace_bytes(folder / name, content)
    return [folder / name for name in files]
