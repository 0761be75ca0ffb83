"""The learner's door for scikit-learn users where the label is a number: as `estimator`, with numbers for classes."""

from typing import Any

from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from learner_node.estimator import Floats, StudyEstimator
from learner_node.models.synthetic import mixed_numbers
from learner_node.strategies.base import ErrorEstimate, NumberModel
from learner_node.study.learn import Learned
from protocol.errors import ConfigurationError
from protocol.schema import Schema


class ExPriLRegressor(RegressorMixin, StudyEstimator):
    """A regressor learnt from the differentially private answers of curators.

    **Every `fit` is a new study and spends `epsilon` of the learner's budget at every curator.**

    Args: those of `StudyEstimator`.

    Attributes:
        errors_: under the keys of `models_`, what the curators said about the model's mean squared error, with a 95 %
            interval; without those that were not asked (option `error_share`).

    And those of `StudyEstimator`. A label of classes needs `ExPriLClassifier`.
    """

    def predict(self, X: Any, curator: str | None = None) -> Floats:
        """The expected label of each record, (n,), within the label's bounds and in its units.

        Args:
            X: records, in either form that `fit` takes.
            curator: with pooling "site", whose model; None mixes the sites' models by the number of records
                that each answered for.

        Raises:
            NotFittedError: before `fit`.
            ConfigurationError: no model of that curator, or records that do not fit the card.
        """
        check_is_fitted(self, "models_")
        records = self._records(X)
        names = self._names(curator)
        models = [self.models_[name] for name in names]
        predicted = [model.predict_number(records) for model in models if isinstance(model, NumberModel)]
        return mixed_numbers(self._masses(names), predicted)

    def _keep(self, learned: Learned, source: Any, *, named: bool) -> None:
        super()._keep(learned, source, named=named)
        errors = {name: model.error for name, model in self.models_.items() if isinstance(model, NumberModel)}
        self.errors_: dict[str, ErrorEstimate] = {name: error for name, error in errors.items() if error is not None}

    def _check_label(self, schema: Schema) -> None:
        if schema.label_bounds is None:
            raise ConfigurationError(f"the label {schema.label!r} has classes: use ExPriLClassifier")
