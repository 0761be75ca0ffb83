"""The paper's perspectives that keep to bins of attributes (section 5): fewer of them, better ones, other ones.

`random-subsets` asks a few attributes each round, `informative` spends most of the budget on the attributes that a
small first round found to tell the labels apart, and `varying-bins` moves the edges from round to round. Attributes
that are constant in the source are never asked.
"""

from collections.abc import Sequence
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from learner_node.models.partitions import product_bins
from learner_node.models.source import even_bins, kmeans_cells, standardising_map
from learner_node.strategies import checked
from learner_node.strategies.base import Problem
from learner_node.strategies.options import Share
from learner_node.strategies.rounds import Known, RoundsStrategy, bin_count, joint_cell_count
from protocol.partitions import FeatureBins, Partition


def asked_attributes(problem: Problem) -> list[str]:
    """Attributes that vary in the source, at least one, in the schema's order."""
    return [feature.attribute for feature in standardising_map(problem.source).features]


def bins_of(problem: Problem, names: Sequence[str], bins: int, shift: float = 0.0) -> list[FeatureBins]:
    """Bins of even mass of the source, of the named attributes in that order."""
    known = {partition.attribute: partition for partition in even_bins(problem.source, bins, shift=shift)}
    return [known[name] for name in names]


class RandomSubsetsStrategy(RoundsStrategy):
    """`random-subsets`: each round asks the bins of a random subset of the attributes, whose size is its sensitivity.

    No attribute is asked a second time before all were asked once.

    Args:
        rounds: number of rounds.
        features: attributes a round; None takes the square root of their number, rounded up.
        bins: per attribute; None takes about three noise deviations of signed count in each.
        shares: of epsilon, one for each round; None is equal shares.
    """

    def __init__(
        self,
        *,
        rounds: int = 2,
        features: int | None = None,
        bins: int | None = None,
        shares: Sequence[Share] | None = None,
    ) -> None:
        asked, self._size, self._bins = checked.random_subsets(
            rounds=rounds, features=features, bins=bins, shares=shares
        )
        super().__init__(*asked)

    def partition_counts(self, problem: Problem) -> list[int]:
        """The same number in every round."""
        known = len(asked_attributes(problem))
        return [min(self._size or int(np.ceil(np.sqrt(known))), known)] * self._rounds

    def partitions(self, problem: Problem, known: Known, epsilon: float) -> list[Partition]:
        """Consecutive attributes of random permutations, one permutation after the other."""
        names = asked_attributes(problem)
        size = self.partition_counts(problem)[known.number]
        rng = np.random.default_rng([problem.seed, 0])
        order: list[str] = []
        while len(order) < size * (known.number + 1):
            # Those of an unfinished round come last, so that no round asks an attribute twice.
            started = order[len(order) - len(order) % size :]
            drawn = [names[index] for index in rng.permutation(len(names))]
            order += sorted(drawn, key=lambda name: name in started)
        chosen = order[size * known.number : size * (known.number + 1)]
        return list(bins_of(problem, chosen, bin_count(problem, epsilon, self._bins, size)))


class InformativeStrategy(RoundsStrategy):
    """`informative`: a small first round over the bins of all attributes, then the joint bins of the best pairs.

    Attributes are ranked by what their bins tell about the label, corrected for noise and sampling (`information`);
    pairs by the sum over both. With a single attribute, its bins are asked again.

    Args:
        pairs: pairs of attributes asked in the second round, at most.
        bins: per attribute in the first round; None takes about three noise deviations of signed count in each.
        shares: of epsilon, for the two rounds; None is [1, 3].
    """

    def __init__(self, *, pairs: int = 1, bins: int | None = None, shares: Sequence[Share] | None = None) -> None:
        asked, self._pairs, self._bins = checked.informative(pairs=pairs, bins=bins, shares=shares)
        super().__init__(*asked)

    def partition_counts(self, problem: Problem) -> list[int]:
        """All attributes, then the pairs."""
        known = len(asked_attributes(problem))
        return [known, max(1, min(self._pairs, known * (known - 1) // 2))]

    def partitions(self, problem: Problem, known: Known, epsilon: float) -> list[Partition]:
        """Bins of each attribute, then joint bins of the best pairs."""
        names = asked_attributes(problem)
        if not known.number:
            return list(bins_of(problem, names, bin_count(problem, epsilon, self._bins, len(names))))
        if len(names) == 1:
            return list(bins_of(problem, names, bin_count(problem, epsilon, None, 1), shift=0.5))
        count = self.partition_counts(problem)[known.number]
        cells = joint_cell_count(problem, epsilon, None, count)
        room = problem.limits.cells // count
        # Each factor has a further bin for missing values.
        side = max(1, min(int(np.sqrt(cells)), int(np.sqrt(room)) - 1))
        first = known.answers[0]
        told = {
            name: information(counts, np.bincount(cells, minlength=len(counts)), first.noise_variance)
            for name, counts, cells in zip(names, first.blocks, known.asked(problem.source)[0], strict=True)
        }
        ranked = sorted(combinations(names, 2), key=lambda pair: -told[pair[0]] - told[pair[1]])
        # A categorical attribute keeps all its levels: a pair of such may be too large for the curators' limit.
        products = (product_bins(problem.source, *pair, (side, side)) for pair in ranked)
        fitting = (product for product in products if product.cell_count(problem.source.schema) <= room)
        chosen: list[Partition] = list(islice(fitting, count))
        best = max(names, key=lambda name: told[name])
        return chosen + list(bins_of(problem, [best] * (count - len(chosen)), side, shift=0.5))


class VaryingBinsStrategy(RoundsStrategy):
    """`varying-bins`: the same attributes each round, with edges between those of the other rounds.

    Together, rounds of q bins resolve what rounds times q bins would. With `cells`, each round asks other k-means
    cells of the source instead, at sensitivity 1.

    Args:
        rounds: number of rounds.
        bins: per attribute, or k-means cells; None takes about three noise deviations of signed count in each.
        cells: ask k-means cells, from another seed each round.
        shares: of epsilon, one for each round; None is equal shares.
    """

    def __init__(
        self,
        *,
        rounds: int = 2,
        bins: int | None = None,
        cells: bool = False,
        shares: Sequence[Share] | None = None,
    ) -> None:
        asked, self._bins, self._cells = checked.varying_bins(rounds=rounds, bins=bins, cells=cells, shares=shares)
        super().__init__(*asked)

    def partition_counts(self, problem: Problem) -> list[int]:
        """All attributes, or one."""
        return [1 if self._cells else len(asked_attributes(problem))] * self._rounds

    def partitions(self, problem: Problem, known: Known, epsilon: float) -> list[Partition]:
        """Bins of even mass, moved by a part of a bin."""
        if self._cells:
            cells = joint_cell_count(problem, epsilon, self._bins)
            seed = problem.seed + known.number
            return [kmeans_cells(problem.source, standardising_map(problem.source), cells, seed)]
        names = asked_attributes(problem)
        # Edges that are moved make one bin more, for which there must be room.
        room = max(1, problem.limits.cells // len(names) - 2)
        bins = min(bin_count(problem, epsilon, self._bins, len(names)), room)
        return list(bins_of(problem, names, bins, known.number / self._rounds))


def information(counts: NDArray[np.float64], source_counts: NDArray[np.int64], noise_variance: float) -> float:
    """How much of the variance of the label the cells of a partition explain, less what noise alone would.

    With signed counts S_b = n1 - n0, masses N_b and s = sum S / sum N, the correlation ratio
    sum_b (S_b - s N_b)^2 / N_b / sum N is about twice the mutual information of cell and label in nats. The expected
    share of noise and of sampling, (2 v + (1 - s^2) N_b) / N_b, is taken off term by term.

    Args:
        counts: noisy counts of labels 0 and 1, (K, 2).
        source_counts: source records of the cells, (K,); they shape the masses, which are else only noise.
        noise_variance: v, of one count.

    Returns:
        Unbiased where the masses are right; may be negative, and exceeds 1 only by noise.
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
