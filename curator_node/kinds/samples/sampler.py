"""Exact draws from a law proportional to Q_0 exp(E), by rejection; whole numbers decide everything.

A draw from Q_0 is kept with probability exp(E - epsilon / 4), where E is a whole number of steps within +-epsilon / 4.
So any two such laws, however E was come by, differ by a factor of at most exp(epsilon) on every point, and at least
exp(-epsilon / 2) of what is drawn is kept. docs/integral-privacy.md has the proofs.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from curator_node.exact_draws import RandomBytes, RandomWords, Words, not_random
from protocol.grids import BaseLaw, Cells

MOST_STEPS = 2**14
"""Steps of an exponent in epsilon / 4."""
MOST_DENOMINATOR = 2**16
"""Of epsilon: 4 `MOST_STEPS` times it is the largest denominator of a coin, 2^32."""
MOST_NUMERATOR = 2**32
BLOCK = 2**16
"""Records that are tried at once, at most."""
MORE_BLOCKS = 2**16
"""Blocks beyond twice what the worst law needs: a fair source uses them up with a chance below 2^-10000."""

Steps = Callable[[Cells], NDArray[np.int64]]
"""Exponent of each cell, (n, d) -> (n,), in steps; a function of the cell alone, to the last bit."""


def draw_cells(
    base: BaseLaw, exponent: Steps, epsilon: Fraction, count: int, random_bytes: RandomBytes
) -> NDArray[np.int64]:
    """Independent draws from the law proportional to Q_0 exp(E).

    Args:
        base: Q_0.
        exponent: E, in steps of epsilon / (4 `MOST_STEPS`); beyond `MOST_STEPS` either way it counts as that.
        epsilon: positive; numerator at most 2^32, denominator at most 2^16.
        count: draws, at least 0.
        random_bytes: gives so many independent uniform bytes.

    Returns:
        (count, d) int64 cells.

    Raises:
        ValueError: epsilon is out of its range.
        ArithmeticError: the random bytes are not random, or too few; nothing was drawn.
    """
    if not (1 <= epsilon.numerator <= MOST_NUMERATOR and epsilon.denominator <= MOST_DENOMINATOR):
        raise ValueError(f"records are drawn at an epsilon of a/b with a up to 2^32 and b up to 2^16, not {epsilon}")
    source = RandomWords(random_bytes)
    kept = [np.empty((0, len(base.axes)), np.int64)]
    missing = count
    most = most_tried(count, epsilon)
    for _ in range(2 * most // BLOCK + MORE_BLOCKS):
        if missing <= 0:
            return np.concatenate(kept)[:count]
        # As many as the worst law needs: the number of blocks hardly tells one law from another.
        tried = draw_base(base, min(BLOCK, most_tried(missing, epsilon)), source)
        kept.append(tried[keep(exponent(tried), epsilon, source)])
        missing -= len(kept[-1])
    raise not_random()


def most_tried(count: int, epsilon: Fraction) -> int:
    """Draws from Q_0 of which, on average, at least so many are kept: count exp(epsilon / 2), and some more."""
    if count <= 0:
        return 0
    needed = count * math.exp(min(float(epsilon), 64.0) / 2)
    return math.ceil(needed + 4 * math.sqrt(needed)) + 8


def draw_base(base: BaseLaw, count: int, source: RandomWords) -> NDArray[np.int64]:
    """(count, d) independent draws from Q_0: on each axis a whole number below the sum of its weights."""
    cells = np.empty((count, len(base.axes)), np.int64)
    for column, weights in enumerate(base.weights):
        ends = np.cumsum(weights).astype(np.uint64)
        cells[:, column] = np.searchsorted(ends, source.below(np.full(count, ends[-1], np.uint64)), side="right")
    return cells


def keep(steps: NDArray[np.int64], epsilon: Fraction, source: RandomWords) -> NDArray[np.bool_]:
    """(n,) coins, each true with probability exp(E - epsilon / 4) exactly, for exponents in steps.

    exp(-a / b) for whole a, b: one coin of exp(-1) for each whole in a / b, and one of exp(-rest / b).
    """
    below = (MOST_STEPS - np.clip(steps, -MOST_STEPS, MOST_STEPS)).astype(np.uint64)
    denominator = np.uint64(4 * MOST_STEPS * epsilon.denominator)
    wholes, rests = np.divmod(below * np.uint64(epsilon.numerator), denominator)
    coins = source.exponential_coins(rests, denominator)
    return coins & _all_kept(wholes, source)


def _all_kept(wholes: Words, source: RandomWords) -> NDArray[np.bool_]:
    """(n,) coins of probability exp(-whole) each."""
    kept = np.ones(wholes.size, np.bool_)
    one = np.uint64(1)
    open_ = np.flatnonzero(wholes)
    number = one
    while open_.size:
        heads = source.exponential_coins(np.ones(open_.size, np.uint64), one)
        kept[open_[~heads]] = False
        number += one
        open_ = open_[heads & (wholes[open_] >= number)]
    return kept
