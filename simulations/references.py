"""Labelled test records, and the predictions of references: the best constant and non-private regressions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge

from learner_node.models.source import coordinates, standardising_map
from protocol.record_frames import encode_frame, encode_labels, encode_numbers
from protocol.records import Records
from simulations.records import SiteRecords

Labels = NDArray[Any]
"""(n,) class indices (uint8), or numbers (float64) within the label's bounds."""


Floats = NDArray[np.float64]
FOLDS = 5
STRENGTHS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
"""Of which a site chooses its own regression's: scikit-learn's C, or 1 / alpha of ridge regression."""


@dataclass(frozen=True)
class Answers:
    """A predictor's answers for n test records, beside the true labels."""

    labels: Labels  # (n,) true labels
    predicted: Labels  # (n,) of the same kind
    probabilities: NDArray[np.float64] | None = None  # (n, C), or None where there are none


@dataclass(frozen=True)
class Reference:
    """Answers of the best constant and of a non-private model for each test record."""

    majority: Answers
    regression: Answers  # at scikit-learn's default strength of regularisation
    tuned: Answers | None = None  # at a strength that the site chose on its own records; None for all sites together


@dataclass(frozen=True)
class LabelledRecords:
    """Encoded records with their labels; `classes` is their number, 0 where the label is a number."""

    records: Records
    labels: Labels
    classes: int

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> "LabelledRecords":
        """The records at `rows`, in that order."""
        return LabelledRecords(self.records.take(rows), self.labels[rows], self.classes)


def labelled(frame: pl.DataFrame, site: SiteRecords) -> LabelledRecords:
    """Encode a site's frame by its schema, with labels.

    Numeric labels are not rounded, as learners are scored on these.
    """
    schema = site.steward.schema
    column = frame[schema.label]
    labels: Labels
    if schema.label_bounds is None:
        labels = encode_labels(column, schema.classes)
    else:
        labels = encode_numbers(column, schema.label_bounds)
    return LabelledRecords(encode_frame(frame, schema), labels, len(schema.classes))


def references(sites: Mapping[str, SiteRecords]) -> tuple[dict[str, Reference], dict[str, Reference]]:
    """Return two references for each site's test records: one learnt from the site alone, and one from all sites.

    The non-private model (logistic, or for a number ridge regression) is learnt from the private records that count.
    A site's own is also tuned by cross-validation on these. The constant is the majority class or mean of the test
    records themselves, so it is the strongest possible.
    """
    private = {name: labelled(site.counted, site) for name, site in sites.items()}
    tests = {name: labelled(site.test, site) for name, site in sites.items()}
    first = next(iter(private.values()))
    everything = LabelledRecords(
        Records(
            first.records.schema,
            np.concatenate([part.records.numeric for part in private.values()]),
            np.concatenate([part.records.categorical for part in private.values()]),
        ),
        np.concatenate([part.labels for part in private.values()]),
        first.classes,
    )
    common = _best_constant(np.concatenate([test.labels for test in tests.values()]), first.classes)
    local = {
        name: _reference(private[name], test, _best_constant(test.labels, test.classes), folds_of(site, private[name]))
        for (name, test), site in zip(tests.items(), sites.values(), strict=True)
    }
    pooled = {name: _reference(everything, test, common) for name, test in tests.items()}
    return local, pooled


def cross_validated(private: LabelledRecords, units: NDArray[np.intp] | None = None) -> Answers | None:
    """A site's own tuned regression, for each of its records learnt from the other folds alone.

    `units` are as in `alike_folds`. None where there are not two folds with all classes.
    """
    folds = alike_folds(private, units)
    predicted = np.empty(len(private.labels), private.labels.dtype)
    probabilities = np.zeros((len(private.labels), private.classes)) if private.classes else None
    if not folds.any():
        return None
    for fold in range(folds.max() + 1):
        there = folds == fold
        learnt, rest = private.take(~there), private.take(there)
        answers = tuned_regression(learnt, rest, None if units is None else units[~there])
        if answers is None:
            return None
        predicted[there] = answers.predicted
        if probabilities is not None and answers.probabilities is not None:
            probabilities[there] = answers.probabilities
    return Answers(private.labels, predicted, probabilities)


def tuned_regression(private: LabelledRecords, test: LabelledRecords, units: NDArray[np.intp] | None) -> Answers | None:
    """A site's own tuned regression on other records of it; None where it learns no probabilities.

    `units` are those of the private records, as in `alike_folds`.
    """
    answers = _reference(private, test, 0.0, alike_folds(private, units)).tuned
    return None if answers is None or (private.classes and answers.probabilities is None) else answers


def _best_constant(labels: Labels, classes: int) -> float:
    """The most frequent class (the first of equals), or the mean."""
    return float(np.bincount(labels, minlength=classes).argmax()) if classes else float(labels.mean())


def _reference(
    train: LabelledRecords, test: LabelledRecords, constant: float, folds: NDArray[np.intp] | None = None
) -> Reference:
    """The references of one training set; `folds` (n,) numbers each training record's fold, and asks for `tuned`."""
    always = Answers(test.labels, np.full(len(test.labels), constant))
    if len(np.unique(train.labels)) == 1:
        same = Answers(test.labels, np.full(len(test.labels), train.labels[0]))
        return Reference(always, same, None if folds is None else same)
    features = standardising_map(train.records)
    points, test_points = coordinates(features, train.records), coordinates(features, test.records)
    plain = _answers(_model(points, train.labels, train.classes, 1.0), test_points, test)
    if folds is None:
        return Reference(always, plain)
    strength = best_strength(points, train.labels, train.classes, folds)
    tuned = _answers(_model(points, train.labels, train.classes, strength), test_points, test)
    return Reference(always, plain, tuned)


def _model(points: Floats, labels: Labels, classes: int, strength: float) -> LogisticRegression | Ridge:
    """A regression whose penalty is divided by `strength`."""
    if not classes:
        return Ridge(alpha=1.0 / strength).fit(points, labels)
    return LogisticRegression(C=strength, max_iter=2000).fit(points, labels)


def _answers(model: LogisticRegression | Ridge, points: Floats, test: LabelledRecords) -> Answers:
    if isinstance(model, Ridge):
        return Answers(test.labels, model.predict(points))
    return Answers(test.labels, model.predict(points), _probabilities(model, points, test.classes))


def _probabilities(model: LogisticRegression, points: Floats, classes: int) -> Floats:
    """P(class) of each point, (n, C); 0 for a class that no training record has."""
    probabilities = np.zeros((len(points), classes))
    probabilities[:, model.classes_] = model.predict_proba(points)
    return probabilities


def folds_of(site: SiteRecords, private: LabelledRecords) -> NDArray[np.intp]:
    """The fold of each of a site's private records, (n,): records of a unit share one, and folds have alike labels.

    There are `FOLDS`, or as many as the rarest class has units.
    """
    unit = site.steward.unit if site.steward.unit in site.counted.columns else None
    return alike_folds(
        private, None if unit is None else np.unique(site.counted[unit].to_numpy(), return_inverse=True)[1]
    )


def alike_folds(private: LabelledRecords, units: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """`folds_of` records whose units are numbered from 0, (n,); None: each record is one."""
    groups = np.arange(len(private.labels)) if units is None else np.unique(units, return_inverse=True)[1]
    labels = np.full(groups.max() + 1, -np.inf)
    np.maximum.at(labels, groups, private.labels)
    folds = FOLDS
    if private.classes:
        folds = min(FOLDS, int(np.unique(labels, return_counts=True)[1].min()))
    order = np.lexsort((np.random.default_rng(0).random(len(labels)), labels))
    numbers = np.empty(len(labels), dtype=np.intp)
    numbers[order] = np.arange(len(labels)) % folds
    return numbers[groups]


def best_strength(points: Floats, labels: Labels, classes: int, folds: NDArray[np.intp]) -> float:
    """Of `STRENGTHS` the one with the least loss in cross-validation; 1 where there are not two folds with all classes.

    The loss is minus the logarithm of the probability of the record's class, or the squared error of a number.
    """
    losses, everything = np.zeros(len(STRENGTHS)), len(np.unique(labels))
    for fold in range(folds.max() + 1):
        there = folds == fold
        if there.all() or (classes and len(np.unique(labels[~there])) < everything):
            return 1.0
        for place, strength in enumerate(STRENGTHS):
            model = _model(points[~there], labels[~there], classes, strength)
            if isinstance(model, Ridge):
                losses[place] += np.sum((model.predict(points[there]) - labels[there]) ** 2)
            else:
                chances = _probabilities(model, points[there], classes)[np.arange(there.sum()), labels[there]]
                losses[place] -= np.sum(np.log(np.maximum(chances, 1e-12)))
    return STRENGTHS[int(losses.argmin())]
