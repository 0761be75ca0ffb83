"""The paper's perspectives (section 5): strategies of several rounds, each of which asks other partitions.

`random-subsets` asks a few attributes each round, `informative` spends most of the budget on the attributes that a
small first round found to tell the labels apart, and `varying-bins` moves the edges from round to round. `new-features`
and `adaptive-cells` ask k-means cells of the source first. Then `new-features` asks bins of projections on which the
label depends, or of the score of the learned hypothesis; `adaptive-cells` asks cells that are finer where the first
answer left the labels open. Attributes that are constant in the source are never asked.

Every round asks both labels' counts in the cells of some partitions. How many partitions is fixed before the first
answer, and with the round's share of epsilon it fixes the noise; which ones they are may depend on earlier answers.
One label model is fitted to the answers of all rounds.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from learner_node.kinds.counts import CountsAnswer
from learner_node.models.label_model import LabelModel, Observation, fit_label_model
from learner_node.models.networks import TrainingSet, require_torch
from learner_node.models.partitions import product_bins, projection_bins, score_bins, tree_leaves
from learner_node.models.source import coordinates, even_bins, kmeans_cells, standardising_map
from learner_node.strategies import options
from learner_node.strategies.base import Asking, Problem, SourceEstimate, varying_attributes
from learner_node.strategies.cells import CellsModel
from learner_node.strategies.options import Share
from learner_node.strategies.paper import check_network
from protocol.feature_map import FeatureMap
from protocol.hypotheses import Constant, Mlp
from protocol.kinds.counts import CountsBody
from protocol.partitions import FeatureBins, Partition, ScoreBins
from protocol.plans import Plan
from protocol.records import Records

MOST_BINS = 40
"""Most bins of one attribute: finer ones say nothing more about a smooth label signal."""


@dataclass
class RoundState:
    """Answers and fits before a round."""

    features: FeatureMap  # the source's feature map
    points: NDArray[np.float64]  # coordinates of the source records under it, (n, width)
    answers: Sequence[CountsAnswer] = ()  # to the rounds so far
    fits: list[LabelModel] = field(default_factory=list)  # after each of those rounds, the label model of all answers

    @property
    def number(self) -> int:
        """Number of the next round, from 0."""
        return len(self.fits)

    def cells(self, source: Records) -> list[list[NDArray[np.int64]]]:
        """By round so far and by partition, the cells of the source records, (n,) each."""
        return [
            [partition.cells(source).astype(np.int64) for partition in answer.body.partitions]
            for answer in self.answers
        ]

    @property
    def model(self) -> CellsModel:
        """The newest label model, composed with the feature map. Raises IndexError before the first answer."""
        return CellsModel(self.features, self.fits[-1])

    @property
    def estimate(self) -> SourceEstimate:
        """Posterior mass and label of each source record. Raises IndexError before the first answer."""
        return SourceEstimate(self.fits[-1].source_mass, self.fits[-1].probability(self.points))


class RoundsStrategy(ABC):
    """A strategy of several rounds; a subclass says how many partitions each round asks, and which.

    `rounds` is the number of questions, `shares` their shares of epsilon with sum 1.
    """

    def __init__(self, rounds: int, shares: tuple[Fraction, ...]) -> None:
        self._rounds, self._shares = rounds, shares

    @abstractmethod
    def partition_counts(self, problem: Problem) -> list[int]:
        """Number of partitions in each round; a function of schema and options alone."""

    @abstractmethod
    def partitions(self, problem: Problem, state: RoundState, epsilon: float) -> list[Partition]:
        """Partitions that the next round asks.

        Args:
            problem: the problem.
            state: after the rounds so far.
            epsilon: privacy loss of one partition for one record.
        """

    def plan(self, problem: Problem) -> Plan:
        """Round r asks m_r partitions at scale c m_r / (share_r epsilon), which costs exactly epsilon in total."""
        counts = self.partition_counts(problem)
        return problem.counts_plan(
            [("error_correct", *question) for question in zip(counts, self._shares, strict=True)]
        )

    def run(self, problem: Problem) -> Asking:
        """Ask class counts in each round's partitions: errors of the hypothesis "class 1" are class 0.

        After each round, the label model is fitted to all answers so far.
        """
        features = standardising_map(problem.source)
        state = RoundState(features, coordinates(features, problem.source))
        for count, share in zip(self.partition_counts(problem), self._shares, strict=True):
            chosen = self.partitions(problem, state, problem.epsilon_per_record(share, count))
            state.answers = yield (
                CountsBody(partitions=tuple(chosen), hypothesis=Constant(predicted=1)),
                state.model if state.number else None,
            )
            observations = [
                Observation(cells, counts, float(answer.scale), answer.noises)
                for answer, cells_of_round in zip(state.answers, state.cells(problem.source), strict=True)
                for cells, counts in zip(cells_of_round, answer.blocks, strict=True)
            ]
            state.fits.append(fit_label_model(state.points, observations, seed=problem.seed))
        return state.model, state.estimate


def bin_count(problem: Problem, epsilon: float, bins: int | None, partitions: int) -> int:
    """Number of bins of each of several attributes.

    Args:
        problem: the problem.
        epsilon: epsilon of one record in one partition.
        bins: the user's number. None gives each about three times as many records as a signed count's noise deviation,
            with at most 40 bins.
        partitions: number asked together; all their bins stay within the curators' limit of cells, if possible.
    """
    rule = problem.cell_rule(epsilon, most=MOST_BINS)
    # Each attribute has a further bin for missing values.
    return max(1, min(bins or rule, problem.limits.cells // partitions - 1))


def joint_cell_count(problem: Problem, epsilon: float, cells: int | None, partitions: int = 1) -> int:
    """Number of cells of the whole instance space, by the rule of `bin_count`."""
    rule = problem.cell_rule(epsilon)
    return max(1, min(cells or rule, problem.limits.cells // partitions))


def bins_of(problem: Problem, names: Sequence[str], bins: int, shift: float = 0.0) -> list[FeatureBins]:
    """Bins of equal source mass for the named attributes, in that order."""
    by_name = {partition.attribute: partition for partition in even_bins(problem.source, bins, shift=shift)}
    return [by_name[name] for name in names]


class RandomSubsetsStrategy(RoundsStrategy):
    """`random-subsets`: each round asks the bins of a random subset of the attributes, whose size is its sensitivity.

    No attribute is asked a second time before all were asked once.

    Args:
        rounds: number of rounds.
        features: attributes a round; None takes the square root of the number of attributes, rounded up.
        bins: per attribute; None is as in `bin_count`.
        shares: shares of epsilon, one for each round; None is equal shares.
    """

    def __init__(
        self,
        *,
        rounds: int = 2,
        features: int | None = None,
        bins: int | None = None,
        shares: Sequence[Share] | None = None,
    ) -> None:
        planned, self._size, self._bins = options.random_subsets(
            rounds=rounds, features=features, bins=bins, shares=shares
        )
        super().__init__(*planned)

    def partition_counts(self, problem: Problem) -> list[int]:
        """The same number in every round."""
        count = len(varying_attributes(problem))
        return [min(self._size or int(np.ceil(np.sqrt(count))), count)] * self._rounds

    def partitions(self, problem: Problem, state: RoundState, epsilon: float) -> list[Partition]:
        """Consecutive attributes of random permutations, one permutation after the other."""
        names = varying_attributes(problem)
        size = self.partition_counts(problem)[state.number]
        rng = np.random.default_rng([problem.seed, 0])
        order: list[str] = []
        while len(order) < size * (state.number + 1):
            # Those of an unfinished round come last, so that no round asks an attribute twice.
            started = order[len(order) - len(order) % size :]
            shuffled = [names[index] for index in rng.permutation(len(names))]
            order += sorted(shuffled, key=lambda name: name in started)
        chosen = order[size * state.number : size * (state.number + 1)]
        return list(bins_of(problem, chosen, bin_count(problem, epsilon, self._bins, size)))


class InformativeStrategy(RoundsStrategy):
    """`informative`: a small first round over the bins of all attributes, then the joint bins of the best pairs.

    Attributes are ranked by their bins' information about the label, corrected for noise and sampling (`information`),
    and pairs by the sum of both. With a single attribute, its bins are asked again.

    Args:
        pairs: most pairs of attributes in the second round.
        bins: per attribute in the first round; None is as in `bin_count`.
        shares: shares of epsilon for the two rounds; None is [1, 3].
    """

    def __init__(self, *, pairs: int = 1, bins: int | None = None, shares: Sequence[Share] | None = None) -> None:
        planned, self._pairs, self._bins = options.informative(pairs=pairs, bins=bins, shares=shares)
        super().__init__(*planned)

    def partition_counts(self, problem: Problem) -> list[int]:
        """All attributes, then the pairs."""
        count = len(varying_attributes(problem))
        return [count, max(1, min(self._pairs, count * (count - 1) // 2))]

    def partitions(self, problem: Problem, state: RoundState, epsilon: float) -> list[Partition]:
        """Bins of each attribute, then joint bins of the best pairs."""
        names = varying_attributes(problem)
        if not state.number:
            return list(bins_of(problem, names, bin_count(problem, epsilon, self._bins, len(names))))
        if len(names) == 1:
            return list(bins_of(problem, names, bin_count(problem, epsilon, None, 1), shift=0.5))
        count = self.partition_counts(problem)[state.number]
        cells = joint_cell_count(problem, epsilon, None, count)
        room = problem.limits.cells // count
        # Each factor has a further bin for missing values.
        side = max(1, min(int(np.sqrt(cells)), int(np.sqrt(room)) - 1))
        first = state.answers[0]
        gains = {
            name: information(counts, np.bincount(cells, minlength=len(counts)), first.noise_variance)
            for name, counts, cells in zip(names, first.blocks, state.cells(problem.source)[0], strict=True)
        }
        ranked = sorted(combinations(names, 2), key=lambda pair: -gains[pair[0]] - gains[pair[1]])
        # A categorical attribute keeps all its levels: a pair of such may be too large for the curators' limit.
        products = (product_bins(problem.source, *pair, (side, side)) for pair in ranked)
        fitting = (product for product in products if product.cell_count(problem.source.schema) <= room)
        chosen: list[Partition] = list(islice(fitting, count))
        best = max(names, key=lambda name: gains[name])
        return chosen + list(bins_of(problem, [best] * (count - len(chosen)), side, shift=0.5))


class VaryingBinsStrategy(RoundsStrategy):
    """`varying-bins`: the same attributes each round, with edges between those of the other rounds.

    Together, rounds of q bins resolve what rounds times q bins would. With `cells`, each round instead asks k-means
    cells of the source from another seed, at sensitivity 1.

    Args:
        rounds: number of rounds.
        bins: per attribute, or k-means cells; None is as in `bin_count`.
        cells: whether to ask k-means cells.
        shares: shares of epsilon, one for each round; None is equal shares.
    """

    def __init__(
        self,
        *,
        rounds: int = 2,
        bins: int | None = None,
        cells: bool = False,
        shares: Sequence[Share] | None = None,
    ) -> None:
        planned, self._bins, self._cells = options.varying_bins(rounds=rounds, bins=bins, cells=cells, shares=shares)
        super().__init__(*planned)

    def partition_counts(self, problem: Problem) -> list[int]:
        """All attributes, or one."""
        return [1 if self._cells else len(varying_attributes(problem))] * self._rounds

    def partitions(self, problem: Problem, state: RoundState, epsilon: float) -> list[Partition]:
        """Bins of even mass, moved by a part of a bin."""
        if self._cells:
            cells = joint_cell_count(problem, epsilon, self._bins)
            seed = problem.seed + state.number
            return [kmeans_cells(problem.source, standardising_map(problem.source), cells, seed)]
        names = varying_attributes(problem)
        # Edges that are moved make one bin more, for which there must be room.
        room = max(1, problem.limits.cells // len(names) - 2)
        bins = min(bin_count(problem, epsilon, self._bins, len(names)), room)
        return list(bins_of(problem, names, bins, state.number / self._rounds))


def information(counts: NDArray[np.float64], source_counts: NDArray[np.int64], noise_variance: float) -> float:
    """Share of the label's variance that a partition's cells explain, corrected for noise and sampling.

    With signed counts S_b = n1 - n0, masses N_b and s = sum S / sum N, the correlation ratio sum_b (S_b - s N_b)^2 /
    N_b / sum N is about twice the mutual information of cell and label in nats. The expected share of noise and of
    sampling, (2 v + (1 - s^2) N_b) / N_b, is subtracted term by term.

    Args:
        counts: noisy counts of labels 0 and 1, (K, 2).
        source_counts: source records of the cells, (K,); they stabilise the noisy masses.
        noise_variance: v, of one count.

    Returns:
        Unbiased if the masses are right; it may be negative, and exceeds 1 only by noise.
    """
    used = source_counts > 0
    counts, source_counts = counts[used], source_counts[used]
    total = max(float(counts.sum()), 1.0)
    foreseen = total * source_counts / source_counts.sum()
    # Precision-weighted mean of what the source foresees, within a third of itself, and what was counted.
    prior = (foreseen / 3.0) ** 2 + foreseen
    masses = (foreseen * 2.0 * noise_variance + counts.sum(axis=1) * prior) / (2.0 * noise_variance + prior)
    masses = np.maximum(masses, np.maximum(foreseen / 10.0, 1.0))
    signed = counts[:, 1] - counts[:, 0]
    mean = float(np.clip(signed.sum() / masses.sum(), -1.0, 1.0))
    excess = (signed - mean * masses) ** 2 - 2.0 * noise_variance - (1.0 - mean**2) * masses
    return float(np.sum(excess / masses) / masses.sum())


CERTAIN = 0.05
"""Weight of a record with a certain label, relative to 1 for an open one; it keeps a few cells in certain regions."""
LEAST_IN_LEAF = 3
"""Fewest source records in a leaf of a tree."""
GRADIENT_RECORDS = 200
GRADIENT_STEP = 0.25
MOST_GRADIENT_DIRECTIONS = 64
"""Most coordinates for gradients; with more, they are taken along the first principal components."""


class AdaptiveCellsStrategy(RoundsStrategy):
    """`adaptive-cells`: k-means cells, then again with finer cells where the label is still uncertain.

    Args:
        rounds: number of rounds, at least 2.
        cells: number of cells a round; None is as in `bin_count`.
        tree: whether later rounds ask the leaves of a tree grown on the labels learnt so far instead of k-means cells.
        shares: shares of epsilon, one for each round; None is equal shares.
    """

    def __init__(
        self,
        *,
        rounds: int = 2,
        cells: int | None = None,
        tree: bool = False,
        shares: Sequence[Share] | None = None,
    ) -> None:
        planned, self._cells, self._tree = options.adaptive_cells(rounds=rounds, cells=cells, tree=tree, shares=shares)
        super().__init__(*planned)

    def partition_counts(self, problem: Problem) -> list[int]:  # noqa: ARG002
        """One partition of the whole space a round."""
        return [1] * self._rounds

    def partitions(self, problem: Problem, state: RoundState, epsilon: float) -> list[Partition]:
        """Cells that are finer where labels are uncertain: mass is weighted by p (1 - p)."""
        cells = joint_cell_count(problem, epsilon, self._cells)
        if not state.number:
            return [kmeans_cells(problem.source, state.features, cells, problem.seed)]
        estimate = state.estimate
        mass = estimate.weights / max(float(estimate.weights.mean()), 1e-9) + CERTAIN
        if self._tree and cells > 1:
            target = estimate.probability
            return [
                tree_leaves(state.features, problem.source, cells, target=target, weights=mass, least=LEAST_IN_LEAF)
            ]
        weights = mass * (CERTAIN + 4.0 * estimate.probability * (1.0 - estimate.probability))
        return [kmeans_cells(problem.source, state.features, cells, problem.seed + state.number, weights)]


class NewFeaturesStrategy(RoundsStrategy):
    """`new-features`: first k-means cells, then bins of new features that were learnt from the answers.

    From the second round on it asks bins of the score of a network trained on the labels learnt so far, and joint bins
    of pairs of projections along the directions in which the label signal changes most (or random ones).

    Args:
        rounds: number of rounds, at least 2.
        cells: number of cells of the first round; None is as in `bin_count`.
        score: whether to ask bins of the network's score.
        projections: pairs of directions a round, each pair one partition.
        learned: whether directions come from the label signal's gradients; False draws them at random.
        hidden: hidden layers of the network.
        shares: shares of epsilon, one for each round; None is equal shares.
    """

    def __init__(
        self,
        *,
        rounds: int = 2,
        cells: int | None = None,
        score: bool = False,
        projections: int = 1,
        learned: bool = True,
        hidden: Sequence[int] = options.HIDDEN,
        shares: Sequence[Share] | None = None,
    ) -> None:
        planned, self._cells, self._score, self._projections, self._learned, self._training = options.new_features(
            rounds=rounds,
            cells=cells,
            score=score,
            projections=projections,
            learned=learned,
            hidden=hidden,
            shares=shares,
        )
        if score:
            require_torch()
        super().__init__(*planned)

    def partition_counts(self, problem: Problem) -> list[int]:  # noqa: ARG002
        """The cells, then the new features."""
        return [1] + [self._score + self._projections] * (self._rounds - 1)

    def partitions(self, problem: Problem, state: RoundState, epsilon: float) -> list[Partition]:
        """Cells, then score and projections."""
        if not state.number:
            if self._score:
                check_network(problem, state.features, self._training.hidden, otherwise=", or set score to false")
            cells = joint_cell_count(problem, epsilon, self._cells)
            return [kmeans_cells(problem.source, state.features, cells, problem.seed)]
        count = self.partition_counts(problem)[state.number]
        cells = joint_cell_count(problem, epsilon, None, count)
        directions = self._directions(problem, state)
        projections: list[Partition] = []
        for rows in directions:
            side = max(1, int(cells ** (1.0 / len(rows))))
            projections.append(projection_bins(state.features, problem.source, rows, [side] * len(rows)))
        return [*self._score_bins(problem, state, cells), *projections]

    def _directions(self, problem: Problem, state: RoundState) -> list[NDArray[np.float64]]:
        """Pairs of directions, (2, width) each, or (1, width) of the last where the space has no more."""
        rng = np.random.default_rng([problem.seed, state.number])
        count = 2 * self._projections
        if self._learned:
            directions = gradient_directions(state.fits[-1], state.points, rng)
            while len(directions) < count:
                directions = np.concatenate([directions, directions])
        else:
            directions = rng.standard_normal((count, state.points.shape[1]))
        pairs = [directions[2 * index : 2 * index + 2] for index in range(self._projections)]
        return [pair[:1] if state.points.shape[1] == 1 else pair for pair in pairs]

    def _score_bins(self, problem: Problem, state: RoundState, cells: int) -> list[ScoreBins]:
        """Bins of even mass of the score of a network that was trained on the labels so far."""
        if not self._score:
            return []
        estimate = state.estimate
        weights = estimate.weights + 1e-6 * estimate.weights.mean() + 1e-12
        data = TrainingSet(state.points, estimate.probability, weights, problem.seed)
        hypothesis = Mlp.of(state.features, list(problem.train(data, self._training).layers))
        return [score_bins(hypothesis, problem.source, cells)]


def gradient_directions(
    labels: LabelModel, points: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Directions in which the label signal changes, the most telling first: (r, width), orthonormal, r >= 1.

    Eigenvectors of the mean outer product of the signal's gradients at source records (Constantine, Dow and Wang,
    "Active Subspace Methods in Theory and Practice", 2014), by central differences.
    """
    width = points.shape[1]
    basis = np.eye(width)
    if width > MOST_GRADIENT_DIRECTIONS:
        seed = int(rng.integers(2**31))
        basis = randomized_svd(points - points.mean(axis=0), MOST_GRADIENT_DIRECTIONS, random_state=seed)[2]
    at = points[rng.choice(len(points), min(GRADIENT_RECORDS, len(points)), replace=False)]
    moved = (
        (at[:, None, :] + GRADIENT_STEP * basis).reshape(-1, width),
        (at[:, None, :] - GRADIENT_STEP * basis).reshape(-1, width),
    )
    gradients = (labels.latent(moved[0]) - labels.latent(moved[1])).reshape(len(at), len(basis))
    _, vectors = np.linalg.eigh(gradients.T @ gradients)
    directions: NDArray[np.float64] = vectors[:, ::-1].T @ basis
    return directions
