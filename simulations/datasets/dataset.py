"""The value that every loader returns."""

from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

SCHEMAS = Path(__file__).parent / "schemas"


@dataclass(frozen=True)
class Dataset:
    """Records with the roles of their columns.

    ``frame`` has one row a record. Numeric attributes are Float64, everything else String; a missing value is
    null. The label, site and unit columns hold no nulls.
    """

    name: str
    frame: pl.DataFrame
    label: str
    description: str
    licence: str
    citation: str
    schema_path: Path
    site: str | None = None
    unit: str | None = None
    outcomes: tuple[str, ...] = ()  # columns that only tables count, such as the time of follow-up

    @property
    def attributes(self) -> list[str]:
        """Names of the columns that are neither label, site, unit nor outcomes, in the order of the schema."""
        roles = {self.label, self.site, self.unit, *self.outcomes}
        return [column for column in self.frame.columns if column not in roles]

    @property
    def schema_text(self) -> str:
        """The steward's schema, TOML."""
        return self.schema_path.read_text(encoding="utf-8")

    def without_unit(self) -> "Dataset":
        """The same records without the unit column: each record is then its own privacy unit.

        The schema file still names the unit; whoever protects plain rows says so beside it.
        """
        if self.unit is None:
            return self
        return replace(self, frame=self.frame.drop(self.unit), unit=None)
