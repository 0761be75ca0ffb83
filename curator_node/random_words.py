"""Whole numbers and coins made of random bytes, exactly: no float, no logarithm and no table comes in."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

RandomBytes = Callable[[int], bytes]
Words = NDArray[np.uint64]

MOST_ROUNDS = 2**16
"""A fair source needs more with a chance below 2^-60000; one that repeats itself would never end."""


class RandomWords:
    """Uniform whole numbers and exact coins, made of random bytes."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        self.random_bytes = random_bytes

    def words(self, size: int) -> Words:
        """(size,) uniform on 0 .. 2^64 - 1."""
        given = self.random_bytes(8 * size)
        if len(given) != 8 * size:
            raise ArithmeticError(f"{8 * size} random bytes were asked for, and {len(given)} came")
        return np.frombuffer(given, "<u8").astype(np.uint64, copy=False)

    def below(self, limits: Words) -> Words:
        """(n,) uniform on 0 .. limit - 1 each, for (n,) limits of 1 to 2^63: the word modulo the limit.

        A word below 2^64 modulo the limit is drawn again, so that as many words lead to each number.
        """
        words = self.words(limits.size)
        # 2^64 modulo the limit is below the limit, so only so small a word must be looked at.
        small = np.flatnonzero(words < limits)
        if small.size:
            words = words.copy()
        for _ in range(MOST_ROUNDS):
            small = small[words[small] < -limits[small] % limits[small]]
            if not small.size:
                drawn: Words = words % limits
                return drawn
            words[small] = self.words(small.size)
        raise not_random()

    def exponential_coins(self, numerators: Words, denominator: np.uint64) -> NDArray[np.bool_]:
        """(n,) coins, true with probability exp(-u / t) exactly, for numerators 0 <= u <= t and t at most 2^32.

        Canonne, Kamath and Steinke 2020, algorithm 1, first case: of coins with probabilities u / t, u / 2t, u / 3t
        and so on, the first that fails has an odd number.
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
    """The error where bytes cannot be random."""
    return ArithmeticError("the random bytes repeat themselves; no noise may be drawn from them")
