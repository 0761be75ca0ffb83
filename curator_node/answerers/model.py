"""Answers `model`: fits in whole numbers, plus exact discrete Laplace noise."""

import numpy as np
from numpy.typing import NDArray

from curator_node.answering import Answered, Answerer, Question
from curator_node.dataset import PrivateDataset
from curator_node.fitting import EXACT, IN_TURN
from curator_node.mechanisms import NoiseSource
from protocol.codec import encode
from protocol.models import Body
from protocol.queries import model
from protocol.queries.model import ModelRelease, PlannedModel


def answer(question: Question, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """The encoded ModelRelease. Total over all datasets: no record can make it fail or differ in kind."""
    planned: PlannedModel = question.turn.planned
    bound = dataset.steward.most_records_per_unit
    l1, law = model.sensitivity(planned, bound), model.law(planned, bound)
    models: tuple[Body, ...] = question.body.models
    if planned.name in EXACT:
        fits = {
            each: EXACT[planned.name](planned.method, each, dataset.records, dataset.labels) for each in set(models)
        }
        exact = np.concatenate([fits[each] for each in models])
        noisy = noise.discrete_laplace(exact, l1, law, question.stamp)
    else:
        lengths = model.lengths(question.body, question.turn, question.schema)
        drawn = noise.discrete_laplace(np.zeros(sum(lengths), np.int64), l1, law, question.stamp)
        noisy = _in_turn(planned, models, dataset, np.split(drawn, np.cumsum(lengths)[:-1]))
    return Answered(encode(ModelRelease(noisy.astype("<i8").tobytes())))


def _in_turn(
    planned: PlannedModel, models: tuple[Body, ...], dataset: PrivateDataset, noises: list[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Noisy numbers of models whose later numbers depend on earlier ones; equal bodies are run side by side."""
    released = list(noises)
    for body in set(models):
        places = [place for place, each in enumerate(models) if each == body]
        drawn = np.stack([noises[place] for place in places])
        told = IN_TURN[planned.name](planned.method, body, dataset.records, drawn)
        for place, numbers in zip(places, told, strict=True):
            released[place] = numbers
    return np.concatenate(released)


MODEL = Answerer(model.MODEL, answer)
