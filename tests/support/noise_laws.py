"""Exact laws of discrete Laplace noise, for tests that may cry wolf once in a thousand million runs.

X has P(k) = (1 - p) / (1 + p) * p^|k|, p = exp(-1/scale). Of n independent draws, exactly:
the number that is not zero is Binomial(n, 2p / (1 + p)); given that number N, the sum of |X| - 1 over those is
NegativeBinomial(N, 1 - p), and the number of positive ones is Binomial(N, 1/2), whatever their sizes.
(Not called `statistics`: pytest puts this folder before the standard library.)
"""

import math

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-9
"""Of each `suspicious_*` function."""
MISSED_ALARM = 1e-6
"""Most probability with which a scale 10 % off may pass, by `pass_probability`."""


def decay(scale) -> float:
    """p = exp(-1/scale)."""
    return math.exp(-1 / float(scale))


def nonzero_law(n, scale):
    """Number of draws that are not zero."""
    p = decay(scale)
    return stats.binom(n, 2 * p / (1 + p))


def excess_law(nonzero, scale):
    """Sum of |X| - 1 over the draws that are not zero."""
    return stats.nbinom(nonzero, 1 - decay(scale))


def outside(law, seen, alarm) -> bool:
    """Whether `seen` lies in one of two tails of at most `alarm` / 2 each."""
    return bool(law.cdf(seen) < alarm / 2 or law.sf(seen - 1) < alarm / 2)


def suspicious_scale(draws, scale) -> bool:
    """Whether draws are too large or too small for this scale."""
    nonzero = draws[draws != 0]
    excess = int(np.abs(nonzero).sum()) - len(nonzero)
    return outside(nonzero_law(len(draws), scale), len(nonzero), FALSE_ALARM / 2) or outside(
        excess_law(len(nonzero), scale), excess, FALSE_ALARM / 2
    )


def suspicious_centre(draws) -> bool:
    """Whether too many or too few draws are positive."""
    nonzero = draws[draws != 0]
    return outside(stats.binom(len(nonzero), 0.5), int((nonzero > 0).sum()), FALSE_ALARM)


def suspicious_pairs(first, second, scale) -> bool:
    """Whether two rows of draws agree in sign, or are equal, too often or too rarely to be independent."""
    both = (first != 0) & (second != 0)
    agree = int((np.sign(first[both]) == np.sign(second[both])).sum())
    p = decay(scale)
    equal = ((1 - p) / (1 + p)) ** 2 * (1 + p * p) / (1 - p * p)
    return outside(stats.binom(int(both.sum()), 0.5), agree, FALSE_ALARM / 2) or outside(
        stats.binom(len(first), equal), int((first == second).sum()), FALSE_ALARM / 2
    )


def pass_probability(n, scale, true_scale) -> float:
    """Upper bound for the probability that n draws at `true_scale` pass `suspicious_scale(., scale)`.

    The smaller of: that the number of non-zeros passes; that the excess passes at the least plausible number of
    non-zeros, plus the probability of a smaller number.
    """
    tail = FALSE_ALARM / 4
    law, truth = nonzero_law(n, scale), nonzero_law(n, true_scale)
    by_number = float(truth.cdf(law.isf(tail)) - truth.cdf(law.ppf(tail) - 1))
    least = int(truth.ppf(MISSED_ALARM / 100))
    law, truth = excess_law(least, scale), excess_law(least, true_scale)
    by_excess = float(truth.cdf(law.isf(tail)) - truth.cdf(law.ppf(tail) - 1)) + MISSED_ALARM / 100
    return min(by_number, by_excess)
