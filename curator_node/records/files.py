"""Reads private records from a CSV or Parquet file into a data frame.

Text stays text; the schema decides what it means.

A lenient reader may lose rows: if one record opens a quote and a later one closes it, all rows between are lost, so
that one record changes more than its own row. So every line of a CSV must be a record by itself, Python's strict parser
reads it, and the data frame must agree with the parser.
"""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import polars as pl

from protocol.errors import ConfigurationError
from protocol.schema import MISSING_TEXTS
from protocol.strict_toml import text_fault

_AS_CSV = 'save the table as "CSV UTF-8"'
_EXPORT = "export the table again: a line of column names, then one line a record"
_RAGGED = "another number of fields than in the header"
_QUOTE_COMMAS = "give it as many fields as the header has, and put a field that holds a comma in quotes"
_PARQUET = (".parquet", ".pq")
_LONGEST_HEADER = 2**24
_NUMBER_OR_DATE = re.compile(
    r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\d{4}-\d{2}-\d{2}.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
)
_OTHER_SEPARATORS = {";": "semicolon", "\t": "tab"}
# One line by RFC 4180. Possessive: a quoted field that fails is tried no other way, and a match ends before the fault.
_FIELD = r'(?:"(?:[^"]|"")*+"|[^",]*+)'
_FIELDS = re.compile(rf"{_FIELD}(?:,{_FIELD})*+")


def read_records(path: Path) -> pl.DataFrame:
    """Read a CSV (all columns as text) or Parquet file, or what a source file (.toml) names in a database.

    A CSV is UTF-8 text with commas. Each line after the header is one record, with as many fields as the header has; a
    field that holds a comma or a quote stands in quotes, and its quotes are doubled. A line break within quotes is
    refused, as it cannot be told from two stray quotes.

    Raises:
        ConfigurationError: there is no such file, its suffix is unknown, or it has no rows, duplicated columns, a
            separator other than the comma, or broken content. The text names file, column and row, never a value.
    """
    _check_file(path)
    with _readable(path):
        if path.suffix.lower() == ".toml":
            from curator_node.records.databases import read_database  # noqa: PLC0415 - few need its libraries

            frame = read_database(path)
        elif path.suffix.lower() == ".csv":
            frame = _read_csv(path)
        elif path.suffix.lower() in _PARQUET:
            frame = pl.read_parquet(path)
        else:
            raise _unknown(path)
    if frame.is_empty():
        raise ConfigurationError(f"{path} has no rows; {_EXPORT}")
    return frame


def read_columns(path: Path) -> list[str]:
    """The names of the columns of what `read_records` reads; no value is read.

    Of a CSV the first line alone is read, of a Parquet file its description. A database is asked for no row.

    Raises:
        ConfigurationError: as `read_records`, as far as the columns show it; or the first line of a CSV seems to be a
            record. The text quotes nothing of that line.
    """
    _check_file(path)
    with _readable(path):
        if path.suffix.lower() == ".toml":
            from curator_node.records.databases import read_database_columns  # noqa: PLC0415 - few need its libraries

            return read_database_columns(path)
        if path.suffix.lower() == ".csv":
            return _read_header(path)
        if path.suffix.lower() in _PARQUET:
            return list(pl.read_parquet_schema(path))
    raise _unknown(path)


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise ConfigurationError(
            f"{path} is a folder; name a file in it" if path.is_dir() else f"no file {path}; check its name"
        )
    if not path.stat().st_size:
        raise ConfigurationError(f"{path} is empty; {_EXPORT}")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what a library says of a file into one sentence without a value."""
    try:
        yield
    except PermissionError:
        raise ConfigurationError(f"{path} cannot be read: you may not; ask its owner") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        kind = path.suffix[1:]
        raise ConfigurationError(
            f"{path} cannot be read as {kind} ({type(error).__name__}): it is another kind of file, or damaged; export "
            "the table again, as Parquet or CSV"
        ) from None


def _unknown(path: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{path}: records are read from .csv or .parquet files, or by a .toml file from a database; of a workbook save "
        'the sheet as "CSV UTF-8"'
    )


def _read_header(path: Path) -> list[str]:
    with path.open("rb", buffering=0) as file:  # unbuffered: nothing after the first line is read
        line = file.readline(_LONGEST_HEADER)
        while line and not line.removeprefix(codecs.BOM_UTF8).strip():
            line = file.readline(_LONGEST_HEADER)
    if len(line) == _LONGEST_HEADER:
        raise ConfigurationError(f"{path} cannot be read as csv: its first line does not end; {_EXPORT}")
    text = _decoded(line.removeprefix(codecs.BOM_UTF8), path).removesuffix("\n")
    if '"' in text and not _FIELDS.fullmatch(text):
        _refuse(path, 0, _quote_fault(text))
    try:
        header = next(csv.reader([text], strict=True), [])
    except csv.Error:
        _refuse(path, 0, f"a field of more than {csv.field_size_limit()} characters or a broken one")
    filled = [name.strip() for name in header if name.strip()]
    if not filled:
        raise ConfigurationError(f"{path} has no names of columns in its first line; {_EXPORT}")
    if sum(map(_is_value, filled)) * 2 > len(filled):
        raise ConfigurationError(f"{path} begins with a record, it seems, not with a line of column names; {_EXPORT}")
    _check_header(path, header)
    return header


def _is_value(text: str) -> bool:
    return text in MISSING_TEXTS or _NUMBER_OR_DATE.fullmatch(text) is not None


def _read_csv(path: Path) -> pl.DataFrame:
    text = _text(path).lstrip("\n")  # blank lines before the header are no rows
    if not text:
        raise ConfigurationError(f"{path} is empty; {_EXPORT}")
    lines = text.removesuffix("\n").split("\n")
    # Blank lines after the last record are no rows either, but where a record of one field may look like that.
    while len(lines) > 1 and "," in lines[0] and not lines[-1].strip(" \t"):
        lines.pop()
    for row, line in enumerate(lines):
        if '"' in line and not _FIELDS.fullmatch(line):
            _refuse(path, row, _quote_fault(line))
    reader = csv.reader(lines, strict=True)
    try:
        header = next(reader)
        _check_header(path, header)
        for row, fields in enumerate(reader, start=1):
            if len(fields) != len(header):
                blank = not any(field.strip() for field in fields)
                fault, remedy = ("a blank line", "remove it") if blank else (_RAGGED, _QUOTE_COMMAS)
                _refuse(path, row, fault, remedy)
    except csv.Error:
        _refuse(path, reader.line_num - 1, f"a field of more than {csv.field_size_limit()} characters or a broken one")
    if len(lines) == 1:
        raise ConfigurationError(f"{path} has no rows; {_EXPORT}")
    body = "\n".join(lines[1:]).encode()
    frame = pl.read_csv(body, has_header=False, new_columns=header, infer_schema=False)
    if frame.shape != (len(lines) - 1, len(header)):
        raise ConfigurationError(f"{path} cannot be read as csv: two parsers find different rows")
    return frame


def _text(path: Path) -> str:
    """The file's text without a byte order mark, each line ended by a line feed alone."""
    return _decoded(path.read_bytes().removeprefix(codecs.BOM_UTF8), path)


def _decoded(content: bytes, path: Path) -> str:
    wrong = text_fault(content)
    if wrong is not None:
        if wrong.start is None:
            raise ConfigurationError(f"{path} cannot be read as csv: it {wrong.problem}; {_AS_CSV}")
        _refuse(path, _row(content[: wrong.start].decode("latin-1")), "text that is not UTF-8", _AS_CSV)
    text = content.decode("utf-8").replace("\r\n", "\n")
    for sign, fault in (("\0", "a NUL byte"), ("\r", "a carriage return that ends no line")):
        if sign in text:
            _refuse(path, _row(text[: text.index(sign)]), fault)
    return text


def _row(before: str) -> int:
    """Number of the row that follows this beginning of a file; the header's is 0."""
    return before.lstrip("\r\n").count("\n")


def _quote_fault(line: str) -> str:
    end = _FIELDS.match(line).end()  # type: ignore[union-attr]  # it matches any line, if only the empty field
    if line[end] != '"':
        return "text after a closing quote"
    if end == 0 or line[end - 1] == ",":
        return "a quoted field that does not end on its line (line breaks within quotes are not read)"
    return "a quote within a field that does not begin with one"


def _refuse(path: Path, row: int, fault: str, remedy: str = "correct that line") -> NoReturn:
    where = f"row {row}, header not counted" if row else "the header"
    raise ConfigurationError(f"{path} cannot be read as csv: {fault}, in {where}; {remedy}") from None


def _check_header(path: Path, header: list[str]) -> None:
    mark = next((name for sign, name in _OTHER_SEPARATORS.items() if len(header) == 1 and sign in header[0]), None)
    if mark:
        raise ConfigurationError(f"{path} has a single column, whose name holds a {mark}: separate columns by commas")
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    if twice and any(name.strip() and _is_value(name.strip()) for name in header):
        # It may be a record, of which nothing is quoted.
        raise ConfigurationError(
            f"{path} has a column more than once, or begins with a record instead of column names; {_EXPORT}"
        )
    if twice:
        raise ConfigurationError(
            f"{path} has the column(s) {', '.join(map(repr, twice))} more than once; give each a name of its own"
        )
