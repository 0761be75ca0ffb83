"""What was spent under integral privacy, between any two sets of records: docs/integral-privacy.md.

It is read off plans and charges: a query counts whole with its first charge, at what its kind says. Of a kind that says
nothing it is infinite, as is what a steward entered after a halt, since nobody knows what that was charged for.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from expril.audit.recompute.findings import as_text
from expril.audit.recompute.known import Charge
from protocol.rationals import plus

INFINITE = "infinite"


class Spent(NamedTuple):
    """A query that was charged.

    Attributes:
        learner: the key that asked.
        version: of the records served then; "" where none was named.
        amount: exact; None is infinite.
    """

    learner: bytes
    version: str
    amount: Fraction | None


def add(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    """The sum; None, for infinite, where either is."""
    return None if one is None or other is None else plus(one, other)


def as_words(amount: Fraction | None) -> str:
    """For machines: exact, or "infinite"."""
    return INFINITE if amount is None else as_text(amount)


def spent_on_queries(charges: Iterable[Charge], data: list[tuple[int, str]]) -> Iterator[Spent]:
    """Each query that was charged, or should have been, once.

    Args:
        charges: of a ledger, in order.
        data: (index of the entry, name) of the snapshots of records that were served, in order.
    """
    starts = [index for index, _ in data]
    begun: set[tuple[int, int]] = set()
    for charge in charges:
        shape = charge.study.shape
        query, turn = shape.places[charge.sequence - 1]
        counts = charge.amount or (shape.fixed[query] and turn == shape.charged[query])
        if counts and (charge.study.index, query) not in begun:
            begun.add((charge.study.index, query))
            place = bisect_right(starts, charge.entry) - 1
            yield Spent(charge.study.learner, data[place][1] if place >= 0 else "", shape.integrals[query])
