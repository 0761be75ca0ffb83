"""The private records, and exact counts of them, which go to an answerer that adds noise and nowhere else."""

import hashlib
import hmac
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.records.schema_file import SchemaFile
from curator_node.records.workloads import WorkloadCache
from protocol.codec import encode
from protocol.errors import ConfigurationError
from protocol.hypotheses import Hypothesis
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.limits import ASSUMED_ROUND_SIZE
from protocol.partitions import Partition
from protocol.record_frames import (
    column_texts,
    count_moved_labels,
    encode_and_count_moved,
    encode_label_column,
    encode_outcomes,
    require_columns,
)
from protocol.records import MISSING_CODE, Records
from protocol.release_kinds import MOST_SQUARED_ERROR, RELEASE_KINDS
from protocol.schema import Attribute, NumericAttribute, Schema, meaning

WORTH_A_WARNING = 10
"""The steward is warned where more than one in so many values does not fit its declaration."""
FAR_OFF = 2
"""The steward is warned where the declared round size is off by more than this factor."""


_ADVICE = (
    "check the bounds and the measuring unit; if a value stands for a missing one, declare it: missing = [...]",
    "check the bounds; if a date stands for a missing one, declare it: missing = [...]",
)
"""What the steward should look at where many numbers, or many dates, lie outside the bounds."""


class StewardWarning(UserWarning):
    """Something about the records that only the steward should hear."""


_BLOCK = 4096
"""Records that are digested at once."""


class PrivateDataset:
    """Labelled records that never leave.

    Args:
        frame: columns of attributes, outcomes, the label and, where declared, the unit; others are ignored.
        steward: the schema file.
        unit_key: secret bytes; they choose which records of a unit are kept, from that unit alone.
        cache_bytes: most memory for encoded workloads.

    Attributes:
        steward: the schema file.
        warnings: the texts of what the steward is warned of.

    Raises:
        ConfigurationError: a declared column is absent, a label is missing or unknown, a number is text, a unit is
            missing, or there are no rows.

    Warns:
        StewardWarning: a declared class does not occur, all numeric labels are equal, many values of an attribute or of
            the labels do not fit their declaration, or `round_size` is far from the number of records that count.
    """

    def __init__(self, frame: pl.DataFrame, steward: SchemaFile, *, unit_key: bytes, cache_bytes: int) -> None:
        unit = () if steward.unit is None else (steward.unit,)
        require_columns(
            (steward.label, *unit, *(a.name for a in (*steward.attributes, *steward.outcomes))), frame.columns
        )
        if frame.is_empty():
            raise ConfigurationError("there are no records")
        records, moved = encode_and_count_moved(frame, steward.schema)
        labels = encode_label_column(frame[steward.label], steward.schema)
        outcomes, moved_outcomes = encode_outcomes(frame, steward.schema)
        records = records.with_further({steward.label: labels, **outcomes})
        doubts = complaints_about(records, {**moved, **moved_outcomes})
        units: list[bytes] | None = None
        if steward.unit is not None:
            names = unit_names(frame[steward.unit])
            rows = bounded_rows(names, records, labels, steward.most_records_per_unit, unit_key)
            records = records.take(rows)
            labels = records.column(steward.label)
            units = [names[row].encode() for row in rows]
        doubts += _complaints_about_labels(frame[steward.label], labels, steward) + _complaints_about_size(
            len(records), steward
        )
        for doubt in doubts:
            warnings.warn(doubt, StewardWarning, stacklevel=2)
        self.warnings = tuple(doubts)
        self.steward = steward
        self._records = records
        self._labels = labels
        self._units = units
        self._unit_key = unit_key
        self._cache = WorkloadCache(records, cache_bytes)

    @property
    def schema(self) -> Schema:
        """The schema as its steward wrote it."""
        return self.steward.schema

    @property
    def records(self) -> Records:
        """All n records that count, encoded. They are private: only answerers may read them."""
        return self._records

    @property
    def labels(self) -> NDArray[np.unsignedinteger]:
        """The private labels, (n,): uint8 indices of classes, or uint16 steps of 2^-12 of the range."""
        return self._labels

    def blocks(self, count: int, name: bytes) -> NDArray[np.int64]:
        """A block for each record, (n,) int64 in 0 .. count - 1, by a keyed hash of its privacy unit; private likewise.

        All records of a unit are in one block, which depends on that unit and the name alone: adding or removing a unit
        changes no other unit's block. Where no unit is declared, the record's content stands for it.

        Args:
            count: of blocks, at least 1.
            name: of the split; another name is another split.
        """
        key = hmac.digest(self._unit_key, b"expril/2 blocks" + name, "sha256")
        units = self._record_digests() if self._units is None else self._units
        numbers = (int.from_bytes(hmac.digest(key, unit, "sha256")[:16], "big") % count for unit in units)
        return np.fromiter(numbers, np.int64, len(self._labels))

    def fingerprint(self, key: bytes) -> bytes:
        """HMAC-SHA256 of all that answers are computed from: the schema, and the records that count, in any order.

        Descriptions, units of measurement, other columns, and records beyond a unit's bound do not count. Nor do
        sentinels by themselves: one that is declared counts by what it changes in the encoded records. Without the key
        the digest reveals nothing. Only the steward's machine may have digest or key.
        """
        attributes, outcomes = (
            tuple(_bare(attribute) for attribute in variables)
            for variables in (self.schema.attributes, self.schema.outcomes)
        )
        bare = {"attributes": attributes, "outcomes": outcomes, "label_units": None, "time_to_event": None}
        schema = encode(msgspec.structs.replace(self.schema, **bare))
        mac = hmac.new(key, b"expril/2 data version", "sha256")
        for part in (schema, b"".join(sorted(self._record_digests()))):
            mac.update(len(part).to_bytes(8, "big") + part)
        return mac.digest()

    def exact(self, body: CountsBody, planned: PlannedCounts) -> NDArray[np.int64]:
        """Exact numbers of a counted release kind. They are private: only answerers may read them.

        Adding or removing one record moves the numbers of each partition by exactly `planned.steps` in all.

        Args:
            body: a checked body.
            planned: its planned query.

        Returns:
            (sum of cell counts, columns) int64.
        """
        kind = RELEASE_KINDS[planned.release]
        if kind.of_errors is not None:
            return kind.of_errors(*self.count(body.partitions, body.hypothesis))
        workload = self._cache.get(body.partitions)
        if kind.of_steps is None:
            return workload.count_classes(self._labels, len(self.steward.classes))
        predictions = None if body.hypothesis is None else body.hypothesis.predict_number(self._records)
        most = body.most_squared_error or MOST_SQUARED_ERROR
        # All columns at once: a workload that is not kept is encoded anew by each call.
        return workload.totals(kind.of_steps(self._labels.astype(np.int64), predictions, planned.steps, most))

    def count(
        self, partitions: tuple[Partition, ...], hypothesis: Hypothesis | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Exact counts per cell: (errors, correct). They are private: only answerers may read them.

        Args:
            partitions: a checked workload.
            hypothesis: a checked hypothesis; None counts every record as correct.

        Returns:
            Two (sum of cell counts,) int64 vectors.
        """
        workload = self._cache.of_errors(partitions)
        if hypothesis is None:
            errors = np.zeros(len(self._records), np.bool_)
        else:
            errors = hypothesis.predict(self._records) != self._labels
        return workload.count(errors)

    def _record_digests(self) -> Iterator[bytes]:
        """SHA-256 of each record that counts, computed block by block, since a copy of all records is large."""
        for start in range(0, len(self._labels), _BLOCK):
            block = slice(start, start + _BLOCK)
            numbers, codes = _plain(self._records.numeric[block]), _plain(self._records.categorical[block])
            labels = self._labels[block].astype("<u2")
            outcomes = [_plain(self._records.column(outcome.name)[block]) for outcome in self.schema.outcomes]
            parts = (numbers, codes, labels[:, None], *(column[:, None] for column in outcomes))
            rows = np.hstack([np.ascontiguousarray(part).view(np.uint8) for part in parts])
            yield from (hashlib.sha256(row.tobytes()).digest() for row in rows)


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Values or codes in the one form in which they are digested."""
    if values.dtype.kind != "f":
        return values.astype("<i2")
    return np.where(np.isnan(values), np.nan, values + 0.0).astype("<f8")  # one NaN, one zero


def _bare(attribute: Attribute) -> Attribute:
    """The attribute without what no answer is computed from."""
    attribute = meaning(attribute)
    if isinstance(attribute, NumericAttribute):
        return msgspec.structs.replace(attribute, units=msgspec.UNSET)
    return attribute


def complaints_about(records: Records, moved: Mapping[str, int]) -> list[str]:
    """Texts for the steward on attributes with many values that their declaration does not foresee.

    A misspelt level or a wrong unit of measurement raises no error, since an unforeseen value has a meaning ("other",
    or the nearer bound). Without these texts the answers would be worse and nobody would notice. The texts hold names
    of attributes, and nothing from a record.

    Args:
        records: all that were read, before any is dropped.
        moved: of `encode_and_count_moved`.
    """
    texts = []
    spec = records.schema.time_to_event
    followed = () if spec is None else (spec.time, spec.event, spec.entry)
    outcomes = tuple(outcome for outcome in records.schema.outcomes if outcome.name in records.further)
    for attribute in (*records.schema.attributes, *outcomes):
        column = records.column(attribute.name)
        if isinstance(attribute, NumericAttribute):
            missing, strange = int(np.count_nonzero(np.isnan(column))), moved[attribute.name]
            text = f"lie outside the declared bounds and count as the nearer one; {_ADVICE[bool(attribute.days_since)]}"
        else:
            missing = int(np.count_nonzero(column == MISSING_CODE))
            strange = int(np.count_nonzero(column == len(attribute.levels)))
            text = (
                'are no declared level and count as "other"; check the spelling and case of the levels; if a text '
                "stands for a missing value, declare it: missing = [...]"
            )
        present = len(records) - missing
        if attribute.name in followed and missing * WORTH_A_WARNING > len(records) > missing:
            texts.append(
                f"{attribute.name!r} of the time to an event is missing in more than a tenth of the records, which are "
                "then in no curve; check that this column is the right one and filled in"
            )
        if not present:
            texts.append(
                f"{attribute.name!r} is missing in every record; check that this column is the right one and filled in"
            )
        elif strange * WORTH_A_WARNING > present:
            texts.append(f"more than a tenth of the values of {attribute.name!r} {text}")
    return texts


def _complaints_about_labels(column: pl.Series, labels: NDArray[np.unsignedinteger], steward: SchemaFile) -> list[str]:
    """Texts for the steward on labels that do not fit their declaration. They name no class."""
    classes_present = len(np.unique(labels))
    if steward.label_bounds is not None:
        if count_moved_labels(column, steward.label_bounds) * WORTH_A_WARNING > len(column):
            outside = (
                f"more than a tenth of the labels {steward.label!r} lie outside label_bounds and count as the nearer"
            )
            return [f"{outside} one; check the bounds and the measuring unit"]
        return ["all records have one label; the curator serves normally"] if classes_present == 1 else []
    if classes_present == 1:
        return ["all records have one class; the curator serves normally"]
    if classes_present < len(steward.classes):
        return ["a declared class does not occur; check the spelling of the classes"]
    return []


def _complaints_about_size(count: int, steward: SchemaFile) -> list[str]:
    """Texts for the steward on a number of records that is far from `round_size`. They hold no number."""
    if steward.round_size is None:
        if count <= ASSUMED_ROUND_SIZE:
            return []
        return ["round_size is not declared, and there are more records than are then assumed; declare it"]
    if max(count, steward.round_size) <= FAR_OFF * min(count, steward.round_size):
        return []
    far = "the declared round_size is less than half, or more than twice, the number of records that count"
    return [f"{far}; check it, as it bounds the work of a question and helps learners to choose theirs"]


def unit_names(column: pl.Series) -> list[str]:
    """The privacy unit of each record.

    Raises:
        ConfigurationError: a record has no unit. The text names the first such row, counted from 1, and no value.
    """
    names = column_texts(column)
    if names.null_count():
        row = int(names.is_null().arg_true()[0]) + 1
        raise ConfigurationError(
            f"unit column {column.name!r} is empty in row {row}, header not counted; name a unit for each record"
        )
    return names.to_list()


def bounded_rows(
    units: Sequence[str], records: Records, labels: NDArray[np.unsignedinteger], most: int, key: bytes
) -> NDArray[np.intp]:
    """Row numbers, at most `most` per unit, chosen by a keyed hash of that unit's own content.

    The choice for a unit depends on its name, its records and the key; not on other units, nor on the order of
    the rows. Identical records of one unit are interchangeable.
    """
    outcomes = [records.further[outcome.name] for outcome in records.schema.outcomes]
    by_unit: dict[str, list[int]] = {}
    for row, unit in enumerate(units):
        by_unit.setdefault(unit, []).append(row)
    chosen: list[int] = []
    for unit, rows in by_unit.items():
        if len(rows) <= most:
            chosen += rows
            continue
        name = unit.encode()
        head = len(name).to_bytes(8, "big") + name
        ranks = {}
        for row in rows:
            content = records.numeric[row].tobytes() + records.categorical[row].tobytes() + labels[row].tobytes()
            content += b"".join(column[row].tobytes() for column in outcomes)
            ranks[row] = (hmac.digest(key, head + content, "sha256"), row)
        chosen += sorted(rows, key=ranks.__getitem__)[:most]
    return np.sort(np.array(chosen, np.intp))
