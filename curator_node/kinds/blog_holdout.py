"""Answers `blog_holdout`, in simulations only: the blog's `diffPrivMethod`, with the exact number of records in it."""

import numpy as np

from curator_node.answering import Answered, Answerer, CuratorQuestion
from curator_node.mechanisms import NoiseSource
from curator_node.records.dataset import PrivateDataset
from protocol.codec import encode
from protocol.hypotheses import Hypothesis
from protocol.kinds import blog_holdout
from protocol.kinds.blog_holdout import BlogHoldoutRelease


def answer(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """The encoded BlogHoldoutRelease."""
    body, tolerance = question.body, question.turn.planned.tolerance.fraction
    score = _accuracy(body.hypothesis, dataset)
    if body.baseline is not None:
        score -= _accuracy(body.baseline, dataset)
    close = abs(score - body.training_score) <= float(tolerance / 2)
    centre, scale = (body.training_score, tolerance / 2) if close else (score, tolerance)
    told = centre + float(noise.laplace(1, scale, question.stamp)[0])
    return Answered(encode(BlogHoldoutRelease(float(np.clip(told, 0.0, 1.0)))))


def _accuracy(hypothesis: Hypothesis, dataset: PrivateDataset) -> float:
    return float(np.mean(hypothesis.predict(dataset.records) == dataset.labels))


BLOG_HOLDOUT = Answerer(blog_holdout.BLOG_HOLDOUT, answer)
