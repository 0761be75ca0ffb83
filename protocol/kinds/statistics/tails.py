"""The heavy-tailed law of noise that is scaled by smooth sensitivity: Student's t, with whole numbers alone.

Density proportional to (1 + z^2)^(-(d + 1) / 2) for an even d: Student's t with d degrees of freedom, divided by the
square root of d. With t = z / sqrt(1 + z^2) its distribution function is (1 + p(t)) / 2 for an odd polynomial p whose
coefficients are rational: d = 2: t; d = 4: (3 t - t^3) / 2; d = 6: (15 t - 10 t^3 + 3 t^5) / 8. So t^2 is rational
where z is, and a comparison with a rational is one of whole numbers.

Admissible, as Nissim, Raskhodnikova and Smith (2007) call noise that may be scaled by smooth sensitivity (Bun and
Steinke 2019 propose Student's t): moved by x, the log-density changes by at most (d + 1) |x| / 2; stretched by e^y, by
at most d |y|. Proofs: docs/statistics.md.
"""

from fractions import Fraction
from typing import Literal

Degrees = Literal[2, 4, 6]
POLYNOMIALS: dict[int, tuple[int, ...]] = {2: (1, 1), 4: (2, 3, -1), 6: (8, 15, -10, 3)}
"""Of each number of degrees: the common denominator, then the coefficients of t, t^3, t^5."""


def loss_of_shift(degrees: int, shift: Fraction) -> Fraction:
    """Most change of the log-density under a shift, in units of the scale: (d + 1) / 2 times it.

    The slope of (d + 1) / 2 log(1 + z^2) is (d + 1) z / (1 + z^2), and 2 |z| <= 1 + z^2.
    """
    return Fraction(degrees + 1, 2) * shift


def loss_of_stretch(degrees: int, log_ratio: Fraction) -> Fraction:
    """Most change of the log-density where scales differ by a factor of at most exp(`log_ratio`): d times it.

    The slope of y - (d + 1) / 2 log(1 + e^(2 y) z^2) in y lies between -d and 1.
    """
    return degrees * log_ratio


def distribution(degrees: int, z: float) -> float:
    """P(Z <= z), in floats: for tests, studies and words."""
    t = z / (1 + z * z) ** 0.5
    denominator, *coefficients = POLYNOMIALS[degrees]
    power, total = t, 0.0
    for coefficient in coefficients:
        total += coefficient * power
        power *= t * t
    return 0.5 + 0.5 * total / denominator
