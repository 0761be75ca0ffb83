"""Charged units: what is drawn under one charge.

A question of one turn is a unit from its charge to its answer. A kind that keeps something between turns draws under
one charge until it keeps nothing more: an instance of a holdout, a secure sum. A unit is *running* at an entry where it
was charged by then and had not ended. A ledger that goes on from there twice draws under that charge twice.
"""

from dataclasses import dataclass, field
from fractions import Fraction

from curator_node.ledger.studies import StudyKey


@dataclass(slots=True)
class Unit:
    """A charged unit.

    Attributes:
        study: whose.
        query: its place in the plan, from 0.
        amount: what was charged; more than 0.
        begun: index of the CHARGE entry.
        ended: index of the entry with which it ended; None while it runs.
    """

    study: StudyKey
    query: int
    amount: Fraction
    begun: int
    ended: int | None = None


@dataclass
class Units:
    """The charged units of a ledger.

    Attributes:
        all: in the order in which they began.
        running: of each study, those that have not ended.
    """

    all: list[Unit] = field(default_factory=list)
    running: dict[StudyKey, list[Unit]] = field(default_factory=dict)

    def charge(self, study: StudyKey, query: int, amount: Fraction, index: int) -> None:
        """A query of a study was charged: those before it in the plan are over."""
        self._end(study, index, before=query)
        if amount:
            unit = Unit(study, query, amount, index)
            self.all.append(unit)
            self.running.setdefault(study, []).append(unit)

    def answer(self, study: StudyKey, query: int, index: int, *, goes_on: bool) -> None:
        """A query of a study was answered; whether its answerer keeps something, and the study may still ask."""
        if not goes_on:
            self._end(study, index, before=query + 1)

    def end(self, study: StudyKey, index: int, *, owed: int | None) -> None:
        """A study has ended; but a charged request to one of its queries may still be answered."""
        self._end(study, index, but=owed)

    def halt(self, index: int) -> None:
        """Nothing that was charged so far is answered any more, and no kept state is used."""
        for study in list(self.running):
            self._end(study, index)

    def running_at(self, index: int) -> list[Unit]:
        """Those that were charged by an entry, and had not ended with it."""
        return [unit for unit in self.all if unit.begun <= index and (unit.ended is None or unit.ended > index)]

    def _end(self, study: StudyKey, index: int, *, before: float = float("inf"), but: int | None = None) -> None:
        left = []
        for unit in self.running.pop(study, ()):
            if unit.query < before and unit.query != but:
                unit.ended = index
            else:
                left.append(unit)
        if left:
            self.running[study] = left
