"""What studies cost, as a report has it: exact rationals as text ("1", "0.25", "1/3").

Every type is frozen and checks itself when it is made.
"""

import re
from fractions import Fraction
from typing import Literal

import msgspec

from protocol.run_index import FIT, VALIDATION

STUDIES = {FIT: "model", VALIDATION: "validation"}
"""Names, for readers, of a learner's studies in one repeat, by their number in the run's list."""
_RATIONAL = re.compile(r"[0-9]{1,300}(\.[0-9]{1,300}|/[0-9]{1,300})?")


def exact(text: str) -> Fraction:
    """Return the exact value of a budget written as a decimal or as "a/b".

    Args:
        text: a non-negative rational; no sign, no exponent.

    Raises:
        ValueError: the text is not such a number.
    """
    if not _RATIONAL.fullmatch(text):
        raise ValueError(f"not a non-negative decimal or fraction: {text!r}")
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError(f"division by zero: {text!r}") from None


class StudyReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of a learner's studies: what it cost, and how often it brought nothing."""

    what: Literal["model", "validation"]  # its model's, or that of the model's validation
    claimed: str  # exact; the privacy loss that its plan announced
    spent: str  # exact; the most that any one curator's ledger charged
    failed: int = 0  # repeats in which it brought nothing

    def __post_init__(self) -> None:
        """Refuse budgets that are not numbers."""
        exact(self.claimed)
        exact(self.spent)


class BudgetPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one learner has spent at a curator, from its first round up to and including this one (exact)."""

    learner: str
    round: int
    spent: str

    def __post_init__(self) -> None:
        """Refuse a budget that is not a number."""
        exact(self.spent)


class CuratorReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One curator's ledger."""

    name: str  # its name, distinct within a run
    cap: str  # exact; the most epsilon that it spends on all learners together
    private_unit: str  # whose presence is hidden: "record", "exam", "patient" ...
    spent_by_round: tuple[BudgetPoint, ...] = ()  # cumulative for each learner apart; in any order

    def __post_init__(self) -> None:
        """Refuse a cap that is not a number, and a spending that shrinks."""
        exact(self.cap)
        last: dict[str, tuple[int, Fraction]] = {}
        for point in sorted(self.spent_by_round, key=lambda point: point.round):
            spent = exact(point.spent)
            before = last.get(point.learner)
            if before is not None and (before[0] == point.round or spent < before[1]):
                raise ValueError(f"spending of {point.learner!r} must be cumulative, one point a round")
            last[point.learner] = (point.round, spent)
