"""The state of a study: which requests may go to each curator, and how each request ended.

This module neither sends, reads a clock nor draws at random. `study` does, and reports here what happened.

Each curator has two states. Its part says what may be asked of it:

    new -> ready -> proposed -> member -> out

A curator is ready once its card came, and a member once it accepted the plan at its exact cost. It stays a member as
long as it answers every round. One that is out is only closed. A session that is replaced by a new one starts again as
new. The wait says how the pending request stands:

    idle -> unanswered -> idle      its reply stands
            unanswered -> broken    the last reply broke the protocol; the same bytes are sent again
            unanswered -> deferred  the last reply is a refusal that may pass; the same bytes are sent again
            unanswered -> late      it arrived after its expiry and was not carried out; it may be made anew

Two tables give the transitions. An event that a state does not list raises and changes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import partial
from typing import TypeVar

import msgspec

from learner_node.study.cards import in_words
from learner_node.study.reading import Reader, Round, questions
from learner_node.study.session import Session, refused_for_good
from protocol.envelopes import digest, open_envelope
from protocol.errors import LocalProtocolError, RemoteProtocolError, printable
from protocol.messages import NO_DIGEST, NO_STUDY, Card, Message, Refusal, Release, StudyAccepted
from protocol.plans import Plan
from protocol.query_kind import Kinds, Turn
from protocol.rationals import parse_amount, written_exactly
from protocol.refusals import RefusalCode
from protocol.transitions import State

Request = Callable[[int], bytes]
"""Makes a request (an envelope) from the current time in seconds since 1970."""

RELEASE = "release"
NO_REPLY = "no reply"
BAD_REPLY = "bad reply"
NOT_SENT = "not sent"
LEFT_OUT = "left out"
ANSWERED = "answered"
LATE_REFUSAL = f"refusal:{RefusalCode.EXPIRED}"

_ADVICE = {
    NO_REPLY: "no reply; see that it runs and can be reached, then ask again",
    BAD_REPLY: "its replies broke the protocol; nothing of it was used; ask its steward",
    ANSWERED: "it answered all that it was asked",
    NOT_SENT: "the question is over the limits on its card",
}


class Part(StrEnum):
    """What may be asked of a curator."""

    NEW = "new"
    READY = "ready"
    PROPOSED = "proposed"
    MEMBER = "member"
    OUT = "out"


class Wait(StrEnum):
    """How a curator's pending request stands."""

    IDLE = "idle"
    UNANSWERED = "unanswered"
    BROKEN = "broken"
    DEFERRED = "deferred"
    LATE = "late"


class Event(StrEnum):
    """What happens to a curator's part or to its request."""

    CARD = "card"
    PROPOSAL = "proposal"
    ACCEPTANCE = "acceptance"  # at the plan's exact cost
    OTHER_COST = "other_cost"  # acceptance at any other
    QUERY = "query"
    MISS = "miss"  # a round ended without it
    EXCLUSION = "exclusion"  # the learner goes on without it
    RENEWAL = "renewal"  # its session is given up for a new one

    REQUEST = "request"  # made, or made anew
    SENDING = "sending"  # always of the same bytes, until it is made anew
    BAD_REPLY = "bad_reply"  # one that breaks the protocol
    DEFERRAL = "deferral"  # a refusal that may pass
    LATE_REPLY = "late_reply"  # a refusal of what came after its expiry
    ANSWER = "answer"  # a reply that stands
    END = "end"  # nothing is sent any more


_NO_MORE = {Event.MISS: Part.OUT, Event.EXCLUSION: Part.OUT}
PARTS: dict[Part, dict[Event, Part]] = {
    Part.NEW: {Event.CARD: Part.READY, **_NO_MORE},
    Part.READY: {Event.CARD: Part.READY, Event.PROPOSAL: Part.PROPOSED, **_NO_MORE},
    Part.PROPOSED: {
        Event.ACCEPTANCE: Part.MEMBER,
        Event.OTHER_COST: Part.OUT,
        Event.RENEWAL: Part.NEW,
        **_NO_MORE,
    },
    Part.MEMBER: {Event.QUERY: Part.MEMBER, Event.RENEWAL: Part.NEW, **_NO_MORE},
    Part.OUT: {Event.ACCEPTANCE: Part.OUT, Event.OTHER_COST: Part.OUT, **_NO_MORE},
}
_REPLIES = {
    Event.BAD_REPLY: Wait.BROKEN,
    Event.DEFERRAL: Wait.DEFERRED,
    Event.LATE_REPLY: Wait.LATE,
    Event.ANSWER: Wait.IDLE,
    Event.END: Wait.IDLE,
}
WAITS: dict[Wait, dict[Event, Wait]] = {
    Wait.IDLE: {Event.REQUEST: Wait.UNANSWERED},
    Wait.UNANSWERED: {Event.SENDING: Wait.UNANSWERED, **_REPLIES},
    Wait.BROKEN: {Event.SENDING: Wait.BROKEN, **_REPLIES},
    Wait.DEFERRED: {Event.SENDING: Wait.DEFERRED, **_REPLIES},
    Wait.LATE: {Event.REQUEST: Wait.UNANSWERED, Event.ANSWER: Wait.IDLE, Event.END: Wait.IDLE},
}
S = TypeVar("S", Part, Wait)


def advance(table: Mapping[S, Mapping[Event, S]], state: S, event: Event) -> S:
    """The next state by a table. Raises LocalProtocolError if the state does not list the event."""
    if event not in table[state]:
        raise LocalProtocolError(
            f"{event} is not lawful for a curator that is {state}; lawful: {', '.join(table[state])}"
        )
    return table[state][event]


@dataclass
class _Asking:
    """A curator's request, from its first sending to its end."""

    make: Request
    data: bytes
    sendings: int = 0
    renewed: bool = False
    refusal: Refusal | None = None  # the last one that may pass
    reply: Message | None = None


class StudyState:
    """The state of one study of one learner.

    `outcomes` holds how each request of a round ended: "release", "refusal:<code>", "no reply" or "bad reply".
    Proposals appear only if they were not accepted. "left out" marks an answer that cannot be true, or a card that was
    not used; `fate` says why.
    """

    def __init__(self, sessions: Mapping[str, Session], readers: Mapping[str, Reader], kinds: Kinds) -> None:
        self.sessions = dict(sessions)  # by curator's name, as everything below; each holds its transcript
        # Sessions given up for another: their proposal came too late, or not all accepted a plan that names all, or the
        # reservation was about to end. They cost nothing.
        self.retired: dict[str, list[Session]] = {name: [] for name in sessions}
        self.parts = dict.fromkeys(sessions, Part.NEW)
        self.waits = dict.fromkeys(sessions, Wait.IDLE)
        self.outcomes: dict[str, list[str]] = {name: [] for name in sessions}
        self.refusals: dict[str, list[Refusal]] = {name: [] for name in sessions}  # that ended the asking of a request
        self.asked_again = dict.fromkeys(sessions, 0)  # requests that were answered only when sent again
        # True if the last late request had expired by the learner's clock as well, not only by the curator's.
        self.expired: dict[str, bool] = {}
        self.readers = readers
        self.kinds = kinds
        self.plan: Plan | None = None
        self.turns: tuple[Turn, ...] = ()
        self.turns_taken = 0
        self.rounds: list[Round] = []  # answered so far
        self.given_up = False  # of a study for all or none: one refused
        self._failures: dict[str, str] = {}  # the last outcome that was no release
        self._faults: dict[str, str] = {}  # how replies broke the protocol, in words
        self._reasons: dict[str, str] = {}  # why the learner left a curator out
        self._askings: dict[str, _Asking] = {}

    @property
    def cards(self) -> dict[str, Card]:
        """The cards of the curators that sent one."""
        return {name: session.card for name, session in self.sessions.items() if session.card is not None}

    def card_of(self, name: str) -> Card:
        """A curator's card. Raises KeyError: it sent none."""
        card = self.sessions[name].card
        if card is None:
            raise KeyError(name)
        return card

    @property
    def accepted(self) -> dict[str, bytes]:
        """Curators that accepted the plan -> the study's identity there."""
        return {name: session.study for name, session in self.sessions.items() if session.accepted is not None}

    @property
    def survivors(self) -> list[str]:
        """Curators that accepted the plan and answered every round so far."""
        return [name for name, part in self.parts.items() if part is Part.MEMBER]

    @property
    def left_out(self) -> dict[str, str]:
        """Curators whose answers are missing from a model so far -> why."""
        return {
            name: self.fate(name) + (" (it is in a sum that was opened before)" if name in self.summed else "")
            for name, part in self.parts.items()
            if part is not Part.MEMBER
        }

    @property
    def summed(self) -> set[str]:
        """Curators in a sum of which only the total was opened; none can be taken out again."""
        return {name for answered in self.rounds for name in answered.took_part}

    @property
    def questions(self) -> int:
        """Number of calls of `ask` that carry out the plan; a query led over several turns is one."""
        return len(questions(self.turns, self.readers))

    def spent(self, name: str) -> Fraction:
        """Epsilon that a curator's receipts charge to this study."""
        return self.sessions[name].spent

    def spent_at_most(self, name: str) -> Fraction:
        """`spent`, plus the exact cost of a sent query of which no receipt proves whether it was charged."""
        return self.sessions[name].spent_at_most

    def fate(self, name: str) -> str:
        """A sentence on what became of a curator, and what to do. Its own words are shortened and made printable."""
        if name in self._reasons:
            return f"{LEFT_OUT}: {self._reasons[name]}"
        failure = self._failures.get(name, ANSWERED)
        if failure in _ADVICE:
            fault = self._faults.get(name) if failure == BAD_REPLY else ""
            return f"{_ADVICE[failure]} ({fault})" if fault else _ADVICE[failure]
        refusal = self.refusals[name][-1]
        if refusal.code == RefusalCode.OVER_BUDGET:
            if not refusal.scale_factor:
                return "the plan costs more than is left: nothing is left for this learner"
            most, factor = written_exactly(refusal.remaining), written_exactly(refusal.scale_factor)
            return f"the plan costs more than is left; ask for an epsilon of at most {most} (scales times {factor})"
        return in_words(refusal.code, refusal.field, refusal.limit)

    # What happens to the curators' parts.

    def move(self, name: str, event: Event) -> None:
        """Change a curator's part by the table. Raises LocalProtocolError if the part does not list the event."""
        self.parts[name] = advance(PARTS, self.parts[name], event)

    def leave_out(self, name: str, reason: str) -> None:
        """Go on without a curator, for the learner's own reason; nothing more is asked there."""
        self.move(name, Event.EXCLUSION)
        self._reasons[name] = reason
        self.outcomes[name].append(LEFT_OUT)

    def discard(self, name: str, reason: str) -> None:
        """Leave out a curator whose last release is useless."""
        self.outcomes[name].pop()
        self.leave_out(name, reason)

    def not_sent(self, name: str) -> None:
        """Record that a question exceeds the limits of a curator's card."""
        self.outcomes[name].append(f"refusal:{RefusalCode.OVER_LIMIT}")
        self._failures[name] = NOT_SENT

    def unreadable(self, name: str) -> None:
        """Record that a curator's last release cannot be read."""
        self.outcomes[name][-1] = self._failures[name] = BAD_REPLY

    def end_round(self, answered: Round) -> None:
        """Keep a round; curators that did not answer all of it are out."""
        for name in self.parts:
            if name not in answered.alive:
                self.move(name, Event.MISS)
        self.rounds.append(answered)

    def renew_session(self, name: str, session: Session) -> None:
        """Replace a curator's session by a new one; the outcome of its last request is forgotten."""
        self.move(name, Event.RENEWAL)
        if self.came_late(name):
            self.outcomes[name].pop()
            self.refusals[name].pop()
        self._failures.pop(name, None)
        self.retired[name].append(self.sessions[name])
        self.sessions[name] = session

    def came_late(self, name: str) -> bool:
        """Whether a curator refused the plan because the proposal came after its expiry."""
        return self.sessions[name].state is State.REFUSED and self._failures.get(name) == LATE_REFUSAL

    def same_terms(self, name: str) -> bool:
        """Whether the card of a curator's new session equals the previous session's in content."""
        return _terms(self.sessions[name].card) == _terms(self.retired[name][-1].card)

    # What happens to the requests.

    def begin(self, requests: Mapping[str, Request], now: int) -> None:
        """Start a request to each of several curators; the rest of an interrupted exchange is dropped."""
        for name in [name for name, wait in self.waits.items() if wait is not Wait.IDLE]:
            self._wait(name, Event.END)
        self._askings = {}
        for name, make in requests.items():
            self._askings[name] = _Asking(make, make(now))
            self._wait(name, Event.REQUEST)

    def send(self) -> dict[str, bytes]:
        """Bytes to send now to each curator whose reply is awaited; the same bytes at every attempt."""
        waiting = {name: asking for name, asking in self._askings.items() if self._waits(name)}
        for name, asking in waiting.items():
            self._wait(name, Event.SENDING)
            asking.sendings += 1
        return {name: asking.data for name, asking in waiting.items()}

    @property
    def replies(self) -> dict[str, Message]:
        """Replies to the requests that have ended so far, by curator."""
        return {name: asking.reply for name, asking in self._askings.items() if asking.reply and not self._waits(name)}

    def receive(self, name: str, data: bytes) -> bool:
        """Take a curator's reply. Returns whether `judge` must decide about a request that arrived late."""
        asking = self._askings[name]
        try:
            reply = self.sessions[name].receive(data)
        except RemoteProtocolError as error:
            self._wait(name, Event.BAD_REPLY)
            self._faults[name] = printable(str(error), 400)
            return False
        if reply.answers != digest(asking.data):  # an earlier query's, brought late
            return False
        if isinstance(reply, Refusal) and not reply.final:
            self._wait(name, Event.DEFERRAL)
            asking.refusal = reply
            return False
        asking.reply = reply
        if isinstance(reply, Refusal) and reply.code == RefusalCode.EXPIRED:
            self._wait(name, Event.LATE_REPLY)
            return True
        self._answer(name, reply)
        return False

    def judge(self, name: str, now: int, *, renew: bool) -> bool:
        """Make a late request anew if that may help; returns whether it did.

        A request is renewed whenever the learner's own clock confirms the expiry, and only once if just the curator's
        does.
        """
        asking = self._askings[name]
        self.expired[name] = now >= open_envelope(asking.data)[1].expires_at
        if renew and (self.expired[name] or not asking.renewed):
            self._wait(name, Event.REQUEST)
            asking.data, asking.renewed, asking.reply, asking.refusal = asking.make(now), True, None, None
            return True
        if asking.reply is not None:
            self._answer(name, asking.reply)
        return False

    def end(self, *, record: bool) -> dict[str, Message]:
        """End the exchange and return the valid replies; requests that still wait are not sent again.

        With `record`, the ends are also added to the outcomes of the rounds.
        """
        replies = self.replies
        for name, asking in self._askings.items():
            outcome = self._outcome(name, asking)
            if self._waits(name):
                self._wait(name, Event.END)
            if isinstance(refusal := asking.reply or asking.refusal, Refusal):
                self.refusals[name].append(refusal)
            if outcome != RELEASE:
                self._failures[name] = outcome
            if record and (isinstance(asking.reply, Release) or outcome != RELEASE):
                self.outcomes[name].append(outcome)
        self._askings = {}
        return replies

    def _outcome(self, name: str, asking: _Asking) -> str:
        if self.waits[name] in (Wait.UNANSWERED, Wait.BROKEN):
            return NO_REPLY if self.waits[name] is Wait.UNANSWERED else BAD_REPLY
        ended = asking.reply or asking.refusal
        return f"refusal:{ended.code}" if isinstance(ended, Refusal) else RELEASE

    def _waits(self, name: str) -> bool:
        return self.waits[name] is not Wait.IDLE

    def _wait(self, name: str, event: Event) -> None:
        self.waits[name] = advance(WAITS, self.waits[name], event)

    def _answer(self, name: str, reply: Message) -> None:
        self._wait(name, Event.ANSWER)
        self.asked_again[name] += self._askings[name].sendings > 1
        if isinstance(reply, Card):
            self.move(name, Event.CARD)
        elif isinstance(reply, StudyAccepted):
            card = self.sessions[name].card
            exact = card and self.plan and self.kinds.plan_cost(self.plan, card.most_records_per_unit)
            as_quoted = parse_amount(reply.cost) == exact
            self.move(name, Event.ACCEPTANCE if as_quoted else Event.OTHER_COST)
            if not as_quoted:
                self.outcomes[name].append(BAD_REPLY)
                self._failures[name] = BAD_REPLY

    # What closing the study asks.

    def pending(self) -> dict[str, Request]:
        """Requests without a reply whose reply is still of use, as they were sent.

        A lost acceptance holds a reservation, and a lost release was paid for. A turn of a query that the learner led
        is omitted: the sum is over, and a curator that never got the turn would be charged for an unusable answer. In a
        study for all or none that somebody refused, a proposal is omitted if its curator last said that it waits for
        its steward.
        """
        awaiting = f"refusal:{RefusalCode.AWAITING_APPROVAL}"
        return {
            name: partial(_unchanged, session)
            for name, session in self.sessions.items()
            if (session.state is State.PROPOSED and not (self.given_up and self._failures.get(name) == awaiting))
            or (session.state is State.ASKED and not self._is_led(session))
        }

    def closes(self) -> dict[str, Request]:
        """A close for each open session: the pending close, or a new one if the pending one was late."""
        requests: dict[str, Request] = {}
        for name, session in self.sessions.items():
            if session.state in (State.OPEN, State.ASKED):
                requests[name] = session.close
            elif session.state is State.CLOSING:
                requests[name] = partial(_close, session)
        return requests

    def lost_queries(self) -> dict[str, Request]:
        """Queries, as sent, that were paid for but unanswered when the study was closed."""
        return {
            name: partial(_unchanged, session)
            for name, session in self.sessions.items()
            if session.state is State.CLOSED and session.unanswered
        }

    def _is_led(self, session: Session) -> bool:
        """Whether the session's last query is a turn that the learner leads."""
        return self.readers[self.turns[session.sequence - 1].planned.kind].lead is not None


def ends_all(replies: Mapping[str, Message]) -> bool:
    """Whether one of these replies to proposals is a final refusal."""
    return any(isinstance(reply, Refusal) and refused_for_good(reply) for reply in replies.values())


def _unchanged(session: Session, now: int) -> bytes:  # noqa: ARG001
    """The pending request, as it was sent."""
    return session.pending or session.unanswered


def _close(session: Session, now: int) -> bytes:
    """The pending close if there is one, else a new close."""
    return session.pending or session.close(now)


def _terms(card: Card | None) -> Card | None:
    """A card without the fields that depend on the request it answers."""
    if card is None:
        return None
    return msgspec.structs.replace(card, study=NO_STUDY, sequence=0, answers=NO_DIGEST, expires_at=0)
