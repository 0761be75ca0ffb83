"""Scaling that costs no privacy: all of it is decided on the learner's source, which is public."""

from collections.abc import Sequence

import numpy as np

from lab.peers.task import Matrix

DEVIATIONS = 3.0
"""Standardised values are clipped to this many."""


def standardise(source: Matrix, records: Matrix) -> Matrix:
    """Subtract the source's means, divide by its standard deviations (1 where 0)."""
    deviation = source.std(axis=0)
    scaled: Matrix = (records - source.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return scaled


def clipped(source: Matrix, records: Matrix) -> Matrix:
    """`standardise`, clipped to +-`DEVIATIONS`."""
    return np.clip(standardise(source, records), -DEVIATIONS, DEVIATIONS)


def ranks(source: Matrix, records: Matrix) -> Matrix:
    """Each value's mid-rank among the source's values of its column, in [-1, 1]: about uniform on the source."""
    ordered = np.sort(source, axis=0)
    columns = [
        np.searchsorted(ordered[:, place], column, "left") + np.searchsorted(ordered[:, place], column, "right")
        for place, column in enumerate(records.T)
    ]
    return np.stack(columns, axis=1) / len(source) - 1.0


def attribute_columns(columns: Sequence[str]) -> list[tuple[int, ...]]:
    """The columns of each attribute, in order of first appearance: one of numbers, or one a level.

    Columns "attribute=level" of the same attribute are one categorical attribute; any other column is numeric.
    """
    found: dict[tuple[str, int], list[int]] = {}
    for place, name in enumerate(columns):
        attribute, is_level, _ = name.partition("=")
        found.setdefault((attribute, -1) if is_level else (name, place), []).append(place)
    return [tuple(places) for places in found.values()]
