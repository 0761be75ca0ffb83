"""Answers `holdout`: AboveThreshold on exact sums of whole numbers, then two noisy counts.

The noisy threshold of the running instance is kept between turns; the ledger stores it encrypted, with the reply. A
restarted curator goes on with it. If it is lost, the study is refused: the threshold is never drawn again.
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
"""Numbers of the parts of an answer, each of which has its own noise."""


class Running(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An instance that has not ended."""

    query: int  # index of the planned query
    instance: int  # from 1
    # the threshold, 8 bytes whatever it is: the ledger tells its readers how long a kept state is
    noisy: Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]

    @classmethod
    def of(cls, query: int, instance: int, threshold: int) -> "Running":
        """The running instance with this noisy threshold, in steps of 1 / r record and within 64 bits."""
        return cls(query, instance, threshold.to_bytes(8, "little", signed=True))

    @property
    def threshold(self) -> int:
        """The noisy threshold, in steps of 1 / r record."""
        return int.from_bytes(self.noisy, "little", signed=True)


def check(question: CuratorQuestion) -> None:
    """Refuse a question if no instance is left, or if the kept threshold is not that of the running instance.

    Raises:
        RemoteProtocolError: NOT_IN_PLAN, which says what is left; or STATE_GONE.
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
    """The encoded HoldoutRelease. No record can make this function fail or change the form of its answer."""
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
    """The kept instance. Raises RemoteProtocolError(STATE_GONE) if an instance runs and none is kept."""
    if not state:
        raise RemoteProtocolError(RefusalCode.STATE_GONE)
    return decode(state, Running)


HOLDOUT = Answerer(holdout.HOLDOUT, answer, check)
