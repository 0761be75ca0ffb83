"""What is wrong with a ledger, and where."""

import math
from dataclasses import dataclass
from fractions import Fraction

from protocol.rationals import shorten

MOST = 200
"""Findings of a ledger that are told one by one; a file that is wrong everywhere would tell no more by the next."""


def as_text(amount: Fraction) -> str:
    """An amount as text: exact, or rounded up where it is too long to be written down."""
    return str(shorten(amount, math.ceil))


@dataclass(frozen=True)
class Finding:
    """Something wrong.

    Attributes:
        index: of the entry; -1 where no entry is meant.
        text: what is wrong, with its place.
    """

    index: int
    text: str


class Findings(list[Finding]):
    """Findings in the order in which they were made; beyond `MOST` they are only counted.

    Attributes:
        uncounted: how many were made beyond those listed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.uncounted = 0

    def add(self, index: int, text: str) -> None:
        """Note a finding."""
        if len(self) < MOST:
            self.append(Finding(index, text))
        else:
            self.uncounted += 1

    def texts(self) -> list[str]:
        """For people, by place."""
        told = [item.text for item in sorted(self, key=lambda item: item.index)]
        return [*told, f"and {self.uncounted} more"] if self.uncounted else told
