"""Sets of outcomes that tell two inputs apart."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.game.cells import Cells
from expril.audit.attack.game.outcomes import Rows
from expril.audit.attack.game.statistics import Statistic

_SHOWN, _SHOWN_OF = 3, 2000


@dataclass(frozen=True)
class Between:
    """Outcomes whose statistic lies between two values, or does not.

    Attributes:
        statistic: an ordered one.
        low: least value that is between; None: no least.
        high: greatest value that is between, or, where `below`, the first that is not; None: no greatest.
        below: whether `high` itself is not between.
        outside: whether the event is that the value is not between.
    """

    statistic: Statistic
    low: Any
    high: Any
    below: bool
    outside: bool = False

    def holds(self, rows: Rows) -> NDArray[np.bool_]:
        """(n,) whether each outcome is in it."""
        values = self.statistic.of(rows)
        between = np.ones(len(values), np.bool_)
        if self.low is not None:
            between &= values >= self.low
        if self.high is not None:
            between &= values < self.high if self.below else values <= self.high
        return between ^ self.outside

    def words(self, rows: Rows) -> str:  # noqa: ARG002
        """What it is."""
        if self.low is None and self.high is None:
            return f"{self.statistic.name} is anything"
        if self.low is not None and self.low == self.high:
            return f"{self.statistic.name} is {'not ' if self.outside else ''}{self.low:.6g}"
        under, over = ("below", "at least") if self.below else ("at most", "above")
        if self.outside:
            sides = [f"below {self.low:.6g}"] if self.low is not None else []
            sides += [f"{over} {self.high:.6g}"] if self.high is not None else []
            return f"{self.statistic.name} is {' or '.join(sides)}"
        sides = [f"at least {self.low:.6g}"] if self.low is not None else []
        sides += [f"{under} {self.high:.6g}"] if self.high is not None else []
        return f"{self.statistic.name} is {' and '.join(sides)}"


@dataclass(frozen=True)
class Likelier:
    """Outcomes whose statistic has a value, or is in a bin, that came much more often under one input.

    Attributes:
        statistic: that it is about.
        cells: of the statistic.
        scores: (m + 1,) logarithm of the ratio that was learned of each cell; the last is that of values in none.
        threshold: an outcome is in the event where its cell's score is at least this.
    """

    statistic: Statistic
    cells: Cells
    scores: NDArray[np.float64]
    threshold: float

    def score(self, rows: Rows) -> NDArray[np.float64]:
        """(n,) score of each outcome."""
        return self.scores[self.cells.of(self.statistic.of(rows))]

    def holds(self, rows: Rows) -> NDArray[np.bool_]:
        """(n,) whether each outcome is in it."""
        return self.score(rows) >= self.threshold

    def words(self, rows: Rows) -> str:
        """What it is, with examples from `rows`, outcomes of which some are in the event."""
        name, inside = self.statistic.name, rows[self.holds(rows)]
        if not len(inside):
            return f"{name} is one of those learned"
        columns = list(self.statistic.columns)
        values = inside[:, columns] if columns else self.statistic.of(inside)[:, None]
        shown = [_text(value) for value in np.unique(values[:_SHOWN_OF], axis=0)[: _SHOWN + 1]]
        if not self.cells.exact:
            return f"{name} is in one of the intervals learned, as {shown[0]} is"
        if len(shown) > _SHOWN:
            return f"{name} is one of {int((self.scores >= self.threshold).sum())} learned, such as {shown[0]}"
        return f"{name} is {' or '.join(shown)}"


Event = Between | Likelier


def _text(values: NDArray[Any]) -> str:
    if len(values) == 1:
        return f"{values[0]:.6g}"
    return np.array2string(values, separator=", ", max_line_width=10**6, threshold=16)
