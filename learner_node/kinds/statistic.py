"""Reads `statistic` releases as numbers in the attributes' units, each with what is known of its error."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from learner_node.study.cards import FALSE_ALARM
from learner_node.study.reading import Reader, not_foreseen
from protocol.kinds import statistic
from protocol.kinds.statistic import StatisticBody
from protocol.kinds.statistics.items import Estimate, Item, Quantile, Selection
from protocol.kinds.statistics.methods import AggregateMean, AggregateMedian, Exponential, Features, Method
from protocol.query_kind import Question, Turn
from protocol.records import Records

CERTAINTY = 0.95
"""Probability with which a stated bound on an error holds."""


@dataclass(frozen=True)
class Figure:
    """One statistic of one curator."""

    value: float  # in the attribute's unit
    # half the width of a 95 % interval of the noise in that unit; None where the noise is not in that unit
    error: float | None
    words: str  # what the noise did, for people; sampling error is not in it


@dataclass(frozen=True)
class StatisticAnswer:
    """Curators' released statistics."""

    method: Method  # by which
    items: tuple[Item, ...]  # what was asked
    numbers: NDArray[np.int64]  # (curators, items, numbers of an item) int64, as released

    @property
    def sites(self) -> int:
        """Number of curators."""
        return len(self.numbers)

    @property
    def values(self) -> NDArray[np.float64]:
        """Each curator's statistics in the attributes' units, (curators, items) float64; not for `features`."""
        values = [[figure.value for figure in self.figures(site)] for site in range(self.sites)]
        return np.array(values, np.float64)

    @property
    def value(self) -> NDArray[np.float64]:
        """Unweighted mean of the curators' statistics, (items,)."""
        mean: NDArray[np.float64] = self.values.mean(axis=0)
        return mean

    @property
    def chosen(self) -> tuple[tuple[int, ...], ...]:
        """For each selection, the planned number of candidates: most chosen first, ties in candidates' order."""
        return tuple(self._most_chosen(item) for item in range(len(self.items)))

    def figures(self, site: int = 0) -> tuple[Figure, ...]:
        """One curator's statistics, each with a bound on its error; not for `features`."""
        return tuple(
            _figure(self.method, item, int(number[0]))
            for item, number in zip(self.items, self.numbers[site], strict=True)
        )

    def _most_chosen(self, item: int) -> tuple[int, ...]:
        candidates, votes = np.unique(self.numbers[:, item], return_counts=True)
        return tuple(candidates[np.argsort(-votes, kind="stable")][: self.numbers.shape[2]].tolist())


def _figure(method: Method, item: Item, number: int) -> Figure:
    if isinstance(item, Selection):
        raise TypeError("a selection tells of candidates, not of a number")
    grid = item.grid
    if isinstance(method, AggregateMean):
        # P(|X| > t) is at most exp(-t / scale).
        noise = -float(method.law.scale) * math.log(1 - CERTAINTY) / method.blocks
        error = (grid.upper - grid.lower) * noise / grid.steps
        words = f"the mean of {method.blocks} blocks, give or take {error:.4g} of noise ({CERTAINTY:.0%})"
        return Figure(grid.value(number / method.blocks), error, words)
    value = grid.value(number)
    if isinstance(method, Exponential | AggregateMedian):
        reach = rank_error(method, item)
        unit = "blocks" if isinstance(method, AggregateMedian) else "records"
        return Figure(value, None, f"at most {reach:.3g} {unit} from the rank asked for ({CERTAINTY:.0%})")
    words = "its noise is scaled by a sensitivity that is private, so its width is not known"
    return Figure(value, None, words)


def rank_error(method: Exponential | AggregateMedian, item: Quantile | Estimate, certainty: float = CERTAINTY) -> float:
    """Bound, in ranks, on the chosen point's distance from the requested quantile; it holds with this probability.

    Some grid point has distance 0. One with a score worse by t wins only if its noise is larger by t than that point's,
    with probability exp(-t / scale) / 2; a union bound over the grid follows.
    """
    reach = float(method.scale.fraction) * math.log(max(item.grid.points / (2 * (1 - certainty)), 1.0))
    return reach / sum(item.sides) if isinstance(item, Quantile) else reach


def read(data: bytes, question: Question) -> StatisticAnswer:
    """Decode a release body. Raises RemoteProtocolError: it cannot be an answer to the question."""
    numbers, items = statistic.STATISTIC.read_release(data, question).astype(np.int64), question.body.asked
    return StatisticAnswer(question.turn.planned.method, items, numbers.reshape(1, len(items), -1))


def join(answers: Sequence[StatisticAnswer]) -> StatisticAnswer:
    """Put several curators' answers to one question side by side."""
    return replace(answers[0], numbers=np.concatenate([answer.numbers for answer in answers]))


def complaint_about(answer: StatisticAnswer, _round_size: int | None) -> str:
    """Say why no curator can have given this answer; "" if one can have. Indices were checked when read.

    A sum over k blocks of 0 to R steps lies within 0 and k R except for noise, whose bound an honest curator exceeds
    with probability at most `FALSE_ALARM`.
    """
    method = answer.method
    if not isinstance(method, AggregateMean):
        return ""
    noise = method.law.bound(FALSE_ALARM / (2 * answer.numbers.size))
    if answer.numbers.min() < -noise or answer.numbers.max() > method.blocks * method.steps + noise:
        return "its sum over blocks is not within what so many blocks can have"
    return ""


def rehearse(
    body: StatisticBody, turn: Turn, records: Records, tally: NDArray[np.int64], sites: int, rng: np.random.Generator
) -> StatisticAnswer:
    """Simulate curators' choices on invented records that are spread evenly over them.

    Raises ConfigurationError: the method is not `features`.
    """
    method = turn.planned.method
    if not isinstance(method, Features):
        return not_foreseen(body, turn)
    chosen = []
    for site_tally in np.moveaxis(rng.multinomial(tally, np.full(sites, 1.0 / sites)), -1, 0):
        scores = [_class_scores(item, records, site_tally) for item in body.asked if isinstance(item, Selection)]
        chosen.append([_noisy_best(vector, method, rng) for vector in scores])
    return StatisticAnswer(method, body.asked, np.array(chosen, np.int64))


def _class_scores(item: Selection, records: Records, tally: NDArray[np.int64]) -> NDArray[np.float64]:
    """Each candidate's score: the sum over its cells of the largest weighted class count."""
    scores = []
    for partition in item.candidates:
        cells, count = partition.cells(records), partition.cell_count(records.schema)
        counts = np.stack([np.bincount(cells, weights, minlength=count) for weights in tally.T], axis=1)
        scores.append(float((counts * (item.weights or 1)).max(axis=1).sum()))
    return np.array(scores)


def _noisy_best(scores: NDArray[np.float64], method: Features, rng: np.random.Generator) -> list[int]:
    """Choose as many candidates as planned, one after the other, with fresh noise and without replacement."""
    best: list[int] = []
    for _ in range(method.chosen):
        noisy = scores + rng.exponential(float(method.scale.fraction), len(scores))
        noisy[best] = -np.inf
        best.append(int(noisy.argmax()))
    return best


STATISTIC = Reader(kind=statistic.STATISTIC, read=read, pool=join, complaint=complaint_about, rehearse=rehearse)
