"""Runs one repeat of a scenario: opens curators, lets learners ask, and checks transcripts against exported ledgers.

Nothing here reads a curator's internal state: outcomes come from learners, ledgers from exports. So `ask_all` also
works with deployed curators, over any carrier.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from pathlib import Path

import polars as pl

from curator_node.ledger.account import Account
from curator_node.ledger.checks import CheckedLedger
from curator_node.ledger.studies import StudyKey
from learner_node.analyses.asking import AnalysisStudy, analyse
from learner_node.questions.validation import Validation, validate
from learner_node.scores.thresholds import DEFAULT_THRESHOLDS
from learner_node.strategies.base import AnyModel
from learner_node.study.federation import Carrier, Federation
from learner_node.study.learn import Learned, learn
from learner_node.study.session import Session
from learner_node.study.study import NoCuratorError, Study
from protocol.envelopes import LABEL, SigningKey
from protocol.errors import ConfigurationError, ExprilError
from protocol.ledger.entries import Entry, EntryKind
from protocol.rationals import parse_amount, parse_rational
from protocol.run_index import (
    FIT,
    GIVEN_UP,
    VALIDATION,
    LedgerEntry,
    Participant,
    Role,
    TranscriptEntry,
    ledger_file,
    transcript_file,
)
from protocol.transcript import Transcript, replay
from simulations.carriers.sites import CuratorFacts, order_sites
from simulations.carriers.stages import IN_PROCESS, Stage
from simulations.kinds import SIMULATED_READERS
from simulations.records import Records, SiteRecords, require_classes, require_others, sites_of, split_records
from simulations.report.budget import ANALYSES, STUDIES, BudgetPoint
from simulations.scenario import LearnerScenario, Scenario

Tick = Callable[[str, int, int], None]
"""Called with (step, amount done, total)."""
ALL = ""
"""Key of the joint cost of all of a learner's studies."""
ZERO = Fraction(0)


@dataclass
class Outcome:
    """One learner's results in one repeat.

    `learned` or `analyses`, whichever was asked for, is None if no curator answered everything; `validation` is None if
    none was asked for or answered.
    """

    learner: LearnerScenario
    learned: Learned | None
    study: Study | None
    key: bytes
    failure: str = ""
    validation: Validation | None = None
    validation_study: Study | None = None
    validation_failure: str = ""
    others: dict[str, AnyModel] = field(default_factory=dict)  # site -> the same learner's model of all its other sites
    others_failures: dict[str, str] = field(default_factory=dict)  # site -> why there is no such model
    analyses: AnalysisStudy | None = None

    @property
    def first_study(self) -> str:
        """Name of its first study."""
        return ANALYSES if self.learner.analyses else STUDIES[FIT]

    @property
    def failures(self) -> dict[str, str]:
        """Name of each of its studies without a result -> the reason."""
        failures = {self.first_study: self.failure, STUDIES[VALIDATION]: self.validation_failure}
        return {study: reason for study, reason in failures.items() if reason}

    @property
    def studies(self) -> list[tuple[Study, Fraction]]:
        """Its studies in order, each with the epsilon that it may cost."""
        limits = ((self.study, self.learner.epsilon), (self.validation_study, self.learner.validate))
        return [(study, parse_rational(most)) for study, most in limits if study is not None and most is not None]


@dataclass
class Repeat:
    """One repeat of a scenario."""

    number: int
    sites: dict[str, SiteRecords]  # the simulation's copy of their records
    curators: dict[str, CuratorFacts]  # by site
    outcomes: list[Outcome] = field(default_factory=list)  # of the learners, in order
    ledgers: dict[str, CheckedLedger] = field(default_factory=dict)  # of the curators, as they were exported at the end


def run_repeat(
    scenario: Scenario,
    records: Records,
    repeat: int,
    *,
    keys: Mapping[str, SigningKey] | None = None,
    ledgers: Path | None = None,
    stage: Stage = IN_PROCESS,
    tick: Tick = lambda step, done, total: None,  # noqa: ARG005
) -> Repeat:
    """Run every learner's study in turn.

    Args:
        scenario: the scenario with its learners.
        records: from `load_records`.
        repeat: its number.
        keys: the learners' keys by name; None makes new ones.
        ledgers: folder for SQLite ledgers; None keeps them in memory.
        stage: opens the curators and carries envelopes.
        tick: called as work proceeds.
    """
    keys = keys or {learner.name: SigningKey.generate() for learner in scenario.learners}
    sites = split_records(scenario, records, repeat)
    require_others(scenario, sites)
    results: list[Repeat] = []

    def ask(curators: Mapping[str, CuratorFacts], carrier: Carrier) -> None:
        results.append(Repeat(repeat, sites, dict(curators)))
        ask_all(scenario, results[0], keys, carrier, tick)

    exports = stage(order_sites(scenario, sites.values(), repeat, keys), ask, ledgers)
    results[0].ledgers = exports
    return results[0]


def ask_all(scenario: Scenario, repeat: Repeat, keys: Mapping[str, SigningKey], carrier: Carrier, tick: Tick) -> None:
    """Run every learner's study over a carrier to all curators of the repeat, and add its outcome to the repeat.

    Raises ConfigurationError: a learner names an unknown site.
    """
    for learner in scenario.learners:
        curators, sources = sites_of(learner, repeat.sites)
        require_classes(learner, repeat.sites[sources[0]].steward)
        federation = federate(learner, {name: repeat.curators[name] for name in curators}, keys[learner.name], carrier)
        if learner.analyses:
            repeat.outcomes.append(_analyse(learner, federation))
            continue
        source = pl.concat([repeat.sites[name].source for name in sources])
        outcome = Outcome(learner, None, None, federation.key.public)
        try:
            unlabelled = source.drop(repeat.sites[sources[0]].steward.label)
            outcome.learned = fit(learner, federation, unlabelled, scenario.seed * 1_000_003 + repeat.number, tick)
            outcome.study = outcome.learned.study
        except NoCuratorError as error:
            outcome.failure = str(error)
            outcome.study = error.study
        repeat.outcomes.append(outcome)
        if learner.validate is not None and outcome.learned is not None:
            tick("validating", 0, 0)
            _validate(outcome, federation, source, scenario)
            tick("validating", 1, 1)


def _analyse(learner: LearnerScenario, federation: Federation) -> Outcome:
    outcome = Outcome(learner, None, None, federation.key.public)
    try:
        outcome.analyses = analyse(federation, learner.parts, learner.budget, pooling=learner.pool)
        outcome.study = outcome.analyses.study
    except NoCuratorError as error:
        outcome.failure, outcome.study = str(error), error.study
    return outcome


def federate(
    learner: LearnerScenario, curators: Mapping[str, CuratorFacts], key: SigningKey, carrier: Carrier
) -> Federation:
    """A learner's curators, with the key that it asks with."""
    return Federation(
        curators={name: curator.identity for name, curator in curators.items()},
        key=key,
        carrier=carrier,
        all_or_none=learner.all_or_none,
        allow_not_private=any(curator.label != LABEL for curator in curators.values()),
        readers=SIMULATED_READERS,
    )


def fit(learner: LearnerScenario, federation: Federation, source: pl.DataFrame, seed: int, tick: Tick) -> Learned:
    """Run a learner's study, with its source's records without labels. Raises what `learn` raises."""
    return learn(
        federation,
        source,
        learner.budget,
        strategy=learner.strategy,
        options=learner.options,
        pooling=learner.pool,
        seed=seed,
        progress=tick,
    )


def _validate(outcome: Outcome, federation: Federation, source: pl.DataFrame, scenario: Scenario) -> None:
    """Ask the same curators how good the model is."""
    learner, learned = outcome.learner, outcome.learned
    if learner.validate is None or learned is None:
        return
    try:
        outcome.validation = validate(
            federation,
            learned.final_model,
            learner.budget.following(learned.study.accepted),
            source=source.drop(learned.schema.label),
            pooling=learner.pool,
            thresholds=None if scenario.thresholds == DEFAULT_THRESHOLDS else scenario.thresholds,
            recalibrated=learner.recalibrate,
            seed=scenario.seed,
        )
        outcome.validation_study = outcome.validation.study
    except NoCuratorError as error:
        outcome.validation_failure, outcome.validation_study = str(error), error.study
    except ConfigurationError as error:
        outcome.validation_failure = str(error)


class AccountingError(ExprilError):
    """Receipts, ledger and plan disagree on the spending. Callers must not ignore it."""

    kind = "accounting"


@dataclass(frozen=True)
class Evidence:
    """A repeat's evidence for an auditor, as the run's index lists it."""

    participants: tuple[Participant, ...] = ()  # learners, and the curators of the repeat
    # each with its entry; a learner's fit is study 0, its validation 1, and studies that were given up begin at
    # `GIVEN_UP`
    transcripts: tuple[tuple[TranscriptEntry, Transcript], ...] = ()
    ledgers: tuple[LedgerEntry, ...] = ()


def evidence_of(repeat: Repeat, before: int, *, with_ledgers: bool) -> Evidence:
    """Check a repeat's transcripts against its ledgers, and list the evidence.

    `before` is the number of transcripts of earlier repeats; `with_ledgers` also lists the ledgers, if they were kept.
    Raises AccountingError: receipts, ledger and plan disagree.
    """
    curators, files = repeat.curators, map(transcript_file, count(before))
    keys: dict[tuple[Role, str], bytes] = {}
    transcripts: list[tuple[TranscriptEntry, Transcript]] = []
    for outcome in repeat.outcomes:
        keys["learner", outcome.learner.name] = outcome.key
        keys |= {("curator", name): curator.identity for name, curator in curators.items()}
        transcripts += _transcripts(outcome, repeat, files)
    accounts = {name: ledger.account for name, ledger in repeat.ledgers.items()} if with_ledgers else {}
    return Evidence(
        tuple(Participant(role, name, repeat.number, key.hex()) for (role, name), key in keys.items()),
        tuple(transcripts),
        tuple(
            LedgerEntry(
                file=ledger_file(name),
                curator=name,
                repeat=repeat.number,
                key=curators[name].identity.hex(),
                head=account.head.hex(),
                entries=account.next_index,
            )
            for name, account in accounts.items()
        ),
    )


def _transcripts(
    outcome: Outcome, repeat: Repeat, files: Iterator[str]
) -> Iterator[tuple[TranscriptEntry, Transcript]]:
    """Replay a learner's transcripts as an auditor would, and compare them with the curators' ledgers."""
    for study, planned in outcome.studies:
        for name, number, session in _sessions(outcome, study):
            label, ledger, transcript = repeat.curators[name].label, repeat.ledgers[name], session.transcript
            proof = replay(transcript.envelopes, session.curator, outcome.key, label=label, kinds=session.kinds)
            if ledger.findings:
                raise AccountingError(f"the ledger of {name} is not in order: {ledger.findings[0].text}")
            spent = _spent_on(ledger.account, outcome.key, session.study)
            # A curator that vanished may have charged an answer that never arrived.
            if not proof.epsilon_spent <= spent <= proof.epsilon_at_most:
                raise AccountingError(f"{name} charged {spent}, but its receipts prove {proof.epsilon_spent}")
            if spent > planned:
                raise AccountingError(f"{name} charged {spent}, more than was planned")
            entry = TranscriptEntry(
                file=next(files),
                repeat=repeat.number,
                learner=outcome.learner.name,
                curator=name,
                label=label,
                head=transcript.head.hex(),
                envelopes=len(transcript.envelopes),
                state=proof.state.value,
                study=number,
            )
            yield entry, transcript


def _sessions(outcome: Outcome, study: Study) -> Iterator[tuple[str, int, Session]]:
    """(curator, study number, session) of a study, also of sessions that were replaced."""
    studies = [begun for begun, _ in outcome.studies]
    place = studies.index(study)
    for name, session in study.sessions.items():
        yield name, place, session
        before = sum(len(earlier.retired.get(name, ())) for earlier in studies[:place])
        for number, given_up in enumerate(study.retired[name], GIVEN_UP + before):
            yield name, number, given_up


def spent_by_round(entries: Iterable[Entry], names: Mapping[bytes, str]) -> list[BudgetPoint]:
    """Each learner's cumulative spending after each of its queries, numbered through all its studies.

    `entries` are those of one ledger, in order. `names` maps public keys to learners; others are "".
    """
    total: dict[str, Fraction] = {}
    last: dict[str, int] = {}
    before: dict[tuple[bytes, bytes], int] = {}
    points = []
    for entry in entries:
        if entry.kind is not EntryKind.CHARGE:
            continue
        name = names.get(entry.learner, "")
        total[name] = total.get(name, Fraction(0)) + parse_amount(entry.amount)
        number = before.setdefault((entry.learner, entry.study), last.get(name, 0)) + entry.sequence
        last[name] = max(last.get(name, 0), number)
        points.append(BudgetPoint(name, number, str(total[name])))
    return points


@dataclass(frozen=True)
class Cost:
    """Exact cost of a study or of all of a learner's studies, in one repeat or the largest of several."""

    claimed: Fraction = ZERO  # what its plan announced
    spent: Fraction = ZERO  # the most that any one ledger charged

    def at_most(self, other: "Cost") -> "Cost":
        """The field-wise maximum."""
        return Cost(max(self.claimed, other.claimed), max(self.spent, other.spent))


def costs_of(outcome: Outcome, repeat: Repeat) -> dict[str, Cost]:
    """Each of a learner's studies' cost by name; `ALL` is their sum at the costliest curator."""
    costs, totals = {}, dict[str, Fraction]()
    for name, study, claimed in _studies(outcome):
        charges = (
            {curator: _charged(study, curator, outcome.key, repeat) for curator in study.sessions} if study else {}
        )
        costs[name] = Cost(claimed, max(charges.values(), default=ZERO))
        for curator, spent in charges.items():
            totals[curator] = totals.get(curator, ZERO) + spent
    costs[ALL] = Cost(sum((cost.claimed for cost in costs.values()), ZERO), max(totals.values(), default=ZERO))
    return costs


def _studies(outcome: Outcome) -> Iterator[tuple[str, Study | None, Fraction]]:
    """For each study: name, study if begun, and the announced epsilon."""
    learned, learner, validation = outcome.learned, outcome.learner, outcome.validation
    finished = outcome.analyses or learned
    yield outcome.first_study, outcome.study, finished.epsilon_claimed if finished else parse_rational(learner.epsilon)
    if validation is not None:
        yield STUDIES[VALIDATION], validation.study, validation.epsilon_claimed
    elif learned is not None and learner.validate is not None:
        yield STUDIES[VALIDATION], outcome.validation_study, parse_rational(learner.validate)


def _charged(study: Study, curator: str, learner: bytes, repeat: Repeat) -> Fraction:
    """A curator's charges for a study and for its replaced sessions."""
    account = repeat.ledgers[curator].account
    sessions = (study.sessions[curator], *study.retired.get(curator, ()))
    return sum((_spent_on(account, learner, session.study) for session in sessions), ZERO)


def _spent_on(account: Account, learner: bytes, study: bytes) -> Fraction:
    """A ledger's charges for one study."""
    entry = account.studies.get(StudyKey(learner, study))
    return ZERO if entry is None else entry.spent
