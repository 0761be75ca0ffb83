"""The private records. The only module of the curator that sees them; what leaves it are exact counts.

Exact counts go to an answerer that adds noise, and nowhere else.
"""

import hashlib
import hmac
import warnings
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.steward import StewardFile
from curator_node.workloads import WorkloadCache
from protocol.errors import ConfigurationError
from protocol.hypotheses import Hypothesis
from protocol.partitions import Partition
from protocol.records import Records, column_texts, encode_frame, encode_labels
from protocol.schema import Schema


class StewardWarning(UserWarning):
    """Something about the records that only the steward should hear."""


class PrivateDataset:
    """Labelled records that never leave.

    Args:
        frame: attribute columns, the label column and, where declared, the unit column; other columns are
            ignored.
        steward: the schema file.
        unit_key: secret bytes; they choose which records of a unit are kept, from that unit alone.
        cache_bytes: most memory for encoded workloads.

    Raises:
        ConfigurationError: a declared column is absent, a label is missing or unknown, a number is text, a
            unit is missing, or there are no rows.
    """

    def __init__(self, frame: pl.DataFrame, steward: StewardFile, *, unit_key: bytes, cache_bytes: int) -> None:
        absent = [name for name in (steward.label, steward.unit) if name is not None and name not in frame.columns]
        if absent:
            raise ConfigurationError(f"the records lack the declared column(s) {', '.join(map(repr, absent))}")
        if frame.is_empty():
            raise ConfigurationError("there are no records")
        records = encode_frame(frame, steward.schema)
        labels = encode_labels(frame[steward.label], steward.classes)
        if steward.unit is not None:
            units = column_texts(frame[steward.unit])
            if units.null_count():
                raise ConfigurationError(f"unit column {steward.unit!r} is empty in some row; name a unit for each")
            kept = bounded_rows(units.to_list(), records, labels, steward.most_records_per_unit, unit_key)
            records, labels = records.take(kept), labels[kept]
        if labels.all() or not labels.any():
            warnings.warn("all records have one class; the curator serves normally", StewardWarning, stacklevel=2)
        self.steward = steward
        self._records = records
        self._labels = labels
        self._cache = WorkloadCache(records, cache_bytes)

    @property
    def schema(self) -> Schema:
        """As its steward wrote it."""
        return self.steward.schema

    def count(
        self, partitions: tuple[Partition, ...], hypothesis: Hypothesis | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Exact counts per cell: (errors, correct); private, for an answerer's eyes only.

        Args:
            partitions: a checked workload.
            hypothesis: a checked hypothesis; None counts every record as correct.

        Returns:
            Two (sum of cell counts,) int64 vectors.
        """
        workload = self._cache.get(partitions)
        if hypothesis is None:
            errors = np.zeros(len(self._records), np.bool_)
        else:
            errors = hypothesis.predict(self._records) != self._labels
        return workload.count(errors)


def bounded_rows(
    units: Sequence[str], records: Records, labels: NDArray[np.bool_], most: int, key: bytes
) -> NDArray[np.intp]:
    """Row numbers, at most `most` per unit, chosen by a keyed hash of that unit's own content.

    The choice for a unit depends on its name, its records and the key; not on other units, nor on the order of
    the rows. Identical records of one unit are interchangeable.
    """
    by_unit: dict[str, list[tuple[bytes, int]]] = {}
    for row, unit in enumerate(units):
        content = records.numeric[row].tobytes() + records.categorical[row].tobytes() + bytes([int(labels[row])])
        name = unit.encode()
        message = len(name).to_bytes(8, "big") + name + content
        by_unit.setdefault(unit, []).append((hmac.digest(key, message, hashlib.sha256), row))
    kept = [row for ranked in by_unit.values() for _, row in sorted(ranked)[:most]]
    return np.sort(np.array(kept, np.intp))
