"""A proved bound of what noise of Student's law loses where its centre and its scale both move, in whole numbers.

A file of its own, as nothing here knows of plans, and the proof is read side by side with it
(docs/explanation/statistics.md). The bound is a price: learner, curator and auditor must find the same one for ever, on
any machine. So it is *defined* by this computation, which knows no float, and every step rounds up.
"""

import math
from fractions import Fraction
from functools import lru_cache

PRICES = 10**6
"""A price is a multiple of 1 / `PRICES`."""
ONE = 2**128
"""Numbers are counted in parts of 1 / `ONE`, and rounded up to a whole number of parts."""
TERMS = 45
"""Of the series of a logarithm; (1/3)^(2 TERMS + 1) is below 1 / `ONE`."""


@lru_cache(maxsize=4096)
def joint_loss(degrees: int, shift: Fraction, stretch: Fraction) -> Fraction:
    """An upper bound of the loss of centre + scale Z if both differ between neighbours, a multiple of 1 / `PRICES`.

    The log-density ratio of two such numbers, whose centres differ by at most `shift` times the smaller of the scales
    and whose scales differ by a factor r with 1 / stretch <= r <= stretch, is at most the larger of L(0) and
    L(log stretch), where

        L(y) = (d - 1) / 2 y + (d + 1) / 2 arcosh((e^y + (1 + shift^2) e^-y) / 2)

    for a density of Z proportional to (1 + z^2)^(-(d + 1) / 2). The proof is in docs/explanation/statistics.md.

    Args:
        degrees: d, at least 1.
        shift: at least 0, with 32 bits in numerator and denominator.
        stretch: at least 1.
    """
    return max(_rounded(degrees, shift, Fraction(1)), _rounded(degrees, shift, stretch))


def _rounded(degrees: int, shift: Fraction, stretch: Fraction) -> Fraction:
    """L(log stretch), rounded up."""
    cosh = _parts((stretch + (1 + shift * shift) / stretch) / 2)
    # arcosh(g) = log(g + sqrt(g^2 - 1)) grows with g
    spread = _log(cosh + _root(cosh * cosh - ONE * ONE))
    twice = (degrees - 1) * _log(_parts(stretch)) + (degrees + 1) * spread
    return Fraction(-(-twice * PRICES // (2 * ONE)), PRICES)


def _parts(value: Fraction) -> int:
    """A number in parts, rounded up."""
    return math.ceil(value * ONE)


def _root(square: int) -> int:
    """The least whole number whose square is at least `square`."""
    return math.isqrt(square - 1) + 1 if square else 0


def _log(parts: int) -> int:
    """At least log(parts / ONE), in parts, for parts >= ONE; at most 2^13 parts too much for one below 2^80.

    With m = parts / 2^k in [1, 2), the logarithm is k log 2 + 2 artanh((m - 1) / (m + 1)). All terms are positive.
    """
    doublings = parts.bit_length() - ONE.bit_length()
    mantissa = -(-parts >> doublings)
    return doublings * _twice_artanh(-(-ONE // 3)) + _twice_artanh(-(-(mantissa - ONE) * ONE // (mantissa + ONE)))


def _twice_artanh(parts: int) -> int:
    """At least 2 artanh(w) = 2 (w + w^3 / 3 + w^5 / 5 + ...), in parts, for w = parts / ONE in [0, 1/3 + 1 / ONE].

    What is left out after `TERMS` terms is below 9/4 w^(2 TERMS + 1) / (2 TERMS + 1), and so below one part.
    """
    square, power, total = -(-parts * parts // ONE), parts, 0
    for number in range(TERMS):
        total += -(-power // (2 * number + 1))
        power = -(-power * square // ONE)
    return 2 * total + 1
