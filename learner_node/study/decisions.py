"""Records computed values that later messages depend on (a plan, a question, a model), so that each is computed once.

Floating-point results differ between processors, and trained models differ more. So such a value is stored before it is
used, and a process that resumes the study reads it back instead of computing it again.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from protocol.codec import decode, encode

T = TypeVar("T")


class Decide(Protocol):
    """Takes a newly computed value; returns the value that an earlier process stored, if there is one."""

    def __call__(self, value: T, write: Callable[[T], bytes], read: Callable[[bytes], T]) -> T:
        """Return the value to go on with.

        Args:
            value: the value as computed now.
            write: encodes it; equal values give equal bytes.
            read: decodes it; raises RemoteProtocolError for other bytes.
        """


def as_found(value: T, write: Callable[[T], bytes], read: Callable[[bytes], T]) -> T:  # noqa: ARG001
    """A `Decide` for studies that are never resumed: returns the value itself."""
    return value


def wire_type(value: T) -> type[T]:
    """The type that decodes a value's bytes: its own, unless it names a wider one (`CountsBody.wire_type`)."""
    wider: type[T] = getattr(value, "wire_type", type(value))
    return wider


def decided(decide: Decide, value: T, kind: type[T] | None = None) -> T:
    """Call `decide` with MessagePack as the encoding. `kind` is the type to decode if `type(value)` is too general."""
    value_type = kind or wire_type(value)
    return decide(value, encode, lambda data: decode(data, value_type, limit=len(data)))
