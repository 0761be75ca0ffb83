"""The paper's printed mechanism, by its law: why it loses more than it claims, as one picture."""

import math
from collections.abc import Sequence
from itertools import pairwise

from expril.audit.results import Spread

SCALE = 30
"""Of the Laplace noise: 1/30 is claimed."""
RECORDS = 1
"""In the bin, an error; its neighbour holds one more, which is none."""
_BARS = 24


def paper_law() -> Spread:
    """Where the ratio lies, on either side, inside of 0 to 1; the rest lies exactly at 0 and at 1.

    The mechanism is clip((Laplace(l) + U) / n, 0, 1) with the exact n of the bin (full paper, Eq. 7): a ratio below x
    is noise below n x - U.
    """
    edges = [place / _BARS for place in range(_BARS + 1)]
    centres = tuple((low + high) / 2 for low, high in pairwise(edges))
    axis = "released ratio, where it is neither 0 nor 1"
    return Spread(axis, centres, _shares(RECORDS, edges), _shares(RECORDS + 1, edges), (0.0, 1.0))


def _shares(records: int, edges: Sequence[float]) -> tuple[float, ...]:
    """Chance of a ratio between neighbouring edges. The number of errors stays: the added record is none."""
    below = [_below(records * edge - RECORDS) for edge in edges]
    return tuple(high - low for low, high in pairwise(below))


def paper_words() -> str:
    """What the picture shows, in one sentence."""
    first, second = (sum(side) for side in (paper_law().first, paper_law().second))
    more, allowed = second / first, math.exp(1 / SCALE)
    return (
        f"By its law, {100 * first:.2g} % of the answers lie inside with {RECORDS} record in the bin, and "
        f"{100 * second:.2g} % with {RECORDS + 1}: {more:.2f} times as many, where a claim of 1/{SCALE} allows "
        f"{allowed:.2f} times."
    )


def _below(noise: float) -> float:
    """Chance of Laplace noise below a value."""
    tail = 0.5 * math.exp(-abs(noise) / SCALE)
    return tail if noise < 0 else 1 - tail
