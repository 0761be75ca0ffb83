"""The group of a secure sum: members, bounds on colluders and dropouts, and the signed key cards of a round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import msgspec

from protocol.codec import encode
from protocol.envelopes import digest, encode_parts, statement_bytes

Entropy = Callable[[int], bytes]
"""n -> n random bytes."""
Sign = Callable[[str, bytes], bytes]
"""(name of what is signed, payload) -> the participant's signature, 64 bytes."""
Verify = Callable[[bytes, bytes, bytes], bool]
"""(public key, signature, signed bytes) -> whether the signature is valid."""

LEAST_PARTICIPANTS, MOST_PARTICIPANTS = 2, 1000
CARD_TYPE, SURVIVORS_TYPE = "secure_sum_card", "secure_sum_survivors"
"""Type names in participants' signatures; no message has such a name."""


@dataclass(frozen=True)
class Group:
    """Participants of secure sums, identified by their index. Raises ValueError: a rule is broken."""

    participants: tuple[bytes, ...]  # identity keys of the n participants, ascending, distinct
    colluders: int  # t, the most participants that may tell the learner all they know; at least 1
    dropouts: int  # u, the most participants that may fall silent; n > 2 u + t
    label: str  # domain separation of their signatures

    def __post_init__(self) -> None:
        if complaint := complaint_about(self.participants, self.colluders, self.dropouts):
            raise ValueError(complaint)

    @property
    def sites(self) -> int:
        """Number n of participants."""
        return len(self.participants)

    @property
    def shares(self) -> int:
        """Number h = n - t - u of shares in one full noise; at least h come from honest survivors."""
        return self.sites - self.colluders - self.dropouts

    @property
    def least(self) -> int:
        """Fewest participants of a round, h + t, and fewest survivors that may be opened."""
        return self.sites - self.dropouts

    @property
    def signatures(self) -> int:
        """Number n - u > (n + t) / 2 of signatures on the survivor list that are needed to open a sum.

        At least n - u - t = h of the signers are honest, and signed after masking their vectors for this round, so no
        card of another round can stand for theirs. Two lists with that many signers each share n - 2 u > t of them,
        hence an honest one, which signs one list only.
        """
        return self.least

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the group's fields."""
        numbers = (number.to_bytes(8, "big") for number in (self.colluders, self.dropouts))
        return digest(encode_parts(b"expril/2 secure sum", self.label.encode(), *numbers, *self.participants))

    def signed(self, type_name: str, payload: bytes) -> bytes:
        """The bytes under a participant's signature; they never pass as an envelope or a receipt."""
        return statement_bytes(self.label, type_name, payload)


def complaint_about(participants: tuple[bytes, ...], colluders: int, dropouts: int) -> str:
    """The rule that a group breaks; "" if none."""
    sites = len(participants)
    if not LEAST_PARTICIPANTS <= sites <= MOST_PARTICIPANTS:
        return f"{LEAST_PARTICIPANTS} to {MOST_PARTICIPANTS} participants"
    if list(participants) != sorted(set(participants)):
        return "participants in ascending order, none twice"
    if colluders < 1 or dropouts < 0:
        return "a number of colluders of at least 1, and of dropouts of at least 0"
    if sites <= 2 * dropouts + colluders:
        return f"more participants than colluders and twice the dropouts together, {2 * dropouts + colluders}"
    return ""


Bytes32 = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
Index = Annotated[int, msgspec.Meta(ge=0, lt=MOST_PARTICIPANTS)]
"""A participant's index in its group."""
Indices = Annotated[tuple[Index, ...], msgspec.Meta(max_length=MOST_PARTICIPANTS)]


class KeyCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A participant's key card of one round."""

    sealing: Bytes32  # X25519 public key under which shares are sealed
    masking: Bytes32  # X25519 public key from which pair masks are derived
    check: Bytes32  # hash of the seed of its self mask
    signature: Signature  # by its identity key, over the group, the question and the fields above


Cards = Annotated[tuple[tuple[Index, KeyCard], ...], msgspec.Meta(max_length=MOST_PARTICIPANTS)]
"""(index, card), ascending."""


def seed_check(seed: bytes) -> bytes:
    """A key card's field `check`: a commitment to the seed of the self mask."""
    return digest(b"expril/2 secure sum seed" + seed)


def make_card(group: Group, question: bytes, keys: Sequence[bytes], sign: Sign) -> KeyCard:
    """Make the signed card of the keys (sealing key, masking key, check)."""
    sealing, masking, check = keys
    return KeyCard(sealing, masking, check, sign(CARD_TYPE, _payload(group, question, sealing, masking, check)))


def card_is_signed(group: Group, question: bytes, index: int, card: KeyCard, verify: Verify) -> bool:
    """Whether the participant signed this card for this question."""
    payload = _payload(group, question, card.sealing, card.masking, card.check)
    return verify(group.participants[index], card.signature, group.signed(CARD_TYPE, payload))


def round_digest(group: Group, question: bytes, cards: Cards) -> bytes:
    """Identity of the round: digest of group, question and all cards. One new card makes a new round."""
    return digest(encode_parts(b"expril/2 secure sum round", group.digest, question, encode(tuple(cards))))


def list_digest(name: str, indices: Sequence[int]) -> bytes:
    """SHA-256 of a list of participants; `name` says which list."""
    return digest(encode_parts(name.encode(), encode(tuple(indices))))


def _payload(group: Group, question: bytes, sealing: bytes, masking: bytes, check: bytes) -> bytes:
    return b"".join((group.digest, question, sealing, masking, check))  # of 32 bytes each
