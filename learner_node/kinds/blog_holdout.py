"""Reads `blog_holdout` answers: a score, or the mean of several curators' scores. Simulations only."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from learner_node.study.reading import Reader
from protocol.kinds import blog_holdout
from protocol.query_kind import Question


@dataclass(frozen=True)
class BlogHoldoutAnswer:
    """A noisy score, in [0, 1]; of which accuracy it is, the answer does not say."""

    score: float


def read(data: bytes, question: Question) -> BlogHoldoutAnswer:
    """One curator's answer; RemoteProtocolError where it is no release."""
    return BlogHoldoutAnswer(float(blog_holdout.BLOG_HOLDOUT.read_release(data, question)[0]))


def mean(answers: Sequence[BlogHoldoutAnswer]) -> BlogHoldoutAnswer:
    """Of several curators' scores; a score does not tell of how many records it is."""
    return BlogHoldoutAnswer(float(np.mean([answer.score for answer in answers])))


BLOG_HOLDOUT = Reader(
    kind=blog_holdout.BLOG_HOLDOUT,
    read=read,
    pool=mean,
    complaint=lambda answer, round_size: "",  # noqa: ARG005
)
