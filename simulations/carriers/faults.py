"""What goes wrong on purpose, between a carrier and a curator's `handle`."""

from collections.abc import Callable

from curator_node.ledger import Ledger
from protocol.envelopes import open_envelope
from protocol.messages import CardRequest
from simulations.scenario import Fault


class NoReplyError(ConnectionError):
    """Nothing comes back from the curator this time."""


class FaultyCurator:
    """A curator's `handle` that follows a script.

    Args:
        handle: the curator's.
        faults: those of this curator.
        ledger: halted where the script says "refuse".
        clock: of the curator.
    """

    def __init__(
        self, handle: Callable[[bytes], bytes], faults: list[Fault], ledger: Ledger, clock: Callable[[], int]
    ) -> None:
        self._handle = handle
        self._faults = faults
        self._ledger = ledger
        self._clock = clock
        self._late: set[tuple[bytes, int]] = set()

    def handle(self, data: bytes) -> bytes:
        """The reply; NoReplyError where the script says that none arrives."""
        _, message = open_envelope(data)
        if isinstance(message, CardRequest):
            return self._handle(data)
        for fault in self._faults:
            if message.sequence < fault.round:
                continue
            if fault.kind == "vanish":
                raise NoReplyError
            if fault.kind == "refuse":
                self._ledger.halt(self._clock(), "the scenario's steward said stop")
            elif message.sequence == fault.round and (message.study, message.sequence) not in self._late:
                self._late.add((message.study, message.sequence))
                self._handle(data)
                raise NoReplyError
        return self._handle(data)
