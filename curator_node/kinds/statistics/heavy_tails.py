"""Exact draws of heavy-tailed noise (`protocol.kinds.statistics.methods`), rounded to a grid. No float is used.

A uniform number U in [0, 1) is read 64 bits at a time, and a point of the grid is found by bisection: it is at most y
where U is below the distribution function at y + 1/2, which is decided exactly as soon as enough bits are known.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from protocol.kinds.statistics.methods import POLYNOMIALS, Degrees

WORD = 64
MOST_WORDS = 2**10
"""Most words of a draw. A fair source needs more with a probability below 2^-65000; one that repeats itself might never
end."""


def draw_rounded(
    centre: int, scale: Fraction, degrees: Degrees, most: int, random_bytes: Callable[[int], bytes]
) -> int:
    """The whole number nearest to centre + scale Z, clipped to 0 .. most. Z has the heavy-tailed law.

    Args:
        centre: any whole number.
        scale: positive.
        degrees: the parameter d of the law of Z.
        most: at least 0.
        random_bytes: returns the given number of independent uniform bytes.

    Raises:
        ArithmeticError: the random bytes are not random, or too few; nothing was drawn.
    """
    uniform = _Uniform(random_bytes)
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        # z = (middle + 1/2 - centre) / scale, not in lowest terms
        z = (2 * (middle - centre) + 1) * scale.denominator, 2 * scale.numerator
        if uniform.is_below(_Point.of(*z, degrees)):
            high = middle
        else:
            low = middle + 1
    return low


class _Uniform:
    """A uniform number whose bits are drawn as they are needed."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._known, self._words = 0, 0
        self._extend()

    def is_below(self, point: "_Point") -> bool:
        """Whether it is below the distribution function at a point."""
        while True:
            unit = 1 << WORD * self._words
            if point.is_at_most(self._known, unit):
                return False
            if not point.is_at_most(self._known + 1, unit):
                return True
            self._extend()  # the function's value lies between the two ends

    def _extend(self) -> None:
        word = self._random_bytes(WORD // 8)
        if len(word) != WORD // 8 or self._words >= MOST_WORDS:
            raise ArithmeticError("the random bytes are too few or repeat themselves; no noise may be drawn from them")
        self._known = self._known << WORD | int.from_bytes(word, "little")
        self._words += 1


class _Point(NamedTuple):
    """The distribution function at one z: (1 + s sqrt(left / right)) / 2, where s is the sign of z."""

    sign: int  # of z: -1, 0 or 1
    left: int
    right: int

    @classmethod
    def of(cls, numerator: int, denominator: int, degrees: Degrees) -> "_Point":
        """The point z = numerator / denominator; the denominator is positive.

        The function is (1 + p(t)) / 2, and the squares of t and p(t) are rational: t^2 = top / square.
        """
        top = numerator * numerator
        square = top + denominator * denominator
        bottom, *coefficients = POLYNOMIALS[degrees]
        total, power = 0, 1
        for coefficient in reversed(coefficients):  # the sum of coefficient i times top^i square^(last - i)
            total = total * top + coefficient * power
            power *= square
        sign = (numerator > 0) - (numerator < 0)
        return cls(sign, top * total * total, bottom * bottom * power * power // square)

    def is_at_most(self, numerator: int, denominator: int) -> bool:
        """Whether the function is at most a rational r of [0, 1]: 2 r - 1 is compared by sign, then by squares."""
        twice = 2 * numerator - denominator
        if twice >= 0 and self.sign <= 0:
            return True
        if twice <= 0 and self.sign >= 0:
            return twice == 0 and self.sign == 0
        squared, value = twice * twice * self.right, self.left * denominator * denominator
        return squared >= value if self.sign > 0 else squared <= value
