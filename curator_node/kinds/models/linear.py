"""Linear classifiers: the minimiser of regularised losses, rounded to the planned grid."""

import numpy as np
from numpy.typing import NDArray

from curator_node.kinds.models.newton import Losses, minimise
from protocol.kinds.models import KernelSvm, LinearSvm, LogisticRegression, Mapped
from protocol.records import Records

MOST = 2.0**52
"""Larger numbers are cut off; that moves none further."""
MOST_RECORDS = 2**25
"""Up to so many, errors of floats stay within what the tolerance leaves to them: docs/in-site-models.md."""


def fit(
    method: LogisticRegression | LinearSvm | KernelSvm,
    body: Mapped,
    records: Records,
    labels: NDArray[np.unsignedinteger],
) -> NDArray[np.int64]:
    """See `LinearModel`: (coordinates,) whole numbers."""
    rows = np.empty((len(records), method.coordinates), np.int16)
    for block, points in body.features.blocks(records, method.coordinates):
        rows[block] = method.rows(points)
    losses = Losses(
        rows=rows,
        signs=2.0 * labels.astype(np.float64) - 1.0,
        unit=method.unit,
        length=method.length_above / method.unit,
        regulariser=float(method.regulariser.fraction),
        margin=method.margin,
        sharpness=method.sharpness_of_loss,
    )
    steps = minimise(losses) * (losses.regulariser * method.steps)
    return np.clip(np.rint(steps), -MOST, MOST).astype(np.int64)
