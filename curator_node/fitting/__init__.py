"""How each method of the query kind `model` is fitted.

A fit is a function of records, plan and body. It must not fail, nor take another path, because of a record.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator_node.fitting import forest, k_means, linear, naive_bayes, second_moments
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
"""(method, checked body, n records, their labels (n,)) -> (k,) exact numbers of one model, to which noise is added."""

IN_TURN: Mapping[str, Callable[[Any, Any, Records, NDArray[np.int64]], NDArray[np.int64]]] = MappingProxyType(
    {"k_means": k_means.fit}
)
"""(method, checked body, n records, noise (runs, k)) -> (runs, k) noisy numbers: later ones depend on earlier ones."""
