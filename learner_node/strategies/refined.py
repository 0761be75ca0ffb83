"""The paper's perspectives that leave the attributes (section 5): new features, and cells refined where it matters.

Both ask k-means cells of the source first. `new-features` then asks bins of projections on which the label depends, or
of the score of the learned hypothesis; `adaptive-cells` then asks cells that are finer where the first answer left the
labels open.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from learner_node.models.label_model import LabelModel
from learner_node.models.networks import TrainingSet
from learner_node.models.partitions import projection_bins, score_bins, tree_leaves
from learner_node.models.source import kmeans_cells
from learner_node.strategies import checked
from learner_node.strategies.base import Problem
from learner_node.strategies.options import Share
from learner_node.strategies.paper import check_network
from learner_node.strategies.rounds import Known, RoundsStrategy, joint_cell_count
from protocol.hypotheses import Mlp
from protocol.partitions import Partition, ScoreBins

CERTAIN = 0.05
"""Weight of a record whose label is certain, against 1 for an open one: certain regions keep a few cells."""
LEAST_IN_LEAF = 3
"""Source records in a leaf of a tree, at least."""
GRADIENT_RECORDS = 200
GRADIENT_STEP = 0.25
MOST_GRADIENT_DIRECTIONS = 64
"""Along more coordinates, gradients are taken in the plane of the source's first principal components."""


class AdaptiveCellsStrategy(RoundsStrategy):
    """`adaptive-cells`: k-means cells, then again, with cells that are finer where the label is still open.

    Args:
        rounds: number of rounds, at least 2.
        cells: number of cells a round; None takes about three noise deviations of signed count in each.
        tree: from the second round on, ask the leaves of a tree grown on the labels learnt so far, not k-means cells.
        shares: of epsilon, one for each round; None is equal shares.
    """

    def __init__(
        self,
        *,
        rounds: int = 2,
        cells: int | None = None,
        tree: bool = False,
        shares: Sequence[Share] | None = None,
    ) -> None:
        asked, self._cells, self._tree = checked.adaptive_cells(rounds=rounds, cells=cells, tree=tree, shares=shares)
        super().__init__(*asked)

    def partition_counts(self, problem: Problem) -> list[int]:  # noqa: ARG002
        """One partition of the whole space a round."""
        return [1] * self._rounds

    def partitions(self, problem: Problem, known: Known, epsilon: float) -> list[Partition]:
        """Cells weighted by what is open: mass times p (1 - p)."""
        cells = joint_cell_count(problem, epsilon, self._cells)
        if not known.number:
            return [kmeans_cells(problem.source, known.features, cells, problem.seed)]
        estimate = known.estimate
        mass = estimate.weights / max(float(estimate.weights.mean()), 1e-9) + CERTAIN
        if self._tree and cells > 1:
            target = estimate.probability
            return [
                tree_leaves(known.features, problem.source, cells, target=target, weights=mass, least=LEAST_IN_LEAF)
            ]
        weights = mass * (CERTAIN + 4.0 * estimate.probability * (1.0 - estimate.probability))
        return [kmeans_cells(problem.source, known.features, cells, problem.seed + known.number, weights)]


class NewFeaturesStrategy(RoundsStrategy):
    """`new-features`: k-means cells, then bins of features that were made from what these taught.

    From the second round on: bins of the score of a network trained on the labels learnt so far, and joint bins of
    pairs of projections, the directions in which the label signal changes most (or random ones).

    Args:
        rounds: number of rounds, at least 2.
        cells: number of cells of the first round; None takes about three noise deviations of signed count in each.
        score: ask bins of the network's score.
        projections: pairs of directions a round, each pair one partition.
        learned: take the directions of the label signal's gradients; False draws them at random.
        hidden: hidden layers of the network.
        shares: of epsilon, one for each round; None is equal shares.
    """

    def __init__(
        self,
        *,
        rounds: int = 2,
        cells: int | None = None,
        score: bool = False,
        projections: int = 1,
        learned: bool = True,
        hidden: Sequence[int] = checked.HIDDEN,
        shares: Sequence[Share] | None = None,
    ) -> None:
        asked, self._cells, self._score, self._projections, self._learned, self._training = checked.new_features(
            rounds=rounds,
            cells=cells,
            score=score,
            projections=projections,
            learned=learned,
            hidden=hidden,
            shares=shares,
        )
        super().__init__(*asked)

    def partition_counts(self, problem: Problem) -> list[int]:  # noqa: ARG002
        """The cells, then the new features."""
        return [1] + [self._score + self._projections] * (self._rounds - 1)

    def partitions(self, problem: Problem, known: Known, epsilon: float) -> list[Partition]:
        """Cells, then score and projections."""
        if not known.number:
            if self._score:
                check_network(problem, known.features, self._training.hidden, otherwise=", or set score to false")
            cells = joint_cell_count(problem, epsilon, self._cells)
            return [kmeans_cells(problem.source, known.features, cells, problem.seed)]
        count = self.partition_counts(problem)[known.number]
        cells = joint_cell_count(problem, epsilon, None, count)
        directions = self._directions(problem, known)
        asked: list[Partition] = []
        for rows in directions:
            side = max(1, int(cells ** (1.0 / len(rows))))
            asked.append(projection_bins(known.features, problem.source, rows, [side] * len(rows)))
        return [*self._score_bins(problem, known, cells), *asked]

    def _directions(self, problem: Problem, known: Known) -> list[NDArray[np.float64]]:
        """Pairs of directions, (2, width) each, or (1, width) of the last where the space has no more."""
        rng = np.random.default_rng([problem.seed, known.number])
        wanted = 2 * self._projections
        if self._learned:
            found = gradient_directions(known.fits[-1], known.points, rng)
            while len(found) < wanted:
                found = np.concatenate([found, found])
        else:
            found = rng.standard_normal((wanted, known.points.shape[1]))
        pairs = [found[2 * index : 2 * index + 2] for index in range(self._projections)]
        return [pair[:1] if known.points.shape[1] == 1 else pair for pair in pairs]

    def _score_bins(self, problem: Problem, known: Known, cells: int) -> list[ScoreBins]:
        """Bins of even mass of the score of a network that was trained on the labels so far."""
        if not self._score:
            return []
        estimate = known.estimate
        weights = estimate.weights + 1e-6 * estimate.weights.mean() + 1e-12
        data = TrainingSet(known.points, estimate.probability, weights, problem.seed)
        hypothesis = Mlp.of(known.features, list(problem.train(data, self._training).layers))
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
    found: NDArray[np.float64] = vectors[:, ::-1].T @ basis
    return found
