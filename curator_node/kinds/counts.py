"""Answers `counts`: what `dataset.py` counts exactly, plus exact discrete Laplace noise."""

import numpy as np
from numpy.typing import NDArray

from curator_node.answering import Answered, Answerer, CuratorQuestion
from curator_node.mechanisms import NoiseSource
from curator_node.records.dataset import PrivateDataset
from protocol.codec import encode
from protocol.kinds import counts
from protocol.kinds.counts import CountsRelease
from protocol.release_kinds import RELEASE_KINDS


def answer(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """The encoded CountsRelease. Total over all datasets: no record can make it fail or differ in kind."""
    body, planned = question.body, question.turn.planned
    if not RELEASE_KINDS[planned.release].counted:
        ratios = _paper_ratio(question, dataset, noise)
        return Answered(encode(CountsRelease(counts=b"", ratios=ratios.astype("<f8").tobytes())))
    exact = dataset.exact(body, planned)
    l1 = planned.sensitivity(dataset.steward.most_records_per_unit)
    noisy = noise.discrete_laplace(exact.ravel(), l1, planned.law, question.stamp)
    return Answered(encode(CountsRelease(counts=noisy.astype("<i8").tobytes(), ratios=b"")))


def _paper_ratio(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> NDArray[np.float64]:
    """Eq. 7 as printed, clip((U + Laplace) / n, 0, 1); with no hypothesis, masses clip((n_k + Laplace) / N, 0, 1).

    The exact n in the denominator is why this is not private as claimed: simulations only. An empty bin gives
    0 or 1 by the sign of its noise.
    """
    body, planned = question.body, question.turn.planned
    errors, correct = dataset.count(body.partitions, body.hypothesis)
    drawn = noise.laplace(len(errors), planned.scale.fraction, question.stamp)
    sizes = errors + correct
    if body.hypothesis is None:
        total = sizes.sum() / planned.partitions
        ratios = (sizes + drawn) / max(total, 1)
    else:
        ratios = np.where(sizes > 0, (errors + drawn) / np.maximum(sizes, 1), drawn > 0)
    clipped: NDArray[np.float64] = np.clip(ratios, 0, 1)
    return clipped


COUNTS = Answerer(counts.COUNTS, answer)
