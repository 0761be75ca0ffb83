"""What the attacks on counts gain from a correct curator, exactly: each is a test between two known distributions.

An answer is b + X with b = 1 where the victim is in, and P(X = k) = (1 - p) / (1 + p) p^|k|, p = exp(-epsilon).
"""

import math
from fractions import Fraction

from scipy.stats import binom


def gain_of_one(epsilon: Fraction) -> float:
    """Of one count of the victim alone, guessing "in" from 1 upwards: P(X >= 0) - P(X >= 1) = (1 - p) / (1 + p).

    That is tanh(epsilon / 2), the most that is possible at all.
    """
    return math.tanh(float(epsilon) / 2)


def gain_of_several(epsilon: Fraction, bound: int) -> float:
    """Of one count of a victim that adds `bound`, with noise that many times as wide, guessing "in" from the middle.

    The likelihood ratio is 1 or more from bound / 2 upwards. With p = exp(-epsilon / bound) and h the first whole
    number from there on, the gain is P(X >= h - bound) - P(X >= h), where P(X >= k) = p^k / (1 + p) for k >= 1.
    """
    p, half = math.exp(-float(epsilon) / bound), (bound + 1) // 2
    above = p**half / (1.0 + p)
    missed = p ** (bound - half + 1) / (1.0 + p)
    return 1.0 - missed - above


def gain_of_votes(epsilon: Fraction, answers: int) -> float:
    """Of an odd number of such counts that share epsilon, guessing as most of them do.

    The likelihood ratio of an answer is exp(epsilon / answers) from 1 upwards and its inverse below, so no use of the
    same answers gains more (Neyman and Pearson 1933). A vote is right with chance 1 / (1 + p).
    """
    right = 1.0 / (1.0 + math.exp(-float(epsilon) / answers))
    return float(binom.sf(answers // 2, answers, right) - binom.sf(answers // 2, answers, 1.0 - right))


def gain_of_difference(epsilon: Fraction) -> float:
    """Of two counts at epsilon / 2 that differ by the victim alone, guessing "in" where they differ by 1 or more.

    The difference is b + X - X', so the gain is P(X - X' = 0) = sum_k P(X = k)^2.
    """
    p = math.exp(-float(epsilon) / 2)
    return ((1.0 - p) / (1.0 + p)) ** 2 * (1.0 + p * p) / (1.0 - p * p)
