"""Questions on where the private records lie, without labels. Their answers are results, not parts of strategies.

The source's own components and clusters are free, and strategies use those. Asking about the curators' records is
worthwhile only if they come from another population, and then the answer is a result by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds.model import ModelAnswer
from learner_node.kinds.models.moments import Components, components
from learner_node.models.source import kmeans_cells
from learner_node.strategies.models import unit_map
from learner_node.study.federation import Federation
from learner_node.study.learn import admit
from learner_node.study.study import Study
from protocol.feature_map import FeatureMap
from protocol.kinds.model import ModelBody, PlannedModel
from protocol.kinds.models import AnyMethod, Body, Centres, KMeans, Mapped, Points, PrincipalComponents
from protocol.plans import Plan
from protocol.rationals import Rational, parse_rational
from protocol.records import Records
from protocol.schema import Schema

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Clusters:
    """Clusters of the private records."""

    features: FeatureMap  # the map
    centres: NDArray[np.float64]  # (curators x K, width) in units of the map, those of each curator together
    records: NDArray[np.float64]  # (curators x K,) estimated number of private records of each, at least 0


def clusters(answer: ModelAnswer) -> Clusters:
    """Each curator's centres after its last iteration, and their records in that iteration."""
    method, (body,) = answer.planned.method, answer.body.models
    if not (isinstance(method, KMeans) and isinstance(body, Centres)):
        raise TypeError("the answer is not one of k-means")
    centres, records = [], []
    for numbers in answer.of():
        centres.append(method.path(numbers, body)[-1] / method.points.radius)
        last = numbers.reshape(method.iterations, method.clusters, -1)[-1]
        records.append(np.maximum(last[:, -1] / method.points.constant, 0.0))
    return Clusters(body.features, np.concatenate(centres), np.concatenate(records))


INSIDE = 0.9
"""Share of the source's points within the unit ball; longer points are shrunk into it."""
RADIUS = 64
"""Whole steps of a vector's length: rounding to them costs less than any noise here."""


@dataclass(frozen=True)
class PaidAnswer:
    """An answer and its cost."""

    answer: ModelAnswer  # of all curators that answered
    source: Records  # the learner's records, encoded
    spent: Fraction  # exact epsilon at the costliest curator, by its receipts


def ask_clusters(
    federation: Federation,
    source: Callable[[Schema], Records],
    *,
    clusters: int,
    epsilon: Fraction | str,
    iterations: int = 2,
    seed: int = 0,
) -> tuple[Clusters, PaidAnswer]:
    """Run k-means at every curator, from the centres of the source.

    Args:
        federation: whom to ask.
        source: encodes the learner's records for a schema.
        clusters: K, at least 1.
        epsilon: to spend at each curator, exact.
        iterations: number of steps, with equal shares of epsilon.
        seed: seed of the source's k-means.

    Raises:
        NoCuratorError: none accepted, or none answered.
        ConfigurationError: the records do not fit the cards.
    """

    def question(records: Records) -> tuple[AnyMethod, Body]:
        features = unit_map(records, INSIDE)
        points = Points(width=features.width, radius=RADIUS, constant=RADIUS // 2)
        first = kmeans_cells(records, features, clusters, seed)
        nearest = first.cells(records)
        rows = points.rows(features.points(records))[:, : points.width]
        centres = np.stack([rows[nearest == place].mean(axis=0) for place in np.unique(nearest)])
        method = KMeans(points=points, clusters=len(centres), iterations=iterations)
        return method, Centres.of(features, np.rint(centres).astype(np.int64))

    paid = ask(federation, source, question, epsilon)
    return _clusters(paid.answer), paid


def ask_components(
    federation: Federation, source: Callable[[Schema], Records], *, epsilon: Fraction | str
) -> tuple[Components, PaidAnswer]:
    """Principal components of all curators' records together; arguments and errors of `ask_clusters`."""

    def question(records: Records) -> tuple[AnyMethod, Body]:
        features = unit_map(records, INSIDE)
        return PrincipalComponents(points=Points(features.width, RADIUS, RADIUS // 2)), Mapped(features)

    paid = ask(federation, source, question, epsilon)
    return components(paid.answer), paid


def ask(
    federation: Federation,
    source: Callable[[Schema], Records],
    question: Callable[[Records], tuple[AnyMethod, Body]],
    epsilon: Fraction | str,
) -> PaidAnswer:
    """Run a study of one query for one model.

    `source` encodes the learner's records for a schema, `question` maps them to the planned query and its body, and
    `epsilon` is spent at each curator. Raises the errors of `ask_clusters`.
    """
    study = Study(federation)
    records, cards, left_out = admit(study, source)
    for name, reason in left_out.items():
        study.leave_out(name, reason)
    method, body = question(records)
    planned = PlannedModel(method=method, epsilon=Rational.of(parse_rational(epsilon)))
    with study.closing():
        names = study.propose(Plan.of([planned]), "", list(cards))
        study.ask(dict.fromkeys(names, ModelBody(models=(body,))))
        (answer,) = study.pooled(study.survivors)
    return PaidAnswer(answer, records, max(study.spent(name) for name in study.survivors))


_clusters = clusters
