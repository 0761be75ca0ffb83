"""Which tables carry a regression, and how their noisy answers weigh the combinations of its covariates' cells.

A plan asks the outcome by *blocks* of covariates: every pair of covariates lies in a block. One block of all of them
is the full joint table. Sums over many cells add up noise, so that several smaller blocks are often better though each
has a share of epsilon only (`choose_blocks`).

In orthonormal contrasts of each axis the noise of a table stays independent, and a contrast that several blocks hold is
averaged by precision (`Moments`): generalised least squares in closed form. What the blocks say of all combinations
of covariates at once is a *calibration* (Deville and Sarndal 1992): a reference distribution, the one of maximum
entropy that agrees with the pairs up to their noise, is weighted so that all noisy sums of pairs hold exactly. Such
weights may be negative, and are linear in the answers, so the noise of anything summed with them is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from protocol.partitions.cross_bins import MOST_FACTORS

Floats = NDArray[np.float64]
Block = tuple[int, ...]

MOST_CELLS = 16_384
"""Most combinations of covariates' cells that are enumerated; of more, a sample is drawn."""
MOST_TABLE_CELLS = 90_000
"""Most cells of one table."""
_MOST_ENTRIES = 25_000_000
"""Most entries of the matrix of features by points: 200 MB."""
_DESIGN_SHARE = 0.05
"""What a unit of noise in a pair's count moves a coefficient, squared, against one in an outcome's count."""
_TRIES = 30


@lru_cache(maxsize=256)
def contrasts(levels: int) -> Floats:
    """Orthonormal columns (`levels`, `levels`): the constant, then Helmert's contrasts."""
    matrix = np.zeros((levels, levels))
    matrix[:, 0] = 1 / np.sqrt(levels)
    for column in range(1, levels):
        matrix[:column, column] = 1
        matrix[column, column] = -column
        matrix[:, column] /= np.sqrt(column * (column + 1))
    return matrix


def covering(covariates: int, size: int) -> tuple[Block, ...]:
    """Few blocks of `size` covariates so that every pair lies in one: the best of some greedy covers."""
    if size >= covariates:
        return (tuple(range(covariates)),)
    if size == 1:
        return tuple((index,) for index in range(covariates))
    candidates = list(combinations(range(covariates), size))
    pairs = [frozenset(combinations(block, 2)) for block in candidates]
    generator = np.random.default_rng(0)
    best: list[int] | None = None
    for _ in range(_TRIES):
        cover: list[int] = []
        open_pairs = set(combinations(range(covariates), 2))
        while open_pairs and (best is None or len(cover) < len(best)):
            gains = np.array([len(open_pairs & block) for block in pairs])
            cover.append(int(generator.choice(np.flatnonzero(gains == gains.max()))))
            open_pairs -= pairs[cover[-1]]
        if not open_pairs and (best is None or len(cover) < len(best)):
            best = cover
    return tuple(candidates[index] for index in best or ())


def noise_measure(levels: Sequence[int], outcomes: int, blocks: Sequence[Block]) -> float:
    """How much noise a coefficient has, in squared scales of one table that has all of epsilon.

    The mean over covariates of the noise in the count of an event in one of its cells, and a share of the noise in its
    pairs' counts, each averaged by precision over the blocks that hold it.
    """
    share = float(len(blocks)) ** 2
    precision_single = np.zeros(len(levels))
    precision_pair = np.zeros((len(levels), len(levels)))
    for block in blocks:
        cells = float(np.prod([levels[index] for index in block], dtype=float))
        for index in block:
            precision_single[index] += levels[index] / cells
        for first, second in combinations(block, 2):
            precision_pair[first, second] += levels[first] * levels[second] / (cells * outcomes)
    single = (share / precision_single).mean()
    pairs = precision_pair[np.triu_indices(len(levels), 1)]
    return float(single + _DESIGN_SHARE * (2 / len(levels)) * (share / pairs).sum()) if pairs.size else float(single)


def choose_blocks(levels: Sequence[int], outcomes: int, outcome_factors: int = 1) -> tuple[Block, ...]:
    """The blocks of the least noise for covariates of so many cells and an outcome of so many, of some factors.

    The full joint table is taken where it is as good within a tenth: it needs no reference distribution. Returns no
    block where no table is small enough.
    """
    best: tuple[Block, ...] = ()
    least = np.inf
    largest = min(len(levels), MOST_FACTORS - outcome_factors)
    for size in range(largest, min(len(levels), 2) - 1, -1):
        blocks = covering(len(levels), size)
        # As it is asked, with the cells of "other" and of missing values.
        cells = [(outcomes + 2) * np.prod([levels[index] + 2.0 for index in block]) for block in blocks]
        if max(cells) > MOST_TABLE_CELLS:
            continue
        measure = noise_measure(levels, outcomes, blocks)
        if measure < least:
            best, least = blocks, measure / 1.1 if size == len(levels) else measure
    return best


@dataclass(frozen=True)
class Moments:
    """Sums of the covariates' contrasts over the records of each outcome cell, with independent noise.

    `subsets` are the sets of at most two covariates, in order; the contrasts of a subset are products of its
    covariates' contrasts without the constant.
    """

    levels: tuple[int, ...]
    subsets: tuple[Block, ...]
    sums: Floats  # (K, q): outcome cells by contrasts
    variances: Floats  # (q,): of the noise in each, the same for all outcome cells

    @classmethod
    def of(
        cls, levels: Sequence[int], blocks: Sequence[Block], tables: Sequence[Floats], variances: Sequence[float]
    ) -> "Moments":
        """Combine the tables of the blocks, each (K, levels of its covariates ...) with noise of a variance in a cell.

        Tables without noise, of variance 0, are combined as if all had the same noise.
        """
        relative = [variance if any(variances) else 1.0 for variance in variances]
        weighted: dict[Block, Floats] = {}
        precision: dict[Block, float] = {}
        for block, table, variance in zip(blocks, tables, relative, strict=True):
            rotated = table
            for axis, index in enumerate(block, 1):
                rotated = np.moveaxis(np.tensordot(rotated, contrasts(levels[index]), (axis, 0)), -1, axis)
            for size in range(min(2, len(block)) + 1):
                for subset in combinations(block, size):
                    place = tuple(slice(1, None) if index in subset else 0 for index in block)
                    cells = float(np.prod([levels[index] for index in block if index not in subset], dtype=float))
                    values = (rotated[(slice(None), *place)] * np.sqrt(cells)).reshape(len(table), -1)
                    weight = 1 / (variance * cells)
                    weighted[subset] = weighted.get(subset, 0.0) + weight * values
                    precision[subset] = precision.get(subset, 0.0) + weight
        subsets = tuple(sorted(weighted, key=lambda subset: (len(subset), subset)))
        sums = np.concatenate([weighted[subset] / precision[subset] for subset in subsets], axis=1)
        noise = [np.full(weighted[subset].shape[1], 1 / precision[subset]) for subset in subsets]
        return cls(tuple(levels), subsets, sums, np.concatenate(noise) * any(variances))

    def features(self, points: NDArray[np.intp]) -> Floats:
        """The contrasts (N, q) of points (N, d), cells of each covariate."""
        columns = []
        for subset in self.subsets:
            product = np.ones((len(points), 1))
            for index in subset:
                column = contrasts(self.levels[index])[points[:, index], 1:]
                product = (product[:, :, None] * column[:, None, :]).reshape(len(points), -1)
            columns.append(product)
        return np.concatenate(columns, axis=1)


def all_points(levels: Sequence[int]) -> NDArray[np.intp]:
    """All combinations of the covariates' cells, (N, d), the last covariate's changing first."""
    return np.indices(tuple(levels)).reshape(len(levels), -1).T.astype(np.intp)


def maximum_entropy(features: Floats, means: Floats, slack: Floats, base: Floats, *, steps: int = 40) -> Floats:
    """The distribution (N,) nearest to `base` whose means of `features` (N, q) are about `means`.

    It minimises KL(p, base) + sum of (mean of p - means)^2 / (2 slack): with slack = noise variance / records^2 times
    records, the most likely one of counts that were drawn from `base`. Damped Newton steps on the dual.
    """
    dual = np.zeros(features.shape[1])
    logs = np.log(base)

    def objective(point: Floats) -> tuple[float, Floats]:
        exponents = features @ point + logs
        top = exponents.max()
        weights = np.exp(exponents - top)
        total = weights.sum()
        value = np.log(total) + top - point @ means + 0.5 * (slack * point**2).sum()
        return float(value), weights / total

    value, weights = objective(dual)
    for _ in range(steps):
        mean = weights @ features
        gradient = mean - means + slack * dual
        hessian = (features * weights[:, None]).T @ features - np.outer(mean, mean)
        hessian[np.diag_indices_from(hessian)] += slack + 1e-12
        step = -cho_solve(cho_factor(hessian), gradient)
        decrease = float(-gradient @ step)
        if decrease < 1e-8:
            break
        size = 1.0
        while size > 1e-4:
            candidate, lighter = objective(dual + size * step)
            if candidate <= value - 1e-4 * size * decrease:
                break
            size /= 2
        dual, value, weights = dual + size * step, candidate, lighter
    return weights


@dataclass(frozen=True)
class Calibration:
    """How sums over records of any function of the covariates follow from the answers.

    The sum of g over the records of outcome cell o is about `coefficients(g)` applied to `sums[o]`: exactly so where
    the answers are the full joint table, and else as far as g is a sum of functions of pairs, or the records' further
    interactions are those of the reference.
    """

    points: NDArray[np.intp]  # (N, d)
    sums: Floats  # (K, q)
    variances: Floats  # (K, q), of the noise
    features: Floats | None = None  # (N, q); None: the identity, each point is a cell that was counted
    reference: Floats | None = None  # (N,), adding up to 1, with features
    kurtosis: float = 0.0  # excess, of the noise in each sum; sums of blocks add up many cells, whose noise is normal

    @classmethod
    def joint(cls, levels: Sequence[int], table: Floats, variance: float, kurtosis: float = 0.0) -> "Calibration":
        """Of the full joint table (K, levels ...), whose cells have noise of this variance and excess kurtosis."""
        sums = table.reshape(len(table), -1)
        return cls(all_points(levels), sums, np.full(sums.shape, variance), kurtosis=kurtosis)

    @classmethod
    def pairs(cls, moments: Moments, *, independent: bool = False) -> "Calibration":
        """Of blocks. `independent`: the reference has the covariates' single distributions, and no pair's."""
        levels = moments.levels
        totals = moments.sums.sum(axis=0)
        noise = moments.variances * len(moments.sums)
        records = max(totals[0], 1.0)
        count = float(np.prod(levels, dtype=float))
        most = min(MOST_CELLS, _MOST_ENTRIES // len(totals))
        base: Floats
        if count <= most:
            points = all_points(levels)
            base = np.full(len(points), 1 / len(points))
        else:
            points = _sample(levels, moments, totals, most)
            base = np.full(most, 1 / most)
        features = moments.features(points)
        sizes = np.repeat([len(subset) for subset in moments.subsets], [_width(levels, s) for s in moments.subsets])
        use = np.flatnonzero((sizes > 0) & (sizes < (2 if independent else 3)))
        slack = np.maximum(noise[use] / records, 1e-6 / records)
        reference = maximum_entropy(features[:, use], totals[use] / records, slack, base)
        reference = 0.999 * reference + 0.001 * base
        variances = np.broadcast_to(moments.variances, moments.sums.shape)
        return cls(points, moments.sums, variances, features, reference)

    def of_outcomes(self, sums: Floats, variances: Floats) -> "Calibration":
        """The same reference with the answers of others, such as those of sites one by one."""
        return Calibration(self.points, sums, variances, self.features, self.reference, self.kurtosis)

    def tilted(self, factors: Floats) -> "Calibration":
        """The same answers with a reference in which points (N,) are so many times as frequent, up to a constant."""
        if self.reference is None:
            return self
        reference = self.reference * factors
        reference = np.maximum(reference / reference.sum(), 1e-3 * self.reference)
        return Calibration(self.points, self.sums, self.variances, self.features, reference / reference.sum())

    @cached_property
    def _factor(self) -> tuple[Floats, Floats]:
        if self.features is None or self.reference is None:
            raise ValueError("a joint table needs no reference")
        scaled = self.features * self.reference[:, None]
        gram = scaled.T @ self.features
        gram[np.diag_indices_from(gram)] *= 1 + 1e-12
        return cho_factor(gram), scaled

    def coefficients(self, functions: Floats) -> Floats:
        """Coefficients (q, m) of m functions of the points (N, m) on what was counted."""
        if self.features is None:
            return functions
        factor, scaled = self._factor
        solution: Floats = cho_solve(factor, scaled.T @ functions)
        return solution

    def weights(self, sums: Floats) -> Floats:
        """Weights (..., N) of the points that have these sums (..., q); they may be negative."""
        if self.features is None:
            return sums
        factor, scaled = self._factor
        product: Floats = cho_solve(factor, np.atleast_2d(sums).T).T @ scaled.T
        return product.reshape(*sums.shape[:-1], -1)


def _width(levels: Sequence[int], subset: Block) -> int:
    return int(np.prod([levels[index] - 1 for index in subset], dtype=int))


def _sample(levels: Sequence[int], moments: Moments, totals: Floats, size: int) -> NDArray[np.intp]:
    """Points (size, d) drawn from the covariates' single distributions; no cell is rarer than half an even share."""
    generator = np.random.default_rng(0)
    points = np.empty((size, len(levels)), np.intp)
    starts = np.cumsum([0] + [_width(levels, subset) for subset in moments.subsets])
    for index, count in enumerate(levels):
        place = moments.subsets.index((index,))
        single = totals[starts[place] : starts[place + 1]]
        shares = contrasts(count)[:, 1:] @ single / max(totals[0], 1.0) + 1 / count
        shares = np.maximum(shares, 0.5 / count)
        points[:, index] = generator.permutation(
            np.searchsorted(np.cumsum(shares / shares.sum()), (np.arange(size) + 0.5) / size).clip(0, count - 1)
        )
    return points
