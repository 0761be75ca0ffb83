"""Answers `counts`: the exact counts of `dataset.py` plus exact discrete Laplace noise."""

from curator_node.answering import Answered, Answerer, CuratorQuestion
from curator_node.mechanisms import NoiseSource
from curator_node.records.dataset import PrivateDataset
from protocol.codec import encode
from protocol.kinds import counts
from protocol.kinds.counts import CountsRelease


def answer(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """The encoded CountsRelease. No record can make this function fail or change the form of its answer."""
    body, planned = question.body, question.turn.planned
    exact = dataset.exact(body, planned)
    l1 = planned.sensitivity(dataset.steward.most_records_per_unit)
    noisy = noise.discrete_laplace(exact.ravel(), l1, planned.law, question.stamp)
    return Answered(encode(CountsRelease(counts=noisy.astype("<i8").tobytes(), ratios=b"")))


COUNTS = Answerer(counts.COUNTS, answer)
