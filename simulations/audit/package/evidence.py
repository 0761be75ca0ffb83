"""What of a run goes into a package, and what it proves."""

from fractions import Fraction
from typing import NamedTuple


class CuratorSpent(NamedTuple):
    """What one curator was recomputed to have spent.

    Attributes:
        name: of the curator.
        key: public, hexadecimal.
        spent: over all learners, exact.
        learners: name -> spent by it, exact.
        unit: privacy unit, in words.
        unit_details: and its bound.
        note: what else is to be said of this figure; "" for nothing.
    """

    name: str
    key: str
    spent: Fraction
    learners: dict[str, Fraction]
    unit: str
    unit_details: str
    note: str = ""
