"""What one study was charged, from its receipts alone: what is proven, and the most that it can be.

Learner and auditor keep this account, each from the replies that it holds.
"""

from dataclasses import dataclass, field
from fractions import Fraction

from protocol.errors import RemoteProtocolError
from protocol.messages import Receipt, StudyAccepted, StudyClosed
from protocol.rationals import parse_amount
from protocol.refusals import RefusalCode

ROUNDING = Fraction(1, 2**64)
"""A learner's total is rounded up to this grid where its denominator has grown long: only then may it seem to fall."""


@dataclass
class Spending:
    """The account of one study. Where a receipt does not fit, a method raises RemoteProtocolError and changes nothing.

    Attributes:
        costs: exact costs of the planned queries; empty until the plan is accepted.
        claimed: what was accepted as the plan's cost.
        as_planned: whether that is the sum of the queries' costs.
        proven: what receipts prove to be charged.
        uncertain: cost of a query that was sent, and of which nothing proves yet whether it was charged.
    """

    costs: tuple[Fraction, ...] = ()
    claimed: Fraction = Fraction(0)
    as_planned: bool = True
    proven: Fraction = Fraction(0)
    uncertain: Fraction = Fraction(0)
    _by_learner: Fraction = field(default=Fraction(0), repr=False)
    _by_learner_at_close: Fraction | None = field(default=None, repr=False)

    @property
    def at_most(self) -> Fraction:
        """The most that can have been charged for what was sent."""
        return self.proven + self.uncertain

    def cost(self, sequence: int) -> Fraction:
        """Exact cost of the query with this sequence; 0 beyond the plan, where a curator can only refuse."""
        return self.costs[sequence - 1] if 1 <= sequence <= len(self.costs) else Fraction(0)

    def accept(self, message: StudyAccepted, receipt: Receipt, costs: tuple[Fraction, ...]) -> None:
        """The plan was accepted; its queries cost `costs`."""
        self._by_learner = self._check(receipt, Fraction(0), Fraction(0), Fraction(0))
        self.costs, self.claimed = costs, parse_amount(message.cost)
        self.as_planned = sum(costs, Fraction(0)) == self.claimed

    def ask(self, sequence: int) -> None:
        """A query is sent."""
        self.uncertain = self.cost(sequence)

    def rule_out(self) -> None:
        """The query that was sent last will never be charged."""
        self.uncertain = Fraction(0)

    def release(self, receipt: Receipt) -> None:
        """A query was answered, in time or late; late also means after a closing that showed it to be charged."""
        cost = self.cost(receipt.sequence)
        self._by_learner = self._check(receipt, cost, self.at_most, cost)
        self.proven, self.uncertain = self.at_most, Fraction(0)

    def close(self, message: StudyClosed, receipt: Receipt) -> bool:
        """The study was closed; whether that shows the uncertain query to be charged. If not, it never will be."""
        charged = parse_amount(receipt.spent_by_study) != self.proven
        total = self.at_most if charged else self.proven
        by_learner = self._check(receipt, Fraction(0), total, total - self.proven)
        refund = parse_amount(message.refunded)
        _require(refund == self.claimed - total, "refunded", "the refund is not what was left")
        self._by_learner_at_close = by_learner
        self.proven, self.uncertain = total, Fraction(0)
        return charged

    def _check(self, receipt: Receipt, charged: Fraction, total: Fraction, growth: Fraction) -> Fraction:
        """The learner's total over all its studies, which grew at least by what this study was charged."""
        _require(parse_amount(receipt.charged) == charged, "receipt.charged", "the charge is not the query's cost")
        _require(parse_amount(receipt.spent_by_study) == total, "receipt.spent_by_study", "the total is not the sum")
        by_learner = parse_amount(receipt.spent_by_learner)
        _require(by_learner >= total, "receipt.spent_by_learner", "the learner spent less than its study")
        least = self._by_learner + growth
        most = self._by_learner_at_close
        fits = by_learner + ROUNDING >= least and (most is None or by_learner <= most + ROUNDING)
        _require(fits, "receipt.spent_by_learner", "the learner's total falls")
        return by_learner


def _require(fact: bool, part: str, complaint: str) -> None:
    if not fact:
        raise RemoteProtocolError(RefusalCode.BAD_SIGNATURE, part, complaint)
