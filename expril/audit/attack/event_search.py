"""The search for an event: the set of outcomes that tells two inputs apart best, by the first half of a game's draws.

Each statistic of `statistics_for` and `structures_for` proposes events: values at least or at most something, between
or outside of two places, and sets of values that came more often under one input, down to values that came once.
`promise` scores them all on one scale.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.game_statistics import (
    MOST_VALUES,
    Cells,
    Function,
    Rows,
    Statistic,
    fit_cells,
    statistics_for,
)
from expril.audit.attack.loss_bounds import promise
from expril.audit.attack.structure_statistics import structures_for

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


CAUTION = 1000
"""Events are chosen at an error rate so many times smaller than the proof's: the best of many came often by chance."""
LEAST = 20
"""Least draws of the first half in an event, under the input that it favours."""
BETTER = 0.01
"""Least advantage in score of a later candidate over an earlier one, which is simpler."""
_CUTS, _ENDS = 160, 24
_SPARSE = 20


@dataclass(frozen=True)
class _Counts:
    """The counts of each cell in the first half of the draws."""

    statistic: Statistic
    cells: Cells  # m cells
    side: int  # the favoured input
    more: NDArray[np.float64]  # (m + 1, 2) counts under the favoured input: where the statistic was learned, and beside
    fewer: NDArray[np.float64]  # (m + 1, 2) counts under the other input
    strict: float  # error rate of the choice
    delta: float

    @property
    def parts(self) -> list[int]:
        """The parts that score: not the first, if the statistic was learned on it."""
        return [1] if self.statistic.learned else [0, 1]

    @property
    def draws(self) -> float:
        """Draws of each input in these parts."""
        return float(self.more[:, self.parts].sum())

    def promises(self, inside: NDArray[np.float64], outside: NDArray[np.float64]) -> NDArray[np.float64]:
        """`promise` of events with these counts; minus infinity for events that came too rarely."""
        promised = promise(inside, outside, round(self.draws), self.strict, self.delta)
        return np.where(inside >= LEAST, promised, -np.inf)


@dataclass(frozen=True)
class Choice:
    """The event that a search chose."""

    event: Event
    side: int  # 0 if it is likelier under the first input, 1 if under the second
    expected: tuple[float, float]  # its probability, and the other's that the first half proves: see `loss_bound`


@dataclass
class _Best:
    delta: float
    promised: float = -np.inf
    choice: Choice | None = None

    def beaten_by(self, promised: float) -> bool:
        return promised > self.promised + (BETTER if self.choice else 0.0)

    def take(self, promised: float, event: Event, side: int, share: float) -> None:
        if self.beaten_by(promised):
            other = max(share - self.delta, 0.0) * float(np.exp(-max(promised - 10, 0.0)))
            self.promised, self.choice = promised, Choice(event, side, (share, other))


def choose_event(
    first: Rows, second: Rows, error_rate: float, own_statistics: Mapping[str, Function], *, delta: float = 0.0
) -> Choice | None:
    """Choose the event that proves most, under the input that it favours; None if there is none to learn from.

    `first`: (n, k) outcomes of the first input; `second`: (n, k) outcomes of the second input; `error_rate`: of the
    proof; `own_statistics`: what the adversary computes beside the statistics of `statistics_for`; `delta`: that is
    claimed, which each event has for free.
    """
    half = len(first) // 2
    rows = np.asfortranarray(np.concatenate((first, second)))
    sizes = (half, len(first) - half) * 2
    best = _Best(delta)
    last: tuple[Function | None, NDArray[Any]] = (None, np.empty(0))
    learning = first[:half], second[:half]
    for statistic in chain(statistics_for(*learning, own_statistics), structures_for(*learning)):
        values = last[1] if statistic.function is last[0] else statistic.of(rows)
        last = statistic.function, values
        for cells, table in _tables(statistic, values, sizes):
            sides = (table[:, :2], table[:, 2:])
            for side in (0, 1):
                counts = _Counts(statistic, cells, side, sides[side], sides[1 - side], error_rate / CAUTION, delta)
                if statistic.ordered and len(cells.lowest) <= MOST_VALUES:
                    _take_intervals(counts, best)
                if not statistic.learned:
                    _take_likelier(counts, best)
    return best.choice


def _tables(
    statistic: Statistic, values: NDArray[Any], sizes: tuple[int, ...]
) -> Iterator[tuple[Cells, NDArray[np.float64]]]:
    """Yield cells and (m + 1, 4) counts of each: in the two parts of the first input, and of the second.

    Intervals take few cells. Where values repeat, each has a cell of its own beside: one that came under one input only
    may tell it.
    """
    cells = fit_cells(values) if statistic.ordered else None
    if cells is None and values.dtype.kind == "i" and int(values.max()) - int(values.min()) < MOST_VALUES:
        cells = fit_cells(values)
    if cells is not None:
        parts = np.split(values, np.cumsum(sizes)[:-1])
        yield cells, np.stack([cells.count(part) for part in parts], 1).astype(float)
    if statistic.learned or (cells is not None and cells.exact):
        return
    order = np.argsort(values)
    ordered = values[order]
    new = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    if len(values) - int(new.sum()) < LEAST:
        return
    part_of = np.repeat(np.arange(len(sizes)), sizes)[order]
    place = np.cumsum(new) - 1
    table = np.bincount(place * len(sizes) + part_of, minlength=(int(place[-1]) + 2) * len(sizes))
    yield Cells(ordered[new], exact=True), table.reshape(-1, len(sizes)).astype(float)


def _take_intervals(counts: _Counts, best: _Best) -> None:
    """Consider events "at least" and "at most", and fewer events between two values and outside of them.

    They are scored on both parts, or on the second alone if the statistic was learned on the first.
    """
    more_sums, fewer_sums = (_sums(table[:-1, counts.parts].sum(1)) for table in (counts.more, counts.fewer))
    last = len(more_sums) - 1
    every = np.unique(np.concatenate((_crossings(more_sums, _CUTS), _crossings(fewer_sums, _CUTS), [0, last])))
    for low, high in ((every, np.full_like(every, last)), (np.zeros_like(every), every), _pairs(more_sums, fewer_sums)):
        inside, outside = more_sums[high] - more_sums[low], fewer_sums[high] - fewer_sums[low]
        _take_best(counts, best, (low, high), (inside, outside), outside=False)
    _take_best(counts, best, (low, high), (more_sums[-1] - inside, fewer_sums[-1] - outside), outside=True)


def _take_best(
    counts: _Counts,
    best: _Best,
    ends: tuple[NDArray[np.int64], NDArray[np.int64]],
    tallies: tuple[NDArray[np.float64], NDArray[np.float64]],
    *,
    outside: bool,
) -> None:
    (low, high), promised = ends, counts.promises(*tallies)
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
    best.take(float(promised[top]), event, counts.side, float(tallies[0][top]) / counts.draws)


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
        # Both parts together, halved, so that the pseudo-counts weigh as they did in each; where most values came once
        # or twice, what came once in both is as telling as what came once in either.
        parts = 2 if float((more + fewer).sum()) > _SPARSE * len(more) else 1
        learned = np.log((more.sum(1) / parts + 1) / (fewer.sum(1) / parts + 1))
        event = Likelier(counts.statistic, counts.cells, learned, float(cuts[top]))
        best.take(float(promised[top]), event, counts.side, float(inside[top]) / counts.draws)


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
