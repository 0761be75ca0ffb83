"""Figures and tables of a document as files for other programs: SVG or PNG, and CSV.

A page saves the same files by its buttons, byte for byte; only PNGs differ, which a browser draws there.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from expril.files import replace_bytes
from expril.report.document import Block, Cards, Charts, Document, Drawing, Heading, Legend, leaves
from expril.report.picture import as_picture, has_picture
from expril.report.png import as_png
from expril.report.table import Table

_LONGEST = 60
"""Most letters of a file's name."""
_NUMBER = re.compile(
    r"[-+−]?([0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?|[0-9]+(\.[0-9]*)?|\.[0-9]+)(e[-+−]?[0-9]+)?", re.IGNORECASE
)
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the beginning of a formula."""


@dataclass(frozen=True)
class PageFile:
    """A figure, a table, or a table with strips, which is both."""

    name: str  # of its files, without their ending
    title: str
    block: Charts | Drawing | Cards | Table[Any]
    legend: Legend | None = None  # of a table

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
    titles: dict[str, str] = {}  # name -> title
    there = []
    for block, title, legend in _titled(document):
        name = file_name(
            block.title if isinstance(block, Cards) else title
        )  # cards stand under a title with their result
        number = 1
        while (free := name if number == 1 else f"{name}-{number}") in titles:
            number += 1
        titles[free] = title
        there.append(PageFile(free, title, block, legend if isinstance(block, Table) else None))
    return there


def _titled(document: Document) -> Iterator[tuple[Charts | Drawing | Cards | Table[Any], str, Legend | None]]:
    """Each figure or table with its title and the last legend before it in its section."""
    sections: list[tuple[str, list[Block]]] = [
        (section.title, section.present) for section in document.in_medium("page")
    ]
    sections += [("", [document.settings])] if document.settings else []
    section_title = ""
    for title, blocks in sections:
        section_title = title or section_title
        heading, legend = "", None
        for block in leaves(block for block in blocks if block):
            if isinstance(block, Heading):
                heading = block.text
            elif isinstance(block, Legend):
                legend = block
            elif isinstance(block, Table) and block.filled:
                yield block, _title(block.caption, heading, section_title), legend
            elif isinstance(block, Charts):
                yield block, _chart_title(block, heading, section_title), None
            elif isinstance(block, Cards) and has_picture(block):
                yield block, heading or section_title or block.title, None
            elif isinstance(block, Drawing):
                yield block, _title(block.name, heading, section_title), None


def _chart_title(charts: Charts, heading: str, section: str) -> str:
    """As `_title`; several charts without a name have what their names begin with, up to a comma, if it is the same."""
    names = {figure.name.partition(", ")[0] for figure in charts.drawn_figures}
    if charts.name or len(charts.drawn_figures) == 1:
        return _title(charts.name or charts.drawn_figures[0].name, heading, section)
    return ", ".join(filter(None, [_title("", heading, section), *(names if len(names) == 1 else ())]))


def _title(name: str, heading: str, section: str) -> str:
    """A title from the words nearest to a block."""
    if name and heading and heading not in name:
        return f"{name}: {heading}"
    return name or heading or section or "figure"


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
    text that a spreadsheet would take for a formula begins with an apostrophe.
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
    return f"'{line}" if line.startswith(_FORMULA) else line


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
