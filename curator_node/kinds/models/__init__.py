"""How each method of the query kind `model` is fitted.

A fit is a function of records, plan and body. It must not fail, nor take another path, because of a record.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator_node.kinds.models import forest, linear, naive_bayes, second_moments
from curator_node.kinds.models.k_means import sums_about
from protocol.records import Records

EXACT: Mapping[str, Callable[[Any, Any, Records, NDArray[np.unsignedinteger]], NDArray[np.int64]]] = MappingProxyType(
    {
        "naive_bayes": naive_bayes.fit,
        "linear_regression": second_moments.fit,
        "principal_components": second_moments.fit,
        "forest": forest.fit,
        "logistic_regression": linear.fit,
        "linear_svm": linear.fit,
        "kernel_svm": linear.fit,
    }
)
"""(method, checked body, n records, their labels (n,)) -> (k,) exact numbers of one model. k-means looks at its noisy
numbers on the way, so it is not among them."""

MOST_RECORDS: Mapping[str, int] = MappingProxyType(
    {name: linear.MOST_RECORDS for name, fit in EXACT.items() if fit is linear.fit}
)
"""Methods that are private up to so many records of one curator; all others are with any number."""

__all__ = ["EXACT", "MOST_RECORDS", "sums_about"]
