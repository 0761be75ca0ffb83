"""Reads `holdout` answers: "close", or noisy numbers of errors and of correct records, of one curator or of several."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from learner_node.study.cards import FALSE_ALARM, GROWTH, MOST_RECORDS
from learner_node.study.reading import Reader
from protocol.kinds import holdout
from protocol.kinds.holdout import PlannedHoldout
from protocol.noise import DiscreteLaplace
from protocol.query_kind import Question

Z_95 = 1.959963984540054
NEVER_LESS = 1.0
"""Smallest noisy number of records for which an accuracy is stated."""


@dataclass(frozen=True)
class HoldoutAnswer:
    """Curators' answers about one hypothesis.

    Each curator compares by itself. So several answers "close" say nothing about the sum of their records: each curator
    found the stated accuracy to be off by fewer than about `threshold` of its own records.

    `estimate` is the stated accuracy, `close` counts the curators that found it close, and `releases` those that
    released counts, which ended their instances. `errors` and `correct` are sums of the noisy counts (0 without any),
    `scale` is that of the discrete Laplace noise in each curator's count, and `threshold` is T in records of one
    curator. `last` is True if all curators' last instances have ended.
    """

    estimate: Fraction
    close: int
    releases: int
    errors: int
    correct: int
    scale: Fraction
    threshold: int
    last: bool

    @property
    def records(self) -> int:
        """Noisy number of records at the curators that released counts."""
        return self.errors + self.correct

    @property
    def accuracy(self) -> float | None:
        """Share of correct records there, in [0, 1]; None without counts, or if noise leaves too few records."""
        if not self.releases or self.records < NEVER_LESS:
            return None
        return float(np.clip(self.correct / self.records, 0.0, 1.0))

    @property
    def accuracy_error(self) -> float | None:
        """Standard error of `accuracy` from noise alone, without sampling."""
        share = self.accuracy
        if share is None:
            return None
        variance = DiscreteLaplace(self.scale).variance(self.releases)
        return float(np.sqrt(variance * ((1 - share) ** 2 + share**2))) / self.records

    @property
    def accuracy_interval(self) -> tuple[float, float] | None:
        """Approximate 95 % interval of the population's accuracy; noise and sampling error are taken as normal."""
        share, error = self.accuracy, self.accuracy_error
        if share is None or error is None:
            return None
        half = Z_95 * float(np.hypot(error, np.sqrt(max(share * (1 - share), 0.25 / self.records) / self.records)))
        return max(0.0, share - half), min(1.0, share + half)


def read(data: bytes, question: Question) -> HoldoutAnswer:
    """Decode one curator's answer. Raises RemoteProtocolError: it is no release of the planned query."""
    planned: PlannedHoldout = question.turn.planned
    release = holdout.release_of(data, planned)
    errors, correct = release.counts or (0, 0)
    return HoldoutAnswer(
        estimate=Fraction(question.body.estimate, planned.resolution),
        close=int(release.close),
        releases=int(not release.close),
        errors=errors,
        correct=correct,
        scale=planned.count_scale.fraction,
        threshold=planned.threshold,
        last=not release.close and release.instance == planned.answers,
    )


def add(answers: Sequence[HoldoutAnswer]) -> HoldoutAnswer:
    """Combine several curators' answers: the number that found it close, and the sums of the others' counts."""
    close, releases, errors, correct = (
        sum(getattr(answer, name) for answer in answers) for name in ("close", "releases", "errors", "correct")
    )
    last = all(answer.last for answer in answers)
    return replace(answers[0], close=close, releases=releases, errors=errors, correct=correct, last=last)


def complaint_about(answer: HoldoutAnswer, round_size: int | None) -> str:
    """Say why a curator with so many records cannot have released these counts; "" if it can have, and for "close".

    An honest curator's answer is rejected with probability at most `FALSE_ALARM`.
    """
    if not answer.releases:
        return ""
    most = (MOST_RECORDS if round_size is None else round_size) * GROWTH
    law = DiscreteLaplace(answer.scale)
    count_noise, sum_noise = law.bound(FALSE_ALARM / 4), law.bound(FALSE_ALARM / 2, 2)
    if min(answer.errors, answer.correct) < -count_noise or answer.records > most + sum_noise:
        declared = "which no curator holds" if round_size is None else f"and its card declares {round_size}"
        return f"its answer counts {answer.errors} errors and {answer.correct} correct records, {declared}"
    return ""


HOLDOUT = Reader(kind=holdout.HOLDOUT, read=read, pool=add, complaint=complaint_about)
