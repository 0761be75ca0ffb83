"""Worst-case privacy loss of a choice among whole scores, by enumeration of all that can be chosen."""

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from curator_node.mechanisms import float_not_below
from protocol.errors import ConfigurationError
from protocol.noise import NoisyMax

DIGITS = decimal.Context(prec=120, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
MOST_CHOICES = 150
"""The chances by definition are alternating sums of terms up to 2^k: of so many, 70 digits are left."""
Scores = NDArray[np.int64]


class ChoiceLoss(NamedTuple):
    """The largest loss over all choices.

    Attributes:
        defined: from the definition, in decimals.
        by_table: from the product's own chances, in floats.
    """

    defined: float
    by_table: float


def hinted_loss(first: Scores, second: Scores, law: NoisyMax) -> float:
    """Largest loss between two vectors of scores, (k,) each, in floats; infinite where their numbers differ."""
    if len(first) != len(second):
        return math.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(law.chances(first)) - np.log(law.chances(second))
    return float(np.nan_to_num(np.abs(ratios), nan=0.0, posinf=math.inf).max())


def choice_loss(first: Scores, second: Scores, law: NoisyMax) -> ChoiceLoss:
    """The same by two ways, at the scale that the noise library receives.

    Raises:
        ConfigurationError: there are too many choices to be enumerated.
    """
    if max(len(first), len(second)) > MOST_CHOICES:
        raise ConfigurationError(f"more than {MOST_CHOICES} choices cannot be enumerated; offer fewer")
    drawn = Fraction(float_not_below(law.scale))
    pairs = zip(chances_by_definition(first, drawn), chances_by_definition(second, drawn), strict=True)
    with decimal.localcontext(DIGITS):
        defined = float(max(abs((p / q).ln()) for p, q in pairs))
    return ChoiceLoss(defined, hinted_loss(first, second, NoisyMax(drawn)))


def chances_by_definition(scores: Scores, scale: Fraction) -> list[Decimal]:
    """Chance of each index, from the noises' own law: index i wins where its noisy score t is above all others.

    A noise is exponential, so with z = exp(-(t - largest) / scale), which is uniform on [0, w_i] for the density of t,
    the others stay below with chance prod (1 - w_j z); the product is multiplied out and integrated term by term.
    """
    with decimal.localcontext(DIGITS):
        top = int(scores.max())
        weights = [(Decimal((int(s) - top) * scale.denominator) / Decimal(scale.numerator)).exp() for s in scores]
        found = []
        for place, own in enumerate(weights):
            others = weights[:place] + weights[place + 1 :]
            terms = reduce(_times, others, [Decimal(1)])
            found.append(own * sum((term / (power + 1) for power, term in enumerate(terms)), Decimal(0)))
        return found


def _times(terms: list[Decimal], weight: Decimal) -> list[Decimal]:
    """A polynomial in z times (1 - weight z)."""
    shifted = [Decimal(0), *(-weight * term for term in terms)]
    return [one + two for one, two in zip([*terms, Decimal(0)], shifted, strict=True)]
