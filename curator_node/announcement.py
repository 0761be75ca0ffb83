"""What a proposal announces of another one, held against the ledger: in words for its steward, and for programs.

A study and the validation of its model are two proposals. The first may say what the second will cost, so that a
steward knows what both cost together. The second names the first, so that a steward sees whether it keeps to that. None
of this binds the ledger, and none of it depends on a record.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from curator_node.ledger import Ledger, StudyKey
from curator_node.policy import Policy
from protocol.announcements import Notice, read_notice
from protocol.ledger.entries import Entry, EntryKind, decode_entry
from protocol.messages import NO_STUDY, StudyProposal
from protocol.rationals import amount, parse_amount, shorten, written
from protocol.transitions import State

_ENDED = (State.CLOSED, State.EXPIRED)


@dataclass(frozen=True)
class Announced:
    """What one proposal announces.

    Attributes:
        notice: as its learner wrote it.
        cost: of the proposal itself, at most.
        left: what its learner may still reserve, before it.
        known: whether the study that it names is one of this learner's on this ledger.
        most: what that study announced for its validation; None where it announced none.
        before: what other validations of that study have cost here, or may still.
    """

    notice: Notice
    cost: Fraction
    left: Fraction
    known: bool = False
    most: Fraction | None = None
    before: Fraction = Fraction(0)

    def rows(self) -> list[tuple[str, str]]:
        """(what, in plain words) for the steward; empty where nothing is announced."""
        if self.notice.most is not None:
            return [("then", self._then(self.notice.most))]
        return [("after", self._after())] if self.notice.study != NO_STUDY else []

    def as_objects(self) -> dict[str, dict[str, object] | None]:
        """The same for programs; all amounts are rationals."""
        then: dict[str, object] | None = None
        if self.notice.most is not None:
            then = {"epsilon": amount(self.notice.most), "together": _up(self.cost + self.notice.most)}
        after: dict[str, object] | None = None
        if self.notice.study != NO_STUDY:
            after = {
                "study": self.notice.study.hex(),
                "known": self.known,
                "announced": None if self.most is None else amount(self.most),
                "before": _up(self.before),
                "more": self.more,
            }
        return {"announces": then, "validates": after}

    @property
    def more(self) -> bool:
        """Whether the validation costs more, with others of the same study, than that study announced."""
        return self.before + self.cost > (self.most or 0)

    def _then(self, most: Fraction) -> str:
        short = "" if self.cost + most <= self.left else f", which is more than the {written(self.left)} that is left"
        return (
            f"a validation of the model, proposed apart, at most {written(most)} of epsilon; both together at most "
            f"{written(self.cost + most)}{short}. The learner says so, and it binds nobody"
        )

    def _after(self) -> str:
        named = f"it validates the model of study {self.notice.study.hex()[:8]}"
        if not self.known:
            return f"{named}, as its learner says; this ledger holds no such study of that learner"
        others = f", {written(self.before + self.cost)} with other validations of it" if self.before else ""
        costs = f"it costs at most {written(self.cost)}{others}"
        if self.most is None:
            return f"{named}, which announced no validation; {costs}"
        verdict = "MORE than that" if self.more else "no more than that"
        return f"{named}, which announced one of at most {written(self.most)}; {costs}: {verdict}"


def announced(message: StudyProposal, cost: Fraction, ledger: Ledger, policy: Policy) -> Announced:
    """What a proposal announces, and what the ledger knows of it.

    Args:
        message: the proposal.
        cost: its plan's, at most.
        ledger: refreshed.
        policy: the steward's.

    Raises:
        LedgerCorruptError, LedgerUnavailableError: the ledger cannot be read.
    """
    notice, learner = read_notice(message.purpose), policy.learner(message.sender)
    cap, name = policy.cap_of(message.sender), "" if learner is None else learner.name
    left = ledger.account.remaining(message.sender, cap, policy.total_cap, name)
    if notice.study == NO_STUDY:
        return Announced(notice, cost, left)
    keys = ledger.account.keys_of(message.sender, name)
    entries = [decode_entry(row.body) for row in ledger.store.rows(0)]
    opened = [entry for entry in entries if entry.kind is EntryKind.RESERVE and entry.learner in keys]
    first = next((entry for entry in opened if entry.study == notice.study), None)
    others = [entry for entry in opened if read_notice(entry.note).study == notice.study]
    return Announced(
        notice,
        cost,
        left,
        known=first is not None,
        most=None if first is None else read_notice(first.note).most,
        before=sum((_costs(entry, ledger) for entry in others if entry.study != message.study), Fraction(0)),
    )


def _costs(entry: Entry, ledger: Ledger) -> Fraction:
    """What a study has cost, or may still: of one that has ended, what was charged."""
    study = ledger.account.studies[StudyKey(entry.learner, entry.study)]
    return study.spent if study.state in _ENDED else parse_amount(entry.amount)


def _up(value: Fraction) -> str:
    return amount(shorten(value, math.ceil))


def _down(value: Fraction) -> str:
    return amount(shorten(value, math.floor))
