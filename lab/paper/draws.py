"""The value that every generator returns, and the streams that keep the data sets apart.

What is out: the data sets themselves (``synthetic``, ``cardiotocography``) and their settings (``problems``).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Records = NDArray[np.float64]
Labels = NDArray[np.int64]

STREAMS = {"A": 0, "B": 1, "C": 2, "D": 3, "E": 4, "CTG-A": 5, "CTG-B": 6}
"""The second word of each data set's seed: equal seeds of two data sets share no randomness."""


@dataclass(frozen=True)
class Draw:
    """The data of one run. All records are float64 and finite, all labels int64 in {0, 1}.

    Attributes:
        name: of the data set, as in Table 1.
        attributes: (d,) names of the columns.
        source: (n_s, d) the learner's records.
        source_labels: (n_s,) what the labelling rule says of them; for diagnosis only, no learner sees them.
        oracle: (n, d) the paper's target validation set: the private records that answer queries.
        oracle_labels: (n,).
        test: (m, d) the target test set, on which accuracies are reported.
        test_labels: (m,).
    """

    name: str
    attributes: tuple[str, ...]
    source: Records
    source_labels: Labels
    oracle: Records
    oracle_labels: Labels
    test: Records
    test_labels: Labels


def stream(name: str, seed: int) -> np.random.Generator:
    """The random stream of that data set and seed (>= 0)."""
    return np.random.default_rng([seed, STREAMS[name]])
