"""The ten problems of all experiments: whose records are private, what the learner holds, and what is tested.

Seven are those of the paper's Table 1, as its reproduction froze them. Their training settings are not the paper's,
which prints none; they are chosen so that a network trained on the oracle's own records is about as accurate as the
paper's (column h* of Table 2). ADR 4 has the measurements.

Of the real hospitals, each keeps 75 % of its records private; the other 25 % are the learner's own, without labels, and
the labels that it wants are theirs: they are the test records as well. `load_halves` divides them otherwise.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache, partial

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.steward import StewardFile, read_steward_file
from experiments.learning.matrices import Matrices, make_matrices
from experiments.paper.cardiotocography import draw_ctg_a, draw_ctg_b
from experiments.paper.draws import Draw
from experiments.paper.synthetic import draw_a, draw_b, draw_c, draw_d, draw_e
from protocol.records import Records, encode_frame, encode_labels
from protocol.schema import NumericAttribute, Schema
from simulations.datasets import load_dataset
from simulations.datasets.splits import split_at_random, split_by_site, split_parts

Labels = NDArray[np.bool_]
Options = dict[str, object]
"""Of a strategy or of its networks, by their names."""

LABEL_COLUMN, CLASSES = "label", ("0", "1")
BOUND = 32.0
"""Declared bounds of the paper's attributes: the records are standardised by the source, or lie in [0, 1]. A few CTG
rows (12 in 20 draws) have an attribute beyond; it counts as the bound."""
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
KEPT_SPLITS = 4
"""Splits that a process keeps, so that the strategies of one run do not each make it anew."""


@dataclass(frozen=True)
class Training:
    """Options of ``learner_node.networks.train_network``, by its names; AdamW, ReLU, linearly falling rate."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float


@dataclass(frozen=True)
class PaperDataset:
    """One row of Table 1.

    Attributes:
        name: "A" to "E", "CTG-A" or "CTG-B".
        draw: the data of a run from its seed (>= 0).
        dimensions: d, the columns of the records.
        hidden: units of the hidden layers.
        rounds: T, hypotheses that are trained.
        reweight: whether masses are asked first and Pb. 1 solved, because source and target differ.
        queries: questions in all, over which epsilon is divided; ``rounds``, plus one for the masses.
        target_size: n, records of the oracle.
        training: of every network, h* included.
    """

    name: str
    draw: Callable[[int], Draw]
    dimensions: int
    hidden: tuple[int, ...]
    rounds: int
    reweight: bool
    queries: int
    target_size: int
    training: Training

    @property
    def network(self) -> Options:
        """Options of every network, h* included."""
        return {"hidden": self.hidden, **asdict(self.training)}


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


def draw(name: str, seed: int) -> Draw:
    """The data of one run.

    Raises:
        ValueError: No data set has that name, or the seed is negative.
        DataUnavailableError: CTG's workbook is not to be had.
    """
    if name not in PAPER_DATASETS:
        raise ValueError(f"the paper has no data set {name!r}; it has {', '.join(PAPER_DATASETS)}")
    return PAPER_DATASETS[name].draw(seed)


def draw_steward(draw: Draw, round_size: int | None = None) -> StewardFile:
    """A schema of numeric attributes; the paper takes every row as independent, so the record is the unit.

    Args:
        draw: whose attributes they are.
        round_size: declared; the paper's Table 1 prints it for each data set.
    """
    attributes = tuple(NumericAttribute(name=name, lower=-BOUND, upper=BOUND) for name in draw.attributes)
    return StewardFile(label=LABEL_COLUMN, classes=CLASSES, attributes=attributes, round_size=round_size)


def draw_frame(draw: Draw, records: NDArray[np.float64], labels: NDArray[np.int64] | None = None) -> pl.DataFrame:
    """Records of a draw as a frame, with the label column where labels are given.

    Args:
        draw: whose attributes they have.
        records: (n, d) rows of the draw.
        labels: (n,) in {0, 1}.
    """
    frame = pl.DataFrame({name: records[:, index] for index, name in enumerate(draw.attributes)})
    return frame if labels is None else frame.with_columns(pl.Series(LABEL_COLUMN, labels).cast(pl.String))


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
        network: options of every network of a strategy: hidden, epochs, batch_size, learning_rate, weight_decay;
            empty takes the strategies' own.
    """

    name: str
    title: str
    split: Callable[[int], Split]
    network: Options = field(default_factory=dict)


def split_of(draw: Draw, seed: int, paper: PaperDataset | None = None) -> Split:
    """A draw as one curator and a learner hold it.

    Args:
        draw: the records.
        seed: of the split.
        paper: the row of Table 1 that they are of; its size is the declared one.
    """
    steward = draw_steward(draw, paper.target_size if paper else None)
    return Split(
        problem=draw.name,
        seed=seed,
        schema=steward.schema,
        source=encode_frame(draw_frame(draw, draw.source), steward.schema),
        sites=(Site.of("oracle", draw_frame(draw, draw.oracle, draw.oracle_labels), steward),),
        test=encode_frame(draw_frame(draw, draw.test), steward.schema),
        test_labels=draw.test_labels > 0,
        paper=paper,
    )


def _paper(name: str, seed: int) -> Split:
    return split_of(draw(name, seed), seed, PAPER_DATASETS[name])


def _hospitals(
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


def _paper_problem(row: PaperDataset) -> Problem:
    title = f"the paper's {row.name}: {row.target_size} private records, {row.dimensions} attributes"
    return Problem(row.name, title, partial(_paper, row.name), network=row.network)


PROBLEMS: dict[str, Problem] = {
    **{row.name: _paper_problem(row) for row in PAPER_DATASETS.values()},
    **{
        name: Problem(name, title, partial(_hospitals, name))
        for name, title in (
            ("heart", "heart disease in four hospitals, unlabelled records of all"),
            ("heart-cleveland", "the same hospitals and test records, unlabelled records of Cleveland alone"),
            ("wdbc", "breast cancer, split over three sites at random"),
        )
    },
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


def load_halves(problem: str, seed: int) -> Split:
    """Another division of the hospitals: half of the records private, a quarter the learner's, a quarter for the test.

    The paper's problems are divided as `load_split` divides them. No declared size is right here.

    Args:
        problem: key of `PROBLEMS`.
        seed: >= 0; a split of its own.
    """
    if problem not in HOSPITALS:
        return load_split(problem, seed)
    return _hospitals(problem, seed, np.random.default_rng([1, seed]), parts=HALVES, wdbc_sites=WDBC_UNEQUAL)
