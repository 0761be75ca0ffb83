"""Noise for marginals and choices, and what it cost so far: OpenDP's exact mechanisms, accounted by its own maps."""

import math

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from lab.peers.task import Vector

dp.enable_features("contrib")

SAFETY = 1 - 1e-9
"""Share of the budget that is planned with, so that rounded sums stay below it."""


class Odometer:
    """Noise, and what it cost so far.

    Args:
        epsilon: > 0.
        delta: 0 for pure epsilon with Laplace noise; else in (0, 1), with Gaussian noise under zCDP.

    Attributes:
        total: to spend: epsilon, or the largest rho whose zCDP guarantee implies (epsilon, delta).
        spent: by OpenDP's maps, at most `total`.

    Raises:
        ValueError: epsilon or delta out of range.
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        if not epsilon > 0 or not 0 <= delta < 1:
            raise ValueError(f"epsilon {epsilon} must be positive and delta {delta} in [0, 1)")
        self.pure = delta == 0
        self.total = epsilon if self.pure else rho_for(epsilon, delta)
        self.spent = 0.0

    @property
    def left(self) -> float:
        """What may still be planned with."""
        return max(self.total * SAFETY - self.spent, 0.0)

    @property
    def mean_noise(self) -> float:
        """E|noise| over its standard deviation."""
        return math.sqrt(0.5) if self.pure else math.sqrt(2 / math.pi)

    def deviation(self, cost: float) -> float:
        """Standard deviation of counts that cost so much."""
        return math.sqrt(2) / cost if self.pure else 1 / math.sqrt(2 * cost)

    def counts(self, exact: NDArray[np.int64], cost: float) -> Vector:
        """Noisy counts of disjoint cells: (k,) -> (k,) float64 whole numbers."""
        domain = dp.vector_domain(dp.atom_domain(T="i32"))
        if self.pure:
            mechanism = dp.m.make_laplace(domain, dp.l1_distance(T="u32"), scale=1 / cost)
        else:
            mechanism = dp.m.make_gaussian(domain, dp.l2_distance(T="u32"), scale=self.deviation(cost))
        self._charge(mechanism.map(1))
        return np.array(mechanism([int(value) for value in exact]), np.float64)

    def choose(self, scores: Vector, sensitivity: float, cost: float) -> int:
        """The exponential mechanism: index of a high score; one record moves a score by at most `sensitivity`."""
        measure = dp.max_divergence() if self.pure else dp.zero_concentrated_divergence()
        strength = cost if self.pure else math.sqrt(8 * cost)
        mechanism = dp.m.make_noisy_max(
            dp.vector_domain(dp.atom_domain(T="f64", nan=False)),
            dp.linf_distance(T="f64"),
            output_measure=measure,
            scale=2 * sensitivity / strength,
        )
        self._charge(mechanism.map(sensitivity))
        return int(mechanism([float(score) for score in scores]))

    def _charge(self, cost: float) -> None:
        if self.spent + cost > self.total:
            raise ArithmeticError(f"{self.spent} are spent of {self.total}: {cost} more is too much")
        self.spent += cost


def rho_for(epsilon: float, delta: float) -> float:
    """The largest rho (to 1e-9 of it, from below) whose zCDP guarantee implies (epsilon, delta), by OpenDP."""

    def implied(rho: float) -> float:
        domain = dp.vector_domain(dp.atom_domain(T="i32"))
        gaussian = dp.m.make_gaussian(domain, dp.l2_distance(T="u32"), scale=1 / math.sqrt(2 * rho))
        return float(dp.c.make_zCDP_to_approxDP(gaussian).map(1).epsilon(delta))

    low, high = 0.0, epsilon  # rho + 2 sqrt(rho ln(1 / delta)) >= epsilon already at rho = epsilon
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if implied(middle) <= epsilon else (low, middle)
    return low
