"""The `[data]` table of a scenario: whose records, and how they are divided over sites and parts."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import msgspec

from curator_node.records.schema_file import StewardFile, read_steward_file
from expril.files import read_text_file
from protocol.errors import ConfigurationError
from protocol.mistakes import did_you_mean, first_repeated
from protocol.strict_toml import suggest
from simulations.datasets import DATASETS, SITE_SPLITS

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
SMALL_SITES = ("refuse", "leave out", "merge")
"""What may become of a site with too few units."""
TABLES = (".csv", ".parquet", ".pq")
"""Suffixes of files of records."""
PARTS = 3
"""Private, source, test: each needs a unit of its own."""
ANY = "*"
"""Any site, or any level of the label that is named nowhere else."""


class Sites(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How records are split over curators.

    Attributes:
        how: "site" (a column says), "random" (`fractions` or `count`), or "shift" (`attribute`, `names`,
            `probabilities`).
        column: of the site; a built-in data set knows its own, which this replaces.
        fractions: site -> share.
        count: of equal sites, named by `pattern`.
        pattern: in which "{}" stands for the number of a site.
        attribute: the higher, the likelier the first of `names`.
        names: the two sites of a shifted split.
        probabilities: of the first site at the lowest and highest value of the attribute.
        units_move: whether a privacy unit may have records at several sites ("site" only). Each curator then protects
            its own part, and costs add up.
        least_units: a site of the column with fewer units is small.
        small: what becomes of small sites: "refuse", "leave out" or "merge" (into one, named `merged`).
        merged: name of the site of merged ones.
    """

    how: str
    column: Name | None = None
    fractions: dict[Name, Share] | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    pattern: Annotated[str, msgspec.Meta(min_length=2, max_length=80)] = "site {}"
    attribute: Name | None = None
    names: tuple[Name, Name] | None = None
    probabilities: tuple[float, float] = (0.1, 0.9)
    units_move: bool = False
    least_units: Annotated[int, msgspec.Meta(ge=PARTS, le=1_000_000)] = PARTS
    small: str = "refuse"
    merged: Name = "small sites"

    def __post_init__(self) -> None:
        if self.how not in SITE_SPLITS:
            raise ValueError(f"unknown way {self.how!r} to split sites{suggest(self.how, list(SITE_SPLITS))}")
        check_one_of("small", self.small, SMALL_SITES)
        if self.how == "random" and bool(self.fractions) == (self.count is not None):
            raise ValueError(
                "a random split needs fractions, such as {north = 0.5, south = 0.5}, or a count of equal sites; "
                "one of the two"
            )
        if self.pattern.count("{}") != 1:
            raise ValueError(f"pattern {self.pattern!r} needs one {{}} where the number of the site goes")
        if self.how == "shift" and (self.attribute is None or self.names is None):
            raise ValueError("a shifted split needs attribute and names")
        if self.how != "site" and (self.units_move or self.small != "refuse" or self.least_units != PARTS):
            raise ValueError('units_move, small and least_units are for sites of a column (how = "site")')

    def options(self) -> dict[str, Any]:
        """Arguments for `split_sites`."""
        if self.how == "random":
            return {"fractions": self.fractions or self._equal()}
        if self.how == "shift":
            return {"attribute": self.attribute, "sites": self.names, "probabilities": self.probabilities}
        return {"units_move": self.units_move}

    def _equal(self) -> dict[str, float]:
        """Names with leading zeros, so that they sort as their numbers do."""
        count = self.count or 1
        numbers = [str(number).zfill(len(str(count))) for number in range(1, count + 1)]
        return dict.fromkeys((self.pattern.replace("{}", number) for number in numbers), 1 / count)


class Parts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shares of each site's records: what its curator holds, what is public without labels, what is for testing."""

    private: Share = 0.5
    source: Share = 0.25
    test: Share = 0.25


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which records.

    Attributes:
        name: a built-in data set; or
        path: a CSV or Parquet file of one's own, relative to the scenario, with
        schema: its steward's schema file.
        unit: protect whole privacy units (the schema's unit column); False: each row is a unit.
        most_records_per_unit: contribution bound, instead of the schema's; a unit with more records counts with these.
        first_record: keep the first record of each unit alone, in the order of the file.
        merge_label: class -> levels of the label column that become it, in the order of the classes; "*" stands for
            all levels that are named nowhere.
        sites: how they are split over curators.
        parts: how each site is split.
    """

    sites: Sites
    name: str | None = None
    path: str | None = None
    schema: str | None = None
    unit: bool = True
    most_records_per_unit: Annotated[int, msgspec.Meta(ge=1, le=2**20)] | None = None
    first_record: bool = False
    merge_label: dict[Name, tuple[Name, ...]] = {}
    parts: Parts = Parts()

    def __post_init__(self) -> None:
        if not self.unit and (self.most_records_per_unit is not None or self.first_record):
            raise ValueError("most_records_per_unit and first_record need units; leave out unit = false")
        levels = [level for merged in self.merge_label.values() for level in merged]
        if self.merge_label and (len(self.merge_label) < 2 or not all(self.merge_label.values())):
            raise ValueError("merge_label needs two classes or more, each with its levels")
        if len(set(levels)) != len(levels):
            raise ValueError(
                f"merge_label names the level {first_repeated(levels)!r} twice; a level belongs to one class"
            )
        if (self.name is None) == (self.path is None):
            raise ValueError("name a built-in data set or give a path, one of the two")
        if self.name is not None and self.name not in DATASETS:
            raise ValueError(f"unknown data set {self.name!r}{suggest(self.name, list(DATASETS))}")
        if self.path is not None and self.schema is None:
            raise ValueError("records of one's own need a schema file beside their path")
        if self.path is not None and self.sites.how == "site" and self.sites.column is None:
            raise ValueError('sites: how = "site" needs column, the column of the records that names the site')


def read_schema(path: Path) -> StewardFile:
    """A steward's schema file; a ConfigurationError names it, and what is wrong in it."""
    return read_steward_file(read_text_file(path, "schema file"), where=f"schema file {path.name}")


def is_table(source: str) -> bool:
    """Whether a file's name says that it holds records."""
    return Path(source).suffix.lower() in TABLES


def check_one_of(key: str, value: str, allowed: Sequence[str]) -> None:
    """Raise ValueError where a key's value is none of those that are allowed; suggests the nearest."""
    if value not in allowed:
        raise ValueError(f"{key} must be one of {', '.join(allowed)}, not {value!r}{did_you_mean(value, allowed)}")


def fits(site: str, pattern: str) -> bool:
    """Whether a site has that name, or one that the pattern stands for ("*": any letters)."""
    return site == pattern or (ANY in pattern and fnmatchcase(site, pattern.replace("[", "[[]").replace("?", "[?]")))


def matching(patterns: Sequence[str], sites: Sequence[str]) -> list[str]:
    """The sites that are named, or stood for, in the order of the patterns; all where nothing is named.

    Raises:
        ConfigurationError: a name or pattern that fits no site.
    """
    strangers = [pattern for pattern in patterns if not any(fits(site, pattern) for site in sites)]
    if strangers:
        raise ConfigurationError(f"unknown site(s) {', '.join(strangers)}; the sites are {', '.join(sites)}")
    if not patterns:
        return list(sites)
    return list(dict.fromkeys(site for pattern in patterns for site in sites if fits(site, pattern)))
