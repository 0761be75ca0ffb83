"""What goes wrong on purpose, between a carrier and a curator's `handle`."""

from collections.abc import Callable

from protocol.envelopes import open_envelope
from protocol.messages import CardRequest
from simulations.carriers import Handle
from simulations.scenario import Fault


class NoReplyError(ConnectionError):
    """Nothing comes back from the curator this time."""


class FaultyCurator:
    """A curator's `handle` that follows a script.

    Args:
        handle: the curator's.
        faults: those of this curator.
        halt: its steward's stop, with a note, where the script says "refuse".
    """

    def __init__(self, handle: Handle, faults: list[Fault], halt: Callable[[str], None]) -> None:
        self._handle = handle
        self._faults = faults
        self._halt = halt
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
                self._halt("the scenario's steward said stop")
            elif message.sequence == fault.round and (message.study, message.sequence) not in self._late:
                self._late.add((message.study, message.sequence))
                self._handle(data)
                raise NoReplyError
        return self._handle(data)
