"""Notes for a run's readers beside its numbers, one sentence each."""

from collections.abc import Mapping

from curator_node.plug_ins import kinds_of
from learner_node.study.state import LEFT_OUT
from learner_node.study.study import Study
from protocol.run_index import FIT
from simulations.kinds import SIMULATED_ANSWERERS
from simulations.repeats import Outcome, Repeat
from simulations.report.budget import ANALYSES, STUDIES
from simulations.report.model import LearnerReport
from simulations.report.words import NO_GUARANTEE, some_of
from simulations.scenario import Scenario
from simulations.scoring import MAJORITY


def first_repeat_notes(repeat: Repeat) -> list[str]:
    """Notes on wrong claims, stewards' warnings, and curators that refused, were late or were left out."""
    notes = _claims(repeat)
    for name, curator in repeat.curators.items():
        notes += [f"The steward of {name} is warned: {warning}." for warning in curator.warnings]
    for outcome in repeat.outcomes:
        notes += _learner_notes(outcome)
    return notes


def failure_notes(learner: str, failures: Mapping[str, Mapping[int, str]], repeats: int) -> list[str]:
    """How many of a learner's studies had no result, and the reason if the first repeat went well.

    `failures` maps a study to the repeats without a result, with reasons; `repeats` is the number of all.
    """
    notes = []
    for study, reasons in failures.items() if repeats > 1 else ():
        result = (
            f"{learner} learned nothing"
            if study in (STUDIES[FIT], ANALYSES)
            else f"{learner}'s {study} brought nothing"
        )
        first = min(reasons)
        reason = f"; repeat {first}: {reasons[first]}" if first else ""
        notes.append(f"{result} in {len(reasons)} of {repeats} repeats{reason}.")
    return notes


def score_notes(scenario: Scenario, learners: tuple[LearnerReport, ...], constant: str) -> list[str]:
    """Notes on sites whose model is worse than a constant, and on the meaning of standard errors."""
    notes = []
    for learner in learners:
        below = [
            site.curator
            for site in learner.sites
            if site.value is not None and site.value + 2 * (site.value_se or 0) < site.constant
        ]
        if below:
            notes.append(f"{learner.learner}'s model stays below {constant} of {some_of(below)}.")
    if scenario.repeats == 1 and constant == MAJORITY and not scenario.asks_analyses:
        notes.append("There is one repeat, so standard errors are by the number of its test records alone.")
    return notes


def how_records_were_split(scenario: Scenario) -> str:
    """The sentence on the split, for the description."""
    parts = scenario.data.parts
    if scenario.asks_analyses:
        return "This simulation owns all records, so it shows the exact results beside those that a learner gets."
    return (
        f"This simulation split each hospital's records: {parts.private:.0%} answer and never leave it, "
        f"{parts.source:.0%}, without the outcome, are the examples that learners hold, and {parts.test:.0%} test the "
        "result."
    )


def _claims(repeat: Repeat) -> list[str]:
    """Notes where a claimed epsilon is no guarantee."""
    policies = {name: curator.policy for name, curator in repeat.curators.items()}
    printed = some_of(
        [name for name, policy in policies.items() if not kinds_of(policy, SIMULATED_ANSWERERS).private(policy.limits)]
    )
    if not printed:
        return []
    return [f"The policies of {printed} allow paper_ratio, as printed in the paper: {NO_GUARANTEE}."]


def _learner_notes(outcome: Outcome) -> list[str]:
    start = f"First repeat, {outcome.learner.name}"
    if outcome.failure:
        return [f"{start}: {outcome.failure}."]
    notes = [] if outcome.study is None else _study_notes(start, outcome.study)
    if outcome.learned is not None and outcome.learned.advice:
        notes.append(f"{start}: {outcome.learned.advice}.")
    if outcome.validation_failure:
        notes.append(f"{start}'s validation: {outcome.validation_failure}.")
    elif outcome.validation_study is not None:
        notes += _study_notes(f"{start}'s validation", outcome.validation_study)
    return notes


def _study_notes(start: str, study: Study) -> list[str]:
    notes = []
    for curator, outcomes in study.outcomes.items():
        accepted = study.sessions[curator].accepted is not None
        for question, outcome in enumerate(outcomes, start=1):
            if outcome == LEFT_OUT:
                notes.append(f"{start}: {curator} was {study.fate(curator)}.")
            elif outcome != "release":
                where = f"at question {question}" if accepted else "at the plan"
                summed = curator in study.summed
                use = "it stays in the sums that were opened" if summed else "its answers are not used"
                notes.append(f"{start}: {curator} dropped out {where}; {use}: {study.fate(curator)}.")
    late = some_of([name for name, count in study.asked_again.items() if count and name in study.survivors])
    if late:
        notes.append(f"{start}: {late} answered only when asked again; nothing was charged twice.")
    return notes
