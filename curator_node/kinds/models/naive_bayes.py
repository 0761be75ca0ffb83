"""Naive Bayes: exact sums by class, attribute by attribute."""

import numpy as np
from numpy.typing import NDArray

from protocol.kinds.models import Attributes, Moments, NaiveBayes
from protocol.records import Records


def fit(
    method: NaiveBayes, body: Attributes, records: Records, labels: NDArray[np.unsignedinteger]
) -> NDArray[np.int64]:
    """See `NaiveBayes`: tables (cells, classes), one after the other."""
    classes = len(records.schema.classes)
    sizes = method.cells(body, records.schema)
    tables: list[NDArray[np.int64]] = []
    for attribute, size in zip(body.attributes, sizes, strict=True):
        if isinstance(attribute, Moments):
            tables.append(_moments(attribute, method.steps, records, labels))
        else:
            cells = attribute.cells(records) * classes + labels
            tables.append(method.weight * np.bincount(cells, minlength=size * classes).astype(np.int64))
    return np.concatenate(tables)


def _moments(
    attribute: Moments, steps: int, records: Records, labels: NDArray[np.unsignedinteger]
) -> NDArray[np.int64]:
    """Four cells by class, flat; each number by the same single operations, hence exact per record."""
    classes = len(records.schema.classes)
    values = records.column(attribute.attribute).astype(np.float64)
    missing = np.isnan(values)
    shares = (np.clip(values, attribute.lower, attribute.upper) - attribute.lower) / (attribute.upper - attribute.lower)
    u = np.clip(np.rint(np.where(missing, 0.0, shares) * steps), 0, steps)
    parts = np.where(missing, 0.0, [(steps - u) ** 2, 2 * u * (steps - u), u**2])
    # Whole numbers below 2^53 in all: exact in whatever order they are added.
    rows = (*parts, np.where(missing, float(steps**2), 0.0))
    return np.concatenate([np.bincount(labels, weights=row, minlength=classes).astype(np.int64) for row in rows])
