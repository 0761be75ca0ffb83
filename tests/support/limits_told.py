"""Limits of a curator with all keys beside each other: those of every query, and those of `counts`."""

from protocol.codec import decode, encode
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsLimits
from protocol.limits import Limits


def limits_with(*, query_kinds=("counts",), **told):
    """Limits that allow these query kinds; what is told of cells, partitions and so on is told of `counts`."""
    own = {name: told.pop(name) for name in CountsLimits.__struct_fields__ if name in told}
    if "release_kinds" in own:
        own["release_kinds"] = list(own["release_kinds"])
    assert not own or "counts" in query_kinds
    return Limits(**told, kinds={name: own if name == "counts" else {} for name in query_kinds})


def card_limits(**told):
    """The same, as a learner reads them on a card: with every default written out."""
    return decode(encode(QUERY_KINDS.settle(limits_with(**told), where="a test")), Limits)
