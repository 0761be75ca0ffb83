"""Typed values are encoded as MessagePack and decoded here, strictly and with size limits.

One value has one encoding: the decoder encodes again what it read, and compares. So it refuses duplicate keys, unknown
fields, and integers that are wider than needed.
"""

from typing import Any, TypeVar

import msgspec

from protocol.errors import RemoteProtocolError
from protocol.refusals import RefusalCode
from protocol.shared_types import decoder_of
from protocol.strict_json import UNREADABLE

T = TypeVar("T")

MOST_ENVELOPE_BYTES = 16 * 1024 * 1024

_ENCODER = msgspec.msgpack.Encoder()


def encode(value: Any) -> bytes:
    """The MessagePack bytes of a protocol value."""
    return _ENCODER.encode(value)


def decode(data: bytes, kind: type[T], *, limit: int = MOST_ENVELOPE_BYTES, field: str = "") -> T:
    """Decode exactly one value of `kind` from untrusted bytes.

    Args:
        data: untrusted bytes.
        kind: a msgspec Struct type or a union of tagged ones.
        limit: most bytes accepted.
        field: name of the value, for the error.

    Raises:
        RemoteProtocolError: `data` is too long (TOO_LARGE), or is not the one encoding of a `kind` (MALFORMED).
    """
    if len(data) > limit:
        raise RemoteProtocolError(RefusalCode.TOO_LARGE, field, f"at most {limit} bytes")
    decoder = decoder_of(kind)
    try:
        value = decoder.decode(data)
    except UNREADABLE:
        raise RemoteProtocolError(RefusalCode.MALFORMED, field) from None
    if _ENCODER.encode(value) != data:
        raise RemoteProtocolError(RefusalCode.MALFORMED, field, "not the one encoding of its content")
    return value  # type: ignore[no-any-return]
