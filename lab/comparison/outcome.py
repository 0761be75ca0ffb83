"""What one strategy gave on one run of one problem at one epsilon: a cell of the comparison's files."""

from fractions import Fraction

import msgspec

from lab.comparison.measures import Measures
from protocol.rationals import parse_rational
from simulations.campaign.store import Task

INFINITE = "inf"
"""Epsilon of what is not private."""


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cell.

    Attributes:
        problem: key of `PROBLEMS`.
        strategy: key of `CONTESTANTS`.
        epsilon: as asked for, an exact decimal or rational such as "0.3"; "inf" where nothing is private.
        seed: of the split and of the strategy's own random choices, never of noise.
        measures: on the test records.
        seconds: from the records to the predictions.
        spent: exact epsilon by the ledger of the costliest curator, "" for a peer, whose library accounts for it, and
            for what is not private.
        extras: further numbers by name. `estimated_accuracy`, `interval_low` and `interval_high` are what the learner
            itself claims, in percent.
    """

    problem: str
    strategy: str
    epsilon: str
    seed: int
    measures: Measures
    seconds: float
    spent: str = ""
    extras: dict[str, float] = {}

    @property
    def key(self) -> Task:
        """Which cell it is."""
        return Task(self.problem, self.strategy, self.epsilon, self.seed)


def epsilon_text(epsilon: Fraction | None) -> str:
    """The shortest exact text: a decimal where there is one, "inf" for None."""
    if epsilon is None:
        return INFINITE
    decimal = f"{float(epsilon):.9f}".rstrip("0").rstrip(".")
    return decimal if Fraction(decimal) == epsilon else str(epsilon)


def epsilon_order(text: str) -> tuple[int, Fraction]:
    """A key that sorts epsilons downwards, infinity first."""
    return (0, Fraction(0)) if text == INFINITE else (1, -parse_rational(text))
