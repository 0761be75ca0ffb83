"""Binary trees of random splits, drawn from a planned seed: they know no record.

Jagannathan, Pillaipakkamnatt and Wright (2012).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from protocol.feature_map import FeatureMap
from protocol.kinds.models.public_randomness import words
from protocol.partitions import TreeLeaves


@lru_cache(maxsize=64)
def random_trees(features: FeatureMap, trees: int, depth: int, span: int, seed: int) -> tuple[TreeLeaves, ...]:
    """Complete trees of 2^depth leaves each.

    A node splits a coordinate that is drawn from all, at a threshold that is drawn from what the nodes above leave of
    it within +-`span` steps of 2^-12.
    """
    nodes = 2**depth - 1
    drawn = words(seed, "trees", 2 * trees * nodes).reshape(trees, nodes, 2)
    return tuple(TreeLeaves.of(features, _nodes(each, features.width, span)) for each in drawn)


def _nodes(drawn: NDArray[np.uint64], width: int, span: int) -> NDArray[np.int64]:
    """One tree as `TreeLeaves` lists its nodes, from two words for each."""
    count = len(drawn)
    table = np.empty((count, 4), np.int64)
    bounds: list[dict[int, tuple[int, int]]] = [{} for _ in range(2 * count + 1)]
    for node, (first, second) in enumerate(drawn.tolist()):
        coordinate = first % width
        low, high = bounds[node].get(coordinate, (-span, span))
        threshold = low + 1 + second % (high - low) if high > low else high
        below, above = 2 * node + 1, 2 * node + 2
        bounds[below] = {**bounds[node], coordinate: (low, threshold - 1)}
        bounds[above] = {**bounds[node], coordinate: (threshold, high)}
        bounds[node] = {}
        # Child c is a node, or, from `count` on, the leaf c - count.
        table[node] = (
            coordinate,
            threshold,
            *(child if child < count else count - 1 - child for child in (below, above)),
        )
    return table
