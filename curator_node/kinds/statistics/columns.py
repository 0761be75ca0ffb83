"""An attribute, or a numeric label, of the records that have it."""

import numpy as np
from numpy.typing import NDArray

from curator_node.records.dataset import PrivateDataset
from protocol.kinds.statistics.asked import Grid
from protocol.records import LABEL_STEPS
from protocol.schema import NumericAttribute, Schema

FINE_STEPS = 2**16
"""Of an attribute's declared range: estimators add up whole steps, and 2^30 squares of them fit 64 bits."""


def numbers_of(dataset: PrivateDataset, name: str) -> NDArray[np.float64]:
    """Values of a numeric attribute or of a numeric label, (n,), NaN where missing."""
    schema = dataset.schema
    if schema.label_bounds is not None and name == schema.label:
        lower, upper = schema.label_bounds
        return lower + (upper - lower) * (dataset.labels / LABEL_STEPS)
    values: NDArray[np.float64] = dataset.records.column(name)  # type: ignore[assignment]
    return values


def bounds_of(schema: Schema, name: str) -> tuple[float, float]:
    """Declared bounds of a numeric attribute, or of a numeric label."""
    attribute = schema.find(name)
    if isinstance(attribute, NumericAttribute):
        return attribute.lower, attribute.upper
    if schema.label_bounds is None:
        raise ValueError("neither a numeric attribute nor a numeric label")
    return schema.label_bounds


def grid_counts(dataset: PrivateDataset, name: str, grid: Grid) -> NDArray[np.int64]:
    """Records at each point of a grid, (points,); those whose value is missing are at none."""
    values = numbers_of(dataset, name)
    missing = np.isnan(values)
    present = values[~missing] if missing.any() else values
    counts: NDArray[np.int64] = np.bincount(grid.indices(present), minlength=grid.points)
    return counts


def fine_columns(dataset: PrivateDataset, names: tuple[str, ...]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Attributes in steps of 2^-16 of their declared ranges, and which records have all of them.

    Returns:
        (n, d) int64 in 0 .. 2^16, of use only where a record has all of them; (n,) bool.
    """
    values = np.column_stack([numbers_of(dataset, name) for name in names])
    there: NDArray[np.bool_] = np.asarray(~np.isnan(values).any(axis=1))
    known = np.where(there[:, None], values, 0.0)
    grids = [Grid(*bounds_of(dataset.schema, name), FINE_STEPS) for name in names]
    return np.column_stack([grid.indices(known[:, at]) for at, grid in enumerate(grids)]), there
