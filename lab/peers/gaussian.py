"""The exact guarantee of T steps of DP-SGD that take all records each.

Without sampling there is nothing to amplify: T Gaussian mechanisms with noise multiplier z are one with multiplier
z / sqrt(T), also when a step depends on the answers before it.
"""

import math
from functools import lru_cache

from scipy.special import log_ndtr, ndtr


def gaussian_delta(epsilon: float, multiplier: float) -> float:
    """The delta of a Gaussian mechanism whose noise is `multiplier` times the L2 sensitivity, at epsilon; Theorem 8."""
    half, shift = 1 / (2 * multiplier), epsilon * multiplier
    return float(ndtr(half - shift) - math.exp(epsilon + log_ndtr(-half - shift)))


@lru_cache
def noise_multiplier(epsilon: float, delta: float, steps: int) -> float:
    """Least noise per step, rounded up by at most 1e-9 of it, of that many steps with all records."""
    low = high = 1.0
    while gaussian_delta(epsilon, high) > delta:
        high *= 2
    while gaussian_delta(epsilon, low) <= delta:
        low /= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(epsilon, middle) <= delta else (middle, high)
    return high * math.sqrt(steps)
