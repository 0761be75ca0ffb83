"""A study with several curators at once: cards, one plan for all, rounds, close. Survives dead and refusing sites.

How bytes travel is the carrier's affair; which questions are asked is the strategy's.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from learner_node.federation import Carrier, Federation, UnfinishedError
from learner_node.objections import complaint_about_question, in_words
from learner_node.reading import Reader
from learner_node.requests import Request, closing, pending, proposal, query, terms, unanswered
from learner_node.session import Session
from protocol.codec import encode
from protocol.envelopes import digest, open_envelope
from protocol.errors import ConfigurationError, ExprilError, RemoteProtocolError, printable
from protocol.kinds import Kinds, Turn
from protocol.messages import Card, Message, Refusal, Release
from protocol.plans import Plan
from protocol.rationals import parse_amount
from protocol.refusals import RefusalCode
from protocol.transitions import State

__all__ = ["Carrier", "Federation", "NoCuratorError", "Round", "Study", "UnfinishedError"]

NO_REPLY = "no reply"
BAD_REPLY = "bad reply"
NOT_SENT = "not sent"
LEFT_OUT = "left out"

_ADVICE = {
    NO_REPLY: "no reply; see that it runs and can be reached, then ask again",
    BAD_REPLY: "its replies broke the protocol; nothing of it was used; ask its steward",
    NOT_SENT: "the question is over the limits on its card",
}


class NoCuratorError(ExprilError):
    """No curator is left that answered everything; the text lists what became of each.

    Attributes:
        study: the study as far as it came, where there is one.
    """

    kind = "study"

    def __init__(self, text: str, study: "Study | None" = None) -> None:
        self.study = study
        super().__init__(text)


@dataclass(frozen=True)
class Round:
    """What was asked and who answered."""

    bodies: Mapping[str, Any]
    answers: Mapping[str, Any]


class Study:
    """One study of one learner with all curators of a federation.

    A request that brought no answer, or a refusal that may pass, is sent again unchanged, then left pending; `close`
    sends it once more. A request that came after its expiry was not carried out and never will be: it is made anew.
    A curator that refused the plan for good in any other way may be asked again in another study only.

    Attributes:
        sessions: by curator name; each holds its transcript.
        retired: sessions whose proposal came too late, and was made anew in another; they cost nothing.
        outcomes: what each request of a round brought, per curator: "release", "refusal:<code>", "no reply" or
            "bad reply"; a proposal is noted only where it was not accepted. "left out" stands for an answer that cannot
            be true, or alone for a card with which the study did not go on; `fate` says why.
        refusals: the full refusals that ended the asking of a request, per curator.
        asked_again: requests that were answered only when sent again, per curator.
        rounds: answered so far.
        kinds: the query kinds that may be asked.
        plan: what was proposed.

    Raises:
        ConfigurationError: two names of the federation stand for one curator.
    """

    def __init__(self, federation: Federation) -> None:
        if len(set(federation.curators.values())) != len(federation.curators):
            raise ConfigurationError("two curators have the same public key; name each once")
        self._federation = federation
        self.kinds = Kinds(*(reader.kind for reader in federation.readers.values()))
        self._turns: tuple[Turn, ...] = ()
        self._liars: set[str] = set()
        self._fates: dict[str, str] = {}
        self._complaints: dict[str, str] = {}
        self._judged: dict[str, str] = {}
        self._stale: dict[str, bool] = {}
        self.sessions = {name: self._session(key) for name, key in federation.curators.items()}
        self.retired: dict[str, list[Session]] = {name: [] for name in self.sessions}
        self.outcomes: dict[str, list[str]] = {name: [] for name in self.sessions}
        self.refusals: dict[str, list[Refusal]] = {name: [] for name in self.sessions}
        self.asked_again: dict[str, int] = dict.fromkeys(self.sessions, 0)
        self.rounds: list[Round] = []
        self.plan: Plan | None = None

    @property
    def cards(self) -> dict[str, Card]:
        """The cards of the curators that sent one."""
        return {name: session.card for name, session in self.sessions.items() if session.card is not None}

    @property
    def survivors(self) -> list[str]:
        """Curators that accepted the plan and answered every round so far."""
        alive = {name for name, session in self.sessions.items() if session.accepted is not None} - self._liars
        for done in self.rounds:
            alive &= done.answers.keys()
        return [name for name in self.sessions if name in alive]

    @property
    def left_out(self) -> dict[str, str]:
        """Curators whose answers are used in no model, so far -> what became of each."""
        return {name: self.fate(name) for name in self.sessions if name not in self.survivors}

    def leave_out(self, name: str, reason: str) -> None:
        """Go on without a curator, for a reason that the learner found; nothing more is asked there."""
        self._judged[name] = reason
        self.outcomes[name].append(LEFT_OUT)

    def read_cards(self) -> dict[str, Card]:
        """Ask every curator for its card; those that sent one.

        Raises:
            NoCuratorError: none did.
        """
        self._ask({name: session.request_card for name, session in self.sessions.items()}, record=False, renew=True)
        if not self.cards:
            raise self._nobody("no curator sent its card")
        return self.cards

    def propose(self, plan: Plan, purpose: str, names: list[str]) -> list[str]:
        """Propose the same plan to several curators; those that accepted at the exact cost.

        Raises:
            NoCuratorError: none did.
        """
        self.plan, self._turns = plan, self.kinds.turns(plan)
        self._ask({name: proposal(self.sessions[name], plan, purpose) for name in names}, record=True)
        again: set[str] = set()
        while late := [name for name in names if self._came_late(name) and (self._stale[name] or name not in again)]:
            again |= set(late)
            self._propose_again(late, plan, purpose)
        for name in names:
            session = self.sessions[name]
            if session.accepted is None or session.card is None:
                continue
            cost = self.kinds.plan_cost(plan, session.card.most_records_per_unit)
            if parse_amount(session.accepted.cost) != cost:
                self.outcomes[name].append(BAD_REPLY)
                self._fates[name] = BAD_REPLY
                self._liars.add(name)
        if not self.survivors:
            raise self._nobody("no curator accepted the plan")
        return self.survivors

    def ask(self, bodies: Mapping[str, Any]) -> Round:
        """Ask the plan's next question of every curator named; one may be asked a body of its own.

        A body over the limits of a curator's card is not sent there.

        Raises:
            NoCuratorError: none answered this and every earlier round.
        """
        if self.plan is None:
            raise NoCuratorError("no plan was accepted")
        turn = self._turns[len(self.rounds)]
        requests = {}
        for name, body in bodies.items():
            session = self.sessions[name]
            if session.state is not State.OPEN or session.card is None:
                continue
            if complaint_about_question(body, turn, session.card, self.kinds):
                self.outcomes[name].append(f"refusal:{RefusalCode.OVER_LIMIT}")
                self._fates[name] = NOT_SENT
            else:
                requests[name] = query(session, turn.planned.kind, encode(body))
        replies = self._ask(requests, record=True, renew=True)
        answers = {}
        for name, reply in replies.items():
            card = self.sessions[name].card
            if not isinstance(reply, Release) or card is None:
                continue
            reader = self._federation.readers[turn.planned.kind]
            try:
                answer = _read(reader, reply, bodies[name], turn, card)
            except RemoteProtocolError:
                self.outcomes[name][-1] = self._fates[name] = BAD_REPLY
                continue
            if reason := reader.complaint(answer, card.round_size):
                self.outcomes[name].pop()
                self.leave_out(name, reason)
            else:
                answers[name] = answer
        done = Round(dict(bodies), answers)
        self.rounds.append(done)
        if not self.survivors:
            raise self._nobody("no curator answered every round")
        return done

    def pooled(self, names: Sequence[str]) -> list[Any]:
        """What some curators say together in each round; all of them answered every round."""
        return [
            self._federation.readers[turn.planned.kind].pool([done.answers[name] for name in names])
            for turn, done in zip(self._turns, self.rounds, strict=False)
        ]

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Close the study in the end, unless another process is to go on with it."""
        try:
            yield
        except BaseException as error:
            goes_on = self._federation.resumable or isinstance(error, UnfinishedError)
            if isinstance(error, NoCuratorError) or not goes_on:
                self.close()
            raise
        self.close()

    def close(self) -> None:
        """Close the study wherever it may be open; what was reserved and never used is refunded.

        A request whose reply never came is first sent once more: an acceptance that was lost holds a reservation,
        and a release that was lost was paid for and belongs in the transcript (it is in no round). A release that
        only the closing shows to have been paid for is asked for once more after it. Call it again where a curator
        could not be reached.
        """
        sessions = self.sessions.items()
        waiting = (State.PROPOSED, State.ASKED)
        self._ask({name: pending(each) for name, each in sessions if each.state in waiting}, record=False, attempts=1)
        closes: dict[str, Request] = {}
        for name, session in sessions:
            if session.state in (State.OPEN, State.ASKED):
                closes[name] = session.close
            elif session.state is State.CLOSING:
                closes[name] = closing(session)
        self._ask(closes, record=False, renew=True)
        lost = {name: unanswered(each) for name, each in sessions if each.state is State.CLOSED and each.unanswered}
        self._ask(lost, record=False, attempts=1)

    def spent(self, name: str) -> Fraction:
        """Epsilon that a curator's receipts prove to be charged to this study."""
        return self.sessions[name].spent

    def spent_at_most(self, name: str) -> Fraction:
        """`spent`, and the exact cost of a query that was sent and of which nothing proves whether it was charged."""
        return self.sessions[name].spent_at_most

    def _session(self, curator: bytes) -> Session:
        federation = self._federation
        return Session(
            curator=curator,
            key=federation.key,
            study=federation.entropy(16),
            lifetime=federation.lifetime,
            allow_not_private=federation.allow_not_private,
            newest_receipt=federation.receipts.get(curator, b""),
            kinds=self.kinds,
        )

    def _came_late(self, name: str) -> bool:
        refused = self.sessions[name].state is State.REFUSED
        return refused and self._fates[name] == f"refusal:{RefusalCode.EXPIRED}"

    def _propose_again(self, names: Sequence[str], plan: Plan, purpose: str) -> None:
        """Propose anew, once, where the proposal came after its expiry: in a session of its own, to the same card."""
        cards = {}
        for name in names:
            old = self.sessions[name]
            cards[name] = old.card
            self.retired[name].append(old)
            self.sessions[name] = self._session(old.curator)
            self.outcomes[name].pop()
            self.refusals[name].pop()
        self._ask({name: self.sessions[name].request_card for name in names}, record=False, renew=True)
        same = [name for name in names if terms(self.sessions[name].card) == terms(cards[name])]
        for name in set(names) - set(same):
            self.leave_out(name, "its card changed, or did not come, while the proposal waited; ask in a new study")
        self._ask({name: proposal(self.sessions[name], plan, purpose) for name in same}, record=True)

    def _ask(
        self,
        requests: Mapping[str, Request],
        *,
        record: bool,
        attempts: int | None = None,
        renew: bool = False,
    ) -> dict[str, Message]:
        """Send, retry the same bytes where nothing came or a refusal may pass, and note what each request brought.

        With `renew`, a request that came after its expiry is made anew: as often as the learner's own clock says so,
        and once where only the curator's does.
        """
        if not requests:
            return {}
        now = self._federation.clock()
        waiting = {self.sessions[name].curator: (name, make(now)) for name, make in requests.items()}
        replies: dict[str, Message] = {}
        notes: dict[str, str] = dict.fromkeys(requests, NO_REPLY)
        passing: dict[str, Refusal] = {}
        sent_again: set[str] = set()
        renewed: set[str] = set()
        left = attempts or self._federation.attempts
        while waiting and left:
            left -= 1
            arrived = self._federation.carrier.exchange({key: data for key, (_, data) in waiting.items()})
            for key, data in arrived.items():
                if key not in waiting:
                    continue
                name, sent = waiting[key]
                try:
                    reply = self.sessions[name].receive(data)
                except RemoteProtocolError as error:
                    notes[name], self._complaints[name] = BAD_REPLY, printable(str(error), 400)
                    continue
                if reply.answers != digest(sent):  # an earlier query's, brought late
                    continue
                notes[name] = f"refusal:{reply.code}" if isinstance(reply, Refusal) else "release"
                if isinstance(reply, Refusal) and not reply.final:
                    passing[name] = reply
                    continue
                now = self._too_late(name, reply, sent)
                if now and renew and (self._stale[name] or name not in renewed):
                    renewed.add(name)
                    waiting[key] = (name, requests[name](now))
                    left = max(left, 1)
                    continue
                replies[name] = reply
                self.asked_again[name] += name in sent_again
                del waiting[key]
            sent_again |= {name for name, _ in waiting.values()}
        for name, note in notes.items():
            reply_ = replies.get(name, passing.get(name))
            if isinstance(reply_, Refusal):
                self.refusals[name].append(reply_)
            if note != "release":
                self._fates[name] = note
            if record and (isinstance(reply_, Release) or note != "release"):
                self.outcomes[name].append(note)
            session = self.sessions[name]
            if session.newest_receipt:
                self._federation.receipts[session.curator] = session.newest_receipt
        return replies

    def _too_late(self, name: str, reply: Message, sent: bytes) -> int:
        """The time, where a request came after its expiry; else 0."""
        if not isinstance(reply, Refusal) or reply.code != RefusalCode.EXPIRED:
            return 0
        now = self._federation.clock()
        self._stale[name] = now >= open_envelope(sent)[1].expires_at
        return now

    def _nobody(self, what: str) -> NoCuratorError:
        fates = [f"{name}: {self.fate(name)}" for name in self.sessions]
        return NoCuratorError(f"{what}. {'; '.join(fates) or 'The federation names no curator'}", self)

    def fate(self, name: str) -> str:
        """What became of a curator, and what to do; its own words are shortened and made printable."""
        if name in self._judged:
            return f"{LEFT_OUT}: {self._judged[name]}"
        fate = self._fates.get(name, NO_REPLY)
        if fate in _ADVICE:
            why = self._complaints.get(name) if fate == BAD_REPLY else ""
            return f"{_ADVICE[fate]} ({why})" if why else _ADVICE[fate]
        refusal = self.refusals[name][-1]
        if refusal.code == RefusalCode.OVER_BUDGET:
            if not refusal.scale_factor:
                return "the plan costs more than is left: nothing is left for this learner"
            most = f"an epsilon of at most {refusal.remaining} (scales times {refusal.scale_factor})"
            return f"the plan costs more than is left; ask for {most}"
        return in_words(refusal.code, refusal.field, refusal.limit)


def _read(reader: Reader, reply: Release, body: Any, turn: Turn, card: Card) -> Any:
    if reply.kind != turn.planned.kind:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "kind", turn.planned.kind)
    return reader.read(reply.body, body, turn, card.schema)
