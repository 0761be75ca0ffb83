"""The exact law of the noise in a sum of answers, for likelihoods, intervals and tests."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from learner_node.models.label_model.likelihood import noise_law, noise_log_pmf

Floats = NDArray[np.float64]
_REST = 1e-13
"""Probability that `NoiseLaw.width` leaves out on either side."""
_DIRECT = 10**6
"""Most products of width and draws for which each mass is computed by itself: memory and time grow with the product."""
_WIDEST = 2**16
"""Largest width for which every whole number has a mass of its own."""


@dataclass(frozen=True)
class NoiseLaw:
    """The sum of `draws` independent discrete Laplace variables of one scale: a symmetric law on whole numbers.

    One answer of one curator holds one draw, a sum of s curators' answers s draws, and a secure sum s / h, which need
    not be whole: the law is the difference of two negative binomials of shape `draws` (`protocol.noise_shares`). A sum
    over m cells holds m times as many draws as one cell. 0 draws are no noise.

    Args:
        scale: of one draw, in records; 0 is no noise.
        draws: their number, at least 0.
    """

    scale: float
    draws: float = 1.0

    def __post_init__(self) -> None:
        if not (self.scale >= 0 and self.draws >= 0):
            raise ValueError("scale and draws of noise cannot be negative")

    @property
    def exact(self) -> bool:
        """Whether there is no noise at all."""
        return self.scale == 0 or self.draws == 0

    def of_cells(self, cells: float) -> "NoiseLaw":
        """The law of the noise in a sum over so many cells of one table."""
        return NoiseLaw(self.scale, self.draws * cells)

    @cached_property
    def variance(self) -> float:
        """Variance, in squared records."""
        return 0.0 if self.exact else noise_law(self.scale).variance(self.draws)

    @cached_property
    def kurtosis(self) -> float:
        """Excess kurtosis, (2 + cosh(1 / scale)) / draws; 0 without noise."""
        if self.exact:
            return 0.0
        return (2.0 + float(np.cosh(min(1.0 / self.scale, 50.0)))) / self.draws

    def log_pmf(self, values: NDArray[np.int64]) -> Floats:
        """Logarithm of P(value), of the shape of `values`; -inf where exact counts cannot be so."""
        if self.exact:
            return np.where(values == 0, 0.0, -np.inf)
        if self.draws < 1:
            raise ValueError("fewer draws than one have no law here")
        return noise_log_pmf(values, self.scale, self.draws)

    @cached_property
    def width(self) -> int:
        """A whole number that the noise exceeds on either side with probability of at most 1e-13."""
        return 0 if self.exact else int(np.ceil(noise_law(self.scale).bound(_REST, self.draws)))

    @cached_property
    def pmf(self) -> Floats:
        """P(value) for -`width` ... `width`, float64 (2 width + 1,), adding up to 1."""
        if self.exact:
            return np.ones(1)
        if self.width * max(self.draws, 1.0) <= _DIRECT:
            half = np.exp(self.log_pmf(np.arange(self.width + 1)))
        else:
            half = self._inverted()
        masses: Floats = np.concatenate([half[:0:-1], half])
        masses /= masses.sum()
        return masses

    def _inverted(self) -> Floats:
        """P(value) for 0 ... `width`, (width + 1,), by the inverse Fourier transform of the characteristic function."""
        length = 2 << self.width.bit_length()
        half_angles = np.pi * np.arange(length // 2 + 1) / length
        squares = (np.sin(half_angles) / np.sinh(0.5 / self.scale)) ** 2
        masses = np.fft.irfft(np.exp(-self.draws * np.log1p(squares)), length)
        return np.maximum(masses[: self.width + 1], 0.0)

    def quantile(self, level: float) -> int:
        """The smallest value v with P(noise <= v) >= `level`, which lies in (0, 1).

        Noise that is wider than `_WIDEST` is taken in steps of several records, and the value is rounded away from 0.
        """
        if self.width > _WIDEST:
            step = math.ceil(self.width / _WIDEST)
            coarse = NoiseLaw(self.scale / step, self.draws).quantile(level)
            return step * (coarse + (level > 0.5) - (level < 0.5))
        return int(np.searchsorted(np.cumsum(self.pmf), level - 1e-15)) - self.width

    def simulate(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Independent values, float64 of that shape. They protect nobody: they are for quotes and rehearsals."""
        if self.exact:
            return np.zeros(shape)
        success = -np.expm1(-1.0 / self.scale)
        noise: Floats = np.subtract(*generator.negative_binomial(self.draws, success, (2, *shape))).astype(np.float64)
        return noise
