"""A plan: everything that a study will ask, fixed before the first answer, with its exact cost."""

from typing import Annotated

import msgspec

from protocol.rationals import Rational
from protocol.release_kinds import MOST_STEPS

MOST_QUERIES = 1000


class PlannedQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One future query: its kind and what its cost depends on.

    The partitions themselves may be chosen later, from earlier answers; their number and the scale may not.

    Attributes:
        kind: key of `QUERY_KINDS`.
        release: key of `RELEASE_KINDS`.
        partitions: m; a record moves the numbers of each by `steps` (L1).
        scale: of the discrete Laplace noise, in steps (in records, where steps is 1).
        steps: S, whole numbers that a record adds to a cell; 1 but for release kinds of a numeric label.
    """

    kind: Annotated[str, msgspec.Meta(max_length=100)]
    release: Annotated[str, msgspec.Meta(max_length=100)]
    partitions: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    scale: Rational
    steps: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)] = 1


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The queries of a study, in order."""

    queries: Annotated[tuple[PlannedQuery, ...], msgspec.Meta(min_length=1, max_length=MOST_QUERIES)]
