"""A choice among several: the largest count, the first above a threshold, by utility."""

import math

import numpy as np
from numpy.typing import NDArray

from lab.broken.parts import Family, Rng, Rows

SELECTION = Family("selection")


@SELECTION.broken("1", lambda x: x[:, 1] <= 0.4, loss=5.0, likelier="first")
def maximum_released(value: float, n: int, rng: Rng) -> Rows:
    """Report noisy max releases, beside the place of the largest of five counts, its noisy value."""
    noisy = value + rng.laplace(0, 1, (n, 5))
    return np.stack([noisy.argmax(axis=1), noisy.max(axis=1)], axis=1)


@SELECTION.broken("1", lambda x: (x[:, 0] == 0) & (x[:, 1] >= 1.5), loss=2.0, inputs=((0, 0, 0, 0), (1, -1, -1, -1)))
def gap_with_half_the_noise(values: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """The place of the largest of four numbers and its lead, with noise for numbers that move one way only."""
    noisy = np.array(values) + rng.laplace(0, 1, (n, 4))
    place, ordered = noisy.argmax(axis=1), np.sort(noisy, axis=1)
    return np.stack([place, ordered[:, 3] - ordered[:, 2]], axis=1)


@SELECTION.broken(
    "1",
    lambda x: x == 4,
    loss=math.log(20 * math.e / (math.e + 19 / math.e)),
    inputs=((0,) * 20, (-1,) * 4 + (1,) + (-1,) * 15),
)
def exponential_not_halved(utilities: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """The exponential mechanism with epsilon in place of its half; utilities move both ways."""
    weights = np.exp(np.array(utilities))
    return rng.choice(20, n, p=weights / weights.sum())


@SELECTION.broken(
    "1",
    lambda x: x == 4,
    loss=4 * math.log(-math.expm1(-1) / -math.expm1(-0.5)),
    inputs=((-1,) * 4 + (0,), (-1,) * 4 + (1,)),
)
def permute_and_flip_in_order(utilities: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """Permute and flip, without the permutation."""
    heads = np.exp((np.array(utilities) - max(utilities)) / 2)
    return np.asarray((rng.random((n, 5)) < heads).argmax(axis=1))


# sparse vectors; Lyu, Su and Li (2017) number them


@SELECTION.broken(
    "1",
    lambda x: ~x[:, 0] & x[:, 1],
    likelier="first",
    inputs=((0, 1, 0, 0, 1, 1), (1, 0, 0, 0, 1, 1)),
)
def comparisons_without_noise(values: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """Six numbers are compared with one noisy threshold, and have no noise (algorithm 5)."""
    return np.array(values) >= rng.laplace(0, 2, (n, 1))


@SELECTION.broken("1", lambda x: x >= 6, loss=20 * math.log(2 - 1 / math.e), likelier="first")
def threshold_without_noise(value: float, n: int, rng: Rng) -> Rows:
    """The number of answers below an exact threshold before the first above it, of 20; each has noise of its own."""
    above = value + rng.laplace(0, 1, (n, 20)) >= 1
    return np.where(above.any(axis=1), above.argmax(axis=1), 20)


def _lead(x: Rows) -> NDArray[np.bool_]:
    return np.asarray(x[:, :8].sum(axis=1, dtype=int) - x[:, 8:].sum(axis=1, dtype=int) >= 5)


@SELECTION.broken("1", _lead, loss=None, inputs=((0,) * 16, (1,) * 8 + (-1,) * 8))
def answers_without_end(values: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """A noisy threshold and noisy numbers, and no limit to how many are told to be above (algorithm 6)."""
    return np.asarray(np.array(values) + rng.laplace(0, 2, (n, 16)) >= rng.laplace(0, 2, (n, 1)))


def _late_above(x: Rows) -> NDArray[np.bool_]:
    return np.asarray((x[:, 6:] == 1).sum(axis=1) - (x[:, :6] == 1).sum(axis=1) >= 3)


@SELECTION.broken("1", _late_above, loss=None, inputs=((0,) * 10, (-1,) * 6 + (1,) * 4))
def noise_not_for_four(values: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """Up to four numbers are told to be above, and noise of the comparisons is for one (algorithm 4)."""
    above = np.array(values) + rng.laplace(0, 4 / 3, (n, 10)) >= rng.laplace(0, 4, (n, 1))
    in_time = np.cumsum(above, axis=1) - above < 4
    return np.where(in_time, above, -1)


@SELECTION.broken(
    "2",
    lambda x: (x[:, 0] == 10) & (x[:, 1] <= 2),
    loss=None,
    likelier="first",
    inputs=((0,) * 10 + (1,), (1,) * 10 + (0,)),
)
def value_of_the_comparison(values: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """The first number above a noisy threshold is told as it was compared: it bounds the threshold (algorithm 3)."""
    noisy = np.array(values) + rng.laplace(0, 1, (n, 11))
    above = noisy >= rng.laplace(0, 2, (n, 1))
    place = np.where(above.any(axis=1), above.argmax(axis=1), 11)
    value = np.take_along_axis(noisy, np.minimum(place, 10)[:, None], axis=1)[:, 0]
    return np.stack([place, np.where(place < 11, value, -99)], axis=1)


@SELECTION.broken(
    "1",
    lambda x: (x < 3).all(axis=1),
    loss=None,
    inputs=((0,) * 6, (1, 1, 1, 0, 0, 0)),
)
def three_best_at_once(values: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """The places of the three largest of six noisy counts, charged as the place of one."""
    noisy = np.array(values) + rng.laplace(0, 1, (n, 6))
    return np.argsort(-noisy, axis=1)[:, :3]
