"""Reads `model` releases: noisy whole numbers, kept by curator, since not every method's releases can be summed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from learner_node.study.cards import FALSE_ALARM, GROWTH, MOST_RECORDS
from learner_node.study.reading import Reader
from protocol.kinds.model import MODEL as MODEL_KIND
from protocol.kinds.model import ModelBody, PlannedModel
from protocol.kinds.models import Forest, NaiveBayes
from protocol.noise import DiscreteLaplace
from protocol.query_kind import Question

MOST_UNIT = 1000
"""Largest unit bound for which noise is expected; an answer does not state its curator's bound."""


@dataclass(frozen=True)
class ModelAnswer:
    """Noisy whole numbers of one query."""

    planned: PlannedModel  # what was planned
    body: ModelBody  # what was asked
    numbers: NDArray[np.int64]  # (curators, k) int64, a row for each curator, model by model
    lengths: tuple[int, ...]  # how many of the k are each model's

    @property
    def sites(self) -> int:
        """Number of curators that answered."""
        return len(self.numbers)

    def of(self, index: int = 0) -> NDArray[np.int64]:
        """One model's numbers: (curators, its numbers)."""
        start = sum(self.lengths[:index])
        return self.numbers[:, start : start + self.lengths[index]]

    def summed(self, index: int = 0) -> NDArray[np.int64]:
        """One model's numbers summed over the curators, for methods whose releases are sums over records."""
        total: NDArray[np.int64] = self.of(index).sum(axis=0)
        return total

    def variance(self, most_records_per_unit: int) -> float:
        """Variance of one curator's noise in each number, for a unit of so many records."""
        return self.planned.law(most_records_per_unit).variance()


def read(data: bytes, question: Question) -> ModelAnswer:
    """Decode one curator's answer. Raises RemoteProtocolError: it has another number of numbers than was asked for."""
    numbers = MODEL_KIND.read_release(data, question).astype(np.int64)
    return ModelAnswer(question.turn.planned, question.body, numbers[None], MODEL_KIND.lengths(question))


def join(answers: Sequence[ModelAnswer]) -> ModelAnswer:
    """Concatenate several curators' answers to one query."""
    return replace(answers[0], numbers=np.concatenate([answer.numbers for answer in answers]))


def complaint_about(answer: ModelAnswer, round_size: int | None) -> str:
    """Say why a curator with so many records cannot have given this answer; "" if it can have.

    A record moves a number by at most `sensitivity`, so n records give a number of at most n times that in magnitude.
    Counts are not negative. Noise bounds assume units of at most `MOST_UNIT` records, as an answer does not state its
    curator's bound. An honest curator's noise exceeds them with probability at most `FALSE_ALARM`. `round_size` is the
    declared number of records; None means `MOST_RECORDS`.
    """
    planned, declared = answer.planned, MOST_RECORDS if round_size is None else round_size
    step = planned.method.sensitivity(1)
    scale = planned.models * planned.method.sensitivity(MOST_UNIT) / planned.epsilon.fraction
    noise = DiscreteLaplace(scale).bound(FALSE_ALARM / (2 * max(answer.numbers.size, 1)))
    most = float(step) * declared * GROWTH + noise
    least = -noise if isinstance(planned.method, NaiveBayes | Forest) else -most
    if not answer.numbers.size or least <= answer.numbers.min() <= answer.numbers.max() <= most:
        return ""
    declaration = "which no curator holds" if round_size is None else f"and its card declares {round_size}"
    far = float(np.abs(answer.numbers).max())
    return f"its answer has a number of {far:.3g}, to which a record adds at most {step}, {declaration}"


MODEL = Reader(kind=MODEL_KIND, read=read, pool=join, complaint=complaint_about)
