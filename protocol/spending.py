"""What one study was charged, by its receipts alone: the proven amount, and the largest possible amount.

Learner and auditor each compute it from the replies that they hold.
"""

from dataclasses import dataclass, field
from fractions import Fraction

from protocol.errors import RemoteProtocolError
from protocol.messages import Receipt, StudyAccepted, StudyClosed
from protocol.rationals import parse_amount
from protocol.refusals import RefusalCode

ROUNDING = Fraction(1, 2**64)
"""Grid to which a learner's total is rounded up if its denominator is long. Only such a total may seem to fall."""

NOTHING = Fraction(0)


@dataclass
class Spending:
    """The account of one study. If a receipt does not fit, a method raises RemoteProtocolError and changes nothing."""

    claimed: Fraction = Fraction(0)  # what was accepted as the plan's cost
    as_planned: bool = True  # whether that is the plan's own cost
    proven: Fraction = Fraction(0)  # what receipts prove to be charged
    # most that a query costs which was sent, and of which nothing proves yet whether it was charged
    uncertain: Fraction = Fraction(0)
    # whether the closing showed that such a query was charged. One that costs nothing never shows
    total_shown: bool = False
    _waits: bool = field(default=False, repr=False)
    _costs: dict[int, Fraction | None] = field(default_factory=dict, repr=False)
    _by_learner: Fraction = field(default=Fraction(0), repr=False)
    _by_learner_at_close: Fraction | None = field(default=None, repr=False)

    @property
    def at_most(self) -> Fraction:
        """Largest amount that can have been charged for the requests sent."""
        return self.proven + self.uncertain

    def accept(self, message: StudyAccepted, receipt: Receipt, cost: Fraction | None) -> None:
        """Record that the plan was accepted; `cost` is its exact cost, or None if that cannot be computed here."""
        self._by_learner = self._check(receipt, Fraction(0), Fraction(0), Fraction(0))
        self.claimed = parse_amount(message.cost)
        self.as_planned = cost is None or cost == self.claimed

    def ask(self, sequence: int, cost: Fraction | None) -> None:
        """Record a query that was sent. If `cost` is None, unknown here, the charge in its receipt is trusted."""
        self._costs[sequence], self._waits = cost, True
        self.uncertain = self.claimed - self.proven if cost is None else cost

    def rule_out(self) -> None:
        """Record that the last query will never be charged."""
        self.uncertain, self._waits = Fraction(0), False

    def release(self, receipt: Receipt) -> None:
        """Record a query's answer, which may arrive even after a closing that showed its charge."""
        cost = self._costs.get(receipt.sequence, NOTHING)
        if cost is None:
            cost = parse_amount(receipt.charged)
            fits = cost <= (self.proven if self.total_shown else self.uncertain)
            _require(fits, "receipt.charged", "the charge is more than was left of the plan")
        total = self.proven if self.total_shown else self.proven + cost
        self._by_learner = self._check(receipt, cost, total, cost)
        self.proven, self.uncertain, self._waits = total, NOTHING, False

    def close(self, message: StudyClosed, receipt: Receipt) -> bool:
        """Record the closing; returns whether an unanswered query may still be answered. If not, it was not charged."""
        total = parse_amount(receipt.spent_by_study)
        total_shown = total != self.proven
        if total_shown and None not in self._costs.values():
            total = self.at_most
        _require(self.proven <= total <= self.at_most, "receipt.spent_by_study", "the total is not the sum")
        by_learner = self._check(receipt, Fraction(0), total, total - self.proven)
        refund = parse_amount(message.refunded)
        _require(refund == self.claimed - total, "refunded", "the refund is not what was left")
        self._by_learner_at_close, self.total_shown = by_learner, total_shown
        free = self._waits and not self.uncertain
        self.proven, self.uncertain = total, Fraction(0)
        return total_shown or free

    def _check(self, receipt: Receipt, charged: Fraction, total: Fraction, growth: Fraction) -> Fraction:
        """Check a receipt's amounts, and that the learner's total has grown by at least `growth`; return this total."""
        _require(parse_amount(receipt.charged) == charged, "receipt.charged", "the charge is not the query's cost")
        _require(parse_amount(receipt.spent_by_study) == total, "receipt.spent_by_study", "the total is not the sum")
        by_learner = parse_amount(receipt.spent_by_learner)
        _require(by_learner >= total, "receipt.spent_by_learner", "the learner spent less than its study")
        least = self._by_learner + growth
        most = self._by_learner_at_close
        grows = by_learner >= least or by_learner + ROUNDING >= least
        fits = grows and (most is None or by_learner <= most + ROUNDING)
        _require(fits, "receipt.spent_by_learner", "the learner's total falls")
        return by_learner


def _require(fact: bool, part: str, complaint: str) -> None:
    if not fact:
        raise RemoteProtocolError(RefusalCode.BAD_SIGNATURE, part, complaint)
