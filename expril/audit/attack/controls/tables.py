"""The controls by name: what is broken on purpose, and what is right."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.controls import mechanisms
from expril.audit.attack.controls.mechanisms import Data
from expril.audit.attack.game import Function, breaks, play
from expril.audit.results import Attack, ControlResult
from protocol.errors import ConfigurationError

Drawn = Callable[[Data, int, np.random.Generator], NDArray[Any]]
"""(exact answers on the records, n, generator) -> (n,) or (n, k) outcomes."""


@dataclass(frozen=True)
class Control:
    """A mechanism with a claim; noise comes from numpy, as nothing is protected.

    Attributes:
        mechanism: draws outcomes.
        first: exact answers on one set of records.
        second: those on a neighbouring set.
        neighbours: the two, in words.
        claimed: epsilon, as text.
        truth: largest loss between these two sets, as text: "infinite", or a number; of other sets it may be larger.
        fault: what is wrong, one sentence; "" for a correct mechanism.
        statistics: what the adversary knows to compute from an outcome.
    """

    mechanism: Drawn
    first: Data
    second: Data
    neighbours: str
    claimed: str
    truth: str
    fault: str = ""
    statistics: Mapping[str, Function] = field(default_factory=dict)

    def attack(self, *, draws: int, error_rate: float, seed: int | None) -> Attack:
        """The distinguishing game, with noise from a seed, or from the operating system's entropy."""
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


_RISE = (0, 0, 0, 0, 0, 1, 1, 1, 1, 1)
_FALL = (1, 1, 1, 1, 1, 0, 0, 0, 0, 0)
_EACH = "ten counts, of which five move up by one and five down by one"
_CELLS = (4, 2, 7, 1, 3, 5, 2, 6)
_ONE_MORE = (5, 2, 7, 1, 3, 5, 2, 6)

CONTROLS: Mapping[str, Control] = {
    "float_laplace": Control(
        mechanisms.float_laplace,
        (0,),
        (1,),
        "a count of 0 and one of 1",
        "1",
        "infinite",
        "Laplace noise in floating point: the last bits of what is released tell the exact count.",
    ),
    "exact_denominator": Control(
        mechanisms.exact_denominator,
        (5, 10),
        (5, 11),
        "5 errors among 10 records and among 11",
        "1",
        "infinite",
        "Integer noise is divided by the exact number of records, which the possible fractions give away.",
    ),
    "svt_3": Control(
        mechanisms.variant_3,
        (*(-1,) * 10, 0),
        (*(0,) * 10, -1),
        "eleven counts: ten move up by one and the last down by one",
        "1",
        "5.5",
        "The sparse vector technique puts out the noisy count that was compared with the threshold.",
    ),
    "svt_4": Control(
        mechanisms.variant_4,
        _RISE,
        _FALL,
        _EACH,
        "1",
        "4.542",
        "The sparse vector technique's noise on each count does not grow with the number of answers above.",
    ),
    "svt_5": Control(
        mechanisms.variant_5,
        _RISE,
        _FALL,
        _EACH,
        "1",
        "infinite",
        "The sparse vector technique puts noise on the threshold, and none on the counts.",
    ),
    "svt_6": Control(
        mechanisms.variant_6,
        _RISE,
        _FALL,
        _EACH,
        "1",
        "4.179",
        "The sparse vector technique answers without end, and charges for none above the threshold.",
    ),
    "noisy_max_with_value": Control(
        mechanisms.noisy_max_with_value,
        (0, 0, 0, 0, 0),
        (1, 1, 1, 1, 1),
        "five counts that all move up by one",
        "1",
        "2.5",
        "The largest noisy count is put out beside its place: every count had a say in it.",
    ),
    "noisy_max_half_scale": Control(
        mechanisms.noisy_max_half_scale,
        (0, 1, 1),
        (1, 1, 1),
        "three counts, of which the first moves up by one",
        "1",
        "1.895",
        "The place of the largest noisy count, with half the noise that the claim needs.",
    ),
    "raw_leak": Control(
        mechanisms.raw_leak,
        (*_CELLS, 3, 0),
        (*_ONE_MORE, 4, 0),
        "ten cells of two partitions: one record more in a cell of each",
        "1/2",
        "14.44",
        "One answer in a thousand is sent without noise.",
    ),
    "noise_seeded_by_clock": Control(
        mechanisms.seeded_by_clock,
        _CELLS,
        _ONE_MORE,
        "eight cells: one record more in the first",
        "1",
        "infinite",
        "The seed of the noise is the time in whole seconds, which the receiver of an answer knows roughly.",
        {"which exact answers a seed of the last seconds explains": mechanisms.ClockStatistic(_CELLS, _ONE_MORE)},
    ),
    "noise_reused_across_rounds": Control(
        mechanisms.noise_reused,
        (4, 2, 7, 1, 2, 0, 3, 1),
        (5, 2, 7, 1, 1, 0, 3, 1),
        "masses and signed errors of four bins: one record more, which is an error",
        "1",
        "infinite",
        "Two rounds of one study get the same noise vector, which their difference removes.",
    ),
    "seen_cells_only": Control(
        mechanisms.seen_cells_only,
        (3, 0, 2),
        (3, 1, 2),
        "three cells: one record more in the empty one",
        "1",
        "infinite",
        "Only cells that hold a record get noise, so that an exact 0 tells that a cell is empty.",
    ),
    "one_sided_noise": Control(
        mechanisms.one_sided,
        (3,),
        (4,),
        "a count of 3 and one of 4",
        "1",
        "infinite",
        "Noise is never negative, so that no answer lies below the exact count.",
    ),
    "shares_for_all_sites": Control(
        mechanisms.shares_for_all,
        (3,),
        (4,),
        "a count of 3 and one of 4 at one of five sites that are summed",
        "1/3",
        "0.5032",
        "The noise shares of five sites make one whole noise, and one of the sites tells the learner its share.",
    ),
    "survivors_not_checked": Control(
        mechanisms.too_few_survivors,
        (3,),
        (4,),
        "a count of 3 and one of 4 at one of ten sites that are summed",
        "1/3",
        "0.5580",
        "Noise shares allow for two colluders among ten sites, and a sum over eight is opened, two of them colluders.",
    ),
    "two_survivor_lists": Control(
        mechanisms.two_lists,
        (3,),
        (4,),
        "a count of 3 and one of 4 at one of five sites that are summed",
        "1/3",
        "1.657",
        "Sites help to open two sums, with and without one of them: the difference is its count under its share alone.",
    ),
    "class_counts_sum_to_n": Control(
        mechanisms.class_counts_to_n,
        (4, 3),
        (4, 4),
        "4 and 3 records of two classes, and one record more of the second",
        "1",
        "infinite",
        "Noisy class counts are moved until they add up to the exact number of records, which their sum then tells.",
    ),
    "one_class_fails": Control(
        mechanisms.one_class_fails,
        (4, 0),
        (4, 1),
        "4 records of one class, and one more of another class",
        "1",
        "infinite",
        "A fit raises an error where a class has no record: whether there is one is told without noise.",
    ),
    "regulariser_over_n": Control(
        mechanisms.regulariser_over_n,
        (0,),
        (0, 0),
        "one record whose attributes are all 0, and two of them",
        "1",
        "infinite",
        "The mean loss is regularised, so the sum is regularised by the exact number of records.",
    ),
    "norm_not_squared": Control(
        mechanisms.norm_not_squared,
        (),
        (1,),
        "no record, and one of norm 100",
        "1",
        "3.954",
        "The noise on an objective takes the curvature of a record of norm R for R / 4; it is R^2 / 4.",
    ),
}
"""Broken on purpose: an audit that does not catch one of them is worth nothing."""

CLEAN: Mapping[str, Control] = {
    "count": Control(mechanisms.counts_at(1), (3,), (4,), "a count of 3 and one of 4", "1", "1"),
    "one_partition": Control(
        mechanisms.counts_at(1), _CELLS, _ONE_MORE, "eight cells: one record more in the first", "1", "1"
    ),
    "three_partitions": Control(
        mechanisms.counts_at(3),
        (4, 2, 1, 5, 0, 7),
        (5, 2, 2, 5, 1, 7),
        "six cells of three partitions: one record more in a cell of each",
        "1",
        "1",
    ),
    "signed_and_mass": Control(
        mechanisms.counts_at(2), (6, 2), (7, 1), "records and signed errors: one record more, an error", "1", "1"
    ),
    "small_epsilon": Control(mechanisms.counts_at(30), (50,), (51,), "a count of 50 and one of 51", "1/30", "1/30"),
    "two_rounds": Control(
        mechanisms.two_rounds, (4, 2, 2, 0), (5, 2, 1, 0), "two bins asked twice: one record more, an error", "1", "1"
    ),
    "ratio_of_noisy": Control(
        mechanisms.ratio_of_noisy, (5, 10), (4, 11), "10 records and 11, of which the new one is an error", "1", "1"
    ),
    "svt_1": Control(mechanisms.variant_1, _RISE, _FALL, _EACH, "1", "1"),
    "noisy_max": Control(
        mechanisms.noisy_max, (0, 1, 1), (1, 1, 1), "three counts, of which the first moves up by one", "1", "1"
    ),
    "randomized_response": Control(
        mechanisms.randomized_response, (0,), (1,), "a bit that is 0 and one that is 1", "1", "1"
    ),
    "exponential_choice": Control(
        mechanisms.exponential_choice,
        (0, 0, 0, 0),
        (1, 0, 0, 0),
        "four counts, of which the first moves up by one",
        "1",
        "1",
    ),
}
"""Correct: what is flagged here is a false alarm. A stated truth is an upper bound that most of them attain."""


def audit_control(name: str, *, draws: int = 100_000, error_rate: float, seed: int | None = None) -> ControlResult:
    """Play the distinguishing game against a control, as strictly as against a shipped kind.

    Args:
        name: a key of `CONTROLS`, or of `CLEAN`.
        draws: from either input.
        error_rate: chance that the lower bound is above the true epsilon, at most.
        seed: of the control's noise; None for one that nobody knows.

    Raises:
        ConfigurationError: there is no such control.
    """
    control = CONTROLS.get(name) or CLEAN.get(name)
    if control is None:
        raise ConfigurationError(f"there is no control {name}; there are {', '.join((*CONTROLS, *CLEAN))}")
    attack = control.attack(draws=draws, error_rate=error_rate, seed=seed)
    return ControlResult(name=name, fault=control.fault, truth=control.truth, attack=attack, caught=breaks(attack))
