"""Counting and encoding at a curator with a million records.

The baseline of counting is a loop over the attributes of `numpy.histogram` with weights, once for the records where
the hypothesis errs and once for the others: the same two vectors of counts, which is asserted. It gets contiguous
columns and uniform bins (`bins=10, range=(0, 1)`), numpy's fastest case, which ours does not need; the same with the
edges that a query states is reported beside it. The values lie in the middle of a 2^-20 grid, so that no value
is near enough to an edge for rounding to matter.
"""

import numpy as np
from scipy.spatial.distance import cdist

from benchmarks.common import Result, at_least, at_most, bins_of, interleaved, median, schema_of, seconds, spread
from curator_node.records.workloads import encode_workload
from protocol.feature_map import STEPS, FeatureMap, NumericFeature
from protocol.partitions import NearestCentre
from protocol.records import Records

RECORDS, ATTRIBUTES, BINS, CENTRES = 1_000_000, 22, 10, 300
REPEATS = 9
BLOCK = 10_000


def run() -> list[Result]:
    """See the module."""
    rng = np.random.default_rng(0)
    values = (rng.integers(0, 2**20, (RECORDS, ATTRIBUTES)) + 0.5) / 2**20
    errors = rng.random(RECORDS) < 0.3
    records = Records(schema_of(ATTRIBUTES), values, np.empty((RECORDS, 0), np.int16))
    return [*_counting(records, errors), *_nearest_centres(records)]


def _counting(records: Records, errors: np.ndarray) -> list[Result]:
    partitions = bins_of(ATTRIBUTES, BINS)
    encoding = [seconds(lambda: encode_workload(partitions, records)) for _ in range(3)]
    workload = encode_workload(partitions, records)
    columns = np.ascontiguousarray(records.numeric.T)
    weights = errors.astype(np.float64), (~errors).astype(np.float64)

    def histograms(weight: np.ndarray) -> np.ndarray:
        return np.array([np.histogram(column, BINS, (0.0, 1.0), weights=weight)[0] for column in columns])

    def baseline() -> tuple[np.ndarray, np.ndarray]:
        return histograms(weights[0]), histograms(weights[1])

    for counted, expected in zip(workload.count(errors), baseline(), strict=True):
        # The last of the BINS + 1 cells of an attribute counts missing values: there are none.
        blocks = counted.reshape(ATTRIBUTES, BINS + 1)
        assert np.array_equal(blocks[:, :BINS], expected)
        assert not blocks[:, BINS].any()
    edges = np.linspace(0, 1, BINS + 1)

    def baseline_with_edges() -> None:
        for weight in weights:
            for column in columns:
                np.histogram(column, edges, weights=weight)

    ours, theirs, one, stated = interleaved(
        [lambda: workload.count(errors), baseline, lambda: histograms(weights[0]), baseline_with_edges], REPEATS
    )
    size = f"{RECORDS:,} records x {ATTRIBUTES} attributes x {BINS} bins"
    return [
        at_least(
            "counting, times faster than numpy.histogram with weights",
            median(theirs) / median(ours),
            25,
            "times",
            spread=(min(theirs) / max(ours), max(theirs) / min(ours)),
            note=f"{size}; both give errors and correct records per bin, equality asserted",
        ),
        Result(
            "counting, times faster than one numpy.histogram pass",
            median(one) / median(ours),
            "times",
            note="against half of the counts, errors only",
        ),
        Result(
            "counting, times faster than numpy.histogram with stated edges",
            median(stated) / median(ours),
            "times",
            spread=(min(stated) / max(ours), max(stated) / min(ours)),
        ),
        Result("counting", median(ours) * 1e3, "ms", spread=spread(ours, 1e3), note=size),
        Result("numpy.histogram, both passes", median(theirs) * 1e3, "ms", spread=spread(theirs, 1e3)),
        at_most(
            "memory kept per record and partition",
            workload.nbytes / (RECORDS * ATTRIBUTES),
            1,
            "byte",
            note="EncodedWorkload.nbytes",
        ),
        Result("encoding", median(encoding) * 1e3, "ms", spread=spread(encoding, 1e3), note="once per workload"),
    ]


def _nearest_centres(records: Records) -> list[Result]:
    features = FeatureMap(
        features=tuple(
            NumericFeature(attribute=f"a{i}", offset=0.5, factor=3.0, imputation=0.5) for i in range(ATTRIBUTES)
        )
    )
    centres = np.random.default_rng(1).normal(0, 1, (CENTRES, ATTRIBUTES))
    partition = NearestCentre.of(features, centres)
    grid = partition.grid / STEPS

    def baseline() -> np.ndarray:
        cells = np.empty(RECORDS, np.intp)
        for start in range(0, RECORDS, BLOCK):
            block = slice(start, start + BLOCK)
            points = features.points(records.take(block)) / STEPS
            cells[block] = cdist(points, grid).argmin(axis=1)
        return cells

    same = float(np.mean(partition.cells(records) == baseline()))
    assert same > 0.999999  # cdist rounds, so a tie may fall to the other centre
    ours, theirs = interleaved([lambda: encode_workload((partition,), records), baseline], 3, warm_up=0)
    return [
        Result(
            "nearest-centre encoding",
            median(ours) * 1e3,
            "ms",
            spread=spread(ours, 1e3),
            note=f"{RECORDS:,} records x {ATTRIBUTES} coordinates, {CENTRES} centres",
        ),
        Result(
            "nearest-centre encoding, times faster than a scipy cdist loop",
            median(theirs) / median(ours),
            "times",
            spread=(min(theirs) / max(ours), max(theirs) / min(ours)),
        ),
    ]
