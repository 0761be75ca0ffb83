"""Where each mark of a run's plots goes. The template draws them; no text of a report passes through here unescaped."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from expril.report.chart import Axis, Dot, Figure, Place, Rule, Stage, count_axis, make_axis
from simulations.report.budget import CuratorReport, exact
from simulations.report.model import CurvePoint, LearnerReport, Score, SiteScore
from simulations.report.words import WORDS, Words, plain

_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
_LEAST_SPAN = 0.1
_NEAR = 65.0
_RANKS_HEIGHT, _CURVES_HEIGHT = 300, 340


def accuracy_axis(scores: Iterable[Score | CurvePoint]) -> Axis:
    """Return the axis that holds these scores (at least one) with their errors, majorities and ceilings."""
    values: list[float] = []
    for score in scores:
        if score.accuracy is not None:
            values += interval(score.accuracy, score.accuracy_se)
        if isinstance(score, Score):
            values += [v for v in (score.majority, score.ceiling) if v is not None]
    low, high = min(values), max(values)
    if high - low < _LEAST_SPAN:
        low, high = max(min(low, 0.0), high - _LEAST_SPAN), max(high, _LEAST_SPAN)
    return make_axis(low, high, _STEPS)


def interval(accuracy: float, se: float | None) -> tuple[float, float]:
    """Return a score minus and plus one standard error, at most 1; what is not below 0 stays so."""
    low = accuracy - (se or 0.0)
    return low if accuracy < 0 else max(0.0, low), min(1.0, accuracy + (se or 0.0))


@dataclass(frozen=True)
class Strip:
    """One row of a dot plot; a place is a CSS percentage, or None when there is nothing to draw.

    The track runs from majority to ceiling: the room that there is to learn. The labels of the two are `near` when they
    need a line each.
    """

    dot: Dot | None
    majority: str
    ceiling: str | None
    track: tuple[str, str] | None
    majority_anchor: str
    ceiling_anchor: str
    near: bool


def strip(score: Score, axis: Axis) -> Strip:
    """Return the places of one score on an axis."""
    track = None
    if score.ceiling is not None:
        track = (
            axis.at(min(score.majority, score.ceiling)),
            axis.between(score.majority, score.ceiling),
        )
    return Strip(
        dot=None if score.accuracy is None else axis.dot(score.accuracy, interval(score.accuracy, score.accuracy_se)),
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


@dataclass(frozen=True)
class RankPlot:
    """All curators of one learner from the worst to the best."""

    stage: Stage
    ranks: tuple[Rank, ...]


def rank_plot(sites: Sequence[SiteScore], axis: Axis) -> RankPlot:
    """Return the sorted plot of the curators that have an accuracy."""
    scored = sorted((site.accuracy, site.curator, site) for site in sites if site.accuracy is not None)
    stage = Stage(axis, _RANKS_HEIGHT)
    across = Axis(0, max(1, len(scored)), (), 7.0, 99.0)
    ranks = []
    for n, (accuracy, curator, site) in enumerate(scored):
        low, high = interval(accuracy, site.accuracy_se)
        track = None
        if site.ceiling is not None:
            ends = sorted((stage.y(site.majority), stage.y(site.ceiling)))
            track = (ends[0], round(ends[1] - ends[0], 1))
        ranks.append(
            Rank(
                curator=curator,
                text=f"{accuracy:.3f}",
                x=across.at(n + 0.5),
                y=stage.y(accuracy),
                bar=(stage.y(low), stage.y(high)),
                track=track,
            )
        )
    return RankPlot(stage, tuple(ranks))


def curve_plot(learners: Sequence[LearnerReport], words: Words = WORDS["accuracy"]) -> Figure | None:
    """Return the learning curves, or None when no learner has two points: a point alone is no curve."""
    if all(len(learner.curve) < 2 for learner in learners):
        return None
    drawn = [(n, learner) for n, learner in enumerate(learners) if learner.curve]
    points: list[Score | CurvePoint] = [point for _, learner in drawn for point in learner.curve]
    stage = Stage(accuracy_axis([*points, *(learner.pooled for _, learner in drawn)]), _CURVES_HEIGHT)
    rounds = count_axis((point.round for _, learner in drawn for point in learner.curve), left=9.0, right=97.0)
    lines = [
        stage.line(
            index,
            False,
            learner.learner,
            [
                Place(
                    rounds.place(point.round),
                    point.accuracy,
                    interval(point.accuracy, point.accuracy_se),
                    f"{plain(point)}, round {point.round}",
                )
                for point in learner.curve
            ],
        )
        for index, learner in drawn
    ]
    pooled = [learner.pooled for _, learner in drawn]
    return Figure(
        stage,
        f"Pooled {words.score} by round",
        rounds.ticks,
        tuple(lines),
        " ".join(f"{learner.learner} ends at {plain(learner.curve[-1])}." for _, learner in drawn),
        rules=(
            *_rules("majority", words.constant, (score.majority for score in pooled), stage),
            *_rules("ceiling", "ceiling", (score.ceiling for score in pooled), stage),
        ),
    )


def _rules(style: str, name: str, values: Iterable[float | None], stage: Stage) -> Iterable[Rule]:
    known = sorted({round(value, 3) for value in values if value is not None})
    return (Rule(style, stage.y(value), f"{name} {value:.3f}") for value in known)


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
    return make_axis(0.0, high, [scale * step for step in (0.2, 0.5, 1.0, 2.0)], left=1.0, right=99.0)


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
