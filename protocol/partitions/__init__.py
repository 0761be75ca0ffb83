"""Partitions: each maps every record to exactly one of k cells, from the record and the query alone.

That is all that privacy needs of a partition kind: if one record is added or removed, the counts in all cells of m
partitions move by at most m (L1). A new kind is one file here and one line in each of `Partition` and
`PARTITION_KINDS`. One of somebody else's package is read where a policy or a study names it (`expril.packages`).
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from protocol.partitions.cross_bins import CrossBins, Range
from protocol.partitions.feature_bins import FeatureBins, ProductBins
from protocol.partitions.nearest_centre import NearestCentre
from protocol.partitions.projection_bins import ProjectionBins, ScoreBins
from protocol.partitions.tree_leaves import TreeLeaves
from protocol.records import Records
from protocol.schema import Schema

Partition = FeatureBins | NearestCentre | ProductBins | ScoreBins | ProjectionBins | TreeLeaves | CrossBins

PARTITION_KINDS: dict[str, type[Partition]] = {
    "feature_bins": FeatureBins,
    "nearest_centre": NearestCentre,
    "product_bins": ProductBins,
    "score_bins": ScoreBins,
    "projection_bins": ProjectionBins,
    "tree_leaves": TreeLeaves,
    "cross_bins": CrossBins,
}


class AnyPartition(Protocol):
    """What every partition kind offers."""

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) if the partition breaks a rule; reads no record."""

    def cell_count(self, schema: Schema) -> int:
        """Number of cells k."""

    def multiply_adds(self) -> int:
        """Work for each record, in the unit of `protocol.limits`; the partition must be checked."""

    def multiply_adds_once(self) -> int:
        """Work of reading, checking and preparing the partition, in the same unit; the partition must be checked."""

    def cells(self, records: Records) -> NDArray[np.intp]:
        """The cell of each record: (n,) in 0 .. k-1, a function of that record and the partition alone."""


__all__ = [
    "PARTITION_KINDS",
    "AnyPartition",
    "CrossBins",
    "FeatureBins",
    "NearestCentre",
    "Partition",
    "ProductBins",
    "ProjectionBins",
    "Range",
    "ScoreBins",
    "TreeLeaves",
]
