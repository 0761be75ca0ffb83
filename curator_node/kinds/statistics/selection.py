"""How much partitions tell of the class: a score for each candidate, in whole numbers."""

import numpy as np
from numpy.typing import NDArray

from curator_node.records.dataset import PrivateDataset
from protocol.kinds.statistics.asked import Selection


def class_scores(dataset: PrivateDataset, item: Selection) -> NDArray[np.int64]:
    """For each candidate: the sum over its cells of the largest weighted count of a class, (candidates,).

    With weights of one that is how many records a stump has right that gives each cell its own majority. A record adds
    0 to W to every score and takes nothing from any.
    """
    classes = len(dataset.schema.classes)
    weights = np.array(item.weights or (1,) * classes, np.int64)
    labels = dataset.labels.astype(np.intp)
    scores = np.zeros(len(item.candidates), np.int64)
    for at, partition in enumerate(item.candidates):
        count = partition.cell_count(dataset.schema) * classes
        cells = partition.cells(dataset.records) * classes + labels
        scores[at] = (np.bincount(cells, minlength=count).reshape(-1, classes) * weights).max(axis=1).sum()
    return scores
