"""What a curator and a learner compute with a million records, over the plain call of numpy or scikit-learn.

Each ratio is the plain call's time over ours, both by the processor on one thread and in turn, the least of the
repeats. Ours are exact: same ties and same counts on any processor.

* counting: errors in 22 partitions of ten bins, of a workload that is kept. Plain is two `numpy.bincount`s for each
  partition, of the cells of records that err and of the others.
* cells of a nearest centre: `KMeans.predict`, whose ties and last bits depend on the batch.
* leaves of a tree: `DecisionTreeClassifier.apply`, which compares in single precision.
* projections: a product in numpy, and a search for each direction. Ours first moves records to the grid.

What bounds the last three is timed alone: moving the points to the grid, and of centres the product in double precision
and its comparison. Both are what makes ties exact, and the plain calls take neither the grid nor its ties.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.cluster import KMeans
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from benchmarks.common import Result, at_least
from curator_node.records.workloads import WorkloadCache
from protocol.feature_map import STEPS, FeatureMap, NumericFeature
from protocol.partitions import FeatureBins, NearestCentre, Partition, ProjectionBins, TreeLeaves
from protocol.records import Records
from protocol.schema import NumericAttribute, Schema

RECORDS, ATTRIBUTES, BINS = 1_000_000, 22, 10
WIDTH, CENTRES, LEAVES, DIRECTIONS = 10, 100, 64, 4
BLOCK = 1024
REPEATS = 5
COUNTED, PLACED = 35.0, 1.0

Task = Callable[[], object]


def run() -> list[Result]:
    """See the module."""
    rng = np.random.default_rng(0)
    with threadpool_limits(1):
        return [_counting(rng), *_placing(rng)]


def _counting(rng: np.random.Generator) -> Result:
    records = _records(rng.random((RECORDS, ATTRIBUTES)), 0.0)
    edges = tuple(np.linspace(0.0, 1.0, BINS + 1)[1:-1].tolist())
    partitions = tuple(FeatureBins(f"n{i}", edges) for i in range(ATTRIBUTES))
    errors = rng.random(RECORDS) < 0.3
    cells = [partition.cells(records) for partition in partitions]
    cache = WorkloadCache(records, 2**30)
    # Of another commit's curator, too: it has one form of workloads.
    workload = getattr(cache, "of_errors", cache.get)(partitions)

    def plain() -> None:
        for column in cells:
            for chosen in (errors, ~errors):
                np.bincount(column[chosen], minlength=BINS + 1)

    name = f"counting errors in {ATTRIBUTES} partitions of {BINS} bins, over numpy"
    return _ratio(name, COUNTED, plain, lambda: workload.count(errors))


def _placing(rng: np.random.Generator) -> Iterator[Result]:
    points = rng.normal(size=(RECORDS, WIDTH))
    records = _records(points, -50.0)
    features = FeatureMap(tuple(NumericFeature(f"n{i}", 0.0, 1.0, 0.0) for i in range(WIDTH)))

    def placed(name: str, plain: Task, partition: Partition) -> Result:
        return _ratio(name, PLACED, plain, lambda: partition.cells(records))

    centres = NearestCentre.of(features, rng.normal(size=(CENTRES, WIDTH)))
    means = KMeans(CENTRES, init=centres.grid / STEPS, n_init=1, max_iter=1).fit(points[:10_000])
    means.cluster_centers_ = centres.grid / STEPS
    yield placed(f"nearest of {CENTRES} centres, over scikit-learn", lambda: means.predict(points), centres)
    name = f"nearest of {CENTRES} centres, over scikit-learn, the product and its comparison alone"
    yield _ratio(name, None, lambda: means.predict(points), lambda: _compared(points, centres.grid))
    tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES, random_state=0)
    tree.fit(points[:20_000], points[:20_000, 0] * points[:20_000, 1] > 0)
    leaves = _leaves(features, tree)
    name = f"one of {LEAVES} leaves at most {tree.tree_.max_depth} deep, over scikit-learn"
    yield placed(name, lambda: tree.apply(points), leaves)

    def moved() -> None:
        for _ in features.blocks(records):
            pass

    name = f"one of {LEAVES} leaves, over scikit-learn, moving points to the grid alone"
    yield _ratio(name, None, lambda: tree.apply(points), moved)
    directions, edge = rng.normal(size=(DIRECTIONS, WIDTH)), np.zeros(1)
    yield placed(
        f"bins of {DIRECTIONS} projections, over numpy",
        lambda: [np.searchsorted(edge, values, side="right") for values in (points @ directions.T).T],
        ProjectionBins.of(features, directions, ((0.0,),) * DIRECTIONS),
    )


def _compared(points: np.ndarray, centres: np.ndarray) -> None:
    """The nearest centre of points that are on the grid already, in blocks that fit the cache."""
    tile = np.ascontiguousarray(centres.T)
    product = np.empty((BLOCK, len(centres)))
    for first in range(0, len(points), BLOCK):
        block = points[first : first + BLOCK]
        np.argmax(np.matmul(block, tile, out=product[: len(block)]), axis=1)


def _leaves(features: FeatureMap, tree: DecisionTreeClassifier) -> TreeLeaves:
    """The same splits, thresholds rounded up to the grid."""
    nodes = tree.tree_
    inner = {node: place for place, node in enumerate(np.flatnonzero(nodes.children_left >= 0).tolist())}
    ends = {node: -1 - place for place, node in enumerate(np.flatnonzero(nodes.children_left < 0).tolist())}
    table = [
        [nodes.feature[node], int(np.floor(nodes.threshold[node] * STEPS)) + 1]
        + [inner.get(child, ends.get(child)) for child in (nodes.children_left[node], nodes.children_right[node])]
        for node in inner
    ]
    return TreeLeaves.of(features, np.array(table))


def _records(values: np.ndarray, lower: float) -> Records:
    attributes = tuple(NumericAttribute(f"n{i}", lower, 50.0) for i in range(values.shape[1]))
    return Records(Schema(attributes, "y", ("no", "yes")), values, np.empty((len(values), 0), np.int16))


def _ratio(name: str, target: float | None, plain: Task, ours: Task) -> Result:
    times: list[list[float]] = [[], []]
    for _ in range(REPEATS):
        for task, durations in zip((plain, ours), times, strict=True):
            start = time.process_time()
            task()
            durations.append(time.process_time() - start)
    theirs, own = map(min, times)
    ratios = [a / b for a, b in zip(*times, strict=True)]
    note = f"{RECORDS:,} records: {theirs * 1e3:.1f} ms, ours {own * 1e3:.1f}"
    ends = min(ratios), max(ratios)
    if target is None:
        return Result(name, theirs / own, "times", spread=ends, note=note)
    return at_least(name, theirs / own, target, "times", spread=ends, note=note)
