"""Pictures of two neighbouring distributions, one above an axis and the other below it, upside down."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from expril.audit.results import Spread
from expril.report.chart import Axis, make_axis
from expril.report.labels import LEAST_OF_FOUR, Words, spaced
from expril.report.template import page_template
from protocol.errors import ConfigurationError

_TAIL = 5e-4
"""Share of the draws that a picture may leave out on each side."""
_THINNEST = 0.8
"""Least width of a bar in percent of the axis, as places may lie close together with nothing around them."""
_HIDDEN = 0.1
"""Bars below this share of the tallest would be too low to see, so the tallest one or two are cut."""
SCALE = 30
"""Scale of the Laplace noise in the paper's printed mechanism, which claims 1/30."""
RECORDS = 1
"""Records in its bin, all errors; the neighbouring data set holds one more, which is no error."""
_BARS = 24


@dataclass(frozen=True)
class Mirror:
    """Two distributions on one axis, one above it and the other upside down below it.

    The outlines are SVG paths in a 100 x 100 box with the axis in its middle.
    """

    above: str
    below: str
    above_event: str  # outline of the part in the event; "" if the picture has none
    below_event: str
    labels: tuple[Words, ...]  # below the axis
    axis: str  # the quantity, in words
    text: str  # the picture, in words


def mirror(spread: Spread, shares: tuple[float, float] | None = None) -> Mirror:
    """Place both distributions; nearly empty tails are left out unless the event lies there.

    `shares`: of the draws in the event, for the text.

    Raises:
        ConfigurationError: a spread has no values.
    """
    edges = _edges(spread.values)
    first, last = _visible_range(spread)
    bare = Axis(edges[first], edges[last + 1])
    steps = make_axis(bare.low, bare.high)
    labels = [
        Words(tick.label, bare.place(tick.value), 0.0) for tick in steps.ticks if bare.low <= tick.value <= bare.high
    ]
    visible = (spread.first[first : last + 1], spread.second[first : last + 1])
    peak, cut = _peak(*visible)
    event = [_is_in(spread, value, edges[n], edges[n + 1]) for n, value in enumerate(spread.values)]

    def outline(heights: Sequence[float], side: int, only: Sequence[bool] | None = None) -> str:
        pieces = []
        for n in range(first, last + 1):
            if only is None or only[n]:
                low, high = bare.place(edges[n]), bare.place(edges[n + 1])
                if high - low < _THINNEST:
                    low, high = (low + high - _THINNEST) / 2, (low + high + _THINNEST) / 2
                y = 50 - side * 47 * min(1.0, heights[n] / peak)
                pieces.append(f"M{low:.2f} 50V{y:.2f}H{high:.2f}V50Z")
        return "".join(pieces)

    text = f"{spread.axis}: the two distributions, from {edges[first]:.4g} to {edges[last + 1]:.4g}"
    if shares is not None:
        text += f"; {100 * shares[0]:.3g} % of the one and {100 * shares[1]:.3g} % of the other are in the event"
    return Mirror(
        above=outline(spread.first, 1),
        below=outline(spread.second, -1),
        above_event=outline(spread.first, 1, event),
        below_event=outline(spread.second, -1, event),
        labels=tuple(spaced(labels, LEAST_OF_FOUR)),
        axis=f"{spread.axis}{' (the tallest bars are cut)' if cut else ''}",
        text=text,
    )


def picture(spread: Spread, shares: tuple[float, float] | None = None, *, height: int = 190) -> str:
    """HTML of both distributions; the arguments are those of `mirror`, and the height in pixels."""
    return page_template("expril.audit.attack", "mirror_plot.html.j2").render(
        drawn=mirror(spread, shares), height=height
    )


def _peak(first: Sequence[float], second: Sequence[float]) -> tuple[float, bool]:
    """The share at full height, and whether taller bars are cut: one or two bars a side must not hide all others."""
    tallest = max((*first, *second, 1e-12))
    third_tallest = max(sorted(side)[-3] if len(side) > 2 else 0.0 for side in (first, second))
    return (2.5 * third_tallest, True) if 0 < third_tallest < _HIDDEN * tallest else (tallest, False)


def _is_in(spread: Spread, value: float, low: float, high: float) -> bool:
    """Whether a bar is in the event; a bar of several whole numbers only if all of them are."""
    if spread.event is None or not spread.event[0] <= value <= spread.event[1]:
        return False
    return high - low <= 1 or (low >= spread.event[0] - 0.5 and high <= spread.event[1] + 0.5)


def _edges(values: Sequence[float]) -> tuple[float, ...]:
    """Ends of the bars, half way between neighbouring places."""
    if len(values) < 2:  # a constant: one bar
        if not values:
            raise ConfigurationError("a distribution without a place cannot be drawn")
        return values[0] - 0.5, values[0] + 0.5
    inner = [(low + high) / 2 for low, high in pairwise(values)]
    return (values[0] - (inner[0] - values[0]), *inner, values[-1] + (values[-1] - inner[-1]))


def _visible_range(spread: Spread) -> tuple[int, int]:
    """First and last place that the picture shows."""
    heights = [max(pair) for pair in zip(spread.first, spread.second, strict=True)]
    first, last, below, above = 0, len(heights) - 1, 0.0, 0.0
    while first < last and below + heights[first] < _TAIL:
        below += heights[first]
        first += 1
    while last > first and above + heights[last] < _TAIL:
        above += heights[last]
        last -= 1
    inside = [
        n for n, value in enumerate(spread.values) if spread.event and spread.event[0] <= value <= spread.event[1]
    ]
    if inside and not (inside[0] <= last and inside[-1] >= first):  # an event far out must be visible
        first, last = min(first, inside[0]), max(last, inside[-1])
    return first, last


def paper_law() -> Spread:
    """The law of the paper's printed ratio between 0 and 1; the rest of the probability lies exactly at 0 and at 1.

    The mechanism is clip((Laplace(l) + U) / n, 0, 1) with the exact n of the bin (full paper, Eq. 7). So a ratio below
    x means noise below n x - U.
    """
    edges = [place / _BARS for place in range(_BARS + 1)]
    centres = tuple((low + high) / 2 for low, high in pairwise(edges))
    axis = "released ratio, where it is neither 0 nor 1"
    return Spread(axis, centres, _shares(RECORDS, edges), _shares(RECORDS + 1, edges), (0.0, 1.0))


def _shares(records: int, edges: Sequence[float]) -> tuple[float, ...]:
    """Probability of a ratio between neighbouring edges; the number of errors is `RECORDS` on both sides."""
    below = [_below(records * edge - RECORDS) for edge in edges]
    return tuple(high - low for low, high in pairwise(below))


def paper_words() -> str:
    """The picture of `paper_law` in one sentence."""
    first, second = (sum(side) for side in (paper_law().first, paper_law().second))
    more, allowed = second / first, math.exp(1 / SCALE)
    return (
        f"By its law, {100 * first:.2g} % of the answers lie inside with {RECORDS} record in the bin, and "
        f"{100 * second:.2g} % with {RECORDS + 1}: {more:.2f} times as many, where a claim of 1/{SCALE} allows "
        f"{allowed:.2f} times."
    )


def _below(noise: float) -> float:
    """Probability of Laplace noise below a value."""
    tail = 0.5 * math.exp(-abs(noise) / SCALE)
    return tail if noise < 0 else 1 - tail
