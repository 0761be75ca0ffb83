"""Noisy tables: what an analysis asks for, and the answers with their exact law."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from learner_node.analyses.noise_law import NoiseLaw
from protocol.partitions.cross_bins import CrossBins, Range
from protocol.partitions.feature_bins import FeatureBins
from protocol.schema import CategoricalAttribute, Schema

Floats = NDArray[np.float64]
OTHER, MISSING = "other", "missing"


@dataclass(frozen=True)
class TableQuestion:
    """One table that is asked: the number of records in each combination of its factors' bins.

    A factor's variable is an attribute of the schema, an outcome, or the label. One unit of c records moves the counts
    of one table by c (L1).
    """

    factors: tuple[FeatureBins, ...]  # axes of the table, in order, one at least
    within: tuple[Range, ...] = ()  # records that count satisfy all of these; () counts all records
    weight: Fraction = Fraction(1)  # its share of the analysis' epsilon is its weight over the sum of all its weights

    @property
    def partition(self) -> CrossBins:
        """The partition that counts it: the cells of its factors, the last factor fastest, and one outside a filter."""
        return CrossBins(self.factors, self.within)

    def release(self, schema: Schema) -> str:
        """The release kind that may count it: one that reads labels only where it reads more than attributes."""
        return "outcome_counts" if self.partition.beyond_attributes(schema) else "mass"


@dataclass(frozen=True)
class Axis:
    """One axis of a table: the bins of a variable."""

    variable: str
    # edges of a number: bin j holds edges[j-1] <= x < edges[j], and the end bins are unbounded; () of a category
    edges: tuple[float, ...]
    levels: tuple[str, ...]  # of a category, in order; () of a number
    measure: str = ""  # units of a number, "" if not declared

    @classmethod
    def of(cls, bins: FeatureBins, schema: Schema) -> "Axis":
        """The axis of these bins. Raises ValueError: the schema has no such variable."""
        variable = schema.variable(bins.attribute)
        if variable is None:
            raise ValueError(f"no variable {bins.attribute!r}")
        if isinstance(variable, CategoricalAttribute):
            return cls(bins.attribute, (), variable.levels)
        return cls(bins.attribute, bins.edges, (), variable.measure)

    def __len__(self) -> int:
        """Number of cells: levels, "other" and missing; or bins and missing."""
        return len(self.levels) + 2 if self.levels else len(self.edges) + 2

    @property
    def proper(self) -> int:
        """Number of cells before those of "other" and missing: levels, or bins of a number."""
        return len(self.levels) if self.levels else len(self.edges) + 1

    @property
    def proper_labels(self) -> tuple[str, ...]:
        """Texts of the levels or bins, without "other" and missing."""
        return self.labels[: self.proper]

    @property
    def labels(self) -> tuple[str, ...]:
        """A text for each cell."""
        if self.levels:
            return (*self.levels, OTHER, MISSING)
        ends = [f"{edge:g}" for edge in self.edges]
        if not ends:
            return ("all", MISSING)
        between = [f"{low} to {high}" for low, high in pairwise(ends)]
        return (f"below {ends[0]}", *between, f"{ends[-1]} or more", MISSING)


@dataclass(frozen=True)
class NoisyTable:
    """The raw answer to one table: exact counts and independent noise in each cell. Values may be negative.

    Inference uses `values` as they are. Only what is displayed may be made consistent.
    """

    axes: tuple[Axis, ...]
    values: Floats  # counts and noise, float64 of whole numbers; shape: the length of each axis
    noise: NoiseLaw  # in each cell
    most_records_per_unit: int = 1  # c: one unit's records may be in several cells, and are not independent
    sites: int = 1  # curators whose records are counted
    outside: float | None = None  # noisy number of records that a filter leaves out; None without a filter

    def __post_init__(self) -> None:
        if self.values.shape != tuple(map(len, self.axes)):
            raise ValueError(f"values of shape {self.values.shape} do not fit the axes")

    def over(self, *axes: int) -> "NoisyTable":
        """The margin over all axes but these, in this order. Its noise is that of the cells that are added up."""
        others = tuple(index for index in range(len(self.axes)) if index not in axes)
        values = self.values.sum(axis=others) if others else self.values
        values = np.transpose(values, np.argsort(np.argsort(axes)))
        added = int(np.prod([self.values.shape[index] for index in others], dtype=np.int64))
        return replace(
            self, axes=tuple(self.axes[index] for index in axes), values=values, noise=self.noise.of_cells(added)
        )

    def plus(self, other: "NoisyTable") -> "NoisyTable":
        """The table of both answers together, of other records and with noise of its own but the same scale."""
        if self.noise.scale != other.noise.scale or self.axes != other.axes:
            raise ValueError("tables of different scales or axes are not added")
        noise = NoiseLaw(self.noise.scale, self.noise.draws + other.noise.draws)
        outside = None if self.outside is None or other.outside is None else self.outside + other.outside
        most = max(self.most_records_per_unit, other.most_records_per_unit)
        return NoisyTable(self.axes, self.values + other.values, noise, most, self.sites + other.sites, outside)


@dataclass(frozen=True)
class TableAnswers:
    """The answers to one analysis' tables, in the order of its questions."""

    schema: Schema
    epsilon: Fraction  # exact cost of this analysis at the costliest curator
    pooled: Sequence[NoisyTable]  # summed over all curators that answered
    by_site: Mapping[str, Sequence[NoisyTable]]  # curator -> its own answers; empty where only the sum was opened
    secure: bool = False  # whether only sums were opened
