"""Holdouts that are not private as claimed: the blog's, and one that compares without noise."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from curator_node.kinds import ANSWERERS
from curator_node.kinds.holdout import COMPARISON
from curator_node.mechanisms import Stamp
from expril.audit.attack.controls.parts import QuickNoise
from expril.audit.kinds.invented import Neighbours, Record
from expril.audit.kinds.path import Path
from protocol.codec import encode
from protocol.examples import Asked, Example
from protocol.hypotheses import Constant
from protocol.kinds.blog_holdout import BlogHoldoutBody, PlannedBlogHoldout
from protocol.kinds.holdout import HoldoutBody, PlannedHoldout
from protocol.noise import DiscreteLaplace
from protocol.rationals import Rational
from protocol.schema import NumericAttribute, Schema

DRAWS = 20_000
"""From either side: enough to catch them in any audit, and one call gives one draw."""
FEW_DRAWS = 5_000
"""The same where what one set of records gives never comes of the other."""
RECORDS = 100
TOLERANCE = Rational(1, 25)
"""The blog's eps, 0.04."""
TRAINING_SCORE = 0.4825
"""50 of 100 correct records are within eps / 2 of it, 51 of 101 are not."""
STEPS = 100

_SCHEMA = Schema((NumericAttribute("x", -4.0, 4.0),), "outcome", ("no", "yes"))
_YES = Constant(1)


def blog_path() -> Path:
    """One question to the blog's holdout, by its own answerer."""
    planned = PlannedBlogHoldout(tolerance=TOLERANCE, records=RECORDS)
    asked = Asked(planned, (encode(BlogHoldoutBody(_YES, None, TRAINING_SCORE)),))
    example = Example("a control", _SCHEMA, lambda copies: asked)  # noqa: ARG005
    return Path(ANSWERERS["blog_holdout"], example, noise=QuickNoise)


def blog_pair() -> Neighbours:
    """One correct record more takes the score out of the tolerance."""
    half = RECORDS // 2
    others = ((_record("yes"),),) * half + ((_record("no"),),) * half
    return Neighbours(others, (_record("yes"),), "which takes the score out of the tolerance")


def blog_loss(training: float, score: float, tolerance: float) -> float:
    """Exact loss of one answer where the score was close in one set of records and is `score`, not close, in the other.

    Training score plus Laplace(eps / 2) against score plus Laplace(eps), both clipped to 0 .. 1. The logarithm of the
    densities' ratio is linear between 0, the two centres and 1, so its largest size is at one of them; at 0 and 1 the
    clipped answers have chances of their own.
    """

    def log_ratio(at: float) -> float:
        return -2 * abs(at - training) / tolerance + abs(at - score) / tolerance

    inside = [math.log(2) + log_ratio(at) for at in (0.0, training, score, 1.0)]
    return max(abs(value) for value in (*inside, log_ratio(0.0), log_ratio(1.0)))


def blog_truth() -> float:
    """Of `blog_path` on `blog_pair`."""
    score = (RECORDS // 2 + 1) / (RECORDS + 1)
    return blog_loss(TRAINING_SCORE, score, float(TOLERANCE.fraction))


@dataclass
class ExactComparisons(QuickNoise):
    """Noise in the threshold and in the counts, and none in the comparisons."""

    def discrete_laplace(
        self, exact: NDArray[np.int64], l1: int, law: DiscreteLaplace, stamp: Stamp
    ) -> NDArray[np.int64]:
        """See `NoiseSource`."""
        return exact if stamp.part == COMPARISON else super().discrete_laplace(exact, l1, law, stamp)


def exact_comparisons_path() -> Path:
    """Two questions that a record moves in opposite directions, at a cost of 1; a second instance is never reached."""
    scale = Rational(8 * STEPS, 1)
    planned = PlannedHoldout(
        turns=2,
        answers=2,
        resolution=STEPS,
        threshold=1,
        threshold_scale=scale,
        comparison_scale=scale,
        count_scale=Rational(8, 1),
    )
    asked = Asked(planned, tuple(encode(HoldoutBody(_YES, estimate)) for estimate in (0, STEPS // 4)))
    example = Example("a control", _SCHEMA, lambda copies: asked)  # noqa: ARG005
    return replace(Path(ANSWERERS["holdout"], example), noise=ExactComparisons)


def exact_comparisons_pair() -> Neighbours:
    """Of two sums one is larger without the record, the other with it: "below, then above" comes of one set only."""
    return Neighbours(((_record("no"),),) * 3, (_record("yes"),))


def _record(outcome: str) -> Record:
    return {"x": 1.0, "outcome": outcome}
