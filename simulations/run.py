"""A whole run: a scenario's repeats, their scores, and the report and summary that are made of them."""

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from curator_node.ledger.entries import EntryKind
from learner_node.pooling import POOLED
from protocol.envelopes import SigningKey
from protocol.rationals import parse_amount
from simulations.expectations import expected
from simulations.federation import Repeat
from simulations.harness import Evidence, Tick, run_repeats
from simulations.notes import first_repeat_notes, how_records_were_split, score_notes
from simulations.parts import parts_of
from simulations.records import Records, population_notes
from simulations.report.model import (
    BudgetPoint,
    CuratorReport,
    CurvePoint,
    LearnerReport,
    RunReport,
    Score,
    SiteAnswers,
    SiteScore,
)
from simulations.report.parts import Part
from simulations.scenario import LearnerScenario, Scenario
from simulations.scoring import ACCURACY, Measure, Tally, measure_of, tally_repeat


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


def run_scenario(
    scenario: Scenario,
    records: Records,
    *,
    text: str,
    command: str,
    version: str,
    created: str,
    ledgers: Path | None = None,
    tick: Tick = lambda what, done, total: None,  # noqa: ARG005
) -> Run:
    """Run every repeat.

    Args:
        scenario: what to run.
        records: of `load_records`.
        text: the scenario's TOML, for the report.
        command: what to type to run it again.
        version: of ExPriL.
        created: date of the report.
        ledgers: folder for the first repeat's SQLite ledgers; None keeps all in memory.
        tick: called with (what, done, total) as work proceeds.

    Raises:
        AccountingError: receipts, ledger and plan disagree.
    """
    tallies = {learner.name: Tally() for learner in scenario.learners}
    evidence = Evidence({learner.name: SigningKey.generate() for learner in scenario.learners})
    rows: list[dict[str, Any]] = []
    curators: tuple[CuratorReport, ...] = ()
    notes: list[str] = []
    measure = ACCURACY
    parts: dict[str, tuple[Part, ...]] = {}
    for repeat in run_repeats(scenario, records, evidence, ledgers=ledgers, tick=tick):
        measure = measure_of(repeat.sites)
        rows += tally_repeat(tallies, repeat)
        if repeat.number == 0:
            parts = {outcome.learner.name: parts_of(outcome.learned) for outcome in repeat.outcomes}
            curators = tuple(_curator_report(name, repeat) for name in repeat.sites)
            notes = population_notes(scenario, records, repeat.sites) + first_repeat_notes(repeat)
    learners = tuple(
        _learner_report(learner, tallies[learner.name], measure, parts.get(learner.name, ()))
        for learner in scenario.learners
    )
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
        curators=curators,
        notes=(*notes, *score_notes(scenario, learners, measure.constant)),
    )
    return Run(report, rows, evidence)


def summary(run: Run, folder: str) -> dict[str, Any]:
    """The object that `expril simulate --json` prints."""
    learners = [
        {
            "learner": learner.learner,
            "strategy": learner.strategy,
            "pooling": learner.pooling,
            "epsilon_claimed": learner.epsilon_claimed,
            "epsilon_spent": learner.epsilon_spent,
            "pooled": msgspec.to_builtins(learner.pooled),
            "sites": list(map(msgspec.to_builtins, learner.sites)),
            "outcomes": {answers.curator: list(answers.outcomes) for answers in learner.rounds_answered},
            "left_out": learner.left_out,
        }
        for learner in run.report.learners
    ]
    return {
        "run": folder,
        "learners": learners,
        "measure": run.report.measure,
        "further": run.report.further,
        "seeded_noise": run.report.seeded_noise,
        "notes": list(run.report.notes),
    }


def _learner_report(learner: LearnerScenario, tally: Tally, measure: Measure, parts: tuple[Part, ...]) -> LearnerReport:
    sites = [key for key in tally.majority if key != POOLED]
    return LearnerReport(
        learner=learner.name,
        strategy=learner.strategy,
        pooling=learner.pooling,
        epsilon_claimed=str(tally.claimed),
        epsilon_spent=str(tally.spent),
        pooled=Score(**_score(tally, POOLED, measure)),
        sites=tuple(SiteScore(curator=key, **_score(tally, key, measure)) for key in sites),
        curve=tuple(
            CurvePoint(round_, float(np.mean(values)), _standard_error(values, 0))
            for round_, values in sorted(tally.curve.items())
        ),
        rounds_answered=tuple(
            SiteAnswers(curator, tuple(_outcome(said) for said in outcomes))
            for curator, outcomes in tally.outcomes.items()
        ),
        left_out=tally.left_out,
        parts=parts,
    )


def _score(tally: Tally, key: str, measure: Measure) -> dict[str, Any]:
    values = tally.accuracy[key]
    return {
        "accuracy": float(np.mean(values)) if values else None,
        "accuracy_se": _standard_error(values, tally.tested[key] if measure is ACCURACY else 0),
        "majority": float(np.mean(tally.majority[key])),
        "ceiling": float(np.mean(tally.ceiling[key])),
        "expected": expected(tally.expected[key]),
        "further": float(np.mean(tally.further[key])) if tally.further[key] else None,
        "further_ceiling": float(np.mean(tally.further_ceiling[key])) if tally.further_ceiling[key] else None,
    }


def _standard_error(values: list[float], tested: int) -> float | None:
    """Over repeats; with one repeat binomial over its test records, where their number is known."""
    if len(values) > 1:
        return float(np.std(values, ddof=1) / np.sqrt(len(values)))
    if values and tested:
        return float(np.sqrt(values[0] * (1 - values[0]) / tested))
    return None


def _outcome(said: str) -> str:
    return {"no reply": "vanished", "bad reply": "refusal:bad_reply"}.get(said, said)


def _curator_report(name: str, repeat: Repeat) -> CuratorReport:
    names = {outcome.key: outcome.learner.name for outcome in repeat.outcomes}
    total: dict[str, Fraction] = defaultdict(Fraction)
    points = []
    for entry in repeat.ledgers[name].entries:
        if entry.kind is EntryKind.CHARGE:
            learner = names[entry.learner]
            total[learner] += parse_amount(entry.amount)
            points.append(BudgetPoint(learner, entry.sequence, str(total[learner])))
    return CuratorReport(
        name=name,
        cap=str(repeat.curators[name].policy.total_cap),
        private_unit=repeat.sites[name].steward.unit or "record",
        spent_by_round=tuple(points),
    )
