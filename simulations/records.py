"""Loads a scenario's records, splits them over sites and parts, and warns about them before anything runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.records.dataset import complaints_about, unit_names
from curator_node.records.files import read_records
from curator_node.records.schema_file import SchemaFile, read_schema_file
from learner_node.study.cards import counted
from learner_node.study.doubts import doubts_about
from protocol.errors import ConfigurationError
from protocol.mistakes import did_you_mean
from protocol.rationals import parse_rational, written
from protocol.record_frames import (
    UnknownClassError,
    column_texts,
    describe_absent,
    encode_and_count_moved,
    encode_frame,
    encode_label_column,
    encode_outcomes,
    numbers_of,
)
from protocol.schema import NumericAttribute
from protocol.strict_toml import suggest
from simulations.datasets import load_dataset
from simulations.datasets.dataset import Dataset
from simulations.datasets.splits import split_by_site, split_parts, split_sites, split_units_over_sites
from simulations.report.words import some_of
from simulations.scenario import (
    ANY,
    Data,
    LearnerScenario,
    Scenario,
    Sites,
    fits,
    matching,
    read_schema,
)

ROW = "\0row"
"""Column with a record's row in its file, during selection and splitting; reserved in files."""

CLASSES = 2
"""Number of classes of a label whose models can be validated."""
RENAMED = ". Classes are declared as the file writes them; merge_label in [data] gives them other names"
"""Most sites that a sentence names; of more it states the number."""
SMALL_REMEDY = 'say small = "leave out" or small = "merge" under [data.sites], or give it more records'


@dataclass(frozen=True)
class Records:
    """All records of a scenario, before any split."""

    dataset: Dataset
    steward: SchemaFile  # the schema file
    # (n,) uint32, row of each in its file or data set, from 0; None where no row was left out
    places: NDArray[np.uint32] | None = None

    def numbered(self) -> Dataset:
        """The records with their row numbers in the column `ROW`."""
        frame = self.dataset.frame
        if self.places is None:
            return replace(self.dataset, frame=frame.with_row_index(ROW))
        return replace(self.dataset, frame=frame.with_columns(pl.Series(ROW, self.places)))


@dataclass(frozen=True)
class SiteRecords:
    """One site's records in one repeat: the simulation's copy, which no learner sees.

    A curator counts a bounded number of a unit's records. Source and test records are bounded alike, so all are of one
    population.
    """

    name: str
    private: pl.DataFrame  # its curator's
    # private records as the curator counts them. The draw is the simulation's: the curator's own is secret
    counted: pl.DataFrame
    source: pl.DataFrame  # public; learners get it without labels
    test: pl.DataFrame  # for scores
    all_tests: pl.DataFrame  # test records, bound or not
    steward: SchemaFile  # its schema file, with the declared round size
    # (n,) uint32, row of each record of `test` in its file or data set, from 0
    test_rows: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))


def load_records(scenario: Scenario, folder: Path) -> Records:
    """The records and schema that a scenario names.

    Raises:
        ConfigurationError: a file is absent or does not fit its schema file. Row numbers in the text are the file's.
        DataUnavailableError: a data set's files cannot be had.
    """
    data = scenario.data
    if data.name is not None:
        dataset = load_dataset(data.name)
        steward = read_schema_file(dataset.schema_text, where=f"schema of {data.name}")
    else:
        schema = folder / str(data.schema)
        steward = read_schema(schema)
        frame = read_records(folder / str(data.path))
        _check_own(frame, data, steward)
        if data.sites.how == "shift":
            frame = frame.with_columns(_shifting(str(data.sites.attribute), frame, steward))
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
    return _adapted(Records(dataset, steward), data)


def _shifting(name: str, frame: pl.DataFrame, steward: SchemaFile) -> pl.Expr | pl.Series:
    """The column by which sites are shifted, as numbers; dates as they are, by which no site is."""
    attribute = steward.schema.find(name)
    if not isinstance(attribute, NumericAttribute):
        return pl.col(name).cast(pl.Float64, strict=False)
    return frame[name] if attribute.days_since else pl.Series(name, numbers_of(frame[name], attribute)).fill_nan(None)


def _adapted(records: Records, data: Data) -> Records:
    """Apply what the scenario overrides in the data set and its schema."""
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
    frame: pl.DataFrame, steward: SchemaFile, levels_of: Mapping[str, Sequence[str]]
) -> tuple[pl.DataFrame, SchemaFile]:
    """Merge the label's levels into classes."""
    if steward.label_bounds is not None:
        raise ConfigurationError(f"merge_label: the label {steward.label!r} is a number; there are no levels to merge")
    class_of = {level: name for name, levels in levels_of.items() for level in levels if level != ANY}
    strangers = [level for level in class_of if level not in steward.classes]
    if strangers:
        raise ConfigurationError(
            f"merge_label: the schema has no class {strangers[0]!r}{suggest(strangers[0], list(steward.classes))}"
        )
    rest = next((name for name, levels in levels_of.items() if ANY in levels), None)
    homeless = [level for level in steward.classes if level not in class_of]
    if rest is None and homeless:
        raise ConfigurationError(
            f'merge_label does not say what becomes of {", ".join(homeless)}; "*" stands for all the rest'
        )
    merged = {level: class_of.get(level, rest) for level in steward.classes}
    column = column_texts(frame[steward.label]).replace_strict(merged, return_dtype=pl.String)
    labelled = frame.with_columns(column.alias(steward.label))
    return labelled, msgspec.structs.replace(steward, classes=tuple(levels_of))


def _check_own(frame: pl.DataFrame, data: Data, steward: SchemaFile) -> None:
    """Read a records file before it is split as a curator will, so that an error names the file's row."""
    site = data.sites.column if data.sites.how == "site" else None
    roles = {"label": steward.label, "unit": steward.unit if data.unit else None, "site": site}
    declared = [
        name
        for name in (*roles.values(), *(a.name for a in (*steward.attributes, *steward.outcomes)))
        if name is not None
    ]
    for role, name in roles.items():
        if name is not None and name not in frame.columns:
            absent = describe_absent([name], declared=declared, there=frame.columns)
            raise ConfigurationError(f"{data.path} has no {role} column {absent}")
    try:
        encode_frame(frame, steward.schema)
        encode_outcomes(frame, steward.schema)
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
    """Split the records over sites, and each site's records into parts; `repeat` seeds the splits.

    Raises ConfigurationError: the split cannot be made, or a curator entry has no site.
    """
    rng = np.random.default_rng([scenario.seed, repeat])
    dataset, data = records.numbered(), scenario.data
    parts = msgspec.structs.asdict(data.parts)
    try:
        frames = split_sites(dataset, data.sites.how, rng, **data.sites.options())
        frames = keep_large(frames, data.sites, dataset.unit)
        if scenario.asks_analyses:
            nobody = dataset.frame.clear()
            split = {name: {"private": frame, "source": nobody, "test": nobody} for name, frame in frames.items()}
        elif data.sites.units_move and dataset.unit is not None:
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


def keep_large(frames: Mapping[str, pl.DataFrame], sites: Sites, unit: str | None) -> dict[str, pl.DataFrame]:
    """Drop or merge small sites, as the scenario says.

    Args:
        frames: site -> its records.
        sites: `least_units`, and what becomes of a site with fewer.
        unit: column of the privacy unit. With None each record is one.

    Raises:
        ConfigurationError: a site is small and the scenario does not say what becomes of it; no site remains; or the
            merged site is itself small or has another site's name.
    """
    small = small_sites(frames, sites.least_units, unit)
    if not small:
        return dict(frames)
    name, units = next(iter(small.items()))
    if sites.small == "refuse":
        raise ConfigurationError(
            f"site {name} has {units} {unit or 'record'}{'s' if units != 1 else ''}, and {sites.least_units} are the "
            f"least for private, source and test records; {SMALL_REMEDY}"
        )
    large = {site: frame for site, frame in frames.items() if site not in small}
    if sites.small == "merge":
        if sites.merged in large:
            raise ConfigurationError(
                f"a site is called {sites.merged!r}; give the merged ones another name: merged = ..."
            )
        merged = pl.concat([frames[site] for site in small])
        if _units(merged, unit) < sites.least_units:
            raise ConfigurationError(
                f"the small sites together ({', '.join(small)}) have fewer than {sites.least_units} units; "
                'leave them out: small = "leave out"'
            )
        large[sites.merged] = merged
    if not large:
        raise ConfigurationError(f"every site has fewer than {sites.least_units} units; lower least_units")
    return large


def small_sites(frames: Mapping[str, pl.DataFrame], least: int, unit: str | None) -> dict[str, int]:
    """Sites with fewer than `least` units -> their number of units."""
    return {site: units for site, frame in frames.items() if (units := _units(frame, unit)) < least}


def _units(frame: pl.DataFrame, unit: str | None) -> int:
    return frame.height if unit is None else frame[unit].n_unique()


def small_site_notes(frames: Mapping[str, pl.DataFrame], sites: Sites, unit: str | None) -> list[str]:
    """A sentence on the sites that were dropped or merged; none if all are large enough."""
    small = list(small_sites(frames, sites.least_units, unit))
    if not small:
        return []
    rule = f"fewer than {sites.least_units} {unit or 'record'}s"
    fate = "were left out" if sites.small == "leave out" else f"were merged into {sites.merged}"
    return [f"Sites with {rule} {fate}: {some_of(small)}."]


def bound_notes(all_records: Mapping[str, tuple[int, int]], unit: str | None, most: int) -> list[str]:
    """Two sentences on how many records the contribution bound `most` leaves out; none if it leaves out none.

    `all_records` maps a part ("private", "test") to its number of records and the number that counts; `unit` names the
    privacy unit.
    """
    unused = [f"{there - count:,} of {there:,} {part}" for part, (there, count) in all_records.items() if there > count]
    if not unused:
        return []
    bound = f"At most {most:,} record{'s' if most > 1 else ''} of each {unit} count{'s' if most == 1 else ''}"
    scope = "Scores, majority, regressions and the learners' own estimates speak of those that count"
    limit = "a learner knows the bound from the card, and not how many it leaves out"
    return [f"{bound}, which leaves out {' and '.join(unused)} records. {scope}; {limit}."]


def moving_notes(private: Mapping[str, pl.DataFrame], unit: str | None) -> list[str]:
    """Sentences on units with private records at several sites, and what that costs them; none without such units.

    `private` maps sites to their private records; `unit` is the privacy unit's column.
    """
    if unit is None:
        return []
    places = pl.concat([frame.select(unit).unique() for frame in private.values()]).group_by(unit).len()["len"]
    several = Counter(places.filter(places > 1).to_list())
    if not several:
        return []
    counts = ", ".join(f"{units:,} at {sites}" for sites, units in sorted(several.items()))
    moving = f"{several.total():,} of {len(places):,} {unit}s have private records at several sites ({counts})"
    cost = f"for such a {unit} the epsilons of its sites add up, here to at most {max(several)} times what one charges"
    return [f"{moving}. Each curator protects its own part; {cost}."]


def population_notes(scenario: Scenario, records: Records, sites: Mapping[str, SiteRecords]) -> list[str]:
    """Sentences on a run's population: small sites, the contribution bound, units at several sites.

    `records` come from `load_records`, `sites` from `split_records`.
    """
    unit, most = records.dataset.unit, records.steward.most_records_per_unit
    notes = []
    if scenario.data.sites.small != "refuse":
        frames = split_by_site(records.dataset, units_move=scenario.data.sites.units_move)
        notes += small_site_notes(frames, scenario.data.sites, unit)
    counts = {
        "private": (sum(site.private.height for site in sites.values()), sum(s.counted.height for s in sites.values())),
        "test": (sum(site.all_tests.height for site in sites.values()), sum(s.test.height for s in sites.values())),
    }
    notes += bound_notes(counts, unit, most)
    return notes + moving_notes({name: site.private for name, site in sites.items()}, unit)


def _site(
    name: str, pieces: Mapping[str, pl.DataFrame], scenario: Scenario, records: Records, repeat: int
) -> SiteRecords:
    empty = [part for part, frame in pieces.items() if frame.is_empty()]
    if empty and not scenario.asks_analyses:
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


def require_classes(learner: LearnerScenario, steward: SchemaFile) -> None:
    """Raise ConfigurationError if the learner asks for a validation and the label does not have two classes."""
    if learner.validate is not None and len(steward.classes) != CLASSES:
        raise ConfigurationError(f"learner {learner.name!r}: validate is for a label of two classes; leave it out")


def require_others(scenario: Scenario, sites: Mapping[str, SiteRecords]) -> None:
    """Raise ConfigurationError if one site is to be left out, and no learner makes one model of several."""
    if scenario.leave_one_out and not any(learner.joins(sites_of(learner, sites)[0]) for learner in scenario.learners):
        raise ConfigurationError(
            "leave_one_out needs a learner that makes one model of at least two curators; ask more of them, or leave "
            "it out"
        )


def site_doubts(scenario: Scenario, records: Records) -> list[str]:
    """A warning if the column that names the site is also an attribute."""
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

    Raises ConfigurationError: it names an unknown site.
    """
    try:
        return matching(learner.curators, list(sites)), matching(learner.source, list(sites))
    except ConfigurationError as error:
        raise ConfigurationError(f"learner {learner.name}: {error}") from None


def doubts_of(scenario: Scenario, records: Records) -> list[str]:
    """Warnings about a scenario that can be run as it is, a sentence each.

    Raises ConfigurationError: `split_records`, `sites_of` or `require_classes` raises it, or an analysis does not
            fit the schema.
    """
    for learner in scenario.learners:
        require_classes(learner, records.steward)
    doubts = []
    if scenario.data.path is not None:
        encoded, moved = encode_and_count_moved(records.dataset.frame, records.steward.schema)
        outcomes, moved_outcomes = encode_outcomes(records.dataset.frame, records.steward.schema)
        doubts += complaints_about(encoded.with_further(outcomes), {**moved, **moved_outcomes})
    doubts += site_doubts(scenario, records)
    sites = split_records(scenario, records, 0)
    require_others(scenario, sites)
    for learner in scenario.learners:
        curators, sources = sites_of(learner, sites)
        if learner.analyses:
            from learner_node.analyses.plan import questions_of  # noqa: PLC0415 - it loads what computes

            questions_of(learner.parts, sites[curators[0]].steward.schema)
            continue
        learner_doubts = doubts_about(
            learner.options,
            records=sum(sites[name].source.height for name in sources),
            curators=len(curators),
            pooling=learner.pool,
        )
        doubts += [f"learner {learner.name!r}: {doubt}" for doubt in learner_doubts]
    return doubts + _refusals(scenario, sites)


def _refusals(scenario: Scenario, sites: Mapping[str, SiteRecords]) -> list[str]:
    """Warnings of plans that cost more than the caps still allow after earlier learners."""
    doubts = []
    spent = dict.fromkeys(sites, Fraction(0))
    for learner in scenario.learners:
        curators, _ = sites_of(learner, sites)
        learner_spent = dict.fromkeys(curators, Fraction(0))
        for study, epsilon in (("plan", learner.epsilon), ("validation", learner.validate)):
            cost = Fraction(0) if epsilon is None else parse_rational(epsilon)
            remaining = {}
            for name in curators:
                curator = scenario.curator(name)
                caps = parse_rational(curator.cap) - spent[name], parse_rational(curator.cap_of(learner.name))
                remaining[name] = min(caps[0], caps[1] - learner_spent[name])
            short = [name for name in curators if cost > remaining[name]]
            if short:
                amounts = sorted({remaining[name] for name in short})
                least = "as little as " * (len(amounts) > 1) + (written(amounts[0]) if amounts[0] else "0")
                doubts.append(
                    f"learner {learner.name!r}: its {study} costs {written(cost)}, more than is left at "
                    f"{some_of(short)} ({least}), which will refuse it; raise cap and, where it is set, learner_cap "
                    "in [[curators]], or ask for less"
                )
            curators = [] if short and learner.all_or_none else [name for name in curators if name not in short]
            for name in curators:
                spent[name] += cost
                learner_spent[name] += cost
    return doubts
