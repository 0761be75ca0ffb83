"""Noise whose seed is the time: who knows about when an answer was made tries the few seeds that it can have had."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.controls.control import Data
from expril.audit.attack.controls.laws import integers
from expril.audit.attack.game import Rows

CELLS = 8
LATEST, HOUR = 6, 3600
"""Seconds, at most, between the draw and the answer's arrival; the game is played within one hour."""


def seeded_by_clock(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Counts with noise of scale 1 from a generator that was seeded with the whole second.

    An outcome: the second in which the answer arrives, and the counts. Each draw has a moment of its own.
    """
    arrived = generator.integers(LATEST, HOUR, count)
    drawn = arrived - generator.integers(0, LATEST, count)
    return np.column_stack((arrived, np.array(data) + _noise()[drawn]))


class ClockStatistic:
    """1 where a second just before the arrival explains the counts by the first answers, -1 by the second; 0 if both.

    Args:
        first: exact answers on one set of records.
        second: those on the other.
    """

    def __init__(self, first: Data, second: Data) -> None:
        self._first, self._second = np.array(first), np.array(second)

    def __call__(self, rows: Rows) -> NDArray[np.int64]:
        """(n,) -1, 0 or 1 of each outcome."""
        arrived, counts = rows[:, 0].astype(np.int64), rows[:, 1:]
        found = np.zeros((2, len(rows)), np.int64)
        for late in range(LATEST):
            noise = _noise()[arrived - late]
            for side, exact in enumerate((self._first, self._second)):
                found[side] |= (counts - noise == exact).all(1)
        return np.asarray(found[0] - found[1])


@lru_cache(maxsize=1)
def _noise() -> NDArray[np.int64]:
    """(HOUR, CELLS) noise of each second: whoever has the program can make this table."""
    return np.stack([integers(1, (CELLS,), np.random.default_rng(second)) for second in range(HOUR)])
