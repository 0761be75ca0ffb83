"""Types that msgspec has learnt, one thread at a time.

msgspec reads the fields of a struct when the struct is first decoded, and keeps them with its class. A second thread
that decodes the same struct meanwhile finds half of them, and the process crashes.
"""

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_LEARNING = threading.Lock()
_KNOWN: set[Any] = set()


def shared_type(kind: T) -> T:
    """The type itself, whose structs all threads may decode from now on.

    Raises TypeError: msgspec cannot decode such a type.
    """
    if kind not in _KNOWN:
        decoder_of(kind)
        _KNOWN.add(kind)
    return kind


def decoder_of(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """A new decoder of MessagePack. Raises as `known`."""
    with _LEARNING:
        return msgspec.msgpack.Decoder(kind)
