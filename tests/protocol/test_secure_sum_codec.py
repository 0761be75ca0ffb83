"""Everything that a secure sum sends or keeps has one encoding."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.kinds.secure_counts import (
    BODIES,
    RELEASES,
    Agreement,
    AskKeys,
    MaskedCounts,
    OpenSum,
    ProposeSurvivors,
    RelayCards,
    RelayShares,
    Revealed,
    SealedShares,
)
from protocol.secure_sum.group import KeyCard
from protocol.secure_sum.participant import Neighbour, State

INDEX = st.integers(0, 999)
INDICES = st.lists(INDEX, max_size=4).map(tuple)
KEY32, NONCE, SIGNATURE, FREE = (
    st.binary(min_size=size, max_size=most) for size, most in [(32, 32), (16, 16), (64, 64), (0, 40)]
)
CARD = st.builds(KeyCard, KEY32, KEY32, KEY32, SIGNATURE)


def lists_of(value):
    return st.lists(st.tuples(INDEX, value), max_size=3).map(tuple)


RELAYS = lists_of(st.binary(min_size=1, max_size=200))
SHAPES = {
    AskKeys: (FREE, NONCE),
    RelayCards: (lists_of(CARD),),
    RelayShares: (INDICES, RELAYS, FREE, NONCE),
    ProposeSurvivors: (INDICES,),
    OpenSum: (INDICES, lists_of(SIGNATURE)),
    KeyCard: (KEY32, KEY32, KEY32, SIGNATURE),
    SealedShares: (RELAYS,),
    MaskedCounts: (FREE,),
    Agreement: (SIGNATURE,),
    Revealed: (RELAYS,),
    State: (
        INDEX,
        INDEX,
        KEY32,
        KEY32,
        INDEX,
        KEY32,
        KEY32,
        KEY32,
        CARD,
        FREE,
        INDICES,
        st.lists(st.builds(Neighbour, INDEX, KEY32, KEY32), max_size=2).map(tuple),
        RELAYS,
        INDICES,
        INDICES,
    ),
}


def test_every_body_and_release_is_tried():
    assert {*BODIES, *RELEASES} <= set(SHAPES)


@settings(max_examples=10)
@given(data=st.data())
@pytest.mark.parametrize("kind", SHAPES)
def test_what_is_sent_or_kept_reads_back_alike_and_nothing_else_does(kind, data):
    value = data.draw(st.builds(kind, *SHAPES[kind]))
    sent = encode(value)
    assert decode(sent, kind) == value
    place, bit = data.draw(st.integers(0, len(sent) - 1)), data.draw(st.integers(0, 7))
    changed = bytearray(sent)
    changed[place] ^= 1 << bit
    for other in (bytes(changed), sent + b"\0", sent[:-1]):
        assert reading(other, kind) in (None, other)


test_what_is_sent_or_kept_reads_back_alike_and_nothing_else_does_at_length = at_length(
    test_what_is_sent_or_kept_reads_back_alike_and_nothing_else_does, 25
)


def reading(data, kind):
    """What the value that was read is written as; None where it is malformed."""
    with contextlib.suppress(RemoteProtocolError):
        return encode(decode(data, kind))
    return None
