"""A run's repeats as cells: each is on disk when it ends, so that a killed run goes on after the last one.

The hidden folder of a run in the making holds, beside what the run will leave, `PROGRESS`: the cells, of which the
report is made, and the learners' signing keys, since a learner keeps its key and signs the whole run in the end.
These keys are of this simulation alone; they lie there with mode 0600 until the run is complete, and are then removed.
Finished repeats are never run again, so none of their noise is ever drawn a second time.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import numpy as np
import polars as pl

from expril.files import PRIVATE, private_folder, write_private
from learner_node.models.files import SUFFIX, StudyModel, encode_model, kept_in_files
from learner_node.models.label_model.additive import ShapeBin
from learner_node.strategies.additive import AdditiveModel
from learner_node.study.learn import Learned
from learner_node.study.pooling import POOLED
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError, ExprilError
from protocol.run_index import (
    LEDGERS,
    LOCAL,
    MODELS,
    POLICY_SUFFIX,
    PREDICTIONS,
    PROGRESS,
    TRANSCRIPTS,
    LedgerEntry,
    Participant,
    TranscriptEntry,
    decode_transcript,
    encode_transcript,
    file_name,
)
from simulations.campaign.store import Store, is_held, read_cells, read_settings
from simulations.clinical import positive_class, record_counts
from simulations.notes import first_repeat_notes
from simulations.records import Records, population_notes, sites_of
from simulations.references import Answers
from simulations.repeats import Cost, Evidence, Outcome, Repeat, costs_of, spent_by_round
from simulations.report.budget import CuratorReport
from simulations.report.clinical_model import Part, PartBin, RecordCounts
from simulations.report.validated import ValidationReport
from simulations.run_folder import PARTIAL, claim_folder, stamped
from simulations.run_order import ALL, ONLY_FIRST, Order
from simulations.scenario import Scenario
from simulations.scoring import RepeatScore, measure_of, score_repeat
from simulations.validating import validation_report

CELLS, KEYS = f"{PROGRESS}/repeats.jsonl", f"{PROGRESS}/learner-keys.json"
LEAST_FREE = 2**16
"""With fewer bytes, a disk is full."""
TEST_PART = "test"
COLUMNS = {"repeat": pl.UInt32, "learner": pl.String, "site": pl.String, "part": pl.String, "row": pl.UInt32}
"""What tells one prediction from all others; `label`, `predicted` and, of classes, `P(class)` of each class follow."""


class LearnerCell(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What became of a learner in a repeat."""

    scores: dict[str, RepeatScore]  # by site; the key "" stands for all sites together
    costs: dict[str, Cost]  # of each of its studies, and of all
    failures: dict[str, str] = {}  # study that brought nothing -> why
    # outcomes, left_out: see `learner_node.study.study.Study`
    outcomes: dict[str, tuple[str, ...]] = {}
    left_out: dict[str, str] = {}
    parts: tuple[Part, ...] = ()  # what the model adds up, in the first repeat
    validation: ValidationReport | None = None  # what it told


class RepeatCell(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A finished repeat: all that the report and the signed list are made of."""

    key: int  # its number
    measure: str  # name of the score, a key of `simulations.scoring.MEASURES`
    learners: dict[str, LearnerCell]  # by name
    # participants, transcripts, ledgers: as the list has them
    participants: tuple[Participant, ...] = ()
    transcripts: tuple[TranscriptEntry, ...] = ()
    ledgers: tuple[LedgerEntry, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader must know, of the first repeat; and of models that are not kept
    # curators, records, positive: of the first repeat, as in a report
    curators: tuple[CuratorReport, ...] = ()
    records: tuple[RecordCounts, ...] = ()
    positive: str = ""


@dataclass(frozen=True)
class Finished:
    """A repeat that has just ended."""

    cell: RepeatCell  # what the report needs of it
    # repeat, evidence: as they are
    repeat: Repeat
    evidence: Evidence
    # learner -> site -> what its last model says of the site's test records
    answers: Mapping[str, Mapping[str, Answers]]


def finish(repeat: Repeat, scenario: Scenario, records: Records, evidence: Evidence | None = None) -> Finished:
    """Score a repeat; without evidence, nothing can be audited."""
    evidence, first = evidence or Evidence(), repeat.number == 0
    learners, answers = {}, {}
    for outcome, scores, said in score_repeat(repeat, scenario.thresholds):
        study, answers[outcome.learner.name] = outcome.study, said
        learners[outcome.learner.name] = LearnerCell(
            scores=scores,
            costs=costs_of(outcome, repeat),
            failures=outcome.failures,
            outcomes={name: tuple(told) for name, told in study.outcomes.items()} if study else {},
            left_out=study.left_out if study else {},
            parts=_parts_of(outcome.learned) if first else (),
            validation=validation_report(outcome, repeat),
        )
    cell = RepeatCell(
        key=repeat.number,
        measure=measure_of(repeat.sites).name,
        learners=learners,
        participants=evidence.participants,
        transcripts=tuple(line for line, _ in evidence.transcripts),
        ledgers=evidence.ledgers,
    )
    if first:
        cell = msgspec.structs.replace(
            cell,
            notes=(*population_notes(scenario, records, repeat.sites), *first_repeat_notes(repeat)),
            curators=tuple(_curator_report(name, repeat) for name in repeat.sites),
            records=record_counts(repeat.sites),
            positive=positive_class(repeat.sites),
        )
    return Finished(cell, repeat, evidence, answers)


def _parts_of(learned: Learned | None) -> tuple[Part, ...]:
    """The shape functions of the pooled model; empty where there is none, or it does not add up parts."""
    models = [] if learned is None else learned.models.get(POOLED, [])
    shapes = models[-1].shape_functions if models and isinstance(models[-1], AdditiveModel) else ()
    return tuple(
        Part(attribute=shape.attribute, numeric=shape.numeric, bins=tuple(map(_bin, shape.bins))) for shape in shapes
    )


def _bin(of: ShapeBin) -> PartBin:
    share = min(max(of.share, 0.0), 1.0)
    return PartBin(label=of.label, share=share, log_odds=of.log_odds, lower=of.lower, upper=of.upper)


def _curator_report(name: str, repeat: Repeat) -> CuratorReport:
    names = {outcome.key: outcome.learner.name for outcome in repeat.outcomes}
    return CuratorReport(
        name=name,
        cap=str(repeat.curators[name].policy.total_cap),
        private_unit=repeat.sites[name].steward.unit or "record",
        spent_by_round=tuple(spent_by_round(repeat.ledgers[name].entries, names)),
    )


class UnfinishedRun:
    """The folder of a run in the making; a context that goes on with an interrupted run of the same order.

    Where something goes wrong, the finished repeats are kept; a folder without any is removed.

    Args:
        base: under which runs are kept.
        order: what is run.

    Attributes:
        path: where to write; inside the context a hidden folder, after it the final one.
        signers: learner -> its key.
    """

    def __init__(self, base: Path, order: Order) -> None:
        self._base, self._order = base, order
        self._store: Store[RepeatCell] | None = None
        self.path = base
        self.signers: dict[str, SigningKey] = {}

    @property
    def cells(self) -> list[RepeatCell]:
        """Of the finished repeats, in order."""
        return list(self._store.finished.values()) if self._store else []

    @property
    def kept(self) -> str:
        """What is said where the run ends early: what is there, and how to go on; "" where nothing is."""
        if not self.cells or not (self.path / PROGRESS).exists():
            return ""
        return (
            f"{len(self.cells)} of {self._order.scenario.repeats} repeats are kept in {self.path}: the same "
            f"command goes on with them, rm -r {self.path} removes them"
        )

    def __enter__(self) -> Self:
        for progress in self._base.glob(f"[!.]*/{PROGRESS}"):  # killed between the last two steps of `__exit__`
            shutil.rmtree(progress, ignore_errors=True)
        if self._order.fresh or not any(map(self._go_on, sorted(_partials(self._base), reverse=True))):
            self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                name = self.path.name.removeprefix(".").removesuffix(".partial")
                self.path = self.path.rename(claim_folder(self._base, "{}", name))
                shutil.rmtree(self.path / PROGRESS)
            elif not self.cells:
                shutil.rmtree(self.path, ignore_errors=True)
        finally:
            if self._store is not None:
                self._store.__exit__()
        if isinstance(error, OSError) or (isinstance(error, ExprilError) and _full(self._base)):
            what = error.strerror if isinstance(error, OSError) else "no space is left on its disk"
            raise ConfigurationError(f"cannot write the run in {self._base}: {what}") from error

    def keep(self, finished: Finished) -> RepeatCell:
        """Write what a repeat gave; it is on disk when this returns its cell.

        Raises:
            OSError: it cannot be written; the repeats before it are kept.
        """
        repeat, cell = finished.repeat, finished.cell
        for line, transcript in finished.evidence.transcripts:
            (self.path / TRANSCRIPTS / line.file).write_bytes(encode_transcript(transcript))
        if repeat.number == 0:
            for name, curator in repeat.curators.items():
                policy = msgspec.toml.encode(curator.policy)
                (self.path / LEDGERS / f"{name}{POLICY_SUFFIX}").write_bytes(policy)
        if self._order.models == ALL or (self._order.models == ONLY_FIRST and repeat.number == 0):
            notes = [
                note for place, outcome in enumerate(repeat.outcomes) for note in self._keep(place, outcome, repeat)
            ]
            cell = msgspec.structs.replace(cell, notes=(*cell.notes, *notes))
        told = BytesIO()
        predictions_of(repeat, finished.answers).write_parquet(told)
        folder = private_folder(private_folder(self.path / LOCAL) / PREDICTIONS)
        write_private(folder / f"{_of_repeat(repeat.number)}.parquet", told.getvalue())
        if self._store is not None:
            self._store.add(cell)
        return cell

    def _keep(self, place: int, outcome: Outcome, repeat: Repeat) -> Iterator[str]:
        """Write a learner's models where it has any; a note where no file holds them."""
        folder, learner = self.path / MODELS, outcome.learner
        folder.mkdir(exist_ok=True)
        if outcome.learned is None or not outcome.learned.estimates:
            return
        told = outcome.validation
        found = StudyModel.of(outcome.learned, recalibration=told.recalibration if told else None)
        if not all(map(kept_in_files, found.models.values())):
            yield f"Models of {learner.name} are not kept: no file holds their kind."
            return
        about = {
            "learner": learner.name,
            "repeat": str(repeat.number),
            "strategy": learner.strategy,
            "scenario": self._order.scenario.title,
            "expril": self._order.version,
        }
        name = f"{_of_repeat(repeat.number)}-{place}-{file_name(learner.name)[:40]}{SUFFIX}"
        (folder / name).write_bytes(encode_model(replace(found, about=about)))

    def _begin(self) -> None:
        scenario = self._order.scenario
        self.path = claim_folder(self._base, PARTIAL, stamped(scenario.title))
        try:
            private_folder(self.path / PROGRESS)
            (self.path / CELLS).touch(PRIVATE)
            self._store = Store(self.path / CELLS, self._order.settings, RepeatCell)
            self.signers = {learner.name: SigningKey.generate() for learner in scenario.learners}
            keys = {name: key.to_pem().decode() for name, key in self.signers.items()}
            write_private(self.path / KEYS, json.dumps(keys).encode())
            for name in (LEDGERS, TRANSCRIPTS):
                (self.path / name).mkdir()
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def _go_on(self, path: Path) -> bool:
        """Take over an interrupted run, where it is of this order and no process works on it."""
        try:
            settings = read_settings(path / CELLS)
            if settings.get("order") != self._order.fingerprint:
                return False
            store = Store(path / CELLS, settings, RepeatCell)
        except (OSError, ExprilError, ValueError):
            return False
        cells = store.finished.values()
        try:
            pems: dict[str, str] = json.loads((path / KEYS).read_bytes()) if cells else {}
            signers = {name: SigningKey.from_pem(pem.encode()) for name, pem in pems.items()}
            whole = all(_is_whole(path, line) for cell in cells for line in cell.transcripts)
        except (OSError, ExprilError, ValueError):
            whole = False
        if not cells or not whole:  # what is damaged is told of as a leftover
            store.__exit__()
            if not cells:
                shutil.rmtree(path, ignore_errors=True)
            return False
        self.path, self._store, self.signers = path, store, signers
        self._forget()
        return True

    def _forget(self) -> None:
        """Remove what the repeat that was interrupted had written."""
        known = {line.file for cell in self.cells for line in cell.transcripts}
        done = tuple(_of_repeat(cell.key) for cell in self.cells)
        lost = [file for file in (self.path / TRANSCRIPTS).iterdir() if file.name not in known]
        for folder in (self.path / MODELS, self.path / LOCAL / PREDICTIONS):
            lost += [file for file in folder.glob("*") if not file.name.startswith(done)]
        for file in lost:
            with suppress(FileNotFoundError):
                file.unlink()


def leftovers(base: Path, besides: Path | None = None) -> Iterator[str]:
    """What interrupted runs left under a base, a sentence each: what it is, and what to do.

    Args:
        base: under which runs are kept; what a process works on is left out.
        besides: the folder of the run that asks.
    """
    for path in sorted(_partials(base)):
        if path == besides or is_held(path / CELLS):
            continue
        try:
            told, done = read_settings(path / CELLS), len(read_cells(path / CELLS, RepeatCell))
        except (OSError, ExprilError, ValueError):
            told, done = {}, 0
        if done:
            yield (
                f"{path} holds {done} of {told.get('repeats')} repeats of an interrupted run: "
                f"{told.get('command')!r} goes on with them, rm -r {path} removes them"
            )
        else:
            yield f"{path} was left by an interrupted run and holds no finished repeat: rm -r {path}"


def predictions_of(repeat: Repeat, answers: Mapping[str, Mapping[str, Answers]]) -> pl.DataFrame:
    """What was predicted of each test record of the sites that a learner asked: enough to compute any other score.

    These are records of people, or stand for them: they stay in a run's folder `LOCAL`, which no list has.

    Args:
        repeat: of which repeat.
        answers: learner -> site -> what its last model says of the site's test records.

    Returns:
        `COLUMNS`, where `row` is the record's place in its file or built-in data set, from 0; then `label` and
        `predicted` (names of classes, or numbers in the label's units), and `P(class)` of each class (float64).
    """
    frames = [
        _predictions(repeat, outcome.learner.name, site, said)
        for outcome in repeat.outcomes
        for site, said in answers.get(outcome.learner.name, {}).items()
        if site in sites_of(outcome.learner, repeat.sites)[0]
    ]
    return pl.concat(frames) if frames else pl.DataFrame(schema=COLUMNS)


def _predictions(repeat: Repeat, learner: str, site: str, said: Answers) -> pl.DataFrame:
    part = repeat.sites[site]
    classes = np.array(part.steward.schema.classes)
    told = {"label": said.labels, "predicted": said.predicted}
    if len(classes):
        told = {name: classes[values.astype(np.intp)] for name, values in told.items()}
    if said.probabilities is not None:
        told |= {f"P({name})": column for name, column in zip(classes, said.probabilities.T, strict=True)}
    known = (repeat.number, learner, site, TEST_PART)
    columns = {name: values.tolist() if values.dtype.kind == "U" else values for name, values in told.items()}
    frame = pl.DataFrame([pl.Series("row", part.test_rows), *(pl.Series(*column) for column in columns.items())])
    keys = [pl.lit(value, kind).alias(name) for value, (name, kind) in zip(known, COLUMNS.items(), strict=False)]
    return frame.select(*keys, pl.col("row").cast(pl.UInt32), *columns)


def _partials(base: Path) -> list[Path]:
    return [path for path in base.glob(PARTIAL.format("*")) if path.is_dir()]


def _is_whole(path: Path, line: TranscriptEntry) -> bool:
    """Whether a transcript has the head that it had."""
    return decode_transcript((path / TRANSCRIPTS / line.file).read_bytes()).head.hex() == line.head


def _full(folder: Path) -> bool:
    """Whether a database that failed there failed for lack of room."""
    try:
        return shutil.disk_usage(folder).free < LEAST_FREE
    except OSError:
        return False


def _of_repeat(number: int) -> str:
    return f"repeat-{number:05d}"
