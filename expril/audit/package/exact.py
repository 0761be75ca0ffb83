"""The loss of every question that was asked, by enumerating the law of its noise: nothing is drawn, no formula is used.

A question over m partitions moves one number of each by at most c S (c records of a unit, S steps of a record).
Within one partition any move of c S in L1 loses no more than one number that moves by c S. So its loss is that of m
independent numbers, each moved by c S.
"""

from collections.abc import Iterable
from fractions import Fraction
from math import ceil

import msgspec
import numpy as np

from curator_node.mechanisms import float_not_below
from expril.audit.kinds.exact import AGREEMENT, loss_of_vectors
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import PlannedCounts
from protocol.plans import Plan, Planned

WIDEST = 2000
"""The widest scale that is enumerated: above, tables take minutes."""
MOST_SCALES = 5_000
"""The different scales that are enumerated add up to no more, narrow ones first: it takes seconds."""
FORMULA = "not enumerated, as its noise is too wide: m c S / scale, with the scale that the noise library gets"


class ExactLoss(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One question as it was planned.

    Attributes:
        asks: its kind and what it releases.
        partitions, scale, steps: m, scale (exact, as text) and S; 0, "" and 0 where its kind has none.
        records: c, the most records of a unit that count.
        claimed: what it was charged at most, exact, as text.
        exact: its enumerated loss; None where it has none.
        why_not: why it has none; "" where it has.
        holds: whether the two are one to 1e-9; None where there is nothing to compare.
        how: where it was not enumerated, how it was computed.
    """

    asks: str
    partitions: int
    scale: str
    steps: int
    records: int
    claimed: str
    exact: float | None
    why_not: str
    holds: bool | None
    how: str = ""


def exact_losses(plans: Iterable[tuple[Plan, int | None]]) -> tuple[ExactLoss, ...]:
    """The losses of all questions of some plans, each different question once.

    Args:
        plans: with the bound c of the curator that accepted it; None where it is not known, and then it is left out.
    """
    asked = {(one, bound): None for plan, bound in plans if bound is not None for one in _queries(plan)}
    found: dict[ExactLoss, None] = {}
    places, counted = 0, set()
    for one, bound in sorted(asked, key=lambda each: _scale(each[0])):
        scale = _scale(one)
        if scale <= WIDEST and scale not in counted:
            places += ceil(scale)
            counted.add(scale)
        found[_of(one, bound, by_formula=scale > WIDEST or places > MOST_SCALES)] = None
    return tuple(sorted(found, key=lambda loss: (loss.asks, loss.partitions, Fraction(loss.scale or 0), loss.records)))


def _queries(plan: Plan) -> tuple[Planned, ...]:
    try:
        return () if QUERY_KINDS.missing(plan) else QUERY_KINDS.queries(plan)
    except RemoteProtocolError:
        return ()


def _scale(planned: Planned) -> Fraction:
    return planned.scale.fraction if isinstance(planned, PlannedCounts) else Fraction(0)


def _of(planned: Planned, bound: int, *, by_formula: bool) -> ExactLoss:
    name = str(planned.__struct_config__.tag)
    try:
        claimed = QUERY_KINDS.cost(planned, bound)
    except RemoteProtocolError as error:
        raise ConfigurationError(f"what {name} costs is out of range: {printable(str(error))}") from None
    told = ExactLoss(
        asks=name,
        partitions=0,
        scale="",
        steps=0,
        records=bound,
        claimed=str(claimed),
        exact=None,
        why_not="its kind releases more than counts with noise",
        holds=None,
    )
    if not isinstance(planned, PlannedCounts):
        return told
    scale = planned.scale.fraction
    told = msgspec.structs.replace(
        told,
        asks=f"{name}/{planned.release}",
        partitions=planned.partitions,
        scale=str(scale),
        steps=planned.steps,
        why_not="",
    )
    if not QUERY_KINDS.private_planned(planned):
        return msgspec.structs.replace(told, why_not="what it releases is not private as claimed")
    shift = bound * planned.steps
    loss: float | None
    try:
        drawn = Fraction(float_not_below(scale))
        if by_formula:
            loss = float(planned.partitions * shift / drawn)
            told = msgspec.structs.replace(told, how=FORMULA)
        else:
            zero, moved = np.zeros(1, dtype=np.int64), np.full(1, shift, dtype=np.int64)
            each = loss_of_vectors(zero, moved, [scale]).loss
            loss = None if each is None else planned.partitions * each
    except (ConfigurationError, ValueError, ArithmeticError) as error:
        why = str(error) if isinstance(error, ConfigurationError) else "its numbers are too large to be enumerated"
        return msgspec.structs.replace(told, why_not=why)
    holds = loss is not None and abs(loss - float(claimed)) <= AGREEMENT * max(1.0, float(claimed))
    return msgspec.structs.replace(told, exact=loss, holds=holds)
