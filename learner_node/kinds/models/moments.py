"""Linear regression and principal components from noisy sums of products."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds.model import ModelAnswer
from learner_node.strategies.base import ErrorEstimate
from protocol.feature_map import FeatureMap
from protocol.kinds.models import LinearRegression, Mapped, Points, PrincipalComponents
from protocol.kinds.models.second_moments import split_moments
from protocol.records import Records

Floats = NDArray[np.float64]
RIDGE = 4.0
"""Ridge added to the diagonal, in standard deviations of a product's noise (Zhang et al. 2012, section 6.1)."""


@dataclass(frozen=True)
class RidgeModel:
    """Linear model: label = middle + half the range times w.v (weights, a record's vector), clipped to the bounds."""

    features: FeatureMap  # the map
    points: Points  # how a point becomes a vector
    weights: NDArray[np.float64]  # (D,) of the vector's coordinates in whole steps
    bounds: tuple[float, float]  # of the label
    error: ErrorEstimate | None = None  # None: nothing was asked about it

    def predict_number(self, records: Records) -> Floats:
        """Predicted label of each record: (n,) within the label's bounds, in its units."""
        lower, upper = self.bounds
        scores = self.points.rows(self.features.points(records)) @ self.weights
        values: Floats = (lower + upper) / 2 + (upper - lower) / 2 * np.clip(scores, -1.0, 1.0)
        return values


def ridge(answer: ModelAnswer, bounds: tuple[float, float], most_records_per_unit: int) -> tuple[RidgeModel, float]:
    """The minimiser of all curators' noisy squared errors, and the estimated number of private records.

    The products' noise may leave no minimum: a ridge of four of its deviations is added, and directions of negative
    curvature that remain are left out (Zhang et al. 2012, section 6).

    Args:
        answer: of one query for one model.
        bounds: the label's bounds.
        most_records_per_unit: the largest contribution bound among the curators.
    """
    method, (body,) = answer.planned.method, answer.body.models
    if not (isinstance(method, LinearRegression) and isinstance(body, Mapped)):
        raise TypeError("the answer is not one of linear regression")
    sums = split_moments(answer.summed(), method.points.coordinates)
    deviation = float(np.sqrt(answer.sites * answer.variance(most_records_per_unit)))
    curvature, directions = np.linalg.eigh(sums.products + RIDGE * deviation * np.eye(len(sums.products)))
    positive = curvature > 0
    along = directions[:, positive].T @ sums.label_products / curvature[positive]
    weights = directions[:, positive] @ along / method.label_steps
    constant = method.points.constant
    records = float(sums.products[-1, -1]) / constant**2 if constant else 0.0
    return RidgeModel(body.features, method.points, weights, bounds), max(records, 1.0)


@dataclass(frozen=True)
class Components:
    """Principal components of the private records' points; no predictive model."""

    features: FeatureMap  # the map
    points: Points  # how a point becomes a vector
    records: float  # estimated number of private records
    mean: NDArray[np.float64]  # (d,) in units of the map
    variances: NDArray[np.float64]  # (d,) along each component, at least 0, the largest first
    axes: NDArray[np.float64]  # (d, d), a row for each component

    def project(self, records: Records, count: int) -> Floats:
        """Coordinates along the first components: (n, count)."""
        rows = self.points.rows(self.features.points(records))[:, : self.points.width] / self.points.radius
        scores: Floats = (rows - self.mean) @ self.axes[:count].T
        return scores


def components(answer: ModelAnswer) -> Components:
    """Means, variances and axes from all curators' sums. Without a constant coordinate, means are 0 and n is 1."""
    method, (body,) = answer.planned.method, answer.body.models
    if not (isinstance(method, PrincipalComponents) and isinstance(body, Mapped)):
        raise TypeError("the answer is not one of principal components")
    points, width = method.points, method.points.width
    products = split_moments(answer.summed(), points.coordinates).products.astype(np.float64)
    counted = points.constant > 0
    records = max(float(products[-1, -1]) / points.constant**2, 1.0) if counted else 1.0
    mean = products[:width, -1] / (points.constant * points.radius * records) if counted else np.zeros(width)
    covariance = products[:width, :width] / (points.radius**2 * records) - np.outer(mean, mean)
    variances, axes = np.linalg.eigh(covariance)
    return Components(body.features, points, records, mean, np.maximum(variances[::-1], 0.0), axes[:, ::-1].T.copy())
