"""How far scores on test records differ by chance from those of their population, where records of one unit are alike.

Both errors are those of a sum over units of what each contributes (linearisation): a unit's records are drawn together,
and units independently of one another.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def share_error(correct: NDArray[np.bool_], units: NDArray[np.generic] | None = None) -> float:
    """Standard error of the share of correct records; without units the binomial one.

    Args:
        correct: (n,) whether each test record is classified correctly, n >= 1.
        units: (n,) whose record it is; None: each record is a unit.
    """
    return _error((correct - correct.mean()) / len(correct), units)


def auc_error(labels: NDArray[np.bool_], score: Floats, units: NDArray[np.generic] | None = None) -> float:
    """Standard error of the area under the ROC curve (DeLong et al. 1988; by unit as Obuchowski 1997).

    Args:
        labels: (n,) whether a test record has label 1; both labels occur.
        score: (n,) that is to be higher there.
        units: (n,) whose record it is; None: each record is a unit.

    Raises:
        ValueError: one label does not occur.
    """
    positive, negative = np.sort(score[labels]), np.sort(score[~labels])
    if not len(positive) or not len(negative):
        raise ValueError("the area under the ROC curve needs records of both labels")
    contribution = np.where(
        labels, _share_below(negative, score) / len(positive), (1.0 - _share_below(positive, score)) / len(negative)
    )
    # Each label's contributions sum to the area.
    area = contribution[labels].sum()
    contribution -= np.where(labels, area / len(positive), area / len(negative))
    return _error(contribution, units)


def _share_below(values: Floats, score: Floats) -> Floats:
    """Share of ascending values that lie below each score, equal ones counting one half."""
    places = np.searchsorted(values, score) + np.searchsorted(values, score, "right")
    below: Floats = places / (2.0 * len(values))
    return below


def _error(contribution: Floats, units: NDArray[np.generic] | None) -> float:
    of_unit = np.arange(len(contribution)) if units is None else np.unique(units, return_inverse=True)[1]
    return float(np.sqrt(np.sum(np.bincount(of_unit, weights=contribution) ** 2)))
