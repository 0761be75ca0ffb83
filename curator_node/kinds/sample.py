"""Answers `sample`: a density learnt from the records, and exact draws from it."""

import numpy as np
from numpy.typing import NDArray

from curator_node.answering import Answered, Answerer, CuratorQuestion
from curator_node.kinds.samples.learning import Density, NaiveBayesLearner, NetworkLearner, WeakLearner, learn_density
from curator_node.mechanisms import NoiseSource
from curator_node.records.dataset import PrivateDataset
from protocol.codec import encode
from protocol.grids import BaseLaw
from protocol.kinds import sample
from protocol.kinds.sample import NUMBER, PlannedSample, SampleRelease
from protocol.records import LABEL_STEPS
from protocol.schema import Schema


def answer(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """The encoded SampleRelease. No record can make this function fail or change the form of its answer.

    The learnt density may depend on the records in any way. The privacy of the draws rests on the sampler alone.
    """
    planned: PlannedSample = question.turn.planned
    density = density_of(planned, dataset, question.schema)
    cells = density.draw_cells(planned.records, noise.randomness(question.stamp))
    return Answered(encode(SampleRelease(cells.astype(NUMBER).tobytes())))


def density_of(planned: PlannedSample, dataset: PrivateDataset, schema: Schema) -> Density:
    """The density that is learnt from the records. It is private: only draws from it are released."""
    base = planned.base_law(schema)
    return learn_density(
        points_of(dataset, base),
        base,
        planned.epsilon.fraction,
        planned.rounds,
        learner=_learner(planned),
        examples=planned.examples,
        reach=planned.reach,
    )


def points_of(dataset: PrivateDataset, base: BaseLaw) -> NDArray[np.float64]:
    """(n, d) values of the records on the axes.

    Levels count from 0; a missing one is -1, an undeclared one beyond the last.

    They are private and only used to learn the density.
    """
    schema, labels = dataset.schema, dataset.labels.astype(np.float64)
    if schema.label_bounds is not None:
        lower, upper = schema.label_bounds
        labels = lower + (upper - lower) * (labels / LABEL_STEPS)
    columns = [labels if axis.name == schema.label else dataset.records.column(axis.name) for axis in base.axes]
    return np.column_stack([column.astype(np.float64) for column in columns])


def _learner(planned: PlannedSample) -> WeakLearner:
    if planned.learner == "naive_bayes":
        return NaiveBayesLearner(planned.bins)
    return NetworkLearner(planned.epochs, planned.batch or None)


SAMPLE = Answerer(sample.SAMPLE, answer)
