"""Private records from a CSV or Parquet file into a data frame. Text stays text; the schema decides what it means."""

import csv
from pathlib import Path

import polars as pl

from protocol.errors import ConfigurationError

_OTHER_SEPARATORS = {";": "semicolon", "\t": "tab"}


def read_records(path: Path) -> pl.DataFrame:
    """Read a CSV (all columns as text) or Parquet file.

    Raises:
        ConfigurationError: no such file, another suffix, no rows, duplicated columns, another separator than
            the comma, or broken content. The text names file and column, never a value.
    """
    if not path.is_file():
        raise ConfigurationError(f"no file {path}")
    if not path.stat().st_size:
        raise ConfigurationError(f"{path} is empty")
    try:
        if path.suffix.lower() == ".csv":
            _check_header(path)
            frame = pl.read_csv(path, infer_schema=False)
        elif path.suffix.lower() in (".parquet", ".pq"):
            frame = pl.read_parquet(path)
        else:
            raise ConfigurationError(f"{path}: records are read from .csv or .parquet files")
    except (pl.exceptions.PolarsError, csv.Error, OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read as {path.suffix[1:]} ({type(error).__name__})") from None
    if frame.is_empty():
        raise ConfigurationError(f"{path} has no rows")
    return frame


def _check_header(path: Path) -> None:
    with path.open(newline="", encoding="utf-8-sig") as file:
        header = next(filter(None, csv.reader(file)), None)  # polars skips blank lines before the header, too
    if header is None:
        raise ConfigurationError(f"{path} is empty")
    mark = next((name for sign, name in _OTHER_SEPARATORS.items() if len(header) == 1 and sign in header[0]), None)
    if mark:
        raise ConfigurationError(f"{path} has a single column, whose name holds a {mark}: separate columns by commas")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise ConfigurationError(f"{path} has the column(s) {', '.join(map(repr, twice))} more than once")
