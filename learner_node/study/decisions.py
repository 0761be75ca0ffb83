"""What a study computes and later messages depend on: a plan, a question, a model. It is computed once.

Floats differ in their last digits from processor to processor, and what is trained on them differs by more. So such a
value is written down before it is used, and a process that goes on with the study reads it instead.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from protocol.codec import decode, encode

T = TypeVar("T")


class Decide(Protocol):
    """Takes a value that was computed now; returns the one of an earlier process, where there is one."""

    def __call__(self, value: T, write: Callable[[T], bytes], read: Callable[[bytes], T]) -> T:
        """The value to go on with.

        Args:
            value: as computed now.
            write: to bytes; equal values give equal bytes.
            read: back; RemoteProtocolError where the bytes are no such value.
        """


def as_found(value: T, write: Callable[[T], bytes], read: Callable[[bytes], T]) -> T:  # noqa: ARG001
    """The value as it is, in a study that no other process goes on with."""
    return value


def decided(decide: Decide, value: T, kind: type[T] | None = None) -> T:
    """`decide` for a value that MessagePack holds; `kind` is its type, where that says more than its class."""
    value_type = kind or type(value)
    return decide(value, encode, lambda data: decode(data, value_type, limit=len(data)))
