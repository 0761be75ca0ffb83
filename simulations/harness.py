"""Runs a scenario's repeats, and holds what learners were told against the ledgers that their curators export."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

from curator_node.ledger import StudyKey
from curator_node.policy import Policy
from protocol.envelopes import SigningKey
from protocol.errors import ExprilError
from protocol.rationals import parse_rational
from protocol.transcript import Transcript, replay
from simulations.federation import Outcome, Repeat, run_repeat
from simulations.records import Records
from simulations.scenario import Scenario

Tick = Callable[[str, int, int], None]


class AccountingError(ExprilError):
    """Receipts, ledger and plan do not agree on what was spent. Never to be ignored."""

    kind = "accounting"


@dataclass
class Evidence:
    """What all repeats leave for an auditor.

    Attributes:
        signers: learner -> its key, which it keeps in all repeats; it signs what the run leaves.
        transcripts: (repeat, learner, curator) -> what was sent and received.
        states: the same keys -> state of the study, as an auditor finds it.
        keys: (role, name, repeat) of every curator and learner -> public key.
        labels: curator -> label of its signatures.
        policies: of the first repeat's curators.
        ledgers: curator -> (head, number of entries) of the ledgers that were kept.
    """

    signers: dict[str, SigningKey] = field(repr=False)
    transcripts: dict[tuple[int, str, str], Transcript] = field(default_factory=dict)
    states: dict[tuple[int, str, str], str] = field(default_factory=dict)
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
    tick: Tick = lambda what, done, total: None,  # noqa: ARG005
) -> Iterator[Repeat]:
    """Run the repeats, one at a time, check each, and keep its evidence.

    Args:
        scenario: what to run.
        records: of `load_records`.
        evidence: is added to.
        first: the repeat to begin with; those before it are in the evidence.
        ledgers: folder for the first repeat's SQLite ledgers; None keeps all in memory.
        tick: called with (what, done, total) as work proceeds.

    Raises:
        AccountingError: receipts, ledger and plan disagree.
    """
    for number in range(first, scenario.repeats):
        tick("repeats", number, scenario.repeats)
        kept = ledgers if number == 0 else None
        repeat = run_repeat(scenario, records, number, keys=evidence.signers, ledgers=kept, progress=tick)
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
    if outcome.study is None:
        return
    for name, session in outcome.study.sessions.items():
        proof = replay(session.transcript.envelopes, session.curator, outcome.key, label=repeat.curators[name].label)
        ledger = repeat.ledgers[name]
        if ledger.findings:
            raise AccountingError(f"the ledger of {name} is not in order: {ledger.findings[0].text}")
        study = ledger.account.studies.get(StudyKey(outcome.key, session.study))
        spent = study.spent if study is not None else Fraction(0)
        # A curator that vanished may have charged an answer that never arrived.
        if not proof.epsilon_spent <= spent <= proof.epsilon_at_most:
            raise AccountingError(f"{name} charged {spent}, but its receipts prove {proof.epsilon_spent}")
        if spent > parse_rational(outcome.learner.epsilon):
            raise AccountingError(f"{name} charged {spent}, more than was planned")
        evidence.states[repeat.number, learner, name] = proof.state.value
        evidence.transcripts[repeat.number, learner, name] = session.transcript
