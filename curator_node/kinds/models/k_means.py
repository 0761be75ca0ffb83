"""k-means: the exact sums of one iteration, about centres that earlier ones released."""

import numpy as np
from numpy.typing import NDArray

from protocol.kinds.models import Centres, KMeans
from protocol.records import Records


def sums_about(method: KMeans, body: Centres, records: Records, centres: NDArray[np.float64]) -> NDArray[np.int64]:
    """Exact sums by cluster, (runs, clusters, coordinates).

    Args:
        method: the plan's.
        body: a checked one.
        records: n of them.
        centres: of each run, (runs, clusters, width) whole numbers; equal ones share their sums.
    """
    different = {each.tobytes(): each for each in centres}
    shape = method.clusters, method.points.coordinates
    sums = {name: np.zeros(shape, np.int64) for name in different}
    for _, points in body.features.blocks(records, max(shape)):
        rows = method.points.rows(points)
        for name, each in different.items():
            member = (method.nearest(rows, each)[:, None] == np.arange(method.clusters)).astype(np.float64)
            # Whole numbers below 2^53 in all: exact in whatever order they are added.
            sums[name] += (member.T @ rows).astype(np.int64)
    return np.stack([sums[each.tobytes()] for each in centres])
