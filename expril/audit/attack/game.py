"""The distinguishing game on any mechanism: two neighbouring inputs, outcomes in, a lower bound on epsilon out.

An event, which is a set of outcomes, is chosen on one half of the draws and proves a loss on the other (`play`). For a
figure, `spread_of` gives both distributions of the statistic that the event is about. `Game` is what a user of
`expril audit game` states: a mechanism, two inputs and the epsilon that is claimed.
"""

import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv, ndtri

from expril.audit.attack.game_statistics import (
    MOST_VALUES,
    Cells,
    Function,
    Mechanism,
    Rows,
    Statistic,
    draw,
    fit_cells,
    statistics_for,
)
from expril.audit.results import Attack, Spread
from protocol.errors import ConfigurationError, printable

_SHOWN, _SHOWN_OF = 3, 2000


@dataclass(frozen=True)
class Between:
    """The event that an ordered statistic lies between two values, or outside of them."""

    statistic: Statistic
    low: Any  # least value in the interval; None: no lower end
    high: Any  # upper end of the interval; None: no upper end
    below: bool  # whether `high` itself is excluded
    outside: bool = False  # whether the event is the complement of the interval

    def holds(self, rows: Rows) -> NDArray[np.bool_]:
        """(n,) whether each outcome is in the event."""
        values = self.statistic.of(rows)
        between = np.ones(len(values), np.bool_)
        if self.low is not None:
            between &= values >= self.low
        if self.high is not None:
            between &= values < self.high if self.below else values <= self.high
        return between ^ self.outside

    def words(self, rows: Rows) -> str:  # noqa: ARG002
        """The event in words."""
        if self.low is None and self.high is None:
            return f"{self.statistic.name} is anything"
        if self.low is not None and self.low == self.high:
            return f"{self.statistic.name} is {'not ' if self.outside else ''}{self.low:.6g}"
        under, over = ("below", "at least") if self.below else ("at most", "above")
        if self.outside:
            sides = [f"below {self.low:.6g}"] if self.low is not None else []
            sides += [f"{over} {self.high:.6g}"] if self.high is not None else []
            return f"{self.statistic.name} is {' or '.join(sides)}"
        sides = [f"at least {self.low:.6g}"] if self.low is not None else []
        sides += [f"{under} {self.high:.6g}"] if self.high is not None else []
        return f"{self.statistic.name} is {' and '.join(sides)}"


@dataclass(frozen=True)
class Likelier:
    """The event that a statistic is in one of the cells that came much more often under one input."""

    statistic: Statistic
    cells: Cells
    scores: NDArray[np.float64]  # (m + 1,) learned log ratio of each cell; the last is for values in no cell
    threshold: float  # the event holds the cells whose score is at least this

    def score(self, rows: Rows) -> NDArray[np.float64]:
        """(n,) score of each outcome."""
        return self.scores[self.cells.of(self.statistic.of(rows))]

    def holds(self, rows: Rows) -> NDArray[np.bool_]:
        """(n,) whether each outcome is in the event."""
        return self.score(rows) >= self.threshold

    def words(self, rows: Rows) -> str:
        """The event in words, with examples from `rows`."""
        name, inside = self.statistic.name, rows[self.holds(rows)]
        if not len(inside):
            return f"{name} is one of those learned"
        columns = list(self.statistic.columns)
        values = inside[:, columns] if columns else self.statistic.of(inside)[:, None]
        examples = [_text(value) for value in np.unique(values[:_SHOWN_OF], axis=0)[: _SHOWN + 1]]
        if not self.cells.exact:
            return f"{name} is in one of the intervals learned, as {examples[0]} is"
        if len(examples) > _SHOWN:
            return f"{name} is one of {int((self.scores >= self.threshold).sum())} learned, such as {examples[0]}"
        return f"{name} is {' or '.join(examples)}"


Event = Between | Likelier


def _text(values: NDArray[Any]) -> str:
    if len(values) == 1:
        return f"{values[0]:.6g}"
    return np.array2string(values, separator=", ", max_line_width=10**6, threshold=16)


def loss_bound(more: int, fewer: int, draws: tuple[int, int], error_rate: float) -> float:
    """A lower bound on ln(P / Q), where P and Q are the probabilities of one event under two inputs.

    A lower limit of P and an upper limit of Q come from Clopper and Pearson (1934), each at half the error rate. So the
    bound is above the truth with a probability of at most `error_rate`.

    `more`: draws in the event, of the input with P; `fewer`: draws in the event, of the input with Q; `draws`:
    independent draws of each input; `error_rate`: in (0, 1).

    Returns:
        The bound; minus infinity if `more` is 0.
    """
    (first, second), tail_rate = draws, error_rate / 2
    if not more:
        return -math.inf
    lower = float(betaincinv(more, first - more + 1, tail_rate))
    upper = 1.0 if fewer == second else float(betainccinv(fewer + 1, second - fewer, tail_rate))
    return math.log(lower / upper)


def promise(
    more: NDArray[np.float64], fewer: NDArray[np.float64], draws: int, error_rate: float
) -> NDArray[np.float64]:
    """Return (m,) scores of events, of which the best is chosen: about `loss_bound` plus 10 if that is positive.

    Otherwise the score is a hundredth of the ratio's logarithm in standard errors, so that the event nearest to a proof
    still wins. A share's arcsine is nearly normal with variance 1 / (4 n) (Anscombe 1948).

    `more`: (m,) counts under the input that each event favours; `fewer`: (m,) counts under the other input; `draws`: of
    each input; `error_rate`: the smaller it is, the lower rare events score, as they may come often by chance.
    """
    width = -float(ndtri(error_rate / 2)) / (2 * math.sqrt(draws))
    lower = np.sin(np.maximum(np.arcsin(np.sqrt(np.minimum(more / draws, 1))) - width, 0)) ** 2
    upper = np.sin(np.minimum(np.arcsin(np.sqrt(np.minimum((fewer + 1) / draws, 1))) + width, np.pi / 2)) ** 2
    bounds = np.log(np.maximum(lower, 1e-300) / upper)
    more_count, fewer_count = np.maximum(more, 0.5), fewer + 1
    errors = np.log(more_count / fewer_count) / np.sqrt(
        np.maximum(1 / more_count + 1 / fewer_count - 2 / draws, 1 / draws)
    )
    return np.asarray(np.where(bounds > 0, 10 + bounds, np.minimum(errors / 100, 1)))


CAUTION = 2
"""Events are chosen at an error rate so many times smaller than the proof's, as rare ones may come often by chance."""
LEAST = 20
"""Least draws of the first half in an event, under the input that it favours."""
BETTER = 0.01
"""Least advantage in score of a later candidate over an earlier one, which is simpler."""
_CUTS, _ENDS = 160, 24
_FREQUENT = 5


@dataclass(frozen=True)
class _Counts:
    """The counts of each cell in the first half of the draws."""

    statistic: Statistic
    cells: Cells  # m cells
    more: NDArray[np.float64]  # (m + 1, 2) counts under the favoured input: where the statistic was learned, and beside
    fewer: NDArray[np.float64]  # (m + 1, 2) counts under the other input
    strict: float  # error rate of the choice

    def promises(self, inside: NDArray[np.float64], outside: NDArray[np.float64]) -> NDArray[np.float64]:
        """`promise` of events with these counts; minus infinity for events that came too rarely."""
        draws = round(float(self.more.sum()))
        return np.where(inside >= LEAST, promise(inside, outside, draws, self.strict), -np.inf)


@dataclass
class _Best:
    promised: float = -np.inf
    event: Event | None = None

    def beaten_by(self, promised: float) -> bool:
        return promised > self.promised + (BETTER if self.event else 0.0)

    def take(self, promised: float, event: Event) -> None:
        if self.beaten_by(promised):
            self.promised, self.event = promised, event


def choose_events(
    first: Rows, second: Rows, error_rate: float, own_statistics: Mapping[str, Function]
) -> tuple[Event | None, Event | None]:
    """Choose one event that is likelier under the first input, and one that is likelier under the second.

    `first`: (n, k) outcomes of the first input; `second`: (n, k) outcomes of the second input; `error_rate`: of the
    whole game; `own_statistics`: what the adversary computes beside the statistics of `statistics_for`.
    """
    half = len(first) // 2
    rows = np.concatenate((first, second))
    parts = np.cumsum((half, len(first) - half, half))
    best = (_Best(), _Best())
    last: tuple[Function | None, NDArray[Any]] = (None, np.empty(0))
    for statistic in statistics_for(first[:half], second[:half], own_statistics):
        values = last[1] if statistic.function is last[0] else statistic.of(rows)
        last = statistic.function, values
        cells = fit_cells(values) if statistic.ordered else _frequent(values)
        if not len(cells.lowest):
            continue
        table = np.stack([cells.count(part) for part in np.split(values, parts)], 1).astype(float)
        sides = (table[:, :2], table[:, 2:])
        for direction, so_far in enumerate(best):
            counts = _Counts(statistic, cells, sides[direction], sides[1 - direction], error_rate / 2 / CAUTION)
            if statistic.ordered:
                _take_intervals(counts, so_far)
            if not statistic.learned:
                _take_likelier(counts, so_far)
    return best[0].event, best[1].event


def _frequent(values: NDArray[Any]) -> Cells:
    """Make a cell for each value that came at least a few times, or for every value if all are close together."""
    if values.dtype.kind == "i" and int(values.max()) - int(values.min()) < MOST_VALUES:
        return fit_cells(values)
    distinct, counts = np.unique(values, return_counts=True)
    return Cells(distinct[counts >= _FREQUENT], exact=True)


def _take_intervals(counts: _Counts, best: _Best) -> None:
    """Consider events "at least" and "at most", and fewer events between two values and outside of them.

    They are scored on both parts. If the statistic was learned on the first part, they are scored on the second alone,
    with doubled counts.
    """
    more, fewer = counts.more[:-1], counts.fewer[:-1]
    weights = np.ones(2)
    if counts.statistic.learned:
        weights = np.array([0.0, counts.more.sum() / max(1.0, counts.more[:, 1].sum())])
    more_sums, fewer_sums = _sums(more @ weights), _sums(fewer @ weights)
    last = len(more_sums) - 1
    every = np.unique(np.concatenate((_crossings(more_sums, _CUTS), _crossings(fewer_sums, _CUTS), [0, last])))
    for low, high in ((every, np.full_like(every, last)), (np.zeros_like(every), every), _pairs(more_sums, fewer_sums)):
        inside, outside = more_sums[high] - more_sums[low], fewer_sums[high] - fewer_sums[low]
        _take_best(counts, best, low, high, counts.promises(inside, outside), outside=False)
    _take_best(counts, best, low, high, counts.promises(more_sums[-1] - inside, fewer_sums[-1] - outside), outside=True)


def _take_best(
    counts: _Counts,
    best: _Best,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    promised: NDArray[np.float64],
    *,
    outside: bool,
) -> None:
    top = int(np.argmax(promised))
    if not best.beaten_by(float(promised[top])):
        return
    lowest, exact = counts.cells.lowest, counts.cells.exact
    # The ends are values that occurred: empty cells tell nothing.
    occupied = np.flatnonzero((counts.more + counts.fewer)[int(low[top]) : int(high[top])].sum(1))
    if not len(occupied):
        return
    start = int(low[top]) + (int(occupied[0]) if low[top] else 0)
    end = int(low[top]) + int(occupied[-1]) + 1 if high[top] < len(lowest) else len(lowest)
    event = Between(
        counts.statistic,
        None if start == 0 else lowest[start],
        None if end == len(lowest) else lowest[end - 1 if exact else end],
        below=not exact,
        outside=outside,
    )
    best.take(float(promised[top]), event)


def _take_likelier(counts: _Counts, best: _Best) -> None:
    """Consider events of the cells with the largest ratios; each part is scored by ratios learned on the other."""
    more, fewer = counts.more, counts.fewer
    scores = np.log((more + 1) / (fewer + 1))
    cuts = np.unique(np.floor(scores * 1000)) / 1000 - 1e-9  # never above a score, so that each cell is in at its own
    if len(cuts) > _CUTS:
        cuts = cuts[np.linspace(0, len(cuts) - 1, _CUTS).astype(int)]
    inside, outside = np.zeros(len(cuts)), np.zeros(len(cuts))
    for learning, scoring in ((0, 1), (1, 0)):
        order = np.argsort(scores[:, learning], kind="stable")
        start = np.searchsorted(scores[order, learning], cuts, side="left")
        inside += more[:, scoring].sum() - _sums(more[order, scoring])[start]
        outside += fewer[:, scoring].sum() - _sums(fewer[order, scoring])[start]
    promised = counts.promises(inside, outside)
    top = int(np.argmax(promised))
    if best.beaten_by(float(promised[top])):
        # Both parts together, halved, so that the pseudo-counts weigh as they did in each.
        learned = np.log((more.sum(1) / 2 + 1) / (fewer.sum(1) / 2 + 1))
        best.take(float(promised[top]), Likelier(counts.statistic, counts.cells, learned, float(cuts[top])))


def _sums(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (m + 1,) sums of the counts before each place."""
    return np.concatenate(([0.0], np.cumsum(counts)))


def _crossings(sums: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the places next to which the sums cross even steps, or steps that double in both tails."""
    total = sums[-1]
    tails = LEAST * 2.0 ** np.arange(0, max(1, int(np.log2(max(total / LEAST, 2)))))
    steps = np.concatenate((np.linspace(0, total, count), tails, total - tails))
    places = np.searchsorted(sums, steps)
    return np.unique(np.concatenate((places - 1, places)).clip(0, len(sums) - 1))


def _pairs(
    first_sums: NDArray[np.float64], second_sums: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return starts and ends of intervals."""
    places = np.searchsorted(first_sums + second_sums, np.linspace(0, first_sums[-1] + second_sums[-1], _ENDS))
    ends = np.unique(np.concatenate((places - 1, places, [len(first_sums) - 1])).clip(0))
    low, high = np.triu_indices(len(ends), 1)
    return ends[low], ends[high]


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
    """Tell two neighbouring inputs apart by a mechanism's outcomes, and bound its epsilon from below.

    On the first half of the draws the search picks one event that is likelier under the first input and one that is
    likelier under the second. On the second half, which the search never sees, each event gets a lower bound on the
    logarithm of the ratio of its probabilities, at half the error rate. The larger bound is the result. It holds for
    independent draws, whatever the search does.

    Args:
        first: the mechanism on the first input: n -> (n,) or (n, k) independent outcomes.
        second: the mechanism on the second input, likewise.
        claimed: epsilon, exact; it does not change the search.
        draws: of each input, at least 400.
        error_rate: greatest probability that the lower bound is above the true epsilon; in (0, 1).
        neighbours: the two inputs, in words.
        statistics: what an adversary with more knowledge computes, such as a comparison with noise that it can
            reproduce: name -> function of (n, k) outcomes that gives (n,) numbers.

    Raises:
        ConfigurationError: too few draws, a wrong error rate or claim, or outcomes that are no rows of numbers.
    """
    claim = claimed_epsilon(claimed)
    if draws < LEAST_DRAWS:
        raise ConfigurationError(f"a game of {draws} draws proves nothing; take at least {LEAST_DRAWS}")
    if not 0 < error_rate < 1:
        raise ConfigurationError(f"an error rate of {error_rate} is none; take one between 0 and 1, such as 0.05")
    half = draws // 2
    search_rows = draw_both(first, second, half)
    events = choose_events(*search_rows, error_rate, statistics or {})
    proof_rows = draw_both(first, second, draws - half)
    if proof_rows[0].shape[1] != search_rows[0].shape[1] or proof_rows[0].dtype != search_rows[0].dtype:
        raise ConfigurationError("outcomes change their length or type from call to call; give rows of one form")
    proofs = [_prove(event, proof_rows, side, error_rate / 2) for side, event in enumerate(events)]
    bound, words, shares, event = max(proofs, key=lambda proof: proof[0])
    return Attack(
        claimed=claim,
        lower_bound=max(0.0, bound),
        error_rate=error_rate,
        draws=draws,
        neighbours=neighbours,
        event=words,
        shares=shares,
        spread=None if event is None else spread_of(event, *proof_rows),
    )


def breaks(attack: Attack) -> bool:
    """Whether the draws prove a larger epsilon than is claimed. The two are compared exactly."""
    return Fraction(attack.lower_bound) > Fraction(attack.claimed)


def verdict_of(attack: Attack) -> str:
    """The game's verdict on the claim, in one sentence."""
    proven = f"{attack.draws:,} draws from either input prove an epsilon of at least {attack.lower_bound:.3g}"
    if breaks(attack):
        return f"Broken: {proven}, and {attack.claimed} is claimed."
    return f"Not broken by this game: {proven}, and {attack.claimed} is claimed; a lower bound never proves a claim."


def claimed_epsilon(claimed: str | int | Fraction) -> str:
    """Return the claim as exact text.

    Raises:
        ConfigurationError: the claim is no number, or negative.
    """
    try:
        value = Fraction(claimed)
    except (ValueError, ZeroDivisionError, TypeError):
        raise ConfigurationError(f"the claimed epsilon {claimed!r} is no number; write 1, 0.5 or 1/30") from None
    if value < 0:
        raise ConfigurationError(f"the claimed epsilon {claimed!r} is negative; claim 0 or more")
    return claimed.strip() if isinstance(claimed, str) else str(value)


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


class _Proof(NamedTuple):
    bound: float
    words: str
    shares: tuple[float, float]
    event: Event | None


def _prove(event: Event | None, rows: tuple[Rows, Rows], side: int, error_rate: float) -> _Proof:
    """The loss that an event proves on fresh draws; `side` is the input that it favours."""
    if event is None:
        return _Proof(-math.inf, "no event came often enough to learn from", (0.0, 0.0), None)
    more, fewer = rows[side], rows[1 - side]
    counts = int(event.holds(more).sum()), int(event.holds(fewer).sum())
    bound = loss_bound(*counts, (len(more), len(fewer)), error_rate)
    shares = counts[0] / len(more), counts[1] / len(fewer)
    return _Proof(bound, f"{event.words(more)}: likelier under the {('first', 'second')[side]} input", shares, event)


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

    def play(self, *, draws: int, error_rate: float, claimed: str | None = None) -> Attack:
        """Play as the function `play` does; `claimed` takes the place of `epsilon`.

        Raises:
            ConfigurationError: the function `play` raises it, or the mechanism fails at the line that the message
                names.
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
            raise ConfigurationError(f"the mechanism fails on the {which} input: {_error_text(error)}") from error


def one_by_one(release: Callable[[Any], Any]) -> Callable[[Any, int], NDArray[Any]]:
    """Turn a function that gives one outcome a call (a number, or k numbers) into a mechanism."""

    def many(data: Any, count: int) -> NDArray[Any]:
        return np.array([release(data) for _ in range(count)])

    return many


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
