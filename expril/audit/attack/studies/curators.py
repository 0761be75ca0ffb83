"""The curators that are attacked: real ones with real noise, over records that the audit holds.

The records are an invented table, or a public data set. An attribute with many distinct values, such as a laboratory
value or a length of stay to the minute, tells patients apart. In the order of that attribute the table is cut into
stretches. The last record of each stretch is a *victim*, whose value no other record has. The rest of the stretch are
the victim's neighbours; the adversary knows only their range.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.policy import read_policy
from curator_node.records.schema_file import SchemaFile, read_schema_file
from curator_node.site import Site, create_site, open_site, temporary_site
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.partitions import FeatureBins
from protocol.schema import NumericAttribute
from simulations.datasets import DATASETS, load_dataset

INVENTED = "invented"
PATIENT = "name of the patient"
NEIGHBOURS = 3
"""Neighbours of each victim in the invented table."""
_SCHEMA = """
label = "ill"
classes = ["no", "yes"]
round_size = {size}

[[attributes]]
name = "ferritin"
kind = "numeric"
lower = 0
upper = {upper}
"""


@dataclass(frozen=True)
class Table:
    """All records that may be in, and how to ask for each victim."""

    frame: pl.DataFrame  # n rows
    schema: str  # the steward's file, TOML
    attribute: str  # numeric; tells the victims apart
    victims: NDArray[np.intp]  # (m,) rows of `frame`, rising in the attribute
    starts: NDArray[np.float64]  # (m,) [starts, ends) of the attribute holds the victim and no other record
    ends: NDArray[np.float64]

    @property
    def steward(self) -> SchemaFile:
        """The schema file, read."""
        return read_schema_file(self.schema)

    def isolating_bins(self) -> FeatureBins:
        """Bins: 2 j + 1 holds victim j alone, and 2 j the neighbours of its stretch."""
        return FeatureBins(self.attribute, tuple(np.column_stack([self.starts, self.ends]).ravel().tolist()))

    def stretch_bins(self) -> FeatureBins:
        """Bins: j holds victim j and the neighbours of its stretch."""
        return FeatureBins(self.attribute, tuple(self.ends.tolist()))

    def patients(self, present: NDArray[np.bool_], records: int, bound: int) -> tuple[pl.DataFrame, str]:
        """Records and schema file if each row is a patient, the privacy unit, and each victim has several records.

        Args:
            present: (n,) whether each row is in.
            records: number of equal records of each victim.
            bound: most records of a patient that the curator counts.
        """
        repeats = present.astype(np.int64)
        repeats[self.victims] *= records
        rows = np.repeat(np.arange(self.frame.height), repeats)
        names = pl.Series(PATIENT, [f"{row}" for row in rows])
        schema = f'unit = "{PATIENT}"\nmost_records_per_unit = {bound}\n{self.schema}'
        return self.frame[rows].with_columns(names), schema

    def first(self, victims: int) -> "Table":
        """The table with at most so many victims; the others become ordinary records."""
        chosen = slice(0, victims)
        return Table(
            self.frame, self.schema, self.attribute, self.victims[chosen], self.starts[chosen], self.ends[chosen]
        )


def table_of(records: str, victims: int) -> Table:
    """The records of that name.

    Args:
        records: "invented", or a data set of `simulations.datasets`.
        victims: number of victims; a real table may have fewer.

    Raises:
        ConfigurationError: no such records, or none of them can be told apart.
        DataUnavailableError: the data set's files are neither here nor can they be fetched.
    """
    return _invented(victims) if records == INVENTED else _real(records).first(victims)


def _invented(victims: int) -> Table:
    """A table of whole numbers: 0, 1, 2 are the neighbours and 3 the victim of the first stretch, and so on."""
    stretch = NEIGHBOURS + 1
    values = np.arange(victims * stretch, dtype=np.float64)
    rows = np.arange(stretch - 1, len(values), stretch)
    frame = pl.DataFrame({"ferritin": values, "ill": np.where(np.arange(len(values)) % 2, "yes", "no")})
    schema = _SCHEMA.format(size=len(values), upper=len(values))
    return Table(frame, schema, "ferritin", rows, values[rows], values[rows] + 1)


@lru_cache(maxsize=4)
def _real(name: str) -> Table:
    frame, schema = real_records(name)
    numeric = [item for item in read_schema_file(schema).attributes if isinstance(item, NumericAttribute)]
    candidates = [_told_apart(frame, item) for item in numeric]
    if not candidates or max(len(rows) for _, rows, _, _ in candidates) < 2:
        raise ConfigurationError(f"no two records of {name} can be told apart by one attribute; attack other records")
    return Table(frame, schema, *max(candidates, key=lambda item: len(item[1])))


def real_records(name: str) -> tuple[pl.DataFrame, str]:
    """The records of a data set, each its own privacy unit, and its schema file without the unit.

    Raises:
        ConfigurationError: no data set has that name.
        DataUnavailableError: its files are neither here nor can they be fetched.
    """
    if name not in DATASETS:
        raise ConfigurationError(f"no records are called {name!r}; there are {', '.join((INVENTED, *DATASETS))}")
    dataset = load_dataset(name).without_unit()
    unit = ("unit =", "most_records_per_unit =")
    schema = "\n".join(line for line in dataset.schema_text.splitlines() if not line.startswith(unit))
    return dataset.frame.select(*dataset.attributes, dataset.label), schema


def _told_apart(
    frame: pl.DataFrame, attribute: NumericAttribute
) -> tuple[str, NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Name of the attribute, and rows and ranges of records with unique values, no two of them next to each other."""
    values = frame[attribute.name].clip(attribute.lower, attribute.upper).to_numpy()
    distinct, first, counts = np.unique(values[~np.isnan(values)], return_index=True, return_counts=True)
    places = np.flatnonzero(~np.isnan(values))[first]
    chosen: list[int] = []
    for place in np.flatnonzero(counts[:-1] == 1):
        if place and (not chosen or place > chosen[-1] + 1):
            chosen.append(int(place))
    return attribute.name, places[chosen].astype(np.intp), distinct[chosen], distinct[np.array(chosen, int) + 1]


OPEN_STUDIES = 1_000
"""More than any attack opens, so that only the cap stops an adversary."""


class Attacked(Protocol):
    """The adversary's view of a curator."""

    @property
    def identity(self) -> bytes:
        """Public key."""

    def handle(self, data: bytes) -> bytes:
        """Answer one envelope with one envelope."""

    def restart(self) -> None:
        """Stop the process and start it again: its memory is lost, its files are not."""


Opening = Callable[[pl.DataFrame, str, str], AbstractContextManager[Attacked]]
"""Opens a curator of (records, schema file, policy file)."""


def policy_text(learners: Mapping[str, SigningKey], cap: Fraction) -> str:
    """A policy file with this cap for each learner, and for all learners together."""
    least = min(cap / 100, Fraction(1, 10_000))
    lines = ['name = "attacked"', f'cap = "{cap}"', f'least_cost = "{least}"', f'least_query_cost = "{least}"']
    lines.append(f"open_studies = {OPEN_STUDIES}")
    for name, key in learners.items():
        lines += ["[[learners]]", f"name = {json.dumps(name)}", f'key = "{key.public.hex()}"', f'cap = "{cap}"']
    return "\n".join(lines)


class _InMemory:
    def __init__(self, site: Site) -> None:
        self._site = site
        self.identity, self.handle = site.identity, site.handle

    def restart(self) -> None:
        raise ConfigurationError("a curator in memory keeps nothing over a restart; open it on disk")


@contextmanager
def in_memory(records: pl.DataFrame, schema: str, policy: str) -> Iterator[Attacked]:
    """Open a curator with its ledger in memory; it cannot be restarted."""
    with temporary_site(records, read_schema_file(schema), read_policy(policy)) as site:
        yield _InMemory(site)


class _OnDisk:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._site = open_site(folder)
        self.identity = self._site.identity

    def handle(self, data: bytes) -> bytes:
        return self._site.handle(data)

    def restart(self) -> None:
        self.close()
        self._site = open_site(self._folder)

    def close(self) -> None:
        self._site.close()


@contextmanager
def on_disk(records: pl.DataFrame, schema: str, policy: str) -> Iterator[Attacked]:
    """Open a curator as it is deployed: a folder with policy, schema, records, key, ledger and mark."""
    with tempfile.TemporaryDirectory(prefix="expril-audit-") as name:
        folder = Path(name)
        create_site(folder, policy=policy, schema=schema, records=records)
        opened = _OnDisk(folder)
        try:
            yield opened
        finally:
            opened.close()
