"""Resource limits of a curator, stated on its card, so that a learner can keep them before it asks."""

from typing import Annotated, Any

import msgspec

ASSUMED_ROUND_SIZE = 1_000_000
"""Stands in for an undeclared round size where work is bounded; never the true number of records. A curator of as many
is safe without a word of its steward's; one of fewer allows more work where it declares them."""

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one query; a refusal over them depends on the query alone, never on a record.

    Attributes:
        multiply_adds: most work of a query over the declared round size, in the unit of `protocol.work`; the default
            is five seconds of one core.
        message_bytes: longest message read.
        kinds: allowed query kinds -> what each limits beyond that, as the kind's own struct of limits says; what is
            not said is the kind's default. Unset, it allows the kinds that are allowed unless a steward says otherwise.
    """

    multiply_adds: Positive = 50_000_000_000
    message_bytes: Positive = 16 * 1024 * 1024
    kinds: dict[str, dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
