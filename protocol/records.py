"""Records in the numeric form that partitions and hypotheses read. `record_frames` makes them from data frames."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from protocol.schema import NumericAttribute, Schema

MISSING_CODE = -1
"""Code of a missing category. If L levels are declared, these have codes 0 .. L-1, and L is "other"."""
LABEL_STEPS = 4096
"""Number of grid steps in a numeric label's range."""


@dataclass(frozen=True)
class Records:
    """n encoded records."""

    schema: Schema  # what the columns mean
    # (n, d_numeric) float64, within the schema's bounds, NaN = missing; columns in schema order
    numeric: NDArray[np.float64]
    categorical: NDArray[np.int16]  # (n, d_categorical) int16 codes: level index, L = other, -1 = missing

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

    def column(self, name: str) -> NDArray[np.float64] | NDArray[np.int16]:
        """The values (float64) or codes (int16) of one attribute, shape (n,)."""
        is_numeric, index = self.positions[name]
        return self.numeric[:, index] if is_numeric else self.categorical[:, index]

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> "Records":
        """The records at `rows`, in that order."""
        return Records(self.schema, self.numeric[rows], self.categorical[rows])
