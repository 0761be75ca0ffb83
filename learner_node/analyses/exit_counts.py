"""Exits by time bin and event, as linear maps of a table's cells: how many had an event, how many were at risk.

Everything that survival analysis needs is linear in the cells: events of a bin, numbers at risk, person-time. Noise
therefore adds to it with mean 0 and a law that is known, and estimating equations in `hazard_functionals` stay unbiased.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from learner_node.analyses.noise_law import NoiseLaw

Floats = NDArray[np.float64]
ACTUARIAL = 0.5
"""Part of its bin that a censored record is taken to miss."""
ORIGIN = 1e-9
"""First edge of entry times: entries below it are at risk from the origin."""


@dataclass(frozen=True)
class ExitCounts:
    """The cells of one group, which may be noisy.

    Args:
        values: noisy counts, float64. Without delayed entry (bins + 1, causes + 1): exits by time bin, the last row
            beyond the horizon, and by cause, the last column censored. With it (bins + 2, bins + 1, causes + 1): by
            entry first; row 0 entered at the origin, row j within bin j, the last at the horizon or later.
        ends: ends of the bins, rising; the last is the horizon. Bin 1 begins at time 0.
        noise: in each cell.
        most_records_per_unit: c, by which the variance of sampling is multiplied.
    """

    values: Floats
    ends: tuple[float, ...]
    noise: NoiseLaw
    most_records_per_unit: int = 1

    @property
    def bins(self) -> int:
        """Number of time bins L before the horizon."""
        return len(self.ends)

    @property
    def causes(self) -> int:
        """Number of causes K."""
        return self.values.shape[-1] - 1

    @property
    def late_entry(self) -> bool:
        """Whether the cells tell entry times."""
        return self.values.ndim == 3  # noqa: PLR2004 - entry, exit, cause

    @cached_property
    def widths(self) -> Floats:
        """Lengths of the bins, (L,)."""
        return np.diff([0.0, *self.ends])

    @cached_property
    def cells(self) -> Floats:
        """The values in one row."""
        return self.values.reshape(-1)

    @cached_property
    def smooth(self) -> Floats:
        """Counts of no negative value for weights, variances and display, in one row; without noise the counts.

        The counts of each event are drawn to their mean over bins as far as noise explains how they differ, and then
        moved up to 0 with the total kept.
        """
        if self.noise.exact:
            return self.cells
        if self.late_entry:
            return _without_negatives(self.cells)
        values = self.values.copy()
        for column in values.T:
            column[:-1] = _drawn_together(column[:-1], self.noise.variance)
        return _without_negatives(values.reshape(-1))

    def event_map(self, cause: int | None = None) -> Floats:
        """0 or 1 for the cells whose records have an event of this cause (None: any) in a bin, (L, cells)."""
        chosen = np.zeros((self.bins, *self.values.shape))
        for index in range(self.bins):
            chosen[(index, ..., index, slice(0, self.causes) if cause is None else cause)] = 1.0
        if self.late_entry:  # who exits before the bin of entry was never at risk
            for index in range(self.bins):
                chosen[index, index + 2 :] = 0.0
        return chosen.reshape(self.bins, -1)

    def risk_map(self, missed: float = ACTUARIAL, waited: float = ACTUARIAL) -> Floats:
        """The part of each bin for which a cell's records are at risk, (L, cells).

        Args:
            missed: part of the bin that the censored miss: 1 if all leave at its start, 0 at its end.
            waited: part of the bin before which its late entrants come.
        """
        parts = np.zeros((self.bins, *self.values.shape))
        for index in range(self.bins):
            parts[index, ..., index:, :] = 1.0
            parts[index, ..., index, self.causes] = 1.0 - missed
            if self.late_entry:
                parts[index, index + 2 :] = 0.0
                parts[index, index + 1] -= waited
                parts[index, index + 1, :index] = 0.0
                parts[index, index + 1] = np.maximum(parts[index, index + 1], 0.0)
        return parts.reshape(self.bins, -1)

    def time_map(self) -> Floats:
        """Person-time before the horizon of a record of each cell, with exits and entries in the middle of bins."""
        starts = np.concatenate([[0.0], self.ends[:-1]])
        middles = np.append(starts + self.widths / 2, self.ends[-1])
        times = np.broadcast_to(middles[:, None], self.values.shape[-2:])
        if self.late_entry:
            entries = np.concatenate([[0.0], middles])
            times = np.maximum(times[None] - entries[:, None, None], 0.0)
        return times.reshape(-1).copy()

    def start_map(self) -> Floats:
        """1 for the cells whose records are at risk at the start of a bin and at the horizon, (L + 1, cells)."""
        start = np.zeros((self.bins + 1, *self.values.shape))
        for index in range(self.bins + 1):
            start[index, ..., index:, :] = 1.0
            if self.late_entry:
                start[index, index + 1 :] = 0.0
        return start.reshape(self.bins + 1, -1)


def _drawn_together(values: Floats, variance: float) -> Floats:
    """Values drawn to their mean by the share of noise in their variance; their sum stays."""
    if len(values) < 2:  # noqa: PLR2004 - one value has no spread
        return values
    mean, spread = float(values.mean()), float(values.var(ddof=1))
    kept = max(0.0, 1.0 - variance / spread) if spread > 0 else 0.0
    return mean + kept * (values - mean)


def _without_negatives(values: Floats) -> Floats:
    """The nearest values of at least 0 that have the same sum, or 1 if that is less."""
    total = max(float(values.sum()), 1.0)
    ordered = np.sort(values)[::-1]
    shifts = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(ordered > shifts)[-1])
    return np.maximum(values - shifts[last], 0.0)
