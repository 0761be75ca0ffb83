"""How far what is said is from what is so, over many runs: means with their errors, and how often intervals hold."""

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from expril.report.provenance import Provenance

Row = TypeVar("Row")

WANTED = 0.93
"""Of intervals of 95 %, this share shall hold."""
FORGIVEN = 2.0
"""Standard errors by which `Coverage` lets a bar be missed."""


class Rows(msgspec.Struct, Generic[Row], frozen=True):
    """What the runs of a study say, in the order in which it is shown."""

    rows: tuple[Row, ...]
    provenance: Provenance | None = None


class Mean(msgspec.Struct, frozen=True):
    """A mean of runs.

    Attributes:
        value: of it.
        error: standard error; 0 of a single run.
        runs: how many.
    """

    value: float
    error: float
    runs: int

    @classmethod
    def of(cls, values: ArrayLike) -> "Mean":
        """Of at least one value."""
        array = np.asarray(values, float)
        count = len(array)
        return cls(float(array.mean()), float(array.std(ddof=1) / np.sqrt(count)) if count > 1 else 0.0, count)

    def text(self, form: str, *, factor: float = 1.0) -> str:
        """Value ± error; the value alone of a single run.

        Args:
            form: of the value; the error has no sign.
            factor: by which both are multiplied, such as 100 for points.
        """
        value = f"{factor * self.value:{form}}"
        return f"{value} ± {factor * self.error:{form.removeprefix('+')}}" if self.runs > 1 else value


class Coverage(msgspec.Struct, frozen=True):
    """What intervals said of runs; in points.

    Attributes:
        bias: what was expected less what was so.
        half_width: of the intervals, mean.
        holds: share of intervals that hold.
    """

    bias: Mean
    half_width: float
    holds: float

    @classmethod
    def of(cls, rows: Sequence[tuple[float, float, float, float, bool]]) -> "Coverage":
        """Of (expected, found, low, high, holds), shares."""
        runs = np.array(rows, float)
        return cls(
            Mean.of(100.0 * (runs[:, 0] - runs[:, 1])),
            50.0 * float(np.mean(runs[:, 3] - runs[:, 2])),
            float(np.mean(runs[:, 4])),
        )

    @property
    def biased(self) -> bool:
        """Whether the bias is over a fifth of the half-width; two standard errors are forgiven."""
        return abs(self.bias.value) > self.half_width / 5.0 + FORGIVEN * self.bias.error

    @property
    def covers(self) -> bool:
        """Whether the intervals hold as often as is wanted; two standard errors are forgiven."""
        return covers(self.holds, self.bias.runs, FORGIVEN)


def covers(share: float, runs: int, forgiven: float) -> bool:
    """Whether at least `WANTED` of the intervals hold, less so many standard errors of that share."""
    return share >= WANTED - forgiven * float(np.sqrt(WANTED * (1.0 - WANTED) / runs))


def marked(text: str, *, fine: bool) -> str:
    """A number, with (!) where it misses its bar."""
    return text if fine else f"{text} (!)"
