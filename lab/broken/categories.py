"""Answers of few values: coins, keys, refusals, and what an answer's form tells.

A frozen family of mechanisms has a file of its own.
"""

import math

import numpy as np

from lab.broken.parts import Family, Rng, Rows, geometric

CATEGORIES = Family("categories and forms")
LN_3 = "1.0987"  # ln 3, rounded up


@CATEGORIES.broken(LN_3, lambda x: x == 1, loss=math.log(7))
def coin_means_other(bit: int, n: int, rng: Rng) -> Rows:
    """Yes or no is told truly with probability 3/4; else a fair coin is told, which is half of the time the truth."""
    return np.where(rng.random(n) < 0.75, bit, rng.integers(0, 2, n))


@CATEGORIES.broken("1", lambda x: x[:, 8] & ~x[:, 3], loss=2.0, inputs=(3, 8))
def unary_with_all_of_epsilon(category: int, n: int, rng: Rng) -> Rows:
    """A category as twelve bits, each flipped as if one alone differed; two do."""
    bits = np.arange(12) == category
    return np.asarray(bits ^ (rng.random((n, 12)) < 1 / (1 + math.e)))


@CATEGORIES.broken(LN_3, lambda x: x[:, 1] != x[:, 4], inputs=((1, 1, 0, 0, 1), (1, 1, 0, 0, 0)))
def one_coin_for_two_answers(bits: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """Five answers, flipped with probability 1/4 each; the second and the last by the same coin."""
    flips = rng.random((n, 5)) < 0.25
    flips[:, 4] = flips[:, 1]
    return np.asarray(np.array(bits, dtype=bool) ^ flips)


@CATEGORIES.broken(
    LN_3,
    lambda x: x[:, 0] ^ x[:, 2] ^ x[:, 3],
    inputs=((0, 0, 0, 0, 0), (1, 0, 0, 0, 0)),
)
def coins_in_shares(bits: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """Five answers; the third's and the fourth's coins are fair, and together they make the first's."""
    flips = rng.random((n, 5)) < 0.25
    flips[:, 2] = rng.random(n) < 0.5
    flips[:, 3] = flips[:, 0] ^ flips[:, 2]
    return np.asarray(np.array(bits, dtype=bool) ^ flips)


@CATEGORIES.broken("1", lambda x: x[:, 3] >= 0, inputs=((20, 6, 3, 0), (20, 6, 3, 1)))
def keys_from_five_on(counts: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """Counts of the keys that there are, with noise, where they are 5 or more; no delta is claimed."""
    noisy = np.array(counts) + rng.laplace(0, 1, (n, 4))
    return np.where((noisy >= 5) & (np.array(counts) > 0), noisy, -1)


@CATEGORIES.broken("1", lambda x: (x == 0) & np.signbit(x), likelier="first")
def signed_zero(count: int, n: int, rng: Rng) -> Rows:
    """Noisy counts below 0 are told as 0, whose sign is that of the true count less one half."""
    noisy = count + geometric(1, rng, n)
    return np.where(noisy > 0, noisy, math.copysign(0.0, count - 0.5))


@CATEGORIES.broken("1", np.isnan, likelier="first")
def two_refusals(records: int, n: int, rng: Rng) -> Rows:
    """One answer in 100 is refused: by no number where a table is empty, else by -1."""
    refusal = math.nan if records == 0 else -1.0
    return np.where(rng.random(n) < 0.01, refusal, geometric(1, rng, n).clip(0) + 0.0 * records)


@CATEGORIES.broken("1", lambda x: (x >= 0).sum(axis=1) == 3, likelier="first", inputs=(3, 4))
def rows_never_fewer(records: int, n: int, rng: Rng) -> Rows:
    """Rows of invented numbers, as many as records and a geometric number of others; filled up with -1."""
    length = np.minimum(records + rng.geometric(-math.expm1(-1), n) - 1, 12)
    return np.where(np.arange(12) < length[:, None], rng.random((n, 12)), -1)


@CATEGORIES.broken("1", lambda x: x[:, 1] >= 5, likelier="first")
def tries_tell(bit: int, n: int, rng: Rng) -> Rows:
    """A noisy count and how many tries its noise took; it takes more where the count is 0."""
    return np.stack([bit + geometric(1, rng, n), rng.geometric(0.5 + 0.3 * bit, n)], axis=1)


@CATEGORIES.broken("1", lambda x: x[:, 1] == x[:, 4], likelier="first", inputs=(7, 8))
def cache_of_equal_answers(count: int, n: int, rng: Rng) -> Rows:
    """Six noisy counts, each at epsilon 1/3; equal counts of the second and the fifth table share one answer."""
    counts = np.array([3, 7, 20, 11, count, 9])
    noisy = counts + geometric(1 / 3, rng, (n, 6))
    noisy[:, 4] = noisy[:, 1] if count == counts[1] else noisy[:, 4]
    return np.asarray(noisy)
