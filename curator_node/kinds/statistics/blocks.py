"""Sample and aggregate (Nissim, Raskhodnikova and Smith 2007): an estimator on each of k disjoint blocks of records."""

import numpy as np
from numpy.typing import NDArray

from curator_node.kinds.statistics.columns import bounds_of, fine_columns
from curator_node.kinds.statistics.estimates import Block, estimate
from curator_node.records.dataset import PrivateDataset
from protocol.kinds.statistics.asked import Estimate

SPLIT = b"statistic"
"""Name of the split into blocks: it is the same for all questions."""


def block_values(dataset: PrivateDataset, item: Estimate, blocks: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """What an estimator says in each block, moved to the grid, (count,) in 0 .. steps; the constant where nothing.

    A block's value hangs on the records of that block alone.

    Args:
        dataset: of all records.
        item: a checked one.
        blocks: (n,) block of each record, of `PrivateDataset.blocks`.
        count: of blocks.
    """
    steps, there = fine_columns(dataset, item.attributes)
    rows = np.flatnonzero(there)
    rows = rows[np.argsort(blocks[rows], kind="stable")]
    ends = np.cumsum(np.bincount(blocks[rows], minlength=count))
    ranges = tuple(bounds_of(dataset.schema, name) for name in item.attributes)
    found = np.full(count, item.constant, np.int64)
    start = 0
    for at, end in enumerate(ends):
        own = rows[start:end]
        start = end
        said = estimate(item.estimator, Block(steps[own], dataset.labels[own], ranges))
        if said is not None:
            found[at] = item.grid.indices(np.array([said]))[0]
    return found
