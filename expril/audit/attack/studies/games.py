"""Membership games: what the adversary's guesses gained, and whether epsilon allows so much.

A fair coin decides whether somebody's record is among a curator's, and the adversary guesses. Its *gain* is the true
positive rate less the false positive rate. Under pure epsilon-differential privacy no adversary gains more than
(e^epsilon - 1) / (e^epsilon + 1) = tanh(epsilon / 2): the two error rates a and b obey a + e^epsilon b >= 1 and
b + e^epsilon a >= 1 (Wasserman and Zhou 2010, Theorem 2.4; Kairouz, Oh and Viswanath 2015, Theorem 2.1), and their
sum is least where both are equal.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from expril.audit.attack.studies.curators import Opening
from expril.audit.results import StudyAttack
from protocol.errors import ConfigurationError
from protocol.rationals import written

DISPLAYED = 0.95
"""Confidence of the interval that tables show; it decides nothing."""


def bound_of(epsilon: Fraction) -> float:
    """The greatest gain of any adversary against a record that this pure epsilon protects."""
    return math.tanh(float(epsilon) / 2)


def half_in(size: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """(size,) whether each record is in: a random half of them is.

    Raises:
        ConfigurationError: fewer than two.
    """
    if size < 2:
        raise ConfigurationError(f"{size} game is too few to play: at least 2 are needed, one with the record")
    return rng.permutation(size) < size // 2


@dataclass(frozen=True)
class Terms:
    """The terms under which an attack is played once."""

    epsilon: Fraction  # most that the curator charges to all learners together
    games: int  # games in which the adversary guesses
    records: str  # as `table_of` takes it
    opening: Opening | None  # opens a curator; None takes the attack's own
    error_rate: float  # greatest probability that any result finds a correct curator wrong
    rng: np.random.Generator  # of the coins, never of noise


@dataclass(frozen=True)
class Guesses:
    """Guesses in independent games."""

    hits: int  # true positives, of `present` games with the record
    present: int
    alarms: int  # false positives, of `absent` games without the record
    absent: int

    @classmethod
    def of(cls, guessed: NDArray[np.bool_], truth: NDArray[np.bool_]) -> "Guesses":
        """Count guesses (n,) against the coins (n,)."""
        hits, alarms = np.count_nonzero(guessed & truth), np.count_nonzero(guessed & ~truth)
        return cls(int(hits), int(np.count_nonzero(truth)), int(alarms), int(np.count_nonzero(~truth)))

    @property
    def games(self) -> int:
        """Number of games."""
        return self.present + self.absent

    @property
    def gain(self) -> float:
        """True positive rate less false positive rate, -1 to 1."""
        return self.hits / self.present - self.alarms / self.absent

    def interval(self) -> tuple[float, float]:
        """Newcombe's interval of the gain at 95 %, from Wilson's of either rate (Newcombe 1998, method 10)."""
        first = binomtest(self.hits, self.present).proportion_ci(DISPLAYED, method="wilson")
        second = binomtest(self.alarms, self.absent).proportion_ci(DISPLAYED, method="wilson")
        high, low = self.hits / self.present, self.alarms / self.absent
        below = math.hypot(high - first.low, second.high - low)
        above = math.hypot(first.high - high, low - second.low)
        return max(-1.0, self.gain - below), min(1.0, self.gain + above)

    def limits(self, error_rate: float) -> tuple[float, float]:
        """Limits that miss the true gain with a probability of at most `error_rate`, however few the games.

        They come from four one-sided limits of Clopper and Pearson (1934), each at `error_rate` / 4.
        """
        sure = 1.0 - error_rate / 4
        highs = [(self.hits, self.present), (self.alarms, self.absent)]
        above = [binomtest(k, n, alternative="less").proportion_ci(sure).high for k, n in highs]
        below = [binomtest(k, n, alternative="greater").proportion_ci(sure).low for k, n in highs]
        return float(below[0] - above[1]), float(above[0] - below[1])


def judged(
    attack: str,
    target: str,
    guesses: Guesses,
    *,
    epsilon: Fraction | None,
    error_rate: float,
    expected: float | None = None,
    remark: str = "",
) -> StudyAttack:
    """The result of an attack, with its verdict.

    Args:
        attack: its name.
        target: as in `StudyAttack`.
        guesses: of games in which nothing was tuned.
        epsilon: that protects a record over the whole attack; None if nothing protects it.
        error_rate: probability that a correct curator under a working attack is judged otherwise; half for either
            verdict.
        expected: gain of the attack in theory; None if there is no theory.
        remark: a further clause without a full stop.
    """
    bound = 1.0 if epsilon is None else bound_of(epsilon)
    low, high = guesses.limits(error_rate)
    holds, reaches = low <= bound, expected is None or high >= expected
    allowed = "none" if epsilon is None else written(epsilon)
    gain, sure = f"{guesses.gain:.4f}", f"{1 - error_rate:.6g}"
    if not holds:
        verdict = (
            f"It gains at least {low:.4f} (certainty {sure}), but epsilon {allowed} allows {bound:.4f} at most: more "
            "gets out than is charged for"
        )
    elif not reaches:
        verdict = (
            f"It gains at most {high:.4f} (certainty {sure}), but theory gives it {expected:.4f}: the attack does not "
            "work, so it proves nothing"
        )
    elif epsilon is None:
        verdict = f"It gains {gain}, and nothing bounds it: who is among the records is no secret"
    elif expected is not None:
        verdict = f"It gains {gain}, which fits theory ({expected:.4f}); epsilon {allowed} allows {bound:.4f}"
    else:
        verdict = f"It gains {gain}, which is no proof of more than the {bound:.4f} that epsilon {allowed} allows"
    return StudyAttack(
        attack=attack,
        target=target,
        epsilon=allowed,
        trials=guesses.games,
        gain=guesses.gain,
        interval=guesses.interval(),
        bound=bound,
        holds=holds,
        expected=expected,
        reaches=reaches,
        verdict=f"{verdict}{f'; {remark}' if remark else ''}.",
    )
