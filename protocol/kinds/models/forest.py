"""A forest of random trees: class counts in the leaves of trees that are drawn without looking at records.

Jagannathan, Pillaipakkamnatt and Wright (2012).
"""

from functools import lru_cache
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.feature_map import FeatureMap
from protocol.kinds.models.method import Body, Mapped, Seed, Width, Work, check_map, words, wrong_body
from protocol.limits import CALL_ONCE
from protocol.partitions import TreeLeaves
from protocol.schema import Schema


@lru_cache(maxsize=64)
def random_trees(features: FeatureMap, trees: int, depth: int, span: int, seed: int) -> tuple[TreeLeaves, ...]:
    """Complete trees of 2^depth leaves each.

    A node splits a random coordinate at a random threshold. Thresholds are drawn within +-`span` steps of 2^-12, and
    within the range that the nodes above leave.
    """
    nodes = 2**depth - 1
    random_words = words(seed, "trees", 2 * trees * nodes).reshape(trees, nodes, 2)
    return tuple(TreeLeaves.of(features, _nodes(tree_words, features.width, span)) for tree_words in random_words)


def _nodes(tree_words: NDArray[np.uint64], width: int, span: int) -> NDArray[np.int64]:
    """The nodes of one tree as `TreeLeaves` lists them, made from two random words for each."""
    count = len(tree_words)
    table = np.empty((count, 4), np.int64)
    bounds: list[dict[int, tuple[int, int]]] = [{} for _ in range(2 * count + 1)]
    for node, (first, second) in enumerate(tree_words.tolist()):
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


MOST_DEPTH = 12
MOST_LEAVES = 2**18
"""Most leaves of all trees together."""
MOST_SPAN = 2**17
_CLASS_COST = 350
_LEAF_ONCE = 5 * CALL_ONCE
"""Work per tree and leaf of drawing a node's split."""


class Forest(msgspec.Struct, frozen=True, kw_only=True, tag="forest", forbid_unknown_fields=True):
    """Counts by leaf and class of complete random trees (Jagannathan, Pillaipakkamnatt and Wright 2012).

    Each record counts in all T trees. If each tree had its own 1 / T of the records instead, it could use the whole
    epsilon. The noise would be the same share of its counts, but the division into blocks would add variance.
    """

    width: Width  # coordinates of the feature map
    trees: Annotated[int, msgspec.Meta(ge=1, le=1000)]  # T
    depth: Annotated[int, msgspec.Meta(ge=1, le=MOST_DEPTH)]  # levels of splits; a tree has 2^depth leaves
    span: Annotated[int, msgspec.Meta(ge=1, le=MOST_SPAN)]  # thresholds lie within +- so many steps of 2^-12
    seed: Seed  # of the splits, public

    @property
    def leaves(self) -> int:
        """Number of leaves of one tree."""
        return 1 << self.depth

    @property
    def parts(self) -> int:
        """Number of trees."""
        return self.trees

    def complaint(self) -> str:
        """What is wrong with the settings; "" if they are right."""
        return "" if self.trees * self.leaves <= MOST_LEAVES else f"at most {MOST_LEAVES} leaves of all trees together"

    def label_complaint(self, schema: Schema) -> str:
        """Why the method does not fit the schema's label; "" if it does."""
        return "" if schema.classes else "a label of classes"

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest L1 change: a record is in one leaf of each tree."""
        return most_records_per_unit * self.trees

    def moved_by_label(self, most_records_per_unit: int) -> int:
        """Largest L1 change by a label, which moves the record between two classes in each tree."""
        return 2 * self.sensitivity(most_records_per_unit)

    def moved_by_change(self, most_records_per_unit: int) -> int:
        """Largest L1 change by other attributes, which move the record between two leaves of each tree."""
        return 2 * self.sensitivity(most_records_per_unit)

    def check_body(self, body: Body, schema: Schema, field: str) -> None:
        """Check a body as `Method.check_body`."""
        if not isinstance(body, Mapped):
            raise wrong_body(Mapped, field)
        check_map(body.features, self.width, schema, field)

    def length(self, body: Body, schema: Schema) -> int:
        """Number of released numbers: a table (leaves, classes) for each tree."""
        return self.trees * self.leaves * len(schema.classes)

    def partitions(self, body: Mapped) -> tuple[TreeLeaves, ...]:
        """The trees."""
        return random_trees(body.features, self.trees, self.depth, self.span, self.seed)

    def work(self, body: Body, schema: Schema) -> Work:
        """Work of fitting one model, computed without making the trees, which may be large."""
        if not isinstance(body, Mapped):
            raise wrong_body(Mapped, "body")
        level = 300  # as `protocol.partitions.tree_leaves` states it
        per_tree = body.features.multiply_adds() + level * self.depth + _CLASS_COST
        once_per_tree = body.features.multiply_adds_once() + 100 * CALL_ONCE + _LEAF_ONCE * self.leaves
        return Work(self.trees * per_tree, self.trees * once_per_tree)
