"""Noise of the controls: integers from numpy, so that only the fault that is meant shows."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from protocol.noise import DiscreteLaplace


def integers(scale: int | Fraction, shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.int64]:
    """Discrete Laplace noise of that scale."""
    return DiscreteLaplace(Fraction(scale)).simulate(generator, shape)
