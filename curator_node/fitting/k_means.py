"""k-means: each iteration's exact sums get their noise before the next one looks at them."""

import numpy as np
from numpy.typing import NDArray

from protocol.models import Centres, KMeans
from protocol.records import Records


def fit(method: KMeans, body: Centres, records: Records, noise: NDArray[np.int64]) -> NDArray[np.int64]:
    """Several runs from the same centres, each with noise of its own.

    Args:
        method: the plan's.
        body: a checked one.
        records: n of them.
        noise: (runs, k), what is added to each number.

    Returns:
        (runs, k) noisy numbers, each run's as `KMeans` orders them.
    """
    runs = len(noise)
    shaped = noise.reshape(runs, method.iterations, method.clusters, method.points.coordinates)
    released = np.empty_like(shaped)
    centres = [body.table(method.points.width)] * runs
    for iteration in range(method.iterations):
        sums = _sums(method, body, records, centres)
        released[:, iteration] = sums + shaped[:, iteration]
        centres = [method.next_centres(*each) for each in zip(centres, released[:, iteration], strict=True)]
    return released.reshape(noise.shape)


def _sums(method: KMeans, body: Centres, records: Records, centres: list[NDArray[np.float64]]) -> NDArray[np.int64]:
    """Exact sums by cluster for each run's centres, (runs, clusters, coordinates); equal centres share theirs."""
    different = {each.tobytes(): each for each in centres}
    shape = method.clusters, method.points.coordinates
    sums = {name: np.zeros(shape, np.int64) for name in different}
    for _, points in body.features.blocks(records, max(shape)):
        rows = method.points.rows(points)
        for name, each in different.items():
            member = (method.nearest(rows, each)[:, None] == np.arange(method.clusters)).astype(np.float64)
            # Whole numbers below 2^53 in all: exact in whatever order.
            sums[name] += (member.T @ rows).astype(np.int64)
    return np.stack([sums[each.tobytes()] for each in centres])
