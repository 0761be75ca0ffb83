"""What a synthetic data set is worth: measured against real records, so by a harness alone, never by a learner.

Rows may be weighted and softly labelled, as those of `models.synthetic` are; a row of weight 2 counts as two
rows, and one of class 1 with probability p as p of a row of class 1 and 1 - p of one of class 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from lab.comparison.measures import scores
from lab.peers.discrete import Attribute, attributes_of, discretise

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Labels = NDArray[np.bool_]

BINS = 10
"""Even bins of a numeric attribute over the source's range, for total-variation distances."""
MEASURES = {
    "accuracy-logistic": "accuracy of logistic regression, trained on it, on real test records, in percent",
    "auc-logistic": "its area under the ROC curve, in percent",
    "accuracy-boosting": "accuracy of gradient boosting, likewise",
    "auc-boosting": "its area under the ROC curve",
    "marginal-tv": "total-variation distance of one binned attribute, mean over the attributes, in percent",
    "wasserstein": "1-Wasserstein distance of one attribute, mean over the attributes, in percent of its range",
    "pair-tv": "total-variation distance of two binned attributes or one and the label, mean over pairs, in percent",
    "label-gap": "difference of the shares of class 1, in percentage points",
}
"""Name of each measure and what it is; all but the accuracies and areas are better when lower, and 0 at best."""


@dataclass(frozen=True)
class WeightedRecords:
    """A data set, real or synthetic. Raises ValueError: any of the above does not hold."""

    matrix: Matrix  # (n, p) float64, finite
    weights: Vector  # (n,) not negative, with a positive sum
    probability: Vector  # (n,) P(class 1) in [0, 1]

    def __post_init__(self) -> None:
        rows = (len(self.matrix),)
        if self.matrix.ndim != 2 or self.weights.shape != rows or self.probability.shape != rows:
            raise ValueError("a data set needs an (n, p) matrix, n weights and n probabilities")
        if not np.isfinite(self.matrix).all():
            raise ValueError("a record holds a number that is not finite")
        if not (np.isfinite(self.weights).all() and (self.weights >= 0).all() and self.weights.sum() > 0):
            raise ValueError("weights must be finite, not negative, and not all 0")
        if not ((self.probability >= 0) & (self.probability <= 1)).all():
            raise ValueError("a probability is outside [0, 1]")

    @classmethod
    def of(cls, matrix: Matrix, labels: NDArray[np.generic]) -> "WeightedRecords":
        """Plain labelled records, each of weight 1."""
        return cls(matrix, np.ones(len(matrix)), np.asarray(labels, np.float64))

    @property
    def share(self) -> float:
        """Of class 1, by weight."""
        return float(np.average(self.probability, weights=self.weights))

    def hard(self) -> tuple[Matrix, NDArray[np.int64], Vector]:
        """Rows, labels and weights for a learner of hard labels: each row once a class that it has a part in."""
        weights = np.concatenate([self.weights * (1 - self.probability), self.weights * self.probability])
        labels = np.repeat([0, 1], len(self.matrix)).astype(np.int64)
        kept = weights > 0
        return np.concatenate([self.matrix, self.matrix])[kept], labels[kept], weights[kept]


def utility(
    synthetic: WeightedRecords, private: WeightedRecords, test: WeightedRecords, columns: "Columns"
) -> dict[str, float]:
    """All measures of one data set.

    Distances are to the private records, accuracies on the test records, both real.

    Returns:
        Key of `MEASURES` -> value.
    """
    marginal, pair = variation(synthetic, private, columns.attributes)
    found = {}
    for name, probability in (
        ("logistic", logistic_regression(synthetic, test.matrix)),
        ("boosting", gradient_boosting(synthetic, test.matrix)),
    ):
        found[f"accuracy-{name}"], found[f"auc-{name}"] = scores(probability, test.probability > 0.5)
    return {
        **found,
        "marginal-tv": 100 * marginal,
        "wasserstein": 100 * range_wasserstein(synthetic, private, columns),
        "pair-tv": 100 * pair,
        "label-gap": 100 * abs(synthetic.share - private.share),
    }


@dataclass(frozen=True)
class Columns:
    """What the columns of the matrices are, decided on public values alone."""

    lower: Vector  # (p,) of each column's range
    upper: Vector  # (p,) above `lower`
    attributes: tuple[Attribute, ...]  # the columns as discrete attributes

    @classmethod
    def of(cls, names: Sequence[str], lower: Vector, upper: Vector) -> "Columns":
        """Columns by name; "attribute=level" are levels (`attributes_of`)."""
        return cls(lower, upper, tuple(attributes_of(names, lower, upper, BINS)))


def logistic_regression(data: WeightedRecords, test: Matrix) -> Vector:
    """P(class 1) of test records by logistic regression on standardised columns; a constant without two classes."""
    matrix, labels, weights = data.hard()
    if len(set(labels.tolist())) < 2:
        return np.full(len(test), float(labels[0]))
    scaler = StandardScaler().fit(data.matrix, sample_weight=data.weights)
    model = LogisticRegression(max_iter=2000).fit(scaler.transform(matrix), labels, sample_weight=weights)
    probability: Vector = model.predict_proba(scaler.transform(test))[:, 1]
    return probability


def gradient_boosting(data: WeightedRecords, test: Matrix) -> Vector:
    """P(class 1) of test records by histogram gradient boosting as it comes; a constant without two classes."""
    matrix, labels, weights = data.hard()
    if len(set(labels.tolist())) < 2:
        return np.full(len(test), float(labels[0]))
    model = HistGradientBoostingClassifier(random_state=0).fit(matrix, labels, sample_weight=weights)
    probability: Vector = model.predict_proba(test)[:, 1]
    return probability


def variation(left: WeightedRecords, right: WeightedRecords, attributes: Sequence[Attribute]) -> tuple[float, float]:
    """Total-variation distances, 1/2 sum |p - q|, in [0, 1].

    Returns:
        Mean over the attributes; mean over all pairs of attributes, the label being one.
    """
    sizes = [attribute.size for attribute in attributes]
    codes = [discretise(data.matrix, attributes) for data in (left, right)]
    sides = (left, right)

    def shares(side: int, places: Sequence[int], *, label: bool = False) -> Vector:
        data = sides[side]
        cells = np.zeros(len(data.matrix), np.int64)
        count = 1
        for place in places:
            cells = cells * sizes[place] + codes[side][:, place]
            count *= sizes[place]
        parts = [data.weights * data.probability, data.weights * (1 - data.probability)] if label else [data.weights]
        counted = np.concatenate([np.bincount(cells, weights=part, minlength=count) for part in parts])
        parted: Vector = counted / data.weights.sum()
        return parted

    def distance(places: Sequence[int], *, label: bool = False) -> float:
        return float(0.5 * np.abs(shares(0, places, label=label) - shares(1, places, label=label)).sum())

    everyone = range(len(sizes))
    pairs = [distance(pair) for pair in combinations(everyone, 2)]
    labelled = [distance((place,), label=True) for place in everyone]
    return float(np.mean([distance((place,)) for place in everyone])), float(np.mean(pairs + labelled))


def range_wasserstein(left: WeightedRecords, right: WeightedRecords, columns: Columns) -> float:
    """Mean 1-Wasserstein distance over the attributes, each in units of its range; values outside count as its ends.

    Two different levels are one apart, so for an attribute of levels this is the total-variation distance.
    """
    found = []
    for attribute in columns.attributes:
        if not attribute.edges:
            found.append(variation(left, right, [attribute])[0])
            continue
        place = attribute.columns[0]
        low, high = columns.lower[place], columns.upper[place]
        ends = [np.clip(data.matrix[:, place], low, high) for data in (left, right)]
        found.append(wasserstein_distance(*ends, left.weights, right.weights) / (high - low))
    return float(np.mean(found))
