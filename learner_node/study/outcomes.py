"""What became of each curator of a study, in codes for reports and in words for people."""

from collections.abc import Iterable

from learner_node.study.cards import in_words
from protocol.messages import Refusal
from protocol.rationals import written_exactly
from protocol.refusals import RefusalCode

RELEASE = "release"
NO_REPLY = "no reply"
BAD_REPLY = "bad reply"
NOT_SENT = "not sent"
LEFT_OUT = "left out"
ANSWERED = "answered"

_ADVICE = {
    NO_REPLY: "no reply; see that it runs and can be reached, then ask again",
    BAD_REPLY: "its replies broke the protocol; nothing of it was used; ask its steward",
    ANSWERED: "it answered all that it was asked",
    NOT_SENT: "the question is over the limits on its card",
}


class Fates:
    """What is noted of each curator.

    Args:
        names: of the curators.

    Attributes:
        outcomes: what each request brought, see `Study`.
        refusals: the full refusals that ended the asking of a request.
        asked_again: requests that were answered only when sent again.
        last: the last outcome that was no release.
        broke: how its replies broke the protocol, in words.
        judged: why the learner left it out.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.outcomes: dict[str, list[str]] = {name: [] for name in names}
        self.refusals: dict[str, list[Refusal]] = {name: [] for name in self.outcomes}
        self.asked_again: dict[str, int] = dict.fromkeys(self.outcomes, 0)
        self.last: dict[str, str] = {}
        self.broke: dict[str, str] = {}
        self.judged: dict[str, str] = {}

    def leave_out(self, name: str, reason: str) -> None:
        """The learner goes on without it, for a reason that it found."""
        self.judged[name] = reason
        self.outcomes[name].append(LEFT_OUT)

    def forget_refusal(self, name: str) -> None:
        """Its last refusal does not stand: the request is made anew."""
        del self.last[name]
        self.outcomes[name].pop()
        self.refusals[name].pop()

    def awaits_approval(self, name: str) -> bool:
        """Whether the last that it said was that a proposal waits for its steward."""
        return self.last.get(name) == f"refusal:{RefusalCode.AWAITING_APPROVAL}"

    def not_sent(self, name: str) -> None:
        """A question is over the limits of its card."""
        self.outcomes[name].append(f"refusal:{RefusalCode.OVER_LIMIT}")
        self.last[name] = NOT_SENT

    def unreadable(self, name: str) -> None:
        """Its last release cannot be read."""
        self.outcomes[name][-1] = self.last[name] = BAD_REPLY

    def note(self, name: str, note: str, reply: object, *, record: bool) -> None:
        """What asking brought.

        Args:
            name: of the curator.
            note: the outcome.
            reply: what the asking ended with, if anything.
            record: whether it belongs to a round.
        """
        if isinstance(reply, Refusal):
            self.refusals[name].append(reply)
        if note != RELEASE:
            self.last[name] = note
        if record:
            self.outcomes[name].append(note)

    def words(self, name: str) -> str:
        """What became of a curator, and what to do; its own words are shortened and made printable."""
        if name in self.judged:
            return f"{LEFT_OUT}: {self.judged[name]}"
        fate = self.last.get(name, ANSWERED)
        if fate in _ADVICE:
            why = self.broke.get(name) if fate == BAD_REPLY else ""
            return f"{_ADVICE[fate]} ({why})" if why else _ADVICE[fate]
        refusal = self.refusals[name][-1]
        if refusal.code == RefusalCode.OVER_BUDGET:
            if not refusal.scale_factor:
                return "the plan costs more than is left: nothing is left for this learner"
            most, factor = written_exactly(refusal.remaining), written_exactly(refusal.scale_factor)
            return f"the plan costs more than is left; ask for an epsilon of at most {most} (scales times {factor})"
        return in_words(refusal.code, refusal.field, refusal.limit)
