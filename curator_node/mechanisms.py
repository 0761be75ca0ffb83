"""Sources of noise: the interface, and the exact one that a curator has unless its steward chooses OpenDP's.

A simulation may pass its own `NoiseSource`. Scales arrive as exact rationals, and are drawn at exactly.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from curator_node.exact_draws import digits_of, draw_choice, draw_laplace, draw_shares
from protocol.noise import DiscreteLaplace, NoisyMax

FINE = 2**32
"""Steps a scale of the grid on which continuous noise is drawn."""


@dataclass(frozen=True)
class Stamp:
    """The answer that noise is drawn for. Only a seeded source looks at it."""

    learner: str  # its name in the policy
    study: int  # ordinal of the learner's study at this curator, from 0
    sequence: int  # of the query
    part: int = 0  # of the answer, from 0, where it draws noise more than once


class NoiseSource(Protocol):
    """Where noise comes from. `seeded` sources are refused outside simulations."""

    seeded: bool

    def discrete_laplace(
        self, exact: NDArray[np.int64], l1: int, law: DiscreteLaplace, stamp: Stamp
    ) -> NDArray[np.int64]:
        """`exact` plus independent noise of that law.

        Args:
            exact: (k,) int64 counts.
            l1: L1 sensitivity for one privacy unit; the loss is `law.loss(l1)`.
            law: law of the noise in each count.
            stamp: which answer this is.
        """

    def laplace_shares(self, size: int, law: DiscreteLaplace, parts: int, stamp: Stamp) -> NDArray[np.int64]:
        """`size` independent shares of noise: those of `parts` curators add up to noise of that law.

        Args:
            size: how many, at least 0.
            law: of the sum over `parts` curators.
            parts: h, at least 1; a share has the law `LaplaceShares(law.scale, Fraction(1, parts))`.
            stamp: which answer this is.
        """

    def laplace(self, size: int, scale: Fraction, stamp: Stamp) -> NDArray[np.float64]:
        """`size` independent continuous Laplace draws. Only simulations use them."""

    def choose(self, scores: NDArray[np.int64], moved: int, law: NoisyMax, stamp: Stamp) -> int:
        """Index of the largest noisy score.

        Args:
            scores: (k,) int64, k at least 1.
            moved: the most by which one privacy unit moves each score; the loss is `law.loss(moved)`.
            law: law of the noisy choice.
            stamp: which answer this is.
        """

    def randomness(self, stamp: Stamp) -> Callable[[int], bytes]:
        """A function that returns n uniform random bytes, for the exact samplers of query kinds.

        Args:
            stamp: which answer this is; a seeded source gives the bytes of one stream to all calls of the same answer.
        """


class ExactNoise:
    """Exact noise in whole numbers, from the operating system's generator (`exact_draws`)."""

    seeded = False

    def discrete_laplace(
        self,
        exact: NDArray[np.int64],
        l1: int,
        law: DiscreteLaplace,
        stamp: Stamp,  # noqa: ARG002
    ) -> NDArray[np.int64]:
        """See `NoiseSource`. Sums are cut off at the ends of 64 bits. Raises as `check_loss` does."""
        check_loss(l1, law)
        return cut_off_sum(exact, draw_laplace(exact.size, law.scale))

    def laplace_shares(self, size: int, law: DiscreteLaplace, parts: int, stamp: Stamp) -> NDArray[np.int64]:  # noqa: ARG002
        """See `NoiseSource`."""
        return draw_shares(size, law.scale, parts)

    def laplace(self, size: int, scale: Fraction, stamp: Stamp) -> NDArray[np.float64]:  # noqa: ARG002
        """See `NoiseSource`. It is discrete Laplace noise on a grid of 2^-32 of the scale."""
        return draw_laplace(size, Fraction(FINE)).astype(np.float64) * (float(scale) / FINE)

    def choose(self, scores: NDArray[np.int64], moved: int, law: NoisyMax, stamp: Stamp) -> int:  # noqa: ARG002
        """See `NoiseSource`. Raises as `check_loss` does."""
        check_loss(moved, law)
        return draw_choice(scores, law.scale)

    def randomness(self, stamp: Stamp) -> Callable[[int], bytes]:  # noqa: ARG002
        """See `NoiseSource`."""
        return secrets.token_bytes


def check_loss(moved: int, law: DiscreteLaplace | NoisyMax) -> None:
    """Compare the loss that is claimed with the rate of the table that is drawn from.

    A chance falls by a factor of exp(-rate) from one number to the next, so a move by `moved` changes it by at most
    exp(rate moved). A choice loses twice that, unless all scores move in one direction.

    Raises:
        ArithmeticError: they differ; nothing may be released.
    """
    rate = digits_of(law.scale, signed=isinstance(law, DiscreteLaplace))[0].rate
    if law.loss(moved) != rate * moved * (2 if isinstance(law, NoisyMax) and not law.one_way else 1):
        raise ArithmeticError("the table of the noise disagrees with the exact cost")


def cut_off_sum(exact: NDArray[np.int64], noise: NDArray[np.int64]) -> NDArray[np.int64]:
    """(k,) sums, each moved to the nearest end of 64 bits if it lies beyond."""
    sums = exact + noise
    beyond = ((exact ^ sums) & (noise ^ sums)) < 0
    if beyond.any():
        ends = np.iinfo(np.int64)
        sums[beyond] = np.where(noise[beyond] < 0, ends.min, ends.max)
    return sums
