"""A whole run: a scenario's repeats, their scores, and the report and summary that are made of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from learner_node.pooling import POOLED
from simulations.carriers import PROCESS
from simulations.carriers.table import stage_of
from simulations.clinical import clinical_fields, standard_error
from simulations.expectations import class_recalls, class_shares, expected, expected_of_numbers
from simulations.gathered import MEASURES, Finished, Gathered
from simulations.harness import Evidence, Tick, run_repeats
from simulations.notes import failure_notes, how_records_were_split, score_notes
from simulations.records import Records, population_notes
from simulations.report.budget import StudyReport
from simulations.report.model import CurvePoint, LearnerReport, RunReport, Score, SiteAnswers, SiteScore
from simulations.report.validated import joined
from simulations.scenario import LearnerScenario, Scenario
from simulations.scoring import ACCURACY, Measure, Tally
from simulations.spending import ALL


@dataclass
class Run:
    """All repeats of a scenario.

    Attributes:
        report: for the page and for machines.
        rows: one per repeat, learner, round and site, for the metrics file; the curator "" stands for all sites.
        evidence: for an auditor.
    """

    report: RunReport
    rows: list[dict[str, Any]]
    evidence: Evidence

    def metrics_frame(self) -> pl.DataFrame:
        """The rows as a data frame."""
        return pl.DataFrame(self.rows, infer_schema_length=None)


def run_scenario(  # noqa: PLR0913 - a whole command's worth
    scenario: Scenario,
    records: Records,
    *,
    text: str,
    command: str,
    version: str,
    created: str,
    ledgers: Path | None = None,
    carrier: str = PROCESS,
    tick: Tick = lambda what, done, total: None,  # noqa: ARG005
    gathered: Gathered | None = None,
    keep: Callable[[Finished], None] = lambda finished: None,  # noqa: ARG005
) -> Run:
    """Run every repeat that is not done yet.

    Args:
        scenario: what to run.
        records: of `load_records`.
        text: the scenario's TOML, for the report.
        command: what to type to run it again.
        version: of ExPriL.
        created: date of the report.
        ledgers: folder for the first repeat's SQLite ledgers; None keeps all in memory.
        carrier: key of `CARRIERS`.
        tick: called with (what, done, total) as work proceeds.
        gathered: of repeats that were run before; None begins with the first. It is added to.
        keep: called after each repeat.

    Raises:
        AccountingError: receipts, ledger and plan disagree.
    """
    found = gathered or Gathered.nothing(scenario)
    with stage_of(carrier) as stage:
        for repeat in run_repeats(
            scenario, records, found.evidence, first=found.done, ledgers=ledgers, stage=stage, tick=tick
        ):
            tick("scoring", 0, 0)
            said = found.add(repeat)
            if repeat.number == 0:
                found.notes = population_notes(scenario, records, repeat.sites) + found.notes
            keep(Finished(found, repeat, said))
            tick("scoring", 1, 1)
    measure = MEASURES[found.measure]
    learners = tuple(_learner_report(learner, found.tallies[learner.name], measure) for learner in scenario.learners)
    report = RunReport(
        title=scenario.title,
        description=f"{' '.join(scenario.description.split())} {how_records_were_split(scenario)}".strip(),
        created=created,
        version=version,
        seeded_noise=scenario.noise_seed is not None,
        repeats=scenario.repeats,
        command=command,
        config_toml=text,
        measure=measure.name,
        further=measure.further if any(learner.pooled.further is not None for learner in learners) else "",
        learners=learners,
        curators=found.curators,
        notes=(
            *found.notes,
            *failure_notes(found.tallies, found.done),
            *score_notes(scenario, learners, measure.constant),
        ),
        positive=found.positive,
        records=found.counts,
        carrier=carrier,
    )
    return Run(report, found.rows, found.evidence)


def summary(report: RunReport, folder: str) -> dict[str, Any]:
    """What `expril simulate --json` prints of a run."""
    learners = [
        {
            "learner": learner.learner,
            "strategy": learner.strategy,
            "pooling": learner.pooling,
            "epsilon_claimed": learner.epsilon_claimed,
            "epsilon_spent": learner.epsilon_spent,
            "studies": list(map(msgspec.to_builtins, learner.studies)),
            "pooled": msgspec.to_builtins(learner.pooled),
            "sites": list(map(msgspec.to_builtins, learner.sites)),
            "outcomes": {answers.curator: list(answers.outcomes) for answers in learner.rounds_answered},
            "left_out": learner.left_out,
            "validation": msgspec.to_builtins(learner.validation),
        }
        for learner in report.learners
    ]
    return {
        "run": folder,
        "learners": learners,
        "measure": report.measure,
        "further": report.further,
        "lead": report.lead,
        "positive": report.positive,
        "records": list(map(msgspec.to_builtins, report.records)),
        "seeded_noise": report.seeded_noise,
        "carrier": report.carrier,
        "notes": list(report.notes),
    }


def _learner_report(learner: LearnerScenario, tally: Tally, measure: Measure) -> LearnerReport:
    sites = [key for key in tally.majority if key != POOLED]
    return LearnerReport(
        learner=learner.name,
        strategy=learner.strategy,
        pooling=learner.pooling,
        epsilon_claimed=str(tally.costs[ALL].claimed),
        epsilon_spent=str(tally.costs[ALL].spent),
        studies=tuple(
            StudyReport(what, str(cost.claimed), str(cost.spent), len(tally.failures.get(what, ())))  # type: ignore[arg-type]
            for what, cost in tally.costs.items()
            if what != ALL
        ),
        pooled=Score(**_score(tally, POOLED, measure)),
        sites=tuple(SiteScore(curator=key, **_score(tally, key, measure)) for key in sites),
        curve=tuple(
            CurvePoint(round_, float(np.mean(values)), _standard_error(values, 0), *_by_round(tally, round_))
            for round_, values in sorted(tally.curve.items())
        ),
        rounds_answered=tuple(
            SiteAnswers(curator, tuple(_outcome(said) for said in outcomes))
            for curator, outcomes in tally.outcomes.items()
        ),
        left_out=tally.left_out,
        parts=tally.parts,
        validation=joined(tally.validations),
    )


def _score(tally: Tally, key: str, measure: Measure) -> dict[str, Any]:
    values = tally.accuracy[key]
    return {
        "accuracy": float(np.mean(values)) if values else None,
        "accuracy_se": _standard_error(values, tally.tested[key] if measure is ACCURACY else 0),
        "majority": float(np.mean(tally.majority[key])),
        "ceiling": float(np.mean(tally.ceiling[key])),
        "expected": expected(tally.expected[key], tally.ranking[key]) or expected_of_numbers(tally.errors[key]),
        "absolute": float(np.mean(tally.absolute[key])) if tally.absolute[key] else None,
        "absolute_ceiling": float(np.mean(tally.absolute_ceiling[key])) if tally.absolute_ceiling[key] else None,
        "recalls": class_recalls(tally.classes, tally.recalls) if key == POOLED else (),
        "shares": class_shares(tally.shares[key]),
        "further": float(np.mean(tally.further[key])) if tally.further[key] else None,
        "further_ceiling": float(np.mean(tally.further_ceiling[key])) if tally.further_ceiling[key] else None,
        **clinical_fields(tally.ranked[key], curves=key == POOLED),
    }


def _by_round(tally: Tally, round_: int) -> tuple[float | None, float | None]:
    """AUC after a round with its standard error."""
    values = tally.ranked[POOLED].by_round.get(round_, [])
    return (float(np.mean(values)) if values else None), standard_error(values)


def _standard_error(values: list[float], tested: int) -> float | None:
    """Over repeats; with one repeat binomial over its test records, where their number is known."""
    if len(values) > 1:
        return standard_error(values)
    if values and tested:
        return float(np.sqrt(values[0] * (1 - values[0]) / tested))
    return None


def _outcome(said: str) -> str:
    return {"no reply": "vanished", "bad reply": "refusal:bad_reply"}.get(said, said)
