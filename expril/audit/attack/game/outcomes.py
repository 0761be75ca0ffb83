"""What a mechanism put out, as one array of rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.errors import ConfigurationError

Rows = NDArray[Any]
"""(n, k), int64 or float64: one outcome a row."""
Mechanism = Callable[[int], NDArray[Any]]
"""n -> (n,) or (n, k): that many independent outcomes on one input."""


def draw(mechanism: Mechanism, count: int, name: str = "the mechanism") -> Rows:
    """Outcomes as rows; truth values become 0 and 1.

    Raises:
        ConfigurationError: the outcomes are no numbers, not finite, or not one row a draw.
    """
    outcomes = np.asarray(mechanism(count))
    if outcomes.ndim not in (1, 2) or outcomes.shape[0] != count or 0 in outcomes.shape:
        raise ConfigurationError(
            f"{name}: asked for {count} outcomes, got an array of shape {outcomes.shape};"
            " give one outcome a row, (n,) or (n, k)"
        )
    if outcomes.dtype.kind in "bui":
        if outcomes.dtype == np.uint64 and outcomes.max() > np.iinfo(np.int64).max:
            raise ConfigurationError(f"{name}: an outcome is above 2^63 - 1; give it as two smaller numbers")
        rows: Rows = outcomes.astype(np.int64)
    elif outcomes.dtype.kind == "f":
        rows = outcomes.astype(np.float64)
        if not np.isfinite(rows).all():
            raise ConfigurationError(f"{name}: an outcome is not finite; give such outcomes a number of their own")
    else:
        raise ConfigurationError(f"{name}: outcomes are of type {outcomes.dtype}; give whole or floating numbers")
    return np.asfortranarray(rows.reshape(count, -1))  # it is read column by column
