"""The study of in-site models: every method of the query kind `model`, beside `cells` and the same without privacy."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from operator import attrgetter

import msgspec

from expril.report.chart import Figure, Key, Level, Series
from expril.report.document import Charts, Document, Section, Text
from expril.report.numbers import decimal, signed
from expril.report.provenance import Provenance
from expril.report.table import Cell, Column, Group, Table, attributes
from lab.averages import Interval, log_chart, mean_columns, mean_place, mean_text
from lab.cells import INFINITE, by_seed, differences, epsilon_number, epsilon_order, grouped
from lab.model.ways import CLASSES, LABELS, NOTHING, NUMBER, WAYS, Fitted, compute
from lab.problems import PROBLEMS, check_problems
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from simulations.campaign.store import Task

KEYS = {
    name: Key(number, False, way.title)
    for number, (name, way) in enumerate(
        (name, way) for name, way in WAYS.items() if way.predicts == CLASSES and way.ceiling
    )
}
"""Of the private methods that predict classes."""
READING = (
    "Mean over the repeats and half the width of its 95 % interval. Every number is of a whole study with real "
    "curators, noise, signatures and ledgers; a repeat has its own split, which all methods share. Models are fitted "
    "at each site, and what the sites release is added up, or averaged where it cannot be. A mark tells that the "
    "difference to cells, within a repeat, is larger than its interval."
)
OTHERS = (
    "A regression predicts the named attribute, and what it explains is of that attribute's variance. Clusters and "
    "components explain the points' variance: with clusters, the mean over the sites of what each one's centres do. "
    "What explains less than the mean does is counted as 0."
)


class Point(msgspec.Struct, frozen=True):
    """One method on one problem at one epsilon."""

    problem: str  # key of `PROBLEMS`
    way: str  # key of `WAYS`
    epsilon: str  # exact text, "inf" without privacy
    score: Interval  # in percent, see `lab.model.ways.Way`
    auc: Interval | None  # area under the ROC curve in percent; None where no classes are predicted
    gain: Interval | None  # score less that of `cells`, over the repeats that both have; None where they share none
    charged: str  # exact epsilon by the costliest ledger, the largest of the repeats; "" without privacy
    sites: int  # curators


class Findings(msgspec.Struct, frozen=True):
    """Everything that a report shows."""

    points: tuple[Point, ...]  # by problem, by epsilon downwards, in the order of `WAYS`
    provenance: Provenance | None = None  # None before anything was computed

    @property
    def epsilons(self) -> tuple[str, ...]:
        """Of what is private, downwards."""
        there = {point.epsilon for point in self.points if point.epsilon != INFINITE}
        return tuple(sorted(there, key=epsilon_order))

    def point(self, problem: str, way: str, epsilon: str) -> Point | None:
        """The one of these, where it was run."""
        return next(
            (one for one in self.points if (one.problem, one.way, one.epsilon) == (problem, way, epsilon)), None
        )


def findings(cells: Mapping[str, Sequence[Fitted]], provenance: Provenance | None = None) -> Findings:
    """All that these cells show, whatever is still missing."""
    held = grouped(
        by_seed(cells["studies"]),
        lambda one: (one.problem, one.epsilon, one.maker),
        list(PROBLEMS),
        epsilon_order,
        list(WAYS),
    )
    return Findings(tuple(_point(*key, held) for key in held), provenance)


def _point(problem: str, epsilon: str, way: str, held: Mapping[tuple[str, str, str], Sequence[Fitted]]) -> Point:
    runs, beside = held[problem, epsilon, way], held.get((problem, epsilon, "cells"), ())
    classes = WAYS[way].predicts == CLASSES
    return Point(
        problem,
        way,
        epsilon,
        Interval.of(one.score for one in runs),
        Interval.of(one.auc for one in runs) if classes else None,
        Interval.of_any(differences(runs, beside, attrgetter("score"))) if classes and way != "cells" else None,
        max((one.charged for one in runs), key=len),
        runs[0].sites,
    )


def document(found: Findings) -> Document:
    """What predicts classes, and what does not."""
    classified = _table(found, "Accuracy on the test records, in percent", [CLASSES])
    others = _table(found, "Explained variance on the test records, in percent", [NUMBER, NOTHING])
    columns = [*attributes("problem way epsilon sites charged"), *mean_columns("score auc gain")]
    sections = [
        Section(classified.caption, [Text(READING), _charts(found), classified] if classified else []),
        Section(others.caption, [Text(OTHERS), others] if others else []),
    ]
    return document_of("model", sections, found.provenance, {"scores.csv": Table.of("scores", columns, found.points)})


def _table(found: Findings, caption: str, predicted: Iterable[str]) -> Table[tuple[str, str]]:
    """A group for each problem, a row for each method, a column for each epsilon."""
    groups = []
    for problem in dict.fromkeys(point.problem for point in found.points):
        there = {point.way: point.sites for point in found.points if point.problem == problem}
        rows = [(problem, name) for name, way in WAYS.items() if name in there and way.predicts in predicted]
        sites = max(there.values())
        title = f"{problem}, {sites} {'site' if sites == 1 else 'sites'}"
        title += "" if CLASSES in predicted else f"; the regression predicts {LABELS.get(problem, 'nothing')}"
        groups.append(Group(rows, title))
    columns = [
        Column[tuple[str, str]]("method", lambda row: WAYS[row[1]].title, names=True),
        *(Column(f"epsilon {each}", partial(_score, found, each), number=True) for each in found.epsilons),
        Column("no privacy", partial(_score, found, INFINITE), number=True),
        Column("charged", partial(_charged, found), number=True),
    ]
    return Table(caption, columns, [group for group in groups if group.rows])


def _score(found: Findings, epsilon: str, row: tuple[str, str]) -> Cell:
    point = found.point(*row, epsilon)
    if point is None or point.gain is None:
        return Cell(mean_text(point.score if point else None))
    return Cell(mean_text(point.score), tone=point.gain.tone, under=f"{signed(point.gain.value)} to cells")


def _charged(found: Findings, row: tuple[str, str]) -> str:
    """Whether every costliest ledger holds what was asked for; what it holds, where it does not."""
    points = [point for point in found.points if (point.problem, point.way) == row and point.epsilon != INFINITE]
    if not points:
        return "–"
    wrong = [point.charged for point in points if Fraction(point.charged) != Fraction(point.epsilon)]
    return ", ".join(wrong) or "epsilon"


def _charts(found: Findings) -> Charts | None:
    """Accuracy against epsilon, one panel a problem; none where there is but one epsilon."""
    if len(found.epsilons) < 2:
        return None
    problems = dict.fromkeys(point.problem for point in found.points if point.way in KEYS)
    charts = [_chart(found, problem) for problem in problems]
    return Charts(charts, tuple(KEYS.values()), [("solid", WAYS["logistic"].title)])


def _chart(found: Findings, problem: str) -> Figure:
    def series(key: Key, way: str) -> Series:
        points = [point for each in reversed(found.epsilons) if (point := found.point(problem, way, each))]
        texts = [f"{mean_text(point.score)} % at epsilon {point.epsilon}" for point in points]
        places = [
            mean_place(epsilon_number(point.epsilon), point.score, text)
            for point, text in zip(points, texts, strict=True)
        ]
        return Series(key, places, errors=False)

    free = found.point(problem, "logistic", INFINITE)
    level = free and Level("ceiling", free.score.value, f"no privacy: {decimal(free.score.value)}")
    lines = [series(key, way) for way, key in KEYS.items()]
    steps = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
    return log_chart(problem, lines, steps, "epsilon", levels=[level] if level else [], unit="%")


def tasks(order: Order) -> list[Task]:
    """All studies; what is not private has no epsilon."""
    return order.tasks("problems", "methods", lambda name: order.size.epsilons if WAYS[name].ceiling else (INFINITE,))


def _settings(order: Order) -> dict[str, object]:
    """As files of cells have always begun."""
    return {"experiment": "insite", "seed": order.seed, "ways": {name: way.title for name, way in WAYS.items()}}


ALL = {"problems": tuple(LABELS), "methods": tuple(WAYS)}
SIZE = Size(3, ("10", "1", "0.1"), ALL, "a minute")
"""The whole is short enough."""
STUDY = Study(
    name="model",
    parts=[Part("studies", Fitted, tasks, compute, _settings)],
    findings=findings,
    document=document,
    choices=ALL,
    short=SIZE,
    full=SIZE,
    seed=1000,
    check=check_problems,
)
