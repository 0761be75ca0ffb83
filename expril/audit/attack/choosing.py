"""Whether the noise library chooses by the exact law: counts of each index, exact binomial tests at a computed rate."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy import stats

from curator_node.mechanisms import NoiseSource, OpenDPNoise, Stamp
from expril.audit.results import Check
from protocol.noise import NoisyMax

CHOICES = 6_000
FALSE_ALARM = 1e-9
SCORES = np.array([1, 0, 0, 6, -9], np.int64)
LAW = NoisyMax(Fraction(3))
FAULTY = Fraction(6, 5)
"""A fault that is noticed: the scale is by so much too wide, or too narrow."""


def choice_check(noise: Callable[[], NoiseSource] = OpenDPNoise) -> Check:
    """Choices among a few scores, held index by index against their chances."""
    source, stamp = noise(), Stamp("auditor", 0, 1)
    drawn = [source.choose(SCORES, 1, LAW, stamp) for _ in range(CHOICES)]
    found = np.bincount(drawn, minlength=len(SCORES))
    least, most = _bounds()
    strange = len(found) > len(SCORES) or bool(((found < least) | (found > most))[: len(SCORES)].any())
    missed = max(_pass_chance(LAW.scale * factor) for factor in (FAULTY, 1 / FAULTY))
    said = "do not fit" if strange else "fit"
    return Check(
        name="noise_choice",
        question=f"Has the index of the largest noisy score the exact law, at scale {LAW.scale}?",
        found=f"{'No' if strange else 'Yes'}: {CHOICES} choices {said} the chances of all {len(SCORES)} indices.",
        false_alarm=FALSE_ALARM,
        power=f"a scale wrong by a fifth: noticed with a chance of at least 1 - {max(missed, 1e-12):.1g}",
        passed=not strange,
    )


def _bounds() -> tuple[np.ndarray, np.ndarray]:
    """Counts of each index that a right source passes with a chance of at most `FALSE_ALARM`, all indices together."""
    chances, rate = LAW.chances(SCORES), FALSE_ALARM / (2 * len(SCORES))
    return stats.binom.ppf(rate, CHOICES, chances), stats.binom.isf(rate, CHOICES, chances)


def _pass_chance(scale: Fraction) -> float:
    """Chance, at most, that a source of another scale is not noticed: that one index alone does not tell it."""
    least, most = _bounds()
    chances = NoisyMax(scale).chances(SCORES)
    inside = stats.binom.cdf(most, CHOICES, chances) - stats.binom.cdf(least - 1, CHOICES, chances)
    return float(inside.min())
