"""Answers `holdout`: AboveThreshold on exact sums of whole numbers, then two noisy counts.

What is kept between turns is the noisy threshold of the running instance; the ledger stores it encrypted, with the
reply. A curator that was restarted goes on with it. Where it is lost the study is refused: it is never drawn again.
"""

from dataclasses import replace
from typing import Annotated

import msgspec
import numpy as np

from curator_node.answering import Answered, Answerer, CuratorQuestion
from curator_node.mechanisms import NoiseSource
from curator_node.records.dataset import PrivateDataset
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.kinds import holdout
from protocol.kinds.holdout import HoldoutRelease, PlannedHoldout
from protocol.noise import DiscreteLaplace
from protocol.refusals import RefusalCode

THRESHOLD, COMPARISON, COUNTS = range(3)
"""Parts of an answer that have noise of their own."""


class Running(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An instance that has not ended."""

    query: int  # index of the planned query
    instance: int  # from 1
    # the threshold, 8 bytes whatever it is: the ledger tells its readers how long a kept state is
    noisy: Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]

    @classmethod
    def of(cls, query: int, instance: int, threshold: int) -> "Running":
        """With a noisy threshold of 64 bits, in steps of 1 / r record."""
        return cls(query, instance, threshold.to_bytes(8, "little", signed=True))

    @property
    def threshold(self) -> int:
        """Noisy, in steps of 1 / r record."""
        return int.from_bytes(self.noisy, "little", signed=True)


def check(question: CuratorQuestion) -> None:
    """Refuse a question where no instance is left, or where the running one's threshold is not the one kept.

    Raises:
        RemoteProtocolError: NOT_IN_PLAN, which says what is left; STATE_GONE.
    """
    planned, turn, past = question.turn.planned, question.turn, question.past
    ended = holdout.ended(turn, past)
    if ended >= planned.answers:
        limit = f"{planned.answers} answers above the threshold, of which 0 are left; close the study"
        raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, "plan.queries.answers", limit)
    if not holdout.begins(turn, past):
        running = _running(question.state)
        if (running.query, running.instance) != (turn.query, ended + 1):
            raise RemoteProtocolError(RefusalCode.STATE_GONE)


def answer(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """The encoded HoldoutRelease. Total over all datasets: no record can make it fail or differ in kind."""
    turn, planned, body = question.turn, question.turn.planned, question.body
    bound = dataset.steward.most_records_per_unit
    moved = planned.sensitivity(bound)

    def noisy(exact: list[int], l1: int, law: DiscreteLaplace, part: int) -> list[int]:
        stamp = replace(question.stamp, part=part)
        amounts: list[int] = noise.discrete_laplace(np.array(exact, np.int64), l1, law, stamp).tolist()
        return amounts

    if holdout.begins(turn, question.past):
        threshold = planned.resolution * planned.threshold
        (threshold_draw,) = noisy([threshold], moved, planned.threshold_law, THRESHOLD)
        running = Running.of(turn.query, holdout.ended(turn, question.past) + 1, threshold_draw)
    else:
        running = _running(question.state)
    correct = int(np.count_nonzero(body.hypothesis.predict(dataset.records) == dataset.labels))
    errors = len(dataset.labels) - correct
    (compared,) = noisy(
        [abs(distance(planned, body.estimate, errors, correct))], 2 * moved, planned.comparison_law, COMPARISON
    )
    if compared < running.threshold:
        return Answered(encode(HoldoutRelease(running.instance, None)), encode(running))
    wrong, right = noisy([errors, correct], bound, planned.count_law, COUNTS)
    return Answered(encode(HoldoutRelease(running.instance, (wrong, right))), state=b"")


def distance(planned: PlannedHoldout, estimate: int, errors: int, correct: int) -> int:
    """S, the sum of r [correct] - p over all records, in steps of 1 / r record."""
    return planned.resolution * correct - estimate * (errors + correct)


def _running(state: bytes) -> Running:
    """The kept instance; STATE_GONE where there is none, though one runs."""
    if not state:
        raise RemoteProtocolError(RefusalCode.STATE_GONE)
    return decode(state, Running)


HOLDOUT = Answerer(holdout.HOLDOUT, answer, check)
