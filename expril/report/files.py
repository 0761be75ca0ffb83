"""Numbers as files: CSV (RFC 4180 quoting, one header line, lines end in a newline) and JSON values."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from expril.report.table import Column, Item, Table


def csv_text(columns: Sequence[Column[Item]], rows: Iterable[Item]) -> str:
    """One header line, then one line per row."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column.heading for column in columns)
    writer.writerows([column.text(row).text for column in columns] for row in rows)
    return out.getvalue()


def csv_table(table: Table[Any]) -> str:
    """A table's rows, group after group; titles of groups are left out."""
    return csv_text(table.written, (item for group in table.groups for item in group.rows))


def as_object(found: object) -> object:
    """A msgspec struct as JSON values; a number that is not finite becomes its text, such as "inf", as in CSV."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner) for inner in value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return plain(msgspec.to_builtins(found))
