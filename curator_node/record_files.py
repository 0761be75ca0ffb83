"""Private records from a CSV or Parquet file into a data frame. Text stays text; the schema decides what it means."""

import csv
from pathlib import Path

import polars as pl

from protocol.errors import ConfigurationError


def read_records(path: Path) -> pl.DataFrame:
    """Read a CSV (all columns as text) or Parquet file.

    Raises:
        ConfigurationError: no such file, another suffix, no rows, duplicated columns, or broken content. The
            text names file and column, never a value.
    """
    if not path.is_file():
        raise ConfigurationError(f"no file {path}")
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
        header = next(csv.reader(file), [])
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise ConfigurationError(f"{path} has the column(s) {', '.join(map(repr, twice))} more than once")
