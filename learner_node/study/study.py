"""A study with several curators at once: cards, one plan, rounds, close. It goes on without dead or refusing sites.

`state` holds what decides. The carrier transports the bytes, and the strategy chooses the questions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from learner_node.study.budget import Purpose, words_for
from learner_node.study.cards import complaint_about_question, same_limits
from learner_node.study.decisions import decided
from learner_node.study.federation import Federation, UnfinishedError
from learner_node.study.reading import LeadContext, Pooled, QueryFailedError, Reader, Round
from learner_node.study.state import Event, Part, Request, StudyState, ends_all
from protocol.codec import encode
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL
from protocol.errors import ConfigurationError, ExprilError, RemoteProtocolError
from protocol.messages import Card, Message, Release
from protocol.plans import Plan
from protocol.query_kind import Question, Turn
from protocol.refusals import RefusalCode
from protocol.transitions import State

__all__ = ["NoCuratorError", "Round", "Study"]

ALL_OR_NONE = "the study is for all curators or none"
RENEWALS = 5
"""Most times that an expiring reservation is made anew while other curators have not yet accepted."""


class NoCuratorError(ExprilError):
    """No curator is left that answered everything; the text lists what became of each.

    `study` is the unfinished study, if there is one.
    """

    kind = "study"

    def __init__(self, text: str, study: "Study | None" = None) -> None:
        self.study = study
        super().__init__(text)


class Study(StudyState):
    """One study of one learner with all curators of a federation.

    A request without a reply, or with a refusal that may pass, is sent again unchanged, then left pending; `close`
    sends it once more. A request that arrived after its expiry is never carried out, so it is made anew. A curator that
    refused the plan for good for any other reason can be asked again only in another study.

    Raises:
        ConfigurationError: two names of the federation stand for one curator.
    """

    def __init__(self, federation: Federation) -> None:
        if len(set(federation.curators.values())) != len(federation.curators):
            raise ConfigurationError("two curators have the same public key; name each once")
        self._federation = federation
        self._names = {key: name for name, key in federation.curators.items()}
        self._purpose: Purpose = ""
        sessions = {name: federation.new_session(key) for name, key in federation.curators.items()}
        super().__init__(sessions, federation.readers, federation.kinds)

    def read_cards(self) -> dict[str, Card]:
        """Return the cards of all curators that sent one. Raises NoCuratorError if none did."""
        names = [name for name, part in self.parts.items() if part is not Part.OUT]
        self._exchange({name: self.sessions[name].request_card for name in names}, renew=True)
        if not self.cards:
            raise self.nobody("no curator sent its card")
        return self.cards

    def propose(self, plan: Plan, purpose: Purpose, names: list[str]) -> list[str]:
        """Propose the same plan to several curators; return those that accepted at the exact cost.

        A federation for all or none needs every curator's acceptance, or closes at once what was opened.

        Args:
            plan: everything that will be asked.
            purpose: for the stewards to read.
            names: names of the curators.

        Raises:
            NoCuratorError: none accepted, or not all did and the federation needs all or none.
        """
        all_or_none = self._federation.all_or_none
        if all_or_none and len(names) < len(self.sessions):
            raise self.nobody(f"{ALL_OR_NONE}, and not all can be asked: nothing was proposed")
        self.plan, self._purpose, self.turns = plan, purpose, self.kinds.turns(plan)
        replies = self._propose(plan, names)
        renewed: set[str] = set()
        while not (all_or_none and ends_all(replies)) and (
            late := [name for name in names if self.came_late(name) and (self.expired[name] or name not in renewed)]
        ):
            renewed |= set(late)
            replies = self._propose(plan, self._renew(late))
        if all_or_none:
            self._require_all()
        if not self.survivors:
            raise self.nobody("no curator accepted the plan")
        return self.survivors

    def withdraw(self) -> list[str]:
        """Close an accepted plan of which nothing was asked yet, which refunds it; then another may be proposed.

        Returns the curators that accepted it, were closed and have unchanged cards; all others are out.
        """
        accepted = self.survivors
        self.close()
        ready = self._renew([name for name in accepted if self.sessions[name].state is State.CLOSED])
        for name in self.sessions.keys() - set(ready):
            self.move(name, Event.EXCLUSION)
        return ready

    def ask(self, bodies: Mapping[str, Any]) -> Round:
        """Ask the plan's next question of every named curator; each may get a body of its own.

        A body over the limits of a curator's card is not sent there. A query of several turns is carried out to its
        end; a curator that misses a turn is asked no later one.

        Raises:
            NoCuratorError: no curator answered this and every earlier round; the joint answer was not opened; or,
                before the first question of a study for all or none, a curator no longer holds its reservation.
        """
        if self.plan is None:
            raise NoCuratorError("no plan was accepted")
        if self._federation.all_or_none and not self.turns_taken:
            self._hold_reservations(self.plan)
        turn = self.turns[self.turns_taken]
        reader = self.readers[turn.planned.kind]
        answered = self._ask_each(reader, turn, bodies) if reader.lead is None else self._lead(reader, turn, bodies)
        self.end_round(answered)
        if not self.survivors:
            raise self.nobody("no curator answered every round")
        return answered

    def pooled(self, names: Sequence[str]) -> list[Any]:
        """The pooled answers in each round of some curators, all of which answered every round.

        A round of which only a joint sum was opened contributes that sum, also if a curator in it dropped out later.
        """
        return [
            answered.pooled
            if answered.took_part
            else self.readers[answered.turn.planned.kind].pool([answered.answers[name] for name in names])
            for answered in self.rounds
        ]

    def close(self) -> None:
        """Close the study wherever it may be open; unused reservations are refunded.

        A request without a reply is sent once more first (`StudyState.pending`). A release that arrives this way is in
        the transcript but in no round. If only the closing shows that a release was paid for, it is requested once more
        afterwards. Call `close` again if a curator could not be reached.
        """
        self._exchange(self.pending(), attempts=1)
        self._close_open()
        self._exchange(self.lost_queries(), attempts=1)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Context manager that closes the study, unless another process is to go on with it."""
        try:
            yield
        except BaseException as error:
            goes_on = self._federation.resumable or isinstance(error, UnfinishedError)
            if isinstance(error, NoCuratorError) or not goes_on:
                self.close()
            raise
        self.close()

    def nobody(self, failure: str) -> NoCuratorError:
        """An error that says what became of each curator."""
        fates = [f"{name}: {self.fate(name)}" for name in self.sessions]
        return NoCuratorError(f"{failure}. {'; '.join(fates) or 'The federation names no curator'}", self)

    def _exchange(
        self,
        requests: Mapping[str, Request],
        *,
        record: bool = False,
        attempts: int | None = None,
        renew: bool = False,
        until: Callable[[Mapping[str, Message]], bool] | None = None,
    ) -> dict[str, Message]:
        """Send requests, repeat those without a reply or with a refusal that may pass, and return the valid replies.

        Args:
            requests: curator's name -> how its request is made.
            record: whether the requests belong to a round.
            attempts: how often each is sent; None is the federation's number.
            renew: whether to make a request anew that arrived after its expiry.
            until: stops the repeats once it is true of the replies so far.
        """
        if not requests:
            return {}
        federation = self._federation
        self.begin(requests, federation.clock())
        attempts_left = attempts or federation.attempts
        while attempts_left and (waiting := self.send()):
            attempts_left -= 1
            arrived = federation.carrier.exchange({self.sessions[name].curator: data for name, data in waiting.items()})
            for key, data in arrived.items():
                name = self._names.get(key, "")
                late = name in waiting and self.receive(name, data)
                if late and self.judge(name, federation.clock(), renew=renew):
                    attempts_left = max(attempts_left, 1)
            if until is not None and until(self.replies):
                break
        replies = self.end(record=record)
        for name in requests:
            session = self.sessions[name]
            if session.newest_receipt:
                federation.receipts[session.curator] = session.newest_receipt
        return replies

    def _propose(self, plan: Plan, names: Sequence[str]) -> dict[str, Message]:
        """Propose the plan in the current sessions."""
        for name in names:
            self.move(name, Event.PROPOSAL)
        requests = {name: partial(self.sessions[name].propose, plan, words_for(self._purpose, name)) for name in names}
        return self._exchange(requests, record=True, until=ends_all if self._federation.all_or_none else None)

    def _require_all(self) -> None:
        """In a study for all or none, close what was opened unless every curator accepted."""
        if len(self.survivors) < len(self.sessions):
            self.given_up = True
            self._close_open()
            raise self.nobody(f"{ALL_OR_NONE}, and not all accepted: it was closed, nothing was asked or charged")

    def _hold_reservations(self, plan: Plan) -> None:
        """In a study for all or none, check before the first question that all curators still hold reservations.

        One may have accepted days before another's steward did, or before this process resumed the study. A reservation
        that has ended or soon will is made anew in a new session; nothing was asked in the old one.

        Raises NoCuratorError: one does not accept again; everything is closed.
        """
        for renewals_left in reversed(range(RENEWALS)):
            now = self._federation.clock()
            ending = [name for name in self.survivors if self._ends(name) <= now]
            if not (ending and renewals_left):
                break
            running = [name for name in ending if self._reserved_until(name) > now]
            self._exchange({name: self.sessions[name].close for name in running}, renew=True)
            self._propose(plan, self._renew(ending))
            self._require_all()
        for name in self.survivors:
            if self._reserved_until(name) <= now:
                self.leave_out(name, "its reservation ended before all curators had accepted; ask in a new study")
        self._require_all()

    def _reserved_until(self, name: str) -> int:
        accepted = self.sessions[name].accepted
        return 0 if accepted is None else accepted.reserved_until

    def _ends(self, name: str) -> int:
        """Time after which a reservation is too near its end: a request's lifetime before, or half of a shorter one."""
        receipt, end = self.sessions[name].receipt, self._reserved_until(name)
        return end - min(self._federation.lifetime, (end - (receipt.issued_at if receipt else 0)) // 2)

    def _renew(self, names: Sequence[str]) -> list[str]:
        """Replace sessions by new ones; return the curators with unchanged cards. The others are left out."""
        for name in names:
            self.renew_session(name, self._federation.new_session(self.sessions[name].curator))
        self._exchange({name: self.sessions[name].request_card for name in names}, renew=True)
        for name in names:
            if not self.same_terms(name):
                why = "its card changed, or did not come, before the plan was proposed again; ask in a new study"
                self.leave_out(name, why)
        return [name for name in names if self.parts[name] is Part.READY]

    def _close_open(self) -> None:
        self._exchange(self.closes(), renew=True)

    def _ask_each(self, reader: Reader, turn: Turn, bodies: Mapping[str, Any]) -> Round:
        """Ask one turn; each curator has its own answer."""
        answers = self._take_turn(reader, turn, bodies)
        complaints = {name: reader.complaint(answer, self.card_of(name).round_size) for name, answer in answers.items()}
        for name, reason in decided(self._federation.decided, complaints, dict[str, str]).items():
            if reason:
                self.discard(name, reason)
                del answers[name]
        return Round(turn, dict(bodies), answers, frozenset(answers))

    def _lead(self, reader: Reader, turn: Turn, bodies: Mapping[str, Any]) -> Round:
        """Lead all turns of a query; all curators give one joint answer."""
        if reader.lead is None:
            raise TypeError(f"nobody leads {turn.planned.kind}")
        keys = {name: self.sessions[name].curator for name in bodies}
        cards = {name: card for name, card in self.cards.items() if name in bodies}
        not_private = any(self.sessions[name].not_private for name in bodies)
        label = NOT_PRIVATE_LABEL if not_private else LABEL
        federation = self._federation
        leading = reader.lead(
            LeadContext(turn, bodies, federation.key.public, keys, cards, label, federation.entropy, federation.decided)
        )
        before = {name: len(outcomes) for name, outcomes in self.outcomes.items()}
        alive = set(bodies)
        try:
            next_bodies = next(leading)
            while True:
                step = self.turns[self.turns_taken]
                answers = self._take_turn(
                    reader, step, {name: body for name, body in next_bodies.items() if name in alive}
                )
                alive &= answers.keys()
                next_bodies = leading.send(answers)
        except StopIteration as end:
            pooled: Pooled = end.value
        except QueryFailedError as error:
            raise self.nobody(str(error)) from None
        finally:
            for name, first in before.items():
                self.outcomes[name][first:] = self.outcomes[name][first:][-1:]
        for name, reason in {**pooled.stranded, **pooled.out}.items():
            self.discard(name, reason)
            alive.discard(name)
        return Round(turn, dict(bodies), {}, frozenset(alive), pooled.answer, pooled.took_part)

    def _take_turn(self, reader: Reader, turn: Turn, bodies: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the plan's next turn; return each curator's release that can be read."""
        self.turns_taken += 1
        requests: dict[str, Request] = {}
        before: tuple[Any, Card, str, bytes] | None = None  # many curators have the same body, schema and limits
        for name, body in bodies.items():
            session = self.sessions[name]
            if self.parts[name] is not Part.MEMBER or session.state is not State.OPEN:
                continue
            card = self.card_of(name)
            if before is None or before[0] is not body or not same_limits(before[1], card):
                before = (body, card, complaint_about_question(body, turn, card, self.kinds), encode(body))
            _, _, complaint, data = before
            if complaint:
                self.not_sent(name)
            else:
                self.move(name, Event.QUERY)
                requests[name] = partial(session.query, turn.planned.kind, data)
        answers = {}
        for name, reply in self._exchange(requests, record=True, renew=True).items():
            if not isinstance(reply, Release):
                continue
            try:
                answers[name] = _read(reader, reply, bodies[name], turn, self.card_of(name))
            except RemoteProtocolError:
                self.unreadable(name)
        return answers


def _read(reader: Reader, reply: Release, body: Any, turn: Turn, card: Card) -> Any:
    if reply.kind != turn.planned.kind:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "kind", turn.planned.kind)
    return reader.read(reply.body, Question(turn, body, card.schema))
