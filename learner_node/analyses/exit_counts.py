"""Exits by time bin and event, as linear maps of a table's cells: how many had an event, how many were at risk.

All that survival analysis needs is linear in the cells: events of a bin, numbers at risk, person-time. Noise therefore
adds to it with mean 0 and a law that is known, and the estimating equations of `hazard_functionals` stay unbiased.
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
        expected: whether the values are counts that a quote expects, to be read as if noise would come.
    """

    values: Floats
    ends: tuple[float, ...]
    noise: NoiseLaw
    most_records_per_unit: int = 1
    expected: bool = False

    @property
    def bins(self) -> int:
        """Number of time bins L before the horizon."""
        return len(self.ends)

    @property
    def causes(self) -> int:
        """Number of causes K."""
        return int(self.values.shape[-1]) - 1

    @property
    def late_entry(self) -> bool:
        """Whether the cells tell entry times."""
        return self.values.ndim == 3

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

        Each is the mean of n given its answer, under the noise's exact law and a prior in proportion to 1 / (n + 1/2).
        """
        return self.cells if self.noise.exact or self.expected else posterior_means(self.cells, self.noise)

    def event_map(self, cause: int | None = None) -> Floats:
        """0 or 1 for the cells whose records have an event of this cause (None: any) in a bin, (L, cells)."""
        chosen = np.zeros((self.bins, *self.values.shape))
        for index in range(self.bins):
            chosen[(index, ..., index, slice(0, self.causes) if cause is None else cause)] = 1.0
        if self.late_entry:  # who exits before the bin of entry was never at risk
            for index in range(self.bins):
                chosen[index, index + 2 :] = 0.0
        return chosen.reshape(self.bins, -1)

    def risk_map(
        self, missed: float | Floats = ACTUARIAL, waited: float = ACTUARIAL, cause: int | None = None
    ) -> Floats:
        """The part of each bin for which a cell's records are at risk, (L, cells).

        Args:
            missed: part of the bin that the censored miss: 1 if all leave at its start, 0 at its end; or (L,).
            waited: part of the bin before which its late entrants come.
            cause: the only one whose events are not taken as censored; None: no event is.
        """
        censored = [self.causes] if cause is None else [index for index in range(self.causes + 1) if index != cause]
        parts = np.zeros((self.bins, *self.values.shape))
        misses = np.broadcast_to(missed, self.bins)
        for index in range(self.bins):
            parts[index, ..., index:, :] = 1.0
            parts[index, ..., index, censored] = 1.0 - misses[index]
            if self.late_entry:
                parts[index, index + 2 :] = 0.0
                parts[index, index + 1] -= waited
                parts[index, index + 1, :index] = 0.0
                parts[index, index + 1] = np.maximum(parts[index, index + 1], 0.0)
        return parts.reshape(self.bins, -1)

    def time_map(self, missed: float = ACTUARIAL) -> Floats:
        """Person-time before the horizon of a record of each cell, with events in the middle of bins.

        Args:
            missed: part of the bin that the censored miss, and before which late entrants come.
        """
        starts = np.concatenate([[0.0], self.ends[:-1]])
        middles = np.append(starts + self.widths / 2, self.ends[-1])
        times = np.repeat(middles[:, None], self.causes + 1, axis=1)
        times[:-1, self.causes] = starts + (1.0 - missed) * self.widths
        if self.late_entry:
            entries = np.concatenate([[0.0], starts + missed * self.widths, [self.ends[-1]]])
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


def posterior_means(values: Floats, noise: NoiseLaw) -> Floats:
    """Means of counts n >= 0 given noisy values, of that shape, with a prior in proportion to 1 / (n + 1/2).

    Laws broader than 25 records are summed over every so many counts only.
    """
    deviation = noise.variance**0.5
    stride = max(1, int(deviation / 25))
    reach = int(min(noise.width, 14 * deviation + 10)) // stride
    rounded = np.maximum(np.rint(values).astype(np.int64), -noise.width)
    counts = np.maximum(rounded, 0)[:, None] + stride * np.arange(-reach, reach + 1)
    logs = np.where(counts >= 0, -np.log(np.maximum(counts, 0) + 0.5), -np.inf)
    differences = np.where(counts >= 0, rounded[:, None] - counts, 0)
    logs = logs + noise.log_pmf(differences)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    means: Floats = (weights * np.maximum(counts, 0)).sum(axis=1) / weights.sum(axis=1)
    return means
