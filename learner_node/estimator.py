"""Estimators for scikit-learn users: one `fit` is one study with the curators of a federation.

`learner_node.study.learn` says what a study does. This module turns tables into records, and predictions into class
names or numbers.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from learner_node.models.source import as_frame, height_of
from learner_node.models.synthetic import (
    MixedModel,
    held_columns,
    mixed,
    mixed_numbers,
    pooled_estimate,
    synthetic_frame,
    write_frame,
)
from learner_node.questions.validation import Validation, validate
from learner_node.scores.clinical import ClinicalScores, clinical_scores, positive_of
from learner_node.scores.estimates import AccuracyEstimate
from learner_node.scores.performance import Interval
from learner_node.scores.recalibration import Recalibration
from learner_node.scores.thresholds import DEFAULT_THRESHOLDS, Threshold
from learner_node.strategies import ANY_LABEL, DEFAULT_STRATEGY
from learner_node.strategies.base import (
    AnyEstimate,
    AnyModel,
    ClassesEstimate,
    ErrorEstimate,
    NumberModel,
    SourceEstimate,
    class_probabilities,
)
from learner_node.strategies.selected import ManyAttributesWarning
from learner_node.study.budget import Budget
from learner_node.study.doubts import StudyWarning, doubts_about, require_confirmed
from learner_node.study.federation import Federation
from learner_node.study.learn import Learned, learn
from learner_node.study.pooling import POOLED, SUM, Pooling, PoolingName
from learner_node.study.study import Study
from protocol.errors import ConfigurationError
from protocol.record_frames import encode_frame
from protocol.records import Records
from protocol.schema import Schema

Floats = NDArray[np.float64]
UNPICKLED = ("federation", "study_", "learned_")
"""Attributes that a pickle omits: they hold the learner's signing key, connections and transcripts."""


class StudyEstimator(BaseEstimator):
    """The common base of classifier and regressor: one `fit` is one study.

    Args:
        federation: whom to ask, and how. `clone` does not copy it. If its `all_or_none` is set, a study that one
            curator refuses is opened nowhere and costs nothing.
        strategy: a name of `learner_node.strategies`.
        options: the strategy's options.
        epsilon: epsilon to spend at each curator: 1, "1/3", 0.7 (taken as the decimal that it prints as) or a Fraction.
        pooling: "sum": one model of the summed answers; "site": one model per curator; "secure": one model of sums that
            curators open together, see docs/learner/learner.md.
        colluders, dropouts: with "secure", as in `learner_node.study.pooling.Pooling`.
        purpose: what the stewards read about the study.
        validation: largest epsilon of a later `validate`; the stewards read of it together with the study.
        large_epsilon: confirms an epsilon of 100 or more, which protects nothing; otherwise such an epsilon is refused
            as a slip (100 for 1.00).
        random_state: seeds the learner's own choices (k-means, networks), never the curators' noise.

    Attributes:
        n_features_in_: number of attributes on the card.
        feature_names_in_: their names, where `fit` got a table with column names.
        schema_: the card's schema.
        models_, estimates_: final model and source estimate, under "" or (pooling "site") under curators' names.
        accuracy_estimate_: expected accuracy of a pooled model on records like the private ones, with an interval and
            the verdict whether it beats the majority class. It is computed from the same answers; None with pooling
            "site" (see `estimates_`) or where the strategy's answers do not determine it.
        population_: a sentence on which records the curators count, by their cards; "" where each record is a privacy
            unit. `learner_node.study.cards.counted` reduces a source likewise.
        study_, learned_: the study with its transcripts, and all its results; not kept in a pickle.
        epsilon_claimed_: exact cost of the plan at the costliest curator.
        epsilon_spent_: curator -> exact epsilon that its receipts charge to this study.
        left_out_: curator whose answers are in no model -> the reason in words: it did not answer or refused, or its
            card or its answers cannot be true.
    """

    def __init__(  # noqa: PLR0913 - each is stated alone
        self,
        federation: Federation | None = None,
        *,
        strategy: str = DEFAULT_STRATEGY,
        options: Mapping[str, Any] | None = None,
        epsilon: float | str | Fraction = 1,
        pooling: PoolingName = SUM,
        colluders: int | None = None,
        dropouts: int | None = None,
        purpose: str = "",
        validation: float | str | Fraction | None = None,
        large_epsilon: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.federation = federation
        self.strategy = strategy
        self.options = options
        self.epsilon = epsilon
        self.pooling = pooling
        self.colluders = colluders
        self.dropouts = dropouts
        self.purpose = purpose
        self.validation = validation
        self.large_epsilon = large_epsilon
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Run one study.

        Args:
            X: unlabelled source records: a table whose columns include the card's attributes (polars, or anything
                with `columns` and `[name]`; other columns are ignored, unless `synthetic_data` is told to keep them),
                or a 2-d array whose columns are the card's attributes in order.
            y: ignored; labels of the source are never needed or used.

        Raises:
            ConfigurationError: there is no federation, or a parameter, a record or the plan is wrong; nothing was
                charged.
            NoCuratorError: no curator accepted, or none answered everything; the text says what became of each.

        Warns:
            StudyWarning: the study may bring less than it costs (`doubts.doubts_about`); nothing was asked yet.
        """
        if self.federation is None:
            name = type(self).__name__
            raise ConfigurationError(f"no federation: pass {name}(Federation(...)), whom to ask and how")
        return self._fit(self.federation, X)

    def synthetic_data(
        self, curator: str | None = None, *, weight: str = "weight", keep: Sequence[str] = ()
    ) -> pl.DataFrame:
        """Return the source as weighted, labelled records that stand in for the private ones.

        Args:
            curator: as in `predict_proba`.
            weight: name of the column of weights.
            keep: further columns of the source to keep, such as its identifiers. Whoever gets the data sees them.

        Returns:
            n source records. First come the card's attributes in its order: Float64 or String, with the learner's own
            values (not clipped to the bounds; null where missing). Then come the `keep` columns, `weight` (private
            records that the row stands for) and `<label>`: a number's expected value, or the likeliest class. For
            classes, `<label>_probability` follows: of the positive class, or of the likeliest one of more than two.

        Raises:
            NotFittedError: before `fit`.
            ConfigurationError: a kept column has the name of an added one, or `keep` names a column that cannot be
                kept.
        """
        check_is_fitted(self, "models_")
        estimate = pooled_estimate([self.estimates_[name] for name in self._names(curator)])
        source = held_columns(self._source, self.schema_, keep)
        classes = getattr(self, "classes_", np.array(self.schema_.classes))
        return synthetic_frame(source, estimate, label=self.schema_.label, classes=classes, weight=weight)

    def write_synthetic(
        self, path: str | Path, curator: str | None = None, *, weight: str = "weight", keep: Sequence[str] = ()
    ) -> None:
        """Write `synthetic_data` to a `.csv` or `.parquet` file."""
        write_frame(self.synthetic_data(curator, weight=weight, keep=keep), path)

    def _fit(self, federation: Federation, X: Any) -> Self:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        frames: list[pl.DataFrame] = []

        def encode(schema: Schema) -> Records:
            self._check_label(schema)
            frames.append(as_frame(X, schema))
            return encode_frame(frames[-1], schema)

        budget, pooling = Budget(self.epsilon, self.purpose, validation=self.validation), self._pooling
        self._confirm(budget.epsilon, budget.validation)
        size = {"records": height_of(X), "curators": len(federation.curators)}
        for doubt in doubts_about(self.options, pooling=pooling, **size):
            warnings.warn(doubt, StudyWarning, stacklevel=3)
        learned = learn(
            federation,
            encode,
            budget,
            strategy=self.strategy,
            options=self.options,
            pooling=pooling,
            seed=seed,
        )
        if learned.advice:
            warnings.warn(learned.advice, ManyAttributesWarning, stacklevel=3)
        self._keep(learned, frames[-1], named=hasattr(X, "columns"))
        return self

    @property
    def _pooling(self) -> Pooling:
        return Pooling(self.pooling, self.colluders, self.dropouts)

    def _confirm(self, *epsilons: Fraction | None) -> None:
        if not self.large_epsilon:
            require_confirmed(filter(None, epsilons), how="large_epsilon=True")

    def _keep(self, learned: Learned, source: pl.DataFrame, *, named: bool) -> None:
        schema = learned.schema
        self.learned_ = learned
        self.study_: Study = learned.study
        self.schema_ = schema
        self.models_: dict[str, AnyModel] = {name: learned.model(name) for name in learned.estimates}
        self.estimates_: dict[str, AnyEstimate] = learned.estimates
        pooled = learned.estimates.get(POOLED)
        accuracy = pooled.accuracy if isinstance(pooled, SourceEstimate) else None
        self.accuracy_estimate_: AccuracyEstimate | None = accuracy
        self.n_features_in_ = len(schema.attributes)
        self.epsilon_claimed_ = learned.epsilon_claimed
        self.epsilon_spent_ = {name: learned.study.spent(name) for name in learned.study.sessions}
        self.left_out_ = learned.study.left_out
        self.population_ = learned.population
        self._source = source
        self.__dict__.pop("feature_names_in_", None)
        if named:
            self.feature_names_in_ = np.array([attribute.name for attribute in schema.attributes], object)

    def _records(self, X: Any) -> Records:
        return encode_frame(as_frame(X, self.schema_), self.schema_)

    def _names(self, curator: str | None) -> list[str]:
        if curator is None:
            return list(self.models_)
        if curator == POOLED or curator not in self.models_:
            curators = ", ".join(name for name in self.models_ if name) or "none, since the answers were pooled"
            raise ConfigurationError(f"no model of a curator {curator!r}; models of their own: {curators}")
        return [curator]

    def _check_label(self, schema: Schema) -> None:
        """Raise ConfigurationError where the card's label is not of this estimator's kind."""
        raise NotImplementedError

    def _masses(self, names: list[str]) -> list[float]:
        """Estimated number of private records behind each model."""
        return [float(self.estimates_[name].weights.sum()) for name in names]

    def _predictions(
        self, X: Any, curator: str | None, predict: Callable[[Any, Records], Floats]
    ) -> tuple[list[float], list[Floats]]:
        """Mass and (n, ...) predictions of each model: the named curator's or the pooled one, else every site's."""
        check_is_fitted(self, "models_")
        records, names = self._records(X), self._names(curator)
        return self._masses(names), [predict(self.models_[name], records) for name in names]

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {name: value for name, value in super().__getstate__().items() if name not in UNPICKLED}
        return state | ({"federation": None} if "federation" in self.__dict__ else {})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.non_deterministic = True
        return tags


class ExPriLClassifier(ClassifierMixin, StudyEstimator):
    """A classifier learnt from the differentially private answers of curators.

    **Every `fit` is a new study and spends `epsilon` of the learner's budget at every curator.** A search over
    parameters or a cross-validation that refits spends it again each time; try those on a simulation
    (`simulations.local.SimulatedExPriLClassifier`) instead.

    Args: those of `StudyEstimator`.

    Attributes:
        classes_: (C,) class names of the curators' card; of two, the second is the positive one.
        recalls_: for a pooled model of more than two classes, class name -> its expected recall with a 95 % interval,
            from the same answers; empty where they do not determine it.
        recalibrated_: after `validate(..., recalibrate=True)`, a copy with recalibrated risks in the same order. Risks
            stay as they are unless the answers favour the change. These answers do not validate the copy.

    And those of `StudyEstimator`. A label that is a number needs `ExPriLRegressor`.
    """

    recalibration_: Recalibration | None = None

    def predict(self, X: Any, curator: str | None = None) -> NDArray[np.generic]:
        """The likeliest class of each record, (n,); the first class wins ties. Arguments as `predict_proba`."""
        likeliest = self.predict_proba(X, curator).argmax(axis=1)
        predicted: NDArray[np.generic] = self.classes_[likeliest]
        return predicted

    def predict_proba(self, X: Any, curator: str | None = None) -> Floats:
        """Class probabilities, (n, C) in the order of `classes_`.

        Args:
            X: records, in either form that `fit` takes.
            curator: with pooling "site", the curator whose model predicts. None mixes the sites' models by the number
                of records that each answered for.

        Raises:
            NotFittedError: before `fit`.
            ConfigurationError: that curator has no model, or the records do not fit the card.
        """
        masses, rows = self._predictions(X, curator, class_probabilities)
        if len(self.schema_.classes) > 2:
            return mixed(masses, rows)
        positive = mixed(masses, [row[:, 1] for row in rows])
        positive = self.recalibration_.probability(positive) if self.recalibration_ else positive
        return np.column_stack([1.0 - positive, positive])

    def clinical_scores(
        self, X: Any, y: Any, thresholds: Sequence[Threshold] = DEFAULT_THRESHOLDS, curator: str | None = None
    ) -> ClinicalScores:
        """AUC, calibration, sensitivity and the like on records whose labels the user owns.

        No curator is asked and nothing is spent. The scores are computed from `y` and disclose something about it.

        Args:
            X: records, in either form that `fit` takes.
            y: (n,) their classes, each one of `classes_`; the second of these is the positive one.
            thresholds: as in `learner_node.scores.clinical.clinical_scores`; "prevalence" is estimated from the
                answers.
            curator: as in `predict_proba`.

        Raises:
            NotFittedError: before `fit`.
            ConfigurationError: there are more than two classes, `y` has another length or other values, a threshold is
                wrong, or `predict_proba` raises it.
        """
        check_is_fitted(self, "models_")
        probability = self.predict_proba(X, curator)[:, -1]
        positive = positive_of(y, self.classes_, len(probability))
        estimate = pooled_estimate([self.estimates_[name] for name in self._names(curator)])
        prevalence = estimate.prevalence if isinstance(estimate, SourceEstimate) else None
        return clinical_scores(positive, probability, thresholds, prevalence=prevalence)

    def validate(
        self,
        epsilon: float | str | Fraction,
        *,
        curator: str | None = None,
        thresholds: Sequence[Threshold] | None = None,
        bins: int | None = None,
        purpose: str = "",
        recalibrate: bool = False,
    ) -> Validation:
        """Ask the curators how good the model is; a study of its own, which spends `epsilon`.

        Args:
            epsilon: to spend at each curator.
            curator: the curator whose model is validated, as in `predict_proba`; all curators are asked about it.
            thresholds: as in `learner_node.questions.validation.validate`.
            bins: as in that function.
            purpose: what the stewards read about the validation.
            recalibrate: whether the answers recalibrate the model, too, at no further cost, see `recalibrated_`.

        Raises:
            NotFittedError: before `fit`.
            ConfigurationError: there is no federation (a pickle omits it), or an argument does not fit.
            NoCuratorError: no curator both accepted and answered.
        """
        check_is_fitted(self, "models_")
        if self.federation is None:
            raise ConfigurationError("no federation: set the attribute federation, whom to ask and how")
        study = getattr(self, "study_", None)
        budget = Budget(epsilon, purpose, validates=None if study is None else study.accepted)
        self._confirm(budget.epsilon)
        model, source = self.to_validate(curator)
        validation = validate(
            self.federation,
            model,
            budget,
            source=source,
            thresholds=thresholds,
            bins=bins,
            pooling=self._pooling,
            recalibrated=recalibrate,
        )
        if validation.recalibration is not None:
            self.recalibrated_ = copy(self)
            self.recalibrated_.recalibration_ = validation.recalibration
        return validation

    def to_validate(self, curator: str | None = None) -> tuple[AnyModel, pl.DataFrame]:
        """The model as one function of records, and the source, as `validation.validate` takes them."""
        check_is_fitted(self, "models_")
        names = self._names(curator)
        models = [self.models_[name] for name in names]
        model = models[0] if len(models) == 1 else MixedModel(tuple(models), tuple(self._masses(names)))
        return model, self._source

    def _keep(self, learned: Learned, source: pl.DataFrame, *, named: bool) -> None:
        super()._keep(learned, source, named=named)
        for name in ("recalibration_", "recalibrated_"):
            self.__dict__.pop(name, None)
        self.classes_: NDArray[np.generic] = np.array(learned.schema.classes)
        pooled = learned.estimates.get(POOLED)
        recalls = (pooled.recalls if isinstance(pooled, ClassesEstimate) else None) or ()
        self.recalls_: dict[str, Interval] = dict(zip(learned.schema.classes, recalls, strict=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.strategy in ANY_LABEL
        return tags

    def _check_label(self, schema: Schema) -> None:
        if schema.label_bounds is not None:
            raise ConfigurationError(f"the label {schema.label!r} is a number: use ExPriLRegressor")


class ExPriLRegressor(RegressorMixin, StudyEstimator):
    """A regressor learnt from the differentially private answers of curators.

    **Every `fit` is a new study and spends `epsilon` of the learner's budget at every curator.**

    Args: those of `StudyEstimator`.

    Attributes:
        errors_: key of `models_` -> estimate of the model's mean squared error from the curators' answers, with a 95 %
            interval. A model whose error was not asked (option `error_share`) is missing.

    And those of `StudyEstimator`. A label of classes needs `ExPriLClassifier`.
    """

    def predict(self, X: Any, curator: str | None = None) -> Floats:
        """Return the expected label of each record: (n,), within the label's bounds and in its units.

        Arguments and errors are those of `ExPriLClassifier.predict_proba`.
        """
        return mixed_numbers(*self._predictions(X, curator, lambda model, records: model.predict_number(records)))

    def _keep(self, learned: Learned, source: Any, *, named: bool) -> None:
        super()._keep(learned, source, named=named)
        errors = {name: model.error for name, model in self.models_.items() if isinstance(model, NumberModel)}
        self.errors_: dict[str, ErrorEstimate] = {name: error for name, error in errors.items() if error is not None}

    def _check_label(self, schema: Schema) -> None:
        if schema.label_bounds is None:
            raise ConfigurationError(f"the label {schema.label!r} has classes: use ExPriLClassifier")
