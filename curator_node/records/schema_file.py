"""The steward's schema file: what is public about the records. Bounds and levels come from here, never from data."""

from pathlib import Path
from typing import Annotated

import msgspec

from expril.files import read_text_file
from protocol.odds import PrivacyUnit
from protocol.schema import MOST_CLASSES, Attribute, Name, Schema
from protocol.strict_toml import read_toml


class StewardFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schema file.

    Attributes:
        label: label column.
        attributes: in order.
        classes: 2 to 256 class names; of two, the second is the positive one. Or
        label_bounds: [lower, upper] of a label that is a number.
        unit: column that names the privacy unit (patient, exam); None: the unit is the record.
        most_records_per_unit: contribution bound c; where a unit has more records, c of them are kept.
        round_size: declared approximate number of records; public, a round figure.
        description: for people.
    """

    label: Name
    attributes: Annotated[tuple[Attribute, ...], msgspec.Meta(min_length=1, max_length=10_000)]
    classes: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MOST_CLASSES)] = ()
    label_bounds: tuple[float, float] | None = None
    unit: Name | None = None
    most_records_per_unit: Annotated[int, msgspec.Meta(ge=1, le=2**20)] = 1
    round_size: Annotated[int, msgspec.Meta(ge=1, le=2**40)] | None = None
    description: Annotated[str, msgspec.Meta(max_length=10_000)] = ""

    def __post_init__(self) -> None:
        if self.unit is None and self.most_records_per_unit != 1:
            raise ValueError("most_records_per_unit needs a unit column; write unit = its name")
        if self.unit is not None and self.unit in (self.label, *(a.name for a in self.attributes)):
            raise ValueError(f"the unit column {self.unit!r} is also the label or an attribute; it can be one of them")
        _ = self.schema

    @property
    def schema(self) -> Schema:
        """The part that travels on the card."""
        return Schema(
            attributes=self.attributes, label=self.label, classes=self.classes, label_bounds=self.label_bounds
        )

    @property
    def protected(self) -> PrivacyUnit:
        """What is protected as a whole."""
        return PrivacyUnit.of(self.schema, self.unit, self.most_records_per_unit)


SCHEMA = "schema.toml"
"""In a site's folder."""


def read_steward_file(text: str, *, where: str = "schema file") -> StewardFile:
    """Parse a schema file; ConfigurationError names the wrong key and suggests the right one."""
    return read_toml(text, StewardFile, where=where)


def steward_of(folder: Path) -> StewardFile:
    """The schema file of a site's folder.

    Raises:
        ConfigurationError: it is absent or wrong.
    """
    path = folder / SCHEMA
    text = read_text_file(path, "schema file", remedy="its steward writes it, as docs/policy.md says")
    return read_steward_file(text, where=str(path))
