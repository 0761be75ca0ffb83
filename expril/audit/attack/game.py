"""The distinguishing game on any mechanism: two neighbouring inputs, outcomes in, a lower bound on epsilon out.

An event, which is a set of outcomes, is chosen on one half of the draws and proves a loss on the other (`play`). For a
figure, `spread_of` gives both distributions of the statistic that the event is about. `Game` is what a user of
`expril audit game` states: a mechanism, two inputs, and the epsilon and delta that are claimed.
"""

import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.event_search import Choice, Event, Likelier, choose_event
from expril.audit.attack.game_statistics import Function, Mechanism, Rows, Stand, draw
from expril.audit.attack.loss_bounds import loss_bound
from expril.audit.results import Attack, Spread
from protocol.errors import ConfigurationError, printable

__all__ = ["Game", "breaks", "claimed_epsilon", "loss_bound", "one_by_one", "play", "spread_of", "verdict_of"]

LEAST_DRAWS = 400


def play(
    first: Mechanism,
    second: Mechanism,
    *,
    claimed: str | int | Fraction,
    delta: str | int | Fraction = 0,
    draws: int = 100_000,
    error_rate: float,
    neighbours: str,
    statistics: Mapping[str, Function] | None = None,
) -> Attack:
    """Tell two neighbouring inputs apart by a mechanism's outcomes, and bound its epsilon at a delta from below.

    On the first half of the draws the search picks one event, and the input under which it is likelier. On the second
    half, which the search never sees, the event gets a lower bound on ln((P - delta) / Q), with P its probability under
    that input, and Q under the other. It holds for independent draws, whatever the search does.

    Args:
        first: the mechanism on the first input: n -> (n,) or (n, k) independent outcomes.
        second: the mechanism on the second input, likewise.
        claimed: epsilon, exact; it does not change the search.
        delta: exact, at least 0 and below 1; an event has it for free.
        draws: of each input, at least 400.
        error_rate: greatest probability that the lower bound is above the true epsilon; in (0, 1).
        neighbours: the two inputs, in words.
        statistics: what an adversary with more knowledge computes, such as a comparison with noise that it can
            reproduce: name -> function of (n, k) outcomes that gives (n,) numbers.

    Raises:
        ConfigurationError: too few draws, a wrong error rate or claim, or outcomes that are no rows of numbers.
    """
    claim, claim_delta = claimed_epsilon(claimed), claimed_delta(delta)
    if draws < LEAST_DRAWS:
        raise ConfigurationError(f"a game of {draws} draws proves nothing; take at least {LEAST_DRAWS}")
    if not 0 < error_rate < 1:
        raise ConfigurationError(f"an error rate of {error_rate} is none; take one between 0 and 1, such as 0.05")
    half, free = draws // 2, float_above(claim_delta)
    search_rows = draw_both(first, second, half)
    stand = Stand.for_rows(*search_rows)
    search_rows = stand.of(search_rows[0]), stand.of(search_rows[1])
    choice = choose_event(*search_rows, error_rate, statistics or {}, delta=free)
    proof_rows = draw_both(first, second, draws - half)
    if proof_rows[0].shape[1] != search_rows[0].shape[1] or proof_rows[0].dtype != search_rows[0].dtype:
        raise ConfigurationError("outcomes change their length or type from call to call; give rows of one form")
    bound, words, shares = 0.0, "no event came often enough to learn from", (0.0, 0.0)
    if choice is not None:
        proof_rows = stand.of(proof_rows[0]), stand.of(proof_rows[1])
        bound, words, shares = _prove(choice, proof_rows, error_rate, free)
    return Attack(
        claimed=claim,
        delta=claim_delta,
        lower_bound=max(0.0, bound),
        error_rate=error_rate,
        draws=draws,
        neighbours=neighbours,
        event=f"{words}{stand.words}",
        shares=shares,
        spread=None if choice is None else spread_of(choice.event, *proof_rows),
    )


def breaks(attack: Attack) -> bool:
    """Whether the draws prove a larger epsilon than is claimed. The two are compared exactly."""
    return Fraction(attack.lower_bound) > Fraction(attack.claimed)


def verdict_of(attack: Attack) -> str:
    """The game's verdict on the claim, in one sentence."""
    at = f" at a delta of {attack.delta}" if Fraction(attack.delta) else ""
    proven = f"{attack.draws:,} draws from either input prove an epsilon of at least {attack.lower_bound:.3g}{at}"
    if breaks(attack):
        return f"Broken: {proven}, and {attack.claimed} is claimed."
    return f"Not broken by this game: {proven}, and {attack.claimed} is claimed; a lower bound never proves a claim."


def claimed_epsilon(claimed: str | int | Fraction) -> str:
    """Return the claim as exact text.

    Raises:
        ConfigurationError: the claim is no number, or negative.
    """
    text, value = _exact("epsilon", claimed, "1, 0.5 or 1/30")
    if value < 0:
        raise ConfigurationError(f"the claimed epsilon {claimed!r} is negative; claim 0 or more")
    return text


def claimed_delta(claimed: str | int | Fraction) -> str:
    """Return the claimed delta as exact text.

    Raises:
        ConfigurationError: the claim is no number, negative, or 1 or more.
    """
    text, value = _exact("delta", claimed, "0, 1e-5 or 1/100000")
    if not 0 <= value < 1:
        raise ConfigurationError(
            f"the claimed delta {claimed!r} is no probability below 1; claim at least 0, such as 1e-5"
        )
    return text


def _exact(name: str, claimed: str | int | Fraction, examples: str) -> tuple[str, Fraction]:
    try:
        value = Fraction(claimed)
    except (ValueError, ZeroDivisionError, TypeError):
        raise ConfigurationError(f"the claimed {name} {claimed!r} is no number; write {examples}") from None
    return claimed.strip() if isinstance(claimed, str) else str(value), value


def float_above(exact: str) -> float:
    """Return the least float that is not below the number."""
    value = float(Fraction(exact))
    return value if Fraction(value) >= Fraction(exact) else math.nextafter(value, math.inf)


def draw_both(first: Mechanism, second: Mechanism, count: int) -> tuple[Rows, Rows]:
    """Draw outcomes on both inputs, as rows of one length and type.

    Raises:
        ConfigurationError: `draw` raises it, or the rows of the two inputs differ in length.
    """
    first_rows, second_rows = (
        draw(first, count, "the mechanism on the first input"),
        draw(second, count, "the mechanism on the second"),
    )
    if first_rows.shape[1] != second_rows.shape[1]:
        raise ConfigurationError(
            f"an outcome has {first_rows.shape[1]} numbers on the first input and {second_rows.shape[1]} on the second;"
            " give rows of one length, filled up with a number of its own"
        )
    if first_rows.dtype != second_rows.dtype:
        first_rows, second_rows = first_rows.astype(np.float64), second_rows.astype(np.float64)
    return first_rows, second_rows


def _prove(
    choice: Choice, rows: tuple[Rows, Rows], error_rate: float, delta: float
) -> tuple[float, str, tuple[float, float]]:
    """The loss that an event proves on fresh draws, the event in words, and its shares."""
    more, fewer = rows[choice.side], rows[1 - choice.side]
    counts = int(choice.event.holds(more).sum()), int(choice.event.holds(fewer).sum())
    bound = loss_bound(*counts, (len(more), len(fewer)), error_rate, delta=delta, expected=choice.expected)
    words = f"{choice.event.words(more)}: likelier under the {('first', 'second')[choice.side]} input"
    return bound, words, (counts[0] / len(more), counts[1] / len(fewer))


MOST_PLACES = 121
_EDGE = 0.0005


def spread_of(event: Event, first: Rows, second: Rows) -> Spread:
    """Return shares of draws by value of the event's statistic, or in bins. Cells without order go by learned ratio."""
    if isinstance(event, Likelier) and not event.statistic.ordered:
        axis = f"logarithm of the learned ratio of {event.statistic.name}"
        first_values, second_values = event.score(first), event.score(second)
    else:
        axis = event.statistic.name
        first_values, second_values = event.statistic.of(first).astype(float), event.statistic.of(second).astype(float)
    return _histogram(axis, first_values, second_values, _interval(event))


def _interval(event: Event) -> tuple[float, float] | None:
    if isinstance(event, Likelier):
        return None if event.statistic.ordered else (event.threshold, np.inf)
    if event.outside:
        return None
    return -np.inf if event.low is None else float(event.low), np.inf if event.high is None else float(event.high)


def _histogram(
    axis: str, first: NDArray[np.float64], second: NDArray[np.float64], interval: tuple[float, float] | None
) -> Spread:
    pooled = np.concatenate((first, second))
    values = np.unique(pooled)
    if len(values) > MOST_PLACES:
        low, high = np.quantile(pooled, (_EDGE, 1 - _EDGE))
        edges = _edges(float(low), float(high), integral=bool((values == np.round(values)).all()))
        values = (edges[:-1] + edges[1:]) / 2
    else:
        edges = np.append(np.append(-np.inf, (values[:-1] + values[1:]) / 2), np.inf)
    shares = [np.histogram(values_of_side, edges)[0] / len(values_of_side) for values_of_side in (first, second)]
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


def _edges(low: float, high: float, *, integral: bool) -> NDArray[np.float64]:
    if high <= low:
        low, high = low - 0.5, high + 0.5
    if integral:
        step = max(1, int(np.ceil((high - low + 1) / MOST_PLACES)))
        return np.arange(np.floor(low) - 0.5, high + step, step)[: MOST_PLACES + 1]
    return np.linspace(low, high, MOST_PLACES + 1)


@dataclass(frozen=True)
class Game:
    """A mechanism, two neighbouring inputs and a claim, for `expril audit game`."""

    mechanism: Callable[[Any, int], Any]  # (input, n) -> (n,) or (n, k): n independent outcomes on that input
    first: Any  # one input, whatever the mechanism takes
    second: Any  # a neighbouring input
    epsilon: str | float | Fraction  # claimed for these two inputs; a float means the decimal that it is printed as
    neighbours: str = ""  # the two inputs, in words; "" shows them
    statistics: Mapping[str, Function] = field(default_factory=dict)  # as `play` takes them
    delta: str | float | Fraction = 0  # claimed with epsilon, likewise

    def play(self, *, draws: int, error_rate: float, claimed: str | None = None, delta: str | None = None) -> Attack:
        """Play as the function `play` does; `claimed` takes the place of `epsilon`, and `delta` of the game's own.

        Raises:
            ConfigurationError: the function `play` raises it, or the mechanism fails at the line that the message
                names.
        """
        return play(
            lambda count: self._draw(self.first, count, "first"),
            lambda count: self._draw(self.second, count, "second"),
            claimed=_decimal(self.epsilon if claimed is None else claimed),
            delta=_decimal(self.delta if delta is None else delta),
            draws=draws,
            error_rate=error_rate,
            neighbours=self.neighbours or f"{_short(self.first)} and {_short(self.second)}",
            statistics={name: _named(name, function) for name, function in self.statistics.items()},
        )

    def _draw(self, data: Any, count: int, which: str) -> NDArray[Any]:
        try:
            return np.asarray(self.mechanism(data, count))
        except Exception as error:
            raise ConfigurationError(f"the mechanism fails on the {which} input: {_error_text(error)}") from error


def one_by_one(release: Callable[[Any], Any]) -> Callable[[Any, int], NDArray[Any]]:
    """Turn a function that gives one outcome a call (a number, or k numbers) into a mechanism."""

    def many(data: Any, count: int) -> NDArray[Any]:
        return np.array([release(data) for _ in range(count)])

    return many


def _decimal(claim: str | float | Fraction) -> str | int | Fraction:
    return repr(float(claim)) if isinstance(claim, float) else claim


def _named(name: str, function: Function) -> Function:
    def safe(rows: NDArray[Any]) -> NDArray[Any]:
        try:
            values = np.asarray(function(rows))
        except Exception as error:
            raise ConfigurationError(f"the statistic {name!r} fails: {_error_text(error)}") from error
        if values.shape != (len(rows),) or values.dtype.kind not in "buif" or not np.isfinite(values).all():
            raise ConfigurationError(
                f"the statistic {name!r} gives {values.dtype} of shape {values.shape} for {len(rows)} outcomes;"
                " give one finite number an outcome"
            )
        return values.astype(np.float64 if values.dtype.kind == "f" else np.int64)

    return safe


def _error_text(error: Exception) -> str:
    """The error and the innermost line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (line {frames[-1].lineno} of {frames[-1].filename})" if frames else ""
    return f"{type(error).__name__}: {printable(str(error))}{where}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
