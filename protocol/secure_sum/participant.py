"""A curator's side of a secure sum: five steps, each a pure function of an opaque state and of what a learner relays.

    begin                       -> key card
    check_cards,     share      -> sealed shares of its two secrets, for its neighbours
    check_shares,    mask       -> its vector under masks, modulo 2^64
    check_survivors, agree      -> its signature on the one survivor list
    check_opening,   reveal     -> of each dealer, a share of one of its two secrets, never of both

A learner and a relay may lie. `check_...` raises RemoteProtocolError(BAD_QUERY) where they do, and depends on messages
and state alone. Whoever keeps the state keeps it secret, stores it before the answer leaves, and passes each step once:
a step is never passed again with another argument.
"""

from collections.abc import Collection, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import encode
from protocol.envelopes import is_signed
from protocol.errors import RemoteProtocolError
from protocol.refusals import RefusalCode
from protocol.secure_sum import masks, shamir
from protocol.secure_sum.cards import (
    Bytes32,
    Cards,
    Index,
    Indices,
    KeyCard,
    Signature,
    card_is_signed,
    list_digest,
    make_card,
    round_digest,
    seed_check,
)
from protocol.secure_sum.graph import Graph, graph_of
from protocol.secure_sum.group import SURVIVORS_TYPE, Entropy, Group, Sign, Verify
from protocol.secure_sum.masks import Words

DEALERS, SURVIVORS = "dealers", "survivors"
NONCE = 12
SHARES = 2 * shamir.SHARE
"""Bytes of a dealer's two shares for one holder: of its mask key, and of the seed of its self mask."""
SEALED_SHARES = NONCE + SHARES + 16

Relayed = tuple[tuple[Index, bytes], ...]
"""(index of whose, or for whom; bytes), ascending."""
Agreements = tuple[tuple[Index, Signature], ...]
"""(index, signature on the survivor list), ascending."""


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What a participant keeps between steps. Secret.

    Attributes:
        step: answered so far, from 1.
        index: its own in the group.
        group, question: digests of who sums, and of what is asked.
        length: numbers in the vector.
        sealing, masking: private keys.
        seed: of its self mask.
        card: its own.
        round: digest of the round; empty before step 2.
        joined: indices with a card.
        neighbours: (index, card) of those with whom it shares masks and secrets.
        held: (dealer, its two shares), its own among them.
        dealers: who dealt, by the learner.
        survivors: on the list that it signed.
    """

    step: int
    index: int
    group: Bytes32
    question: Bytes32
    length: int
    sealing: Bytes32
    masking: Bytes32
    seed: Bytes32
    card: KeyCard
    round: bytes = b""
    joined: tuple[int, ...] = ()
    neighbours: tuple[tuple[int, KeyCard], ...] = ()
    held: tuple[tuple[int, bytes], ...] = ()
    dealers: tuple[int, ...] = ()
    survivors: tuple[int, ...] = ()

    def graph(self, group: Group) -> Graph:
        """Of the round; nodes are places in `joined`."""
        return round_graph(group, self.round, self.joined)


def round_graph(group: Group, round_: bytes, joined: Sequence[int]) -> Graph:
    """The graph of a round; its nodes are places in `joined`. It follows from the cards, so nobody chooses it."""
    return graph_of(round_, len(joined), group.colluders, len(joined) - group.least)


def begin(
    group: Group, identity: bytes, question: bytes, length: int, *, entropy: Entropy, sign: Sign
) -> tuple[KeyCard, State]:
    """Make the keys of a round.

    Args:
        group: who sums.
        identity: of this participant.
        question: 32 bytes that stand for all that is asked.
        length: numbers in the vector.
        entropy: cryptographic.
        sign: with the identity key.

    Raises:
        RemoteProtocolError: BAD_QUERY; it is not in the group.
    """
    if identity not in group.participants:
        raise _broken("participants", "a list with this curator in it")
    sealing, masking, seed = entropy(32), entropy(32), entropy(32)
    public = masks.public_of(sealing), masks.public_of(masking), seed_check(seed)
    card = make_card(group, question, public, sign)
    index = group.participants.index(identity)
    return card, State(1, index, group.digest, question, length, sealing, masking, seed, card)


def check_cards(group: Group, state: State, cards: Cards, verify: Verify = is_signed) -> None:
    """Refuse unless these are cards of enough participants for this very question, its own among them."""
    _check_step(group, state, 1)
    indices = [index for index, _ in cards]
    _check_list("cards", indices, range(group.sites), group.least)
    if (state.index, state.card) not in cards:
        raise _broken("cards", "this curator's own card among them, as it was sent")
    for index, card in cards:
        if index != state.index and not card_is_signed(group, state.question, index, card, verify):
            raise _broken(f"cards[{index}]", "a card that its participant signed for this question")


def share(group: Group, state: State, cards: Cards, *, entropy: Entropy) -> tuple[Relayed, State]:
    """Deal shares of both secrets among the neighbours and itself: (index of the holder, sealed shares)."""
    round_, joined = round_digest(group, state.question, cards), tuple(index for index, _ in cards)
    graph = round_graph(group, round_, joined)
    place = joined.index(state.index)
    holders, threshold = graph.holders(place), graph.threshold(place)
    points = [node + 1 for node in holders]
    dealt = [shamir.split(secret, points, threshold, entropy) for secret in (state.masking, state.seed)]
    sealed, own = [], b""
    for node, *parts in zip(holders, *dealt, strict=True):
        index, card = cards[node]
        if index == state.index:
            own = b"".join(parts)
            continue
        key = _sealing_key(state, round_, state.index, index, card)
        sealed.append((index, masks.seal(key, b"".join(parts), entropy(NONCE))))
    neighbours = tuple(cards[node] for node in graph.neighbours(place))
    after = msgspec.structs.replace(
        state, step=2, round=round_, joined=joined, neighbours=neighbours, held=((state.index, own),)
    )
    return tuple(sealed), after


def check_shares(group: Group, state: State, dealers: Indices, shares: Relayed) -> None:
    """Refuse unless enough participants dealt, and these are the shares of all its neighbours among them.

    A share that does not open is no reason: whoever dealt it would keep this curator from answering. It is not held.
    """
    _check_step(group, state, 2)
    _check_list("dealers", dealers, state.joined, group.least)
    if state.index not in dealers:
        raise _broken("dealers", "this curator among them: it dealt")
    among = set(dealers)
    if [index for index, _ in shares] != [index for index, _ in state.neighbours if index in among]:
        raise _broken("shares", "one of each neighbour among the dealers, in their order")


def mask(state: State, dealers: Indices, shares: Relayed, values: NDArray[np.int64]) -> tuple[Words, State]:
    """The vector under its self mask and a mask with each neighbour that dealt, (length,) modulo 2^64.

    Args:
        state: after `share`.
        dealers: indices of those whose shares the learner says to have; masks are of this very list.
        shares: sealed for this participant.
        values: (length,) int64, noise included.
    """
    seen = list_digest(DEALERS, dealers)
    held = dict(state.held)
    cards = dict(state.neighbours)
    for index, sealed in shares:
        opened = masks.unseal(_sealing_key(state, state.round, index, state.index, cards[index]), sealed)
        if opened is not None and len(opened) == SHARES:
            held[index] = opened
    masked = values.astype(np.int64).view(np.uint64) + self_mask(state.seed, state.round, seen, state.length)
    for index, _ in shares:
        pair = pair_mask(state.masking, cards[index].masking, state.round, seen, (state.index, index), state.length)
        masked = masked + pair if state.index < index else masked - pair
    after = msgspec.structs.replace(state, step=3, dealers=tuple(dealers), held=tuple(sorted(held.items())))
    return masked, after


def check_survivors(group: Group, state: State, survivors: Indices) -> None:
    """Refuse unless this list may be opened: h + t dealers at least, each with enough neighbours there."""
    _check_step(group, state, 3)
    _check_list("survivors", survivors, state.dealers, group.least)
    if state.index not in survivors:
        raise _broken("survivors", "this curator among them: its masked vector was sent")
    places = {index: place for place, index in enumerate(state.joined)}
    if not state.graph(group).holds([places[index] for index in survivors]):
        raise _broken("survivors", "enough neighbours of each survivor among them")


def agree(state: State, survivors: Indices, *, sign: Sign) -> tuple[bytes, State]:
    """Sign the one list that this participant helps to open."""
    payload = survivors_payload(state.round, state.dealers, survivors)
    after = msgspec.structs.replace(state, step=4, survivors=tuple(survivors))
    return sign(SURVIVORS_TYPE, payload), after


def check_opening(
    group: Group, state: State, survivors: Indices, agreements: Agreements, verify: Verify = is_signed
) -> None:
    """Refuse unless it signed this list, and so did more than (n + t) / 2 of all n."""
    _check_step(group, state, 4)
    if tuple(survivors) != state.survivors:
        raise _broken("survivors", "the list that this curator signed, and no other")
    _check_list("agreements", [index for index, _ in agreements], survivors, group.signatures)
    payload = group.signed(SURVIVORS_TYPE, survivors_payload(state.round, state.dealers, survivors))
    for index, signature in agreements:
        if not verify(group.participants[index], signature, payload):
            raise _broken(f"agreements[{index}]", "a signature of its participant on this very list")


def reveal(state: State) -> Relayed:
    """(dealer, share): of a survivor's self mask, or of the mask key of a dealer that is none. The state is spent."""
    among = set(state.survivors)
    return tuple(
        (index, both[shamir.SHARE :] if index in among else both[: shamir.SHARE])
        for index, both in state.held
        if index in state.dealers
    )


def survivors_payload(round_: bytes, dealers: Sequence[int], survivors: Sequence[int]) -> bytes:
    """What a participant signs of a survivor list."""
    return round_ + list_digest(DEALERS, dealers) + list_digest(SURVIVORS, survivors)


def self_mask(seed: bytes, round_: bytes, dealers: bytes, length: int) -> Words:
    """The mask that a participant alone makes; `dealers` is the digest of their list."""
    return masks.stream(masks.derive(seed, b"self mask", round_, dealers), length)


def pair_mask(
    private: bytes, public: bytes, round_: bytes, dealers: bytes, pair: tuple[int, int], length: int
) -> Words:
    """The mask that two participants share: the lower index adds it, the other takes it away."""
    low, high = (index.to_bytes(8, "big") for index in sorted(pair))
    seed = masks.derive(masks.exchange(private, public), b"pair mask", round_, dealers, low, high)
    return masks.stream(seed, length)


def encode_state(state: State) -> bytes:
    """The bytes of a state; read back by `protocol.codec.decode`."""
    return encode(state)


def _sealing_key(state: State, round_: bytes, dealer: int, holder: int, card: KeyCard) -> bytes:
    """Key of the shares that one participant deals to another; `card` is the other's."""
    names = (index.to_bytes(8, "big") for index in (dealer, holder))
    return masks.derive(masks.exchange(state.sealing, card.sealing), b"shares", round_, *names)


def _check_step(group: Group, state: State, step: int) -> None:
    if state.step != step or state.group != group.digest:
        raise _broken("turn", "the next step of the round that was begun")


def _check_list(field: str, indices: Sequence[int], allowed: Collection[int], least: int) -> None:
    if list(indices) != sorted(set(indices)) or not set(indices) <= set(allowed):
        raise _broken(field, "participants of the step before, ascending, none twice")
    if len(indices) < least:
        raise _broken(field, f"at least {least} of them")


def _broken(field: str, limit: str) -> RemoteProtocolError:
    return RemoteProtocolError(RefusalCode.BAD_QUERY, f"body.{field}", limit)
