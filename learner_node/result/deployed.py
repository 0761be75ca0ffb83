"""Runs a deployed study (fit, then validation; or analyses) over a journal and a carrier, and keeps its receipts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import msgspec
import polars as pl

from expril.files import write_private
from learner_node.analyses.asking import AnalysisStudy, analyse
from learner_node.carriers.journal import Journal
from learner_node.questions.plain_question import PlainAnswers, ask_plainly
from learner_node.questions.validation import Validation, validate
from learner_node.study.federation import Carrier, Federation
from learner_node.study.learn import Learned, learn
from learner_node.study.study import NoCuratorError, Study
from learner_node.study_file import StudyFile
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.strict_json import decode_json

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class StudyResult:
    """The results of a deployed study."""

    learned: Learned  # model, estimates, transcripts
    validation: Validation | None = None  # what the curators said of the model, where they were asked
    validation_failure: str = ""  # why there is none, where one was asked for
    validation_study: Study | None = None  # its study, where it came so far

    @property
    def studies(self) -> list[Study]:
        """The fit's study, then the validation's if there is one."""
        return [self.learned.study, *([self.validation_study] if self.validation_study is not None else [])]

    def spent(self, curator: str) -> Fraction:
        """Epsilon that a curator's receipts charge."""
        return sum((study.spent(curator) for study in self.studies), Fraction(0))

    def spent_at_most(self, curator: str) -> Fraction:
        """Epsilon that a curator may have charged at most."""
        return sum((study.spent_at_most(curator) for study in self.studies), Fraction(0))


def run_study(
    study: StudyFile,
    source: pl.DataFrame,
    *,
    curators: Mapping[str, bytes],
    key: SigningKey,
    journal: Journal,
    carrier: Carrier,
    progress: Progress = lambda step, number, total: None,  # noqa: ARG005
) -> StudyResult:
    """Run a study, or resume it; requests whose replies the journal holds are not sent again.

    Args:
        study: the file.
        source: unlabelled records.
        curators: name -> public key.
        key: the learner's.
        journal: this study's journal.
        carrier: to the curators.
        progress: called with (step, number done, total).

    Raises:
        UnfinishedError: a reply is awaited; call again later.
        NoCuratorError: no curator accepted, or none answered everything.
        ConfigurationError: records, settings or journal do not fit; no new request was sent.
    """
    federation = _federation(study, curators, key, journal, carrier)
    budget = study.budget
    learned = learn(
        federation,
        source,
        budget,
        strategy=study.strategy,
        options=study.options,
        pooling=study.pool,
        seed=study.seed,
        progress=progress,
    )
    if budget.validation is None:
        return StudyResult(learned)
    progress("validating", 0, 0)
    try:
        validation = validate(
            federation,
            learned.final_model,
            budget.following(learned.study.accepted),
            source=source,
            pooling=study.pool,
            recalibrated=study.recalibrate,
            seed=study.seed,
        )
    except NoCuratorError as error:
        return StudyResult(learned, None, str(error), error.study)
    finally:
        progress("validating", 1, 1)
    return StudyResult(learned, validation, "", validation.study)


def run_analyses(
    study: StudyFile, *, curators: Mapping[str, bytes], key: SigningKey, journal: Journal, carrier: Carrier
) -> AnalysisStudy:
    """Ask a study's analyses, or go on with it; arguments and errors are as those of `run_study`."""
    federation = _federation(study, curators, key, journal, carrier)
    return analyse(federation, study.parts, study.budget, pooling=study.pool)


def run_question(
    study: StudyFile, *, curators: Mapping[str, bytes], key: SigningKey, journal: Journal, carrier: Carrier
) -> PlainAnswers:
    """Ask a study's one question, or go on with it; arguments and errors are as those of `run_study`."""
    if study.question is None:
        raise ConfigurationError("the study's file has no [question]")
    return ask_plainly(_federation(study, curators, key, journal, carrier), study.question, study.budget)


def _federation(
    study: StudyFile, curators: Mapping[str, bytes], key: SigningKey, journal: Journal, carrier: Carrier
) -> Federation:
    return Federation(
        curators=curators,
        key=key,
        carrier=journal.through(carrier),
        clock=journal.clock,
        entropy=journal.entropy,
        receipts=dict(journal.receipts),
        attempts=study.attempts,
        lifetime=study.lifetime_seconds,
        all_or_none=study.all_or_none,
        resumable=True,
        decided=journal.decided,
    )


def read_receipts(path: Path) -> dict[bytes, bytes]:
    """Read the newest receipt of each curator (public key -> envelope); empty if there is no file.

    Raises ConfigurationError: the file cannot be read. Without it, a rolled-back ledger would go unnoticed.
    """
    try:
        receipts = decode_json(path.read_bytes(), dict[str, bytes], where=str(path))
        return {bytes.fromhex(key): receipt for key, receipt in receipts.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ConfigurationError, ValueError):
        raise ConfigurationError(
            f"{path} cannot be read as receipts; put back the copy of it that ExPriL wrote"
        ) from None


def keep_receipts(path: Path, studies: list[Study]) -> None:
    """Store each curator's newest receipt; receipts of other curators stay.

    Raises ConfigurationError if the existing file cannot be read, OSError if the new one cannot be written.
    """
    receipts = read_receipts(path)
    for study in studies:
        receipts |= {
            session.curator: session.newest_receipt for session in study.sessions.values() if session.newest_receipt
        }
    write_private(path, msgspec.json.encode({key.hex(): receipt for key, receipt in receipts.items()}))
