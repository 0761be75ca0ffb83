"""The study of in-site models: every method of the query kind `model`, beside `cells` and the same without privacy."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial

import msgspec

from expril.report.chart import Figure, Key, Level, Place, Series, line_chart, log_axis
from expril.report.document import Charts, Document, Section, Text
from expril.report.numbers import decimal, signed
from expril.report.provenance import Provenance
from expril.report.table import Cell, Column, Group, Table, attributes
from lab.epsilons import INFINITE, epsilon_order
from lab.means import Mean, mean_columns, mean_text
from lab.model.ways import CLASSES, LABELS, NOTHING, NUMBER, WAYS, Fitted, compute
from lab.problems import PROBLEMS, load_split
from protocol.rationals import parse_rational
from simulations.campaign.store import Task
from simulations.campaign.study import Order, Part, Size, Study

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
    """One method on one problem at one epsilon.

    Attributes:
        problem: key of `PROBLEMS`.
        way: key of `WAYS`.
        epsilon: exact text, "inf" without privacy.
        score: in percent, see `lab.model.ways.Way`.
        auc: area under the ROC curve in percent; None where no classes are predicted.
        gain: score less that of `cells`, over the repeats that both have; None where they share none.
        charged: exact epsilon by the costliest ledger, the largest of the repeats; "" without privacy.
        sites: curators.
    """

    problem: str
    way: str
    epsilon: str
    score: Mean
    auc: Mean | None
    gain: Mean | None
    charged: str
    sites: int


class Findings(msgspec.Struct, frozen=True):
    """Everything that a report shows.

    Attributes:
        points: by problem, by epsilon downwards, in the order of `WAYS`.
        provenance: None before anything was computed.
    """

    points: tuple[Point, ...]
    provenance: Provenance | None = None

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
    grouped: dict[tuple[str, str, str], dict[int, Fitted]] = {}
    for one in cells["studies"]:
        grouped.setdefault((one.problem, one.epsilon, one.way), {})[one.seed] = one
    problems, ways = list(PROBLEMS), list(WAYS)
    ordered = sorted(grouped, key=lambda key: (problems.index(key[0]), epsilon_order(key[1]), ways.index(key[2])))
    return Findings(tuple(_point(key, grouped) for key in ordered), provenance)


def _point(key: tuple[str, str, str], grouped: dict[tuple[str, str, str], dict[int, Fitted]]) -> Point:
    problem, epsilon, way = key
    runs, beside = grouped[key], grouped.get((problem, epsilon, "cells"), {})
    classes = WAYS[way].predicts == CLASSES
    both = sorted(runs.keys() & beside.keys()) if classes and way != "cells" else []
    return Point(
        problem,
        way,
        epsilon,
        Mean.of(one.score for one in runs.values()),
        Mean.of(one.auc for one in runs.values()) if classes else None,
        Mean.of(runs[seed].score - beside[seed].score for seed in both) if both else None,
        max((one.charged for one in runs.values()), key=len),
        next(iter(runs.values())).sites,
    )


def document(found: Findings) -> Document:
    """What predicts classes, and what does not."""
    classified = _table(found, "Accuracy on the test records, in percent", [CLASSES])
    others = _table(found, "Explained variance on the test records, in percent", [NUMBER, NOTHING])
    columns = [*attributes("problem way epsilon sites charged"), *mean_columns("score auc gain")]
    return Document(
        kind="ExPriL: in-site models",
        subject="accuracy over epsilon, beside cells",
        headline="Models that curators fit in site, beside counts of cells",
        sections=[
            Section(classified.caption, [Text(READING), _charts(found), classified] if classified else []),
            Section(others.caption, [Text(OTHERS), others] if others else []),
        ],
        note="[docs/in-site-learning.md](../../in-site-learning.md) says what they show; report.html has charts.",
        sources=[("Study of in-site models", found.provenance)],
        files={"scores.csv": Table.of("scores", columns, found.points)},
    )


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
    return Charts(charts, tuple(KEYS.values()), [("ceiling", WAYS["logistic"].title)])


def _chart(found: Findings, problem: str) -> Figure:
    places = {epsilon: float(parse_rational(epsilon)) for epsilon in reversed(found.epsilons)}

    def series(way: str) -> list[Place]:
        points = [found.point(problem, way, epsilon) for epsilon in places]
        return [
            Place(
                places[point.epsilon],
                point.score.value,
                point.score.ends,
                f"{mean_text(point.score)} % at epsilon {point.epsilon}",
            )
            for point in points
            if point is not None
        ]

    free = found.point(problem, "logistic", INFINITE)
    level = free and Level("ceiling", free.score.value, f"no privacy: {decimal(free.score.value)}")
    return line_chart(
        problem,
        [Series(key, series(way), errors=False) for way, key in KEYS.items()],
        log_axis(places.values(), places),
        (0.5, 1.0, 2.0, 5.0, 10.0, 20.0),
        levels=[level] if level else [],
        unit="%",
        across="epsilon, logarithmic",
    )


def tasks(order: Order) -> list[Task]:
    """All studies, the first repeat of everything before the second of anything; what is not private has no epsilon."""
    return [
        Task(problem, name, epsilon, seed)
        for seed in order.seeds
        for problem in order.size.axes["problems"]
        for name in order.size.axes["methods"]
        for epsilon in (order.size.epsilons if WAYS[name].ceiling else (INFINITE,))
    ]


def _settings(order: Order) -> dict[str, object]:
    """As files of cells have always begun."""
    return {"experiment": "insite", "seed": order.seed, "ways": {name: way.title for name, way in WAYS.items()}}


def _check(order: Order) -> None:
    """Raise DataUnavailableError where a problem's records are not to be had."""
    for problem in order.size.axes["problems"]:
        load_split(problem, order.seed)


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
    check=_check,
)
