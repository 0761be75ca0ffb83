"""A study with several curators at once: cards, one plan for all, rounds, close. Survives dead and refusing sites.

How bytes travel is the carrier's affair; which questions are asked is the strategy's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from learner_node.readers import READERS
from learner_node.readers.counts import CountsAnswer
from learner_node.session import Session
from protocol.codec import encode
from protocol.envelopes import SigningKey
from protocol.errors import ExprilError, RemoteProtocolError
from protocol.messages import Card, Message, Refusal, Release
from protocol.plans import Plan
from protocol.queries import plan_cost
from protocol.queries.counts import CountsBody
from protocol.rationals import parse_amount
from protocol.refusals import RefusalCode
from protocol.transitions import State


class NoCuratorError(ExprilError):
    """No curator is left that answered everything; the text lists what became of each.

    Attributes:
        study: the study as far as it came, where there is one.
    """

    def __init__(self, text: str, study: "Study | None" = None) -> None:
        self.study = study
        super().__init__(text)


class Carrier(Protocol):
    """Carries requests to curators and brings back the replies that came in time."""

    def exchange(self, requests: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """Curator's public key -> envelope, both ways; a curator that did not reply is left out."""


@dataclass(frozen=True)
class Federation:
    """The curators a learner may ask, and how.

    Attributes:
        curators: name -> public key; names are the learner's own.
        key: the learner's signing key.
        carrier: how messages travel.
        clock: seconds since 1970.
        entropy: n -> n random bytes; for study identities, never for noise.
        receipts: curator's public key -> newest receipt; read and updated, so that the next study can prove a
            rolled-back ledger. Keep it between runs.
        attempts: how often a request is sent before its curator is given up.
        allow_seeded: accept curators whose noise comes from a seed; simulations only.
    """

    curators: Mapping[str, bytes]
    key: SigningKey
    carrier: Carrier
    clock: Callable[[], int]
    entropy: Callable[[int], bytes]
    receipts: dict[bytes, bytes] = field(default_factory=dict)
    attempts: int = 2
    allow_seeded: bool = False


@dataclass(frozen=True)
class Round:
    """What was asked and who answered."""

    bodies: Mapping[str, CountsBody]
    answers: Mapping[str, CountsAnswer]


class Study:
    """One study of one learner with all curators of a federation.

    Attributes:
        sessions: by curator name; each holds its transcript.
        outcomes: what each request of a round brought, per curator: "release", "refusal:<code>", "no reply" or
            "bad reply"; a proposal is noted only where it was not accepted.
        refusals: the full refusals received, per curator.
        rounds: answered so far.
    """

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self.sessions = {
            name: Session(
                curator=key,
                key=federation.key,
                study=federation.entropy(16),
                allow_seeded=federation.allow_seeded,
                newest_receipt=federation.receipts.get(key, b""),
            )
            for name, key in federation.curators.items()
        }
        self.outcomes: dict[str, list[str]] = {name: [] for name in self.sessions}
        self.refusals: dict[str, list[Refusal]] = {name: [] for name in self.sessions}
        self.rounds: list[Round] = []
        self.plan: Plan | None = None

    @property
    def cards(self) -> dict[str, Card]:
        """The cards of the curators that sent one."""
        return {name: session.card for name, session in self.sessions.items() if session.card is not None}

    @property
    def survivors(self) -> list[str]:
        """Curators that accepted the plan and answered every round so far."""
        alive = {name for name, session in self.sessions.items() if session.accepted is not None}
        for done in self.rounds:
            alive &= done.answers.keys()
        return [name for name in self.sessions if name in alive]

    def read_cards(self) -> dict[str, Card]:
        """Ask every curator for its card; those that sent one.

        Raises:
            NoCuratorError: none did.
        """
        self._ask({name: session.request_card for name, session in self.sessions.items()}, record=False)
        if not self.cards:
            raise self._nobody("no curator sent its card")
        return self.cards

    def propose(self, plan: Plan, purpose: str, names: list[str]) -> list[str]:
        """Propose the same plan to several curators; those that accepted at the exact cost.

        Raises:
            NoCuratorError: none did.
        """
        self.plan = plan
        self._ask({name: _proposal(self.sessions[name], plan, purpose) for name in names}, record=True)
        for name in names:
            session = self.sessions[name]
            if session.accepted is None or session.card is None:
                continue
            cost = plan_cost(plan, session.card.most_records_per_unit)
            if parse_amount(session.accepted.cost) != cost:
                self.outcomes[name].append("bad reply")
                session.accepted = None
        if not self.survivors:
            raise self._nobody("no curator accepted the plan")
        return self.survivors

    def ask(self, bodies: Mapping[str, CountsBody]) -> Round:
        """Ask the plan's next query of every curator named; one may be asked a body of its own.

        Raises:
            NoCuratorError: none answered this and every earlier round.
        """
        if self.plan is None:
            raise NoCuratorError("no plan was accepted")
        planned = self.plan.queries[len(self.rounds)]
        requests = {
            name: _query(self.sessions[name], planned.kind, encode(body))
            for name, body in bodies.items()
            if self.sessions[name].state is State.OPEN
        }
        replies = self._ask(requests, record=True)
        answers = {}
        for name, reply in replies.items():
            card = self.sessions[name].card
            if not isinstance(reply, Release) or card is None:
                continue
            try:
                answers[name] = READERS[reply.kind](reply.body, bodies[name], planned, card.schema)
            except (RemoteProtocolError, KeyError):
                self.outcomes[name][-1] = "bad reply"
        done = Round(dict(bodies), answers)
        self.rounds.append(done)
        if not self.survivors:
            raise self._nobody("no curator answered every round")
        return done

    def close(self) -> None:
        """Close the study wherever it is open; what was reserved and never used is refunded."""
        open_ = {
            name: session.close
            for name, session in self.sessions.items()
            if session.state in (State.OPEN, State.ASKED) and session.accepted is not None
        }
        self._ask(open_, record=False)

    def spent(self, name: str) -> Fraction:
        """Epsilon that a curator's receipts charge to this study."""
        session = self.sessions[name]
        done = sum(1 for outcome in self.outcomes[name] if outcome == "release")
        if self.plan is None or session.card is None:
            return Fraction(0)
        first = Plan(queries=self.plan.queries[:done]) if done else None
        return plan_cost(first, session.card.most_records_per_unit) if first else Fraction(0)

    def _ask(self, requests: Mapping[str, Callable[[int], bytes]], *, record: bool) -> dict[str, Message]:
        """Send, retry the same bytes where nothing came, verify, and note what each request brought."""
        now = self._federation.clock()
        waiting = {self.sessions[name].curator: (name, make(now)) for name, make in requests.items()}
        replies: dict[str, Message] = {}
        notes: dict[str, str] = dict.fromkeys(requests, "no reply")
        for _ in range(self._federation.attempts):
            if not waiting:
                break
            arrived = self._federation.carrier.exchange({key: data for key, (_, data) in waiting.items()})
            for key, data in arrived.items():
                name = waiting[key][0] if key in waiting else ""
                if not name:
                    continue
                try:
                    reply = self.sessions[name].receive(data)
                except RemoteProtocolError:
                    notes[name] = "bad reply"
                    continue
                if isinstance(reply, Refusal) and reply.code == RefusalCode.UNAVAILABLE:
                    notes[name] = "refusal:unavailable"
                    continue
                replies[name] = reply
                notes[name] = f"refusal:{reply.code}" if isinstance(reply, Refusal) else "release"
                del waiting[key]
        for name, note in notes.items():
            reply_ = replies.get(name)
            if isinstance(reply_, Refusal):
                self.refusals[name].append(reply_)
            if record and (isinstance(reply_, Release) or note != "release"):
                self.outcomes[name].append(note)
            session = self.sessions[name]
            if session.newest_receipt:
                self._federation.receipts[session.curator] = session.newest_receipt
        return replies

    def _nobody(self, what: str) -> NoCuratorError:
        fates = []
        for name in self.sessions:
            said = self.refusals[name]
            fate = said[-1].explanation if said else (self.outcomes[name] or ["no reply"])[-1]
            left = (
                f" (left: {said[-1].remaining}; multiply scales by {said[-1].scale_factor})"
                if (said and said[-1].scale_factor)
                else ""
            )
            fates.append(f"{name}: {fate}{left}")
        return NoCuratorError(f"{what}. " + "; ".join(fates), self)


def _proposal(session: Session, plan: Plan, purpose: str) -> Callable[[int], bytes]:
    return lambda now: session.propose(plan, purpose, now)


def _query(session: Session, kind: str, body: bytes) -> Callable[[int], bytes]:
    return lambda now: session.query(kind, body, now)
