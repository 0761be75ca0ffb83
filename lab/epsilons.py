"""Epsilons as cells hold them: exact texts, and "inf" for what is not private."""

from collections.abc import Iterable
from fractions import Fraction

from protocol.rationals import parse_rational

INFINITE = "inf"
"""Epsilon of what is not private."""


def epsilon_text(epsilon: Fraction | None) -> str:
    """The shortest exact text: a decimal where there is one, "inf" for None."""
    if epsilon is None:
        return INFINITE
    decimal = f"{float(epsilon):.9f}".rstrip("0").rstrip(".")
    return decimal if Fraction(decimal) == epsilon else str(epsilon)


def shortest(epsilons: Iterable[str]) -> tuple[str, ...]:
    """Epsilons as typed ("1.0", "1/2") by their shortest texts, so that cells of one epsilon are found again."""
    return tuple(epsilon_text(parse_rational(text)) for text in epsilons)


def epsilon_order(text: str) -> tuple[int, Fraction]:
    """A key that sorts epsilons downwards, infinity first."""
    return (0, Fraction(0)) if text == INFINITE else (1, -parse_rational(text))
