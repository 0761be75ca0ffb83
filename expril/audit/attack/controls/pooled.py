"""Secure sums that are broken on purpose: what a learner and its colluders see of the sum of several sites' shares.

Sites draw shares of discrete Laplace noise of scale 3; colluders tell the learner theirs.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.controls.control import Data
from protocol.noise_shares import LaplaceShares

SCALE = Fraction(3)


def shares_for_all(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """A sum over 5 sites whose shares are made for 5; one of them colludes."""
    return _opened(data, Fraction(4, 5), count, generator)


def too_few_survivors(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """A sum over 8 of 10 sites whose shares are made for 8, as two may collude; two of those 8 do."""
    return _opened(data, Fraction(6, 8), count, generator)


def two_lists(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """The sums over 5 sites and over 4 of them: shares are made for 4."""
    share = LaplaceShares(SCALE, Fraction(1, 4))
    others = share.simulate(generator, (count, 4)).sum(1)
    return np.stack((data[0] + share.simulate(generator, (count,)) + others, others), 1)


def _opened(data: Data, unknown: Fraction, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    return data[0] + LaplaceShares(SCALE, unknown).simulate(generator, (count,))
