"""Probabilities of a rare class: an intercept, so that their mean is what the answers say of the class.

Averaged with networks, and sharpened, a model that ranks well says too little of a class that few records have: a mean
of 5.1 % where 7.7 % have it. The Gaussian process's own mean is nearer, and the model is moved to it. What that gains,
and why only rare classes are treated so, is in docs/uncertainty.md.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]

RARE = 0.15
"""A class is rare where less than this share of the target's records is expected to have it."""
_SUREST, _FARTHEST = 30.0, 40.0


def is_rare(share: float) -> bool:
    """Whether one of two classes is rare, where one of them has this share, in [0, 1]."""
    return min(share, 1.0 - share) < RARE


def mean_probability(probability: Floats, mass: Floats) -> float:
    """The target's mean of a probability, in [0, 1].

    Args:
        probability: of the source records, (n_s,), in [0, 1].
        mass: target records that each of them stands for, (n_s,), non-negative, not all 0.
    """
    return float(np.average(probability, weights=mass))


def rare_intercept(probability: Floats, sharpness: float, smooth: Floats, mass: Floats) -> float:
    """Return b of Phi(a probit(p) + b), a model of a rare class; 0.0 exactly where no class is rare.

    The target's mean of the model's probability becomes that of the Gaussian process. Where b is not 0, the records
    that are given class 1 change, and their order does not.

    Args:
        probability: p, the model's P(label 1) of the source records, (n_s,), in [0, 1].
        sharpness: a, positive.
        smooth: the Gaussian process's P(label 1) of the same, (n_s,), in [0, 1].
        mass: target records that each of them stands for, (n_s,), non-negative, not all 0.
    """
    wanted = mean_probability(smooth, mass)
    return matching_intercept(probability, sharpness, mass, wanted) if is_rare(wanted) and 0 < wanted < 1 else 0.0


def matching_intercept(probability: Floats, sharpness: float, mass: Floats, wanted: float) -> float:
    """Return b for which the target's mean of Phi(a probit(p) + b) is `wanted`, in (0, 1); else as `rare_intercept`."""
    weight = mass / mass.sum()
    probit = np.clip(sharpness * ndtri(probability), -_SUREST, _SUREST)
    return float(brentq(lambda b: weight @ ndtr(probit + b) - wanted, -_FARTHEST, _FARTHEST))
