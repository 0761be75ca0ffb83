"""One repeat of a scenario: sites open, learners ask them, and what carriers bring back is kept.

Nothing of what is kept looks into a curator: an outcome is a learner's, a ledger is exported. So curators that are
deployed elsewhere fit in, too: `ask_all` takes whatever carrier leads to them.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import polars as pl

from curator_node.ledger.checks import CheckedLedger
from curator_node.site import now
from learner_node.questions.validation import Validation, validate
from learner_node.scores.thresholds import DEFAULT_THRESHOLDS
from learner_node.study.learn import Learned, learn
from learner_node.study.study import Carrier, Federation, NoCuratorError, Study
from protocol.envelopes import LABEL, SigningKey
from protocol.errors import ConfigurationError
from protocol.rationals import parse_rational
from protocol.run_index import FIT, VALIDATION
from simulations.carriers.sites import CuratorFacts, order_sites
from simulations.carriers.table import IN_PROCESS, Stage
from simulations.records import Records, SiteRecords, require_classes, sites_of, split_records
from simulations.report.budget import STUDIES
from simulations.scenario import LearnerScenario, Scenario

Progress = Callable[[str, int, int], None]


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
    """One repeat of a scenario.

    Attributes:
        number: of the repeat.
        sites: the harness's own copy of the records.
        curators: what is known of each site's curator.
        outcomes: of the learners, in order.
        ledgers: of the curators, as they were exported at the end.
    """

    number: int
    sites: dict[str, SiteRecords]
    curators: dict[str, CuratorFacts]
    outcomes: list[Outcome] = field(default_factory=list)
    ledgers: dict[str, CheckedLedger] = field(default_factory=dict)


def run_repeat(
    scenario: Scenario,
    records: Records,
    repeat: int,
    *,
    keys: Mapping[str, SigningKey] | None = None,
    ledgers: Path | None = None,
    stage: Stage = IN_PROCESS,
    progress: Progress = lambda what, done, total: None,  # noqa: ARG005
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
    scenario: Scenario, repeat: Repeat, keys: Mapping[str, SigningKey], carrier: Carrier, progress: Progress
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
            clock=now,
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
