"""Leaves of a binary tree of axis-aligned splits over grid points: fine cells in some places, coarse in others.

A block of records is sent down the tree level by level. Only comparisons are used, so the cells are exact.
"""

from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.feature_map import MOST_COORDINATE, STEPS, FeatureMap
from protocol.limits import CALL_ONCE
from protocol.records import Records
from protocol.refusals import RefusalCode
from protocol.schema import Schema

MOST_NODES = 500_000
MOST_DEPTH = 64
"""Most splits between root and leaf. The limit bounds a record's path through a degenerate tree."""
LEVEL_COST = 300
"""Work (see `protocol.limits`) per record and level of the tree: a few scattered reads."""
TREE_ONCE = 40 * CALL_ONCE
LEVEL_ONCE = 10 * CALL_ONCE
NODE_BYTE_ONCE = 200
"""Work per byte of the nodes, which are sorted and looked up as well as copied."""
NODE_BYTES = 16
SMALLER = 4
"""A block's points are one of four arrays that a level reads or writes, and the cache holds them all."""


class TreeLeaves(msgspec.Struct, frozen=True, tag="tree_leaves", forbid_unknown_fields=True):
    """The cell of a record is the number of the leaf that its point falls into; m nodes have m + 1 leaves.

    `nodes` holds m x 4 little-endian int32, row by row, node 0 being the root: (coordinate of the feature map,
    threshold in steps of 2^-12 within +-2^18, child below, child above). A point goes to the child above where its
    coordinate is at or above the threshold. A child c > 0 is a node, which comes after its parent; a child c < 0 is
    the leaf -1 - c. Each node but the root, and each of the leaves 0 .. m, is the child of exactly one node.
    """

    features: FeatureMap
    nodes: Annotated[bytes, msgspec.Meta(min_length=NODE_BYTES, max_length=NODE_BYTES * MOST_NODES)]

    @classmethod
    def of(cls, features: FeatureMap, nodes: NDArray[np.int64]) -> "TreeLeaves":
        """Make the partition from whole numbers (m, 4) as `nodes` lists them."""
        return cls(features=features, nodes=np.ascontiguousarray(nodes, "<i4").tobytes())

    @property
    def table(self) -> NDArray[np.int64]:
        """The nodes as whole numbers, (m, 4) int64."""
        return np.frombuffer(self.nodes, "<i4").reshape(-1, 4).astype(np.int64)

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless the map fits and the nodes are a tree; reads no record."""
        self.features.check(schema, f"{field}.features")
        complaint = "m x 4 little-endian int32" if len(self.nodes) % NODE_BYTES else self._complaint()
        if complaint:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.nodes", complaint)

    def cell_count(self, schema: Schema) -> int:  # noqa: ARG002
        """Number of leaves k."""
        return len(self.nodes) // NODE_BYTES + 1

    def multiply_adds(self) -> int:
        """Work of placing one record: the map, and a step for each level of the tree."""
        return self.features.multiply_adds() + LEVEL_COST * _depth(self.table)

    def multiply_adds_once(self) -> int:
        """Work of reading, checking and preparing map and nodes."""
        levels = LEVEL_ONCE * _depth(self.table)
        return self.features.multiply_adds_once() + TREE_ONCE + levels + NODE_BYTE_ONCE * len(self.nodes)

    def cells(self, records: Records) -> NDArray[np.intp]:
        """The leaf of each record's point, shape (n,)."""
        table = self.table
        count, depth = len(table), _depth(table)
        # Leaf l becomes node m + l, which leads to itself: records that have arrived need no mask.
        leaves = np.arange(count, 2 * count + 1)
        children = np.where(table[:, 2:] < 0, count - 1 - table[:, 2:], table[:, 2:])
        children = 2 * np.concatenate([children, np.column_stack([leaves, leaves])]).ravel()
        coordinates = np.repeat(np.concatenate([table[:, 0], np.zeros_like(leaves)]), 2)
        thresholds = np.repeat(np.concatenate([table[:, 1], np.zeros_like(leaves)]).astype(np.float64), 2)
        leaves = np.empty(len(records), np.intp)
        for block, points in self.features.blocks(records, SMALLER * self.features.width):
            flat, starts = points.ravel(), np.arange(len(points)) * points.shape[1]
            # Twice the node, of which the children are a pair. Every index is in range: "clip" alone checks none twice.
            at, place, value, limit = (np.zeros(len(points), kind) for kind in (np.intp, np.intp, float, float))
            for _ in range(depth):
                np.take(coordinates, at, out=place, mode="clip")
                place += starts
                np.take(flat, place, out=value, mode="clip")
                np.take(thresholds, at, out=limit, mode="clip")
                np.add(at, value >= limit, out=place)
                np.take(children, place, out=at, mode="clip")
            leaves[block] = (at >> 1) - count
        return leaves

    def _complaint(self) -> str:
        """What would be accepted instead, if the table is no tree over the map's coordinates; "" if it is."""
        table = self.table
        coordinates, thresholds, children = table[:, 0], table[:, 1], table[:, 2:]
        count = len(table)
        if coordinates.min() < 0 or coordinates.max() >= self.features.width:
            return f"coordinates of the feature map, 0 .. {self.features.width - 1}"
        if np.abs(thresholds).max() > MOST_COORDINATE * STEPS:
            return f"thresholds within +-{MOST_COORDINATE}"
        indices = np.concatenate([np.arange(-count - 1, 0), np.arange(1, count)])
        if not np.array_equal(np.sort(children, axis=None), indices):
            return "each node but the root, and each leaf, the child of exactly one node"
        if ((children > 0) & (children <= np.arange(count)[:, None])).any():
            return "children after their parents"
        if _depth(table) > MOST_DEPTH:
            return f"a depth of at most {MOST_DEPTH}"
        return ""


def _depth(table: NDArray[np.int64]) -> int:
    """Depth of a tree, in splits; deeper trees than MOST_DEPTH count as MOST_DEPTH + 1."""
    level = np.zeros(1, np.int64)
    for depth in range(MOST_DEPTH + 1):
        if not len(level):
            return depth
        children = table[level, 2:].ravel()
        level = children[children > 0]
    return MOST_DEPTH + 1
