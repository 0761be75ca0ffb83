"""The law of shares of discrete Laplace noise, and of sums of shares.

`protocol.noise` says what a law is for. A share of h has shape 1 / h; s of h shares that are unknown have shape s / h.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from protocol.noise import DiscreteLaplace


@dataclass(frozen=True)
class LaplaceShares:
    """The difference of two independent negative binomials of that shape, each with success 1 - exp(-1 / scale).

    Shape 1 is `DiscreteLaplace`; laws of one scale add up to the law of the sum of their shapes (Inusah and
    Kozubowski 2006).

    Attributes:
        scale: of the discrete Laplace law; positive and exact.
        shape: how many whole discrete Laplace noises this amounts to; positive and exact.

    Raises:
        ValueError: one of them is not positive.
    """

    scale: Fraction
    shape: Fraction

    def __post_init__(self) -> None:
        if self.scale <= 0 or self.shape <= 0:
            raise ValueError("the scale and the shape of noise must be positive")

    def loss(self, l1: int) -> Fraction:
        """Exact pure epsilon of integers that one unit moves by at most `l1` in L1, each with its own noise.

        l1 / scale, as for one whole discrete Laplace noise: what comes on top of it is independent of the records.

        Raises:
            ValueError: the shape is below 1. Less than one whole noise protects far less.
        """
        if self.shape < 1:
            raise ValueError("shares that add up to less than one whole noise do not have its loss")
        return DiscreteLaplace(self.scale).loss(l1)

    def variance(self) -> float:
        """The shape times that of one whole noise."""
        return float(self.shape) * DiscreteLaplace(self.scale).variance()

    def simulate(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Independent draws, int64 of that shape. Never private, see `DiscreteLaplace.simulate`."""
        success = -np.expm1(-1.0 / float(self.scale))
        drawn: NDArray[np.int64] = np.subtract(*generator.negative_binomial(float(self.shape), success, (2, *shape)))
        return drawn
