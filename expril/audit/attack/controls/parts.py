"""Parts of a curator that are broken on purpose: sources of noise, data sets, and answerers of single kinds.

The noise comes from numpy with the operating system's entropy, as the faults lie around it and exact noise would take
minutes. Each broken answerer comes as a question (`*_path`), two data sets (`*_pair`) and its true loss (`*_truth`):

* a sampler by Metropolis and Hastings' walk, which reaches its law only in the limit;
* statistics with noise by local sensitivity, and with blocks by the number of a row;
* holdouts that are less private than claimed: a blog's, and one that compares without noise;
* the registered answerer of secure sums with entropy that anybody can guess.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.answering import Answered, Answerer, CuratorQuestion
from curator_node.kinds import ANSWERERS
from curator_node.kinds.holdout import COMPARISON
from curator_node.kinds.sample import density_of, points_of
from curator_node.kinds.samples.learning import Density
from curator_node.kinds.statistics.estimates import SPLIT, block_values, grid_counts
from curator_node.kinds.statistics.heavy_tails import draw_rounded
from curator_node.kinds.statistics.quantiles import quantile
from curator_node.mechanisms import ExactNoise, NoiseSource, Stamp
from curator_node.records.dataset import PrivateDataset
from curator_node.records.schema_file import SchemaFile
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.answer_path import AnswerPath, Numbers
from expril.audit.kinds.blog_holdout import BLOG_HOLDOUT, BlogHoldoutBody, BlogHoldoutRelease, PlannedBlogHoldout
from expril.audit.kinds.exact import loss_of_shares
from expril.audit.kinds.invented import Neighbours, Record, Unit, dataset_of
from expril.audit.kinds.kind_audit import Asking, AuditQuery, Company, Example, Lead, Observation
from protocol.codec import decode, encode
from protocol.envelopes import LABEL
from protocol.feature_map import STEPS
from protocol.hypotheses import Constant, Hypothesis, Mlp
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.kinds.holdout import HoldoutBody, PlannedHoldout
from protocol.kinds.sample import NUMBER, SampleRelease
from protocol.kinds.secure_counts import AskKeys, PlannedSecureCounts, RelayCards, RelayShares, question_digest
from protocol.kinds.statistic import PlannedStatistic, StatisticBody, StatisticRelease
from protocol.kinds.statistics.items import Estimate, Grid, Item, Quantile
from protocol.kinds.statistics.methods import AggregateMean, Method, Smooth
from protocol.noise import DiscreteLaplace, NoisyMax
from protocol.noise_shares import LaplaceShares
from protocol.partitions import CrossBins, Partition
from protocol.query_kind import Turn
from protocol.rationals import Rational
from protocol.records import LABEL_STEPS, Records
from protocol.release_kinds import MOST_SQUARED_ERROR, RELEASE_KINDS
from protocol.schema import NumericAttribute, Schema
from protocol.secure_sum.group import list_digest, round_digest
from protocol.secure_sum.participant import DEALERS, pair_masks


@dataclass
class QuickNoise:
    """Noise of the stated laws with every scale times a factor, which is 1 in a correct curator."""

    factor: Fraction = Fraction(1)
    seeded = False
    generator: np.random.Generator = field(default_factory=np.random.default_rng)

    def discrete_laplace(
        self,
        exact: NDArray[np.int64],
        l1: int,  # noqa: ARG002
        law: DiscreteLaplace,
        stamp: Stamp,  # noqa: ARG002
    ) -> NDArray[np.int64]:
        """See `NoiseSource`."""
        return exact + DiscreteLaplace(law.scale * self.factor).simulate(self.generator, exact.shape)

    def laplace_shares(self, size: int, law: DiscreteLaplace, parts: int, stamp: Stamp) -> NDArray[np.int64]:  # noqa: ARG002
        """See `NoiseSource`."""
        return LaplaceShares(law.scale * self.factor, Fraction(1, parts)).simulate(self.generator, (size,))

    def laplace(self, size: int, scale: Fraction, stamp: Stamp) -> NDArray[np.float64]:  # noqa: ARG002
        """See `NoiseSource`."""
        return self.generator.laplace(0.0, float(scale * self.factor), size)

    def choose(self, scores: NDArray[np.int64], moved: int, law: NoisyMax, stamp: Stamp) -> int:  # noqa: ARG002
        """See `NoiseSource`."""
        return NoisyMax(law.scale * self.factor).simulate(self.generator, scores)

    def randomness(self, stamp: Stamp) -> Callable[[int], bytes]:  # noqa: ARG002
        """See `NoiseSource`."""
        return self.generator.bytes


class HalfNoise(ExactNoise):
    """A curator's own noise with half the scale that was charged for: the control of `canaries`."""

    def discrete_laplace(
        self, exact: NDArray[np.int64], l1: int, law: DiscreteLaplace, stamp: Stamp
    ) -> NDArray[np.int64]:
        """See `NoiseSource`."""
        return super().discrete_laplace(exact, l1, DiscreteLaplace(law.scale / 2), stamp)

    def laplace_shares(self, size: int, law: DiscreteLaplace, parts: int, stamp: Stamp) -> NDArray[np.int64]:
        """See `NoiseSource`."""
        return super().laplace_shares(size, DiscreteLaplace(law.scale / 2), parts, stamp)

    def laplace(self, size: int, scale: Fraction, stamp: Stamp) -> NDArray[np.float64]:
        """See `NoiseSource`."""
        return super().laplace(size, scale / 2, stamp)

    def choose(self, scores: NDArray[np.int64], moved: int, law: NoisyMax, stamp: Stamp) -> int:
        """See `NoiseSource`."""
        return super().choose(scores, moved, replace(law, scale=law.scale / 2), stamp)


@dataclass
class RepeatedNoise(QuickNoise):
    """Noise that is drawn once for each stamp and repeated, even for another question."""

    draws: dict[Stamp, NDArray[np.int64]] = field(default_factory=dict)

    def discrete_laplace(
        self, exact: NDArray[np.int64], l1: int, law: DiscreteLaplace, stamp: Stamp
    ) -> NDArray[np.int64]:
        """See `NoiseSource`."""
        if stamp not in self.draws:
            self.draws[stamp] = super().discrete_laplace(np.zeros_like(exact), l1, law, stamp)
        return exact + self.draws[stamp]


def asked_again(path: AnswerPath, other: AnswerPath, units: tuple[Unit, ...], number: int) -> Numbers:
    """Return (number, columns) answers to both questions side by side, with one source of noise for each pair."""
    dataset = path.hold(units, path.example)
    rows = []
    for _ in range(-(-number // path.copies)):
        noise = path.noise()
        rows.append(np.hstack([path.answer(dataset, noise), other.answer(dataset, noise)]))
    return np.concatenate(rows)[:number]


class UnstableDataset(PrivateDataset):
    """Evaluates a network as a matrix library might: in float32, in an order that depends on the number of rows."""

    def count(
        self, partitions: tuple[Partition, ...], hypothesis: Hypothesis | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `PrivateDataset`."""
        if not isinstance(hypothesis, Mlp):
            return super().count(partitions, hypothesis)
        errors = unstable_logits(hypothesis, self._records) > 0
        return self._cache.get(partitions).count(errors != self._labels.astype(np.bool_))


def unstable_logits(network: Mlp, records: Records) -> NDArray[np.float32]:
    """(n,) logits of a network of one layer; the sum over its k terms starts at term n modulo k."""
    ((weight, bias),) = network._layers("weights")  # noqa: SLF001 - the fault is in how they are added up
    terms = (network.features.points(records) / STEPS * weight[0]).astype(np.float32)
    order = np.roll(np.arange(terms.shape[1]), len(records))
    sums = np.zeros(len(records), np.float32)
    for column in order:
        sums += terms[:, column]
    return sums + np.float32(bias[0])


class UnclippedDataset(PrivateDataset):
    """Counts numeric labels without clipping them to the declared bounds."""

    def __init__(self, frame: pl.DataFrame, steward: SchemaFile, **more: Any) -> None:
        super().__init__(frame, steward, **more)
        lower, upper = steward.label_bounds or (0.0, 1.0)
        shares = (frame[steward.label].to_numpy() - lower) / (upper - lower)
        self._raw = np.rint(shares * LABEL_STEPS).astype(np.int64)

    def exact(self, body: CountsBody, planned: PlannedCounts) -> NDArray[np.int64]:
        """See `PrivateDataset`."""
        of_steps = RELEASE_KINDS[planned.release].of_steps
        if of_steps is None:
            return super().exact(body, planned)
        return self._cache.get(body.partitions).totals(of_steps(self._raw, None, planned.steps, MOST_SQUARED_ERROR))


class LeakingFilter(PrivateDataset):
    """Counts all records in the cell outside of a filter, those inside among them."""

    def exact(self, body: CountsBody, planned: PlannedCounts) -> NDArray[np.int64]:
        """See `PrivateDataset`."""
        counts = super().exact(body, planned)
        sizes = [partition.cell_count(self.schema) for partition in body.partitions]
        counts[np.cumsum(sizes) - 1] = len(self.records)
        return counts


class AtRiskDataset(PrivateDataset):
    """Counts in each bin of a cross table's first factor, a time, who is still there: in all bins until the exit."""

    def exact(self, body: CountsBody, planned: PlannedCounts) -> NDArray[np.int64]:
        """See `PrivateDataset`."""
        counts = super().exact(body, planned)
        blocks = np.split(counts, np.cumsum([partition.cell_count(self.schema) for partition in body.partitions])[:-1])
        for block, partition in zip(blocks, body.partitions, strict=True):
            if isinstance(partition, CrossBins):
                table = block.reshape(partition.factors[0].cell_count(self.schema), -1)
                table[:] = np.cumsum(table[::-1], axis=0)[::-1]
        return counts


def rows_that_blas_changed(
    multiply: Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float32]] = np.matmul,
    *,
    most_rows: int = 40,
    width: int = 63,
) -> tuple[int, int]:
    """(changed, compared): products of rows that change when another row is removed, with this machine's library.

    Which of them change, if any, depends on the processor and on the library's version.
    """
    rng = np.random.default_rng(1)
    weight = rng.standard_normal((width, 1)).astype(np.float32)
    changed = compared = 0
    for rows in range(2, most_rows):
        points = rng.standard_normal((rows, width)).astype(np.float32)
        all_rows, fewer = multiply(points, weight)[1:], multiply(points[1:], weight)
        changed += int((all_rows != fewer).sum())
        compared += rows - 1
    return changed, compared


WALK_STEPS = 10
"""Steps of the walk, each to a neighbouring cell."""
_SAMPLES = ANSWERERS["sample"]
_QUESTION = AUDITED_KINDS.audits["sample"].examples()[""][0]


def walk_path() -> AnswerPath:
    """The kind's first question, about one axis, answered by the walk."""
    return AnswerPath(replace(_SAMPLES, answer=walked), _QUESTION, _QUESTION.copies, QuickNoise)


def walk_pair() -> Neighbours:
    """Two data sets: a record at one end of the axis, and the same with a second record at the other end."""
    first: Record = {"x": -2.0, "s": "a", "outcome": "no"}
    last: Record = {**first, "x": 2.0}
    return Neighbours(((first,),), (last,))


def walked(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """Answer as the registered answerer does, but draw by the walk."""
    planned = question.turn.planned
    density = density_of(planned, dataset, question.schema)
    rng = np.random.default_rng(np.frombuffer(noise.randomness(question.stamp)(32), np.uint32))
    starts = density.base.cells(points_of(dataset, density.base))[:, 0]
    cells = rng.choice(starts, planned.records)
    moves = _moves(density)
    for _ in range(WALK_STEPS):
        chances = np.cumsum(moves[cells], axis=1)
        cells = (rng.random((len(cells), 1)) >= chances[:, :-1]).sum(axis=1)
    return Answered(encode(SampleRelease(cells.astype(NUMBER).tobytes())))


def walk_truth() -> float:
    """The walk's true loss on `walk_pair`: the largest log ratio of the probabilities of where it ends."""
    laws = []
    for units in walk_pair().sets:
        dataset = dataset_of(units, _QUESTION)
        density = density_of(_QUESTION.ask(1).planned, dataset, dataset.schema)
        starts = np.bincount(density.base.cells(points_of(dataset, density.base))[:, 0], minlength=len(_moves(density)))
        laws.append(starts / starts.sum() @ np.linalg.matrix_power(_moves(density), WALK_STEPS))
    return float(np.abs(np.log(laws[0] / laws[1])).max())


def _moves(density: Density) -> NDArray[np.float64]:
    """(cells, cells) transition probabilities: a coin proposes a neighbour, accepted by the ratio of the law there."""
    masses = density.masses()
    size = len(masses)
    moves = np.zeros((size, size))
    for cell in range(size):
        for neighbour in (cell - 1, cell + 1):
            if 0 <= neighbour < size:
                moves[cell, neighbour] = min(1.0, masses[neighbour] / masses[cell]) / 2
        moves[cell, cell] = 1 - moves[cell].sum()
    return moves


STATISTICS = 250
FEW_DRAWS = 5_000
"""Draws that suffice if one data set's answers hardly ever come from the other."""
AXIS_STEPS = 7
BLOCKS = 4
_GRID = Grid(0.0, float(AXIS_STEPS), AXIS_STEPS)
_AXIS = Schema((NumericAttribute("x", 0.0, float(AXIS_STEPS)),), "outcome", ("no", "yes"))
_MEDIAN = Quantile("x", Rational(1, 2), _GRID)
_SPREAD = Estimate("interquartile_range", ("x",), _GRID)
_STATISTICS = ANSWERERS["statistic"]


def local_path() -> AnswerPath:
    """A median with the noise of `Smooth`, scaled by the local sensitivity; it claims 1."""
    path = _statistic(Smooth(Rational(2, 1), Rational(1, 8), degrees=2), _MEDIAN)
    return replace(path, answerer=replace(_STATISTICS, answer=local_answer))


def local_pair() -> Neighbours:
    """One record, whose median another record moves, and two equal records, whose median no record moves."""
    return _single_records(3, 3)


def local_answer(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """Answer as the registered answerer does, but by local sensitivity; if that is 0 there is no noise."""
    method, statistics = question.turn.planned.method, question.body.asked
    counts = grid_counts(dataset, statistics[0].attribute, statistics[0].grid)
    centre, scale = quantile(counts, *statistics[0].sides), method.scale.fraction * local_sensitivity(counts)
    random_bytes = noise.randomness(question.stamp)
    values = [
        draw_rounded(centre, scale, method.degrees, AXIS_STEPS, random_bytes) if scale else centre for _ in statistics
    ]
    return Answered(encode(StatisticRelease(np.array(values, "<i8").tobytes())))


def local_sensitivity(counts: NDArray[np.int64]) -> int:
    """The most by which the median moves, in steps, if one record is added or removed."""
    centre, unit_steps = quantile(counts, 1, 1), np.eye(len(counts), dtype=np.int64)
    neighbours = [*(counts + unit_steps), *(counts - unit_steps)[counts > 0]]
    return max(abs(quantile(neighbour, 1, 1) - centre) for neighbour in neighbours)


class BlocksOfRows(PrivateDataset):
    """Splits its records into blocks of equally many rows, in their order."""

    def blocks(self, count: int, name: bytes) -> NDArray[np.int64]:  # noqa: ARG002
        """See `PrivateDataset`."""
        rows = len(self.labels)
        return np.arange(rows) * count // rows


def rows_path() -> AnswerPath:
    """The mean of the interquartile ranges of `BlocksOfRows`; it claims 1."""
    path = _statistic(AggregateMean(BLOCKS, AXIS_STEPS, Rational(AXIS_STEPS, 1)), _SPREAD)
    return replace(path, hold=partial(dataset_of, kind=BlocksOfRows))


def rows_pair() -> Neighbours:
    """Records whose blocks hold two equal ones each, and one record more in front, after which no block does."""
    return _single_records(AXIS_STEPS, 0, 0, AXIS_STEPS, AXIS_STEPS, 0, 0, AXIS_STEPS)


def rows_truth() -> Fraction:
    """The true loss on `rows_pair`: how far the sum over the blocks moves, over the scale."""
    path = rows_path()
    sets = [path.hold(units, path.example) for units in rows_pair().sets]
    few, more = (int(block_values(dataset, _SPREAD, dataset.blocks(BLOCKS, SPLIT), BLOCKS).sum()) for dataset in sets)
    return Fraction(abs(more - few), AXIS_STEPS)


def _statistic(method: Method, item: Item) -> AnswerPath:
    def ask(copies: int) -> AuditQuery:
        return AuditQuery(
            PlannedStatistic(method=method, statistics=copies), (encode(StatisticBody((item,) * copies)),)
        )

    return AnswerPath(_STATISTICS, Example("a control", _AXIS, ask, copies=STATISTICS), STATISTICS, QuickNoise)


def _single_records(unit: float, *staying: float) -> Neighbours:
    return Neighbours(tuple((_record(x),) for x in staying), (_record(unit),))


def _record(x: float = 1.0, outcome: str = "yes") -> Record:
    return {"x": float(x), "outcome": outcome}


MANY_DRAWS = 20_000
"""Draws that suffice to catch controls with one draw for each call, which are slow."""
RECORDS = 100
TOLERANCE = Rational(1, 25)
"""The blog's eps, 0.04."""
TRAINING_SCORE = 0.4825
"""50 of 100 correct records are within eps / 2 of it, 51 of 101 are not."""
RESOLUTION = 100

_CLASSES = Schema((NumericAttribute("x", -4.0, 4.0),), "outcome", ("no", "yes"))
_YES = Constant(1)


def blog_path() -> AnswerPath:
    """One question to the blog's holdout."""
    planned = PlannedBlogHoldout(tolerance=TOLERANCE, records=RECORDS)
    turns = AuditQuery(planned, (encode(BlogHoldoutBody(_YES, None, TRAINING_SCORE)),))
    example = Example("a control", _CLASSES, lambda copies: turns)  # noqa: ARG005
    return AnswerPath(Answerer(BLOG_HOLDOUT, blog_answer), example, noise=QuickNoise)


def blog_answer(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """Answer by the blog's `diffPrivMethod`, with the exact number of records in it."""
    body, tolerance = question.body, question.turn.planned.tolerance.fraction
    score = _accuracy(body.hypothesis, dataset)
    if body.baseline is not None:
        score -= _accuracy(body.baseline, dataset)
    close = abs(score - body.training_score) <= float(tolerance / 2)
    centre, scale = (body.training_score, tolerance / 2) if close else (score, tolerance)
    noisy = centre + float(noise.laplace(1, scale, question.stamp)[0])
    return Answered(encode(BlogHoldoutRelease(float(np.clip(noisy, 0.0, 1.0)))))


def _accuracy(hypothesis: Hypothesis, dataset: PrivateDataset) -> float:
    return float(np.mean(hypothesis.predict(dataset.records) == dataset.labels))


def blog_pair() -> Neighbours:
    """Two data sets. A further correct record moves the score out of the tolerance."""
    half = RECORDS // 2
    units = ((_record(),),) * half + ((_record(outcome="no"),),) * half
    return Neighbours(units, (_record(),), "which takes the score out of the tolerance")


def blog_loss(training: float, score: float, tolerance: float) -> float:
    """Exact loss of one answer: on one data set the score is within the tolerance, on the other it is `score`, beyond.

    The first answer is the training score plus Laplace(eps / 2), the second the score plus Laplace(eps), both clipped
    to 0 .. 1. The log ratio of the densities is linear between 0, the two centres and 1, so its largest absolute value
    is at one of them. At 0 and 1 the clipped answers have atoms.
    """

    def log_ratio(at: float) -> float:
        return -2 * abs(at - training) / tolerance + abs(at - score) / tolerance

    inside = [math.log(2) + log_ratio(at) for at in (0.0, training, score, 1.0)]
    return max(abs(value) for value in (*inside, log_ratio(0.0), log_ratio(1.0)))


def blog_truth() -> float:
    """The true loss of `blog_path` on `blog_pair`."""
    score = (RECORDS // 2 + 1) / (RECORDS + 1)
    return blog_loss(TRAINING_SCORE, score, float(TOLERANCE.fraction))


@dataclass
class ExactComparisons(QuickNoise):
    """Adds noise to the threshold and to the counts, and none to the comparisons."""

    def discrete_laplace(
        self, exact: NDArray[np.int64], l1: int, law: DiscreteLaplace, stamp: Stamp
    ) -> NDArray[np.int64]:
        """See `NoiseSource`."""
        return exact if stamp.part == COMPARISON else super().discrete_laplace(exact, l1, law, stamp)


def exact_comparisons_path() -> AnswerPath:
    """Two questions that a record moves in opposite directions; the claim is 1, as no second instance is reached."""
    scale = Rational(8 * RESOLUTION, 1)
    planned = PlannedHoldout(
        turns=2,
        answers=2,
        resolution=RESOLUTION,
        threshold=1,
        threshold_scale=scale,
        comparison_scale=scale,
        count_scale=Rational(8, 1),
    )
    turns = AuditQuery(planned, tuple(encode(HoldoutBody(_YES, estimate)) for estimate in (0, RESOLUTION // 4)))
    example = Example("a control", _CLASSES, lambda copies: turns)  # noqa: ARG005
    return replace(AnswerPath(ANSWERERS["holdout"], example), noise=ExactComparisons)


def exact_comparisons_pair() -> Neighbours:
    """The answers "below, then above" come from one of the data sets only."""
    return Neighbours(((_record(outcome="no"),),) * 3, (_record(),))


NO_ENTROPY = bytes
"""Entropy that anybody can guess: n zeros."""
OPEN_COPIES = 5000


def known_keys_path() -> AnswerPath:
    """The kind's first question, to curators whose keys are zeros; the learner removes every mask."""
    answerer = ANSWERERS["secure_counts"]
    example = AUDITED_KINDS.audits["secure_counts"].examples()[""][0]
    return AnswerPath(answerer, _undone(example), OPEN_COPIES, QuickNoise, entropy=NO_ENTROPY)


def known_keys_truth() -> float:
    """The loss under one curator's share of the noise alone."""
    example = known_keys_path().example
    planned: PlannedSecureCounts = example.ask(1).planned
    share = Fraction(1, planned.shares)
    return loss_of_shares(planned.law.scale, share, example.most_records_per_unit).loss or 0.0


def _undone(example: Example) -> Example:
    company = example.company
    if company is None:
        return example
    attacked, other = (key.public for key in company.curators[:2])

    def lead(asking: Asking) -> Lead:
        planned, inner = example.ask(asking.copies).planned, company.lead(asking)
        bodies = next(inner)
        question = question_digest(asking.learner, Turn(planned, asking.query), decode(bodies[0], AskKeys))
        bodies = inner.send((yield bodies))
        cards = decode(bodies[0], RelayCards).cards
        bodies = inner.send((yield bodies))
        dealers = decode(bodies[0], RelayShares).dealers
        while True:
            try:
                bodies = inner.send((yield bodies))
            except StopIteration as end:
                result: Observation = end.value
                break
        place, partner = (planned.participants.index(key) for key in (attacked, other))
        private, round_name = NO_ENTROPY(32), round_digest(planned.group(LABEL), question, cards)
        mask = pair_masks(
            private,
            place,
            [(partner, dict(cards)[partner].masking)],
            round_name,
            list_digest(DEALERS, dealers),
            result.hidden.size,
        )
        unmasked = (result.hidden.view(np.uint64).ravel() - mask).view(np.int64)
        return Observation(result.numbers, unmasked.reshape(result.hidden.shape))

    return replace(example, company=Company(company.curators, lead))
