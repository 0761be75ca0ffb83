"""Runs a scenario's repeats, and holds what learners were told against the ledgers that their curators export."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from curator_node.policy import Policy
from learner_node.session import Session
from learner_node.study import Study
from protocol.envelopes import SigningKey
from protocol.errors import ExprilError
from protocol.run_index import GIVEN_UP
from protocol.transcript import Transcript, replay
from simulations.carriers.table import IN_PROCESS, Stage
from simulations.federation import Outcome, Repeat, run_repeat
from simulations.records import Records
from simulations.scenario import Scenario
from simulations.spending import spent_on

Tick = Callable[[str, int, int], None]
Exchanged = tuple[int, str, str, int]
"""Repeat, learner, curator, and which of the learner's studies there."""


class AccountingError(ExprilError):
    """Receipts, ledger and plan do not agree on what was spent. Never to be ignored."""

    kind = "accounting"


@dataclass
class Evidence:
    """What all repeats leave for an auditor.

    Attributes:
        signers: learner -> its key, which it keeps in all repeats; it signs what the run leaves.
        transcripts: (repeat, learner, curator, study) -> what was sent and received; of a learner's studies in a repeat
            its fit is 0, its validation 1, and those that were given up for one of them are from `GIVEN_UP` on.
        states: the same keys -> state of the study, as an auditor finds it.
        keys: (role, name, repeat) of every curator and learner -> public key.
        labels: curator -> label of its signatures.
        policies: of the first repeat's curators.
        ledgers: curator -> (head, number of entries) of the ledgers that were kept.
    """

    signers: dict[str, SigningKey] = field(repr=False)
    transcripts: dict[Exchanged, Transcript] = field(default_factory=dict)
    states: dict[Exchanged, str] = field(default_factory=dict)
    keys: dict[tuple[Literal["curator", "learner"], str, int], bytes] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)
    ledgers: dict[str, tuple[bytes, int]] = field(default_factory=dict)


def run_repeats(
    scenario: Scenario,
    records: Records,
    evidence: Evidence,
    *,
    first: int = 0,
    ledgers: Path | None = None,
    stage: Stage = IN_PROCESS,
    tick: Tick = lambda what, done, total: None,  # noqa: ARG005
) -> Iterator[Repeat]:
    """Run the repeats, one at a time, check each, and keep its evidence.

    Args:
        scenario: what to run.
        records: of `load_records`.
        evidence: is added to.
        first: the repeat to begin with; those before it are in the evidence.
        ledgers: folder for the first repeat's SQLite ledgers; None keeps all in memory.
        stage: opens the curators and carries envelopes.
        tick: called with (what, done, total) as work proceeds.

    Raises:
        AccountingError: receipts, ledger and plan disagree.
    """
    for number in range(first, scenario.repeats):
        tick("repeats", number, scenario.repeats)
        kept = ledgers if number == 0 else None
        repeat = run_repeat(scenario, records, number, keys=evidence.signers, ledgers=kept, stage=stage, progress=tick)
        for outcome in repeat.outcomes:
            _keep(evidence, outcome, repeat)
        if number == 0:
            evidence.policies = {name: curator.policy for name, curator in repeat.curators.items()}
        if kept is not None:
            accounts = {name: ledger.account for name, ledger in repeat.ledgers.items()}
            evidence.ledgers = {name: (account.head, account.next_index) for name, account in accounts.items()}
        yield repeat
    tick("repeats", scenario.repeats, scenario.repeats)


def _keep(evidence: Evidence, outcome: Outcome, repeat: Repeat) -> None:
    """Replay each transcript as an auditor would, hold it against the curator's ledger, and keep both."""
    learner = outcome.learner.name
    evidence.keys["learner", learner, repeat.number] = outcome.key
    for name, curator in repeat.curators.items():
        evidence.keys["curator", name, repeat.number] = curator.identity
        evidence.labels[name] = curator.label
    for study, planned in outcome.studies:
        for name, number, session in _sessions(outcome, study):
            label = repeat.curators[name].label
            proof = replay(session.transcript.envelopes, session.curator, outcome.key, label=label)
            ledger = repeat.ledgers[name]
            if ledger.findings:
                raise AccountingError(f"the ledger of {name} is not in order: {ledger.findings[0].text}")
            spent = spent_on(ledger.account, outcome.key, session.study)
            # A curator that vanished may have charged an answer that never arrived.
            if not proof.epsilon_spent <= spent <= proof.epsilon_at_most:
                raise AccountingError(f"{name} charged {spent}, but its receipts prove {proof.epsilon_spent}")
            if spent > planned:
                raise AccountingError(f"{name} charged {spent}, more than was planned")
            evidence.states[repeat.number, learner, name, number] = proof.state.value
            evidence.transcripts[repeat.number, learner, name, number] = session.transcript


def _sessions(outcome: Outcome, study: Study) -> Iterator[tuple[str, int, Session]]:
    """Curator, number and session of a learner's study, and of those that were given up for it."""
    studies = [one for one, _ in outcome.studies]
    place = studies.index(study)
    for name, session in study.sessions.items():
        yield name, place, session
        before = sum(len(one.retired.get(name, ())) for one in studies[:place])
        for number, given_up in enumerate(study.retired[name], GIVEN_UP + before):
            yield name, number, given_up
