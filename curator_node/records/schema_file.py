"""The steward's schema file: the public facts on the records. Bounds and levels come from it, never from data."""

import datetime as dt
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec

from expril.files import read_text_file
from protocol.errors import ConfigurationError
from protocol.odds import PrivacyUnit
from protocol.schema import (
    MOST_CLASSES,
    MOST_OUTCOMES,
    Attribute,
    CategoricalAttribute,
    Name,
    Schema,
    TimeToEvent,
    Units,
    check_texts,
    day_number,
)
from protocol.strict_toml import convert, parse_toml


class SchemaFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A schema file."""

    label: Name  # label column
    attributes: Annotated[tuple[Attribute, ...], msgspec.Meta(min_length=1, max_length=10_000)]  # in order
    # 2 to 256 class names; of two, the second is the positive one. Or
    classes: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MOST_CLASSES)] = ()
    label_bounds: tuple[float, float] | None = None  # [lower, upper] of a label that is a number
    label_units: Units | None = None  # unit of measurement of a label that is a number
    unit: Name | None = None  # column that names the privacy unit (patient, exam); None: the unit is the record
    # contribution bound c; where a unit has more records, c of them are kept
    most_records_per_unit: Annotated[int, msgspec.Meta(ge=1, le=2**20)] = 1
    # declared approximate number of records; public, a round figure
    round_size: Annotated[int, msgspec.Meta(ge=1, le=2**40)] | None = None
    description: Annotated[str, msgspec.Meta(max_length=10_000)] = ""  # for people
    # further columns that tables count, and that no model reads, such as the time of follow-up
    outcomes: Annotated[tuple[Attribute, ...], msgspec.Meta(max_length=MOST_OUTCOMES)] = ()
    time_to_event: TimeToEvent | None = None  # which of them are a time and its event, and the bins of the time

    def __post_init__(self) -> None:
        if self.unit is None and self.most_records_per_unit != 1:
            raise ValueError("most_records_per_unit needs a unit column; write unit = its name")
        if self.unit is not None and self.unit in (self.label, *(a.name for a in (*self.attributes, *self.outcomes))):
            also = "the label or an attribute" if self.unit not in {a.name for a in self.outcomes} else "an outcome"
            raise ValueError(f"the unit column {self.unit!r} is also {also}; it can be one of them")
        for attribute in (*self.attributes, *self.outcomes):
            if isinstance(attribute, CategoricalAttribute):
                check_texts(attribute.levels, f"attribute {attribute.name!r}: level")
        check_texts(self.classes, "class")
        _ = self.schema

    @cached_property
    def schema(self) -> Schema:
        """The part that travels on the card."""
        return Schema(
            attributes=self.attributes,
            label=self.label,
            classes=self.classes,
            label_bounds=self.label_bounds,
            label_units=self.label_units,
            outcomes=self.outcomes,
            time_to_event=self.time_to_event,
        )

    @property
    def protected(self) -> PrivacyUnit:
        """The privacy unit that is protected."""
        return PrivacyUnit.of(self.schema, self.unit, self.most_records_per_unit)


SCHEMA = "schema.toml"
"""Name of the schema file in a site's folder."""


OPEN = "?"
"""What a drafted schema has in the place of what its steward has to write."""


def read_schema_file(text: str, *, where: str = "schema file") -> SchemaFile:
    """Parse a schema file.

    Raises:
        ConfigurationError: a key or value is wrong; the text names it and suggests the right one. Or the file is
            unfinished, and the text names all attributes that need a kind, bounds or levels.
    """
    file = parse_toml(text, where=where)
    _check_finished(file, where)
    return convert(_in_days(file), SchemaFile, where=where)


def _check_finished(file: dict[str, Any], where: str) -> None:
    """Raise ConfigurationError for a file that is unfinished: something is `OPEN`, or several attributes lack keys.

    A single key that is missing is the business of `convert`.
    """
    tables = [table for key in _TABLES if isinstance(rows := file.get(key), list) for table in rows]
    tables = [table for table in tables if isinstance(table, dict)]
    needs: dict[str, list[str]] = {"a kind": [], "bounds": [], "levels": [], "a day for days_since": []}
    for number, table in enumerate(tables, start=1):
        for need in _needs(table):
            name = table.get("name")
            needs[need].append(name if isinstance(name, str) and name else f"number {number}")
    label = [key for key in ("label", "classes", "label_bounds") if _is_open(file.get(key))]
    bounds = file.get("label_bounds")
    if not label and isinstance(bounds, list) and OPEN in bounds:  # one of the two
        label = ["label_bounds"]
    placeholder = label or any(_is_open(item) for table in tables for item in map(table.get, _FILLED))
    if not placeholder and sum(map(len, needs.values())) < 2:
        return
    parts = [f"the label needs {' and '.join(label)}"] if label else []
    parts += [
        f"{len(names)} attribute{'s' if len(names) > 1 else ''} need{'' if len(names) > 1 else 's'} {need} "
        f"({', '.join(names)})"
        for need, names in needs.items()
        if names
    ]
    parts += _surplus(tables)
    raise ConfigurationError(f'{where} is unfinished: {"; ".join(parts)}; write them in the place of each "{OPEN}"')


_TABLES = ("attributes", "outcomes")
"""Keys of a schema file that hold a list of columns."""
_FILLED = ("kind", "lower", "upper", "levels", "days_since")
"""Keys of an attribute that may be open in a draft."""


def _is_open(item: Any) -> bool:
    return item == OPEN or (isinstance(item, list) and item != [] and all(part == OPEN for part in item))


def _needs(table: dict[str, Any]) -> list[str]:
    kind = table.get("kind", OPEN)
    if _is_open(kind):
        return ["a kind"]
    needs = ["a day for days_since"] if _is_open(table.get("days_since")) else []
    if kind == "numeric" and any(_is_open(table.get(key, OPEN)) for key in ("lower", "upper")):
        needs.append("bounds")
    if kind == "categorical" and (_is_open(table.get("levels", OPEN)) or table.get("levels") == []):
        needs.append("levels")
    return needs


def _surplus(tables: list[dict[str, Any]]) -> list[str]:
    """Words on open keys that an attribute of this kind does not have."""
    wrong = {"numeric": ("levels",), "categorical": ("lower", "upper", "days_since")}
    return [
        f"{table.get('name')} is {table['kind']} and has no {key}: take that line out"
        for table in tables
        for key in wrong.get(str(table.get("kind")), ())
        if _is_open(table.get(key))
    ]


def _in_days(file: dict[str, Any]) -> dict[str, Any]:
    """The file with dates as a card has them: an attribute's bounds as days since its `days_since`, others as texts."""
    lists = {key: rows for key in _TABLES if isinstance(rows := file.get(key), list)}
    return file | {key: [_attribute_in_days(attribute) for attribute in rows] for key, rows in lists.items()}


def _attribute_in_days(attribute: Any) -> Any:
    start = attribute.get("days_since") if isinstance(attribute, dict) else None
    if isinstance(start, str) and day_number(start) is not None:  # in quotes
        start = dt.date.fromisoformat(start)
    if type(start) is not dt.date:
        return attribute
    changed: dict[str, Any] = {"days_since": start.isoformat()}
    for bound in ("lower", "upper"):
        if type(date := attribute.get(bound)) is dt.date:
            changed[bound] = (date - start).days
    if isinstance(sentinels := attribute.get("missing"), list):
        changed["missing"] = [item.isoformat() if isinstance(item, dt.date) else item for item in sentinels]
    return attribute | changed


def read_schema_of(folder: Path) -> SchemaFile:
    """The schema file of a site's folder.

    Raises:
        ConfigurationError: the file is absent or wrong.
    """
    path = folder / SCHEMA
    text = read_text_file(path, "schema file", remedy="its steward writes it, as docs/steward/policy.md says")
    return read_schema_file(text, where=str(path))
