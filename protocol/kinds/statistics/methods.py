"""How a statistic is made private: what each method plans, and what one statistic costs.

Proofs: docs/explanation/statistics.md.

Costs are for one statistic and a unit of at most c records. `sensitivity` says how far a unit moves the scores or
numbers that get noise. `odds` bounds what the answer tells about the unit.
"""

import math
from fractions import Fraction
from typing import Annotated, Literal

import msgspec

from protocol.kinds.statistics.joint_loss import joint_loss
from protocol.noise import DiscreteLaplace, NoisyMax
from protocol.odds import MISSES, OFTEN, Odds, PrivacyUnit
from protocol.rationals import Rational

# The heavy-tailed noise that is scaled by smooth sensitivity has a density proportional to (1 + z^2)^(-(d + 1) / 2) for
# an even d: Student's t with d degrees of freedom, divided by the square root of d. With t = z / sqrt(1 + z^2) its
# distribution function is (1 + p(t)) / 2 for an odd polynomial p whose coefficients are rational: d = 2: t; d = 4:
# (3 t - t^3) / 2; d = 6: (15 t - 10 t^3 + 3 t^5) / 8. So t^2 is rational where z is, and a comparison with a rational
# is one of whole numbers. It is admissible in the sense of Nissim, Raskhodnikova and Smith (2007; Bun and Steinke 2019
# propose Student's t): moved by x, the log-density changes by at most (d + 1) |x| / 2; stretched by e^y, by at most
# d |y|. Proofs: docs/explanation/statistics.md.
Degrees = Literal[2, 4, 6]
POLYNOMIALS: dict[int, tuple[int, ...]] = {2: (1, 1), 4: (2, 3, -1), 6: (8, 15, -10, 3)}
"""Degrees of freedom -> common denominator and coefficients of t, t^3, t^5."""


def loss_of_shift(degrees: int, shift: Fraction) -> Fraction:
    """Largest change of the log-density under a shift in units of the scale: (d + 1) / 2 times the shift.

    The slope of (d + 1) / 2 log(1 + z^2) is (d + 1) z / (1 + z^2), and 2 |z| <= 1 + z^2.
    """
    return Fraction(degrees + 1, 2) * shift


def loss_of_stretch(degrees: int, log_ratio: Fraction) -> Fraction:
    """Largest change of the log-density if scales differ by a factor of at most exp(`log_ratio`): d times `log_ratio`.

    The slope of y - (d + 1) / 2 log(1 + e^(2 y) z^2) in y lies between -d and 1.
    """
    return degrees * log_ratio


def distribution(degrees: int, z: float) -> float:
    """P(Z <= z), in floats: for tests, studies and words."""
    t = z / (1 + z * z) ** 0.5
    denominator, *coefficients = POLYNOMIALS[degrees]
    power, total = t, 0.0
    for coefficient in coefficients:
        total += coefficient * power
        power *= t * t
    return 0.5 + 0.5 * total / denominator


MOST_WEIGHT = 1000
MOST_BLOCKS = 100_000
MOST_STEPS = 1_000_000
MOST_CHOSEN = 1000

Weight = Annotated[int, msgspec.Meta(ge=1, le=MOST_WEIGHT)]
Blocks = Annotated[int, msgspec.Meta(ge=1, le=MOST_BLOCKS)]
Steps = Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)]


class _Method(msgspec.Struct, frozen=True, tag_field="name", forbid_unknown_fields=True, omit_defaults=True):
    """Base of all methods; a curator's limits list the allowed methods by name."""

    @property
    def name(self) -> str:
        """Name on the wire."""
        return str(self.__struct_config__.tag)


class Exponential(_Method, frozen=True, tag="exponential"):
    """A quantile by the exponential mechanism over the points of a grid."""

    scale: Rational  # of the exponential noise in each score
    weight: Weight  # W, most that one record moves a score: the larger of a and b for the quantile a / (a + b)

    @property
    def law(self) -> NoisyMax:
        """Law of the noisy choice."""
        return NoisyMax(self.scale.fraction)

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest change of a score by a unit, c W, up or down."""
        return most_records_per_unit * self.weight

    def cost(self, most_records_per_unit: int) -> Fraction:
        """Cost 2 c W / scale of one statistic."""
        return self.law.loss(self.sensitivity(most_records_per_unit))

    @property
    def most_sides(self) -> int:
        """Largest a + b of a quantile a / (a + b) in lowest terms with a, b <= W; a = b only at 1."""
        return max(2, 2 * self.weight - 1)

    def odds(self, unit: PrivacyUnit) -> Odds:
        """Bound for a changed value: if it moves past a point, the point's score changes by a + b."""
        moved = self.law.loss(unit.records * self.most_sides)
        return Odds(self.cost(unit.records), _if_number(moved, unit), moved)

    @property
    def precision(self) -> str:
        """The rank error, in words."""
        off = _unlikely(self.scale, self.most_sides)
        return f"at best, a value off by {off} records in rank is told at most 1/20 as often as the right one"


def decay_factor(beta: Fraction) -> Fraction:
    """A rational of at least exp(-beta): 1 / (1 + beta + beta^2 / 2)."""
    return 1 / (1 + beta + beta * beta / 2)


class Smooth(_Method, frozen=True, tag="smooth"):
    """A quantile with noise scaled to its smooth sensitivity; pure epsilon by the heavy-tailed law of this module."""

    scale: Rational  # of the noise, in smooth sensitivities
    decay: Rational  # beta: smooth sensitivities of neighbours differ by a factor of at most e^beta
    degrees: Degrees = 4  # d, of freedom of the noise
    # of the price: 1 adds what a shift and what a stretch lose; 2 bounds both together, and is lower for the same law
    version: Literal[1, 2] = 1

    def cost(self, most_records_per_unit: int) -> Fraction:
        """Cost of one statistic, by `version`.

        1: (d + 1) / (2 scale) + d beta. 2: `joint_loss` of a shift by 1 / scale and a stretch by 1 / `decay_factor`,
        and no more than that of version 1.
        """
        shift, beta = 1 / self.scale.fraction, self.decay.fraction
        apart = loss_of_shift(self.degrees, shift) + loss_of_stretch(self.degrees, beta)
        return apart if self.version == 1 else min(apart, joint_loss(self.degrees, shift, 1 / decay_factor(beta)))

    def odds(self, unit: PrivacyUnit) -> Odds:
        """Twice the bound for presence, since nothing less is proved."""
        changed = 2 * self.cost(unit.records)
        return Odds(self.cost(unit.records), _if_number(changed, unit), changed)

    @property
    def precision(self) -> str:
        """The text that the precision depends on the records."""
        return _HIDDEN_WIDTH


class AggregateMean(_Method, frozen=True, tag="aggregate_mean"):
    """Sum over k blocks of an estimator's value, in whole steps, with discrete Laplace noise."""

    blocks: Blocks  # k
    steps: Steps  # R, of the range to which a block's value is clipped
    scale: Rational  # of the noise, in steps

    @property
    def law(self) -> DiscreteLaplace:
        """Law of the noise in the sum."""
        return DiscreteLaplace(self.scale.fraction)

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest change of the sum: a unit changes the value of one block, by at most R."""
        return self.steps

    def cost(self, most_records_per_unit: int) -> Fraction:
        """Cost R / scale of one statistic, for any c."""
        return self.law.loss(self.sensitivity(most_records_per_unit))

    def odds(self, unit: PrivacyUnit) -> Odds:
        """Bound for statistics of blocks: a named unit stays in its block; a changed record may move."""
        return _of_blocks(self.cost(unit.records), unit)

    @property
    def precision(self) -> str:
        """The precision of the mean over blocks, in words."""
        share = Fraction(self.law.width(MISSES), self.steps * self.blocks)
        return f"the mean over {self.blocks} blocks right within {float(share):.2%} of the range in {OFTEN}"


class AggregateMedian(_Method, frozen=True, tag="aggregate_median"):
    """Median over k blocks of an estimator's value, by the exponential mechanism over a grid."""

    blocks: Blocks  # k
    scale: Rational  # of the exponential noise in each score

    @property
    def law(self) -> NoisyMax:
        """Law of the noisy choice."""
        return NoisyMax(self.scale.fraction)

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest change of a score: a unit moves one of k values, so the number below a point changes by 1."""
        return 1

    def cost(self, most_records_per_unit: int) -> Fraction:
        """Cost 2 / scale of one statistic, for any c."""
        return self.law.loss(self.sensitivity(most_records_per_unit))

    def odds(self, unit: PrivacyUnit) -> Odds:
        """Bound for statistics of blocks: a named unit stays in its block; a changed record may move."""
        return _of_blocks(self.cost(unit.records), unit)

    @property
    def precision(self) -> str:
        """The rank error, in words."""
        off = _unlikely(self.scale, 1)
        return f"a value off by {off} of {self.blocks} blocks in rank is told at most 1/20 as often as the right one"


class Features(_Method, frozen=True, tag="features"):
    """The partitions that best predict the class, chosen one after the other."""

    chosen: Annotated[int, msgspec.Meta(ge=1, le=MOST_CHOSEN)]  # q, how many
    weight: Weight  # W, the largest weight of a class
    scale: Rational  # of the exponential noise in each score

    @property
    def law(self) -> NoisyMax:
        """Law of each noisy choice; it uses that an added record lowers no score."""
        return NoisyMax(self.scale.fraction, one_way=True)

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest increase of a score by a unit: each of its records adds 0 to W to every score."""
        return most_records_per_unit * self.weight

    def cost(self, most_records_per_unit: int) -> Fraction:
        """Cost q c W / scale: half of the usual cost of q choices, since all scores move the same way."""
        return self.chosen * self.law.loss(self.sensitivity(most_records_per_unit))

    def odds(self, unit: PrivacyUnit) -> Odds:
        """Bound for a change: removal lowers scores and addition raises them, so they no longer move the same way."""
        return Odds.twice(self.cost(unit.records))

    @property
    def precision(self) -> str:
        """The precision of each choice, in words."""
        off = _unlikely(self.scale, 1)
        return (
            f"{self.chosen} chosen; one that is worth {off} records less than the best is at most 1/20 as likely as it"
        )


def _if_number(exponent: Fraction, unit: PrivacyUnit) -> Fraction:
    """The exponent if the label is a number, else 0: a class label has no quantiles."""
    return exponent if unit.numeric else Fraction(0)


def _of_blocks(presence: Fraction, unit: PrivacyUnit) -> Odds:
    """Bound for statistics over blocks.

    A named unit is in one block whatever its records say. A record without a name is put into a block by its content,
    so any change of it leaves one block and enters another.
    """
    return Odds(presence, presence, presence) if unit.name else Odds.twice(presence)


def _unlikely(scale: Rational, step: int) -> int:
    """How many steps worse a score must be for its choice to be at most 1/20 as likely as the best one."""
    return math.ceil(scale.fraction * Fraction(-math.log(MISSES)) / step)


_HIDDEN_WIDTH = "a value whose noise is as wide as one unit could move it, which is not told"


LEAST_DECAY, MOST_DECAY = Fraction(1, 10_000), Fraction(10)
"""Range of beta. Smaller values take too long to compute; larger ones smooth nothing."""

Method = Exponential | Smooth | AggregateMean | AggregateMedian | Features
METHODS: dict[str, type[Method]] = {
    "exponential": Exponential,
    "smooth": Smooth,
    "aggregate_mean": AggregateMean,
    "aggregate_median": AggregateMedian,
    "features": Features,
}
