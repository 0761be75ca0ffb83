"""Bounds on how far answers can change anybody's odds about one privacy unit, as exact exponents of e.

There are three bounds: for whether the unit is among the records, and, if it is known to be, for its label and for its
attributes. The latter two may be larger, since changing a record removes one and adds one. Proofs:
docs/explanation/odds.md.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from protocol import rationals
from protocol.errors import printable
from protocol.schema import Schema

_MOST_EXPONENT = 20
"""Largest exponent for which a factor is not written as a power of ten."""


@dataclass(frozen=True)
class PrivacyUnit:
    """The privacy unit that a card declares: the records that are protected as a whole."""

    records: int  # c, the most records of one unit that count
    name: str = ""  # the column that names a record's unit; "" if each record is a unit
    label: str = ""  # name of the label
    numeric: bool = False  # whether the label is a number

    @classmethod
    def of(cls, schema: Schema, name: str | None, records: int) -> Self:
        """The unit under a schema, with the unit column `name` (None: each record is a unit) and contribution bound."""
        return cls(records, name or "", schema.label, schema.label_bounds is not None)


@dataclass(frozen=True)
class Odds:
    """Exponents x: answers change the odds of a belief about one unit by at most e^x, whatever else is known."""

    presence: Fraction  # of the belief that the unit is among the records
    # of a belief about the labels of a unit that is there, when all else about it is known. If the unit has more
    # records than count, its labels help to choose which count; then `attribute` is the bound for labels.
    label: Fraction
    attribute: Fraction  # of any other belief about a unit that is there. Up to c of its records may be different ones.

    @classmethod
    def twice(cls, presence: Fraction) -> Self:
        """The bound that holds for every mechanism: changing a unit removes one and adds one."""
        return cls(presence, 2 * presence, 2 * presence)

    def __add__(self, other: "Odds") -> "Odds":
        """The bound for both answers jointly."""
        return Odds(self.presence + other.presence, self.label + other.label, self.attribute + other.attribute)

    def __mul__(self, share: Fraction) -> "Odds":
        """The bound if the epsilon is multiplied by `share`."""
        return Odds(self.presence * share, self.label * share, self.attribute * share)

    def or_more(self, other: "Odds") -> "Odds":
        """The larger of two bounds, exponent by exponent."""
        return Odds(
            max(self.presence, other.presence), max(self.label, other.label), max(self.attribute, other.attribute)
        )


MISSES = Fraction(1, 20)
OFTEN = "19 of 20 cases"
"""Probability with which a stated accuracy holds; `MISSES` is its complement."""
UNLIMITED = "without any limit, as not all of it is as private as its cost says: a simulation"
NOTHING = Odds(Fraction(0), Fraction(0), Fraction(0))
WORST = Odds.twice(Fraction(1))
"""Bound for each unit of charged epsilon if the mechanism is unknown."""


def factor(exponent: Fraction) -> str:
    """e^exponent as text for people, rounded up."""
    value = float(max(exponent, Fraction(0)))
    if value > _MOST_EXPONENT:
        return f"10^{math.ceil(value / math.log(10))}"
    return f"{math.ceil(math.exp(value) * 100) / 100:.2f}"


def written(exponent: Fraction) -> str:
    """e^exponent as text for people, followed by the exponent for auditors."""
    power = rationals.written(exponent)
    if power.startswith("≈ "):
        return f"{factor(exponent)} (about e^{power[2:]})"
    return f"{factor(exponent)} (e^{f'({power})' if '/' in power else power})"


def at_most(cap: Fraction, per_epsilon: Odds | None, unit: PrivacyUnit) -> str:
    """A sentence on how far answers of total cost `cap` can change odds; None for `per_epsilon` means without limit."""
    if per_epsilon is None:
        return UNLIMITED
    total = per_epsilon * cap
    return (
        f"the odds of what anybody believes of one {printable(unit.name) or 'record'} by a factor of at most "
        f"{written(total.presence)} as to whether it is among the records; of one that is known to be, by "
        f"{written(total.label)} as to its label and by {written(total.attribute)} as to anything else"
    )
