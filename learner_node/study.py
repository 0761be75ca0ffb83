"""A study with several curators at once: cards, one plan for all, rounds, close. Survives dead and refusing sites.

How bytes travel is the carrier's affair; which questions are asked is the strategy's.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from learner_node.decided import decided
from learner_node.exchange import Exchange
from learner_node.fates import BAD_REPLY, Fates
from learner_node.federation import Carrier, Federation, UnfinishedError
from learner_node.objections import complaint_about_question
from learner_node.reading import Led, Pooled, QueryFailedError, Reader, Round, questions
from learner_node.requests import Request, closing, pending, proposal, query, terms, unanswered
from learner_node.session import Session
from protocol.codec import encode
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL
from protocol.errors import ConfigurationError, ExprilError, RemoteProtocolError
from protocol.kinds import Kinds, Turn
from protocol.messages import Card, Refusal, Release
from protocol.plans import Plan
from protocol.rationals import parse_amount
from protocol.refusals import RefusalCode
from protocol.transitions import State

__all__ = ["Carrier", "Federation", "NoCuratorError", "Round", "Study", "UnfinishedError"]


class NoCuratorError(ExprilError):
    """No curator is left that answered everything; the text lists what became of each.

    Attributes:
        study: the study as far as it came, where there is one.
    """

    kind = "study"

    def __init__(self, text: str, study: "Study | None" = None) -> None:
        self.study = study
        super().__init__(text)


class Study:
    """One study of one learner with all curators of a federation.

    A request that brought no answer, or a refusal that may pass, is sent again unchanged, then left pending; `close`
    sends it once more. A request that came after its expiry was not carried out and never will be: it is made anew.
    A curator that refused the plan for good in any other way may be asked again in another study only.

    Attributes:
        sessions: by curator name; each holds its transcript.
        retired: sessions given up for another: their proposal came too late, or not all accepted a plan that names
            all. They cost nothing.
        outcomes: what each request of a round brought, per curator: "release", "refusal:<code>", "no reply" or
            "bad reply"; a proposal is noted only where it was not accepted. "left out" stands for an answer that cannot
            be true, or alone for a card with which the study did not go on; `fate` says why.
        refusals: the full refusals that ended the asking of a request, per curator.
        asked_again: requests that were answered only when sent again, per curator.
        rounds: answered so far.
        readers, kinds: of the query kinds that may be asked.
        plan: what was proposed.

    Raises:
        ConfigurationError: two names of the federation stand for one curator.
    """

    def __init__(self, federation: Federation) -> None:
        if len(set(federation.curators.values())) != len(federation.curators):
            raise ConfigurationError("two curators have the same public key; name each once")
        self._federation = federation
        self.readers = federation.readers
        self.kinds = Kinds(*(reader.kind for reader in self.readers.values()))
        self._turns: tuple[Turn, ...] = ()
        self._asked = 0
        self._out: set[str] = set()
        self._fates = Fates(federation.curators)
        self.sessions = {name: self._session(key) for name, key in federation.curators.items()}
        self.retired: dict[str, list[Session]] = {name: [] for name in self.sessions}
        self._exchange = Exchange(federation, self.sessions, self._fates)
        self.rounds: list[Round] = []
        self.plan: Plan | None = None

    @property
    def outcomes(self) -> dict[str, list[str]]:
        """See the class."""
        return self._fates.outcomes

    @property
    def refusals(self) -> dict[str, list[Refusal]]:
        """See the class."""
        return self._fates.refusals

    @property
    def asked_again(self) -> dict[str, int]:
        """See the class."""
        return self._fates.asked_again

    @property
    def questions(self) -> int:
        """How often `ask` asks until the plan is carried out: a query that the learner leads is one question."""
        return len(questions(self._turns, self.readers))

    @property
    def cards(self) -> dict[str, Card]:
        """The cards of the curators that sent one."""
        return {name: session.card for name, session in self.sessions.items() if session.card is not None}

    @property
    def survivors(self) -> list[str]:
        """Curators that accepted the plan and answered every round so far."""
        alive = {name for name, session in self.sessions.items() if session.accepted is not None} - self._out
        for done in self.rounds:
            alive &= done.alive
        return [name for name in self.sessions if name in alive]

    @property
    def left_out(self) -> dict[str, str]:
        """Curators whose answers are used in no model, so far, or not in all of it -> what became of each."""
        return {
            name: self.fate(name) + (" (it is in a sum that was opened before)" if name in self.summed else "")
            for name in self.sessions
            if name not in self.survivors
        }

    @property
    def summed(self) -> set[str]:
        """Curators that are in a sum of which nothing but the sum was opened: none can be taken out of it again."""
        return {name for done in self.rounds for name in done.took_part}

    def leave_out(self, name: str, reason: str) -> None:
        """Go on without a curator, for a reason that the learner found; nothing more is asked there."""
        self._fates.leave_out(name, reason)

    def read_cards(self) -> dict[str, Card]:
        """Ask every curator for its card; those that sent one.

        Raises:
            NoCuratorError: none did.
        """
        self._exchange.ask(
            {name: session.request_card for name, session in self.sessions.items()}, record=False, renew=True
        )
        if not self.cards:
            raise self.nobody("no curator sent its card")
        return self.cards

    def propose(self, plan: Plan, purpose: str, names: list[str]) -> list[str]:
        """Propose the same plan to several curators; those that accepted at the exact cost.

        Raises:
            NoCuratorError: none did.
        """
        self.plan, self._turns = plan, self.kinds.turns(plan)
        self._exchange.ask({name: proposal(self.sessions[name], plan, purpose) for name in names}, record=True)
        again: set[str] = set()
        while late := [
            name for name in names if self._came_late(name) and (self._exchange.stale[name] or name not in again)
        ]:
            again |= set(late)
            self._propose_again(late, plan, purpose)
        for name in names:
            session = self.sessions[name]
            if session.accepted is None or session.card is None:
                continue
            cost = self.kinds.plan_cost(plan, session.card.most_records_per_unit)
            if parse_amount(session.accepted.cost) != cost:
                self.outcomes[name].append(BAD_REPLY)
                self._fates.last[name] = BAD_REPLY
                self._out.add(name)
        if not self.survivors:
            raise self.nobody("no curator accepted the plan")
        return self.survivors

    def withdraw(self) -> list[str]:
        """Close an accepted plan of which nothing was asked yet: all of it is refunded. Another may be proposed then.

        Returns:
            Curators to which: those that accepted, closed, and whose cards say the same. All others are out.
        """
        accepted = self.survivors
        self.close()
        same = self._renew([name for name in accepted if self.sessions[name].state is State.CLOSED])
        self._out |= self.sessions.keys() - set(same)
        return same

    def ask(self, bodies: Mapping[str, Any]) -> Round:
        """Ask the plan's next question of every curator named; one may be asked a body of its own.

        A body over the limits of a curator's card is not sent there. Where a query takes several turns that the
        learner leads, all of them are taken, and who misses one is asked no later one.

        Raises:
            NoCuratorError: none answered this and every earlier round, or what they say together was not opened.
        """
        if self.plan is None:
            raise NoCuratorError("no plan was accepted")
        turn = self._turns[self._asked]
        reader = self.readers[turn.planned.kind]
        done = self._alone(reader, turn, bodies) if reader.lead is None else self._led(reader, turn, bodies)
        self.rounds.append(done)
        if not self.survivors:
            raise self.nobody("no curator answered every round")
        return done

    def _alone(self, reader: Reader, turn: Turn, bodies: Mapping[str, Any]) -> Round:
        """One turn, with an answer of each curator."""
        answers = self._take(reader, turn, bodies)
        found = {name: reader.complaint(answer, self.cards[name].round_size) for name, answer in answers.items()}
        for name, reason in decided(self._federation.decided, found, dict[str, str]).items():
            if reason:
                self.outcomes[name].pop()
                self.leave_out(name, reason)
                del answers[name]
        return Round(turn, dict(bodies), answers, frozenset(answers))

    def _led(self, reader: Reader, turn: Turn, bodies: Mapping[str, Any]) -> Round:
        """All turns of a query, with one answer of all curators."""
        if reader.lead is None:
            raise TypeError(f"nobody leads {turn.planned.kind}")
        keys = {name: self.sessions[name].curator for name in bodies}
        cards = {name: card for name, card in self.cards.items() if name in bodies}
        not_private = any(self.sessions[name].not_private for name in bodies)
        label = NOT_PRIVATE_LABEL if not_private else LABEL
        learner = self._federation.key.public
        federation = self._federation
        leading = reader.lead(Led(turn, bodies, learner, keys, cards, label, federation.entropy, federation.decided))
        before = {name: len(said) for name, said in self.outcomes.items()}
        alive = set(bodies)
        try:
            asked = next(leading)
            while True:
                step = self._turns[self._asked]
                told = self._take(reader, step, {name: body for name, body in asked.items() if name in alive})
                alive &= told.keys()
                asked = leading.send(told)
        except StopIteration as end:
            pooled: Pooled = end.value
        except QueryFailedError as error:
            raise self.nobody(str(error)) from None
        finally:
            for name, first in before.items():
                self.outcomes[name][first:] = self.outcomes[name][first:][-1:]
        for name, reason in {**pooled.stranded, **pooled.out}.items():
            self.outcomes[name].pop()
            self.leave_out(name, reason)
            alive.discard(name)
        return Round(turn, dict(bodies), {}, frozenset(alive), pooled.answer, pooled.took_part)

    def _take(self, reader: Reader, turn: Turn, bodies: Mapping[str, Any]) -> dict[str, Any]:
        """Take the plan's next turn; what each curator released that can be read."""
        self._asked += 1
        requests = {}
        for name, body in bodies.items():
            session = self.sessions[name]
            if session.state is not State.OPEN or session.card is None:
                continue
            if complaint_about_question(body, turn, session.card, self.kinds):
                self._fates.not_sent(name)
            else:
                requests[name] = query(session, turn.planned.kind, encode(body))
        answers = {}
        for name, reply in self._exchange.ask(requests, record=True, renew=True).items():
            card = self.sessions[name].card
            if not isinstance(reply, Release) or card is None:
                continue
            try:
                answers[name] = _read(reader, reply, bodies[name], turn, card)
            except RemoteProtocolError:
                self._fates.unreadable(name)
        return answers

    def pooled(self, names: Sequence[str]) -> list[Any]:
        """What some curators say together in each round; all of them answered every round.

        Where only what all say together was opened, that: a curator that dropped out since stays in it.
        """
        return [
            done.pooled
            if done.took_part
            else self.readers[done.turn.planned.kind].pool([done.answers[name] for name in names])
            for done in self.rounds
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
        and a release that was lost was paid for and belongs in the transcript (it is in no round). A turn of a query
        that the learner led is not sent again: the sum is over, and a curator that never got it would be charged for
        an answer that nobody can use. A release that only the closing shows to have been paid for is asked for once
        more after it. Call it again where a curator could not be reached.
        """
        sessions = self.sessions.items()
        waiting = {
            name: pending(each)
            for name, each in sessions
            if each.state is State.PROPOSED or (each.state is State.ASKED and not self._is_led(each))
        }
        self._exchange.ask(waiting, record=False, attempts=1)
        closes: dict[str, Request] = {}
        for name, session in sessions:
            if session.state in (State.OPEN, State.ASKED):
                closes[name] = session.close
            elif session.state is State.CLOSING:
                closes[name] = closing(session)
        self._exchange.ask(closes, record=False, renew=True)
        lost = {name: unanswered(each) for name, each in sessions if each.state is State.CLOSED and each.unanswered}
        self._exchange.ask(lost, record=False, attempts=1)

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

    def _is_led(self, session: Session) -> bool:
        """Whether what a session was asked last is a turn of a query that the learner leads."""
        return self.readers[self._turns[session.sequence - 1].planned.kind].lead is not None

    def _came_late(self, name: str) -> bool:
        refused = self.sessions[name].state is State.REFUSED
        return refused and self._fates.last[name] == f"refusal:{RefusalCode.EXPIRED}"

    def _propose_again(self, names: Sequence[str], plan: Plan, purpose: str) -> None:
        """Propose anew, once, where the proposal came after its expiry: in a session of its own, to the same card."""
        for name in names:
            self._fates.forget_refusal(name)
        same = self._renew(names)
        self._exchange.ask({name: proposal(self.sessions[name], plan, purpose) for name in same}, record=True)

    def _renew(self, names: Sequence[str]) -> list[str]:
        """Give sessions up for new ones; the curators whose cards say the same. The others are left out."""
        cards = {name: self.sessions[name].card for name in names}
        for name in names:
            self.retired[name].append(self.sessions[name])
            self.sessions[name] = self._session(self.sessions[name].curator)
        self._exchange.ask({name: self.sessions[name].request_card for name in names}, record=False, renew=True)
        same = [name for name in names if terms(self.sessions[name].card) == terms(cards[name])]
        for name in names:
            if name not in same:
                why = "its card changed, or did not come, before the plan was proposed again; ask in a new study"
                self.leave_out(name, why)
        return same

    def nobody(self, what: str) -> NoCuratorError:
        """An error that says what became of each."""
        fates = [f"{name}: {self.fate(name)}" for name in self.sessions]
        return NoCuratorError(f"{what}. {'; '.join(fates) or 'The federation names no curator'}", self)

    def fate(self, name: str) -> str:
        """What became of a curator, and what to do; its own words are shortened and made printable."""
        return self._fates.words(name)


def _read(reader: Reader, reply: Release, body: Any, turn: Turn, card: Card) -> Any:
    if reply.kind != turn.planned.kind:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "kind", turn.planned.kind)
    return reader.read(reply.body, body, turn, card.schema)
