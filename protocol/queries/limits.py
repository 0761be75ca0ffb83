"""Resource limits of a curator, stated on its card, so that a learner can keep them before it asks."""

from typing import Annotated

import msgspec

ASSUMED_ROUND_SIZE = 1_000_000
"""Stands in for an undeclared round size where work is bounded; never the true number of records. A curator of as many
is safe without a word of its steward's; one of fewer allows more work where it declares them."""

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one query; a refusal over them depends on the query alone, never on a record.

    Attributes:
        query_kinds: allowed query kinds.
        release_kinds: allowed release kinds of `counts`.
        cells: most cells of a workload; 500,000 pairs of counts fill the longest message. Where more than two numbers
            are released per cell, proportionately fewer.
        partitions: most partitions of a workload.
        parameters: most parameters of a hypothesis.
        multiply_adds: most work of a query over the declared round size, in the unit of `protocol.work`; the default
            is five seconds of one core.
        message_bytes: longest message read.
    """

    query_kinds: tuple[str, ...] = ("counts",)
    release_kinds: tuple[str, ...] = (
        "mass",
        "signed_error",
        "error_correct",
        "class_counts",
        "label_total",
        "squared_error",
    )
    cells: Annotated[int, msgspec.Meta(ge=1, le=500_000)] = 100_000
    partitions: Positive = 10_000
    parameters: Positive = 2_000_000
    multiply_adds: Positive = 50_000_000_000
    message_bytes: Positive = 16 * 1024 * 1024
