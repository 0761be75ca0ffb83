"""What a model says of the source records of each cell, beside what the answers say of the cell.

The counts of a cell do not tell which of its records carry the label. A profile deals them by the model's own ranking,
P(label 1) = Phi(a u + shift of the cell), u the probit of the model's probability. The shift follows from the cell's
share of label 1, and the sharpness a from how well Phi(a u) foretells the answers of cells that it is not told.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from learner_node.models.label_model import CellPosterior

Floats = NDArray[np.float64]

SHARPNESS: Floats = np.exp(np.linspace(np.log(0.25), np.log(8.0), 11))
"""The values of a that are tried, float64 (11,)."""

_SHIFTS = 12.0 * np.sign(np.linspace(-1.0, 1.0, 61)) * np.abs(np.linspace(-1.0, 1.0, 61)) ** 1.5
_SUREST = 0.002
_RECORDS_PER_CELL, _RECORDS = 24, 10_000
_BLOCK_ENTRIES = 4_000_000


@dataclass(frozen=True)
class Profiles:
    """What a model says of n source records, in the order of their K cells.

    Attributes:
        value: The model's probability of label 1, float64 (n,), in [0, 1].
        probability: Its means over all source records of each cell, float64 (K,).
        cell: Cell of each record, int64 (n,), ascending.
        starts: Where each cell begins, int64 (K,).
        counts: Records of each cell, float64 (K,), at least 1.
    """

    value: Floats
    probability: Floats
    cell: NDArray[np.int64]
    starts: NDArray[np.int64]
    counts: Floats

    @classmethod
    def of(cls, probability: Floats, posterior: CellPosterior, rng: np.random.Generator) -> "Profiles":
        """Of all source records, or of a random part of those of large cells.

        Raises:
            ValueError: `probability` has not the shape of the posterior's source records or is no probability.
        """
        values = np.asarray(probability, dtype=np.float64)
        if values.shape != posterior.cells.shape:
            raise ValueError(f"probability must have shape {posterior.cells.shape}, not {values.shape}")
        if not np.all((values >= 0) & (values <= 1)):
            raise ValueError("probability must lie in [0, 1]")
        shuffled = rng.permutation(len(values))
        order = shuffled[np.argsort(posterior.cells[shuffled], kind="stable")]
        sizes = np.bincount(posterior.cells)
        rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        order = order[rank < max(_RECORDS_PER_CELL, _RECORDS // len(sizes))]
        counts = np.bincount(posterior.cells[order])
        return cls(
            value=values[order],
            probability=np.bincount(posterior.cells, values) / sizes,
            cell=posterior.cells[order],
            starts=np.cumsum(counts) - counts,
            counts=counts.astype(np.float64),
        )

    @property
    def cells(self) -> int:
        """Number of cells K."""
        return len(self.starts)

    @cached_property
    def probit(self) -> Floats:
        """u, float64 (n,); probabilities beyond .002 and .998 count as those."""
        result: Floats = ndtri(np.clip(self.value, _SUREST, 1.0 - _SUREST))
        return result

    @cached_property
    def predicted(self) -> NDArray[np.bool_]:
        """Whether label 1 is predicted, bool (n,)."""
        return self.value > 0.5

    @cached_property
    def predicted_share(self) -> Floats:
        """Share of each cell's records of which label 1 is predicted, float64 (K,)."""
        share: Floats = self.means(self.predicted.astype(np.float64)[None])[0]
        return share

    def score_at_random(self, share: Floats) -> Floats:
        """What the predictions score where (S, K) `share` of each cell, dealt at random, has label 1: (S, K)."""
        return self.predicted_share * share + (1.0 - self.predicted_share) * (1.0 - share)

    def means(self, rows: Floats) -> Floats:
        """Cell means, float64 (m, K), of (m, n) values."""
        means: Floats = np.add.reduceat(rows, self.starts, axis=1) / self.counts
        return means

    def curves(self, sharpness: float) -> tuple[Floats, Floats]:
        """For each shift: a cell's share of label 1, and what the predictions score there; two float64 (61, K)."""
        share, score = np.empty((2, len(_SHIFTS), self.cells))
        step = max(1, _BLOCK_ENTRIES // len(self.value))
        for first in range(0, len(_SHIFTS), step):
            block = slice(first, first + step)
            ones = ndtr(sharpness * self.probit + _SHIFTS[block, None])
            share[block] = self.means(ones)
            score[block] = self.means(np.where(self.predicted, ones, 1.0 - ones))
        return share, score

    def by_ranking(self, share: Floats, sharpness: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """What follows for each cell if its label is dealt by the model's own ranking.

        Args:
            share: Of label 1 in each cell, float64 (S, K), in [0, 1].
            sharpness: Of each draw, as index of `SHARPNESS`, int64 (S,).

        Returns:
            The shift for which Phi(a u + shift) has that mean, and what the predictions score then; two float64 (S, K).
        """
        shift, score = np.empty((2, *share.shape))
        for index in np.unique(sharpness):
            rows = np.flatnonzero(sharpness == index)
            shares, scores = self.curves(float(SHARPNESS[index]))
            for k in range(self.cells):
                shift[rows, k] = np.interp(share[rows, k], shares[:, k], _SHIFTS)
                score[rows, k] = np.interp(share[rows, k], shares[:, k], scores[:, k])
        return shift, score

    def held_out_log_likelihoods(self, posterior: CellPosterior) -> Floats:
        """Log probability of the answers at each sharpness, each cell moved to its held-out share, float64 (11,)."""
        share, _ = self.curves(1.0)
        foretold = posterior.held_out_share()
        shifts = np.array([np.interp(foretold[k], share[:, k], _SHIFTS) for k in range(self.cells)])
        return self.log_likelihoods(posterior, shifts)

    def log_likelihoods(self, posterior: CellPosterior, shifts: Floats) -> Floats:
        """Log probability of the answers at each sharpness, probits moved by (K,) `shifts`, float64 (11,)."""
        moved = self.probit + shifts[self.cell]
        found = [posterior.log_likelihood(self.means(ndtr(a * moved)[None])[0]) for a in SHARPNESS]
        return np.asarray(found, dtype=np.float64)

    def most_agreement(self, share: Floats) -> Floats:
        """Largest possible score in a cell of which (S, K) `share` have label 1, float64 (S, K): Frechet's bound.

        1 - |share - predicted share|, less strict by a standard error of the latter, which a few source records tell.
        """
        predicted = self.predicted_share
        rounded = (predicted * self.counts + 1.0) / (self.counts + 2.0)
        error = np.where((predicted > 0) & (predicted < 1), np.sqrt(rounded * (1 - rounded) / (self.counts + 3.0)), 0.0)
        score: Floats = 1.0 - np.maximum(np.abs(share - predicted) - error, 0.0)
        return score

    @cached_property
    def ascending(self) -> NDArray[np.int64]:
        """The records by value, int64 (n,)."""
        return np.argsort(self.value, kind="stable")

    @cached_property
    def place(self) -> Floats:
        """How many records of its cell have a higher value, float64 (n,); equal ones in any order."""
        place = np.empty(len(self.value))
        place[np.lexsort((-self.value, self.cell))] = np.arange(len(self.value)) - self.starts[self.cell]
        return place
