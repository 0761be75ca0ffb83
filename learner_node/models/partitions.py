"""Partitions that a learner draws on its source beyond the paper's bins and k-means cells.

Products of two attributes' bins, bins of a hypothesis' score, bins of projections, and leaves of a tree. Everything
here is computed from the source and from what is already released, so it costs no privacy. Equal arguments give equal
partitions, to the last bit.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from learner_node.models.source import attribute_bins, quantiles
from learner_node.models.source_splits import MOST_LEAVES, SplitSearch
from protocol.errors import ConfigurationError
from protocol.feature_map import MOST_COORDINATE, STEPS, FeatureMap
from protocol.hypotheses import Mlp
from protocol.partitions import ProductBins, ProjectionBins, ScoreBins, TreeLeaves
from protocol.partitions.grid_edges import PRODUCT_STEPS
from protocol.partitions.tree_leaves import MOST_DEPTH
from protocol.records import Records

Weights = NDArray[np.float64] | None
"""(n,) of the source records, >= 0 and not all 0; None is 1."""


def product_bins(
    source: Records, first: str, second: str, bins: tuple[int, int], weights: Weights = None
) -> ProductBins:
    """The product of two attributes' even bins.

    The bins of each attribute hold even shares of the source; their pairs hold what the attributes' dependence gives
    them. A categorical attribute has a bin for each level, whatever is asked.

    Args:
        source: n records.
        first: name of an attribute.
        second: name of an attribute.
        bins: of each numeric attribute, at least 1, the bin of missing values not counted.
        weights: of the records.

    Raises:
        ConfigurationError: there is no such attribute, or a number of bins below 1.
    """
    factors = []
    for name, count in zip((first, second), bins, strict=True):
        attribute = source.schema.find(name)
        if attribute is None:
            names = ", ".join(a.name for a in source.schema.attributes)
            raise ConfigurationError(f"the source has no attribute {name!r}; it has {names}")
        factors.append(attribute_bins(source, attribute, _at_least("bins", count, 1), weights))
    return ProductBins(first=factors[0], second=factors[1])


def score_bins(
    hypothesis: Mlp, source: Records, bins: int, weights: Weights = None, *, apart: bool = False
) -> ScoreBins:
    """Bins of a network's logit that hold even shares of the source; ties may leave fewer.

    Args:
        hypothesis: a network that the source's records fit.
        source: n records; with none there is one bin.
        bins: at least 1.
        weights: of the records, e.g. large where the learner is unsure.
        apart: cut at the threshold of the two predicted classes as well, so that no bin holds both: one bin more at
            most.

    Raises:
        ConfigurationError: a number of bins below 1.
    """
    edges = _even_edges(hypothesis.logits(source), bins, weights)
    if apart:
        # A logit of 0 is class 0; the least one of class 1 is a step of 2^-24.
        edges = tuple(sorted({*edges, 1 / PRODUCT_STEPS}))
    return ScoreBins(hypothesis=hypothesis, edges=edges)


def projection_bins(
    features: FeatureMap,
    source: Records,
    directions: NDArray[np.float64],
    bins: Sequence[int],
    weights: Weights = None,
) -> ProjectionBins:
    """Bins along given directions, each direction's bins holding even shares of the source; ties may leave fewer.

    Directions are scaled to length 1 before they are rounded to the grid, so that edges are in units of the map
    (standard deviations, of a standardising one).

    Args:
        features: the map whose points are projected.
        source: n records.
        directions: (r, width), e.g. the rows of a learned linear map, or principal axes; at most 16, none 0.
        bins: of each direction, at least 1; the cells are their product.
        weights: of the records.

    Raises:
        ConfigurationError: shapes that do not fit, a direction that is 0 or not finite, or a number of bins below 1.
    """
    rows = np.atleast_2d(np.asarray(directions, np.float64))
    if rows.ndim != 2 or rows.shape != (len(bins), features.width):
        raise ConfigurationError(
            f"directions have shape {rows.shape}; wanted is one row of {features.width} numbers for each of "
            f"{len(bins)} numbers of bins"
        )
    # By the largest entry first: a square of 1e-200 is 0, one of 1e200 infinite.
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if not (np.isfinite(largest) & (largest > 0)).all():
        raise ConfigurationError("a direction is 0 or not finite; leave it out")
    rows = rows / largest
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    bare = ProjectionBins.of(features, rows, ((),) * len(rows))
    projections = bare.projections(source).T
    edges = tuple(_even_edges(values, count, weights) for values, count in zip(projections, bins, strict=True))
    return ProjectionBins(features=features, directions=bare.directions, edges=edges)


def random_projection_bins(
    features: FeatureMap, source: Records, bins: Sequence[int], seed: int, weights: Weights = None
) -> ProjectionBins:
    """`projection_bins` along directions drawn uniformly on the sphere, one for each number of bins."""
    directions = np.random.default_rng(seed).normal(size=(len(bins), features.width))
    return projection_bins(features, source, directions, bins, weights)


def tree_leaves(
    features: FeatureMap,
    source: Records,
    leaves: int,
    *,
    target: NDArray[np.float64] | None = None,
    weights: Weights = None,
    least: int = 1,
) -> TreeLeaves:
    """A tree of axis-aligned splits grown on the source, leaf by leaf.

    Without a target it is a k-d tree (Bentley 1975): of all leaves the heaviest is cut next, as near to its middle as
    its records allow, on the coordinate of greatest variance; a coordinate that only allows an uneven cut, of shares
    s and 1 - s, counts with 4 s (1 - s) times its variance. With a target it is grown best first like a regression
    tree (Breiman et al. 1984): of all cuts of all leaves the next is the one that takes most from the target's
    weighted sum of squares within leaves. Where no cut takes anything, the heaviest leaf is cut as without a target.

    Cuts lie in the middle between two neighbouring values of the source. Where not even one cut is possible, the one
    node of the tree sends the whole source to leaf 0.

    Args:
        features: the map whose coordinates are cut.
        source: n records.
        leaves: at least 2 and at most 500,001; fewer are made where no leaf can be cut any more.
        target: (n,) or (n, t), e.g. a soft label, or a label's uncertainty, for each record; None cuts evenly.
        weights: of the records; a leaf's weight is the sum of its records'.
        least: records of the source in each leaf, at least 1.

    Raises:
        ConfigurationError: numbers out of range, or a target or weights of another length than the source.
    """
    _at_least("leaves", leaves, 2)
    _at_least("least", least, 1)
    if leaves > MOST_LEAVES:
        raise ConfigurationError(f"leaves is {leaves}; at most {MOST_LEAVES} can be asked")
    search = SplitSearch.of(features.points(source), target, weights, least)
    root = search.root()
    open_leaves = [(*search.priority(root), 0)]
    grown = [root]
    parents = [(-1, 0)]
    depths = [0]
    nodes: list[list[int]] = []
    node_of: dict[int, int] = {}
    while open_leaves and len(nodes) < leaves - 1:
        _, _, index = heappop(open_leaves)
        split = grown[index].split
        if split is None or depths[index] == MOST_DEPTH:
            continue
        node_of[index] = len(nodes)
        nodes.append([split.coordinate, split.threshold, 0, 0])
        for side, part in enumerate(search.cut(grown[index])):
            parents.append((index, side))
            depths.append(depths[index] + 1)
            heappush(open_leaves, (*search.priority(part), len(grown)))
            grown.append(part)
        grown[index] = grown[index].emptied()
    if not nodes:
        return TreeLeaves.of(features, np.array([[0, MOST_COORDINATE * STEPS, -1, -2]]))
    leaf = 0
    for index, (parent, side) in enumerate(parents[1:], start=1):
        if index in node_of:
            nodes[node_of[parent]][2 + side] = node_of[index]
        else:
            leaf += 1
            nodes[node_of[parent]][2 + side] = -leaf
    return TreeLeaves.of(features, np.array(nodes))


def _even_edges(steps: NDArray[np.float64], bins: int, weights: Weights) -> tuple[float, ...]:
    """Edges in units, on the grid of 2^-24, between bins of even mass of whole numbers of steps."""
    _at_least("bins", bins, 1)
    if not len(steps):
        return ()
    cuts = np.unique(np.rint(quantiles(steps, np.linspace(0, 1, bins + 1)[1:-1], weights)))
    return tuple(float(cut) / PRODUCT_STEPS for cut in cuts if cut > steps.min())


def _at_least(name: str, value: int, least: int) -> int:
    if value < least:
        raise ConfigurationError(f"{name} is {value}; it must be at least {least}")
    return value
