"""Records that an audit makes up, and pairs of neighbouring sets of them. They belong to nobody, so they are public."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from warnings import catch_warnings, simplefilter

import polars as pl

from curator_node.records.dataset import PrivateDataset, StewardWarning
from curator_node.records.schema_file import SchemaFile
from expril.audit.kinds.kind_audit import Example, Value
from protocol.errors import ConfigurationError
from protocol.schema import NumericAttribute, Schema

Record = Mapping[str, Value]
"""A record: a value of each attribute and outcome, and of the label, as a file would hold them."""
Unit = tuple[Record, ...]
"""All records of one privacy unit; a single one if each record is a unit."""

UNIT = "unit"
"""The column that names units; schemas of examples have no such attribute."""
UNIT_KEY = b"the audit's own: its records are nobody's"
CACHE_BYTES = 2**26
ROUND_SIZE = 100
"""The round size on the invented curator's card; it bounds the stated work of a question."""


@dataclass(frozen=True)
class Neighbours:
    """Two sets of records that differ by one privacy unit."""

    shared: tuple[Unit, ...]  # the units of both, at least one
    unit: Unit  # the one that only the larger set has
    about: str = ""  # how they came to be, in words

    @cached_property
    def sets(self) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
        """The sets without and with the unit. The unit comes first, so that its rows move all others."""
        return self.shared, (self.unit, *self.shared)

    @property
    def words(self) -> str:
        """The two sets in words."""
        count = sum(map(len, self.shared))
        records = " and ".join(map(_words_of, self.unit))
        least, most = self.about, f"{count} other record{'s' if count != 1 else ''}"
        return f"{most}, and the same with a unit of {records}{f' ({least})' if least else ''}"


def _words_of(record: Record) -> str:
    values = ", ".join(f"{name} {'missing' if value is None else value}" for name, value in record.items())
    return f"({values})"


def plain_record(schema: Schema) -> Record:
    """Return a record whose attributes are all missing, with the first label."""
    label: Value = schema.classes[0] if schema.label_bounds is None else schema.label_bounds[0]
    names = (variable.name for variable in (*schema.attributes, *schema.outcomes))
    return {**dict.fromkeys(names, None), schema.label: label}


def steward_of(example: Example) -> SchemaFile:
    """Return the schema file of an invented curator."""
    schema, bound = example.schema, example.most_records_per_unit
    return SchemaFile(
        label=schema.label,
        attributes=schema.attributes,
        classes=schema.classes,
        label_bounds=schema.label_bounds,
        unit=UNIT if bound > 1 else None,
        most_records_per_unit=bound,
        round_size=ROUND_SIZE,
        outcomes=schema.outcomes,
        time_to_event=schema.time_to_event,
    )


def table_of(units: tuple[Unit, ...], schema: Schema) -> pl.DataFrame:
    """Return the records as a steward's table: a row for each, in order, with the number of its unit.

    Raises:
        ConfigurationError: there are no records.
    """
    records = list(chain.from_iterable(units))
    if not records:
        raise ConfigurationError("an audit's set of records is empty; give it at least one unit that stays")
    variables = (*schema.attributes, *schema.outcomes)
    numbers = {variable.name for variable in variables if isinstance(variable, NumericAttribute)}
    numbers |= {schema.label} if schema.label_bounds is not None else set()
    names = [*(variable.name for variable in variables), schema.label]
    columns = [
        pl.Series(name, [record[name] for record in records], pl.Float64 if name in numbers else pl.String)
        for name in names
    ]
    owners = [str(number) for number, unit in enumerate(reversed(units)) for _ in unit]
    return pl.DataFrame([*columns, pl.Series(UNIT, owners[::-1], pl.String)])


def dataset_of(
    units: tuple[Unit, ...], example: Example, *, kind: type[PrivateDataset] = PrivateDataset
) -> PrivateDataset:
    """Return the records as a curator's data set. `kind`: the class of the data set, which may be broken on purpose."""
    with catch_warnings():
        simplefilter("ignore", StewardWarning)
        return kind(table_of(units, example.schema), steward_of(example), unit_key=UNIT_KEY, cache_bytes=CACHE_BYTES)
