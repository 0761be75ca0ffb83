"""A plan: everything that a study will ask, fixed before the first answer, with its exact cost."""

from typing import Annotated

import msgspec

from protocol.rationals import Rational

MOST_QUERIES = 1000


class PlannedQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One future query: its kind and what its cost depends on.

    The partitions themselves may be chosen later, from earlier answers; their number and the scale may not.

    Attributes:
        kind: key of `QUERY_KINDS`.
        release: key of `RELEASE_KINDS`.
        partitions: m, the L1 sensitivity for one record.
        scale: of the discrete Laplace noise, in records.
    """

    kind: Annotated[str, msgspec.Meta(max_length=100)]
    release: Annotated[str, msgspec.Meta(max_length=100)]
    partitions: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    scale: Rational


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The queries of a study, in order."""

    queries: Annotated[tuple[PlannedQuery, ...], msgspec.Meta(min_length=1, max_length=MOST_QUERIES)]
