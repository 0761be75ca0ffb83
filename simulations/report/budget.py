"""Costs of studies in a report: exact rationals as text ("1", "0.25", "1/3"). Every type validates itself."""

import re
from fractions import Fraction
from typing import Literal

import msgspec

from protocol.run_index import FIT, VALIDATION

STUDIES = {FIT: "model", VALIDATION: "validation"}
"""Names of a learner's studies in one repeat, by their number in the run's index."""
ANALYSES = "analyses"
"""Name of the study of a learner that asks analyses."""
_RATIONAL = re.compile(r"[0-9]{1,300}(\.[0-9]{1,300}|/[0-9]{1,300})?")


def exact(text: str) -> Fraction:
    """Parse a non-negative decimal or "a/b" without sign or exponent. Raises ValueError for any other text."""
    if not _RATIONAL.fullmatch(text):
        raise ValueError(f"not a non-negative decimal or fraction: {text!r}")
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError(f"division by zero: {text!r}") from None


class StudyReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of a learner's studies: its cost, and how often it failed."""

    what: Literal["model", "validation", "analyses"]  # its model's, that of the model's validation, or its analyses'
    claimed: str  # exact; the privacy loss that its plan announced
    spent: str  # exact; the most that any one curator's ledger charged
    failed: int = 0  # repeats in which it brought nothing

    def __post_init__(self) -> None:
        exact(self.claimed)
        exact(self.spent)


class BudgetPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A learner's cumulative exact epsilon at a curator, up to and including this round."""

    learner: str
    round: int
    spent: str

    def __post_init__(self) -> None:
        exact(self.spent)


class CuratorReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One curator's ledger."""

    name: str  # its name, distinct within a run
    cap: str  # exact; the most epsilon that it spends on all learners together
    private_unit: str  # whose presence is hidden: "record", "exam", "patient" ...
    spent_by_round: tuple[BudgetPoint, ...] = ()  # cumulative for each learner apart; in any order

    def __post_init__(self) -> None:
        exact(self.cap)
        last: dict[str, tuple[int, Fraction]] = {}
        for point in sorted(self.spent_by_round, key=lambda point: point.round):
            spent = exact(point.spent)
            before = last.get(point.learner)
            if before is not None and (before[0] == point.round or spent < before[1]):
                raise ValueError(f"spending of {point.learner!r} must be cumulative, one point a round")
            last[point.learner] = (point.round, spent)

    @property
    def spent(self) -> Fraction:
        """Epsilon that all learners together spent."""
        last = {point.learner: point.spent for point in sorted(self.spent_by_round, key=lambda point: point.round)}
        return sum(map(exact, last.values()), start=Fraction(0))
