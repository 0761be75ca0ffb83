"""Which invented records count, and in which block each is, from the claim alone: no curator's code is used.

A unit of more than c records is cut to c of them by a keyed hash of the unit and of each record. A keyed hash of the
unit, or of the record where no unit is declared, gives the block. The key is the audit's own.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from expril.audit.kinds.invented import UNIT, UNIT_KEY
from protocol.record_frames import encode_and_count_moved, encode_label_column, encode_outcomes
from protocol.records import LABEL_STEPS, Records
from protocol.schema import Schema


@dataclass(frozen=True)
class ClaimedRecords:
    """The records that count, encoded as the protocol says, and the unit of each."""

    records: Records
    labels: NDArray[np.unsignedinteger]  # (n,) classes, or steps of a numeric label
    owners: tuple[str, ...]  # (n,) the unit of each record, or () where each record is a unit

    @classmethod
    def of(cls, frame: pl.DataFrame, schema: Schema, most: int) -> "ClaimedRecords":
        """Choose the records of a steward's table that count, at most so many of a unit; of 1 each is a unit."""
        records, _ = encode_and_count_moved(frame, schema)
        labels = encode_label_column(frame[schema.label], schema)
        outcomes, _ = encode_outcomes(frame, schema)
        records = records.with_further({schema.label: labels, **outcomes})
        if most == 1:
            return cls(records, labels, ())
        owners: list[str] = frame[UNIT].to_list()
        rows = np.sort([row for owner in dict.fromkeys(owners) for row in _kept(owner, owners, records, labels, most)])
        return cls(records.take(rows), labels[rows], tuple(owners[row] for row in rows))

    @property
    def schema(self) -> Schema:
        """The schema of the records."""
        return self.records.schema

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Values of a numeric attribute, or of a numeric label, (n,), NaN where missing."""
        if name == self.schema.label and self.schema.label_bounds is not None:
            lower, upper = self.schema.label_bounds
            return lower + (upper - lower) * (self.labels / LABEL_STEPS)
        values: NDArray[np.float64] = self.records.column(name)
        return values

    def blocks(self, count: int, name: bytes) -> list[int]:
        """The block of each record, in 0 .. count - 1, in the split of this name."""
        key = hmac.digest(UNIT_KEY, b"expril/2 blocks" + name, "sha256")
        names = [owner.encode() for owner in self.owners] or self._contents
        return [int.from_bytes(hmac.digest(key, unit, "sha256")[:16], "big") % count for unit in names]

    @cached_property
    def _contents(self) -> list[bytes]:
        """A digest of each record: its numbers, codes, label and outcomes, with one NaN and one zero."""
        rows = range(len(self.labels))
        columns = [self.records.column(outcome.name) for outcome in self.schema.outcomes]
        parts = [
            [*self.records.numeric[row], *self.records.categorical[row], self.labels[row], *(c[row] for c in columns)]
            for row in rows
        ]
        return [sha256(b"".join(map(_plain, part))).digest() for part in parts]


def _kept(owner: str, owners: list[str], records: Records, labels: NDArray[np.unsignedinteger], most: int) -> list[int]:
    """Rows of a unit that count."""
    rows = [row for row, other in enumerate(owners) if other == owner]
    if len(rows) <= most:
        return rows
    head = len(owner.encode()).to_bytes(8, "big") + owner.encode()
    outcomes: Mapping[str, NDArray[np.generic]] = records.further
    names = [outcome.name for outcome in records.schema.outcomes]

    def rank(row: int) -> bytes:
        cells = (records.numeric[row], records.categorical[row], labels[row], *(outcomes[name][row] for name in names))
        return hmac.digest(UNIT_KEY, head + b"".join(cell.tobytes() for cell in cells), "sha256")

    return sorted(rows, key=lambda row: (rank(row), row))[:most]


def _plain(value: Any) -> bytes:
    """A numpy number in the one form in which it is digested: float64, int16, or uint16 of a label."""
    if value.dtype.kind == "f":
        return bytes(np.float64(np.nan if np.isnan(value) else value + 0.0).astype("<f8").tobytes())
    return bytes(value.astype("<u2" if value.dtype.kind == "u" else "<i2").tobytes())
