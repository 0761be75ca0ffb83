"""How a simulation carries envelopes: by plain calls, over Flower in one process, and with faults.

A `Carry` takes handles and lends a carrier over them for as long as some work takes. `direct.carry` and
`in_process.carry` are two; faults wrap a handle and fit under both.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from learner_node.study import Carrier

Handle = Callable[[bytes], bytes]
"""A curator: envelope -> envelope; a ConnectionError means that nothing came back."""


class Carry(Protocol):
    """A way to carry envelopes."""

    def __call__(self, handles: Mapping[bytes, Handle], work: Callable[[Carrier], None]) -> None:
        """Do `work` with a carrier to `handles`, which are told by their curators' public keys."""
