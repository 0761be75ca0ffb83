"""The state of a study: everything that decides what is asked of which curator, and what became of each.

Nothing here sends, reads a clock or draws at random. `study` does that, and tells this module what happened.

A curator has two states. Its part says what may be asked of it:

    new -> ready -> proposed -> member -> out

It is ready once its card came, and a member once it accepted the plan at its exact cost. It stays one as long as it
answers every round. A curator that is out is asked nothing more, and is only closed. A session that is given up for a
new one begins again as new. The wait says what is known of the request that awaits its reply:

    idle -> unanswered -> idle      its reply stands
            unanswered -> broken    what came last broke the protocol; the same bytes are sent again
            unanswered -> deferred  what came last is a refusal that may pass; likewise
            unanswered -> late      it came after its expiry, so it was not carried out; it may be made anew

The two tables say what each event does. An event that a state does not list raises and changes nothing.
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
"""Makes a request when the time is known: seconds since 1970 -> envelope."""

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
    """What is known of a curator's request."""

    IDLE = "idle"
    UNANSWERED = "unanswered"
    BROKEN = "broken"
    DEFERRED = "deferred"
    LATE = "late"


class Event(StrEnum):
    """What happens to a curator's part, and what happens to its request."""

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
    """The state after an event. Raises LocalProtocolError: the state does not list the event."""
    if event not in table[state]:
        raise LocalProtocolError(
            f"{event} is not lawful for a curator that is {state}; lawful: {', '.join(table[state])}"
        )
    return table[state][event]


@dataclass
class _Asking:
    """A curator's request, from its first sending to what ended it."""

    make: Request
    data: bytes
    sendings: int = 0
    renewed: bool = False
    refusal: Refusal | None = None  # the last one that may pass
    reply: Message | None = None


class StudyState:
    """The state of one study of one learner.

    `outcomes` holds what each request of a round brought: "release", "refusal:<code>", "no reply" or "bad reply". A
    proposal is noted only where it was not accepted. "left out" stands for an answer that cannot be true, or alone for
    a card with which the study did not go on; `fate` says why.
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

    @property
    def accepted(self) -> dict[str, bytes]:
        """Curators that accepted the plan -> the identity that the study has there."""
        return {name: session.study for name, session in self.sessions.items() if session.accepted is not None}

    @property
    def survivors(self) -> list[str]:
        """Curators that accepted the plan and answered every round so far."""
        return [name for name, part in self.parts.items() if part is Part.MEMBER]

    @property
    def left_out(self) -> dict[str, str]:
        """Curators whose answers are used in no model, so far, or not in all of it -> what became of each."""
        return {
            name: self.fate(name) + (" (it is in a sum that was opened before)" if name in self.summed else "")
            for name, part in self.parts.items()
            if part is not Part.MEMBER
        }

    @property
    def summed(self) -> set[str]:
        """Curators that are in a sum of which nothing but the sum was opened: none can be taken out of it again."""
        return {name for answered in self.rounds for name in answered.took_part}

    @property
    def questions(self) -> int:
        """How often `ask` asks until the plan is carried out: a query that the learner leads is one question."""
        return len(questions(self.turns, self.readers))

    def spent(self, name: str) -> Fraction:
        """Epsilon that a curator's receipts prove to be charged to this study."""
        return self.sessions[name].spent

    def spent_at_most(self, name: str) -> Fraction:
        """`spent`, and the exact cost of a query that was sent and of which nothing proves whether it was charged."""
        return self.sessions[name].spent_at_most

    def fate(self, name: str) -> str:
        """What became of a curator, and what to do; its own words are shortened and made printable."""
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
        """Change a curator's part by the table; LocalProtocolError where it does not list the event."""
        self.parts[name] = advance(PARTS, self.parts[name], event)

    def leave_out(self, name: str, reason: str) -> None:
        """Go on without a curator, for a reason that the learner found; nothing more is asked there."""
        self.move(name, Event.EXCLUSION)
        self._reasons[name] = reason
        self.outcomes[name].append(LEFT_OUT)

    def discard(self, name: str, reason: str) -> None:
        """Leave a curator out whose last release is of no use."""
        self.outcomes[name].pop()
        self.leave_out(name, reason)

    def not_sent(self, name: str) -> None:
        """Note that a question is over the limits of a curator's card."""
        self.outcomes[name].append(f"refusal:{RefusalCode.OVER_LIMIT}")
        self._failures[name] = NOT_SENT

    def unreadable(self, name: str) -> None:
        """Note that a curator's last release cannot be read."""
        self.outcomes[name][-1] = self._failures[name] = BAD_REPLY

    def end_round(self, answered: Round) -> None:
        """Keep a round; who did not answer all of it is out."""
        for name in self.parts:
            if name not in answered.alive:
                self.move(name, Event.MISS)
        self.rounds.append(answered)

    def renew_session(self, name: str, session: Session) -> None:
        """Give a curator's session up for a new one; what became of its last request is forgotten."""
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
        """Whether the card of a curator's new session says what that of the session before said."""
        return _terms(self.sessions[name].card) == _terms(self.retired[name][-1].card)

    # What happens to the requests.

    def begin(self, requests: Mapping[str, Request], now: int) -> None:
        """Make a request to each of several curators; what an exchange that was cut off left is dropped."""
        for name in [name for name, wait in self.waits.items() if wait is not Wait.IDLE]:
            self._wait(name, Event.END)
        self._askings = {}
        for name, make in requests.items():
            self._askings[name] = _Asking(make, make(now))
            self._wait(name, Event.REQUEST)

    def send(self) -> dict[str, bytes]:
        """Curators whose reply is awaited -> what is sent there now, the same bytes each time."""
        waiting = {name: asking for name, asking in self._askings.items() if self._waits(name)}
        for name, asking in waiting.items():
            self._wait(name, Event.SENDING)
            asking.sendings += 1
        return {name: asking.data for name, asking in waiting.items()}

    @property
    def replies(self) -> dict[str, Message]:
        """What each request that has ended so far brought."""
        return {name: asking.reply for name, asking in self._askings.items() if asking.reply and not self._waits(name)}

    def receive(self, name: str, data: bytes) -> bool:
        """Take what a curator sent; whether `judge` must say what becomes of a request that came late."""
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
        """Make a request anew that came late, where that may help; whether it was made.

        That is as often as the learner's own clock says so, too, and once where only the curator's does.
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
        """Note what each request brought; with `record` also among the outcomes of the rounds. The replies that stand.

        A request that is still waiting is not sent again.
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
        """Requests whose reply never came, and whose reply is still of use, as they were sent.

        An acceptance that was lost holds a reservation, and a release that was lost was paid for. A turn of a query
        that the learner led is not sent again: the sum is over, and a curator that never got it would be charged for
        an answer that nobody can use. Nor is a proposal of a study for all or none that one has refused, where its
        curator said last that it waits for its steward.
        """
        awaiting = f"refusal:{RefusalCode.AWAITING_APPROVAL}"
        return {
            name: partial(_unchanged, session)
            for name, session in self.sessions.items()
            if (session.state is State.PROPOSED and not (self.given_up and self._failures.get(name) == awaiting))
            or (session.state is State.ASKED and not self._is_led(session))
        }

    def closes(self) -> dict[str, Request]:
        """A close for each open session; one that awaits its reply is sent again, or made anew where it was late."""
        requests: dict[str, Request] = {}
        for name, session in self.sessions.items():
            if session.state in (State.OPEN, State.ASKED):
                requests[name] = session.close
            elif session.state is State.CLOSING:
                requests[name] = partial(_close, session)
        return requests

    def lost_queries(self) -> dict[str, Request]:
        """Queries that had no answer when the study was closed, and were paid for, as they were sent."""
        return {
            name: partial(_unchanged, session)
            for name, session in self.sessions.items()
            if session.state is State.CLOSED and session.unanswered
        }

    def _is_led(self, session: Session) -> bool:
        """Whether what a session was asked last is a turn of a query that the learner leads."""
        return self.readers[self.turns[session.sequence - 1].planned.kind].lead is not None


def ends_all(replies: Mapping[str, Message]) -> bool:
    """Whether one of these replies to proposals is a refusal for good."""
    return any(isinstance(reply, Refusal) and refused_for_good(reply) for reply in replies.values())


def _unchanged(session: Session, now: int) -> bytes:  # noqa: ARG001
    """The request that has no reply, as it was sent."""
    return session.pending or session.unanswered


def _close(session: Session, now: int) -> bytes:
    """The close that awaits its reply, or another one where it came too late."""
    return session.pending or session.close(now)


def _terms(card: Card | None) -> Card | None:
    """What a card says, whichever request it answers."""
    if card is None:
        return None
    return msgspec.structs.replace(card, study=NO_STUDY, sequence=0, answers=NO_DIGEST, expires_at=0)
