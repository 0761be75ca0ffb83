"""Resource limits of a curator, stated on its card, so that a learner can keep them before it asks.

Work is counted in multiply-adds of a matrix product: one stands for a tenth of a nanosecond of one core. Products of
large matrices take half of that. Every other cost is rounded up so that, on a server of 2024, the work takes at most
about what is stated, whatever a learner asks. A constant `..._COST` is per record, a constant `..._ONCE` per query.
Each was measured on one core; `python -m benchmarks work` measures the worst queries that the limits let through.
"""

from typing import Annotated, Any

import msgspec

CALL_ONCE = 20_000
"""Work of a numpy call on a handful of numbers, with the Python around it: 2 microseconds."""
BYTE_ONCE = 60
"""Work of a byte of weights or centres: read, checked, digested, widened and copied in 6 nanoseconds."""


ASSUMED_ROUND_SIZE = 1_000_000
"""Number of records assumed to bound the work if a curator declares no round size; never the true number. A curator
with fewer records can allow more work by declaring a size."""

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one query. Whether it exceeds them depends on the query alone, never on a record."""

    # most work of a query over the declared round size, the default is five seconds of one core
    multiply_adds: Positive = 50_000_000_000
    message_bytes: Positive = 16 * 1024 * 1024  # longest message read
    # allowed query kind -> its further limits, as the kind's own struct defines them; a limit that is absent has the
    # kind's default. Unset: every kind is allowed that does not need a steward's word.
    kinds: dict[str, dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
