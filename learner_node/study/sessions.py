"""The sessions of a study, one with each curator: opened by one plan for all, and closed wherever they are open."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from learner_node.study.budget import Purpose, words_for
from learner_node.study.exchange import Exchange
from learner_node.study.federation import Federation
from learner_node.study.outcomes import BAD_REPLY, Fates
from learner_node.study.requests import Request, closing, pending, proposal, stays, terms, unanswered
from learner_node.study.session import Session
from protocol.errors import ConfigurationError, ExprilError
from protocol.messages import Card, Message, Refusal
from protocol.plans import Plan
from protocol.query_kind import Kinds, Turn
from protocol.rationals import parse_amount
from protocol.refusals import RefusalCode
from protocol.transitions import State

ALL_OR_NONE = "the study is for all curators or none"
RENEWALS = 5
"""How often a reservation that ends before all curators have accepted is made anew, at most."""


def refused_for_good(replies: Mapping[str, Message]) -> bool:
    """Whether one of these replies to proposals is a no that stays one."""
    return any(isinstance(each, Refusal) and stays(each) for each in replies.values())


class Sessions:
    """What a study has with its curators before and after the questions. The attributes are told in `Study`.

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
        self._out: set[str] = set()
        self._purpose: Purpose = ""
        self._given_up = False
        self._fates = Fates(federation.curators)
        self.sessions = {name: self._session(key) for name, key in federation.curators.items()}
        self.retired: dict[str, list[Session]] = {name: [] for name in self.sessions}
        self._exchange = Exchange(federation, self.sessions, self._fates)
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
    def cards(self) -> dict[str, Card]:
        """The cards of the curators that sent one."""
        return {name: session.card for name, session in self.sessions.items() if session.card is not None}

    @property
    def survivors(self) -> list[str]:
        """Curators that accepted the plan."""
        return [name for name in self.accepted if name not in self._out]

    @property
    def accepted(self) -> dict[str, bytes]:
        """Curators that accepted the plan -> the identity that the study has there."""
        return {name: session.study for name, session in self.sessions.items() if session.accepted is not None}

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

    def propose(self, plan: Plan, purpose: Purpose, names: list[str]) -> list[str]:
        """Propose the same plan to several curators; those that accepted at the exact cost.

        Where the federation says all or none, those are all of its curators, or what was opened is closed at once.

        Args:
            plan: everything that will be asked.
            purpose: for the stewards to read.
            names: of the curators.

        Raises:
            NoCuratorError: none accepted; or not all did, and the federation says all or none.
        """
        together = self._federation.all_or_none
        if together and len(names) < len(self.sessions):
            raise self.nobody(f"{ALL_OR_NONE}, and not all can be asked: nothing was proposed")
        self.plan, self._purpose, self._turns = plan, purpose, self.kinds.turns(plan)
        replies = self._propose(plan, names)
        again: set[str] = set()
        while not (together and refused_for_good(replies)) and (
            late := [
                name for name in names if self._came_late(name) and (self._exchange.stale[name] or name not in again)
            ]
        ):
            again |= set(late)
            for name in late:
                self._fates.forget_refusal(name)
            replies = self._propose(plan, self._renew(late))
        if together:
            self._all_accepted()
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

    def close(self) -> None:
        """Close the study wherever it may be open; what was reserved and never used is refunded.

        A request whose reply never came is first sent once more: an acceptance that was lost holds a reservation,
        and a release that was lost was paid for and belongs in the transcript (it is in no round). A turn of a query
        that the learner led is not sent again: the sum is over, and a curator that never got it would be charged for
        an answer that nobody can use. Nor is a proposal of a study for all or none that one has refused, where its
        curator said last that it waits for its steward. A release that only the closing shows to have been paid for is
        asked for once more after it. Call it again where a curator could not be reached.
        """
        sessions = self.sessions.items()
        waiting = {
            name: pending(each)
            for name, each in sessions
            if (each.state is State.PROPOSED and not (self._given_up and self._fates.awaits_approval(name)))
            or (each.state is State.ASKED and not self._is_led(each))
        }
        self._exchange.ask(waiting, record=False, attempts=1)
        self._close_open()
        lost = {name: unanswered(each) for name, each in sessions if each.state is State.CLOSED and each.unanswered}
        self._exchange.ask(lost, record=False, attempts=1)

    def _close_open(self) -> None:
        closes: dict[str, Request] = {}
        for name, session in self.sessions.items():
            if session.state in (State.OPEN, State.ASKED):
                closes[name] = session.close
            elif session.state is State.CLOSING:
                closes[name] = closing(session)
        self._exchange.ask(closes, record=False, renew=True)

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

    def _propose(self, plan: Plan, names: Sequence[str]) -> dict[str, Message]:
        """Propose the plan in the sessions as they stand; a curator that accepts at another cost is out."""
        together = self._federation.all_or_none
        requests = {name: proposal(self.sessions[name], plan, words_for(self._purpose, name)) for name in names}
        replies = self._exchange.ask(requests, record=True, until=refused_for_good if together else None)
        for name in names:
            session = self.sessions[name]
            if session.accepted is None or session.card is None:
                continue
            cost = self.kinds.plan_cost(plan, session.card.most_records_per_unit)
            if parse_amount(session.accepted.cost) != cost:
                self.outcomes[name].append(BAD_REPLY)
                self._fates.last[name] = BAD_REPLY
                self._out.add(name)
        return replies

    def _all_accepted(self) -> None:
        """Of a study for all or none: unless every curator accepted, what was opened is closed at once."""
        if len(self.survivors) < len(self.sessions):
            self._given_up = True
            self._close_open()
            raise self.nobody(f"{ALL_OR_NONE}, and not all accepted: it was closed, nothing was asked or charged")

    def _hold_together(self, plan: Plan) -> None:
        """Of a study for all or none, before the first question: all curators hold their reservations still.

        One may have accepted days before another's steward did, or before this process went on with the study. A
        reservation that ends, or is about to, is made anew, in a session of its own; nothing was asked in the old one.

        Raises:
            NoCuratorError: one does not accept again; everything is closed.
        """
        for left in reversed(range(RENEWALS)):
            now = self._federation.clock()
            ending = [name for name in self.survivors if self._ends(name) <= now]
            if not (ending and left):
                break
            running = [name for name in ending if self._reserved_until(name) > now]
            self._exchange.ask({name: self.sessions[name].close for name in running}, record=False, renew=True)
            for name in ending:
                self._fates.last.pop(name, None)
            self._propose(plan, self._renew(ending))
            self._all_accepted()
        for name in self.survivors:
            if self._reserved_until(name) <= now:
                self._out.add(name)
                self.leave_out(name, "its reservation ended before all curators had accepted; ask in a new study")
        self._all_accepted()

    def _reserved_until(self, name: str) -> int:
        accepted = self.sessions[name].accepted
        return 0 if accepted is None else accepted.reserved_until

    def _ends(self, name: str) -> int:
        """When a reservation is too near its end to begin: a request's lifetime before, or half of a shorter one."""
        receipt, end = self.sessions[name].receipt, self._reserved_until(name)
        return end - min(self._federation.lifetime, (end - (receipt.issued_at if receipt else 0)) // 2)

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

    def nobody(self, what: str) -> ExprilError:
        """An error that says what became of each."""
        raise NotImplementedError

    def fate(self, name: str) -> str:
        """What became of a curator, and what to do; its own words are shortened and made printable."""
        return self._fates.words(name)
