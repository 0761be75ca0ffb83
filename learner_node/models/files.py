"""What a study learnt, in a file: it loads in Python and predicts, and holds no pickle and no code.

A file is a safetensors file: arrays, and one JSON text with the schema and with everything of the models that is no
array (`model_codec`). The kind of each model is a key of `KINDS`; a class that is not in this table is never made.
"""

import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from learner_node.models.codec import Arrays, put_together, take_apart
from learner_node.models.source import as_frame
from learner_node.models.synthetic import mixed, mixed_numbers
from learner_node.scores.recalibration import Recalibration
from learner_node.strategies.base import AnyModel, NumberModel, class_probabilities
from learner_node.study.learn import Learned
from learner_node.study.pooling import POOLED
from protocol.errors import ConfigurationError, ExprilError, printable
from protocol.record_frames import encode_frame
from protocol.records import MISSING_CODE, Records
from protocol.schema import NumericAttribute, Schema
from protocol.strict_json import UNREADABLE, decode_json, in_short

FORMAT = 1
METADATA = "expril model"
"""Key of the JSON text in the file."""
SUFFIX = ".safetensors"
MODELS, RESULT = "models", "result"
"""Folder of a run's models; folder of the result, in a learner's folder of a study."""
KINDS = {
    "additive": "learner_node.strategies.additive:AdditiveModel",
    "cells by probit": "learner_node.strategies.cells:CellsModel",
    "cells of classes by probit": "learner_node.strategies.cells:CellsClassesModel",
    "in-site forest": "learner_node.kinds.models.classifiers:ForestModel",
    "in-site linear": "learner_node.kinds.models.classifiers:LinearInSite",
    "in-site naive Bayes": "learner_node.kinds.models.classifiers:NaiveBayesModel",
    "in-site regression": "learner_node.kinds.models.moments:RidgeModel",
    "network": "learner_node.strategies.paper:NetworkModel",
    "network of a number": "learner_node.strategies.cells_number:NetworkNumberModel",
}
"""Model kind -> class as "module:name". A kind never changes its meaning; a new class gets a new kind."""

_BLOCK = 65_536

Floats = NDArray[np.float64]


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model: kind, number of private records behind it, and state."""

    kind: str
    mass: float
    state: Any


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON text of a file."""

    format: int
    schema: Schema
    models: dict[str, _Stored]
    about: dict[str, str] = {}
    recalibration: Recalibration | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True)
class StudyModel:
    """The models of one study, with the schema of their records."""

    schema: Schema  # attributes, label and classes, as on the curators' cards
    models: dict[str, AnyModel]  # under "" the pooled model, or under each curator's name its own
    masses: dict[str, float]  # under the same keys, estimated number of private records behind each
    # what the writer says of it (strategy, learner ...); text for people
    about: dict[str, str] = field(default_factory=dict)
    # by a validation's answers, which `recalibrated_` applies; None where none was asked for
    recalibration: Recalibration | None = None
    recalibrates: bool = False  # whether `predict_proba` applies it

    @classmethod
    def of(
        cls, learned: Learned, about: Mapping[str, str] | None = None, recalibration: Recalibration | None = None
    ) -> "StudyModel":
        """The models of a finished study, such as `StudyModel.of(estimator.learned_)`."""
        return cls(
            schema=learned.schema,
            models={name: learned.model(name) for name in learned.estimates},
            masses={name: float(estimate.weights.sum()) for name, estimate in learned.estimates.items()},
            about=dict(about or {}),
            recalibration=recalibration,
        )

    @property
    def recalibrated_(self) -> "StudyModel":
        """A copy with recalibrated risks if the validation's answers favour that, else with the same risks.

        Raises ConfigurationError: the study asked for no recalibration.
        """
        if self.recalibration is None:
            raise ConfigurationError(
                "this model was not recalibrated: write validate and recalibrate = true in STUDY.toml or the scenario"
            )
        return replace(self, recalibrates=True)

    @cached_property
    def classes_(self) -> NDArray[np.str_]:
        """(C,) class names; of two, the second is the positive one. Empty where the label is a number."""
        return np.array(self.schema.classes, np.str_)

    def predict_proba(self, X: Any, curator: str | None = None) -> Floats:
        """Class probabilities, (n, C) in the order of `classes_`.

        Args:
            X: a table whose columns include the schema's attributes (polars, or anything with `columns` and `[name]`),
                or a 2-d array whose columns are the attributes in order.
            curator: the curator whose model predicts, if each has one; None mixes them by their masses.

        Raises:
            ConfigurationError: that curator has no model, the label is a number, or the records do not fit.
        """
        if self.schema.label_bounds is not None:
            raise ConfigurationError(f"the label {self.schema.label!r} is a number: it has no class probabilities")
        return self.predict_records(self._records(X), curator)

    def predict(self, X: Any, curator: str | None = None) -> NDArray[Any]:
        """The likeliest class of each record, the first of equals, or the expected label where it is a number, (n,).

        Arguments and errors are those of `predict_proba`.
        """
        if self.schema.label_bounds is None:
            likeliest: NDArray[Any] = self.classes_[self.predict_proba(X, curator).argmax(axis=1)]
            return likeliest
        return self.predict_records(self._records(X), curator)

    def predict_records(self, records: Records, curator: str | None = None) -> Floats:
        """What `predict_proba` gives for encoded records, (n, C); where the label is a number, the expected one, (n,).

        Memory is bounded: models see at most 65,536 records at a time.

        Raises ConfigurationError: that curator has no model.
        """
        names = self._names(curator)
        starts = range(0, max(len(records), 1), _BLOCK)
        return np.concatenate([self._predict_block(records.take(slice(at, at + _BLOCK)), names) for at in starts])

    def _predict_block(self, records: Records, names: Sequence[str]) -> Floats:
        models, masses = [self.models[name] for name in names], [self.masses[name] for name in names]
        if self.schema.label_bounds is not None:
            numbers = [model.predict_number(records) for model in models if isinstance(model, NumberModel)]
            return numbers[0] if len(numbers) == 1 else mixed_numbers(masses, numbers)
        rows = [class_probabilities(model, records) for model in models]
        probabilities = rows[0] if len(rows) == 1 else mixed(masses, rows)
        if self.recalibration is None or not self.recalibrates:
            return probabilities
        positive = self.recalibration.probability(probabilities[:, 1])
        return np.column_stack([1.0 - positive, positive])

    def _records(self, X: Any) -> Records:
        return encode_frame(as_frame(X, self.schema), self.schema)

    def _names(self, curator: str | None) -> list[str]:
        if curator is None:
            return list(self.models)
        if curator == POOLED or curator not in self.models:
            curators = ", ".join(name for name in self.models if name) or "none, since the answers were pooled"
            raise ConfigurationError(f"no model of a curator {curator!r}; models of their own: {curators}")
        return [curator]


def kept_in_files(model: AnyModel) -> bool:
    """Whether a file can hold the model, as its class is in `KINDS`."""
    return type(model) in {_class_of(kind) for kind in KINDS}


def encode_model(model: StudyModel) -> bytes:
    """The bytes of a model's file; equal models give equal bytes.

    Raises TypeError: a model's class is not in `KINDS`.
    """
    arrays: Arrays = {}
    kinds = {_class_of(kind): kind for kind in KINDS}
    stored = {}
    for name, fitted in model.models.items():
        if type(fitted) not in kinds:
            raise TypeError(f"{type(fitted).__name__} is no kind of model that is kept in a file: it is not in KINDS")
        state = take_apart(fitted, type(fitted), arrays)
        stored[name] = _Stored(kinds[type(fitted)], model.masses[name], state)
    header = _Header(FORMAT, model.schema, stored, model.about, model.recalibration or msgspec.UNSET)
    return safetensors.numpy.save(arrays, metadata={METADATA: msgspec.json.encode(header).decode()})


def load(path: str | Path, learner: str | None = None, repeat: int = 0) -> StudyModel:
    """The model in a file, or in the folder of a run: `expril.load("runs/wdbc-20261121-191915").predict_proba(table)`.

    Args:
        path: a model file, or a folder with a folder `models` of them.
        learner: the learner whose model to load from a folder; None if the folder holds models of one learner only.
        repeat: the repeat whose model to load from a folder.

    Raises:
        ConfigurationError: there is no such model (the text lists those that exist), or the file is damaged.
    """
    where = Path(path)
    return load_model(find_model(where, learner, repeat) if where.is_dir() else where)


def load_model(path: str | Path) -> StudyModel:
    """Read what `encode_model` wrote: `load_model(path).predict_proba(table)`.

    Everything is checked first, including one prediction. A file holds no code, so none is run.

    Raises:
        ConfigurationError: the file does not exist, has another format or an unknown kind of model, or is damaged.
    """
    where = Path(path)
    if not where.is_file():
        raise ConfigurationError(f"no model file {where}")
    header, arrays = _read(where)
    unknown = sorted({stored.kind for stored in header.models.values()} - KINDS.keys())
    if unknown:
        raise ConfigurationError(
            f"{where} holds a kind of model that this ExPriL does not know ({printable(', '.join(unknown))}); "
            "load it with the version that wrote it, or a newer one"
        )
    try:
        models = {
            name: put_together(stored.state, _class_of(stored.kind), arrays) for name, stored in header.models.items()
        }
        masses = {name: stored.mass for name, stored in header.models.items()}
        loaded = StudyModel(header.schema, models, masses, header.about, header.recalibration or None)
        _check(loaded)
    except Exception as error:  # noqa: BLE001 - a damaged array may fail in whatever computes with it
        reason = printable(str(error)) if isinstance(error, ExprilError) else type(error).__name__
        raise ConfigurationError(f"{where} is damaged: its models cannot be made from it ({reason})") from None
    return loaded


def find_model(folder: Path, learner: str | None = None, repeat: int = 0) -> Path:
    """The model file of a learner and repeat in a folder, `models` or `result/models` in it, as the files' headers say.

    Raises ConfigurationError: there is none, or more than one; the text lists them.
    """
    places = (folder, folder / MODELS, folder / RESULT / MODELS)
    files = next((files for place in places if (files := sorted(place.glob(f"*{SUFFIX}")))), [])
    abouts = [(path, _read(path)[0].about) for path in files]
    here = [(path, about) for path, about in abouts if about.get("repeat", "0") == str(repeat)]
    matches = [path for path, about in here if learner is None or about.get("learner") == learner]
    if len(matches) == 1:
        return matches[0]
    there = ", ".join(f"{about.get('learner', path.name)} in repeat {about.get('repeat', 0)}" for path, about in abouts)
    if not abouts:
        raise ConfigurationError(f"{folder} holds no models; simulate keeps those of the first repeat (--models)")
    if not matches:
        raise ConfigurationError(f"{folder} holds no such model; it holds those of {printable(there, 1000)}")
    raise ConfigurationError(
        f"{folder} holds several models; say whose (learner=..., --learner): {printable(there, 1000)}"
    )


def _read(path: Path) -> tuple[_Header, Arrays]:
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(METADATA)
            arrays = {} if text is None else {name: np.array(file.get_tensor(name)) for name in file.offset_keys()}
    except (OSError, safetensors.SafetensorError, *UNREADABLE):
        raise ConfigurationError(f"{path} is no model file, or is damaged") from None
    if text is None:
        raise ConfigurationError(f"{path} is no model file of ExPriL: it does not say what its arrays are")
    plain = decode_json(text, where=str(path))
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ConfigurationError(f"{path} is not of format {FORMAT}, the one that this ExPriL reads")
    try:
        return msgspec.convert(plain, _Header), arrays
    except UNREADABLE as error:
        raise ConfigurationError(f"{path} is damaged, or of a newer ExPriL: {in_short(error)}") from None


def _check(model: StudyModel) -> None:
    """Predict for one record of missing values, which raises if arrays do not fit each other."""
    if not model.models:
        raise ConfigurationError("there is none")
    if model.recalibration is not None:
        _check_recalibration(model.recalibration, model.schema)
    numbers = sum(isinstance(attribute, NumericAttribute) for attribute in model.schema.attributes)
    record = Records(
        model.schema,
        np.full((1, numbers), np.nan),
        np.full((1, len(model.schema.attributes) - numbers), MISSING_CODE, np.int16),
    )
    shape: tuple[int, ...]
    for fitted in model.models.values():
        if model.schema.label_bounds is None:
            predictions, shape = class_probabilities(fitted, record), (1, len(model.schema.classes))
        elif isinstance(fitted, NumberModel):
            predictions, shape = fitted.predict_number(record), (1,)
        else:
            raise ConfigurationError("a model of classes, but the label is a number")
        if predictions.shape != shape or not np.isfinite(predictions).all():
            raise ConfigurationError("a prediction is no number")


def _class_of(kind: str) -> type[Any]:
    class_: type[Any] = pkgutil.resolve_name(KINDS[kind])
    return class_


def _check_recalibration(recalibration: Recalibration, schema: Schema) -> None:
    """Raise ConfigurationError for a map that does not keep the order of risks, or a label that has not two classes."""
    numbers = (recalibration.intercept.value, recalibration.slope.value, recalibration.factor)
    if len(schema.classes) != 2 or not np.isfinite(numbers).all() or recalibration.slope.value <= 0.0:
        raise ConfigurationError("its recalibration is none of two classes")
