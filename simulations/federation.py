"""One repeat of a scenario: curators with records, policies, keys and ledgers; learners that ask them over Flower."""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal
from warnings import catch_warnings, simplefilter, warn_explicit

import msgspec
import numpy as np
import polars as pl

from curator_node.client_app import make_client_app
from curator_node.curator import Curator
from curator_node.dataset import PrivateDataset, StewardWarning, unit_names
from curator_node.ledger import Ledger, memory_ledger
from curator_node.ledger.files import create_ledger_file, open_ledger_file
from curator_node.mechanisms import NoiseSource, OpenDPNoise
from curator_node.policy import LearnerPolicy
from curator_node.record_files import read_records
from curator_node.steward import StewardFile, read_steward_file
from learner_node.learn import Learned, learn
from learner_node.server_app import FlowerCarrier, make_server_app
from learner_node.study import Carrier, Federation, NoCuratorError, Study
from protocol.envelopes import LABEL, SigningKey
from protocol.errors import ConfigurationError
from protocol.rationals import parse_rational
from protocol.records import describe_absent, encode_frame, encode_label_column
from simulations.carriers.direct import DirectCarrier
from simulations.carriers.faults import FaultyCurator
from simulations.carriers.in_process import run_in_process
from simulations.datasets import load_dataset
from simulations.datasets.dataset import Dataset
from simulations.datasets.splits import split_parts, split_sites
from simulations.scenario import Data, LearnerScenario, Scenario
from simulations.seeded_noise import SeededNoise

FIRST_NODE = 100
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Records:
    """All records of a scenario, before any split."""

    dataset: Dataset
    steward: StewardFile


@dataclass(frozen=True)
class Site:
    """One site of one repeat; only the harness may look inside.

    `warnings` is what its steward was warned of; a real curator's learners never hear it.
    """

    name: str
    private: pl.DataFrame
    source: pl.DataFrame
    test: pl.DataFrame
    steward: StewardFile
    curator: Curator
    ledger: Ledger
    cap: Fraction
    warnings: tuple[str, ...] = ()


@dataclass
class Outcome:
    """What became of one learner in one repeat; `learned` is None where no curator answered everything."""

    learner: LearnerScenario
    learned: Learned | None
    study: Study | None
    key: bytes
    failure: str = ""


@dataclass
class Repeat:
    """One repeat of a scenario."""

    sites: dict[str, Site]
    outcomes: list[Outcome] = field(default_factory=list)


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


def build_sites(
    scenario: Scenario, records: Records, repeat: int, learners: Mapping[str, SigningKey], ledgers: Path | None
) -> dict[str, Site]:
    """Split the records and open every curator.

    Args:
        scenario: the scenario.
        records: of `load_records`.
        repeat: number of the repeat; seeds the splits.
        learners: name -> key; their public halves enter every policy.
        ledgers: folder for SQLite ledgers; None keeps them in memory.

    Raises:
        ConfigurationError: a split that cannot be made, or a curator entry without a site.
    """
    rng = np.random.default_rng([scenario.seed, repeat])
    parts = scenario.data.parts
    fractions = {"private": parts.private, "source": parts.source, "test": parts.test}
    try:
        frames = split_sites(records.dataset, scenario.data.sites.how, rng, **scenario.data.sites.options())
        split = {name: split_parts(frame, fractions, rng, records.dataset.unit) for name, frame in frames.items()}
    except (ValueError, pl.exceptions.ColumnNotFoundError) as error:
        raise ConfigurationError(f"the records cannot be split as the scenario says: {error}") from None
    named = {curator.name for curator in scenario.curators} | {fault.curator for fault in scenario.faults}
    strangers = named - set(split) - {"*"}
    if strangers:
        raise ConfigurationError(f"no site {', '.join(sorted(strangers))}; the sites are {', '.join(sorted(split))}")
    return {
        name: _open_site(scenario, name, pieces, records.steward, repeat, learners, ledgers)
        for name, pieces in split.items()
    }


def run_repeat(
    scenario: Scenario,
    records: Records,
    repeat: int,
    *,
    keys: Mapping[str, SigningKey] | None = None,
    ledgers: Path | None = None,
    carrier: Literal["flower", "direct"] = "flower",
    progress: Progress = lambda what, done, total: None,  # noqa: ARG005
) -> Repeat:
    """Run every learner's study, one after the other.

    Args:
        scenario: the scenario.
        records: of `load_records`.
        repeat: number of the repeat.
        keys: of the learners, by name; None makes new ones.
        ledgers: folder for SQLite ledgers; None keeps them in memory.
        carrier: "flower" for a Flower grid in this process, "direct" for plain calls.
        progress: called with (what, done, total).
    """
    keys = keys or {learner.name: SigningKey.generate() for learner in scenario.learners}
    sites = build_sites(scenario, records, repeat, keys, ledgers)
    handles = {site.curator.identity: _handle(scenario, site) for site in sites.values()}
    result = Repeat(sites)

    def run_learners(chosen: Carrier) -> None:
        for learner in scenario.learners:
            key = keys[learner.name]
            result.outcomes.append(_run_learner(scenario, learner, key, sites, chosen, repeat, progress))

    if carrier == "direct":
        run_learners(DirectCarrier(handles))
    else:
        addresses = {identity: FIRST_NODE + number for number, identity in enumerate(handles)}
        nodes = {addresses[identity]: make_client_app(handle) for identity, handle in handles.items()}
        server = make_server_app(lambda grid, _context: run_learners(FlowerCarrier(grid, addresses)))
        run_in_process(server, nodes)
    return result


def _handle(scenario: Scenario, site: Site) -> Callable[[bytes], bytes]:
    faults = [fault for fault in scenario.faults if fault.curator == site.name]
    return FaultyCurator(site.curator.handle, faults, site.ledger, _now).handle if faults else site.curator.handle


def _run_learner(
    scenario: Scenario,
    learner: LearnerScenario,
    key: SigningKey,
    sites: dict[str, Site],
    carrier: Carrier,
    repeat: int,
    progress: Progress,
) -> Outcome:
    asked = list(learner.curators or sites)
    held = list(learner.source or sites)
    strangers = [name for name in (*asked, *held) if name not in sites]
    if strangers:
        raise ConfigurationError(f"learner {learner.name} names unknown site(s) {', '.join(strangers)}")
    source = pl.concat([sites[name].source for name in held])
    federation = Federation(
        curators={name: sites[name].curator.identity for name in asked},
        key=key,
        carrier=carrier,
        clock=_now,
        entropy=secrets.token_bytes,
        allow_not_private=any(site.curator.label != LABEL for site in sites.values()),
    )
    outcome = Outcome(learner, None, None, key.public)
    try:
        outcome.learned = learn(
            federation,
            source.drop(sites[held[0]].steward.label),
            strategy=learner.strategy,
            options=learner.options,
            epsilon=parse_rational(learner.epsilon),
            pooling=learner.pooling,
            purpose=learner.purpose,
            seed=scenario.seed * 1_000_003 + repeat,
            progress=progress,
        )
        outcome.study = outcome.learned.study
    except NoCuratorError as error:
        outcome.failure = str(error)
        outcome.study = error.study
    return outcome


def _open_site(
    scenario: Scenario,
    name: str,
    pieces: dict[str, pl.DataFrame],
    steward: StewardFile,
    repeat: int,
    learners: Mapping[str, SigningKey],
    ledgers: Path | None,
) -> Site:
    entry = scenario.curator(name)
    cap = entry.cap if entry.learner_cap is None else entry.learner_cap
    policies = [LearnerPolicy(name=learner, key=key.public.hex(), cap=cap) for learner, key in learners.items()]
    policy = entry.policy(policies, name=name)
    key = SigningKey.generate()
    private = pieces["private"]
    declared = msgspec.structs.replace(steward, round_size=entry.round_size)
    with catch_warnings(record=True) as heard:
        simplefilter("always", StewardWarning)
        dataset = PrivateDataset(
            private, declared, unit_key=key.derive("unit selection"), cache_bytes=policy.cache_bytes
        )
    for other in heard:
        if not issubclass(other.category, StewardWarning):
            warn_explicit(other.message, other.category, other.filename, other.lineno)
    if ledgers is None:
        ledger = memory_ledger(key)
    else:
        path = ledgers / f"{name}.ledger"
        create_ledger_file(path, key, now=_now(), note=f"made by a simulation of {scenario.title}")
        ledger = open_ledger_file(path, key)
    curator = Curator(
        dataset=dataset, ledger=ledger, key=key, policy=policy, clock=_now, noise=_noise(scenario, name, repeat)
    )
    return Site(
        name=name,
        private=private,
        source=pieces["source"],
        test=pieces["test"],
        steward=declared,
        curator=curator,
        ledger=ledger,
        cap=policy.total_cap,
        warnings=tuple(str(each.message) for each in heard if issubclass(each.category, StewardWarning)),
    )


def _noise(scenario: Scenario, name: str, repeat: int) -> NoiseSource:
    if scenario.noise_seed is None:
        return OpenDPNoise()
    return SeededNoise(scenario.noise_seed * 1_000_003 + repeat, name)


def _now() -> int:
    return int(time.time())
