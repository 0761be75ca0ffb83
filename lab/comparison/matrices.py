"""Records as the matrices that other libraries take: no missing values, no levels, and bounds that cost no privacy.

Everything is decided on the learner's source alone, which is public to it: what stands for a missing value, and the
range of every column. A peer may use it as it would use a steward's declared bounds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.records import MISSING_CODE, Records
from protocol.schema import CategoricalAttribute

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Matrices:
    """One split as matrices with the same p columns: a numeric attribute has one, a categorical one has one a level."""

    train: Matrix  # (n, p) float64, all private records; finite
    labels: NDArray[np.int64]  # (n,) int64 in {0, 1}
    test: Matrix  # (m, p)
    test_labels: NDArray[np.int64]  # (m,) int64 in {0, 1}
    source: Matrix  # (s, p) the learner's own records
    lower: Vector  # (p,) least value of each column in the source; 0 for a level's
    upper: Vector  # (p,) greatest, above `lower`; 1 for a level's
    columns: tuple[str, ...]  # (p,) names: the attribute's, or "attribute=level"


def make_matrices(
    source: Records, private: Records, private_labels: NDArray[np.bool_], test: Records, test_labels: NDArray[np.bool_]
) -> Matrices:
    """Impute by the source's median and most frequent level, and encode levels one-hot.

    A level that no schema declares has no column of its own: all columns of its attribute are 0. Values outside the
    source's range stay outside; clipping to the bounds is the peer's affair.
    """
    blocks: list[list[Matrix]] = [[], [], []]
    lower: list[float] = []
    upper: list[float] = []
    columns: list[str] = []
    everyone = (source, private, test)
    for attribute in source.schema.attributes:
        if isinstance(attribute, CategoricalAttribute):
            known = source.column(attribute.name)
            counted = np.bincount(known[known != MISSING_CODE], minlength=1)
            mode = int(np.argmax(counted))
            levels = range(len(attribute.levels))
            for block, records in zip(blocks, everyone, strict=True):
                codes = np.where(records.column(attribute.name) == MISSING_CODE, mode, records.column(attribute.name))
                block.append((codes[:, None] == np.array(levels)).astype(np.float64))
            lower += [0.0] * len(levels)
            upper += [1.0] * len(levels)
            columns += [f"{attribute.name}={level}" for level in attribute.levels]
            continue
        values = source.column(attribute.name)
        known_values = values[~np.isnan(values)]
        if not len(known_values):
            known_values = np.array([attribute.lower])
        median = float(np.median(known_values))
        for block, records in zip(blocks, everyone, strict=True):
            column = records.column(attribute.name)
            block.append(np.where(np.isnan(column), median, column)[:, None].astype(np.float64))
        least, most = float(known_values.min()), float(known_values.max())
        lower.append(least)
        # A peer divides by the range; a column that is constant in the source gets that of its declared bounds.
        upper.append(most if most > least else max(attribute.upper, np.nextafter(least, np.inf)))
        columns.append(attribute.name)
    joined = [np.hstack(block) for block in blocks]
    return Matrices(
        train=joined[1],
        labels=private_labels.astype(np.int64),
        test=joined[2],
        test_labels=test_labels.astype(np.int64),
        source=joined[0],
        lower=np.array(lower),
        upper=np.array(upper),
        columns=tuple(columns),
    )
