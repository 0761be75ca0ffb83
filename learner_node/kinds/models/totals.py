"""How many private records each class has, by what was released and by what the curators declare."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SPREAD = 0.5
"""Standard deviation of a class's number of records before anything is known, as a share of the classes' mean."""
LEAST_SHARE = 0.02
"""No class has less than this share of all records."""


def class_totals(seen: Floats, variance: float, declared: float) -> Floats:
    """Records of each class, (C,), positive: the noisy ones, drawn to even shares of what is declared by their noise.

    Args:
        seen: (C,) noisy numbers.
        variance: of the noise in each.
        declared: records of all curators together, positive.
    """
    even = declared / len(seen)
    prior = (SPREAD * even) ** 2
    totals = even + prior / (prior + variance) * (seen - even)
    least = max(1.0, LEAST_SHARE * float(totals.sum()))
    found: Floats = np.maximum(totals, least)
    return found
