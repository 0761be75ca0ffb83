"""What test records say of a model beside its scores: numbers predicted against observed, and classes confused.

Both are summaries of many test records, never single ones. Over several repeats counts are summed and other values
averaged (`simulations.run.mean_of`). The simulation, which owns the records, computes them.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from learner_node.scores.values import Checked, Share, wilson
from protocol.schema import MOST_MAGNITUDE

Amount = Annotated[float, msgspec.Meta(ge=0, le=2 * MOST_MAGNITUDE)]
"""An error in units of the label."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles of the observed numbers: the ends of the central 90 % and 50 %, and the median."""

Mean = float | None
"""A mean over records; None where a group has none."""


class Agreement(Checked, frozen=True, kw_only=True):
    """Predicted against observed numbers in groups of about equal size by ascending prediction.

    All fields have an entry for each group. A group is empty, with None for its values, where many records have the
    same prediction, since these are never parted.
    """

    counts: tuple[int, ...]  # records
    predicted: tuple[Mean, ...]  # mean prediction
    observed: tuple[Mean, ...]  # mean observed number
    observed_error: tuple[Mean, ...]  # standard error of that mean, from the spread among one repeat's records
    quantiles: tuple[tuple[Mean, ...], ...]  # of the observed numbers, at `QUANTILES`

    def __post_init__(self) -> None:
        columns = (self.predicted, self.observed, self.observed_error, self.quantiles)
        if any(len(column) != len(self.counts) for column in columns):
            raise ValueError("an agreement has one count, prediction, observation, error and row of quantiles a group")
        super().__post_init__()


class Confusion(Checked, frozen=True, kw_only=True):
    """How many test records of each class are called what, summed over repeats."""

    counts: tuple[tuple[int, ...], ...]  # a row for each actual class, a column for each predicted one
    repeats: int = 1  # over which they are summed

    def __post_init__(self) -> None:
        if any(len(row) != len(self.counts) for row in self.counts):
            raise ValueError("a confusion table has as many columns as rows")
        super().__post_init__()

    def recall(self, number: int) -> "ShareOfRecords":
        """Of the records of a class, the share that is called so."""
        return self._share(number, self.counts[number])

    def precision(self, number: int) -> "ShareOfRecords":
        """Of the records that are called so, the share that is of the class."""
        return self._share(number, [row[number] for row in self.counts])

    def _share(self, number: int, records: Sequence[int]) -> "ShareOfRecords":
        total = sum(records)
        if not total:
            return ShareOfRecords(records=0.0)
        value, tested = records[number] / total, total / self.repeats
        low, high = wilson(value, tested)
        return ShareOfRecords(records=tested, value=value, low=low, high=high)


class ShareOfRecords(Checked, frozen=True, kw_only=True):
    """A share of test records with its 95 % interval (Wilson 1927).

    The interval is that of as many records as one repeat has. Repeats split the same records anew, so their number
    makes the share steadier, but adds no patients.
    """

    records: float  # mean number over repeats
    value: Share | None = None  # over all repeats; None without records
    low: Share | None = None
    high: Share | None = None
