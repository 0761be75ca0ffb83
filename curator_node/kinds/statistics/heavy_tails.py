"""Exact draws of heavy-tailed noise (`protocol.kinds.statistics.methods`), rounded to a grid. No float is used.

A uniform number U in [0, 1) is read 64 bits at a time, and a point of the grid is found by bisection: it is at most y
where U is below the distribution function at y + 1/2, which is decided exactly as soon as enough bits are known.
"""

from collections.abc import Callable
from fractions import Fraction

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
        if uniform.is_below(Fraction(2 * (middle - centre) + 1, 2) / scale, degrees):
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

    def is_below(self, z: Fraction, degrees: Degrees) -> bool:
        """Whether it is below the distribution function at z."""
        while True:
            unit = 1 << WORD * self._words
            if not _is_at_least(self._known, unit, z, degrees):
                if _is_at_least(self._known + 1, unit, z, degrees):
                    self._extend()  # the function's value lies between the two ends
                    continue
                return True
            return False

    def _extend(self) -> None:
        word = self._random_bytes(WORD // 8)
        if len(word) != WORD // 8 or self._words >= MOST_WORDS:
            raise ArithmeticError("the random bytes are too few or repeat themselves; no noise may be drawn from them")
        self._known = self._known << WORD | int.from_bytes(word, "little")
        self._words += 1


def _is_at_least(numerator: int, denominator: int, z: Fraction, degrees: Degrees) -> bool:
    """Whether a rational of [0, 1] is at least the distribution function at z, exactly.

    The function is (1 + p(t)) / 2, so 2 r - 1 is compared with p(t), by signs and then by squares: t^2 is rational.
    """
    twice = 2 * numerator - denominator
    if twice >= 0 and z <= 0:
        return True
    if twice <= 0 and z >= 0:
        return twice == 0 and z == 0
    top, square = z.numerator**2, z.numerator**2 + z.denominator**2  # t^2 = top / square
    bottom, *coefficients = POLYNOMIALS[degrees]
    last = len(coefficients) - 1
    total: int = sum(c * top**i * square ** (last - i) for i, c in enumerate(coefficients))
    left_side, right_side = twice**2 * bottom**2 * square ** (2 * last + 1), top * total**2 * denominator**2
    return bool(left_side >= right_side if z > 0 else left_side <= right_side)
