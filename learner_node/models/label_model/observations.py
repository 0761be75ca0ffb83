"""Observations of the label model: the noisy label counts of one partition of the instance space each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.models.label_model.likelihood import Noises, noises_by_label

Floats = NDArray[np.float64]

_LARGEST_COUNT = 1e12


@dataclass(frozen=True)
class Observation:
    """One answered partition; those of one fit may come from several queries, with different noise."""

    cells: NDArray[np.int64]  # Cell of each source record, integer (n_s,), in [0, K). Cells without one are left out.
    # Noisy counts, float64 (K, 2), finite: target records of label 0 (column 0) and of label 1 (column 1), summed over
    # the sites. Integers; others are rounded where it matters.
    counts: Floats
    # Scale of the discrete Laplace noise of one site, P(k) proportional to exp(-|k| / scale); 0 is no noise
    scale: float
    # Number of independent noises in each count, at least 1; or, where they differ, in those of label 0 and of label 1
    noises: Noises = 1
    # None where both counts were asked. Where only their difference was, with so many noises in it, their sum is the
    # cell's expected mass, and this is how far that may be off: see `expected_mass_prior`.
    mass_spread: float | None = None

    @classmethod
    def of_signed(
        cls,
        cells: NDArray[np.int64],
        differences: Floats,
        masses: Floats,
        *,
        spread: float,
        scale: float,
        noises: float,
    ) -> "Observation":
        """An answer of signed counts.

        Args:
            cells: As above.
            differences: Noisy numbers of label 1 less those of label 0, float64 (K,).
            masses: Target records that each source record is expected to stand for, float64 (n_s,), positive.
            spread: As `mass_spread`, positive.
            scale: As above.
            noises: Number of independent noises in each difference.
        """
        mass = np.bincount(cells, weights=masses, minlength=len(differences))
        return cls(cells, 0.5 * np.column_stack([mass - differences, mass + differences]), scale, noises, spread)

    def checked(self, n_source: int) -> "Observation":
        """Return it with int64 cells and counts clipped to 1e12 in magnitude.

        Raises ValueError: A shape, type or range is not as above.
        """
        cells, counts = np.asarray(self.cells), np.asarray(self.counts, dtype=np.float64)
        if counts.ndim != 2 or counts.shape[0] < 1 or counts.shape[1] != 2:
            raise ValueError(f"counts must have shape (K, 2), not {counts.shape}")
        if not np.isfinite(counts).all():
            raise ValueError("counts must be finite")
        if cells.shape != (n_source,) or not np.issubdtype(cells.dtype, np.integer):
            raise ValueError(f"cells must be integers of shape ({n_source},)")
        if cells.min() < 0 or cells.max() >= len(counts):
            raise ValueError(f"cells must lie in [0, {len(counts)})")
        noises_of_zero, noises_of_one = noises_by_label(self.noises)
        if not (np.isfinite(self.scale) and self.scale >= 0) or min(noises_of_zero, noises_of_one) < 1:
            raise ValueError("need a finite scale >= 0 and noises >= 1")
        clipped = np.clip(counts, -_LARGEST_COUNT, _LARGEST_COUNT)
        number: Noises = noises_of_zero if noises_of_zero == noises_of_one else (noises_of_zero, noises_of_one)
        return Observation(cells.astype(np.int64, copy=False), clipped, float(self.scale), number, self.mass_spread)


@dataclass(frozen=True)
class UsedCells:
    """The cells with source records, of one observation after the other, numbered 0 .. U-1."""

    compact: tuple[NDArray[np.int64], ...]  # Per observation, the number of each source record's cell, int64 (n_s,)
    spans: tuple[slice, ...]  # Per observation, its numbers
    counts: Floats  # Noisy counts of the used cells, float64 (U, 2)
    source_counts: Floats  # Source records of the used cells, float64 (U,), at least 1

    @classmethod
    def of(cls, observations: Sequence[Observation]) -> "UsedCells":
        """Number the cells of checked observations, of which there is at least one."""
        compact, spans, counts = [], [], []
        start = 0
        for observation in observations:
            # `np.unique` would sort all records.
            used = np.flatnonzero(np.bincount(observation.cells, minlength=len(observation.counts)))
            numbers = np.zeros(len(observation.counts), np.int64)
            numbers[used] = np.arange(start, start + len(used))
            compact.append(numbers[observation.cells])
            spans.append(slice(start, start + len(used)))
            counts.append(observation.counts[used])
            start += len(used)
        source_counts = np.bincount(np.concatenate(compact)).astype(np.float64)
        return cls(tuple(compact), tuple(spans), np.concatenate(counts), source_counts)
