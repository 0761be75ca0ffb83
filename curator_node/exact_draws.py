"""Exact draws from random bytes: whole numbers, coins, discrete Laplace noise, shares of it, and noisy choices.

No float is used. A number is read off a table: the first 64 bits of a uniform real number are compared with bounds that
are rounded down to 64 bits. If they equal a bound, more bits are drawn, and the bounds are computed to more bits.

Shares are for a secure sum: a share of h is the difference of two negative binomials of shape 1 / h, and h of them add
up to discrete Laplace noise (`protocol.noise_shares.LaplaceShares`). `docs/explanation/exact-noise.md` and
`docs/explanation/noise-shares.md` prove that the draws have these laws and that every number fits 64 bits.
"""

import os
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, chain, repeat

import numpy as np
from numpy.typing import NDArray

RandomBytes = Callable[[int], bytes]
Words = NDArray[np.uint64]

MOST_ROUNDS = 2**16
"""Most rounds of draws. A fair source needs more with a probability below 2^-60000; one that repeats itself never ends.
"""


LEAST_WORDS = 16
"""So many words that are all the same are not random: the chance is 2^-960. No vector is drawn from fewer."""


class RandomWords:
    """Uniform whole numbers and exact coins, made of random bytes."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        self.random_bytes = random_bytes

    def words(self, size: int) -> Words:
        """(size,) uniform on 0 .. 2^64 - 1."""
        data = self.random_bytes(8 * size)
        if len(data) != 8 * size:
            raise ArithmeticError(f"{8 * size} random bytes were asked for, and {len(data)} came")
        words = np.frombuffer(data, "<u8").astype(np.uint64, copy=False)
        if size >= LEAST_WORDS and (words[:LEAST_WORDS] == words[0]).all():
            raise not_random()
        return words

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
WORD = 64
"""Bits of a word."""
MOST_WORDS = 16
"""Most words of one digit. A fair source needs more with a probability below 2^-800."""
BASE = 2**8
"""Digits of a wide scale are below it, but for the last one."""
MOST_LAST = 2**9
"""The last digit is below it, but for one number in 2^64."""
REACH = 45
"""Scales that the last digit reaches: exp(-45) is below 2^-64."""
MOST_ROWS = 2**7
"""Most rows of a table that one digit is read from. A fair source needs more with a probability below 2^-8000."""


@dataclass(frozen=True)
class Digit:
    """The law of one digit of a geometric number, and how it is drawn: P(j) is proportional to exp(-rate j).

    A last digit is 0, 1, ... without end; other ones are below `size`. With a sign, each digit has two outcomes, 2 j
    and 2 j + 1, with odds of 1 to exp(-rate): the second stands for -1 - j.
    """

    rate: Fraction  # a > 0
    size: int  # digits of the table, at least 1
    last: bool
    signed: bool

    @property
    def count(self) -> int:
        """Outcomes below the size. A last digit has one more, which stands for all above."""
        return 2 * self.size if self.signed else self.size

    def draw(self, words: Words, source: RandomWords) -> NDArray[np.int64]:
        """(n,) outcomes, from (n,) words and more if need be. Beyond the reach, a digit is the reach plus another."""
        outcomes = self._read(words, source)
        if not self.last:
            return outcomes
        beyond = np.flatnonzero(outcomes == self.count)
        for _ in range(MOST_ROWS):
            if not beyond.size:
                return outcomes
            further = self._read(source.words(beyond.size), source)
            outcomes[beyond] += further
            beyond = beyond[further == self.count]
        raise not_random()

    def _read(self, words: Words, source: RandomWords) -> NDArray[np.int64]:
        """(n,) outcomes of one row of the table, each from one of (n,) words and, once in some 2^53, further ones."""
        outcomes = np.searchsorted(self._table, words, side="right").astype(np.int64, copy=False)
        outcomes -= 1
        for place in np.flatnonzero(self._table[outcomes] == words).tolist():
            outcomes[place] = self._settled(int(words[place]), source)
        return outcomes

    def _settled(self, bits: int, source: RandomWords) -> int:
        """The outcome of a uniform number whose first word is that of a bound."""
        for words in range(2, MOST_WORDS + 1):
            bits = bits << WORD | int(source.words(1)[0])
            bounds = self.bounds(WORD * words)
            outcome = bisect_right(bounds, bits) - 1
            if not outcome or bounds[outcome] != bits:
                return outcome
        raise not_random()

    @cached_property
    def _table(self) -> Words:
        """The bounds, rounded down to one word each."""
        return np.array(self.bounds(WORD), np.uint64)

    def bounds(self, bits: int) -> list[int]:
        """For each outcome, 2^bits times the probability of all smaller ones, rounded down, exactly.

        Every probability but the first, 0, is a number that no dyadic rational equals: so it is known to enough bits at
        some time.
        """
        more = WORD
        while True:
            low, high = self._enclosed(bits + more)
            floors = [bound >> more for bound in low]
            if floors == [bound >> more for bound in high]:
                return floors
            more *= 2

    def _enclosed(self, bits: int) -> tuple[list[int], list[int]]:
        """Whole numbers that enclose 2^bits times the probability of all smaller outcomes, for each outcome."""
        unit = 1 << bits
        low, high = exponential(self.rate, bits)
        lows, highs = self._tails(low, bits, 1), self._tails(high, bits, -1)
        cut_low, cut_high = (0, 0) if self.last else (lows.pop(), highs.pop())
        return (
            [(unit - tail << bits) // (unit - cut_low) for tail in highs],
            # No outcome has probability 0, so every bound is below 1.
            [min(-((tail - unit << bits) // (unit - cut_high)), unit - 1) for tail in lows],
        )

    def _tails(self, p: int, bits: int, sign: int) -> list[int]:
        """2^bits p^j for j = 0 .. `size`; with a sign, 2^bits p^j 2 p / (1 + p) follows each but the last.

        That is the chance of an outcome and all larger ones, if nothing were cut off. Products are rounded down for a
        `sign` of 1, and up for -1.
        """

        def product(first: int, second: int) -> int:
            return sign * (sign * first * second >> bits)

        powers = accumulate(repeat(p, self.size), product, initial=1 << bits)
        if not self.signed:
            return list(powers)
        share = sign * ((sign * 2 * p << bits) // ((1 << bits) + p))
        return list(chain.from_iterable((power, product(power, share)) for power in powers))[:-1]


def exponential(rate: Fraction, bits: int) -> tuple[int, int]:
    """Whole numbers low and high with low <= 2^bits exp(-rate) <= high, for a rate of at least 0.

    The alternating series of a number of at most 1, each term rounded both ways, is squared as often as the rate was
    halved.
    """
    if rate > bits:
        return 0, 1
    halvings = (-(-rate.numerator // rate.denominator)).bit_length()
    top, bottom = rate.numerator, rate.denominator << halvings
    low = high = less = more = 1 << bits
    number = 0
    while more > 1:
        number += 1
        less, more = less * top // (bottom * number), -(-more * top // (bottom * number))
        low, high = (low - more, high - less) if number % 2 else (low + less, high + more)
    # What is left out is less than the last term.
    low, high = max(low - 1, 0), high + 1
    for _ in range(halvings):
        low, high = low * low >> bits, -(-high * high >> bits)
    return low, high


@lru_cache(maxsize=64)
def digits_of(scale: Fraction, *, signed: bool) -> tuple[Digit, ...]:
    """The digits of a geometric number of that scale, the lowest first; a sign belongs to the first.

    Raises:
        ValueError: numerator or denominator is out of its range.
    """
    if not 1 <= scale.numerator <= MOST_TERM or scale.denominator > MOST_TERM:
        raise ValueError(f"noise of scale {scale} is not drawn: numerator and denominator must lie in 1 .. 2^32")
    digits: list[Digit] = []
    rate = Fraction(scale.denominator, scale.numerator)
    while (size := -(-REACH * rate.denominator // rate.numerator)) > MOST_LAST:
        digits.append(Digit(rate, BASE, last=False, signed=signed and not digits))
        rate *= BASE
    return (*digits, Digit(rate, size, last=True, signed=signed and not digits))


def _numbers(size: int, digits: tuple[Digit, ...], source: RandomWords) -> NDArray[np.int64]:
    """(size,) numbers of these digits, each below 2^48; with a sign, twice the digits' number plus the sign."""
    count = max(size, LEAST_WORDS)
    numbers, worth = np.zeros(count, np.int64), 1
    for digit, words in zip(digits, source.words(count * len(digits)).reshape(-1, count), strict=True):
        numbers += digit.draw(words, source) * worth
        worth *= digit.count
    return numbers[:size]


def draw_laplace(size: int, scale: Fraction, random_bytes: RandomBytes = os.urandom) -> NDArray[np.int64]:
    """Independent discrete Laplace noise of exactly that scale (`protocol.noise.DiscreteLaplace`).

    A word is drawn for each number and digit, whatever the numbers are: one digit up to scale 11, two up to 2,900, and
    five up to 2^32.

    Args:
        size: how many, at least 0.
        scale: numerator and denominator at most 2^32.
        random_bytes: returns the given number of independent uniform bytes.

    Returns:
        (size,) int64, each less than 2^47 from 0.

    Raises:
        ValueError: the size or the scale is out of its range.
        ArithmeticError: the random bytes are not random, or too few; no noise was drawn.
    """
    if size < 0:
        raise ValueError("a number of draws is at least 0")
    numbers = _numbers(size, digits_of(scale, signed=True), RandomWords(random_bytes))
    return (numbers >> 1) ^ -(numbers & 1)


def draw_choice(scores: NDArray[np.int64], scale: Fraction, random_bytes: RandomBytes = os.urandom) -> int:
    """The index of the largest of (k,) scores with exponential noise of that scale, k at least 1, by permute and flip.

    A score that lies d below the largest passes if a geometric number reaches d, with chance exp(-d / scale). The first
    that passes in a random order is any one of those that pass (Ding, Kifer, Sayed Saeedur Rahman and others 2021).
    Errors are those of `draw_laplace`.
    """
    source = RandomWords(random_bytes)
    # Differences modulo 2^64 are right: they lie in 0 .. 2^64 - 1.
    gaps = scores.max(keepdims=True).astype(np.uint64) - scores.astype(np.uint64)
    passed = np.flatnonzero(_geometric(scores.size, scale, source) >= gaps)
    return int(passed[source.below(np.full(1, passed.size, np.uint64))][0])


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
    source = RandomWords(random_bytes)
    totals = _geometric(size, scale, source)
    return totals if parts == 1 else _thinned(totals, parts, source)


def _geometric(size: int, scale: Fraction, source: RandomWords) -> Words:
    """(size,) with P(k) proportional to exp(-k / scale), k = 0, 1, ..., each below 2^48."""
    return _numbers(size, digits_of(scale, signed=False), source).astype(np.uint64)


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
