"""Numbers as files: CSV (RFC 4180 quoting, one header line, lines end in a newline) and JSON values."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec


def csv_text(header: Sequence[str], rows: Iterable[Sequence[str | int]]) -> str:
    """One header line and one line a row."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def points(value: float) -> str:
    """Percentages and percentage points: two decimals; infinities as "inf", which `float` reads."""
    return f"{value:z.2f}"


def write_texts(out: Path, files: Mapping[str, str]) -> None:
    """Write files of a folder, by name, UTF-8 with newlines as they are."""
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8", newline="\n")


def as_object(found: object) -> object:
    """A msgspec struct as JSON values; a number that is not finite is its text, "inf", as in the CSV files."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner) for inner in value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return plain(msgspec.to_builtins(found))
