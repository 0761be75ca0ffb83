"""Checks of the options of strategies: the value, or a ValueError or TypeError that says what it must be."""

import inspect
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from protocol.errors import ConfigurationError
from protocol.rationals import parse_rational

Share = int | float | str | Fraction
MOST_NUMBER = 1e12


def names_of(maker: Callable[..., object]) -> list[str]:
    """Names of the options that a strategy, or whatever holds its options, takes; "**" where it takes any."""
    parameters = inspect.signature(maker).parameters.values()
    return ["**" if each.kind is each.VAR_KEYWORD else each.name for each in parameters]


def whole(name: str, value: object, least: int = 1, most: int = 100_000) -> int:
    """The value of an option; ValueError unless it is a whole number in that range."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}")
    return int(value)


def whole_or_none(name: str, value: object) -> int | None:
    """As `whole`, of an option that may be left out."""
    return None if value is None else whole(name, value)


def number(name: str, value: object) -> float:
    """The value of an option; TypeError unless it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MOST_NUMBER <= value <= MOST_NUMBER:
        raise TypeError(f"{name} must be a number of at most {MOST_NUMBER:g}")
    return float(value)


def widths(value: object) -> tuple[int, ...]:
    """The option `hidden`; ValueError or TypeError unless it is a list of widths of layers."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError("hidden must be a list of whole numbers, one width a layer")
    return tuple(whole("each width of hidden", width) for width in value)


def texts(name: str, value: object) -> tuple[str, ...]:
    """The value of an option; ValueError or TypeError unless it is a list of different texts, at least one."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise TypeError(f'{name} must be a list of names, such as ["age", "sex"]')
    if not value or len(set(value)) < len(value):
        raise ValueError(f"{name} must list at least one name, and none twice")
    return tuple(map(str, value))


def flag(name: str, value: object) -> bool:
    """The value of an option; TypeError unless it is true or false."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be true or false")
    return bool(value)


def part_of_epsilon(name: str, value: object) -> Fraction:
    """Of epsilon, exact, in [0, 1); 0 cannot be read as a positive rational, so it is told apart first."""
    if isinstance(value, bool) or not isinstance(value, Share):
        raise TypeError(f'{name} must be a number at least 0 and below 1, such as 0.1 or "1/10"')
    if value in (0, "0"):
        return Fraction(0)
    try:
        share = parse_rational(value)
    except ConfigurationError as error:
        raise ValueError(f"{name} must be at least 0 and below 1: {error}") from None
    if share >= 1:
        raise ValueError(f"{name} must be at least 0 and below 1")
    return share


def exact_shares(rounds: int, shares: Sequence[Share] | None) -> tuple[Fraction, ...]:
    """Shares of epsilon for each round, positive, which sum to exactly 1.

    Args:
        rounds: their number.
        shares: one for each round, in any unit, such as [1, 3] or ["1/4", "3/4"]; None is equal shares.

    Raises:
        ValueError: not one positive number for each round.
    """
    if shares is None:
        return (Fraction(1, rounds),) * rounds
    listed = isinstance(shares, Sequence) and not isinstance(shares, str)
    if not listed or len(shares) != rounds or not all(isinstance(share, Share) for share in shares):
        raise ValueError(f"shares must be a list of {rounds} positive numbers, one for each round")
    try:
        exact = [parse_rational(share) for share in shares]
    except ConfigurationError as error:
        raise ValueError(f"shares: {error}") from None
    return tuple(share / sum(exact) for share in exact)
