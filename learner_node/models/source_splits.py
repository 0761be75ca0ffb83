"""Where to cut a leaf of a growing tree: every cut of every coordinate at once, by running sums over sorted records."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.errors import ConfigurationError
from protocol.partitions.tree_leaves import MOST_NODES

MOST_LEAVES = MOST_NODES + 1
CHUNK_ENTRIES = 2_000_000
"""Cuts that are compared at once (16 MB for each running sum)."""
LEAST_GAIN = 1e-9
"""Less than this share of the target's sum of squares is rounding."""


@dataclass(frozen=True)
class Split:
    """One cut.

    Attributes:
        gain: what it takes from the target's sum of squares; 0 for an even cut.
        coordinate: of the points.
        threshold: in grid steps; records at or above it go to the second side.
    """

    gain: float
    coordinate: int
    threshold: int


@dataclass(frozen=True)
class Part:
    """The source's records of one leaf.

    Attributes:
        order: (width, m) int32; row j holds the m record numbers sorted by coordinate j, ties by number.
        weight: their total weight.
        split: the best cut; None where none is possible.
    """

    order: NDArray[np.int32]
    weight: float
    split: Split | None

    def emptied(self) -> "Part":
        """Without its records, which its sides hold now."""
        return Part(self.order[:, :0], self.weight, self.split)


@dataclass(frozen=True)
class SplitSearch:
    """What all leaves share.

    Attributes:
        steps: (width, n) int32 grid steps of the points.
        weights: (n,) of the records.
        targets: (t, n), each row of weighted mean 0; t = 0 without a target.
        least: records on each side of a cut.
        least_gain: gains up to this are rounding.
    """

    steps: NDArray[np.int32]
    weights: NDArray[np.float64]
    targets: NDArray[np.float64]
    least: int
    least_gain: float

    @classmethod
    def of(
        cls,
        points: NDArray[np.float64],
        target: NDArray[np.float64] | None,
        weights: NDArray[np.float64] | None,
        least: int,
    ) -> "SplitSearch":
        """See `learner_node.models.partitions.tree_leaves`.

        Raises:
            ConfigurationError: a target or weights of another length, not finite, or weights below 0 or all 0.
        """
        n = len(points)
        heavy = np.ones(n) if weights is None else np.asarray(weights, np.float64)
        if heavy.shape != (n,) or not (np.isfinite(heavy) & (heavy >= 0)).all() or (n and not heavy.any()):
            raise ConfigurationError(f"weights must be {n} finite numbers, none below 0 and not all of them 0")
        wanted = np.empty((n, 0)) if target is None else np.asarray(target, np.float64)
        wanted = wanted[:, None] if wanted.ndim == 1 else wanted
        if wanted.ndim != 2 or len(wanted) != n or not np.isfinite(wanted).all():
            raise ConfigurationError(f"the target must be finite, one number or one row for each of {n} records")
        targets = np.ascontiguousarray(wanted.T)
        if n:
            targets = targets - (targets @ heavy / heavy.sum())[:, None]
        squares = float((targets**2 @ heavy).sum())
        steps = np.ascontiguousarray(points.T, dtype=np.int32)
        return cls(steps, heavy, targets, least, LEAST_GAIN * squares)

    def root(self) -> Part:
        """All records."""
        return self._part(np.argsort(self.steps, axis=1, kind="stable").astype(np.int32))

    @staticmethod
    def priority(part: Part) -> tuple[float, float]:
        """What is cut first comes first: the greatest gain, then the greatest weight."""
        return (-part.split.gain if part.split else 0.0, -part.weight)

    def cut(self, part: Part) -> tuple[Part, Part]:
        """The two sides of a part's best cut, below and above the threshold."""
        split = part.split
        if split is None:
            raise ValueError("this part cannot be cut")
        above = self.steps[split.coordinate] >= split.threshold
        sides = above[part.order]
        width = len(part.order)
        return self._part(part.order[~sides].reshape(width, -1)), self._part(part.order[sides].reshape(width, -1))

    def _part(self, order: NDArray[np.int32]) -> Part:
        weight = float(self.weights[order[0]].sum())
        return Part(order, weight, self._best(order))

    def _best(self, order: NDArray[np.int32]) -> Split | None:
        """The best cut of sorted records: by gain, or by an even cut where nothing is gained."""
        even: tuple[float, int, int] | None = None
        guided: tuple[float, int, int] | None = None
        for start, values, part in self._chunks(order):
            lawful = values[:, :-1] < values[:, 1:]
            lawful[:, : self.least - 1] = False
            lawful[:, values.shape[1] - self.least :] = False
            if not lawful.any():
                continue
            running = np.cumsum(self.weights[part], axis=1)
            below, total = running[:, :-1], running[:, -1:]
            # The last of a running sum may differ in its last bit from coordinate to coordinate.
            above = np.maximum(total - below, 0.0)
            spread = values.var(axis=1, dtype=np.float64)[:, None]
            evenness = np.where(lawful, spread * below * above / np.maximum(total, np.finfo(float).tiny) ** 2, -np.inf)
            even = _better(even, evenness, start, values)
            if len(self.targets):
                gains = np.where(lawful, self._gains(part, below, above, total), -np.inf)
                guided = _better(guided, gains, start, values)
        if guided is not None and guided[0] > self.least_gain:
            return Split(*guided)
        return None if even is None else Split(0.0, even[1], even[2])

    def _chunks(self, order: NDArray[np.int32]) -> Iterator[tuple[int, NDArray[np.int32], NDArray[np.int32]]]:
        """(first coordinate, sorted values, record numbers) of a few coordinates at a time."""
        count = order.shape[1]
        if count < 2 * self.least:
            return
        rows = max(1, CHUNK_ENTRIES // count)
        for start in range(0, len(order), rows):
            part = order[start : start + rows]
            yield start, np.take_along_axis(self.steps[start : start + rows], part, axis=1), part

    def _gains(
        self,
        part: NDArray[np.int32],
        below: NDArray[np.float64],
        above: NDArray[np.float64],
        total: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """What each cut takes from the weighted sum of squares: S_b^2 / W_b + S_a^2 / W_a - S^2 / W."""
        gains = np.zeros_like(below)
        for target in self.targets:
            sums = np.cumsum((self.weights * target)[part], axis=1)
            first, whole = sums[:, :-1], sums[:, -1:]
            gains += _ratio(first**2, below) + _ratio((whole - first) ** 2, above) - _ratio(whole**2, total)
        return gains


def _ratio(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quotients, 0 where the weight below is 0."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def _better(
    best: tuple[float, int, int] | None, scores: NDArray[np.float64], start: int, values: NDArray[np.int32]
) -> tuple[float, int, int]:
    """The better of the best so far and the best of `scores`, as (score, coordinate, threshold); ties to the first."""
    row, position = divmod(int(np.argmax(scores)), scores.shape[1])
    score = float(scores[row, position])
    if best is not None and best[0] >= score:
        return best
    low, high = int(values[row, position]), int(values[row, position + 1])
    return score, start + row, (low + high + 1) // 2
