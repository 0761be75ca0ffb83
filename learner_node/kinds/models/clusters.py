"""Clusters from noisy sums of k-means."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds.model import ModelAnswer
from protocol.feature_map import FeatureMap
from protocol.kinds.models import Centres, KMeans

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Clusters:
    """Where the private records are.

    Attributes:
        features: the map.
        centres: (curators x K, width) in units of the map, those of each curator together.
        records: (curators x K,) estimated number of private records of each, at least 0.
    """

    features: FeatureMap
    centres: NDArray[np.float64]
    records: NDArray[np.float64]


def clusters(answer: ModelAnswer) -> Clusters:
    """Each curator's centres after its last iteration, and their records in that iteration."""
    method, (body,) = answer.planned.method, answer.body.models
    if not (isinstance(method, KMeans) and isinstance(body, Centres)):
        raise TypeError("the answer is not one of k-means")
    centres, records = [], []
    for numbers in answer.of():
        centres.append(method.path(numbers, body)[-1] / method.points.radius)
        last = numbers.reshape(method.iterations, method.clusters, -1)[-1]
        records.append(np.maximum(last[:, -1] / method.points.constant, 0.0))
    return Clusters(body.features, np.concatenate(centres), np.concatenate(records))
