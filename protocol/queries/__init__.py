"""Query kinds, as far as both sides must agree: body, exact cost, neighbouring relation, checks.

A new kind is one file here, one in `curator_node/answerers/`, one in `learner_node/readers/`, and a line in each
of their three dicts; a test says that the three agree.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from protocol.errors import RemoteProtocolError
from protocol.plans import Plan, PlannedQuery
from protocol.queries import counts
from protocol.queries.limits import Limits
from protocol.rationals import MOST
from protocol.refusals import RefusalCode
from protocol.schema import Schema

NEIGHBOURING_RELATION = "add or remove one privacy unit"


@dataclass(frozen=True)
class QueryKind:
    """What a query kind defines.

    Attributes:
        relation: the neighbouring relation under which `cost` is the pure epsilon.
        check_planned: raises RemoteProtocolError(BAD_PLAN) for a planned query that breaks a rule.
        misfit: (planned query, schema) -> why labels as the schema says them cannot be asked so; "" where they can.
        cost: (planned query, most records of one privacy unit) -> exact epsilon.
        read_body: (bytes, planned query, schema, limits) -> checked body; raises RemoteProtocolError.
        work: (checked body, planned query, schema, declared round size) -> its whole work, see `protocol.work`.
        release_bytes: (checked body, planned query, schema) -> most bytes of the release, before anything is charged.
        read_release: (release bytes, body, planned query, schema) -> its payload, checked for shape.
    """

    relation: str
    check_planned: Callable[[PlannedQuery], None]
    misfit: Callable[[PlannedQuery, Schema], str]
    cost: Callable[[PlannedQuery, int], Fraction]
    read_body: Callable[[bytes, PlannedQuery, Schema, Limits], counts.CountsBody]
    work: Callable[[counts.CountsBody, PlannedQuery, Schema, int | None], int]
    release_bytes: Callable[[counts.CountsBody, PlannedQuery, Schema], int]
    read_release: Callable[[bytes, counts.CountsBody, PlannedQuery, Schema], bytes]


QUERY_KINDS: dict[str, QueryKind] = {
    "counts": QueryKind(
        relation=NEIGHBOURING_RELATION,
        check_planned=counts.check_planned,
        misfit=counts.misfit,
        cost=counts.cost,
        read_body=counts.read_body,
        work=counts.work,
        release_bytes=counts.release_bytes,
        read_release=counts.read_release,
    ),
}


def query_kind(name: str) -> QueryKind:
    """The registered kind; RemoteProtocolError(UNKNOWN_KIND) for any other name."""
    kind = QUERY_KINDS.get(name)
    if kind is None:
        raise RemoteProtocolError(RefusalCode.UNKNOWN_KIND, "plan.queries.kind", ", ".join(QUERY_KINDS))
    return kind


@lru_cache(maxsize=4096)
def query_cost(planned: PlannedQuery, most_records_per_unit: int) -> Fraction:
    """Exact epsilon of one planned query for a unit of at most `most_records_per_unit` records.

    Raises:
        RemoteProtocolError: UNKNOWN_KIND or BAD_PLAN.
    """
    kind = query_kind(planned.kind)
    kind.check_planned(planned)
    return kind.cost(planned, most_records_per_unit)


def plan_cost(plan: Plan, most_records_per_unit: int) -> Fraction:
    """Pure epsilon of a plan: the exact sum over its queries (basic composition).

    Raises:
        RemoteProtocolError: UNKNOWN_KIND, or BAD_PLAN where the sum, or any part of it, needs more than 32 bits.
    """
    costs = [query_cost(planned, most_records_per_unit) for planned in plan.queries]
    total = sum(costs, Fraction(0))
    if total.numerator > MOST or total.denominator > MOST:
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan", "an exact total cost of at most 32 bits")
    if math.lcm(*(cost.denominator for cost in costs)) > MOST:
        # A total may be short where its parts are not, and a ledger writes every partial sum down.
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan", "costs with a common denominator of at most 32 bits")
    return total
