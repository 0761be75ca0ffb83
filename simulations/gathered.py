"""What a scenario's repeats gave, gathered one repeat after the other: all that a report is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from protocol.envelopes import SigningKey
from simulations.clinical import positive_class, record_counts
from simulations.federation import Repeat
from simulations.harness import Evidence
from simulations.notes import first_repeat_notes
from simulations.parts import parts_of
from simulations.references import Answers
from simulations.report.budget import CuratorReport
from simulations.report.clinical_model import RecordCounts
from simulations.scenario import Scenario
from simulations.scoring import ACCURACY, EXPLAINED, Measure, Tally, measure_of, tally_repeat
from simulations.spending import spent_by_round
from simulations.validating import validation_report

MEASURES: dict[str, Measure] = {measure.name: measure for measure in (ACCURACY, EXPLAINED)}


@dataclass
class Gathered:
    """What the repeats of a scenario gave so far; all that the report is made of.

    Attributes:
        evidence: for an auditor.
        tallies: of the learners, by name.
        done: number of repeats.
        rows: for the metrics file.
        curators, notes, counts: of the first repeat.
        positive: of two classes, the one whose probability is scored; "" where there are not two.
        measure: name of the score, a key of `MEASURES`.
    """

    evidence: Evidence
    tallies: dict[str, Tally]
    done: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    curators: tuple[CuratorReport, ...] = ()
    notes: list[str] = field(default_factory=list)
    counts: tuple[RecordCounts, ...] = ()
    positive: str = ""
    measure: str = ACCURACY.name

    @classmethod
    def nothing(cls, scenario: Scenario) -> "Gathered":
        """Before the first repeat; each learner gets a new key."""
        names = [learner.name for learner in scenario.learners]
        return cls(
            Evidence({name: SigningKey.generate() for name in names}),
            {name: Tally(thresholds=scenario.thresholds) for name in names},
        )

    def add(self, repeat: Repeat) -> dict[str, Mapping[str, Answers]]:
        """Add a repeat; learner -> site -> what its last model says of the site's test records."""
        said: dict[str, Mapping[str, Answers]] = {}
        self.measure = measure_of(repeat.sites).name
        self.rows += tally_repeat(self.tallies, repeat, said)
        if repeat.number == 0:
            self.curators = tuple(_curator_report(name, repeat) for name in repeat.sites)
            self.notes = first_repeat_notes(repeat)
            for outcome in repeat.outcomes:
                self.tallies[outcome.learner.name].parts = parts_of(outcome.learned)
            self.counts, self.positive = record_counts(repeat.sites), positive_class(repeat.sites)
        for outcome in repeat.outcomes:
            told = validation_report(outcome, repeat)
            if told is not None:
                self.tallies[outcome.learner.name].validations.append(told)
        self.done = repeat.number + 1
        return said


@dataclass
class Finished:
    """A repeat that has just been added.

    Attributes:
        gathered: all that is known now, this repeat included.
        repeat: the repeat.
        said: learner -> site -> what its last model says of the site's test records.
    """

    gathered: Gathered
    repeat: Repeat
    said: Mapping[str, Mapping[str, Answers]]


def _curator_report(name: str, repeat: Repeat) -> CuratorReport:
    names = {outcome.key: outcome.learner.name for outcome in repeat.outcomes}
    return CuratorReport(
        name=name,
        cap=str(repeat.curators[name].policy.total_cap),
        private_unit=repeat.sites[name].steward.unit or "record",
        spent_by_round=tuple(spent_by_round(repeat.ledgers[name].entries, names)),
    )
