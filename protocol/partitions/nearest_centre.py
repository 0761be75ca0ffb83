"""Nearest of k centres (k-means cells of the learner's source): one partition of the whole instance space.

The cells are exact: points z and centres c are whole numbers of grid steps, so every partial sum of the compared
quantity 2 z.c - |c|^2 is a whole number below 2^53, in whatever order a BLAS adds.
"""

import math
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.feature_map import MOST_COORDINATE, STEPS, FeatureMap
from protocol.limits import BYTE_ONCE, CALL_ONCE
from protocol.records import Records
from protocol.refusals import RefusalCode
from protocol.schema import Schema

MOST_TILE = 1024
"""Number of centres in a tile. More centres than that are compared tile by tile, and then the best of each tile."""
NEAREST_COST = 20
"""Work (see `protocol.limits`) per record and centre of writing and comparing the product."""
COMPARED_ENTRIES = 131_072
"""Numbers of a product that are compared at once (1 MB)."""
TILE_COST = 1_500
"""Work per record and tile of finding the best of the tile, in several passes; most costly with few centres."""
CENTRES_ONCE = 40 * CALL_ONCE


class NearestCentre(msgspec.Struct, frozen=True, tag="nearest_centre", forbid_unknown_fields=True):
    """The cell of a record is the index of the nearest centre (Euclidean, in feature-map coordinates; ties: lowest).

    `centres` holds k x width little-endian int32 grid steps of 2^-12, row by row, within +-2^18.
    """

    features: FeatureMap
    centres: Annotated[bytes, msgspec.Meta(min_length=4)]

    @classmethod
    def of(cls, features: FeatureMap, centres: NDArray[np.float64]) -> "NearestCentre":
        """Make the partition from float centres (k, width) in feature-map units, which are rounded to the grid."""
        limit = MOST_COORDINATE * STEPS
        steps = np.clip(np.rint(np.asarray(centres, np.float64) * STEPS), -limit, limit)
        return cls(features=features, centres=steps.astype("<i4").tobytes())

    @property
    def grid(self) -> NDArray[np.float64]:
        """The centres in grid steps: (k, width) float64 of whole numbers."""
        return np.frombuffer(self.centres, "<i4").reshape(-1, self.features.width).astype(np.float64)

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless map and centres fit; reads no record."""
        self.features.check(schema, f"{field}.features")
        if len(self.centres) % (4 * self.features.width):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.centres", "k x width little-endian int32")
        if np.abs(self.grid).max() > MOST_COORDINATE * STEPS:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.centres", f"within +-{MOST_COORDINATE}")

    def cell_count(self, schema: Schema) -> int:  # noqa: ARG002
        """Number of centres k."""
        return len(self.centres) // (4 * self.features.width)

    def multiply_adds(self) -> int:
        """Work of one record: the map, a product of k x (width + 1), and a comparison of k numbers, tile by tile.

        Two multiply-adds of the product count as one: it is one of large matrices, or a small part of the work.
        """
        entries = len(self.centres) // 4
        count = entries // self.features.width
        comparing = NEAREST_COST * count + TILE_COST * math.ceil(count / MOST_TILE)
        return self.features.multiply_adds() + (entries + count) // 2 + comparing

    def multiply_adds_once(self) -> int:
        """Work of reading, checking and preparing map and centres."""
        return self.features.multiply_adds_once() + CENTRES_ONCE + BYTE_ONCE * len(self.centres)

    def cells(self, records: Records) -> NDArray[np.intp]:
        """The nearest centre of each record, shape (n,)."""
        centres = self.grid
        # One matrix product [z, 1] [2 c, -|c|^2]' gives |z|^2 - |z - c|^2, greatest for the nearest centre.
        weights = np.column_stack([2.0 * centres, -np.einsum("kw,kw->k", centres, centres)])
        starts = range(0, len(weights), MOST_TILE)
        tiles = [np.ascontiguousarray(weights[start : start + MOST_TILE].T) for start in starts]
        chosen = np.zeros(len(records), np.intp)
        few = max(1, COMPARED_ENTRIES // min(len(centres), MOST_TILE))
        memory, extended = np.empty(few * min(len(centres), MOST_TILE)), np.ones((0, 0))
        # Mapping takes a step for each block of many records, comparing much memory for each record.
        for block, points in self.features.blocks(records, 4 * self.features.width):
            if len(extended) < len(points):
                extended = np.ones((len(points), points.shape[1] + 1))
            extended[: len(points), :-1] = points
            for first in range(0, len(points), few):
                rows = extended[first : min(first + few, len(points))]
                nearest = chosen[block][first : first + few]
                best = np.full(len(rows), -np.inf)
                for start, tile in zip(starts, tiles, strict=True):
                    shape = (len(rows), tile.shape[1])
                    nearness = np.matmul(rows, tile, out=memory[: math.prod(shape)].reshape(shape))
                    if len(tiles) == 1:
                        np.argmax(nearness, axis=1, out=nearest)
                        break
                    here = np.argmax(nearness, axis=1)
                    value = np.take_along_axis(nearness, here[:, None], axis=1)[:, 0]
                    nearer = value > best
                    best[nearer] = value[nearer]
                    nearest[nearer] = start + here[nearer]
        return chosen
