"""Mechanisms for the game: some correct, the others broken on purpose, each in one way that is known from practice.

All take exact answers on the records, a number n and a generator, and return (n,) or (n, k) outcomes. They use integer
noise from numpy, so that no other fault shows.

The sparse vector technique says which of many counts are above a threshold, and costs only for those few. Lyu, Su and
Li (2017, "Understanding the sparse vector technique for differential privacy", figure 1) list six published variants:
1 and 2 are right, 3 to 6 are not. Here epsilon is 1, the sensitivity 1, the threshold 0, and integer noise replaces
continuous Laplace noise, which changes none of the arguments. An outcome has a number for each count: 1 above, 0
below, -1 not answered.

If the seed of the noise is the time, an adversary who knows roughly when an answer was made can try the few seeds.

In the secure sums, sites draw shares of discrete Laplace noise of scale 3, and colluders tell the learner theirs.

Models fitted in site treat the number of records, or the classes that occur, as public. The first, the second and the
last of the four have faults that `expril-lab peers` finds in diffprivlib 0.6.6. The third is the original setting of
Chaudhuri, Monteleoni and Sarwate (2011, Algorithm 2), whose neighbours have the same number of records.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.game import breaks, play
from expril.audit.attack.game_statistics import Function, Rows
from expril.audit.results import Attack, ControlResult
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace
from protocol.noise_shares import LaplaceShares

Data = tuple[int, ...]
"""The exact answers on one set of records."""
Generator = np.random.Generator
Counts = NDArray[np.int64]
Drawn = Callable[[Data, int, Generator], NDArray[Any]]
"""(exact answers on the records, n, generator) -> (n,) or (n, k) outcomes."""


@dataclass(frozen=True)
class Control:
    """A mechanism with a claim; noise comes from numpy, as nothing is protected."""

    mechanism: Drawn
    first: Data  # exact answers on one data set
    second: Data  # exact answers on a neighbouring data set
    neighbours: str  # the two data sets, in words
    truth: str  # loss between these two, as text: "infinite", or a number; it may be larger between others
    claimed: str = "1"  # epsilon, as text
    fault: str = ""  # one sentence; "" for a correct mechanism
    statistics: Mapping[str, Function] = field(default_factory=dict)  # what the adversary can compute of an outcome

    def attack(self, *, draws: int, error_rate: float, seed: int | None) -> Attack:
        """Play the game with noise from the seed; None takes the operating system's entropy."""
        generator = np.random.default_rng(seed)
        return play(
            lambda count: self.mechanism(self.first, count, generator),
            lambda count: self.mechanism(self.second, count, generator),
            claimed=self.claimed,
            draws=draws,
            error_rate=error_rate,
            neighbours=self.neighbours,
            statistics=self.statistics,
        )


CONTROLS: dict[str, Control] = {}
"""Broken on purpose: an audit that misses one of them proves nothing."""


def _on(first: Data, second: Data, neighbours: str, truth: str, **more: Any) -> Callable[[Drawn], Control]:
    """Return a function that makes a control of a mechanism, on these two inputs."""
    return lambda mechanism: Control(mechanism, first, second, neighbours, truth, **more)


def _broken(name: str, fault: str, control_of: Callable[[Drawn], Control]) -> Callable[[Drawn], Drawn]:
    """Return a decorator that adds a mechanism to `CONTROLS` with its fault."""

    def named(mechanism: Drawn) -> Drawn:
        CONTROLS[name] = replace(control_of(mechanism), fault=fault)
        return mechanism

    return named


_RISE = (0, 0, 0, 0, 0, 1, 1, 1, 1, 1)
_FALL = (1, 1, 1, 1, 1, 0, 0, 0, 0, 0)
_EACH = "ten counts, of which five move up by one and five down by one"
_CELLS = (4, 2, 7, 1, 3, 5, 2, 6)
_ONE_MORE = (5, 2, 7, 1, 3, 5, 2, 6)


def integers(scale: int | Fraction, shape: tuple[int, ...], generator: Generator) -> Counts:
    """Discrete Laplace noise of that scale."""
    return DiscreteLaplace(Fraction(scale)).simulate(generator, shape)


def counts_at(scale: int | Fraction) -> Callable[[Data, int, Generator], Counts]:
    """Counts with independent discrete Laplace noise of that scale."""

    def noisy_counts(data: Data, count: int, generator: Generator) -> Counts:
        return np.array(data) + integers(scale, (count, len(data)), generator)

    return noisy_counts


def noisy_max(data: Data, count: int, generator: Generator) -> Counts:
    """The index of the largest noisy count, noise of scale 1; counts move in one direction (Dwork and Roth 2014)."""
    return np.asarray((np.array(data) + integers(1, (count, len(data)), generator)).argmax(1))


def randomized_response(data: Data, count: int, generator: Generator) -> Counts:
    """Warner (1965): the truth with probability exp(1) / (1 + exp(1)), else its opposite."""
    lies = generator.random(count) < 1 / (1 + np.e)
    return np.where(lies, 1 - data[0], data[0])


def exponential_choice(data: Data, count: int, generator: Generator) -> Counts:
    """McSherry and Talwar (2007): an option with probability in proportion to exp(count), counts that only rise."""
    weights = np.exp(np.array(data, float))
    return generator.choice(len(data), count, p=weights / weights.sum())


def ratio_of_noisy(data: Data, count: int, generator: Generator) -> NDArray[np.float64]:
    """(signed errors, records) with noise of scale 2 each, then their ratio, which is free post-processing."""
    noisy = np.array(data) + integers(2, (count, 2), generator)
    return np.asarray(np.clip(noisy[:, 0] / np.maximum(noisy[:, 1], 1), -1, 1))


def two_rounds(data: Data, count: int, generator: Generator) -> Counts:
    """Two rounds of one study, each with fresh noise of scale 2."""
    return np.array(data) + integers(2, (count, len(data)), generator)


@_broken(
    "float_laplace",
    "Laplace noise in floating point: the last bits of what is released tell the exact count.",
    _on((0,), (1,), "a count of 0 and one of 1", "infinite"),
)
def float_laplace(data: Data, count: int, generator: Generator) -> NDArray[np.float64]:
    """Laplace noise of scale 1, made and added in floating point (Mironov 2012)."""
    return np.asarray(data[0] + generator.laplace(0, 1, count))


@_broken(
    "exact_denominator",
    "Integer noise is divided by the exact number of records, which the possible fractions give away.",
    _on((5, 10), (5, 11), "5 errors among 10 records and among 11", "infinite"),
)
def exact_denominator(data: Data, count: int, generator: Generator) -> NDArray[np.float64]:
    """(errors, records) of one bin -> noisy errors over the exact number of records, clipped to 0 .. 1."""
    errors, records = data
    return np.clip((errors + integers(1, (count,), generator)) / records, 0, 1)


NOT_ANSWERED = -1


def variant_1(data: Data, count: int, generator: Generator) -> Counts:
    """Right: threshold noise 2, noise of each count 4 c, stops after c = 1 above."""
    return _answers(data, count, generator, threshold=2, count_scale=4, most=1)


@_broken(
    "svt_3",
    "The sparse vector technique puts out the noisy count that was compared with the threshold.",
    _on((*(-1,) * 10, 0), (*(0,) * 10, -1), "eleven counts: ten move up by one and the last down by one", "5.5"),
)
def variant_3(data: Data, count: int, generator: Generator) -> Counts:
    """Roth's lecture notes (2011): threshold noise 2, noise 2 c, c = 1; releases the noisy count that is above.

    An outcome is the index of the count that is above, and its noisy value; (number of counts, 0) if none is above.
    """
    noisy = np.array(data) + integers(2, (count, len(data)), generator)
    above = noisy >= integers(2, (count, 1), generator)
    any_above, place = above.any(1), above.argmax(1)
    value = np.where(any_above, noisy[np.arange(count), place], 0)
    return np.stack((np.where(any_above, place, len(data)), value), 1)


@_broken(
    "svt_4",
    "The sparse vector technique's noise on each count does not grow with the number of answers above.",
    _on(_RISE, _FALL, _EACH, "4.542"),
)
def variant_4(data: Data, count: int, generator: Generator) -> Counts:
    """Lee and Clifton (2014): threshold noise 4, noise 4/3 for each count whatever c is; here c = 3."""
    return _answers(data, count, generator, threshold=4, count_scale=Fraction(4, 3), most=3)


@_broken(
    "svt_5",
    "The sparse vector technique puts noise on the threshold, and none on the counts.",
    _on(_RISE, _FALL, _EACH, "infinite"),
)
def variant_5(data: Data, count: int, generator: Generator) -> Counts:
    """Stoddard, Chen and Machanavajjhala (2014): threshold noise 2, none on the counts, never stops."""
    return _answers(data, count, generator, threshold=2, count_scale=0, most=len(data))


@_broken(
    "svt_6",
    "The sparse vector technique answers without end, and charges for none above the threshold.",
    _on(_RISE, _FALL, _EACH, "4.179"),
)
def variant_6(data: Data, count: int, generator: Generator) -> Counts:
    """Chen, Xiao, Zhang and Xu (2015): threshold noise 2, noise 2 on each count, never stops."""
    return _answers(data, count, generator, threshold=2, count_scale=2, most=len(data))


def _answers(
    data: Data, count: int, generator: Generator, *, threshold: int, count_scale: int | Fraction, most: int
) -> Counts:
    noisy = np.tile(np.array(data), (count, 1))
    if count_scale:
        noisy = noisy + integers(count_scale, noisy.shape, generator)
    above = noisy >= integers(threshold, (count, 1), generator)
    before: Counts = np.cumsum(above, 1) - above
    return np.where(before < most, above, NOT_ANSWERED).astype(np.int64)


@_broken(
    "noisy_max_with_value",
    "The largest noisy count is put out beside its place: every count had a say in it.",
    _on((0, 0, 0, 0, 0), (1, 1, 1, 1, 1), "five counts that all move up by one", "2.5"),
)
def noisy_max_with_value(data: Data, count: int, generator: Generator) -> Counts:
    """The index of the largest noisy count, noise of scale 2, and that noisy count."""
    noisy = np.array(data) + integers(2, (count, len(data)), generator)
    return np.stack((noisy.argmax(1), noisy.max(1)), 1)


@_broken(
    "noisy_max_half_scale",
    "The place of the largest noisy count, with half the noise that the claim needs.",
    _on((0, 1, 1), (1, 1, 1), "three counts, of which the first moves up by one", "1.895"),
)
def noisy_max_half_scale(data: Data, count: int, generator: Generator) -> Counts:
    """The index of the largest noisy count, with noise of scale 1/2 where 1 is needed."""
    return np.asarray((np.array(data) + integers(Fraction(1, 2), (count, len(data)), generator)).argmax(1))


@_broken(
    "raw_leak",
    "One answer in a thousand is sent without noise.",
    _on(
        (*_CELLS, 3, 0),
        (*_ONE_MORE, 4, 0),
        "ten cells of two partitions: one record more in a cell of each",
        "14.44",
        claimed="1/2",
    ),
)
def raw_leak(data: Data, count: int, generator: Generator) -> Counts:
    """Counts with noise of scale 4, except that one answer in a thousand has no noise."""
    noise = integers(4, (count, len(data)), generator)
    noise[generator.random(count) < 0.001] = 0
    return np.array(data) + noise


CLOCK_CELLS = 8
LATEST, HOUR = 6, 3600
"""Seconds: fewer than `LATEST` pass between the draw and the answer's arrival; the game lasts an `HOUR`."""


class ClockStatistic:
    """1 if a recent second's seed explains the counts by the first exact answers, -1 by the second, 0 by both."""

    def __init__(self, first: Data, second: Data) -> None:
        self._first, self._second = np.array(first), np.array(second)

    def __call__(self, rows: Rows) -> Counts:
        """(n,) -1, 0 or 1 of each outcome."""
        arrived, counts = rows[:, 0].astype(np.int64), rows[:, 1:]
        explained = np.zeros((2, len(rows)), np.int64)
        for late in range(LATEST):
            noise = noise_of_seconds()[arrived - late]
            for side, exact in enumerate((self._first, self._second)):
                explained[side] |= (counts - noise == exact).all(1)
        return np.asarray(explained[0] - explained[1])


@_broken(
    "noise_seeded_by_clock",
    "The seed of the noise is the time in whole seconds, which the receiver of an answer knows roughly.",
    _on(
        _CELLS,
        _ONE_MORE,
        "eight cells: one record more in the first",
        "infinite",
        statistics={"which exact answers a seed of the last seconds explains": ClockStatistic(_CELLS, _ONE_MORE)},
    ),
)
def seeded_by_clock(data: Data, count: int, generator: Generator) -> Counts:
    """Counts with noise of scale 1 from a generator whose seed is the second of the draw.

    An outcome is the second in which the answer arrives, and the counts; each draw has its own moment.
    """
    arrived = generator.integers(LATEST, HOUR, count)
    seconds = arrived - generator.integers(0, LATEST, count)
    return np.column_stack((arrived, np.array(data) + noise_of_seconds()[seconds]))


@lru_cache(maxsize=1)
def noise_of_seconds() -> Counts:
    """(HOUR, CLOCK_CELLS) noise of each second: anybody who has the program can compute it."""
    return np.stack([integers(1, (CLOCK_CELLS,), np.random.default_rng(second)) for second in range(HOUR)])


@_broken(
    "noise_reused_across_rounds",
    "Two rounds of one study get the same noise vector, which their difference removes.",
    _on(
        (4, 2, 7, 1, 2, 0, 3, 1),
        (5, 2, 7, 1, 1, 0, 3, 1),
        "masses and signed errors of four bins: one record more, which is an error",
        "infinite",
    ),
)
def noise_reused(data: Data, count: int, generator: Generator) -> Counts:
    """(masses, signed errors) of four bins in two rounds of one study: one noise vector of scale 2 serves both."""
    noise = integers(2, (count, len(data) // 2), generator)
    return np.array(data) + np.concatenate((noise, noise), 1)


@_broken(
    "seen_cells_only",
    "Only cells that hold a record get noise, so that an exact 0 tells that a cell is empty.",
    _on((3, 0, 2), (3, 1, 2), "three cells: one record more in the empty one", "infinite"),
)
def seen_cells_only(data: Data, count: int, generator: Generator) -> Counts:
    """Counts with noise of scale 1 in the cells that hold a record; empty cells stay 0."""
    exact = np.array(data)
    return np.where(exact > 0, exact + integers(1, (count, len(data)), generator), 0)


@_broken(
    "one_sided_noise",
    "Noise is never negative, so that no answer lies below the exact count.",
    _on((3,), (4,), "a count of 3 and one of 4", "infinite"),
)
def one_sided(data: Data, count: int, generator: Generator) -> Counts:
    """A count plus geometric noise, which is never negative."""
    return np.asarray(data[0] + generator.geometric(-np.expm1(-1.0), count) - 1)


SHARED_SCALE = Fraction(3)


@_broken(
    "shares_for_all_sites",
    "The noise shares of five sites make one whole noise, and one of the sites tells the learner its share.",
    _on((3,), (4,), "a count of 3 and one of 4 at one of five sites that are summed", "0.5032", claimed="1/3"),
)
def shares_for_all(data: Data, count: int, generator: Generator) -> Counts:
    """A sum over 5 sites with shares made for 5; one of them colludes."""
    return _opened(data, Fraction(4, 5), count, generator)


@_broken(
    "survivors_not_checked",
    "Noise shares allow for two colluders among ten sites, and a sum over eight is opened, two of them colluders.",
    _on((3,), (4,), "a count of 3 and one of 4 at one of ten sites that are summed", "0.5580", claimed="1/3"),
)
def too_few_survivors(data: Data, count: int, generator: Generator) -> Counts:
    """A sum over 8 of 10 sites with shares made for 8, as two may collude; two of those 8 collude."""
    return _opened(data, Fraction(6, 8), count, generator)


@_broken(
    "two_survivor_lists",
    "Sites help to open two sums, with and without one of them: the difference is its count under its share alone.",
    _on((3,), (4,), "a count of 3 and one of 4 at one of five sites that are summed", "1.657", claimed="1/3"),
)
def two_lists(data: Data, count: int, generator: Generator) -> Counts:
    """The sums over 5 sites and over 4 of them, with shares made for 4."""
    share = LaplaceShares(SHARED_SCALE, Fraction(1, 4))
    rest = share.simulate(generator, (count, 4)).sum(1)
    return np.stack((data[0] + share.simulate(generator, (count,)) + rest, rest), 1)


def _opened(data: Data, unknown: Fraction, count: int, generator: Generator) -> Counts:
    return data[0] + LaplaceShares(SHARED_SCALE, unknown).simulate(generator, (count,))


HALVINGS = 60
"""Halvings of an interval that holds the solution, which is then as exact as a double."""
NORM = 100
"""Norm of a record that is wrongly scaled."""
WEIGHT_STEPS = 1000
_HALF = 0.5
"""Share of epsilon 1 for the noise, and for the change of variables."""


@_broken(
    "class_counts_sum_to_n",
    "Noisy class counts are moved until they add up to the exact number of records, which their sum then tells.",
    _on((4, 3), (4, 4), "4 and 3 records of two classes, and one record more of the second", "infinite"),
)
def class_counts_to_n(data: Data, count: int, generator: Generator) -> Counts:
    """(records of each class) -> noisy counts of scale 1, moved until they add up to the exact number of records."""
    noisy = np.array(data) + integers(1, (count, len(data)), generator)
    short = sum(data) - noisy.sum(1)
    share, rest = np.divmod(short, len(data))
    return np.asarray(noisy + share[:, None] + (np.arange(len(data)) < rest[:, None]))


@_broken(
    "one_class_fails",
    "A fit raises an error where a class has no record: whether there is one is told without noise.",
    _on((4, 0), (4, 1), "4 records of one class, and one more of another class", "infinite"),
)
def one_class_fails(data: Data, count: int, generator: Generator) -> Counts:
    """(records of each class) -> noisy counts of scale 1; where a class has no record, the fit raises an error."""
    if 0 in data:
        return np.full((count, len(data)), -1)
    return np.abs(np.array(data) + integers(1, (count, len(data)), generator))


@_broken(
    "regulariser_over_n",
    "The mean loss is regularised, so the sum is regularised by the exact number of records.",
    _on((0,), (0, 0), "one record whose attributes are all 0, and two of them", "infinite"),
)
def regulariser_over_n(data: Data, count: int, generator: Generator) -> Counts:
    """Perturbed objective of logistic regression that adds the regulariser to the mean loss, not to the sum.

    `data`: of each record, the attribute times the label: -1, 0 or 1.
    """
    ridge = len(data) * 0.25 / math.expm1(_HALF)
    return _perturbed(np.array(data, float), ridge, 1 / _HALF, count, generator)


@_broken(
    "norm_not_squared",
    "The noise on an objective takes the curvature of a record of norm R for R / 4; it is R^2 / 4.",
    _on((), (1,), "no record, and one of norm 100", "3.954"),
)
def norm_not_squared(data: Data, count: int, generator: Generator) -> Counts:
    """Perturbed objective with a planned regulariser. It takes R / 4 for the curvature R^2 / 4 at norm R."""
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


CLEAN: Mapping[str, Control] = {
    "count": Control(counts_at(1), (3,), (4,), "a count of 3 and one of 4", "1"),
    "one_partition": Control(counts_at(1), _CELLS, _ONE_MORE, "eight cells: one record more in the first", "1"),
    "three_partitions": Control(
        counts_at(3),
        (4, 2, 1, 5, 0, 7),
        (5, 2, 2, 5, 1, 7),
        "six cells of three partitions: one record more in a cell of each",
        "1",
    ),
    "signed_and_mass": Control(
        counts_at(2), (6, 2), (7, 1), "records and signed errors: one record more, an error", "1"
    ),
    "small_epsilon": Control(counts_at(30), (50,), (51,), "a count of 50 and one of 51", "1/30", claimed="1/30"),
    "two_rounds": Control(
        two_rounds, (4, 2, 2, 0), (5, 2, 1, 0), "two bins asked twice: one record more, an error", "1"
    ),
    "ratio_of_noisy": Control(
        ratio_of_noisy, (5, 10), (4, 11), "10 records and 11, of which the new one is an error", "1"
    ),
    "svt_1": Control(variant_1, _RISE, _FALL, _EACH, "1"),
    "noisy_max": Control(noisy_max, (0, 1, 1), (1, 1, 1), "three counts, of which the first moves up by one", "1"),
    "randomized_response": Control(randomized_response, (0,), (1,), "a bit that is 0 and one that is 1", "1"),
    "exponential_choice": Control(
        exponential_choice, (0, 0, 0, 0), (1, 0, 0, 0), "four counts, of which the first moves up by one", "1"
    ),
}
"""Correct mechanisms: any violation here is a false alarm. The stated truth is an upper bound, mostly attained."""


def audit_control(name: str, *, draws: int = 100_000, error_rate: float, seed: int | None = None) -> ControlResult:
    """Play the distinguishing game against a control, as strictly as against a shipped kind.

    `name`: a key of `CONTROLS`, or of `CLEAN`; `draws`: of each input; `error_rate`: greatest probability that the
    lower bound is above the true epsilon; `seed`: of the control's noise; None takes fresh entropy.

    Raises:
        ConfigurationError: there is no such control.
    """
    control = CONTROLS.get(name) or CLEAN.get(name)
    if control is None:
        raise ConfigurationError(f"there is no control {name}; there are {', '.join((*CONTROLS, *CLEAN))}")
    attack = control.attack(draws=draws, error_rate=error_rate, seed=seed)
    return ControlResult(name=name, fault=control.fault, truth=control.truth, attack=attack, caught=breaks(attack))
