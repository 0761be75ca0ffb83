"""Problems of real records.

Each hospital keeps 75 % of its records private; the other 25 % are the learner's own, without labels, and the labels
that it wants are theirs: they are the test records as well. `hospital_split` divides them otherwise where it is told.

Readmissions are divided as their built-in scenarios say: half of each site's patients private, a quarter source, a
quarter test, and one encounter of each patient.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from curator_node.steward import read_steward_file
from lab.splits import Site, Split, Units
from protocol.record_frames import encode_frame, encode_labels
from simulations.datasets import load_dataset
from simulations.datasets.splits import split_at_random, split_by_site, split_parts
from simulations.records import Records as ScenarioRecords
from simulations.records import load_records, split_records
from simulations.scenario import Scenario, load_scenario

HOSPITALS: dict[str, tuple[str, tuple[str, ...]]] = {
    "heart": ("heart", ()),
    "heart-cleveland": ("heart", ("cleveland",)),
    "wdbc": ("wdbc", ()),
}
"""Problem -> its data set, and the hospitals whose records the learner has; none stands for all."""
DECLARED = {
    "cleveland": 230,
    "hungary": 220,
    "long-beach": 150,
    "switzerland": 92,
    "site 1": 140,
    "site 2": 140,
    "site 3": 140,
}
"""Round figures of three quarters of what the data sets' documentation says of each hospital; never counted."""
THREE_QUARTERS = {"private": 0.75, "test": 0.25}
HALVES = {"private": 0.5, "source": 0.25, "test": 0.25}
WDBC_THIRDS = dict.fromkeys(("site 1", "site 2", "site 3"), 1 / 3)
WDBC_UNEQUAL = {"north": 0.4, "east": 0.3, "south": 0.3}


def hospital_split(
    problem: str,
    seed: int,
    rng: np.random.Generator | None = None,
    *,
    parts: Mapping[str, float] = THREE_QUARTERS,
    wdbc_sites: Mapping[str, float] = WDBC_THIRDS,
) -> Split:
    """Part each hospital's records; "heart" and "heart-cleveland" differ in what the learner holds alone.

    Args:
        problem: key of `HOSPITALS`.
        seed: of the split.
        rng: its randomness; None takes a data set's own: equal seeds of two share none.
        parts: of each hospital's records: "private", "test", and "source" where the learner's are not the test records.
        wdbc_sites: shares of the records that its sites get.
    """
    name, held = HOSPITALS[problem]
    dataset = load_dataset(name)
    steward = read_steward_file(dataset.schema_text, where=f"schema of {name}")
    rng = np.random.default_rng([seed, *name.encode()]) if rng is None else rng
    frames = split_by_site(dataset) if dataset.site else split_at_random(dataset, rng, fractions=wdbc_sites)
    divided = {site: split_parts(frame, parts, rng, dataset.unit) for site, frame in frames.items()}
    source = pl.concat(divided[site]["source" if "source" in parts else "test"] for site in held or divided)
    test = pl.concat(part["test"] for part in divided.values())
    sites = tuple(
        Site.of(site, part["private"], msgspec.structs.replace(steward, round_size=DECLARED.get(site)))
        for site, part in divided.items()
    )
    return Split(
        problem=problem,
        seed=seed,
        schema=steward.schema,
        source=encode_frame(source, steward.schema),
        sites=sites,
        test=encode_frame(test, steward.schema),
        test_labels=encode_labels(test[steward.label], steward.classes) > 0,
    )


def scenario_split(name: str, seed: int, *, most: int | None = None) -> Split:
    """A repeat of a built-in scenario, with all records as curators count them: what is private, source and test.

    Args:
        name: of the scenario, and of the problem.
        seed: of the split.
        most: contribution bound c instead of the scenario's.

    Raises:
        DataUnavailableError: the data set's files are not to be had.
    """
    scenario, records = _scenario_records(name, most)
    parts = split_records(msgspec.structs.replace(scenario, seed=seed), records, 0).values()
    sites = tuple(Site.of(part.name, part.counted, part.steward) for part in parts)
    test = pl.concat(part.test for part in parts)
    schema, unit = records.steward.schema, records.dataset.unit
    units = None
    if unit is not None and records.steward.most_records_per_unit > 1:
        private = np.concatenate([part.counted[unit].to_numpy() for part in parts])
        units = Units(records.steward.most_records_per_unit, private, test[unit].to_numpy())
    return Split(
        problem=name,
        seed=seed,
        schema=schema,
        source=encode_frame(pl.concat(part.source for part in parts), schema),
        sites=sites,
        test=encode_frame(test, schema),
        test_labels=encode_labels(test[records.steward.label], records.steward.classes) > 0,
        units=units,
    )


@cache
def _scenario_records(name: str, most: int | None) -> tuple[Scenario, ScenarioRecords]:
    scenario, *_ = load_scenario(name)
    if most is not None:
        data = msgspec.structs.replace(scenario.data, most_records_per_unit=most)
        scenario = msgspec.structs.replace(scenario, data=data)
    return scenario, load_records(scenario, Path())
