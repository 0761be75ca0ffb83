"""Answers `model`: fits in whole numbers, plus exact discrete Laplace noise.

A fit is a function of records, plan and body. No record may make it fail.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator_node.answering import Answered, Answerer, CuratorQuestion
from curator_node.kinds.newton import Losses, minimise
from curator_node.mechanisms import NoiseSource
from curator_node.records.dataset import PrivateDataset
from protocol.codec import encode
from protocol.kinds import model
from protocol.kinds.model import ModelLimits, ModelRelease, PlannedModel
from protocol.kinds.models import (
    Attributes,
    Centres,
    Forest,
    KernelSvm,
    KMeans,
    LinearRegression,
    LinearSvm,
    LogisticRegression,
    Mapped,
    Moments,
    NaiveBayes,
    PrincipalComponents,
)
from protocol.records import LABEL_STEPS, Records

MOST_STEPS = 2.0**52
"""Larger numbers are clipped to this, which never increases the sensitivity."""
MOST_LINEAR_RECORDS = 2**25
"""Up to this many records, rounding errors of floats stay within the tolerance's part for them.

docs/explanation/in-site-models.md has the proof.
"""


def fit_naive_bayes(
    method: NaiveBayes, body: Attributes, records: Records, labels: NDArray[np.unsignedinteger]
) -> NDArray[np.int64]:
    """Exact tables (cells, classes) of all attributes, one after the other, flat."""
    classes = len(records.schema.classes)
    sizes = method.cells(body, records.schema)
    tables: list[NDArray[np.int64]] = []
    for attribute, size in zip(body.attributes, sizes, strict=True):
        if isinstance(attribute, Moments):
            tables.append(_moments(attribute, method.steps, records, labels))
        else:
            cells = attribute.cells(records) * classes + labels
            tables.append(method.weight * np.bincount(cells, minlength=size * classes).astype(np.int64))
    return np.concatenate(tables)


def _moments(
    attribute: Moments, steps: int, records: Records, labels: NDArray[np.unsignedinteger]
) -> NDArray[np.int64]:
    """Four cells by class, flat. The same operations make each record's numbers, so its contribution is exact."""
    classes = len(records.schema.classes)
    values = records.column(attribute.attribute).astype(np.float64)
    missing = np.isnan(values)
    shares = (np.clip(values, attribute.lower, attribute.upper) - attribute.lower) / (attribute.upper - attribute.lower)
    u = np.clip(np.rint(np.where(missing, 0.0, shares) * steps), 0, steps)
    parts = np.where(missing, 0.0, [(steps - u) ** 2, 2 * u * (steps - u), u**2])
    # Whole numbers below 2^53 in all: exact in whatever order they are added.
    rows = (*parts, np.where(missing, float(steps**2), 0.0))
    return np.concatenate([np.bincount(labels, weights=row, minlength=classes).astype(np.int64) for row in rows])


def fit_forest(
    method: Forest, body: Mapped, records: Records, labels: NDArray[np.unsignedinteger]
) -> NDArray[np.int64]:
    """Tables (leaves, classes), tree by tree."""
    classes = len(records.schema.classes)
    size = method.leaves * classes
    return np.concatenate(
        [np.bincount(tree.cells(records) * classes + labels, minlength=size) for tree in method.partitions(body)]
    )


def fit_linear(
    method: LogisticRegression | LinearSvm | KernelSvm,
    body: Mapped,
    records: Records,
    labels: NDArray[np.unsignedinteger],
) -> NDArray[np.int64]:
    """The minimiser of the regularised losses in whole steps of the planned grid, (coordinates,)."""
    rows = np.empty((len(records), method.coordinates), np.int16)
    for block, points in body.features.blocks(records, method.coordinates):
        rows[block] = method.rows(points)
    losses = Losses(
        rows=rows,
        signs=2.0 * labels.astype(np.float64) - 1.0,
        unit=method.unit,
        length=method.length_above / method.unit,
        regulariser=float(method.regulariser.fraction),
        margin=method.margin,
        sharpness=method.sharpness_of_loss,
    )
    steps = minimise(losses) * (losses.regulariser * method.steps)
    return np.clip(np.rint(steps), -MOST_STEPS, MOST_STEPS).astype(np.int64)


def fit_second_moments(
    method: LinearRegression | PrincipalComponents,
    body: Mapped,
    records: Records,
    labels: NDArray[np.unsignedinteger],
) -> NDArray[np.int64]:
    """Exact sums of products, flat, in the order that `protocol.kinds.models.second_moments.split_moments` reads.

    Products of whole numbers of at most 2^24, added over a block of at most 2^18 records: exact in whatever order.
    """
    size = method.points.coordinates
    products, with_label = np.zeros((size, size), np.int64), np.zeros(size + 1, np.int64)
    for block, points in body.features.blocks(records, size):
        rows = method.points.rows(points)
        products += (rows.T @ rows).astype(np.int64)
        if isinstance(method, LinearRegression):
            y = _label_steps(labels[block], method.label_steps)
            with_label += np.append(y @ rows, y @ y).astype(np.int64)
    products_above = [products[np.triu_indices(size)]]
    return np.concatenate([*products_above, with_label] if isinstance(method, LinearRegression) else products_above)


def _label_steps(labels: NDArray[np.unsignedinteger], most: int) -> NDArray[np.float64]:
    """Labels 0 .. 4096 of their range as whole numbers within +-most, rounded towards 0."""
    steps: NDArray[np.float64] = np.trunc((2.0 * labels - LABEL_STEPS) * most / LABEL_STEPS)
    return steps


def sums_about(method: KMeans, body: Centres, records: Records, centres: NDArray[np.float64]) -> NDArray[np.int64]:
    """Exact sums by cluster, (runs, clusters, coordinates).

    Args:
        method: the plan's.
        body: a checked one.
        records: n of them.
        centres: (runs, clusters, width) whole numbers. Runs with equal centres share their sums.
    """
    different = {run_centres.tobytes(): run_centres for run_centres in centres}
    shape = method.clusters, method.points.coordinates
    sums = {name: np.zeros(shape, np.int64) for name in different}
    for _, points in body.features.blocks(records, max(shape)):
        rows = method.points.rows(points)
        for name, run_centres in different.items():
            member = (method.nearest(rows, run_centres)[:, None] == np.arange(method.clusters)).astype(np.float64)
            # Whole numbers below 2^53 in all: exact in whatever order they are added.
            sums[name] += (member.T @ rows).astype(np.int64)
    return np.stack([sums[run_centres.tobytes()] for run_centres in centres])


EXACT: Mapping[str, Callable[[Any, Any, Records, NDArray[np.unsignedinteger]], NDArray[np.int64]]] = MappingProxyType(
    {
        "naive_bayes": fit_naive_bayes,
        "linear_regression": fit_second_moments,
        "principal_components": fit_second_moments,
        "forest": fit_forest,
        "logistic_regression": fit_linear,
        "linear_svm": fit_linear,
        "kernel_svm": fit_linear,
    }
)
"""(method, checked body, n records, their labels (n,)) -> (k,) exact numbers of one model. k-means is left out, since
its iterations use noisy numbers."""

MOST_RECORDS: Mapping[str, int] = MappingProxyType(
    {name: MOST_LINEAR_RECORDS for name, fit in EXACT.items() if fit is fit_linear}
)
"""Methods that are private only up to a number of records of one curator. All others are private with any number."""


def answer(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """The encoded ModelRelease. No record can make this function fail or change the form of its answer."""
    planned: PlannedModel = question.turn.planned
    if isinstance(planned.method, KMeans):
        noisy = _k_means(planned.method, question, dataset, noise)
    else:
        fit, models = EXACT[planned.name], question.body.models
        fits = {body: fit(planned.method, body, dataset.records, dataset.labels) for body in set(models)}
        exact = np.concatenate([fits[body] for body in models])
        bound = dataset.steward.most_records_per_unit
        l1 = planned.sensitivity(bound)
        noisy = noise.discrete_laplace(exact, l1, planned.law(bound), question.stamp)
    return Answered(encode(ModelRelease(noisy.astype("<i8").tobytes())))


def _k_means(
    method: KMeans, question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource
) -> NDArray[np.int64]:
    """Noisy numbers of all runs, flat; those of each run are in the order of `KMeans`.

    All runs take each iteration together, and each iteration has noise of its own. Given the earlier releases, a record
    moves an iteration by at most its share of the sensitivity, whatever the centres are.
    """
    planned: PlannedModel = question.turn.planned
    models: tuple[Centres, ...] = question.body.models
    bound = dataset.steward.most_records_per_unit
    l1, law = planned.sensitivity(bound) // method.iterations, planned.law(bound)
    shape = len(models), method.clusters, method.points.coordinates
    centres = np.stack([start.table(method.points.width) for start in models])
    released = []
    for iteration in range(method.iterations):
        sums = np.empty(shape, np.int64)
        for body in set(models):
            runs = [run for run, start in enumerate(models) if start == body]
            sums[runs] = sums_about(method, body, dataset.records, centres[runs])
        stamp = replace(question.stamp, part=iteration)
        noisy = noise.discrete_laplace(sums.ravel(), l1, law, stamp).reshape(shape)
        centres = method.next_centres(centres, noisy)
        released.append(noisy)
    return np.stack(released, axis=1).ravel()


def bounded(limits: ModelLimits) -> Mapping[str, int]:
    """Most records of a curator with which a method is private, by the method's place in the limits."""
    return {
        f"limits.kinds.model.methods: {name}": MOST_RECORDS[name] for name in limits.methods if name in MOST_RECORDS
    }


MODEL = Answerer(model.MODEL, answer, bounded=bounded)
