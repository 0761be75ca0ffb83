"""Power of a part's own tests before anything is asked, and the least epsilon with which they show a stated effect.

Tests are two-sided at 5 %. A linear statistic is its expected value and a law that is normal (sampling) plus weighted
discrete Laplace variables (noise): the critical value is taken from its law under the null, and the power from its law
under the effect, both by `inference.linear_p`. A part states what it assumes of the population in the words of its
`EffectTest`. The power is an approximation: fitted weights are taken as they are at the expected counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammainccinv, ndtr

from learner_node.analyses.inference import linear_p
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.part import LEVEL, EffectSize, EffectTest, Part, Setting
from learner_node.analyses.score_interval import Z
from protocol.errors import ConfigurationError
from protocol.rationals import written
from protocol.strict_toml import suggest

Floats = NDArray[np.float64]
USUAL_POWER = 0.8
_ALPHA = 1.0 - LEVEL
READABLE = tuple(Fraction(digits) * Fraction(10) ** exponent for exponent in range(-4, 2) for digits in range(10, 100))
"""Epsilons with two significant digits, .001 to 990, rising: a least epsilon is one of them."""


@dataclass(frozen=True)
class PowerQuote:
    """With which chance a stated effect would be shown, and the least epsilon that shows it."""

    words: str  # the effect, and what is assumed
    chance: float  # at the plan's epsilon
    target: float  # the power for which `least` is
    least: Fraction | None  # of the whole plan; None: no epsilon of `READABLE` is enough
    least_of_part: Fraction | None  # this analysis' share of it
    without_noise: float  # chance with exact counts

    def to_text(self) -> str:
        """One line."""
        chance = f"{self.words}: shown with a chance of {_chance(self.chance)}"
        if self.least is not None and self.least_of_part is not None:
            share = "" if self.least == self.least_of_part else f" ({written(self.least_of_part)} for this analysis)"
            return f"{chance}; with {percent(self.target)} from epsilon {written(self.least)}{share} on"
        if self.without_noise < self.target:
            return f"{chance}; no epsilon shows it: without noise the power is {_chance(self.without_noise)}"
        return f"{chance}; with {percent(self.target)} only above epsilon {written(READABLE[-1])}"

    def to_builtins(self) -> dict[str, Any]:
        """The same as JSON; rationals are texts."""
        return {
            "effect": self.words,
            "power": self.chance,
            "target_power": self.target,
            "least_epsilon": None if self.least is None else str(self.least),
            "least_epsilon_of_analysis": None if self.least_of_part is None else str(self.least_of_part),
            "power_without_noise": self.without_noise,
        }


def read_effect(text: str, parts: Sequence[Part]) -> EffectSize:
    """An effect in words, such as "hazard ratio 1.5". Raises ConfigurationError: no part has a test of it."""
    measure, _, number = text.strip().rpartition(" ")
    measures = list(dict.fromkeys(name for part in parts for name in part.measures))
    try:
        size = float(number)
    except ValueError:
        size = float("nan")
    examples = ", ".join(measures) or "none"
    if not measure or not np.isfinite(size):
        raise ConfigurationError(f"effect {text!r}: write a measure and its size; measures of this plan: {examples}")
    if measure not in measures:
        hint = suggest(measure, measures)
        raise ConfigurationError(f"no analysis tests a {measure!r}{hint}; measures of this plan: {examples}")
    if "ratio" in measure and not (size > 0 and size != 1):
        raise ConfigurationError(f"effect {text!r}: a ratio is above 0, and a ratio of 1 is no effect")
    if size == 0:
        raise ConfigurationError(f"effect {text!r}: a difference of 0 is no effect")
    return EffectSize(measure, size)


def foresee(
    part: Part,
    setting: Setting,
    epsilon: Fraction,
    part_epsilon: Fraction,
    *,
    effects: Sequence[EffectSize] = (),
    power: float = USUAL_POWER,
) -> list[PowerQuote]:
    """The power of a part's tests of the stated effects, or of its usual ones where none is stated.

    Args:
        part: of the plan.
        setting: at `epsilon`.
        epsilon: of the whole plan.
        part_epsilon: of this part, in proportion to which it grows with the plan's.
        effects: stated ones; those of other parts' measures are passed over.
        power: wanted, in (0, 1).
    """
    tests = [test for effect in (effects or (None,)) for test in part.effect_tests(setting, effect)]
    quotes = []
    for test in tests:
        least = least_epsilon(test, setting.noises, epsilon, power)
        quotes.append(
            PowerQuote(
                words=test.words,
                chance=test.power(setting.noises),
                target=power,
                least=least,
                least_of_part=None if least is None else least * part_epsilon / epsilon,
                without_noise=test.power([NoiseLaw(0.0) for _ in setting.noises]),
            )
        )
    return quotes


def least_epsilon(test: EffectTest, noises: Sequence[NoiseLaw], epsilon: Fraction, power: float) -> Fraction | None:
    """The least epsilon of `READABLE` with at least this power, where `noises` are those at `epsilon`.

    None where the largest of them is not enough.
    """

    def enough(value: Fraction) -> bool:
        factor = float(epsilon / value)
        return test.power([NoiseLaw(noise.scale * factor, noise.draws) for noise in noises]) >= power

    if not enough(READABLE[-1]):
        return None
    low, high = -1, len(READABLE) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(READABLE[middle]) else (middle, high)
    return READABLE[high]


def linear_power(
    signal: float,
    weights: Floats,
    samplings: tuple[float, float],
    noise: NoiseLaw,
    added: Floats | None = None,
) -> float:
    """Chance that a two-sided test by a linear statistic rejects.

    Args:
        signal: the statistic's expected value.
        weights: (cells,), of the answers in it.
        samplings: variances of its normal part, under the null and under the effect.
        noise: in each cell that was asked.
        added: (cells,), how many asked cells were added up to each; 1 if None.
    """
    null, sampling = samplings

    def tail(value: float, variance: float) -> float:
        half = float(linear_p(np.asarray(abs(value)), weights, np.asarray(variance), noise, added)) / 2.0
        return half if value >= 0 else 1.0 - half

    spread = null + float((weights**2 * (1.0 if added is None else added)).sum()) * noise.variance
    if spread <= 0:
        return 1.0 if signal else _ALPHA
    low, high = 0.0, 8.0 * spread**0.5
    for _ in range(24):
        middle = (low + high) / 2.0
        low, high = (middle, high) if tail(middle, null) > _ALPHA / 2.0 else (low, middle)
    return tail(high - abs(signal), sampling) + tail(high + abs(signal), sampling)


def quadratic_power(noncentrality: float, degrees: float, variance: float) -> float:
    """Chance that Pearson's statistic exceeds its critical value.

    Laws under the null and the effect are gamma laws of their mean and variance (Patnaik 1949, for chi-squared).

    Args:
        noncentrality: the statistic at the expected counts.
        degrees: its mean under the null.
        variance: likewise, with what the noise's kurtosis adds.
    """
    if degrees <= 0:
        return 0.0
    critical = float(gammainccinv(degrees**2 / variance, _ALPHA)) * variance / degrees
    mean, spread = degrees + noncentrality, variance + 4.0 * noncentrality
    return float(gammaincc(mean**2 / spread, critical * mean / spread))


def normal_power(standardised: float) -> float:
    """Chance that a normal statistic of this mean and variance 1 is beyond its critical values."""
    return float(ndtr(abs(standardised) - Z) + ndtr(-abs(standardised) - Z))


def normal_tail(mean: float, deviation: float) -> float:
    """Chance that a normal variable is above 0."""
    return float(ndtr(mean / deviation)) if deviation > 0 else float(mean > 0)


def percent(share: float) -> str:
    """A share in whole per cent."""
    return f"{100.0 * share:.0f} %"


def _chance(value: float) -> str:
    """A chance in per cent; none is 100."""
    return "over 99 %" if value > 0.99 else percent(value)
