"""Exact amounts: scales and costs are rationals, never floats.

If a noise library wants a float, `curator_node.opendp_noise` converts the scale, and rounds in favour of privacy.
"""

import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Annotated

import msgspec

from protocol.errors import ConfigurationError

GRID = 2**64
LONGEST_DENOMINATOR = 2**1024
LONGEST_SUM = 2**32_768
"""Largest denominator of an exact sum: a thousand distinct prime scales of 32 bits fit."""
MOST = 2**32 - 1
"""Largest numerator and denominator on the wire (32 bits)."""

AMOUNT_PATTERN = r"^(0|[1-9][0-9]{0,1999})(/[1-9][0-9]{0,1999})?\Z"
Amount = Annotated[str, msgspec.Meta(max_length=4001, pattern=AMOUNT_PATTERN)]
"""A non-negative rational as text, "a" or "a/b"; totals of many plans may need more than 32 bits."""
OptionalAmount = Annotated[str, msgspec.Meta(max_length=4001, pattern=rf"{AMOUNT_PATTERN}|^\Z")]
"""An amount, or the empty text."""

_AMOUNT = re.compile(AMOUNT_PATTERN)
_DECIMAL = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,9}))?")
_RATIO = re.compile(r"([0-9]{1,10})/([0-9]{1,10})")
_LONG_DECIMAL = re.compile(r"[0-9]{1,10}\.[0-9]{10,}")
_NEGATIVE = re.compile(r"-[0-9]+(?:[./][0-9]+)?(?:e[+-]?[0-9]+)?")


class Rational(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A positive rational in lowest terms, with a numerator and denominator of at most 32 bits.

    Raises:
        ValueError: the value is not positive, not in lowest terms, or too large. While decoding, msgspec turns this
            into its own validation error, so hostile bytes cannot make a wrong value.
    """

    numerator: int
    denominator: int

    def __post_init__(self) -> None:
        if not (1 <= self.numerator <= MOST and 1 <= self.denominator <= MOST):
            raise ValueError("numerator and denominator must lie in 1 .. 2^32 - 1")
        if math.gcd(self.numerator, self.denominator) != 1:
            raise ValueError("rational must be in lowest terms")

    @property
    def fraction(self) -> Fraction:
        """The value as a standard library Fraction."""
        return _fraction(self.numerator, self.denominator)

    @classmethod
    def of(cls, value: Fraction | int) -> "Rational":
        """The wire form of a positive fraction. Raises ValueError: it needs more than 32 bits."""
        exact = Fraction(value)
        return cls(exact.numerator, exact.denominator)


@lru_cache(maxsize=1024)
def _fraction(numerator: int, denominator: int) -> Fraction:
    return Fraction(numerator, denominator)


def amount(value: Fraction) -> str:
    """Write a non-negative rational for machines: "3" or "7/30"."""
    return str(value)


def written(value: Fraction | str) -> str:
    """Write a rational for people: 0.3, 1/3, 12,800, or ≈ 11,378 if rounded. A text is a decimal or "a/b"."""
    value = Fraction(value)
    if value < 0:
        return f"-{written(-value)}"
    if (plain := _typed(value, places=6)) and value < 10**12:
        return f"{value.numerator:,}" if value.denominator == 1 else plain
    if value < 1 and value.denominator < (1000 if value.numerator == 1 else 13):
        return str(value)
    return f"≈ {_decimal(value):,.0f}" if 1000 <= value < 10**12 else f"≈ {_decimal(value):.4g}"


def named_parts(parts: Iterable[tuple[str, Fraction | str]]) -> str:
    """The parts of an epsilon by name, such as " (model 1, validation 0.25)"; "" if only one part is above 0."""
    costs = [f"{name} {written(cost)}" for name, cost in parts if Fraction(cost)]
    return f" ({', '.join(costs)})" if len(costs) > 1 else ""


def written_exactly(value: Fraction | str) -> str:
    """Write a rational like `written`, but never rounded or grouped, so that a copy is exact: 0.3, 29/15, 12800."""
    value = Fraction(value)
    return _typed(value, places=9) or str(value)


def _typed(value: Fraction, *, places: int) -> str:
    """The value as a decimal text; "" if it needs more places than that."""
    scaled = value * 10**places
    if scaled.denominator != 1 or scaled >= 10**40:
        return ""
    integer, rest = divmod(scaled.numerator, 10**places)
    return f"{integer}.{rest:0{places}}".rstrip("0").rstrip(".")


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


@lru_cache(maxsize=1024)
def parse_amount(text: str) -> Fraction:
    """Inverse of `amount`. Raises ValueError: the text does not match `AMOUNT_PATTERN`, whose length is bounded."""
    if not _AMOUNT.match(text):
        raise ValueError("no amount: it is written as 3 or 7/30")
    return Fraction(text)


def parse_rational(text: str | float | Fraction) -> Fraction:
    """Parse a positive rational that a person wrote: 1, "1", "0.3", "1/30".

    The length is bounded before parsing, so that "1e999999999" costs nothing. A float is taken by its shortest decimal
    text (0.1 means one tenth); NaN and infinities are errors.

    Raises:
        ConfigurationError: the value is not a positive rational, or it needs more than 32 bits.
    """
    return _parse(text if isinstance(text, str | int | float | Fraction) else str(text))


@lru_cache(maxsize=4096, typed=True)
def _parse(text: str | float | Fraction) -> Fraction:
    if isinstance(text, Fraction) or type(text) is int:
        value = Fraction(text)
        small = max(abs(value.numerator), value.denominator) < 2**64
        written = repr(str(value)) if small else "the amount"  # Python refuses to print thousands of digits
    else:
        plain = str(text).strip()[:64]
        written = repr(plain)
        if (ratio := _RATIO.fullmatch(plain)) and int(ratio[2]):
            value = Fraction(int(ratio[1]), int(ratio[2]))
        elif decimal := _DECIMAL.fullmatch(plain):
            digits = decimal[2] or ""
            value = Fraction(int(decimal[1] + digits), 10 ** len(digits))
        else:
            raise ConfigurationError(f"{written} {_why_not_read(text, plain)}")
    if value <= 0:
        raise ConfigurationError(f"{written} must be positive: write 1, 0.3 or 1/30")
    if value.numerator > MOST or value.denominator > MOST:
        raise ConfigurationError(f"{written} needs more than 32 bits: numerator and denominator are at most {MOST}")
    return value


def _why_not_read(value: str | float, plain: str) -> str:
    """The error for an amount that is neither a ratio nor a short decimal."""
    if _NEGATIVE.fullmatch(plain):
        return "must be positive: write 1, 0.3 or 1/30"
    if _LONG_DECIMAL.fullmatch(plain) or (isinstance(value, float) and 0 < value < 1):  # 1e-05 among them
        return 'has too many decimals to be taken as exact (9 at most): write it as text like "1/3"'
    if isinstance(value, float) and MOST < value < math.inf:
        return f"needs more than 32 bits: numerator and denominator are at most {MOST}"
    return "is not a positive rational: write 1, 0.3 or 1/30"


def shorten(
    total: Fraction, rounding: Callable[[Fraction], int] = math.ceil, longest: int = LONGEST_DENOMINATOR
) -> Fraction:
    """Round a total to the grid of 2^-64 if it is too long to write down.

    Args:
        total: exact; its denominator may be longer than any message.
        rounding: `math.floor` or `math.ceil`, whichever favours privacy.
        longest: the largest denominator that is left unchanged.
    """
    return total if total.denominator <= longest else Fraction(rounding(total * GRID), GRID)


def plus(augend: Fraction, addend: Fraction) -> Fraction:
    """The exact sum; rounded up to the grid of 2^-64 if its denominator exceeds `LONGEST_SUM`."""
    return shorten(augend + addend, longest=LONGEST_SUM)


def total_of(amounts: Iterable[Fraction]) -> Fraction:
    """The sum of all amounts, by `plus`."""
    return reduce(plus, amounts, Fraction(0))
