"""The duties of a partition: every record in one cell, by that record alone; hostile ones are refused; work is stated.

That is all that privacy needs of it: if one record is added or removed, the counts in its cells move by one (L1).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from expril.audit.contract.duties import BrokenDutyError, Duty, MissingDutyError, Verdict, explore, judge
from expril.audit.contract.mutations import UNLAWFUL, mutations
from expril.audit.generators.values import raw_frames_of, records_of, schemas
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.partitions import AnyPartition
from protocol.record_frames import encode_frame
from protocol.records import Records
from protocol.schema import Schema

DRAWS = 16
Cell = Callable[[Any, Records, int], int]
"""(partition, records, row) -> the cell of that record, by a slow second way."""


@dataclass(frozen=True)
class PartitionSubject:
    """A type of partition, and what its author gives."""

    partition: type[Any]
    draws: Callable[[Schema], SearchStrategy[Any]] | None = None  # lawful ones under a schema
    oracle: Cell | None = None
    hostile: Callable[[Schema], Mapping[str, Any]] | None = None  # ones that must be refused, by what is wrong
    home: ClassVar[str] = "docs/extending/partition.md"

    @property
    def lawful(self) -> SearchStrategy[tuple[AnyPartition, Records, Schema]]:
        """A lawful partition with records of its schema, of any numbers and texts."""
        if self.draws is None:
            raise MissingDutyError(f"give `draws`: schema -> a Hypothesis strategy of lawful partitions ({self.home})")
        partitions = self.draws

        @st.composite
        def drawn(draw: DrawFn) -> tuple[AnyPartition, Records, Schema]:
            schema = draw(schemas())
            records = st.one_of(
                records_of(schema), raw_frames_of(schema).map(lambda frame: encode_frame(frame, schema))
            )
            return draw(partitions(schema)), draw(records), schema

        return drawn()

    def verdicts(self) -> Iterator[Verdict]:
        """What became of each duty, in order."""
        for duty in PARTITION_DUTIES:
            yield judge(duty, self, {})


def bytes_of(subject: PartitionSubject) -> str:
    """Check that lawful partitions pass their own check, are read back the same, and state their work."""

    def check(drawn: tuple[AnyPartition, Records, Schema]) -> None:
        partition, _, schema = drawn
        partition.check(schema, "partition")
        if decode(encode(partition), subject.partition) != partition:
            raise BrokenDutyError(f"a partition is read back as another: {partition!r:.300}")
        stated = partition.cell_count(schema), partition.multiply_adds(), partition.multiply_adds_once()
        if any(type(number) is not int or number < 1 for number in stated):
            raise BrokenDutyError(f"cells and work are whole numbers of at least 1, not {stated}: {partition!r:.300}")

    return f"{explore(subject.lawful, check, DRAWS)} partitions are read back the same"


def one_cell(subject: PartitionSubject) -> str:
    """Check that every record is in one of k cells, whatever its values, and none is missed."""

    def check(drawn: tuple[AnyPartition, Records, Schema]) -> None:
        partition, records, schema = drawn
        cells = _cells(partition, records)
        count = partition.cell_count(schema)
        if cells.shape != (len(records),) or not np.issubdtype(cells.dtype, np.integer):
            raise BrokenDutyError(f"`cells` returns a whole number for each record, (n,), not {cells.shape}")
        if cells.size and not (cells.min() >= 0 and cells.max() < count):
            raise BrokenDutyError(
                f"a record is in cell {int(cells.min())} or {int(cells.max())} of {count}: {partition!r:.300}"
            )

    return f"{explore(subject.lawful, check, DRAWS)} sets of records"


def record_alone(subject: PartitionSubject) -> str:
    """Check that a cell does not depend on other records, their order or their number."""

    def check(drawn: tuple[AnyPartition, Records, Schema]) -> None:
        partition, records, _ = drawn
        usual = _cells(partition, records)
        for rows in (
            np.arange(len(records))[::-1],
            np.repeat(np.arange(len(records)), 2),
            *np.arange(len(records))[:, None],
        ):
            if not np.array_equal(_cells(partition, records.take(rows)), usual[rows]):
                raise BrokenDutyError(f"the cell of a record depends on the records beside it: {partition!r:.300}")

    return f"{explore(subject.lawful, check, DRAWS)} sets of records"


def oracle(subject: PartitionSubject) -> str:
    """Check that a second, slow way finds the same cells."""
    by_hand = subject.oracle
    if by_hand is None:
        raise MissingDutyError(f"give `oracle`: (partition, records, row) -> cell, in plain Python ({subject.home})")

    def check(drawn: tuple[AnyPartition, Records, Schema]) -> None:
        partition, records, _ = drawn
        expected = [by_hand(partition, records, row) for row in range(len(records))]
        if _cells(partition, records).tolist() != expected:
            raise BrokenDutyError(f"`cells` and the oracle differ: {partition!r:.300}")

    return f"{explore(subject.lawful, check, DRAWS)} sets of records are in the same cells"


def hostile_partitions(subject: PartitionSubject) -> str:
    """Check that what is nearly a partition is refused with the protocol's error, before a record is read."""
    refused = special = 0

    def check(drawn: tuple[AnyPartition, Records, Schema]) -> None:
        nonlocal refused, special
        partition, _, schema = drawn
        for name, data in mutations(encode(partition)).items():
            if not _refused(subject, data, schema, name) and name in UNLAWFUL:
                raise BrokenDutyError(f"a partition that is {name} is read; declare forbid_unknown_fields")
            refused += 1
        for name, wrong in (subject.hostile(schema) if subject.hostile else {}).items():
            special += 1
            if not _refused(subject, encode(wrong), schema, name):
                raise BrokenDutyError(f"a partition with {name} passes; refuse it in `check`: {wrong!r:.300}")

    explore(subject.lawful, check, DRAWS // 2)
    if not special:
        raise MissingDutyError(
            f"give `hostile`: schema -> partitions that must be refused, by what is wrong ({subject.home})"
        )
    return f"{special} wrong partitions were refused, and {refused} mutations were refused or lawful"


def _refused(subject: PartitionSubject, data: bytes, schema: Schema, name: str) -> bool:
    try:
        decode(data, subject.partition).check(schema, "partition")
    except RemoteProtocolError:
        return True
    except Exception as error:
        raise BrokenDutyError(
            f"reading or checking a partition with {name} fails with {type(error).__name__}: {error}; `check` raises "
            "RemoteProtocolError alone"
        ) from error
    return False


def _cells(partition: AnyPartition, records: Records) -> Any:
    """The cells; an error of the partition's own is told as what it is."""
    try:
        return partition.cells(records)
    except NotImplementedError:
        raise
    except Exception as error:
        raise BrokenDutyError(
            f"`cells` fails on some records with {type(error).__name__}: {error}; no record may make it fail"
        ) from error


PARTITION_DUTIES = (
    Duty("bytes and work", "lawful partitions are read back the same, and state their work", bytes_of),
    Duty("one cell", "every record is in exactly one of k cells, whatever its values", one_cell),
    Duty("record alone", "a cell is a function of that record and the partition alone", record_alone),
    Duty("oracle", "a second, slow way finds the same cells", oracle),
    Duty("hostile partitions", "they are refused before a record is read", hostile_partitions),
)
"""What a partition owes, in the order in which it is asked for."""
