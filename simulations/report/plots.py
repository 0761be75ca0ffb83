"""Where each mark of a plot goes. The template draws them; no text of a report passes through here unescaped.

Plots are SVG whose horizontal coordinates are percentages, so that a plot fills any width while its text and marks keep
their size, and whose colours are CSS variables, so that they follow the reader's theme. Curves, which SVG cannot state
in percentages, live in a 100 x 100 box that is stretched to the plot (`Figure.path`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from simulations.report.model import CuratorReport, CurvePoint, LearnerReport, Score, SiteScore, exact

COLOURS = 6
"""How many learner colours the style sheet defines; together with the shapes, 12 learners can be told apart."""

SHAPES = (
    "M5.5 0A5.5 5.5 0 1 1-5.5 0A5.5 5.5 0 1 1 5.5 0Z",
    "M-4.8-4.8H4.8V4.8H-4.8Z",
    "M0-6.8L6.8 0L0 6.8L-6.8 0Z",
    "M0-6.2L6.2 4.8H-6.2Z",
)
"""Circle, square, diamond and triangle about the origin, in pixels: learners differ in shape as well as in colour."""

_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
_MOST_TICKS = 6
_LEAST_SPAN = 0.1
_INSET = 2.5
"""Percent of the width kept free at each end of an axis, so that a mark at the end is not cut."""

_NEAR = 65.0


def percent(value: float) -> str:
    """Return a coordinate or length as a short CSS percentage."""
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis; `at` is a CSS percentage."""

    label: str
    at: str


@dataclass(frozen=True)
class Axis:
    """A linear axis from `low` to `high`, inset by `inset` percent at each end."""

    low: float
    high: float
    ticks: tuple[Tick, ...]
    inset: float = _INSET

    def place(self, value: float) -> float:
        """Return where a value lies, in percent of the width; values outside are drawn at the end."""
        share = (value - self.low) / (self.high - self.low)
        return self.inset + (100 - 2 * self.inset) * min(1.0, max(0.0, share))

    def at(self, value: float) -> str:
        """Return where a value lies as a CSS percentage."""
        return percent(self.place(value))

    def between(self, first: float, second: float) -> str:
        """Return the distance of two values as a CSS percentage."""
        return percent(abs(self.place(second) - self.place(first)))


def make_axis(low: float, high: float, steps: Iterable[float], inset: float = _INSET) -> Axis:
    """Return an axis over whole steps that covers both values, with the first step that needs few ticks."""
    step = 1.0
    for candidate in steps:
        step = candidate
        if math.ceil(high / step - 1e-9) - math.floor(low / step + 1e-9) < _MOST_TICKS:
            break
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    last = max(last, first + 1)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    bare = Axis(first * step, last * step, (), inset)
    ticks = tuple(Tick(f"{n * step:.{digits}f}", bare.at(n * step)) for n in range(first, last + 1))
    return Axis(bare.low, bare.high, ticks, inset)


def accuracy_axis(scores: Iterable[Score | CurvePoint]) -> Axis:
    """Return the axis that holds these scores (at least one) with their errors, majorities and ceilings."""
    values: list[float] = []
    for score in scores:
        values += interval(score)
        if isinstance(score, Score):
            values += [v for v in (score.majority, score.ceiling) if v is not None]
    low, high = min(values), max(values)
    if high - low < _LEAST_SPAN:
        low, high = max(min(low, 0.0), high - _LEAST_SPAN), max(high, _LEAST_SPAN)
    return make_axis(low, high, _STEPS)


def interval(score: Score | CurvePoint) -> tuple[float, ...]:
    """Return accuracy minus and plus one standard error, within 0 and 1; nothing where there is no accuracy."""
    if score.accuracy is None:
        return ()
    se = score.accuracy_se or 0.0
    low = score.accuracy - se
    return low if score.accuracy < 0 else max(0.0, low), min(1.0, score.accuracy + se)


@dataclass(frozen=True)
class Strip:
    """One row of a dot plot; every field is a CSS percentage, or None when there is nothing to draw.

    The track runs from majority to ceiling: the room that there is to learn. The labels of the two are `near` when they
    need a line each.
    """

    dot: str | None
    bar: tuple[str, str] | None
    majority: str
    ceiling: str | None
    track: tuple[str, str] | None
    majority_anchor: str
    ceiling_anchor: str
    near: bool


def strip(score: Score, axis: Axis) -> Strip:
    """Return the places of one score on an axis."""
    ends = interval(score)
    has_bar = bool(ends) and ends[1] > ends[0]
    track = None
    if score.ceiling is not None:
        track = (
            axis.at(min(score.majority, score.ceiling)),
            axis.between(score.majority, score.ceiling),
        )
    return Strip(
        dot=None if score.accuracy is None else axis.at(score.accuracy),
        bar=(axis.at(ends[0]), axis.at(ends[1])) if has_bar else None,
        majority=axis.at(score.majority),
        ceiling=None if score.ceiling is None else axis.at(score.ceiling),
        track=track,
        majority_anchor=_anchor(axis.place(score.majority)),
        ceiling_anchor="" if score.ceiling is None else _anchor(axis.place(score.ceiling)),
        near=score.ceiling is not None and abs(axis.place(score.ceiling) - axis.place(score.majority)) < _NEAR,
    )


def _anchor(place: float) -> str:
    return "start" if place < 50 else "end"  # a label grows towards the middle and is never cut


@dataclass(frozen=True)
class Rank:
    """One curator in the sorted plot of many: `x` is a percentage, heights are pixels from the top."""

    curator: str
    text: str
    x: str
    y: float
    bar: tuple[float, float]
    track: tuple[float, float] | None
    majority: float


@dataclass(frozen=True)
class Grid:
    """A horizontal line of a plot: its label and its height in pixels from the top."""

    label: str
    y: float


@dataclass(frozen=True)
class RankPlot:
    """All curators of one learner from the worst to the best."""

    height: int
    grid: tuple[Grid, ...]
    ranks: tuple[Rank, ...]


_TOP, _BOTTOM = 18, 30


def _heights(axis: Axis, height: int) -> tuple[Grid, ...]:
    return tuple(Grid(tick.label, _y(float(tick.label), axis, height)) for tick in axis.ticks)


def _y(value: float, axis: Axis, height: int) -> float:
    share = min(1.0, max(0.0, (value - axis.low) / (axis.high - axis.low)))
    return round(_TOP + (height - _TOP - _BOTTOM) * (1 - share), 1)


def rank_plot(sites: Sequence[SiteScore], axis: Axis, height: int = 300) -> RankPlot:
    """Return the sorted plot of the curators that have an accuracy."""
    scored = sorted(
        (site for site in sites if site.accuracy is not None),
        key=lambda site: (site.accuracy, site.curator),
    )
    left, right = 7.0, 99.0
    step = (right - left) / max(1, len(scored))
    ranks = []
    for n, site in enumerate(scored):
        low, high = interval(site)
        track = None
        if site.ceiling is not None:
            ends = sorted((_y(site.majority, axis, height), _y(site.ceiling, axis, height)))
            track = (ends[0], round(ends[1] - ends[0], 1))
        ranks.append(
            Rank(
                curator=site.curator,
                text=f"{site.accuracy:.3f}",
                x=percent(left + step * (n + 0.5)),
                y=_y(site.accuracy or 0.0, axis, height),
                bar=(_y(low, axis, height), _y(high, axis, height)),
                track=track,
                majority=_y(site.majority, axis, height),
            )
        )
    return RankPlot(height, _heights(axis, height), tuple(ranks))


@dataclass(frozen=True)
class CurveMark:
    """One point of a learning curve: `x` is a percentage, heights are pixels from the top."""

    text: str
    x: str
    y: float
    bar: tuple[float, float] | None


@dataclass(frozen=True)
class Curve:
    """One learner's curve: marks, and the two paths in the 100 x 100 box (empty for a single point)."""

    learner: str
    index: int
    marks: tuple[CurveMark, ...]
    line: str
    band: str
    last: str
    alone: bool


@dataclass(frozen=True)
class CurvePlot:
    """The learning curves of all learners, with majority and ceiling as levels."""

    height: int
    box: tuple[int, int]
    grid: tuple[Grid, ...]
    rounds: tuple[Tick, ...]
    curves: tuple[Curve, ...]
    majorities: tuple[Grid, ...]
    ceilings: tuple[Grid, ...]


def _levels(values: Iterable[float | None], axis: Axis, height: int) -> tuple[Grid, ...]:
    known = sorted({round(value, 3) for value in values if value is not None})
    return tuple(Grid(f"{value:.3f}", _y(value, axis, height)) for value in known)


def _path(places: Sequence[tuple[float, float]], height: int) -> str:
    box = height - _TOP - _BOTTOM
    return "M" + "L".join(f"{x:.2f} {100 * (y - _TOP) / box:.2f}" for x, y in places)


def curve_plot(learners: Sequence[LearnerReport], height: int = 340) -> CurvePlot | None:
    """Return the learning curves, or None when no learner has two points: a point alone is no curve."""
    if all(len(learner.curve) < 2 for learner in learners):
        return None
    drawn = [(n, learner) for n, learner in enumerate(learners) if learner.curve]
    points: list[Score | CurvePoint] = [point for _, learner in drawn for point in learner.curve]
    axis = accuracy_axis([*points, *(learner.pooled for _, learner in drawn)])
    rounds = sorted({point.round for _, learner in drawn for point in learner.curve})
    first, last = rounds[0], rounds[-1]
    left, right = 9.0, 97.0

    def x(number: int) -> float:
        return left + (right - left) * (number - first) / (last - first)

    curves = []
    for index, learner in drawn:
        marks, middle, upper, lower = [], [], [], []
        for point in learner.curve:
            place = x(point.round)
            low, high = interval(point)
            y, y_low, y_high = (_y(v, axis, height) for v in (point.accuracy, low, high))
            middle.append((place, y))
            lower.append((place, y_low))
            upper.append((place, y_high))
            text = f"{learner.learner}, round {point.round}: {plain(point)}"
            marks.append(CurveMark(text, percent(place), y, (y_low, y_high) if high > low else None))
        alone = len(marks) == 1
        curves.append(
            Curve(
                learner=learner.learner,
                index=index,
                marks=tuple(marks),
                line="" if alone else _path(middle, height),
                band="" if alone else _path([*upper, *reversed(lower)], height) + "Z",
                last=plain(learner.curve[-1]),
                alone=alone,
            )
        )
    every = max(1, math.ceil((last - first + 1) / 12))
    ticks = [n for n in range(first, last + 1) if (n - first) % every == 0]
    return CurvePlot(
        height=height,
        box=(_TOP, height - _TOP - _BOTTOM),
        grid=_heights(axis, height),
        rounds=tuple(Tick(str(n), percent(x(n))) for n in ticks),
        curves=tuple(curves),
        majorities=_levels((learner.pooled.majority for _, learner in drawn), axis, height),
        ceilings=_levels((learner.pooled.ceiling for _, learner in drawn), axis, height),
    )


def plain(score: Score | CurvePoint) -> str:
    """Return an accuracy with its standard error in words."""
    if score.accuracy is None:
        return "no score"
    if score.accuracy_se is None:
        return f"{score.accuracy:.3f}"
    return f"{score.accuracy:.3f} ± {score.accuracy_se:.3f}"


@dataclass(frozen=True)
class Block:
    """What one learner spent at one curator in one round: a piece of the bar."""

    learner: str
    index: int
    round: int
    spent: Fraction
    x: str
    width: str


@dataclass(frozen=True)
class BudgetBar:
    """One curator's bar: blocks from the left, the room up to its cap behind them."""

    room: tuple[str, str]
    cap: str
    blocks: tuple[Block, ...]
    totals: tuple[tuple[str, int, Fraction], ...]
    spent: Fraction
    over: bool


def budget_axis(curators: Sequence[CuratorReport]) -> Axis:
    """Return one axis for the budgets of all curators, from nothing to the largest cap."""
    high = max((float(max(exact(c.cap), total_spent(c))) for c in curators), default=1.0) or 1.0
    scale = 10.0 ** math.floor(math.log10(high))
    return make_axis(0.0, high, [scale * step for step in (0.2, 0.5, 1.0, 2.0)], inset=1.0)


def last_spent(curator: CuratorReport) -> dict[str, Fraction]:
    """Return what each learner has spent at a curator after its last round."""
    points = sorted(curator.spent_by_round, key=lambda point: point.round)
    return {point.learner: exact(point.spent) for point in points}


def total_spent(curator: CuratorReport) -> Fraction:
    """Return what all learners together have spent at a curator."""
    return sum(last_spent(curator).values(), start=Fraction(0))


def budget_bar(curator: CuratorReport, indices: dict[str, int], axis: Axis) -> BudgetBar:
    """Return one curator's bar, learner by learner in the order of `indices`, round by round within each."""
    blocks = []
    here = Fraction(0)
    points = sorted(curator.spent_by_round, key=lambda point: (indices[point.learner], point.round))
    before: tuple[str, Fraction] = ("", Fraction(0))
    for point in points:
        sofar = exact(point.spent)
        spent = sofar - (before[1] if before[0] == point.learner else 0)
        before = (point.learner, sofar)
        if spent == 0:
            continue
        blocks.append(
            Block(
                learner=point.learner,
                index=indices[point.learner],
                round=point.round,
                spent=spent,
                x=axis.at(float(here)),
                width=axis.between(float(here), float(here + spent)),
            )
        )
        here += spent
    cap = exact(curator.cap)
    totals = sorted(last_spent(curator).items(), key=lambda item: indices[item[0]])
    return BudgetBar(
        room=(axis.at(0.0), axis.between(0.0, float(cap))),
        cap=axis.at(float(cap)),
        blocks=tuple(blocks),
        totals=tuple((name, indices[name], spent) for name, spent in totals),
        spent=here,
        over=here > cap,
    )
