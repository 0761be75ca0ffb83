"""Labelled test records, and the predictions of two references: the best constant and a non-private model."""

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


@dataclass(frozen=True)
class Answers:
    """A predictor's answers for n test records, beside the true labels."""

    labels: Labels  # (n,) true labels
    predicted: Labels  # (n,) of the same kind
    probabilities: NDArray[np.float64] | None = None  # (n, C), or None where there are none


@dataclass(frozen=True)
class Reference:
    """Answers of the best constant and of the non-private model for each test record."""

    majority: Answers
    regression: Answers


@dataclass(frozen=True)
class LabelledRecords:
    """Encoded records with their labels; `classes` is their number, 0 where the label is a number."""

    records: Records
    labels: Labels
    classes: int


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
    The constant is the majority class or mean of the test records themselves, so it is the strongest possible.
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
        name: _reference(private[name], test, _best_constant(test.labels, test.classes)) for name, test in tests.items()
    }
    pooled = {name: _reference(everything, test, common) for name, test in tests.items()}
    return local, pooled


def _best_constant(labels: Labels, classes: int) -> float:
    """The most frequent class (the first of equals), or the mean."""
    return float(np.bincount(labels, minlength=classes).argmax()) if classes else float(labels.mean())


def _reference(train: LabelledRecords, test: LabelledRecords, constant: float) -> Reference:
    always = Answers(test.labels, np.full(len(test.labels), constant))
    if len(np.unique(train.labels)) == 1:
        return Reference(always, Answers(test.labels, np.full(len(test.labels), train.labels[0])))
    features = standardising_map(train.records)
    points, test_points = coordinates(features, train.records), coordinates(features, test.records)
    if not train.classes:
        return Reference(always, Answers(test.labels, Ridge().fit(points, train.labels).predict(test_points)))
    model = LogisticRegression(max_iter=2000).fit(points, train.labels)
    there = model.predict_proba(test_points)
    probabilities = np.zeros((len(test_points), train.classes))
    probabilities[:, model.classes_] = there
    return Reference(always, Answers(test.labels, model.predict(test_points), probabilities))
