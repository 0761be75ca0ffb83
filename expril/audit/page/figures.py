"""Where each mark of an audit's plots goes. The template draws them, and escapes every text."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from expril.audit.results import Attack, BlogGame, Spread, StudyAttack
from expril.report.chart import Axis, Figure, Key, Line, Place, Rule, Stage, Tick, make_axis, percent
from protocol.errors import ConfigurationError
from protocol.rationals import parse_rational

_HEIGHT = 320
_BELOW = 18
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_AXIS_STEPS = tuple(step * 10.0**power for power in range(-6, 7) for step in (1.0, 2.0, 5.0))
_TAIL = 5e-4
"""Share of the draws on each side that a picture of distributions may leave out."""
_MOST_RATIO = 1000.0
_THINNEST = 0.8
"""Least width of a bar, of 100: places may lie close together, with nothing around them."""
_HIDDEN = 0.1
"""Bars below this share of the tallest one or two are hidden by them."""


@dataclass(frozen=True)
class Mirror:
    """Two distributions on one axis, one above it and the other below, upside down.

    Paths are in a 100 x 100 box, the axis in its middle.

    Attributes:
        above, below: outlines of all that is shown.
        above_event, below_event: of the part in the event; "" where there is none in the picture.
        ticks: below the axis.
        axis: what it shows, in words.
        text: the picture in words.
    """

    above: str
    below: str
    above_event: str
    below_event: str
    ticks: tuple[Tick, ...]
    axis: str
    text: str


@dataclass(frozen=True)
class Measured:
    """A bound beside its claim on a strip; places are CSS percentages.

    Attributes:
        claim: where the claim is.
        bound: where the attack's lower bound is.
        exact: where the enumerated loss is; None where there is none.
        over: whether one of them is above the claim.
    """

    claim: str
    bound: str
    exact: str | None
    over: bool


def mirror(spread: Spread, shares: tuple[float, float] | None = None) -> Mirror:
    """Place both distributions; tails that hold almost nothing are left out, where the event is not among them.

    Args:
        spread: what was drawn.
        shares: of the draws in the event, for the text.

    Raises:
        ConfigurationError: a spread without two places.
    """
    edges = _edges(spread.values)
    first, last = _shown(spread)
    bare = Axis(edges[first], edges[last + 1])
    steps = make_axis(bare.low, bare.high, _AXIS_STEPS)
    ticks = tuple(
        Tick(tick.label.replace("-", "−"), bare.at(float(tick.label)))
        for tick in steps.ticks
        if bare.low <= float(tick.label) <= bare.high
    )
    shown = (spread.first[first : last + 1], spread.second[first : last + 1])
    peak, cut = _peak(*shown)
    event = [_is_in(spread, value, edges[n], edges[n + 1]) for n, value in enumerate(spread.values)]

    def outline(heights: Sequence[float], side: int, only: Sequence[bool] | None = None) -> str:
        pieces = []
        for n in range(first, last + 1):
            if only is None or only[n]:
                left, right = bare.place(edges[n]), bare.place(edges[n + 1])
                if right - left < _THINNEST:
                    left, right = (left + right - _THINNEST) / 2, (left + right + _THINNEST) / 2
                y = 50 - side * 47 * min(1.0, heights[n] / peak)
                pieces.append(f"M{left:.2f} 50V{y:.2f}H{right:.2f}V50Z")
        return "".join(pieces)

    text = f"{spread.axis}: the two distributions, from {edges[first]:.4g} to {edges[last + 1]:.4g}"
    if shares is not None:
        text += f"; {100 * shares[0]:.3g} % of the one and {100 * shares[1]:.3g} % of the other are in the event"
    return Mirror(
        above=outline(spread.first, 1),
        below=outline(spread.second, -1),
        above_event=outline(spread.first, 1, event),
        below_event=outline(spread.second, -1, event),
        ticks=ticks,
        axis=f"{spread.axis}{' (the tallest bars are cut)' if cut else ''}",
        text=text,
    )


def _peak(first: Sequence[float], second: Sequence[float]) -> tuple[float, bool]:
    """The share at full height, and whether some are above: where one or two bars a side would hide all others."""
    tallest = max((*first, *second, 1e-12))
    others = max(sorted(side)[-3] if len(side) > 2 else 0.0 for side in (first, second))
    return (2.5 * others, True) if 0 < others < _HIDDEN * tallest else (tallest, False)


def _is_in(spread: Spread, value: float, low: float, high: float) -> bool:
    """Whether a bar is in the event; one of several whole numbers only where all of them are."""
    if spread.event is None or not spread.event[0] <= value <= spread.event[1]:
        return False
    return high - low <= 1 or (low >= spread.event[0] - 0.5 and high <= spread.event[1] + 0.5)


def _edges(values: Sequence[float]) -> tuple[float, ...]:
    """Ends of the bars: half way between neighbouring places."""
    if len(values) < 2:  # a constant: one bar
        if not values:
            raise ConfigurationError("a distribution without a place cannot be drawn")
        return values[0] - 0.5, values[0] + 0.5
    inner = [(low + high) / 2 for low, high in pairwise(values)]
    return (values[0] - (inner[0] - values[0]), *inner, values[-1] + (values[-1] - inner[-1]))


def _shown(spread: Spread) -> tuple[int, int]:
    """First and last place that are drawn."""
    heights = [max(pair) for pair in zip(spread.first, spread.second, strict=True)]
    first, last, left, right = 0, len(heights) - 1, 0.0, 0.0
    while first < last and left + heights[first] < _TAIL:
        left += heights[first]
        first += 1
    while last > first and right + heights[last] < _TAIL:
        right += heights[last]
        last -= 1
    inside = [
        n for n, value in enumerate(spread.values) if spread.event and spread.event[0] <= value <= spread.event[1]
    ]
    if inside and not (inside[0] <= last and inside[-1] >= first):  # an event far out: it is what must be seen
        first, last = min(first, inside[0]), max(last, inside[-1])
    return first, last


SHARE_AXIS = Axis(
    0.0, 1.25, tuple(Tick(label, Axis(0.0, 1.25).at(float(label))) for label in ("0", "0.5", "1")), 2.5, 97.5
)
"""Loss in units of the claim."""


def share_of_claim(attack: Attack, exact: float | None) -> Measured:
    """A shipped mechanism on `SHARE_AXIS`."""
    at = SHARE_AXIS.at
    ratios = [of_claim(attack.claimed, value) for value in (attack.lower_bound, exact or 0.0)]
    over = ratios[0] > 1 or ratios[1] > 1 + 1e-9
    return Measured(at(1.0), at(ratios[0]), None if exact is None else at(ratios[1]), over)


def of_claim(claimed: str, value: float) -> float:
    """A loss in units of its claim; infinite where nothing is claimed and something is lost."""
    claim = float(Fraction(claimed))
    return value / claim if claim else math.inf if value else 0.0


def ratio_axis(attacks: Iterable[Attack]) -> Axis:
    """A logarithmic axis (of decimal logarithms) over the bounds in units of their claims."""
    highest = max((of_claim(attack.claimed, attack.lower_bound) for attack in attacks), default=1.0)
    top = math.log10(min(_MOST_RATIO, max(10.0, highest * 1.3)))
    bare = Axis(-0.5, top)
    ticks = tuple(Tick(f"{10**power:g} ×", bare.at(power)) for power in range(math.floor(top) + 1))
    return Axis(bare.low, bare.high, ticks)


def times_claim(attack: Attack, axis: Axis) -> Measured:
    """A mechanism that is broken on purpose, on the axis of `ratio_axis`; what proves little is at its end."""
    ratio = of_claim(attack.claimed, attack.lower_bound)
    return Measured(axis.at(0.0), axis.at(math.log10(max(ratio, 1e-9))), None, ratio > 1)


@dataclass(frozen=True)
class Drawn:
    """A figure with its legend."""

    figure: Figure
    keys: tuple[Key, ...]


def studies_figure(studies: Sequence[StudyAttack]) -> Drawn | None:
    """Gain against epsilon, a line an attack on what is protected; rules for what nothing protects."""
    protected = [one for one in studies if one.epsilon != "none"]
    if not protected:
        return None
    epsilons = sorted({one.epsilon for one in protected}, key=parse_rational)
    across = Axis(-0.25, max(0.25, len(epsilons) - 0.75), (), 9.0, 97.0)
    low = min(0.0, *(one.interval[0] for one in protected))
    stage = Stage(make_axis(low, 1.0, (0.2, 0.5)), _HEIGHT)
    names = list(dict.fromkeys(one.attack for one in protected))
    bounds = {one.epsilon: one.bound for one in protected}
    lines = [
        stage.line(
            len(names),
            True,
            "bound",
            [
                Place(across.place(n), bounds[epsilon], (bounds[epsilon],) * 2, f"{bounds[epsilon]:.3f} at most")
                for n, epsilon in enumerate(epsilons)
            ],
            errors=False,
        )
    ]
    for index, name in enumerate(names):
        places = [
            Place(across.place(n), one.gain, one.interval, f"{one.gain:.3f} at epsilon {epsilon}")
            for n, epsilon in enumerate(epsilons)
            for one in protected
            if (one.attack, one.epsilon) == (name, epsilon)
        ]
        lines.append(stage.line(index, False, spaced(name), places))
    rules = [
        Rule("unprotected", stage.y(one.gain), f"{spaced(one.attack)}, {one.target}: {one.gain:.2f}")
        for one in studies
        if one.epsilon == "none"
    ]
    figure = Figure(
        stage,
        "Gain of attacks on whole studies against epsilon",
        tuple(Tick(epsilon, across.at(n)) for n, epsilon in enumerate(epsilons)),
        tuple(lines),
        " ".join(f"{spaced(one.attack)} at epsilon {one.epsilon}: {one.gain:.3f}." for one in protected),
        below=_BELOW,
        rules=tuple(rules[:3]),
    )
    keys = [Key(index, False, spaced(name)) for index, name in enumerate(names)]
    return Drawn(figure, (*keys, Key(len(names), True, "bound")))


def gap_figure(blog: BlogGame) -> Drawn:
    """Gap between the two means, in standard deviations of the answers, against epsilon: measured, and by the law."""
    across = _log_axis(blog.epsilons)
    told = [(hollow, gaps) for hollow, gaps in ((True, blog.expected_gaps), (False, blog.gaps)) if gaps]
    every = [gap for _, gaps in told for gap in gaps]
    stage = Stage(make_axis(min(0.0, *every), max(1.0, *every), _STEPS), _HEIGHT)
    lines = []
    for hollow, gaps in told:
        places = [
            Place(across.place(math.log(epsilon)), gap, (gap, gap), f"{gap:.3f} at epsilon {epsilon:g}")
            for epsilon, gap in zip(blog.epsilons, gaps, strict=True)
        ]
        lines.append(stage.line(0, hollow, "by the law" if hollow else "measured", places, errors=False))
    figure = _against_epsilon(stage, "Gap between the two means against epsilon", across, lines)
    return Drawn(figure, (Key(0, False, "gap, in standard deviations of the answers"), Key(0, True, "by the law")))


def above_figure(blog: BlogGame) -> Drawn:
    """Share of rounds above the threshold against epsilon: measured, and by the law."""
    across = _log_axis(blog.epsilons)
    stage = Stage(make_axis(0.0, 1.0, (0.2,)), _HEIGHT)
    lines = []
    for side, name in enumerate(("100 zeros", "99 zeros and a one")):
        for hollow, told in ((True, blog.expected_above), (False, blog.above)):
            places = [
                Place(
                    across.place(math.log(epsilon)), pair[side], (pair[side],) * 2, f"{pair[side]:.3f} at {epsilon:g}"
                )
                for epsilon, pair in zip(blog.epsilons, told, strict=True)
            ]
            lines.append(stage.line(side, hollow, f"{name}{', by the law' if hollow else ''}", places, errors=False))
    figure = _against_epsilon(stage, "Share of rounds above 1/200 against epsilon", across, lines)
    keys = (Key(0, False, "100 zeros"), Key(1, False, "99 zeros and a one"))
    return Drawn(figure, keys)


def _against_epsilon(stage: Stage, title: str, across: Axis, lines: Sequence[Line]) -> Figure:
    """A figure of the blog's game, with all that its lines show in words."""
    told = " ".join(f"{line.title}: {', '.join(mark.text for mark in line.marks)}." for line in lines)
    return Figure(stage, title, across.ticks, tuple(lines), told, below=_BELOW)


def _log_axis(epsilons: Sequence[float]) -> Axis:
    """Logarithms of the epsilons from left to right, with as many ticks as have room."""
    logs = [math.log(epsilon) for epsilon in epsilons]
    bare = Axis(logs[0], max(logs[-1], logs[0] + 1e-9), (), 9.0, 96.0)
    ticks, free = [], -100.0
    for epsilon, log in zip(epsilons, logs, strict=True):
        if bare.place(log) - free > 9:
            free = bare.place(log)
            ticks.append(Tick(f"{epsilon:.3g}", percent(free)))
    return Axis(bare.low, bare.high, tuple(ticks), bare.left, bare.right)


def spaced(name: str) -> str:
    """A name with underscores as words."""
    return name.replace("_", " ")
