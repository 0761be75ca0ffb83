"""The states of a study and every lawful step, in one table that both sides use.

Curator and learner both drive it with the messages that they send and receive. An unlawful step raises and
changes nothing.
"""

from enum import StrEnum

from protocol.errors import LocalProtocolError


class State(StrEnum):
    """Where a study stands."""

    NEW = "new"
    PROPOSED = "proposed"
    REFUSED = "refused"
    OPEN = "open"
    ASKED = "asked"
    CLOSING = "closing"
    CLOSED = "closed"
    EXPIRED = "expired"


class Event(StrEnum):
    """What moves a study: a message, or the expiry of its reservation.

    Only a final refusal (`Refusal.final`) is an event; any other leaves the study where it is. After a final refusal of
    its proposal a study is over: a new proposal is a new study with its own identity.
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
    """The state after `event`. Raises LocalProtocolError: the step is not lawful in `state`."""
    after = TRANSITIONS[state].get(event)
    if after is None:
        lawful = ", ".join(TRANSITIONS[state]) or "nothing"
        raise LocalProtocolError(f"{event} is not lawful in a study that is {state}; lawful: {lawful}")
    return after
