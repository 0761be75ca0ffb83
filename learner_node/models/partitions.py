"""Partitions that a learner draws on its source beyond the paper's bins and k-means cells.

These are products of two attributes' bins, bins of a hypothesis' score, bins of projections, and leaves of a tree. The
tree tries every cut of every coordinate at once. Everything here is computed from the source and from released answers,
so it costs no privacy. Equal arguments give equal partitions, to the last bit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from learner_node.models.source import attribute_bins, quantiles
from protocol.errors import ConfigurationError
from protocol.feature_map import MOST_COORDINATE, STEPS, FeatureMap
from protocol.hypotheses import Mlp
from protocol.partitions import ProductBins, ProjectionBins, ScoreBins, TreeLeaves
from protocol.partitions.grid_edges import PRODUCT_STEPS
from protocol.partitions.tree_leaves import MOST_DEPTH, MOST_NODES
from protocol.records import Records

MOST_LEAVES = MOST_NODES + 1
CHUNK_ENTRIES = 2_000_000
"""Number of cuts compared at once (16 MB for each running sum)."""
LEAST_GAIN = 1e-9
"""Smallest gain of a cut, as a share of the target's sum of squares; less is rounding error."""


@dataclass(frozen=True)
class Split:
    """One cut."""

    gain: float  # what it takes from the target's sum of squares; 0 for an even cut
    coordinate: int  # of the points
    threshold: int  # in grid steps; records at or above it go to the second side


@dataclass(frozen=True)
class Part:
    """The source's records of one leaf."""

    # (width, m) int32; row j holds the m record numbers sorted by coordinate j, ties by number
    order: NDArray[np.int32]
    weight: float  # their total weight
    split: Split | None  # the best cut; None where none is possible

    def emptied(self) -> "Part":
        """A copy without row indices, once its children hold them."""
        return Part(self.order[:, :0], self.weight, self.split)


@dataclass(frozen=True)
class SplitSearch:
    """The records' coordinates, which all leaves share."""

    steps: NDArray[np.int32]  # (width, n) int32 grid steps of the points
    weights: NDArray[np.float64]  # (n,) of the records
    targets: NDArray[np.float64]  # (t, n), each row of weighted mean 0; t = 0 without a target
    least: int  # records on each side of a cut
    least_gain: float  # gains up to this are rounding

    @classmethod
    def of(
        cls,
        points: NDArray[np.float64],
        target: NDArray[np.float64] | None,
        weights: NDArray[np.float64] | None,
        least: int,
    ) -> "SplitSearch":
        """Prepare the search for `tree_leaves`.

        Raises ConfigurationError: target or weights have another length or are not finite, or weights are negative or
            all 0.
        """
        n = len(points)
        heavy = np.ones(n) if weights is None else np.asarray(weights, np.float64)
        if heavy.shape != (n,) or not (np.isfinite(heavy) & (heavy >= 0)).all() or (n and not heavy.any()):
            raise ConfigurationError(f"weights must be {n} finite numbers, none below 0 and not all of them 0")
        columns = np.empty((n, 0)) if target is None else np.asarray(target, np.float64)
        columns = columns[:, None] if columns.ndim == 1 else columns
        if columns.ndim != 2 or len(columns) != n or not np.isfinite(columns).all():
            raise ConfigurationError(f"the target must be finite, one number or one row for each of {n} records")
        targets = np.ascontiguousarray(columns.T)
        if n:
            targets = targets - (targets @ heavy / heavy.sum())[:, None]
        squares = float((targets**2 @ heavy).sum())
        steps = np.ascontiguousarray(points.T, dtype=np.int32)
        return cls(steps, heavy, targets, least, LEAST_GAIN * squares)

    def root(self) -> Part:
        """All records."""
        return self._part(np.argsort(self.steps, axis=1, kind="stable").astype(np.int32))

    @staticmethod
    def priority(part: Part) -> tuple[float, float]:
        """Sort key: leaves of greatest gain, then of greatest weight, are cut first."""
        return (-part.split.gain if part.split else 0.0, -part.weight)

    def cut(self, part: Part) -> tuple[Part, Part]:
        """The two sides of a part's best cut, below and above the threshold."""
        split = part.split
        if split is None:
            raise ValueError("this part cannot be cut")
        above = self.steps[split.coordinate] >= split.threshold
        sides = above[part.order]
        width = len(part.order)
        return self._part(part.order[~sides].reshape(width, -1)), self._part(part.order[sides].reshape(width, -1))

    def _part(self, order: NDArray[np.int32]) -> Part:
        weight = float(self.weights[order[0]].sum())
        return Part(order, weight, self._best(order))

    def _best(self, order: NDArray[np.int32]) -> Split | None:
        """The best cut of sorted records: the one of greatest gain, or an even cut if none gains."""
        even: tuple[float, int, int] | None = None
        guided: tuple[float, int, int] | None = None
        for start, values, part in self._chunks(order):
            lawful = values[:, :-1] < values[:, 1:]
            lawful[:, : self.least - 1] = False
            lawful[:, values.shape[1] - self.least :] = False
            if not lawful.any():
                continue
            running = np.cumsum(self.weights[part], axis=1)
            below, total = running[:, :-1], running[:, -1:]
            # The last of a running sum may differ in its last bit from coordinate to coordinate.
            above = np.maximum(total - below, 0.0)
            spread = values.var(axis=1, dtype=np.float64)[:, None]
            evenness = np.where(lawful, spread * below * above / np.maximum(total, np.finfo(float).tiny) ** 2, -np.inf)
            even = _better(even, evenness, start, values)
            if len(self.targets):
                gains = np.where(lawful, self._gains(part, below, above, total), -np.inf)
                guided = _better(guided, gains, start, values)
        if guided is not None and guided[0] > self.least_gain:
            return Split(*guided)
        return None if even is None else Split(0.0, even[1], even[2])

    def _chunks(self, order: NDArray[np.int32]) -> Iterator[tuple[int, NDArray[np.int32], NDArray[np.int32]]]:
        """(first coordinate, sorted values, record numbers) of a few coordinates at a time."""
        count = order.shape[1]
        if count < 2 * self.least:
            return
        rows = max(1, CHUNK_ENTRIES // count)
        for start in range(0, len(order), rows):
            part = order[start : start + rows]
            yield start, np.take_along_axis(self.steps[start : start + rows], part, axis=1), part

    def _gains(
        self,
        part: NDArray[np.int32],
        below: NDArray[np.float64],
        above: NDArray[np.float64],
        total: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Reduction of the weighted sum of squares by each cut: S_b^2 / W_b + S_a^2 / W_a - S^2 / W."""
        gains = np.zeros_like(below)
        for target in self.targets:
            sums = np.cumsum((self.weights * target)[part], axis=1)
            first, sum_ = sums[:, :-1], sums[:, -1:]
            gains += _ratio(first**2, below) + _ratio((sum_ - first) ** 2, above) - _ratio(sum_**2, total)
        return gains


def _ratio(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quotients, 0 where the denominator is 0."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def _better(
    best: tuple[float, int, int] | None, scores: NDArray[np.float64], start: int, values: NDArray[np.int32]
) -> tuple[float, int, int]:
    """The better of the best so far and the best of `scores`, as (score, coordinate, threshold); ties to the first."""
    row, position = divmod(int(np.argmax(scores)), scores.shape[1])
    score = float(scores[row, position])
    if best is not None and best[0] >= score:
        return best
    low, high = int(values[row, position]), int(values[row, position + 1])
    return score, start + row, (low + high + 1) // 2


Weights = NDArray[np.float64] | None
"""(n,) of the source records, >= 0 and not all 0; None is 1."""


def product_bins(
    source: Records, first: str, second: str, bins: tuple[int, int], weights: Weights = None
) -> ProductBins:
    """The product of two attributes' even bins.

    The bins of each attribute hold even shares of the source; their pairs hold what the attributes' dependence gives
    them. A categorical attribute always has a bin for each level.

    Args:
        source: n records.
        first: name of an attribute.
        second: name of an attribute.
        bins: number of bins of each numeric attribute, at least 1, without the one of missing values.
        weights: weights of the records.

    Raises:
        ConfigurationError: there is no such attribute, or the number of bins is below 1.
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
        weights: weights of the records, e.g. large where the learner is unsure.
        apart: whether to cut at the threshold between the two predicted classes as well, so that no bin holds both.
            This makes at most one more bin.

    Raises:
        ConfigurationError: the number of bins is below 1.
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
        bins: number of bins of each direction, at least 1; the cells are their product.
        weights: weights of the records.

    Raises:
        ConfigurationError: shapes do not fit, a direction is 0 or not finite, or a number of bins is below 1.
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
    tree (Breiman et al. 1984): the next cut, among all leaves, is the one that most reduces the target's weighted sum
    of squares within leaves. Where no cut reduces it, the heaviest leaf is cut as without a target.

    Cuts lie in the middle between two neighbouring values of the source. Where not even one cut is possible, the one
    node of the tree sends the whole source to leaf 0.

    Args:
        features: the map whose coordinates are cut.
        source: n records.
        leaves: at least 2 and at most 500,001; fewer are made where no leaf can be cut any more.
        target: (n,) or (n, t), e.g. a soft label, or a label's uncertainty, for each record; None cuts evenly.
        weights: weights of the records; a leaf's weight is the sum of its records'.
        least: records of the source in each leaf, at least 1.

    Raises:
        ConfigurationError: a number is out of range, or target or weights differ from the source in length.
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
