"""Stores each repeat of a run when it ends, so that a killed run resumes after the last one.

An unfinished run's hidden folder holds, beside its final files, `PROGRESS`: the finished cells, from which the report
is made, and the learners' signing keys, since a learner keeps its key for the run and signs the whole at the end. These
keys belong to this simulation alone; they have mode 0600 and are removed when the run is complete. Finished repeats are
never run again, so their noise is never drawn a second time.
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
from learner_node.models.label_model.additive import ShapeBin, ShapeFunction
from learner_node.strategies.additive import AdditiveModel
from learner_node.study.learn import Learned
from learner_node.study.pooling import POOLED
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError, ExprilError
from protocol.run_index import (
    LEDGERS,
    LOCAL,
    MODELS,
    PREDICTIONS,
    PROGRESS,
    TRANSCRIPTS,
    LedgerEntry,
    Participant,
    TranscriptEntry,
    decode_transcript,
    encode_transcript,
    file_name,
    policy_file,
)
from protocol.schema import NumericAttribute, Schema
from simulations.analysing import analyses_report
from simulations.campaign.store import Store, is_held, read_cells, read_settings
from simulations.joining import JoiningScores
from simulations.notes import first_repeat_notes
from simulations.records import Records, population_notes, sites_of
from simulations.references import Answers
from simulations.repeats import Cost, Evidence, Outcome, Repeat, costs_of, spent_by_round
from simulations.report.budget import CuratorReport
from simulations.report.model import AnalysesReport, Part, PartBin, RecordCounts, ValidationReport
from simulations.run_folder import PARTIAL, claim_folder, stamped
from simulations.run_order import ALL, ONLY_FIRST, Order
from simulations.scenario import Scenario
from simulations.scoring import RepeatScore, measure_of, positive_class, record_counts, score_repeat
from simulations.validating import validation_report

CELLS, KEYS = f"{PROGRESS}/repeats.jsonl", f"{PROGRESS}/learner-keys.json"
LEAST_FREE = 2**16
"""Free bytes below which a disk counts as full."""
TEST_PART = "test"
COLUMNS = {"repeat": pl.UInt32, "learner": pl.String, "site": pl.String, "part": pl.String, "row": pl.UInt32}
"""Key columns of a prediction; `label`, `predicted` and, for classes, `P(class)` of each class follow."""


class LearnerCell(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One learner's results in a repeat."""

    scores: dict[str, RepeatScore]  # by site; the key "" stands for all sites
    costs: dict[str, Cost]  # of each of its studies, and of all
    failures: dict[str, str] = {}  # study without a result -> the reason
    outcomes: dict[str, tuple[str, ...]] = {}  # as of `learner_node.study.study.Study`
    left_out: dict[str, str] = {}  # likewise
    parts: tuple[Part, ...] = ()  # shape functions of an additive model, in the first repeat
    validation: ValidationReport | None = None
    joining: dict[str, JoiningScores] = {}  # by site
    analyses: AnalysesReport | None = None


class RepeatCell(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A finished repeat: all that the report and the signed index need from it."""

    key: int  # its number
    measure: str  # name of the score, a key of `simulations.scoring.MEASURES`
    learners: dict[str, LearnerCell]  # by name
    participants: tuple[Participant, ...] = ()  # these three: entries of the index
    transcripts: tuple[TranscriptEntry, ...] = ()
    ledgers: tuple[LedgerEntry, ...] = ()
    notes: tuple[str, ...] = ()  # of the first repeat; and of models that are not kept
    curators: tuple[CuratorReport, ...] = ()  # of the first repeat, as are the following
    records: tuple[RecordCounts, ...] = ()
    positive: str = ""
    label: str = ""
    units: str = ""
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FinishedRepeat:
    """A repeat that has just ended, with its cell."""

    cell: RepeatCell
    repeat: Repeat
    evidence: Evidence
    # learner -> site -> the last model's predictions for the site's test records
    answers: Mapping[str, Mapping[str, Answers]]


def finish(repeat: Repeat, scenario: Scenario, records: Records, evidence: Evidence | None = None) -> FinishedRepeat:
    """Score a repeat. A repeat without evidence cannot be audited."""
    evidence, first = evidence or Evidence(), repeat.number == 0
    learners, answers = {}, {}
    for result in score_repeat(repeat, scenario.thresholds):
        outcome = result.outcome
        study, answers[outcome.learner.name] = outcome.study, result.answers
        learners[outcome.learner.name] = LearnerCell(
            scores=result.scores,
            costs=costs_of(outcome, repeat),
            failures=outcome.failures,
            outcomes={name: tuple(outcomes) for name, outcomes in study.outcomes.items()} if study else {},
            left_out=study.left_out if study else {},
            parts=_parts_of(outcome.learned) if first else (),
            validation=validation_report(outcome, repeat),
            joining=result.joining,
            analyses=analyses_report(outcome, repeat),
        )
    cell = RepeatCell(
        key=repeat.number,
        measure=measure_of(repeat.sites).name,
        learners=learners,
        participants=evidence.participants,
        transcripts=tuple(entry for entry, _ in evidence.transcripts),
        ledgers=evidence.ledgers,
    )
    if first:
        schema = next(iter(repeat.sites.values())).steward.schema
        cell = msgspec.structs.replace(
            cell,
            notes=(*population_notes(scenario, records, repeat.sites), *first_repeat_notes(repeat)),
            curators=tuple(_curator_report(name, repeat) for name in repeat.sites),
            records=record_counts(repeat.sites),
            positive=positive_class(repeat.sites),
            label=schema.label,
            units=schema.measure(schema.label),
            classes=schema.classes,
        )
    return FinishedRepeat(cell, repeat, evidence, answers)


def _parts_of(learned: Learned | None) -> tuple[Part, ...]:
    """Shape functions of the pooled model; empty unless it is additive."""
    models = [] if learned is None else learned.models.get(POOLED, [])
    if learned is None or not models or not isinstance(models[-1], AdditiveModel):
        return ()
    return tuple(_part(shape, learned.schema) for shape in models[-1].shape_functions)


def _part(shape: ShapeFunction, schema: Schema) -> Part:
    attribute = schema.find(shape.attribute)
    return Part(
        attribute=shape.attribute,
        numeric=shape.numeric,
        bins=tuple(map(_bin, shape.bins)),
        units=schema.measure(shape.attribute),
        description=attribute.description if attribute else "",
        bounds=(attribute.lower, attribute.upper) if isinstance(attribute, NumericAttribute) else None,
    )


def _bin(shape: ShapeBin) -> PartBin:
    return PartBin(
        label=shape.label,
        share=min(max(shape.share, 0.0), 1.0),
        log_odds=shape.log_odds,
        lower=shape.lower,
        upper=shape.upper,
        low=shape.low,
        high=shape.high,
    )


def _curator_report(name: str, repeat: Repeat) -> CuratorReport:
    names = {outcome.key: outcome.learner.name for outcome in repeat.outcomes}
    return CuratorReport(
        name=name,
        cap=str(repeat.curators[name].policy.total_cap),
        private_unit=repeat.sites[name].steward.unit or "record",
        spent_by_round=tuple(spent_by_round(repeat.ledgers[name].entries, names)),
    )


class UnfinishedRun:
    """The folder of an unfinished run; a context that resumes an interrupted run of the same order.

    After an error the finished repeats stay; a folder without any is removed. `path` is a hidden folder inside the
    context, and the final one after it. `signers` maps learners to their keys. The folder is made under `base` for
    `order`.
    """

    def __init__(self, base: Path, order: Order) -> None:
        self._base, self._order = base, order
        self._store: Store[RepeatCell] | None = None
        self.path = base
        self.signers: dict[str, SigningKey] = {}

    @property
    def cells(self) -> list[RepeatCell]:
        """Cells of the finished repeats, in order."""
        return list(self._store.finished.values()) if self._store else []

    @property
    def progress_note(self) -> str:
        """A sentence for a run that ends early, on what is kept and how to resume; "" if nothing is kept."""
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
            reason = error.strerror if isinstance(error, OSError) else "no space is left on its disk"
            raise ConfigurationError(f"cannot write the run in {self._base}: {reason}") from error

    def keep(self, finished: FinishedRepeat) -> RepeatCell:
        """Write a repeat's files and its cell; they are on disk when this returns.

        Raises OSError: they cannot be written; earlier repeats are kept.
        """
        repeat, cell = finished.repeat, finished.cell
        for entry, transcript in finished.evidence.transcripts:
            (self.path / TRANSCRIPTS / entry.file).write_bytes(encode_transcript(transcript))
        if repeat.number == 0:
            for name, curator in repeat.curators.items():
                policy = msgspec.toml.encode(curator.policy)
                (self.path / LEDGERS / policy_file(name)).write_bytes(policy)
        if self._order.models == ALL or (self._order.models == ONLY_FIRST and repeat.number == 0):
            notes = [
                note
                for place, outcome in enumerate(repeat.outcomes)
                for note in self._keep_models(place, outcome, repeat)
            ]
            cell = msgspec.structs.replace(cell, notes=(*cell.notes, *notes))
        predictions = BytesIO()
        predictions_of(repeat, finished.answers).write_parquet(predictions)
        folder = private_folder(private_folder(self.path / LOCAL) / PREDICTIONS)
        write_private(folder / f"{_of_repeat(repeat.number)}.parquet", predictions.getvalue())
        if self._store is not None:
            self._store.add(cell)
        return cell

    def _keep_models(self, place: int, outcome: Outcome, repeat: Repeat) -> Iterator[str]:
        """Write a learner's models, if any; yields a note for models that no file format holds."""
        folder, learner = self.path / MODELS, outcome.learner
        folder.mkdir(exist_ok=True)
        if outcome.learned is None or not outcome.learned.estimates:
            return
        validation = outcome.validation
        model = StudyModel.of(outcome.learned, recalibration=validation.recalibration if validation else None)
        if not all(map(kept_in_files, model.models.values())):
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
        (folder / name).write_bytes(encode_model(replace(model, about=about)))

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
        """Take over an interrupted run if it has this order and no process works on it."""
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
            intact = all(_is_intact(path, entry) for cell in cells for entry in cell.transcripts)
        except (OSError, ExprilError, ValueError):
            intact = False
        if not cells or not intact:  # a damaged run is named as a leftover
            store.__exit__()
            if not cells:
                shutil.rmtree(path, ignore_errors=True)
            return False
        self.path, self._store, self.signers = path, store, signers
        self._forget()
        return True

    def _forget(self) -> None:
        """Remove the files of the interrupted repeat."""
        transcripts = {entry.file for cell in self.cells for entry in cell.transcripts}
        finished = tuple(_of_repeat(cell.key) for cell in self.cells)
        strays = [file for file in (self.path / TRANSCRIPTS).iterdir() if file.name not in transcripts]
        for folder in (self.path / MODELS, self.path / LOCAL / PREDICTIONS):
            strays += [file for file in folder.glob("*") if not file.name.startswith(finished)]
        for file in strays:
            with suppress(FileNotFoundError):
                file.unlink()


def leftovers(base: Path, besides: Path | None = None) -> Iterator[str]:
    """A sentence on each interrupted run under `base`: how to resume or remove it.

    It omits `besides` and runs that a process works on.
    """
    for path in sorted(_partials(base)):
        if path == besides or is_held(path / CELLS):
            continue
        try:
            settings, finished = read_settings(path / CELLS), len(read_cells(path / CELLS, RepeatCell))
        except (OSError, ExprilError, ValueError):
            settings, finished = {}, 0
        if finished:
            yield (
                f"{path} holds {finished} of {settings.get('repeats')} repeats of an interrupted run: "
                f"{settings.get('command')!r} goes on with them, rm -r {path} removes them"
            )
        else:
            yield f"{path} was left by an interrupted run and holds no finished repeat: rm -r {path}"


def predictions_of(repeat: Repeat, answers: Mapping[str, Mapping[str, Answers]]) -> pl.DataFrame:
    """Predictions for each test record of the sites that a learner asked, for computing further scores.

    They concern single people, so they stay in the run's folder `LOCAL`, which no index lists. `answers` maps learner
    -> site -> the last model's answers. Returns `COLUMNS`, where `row` is the record's place in its file or built-in
    data set, from 0; then `label` and `predicted` (class names, or numbers in the label's units), and `P(class)` of
    each class (float64).
    """
    frames = [
        _predictions(repeat, outcome.learner.name, site, predictions)
        for outcome in repeat.outcomes
        for site, predictions in answers.get(outcome.learner.name, {}).items()
        if site in sites_of(outcome.learner, repeat.sites)[0]
    ]
    return pl.concat(frames) if frames else pl.DataFrame(schema=COLUMNS)


def _predictions(repeat: Repeat, learner: str, site: str, answers: Answers) -> pl.DataFrame:
    part = repeat.sites[site]
    classes = np.array(part.steward.schema.classes)
    values_of = {"label": answers.labels, "predicted": answers.predicted}
    if len(classes):
        values_of = {name: classes[values.astype(np.intp)] for name, values in values_of.items()}
    if answers.probabilities is not None:
        values_of |= {f"P({name})": column for name, column in zip(classes, answers.probabilities.T, strict=True)}
    constants = (repeat.number, learner, site, TEST_PART)
    columns = {name: values.tolist() if values.dtype.kind == "U" else values for name, values in values_of.items()}
    frame = pl.DataFrame([pl.Series("row", part.test_rows), *(pl.Series(*column) for column in columns.items())])
    keys = [pl.lit(value, kind).alias(name) for value, (name, kind) in zip(constants, COLUMNS.items(), strict=False)]
    return frame.select(*keys, pl.col("row").cast(pl.UInt32), *columns)


def _partials(base: Path) -> list[Path]:
    return [path for path in base.glob(PARTIAL.format("*")) if path.is_dir()]


def _is_intact(path: Path, entry: TranscriptEntry) -> bool:
    """Whether a transcript file has the head that its index entry states."""
    return decode_transcript((path / TRANSCRIPTS / entry.file).read_bytes()).head.hex() == entry.head


def _full(folder: Path) -> bool:
    """Whether the folder's disk is full, which may explain a database error."""
    try:
        return shutil.disk_usage(folder).free < LEAST_FREE
    except OSError:
        return False


def _of_repeat(number: int) -> str:
    return f"repeat-{number:05d}"
