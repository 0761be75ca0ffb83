"""Writes the learner's folder of a deployed study: model, synthetic data, cost, transcripts, and one page.

The learner signs a list of all files except the page and `local`, like a simulation's run. `expril audit run` and
`expril transcript show` read both. The curators' ledgers are not in it: curators may show them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from expril.files import PRIVATE_FOLDER, write_private
from expril.report.page import as_page
from learner_node.kinds.counts import CountsAnswer
from learner_node.models.files import SUFFIX, StudyModel, encode_model, kept_in_files
from learner_node.models.synthetic import held_columns, pooled_estimate, synthetic_frame
from learner_node.questions.validation import Validation
from learner_node.result.deployed import StudyResult
from learner_node.result.document import study_document
from learner_node.result.listing import listed_digests, save_index
from learner_node.scores.estimates import AccuracyEstimate
from learner_node.scores.prevalence import Prevalence, estimate_prevalences
from learner_node.strategies.additive import AdditiveModel
from learner_node.strategies.base import ClassesEstimate, NumberModel, SourceEstimate, assumed_size
from learner_node.study.learn import Learned
from learner_node.study.pooling import POOLED
from learner_node.study.session import Session
from learner_node.study.study import Study
from learner_node.study_file import StudyFile
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL, SigningKey, digest
from protocol.errors import ConfigurationError
from protocol.hypotheses import Constant
from protocol.run_index import (
    COST,
    FORMAT,
    GIVEN_UP,
    LOCAL,
    MODELS,
    PAGE,
    RECEIPTS,
    STUDY,
    TRANSCRIPTS,
    Index,
    Participant,
    TranscriptEntry,
    encode_transcript,
    file_name,
    transcript_file,
)
from protocol.schema import NumericAttribute

JOURNAL = "journal"
SYNTHETIC = "synthetic.csv"

EXPECTED = (
    *("accuracy", "low", "high", "majority", "majority_low", "majority_high", "p_value"),
    *("auc", "auc_low", "auc_high", "ranking_p_value", "beats_majority", "ranks", "method"),
)
"""Fields of an accuracy estimate that are written."""

BY_CLASS = {"error_correct": Constant(predicted=1), "class_counts": None}
"""Release kinds whose columns are the classes -> the hypothesis with which they are."""
Object = dict[str, Any]


@dataclass(frozen=True)
class DeployedStudy:
    """A deployed study's input, as read from its files."""

    study: StudyFile
    text: bytes  # of that file
    source: pl.DataFrame  # unlabelled records; none of a study of analyses
    key: SigningKey  # the learner's
    curators: Mapping[str, bytes]  # name -> public key
    version: str  # of ExPriL
    finished: int  # seconds since 1970


def prepare_result(folder: Path) -> Path:
    """Make a result's folder if it is absent; return the path of its journal.

    Raises ConfigurationError: it cannot be made, or holds something else.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strange = [path.name for path in folder.iterdir()]
        if strange and LOCAL not in strange:
            raise ConfigurationError(f"{folder} holds something else ({strange[0]}); name an empty folder with --out")
        (folder / LOCAL).mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot make the folder {folder}: {error.strerror}; name another with --out"
        ) from None
    return folder / LOCAL / JOURNAL


def save_result(deployed: DeployedStudy, result: StudyResult, folder: Path) -> Object:
    """Write all files of a result, replacing an earlier one; return the JSON object for programs.

    Raises OSError: a file cannot be written.
    """
    (folder / MODELS).mkdir(exist_ok=True)
    write_private(folder / STUDY, deployed.text)
    facts = result_object(deployed, result)
    write_private(folder / COST, pretty(facts["cost"]))
    _save_models(deployed, result, folder / MODELS)
    estimates = result.learned.estimates
    schema = result.learned.schema
    synthetic = synthetic_frame(
        held_columns(deployed.source, schema, ()),
        pooled_estimate(list(estimates.values())),
        label=schema.label,
        classes=np.array(schema.classes),
    )
    write_private(folder / SYNTHETIC, synthetic.write_csv().encode())
    sign_result(deployed, result.studies, folder)
    write_private(folder / PAGE, as_page(study_document(facts)).encode())
    return facts


def moment_of(deployed: DeployedStudy) -> str:
    """When the study was finished, ISO 8601."""
    return datetime.fromtimestamp(deployed.finished, UTC).isoformat(timespec="seconds")


def sign_result(deployed: DeployedStudy, studies: list[Study], folder: Path) -> None:
    """Write receipts, transcripts and the signed list of all files, which must be written before.

    Raises OSError: a file cannot be written.
    """
    for name in (TRANSCRIPTS, RECEIPTS):
        (folder / name).mkdir(exist_ok=True)
    for name, receipt in newest_receipts(studies).items():
        write_private(folder / RECEIPTS / f"{file_name(name)}.receipt", receipt)
    entries = tuple(_save_transcripts(deployed, studies, folder / TRANSCRIPTS))
    people = [("learner", deployed.study.learner, deployed.key.public)]
    people += [("curator", name, key) for name, key in deployed.curators.items()]
    index = Index(
        format=FORMAT,
        expril=deployed.version,
        title=deployed.study.title,
        created=moment_of(deployed),
        repeats=1,
        participants=tuple(Participant(role, name, 0, key.hex()) for role, name, key in people),  # type: ignore[arg-type]
        transcripts=entries,
        ledgers=(),
        files=listed_digests(folder),
    )
    save_index(index, {deployed.study.learner: deployed.key}, folder)


def result_object(deployed: DeployedStudy, result: StudyResult) -> Object:
    """The results that the learner can know, as one JSON object."""
    learned, study = result.learned, deployed.study
    estimate = learned.estimates.get(POOLED)
    accuracy = estimate.accuracy if isinstance(estimate, SourceEstimate) else None
    validation = result.validation
    return {
        "title": study.title,
        "purpose": study.purpose,
        "learner": study.learner,
        "expril": deployed.version,
        "finished": moment_of(deployed),
        "strategy": study.strategy,
        "pooling": study.pooling,
        "label": learned.schema.label,
        "positive": learned.schema.classes[1] if len(learned.schema.classes) == 2 else None,
        "population": learned.population,
        "source_records": len(learned.source),
        "private_records": round(sum(float(estimate.weights.sum()) for estimate in learned.estimates.values())),
        "expected": None if accuracy is None else _expected(accuracy),
        "expected_errors": _expected_errors(learned),
        "expected_recalls": _expected_recalls(learned),
        "units": learned.schema.measure(learned.schema.label),
        "parts": _parts(learned),
        "shares": {name: [share.share, share.low, share.high] for name, share in learned.shares().items()},
        "by_curator": by_curator(learned, validation),
        "validation": None if validation is None else _validated(validation),
        "validation_text": "" if validation is None else validation.to_text(),
        "validation_failure": result.validation_failure,
        "advice": learned.advice,
        "left_out": dict(learned.study.left_out),
        "answered_late": {name: count for name, count in learned.study.asked_again.items() if count},
        "not_private": learned.not_private,
        "cards": {
            name: {"unit": card.unit, "records": card.most_records_per_unit, "cap": card.cap}
            for name, card in learned.study.cards.items()
        },
        "cost": cost_object(deployed, result),
    }


def by_curator(learned: Learned, validation: Validation | None = None) -> Object:
    """What the answers tell of each curator's records, by its name; empty where only sums over curators were opened.

    "shares" are each class's, of two classes the second's; "validation" holds the AUC and prevalence by the curator's
    answer to the validation. All are 95 % intervals. The expected accuracy is not among them: the answers of one
    curator do not tell how its records lie within the cells of a source that is of all.
    """
    validated = validation.by_site if validation else {}
    facts: Object = {}
    for name in learned.study.survivors:
        shares = {key: [share.share, share.low, share.high] for key, share in _shares_at(learned, name).items()}
        area = validated.get(name)
        judged = area and {"auc": _ends(area.area), "prevalence": _ends(area.prevalence)}
        if shares or judged:
            facts[name] = {"shares": shares, "validation": judged}
    return facts


def _shares_at(learned: Learned, name: str) -> dict[str, Prevalence]:
    """The shares of classes by the totals of a curator's own answers; empty where they do not tell."""
    if name in learned.estimates:
        return learned.shares(name)
    if any(answered.took_part for answered in learned.study.rounds) or not learned.schema.classes:
        return {}
    counted = [
        answer
        for answer in learned.study.pooled([name])
        if isinstance(answer, CountsAnswer) and BY_CLASS.get(answer.release, answer.body) == answer.body.hypothesis
    ]
    if not counted:
        return {}
    card, answer, classes = learned.study.cards[name], counted[-1], learned.schema.classes
    counts = answer.blocks[0]
    shares = estimate_prevalences(
        counts.sum(axis=0),
        len(counts) * answer.noise_variance,
        declared=assumed_size([card.round_size], len(learned.source)),
        records_per_unit=card.most_records_per_unit,
    )
    named = dict(zip(classes, shares, strict=True))
    return {classes[1]: named[classes[1]]} if len(classes) == len("01") else named


def cost_object(deployed: DeployedStudy, result: StudyResult) -> Object:
    """The exact cost as a JSON object; rationals are texts."""
    plans = [("fit", result.learned.study, result.learned.epsilon_claimed)]
    if result.validation_study is not None:
        claimed = result.validation.epsilon_claimed if result.validation else deployed.study.budget.validation
        plans.append(("validation", result.validation_study, claimed or Fraction(0)))
    return cost_of(deployed, plans)


def cost_of(deployed: DeployedStudy, plans: Sequence[tuple[str, Study, Fraction]]) -> Object:
    """The exact cost of studies, each with its name and what its plan announced."""
    newest = newest_receipts([study for _, study, _ in plans])
    return {
        "learner": deployed.key.public.hex(),
        "claimed": {plan: str(claimed) for plan, _, claimed in plans},
        "curators": {
            name: {
                "key": key.hex(),
                **{
                    plan: {
                        "spent": str(study.spent(name)),
                        "at_most": str(study.spent_at_most(name)),
                        "state": study.sessions[name].state.value,
                    }
                    for plan, study, _ in plans
                },
                "spent": str(sum((study.spent(name) for _, study, _ in plans), Fraction(0))),
                "at_most": str(sum((study.spent_at_most(name) for _, study, _ in plans), Fraction(0))),
                "newest_receipt": digest(newest[name]).hex() if name in newest else None,
            }
            for name, key in deployed.curators.items()
        },
    }


def _expected(estimate: AccuracyEstimate) -> Object:
    values = {name: getattr(estimate, name) for name in EXPECTED}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}


def _expected_errors(learned: Learned) -> Object | None:
    """Expected R^2 and mean errors in the label's units, with 95 % intervals; None if nobody was asked."""
    models = learned.models.get(POOLED, [])
    error = models[-1].error if models and isinstance(models[-1], NumberModel) else None
    if error is None:
        return None
    return {
        "r2": _triple(error.r2, error.r2_low, error.r2_high),
        "mean_absolute_error": _triple(error.absolute, error.absolute_low, error.absolute_high),
        "mean_squared_error": _triple(error.value, error.low, error.high),
    }


def _triple(*values: float | None) -> list[float] | None:
    numbers = [value for value in values if value is not None]
    return numbers if len(numbers) == len(values) else None


def _expected_recalls(learned: Learned) -> Object | None:
    """Expected recall of each of more than two classes, with 95 % intervals; None if the answers cannot tell."""
    estimate = learned.estimates.get(POOLED)
    if not isinstance(estimate, ClassesEstimate) or estimate.recalls is None:
        return None
    recalls = zip(learned.schema.classes, estimate.recalls, strict=True)
    return {name: [recall.value, recall.low, recall.high] for name, recall in recalls}


def _ends(interval: Any) -> list[float]:
    return [float(interval.value), float(interval.low), float(interval.high)]


def _parts(learned: Learned) -> list[Object]:
    """What each attribute adds to an additive model, the strongest first; empty of another model."""
    models, schema = learned.models.get(POOLED, []), learned.schema
    if not models or not isinstance(models[-1], AdditiveModel):
        return []
    parts = []
    for shape in models[-1].shape_functions:
        attribute = schema.find(shape.attribute)
        number = attribute if isinstance(attribute, NumericAttribute) else None
        parts.append(
            {
                "attribute": shape.attribute,
                "units": schema.measure(shape.attribute),
                "description": attribute.description if attribute else "",
                "bounds": None if number is None else [number.lower, number.upper],
                "bins": [asdict(bin_) for bin_ in shape.bins],
            }
        )
    return parts


def _validated(validation: Validation) -> Object:
    pooled, fitted = validation.pooled, validation.recalibration
    return {
        "epsilon": str(validation.epsilon_claimed),
        "records": _ends(pooled.records),
        "prevalence": _ends(pooled.prevalence),
        "auc": _ends(pooled.area),
        "points": [
            {"rule": point.rule, "threshold": point.threshold}
            | {name: _ends(getattr(point, name)) for name in ("flagged", "sensitivity", "specificity", "ppv", "npv")}
            for point in pooled.points
            if point.rule
        ],
        "calibration": [
            {"predicted": float(row.predicted), "observed": _ends(row.observed), "records": _ends(row.records)}
            for row in pooled.calibration
        ],
        "recalibration": fitted
        and {
            "on": fitted.on,
            "intercept": _ends(fitted.intercept),
            "slope": _ends(fitted.slope),
            "bayes_factor": fitted.factor,
        },
    }


def _save_models(deployed: DeployedStudy, result: StudyResult, folder: Path) -> None:
    validation = result.validation
    model = StudyModel.of(result.learned, recalibration=validation.recalibration if validation else None)
    if not all(map(kept_in_files, model.models.values())):
        return
    about = {"learner": deployed.study.learner, "strategy": deployed.study.strategy, "study": deployed.study.title}
    about["expril"] = deployed.version
    write_private(folder / f"model{SUFFIX}", encode_model(replace(model, about=about)))


def _save_transcripts(deployed: DeployedStudy, studies: list[Study], folder: Path) -> Iterator[TranscriptEntry]:
    """Write the transcript of every session, including sessions that were replaced before any question."""
    sessions: list[tuple[str, int, Session]] = [
        (name, number, study.sessions[name]) for number, study in enumerate(studies) for name in deployed.curators
    ]
    extra = GIVEN_UP
    for study in studies:
        for name in deployed.curators:
            for session in study.retired[name]:
                sessions.append((name, extra, session))
                extra += 1
    for place, (name, number, session) in enumerate(sessions):
        write_private(folder / transcript_file(place), encode_transcript(session.transcript))
        yield TranscriptEntry(
            file=transcript_file(place),
            repeat=0,
            learner=deployed.study.learner,
            curator=name,
            label=NOT_PRIVATE_LABEL if session.not_private else LABEL,
            head=session.transcript.head.hex(),
            envelopes=len(session.transcript.envelopes),
            state=session.state.value,
            study=number,
        )


def newest_receipts(studies: list[Study]) -> dict[str, bytes]:
    """Each curator's newest receipt envelope, by name."""
    return {
        name: session.newest_receipt
        for study in studies
        for name, session in study.sessions.items()
        if session.newest_receipt
    }


def pretty(value: Object) -> bytes:
    """Indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
