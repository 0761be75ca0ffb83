"""The parts of one run of one problem: the private records, the learner's records, and the test records."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.records.schema_file import SchemaFile
from lab.reproduction.datasets import Draw
from protocol.record_frames import encode_frame, encode_labels
from protocol.records import MISSING_CODE, Records
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Matrices:
    """One split as matrices with the same p columns: a numeric attribute has one, a categorical one has one a level."""

    train: Matrix  # (n, p) float64, all private records; finite
    labels: NDArray[np.int64]  # (n,) int64 in {0, 1}
    test: Matrix  # (m, p)
    test_labels: NDArray[np.int64]  # (m,) int64 in {0, 1}
    source: Matrix  # (s, p) the learner's own records
    lower: Vector  # (p,) least value of each column in the source; 0 for a level's
    upper: Vector  # (p,) greatest, above `lower`; 1 for a level's
    columns: tuple[str, ...]  # (p,) names: the attribute's, or "attribute=level"


def make_matrices(
    source: Records, private: Records, private_labels: NDArray[np.bool_], test: Records, test_labels: NDArray[np.bool_]
) -> Matrices:
    """Impute by the source's median and most frequent level, and encode levels one-hot.

    A level that no schema declares has no column of its own: all columns of its attribute are 0. Values outside the
    source's range stay outside; clipping to the bounds is the peer's affair.
    """
    blocks: list[list[Matrix]] = [[], [], []]
    lower: list[float] = []
    upper: list[float] = []
    columns: list[str] = []
    everyone = (source, private, test)
    for attribute in source.schema.attributes:
        if isinstance(attribute, CategoricalAttribute):
            codes_there = source.column(attribute.name)
            counted = np.bincount(codes_there[codes_there != MISSING_CODE], minlength=1)
            mode = int(np.argmax(counted))
            levels = range(len(attribute.levels))
            for block, records in zip(blocks, everyone, strict=True):
                codes = np.where(records.column(attribute.name) == MISSING_CODE, mode, records.column(attribute.name))
                block.append((codes[:, None] == np.array(levels)).astype(np.float64))
            lower += [0.0] * len(levels)
            upper += [1.0] * len(levels)
            columns += [f"{attribute.name}={level}" for level in attribute.levels]
            continue
        values = source.column(attribute.name)
        values_there = values[~np.isnan(values)]
        if not len(values_there):
            values_there = np.array([attribute.lower])
        median = float(np.median(values_there))
        for block, records in zip(blocks, everyone, strict=True):
            column = records.column(attribute.name)
            block.append(np.where(np.isnan(column), median, column)[:, None].astype(np.float64))
        least, most = float(values_there.min()), float(values_there.max())
        lower.append(least)
        # A peer divides by the range; a column that is constant in the source gets that of its declared bounds.
        upper.append(most if most > least else max(attribute.upper, np.nextafter(least, np.inf)))
        columns.append(attribute.name)
    joined = [np.hstack(block) for block in blocks]
    return Matrices(
        train=joined[1],
        labels=private_labels.astype(np.int64),
        test=joined[2],
        test_labels=test_labels.astype(np.int64),
        source=joined[0],
        lower=np.array(lower),
        upper=np.array(upper),
        columns=tuple(columns),
    )


Labels = NDArray[np.bool_]
Options = dict[str, object]  # of a strategy or of its networks, by their names

LABEL_COLUMN, CLASSES = "label", ("0", "1")
BOUND = 32.0
"""Declared bounds of the paper's attributes: the records are standardised by the source, or lie in [0, 1]. A few CTG
rows (12 in 20 draws) have an attribute beyond; it counts as the bound."""


@dataclass(frozen=True)
class Training:
    """Options of ``learner_node.models.networks.train_network``, by its names; AdamW, ReLU, linearly falling rate."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float


@dataclass(frozen=True)
class PaperDataset:
    """One row of Table 1."""

    name: str  # "A" to "E", "CTG-A" or "CTG-B"
    draw: Callable[[int], Draw]  # the data of a run from its seed (>= 0)
    dimensions: int  # d, the columns of the records
    hidden: tuple[int, ...]  # units of the hidden layers
    rounds: int  # T, hypotheses that are trained
    reweight: bool  # whether masses are asked first and Pb. 1 solved, because source and target differ.
    queries: int  # questions in all, over which epsilon is divided; ``rounds``, plus one for the masses
    target_size: int  # n, records of the oracle
    training: Training  # of every network, h* included

    @property
    def network(self) -> Options:
        """Options of every network, h* included."""
        return {"hidden": self.hidden, **asdict(self.training)}


def draw_steward(draw: Draw, round_size: int | None = None) -> SchemaFile:
    """A schema of numeric attributes; the paper takes every row as independent, so the record is the unit.

    `round_size` is the declared one; the paper's Table 1 prints it for each data set.
    """
    attributes = tuple(NumericAttribute(name=name, lower=-BOUND, upper=BOUND) for name in draw.attributes)
    return SchemaFile(label=LABEL_COLUMN, classes=CLASSES, attributes=attributes, round_size=round_size)


def draw_frame(draw: Draw, records: NDArray[np.float64], labels: NDArray[np.int64] | None = None) -> pl.DataFrame:
    """Records of a draw as a frame, with the label column where labels are given.

    `records` (n, d) rows of the draw; `labels` (n,) in {0, 1}.
    """
    frame = pl.DataFrame({name: records[:, index] for index, name in enumerate(draw.attributes)})
    return frame if labels is None else frame.with_columns(pl.Series(LABEL_COLUMN, labels).cast(pl.String))


@dataclass(frozen=True)
class Site:
    """The private records of one curator."""

    name: str
    frame: pl.DataFrame  # n records with the label column, as its curator reads them
    steward: SchemaFile  # schema and declared round size
    records: Records  # the same records, encoded
    labels: Labels  # (n,) whether a record is of class 1

    @classmethod
    def of(cls, name: str, frame: pl.DataFrame, steward: SchemaFile) -> "Site":
        """The site of a frame with a label column."""
        records = encode_frame(frame, steward.schema)
        return cls(name, frame, steward, records, encode_labels(frame[steward.label], steward.classes) > 0)


@dataclass(frozen=True)
class Units:
    """Privacy units of which one may have several records."""

    most: int  # contribution bound c
    private: NDArray[np.object_]  # (n,) unit of each private record, in the order of `Split.private`
    test: NDArray[np.object_]  # (m,) of each test record


@dataclass(frozen=True)
class Split:
    """One run of one problem. Only a harness may look at the private records and at the test labels."""

    problem: str  # key of `PROBLEMS`
    seed: int  # of the split; a learner's random choices may take it, too
    schema: Schema  # of all records
    source: Records  # the learner's own records
    sites: tuple[Site, ...]  # the curators' private records
    test: Records  # the records on which everything is measured
    test_labels: Labels  # (m,) whether a test record is of class 1
    paper: PaperDataset | None = None  # the paper's row of this problem; None for a problem that it does not have
    units: Units | None = None  # whose records they are, where each record is not a unit

    @classmethod
    def of(
        cls,
        problem: str,
        seed: int,
        sites: Sequence[Site],
        source: pl.DataFrame,
        test: pl.DataFrame,
        *,
        paper: PaperDataset | None = None,
        units: Units | None = None,
    ) -> "Split":
        """The split of frames, of which the test's has the label column; all sites have the same schema."""
        steward = sites[0].steward
        frames = encode_frame(source, steward.schema), tuple(sites), encode_frame(test, steward.schema)
        labels = encode_labels(test[steward.label], steward.classes) > 0
        return cls(problem, seed, steward.schema, *frames, labels, paper, units)

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
    """One column of the comparison's tables."""

    name: str  # as in the results
    title: str  # one line for people
    # seed (>= 0) -> the records of a run; DataUnavailableError where they are not to be had
    split: Callable[[int], Split]
    # options of every network of a strategy: hidden, epochs, batch_size, learning_rate, weight_decay; empty takes the
    # strategies' own
    network: Options = field(default_factory=dict)
    most_runs: int | None = None  # a cap for what is slow; None follows the command
    averaged: bool = True  # whether its accuracies enter the averages of the comparison's headline
    rare: bool = False  # whether one class is rare: accuracy then says little, and the area under the ROC curve leads


def split_of(draw: Draw, seed: int, paper: PaperDataset | None = None, *, declared: int | None = None) -> Split:
    """A draw as a split between one curator and a learner.

    The curator declares the size in the paper's row of Table 1, or else `declared`.
    """
    steward = draw_steward(draw, paper.target_size if paper else declared)
    oracle = Site.of("oracle", draw_frame(draw, draw.oracle, draw.oracle_labels), steward)
    source, test = draw_frame(draw, draw.source), draw_frame(draw, draw.test, draw.test_labels)
    return Split.of(draw.name, seed, [oracle], source, test, paper=paper)
