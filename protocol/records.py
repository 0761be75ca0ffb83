"""Records in the numeric form that partitions and hypotheses read. `record_frames` makes them from data frames."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.schema import NumericAttribute, Schema

MISSING_CODE = -1
"""Code of a missing category. If L levels are declared, these have codes 0 .. L-1, and L is "other"."""
LABEL_STEPS = 4096
"""Number of grid steps in a numeric label's range."""


def label_steps(values: NDArray[np.float64], bounds: tuple[float, float]) -> NDArray[np.float64]:
    """Numeric labels rounded to whole steps of 2^-12 of their range, in 0 .. 4096; values outside are clipped."""
    lower, upper = bounds
    shares = np.clip((values - lower) / (upper - lower), 0.0, 1.0)
    return np.rint(shares * LABEL_STEPS)


@dataclass(frozen=True)
class Records:
    """n encoded records."""

    schema: Schema  # what the columns mean
    # (n, d_numeric) float64, within the schema's bounds, NaN = missing; columns in schema order
    numeric: NDArray[np.float64]
    categorical: NDArray[np.int16]  # (n, d_categorical) int16 codes: level index, L = other, -1 = missing
    # Columns that only a curator's tables count, by name, (n,): outcomes as attributes are encoded, and labels as
    # indices of classes, or steps of 2^-12 of their range. Empty where records have no labels, as a learner's.
    further: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numeric)

    @cached_property
    def positions(self) -> dict[str, tuple[bool, int]]:
        """For each attribute, whether it is numeric, and its column in `numeric` or `categorical`."""
        positions: dict[str, tuple[bool, int]] = {}
        counts = [0, 0]
        for attribute in self.schema.attributes:
            is_numeric = isinstance(attribute, NumericAttribute)
            positions[attribute.name] = (is_numeric, counts[is_numeric])
            counts[is_numeric] += 1
        return positions

    def column(self, name: str) -> NDArray[Any]:
        """The values (float64) or codes (int16) of an attribute, or a column of `further`, shape (n,)."""
        if name in self.further:
            return self.further[name]
        is_numeric, index = self.positions[name]
        return self.numeric[:, index] if is_numeric else self.categorical[:, index]

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> "Records":
        """The records at `rows`, in that order."""
        further = {name: column[rows] for name, column in self.further.items()}
        return Records(self.schema, self.numeric[rows], self.categorical[rows], further)

    def with_further(self, columns: Mapping[str, NDArray[np.generic]]) -> "Records":
        """The same records with these columns beside those of `further`."""
        return replace(self, further={**self.further, **columns})
