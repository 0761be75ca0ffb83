"""The ten problems of the comparison: whose records are private, what the learner holds, and what is tested.

The paper's seven problems are those that its reproduction froze. Of the real hospitals, each keeps 75 % of its records
private; the other 25 % are the learner's own, without labels, and the labels that it wants are theirs: they are the
test records as well.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.steward import StewardFile, read_steward_file
from experiments.learning.matrices import Matrices, make_matrices
from experiments.paper.in_site import Options
from experiments.paper.problems import PAPER_DATASETS, PaperDataset
from experiments.paper.records import draw_frame, draw_steward
from protocol.records import Records, encode_frame, encode_labels
from protocol.schema import Schema
from simulations.datasets import load_dataset
from simulations.datasets.splits import split_by_site, split_parts, split_sites

Labels = NDArray[np.bool_]
PRIVATE_SHARE = 0.75
WDBC_SITES = ("site 1", "site 2", "site 3")
HEART, CLEVELAND = "heart", "cleveland"
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
KEPT_SPLITS = 4
"""Splits that a process keeps, so that the strategies of one run do not each make it anew."""


@dataclass(frozen=True)
class Site:
    """The private records of one curator.

    Attributes:
        name: of the site.
        frame: n records with the label column, as its curator reads them.
        steward: schema and declared round size.
        records: the same records, encoded.
        labels: (n,) whether a record is of class 1.
    """

    name: str
    frame: pl.DataFrame
    steward: StewardFile
    records: Records
    labels: Labels

    @classmethod
    def of(cls, name: str, frame: pl.DataFrame, steward: StewardFile) -> "Site":
        """The site of a frame with a label column."""
        records = encode_frame(frame, steward.schema)
        return cls(name, frame, steward, records, encode_labels(frame[steward.label], steward.classes) > 0)


@dataclass(frozen=True)
class Split:
    """One run of one problem. Only a harness may look at the private records and at the test labels.

    Attributes:
        problem: key of `PROBLEMS`.
        seed: of the split; a learner's random choices may take it, too.
        schema: of all records.
        source: the learner's own records.
        sites: the curators' private records.
        test: the records on which everything is measured.
        test_labels: (m,) whether a test record is of class 1.
        paper: the paper's row of this problem; None for a problem that it does not have.
    """

    problem: str
    seed: int
    schema: Schema
    source: Records
    sites: tuple[Site, ...]
    test: Records
    test_labels: Labels
    paper: PaperDataset | None = None

    @cached_property
    def private(self) -> Records:
        """All sites' private records, for what is trained in site; no curator and no learner has them."""
        return Records(
            self.schema,
            np.concatenate([site.records.numeric for site in self.sites]),
            np.concatenate([site.records.categorical for site in self.sites]),
        )

    @cached_property
    def private_labels(self) -> Labels:
        """(n,) labels of `private`."""
        return np.concatenate([site.labels for site in self.sites])

    @cached_property
    def matrices(self) -> Matrices:
        """The same records as plain matrices, for peers."""
        return make_matrices(self.source, self.private, self.private_labels, self.test, self.test_labels)


@dataclass(frozen=True)
class Problem:
    """One column of the comparison's tables.

    Attributes:
        name: as in the results.
        title: one line for people.
        split: seed (>= 0) -> the records of a run; DataUnavailableError where they are not to be had.
        sites: number of curators, whose answers are summed.
        network: options of every network of a strategy: hidden, epochs, batch_size, learning_rate, weight_decay;
            empty takes the strategies' own.
    """

    name: str
    title: str
    split: Callable[[int], Split]
    sites: int = 1
    network: Options = field(default_factory=dict)


def _paper(row: PaperDataset, seed: int) -> Split:
    draw = row.draw(seed)
    steward = draw_steward(draw, row.target_size)
    return Split(
        problem=row.name,
        seed=seed,
        schema=steward.schema,
        source=encode_frame(draw_frame(draw, draw.source), steward.schema),
        sites=(Site.of("oracle", draw_frame(draw, draw.oracle, draw.oracle_labels), steward),),
        test=encode_frame(draw_frame(draw, draw.test), steward.schema),
        test_labels=draw.test_labels > 0,
        paper=row,
    )


def _stream(name: str, seed: int) -> np.random.Generator:
    """Its own randomness for each data set: equal seeds of two share none."""
    return np.random.default_rng([seed, *name.encode()])


def _hospitals(
    name: str, seed: int, frames: Mapping[str, pl.DataFrame], steward: StewardFile, rng: np.random.Generator, held: str
) -> Split:
    """Part each hospital's records; the learner's source is those of `held`, or all hospitals' for ""."""
    parts = {
        site: split_parts(frame, {"private": PRIVATE_SHARE, "own": 1 - PRIVATE_SHARE}, rng)
        for site, frame in frames.items()
    }
    own = {site: part["own"] for site, part in parts.items()}
    test = pl.concat(own.values())
    sites = tuple(
        Site.of(site, part["private"], msgspec.structs.replace(steward, round_size=DECLARED[site]))
        for site, part in parts.items()
    )
    return Split(
        problem=name,
        seed=seed,
        schema=steward.schema,
        source=encode_frame(own[held] if held else test, steward.schema),
        sites=sites,
        test=encode_frame(test, steward.schema),
        test_labels=encode_labels(test[steward.label], steward.classes) > 0,
    )


def _heart(name: str, held: str, seed: int) -> Split:
    """The same private and test records under both names; only what the learner holds differs."""
    dataset = load_dataset("heart")
    steward = read_steward_file(dataset.schema_text, where="schema of heart")
    return _hospitals(name, seed, split_by_site(dataset), steward, _stream(HEART, seed), held)


def _wdbc(seed: int) -> Split:
    dataset = load_dataset("wdbc")
    steward = read_steward_file(dataset.schema_text, where="schema of wdbc")
    rng = _stream("wdbc", seed)
    frames = split_sites(dataset, "random", rng, fractions=dict.fromkeys(WDBC_SITES, 1 / len(WDBC_SITES)))
    return _hospitals("wdbc", seed, frames, steward, rng, "")


def _paper_problem(row: PaperDataset) -> Problem:
    training = row.training
    network: Options = {
        "hidden": row.hidden,
        "epochs": training.epochs,
        "batch_size": training.batch_size,
        "learning_rate": training.learning_rate,
        "weight_decay": training.weight_decay,
    }
    title = f"the paper's {row.name}: {row.target_size} private records, {row.dimensions} attributes"
    return Problem(row.name, title, partial(_paper, row), network=network)


PROBLEMS: dict[str, Problem] = {
    **{row.name: _paper_problem(row) for row in PAPER_DATASETS.values()},
    "heart": Problem(
        "heart", "heart disease in four hospitals, unlabelled records of all", partial(_heart, "heart", ""), 4
    ),
    "heart-cleveland": Problem(
        "heart-cleveland",
        "the same hospitals and test records, unlabelled records of Cleveland alone",
        partial(_heart, "heart-cleveland", CLEVELAND),
        4,
    ),
    "wdbc": Problem("wdbc", "breast cancer, split over three sites at random", _wdbc, len(WDBC_SITES)),
}
"""By name, in the order of the tables."""


@lru_cache(KEPT_SPLITS)
def load_split(problem: str, seed: int) -> Split:
    """The records of one run, the same for every strategy.

    Args:
        problem: key of `PROBLEMS`.
        seed: >= 0. Those from 5000 on are for development, those below for what is reported.

    Raises:
        ValueError: No problem has that name, or the seed is negative.
        DataUnavailableError: The files are not to be had.
    """
    if problem not in PROBLEMS:
        raise ValueError(f"no problem is called {problem!r}; there are {', '.join(PROBLEMS)}")
    return PROBLEMS[problem].split(seed)
