"""Types that msgspec has learnt, one thread at a time.

msgspec reads the fields of a struct when the struct is first decoded, and keeps them with its class. A second thread
that decodes the same struct meanwhile finds half of them, and the process crashes.
"""

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_LEARNING = threading.Lock()
_DECODERS: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def shared_type(kind: T) -> T:
    """The type itself, whose structs all threads may decode from now on.

    Raises TypeError: msgspec cannot decode such a type.
    """
    decoder_of(kind)
    return kind


def decoder_of(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """The process's decoder of MessagePack of this type. Raises as `shared_type`."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        with _LEARNING:
            decoder = _DECODERS[kind] = msgspec.msgpack.Decoder(kind)
    return decoder
