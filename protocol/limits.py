"""Resource limits of a curator, stated on its card, so that a learner can keep them before it asks.

The unit of work is one multiply-add of a matrix product, which stands for a tenth of a nanosecond of one core. (In a
product of large matrices, it takes half of that.) Every other cost is rounded up, so that on a server of 2024 a query
takes at most about the stated time. Constants `..._COST` are counted for each record; constants `..._ONCE` are not.
Each was measured on one core; `python -m benchmarks work` measures the worst queries that the limits let through.
"""

from typing import Annotated, Any

import msgspec

CALL_ONCE = 20_000
"""Work of a numpy call on a handful of numbers, with the Python around it: 2 microseconds."""
BYTE_ONCE = 60
"""Work per byte of weights or centres, which is read, checked, hashed, widened and copied: 6 nanoseconds."""


ASSUMED_ROUND_SIZE = 1_000_000
"""Number of records assumed to bound the work if a curator declares no round size; never the true number. A curator
with fewer records can allow more work by declaring a size."""

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one query. Whether a query exceeds them depends on the query alone, never on a record."""

    # most work of a query over the declared round size, the default is five seconds of one core
    multiply_adds: Positive = 50_000_000_000
    message_bytes: Positive = 16 * 1024 * 1024  # longest message read
    # allowed query kind -> its further limits, as the kind's own struct defines them; a limit that is absent has the
    # kind's default. Unset: every kind is allowed that does not need a steward's word.
    kinds: dict[str, dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
