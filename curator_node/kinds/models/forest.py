"""A forest of random trees: exact class counts of all leaves."""

import numpy as np
from numpy.typing import NDArray

from protocol.kinds.models import Forest, Mapped
from protocol.records import Records


def fit(method: Forest, body: Mapped, records: Records, labels: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
    """Tables (leaves, classes), tree by tree."""
    classes = len(records.schema.classes)
    size = method.leaves * classes
    return np.concatenate(
        [np.bincount(tree.cells(records) * classes + labels, minlength=size) for tree in method.partitions(body)]
    )
