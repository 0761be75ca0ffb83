"""Noise laws: what noise costs, how far it strays, how likely each value is.

A law is realised in two places: `curator_node/mechanisms.py` draws it exactly, from the operating system's generator;
`simulate` draws it in floats from a generator that it is given, where nothing is to be protected.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_GRID = np.arange(1, 100) / 100


@dataclass(frozen=True)
class DiscreteLaplace:
    """Integers with P(k) = (1 - p) / (1 + p) p^|k|, p = exp(-1 / scale) (Inusah and Kozubowski 2006).

    Attributes:
        scale: positive and exact, from 2^-32 to 2^32 on the wire.

    Raises:
        ValueError: the scale is not positive.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise ValueError("the scale of noise must be positive")

    def loss(self, l1: int) -> Fraction:
        """Exact pure epsilon of integers that one unit moves by at most `l1` in L1, each with its own noise.

        l1 / scale: p^|k| changes by at most that factor (Dwork, McSherry, Nissim and Smith 2006; for integers Ghosh,
        Roughgarden and Sundararajan 2009), and no smaller one would do.
        """
        return Fraction(l1) / self.scale

    def variance(self, draws: float = 1) -> float:
        """Variance of the sum of `draws` independent ones, 2 draws p / (1 - p)^2; 0 where that is below any float."""
        # numpy's functions, here and in `simulate`: the last digits of math's are others, and numbers are published.
        exponent = -1.0 / float(self.scale)
        return float(2.0 * draws * np.exp(exponent) / np.expm1(exponent) ** 2)

    def log_pmf(self, value: int) -> float:
        """Natural logarithm of P(value), right to 1e-15 of itself or of 1, whichever is more."""
        a = 1.0 / float(self.scale)
        # (1 - p) / (1 + p) = tanh(a / 2); far out tanh is 1 to the last digit, and its logarithm -2 artanh(p).
        at_zero = math.log(math.tanh(a / 2.0)) if a < 1.0 else -2.0 * math.atanh(math.exp(-a))
        return at_zero - float(abs(value) / self.scale)

    def tail(self, value: int) -> float:
        """P(|X| >= value): 2 p^value / (1 + p), and 1 for value <= 0."""
        if value <= 0:
            return 1.0
        return 2.0 * math.exp(-float(value / self.scale)) / (1.0 + math.exp(-1.0 / float(self.scale)))

    def bound(self, rate: float, draws: float = 1) -> float:
        """A number that the sum of `draws` independent ones passes with a probability of at most `rate`.

        Chernoff's bound: for any u in (0, 1), P(sum > t) <= (1 - u^2)^-draws exp(-u t / scale). The moment generating
        function of the continuous law, 1 / (1 - u^2), bounds that of the discrete one, which is
        (cosh a - 1) / (cosh a - cosh(u a)) with a = 1 / scale, since (cosh x - 1) / x^2 increases. The least t over a
        grid of u is taken.

        Args:
            rate: in (0, 1), of one side.
            draws: their number, not always whole (`protocol.noise_shares`); the sum of none is 0.
        """
        if not draws:
            return 0.0
        bounds = float(self.scale) / _GRID * (math.log(1 / rate) - draws * np.log1p(-(_GRID**2)))
        return float(bounds.min())

    def simulate(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Independent draws, int64 of that shape: the difference of two blocks of geometric ones.

        Never private: floats, and a generator that can be seeded. No curator outside a simulation uses it.
        """
        success = -np.expm1(-1.0 / float(self.scale))
        drawn: NDArray[np.int64] = np.subtract(*generator.geometric(success, (2, *shape)))
        return drawn


class Moved(NamedTuple):
    """Equal releases, and how far one privacy unit moves each.

    Attributes:
        noise: in each released integer.
        shift: that one unit moves the exact integer by, at most; a whole number of at least 1.
        releases: how many, each with noise of its own.
    """

    noise: DiscreteLaplace
    shift: int
    releases: int
