"""The distinguishing game: an event is chosen on one half of the draws, and proves a loss on the other."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from expril.audit.attack.game.bounds import loss_bound
from expril.audit.attack.game.events import Event
from expril.audit.attack.game.outcomes import Mechanism, Rows, draw
from expril.audit.attack.game.search import choose_events
from expril.audit.attack.game.spreads import spread_of
from expril.audit.attack.game.statistics import Function
from expril.audit.results import Attack
from protocol.errors import ConfigurationError

LEAST_DRAWS = 400


def play(
    first: Mechanism,
    second: Mechanism,
    *,
    claimed: str | int | Fraction,
    draws: int = 100_000,
    error_rate: float,
    neighbours: str,
    statistics: Mapping[str, Function] | None = None,
) -> Attack:
    """Tell two neighbouring inputs apart by what a mechanism puts out, and bound its epsilon from below.

    On the first half of the draws the search picks one event that is likelier under the first input and one that is
    likelier under the second. On the second half, which the search never sees, each gets a bound on the logarithm of
    its two chances' ratio, at half the error rate. The larger bound is the result. It holds for independent draws,
    whatever the search does.

    Args:
        first: the mechanism on the one input: n -> (n,) or (n, k) independent outcomes.
        second: the mechanism on the other input, the same way.
        claimed: epsilon, exact; it does not change the search.
        draws: from either input, at least 400.
        error_rate: chance that the lower bound is above the true epsilon, at most; in (0, 1).
        neighbours: the two inputs, in words.
        statistics: what an adversary with knowledge of its own looks at, name -> function of (n, k) outcomes that gives
            (n,) numbers, such as a comparison with noise that it can compute itself.

    Raises:
        ConfigurationError: too few draws, an error rate or a claim that is none, outcomes that are no rows of numbers.
    """
    claim = claimed_epsilon(claimed)
    if draws < LEAST_DRAWS:
        raise ConfigurationError(f"a game of {draws} draws proves nothing; take at least {LEAST_DRAWS}")
    if not 0 < error_rate < 1:
        raise ConfigurationError(f"an error rate of {error_rate} is none; take one between 0 and 1, such as 0.05")
    half = draws // 2
    chosen_on = draw_both(first, second, half)
    events = choose_events(*chosen_on, error_rate, statistics or {})
    judged_on = draw_both(first, second, draws - half)
    if judged_on[0].shape[1] != chosen_on[0].shape[1] or judged_on[0].dtype != chosen_on[0].dtype:
        raise ConfigurationError("outcomes change their length or type from call to call; give rows of one form")
    found = [_judge(event, judged_on, side, error_rate / 2) for side, event in enumerate(events)]
    bound, words, shares, event = max(found, key=lambda one: one[0])
    return Attack(
        claimed=claim,
        lower_bound=max(0.0, bound),
        error_rate=error_rate,
        draws=draws,
        neighbours=neighbours,
        event=words,
        shares=shares,
        spread=None if event is None else spread_of(event, *judged_on),
    )


def breaks(attack: Attack) -> bool:
    """Whether the draws prove more than the claim; compared exactly."""
    return Fraction(attack.lower_bound) > Fraction(attack.claimed)


def verdict_of(attack: Attack) -> str:
    """One sentence: what the game says about the claim."""
    proven = f"{attack.draws:,} draws from either input prove an epsilon of at least {attack.lower_bound:.3g}"
    if breaks(attack):
        return f"Broken: {proven}, and {attack.claimed} is claimed."
    return f"Not broken by this game: {proven}, and {attack.claimed} is claimed; a lower bound never proves a claim."


def claimed_epsilon(claimed: str | int | Fraction) -> str:
    """The claim as exact text.

    Raises:
        ConfigurationError: it is no number, or negative.
    """
    try:
        value = Fraction(claimed)
    except (ValueError, ZeroDivisionError, TypeError):
        raise ConfigurationError(f"the claimed epsilon {claimed!r} is no number; write 1, 0.5 or 1/30") from None
    if value < 0:
        raise ConfigurationError(f"the claimed epsilon {claimed!r} is negative; claim 0 or more")
    return claimed.strip() if isinstance(claimed, str) else str(value)


def draw_both(first: Mechanism, second: Mechanism, count: int) -> tuple[Rows, Rows]:
    """Outcomes on either input, as rows of one form.

    Raises:
        ConfigurationError: as `draw`, or their lengths differ.
    """
    one, two = (
        draw(first, count, "the mechanism on the first input"),
        draw(second, count, "the mechanism on the second"),
    )
    if one.shape[1] != two.shape[1]:
        raise ConfigurationError(
            f"an outcome has {one.shape[1]} numbers on the first input and {two.shape[1]} on the second;"
            " give rows of one length, filled up with a number of its own"
        )
    if one.dtype != two.dtype:
        one, two = one.astype(np.float64), two.astype(np.float64)
    return one, two


class _Judged(NamedTuple):
    bound: float
    words: str
    shares: tuple[float, float]
    event: Event | None


def _judge(event: Event | None, rows: tuple[Rows, Rows], side: int, error_rate: float) -> _Judged:
    """What an event proves on draws on which it was not chosen; `side` is the input under which it is likelier."""
    if event is None:
        return _Judged(-math.inf, "no event came often enough to learn from", (0.0, 0.0), None)
    more, fewer = rows[side], rows[1 - side]
    counts = int(event.holds(more).sum()), int(event.holds(fewer).sum())
    bound = loss_bound(*counts, (len(more), len(fewer)), error_rate)
    shares = counts[0] / len(more), counts[1] / len(fewer)
    return _Judged(bound, f"{event.words(more)}: likelier under the {('first', 'second')[side]} input", shares, event)
