"""A participant's key card of one round, and the round that a set of cards makes."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from protocol.codec import encode
from protocol.envelopes import digest, encode_parts
from protocol.secure_sum.group import CARD_TYPE, MOST_PARTICIPANTS, Group, Sign, Verify

Bytes32 = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
Index = Annotated[int, msgspec.Meta(ge=0, lt=MOST_PARTICIPANTS)]
"""Of a participant in its group."""
Indices = Annotated[tuple[Index, ...], msgspec.Meta(max_length=MOST_PARTICIPANTS)]


class KeyCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What a participant makes for one round.

    Attributes:
        sealing: X25519 public key under which shares are sealed.
        masking: X25519 public key from which pair masks come.
        check: hash of the seed of its self mask.
        signature: of its identity key, over the group, the question and all of the above.
    """

    sealing: Bytes32
    masking: Bytes32
    check: Bytes32
    signature: Signature


Cards = Annotated[tuple[tuple[Index, KeyCard], ...], msgspec.Meta(max_length=MOST_PARTICIPANTS)]
"""(index, card), ascending."""


def seed_check(seed: bytes) -> bytes:
    """What a card says of the seed of a self mask."""
    return digest(b"expril/2 secure sum seed" + seed)


def make_card(group: Group, question: bytes, keys: Sequence[bytes], sign: Sign) -> KeyCard:
    """The signed card of (sealing key, masking key, check)."""
    sealing, masking, check = keys
    return KeyCard(sealing, masking, check, sign(CARD_TYPE, _payload(group, question, sealing, masking, check)))


def card_is_signed(group: Group, question: bytes, index: int, card: KeyCard, verify: Verify) -> bool:
    """Whether the participant signed this card for this question."""
    payload = _payload(group, question, card.sealing, card.masking, card.check)
    return verify(group.participants[index], card.signature, group.signed(CARD_TYPE, payload))


def round_digest(group: Group, question: bytes, cards: Cards) -> bytes:
    """Identity of the round: the group, the question and every card. One fresh card makes a fresh round."""
    return digest(encode_parts(b"expril/2 secure sum round", group.digest, question, encode(tuple(cards))))


def list_digest(what: str, indices: Sequence[int]) -> bytes:
    """SHA-256 of a list of participants; `what` says which list."""
    return digest(encode_parts(what.encode(), encode(tuple(indices))))


def _payload(group: Group, question: bytes, sealing: bytes, masking: bytes, check: bytes) -> bytes:
    return b"".join((group.digest, question, sealing, masking, check))  # of 32 bytes each
