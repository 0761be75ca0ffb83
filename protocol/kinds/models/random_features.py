"""Random Fourier features: vectors whose inner products approximate the kernel exp(-||x - x'||^2 / 2).

Rahimi and Recht (2007). Frequencies are drawn from a planned seed and put on a grid, phases are whole numbers, and
cosines come from one table: a record's vector is the same to the last bit alone or among a million others.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from protocol.feature_map import STEPS
from protocol.kinds.models.public_randomness import normals

TABLE = 4096
"""Cosines of one turn."""
QUARTER = TABLE // 4
TURN = STEPS * STEPS
"""Steps of a phase in a turn: frequencies are whole steps of 2^-12 turns a unit, points of 2^-12 units."""


@lru_cache(maxsize=8)
def frequencies(seed: int, width: int, count: int) -> NDArray[np.float64]:
    """(width, count) whole steps of 2^-12 turns a unit, each normal with a deviation of one radian a unit."""
    drawn = normals(seed, "frequencies", width * count).reshape(width, count)
    steps: NDArray[np.float64] = np.rint(drawn * (STEPS / (2 * math.pi)))
    steps.flags.writeable = False
    return steps


@lru_cache(maxsize=8)
def cosines(radius: int, count: int) -> NDArray[np.float64]:
    """Whole numbers radius / sqrt(count) cos(turn), rounded towards 0, at `TABLE` places of a turn: (TABLE,) float64.

    `count` squares of a cosine and its sine add up to at most radius^2; where a rounding says otherwise, the cosine is
    one step shorter.
    """
    amplitude = radius / math.sqrt(count)
    table: NDArray[np.float64] = np.trunc(
        np.array([amplitude * math.cos(2 * math.pi * place / TABLE) for place in range(TABLE)])
    )
    while (over := count * (table**2 + np.roll(table, QUARTER) ** 2) > radius**2).any():
        table[over] -= np.sign(table[over])
    table.flags.writeable = False
    return table


def feature_rows(points: NDArray[np.float64], seed: int, count: int, radius: int) -> NDArray[np.float64]:
    """(n, 2 count) whole numbers of length at most `radius` (L2): all cosines, then all sines.

    Args:
        points: (n, width) whole steps of 2^-12.
        seed: of the frequencies.
        count: how many frequencies.
        radius: in whole steps.
    """
    # Whole numbers below 2^45: exact in whatever order they are added.
    phases = (points @ frequencies(seed, points.shape[1], count)).astype(np.int64)
    places = (phases & (TURN - 1)) >> 12
    table = cosines(radius, count)
    rows: NDArray[np.float64] = np.hstack([table[places], table[(places - QUARTER) & (TABLE - 1)]])
    return rows
