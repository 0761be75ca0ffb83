"""Exact draws from random bytes: whole numbers, coins, and shares of discrete Laplace noise. No float is used.

Shares are for a secure sum: a share of h is the difference of two negative binomials of shape 1 / h, and h of them add
up to discrete Laplace noise (`protocol.noise_shares.LaplaceShares`). `docs/explanation/noise-shares.md` proves that the
draws have these laws and that every number fits 64 bits.
"""

import os
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

RandomBytes = Callable[[int], bytes]
Words = NDArray[np.uint64]

MOST_ROUNDS = 2**16
"""Most rounds of draws. A fair source needs more with a probability below 2^-60000; one that repeats itself never ends.
"""


class RandomWords:
    """Uniform whole numbers and exact coins, made of random bytes."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        self.random_bytes = random_bytes

    def words(self, size: int) -> Words:
        """(size,) uniform on 0 .. 2^64 - 1."""
        data = self.random_bytes(8 * size)
        if len(data) != 8 * size:
            raise ArithmeticError(f"{8 * size} random bytes were asked for, and {len(data)} came")
        return np.frombuffer(data, "<u8").astype(np.uint64, copy=False)

    def below(self, limits: Words) -> Words:
        """(n,) whole numbers, each uniform on 0 .. limit - 1 for its own of (n,) limits of 1 to 2^63.

        A number is a word modulo its limit. A word below (2^64 modulo the limit) is drawn again, so that equally many
        words lead to each number.
        """
        words = self.words(limits.size)
        # 2^64 modulo the limit is below the limit, so only so small a word must be looked at.
        small = np.flatnonzero(words < limits)
        if small.size:
            words = words.copy()
        for _ in range(MOST_ROUNDS):
            small = small[words[small] < -limits[small] % limits[small]]
            if not small.size:
                remainders: Words = words % limits
                return remainders
            words[small] = self.words(small.size)
        raise not_random()

    def exponential_coins(self, numerators: Words, denominator: np.uint64) -> NDArray[np.bool_]:
        """(n,) coins, true with probability exp(-u / t) exactly, for numerators 0 <= u <= t and t at most 2^32.

        Canonne, Kamath and Steinke 2020, algorithm 1, first case: coins with probabilities u / t, u / 2t, u / 3t, ...
        are tossed. The result is true if the first coin that fails has an odd number.
        """
        coins = np.zeros(numerators.size, np.bool_)
        open_ = np.arange(numerators.size)
        for number in range(1, MOST_ROUNDS):
            limit = denominator * np.uint64(number)
            succeeds = self.below(np.full(open_.size, limit)) < numerators[open_]
            if number % 2:
                coins[open_[~succeeds]] = True
            open_ = open_[succeeds]
            if not open_.size:
                return coins
        raise not_random()


def not_random() -> ArithmeticError:
    """The error to raise if bytes cannot be random."""
    return ArithmeticError("the random bytes repeat themselves; no noise may be drawn from them")


MOST_TERM = 2**32
"""Largest numerator and denominator of a scale."""
MOST_PARTS = 2**15
LEAST_SHARES = 64
"""A shorter vector is drawn as one of this length, and the rest is dropped, so that short draws take equal time."""


def draw_shares(size: int, scale: Fraction, parts: int, random_bytes: RandomBytes = os.urandom) -> NDArray[np.int64]:
    """Independent shares; `parts` of them add up to discrete Laplace noise of that scale.

    Args:
        size: how many, at least 0.
        scale: of the sum's noise; numerator and denominator at most 2^32.
        parts: h, 1 to 2^15; each share has shape 1 / h.
        random_bytes: returns the given number of independent uniform bytes.

    Returns:
        (size,) int64, each less than 2^48 from 0.

    Raises:
        ValueError: an argument is out of its range.
        ArithmeticError: the random bytes are not random, or too few; no noise was drawn.
    """
    if size < 0:
        raise ValueError("a number of shares is at least 0")
    count = max(size, LEAST_SHARES)
    binomials = draw_negative_binomials(2 * count, scale, parts, random_bytes).astype(np.int64)
    return (binomials[:count] - binomials[count:])[:size]


def draw_negative_binomials(
    size: int, scale: Fraction, parts: int, random_bytes: RandomBytes = os.urandom
) -> NDArray[np.uint64]:
    """Independent negative binomials of shape 1 / `parts` and success 1 - exp(-1 / scale): halves of shares.

    They count failures from 0 on. Arguments and errors are those of `draw_shares`. Returns (size,) uint64, each below
    2^48.
    """
    if not 1 <= parts <= MOST_PARTS:
        raise ValueError(f"noise is shared by 1 to {MOST_PARTS} parts, not {parts}")
    if not 1 <= scale.numerator <= MOST_TERM or scale.denominator > MOST_TERM:
        raise ValueError(f"noise of scale {scale} is not shared: numerator and denominator must lie in 1 .. 2^32")
    source = RandomWords(random_bytes)
    totals = _geometric(size, scale, source)
    return totals if parts == 1 else _thinned(totals, parts, source)


def _geometric(size: int, scale: Fraction, source: RandomWords) -> Words:
    """(size,) with P(k) proportional to exp(-k / scale), k = 0, 1, ..., each below 2^48.

    Canonne, Kamath and Steinke 2020, the beginning of algorithm 2. With the scale t / s: u + t v has P(x) proportional
    to exp(-x / t), where u below t has chances proportional to exp(-u / t), and v counts coins of exp(-1); its whole
    part of a division by s has P(k) proportional to exp(-k s / t).
    """
    top, bottom = np.uint64(scale.numerator), np.uint64(scale.denominator)
    return (_remainders(size, top, source) + top * _steps(size, source)) // bottom


def _remainders(size: int, top: np.uint64, source: RandomWords) -> Words:
    """(size,) numbers u in 0 .. top - 1 with probability proportional to exp(-u / top).

    They are uniform numbers, each kept if a coin of that probability succeeds.
    """
    if top == 1:
        return np.zeros(size, np.uint64)
    passed = [np.empty(0, np.uint64)]
    missing = size
    for _ in range(MOST_ROUNDS):
        if missing <= 0:
            return np.concatenate(passed)[:size]
        # At least 1 - exp(-1) of them pass; how many are tried depends on how many are missing alone.
        tried = source.below(np.full(missing + missing * 3 // 4 + 8, top))
        passed.append(tried[source.exponential_coins(tried, top)])
        missing -= passed[-1].size
    raise not_random()


def _steps(size: int, source: RandomWords) -> Words:
    """(size,) numbers v = 0, 1, ... with P(v) proportional to exp(-v)."""
    steps = np.zeros(size, np.uint64)
    open_ = np.arange(size)
    unit = np.uint64(1)
    for _ in range(MOST_ROUNDS):
        if not open_.size:
            return steps
        open_ = open_[source.exponential_coins(np.ones(open_.size, np.uint64), unit)]
        steps[open_] += unit
    raise not_random()


def _thinned(totals: Words, parts: int, source: RandomWords) -> Words:
    """(n,) sizes left of geometric totals if each cycle of a random permutation stays with probability 1 / parts.

    The cycle of any one place of a uniform permutation of r places is uniform on 1 .. r long, and the rest is uniform
    again (Shepp and Lloyd 1966). Length and coin are read off one number below r h.
    """
    sums = np.zeros(totals.size, np.uint64)
    open_ = np.flatnonzero(totals)
    rest = totals[open_]
    cycle_share, unit = np.uint64(parts), np.uint64(1)
    for _ in range(MOST_ROUNDS):
        if not open_.size:
            return sums
        lengths, coins = np.divmod(source.below(rest * cycle_share), cycle_share)
        lengths += unit
        stays = coins == 0
        sums[open_[stays]] += lengths[stays]
        rest = rest - lengths
        unfinished = np.flatnonzero(rest)
        open_, rest = open_[unfinished], rest[unfinished]
    raise not_random()
