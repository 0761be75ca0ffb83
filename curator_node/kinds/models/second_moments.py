"""Linear regression and principal components: exact sums of products."""

import numpy as np
from numpy.typing import NDArray

from protocol.kinds.models import LinearRegression, Mapped, PrincipalComponents
from protocol.records import LABEL_STEPS, Records


def fit(
    method: LinearRegression | PrincipalComponents,
    body: Mapped,
    records: Records,
    labels: NDArray[np.unsignedinteger],
) -> NDArray[np.int64]:
    """See `protocol.kinds.models.second_moments.split_moments` for the order.

    Products of whole numbers of at most 2^24, added over a block of at most 2^18 records: exact in whatever order.
    """
    size = method.points.coordinates
    products, with_label = np.zeros((size, size), np.int64), np.zeros(size + 1, np.int64)
    for block, points in body.features.blocks(records, size):
        rows = method.points.rows(points)
        products += (rows.T @ rows).astype(np.int64)
        if isinstance(method, LinearRegression):
            y = _label_steps(labels[block], method.label_steps)
            with_label += np.append(y @ rows, y @ y).astype(np.int64)
    told = [products[np.triu_indices(size)]]
    return np.concatenate([*told, with_label] if isinstance(method, LinearRegression) else told)


def _label_steps(labels: NDArray[np.unsignedinteger], most: int) -> NDArray[np.float64]:
    """Labels 0 .. 4096 of their range as whole numbers within +-most, rounded towards 0."""
    steps: NDArray[np.float64] = np.trunc((2.0 * labels - LABEL_STEPS) * most / LABEL_STEPS)
    return steps
