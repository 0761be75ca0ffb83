"""Identity cards: who holds a key, as a signed text that people mail to each other, and its fingerprint.

An identity card is not a `messages.Card`, which describes a curator's records. It travels before anything else, by mail
or any other way. It proves that its sender holds the key; people make sure who the sender is by reading the fingerprint
out to each other.
"""

import base64
import re
from itertools import zip_longest
from typing import Annotated, Literal

import msgspec

from protocol.codec import decode, encode
from protocol.envelopes import Envelope, SigningKey, digest, encode_parts, is_signed, sign_payload, verify
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.messages import Key, Seconds
from protocol.refusals import RefusalCode

LABEL = "expril/2 identity"
"""Label of signatures on cards; no signature on a card is one on a message, nor the reverse."""
TYPE = "identity_card"
BEGIN, END = "-----BEGIN EXPRIL IDENTITY CARD-----", "-----END EXPRIL IDENTITY CARD-----"
MOST_BYTES = 8 * 1024
"""Most bytes of an encoded card."""
MOST_TEXT = 64 * 1024
"""Most characters of a text that contains a card, such as a mail."""
MOST_SUCCESSIONS = 16
SLACK = 86_400
"""Seconds by which an issuer's clock may be ahead of the reader's."""

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Digits and letters without I, L, O and U, which are misread or form words."""
_GROUPS, _GROUP = 7, 4
_LINE = 64

Role = Literal["curator", "learner"]
MOST_NAME, MOST_SAID = 100, 200
"""Most characters of a holder's name, and of each other text on a card."""
CardText = Annotated[str, msgspec.Meta(max_length=MOST_SAID)]


class Succession(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A statement, signed by the key `previous`, that `key` takes its place."""

    previous: Key
    key: Key
    at: Seconds  # when it was signed
    # by `previous`, over the holder's role, both keys and the time
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]


class IdentityCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A holder's claim to a key. The signature proves only that the holder has the key; nothing else is checked."""

    version: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1  # of this format
    role: Role  # what the key is for; a fingerprint differs by role
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_NAME)]  # of the holder
    organisation: CardText = ""  # of the holder; may be empty
    contact: CardText = ""  # how to reach the holder; may be empty. Never take it as the way to check the fingerprint.
    key: Key  # the public key
    issued: Seconds  # when the card was made
    until: Seconds = 0  # when it stops being valid; 0: never
    # how the holder came to this key from earlier ones, oldest first; the last leads to `key`
    successions: Annotated[tuple[Succession, ...], msgspec.Meta(max_length=MOST_SUCCESSIONS)] = ()

    def __post_init__(self) -> None:
        if not all(text.isprintable() for text in (self.name, self.organisation, self.contact)):
            raise ValueError("a card's texts have no line breaks, tabs or control characters")
        if self.until and self.until <= self.issued:
            raise ValueError("a card is valid for some time, or without an end")

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the card's role and key."""
        return fingerprint(self.role, self.key)

    @property
    def previous(self) -> bytes | None:
        """The holder's key before this one; None if this is the first."""
        return self.successions[-1].previous if self.successions else None

    def expired(self, now: int) -> bool:
        """Whether the card is no longer valid at time `now`."""
        return bool(self.until) and now >= self.until

    def premature(self, now: int) -> bool:
        """Whether the card's date of issue is later than `now` by more than clocks may differ (`SLACK`)."""
        return self.issued > now + SLACK

    def succeeds(self, key: bytes) -> bool:
        """Whether a chain of successions leads from `key` to this card's key.

        Whoever pinned `key` may then accept this card's key without asking anybody. The exception is a `key` that has
        leaked: whoever has it can sign a succession, too.
        """
        return any(succession.previous == key for succession in self.successions)


def fingerprint(role: Role, key: bytes) -> str:
    """A short text of 140 bits that identifies role and key, for reading out over the telephone: `7K3Q-0V9D-...`.

    To impersonate a holder, a forger needs a key with the holder's fingerprint. This takes 2^140 tries, or 2^120 if any
    of a million holders will do. Two keys of the forger's own with equal fingerprints take 2^70 tries, but are useless.
    """
    bits = int.from_bytes(digest(encode_parts(b"expril/2 fingerprint", role.encode(), key)), "big")
    letters = [_ALPHABET[bits >> (256 - 5 * (place + 1)) & 31] for place in range(_GROUPS * _GROUP)]
    return "-".join("".join(letters[start : start + _GROUP]) for start in range(0, len(letters), _GROUP))


def same_fingerprint(text: str, fingerprint_text: str) -> bool:
    """Whether a typed fingerprint equals this one; case, spaces and dashes are ignored."""
    return _letters(text) == fingerprint_text.replace("-", "")


def compare_fingerprints(text: str, fingerprint_text: str) -> str:
    """Write two fingerprints one below the other for people, with marks where they differ."""
    typed = _letters(text)[: 2 * _GROUPS * _GROUP]
    grouped = "-".join(typed[start : start + _GROUP] for start in range(0, len(typed), _GROUP))
    marks = "".join(" " if a == b else "^" for a, b in zip_longest(grouped, fingerprint_text))
    below = f"             {marks.rstrip()}\n" if marks.strip() else ""
    return f"told         {printable(grouped)}\non the card  {fingerprint_text}\n{below}"


def check_said(field: str, text: str, *, least: int = 0, most: int = MOST_SAID) -> None:
    """Raise ConfigurationError if a card cannot hold `text`; `field` is what the user calls it, such as "--name"."""
    if not least <= len(text) <= most:
        raise ConfigurationError(f"{field} has {len(text)} characters; write {least} to {most}")
    if not text.isprintable():
        quoted = printable(text)
        raise ConfigurationError(f"{field} holds a line break, a tab or a control character ({quoted}); leave it out")


def _letters(text: str) -> str:
    """A typed fingerprint in its normal form, without dashes."""
    return re.sub(r"[\s-]", "", text).upper().replace("O", "0").replace("I", "1").replace("L", "1")


def succession(previous: SigningKey, key: bytes, role: Role, at: int) -> Succession:
    """The statement of `previous` that `key` takes its place."""
    signature = previous.sign(_handing_over(role, previous.public, key, at))
    return Succession(previous=previous.public, key=key, at=at, signature=signature)


def write_identity(card: IdentityCard, key: SigningKey) -> str:
    """The text of a card, signed by its own key.

    Raises ConfigurationError: the card names another key, or a reader would refuse the card.
    """
    text = armour(sign_payload(TYPE, encode(card), key, LABEL))
    if read_identity(text, where="the new card") != card or card.key != key.public:
        raise ConfigurationError("the new card is not one of this key")
    return text


def read_identity(text: str, *, where: str) -> IdentityCard:
    """The card in a text. Its signature and successions are checked; the caller checks its dates.

    Args:
        text: untrusted; text before and after the card is ignored.
        where: the text's name in errors, such as "card file ann.card".

    Raises:
        ConfigurationError: the text holds no card, or several; or the card is damaged, or not signed by its own key.
    """
    if len(text) > MOST_TEXT:
        raise ConfigurationError(f"{where} is longer than {MOST_TEXT} characters; save the card alone")
    lines = [line.strip() for line in text.splitlines()]
    if lines.count(BEGIN) != 1 or lines.count(END) != 1 or lines.index(BEGIN) > lines.index(END):
        raise ConfigurationError(f"{where} does not hold one identity card, from {BEGIN} to {END}")
    body = "".join(lines[lines.index(BEGIN) + 1 : lines.index(END)])
    try:
        return open_identity(_bare(body))
    except RemoteProtocolError as error:
        raise ConfigurationError(f"the card in {where} is damaged or was changed ({error}); ask for it anew") from None


def open_identity(data: bytes) -> IdentityCard:
    """Read and check the card in an envelope. Raises RemoteProtocolError: TOO_LARGE, MALFORMED or BAD_SIGNATURE."""
    envelope = decode(data, Envelope, limit=MOST_BYTES, field="card")
    if envelope.type != TYPE:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "card.type", TYPE)
    card = decode(envelope.payload, IdentityCard, limit=MOST_BYTES, field="card")
    verify(envelope, card.key, label=LABEL)
    _check_successions(card)
    return card


def _check_successions(card: IdentityCard) -> None:
    chain = card.successions
    keys = [succession.previous for succession in chain] + [card.key]
    follows = [succession.key for succession in chain] == keys[1:]
    times = [succession.at for succession in chain] + [card.issued]
    if not follows or len(set(keys)) != len(keys) or times != sorted(times):
        raise RemoteProtocolError(RefusalCode.MALFORMED, "card.successions")
    for succession in chain:
        if not is_signed(
            succession.previous,
            succession.signature,
            _handing_over(card.role, succession.previous, succession.key, succession.at),
        ):
            raise RemoteProtocolError(RefusalCode.BAD_SIGNATURE, "card.successions")


def _handing_over(role: Role, previous: bytes, key: bytes, at: int) -> bytes:
    return encode_parts(b"expril/2 succession", role.encode(), previous, key, at.to_bytes(8, "big"))


def _bare(body: str) -> bytes:
    """Decode base64 exactly as `armour` writes it. Raises RemoteProtocolError(MALFORMED) for any other text."""
    try:
        data = base64.b64decode(body, validate=True)
    except ValueError:
        data = b""
    if base64.b64encode(data).decode() != body:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "card", "base64")
    return data


def armour(data: bytes) -> str:
    """Write a card's envelope as a text that survives mail."""
    body = base64.b64encode(data).decode()
    return "\n".join([BEGIN, *(body[start : start + _LINE] for start in range(0, len(body), _LINE)), END, ""])
