"""Noise laws: their privacy loss, tails and probabilities.

Noise is drawn in two places. `curator_node/exact_draws.py` draws it exactly, from the operating system's generator.
`simulate` draws it in floats from a given generator, where nothing needs protection.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_GRID = np.arange(1, 100) / 100


@dataclass(frozen=True)
class DiscreteLaplace:
    """Integers k of probability (1 - p) / (1 + p) p^|k| with p = exp(-1 / scale) (Inusah and Kozubowski 2006).

    Raises ValueError: the scale is not positive.
    """

    scale: Fraction  # positive and exact, from 2^-32 to 2^32 on the wire

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise ValueError("the scale of noise must be positive")

    def loss(self, l1: int) -> Fraction:
        """Exact pure epsilon of integers that one unit moves by at most `l1` in L1, each with independent noise.

        It is l1 / scale, since a probability changes by a factor of at most e^(l1 / scale) (Dwork, McSherry, Nissim and
        Smith 2006; for integers Ghosh, Roughgarden and Sundararajan 2009). The bound is tight.
        """
        return Fraction(l1) / self.scale

    def variance(self, draws: float = 1) -> float:
        """Variance of the sum of `draws` independent draws, 2 draws p / (1 - p)^2; 0 on underflow."""
        # numpy's functions, here and in `simulate`: the last digits of math's are others, and numbers are published.
        exponent = -1.0 / float(self.scale)
        return float(2.0 * draws * np.exp(exponent) / np.expm1(exponent) ** 2)

    def log_pmf(self, value: int) -> float:
        """Natural logarithm of P(value), with an error of at most 1e-15 max(1, |logarithm|)."""
        a = 1.0 / float(self.scale)
        # (1 - p) / (1 + p) = tanh(a / 2); far out tanh is 1 to the last digit, and its logarithm -2 artanh(p).
        at_zero = math.log(math.tanh(a / 2.0)) if a < 1.0 else -2.0 * math.atanh(math.exp(-a))
        return at_zero - float(abs(value) / self.scale)

    def tail(self, value: int) -> float:
        """P(|X| >= value): 2 p^value / (1 + p), and 1 for value <= 0."""
        if value <= 0:
            return 1.0
        return 2.0 * math.exp(-float(value / self.scale)) / (1.0 + math.exp(-1.0 / float(self.scale)))

    def width(self, misses: Fraction) -> int:
        """The smallest w with P(|X| > w) <= `misses`; `misses` lies in (0, 1)."""
        log_two = math.log(2.0 / float(misses)) - math.log1p(math.exp(-1.0 / float(self.scale)))
        bound = max(0, math.ceil(float(self.scale) * log_two) - 2)
        while self.tail(bound + 1) > misses:
            bound += 1
        return bound

    def bound(self, rate: float, draws: float = 1) -> float:
        """An upper bound of the sum of `draws` independent draws, exceeded with probability at most `rate`.

        Chernoff's bound: for any u in (0, 1), P(sum > t) <= (1 - u^2)^-draws exp(-u t / scale). The moment generating
        function of the continuous law, 1 / (1 - u^2), bounds that of the discrete one, which is
        (cosh a - 1) / (cosh a - cosh(u a)) with a = 1 / scale, since (cosh x - 1) / x^2 increases. The result is the
        least t over a grid of u.

        Args:
            rate: one-sided probability in (0, 1).
            draws: number of draws; a fraction for shares of noise (`protocol.noise_shares`). The bound for 0 draws is
                0.
        """
        return _bound(float(self.scale), rate, draws) if draws else 0.0

    def simulate(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Independent draws, int64 of that shape: the difference of two arrays of geometric draws.

        They protect nobody: they come from floats and a generator that can be seeded. Only simulated curators use them.
        """
        success = -np.expm1(-1.0 / float(self.scale))
        noise: NDArray[np.int64] = np.subtract(*generator.geometric(success, (2, *shape)))
        return noise


@lru_cache(maxsize=1024)
def _bound(scale: float, rate: float, draws: float) -> float:
    """See `DiscreteLaplace.bound`; many curators answer the same question."""
    bounds = scale / _GRID * (math.log(1 / rate) - draws * np.log1p(-(_GRID**2)))
    return float(bounds.min())


@dataclass(frozen=True)
class NoisyMax:
    """The index of the largest of several integer scores after adding independent exponential noise to each.

    It has the law of permute and flip (Ding, Kifer, Sayed Saeedur Rahman and others 2021), whose expected error is at
    most that of the exponential mechanism at the same loss (McKenna and Sheldon 2020).

    Raises ValueError: the scale is not positive.
    """

    scale: Fraction  # of the noise, positive and exact
    one_way: bool = False  # True if adding a unit lowers no score (and removing one raises none)

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise ValueError("the scale of noise must be positive")

    def loss(self, moved: int) -> Fraction:
        """Exact pure epsilon if one unit moves each score by at most `moved`: 2 moved / scale.

        It is half of this, moved / scale, if all scores move in one direction (`one_way`).
        """
        return Fraction(moved if self.one_way else 2 * moved) / self.scale

    def chances(self, scores: NDArray[np.int64]) -> NDArray[np.float64]:
        """Probability of each index, (k,), with an error of about 1e-13.

        Let w_i = exp((score_i - largest) / scale). Index i has probability w_i times the integral over z in [0, 1] of
        prod_{j != i} (1 - w_j z), a polynomial of degree k - 1. Gauss-Legendre quadrature with k / 2 nodes is exact for
        it.

        Args:
            scores: (k,) whole numbers, k from 1 to a few thousand.
        """
        weights = np.exp((scores - scores.max()) / float(self.scale))
        nodes, shares = np.polynomial.legendre.leggauss(len(scores) // 2 + 1)
        factors = 1.0 - np.outer(weights, (nodes + 1.0) / 2.0)  # positive: the nodes lie inside
        logs = np.log(factors)
        rivals: NDArray[np.float64] = np.exp(logs.sum(axis=0) - logs)
        chances: NDArray[np.float64] = weights * (rivals @ (shares / 2.0))
        return chances

    def simulate(self, generator: np.random.Generator, scores: NDArray[np.int64]) -> int:
        """Draw one index. It protects nobody, as `DiscreteLaplace.simulate`."""
        return int(np.argmax(scores + generator.exponential(float(self.scale), len(scores))))


class Moved(NamedTuple):
    """Released integers whose noise has one law, and how far one privacy unit moves each."""

    noise: DiscreteLaplace  # the law of the noise in each released integer
    shift: int  # the most that one unit moves the exact integer; a whole number of at least 1
    releases: int  # their number; each has independent noise
