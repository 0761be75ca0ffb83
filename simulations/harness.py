"""Runs a scenario's repeats, checks every transcript, and turns what happened into numbers and a report."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from curator_node.ledger import StudyKey
from curator_node.ledger.entries import EntryKind, decode_entry
from curator_node.policy import Policy
from learner_node.learn import POOLED
from learner_node.strategies.base import SourceEstimate
from learner_node.uncertainty import AccuracyEstimate
from protocol.envelopes import SigningKey
from protocol.errors import ExprilError
from protocol.rationals import parse_amount, parse_rational
from protocol.transcript import Transcript, replay
from simulations.expectations import expected
from simulations.federation import Outcome, Records, Repeat, Site, run_repeat
from simulations.notes import first_repeat_notes, how_records_were_split, score_notes
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
from simulations.run_index import Role
from simulations.scenario import Scenario
from simulations.scoring import (
    ACCURACY,
    Measure,
    Reference,
    answers_by_round,
    further_score,
    measure_of,
    references,
    score,
)

Tick = Callable[[str, int, int], None]


class AccountingError(ExprilError):
    """Receipts, ledger and plan do not agree on what was spent. Never to be ignored."""


@dataclass
class Tally:
    """What all repeats of one learner gave; the key "" stands for all sites together."""

    accuracy: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    majority: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    ceiling: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    further: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    further_ceiling: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    tested: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    expected: dict[str, list[tuple[AccuracyEstimate, float, int]]] = field(default_factory=lambda: defaultdict(list))
    curve: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    claimed: Fraction = Fraction(0)
    spent: Fraction = Fraction(0)
    outcomes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass
class Run:
    """All repeats of a scenario.

    Attributes:
        report: for the page and for machines.
        rows: one per repeat, learner, round and site, for the metrics file.
        transcripts: (repeat, learner, curator) -> what was sent and received.
        states: the same keys -> state of the study, as an auditor finds it.
        keys: (role, name, repeat) of every curator and learner -> public key.
        labels: curator -> label of its signatures.
        policies: of the first repeat's curators.
        ledgers: curator -> (head, number of entries) of the ledgers that were kept.
        signers: learner -> its key, which it keeps in all repeats; it signs what the run leaves.
    """

    report: RunReport
    rows: list[dict[str, Any]]
    signers: dict[str, SigningKey] = field(repr=False)
    transcripts: dict[tuple[int, str, str], Transcript] = field(default_factory=dict)
    states: dict[tuple[int, str, str], str] = field(default_factory=dict)
    keys: dict[tuple[Role, str, int], bytes] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)
    ledgers: dict[str, tuple[bytes, int]] = field(default_factory=dict)


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
    signers = {learner.name: SigningKey.generate() for learner in scenario.learners}
    run = Run(report=None, rows=[], signers=signers)  # type: ignore[arg-type]
    curators: tuple[CuratorReport, ...] = ()
    notes: list[str] = []
    measure = ACCURACY
    for number in range(scenario.repeats):
        tick("repeats", number, scenario.repeats)
        kept = ledgers if number == 0 else None
        repeat = run_repeat(scenario, records, number, keys=signers, ledgers=kept, progress=tick)
        measure = measure_of(repeat.sites)
        own, pooled = references(repeat.sites)
        for outcome in repeat.outcomes:
            states = _check_accounts(outcome, repeat)
            run.states |= {(number, outcome.learner.name, name): state for name, state in states.items()}
            _tally(tallies[outcome.learner.name], outcome, repeat, own, pooled, number, run.rows)
            _keep_transcripts(run, outcome, repeat, number)
        if number == 0:
            curators = tuple(_curator_report(site, repeat) for site in repeat.sites.values())
            notes = first_repeat_notes(repeat)
            run.policies = {site.name: site.curator.policy for site in repeat.sites.values()}
        if kept is not None:
            accounts = {site.name: site.ledger.account for site in repeat.sites.values()}
            run.ledgers = {name: (account.head, account.next_index) for name, account in accounts.items()}
        for site in repeat.sites.values():
            site.ledger.close()
    tick("repeats", scenario.repeats, scenario.repeats)
    learners = tuple(_learner_report(scenario, name, tally, measure) for name, tally in tallies.items())
    run.report = RunReport(
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
    return run


def summary(run: Run, folder: str) -> dict[str, Any]:
    """The object that `expril simulate --json` prints."""
    learners = [
        {
            "learner": learner.learner,
            "strategy": learner.strategy,
            "pooling": learner.pooling,
            "epsilon_claimed": learner.epsilon_claimed,
            "epsilon_spent": learner.epsilon_spent,
            "pooled": _score_object(learner.pooled),
            "sites": [{"curator": site.curator, **_score_object(site)} for site in learner.sites],
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


def _score_object(scored: Score) -> dict[str, Any]:
    return {
        "accuracy": scored.accuracy,
        "accuracy_se": scored.accuracy_se,
        "majority": scored.majority,
        "ceiling": scored.ceiling,
        "expected": None if scored.expected is None else msgspec.to_builtins(scored.expected),
        "further": scored.further,
        "further_ceiling": scored.further_ceiling,
    }


def _check_accounts(outcome: Outcome, repeat: Repeat) -> dict[str, str]:
    """Replay each transcript as an auditor would, and hold it against the curator's ledger; the studies' states."""
    states: dict[str, str] = {}
    if outcome.study is None:
        return states
    for name, session in outcome.study.sessions.items():
        label = repeat.sites[name].curator.label
        proof = replay(session.transcript.envelopes, session.curator, outcome.key, label=label)
        account = repeat.sites[name].ledger.account
        study = account.studies.get(StudyKey(outcome.key, session.study))
        spent = study.spent if study is not None else Fraction(0)
        # A curator that vanished may have charged an answer that never arrived.
        if not proof.epsilon_spent <= spent <= proof.epsilon_at_most:
            raise AccountingError(f"{name} charged {spent}, but its receipts prove {proof.epsilon_spent}")
        if spent > parse_rational(outcome.learner.epsilon):
            raise AccountingError(f"{name} charged {spent}, more than was planned")
        states[name] = proof.state.value
    return states


def _tally(
    tally: Tally,
    outcome: Outcome,
    repeat: Repeat,
    own: dict[str, Reference],
    pooled: dict[str, Reference],
    number: int,
    rows: list[dict[str, Any]],
) -> None:
    learner = outcome.learner
    claimed = outcome.learned.epsilon_claimed if outcome.learned else parse_rational(learner.epsilon)
    spent = max(site.ledger.account.spent.get(outcome.key, Fraction(0)) for site in repeat.sites.values())
    tally.claimed, tally.spent = max(tally.claimed, claimed), max(tally.spent, spent)
    if outcome.study is not None and not tally.outcomes:
        tally.outcomes = {name: tuple(said) for name, said in outcome.study.outcomes.items()}
        tally.left_out = outcome.study.left_out
    rounds = answers_by_round(outcome.learned, repeat.sites) if outcome.learned else []
    final = rounds[-1] if rounds else {}
    names = list(learner.curators or repeat.sites)
    for key in [POOLED, *names]:
        chosen = names if key == POOLED else [key]
        reference = pooled if key == POOLED else own
        answered = {name: final[name] for name in chosen if name in final}
        accuracy = score(answered)
        if accuracy is not None:
            tested = sum(len(answers.labels) for answers in answered.values())
            tally.accuracy[key].append(accuracy)
            tally.tested[key] += tested
            estimate = outcome.learned.estimates.get(key) if outcome.learned else None
            if isinstance(estimate, SourceEstimate) and estimate.accuracy is not None:
                tally.expected[key].append((estimate.accuracy, accuracy, tested))
        ceiling = {name: reference[name].ceiling for name in chosen}
        tally.majority[key].append(score({name: reference[name].majority for name in chosen}) or 0.0)
        tally.ceiling[key].append(score(ceiling) or 0.0)
        for values, answers in ((tally.further[key], answered), (tally.further_ceiling[key], ceiling)):
            further = further_score(answers)
            if further is not None:
                values.append(further)
    for round_, correct in enumerate(rounds, start=1):
        value = score({name: correct[name] for name in names if name in correct})
        if value is not None:
            tally.curve[round_].append(value)
        for key in [POOLED, *names]:
            accuracy = value if key == POOLED else score({key: correct[key]} if key in correct else {})
            rows.append(
                {
                    "repeat": number,
                    "learner": learner.name,
                    "strategy": learner.strategy,
                    "round": round_,
                    "curator": key,
                    "accuracy": accuracy,
                    "majority": tally.majority[key][-1],
                    "ceiling": tally.ceiling[key][-1],
                    "further": further_score(
                        {name: correct[name] for name in names if key in (POOLED, name) and name in correct}
                    ),
                    "epsilon_claimed": str(claimed),
                    "epsilon_spent": str(spent),
                }
            )


def _keep_transcripts(run: Run, outcome: Outcome, repeat: Repeat, number: int) -> None:
    run.keys["learner", outcome.learner.name, number] = outcome.key
    for site in repeat.sites.values():
        run.keys["curator", site.name, number] = site.curator.identity
        run.labels[site.name] = site.curator.label
    if outcome.study is not None:
        for name, session in outcome.study.sessions.items():
            run.transcripts[number, outcome.learner.name, name] = session.transcript


def _learner_report(scenario: Scenario, name: str, tally: Tally, measure: Measure) -> LearnerReport:
    learner = next(item for item in scenario.learners if item.name == name)
    sites = [key for key in tally.majority if key != POOLED]
    return LearnerReport(
        learner=name,
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


def _curator_report(site: Site, repeat: Repeat) -> CuratorReport:
    names = {outcome.key: outcome.learner.name for outcome in repeat.outcomes}
    total: dict[str, Fraction] = defaultdict(Fraction)
    points = []
    for row in site.ledger.store.rows(0):
        entry = decode_entry(row.body)
        if entry.kind is EntryKind.CHARGE:
            learner = names[entry.learner]
            total[learner] += parse_amount(entry.amount)
            points.append(BudgetPoint(learner, entry.sequence, str(total[learner])))
    return CuratorReport(
        name=site.name, cap=str(site.cap), private_unit=site.steward.unit or "record", spent_by_round=tuple(points)
    )


def metrics_frame(run: Run) -> pl.DataFrame:
    """The rows as a data frame; the curator "" stands for all sites together."""
    return pl.DataFrame(run.rows, infer_schema_length=None)
