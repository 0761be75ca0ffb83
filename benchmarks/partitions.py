"""Encoding a million records at a curator, one row for each kind of partition, and what the cache saves.

Each kind runs beside a named alternative on the same records in the same run. The alternatives get finished points
(scaled, imputed, rounded to the grid) for nothing and work in ordinary floating point; ours map the records
themselves, exactly. That both give the same cells is asserted, up to records whose distance or logit ties in rounding.

The alternatives use one core, KMeans excepted, which is told to use as many as ours.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from benchmarks.common import Result, interleaved, machine, median, schema_of, seconds, spread
from curator_node.records.workloads import WorkloadCache, encode_workload
from learner_node.models.partitions import product_bins, random_projection_bins, score_bins, tree_leaves
from learner_node.models.source import attribute_bins
from protocol.feature_map import STEPS, FeatureMap, NumericFeature
from protocol.hypotheses import Mlp
from protocol.partitions import FeatureBins, NearestCentre, Partition, ProductBins, ProjectionBins, TreeLeaves
from protocol.records import Records

RECORDS, ATTRIBUTES, CELLS = 1_000_000, 22, 300
SOURCE = 10_000
REPEATS = 3
SAME = 0.99999

Cells = Callable[[], np.ndarray]


def run() -> list[Result]:
    """See the module."""
    rng = np.random.default_rng(0)
    records = Records(schema_of(ATTRIBUTES), rng.random((RECORDS, ATTRIBUTES)), np.empty((RECORDS, 0), np.int16))
    source = records.take(slice(SOURCE))
    features = FeatureMap(tuple(NumericFeature(f"a{i}", 0.5, 12**0.5, 0.5) for i in range(ATTRIBUTES)))
    points = features.points(records) / STEPS
    widths = (ATTRIBUTES, 64, 64, 1)
    layers = [(rng.normal(0, 0.2, (out, into)), rng.normal(0, 0.1, out)) for into, out in pairwise(widths)]
    centres = NearestCentre.of(features, rng.normal(0, 1, (CELLS, ATTRIBUTES)))
    bins = attribute_bins(source, source.schema.attributes[0], 10)
    product = product_bins(source, "a0", "a1", (17, 17))
    network = Mlp.of(features, [(weight.astype(np.float32), bias.astype(np.float32)) for weight, bias in layers])
    score = score_bins(network, source, CELLS)
    projections = random_projection_bins(features, source, (17, 18), seed=1)
    target = (source.numeric[:, 0] * source.numeric[:, 1] > 0.2).astype(float)
    tree = tree_leaves(features, source, CELLS, target=target, least=8)
    regressor = DecisionTreeRegressor(max_leaf_nodes=CELLS, min_samples_leaf=8, random_state=0)
    regressor.fit(features.points(source) / STEPS, target)
    results = [
        *_compare("feature_bins", bins, records, {"numpy.digitize": lambda: _digits(records, bins)}),
        *_compare(
            "nearest_centre",
            centres,
            records,
            {
                "scikit-learn KMeans.predict": _kmeans(points, centres.grid / STEPS),
                "a scipy cdist loop": lambda: _cdist(points, centres.grid / STEPS),
            },
        ),
        *_compare("product_bins", product, records, {"numpy.digitize twice": lambda: _pairs(records, product)}),
        *_compare(
            "score_bins",
            score,
            records,
            {"numpy in one piece": lambda: np.digitize(_plain_logits(points, layers), score.edges)},
            same=0.9,
            note="network 22-64-64-1; grid weights against float ones, so cells differ near edges",
        ),
        *_compare(
            "projection_bins",
            projections,
            records,
            {"numpy in one piece": lambda: _plain_projections(points, projections)},
        ),
        *_compare(
            "tree_leaves",
            tree,
            records,
            {"scikit-learn DecisionTreeRegressor.apply": lambda: regressor.apply(points)},
            same=0.0,
            note=f"two trees of {CELLS} leaves grown on the same source and target; depth {_depth(tree)} against "
            f"{regressor.get_depth()}",
        ),
    ]
    return [*results, *_cached(centres, records, rng)]


def _compare(
    kind: str,
    partition: Partition,
    records: Records,
    alternatives: dict[str, Cells],
    *,
    same: float = SAME,
    note: str = "",
) -> list[Result]:
    k = partition.cell_count(records.schema)
    found: dict[str, np.ndarray] = {}

    def keeping(name: str, cells: Cells) -> Callable[[], None]:
        def task() -> None:
            found[name] = cells()

        return task

    tasks = [keeping(name, cells) for name, cells in alternatives.items()]
    encoding, *others = interleaved([lambda: encode_workload((partition,), records), *tasks], REPEATS, warm_up=0)
    if same:
        ours = partition.cells(records)
        for name, cells in found.items():
            agreement = float(np.mean(cells == ours))
            assert agreement >= same, (kind, name, agreement)
    size = f"{RECORDS:,} records x {ATTRIBUTES} attributes, {k} cells"
    return [
        Result(
            f"{kind}, encoding",
            median(encoding) * 1e3,
            "ms",
            spread=spread(encoding, 1e3),
            note="; ".join(filter(None, (size, note))),
        ),
        *(
            Result(
                f"{kind}, times faster than {name}",
                median(taken) / median(encoding),
                "times",
                spread=(min(taken) / max(encoding), max(taken) / min(encoding)),
            )
            for name, taken in zip(alternatives, others, strict=True)
        ),
    ]


def _cached(centres: NearestCentre, records: Records, rng: np.random.Generator) -> list[Result]:
    """A query with a new hypothesis' errors over cells asked for the first time, and over the same cells again."""
    errors = rng.random(RECORDS) < 0.3
    first, again = [], []
    for _ in range(REPEATS):
        get = WorkloadCache(records, 2**24).get
        first.append(seconds(partial(_count, get, centres, errors)))
        again += [seconds(partial(_count, get, centres, ~errors)) for _ in range(REPEATS)]
    return [
        Result("nearest_centre, counting, not cached", median(first) * 1e3, "ms", spread=spread(first, 1e3)),
        Result("nearest_centre, counting, cached", median(again) * 1e3, "ms", spread=spread(again, 1e3)),
        Result(
            "nearest_centre, times faster where cached",
            median(first) / median(again),
            "times",
            spread=(min(first) / max(again), max(first) / min(again)),
        ),
    ]


def _count(get: Callable, centres: NearestCentre, errors: np.ndarray) -> None:
    get((centres,)).count(errors)


def _digits(records: Records, bins: FeatureBins) -> np.ndarray:
    return np.digitize(records.column(bins.attribute), bins.edges)


def _pairs(records: Records, product: ProductBins) -> np.ndarray:
    first, second = _digits(records, product.first), _digits(records, product.second)
    return first * (len(product.second.edges) + 2) + second


def _kmeans(points: np.ndarray, centres: np.ndarray) -> Cells:
    """A fitted estimator that has been given these centres."""
    means = KMeans(len(centres), init=centres, n_init=1, max_iter=1).fit(points[: 10 * len(centres)])
    means.cluster_centers_ = centres

    def predict() -> np.ndarray:
        with threadpool_limits(int(machine()["cores"])):
            return means.predict(points)

    return predict


def _cdist(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return np.concatenate(
        [cdist(block, centres).argmin(axis=1) for block in np.array_split(points, len(points) // 10_000)]
    )


def _plain_logits(points: np.ndarray, layers: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    values = points
    for weight, bias in layers[:-1]:
        values = np.maximum(values @ weight.T + bias, 0)
    return (values @ layers[-1][0].T + layers[-1][1])[:, 0]


def _plain_projections(points: np.ndarray, partition: ProjectionBins) -> np.ndarray:
    projections = points @ (partition.grid / STEPS).T
    cells = np.zeros(len(points), np.intp)
    for values, edges in zip(projections.T, partition.edges, strict=True):
        cells = cells * (len(edges) + 1) + np.digitize(values, edges)
    return cells


def _depth(tree: TreeLeaves) -> int:
    """Levels of a tree, read off its table of nodes."""
    depths = [1] * len(tree.table)
    for node, (_, _, *children) in enumerate(tree.table):
        for child in children:
            if child > 0:
                depths[child] = depths[node] + 1
    return max(depths)
