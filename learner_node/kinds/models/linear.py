"""Linear classifiers from released weights: those of several curators are averaged, and noise is weighed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds.model import ModelAnswer
from protocol.feature_map import FeatureMap
from protocol.kinds.models import KernelSvm, LinearSvm, LogisticRegression, Mapped
from protocol.kinds.models.linear import LinearModel
from protocol.records import Records

Floats = NDArray[np.float64]
MOST_LOG_ODDS = 30.0
SPREADS = tuple(10.0 ** (step / 4) for step in range(-8, 9))
"""Variances of a weight that are tried."""


@dataclass(frozen=True)
class LinearInSite:
    """P(class 1) = 1 / (1 + exp(-w.v)), v a record's whole vector.

    A support vector machine's score has no probability of its own; it is taken for log odds, too.

    Attributes:
        features: the map.
        method: how a point becomes a vector.
        weights: (D,) of the vector's coordinates in whole steps.
    """

    features: FeatureMap
    method: LogisticRegression | LinearSvm | KernelSvm
    weights: NDArray[np.float64]

    def scores(self, records: Records) -> Floats:
        """Log odds of class 1, (n,)."""
        found: Floats = self.method.rows(self.features.points(records)) @ self.weights
        return found

    def probability(self, records: Records) -> Floats:
        """P(class 1) for each record: (n,) in [0, 1]."""
        found: Floats = 1.0 / (1.0 + np.exp(-np.clip(self.scores(records), -MOST_LOG_ODDS, MOST_LOG_ODDS)))
        return found


def linear(answer: ModelAnswer, source: Records, records: float, most_records_per_unit: int) -> LinearInSite:
    """The classifier of the curators' mean weights, with what regulariser and noise did to them taken out again.

    Each curator's noise is the same, so the mean in which each counts the same has the least; one of few records is
    drawn to 0 by the regulariser, so it counts for little by itself. Where the loss is about a parabola of curvature
    1/4, the regulariser L shrinks the weights along an eigenvector of the source's second moments, of eigenvalue s, by
    h / (L + h) with h = s n / 4. The weights before are taken as independent normal ones, of a variance that what was
    released makes likeliest, and their mean given what was released is taken.

    Args:
        answer: of one query for one model.
        source: the learner's records; where they lie tells the curvature.
        records: private ones of all curators together, as they declare them.
        most_records_per_unit: the largest contribution bound among the curators.
    """
    method, (body,) = answer.planned.method, answer.body.models
    if not (isinstance(method, LinearModel) and isinstance(body, Mapped)):
        raise TypeError("the answer is not one of a linear classifier")
    rows = method.rows(body.features.points(source)) / method.unit
    moments, axes = np.linalg.eigh(rows.T @ rows / len(rows))
    curvature = np.maximum(moments, 0.0) * records / answer.sites / 4
    regulariser = float(method.regulariser.fraction)
    kept = curvature / (regulariser + curvature)
    seen = axes.T @ (method.weights(answer.of()).mean(axis=0) * method.unit)
    noise = answer.variance(most_records_per_unit) / (method.steps * regulariser) ** 2
    error = (noise + curvature / (regulariser + curvature) ** 2) / answer.sites
    spread = min(SPREADS, key=lambda each: float(np.sum(np.log(total := kept**2 * each + error) + seen**2 / total)))
    weights = axes @ (kept * spread / (kept**2 * spread + error) * seen)
    return LinearInSite(body.features, method, weights / method.unit)
