"""Bins of linear projections of grid points, in one or a few directions, and of a hypothesis' logit.

The bins are exact: points and weights are whole steps of 2^-12 within +-2^18, so a projection of up to 8192 coordinates
is a sum of whole numbers of at most 2^49, in whatever order it is summed.
"""

import math
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.feature_map import MOST_COORDINATE, STEPS, FeatureMap, to_grid
from protocol.hypotheses import Mlp
from protocol.limits import BYTE_ONCE
from protocol.partitions.grid_edges import GridEdges, bins, check_edges, search_cost, search_once
from protocol.records import Records
from protocol.refusals import RefusalCode
from protocol.schema import Schema


class ScoreBins(msgspec.Struct, frozen=True, tag="score_bins", forbid_unknown_fields=True):
    """Bin j holds the records with e_j <= logit < e_{j+1}; the end bins are unbounded; len(edges) + 1 cells.

    `edges` are in units of the logit, rounded to the logit's own grid of 2^-24. Since a hypothesis predicts class 1
    where its logit is *above* 0, the edge 2^-24, not 0, separates the two classes exactly.
    """

    hypothesis: Mlp
    edges: GridEdges

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "edges", tuple(map(float, self.edges)))

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless hypothesis and edges fit; reads no record."""
        self.hypothesis.check(schema, f"{field}.hypothesis")
        check_edges(self.edges, f"{field}.edges")

    def cell_count(self, schema: Schema) -> int:  # noqa: ARG002
        """Number of bins k."""
        return len(self.edges) + 1

    def multiply_adds(self) -> int:
        """Work of the network and of a binary search for one record."""
        return self.hypothesis.multiply_adds() + search_cost(self.edges)

    def multiply_adds_once(self) -> int:
        """Work of preparing network and edges."""
        return self.hypothesis.multiply_adds_once() + search_once(self.edges)

    def cells(self, records: Records) -> NDArray[np.intp]:
        """The bin of each record's exact logit, shape (n,)."""
        return bins(self.hypothesis.logits(records), self.edges)


MOST_DIRECTIONS = 16
MOST_CELLS = 2**31
"""Most cells of one partition, whatever a curator's limits; so joint cell numbers stay far below 2^63."""


class ProjectionBins(msgspec.Struct, frozen=True, tag="projection_bins", forbid_unknown_fields=True):
    """The product of the bins of r projections w_i . z of a record's point z, the last direction varying fastest.

    `directions` holds r x width little-endian int32 weights in steps of 2^-12, row by row, within +-2^18 (+-64
    units). `edges` has one tuple for each direction, in units of w . z, rounded to the projection's own grid of
    2^-24; b edges make b + 1 bins, bin j holding e_j <= w . z < e_{j+1}.
    """

    features: FeatureMap
    directions: Annotated[bytes, msgspec.Meta(min_length=4)]
    edges: Annotated[tuple[GridEdges, ...], msgspec.Meta(min_length=1, max_length=MOST_DIRECTIONS)]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "edges", tuple(tuple(map(float, edges)) for edges in self.edges))

    @classmethod
    def of(
        cls, features: FeatureMap, directions: NDArray[np.float64], edges: tuple[tuple[float, ...], ...]
    ) -> "ProjectionBins":
        """Make the partition from float directions (r, width) in units, clipped to +-64 and rounded to the grid."""
        steps = to_grid(np.asarray(directions, np.float64))
        return cls(features=features, directions=steps.astype("<i4").tobytes(), edges=edges)

    @property
    def grid(self) -> NDArray[np.float64]:
        """The directions in grid steps: (r, width) float64 of whole numbers."""
        return np.frombuffer(self.directions, "<i4").reshape(-1, self.features.width).astype(np.float64)

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless map, directions and edges fit; reads no record."""
        self.features.check(schema, f"{field}.features")
        where = f"{field}.directions"
        if len(self.directions) != 4 * self.features.width * len(self.edges):
            limit = f"{len(self.edges)} x {self.features.width} little-endian int32"
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, where, limit)
        if np.abs(self.grid).max() > MOST_COORDINATE * STEPS:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, where, f"within +-{MOST_COORDINATE}")
        for index, edges in enumerate(self.edges):
            check_edges(edges, f"{field}.edges[{index}]")
        if self.cell_count(schema) > MOST_CELLS:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.edges", f"at most {MOST_CELLS} cells")

    def cell_count(self, schema: Schema) -> int:  # noqa: ARG002
        """Number of cells: the product of the directions' bins."""
        return math.prod(len(edges) + 1 for edges in self.edges)

    def multiply_adds(self) -> int:
        """Work of one record: the map, r x width products, and a binary search for each direction."""
        return len(self.directions) // 4 + self.features.multiply_adds() + sum(map(search_cost, self.edges))

    def multiply_adds_once(self) -> int:
        """Work of reading, checking and preparing map, directions and edges."""
        bins_once = sum(map(search_once, self.edges))
        return self.features.multiply_adds_once() + BYTE_ONCE * len(self.directions) + bins_once

    def projections(self, records: Records) -> NDArray[np.float64]:
        """Exact projections in steps of 2^-24: (n, r) float64 holding whole numbers."""
        weights = np.ascontiguousarray(self.grid.T)
        products = np.empty((len(records), weights.shape[1]))
        for block, points in self.features.blocks(records):
            products[block] = points @ weights
        return products

    def cells(self, records: Records) -> NDArray[np.intp]:
        """The cell of each record, shape (n,)."""
        cells, weights = np.zeros(len(records), np.intp), self.grid
        for block, points in self.features.blocks(records, 2 * self.features.width):
            here = cells[block]
            for values, edges in zip(weights @ points.T, self.edges, strict=True):
                here *= len(edges) + 1
                here += bins(values, edges)
        return cells
