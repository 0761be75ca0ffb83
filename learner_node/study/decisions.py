"""What a study decides by computing: a plan, a question, a model. Another process takes what was decided, as it was.

Floats differ in their last digits from processor to processor, and what is trained on them differs by more. So nothing
that was asked, or that later messages depend on, is computed a second time: it is written down before it is used.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from protocol.codec import decode, encode

T = TypeVar("T")


class Decide(Protocol):
    """Takes what was computed here, and gives what an earlier process computed in its place, where there is one."""

    def __call__(self, found: T, write: Callable[[T], bytes], read: Callable[[bytes], T]) -> T:
        """What is to be gone on with.

        Args:
            found: as computed now.
            write: to bytes; equal values give equal bytes.
            read: back; RemoteProtocolError where the bytes are no such value.
        """


def as_found(found: T, write: Callable[[T], bytes], read: Callable[[bytes], T]) -> T:  # noqa: ARG001
    """Of a study that no other process goes on with: what was computed."""
    return found


def decided(decide: Decide, found: T, kind: type[T] | None = None) -> T:
    """What was decided, of a value that MessagePack holds.

    Args:
        decide: of the federation.
        found: as computed now.
        kind: its type, where that says more than its class.
    """
    wanted = kind or type(found)
    return decide(found, encode, lambda data: decode(data, wanted, limit=len(data)))
