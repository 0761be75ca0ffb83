"""The states of a study and every lawful step, in one table that both sides use.

Curator and learner both look up there each message that they send or receive. An unlawful step raises an error, and
changes nothing.
"""

from enum import StrEnum

from protocol.errors import LocalProtocolError


class State(StrEnum):
    """The state of a study."""

    NEW = "new"
    PROPOSED = "proposed"
    REFUSED = "refused"
    OPEN = "open"
    ASKED = "asked"
    CLOSING = "closing"
    CLOSED = "closed"
    EXPIRED = "expired"


class Event(StrEnum):
    """An event that changes the state of a study: a message, or the expiry of its reservation.

    Among refusals, only a final one (`Refusal.final`) is an event; the others change no state. A final refusal of the
    proposal ends the study: a new proposal is a new study with its own identity.
    """

    PROPOSAL = "study_proposal"
    ACCEPTED = "study_accepted"
    QUERY = "query"
    RELEASE = "release"
    CLOSE = "study_close"
    CLOSED = "study_closed"
    REFUSAL = "refusal"
    EXPIRY = "expiry"


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.NEW: {Event.PROPOSAL: State.PROPOSED},
    State.PROPOSED: {Event.ACCEPTED: State.OPEN, Event.REFUSAL: State.REFUSED},
    State.OPEN: {Event.QUERY: State.ASKED, Event.CLOSE: State.CLOSING, Event.EXPIRY: State.EXPIRED},
    State.ASKED: {
        Event.RELEASE: State.OPEN,
        Event.REFUSAL: State.OPEN,
        Event.CLOSE: State.CLOSING,
        Event.EXPIRY: State.EXPIRED,
    },
    State.CLOSING: {Event.CLOSED: State.CLOSED, Event.REFUSAL: State.OPEN},
    State.REFUSED: {},
    State.CLOSED: {},
    State.EXPIRED: {},
}


def advance(state: State, event: Event) -> State:
    """The state after `event`. Raises LocalProtocolError: `event` is not lawful in `state`."""
    after = TRANSITIONS[state].get(event)
    if after is None:
        lawful = ", ".join(TRANSITIONS[state]) or "nothing"
        raise LocalProtocolError(f"{event} is not lawful in a study that is {state}; lawful: {lawful}")
    return after
