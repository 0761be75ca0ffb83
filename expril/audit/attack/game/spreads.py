"""Both distributions of the number that an event is about, small enough for a figure."""

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.game.events import Event, Likelier
from expril.audit.attack.game.outcomes import Rows
from expril.audit.results import Spread

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
