"""The choice of an event, on the first half of the draws alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulations.audit.game.bounds import PARTS, promise
from simulations.audit.game.cells import Cells, fit_cells
from simulations.audit.game.outcomes import Rows
from simulations.audit.game.statistics import Function, Statistic, hash_rows, statistics_for

CAUTION = 20
"""How many times stricter the choice is than the proof: rare events are easily lucky."""
LEAST = 20
"""Draws of the first half in an event, of the input under which it is the more frequent, at least."""
BETTER = 0.01
"""By how much a later candidate must beat an earlier, simpler one."""
_CUTS = 160
_SHOWN, _SHOWN_OF = 3, 2000


@dataclass(frozen=True)
class Event:
    """A set of outcomes.

    Attributes:
        statistic: that it is about.
        cells: of the statistic.
        scores: (m + 1,) of each cell; the last is that of values in none.
        threshold: an outcome is in the event where its cell's score is at least this.
        ranked: whether scores are ratios learned per cell, rather than the order of the cells.
        sign: 1, or -1 where the event is "at most".
    """

    statistic: Statistic
    cells: Cells
    scores: NDArray[np.float64]
    threshold: float
    ranked: bool
    sign: int

    def score(self, rows: Rows) -> NDArray[np.float64]:
        """(n,) score of each outcome."""
        return self.scores[self.cells.of(self.statistic.of(rows))]

    def holds(self, rows: Rows) -> NDArray[np.bool_]:
        """(n,) whether each outcome is in it."""
        return self.score(rows) >= self.threshold

    def words(self, rows: Rows) -> str:
        """What the event is; an example from `rows` where its outcomes have no order.

        Args:
            rows: outcomes, some of which are in the event.
        """
        name = self.statistic.name
        if not self.ranked:
            lowest, place = self.cells.lowest, self.sign * int(self.threshold)
            if self.sign == 1:
                return f"{name} is at least {lowest[place]:.6g}"
            if self.cells.exact or place + 1 == len(lowest):
                return f"{name} is at most {lowest[place]:.6g}"
            return f"{name} is below {lowest[place + 1]:.6g}"
        inside = rows[self.holds(rows)]
        if not len(inside):
            return f"{name} is one of those learned"
        values = inside if self.statistic.of is hash_rows else self.statistic.of(inside)[:, None]
        shown = [_text(value) for value in np.unique(values[:_SHOWN_OF], axis=0)[: _SHOWN + 1]]
        if not self.cells.exact:
            return f"{name} is in one of the intervals learned, as {shown[0]} is"
        if len(shown) > _SHOWN:
            return f"{name} is one of {int((self.scores >= self.threshold).sum())} learned, such as {shown[0]}"
        return f"{name} is {' or '.join(shown)}"


def _text(values: NDArray[Any]) -> str:
    if len(values) == 1:
        return f"{values[0]:.6g}"
    return np.array2string(values, separator=", ", max_line_width=10**6, threshold=16)


@dataclass
class _Best:
    bound: float = -np.inf
    event: Event | None = None

    def take(self, bound: float, event: Event) -> None:
        if bound > self.bound + (BETTER if self.event else 0.0):
            self.bound, self.event = bound, event


def choose_events(
    first: Rows, second: Rows, error_rate: float, given: Mapping[str, Function]
) -> tuple[Event | None, Event | None]:
    """One event that is likelier under the first input, and one that is likelier under the second.

    Args:
        first: (n, k) outcomes of the one input: the first half.
        second: those of the other.
        error_rate: of the whole game.
        given: statistics that the adversary brings.
    """
    half = len(first) // 2
    strict = error_rate / PARTS / CAUTION
    groups = np.repeat(np.arange(4), (half, len(first) - half, half, len(second) - half))
    rows = np.concatenate((first, second))
    best = (_Best(), _Best())
    for statistic in statistics_for(first[:half], second[:half], given):
        values = statistic.of(rows)
        cells = _frequent(values) if not statistic.ordered else fit_cells(values)
        if not len(cells.lowest):
            continue
        size = len(cells.lowest) + 1
        table = np.bincount(cells.of(values) * 4 + groups, minlength=4 * size).reshape(size, 4).astype(float)
        for direction in (0, 1):
            more, fewer = (table[:, :2], table[:, 2:])[:: 1 if direction == 0 else -1]
            if statistic.ordered:
                _half_lines(statistic, cells, more, fewer, strict, best[direction])
            if not statistic.learned:
                _ranked(statistic, cells, more, fewer, strict, best[direction])
    return best[0].event, best[1].event


def _frequent(values: NDArray[Any]) -> Cells:
    """A cell for each value that came five times at least."""
    found, counts = np.unique(values, return_counts=True)
    return Cells(found[counts >= 5], exact=True)


def _half_lines(
    statistic: Statistic,
    cells: Cells,
    more: NDArray[np.float64],
    fewer: NDArray[np.float64],
    strict: float,
    best: _Best,
) -> None:
    """Events "at least" and "at most", by the counts of both parts, or of the second where the first taught."""
    weights = np.array([0.0, more.sum() / max(1.0, more[:, 1].sum())]) if statistic.learned else np.ones(2)
    draws = round(float(more.sum()))
    one, two = (more[:-1] @ weights, fewer[:-1] @ weights)
    for sign in (1, -1):
        inside, outside = np.cumsum(one[::-sign]), np.cumsum(two[::-sign])
        cuts = _cuts(inside)
        if not len(cuts):
            continue
        bounds = promise(inside[cuts], outside[cuts], draws, strict)
        top = int(np.argmax(bounds))
        place = int(cuts[top]) if sign == -1 else len(one) - 1 - int(cuts[top])
        scores = np.append(sign * np.arange(len(one), dtype=float), -np.inf)
        best.take(float(bounds[top]), Event(statistic, cells, scores, float(sign * place), False, sign))


def _ranked(
    statistic: Statistic,
    cells: Cells,
    more: NDArray[np.float64],
    fewer: NDArray[np.float64],
    strict: float,
    best: _Best,
) -> None:
    """Events of the cells with the largest ratios; each part is judged by ratios that the other taught."""
    draws = round(float(more.sum()))
    scores = np.log((more + 1) / (fewer + 1))
    cuts = np.unique(np.round(np.concatenate((scores[:, 0], scores[:, 1])), 3))
    if len(cuts) > _CUTS:
        cuts = cuts[np.linspace(0, len(cuts) - 1, _CUTS).astype(int)]
    inside, outside = np.zeros(len(cuts)), np.zeros(len(cuts))
    for taught, judged in ((0, 1), (1, 0)):
        order = np.argsort(scores[:, taught], kind="stable")
        from_here = np.searchsorted(scores[order, taught], cuts, side="left")
        inside += _tails(more[order, judged])[from_here]
        outside += _tails(fewer[order, judged])[from_here]
    enough = inside >= LEAST
    if not enough.any():
        return
    bounds = np.where(enough, promise(inside, outside, draws, strict), -np.inf)
    top = int(np.argmax(bounds))
    # Both parts together, halved, so that the pseudo-counts weigh as they did in each.
    learned = np.log((more.sum(1) / 2 + 1) / (fewer.sum(1) / 2 + 1))
    best.take(float(bounds[top]), Event(statistic, cells, learned, float(cuts[top]), True, 1))


def _tails(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """(m + 1,) sum from each place on."""
    return np.append(np.cumsum(counts[::-1])[::-1], 0.0)


def _cuts(inside: NDArray[np.float64]) -> NDArray[np.int64]:
    """Places where a rising count is at least LEAST, at most _CUTS of them, even in the logarithm."""
    places = np.flatnonzero(inside >= LEAST)
    if len(places) <= _CUTS:
        return places
    wanted = np.geomspace(inside[places[0]], inside[-1], _CUTS)
    return np.unique(np.searchsorted(inside, wanted).clip(0, len(inside) - 1))
