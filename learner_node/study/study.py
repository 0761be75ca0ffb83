"""A study with several curators at once: cards, one plan for all, rounds, close. Survives dead and refusing sites.

How bytes travel is the carrier's affair; which questions are asked is the strategy's.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from learner_node.study.cards import complaint_about_question
from learner_node.study.decisions import decided
from learner_node.study.federation import Carrier, Federation, UnfinishedError
from learner_node.study.reading import Led, Pooled, QueryFailedError, Reader, Round, questions
from learner_node.study.requests import query
from learner_node.study.sessions import Sessions
from protocol.codec import encode
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL
from protocol.errors import ExprilError, RemoteProtocolError
from protocol.messages import Card, Release
from protocol.query_kind import Turn
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


class Study(Sessions):
    """One study of one learner with all curators of a federation.

    A request that brought no answer, or a refusal that may pass, is sent again unchanged, then left pending; `close`
    sends it once more. A request that came after its expiry was not carried out and never will be: it is made anew.
    A curator that refused the plan for good in any other way may be asked again in another study only.

    Attributes:
        sessions: by curator name; each holds its transcript.
        retired: sessions given up for another: their proposal came too late, or not all accepted a plan that names
            all, or the reservation was about to end. They cost nothing.
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
        super().__init__(federation)
        self._asked = 0
        self.rounds: list[Round] = []

    @property
    def questions(self) -> int:
        """How often `ask` asks until the plan is carried out: a query that the learner leads is one question."""
        return len(questions(self._turns, self.readers))

    @property
    def survivors(self) -> list[str]:
        """Curators that accepted the plan and answered every round so far."""
        alive = set(super().survivors)
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

    def ask(self, bodies: Mapping[str, Any]) -> Round:
        """Ask the plan's next question of every curator named; one may be asked a body of its own.

        A body over the limits of a curator's card is not sent there. Where a query takes several turns that the
        learner leads, all of them are taken, and who misses one is asked no later one.

        Raises:
            NoCuratorError: none answered this and every earlier round, or what they say together was not opened; or the
                study is for all or none, and one does not hold its reservation any more, and nothing was asked yet.
        """
        if self.plan is None:
            raise NoCuratorError("no plan was accepted")
        if self._federation.all_or_none and not self._asked:
            self._hold_together(self.plan)
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

    def nobody(self, what: str) -> NoCuratorError:
        """An error that says what became of each."""
        fates = [f"{name}: {self.fate(name)}" for name in self.sessions]
        return NoCuratorError(f"{what}. {'; '.join(fates) or 'The federation names no curator'}", self)

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


def _read(reader: Reader, reply: Release, body: Any, turn: Turn, card: Card) -> Any:
    if reply.kind != turn.planned.kind:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "kind", turn.planned.kind)
    return reader.read(reply.body, body, turn, card.schema)
