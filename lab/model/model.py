"""What the study of in-site models found, as plain data: its tables, its page and its files are made of it."""

from collections.abc import Sequence

import msgspec

from expril.report.provenance import Provenance
from lab.epsilons import INFINITE, epsilon_order
from lab.model.studies import CLASSES, WAYS, Fitted
from lab.problems import PROBLEMS
from lab.sites.model import Mean


class Point(msgspec.Struct, frozen=True):
    """One method on one problem at one epsilon.

    Attributes:
        problem: key of `PROBLEMS`.
        way: key of `WAYS`.
        epsilon: exact text, "inf" without privacy.
        score: in percent, see `lab.model.studies.Way`.
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


class Found(msgspec.Struct, frozen=True):
    """Everything that a report shows.

    Attributes:
        points: by problem, by epsilon downwards, in the order of `WAYS`.
        provenance: None before anything was computed.
    """

    points: tuple[Point, ...]
    provenance: Provenance | None = None

    @property
    def problems(self) -> tuple[str, ...]:
        """Of the points."""
        return tuple(dict.fromkeys(point.problem for point in self.points))

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


def found_of(fitted: Sequence[Fitted]) -> Found:
    """All that these cells show, whatever is still missing."""
    grouped: dict[tuple[str, str, str], dict[int, Fitted]] = {}
    for one in fitted:
        grouped.setdefault((one.problem, one.epsilon, one.way), {})[one.seed] = one
    problems, ways = list(PROBLEMS), list(WAYS)
    ordered = sorted(grouped, key=lambda key: (problems.index(key[0]), epsilon_order(key[1]), ways.index(key[2])))
    return Found(tuple(_point(key, grouped) for key in ordered))


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
