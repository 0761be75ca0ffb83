"""One repeat of a scenario: sites open, learners ask them, and what carriers bring back is kept.

Nothing of what is kept looks into a curator: an outcome is a learner's, a ledger is exported. So curators that are
deployed elsewhere fit in, too: `ask_all` takes whatever carrier leads to them.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from pathlib import Path

import polars as pl

from curator_node.ledger.account import Account
from curator_node.ledger.checks import CheckedLedger
from curator_node.ledger.studies import StudyKey
from learner_node.questions.validation import Validation, validate
from learner_node.scores.thresholds import DEFAULT_THRESHOLDS
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
    LEDGER_SUFFIX,
    VALIDATION,
    LedgerEntry,
    Participant,
    Role,
    TranscriptEntry,
    transcript_file,
)
from protocol.transcript import Transcript, replay
from simulations.carriers.sites import CuratorFacts, order_sites
from simulations.carriers.stages import IN_PROCESS, Stage
from simulations.records import Records, SiteRecords, require_classes, sites_of, split_records
from simulations.report.budget import STUDIES, BudgetPoint
from simulations.scenario import LearnerScenario, Scenario

Tick = Callable[[str, int, int], None]
"""Called with (what is done, how much of it, all of it)."""


@dataclass
class Outcome:
    """What became of one learner in one repeat.

    `learned` is None where no curator answered everything, `validation` where none was asked for, or answered it.
    """

    learner: LearnerScenario
    learned: Learned | None
    study: Study | None
    key: bytes
    failure: str = ""
    validation: Validation | None = None
    validation_study: Study | None = None
    validation_failure: str = ""

    @property
    def failures(self) -> dict[str, str]:
        """Name of each of its studies that brought nothing -> why."""
        told = {STUDIES[FIT]: self.failure, STUDIES[VALIDATION]: self.validation_failure}
        return {what: why for what, why in told.items() if why}

    @property
    def studies(self) -> list[tuple[Study, Fraction]]:
        """Its studies in order, and the epsilon that each may cost."""
        told = ((self.study, self.learner.epsilon), (self.validation_study, self.learner.validate))
        return [(study, parse_rational(most)) for study, most in told if study is not None and most is not None]


@dataclass
class Repeat:
    """One repeat of a scenario."""

    number: int  # of the repeat
    sites: dict[str, SiteRecords]  # the harness's own copy of the records
    curators: dict[str, CuratorFacts]  # what is known of each site's curator
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
    progress: Tick = lambda what, done, total: None,  # noqa: ARG005
) -> Repeat:
    """Run every learner's study, one after the other.

    Args:
        scenario: the scenario.
        records: of `load_records`.
        repeat: number of the repeat.
        keys: of the learners, by name; None makes new ones.
        ledgers: folder for SQLite ledgers; None keeps them in memory.
        stage: opens the curators and carries envelopes.
        progress: called with (what, done, total).
    """
    keys = keys or {learner.name: SigningKey.generate() for learner in scenario.learners}
    parts = split_records(scenario, records, repeat)
    found: list[Repeat] = []

    def ask(curators: Mapping[str, CuratorFacts], carrier: Carrier) -> None:
        found.append(Repeat(repeat, parts, dict(curators)))
        ask_all(scenario, found[0], keys, carrier, progress)

    exported = stage(order_sites(scenario, parts.values(), repeat, keys), ask, ledgers)
    found[0].ledgers = exported
    return found[0]


def ask_all(
    scenario: Scenario, repeat: Repeat, keys: Mapping[str, SigningKey], carrier: Carrier, progress: Tick
) -> None:
    """Run every learner's study over a carrier, and add its outcome to the repeat.

    Args:
        scenario: the scenario.
        repeat: whose curators are asked.
        keys: of the learners, by name.
        carrier: to all curators of the repeat.
        progress: called with (what, done, total).

    Raises:
        ConfigurationError: a learner names an unknown site.
    """
    for learner in scenario.learners:
        asked, held = sites_of(learner, repeat.sites)
        require_classes(learner, repeat.sites[held[0]].steward)
        federation = Federation(
            curators={name: repeat.curators[name].identity for name in asked},
            key=keys[learner.name],
            carrier=carrier,
            clock=lambda: int(time.time()),
            entropy=secrets.token_bytes,
            all_or_none=learner.all_or_none,
            allow_not_private=any(curator.label != LABEL for curator in repeat.curators.values()),
        )
        source = pl.concat([repeat.sites[name].source for name in held])
        outcome = Outcome(learner, None, None, federation.key.public)
        try:
            outcome.learned = learn(
                federation,
                source.drop(repeat.sites[held[0]].steward.label),
                learner.budget,
                strategy=learner.strategy,
                options=learner.options,
                pooling=learner.pool,
                seed=scenario.seed * 1_000_003 + repeat.number,
                progress=progress,
            )
            outcome.study = outcome.learned.study
        except NoCuratorError as error:
            outcome.failure = str(error)
            outcome.study = error.study
        repeat.outcomes.append(outcome)
        if learner.validate is not None and outcome.learned is not None:
            progress("validating", 0, 0)
            _validate(outcome, federation, source, scenario)
            progress("validating", 1, 1)


def _validate(outcome: Outcome, federation: Federation, source: pl.DataFrame, scenario: Scenario) -> None:
    """Ask the same curators how good the model is."""
    learner, learned = outcome.learner, outcome.learned
    if learner.validate is None or learned is None:
        return
    try:
        outcome.validation = validate(
            federation,
            learned.whole,
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
    """Receipts, ledger and plan do not agree on what was spent. Never to be ignored."""

    kind = "accounting"


@dataclass(frozen=True)
class Evidence:
    """What a repeat leaves for an auditor, as the run's list has it."""

    participants: tuple[Participant, ...] = ()  # learners, and the curators of the repeat
    # each with its line: of a learner's studies in a repeat its fit is 0, its validation 1, and those that were given
    # up for one of them are from `GIVEN_UP` on
    transcripts: tuple[tuple[TranscriptEntry, Transcript], ...] = ()
    ledgers: tuple[LedgerEntry, ...] = ()  # those that were kept


def run_repeats(
    scenario: Scenario,
    records: Records,
    keys: Mapping[str, SigningKey],
    *,
    first: int = 0,
    before: int = 0,
    ledgers: Path | None = None,
    stage: Stage = IN_PROCESS,
    tick: Tick = lambda what, done, total: None,  # noqa: ARG005
) -> Iterator[tuple[Repeat, Evidence]]:
    """Run the repeats, one at a time, and check each.

    Args:
        scenario: what to run.
        records: of `load_records`.
        keys: of the learners, by name.
        first: the repeat to begin with.
        before: transcripts of the repeats before it.
        ledgers: folder for the first repeat's SQLite ledgers; None keeps all in memory.
        stage: opens the curators and carries envelopes.
        tick: called with (what, done, total) as work proceeds.

    Raises:
        AccountingError: receipts, ledger and plan disagree.
    """
    for number in range(first, scenario.repeats):
        tick("repeats", number, scenario.repeats)
        kept = ledgers if number == 0 else None
        repeat = run_repeat(scenario, records, number, keys=keys, ledgers=kept, stage=stage, progress=tick)
        evidence = _evidence_of(repeat, before, kept=kept is not None)
        before += len(evidence.transcripts)
        yield repeat, evidence
    tick("repeats", scenario.repeats, scenario.repeats)


def _evidence_of(repeat: Repeat, before: int, *, kept: bool) -> Evidence:
    """Of a repeat, whose first transcript comes after so many; with its ledgers where they were kept."""
    curators, files = repeat.curators, map(transcript_file, count(before))
    keys: dict[tuple[Role, str], bytes] = {}
    lines: list[tuple[TranscriptEntry, Transcript]] = []
    for outcome in repeat.outcomes:
        keys["learner", outcome.learner.name] = outcome.key
        keys |= {("curator", name): curator.identity for name, curator in curators.items()}
        lines += _lines(outcome, repeat, files)
    accounts = {name: ledger.account for name, ledger in repeat.ledgers.items()} if kept else {}
    return Evidence(
        tuple(Participant(role, name, repeat.number, key.hex()) for (role, name), key in keys.items()),
        tuple(lines),
        tuple(
            LedgerEntry(
                file=f"{name}{LEDGER_SUFFIX}",
                curator=name,
                repeat=repeat.number,
                key=curators[name].identity.hex(),
                head=account.head.hex(),
                entries=account.next_index,
            )
            for name, account in accounts.items()
        ),
    )


def _lines(outcome: Outcome, repeat: Repeat, files: Iterator[str]) -> Iterator[tuple[TranscriptEntry, Transcript]]:
    """Replay each of a learner's transcripts as an auditor would, and hold it against the curator's ledger."""
    for study, planned in outcome.studies:
        for name, number, session in _sessions(outcome, study):
            label, ledger, transcript = repeat.curators[name].label, repeat.ledgers[name], session.transcript
            proof = replay(transcript.envelopes, session.curator, outcome.key, label=label)
            if ledger.findings:
                raise AccountingError(f"the ledger of {name} is not in order: {ledger.findings[0].text}")
            spent = spent_on(ledger.account, outcome.key, session.study)
            # A curator that vanished may have charged an answer that never arrived.
            if not proof.epsilon_spent <= spent <= proof.epsilon_at_most:
                raise AccountingError(f"{name} charged {spent}, but its receipts prove {proof.epsilon_spent}")
            if spent > planned:
                raise AccountingError(f"{name} charged {spent}, more than was planned")
            line = TranscriptEntry(
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
            yield line, transcript


def _sessions(outcome: Outcome, study: Study) -> Iterator[tuple[str, int, Session]]:
    """Curator, number and session of a learner's study, and of those that were given up for it."""
    studies = [one for one, _ in outcome.studies]
    place = studies.index(study)
    for name, session in study.sessions.items():
        yield name, place, session
        before = sum(len(one.retired.get(name, ())) for one in studies[:place])
        for number, given_up in enumerate(study.retired[name], GIVEN_UP + before):
            yield name, number, given_up


ALL = ""
"""In the place of a study's name: all of a learner's together."""
ZERO = Fraction(0)


def spent_by_round(entries: Iterable[Entry], names: Mapping[bytes, str]) -> list[BudgetPoint]:
    """What each learner had spent after each of its queries; the queries of its later studies are counted on.

    Args:
        entries: of one ledger, in order.
        names: of the learners, by public key; others are "".
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
    """What a learner's study, or all of them, cost in a repeat, or at most over several; exact."""

    claimed: Fraction = ZERO  # what its plan announced
    spent: Fraction = ZERO  # the most that any one ledger charged

    def at_most(self, other: "Cost") -> "Cost":
        """The larger of each."""
        return Cost(max(self.claimed, other.claimed), max(self.spent, other.spent))


def costs_of(outcome: Outcome, repeat: Repeat) -> dict[str, Cost]:
    """What each of a learner's studies cost in a repeat, and under `ALL` what all of them did at one curator."""
    found, charged = {}, dict[str, Fraction]()
    for what, study, claimed in _studies(outcome):
        own = {name: _charged(study, name, outcome.key, repeat) for name in study.sessions} if study else {}
        found[what] = Cost(claimed, max(own.values(), default=ZERO))
        for name, spent in own.items():
            charged[name] = charged.get(name, ZERO) + spent
    found[ALL] = Cost(sum((cost.claimed for cost in found.values()), ZERO), max(charged.values(), default=ZERO))
    return found


def _studies(outcome: Outcome) -> Iterator[tuple[str, Study | None, Fraction]]:
    """Name of each study, the study where one was begun, and what its plan announces."""
    learned, learner, found = outcome.learned, outcome.learner, outcome.validation
    yield STUDIES[FIT], outcome.study, learned.epsilon_claimed if learned else parse_rational(learner.epsilon)
    if found is not None:
        yield STUDIES[VALIDATION], found.study, found.epsilon_claimed
    elif learned is not None and learner.validate is not None:
        yield STUDIES[VALIDATION], outcome.validation_study, parse_rational(learner.validate)


def _charged(study: Study, curator: str, learner: bytes, repeat: Repeat) -> Fraction:
    """What a curator's ledger charged for a study, and for what was given up for it."""
    account = repeat.ledgers[curator].account
    sessions = (study.sessions[curator], *study.retired.get(curator, ()))
    return sum((spent_on(account, learner, session.study) for session in sessions), ZERO)


def spent_on(account: Account, learner: bytes, study: bytes) -> Fraction:
    """What a ledger charges to one study."""
    found = account.studies.get(StudyKey(learner, study))
    return Fraction(0) if found is None else found.spent
