"""The problems of all experiments: whose records are private, what the learner holds, and what is tested.

Seven are those of the paper's Table 1, as its reproduction froze them. Their training settings are not the paper's,
which prints none; they are chosen so that a network trained on the oracle's own records is about as accurate as the
paper's (column h* of Table 2). ADR 4 has the measurements. The others are of real records.

Each hospital keeps 75 % of its records private; the other 25 % are the learner's own, without labels, and the labels
that it wants are theirs: they are the test records as well. `hospital_split` divides them otherwise where it is told.

Readmissions are divided as their built-in scenarios say: half of each site's patients private, a quarter source, a
quarter test, and one encounter of each patient.
"""

from collections.abc import Mapping
from functools import cache, lru_cache, partial
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from curator_node.records.schema_file import read_schema_file
from lab.reproduction.datasets import (
    CTG_A_ORACLE,
    Draw,
    draw_a,
    draw_b,
    draw_c,
    draw_ctg_a,
    draw_ctg_b,
    draw_ctg_pathologic,
    draw_d,
    draw_e,
)
from lab.splits import PaperDataset, Problem, Site, Split, Training, Units, split_of
from lab.study import Order
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

    Without `rng` a data set has its own: equal seeds of two share no randomness. `parts` are shares of each hospital's
    records: "private", "test", and "source" where the learner's are not the test records.
    """
    name, hospitals = HOSPITALS[problem]
    dataset = load_dataset(name)
    steward = read_schema_file(dataset.schema_text, where=f"schema of {name}")
    rng = np.random.default_rng([seed, *name.encode()]) if rng is None else rng
    frames = split_by_site(dataset) if dataset.site else split_at_random(dataset, rng, fractions=wdbc_sites)
    divided = {site: split_parts(frame, parts, rng, dataset.unit) for site, frame in frames.items()}
    source = pl.concat(divided[site]["source" if "source" in parts else "test"] for site in hospitals or divided)
    test = pl.concat(part["test"] for part in divided.values())
    sites = [
        Site.of(site, part["private"], msgspec.structs.replace(steward, round_size=DECLARED.get(site)))
        for site, part in divided.items()
    ]
    return Split.of(problem, seed, sites, source, test)


def scenario_split(name: str, seed: int, *, most: int | None = None) -> Split:
    """A repeat of a built-in scenario, with all records as curators count them: what is private, source and test.

    `most` is a contribution bound c instead of the scenario's.

    Raises DataUnavailableError: the data set's files are not to be had.
    """
    scenario, records = _scenario_records(name, most)
    parts = split_records(msgspec.structs.replace(scenario, seed=seed), records, 0).values()
    sites = [Site.of(part.name, part.counted, part.steward) for part in parts]
    source, test = (pl.concat(getattr(part, name) for part in parts) for name in ("source", "test"))
    unit, units = records.dataset.unit, None
    if unit is not None and records.steward.most_records_per_unit > 1:
        private = np.concatenate([part.counted[unit].to_numpy() for part in parts])
        units = Units(records.steward.most_records_per_unit, private, test[unit].to_numpy())
    return Split.of(name, seed, sites, source, test, units=units)


@cache
def _scenario_records(name: str, most: int | None) -> tuple[Scenario, ScenarioRecords]:
    scenario, *_ = load_scenario(name)
    if most is not None:
        data = msgspec.structs.replace(scenario.data, most_records_per_unit=most)
        scenario = msgspec.structs.replace(scenario, data=data)
    return scenario, load_records(scenario, Path())


KEPT_SPLITS = 4  # splits that a process keeps, so that the strategies of one run do not each make it anew


_DEEP = (16, 256, 256, 16)
_SHALLOW = (32, 32)
_DEEP_TRAINING = Training(epochs=17, batch_size=128, learning_rate=5e-3, weight_decay=1e-4)
_CTG_TRAINING = Training(epochs=30, batch_size=64, learning_rate=3e-3, weight_decay=1e-4)
_SHALLOW_TRAINING = Training(epochs=15, batch_size=256, learning_rate=5e-3, weight_decay=1e-4)

PAPER_DATASETS: dict[str, PaperDataset] = {
    row.name: row
    for row in (
        PaperDataset("A", draw_a, 2, _DEEP, 2, False, 2, 2500, _DEEP_TRAINING),
        PaperDataset("B", draw_b, 4, _DEEP, 2, False, 2, 2500, _DEEP_TRAINING),
        PaperDataset("C", draw_c, 10, _SHALLOW, 2, True, 3, 5000, _SHALLOW_TRAINING),
        PaperDataset("D", draw_d, 15, _SHALLOW, 2, True, 3, 5000, _SHALLOW_TRAINING),
        PaperDataset("E", draw_e, 25, _SHALLOW, 2, True, 3, 5000, _SHALLOW_TRAINING),
        PaperDataset("CTG-A", draw_ctg_a, 22, _DEEP, 2, False, 2, 709, _CTG_TRAINING),
        PaperDataset("CTG-B", draw_ctg_b, 22, _DEEP, 2, True, 3, 708, _CTG_TRAINING),
    )
}
"""By name, in the order of Table 1."""
BIG_RUNS = 2  # runs of a problem on which a study takes the better part of a minute


def draw(name: str, seed: int) -> Draw:
    """The data of one run.

    Raises ValueError: no data set has that name, or the seed is negative; DataUnavailableError: CTG's workbook is not
    to be had.
    """
    if name not in PAPER_DATASETS:
        raise ValueError(f"the paper has no data set {name!r}; it has {', '.join(PAPER_DATASETS)}")
    return PAPER_DATASETS[name].draw(seed)


def _paper(name: str, seed: int) -> Split:
    return split_of(draw(name, seed), seed, PAPER_DATASETS[name])


def _pathologic(seed: int) -> Split:
    return split_of(draw_ctg_pathologic(seed), seed, declared=CTG_A_ORACLE)


def _paper_problem(row: PaperDataset) -> Problem:
    title = f"the paper's {row.name}: {row.target_size} private records, {row.dimensions} attributes"
    return Problem(row.name, title, partial(_paper, row.name), network=row.network)


PROBLEMS: dict[str, Problem] = {
    **{row.name: _paper_problem(row) for row in PAPER_DATASETS.values()},
    **{
        name: Problem(name, title, partial(hospital_split, name))
        for name, title in (
            ("heart", "heart disease in four hospitals, unlabelled records of all"),
            ("heart-cleveland", "the same hospitals and test records, unlabelled records of Cleveland alone"),
            ("wdbc", "breast cancer, split over three sites at random"),
        )
    },
    **{
        name: Problem(name, title, partial(scenario_split, name), most_runs=BIG_RUNS, averaged=False, rare=rare)
        for name, title, rare in (
            ("readmission", "diabetes, any later readmission (34 %), four sites with 35,000 patients", False),
            ("readmission-30", "the same patients, readmission within 30 days (7 %)", True),
        )
    },
    "CTG-pathologic": Problem(
        "CTG-pathologic",
        "CTG-A's records and division, pathologic states (8 %) against the rest",
        _pathologic,
        network=PAPER_DATASETS["CTG-A"].network,
        averaged=False,
        rare=True,
    ),
}
"""By name, in the order of the tables."""


@lru_cache(KEPT_SPLITS)
def load_split(problem: str, seed: int) -> Split:
    """The records of one run, the same for every strategy.

    Seeds (>= 0) from 5000 on are for development, those below for what is reported.

    Raises ValueError: no problem has that name, or the seed is negative; DataUnavailableError: the files are not to be
    had.
    """
    if problem not in PROBLEMS:
        raise ValueError(f"no problem is called {problem!r}; there are {', '.join(PROBLEMS)}")
    return PROBLEMS[problem].split(seed)


def load_halves(problem: str, seed: int) -> Split:
    """Another division of the hospitals: half of the records private, a quarter the learner's, a quarter for the test.

    The paper's problems are divided as `load_split` divides them. No declared size is right here.

    `seed` >= 0.
    """
    if problem not in HOSPITALS:
        return load_split(problem, seed)
    return hospital_split(problem, seed, np.random.default_rng([1, seed]), parts=HALVES, wdbc_sites=WDBC_UNEQUAL)


def check_problems(order: Order) -> None:
    """Stop an order before any work where a problem's records are not to be had: raises DataUnavailableError."""
    axes = order.size.axes
    for problem in axes.get("problems", axes.get("datasets", ())):
        load_split(problem, order.seed)
