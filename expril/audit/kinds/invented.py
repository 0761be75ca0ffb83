"""Records that an audit makes up, and pairs of neighbouring sets of them. They are public: nobody's."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from warnings import catch_warnings, simplefilter

import polars as pl

from curator_node.records.dataset import PrivateDataset, StewardWarning
from curator_node.records.schema_file import SchemaFile
from expril.audit.kinds.kind_audit import Example, Value
from protocol.errors import ConfigurationError
from protocol.schema import NumericAttribute, Schema

Record = Mapping[str, Value]
"""A value of each attribute and of the label, as a file would hold it."""
Unit = tuple[Record, ...]
"""All records of one privacy unit; where the unit is the record, one."""

UNIT = "unit"
"""The column that names units; schemas of examples have no such attribute."""
UNIT_KEY = b"the audit's own: its records are nobody's"
CACHE_BYTES = 2**26
ROUND_SIZE = 100
"""What the invented curator's card says; it bounds the stated work of a question."""


@dataclass(frozen=True)
class Neighbours:
    """Two sets of records that differ by one privacy unit."""

    shared: tuple[Unit, ...]  # the units of both, at least one
    unit: Unit  # the one that only the larger set has
    about: str = ""  # how they came to be, in words

    @property
    def sets(self) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
        """(without the unit, with it); the unit comes first, so that all others move by its rows."""
        return self.shared, (self.unit, *self.shared)

    @property
    def words(self) -> str:
        """The two sets, for a reader."""
        count = sum(map(len, self.shared))
        records = " and ".join(map(_words_of, self.unit))
        least, most = self.about, f"{count} other record{'s' if count != 1 else ''}"
        return f"{most}, and the same with a unit of {records}{f' ({least})' if least else ''}"


def _words_of(record: Record) -> str:
    values = ", ".join(f"{name} {'missing' if value is None else value}" for name, value in record.items())
    return f"({values})"


def plain_record(schema: Schema) -> Record:
    """One of which every attribute is missing, with the first label."""
    label: Value = schema.classes[0] if schema.label_bounds is None else schema.label_bounds[0]
    return {**dict.fromkeys((attribute.name for attribute in schema.attributes), None), schema.label: label}


def steward_of(example: Example) -> SchemaFile:
    """The schema file of an invented curator."""
    schema, bound = example.schema, example.most_records_per_unit
    return SchemaFile(
        label=schema.label,
        attributes=schema.attributes,
        classes=schema.classes,
        label_bounds=schema.label_bounds,
        unit=UNIT if bound > 1 else None,
        most_records_per_unit=bound,
        round_size=ROUND_SIZE,
    )


def table_of(units: tuple[Unit, ...], schema: Schema) -> pl.DataFrame:
    """The records as a steward's table: one row each, in order, with the number of their unit.

    Raises:
        ConfigurationError: there are none.
    """
    records = list(chain.from_iterable(units))
    if not records:
        raise ConfigurationError("an audit's set of records is empty; give it at least one unit that stays")
    numbers = {attribute.name for attribute in schema.attributes if isinstance(attribute, NumericAttribute)}
    numbers |= {schema.label} if schema.label_bounds is not None else set()
    names = [*(attribute.name for attribute in schema.attributes), schema.label]
    columns = [
        pl.Series(name, [record[name] for record in records], pl.Float64 if name in numbers else pl.String)
        for name in names
    ]
    owners = [str(number) for number, unit in enumerate(reversed(units)) for _ in unit]
    return pl.DataFrame([*columns, pl.Series(UNIT, owners[::-1], pl.String)])


def dataset_of(
    units: tuple[Unit, ...], example: Example, *, kind: type[PrivateDataset] = PrivateDataset
) -> PrivateDataset:
    """The records as a curator holds them; `kind` may be one that is broken on purpose."""
    with catch_warnings():
        simplefilter("ignore", StewardWarning)
        return kind(table_of(units, example.schema), steward_of(example), unit_key=UNIT_KEY, cache_bytes=CACHE_BYTES)
