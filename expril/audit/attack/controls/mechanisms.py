"""Mechanisms for the game: some correct, the others broken on purpose, each in one way that is known from practice.

All take (exact answers on the records, n, generator) and give (n,) or (n, k) outcomes. Integer noise comes from numpy,
so that only the fault that is meant shows.

The sparse vector technique tells which of many counts are above a threshold, for the price of the few that are. Lyu, Su
and Li (2017, "Understanding the sparse vector technique for differential privacy", figure 1) give six published
variants. 1 and 2 are right, 3 to 6 are not. Here at epsilon 1, sensitivity 1, threshold 0, and with integer noise in
place of continuous Laplace, which changes none of the arguments. An outcome has a number for each count: 1 above,
0 below, -1 not answered.

Noise whose seed is the time: who knows about when an answer was made tries the few seeds that it can have had.

Secure sums: what a learner and its colluders see of the sum of several sites' shares. Sites draw shares of discrete
Laplace noise of scale 3; colluders tell the learner theirs.

Models fitted in site take the number of records, or what classes there are, for public. Of the four, the first, the
second and the last have the faults that `expril audit peers` finds in diffprivlib 0.6.6. The third is Chaudhuri,
Monteleoni and Sarwate's own setting (2011, Algorithm 2), whose neighbours have the same number of records.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.game import Rows
from protocol.noise import DiscreteLaplace
from protocol.noise_shares import LaplaceShares

Data = tuple[int, ...]
"""Exact answers on one set of records."""
Generator = np.random.Generator
Counts = NDArray[np.int64]


def integers(scale: int | Fraction, shape: tuple[int, ...], generator: Generator) -> Counts:
    """Discrete Laplace noise of that scale."""
    return DiscreteLaplace(Fraction(scale)).simulate(generator, shape)


# Correct: true epsilon is what they claim, and what is flagged is a false alarm


def counts_at(scale: int | Fraction) -> Callable[[Data, int, Generator], Counts]:
    """Counts with independent discrete Laplace noise of that scale."""

    def drawn(data: Data, count: int, generator: Generator) -> Counts:
        return np.array(data) + integers(scale, (count, len(data)), generator)

    return drawn


def noisy_max(data: Data, count: int, generator: Generator) -> Counts:
    """Which noisy count is the largest, noise of scale 1; counts move in one direction only (Dwork and Roth 2014)."""
    return np.asarray((np.array(data) + integers(1, (count, len(data)), generator)).argmax(1))


def randomized_response(data: Data, count: int, generator: Generator) -> Counts:
    """Warner (1965): the truth with probability e / (1 + e), else its opposite."""
    lies = generator.random(count) < 1 / (1 + np.e)
    return np.where(lies, 1 - data[0], data[0])


def exponential_choice(data: Data, count: int, generator: Generator) -> Counts:
    """McSherry and Talwar (2007): an option with probability in proportion to exp(count), counts that only rise."""
    weights = np.exp(np.array(data, float))
    return generator.choice(len(data), count, p=weights / weights.sum())


def ratio_of_noisy(data: Data, count: int, generator: Generator) -> NDArray[np.float64]:
    """(signed errors, records) with noise of scale 2 each, then their ratio: what is computed afterwards is free."""
    noisy = np.array(data) + integers(2, (count, 2), generator)
    return np.asarray(np.clip(noisy[:, 0] / np.maximum(noisy[:, 1], 1), -1, 1))


def two_rounds(data: Data, count: int, generator: Generator) -> Counts:
    """Two rounds of one study, with noise of scale 2 of their own."""
    return np.array(data) + integers(2, (count, len(data)), generator)


# Broken


def float_laplace(data: Data, count: int, generator: Generator) -> NDArray[np.float64]:
    """Laplace noise of scale 1, made and added in floating point (Mironov 2012)."""
    return np.asarray(data[0] + generator.laplace(0, 1, count))


def exact_denominator(data: Data, count: int, generator: Generator) -> NDArray[np.float64]:
    """(errors, records) of one bin -> noisy errors over the exact number of records, clipped to 0 .. 1."""
    errors, records = data
    return np.clip((errors + integers(1, (count,), generator)) / records, 0, 1)


def noisy_max_with_value(data: Data, count: int, generator: Generator) -> Counts:
    """Which noisy count is the largest, noise of scale 2, and that noisy count."""
    noisy = np.array(data) + integers(2, (count, len(data)), generator)
    return np.stack((noisy.argmax(1), noisy.max(1)), 1)


def noisy_max_half_scale(data: Data, count: int, generator: Generator) -> Counts:
    """Which noisy count is the largest, with noise of scale 1/2 where 1 is needed."""
    return np.asarray((np.array(data) + integers(Fraction(1, 2), (count, len(data)), generator)).argmax(1))


def raw_leak(data: Data, count: int, generator: Generator) -> Counts:
    """Counts with noise of scale 4; one answer in a thousand forgets it."""
    noise = integers(4, (count, len(data)), generator)
    noise[generator.random(count) < 0.001] = 0
    return np.array(data) + noise


def noise_reused(data: Data, count: int, generator: Generator) -> Counts:
    """Two rounds of one study, (masses, signed errors), of four bins each: one noise vector of scale 2 for both."""
    noise = integers(2, (count, len(data) // 2), generator)
    return np.array(data) + np.concatenate((noise, noise), 1)


def seen_cells_only(data: Data, count: int, generator: Generator) -> Counts:
    """Counts with noise of scale 1 in the cells that hold a record; empty cells stay 0."""
    exact = np.array(data)
    return np.where(exact > 0, exact + integers(1, (count, len(data)), generator), 0)


def one_sided(data: Data, count: int, generator: Generator) -> Counts:
    """A count plus geometric noise, which is never negative."""
    return np.asarray(data[0] + generator.geometric(-np.expm1(-1.0), count) - 1)


# The sparse vector technique


NOT_ANSWERED = -1


def variant_1(data: Data, count: int, generator: Generator) -> Counts:
    """Right: threshold noise 2, noise of each count 4 c, stops after c = 1 above."""
    return _answers(data, count, generator, threshold=2, each=4, most=1)


def variant_3(data: Data, count: int, generator: Generator) -> Counts:
    """Roth's lecture notes (2011): threshold noise 2, noise 2 c, c = 1; puts out the noisy count that is above.

    An outcome: the place of the count that is above, and its noisy value; (number of counts, 0) where none is.
    """
    noisy = np.array(data) + integers(2, (count, len(data)), generator)
    above = noisy >= integers(2, (count, 1), generator)
    found, place = above.any(1), above.argmax(1)
    value = np.where(found, noisy[np.arange(count), place], 0)
    return np.stack((np.where(found, place, len(data)), value), 1)


def variant_4(data: Data, count: int, generator: Generator) -> Counts:
    """Lee and Clifton (2014): threshold noise 4, noise 4/3 for each count whatever c is; here c = 3."""
    return _answers(data, count, generator, threshold=4, each=Fraction(4, 3), most=3)


def variant_5(data: Data, count: int, generator: Generator) -> Counts:
    """Stoddard, Chen and Machanavajjhala (2014): threshold noise 2, none on the counts, never stops."""
    return _answers(data, count, generator, threshold=2, each=0, most=len(data))


def variant_6(data: Data, count: int, generator: Generator) -> Counts:
    """Chen, Xiao, Zhang and Xu (2015): threshold noise 2, noise 2 on each count, never stops."""
    return _answers(data, count, generator, threshold=2, each=2, most=len(data))


def _answers(
    data: Data, count: int, generator: Generator, *, threshold: int, each: int | Fraction, most: int
) -> Counts:
    noisy = np.tile(np.array(data), (count, 1))
    if each:
        noisy = noisy + integers(each, noisy.shape, generator)
    above = noisy >= integers(threshold, (count, 1), generator)
    before: Counts = np.cumsum(above, 1) - above
    return np.where(before < most, above, NOT_ANSWERED).astype(np.int64)


# Noise from the clock


CLOCK_CELLS = 8
LATEST, HOUR = 6, 3600
"""Seconds, at most, between the draw and the answer's arrival; the game is played within one hour."""


def seeded_by_clock(data: Data, count: int, generator: Generator) -> Counts:
    """Counts with noise of scale 1 from a generator that was seeded with the whole second.

    An outcome: the second in which the answer arrives, and the counts. Each draw has a moment of its own.
    """
    arrived = generator.integers(LATEST, HOUR, count)
    drawn = arrived - generator.integers(0, LATEST, count)
    return np.column_stack((arrived, np.array(data) + noise_of_seconds()[drawn]))


class ClockStatistic:
    """1 where a second just before the arrival explains the counts by the first answers, -1 by the second; 0 if both.

    Args:
        first: exact answers on one set of records.
        second: those on the other.
    """

    def __init__(self, first: Data, second: Data) -> None:
        self._first, self._second = np.array(first), np.array(second)

    def __call__(self, rows: Rows) -> Counts:
        """(n,) -1, 0 or 1 of each outcome."""
        arrived, counts = rows[:, 0].astype(np.int64), rows[:, 1:]
        found = np.zeros((2, len(rows)), np.int64)
        for late in range(LATEST):
            noise = noise_of_seconds()[arrived - late]
            for side, exact in enumerate((self._first, self._second)):
                found[side] |= (counts - noise == exact).all(1)
        return np.asarray(found[0] - found[1])


@lru_cache(maxsize=1)
def noise_of_seconds() -> Counts:
    """(HOUR, CLOCK_CELLS) noise of each second: whoever has the program can make this table."""
    return np.stack([integers(1, (CLOCK_CELLS,), np.random.default_rng(second)) for second in range(HOUR)])


# Secure sums


SHARED_SCALE = Fraction(3)


def shares_for_all(data: Data, count: int, generator: Generator) -> Counts:
    """A sum over 5 sites whose shares are made for 5; one of them colludes."""
    return _opened(data, Fraction(4, 5), count, generator)


def too_few_survivors(data: Data, count: int, generator: Generator) -> Counts:
    """A sum over 8 of 10 sites whose shares are made for 8, as two may collude; two of those 8 do."""
    return _opened(data, Fraction(6, 8), count, generator)


def two_lists(data: Data, count: int, generator: Generator) -> Counts:
    """The sums over 5 sites and over 4 of them: shares are made for 4."""
    share = LaplaceShares(SHARED_SCALE, Fraction(1, 4))
    others = share.simulate(generator, (count, 4)).sum(1)
    return np.stack((data[0] + share.simulate(generator, (count,)) + others, others), 1)


def _opened(data: Data, unknown: Fraction, count: int, generator: Generator) -> Counts:
    return data[0] + LaplaceShares(SHARED_SCALE, unknown).simulate(generator, (count,))


# Fitted models


HALVINGS = 60
"""Of an interval that holds the solution: it is then as exact as a double."""
NORM = 100
"""Of a record, where the scaling is wrong."""
WEIGHT_STEPS = 1000
_HALF = 0.5
"""Of epsilon 1, for the noise and for the change of variables each."""


def class_counts_to_n(data: Data, count: int, generator: Generator) -> Counts:
    """(records of each class) -> noisy counts of scale 1, moved until they add up to the exact number of records."""
    noisy = np.array(data) + integers(1, (count, len(data)), generator)
    short = sum(data) - noisy.sum(1)
    share, rest = np.divmod(short, len(data))
    return np.asarray(noisy + share[:, None] + (np.arange(len(data)) < rest[:, None]))


def one_class_fails(data: Data, count: int, generator: Generator) -> Counts:
    """(records of each class) -> noisy counts of scale 1; where a class has no record, the fit raises an error."""
    if 0 in data:
        return np.full((count, len(data)), -1)
    return np.abs(np.array(data) + integers(1, (count, len(data)), generator))


def regulariser_over_n(data: Data, count: int, generator: Generator) -> Counts:
    """Perturbed objective of logistic regression of which the mean is regularised: of the sum it is n times that.

    Args:
        data: of each record, the attribute times the label: -1, 0 or 1.
        count: draws.
        generator: of the noise.
    """
    ridge = len(data) * 0.25 / math.expm1(_HALF)
    return _perturbed(np.array(data, float), ridge, 1 / _HALF, count, generator)


def norm_not_squared(data: Data, count: int, generator: Generator) -> Counts:
    """The same with a planned regulariser, for records of norm R whose curvature R^2 / 4 is taken for R / 4."""
    ridge = NORM * 0.25 / math.expm1(_HALF)
    return _perturbed(NORM * np.array(data, float), ridge, NORM / _HALF, count, generator)


def _perturbed(signed: NDArray[np.float64], ridge: float, scale: float, count: int, generator: Generator) -> Counts:
    """Minimisers of sum log(1 + exp(-z w)) + ridge w^2 / 2 + b w with Laplace b, (n,) in steps of 1 / `WEIGHT_STEPS`.

    The steps hide the last bits of floats, so that only the fault that is meant shows.
    """
    noise = generator.laplace(0, scale, count)
    far = (np.abs(noise) + np.abs(signed).sum()) / ridge
    low, high = -far, far
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        slope = ridge * middle + noise - (signed / (1 + np.exp(np.clip(np.outer(middle, signed), -700, 700)))).sum(1)
        low, high = np.where(slope < 0, middle, low), np.where(slope < 0, high, middle)
    return np.asarray(np.rint(WEIGHT_STEPS * (low + high) / 2).astype(np.int64))
