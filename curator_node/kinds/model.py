"""Answers `model`: fits in whole numbers, plus exact discrete Laplace noise."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from curator_node.answering import Answered, Answerer, CuratorQuestion
from curator_node.kinds.models import EXACT, MOST_RECORDS, sums_about
from curator_node.mechanisms import NoiseSource
from curator_node.records.dataset import PrivateDataset
from protocol.codec import encode
from protocol.kinds import model
from protocol.kinds.model import ModelLimits, ModelRelease, PlannedModel
from protocol.kinds.models import Centres, KMeans


def answer(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """The encoded ModelRelease. Total over all datasets: no record can make it fail or differ in kind."""
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
    """Noisy numbers of all runs, flat, as `KMeans` orders those of one.

    All runs take each iteration together, with noise that no other iteration has. Given what was released before, a
    record moves an iteration by its share of the sensitivity, whatever the centres are.
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
    """See `Answerer`."""
    return {
        f"limits.kinds.model.methods: {name}": MOST_RECORDS[name] for name in limits.methods if name in MOST_RECORDS
    }


MODEL = Answerer(model.MODEL, answer, bounded=bounded)
