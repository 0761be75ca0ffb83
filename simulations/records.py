"""The records that a scenario names, and their split over sites: private, source and test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.records.dataset import complaints_about, unit_names
from curator_node.records.files import read_records
from curator_node.records.schema_file import StewardFile, read_steward_file
from learner_node.study.population import counted
from protocol.errors import ConfigurationError
from protocol.limits import Limits
from protocol.mistakes import did_you_mean
from protocol.record_frames import (
    UnknownClassError,
    column_texts,
    describe_absent,
    encode_and_count_moved,
    encode_frame,
    encode_label_column,
)
from protocol.records import Records as EncodedRecords
from protocol.strict_toml import suggest
from simulations.datasets import load_dataset
from simulations.datasets.dataset import Dataset
from simulations.datasets.splits import split_by_site, split_parts, split_sites, split_units_over_sites
from simulations.populations import SMALL_REMEDY, bound_notes, keep_large, moving_notes, small_site_notes
from simulations.scenario import LearnerScenario, Scenario, load_scenario
from simulations.scenario_data import ANY, Data, fits, is_table, matching, read_schema

ROW = "\0row"
"""Column of a record's place in its file while records are chosen and split; no file can have one of that name."""

CLASSES = 2
"""Classes of a label whose models can be validated."""
RENAMED = ". Classes are declared as the file writes them; merge_label in [data] gives them other names"


@dataclass(frozen=True)
class Records:
    """All records of a scenario, before any split.

    Attributes:
        dataset: the records.
        steward: their schema file.
        places: (n,) uint32, of each in its file or data set, from 0; None where all of them are here.
    """

    dataset: Dataset
    steward: StewardFile
    places: NDArray[np.uint32] | None = None

    def numbered(self) -> Dataset:
        """The records with their places, in the column `ROW`."""
        frame = self.dataset.frame
        if self.places is None:
            return replace(self.dataset, frame=frame.with_row_index(ROW))
        return replace(self.dataset, frame=frame.with_columns(pl.Series(ROW, self.places)))


@dataclass(frozen=True)
class SiteRecords:
    """One site's records in one repeat: the harness's own copy, which its curator's learners never see.

    A curator counts a bounded number of a unit's records. Source and test records are bounded alike, so that all speak
    of one population.

    Attributes:
        name: of the site.
        private: what its curator is given.
        counted: private records as the curator counts them. The harness draws its own: the curator's choice is secret.
        source: what the learners hold of it; they are given it without labels.
        test: for scores.
        all_tests: test records, bound or not.
        steward: its schema file, with the declared round size.
        test_rows: (n,) uint32, place of each record of `test` in its file or data set, from 0.
    """

    name: str
    private: pl.DataFrame
    counted: pl.DataFrame
    source: pl.DataFrame
    test: pl.DataFrame
    all_tests: pl.DataFrame
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
        steward = read_schema(schema)
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
    return _as_told(Records(dataset, steward), data)


def _as_told(records: Records, data: Data) -> Records:
    """With what the scenario says instead of the data set and its schema."""
    dataset, steward = records.dataset, records.steward
    if data.sites.column is not None:
        if data.sites.column not in dataset.frame.columns:
            absent = describe_absent([data.sites.column], declared=[], there=dataset.frame.columns)
            raise ConfigurationError(f"{dataset.name} has no site column {absent}")
        dataset = replace(dataset, site=data.sites.column)
    if data.merge_label:
        frame, steward = _merged(dataset.frame, steward, data.merge_label)
        dataset = replace(dataset, frame=frame)
    if not data.unit:
        dataset = dataset.without_unit()
        steward = msgspec.structs.replace(steward, unit=None, most_records_per_unit=1)
    elif dataset.unit is None and (data.first_record or data.most_records_per_unit is not None):
        raise ConfigurationError(
            f"{dataset.name}: its schema names no unit, so first_record and most_records_per_unit mean nothing"
        )
    places = None
    if data.first_record:
        frame = dataset.frame.with_row_index(ROW).unique(subset=dataset.unit, keep="first", maintain_order=True)
        dataset, places = replace(dataset, frame=frame.drop(ROW)), frame[ROW].to_numpy()
        steward = msgspec.structs.replace(steward, most_records_per_unit=1)
    if data.most_records_per_unit is not None:
        steward = msgspec.structs.replace(steward, most_records_per_unit=data.most_records_per_unit)
    return Records(dataset, steward, places)


def _merged(
    frame: pl.DataFrame, steward: StewardFile, told: Mapping[str, Sequence[str]]
) -> tuple[pl.DataFrame, StewardFile]:
    """The label's levels merged into classes."""
    if steward.label_bounds is not None:
        raise ConfigurationError(f"merge_label: the label {steward.label!r} is a number; there are no levels to merge")
    class_of = {level: name for name, levels in told.items() for level in levels if level != ANY}
    strangers = [level for level in class_of if level not in steward.classes]
    if strangers:
        raise ConfigurationError(
            f"merge_label: the schema has no class {strangers[0]!r}{suggest(strangers[0], list(steward.classes))}"
        )
    rest = next((name for name, levels in told.items() if ANY in levels), None)
    homeless = [level for level in steward.classes if level not in class_of]
    if rest is None and homeless:
        raise ConfigurationError(
            f'merge_label does not say what becomes of {", ".join(homeless)}; "*" stands for all the rest'
        )
    merged = {level: class_of.get(level, rest) for level in steward.classes}
    column = column_texts(frame[steward.label]).replace_strict(merged, return_dtype=pl.String)
    labelled = frame.with_columns(column.alias(steward.label))
    return labelled, msgspec.structs.replace(steward, classes=tuple(told))


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
        if site is not None:
            _require_sites(frame[site])
    except UnknownClassError as error:
        raise ConfigurationError(f"{data.path}: {error}{error.likeness or RENAMED}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{data.path}: {error}") from None


def _require_sites(column: pl.Series) -> None:
    if column.null_count():
        row = int(column.is_null().arg_true()[0]) + 1
        more = f", and {column.null_count() - 1} more rows" if column.null_count() > 1 else ""
        raise ConfigurationError(
            f"site column {column.name!r} is empty in row {row}{more}, header not counted; name the site of each "
            "record, or remove those that have none"
        )


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
    dataset, told = records.numbered(), scenario.data
    parts = msgspec.structs.asdict(told.parts)
    try:
        frames = split_sites(dataset, told.sites.how, rng, **told.sites.options())
        frames = keep_large(frames, told.sites, dataset.unit)
        if told.sites.units_move and dataset.unit is not None:
            split = split_units_over_sites(frames, parts, rng, dataset.unit)
        else:
            split = {name: split_parts(frame, parts, rng, dataset.unit) for name, frame in frames.items()}
    except (ValueError, pl.exceptions.ColumnNotFoundError) as error:
        raise ConfigurationError(f"the records cannot be split as the scenario says: {error}") from None
    named = {curator.name for curator in scenario.curators} | {fault.curator for fault in scenario.faults}
    strangers = [name for name in named - {ANY} if not any(fits(site, name) for site in split)]
    if strangers:
        first, *more = sorted(strangers)
        raise ConfigurationError(
            f"no site {' or '.join(map(repr, [first, *more]))}, which [[curators]] or [[faults]] name; the sites are "
            f"{', '.join(sorted(split))}{did_you_mean(first, list(split))}"
        )
    return {name: _site(name, pieces, scenario, records, repeat) for name, pieces in split.items()}


def population_notes(scenario: Scenario, records: Records, sites: Mapping[str, SiteRecords]) -> list[str]:
    """What a reader must know of whose records these are: small sites, the contribution bound, units at several sites.

    Args:
        scenario: the scenario.
        records: of `load_records`.
        sites: of `split_records`.
    """
    unit, most = records.dataset.unit, records.steward.most_records_per_unit
    notes = []
    if scenario.data.sites.small != "refuse":
        frames = split_by_site(records.dataset, units_move=scenario.data.sites.units_move)
        notes += small_site_notes(frames, scenario.data.sites, unit)
    held = {
        "private": (sum(site.private.height for site in sites.values()), sum(s.counted.height for s in sites.values())),
        "test": (sum(site.all_tests.height for site in sites.values()), sum(s.test.height for s in sites.values())),
    }
    notes += bound_notes(held, unit, most)
    return notes + moving_notes({name: site.private for name, site in sites.items()}, unit)


def _site(
    name: str, pieces: Mapping[str, pl.DataFrame], scenario: Scenario, records: Records, repeat: int
) -> SiteRecords:
    empty = [part for part, frame in pieces.items() if frame.is_empty()]
    if empty:
        raise ConfigurationError(
            f"site {name} has too few records: none is left for {', '.join(empty)}; {SMALL_REMEDY}"
        )
    unit, most = records.dataset.unit, records.steward.most_records_per_unit
    rng = np.random.default_rng([scenario.seed, repeat, *name.encode()])
    private, source, test = (counted(pieces[part], unit, most, rng) for part in ("private", "source", "test"))
    steward = msgspec.structs.replace(records.steward, round_size=scenario.curator(name).round_size)
    return SiteRecords(
        name=name,
        private=pieces["private"].drop(ROW),
        counted=private.drop(ROW),
        source=source.drop(ROW),
        test=test.drop(ROW),
        all_tests=pieces["test"].drop(ROW),
        steward=steward,
        test_rows=test[ROW].to_numpy(),
    )


def require_classes(learner: LearnerScenario, steward: StewardFile) -> None:
    """Refuse a validation of what has no two classes.

    Raises:
        ConfigurationError: the learner asks for one.
    """
    if learner.validate is not None and len(steward.classes) != CLASSES:
        raise ConfigurationError(f"learner {learner.name!r}: validate is for a label of two classes; leave it out")


def site_doubts(scenario: Scenario, records: Records) -> list[str]:
    """That the column which names the site is an attribute, too; empty where it is not."""
    site = records.dataset.site if scenario.data.sites.how == "site" else None
    if site is None or records.steward.schema.find(site) is None:
        return []
    doubt = (
        f"the site column {site!r} is an attribute, too: a curator's records have one value of it, so a model that "
        "reads it tells sites apart, and not patients; take it out of the schema, unless that is what is asked"
    )
    return [doubt]


def sites_of(learner: LearnerScenario, sites: Mapping[str, SiteRecords]) -> tuple[list[str], list[str]]:
    """The sites that a learner asks, and those whose source records it holds.

    Raises:
        ConfigurationError: it names a site that is not there.
    """
    try:
        return matching(learner.curators, list(sites)), matching(learner.source, list(sites))
    except ConfigurationError as error:
        raise ConfigurationError(f"learner {learner.name}: {error}") from None


@dataclass(frozen=True)
class Quoted:
    """What a quote is about, as its files say.

    Attributes:
        title: for the table.
        source: the learner's encoded records.
        stewards: schema file of each curator that is asked.
        learner: of the scenario; None where records alone were named.
        limits: of each of these curators, and the number of records that it declares, if any.
        doubts: what is worth a warning in the source and in the scenario's records, in sentences.
    """

    title: str
    source: EncodedRecords
    stewards: tuple[StewardFile, ...]
    learner: LearnerScenario | None = None
    limits: tuple[tuple[Limits, int | None], ...] = ()
    doubts: tuple[str, ...] = ()


def read_quoted(source: str, *, schema: Path | None, learner: str) -> Quoted:
    """Read records and their schema file, or the source and declarations of a scenario's learner.

    Args:
        source: path of a CSV or Parquet file; or a scenario's name or TOML file.
        schema: the steward's schema file, for records.
        learner: name of a scenario's learner; "" takes the first.

    Raises:
        ConfigurationError: what is missing or wrong, and what to pass instead.
    """
    if is_table(source):
        if schema is None:
            raise ConfigurationError(f"{source} is a table of records, which needs its steward's schema: --schema FILE")
        steward = read_schema(schema)
        frame = read_records(Path(source))
        unit = steward.unit if steward.unit in frame.columns else None
        frame = counted(frame, unit, steward.most_records_per_unit, np.random.default_rng(0))
        try:
            records, moved = encode_and_count_moved(frame, steward.schema)
        except ConfigurationError as error:
            raise ConfigurationError(f"{source}: {error}") from None
        return Quoted(Path(source).name, records, (steward,), doubts=tuple(complaints_about(records, moved)))
    scenario, _, folder = load_scenario(source)
    chosen = _learner(scenario.learners, learner)
    whole = load_records(scenario, folder)
    sites = split_records(scenario, whole, 0)
    asked, held = sites_of(chosen, sites)
    frame = pl.concat([sites[name].source for name in held])
    stewards = tuple(sites[name].steward for name in asked)
    records, moved = encode_and_count_moved(frame, stewards[0].schema)
    doubts = tuple(complaints_about(records, moved)) if scenario.data.path is not None else ()
    limits = tuple((scenario.curator(name).limits, sites[name].steward.round_size) for name in asked)
    doubts += tuple(site_doubts(scenario, whole))
    return Quoted(f"{scenario.title}, {chosen.name}", records, stewards, chosen, limits, doubts)


def _learner(learners: Sequence[LearnerScenario], name: str) -> LearnerScenario:
    for learner in learners:
        if name in ("", learner.name):
            return learner
    raise ConfigurationError(f"no learner {name!r}{suggest(name, [learner.name for learner in learners])}")
