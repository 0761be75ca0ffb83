"""Runs a scenario's repeats, and holds what learners were told against the ledgers that their curators export."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from learner_node.study.session import Session
from learner_node.study.study import Study
from protocol.envelopes import SigningKey
from protocol.errors import ExprilError
from protocol.run_index import (
    GIVEN_UP,
    LEDGER_SUFFIX,
    LedgerEntry,
    Participant,
    Role,
    TranscriptEntry,
    transcript_file,
)
from protocol.transcript import Transcript, replay
from simulations.carriers.table import IN_PROCESS, Stage
from simulations.federation import Outcome, Repeat, run_repeat
from simulations.records import Records
from simulations.scenario import Scenario
from simulations.spending import spent_on

Tick = Callable[[str, int, int], None]


class AccountingError(ExprilError):
    """Receipts, ledger and plan do not agree on what was spent. Never to be ignored."""

    kind = "accounting"


@dataclass(frozen=True)
class Evidence:
    """What a repeat leaves for an auditor, as the run's list has it.

    Attributes:
        participants: learners, and the curators of the repeat.
        transcripts: each with its line: of a learner's studies in a repeat its fit is 0, its validation 1, and those
            that were given up for one of them are from `GIVEN_UP` on.
        ledgers: those that were kept.
    """

    participants: tuple[Participant, ...] = ()
    transcripts: tuple[tuple[TranscriptEntry, Transcript], ...] = ()
    ledgers: tuple[LedgerEntry, ...] = ()


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
