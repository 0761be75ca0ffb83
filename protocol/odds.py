"""By what factors answers may change the odds of what anybody believes of one privacy unit; exact, as exponents.

Adding or removing a unit is one question. Of a unit that is known to be there, its label and its attributes are others,
and they may cost more: what is removed is also added. Proofs: docs/odds.md.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from protocol import rationals
from protocol.errors import printable
from protocol.schema import Schema

_MOST_EXPONENT = 20
"""Beyond, a factor is told as a power of ten."""


@dataclass(frozen=True)
class PrivacyUnit:
    """What is protected as a whole, as a card says it.

    Attributes:
        records: c, most of one that count.
        name: of the column that names it; "" where each record is one.
        label: name of the label.
        numeric: whether the label is a number.
    """

    records: int
    name: str = ""
    label: str = ""
    numeric: bool = False

    @classmethod
    def of(cls, schema: Schema, name: str | None, records: int) -> Self:
        """From what schema files and cards say."""
        return cls(records, name or "", schema.label, schema.label_bounds is not None)


@dataclass(frozen=True)
class Odds:
    """Exponents x: no answer changes the odds of a belief by a factor of more than e^x, whatever else is known.

    Attributes:
        presence: whether the unit is among the records.
        label: of a unit that is known to be: which labels its records have, all else about it being known. Where it
            has more records than count, labels help to choose those that do, and `attribute` holds for them, too.
        attribute: of a unit that is known to be: anything else about it. Up to c records of it may be any others.
    """

    presence: Fraction
    label: Fraction
    attribute: Fraction

    @classmethod
    def twice(cls, presence: Fraction) -> Self:
        """What holds for every mechanism: a change is a removal and an addition."""
        return cls(presence, 2 * presence, 2 * presence)

    def __add__(self, other: "Odds") -> "Odds":
        """Of both answers together."""
        return Odds(self.presence + other.presence, self.label + other.label, self.attribute + other.attribute)

    def __mul__(self, share: Fraction) -> "Odds":
        """Of so much of it."""
        return Odds(self.presence * share, self.label * share, self.attribute * share)

    def or_more(self, other: "Odds") -> "Odds":
        """The larger of each."""
        return Odds(
            max(self.presence, other.presence), max(self.label, other.label), max(self.attribute, other.attribute)
        )


MISSES = Fraction(1, 20)
OFTEN = "19 of 20 cases"
"""How often a number is as exact as a steward is told, and how often it is not."""
UNLIMITED = "without any limit, as not all of it is as private as its cost says: a simulation"
NOTHING = Odds(Fraction(0), Fraction(0), Fraction(0))
WORST = Odds.twice(Fraction(1))
"""Of each epsilon that was charged, where nothing is known of what it was charged for."""


def factor(exponent: Fraction) -> str:
    """e^exponent for people, never less than it is."""
    value = float(max(exponent, Fraction(0)))
    if value > _MOST_EXPONENT:
        return f"10^{math.ceil(value / math.log(10))}"
    return f"{math.ceil(math.exp(value) * 100) / 100:.2f}"


def written(exponent: Fraction) -> str:
    """A factor for people, and its exponent for who audits."""
    power = rationals.written(exponent)
    if power.startswith("≈ "):
        return f"{factor(exponent)} (about e^{power[2:]})"
    return f"{factor(exponent)} (e^{f'({power})' if '/' in power else power})"


def at_most(cap: Fraction, per_epsilon: Odds | None, unit: PrivacyUnit) -> str:
    """In words, what answers up to a cap may change, where each epsilon may change so much; None is without limit."""
    if per_epsilon is None:
        return UNLIMITED
    total = per_epsilon * cap
    return (
        f"the odds of what anybody believes of one {printable(unit.name) or 'record'} by a factor of at most "
        f"{written(total.presence)} as to whether it is among the records; of one that is known to be, by "
        f"{written(total.label)} as to its label and by {written(total.attribute)} as to anything else"
    )
