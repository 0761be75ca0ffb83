"""Noise from a seed, to compare carriers and to debug. It is never private; curators outside a simulation refuse it."""

import hashlib
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from curator_node.mechanisms import Stamp
from protocol.noise import DiscreteLaplace, NoisyMax
from protocol.noise_shares import LaplaceShares


class SeededNoise:
    """Noise determined by seed, curator, learner, study, sequence and part, in whatever order requests arrive.

    `seed` is the scenario's, `curator` the curator's name. The methods are those of `NoiseSource`.
    """

    seeded = True

    def __init__(self, seed: int, curator: str) -> None:
        self._seed = seed
        self._curator = curator

    def discrete_laplace(
        self,
        exact: NDArray[np.int64],
        l1: int,  # noqa: ARG002
        law: DiscreteLaplace,
        stamp: Stamp,
    ) -> NDArray[np.int64]:
        """Add discrete Laplace noise."""
        return exact + law.simulate(self._generator(stamp), exact.shape)

    def laplace_shares(self, size: int, law: DiscreteLaplace, parts: int, stamp: Stamp) -> NDArray[np.int64]:
        """Draw noise shares; the sum of `parts` of them is discrete Laplace noise."""
        return LaplaceShares(law.scale, Fraction(1, parts)).simulate(self._generator(stamp), (size,))

    def laplace(self, size: int, scale: Fraction, stamp: Stamp) -> NDArray[np.float64]:
        """Draw continuous Laplace noise."""
        return self._generator(stamp).laplace(0, float(scale), size)

    def choose(self, scores: NDArray[np.int64], moved: int, law: NoisyMax, stamp: Stamp) -> int:  # noqa: ARG002
        """Draw a noisy maximum."""
        return law.simulate(self._generator(stamp), scores)

    def randomness(self, stamp: Stamp) -> Callable[[int], bytes]:
        """A generator of pseudorandom bytes."""
        return self._generator(stamp).bytes

    def _generator(self, stamp: Stamp) -> np.random.Generator:
        part = (stamp.part,) if stamp.part else ()
        text = repr((self._seed, self._curator, stamp.learner, stamp.study, stamp.sequence, *part))
        return np.random.default_rng(list(hashlib.sha256(text.encode()).digest()))
