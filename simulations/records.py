"""The records that a scenario names, and their split over sites: private, source and test."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.dataset import unit_names
from curator_node.record_files import read_records
from curator_node.steward import StewardFile, read_steward_file
from protocol.errors import ConfigurationError
from protocol.records import describe_absent, encode_frame, encode_label_column
from simulations.datasets import load_dataset
from simulations.datasets.dataset import Dataset
from simulations.datasets.splits import split_parts, split_sites
from simulations.scenario import Data, Scenario


ROW = "\0row"
"""Column of a record's place while records are split; no file can have one of that name."""


@dataclass(frozen=True)
class Records:
    """All records of a scenario, before any split."""

    dataset: Dataset
    steward: StewardFile


@dataclass(frozen=True)
class SiteRecords:
    """One site's records in one repeat: the harness's own copy, which its curator's learners never see.

    Attributes:
        name: of the site.
        private: what its curator answers from.
        source: what the learners hold of it; they are given it without labels.
        test: for scores.
        steward: its schema file, with the declared round size.
        test_rows: (n,) uint32, places of the test records among all records of the scenario, from 0.
    """

    name: str
    private: pl.DataFrame
    source: pl.DataFrame
    test: pl.DataFrame
    steward: StewardFile
    test_rows: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))


def load_records(scenario: Scenario, folder: Path) -> Records:
    """The records and schema that a scenario names.

    Raises:
        ConfigurationError: a file is absent or does not fit its schema file; rows are those of the file.
        DataUnavailableError: a data set's files cannot be had.
    """
    data = scenario.data
    if data.name is not None:
        dataset = load_dataset(data.name)
        steward = read_steward_file(dataset.schema_text, where=f"schema of {data.name}")
    else:
        schema = folder / str(data.schema)
        if not schema.is_file():
            raise ConfigurationError(f"no schema file {schema}")
        steward = read_steward_file(schema.read_text(encoding="utf-8"), where=f"schema file {schema.name}")
        frame = read_records(folder / str(data.path))
        _check_own(frame, data, steward)
        if data.sites.how == "shift":
            frame = frame.with_columns(pl.col(str(data.sites.attribute)).cast(pl.Float64, strict=False))
        dataset = Dataset(
            name=str(data.path),
            frame=frame,
            label=steward.label,
            description=steward.description,
            licence="",
            citation="",
            schema_path=schema,
            site=data.sites.column,
            unit=steward.unit if steward.unit in frame.columns else None,
        )
    if not data.unit:
        dataset = dataset.without_unit()
        steward = msgspec.structs.replace(steward, unit=None, most_records_per_unit=1)
    return Records(dataset, steward)


def _check_own(frame: pl.DataFrame, data: Data, steward: StewardFile) -> None:
    """Read one's own file as its curators will, once and whole, so that an error names the file's row."""
    site = data.sites.column if data.sites.how == "site" else None
    roles = {"label": steward.label, "unit": steward.unit if data.unit else None, "site": site}
    declared = [name for name in (*roles.values(), *(a.name for a in steward.attributes)) if name is not None]
    for role, name in roles.items():
        if name is not None and name not in frame.columns:
            absent = describe_absent([name], declared=declared, there=frame.columns)
            raise ConfigurationError(f"{data.path} has no {role} column {absent}")
    try:
        encode_frame(frame, steward.schema)
        encode_label_column(frame[steward.label], steward.schema)
        if roles["unit"] is not None:
            unit_names(frame[roles["unit"]])
    except ConfigurationError as error:
        raise ConfigurationError(f"{data.path}: {error}") from None


def split_records(scenario: Scenario, records: Records, repeat: int) -> dict[str, SiteRecords]:
    """Split the records over sites, and each site's into its parts.

    Args:
        scenario: the scenario.
        records: of `load_records`.
        repeat: number of the repeat; seeds the splits.

    Raises:
        ConfigurationError: a split that cannot be made, or a curator entry without a site.
    """
    rng = np.random.default_rng([scenario.seed, repeat])
    parts = msgspec.structs.asdict(scenario.data.parts)
    dataset = replace(records.dataset, frame=records.dataset.frame.with_row_index(ROW))
    try:
        frames = split_sites(dataset, scenario.data.sites.how, rng, **scenario.data.sites.options())
        split = {name: split_parts(frame, parts, rng, dataset.unit) for name, frame in frames.items()}
    except (ValueError, pl.exceptions.ColumnNotFoundError) as error:
        raise ConfigurationError(f"the records cannot be split as the scenario says: {error}") from None
    named = {curator.name for curator in scenario.curators} | {fault.curator for fault in scenario.faults}
    strangers = named - set(split) - {"*"}
    if strangers:
        raise ConfigurationError(f"no site {', '.join(sorted(strangers))}; the sites are {', '.join(sorted(split))}")
    declared = {name: scenario.curator(name).round_size for name in split}
    return {
        name: SiteRecords(
            name,
            **{part: frame.drop(ROW) for part, frame in pieces.items()},
            steward=msgspec.structs.replace(records.steward, round_size=declared[name]),
            test_rows=pieces["test"][ROW].to_numpy(),
        )
        for name, pieces in split.items()
    }
