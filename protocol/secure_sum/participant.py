"""A curator's side of a secure sum: five steps, each a pure function of an opaque state and of what a learner relays.

    begin                       -> key card
    check_cards,     share      -> sealed shares of its two secrets, for its neighbours
    check_shares,    mask       -> its vector under masks, modulo 2^64
    check_survivors, agree      -> its signature on the one survivor list
    check_opening,   reveal     -> of each dealer, a share of one of its two secrets, never of both

A learner and a relay may lie. If they do, a `check_` function raises RemoteProtocolError(BAD_QUERY); it depends on
messages and state alone. The caller keeps the state secret, stores it before the answer leaves, and never repeats a
step with other arguments. Why this is enough: docs/explanation/secure-sums.md.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import encode
from protocol.envelopes import is_signed
from protocol.errors import RemoteProtocolError
from protocol.refusals import RefusalCode
from protocol.secure_sum import masks, shamir
from protocol.secure_sum.graph import Graph, graph_of
from protocol.secure_sum.group import (
    SURVIVORS_TYPE,
    Bytes32,
    Cards,
    Entropy,
    Group,
    Index,
    Indices,
    KeyCard,
    Sign,
    Signature,
    Verify,
    card_is_signed,
    list_digest,
    make_card,
    round_digest,
    seed_check,
)
from protocol.secure_sum.masks import Words

DEALERS, SURVIVORS = "dealers", "survivors"
NONCE = 12
SHARES = 2 * shamir.SHARE
"""Bytes of a dealer's two shares for one holder: of its mask key, and of its self mask's seed."""
SEALED_SHARES = NONCE + SHARES + 16

Relayed = tuple[tuple[Index, bytes], ...]
"""Pairs (index of the dealer or holder, bytes), in ascending order."""
Agreements = tuple[tuple[Index, Signature], ...]
"""Pairs (index, signature on the survivor list), ascending."""


is_signed_once = lru_cache(maxsize=4096)(is_signed)
"""`is_signed`, of which a process remembers what it found for these bytes: its curators are shown the same ones."""

GONE = bytes(32)
"""Placeholder for a secret that no later step needs."""


class Neighbour(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What a participant keeps about a neighbour between dealing and masking."""

    index: int  # the neighbour's, in the group
    masking: Bytes32  # its public mask key
    opening: Bytes32  # secret key that opens the shares which it deals to this participant

    def __repr__(self) -> str:
        return f"Neighbour(index={self.index})"


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What a participant keeps between steps. Secret; its text form shows no secret.

    Attributes:
        step: the last step that was answered, from 1.
        index: the participant's own, in the group.
        group, question: digests of the group and of the question.
        length: of the vector.
        sealing: private key; `GONE` from step 2.
        masking: private key; `GONE` from step 3.
        seed: of the self mask; `GONE` from step 3.
        round: digest of the round; empty before step 2.
        joined: indices with a card.
        neighbours: participants with whom it shares masks and secrets; empty again from step 3.
        shares: (dealer, two shares from it), also from itself.
        dealers: indices of those who dealt, as the learner says.
        survivors: the list that it signed.
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
    neighbours: tuple[Neighbour, ...] = ()
    shares: tuple[tuple[int, bytes], ...] = ()
    dealers: tuple[int, ...] = ()
    survivors: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"State(step={self.step}, index={self.index}, round={self.round.hex()[:16]!r})"

    def graph(self, group: Group) -> Graph:
        """The round's graph; its nodes are places in `joined`."""
        return round_graph(group, self.round, self.joined)


def encode_state(state: State) -> bytes:
    """The bytes of a state; read back by `protocol.codec.decode`."""
    return encode(state)


def round_graph(group: Group, round_: bytes, joined: Sequence[int]) -> Graph:
    """The graph of a round, over places in `joined`. The cards determine it, so nobody chooses it."""
    return graph_of(round_, len(joined), group.colluders, len(joined) - group.least)


def out_of_reach(graph: Graph, joined: Sequence[int], dealers: Sequence[int], present: Sequence[int]) -> list[int]:
    """Indices of dealers whose secrets cannot be recovered, since too few of their holders are present."""
    places = {index: place for place, index in enumerate(joined)}
    lacking = graph.lacking([places[index] for index in dealers], [places[index] for index in present])
    return [joined[node] for node in lacking]


def begin(
    group: Group, identity: bytes, question: bytes, length: int, *, entropy: Entropy, sign: Sign
) -> tuple[KeyCard, State]:
    """Make the keys of a round; return the key card and the first state.

    `identity` is this participant's public key, `question` 32 bytes that identify the question, `length` the vector's
    length; `entropy` is cryptographic and `sign` uses the identity key. Raises RemoteProtocolError(BAD_QUERY): it is
    not in the group.
    """
    if identity not in group.participants:
        raise _broken("participants", "a list with this curator in it")
    sealing, masking, seed = entropy(32), entropy(32), entropy(32)
    public = masks.public_of(sealing), masks.public_of(masking), seed_check(seed)
    card = make_card(group, question, public, sign)
    index = group.participants.index(identity)
    return card, State(1, index, group.digest, question, length, sealing, masking, seed, card)


def check_cards(group: Group, state: State, cards: Cards, verify: Verify = is_signed_once) -> None:
    """Raise BAD_QUERY unless these are enough participants' valid cards for this question, its own included."""
    _check_step(group, state, 1)
    indices = [index for index, _ in cards]
    _check_list("cards", indices, range(group.sites), group.least)
    if (state.index, state.card) not in cards:
        raise _broken("cards", "this curator's own card among them, as it was sent")
    round_ = round_digest(group, state.question, cards)
    signed = _signed_cards(round_) if verify is is_signed_once else set()
    for index, card in cards:
        if index == state.index or index in signed:
            continue
        if not card_is_signed(group, state.question, index, card, verify):
            raise _broken(f"cards[{index}]", "a card that its participant signed for this question")
        signed.add(index)
    graph = round_graph(group, round_, indices)
    if out_of_reach(graph, indices, [state.index], indices):
        raise _broken("cards", "cards whose graph gives this curator enough neighbours; others may do")


@lru_cache(maxsize=16)
def _signed_cards(round_: bytes) -> set[int]:  # noqa: ARG001 - the digest of all their bytes
    """Indices of the cards of a round that this process has found signed; whoever checks more adds them."""
    return set()


def share(group: Group, state: State, cards: Cards, *, entropy: Entropy) -> tuple[Relayed, State]:
    """Deal shares of both secrets among the neighbours and itself: (index of the holder, sealed shares)."""
    round_, joined = round_digest(group, state.question, cards), tuple(index for index, _ in cards)
    graph = round_graph(group, round_, joined)
    place = joined.index(state.index)
    holders, threshold = graph.holders(place), graph.threshold(place)
    points = [node + 1 for node in holders]
    dealt = shamir.split_each((state.masking, state.seed), points, threshold, entropy)
    parts = {joined[node]: keys + seeds for node, keys, seeds in zip(holders, *dealt, strict=True)}
    others = [cards[node] for node in graph.neighbours(place)]
    agreed = masks.exchange(state.sealing, [card.sealing for _, card in others])
    sealed, neighbours = [], []
    for (index, card), secret in zip(others, agreed, strict=True):
        sealing, opening = _sealing_keys(secret, round_, state.index, index)
        sealed.append((index, masks.seal(sealing, parts[index], entropy(NONCE))))
        neighbours.append(Neighbour(index, card.masking, opening))
    after = msgspec.structs.replace(
        state,
        step=2,
        sealing=GONE,
        round=round_,
        joined=joined,
        neighbours=tuple(neighbours),
        shares=((state.index, parts[state.index]),),
    )
    return tuple(sealed), after


def check_shares(group: Group, state: State, dealers: Indices, shares: Relayed) -> None:
    """Raise BAD_QUERY unless enough participants dealt, and the shares are those of all neighbours that dealt.

    A share that does not decrypt is ignored: otherwise its dealer could keep this curator from answering.
    """
    _check_step(group, state, 2)
    _check_list("dealers", dealers, state.joined, group.least)
    if state.index not in dealers:
        raise _broken("dealers", "this curator among them: it dealt")
    if out_of_reach(state.graph(group), state.joined, [state.index], dealers):
        raise _broken("dealers", "enough neighbours of this curator among them")
    among = set(dealers)
    if [index for index, _ in shares] != [other.index for other in state.neighbours if other.index in among]:
        raise _broken("shares", "one of each neighbour among the dealers, in their order")


def mask(state: State, dealers: Indices, shares: Relayed, values: NDArray[np.int64]) -> tuple[Words, State]:
    """The vector plus its self mask and a mask with each neighbour that dealt, (length,) modulo 2^64.

    Args:
        state: the state after `share`.
        dealers: indices whose shares the learner claims to have; the masks depend on this list.
        shares: shares that are sealed for this participant.
        values: (length,) int64, noise included.

    Raises:
        ValueError: `values` has another shape.
    """
    if values.shape != (state.length,):
        raise ValueError(f"the vector has the shape {values.shape}, its length was said to be {state.length}")
    dealers_digest = list_digest(DEALERS, dealers)
    dealt = dict(state.shares)
    neighbours = {other.index: other for other in state.neighbours}
    for index, sealed in shares:
        opened = masks.unseal(neighbours[index].opening, sealed)
        if opened is not None and len(opened) == SHARES:
            dealt[index] = opened
    masked = values.astype(np.int64).view(np.uint64) + self_mask(state.seed, state.round, dealers_digest, state.length)
    others = [(index, neighbours[index].masking) for index, _ in shares]
    masked += pair_masks(state.masking, state.index, others, state.round, dealers_digest, state.length)
    after = msgspec.structs.replace(
        state,
        step=3,
        masking=GONE,
        seed=GONE,
        neighbours=(),
        shares=tuple(sorted(dealt.items())),
        dealers=tuple(dealers),
    )
    return masked, after


def check_survivors(group: Group, state: State, survivors: Indices) -> None:
    """Raise BAD_QUERY unless the list may be opened: at least h + t dealers, each with enough neighbours on it."""
    _check_step(group, state, 3)
    _check_list("survivors", survivors, state.dealers, group.least)
    if state.index not in survivors:
        raise _broken("survivors", "this curator among them: its masked vector was sent")
    if out_of_reach(state.graph(group), state.joined, survivors, survivors):
        raise _broken("survivors", "enough neighbours of each survivor among them")


def agree(state: State, survivors: Indices, *, sign: Sign) -> tuple[bytes, State]:
    """Sign the survivor list. This participant helps to open no other list."""
    payload = survivors_payload(state.round, state.dealers, survivors)
    after = msgspec.structs.replace(state, step=4, survivors=tuple(survivors))
    return sign(SURVIVORS_TYPE, payload), after


def check_opening(
    group: Group, state: State, survivors: Indices, agreements: Agreements, verify: Verify = is_signed_once
) -> None:
    """Raise BAD_QUERY unless enough participants signed the survivor list.

    This participant must have signed the list, and at least n - u of the n. For each survivor, enough signers must
    hold shares of its secrets to recover them.
    """
    _check_step(group, state, 4)
    if tuple(survivors) != state.survivors:
        raise _broken("survivors", "the list that this curator signed, and no other")
    signers = [index for index, _ in agreements]
    _check_list("agreements", signers, survivors, group.signatures)
    if out_of_reach(state.graph(group), state.joined, survivors, signers):
        raise _broken("agreements", "enough neighbours of each survivor among those who signed")
    payload = group.signed(SURVIVORS_TYPE, survivors_payload(state.round, state.dealers, survivors))
    for index, signature in agreements:
        if index != state.index and not verify(group.participants[index], signature, payload):
            raise _broken(f"agreements[{index}]", "a signature of its participant on this very list")


def reveal(state: State) -> Relayed:
    """(dealer, share) of a survivor's self mask, or of the mask key of any other dealer. The state is then spent."""
    among, dealers = set(state.survivors), set(state.dealers)
    return tuple(
        (index, pair[shamir.SHARE :] if index in among else pair[: shamir.SHARE])
        for index, pair in state.shares
        if index in dealers
    )


def survivors_payload(round_: bytes, dealers: Sequence[int], survivors: Sequence[int]) -> bytes:
    """The payload that a participant signs to agree to a survivor list."""
    return round_ + list_digest(DEALERS, dealers) + list_digest(SURVIVORS, survivors)


def self_mask(seed: bytes, round_: bytes, dealers: bytes, length: int) -> Words:
    """A participant's own mask; `dealers` is the digest of the list of dealers."""
    return masks.stream(masks.derive(seed, b"self mask", round_ + dealers), length)


def pair_masks(
    private: bytes, index: int, others: Sequence[tuple[int, bytes]], round_: bytes, dealers: bytes, length: int
) -> Words:
    """The sum of a participant's masks with `others`, (length,). Each mask has the opposite sign in the other's sum.

    `private` is the participant's mask key; `others` are (index, public mask key); `round_` and `dealers` are the
    digests of the round and of the list of dealers.
    """
    total = np.zeros(length, np.uint64)
    for (other, _), agreed in zip(others, masks.exchange(private, [public for _, public in others]), strict=True):
        mask = masks.stream(masks.derive(agreed, b"pair mask", round_ + dealers + _pair(index, other)), length)
        if index < other:
            total += mask
        else:
            total -= mask
    return total


def _sealing_keys(agreed: bytes, round_: bytes, index: int, other: int) -> tuple[bytes, bytes]:
    """Keys for the shares that a participant deals to another, and for those that it receives."""
    keys = masks.derive(agreed, b"shares", round_ + _pair(index, other), keys=2)
    return (keys[:32], keys[32:]) if index < other else (keys[32:], keys[:32])


def _pair(index: int, other: int) -> bytes:
    """16 bytes that identify an unordered pair."""
    first, second = (index, other) if index < other else (other, index)
    return (first << 64 | second).to_bytes(16, "big")


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
