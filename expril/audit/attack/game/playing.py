"""The distinguishing game: an event is chosen on one half of the draws, and proves a loss on the other.

Also both distributions of the number that an event is about, small enough for a figure, and `Game`: one that somebody
else states, of a mechanism, two neighbouring inputs and the epsilon that is claimed.
"""

import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.game.search import Event, Likelier, choose_events, loss_bound
from expril.audit.attack.game.statistics import Function, Mechanism, Rows, draw
from expril.audit.results import Attack, Spread
from protocol.errors import ConfigurationError, printable

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


MOST_PLACES = 121
_EDGE = 0.0005


def spread_of(event: Event, first: Rows, second: Rows) -> Spread:
    """Shares of the draws at each place: the number's values, or bins; of an unordered one, its learned ratio."""
    if isinstance(event, Likelier) and not event.statistic.ordered:
        axis = f"logarithm of the learned ratio of {event.statistic.name}"
        one, two = event.score(first), event.score(second)
    else:
        axis = event.statistic.name
        one, two = event.statistic.of(first).astype(float), event.statistic.of(second).astype(float)
    return _histogram(axis, one, two, _interval(event))


def _interval(event: Event) -> tuple[float, float] | None:
    if isinstance(event, Likelier):
        return None if event.statistic.ordered else (event.threshold, np.inf)
    if event.outside:
        return None
    return -np.inf if event.low is None else float(event.low), np.inf if event.high is None else float(event.high)


def _histogram(
    axis: str, one: NDArray[np.float64], two: NDArray[np.float64], interval: tuple[float, float] | None
) -> Spread:
    both = np.concatenate((one, two))
    values = np.unique(both)
    if len(values) > MOST_PLACES:
        low, high = np.quantile(both, (_EDGE, 1 - _EDGE))
        edges = _edges(float(low), float(high), whole=bool((values == np.round(values)).all()))
        values = (edges[:-1] + edges[1:]) / 2
    else:
        edges = np.append(np.append(-np.inf, (values[:-1] + values[1:]) / 2), np.inf)
    shares = [np.histogram(each, edges)[0] / len(each) for each in (one, two)]
    places = tuple(float(f"{value:.6g}") for value in values)
    if interval is not None:
        low, high = (float(f"{end:.6g}") for end in interval)
        interval = (max(low, places[0]), min(high, places[-1]))
    return Spread(
        axis=axis,
        values=places,
        first=tuple(float(share) for share in shares[0]),
        second=tuple(float(share) for share in shares[1]),
        event=None if interval is None or interval[0] > interval[1] else interval,
    )


def _edges(low: float, high: float, *, whole: bool) -> NDArray[np.float64]:
    if high <= low:
        low, high = low - 0.5, high + 0.5
    if whole:
        step = max(1, int(np.ceil((high - low + 1) / MOST_PLACES)))
        return np.arange(np.floor(low) - 0.5, high + step, step)[: MOST_PLACES + 1]
    return np.linspace(low, high, MOST_PLACES + 1)


@dataclass(frozen=True)
class Game:
    """What `expril audit game` plays.

    Attributes:
        mechanism: (input, n) -> (n,) or (n, k): n independent outcomes on that input.
        first: one input, whatever the mechanism takes.
        second: a neighbouring one.
        epsilon: that is claimed for these two: text, a whole number, a Fraction, or a float, which means what it shows.
        neighbours: the two inputs, in words; "" shows them.
        statistics: what an adversary with knowledge of its own computes: name -> function of (n, k) outcomes that gives
            (n,) numbers.
    """

    mechanism: Callable[[Any, int], Any]
    first: Any
    second: Any
    epsilon: str | float | Fraction
    neighbours: str = ""
    statistics: Mapping[str, Function] = field(default_factory=dict)

    def play(self, *, draws: int, error_rate: float, claimed: str | None = None) -> Attack:
        """See `expril.audit.attack.game.play`.

        Args:
            draws: from either input.
            error_rate: chance that the lower bound is above the true epsilon, at most.
            claimed: takes the place of `epsilon`.

        Raises:
            ConfigurationError: as `play`; or the mechanism raises, and where.
        """
        epsilon = claimed or self.epsilon
        return play(
            lambda count: self._draw(self.first, count, "first"),
            lambda count: self._draw(self.second, count, "second"),
            claimed=repr(float(epsilon)) if isinstance(epsilon, float) else epsilon,
            draws=draws,
            error_rate=error_rate,
            neighbours=self.neighbours or f"{_short(self.first)} and {_short(self.second)}",
            statistics={name: _named(name, function) for name, function in self.statistics.items()},
        )

    def _draw(self, data: Any, count: int, which: str) -> NDArray[Any]:
        try:
            return np.asarray(self.mechanism(data, count))
        except Exception as error:
            raise ConfigurationError(f"the mechanism fails on the {which} input: {_told(error)}") from error


def one_by_one(release: Callable[[Any], Any]) -> Callable[[Any, int], NDArray[Any]]:
    """A mechanism of a function that gives one outcome a call: a number, or numbers of one length."""

    def many(data: Any, count: int) -> NDArray[Any]:
        return np.array([release(data) for _ in range(count)])

    return many


def _named(name: str, function: Function) -> Function:
    def safe(rows: NDArray[Any]) -> NDArray[Any]:
        try:
            values = np.asarray(function(rows))
        except Exception as error:
            raise ConfigurationError(f"the statistic {name!r} fails: {_told(error)}") from error
        if values.shape != (len(rows),) or values.dtype.kind not in "buif" or not np.isfinite(values).all():
            raise ConfigurationError(
                f"the statistic {name!r} gives {values.dtype} of shape {values.shape} for {len(rows)} outcomes;"
                " give one finite number an outcome"
            )
        return values.astype(np.float64 if values.dtype.kind == "f" else np.int64)

    return safe


def _told(error: Exception) -> str:
    """The error and the innermost line that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (line {frames[-1].lineno} of {frames[-1].filename})" if frames else ""
    return f"{type(error).__name__}: {printable(str(error))}{where}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
