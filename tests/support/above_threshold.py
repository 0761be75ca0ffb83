"""The joint law of a sparse-vector instance, by enumeration: none of the answerer's code, and no formula for its loss.

An instance has a threshold T + X and compares level + Y_i >= T + X for the levels in turn, X and all Y_i independent
discrete Laplace numbers. Given X = x the comparisons are independent, so chances of transcripts are sums over x.
"""

import math
from fractions import Fraction

import numpy as np

DECAYS = 45
"""The threshold's noise is followed so many scales beyond all levels: less than 10^-19 of any chance lies outside."""


def pmf(scale: Fraction, k):
    """P(X = k) of the discrete Laplace law, from its definition: proportional to exp(-|k| / scale)."""
    p = math.exp(-1 / scale)
    return (1 - p) / (1 + p) * np.exp(-np.abs(k) / float(scale))


def at_least(scale: Fraction, k):
    """P(X >= k), as a geometric sum on either side of 0."""
    p = math.exp(-1 / scale)
    far = np.exp(-np.abs(k) / float(scale))
    return np.where(k > 0, far / (1 + p), 1 - far * p / (1 + p))


def below(scale: Fraction, k):
    """P(X < k), without the cancellation of 1 - P(X >= k)."""
    return at_least(scale, 1 - k)


def transcripts(levels, threshold, threshold_scale, comparison_scale):
    """Chances that the first level at or above the threshold is number 0, 1, ..., or none of them: (k + 1,)."""
    reach = math.ceil(DECAYS * max(threshold_scale, comparison_scale))
    x = np.arange(min(*levels, threshold) - reach, max(*levels, threshold) + reach + 1)
    here = pmf(threshold_scale, x - threshold)
    chances = []
    for level in levels:
        chances.append(float((here * at_least(comparison_scale, x - level)).sum()))
        here = here * below(comparison_scale, x - level)
    return np.array([*chances, float(here.sum())])


def worst_loss(first, second, threshold, threshold_scale, comparison_scale, count_loss):
    """Largest |ln| of the ratio of two transcripts' chances; those that end in counts lose theirs, too.

    The counts are independent of all else given that they are released, so their worst loss adds to the transcript's:
    one record more is one number moved by 1, on the worst outputs by a factor of exp(count_loss) either way.
    """
    one, two = (transcripts(levels, threshold, threshold_scale, comparison_scale) for levels in (first, second))
    losses = np.abs(np.log(one) - np.log(two))
    losses[:-1] += count_loss
    return float(losses.max()), one, two


def continued(before, branches, threshold, threshold_scale, comparison_scale):
    """Chances of what an instance tells that goes on in several branches from one stored threshold.

    All levels of `before` are below the threshold; then each branch compares its own levels, with noise of its own, to
    the same threshold. The array has an axis for each branch: which of its levels is the first at or above, or none.
    """
    every = [threshold, *before, *(level for levels in branches for level in levels)]
    reach = math.ceil(DECAYS * max(threshold_scale, comparison_scale))
    x = np.arange(min(every) - reach, max(every) + reach + 1)
    joint = pmf(threshold_scale, x - threshold)
    for level in before:
        joint = joint * below(comparison_scale, x - level)
    for levels in branches:
        ways, here = [], np.ones(len(x))
        for level in levels:
            ways.append(here * at_least(comparison_scale, x - level))
            here = here * below(comparison_scale, x - level)
        joint = joint[..., None, :] * np.array([*ways, here])
    return joint.sum(axis=-1)
