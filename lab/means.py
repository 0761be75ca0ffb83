"""A mean over the repeats of a study, with its interval: as a number, in tables and in files."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
import numpy as np
from scipy.stats import t

from expril.report.numbers import decimal, points, with_error
from expril.report.table import Column, Tone

COVERAGE = 0.95
"""Of every interval."""


class Mean(msgspec.Struct, frozen=True):
    """A mean over runs, with the half width of its interval by Student's t; 0 for a single run."""

    value: float
    error: float
    runs: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Mean":
        """Of at least one run."""
        found = np.array(list(values))
        runs = len(found)
        wide = float(t.ppf((1 + COVERAGE) / 2, runs - 1) * found.std(ddof=1) / math.sqrt(runs)) if runs > 1 else 0.0
        return cls(float(found.mean()), wide, runs)

    @property
    def ends(self) -> tuple[float, float]:
        """Of the interval."""
        return self.value - self.error, self.value + self.error

    @property
    def tone(self) -> Tone:
        """Of a difference: whether its interval lies above 0 or below it; "" where neither, or one run has none."""
        if self.runs < 2 or abs(self.value) <= self.error:
            return ""
        return "above" if self.value > 0 else "below"


def mean_text(mean: Mean | None, form: Callable[[float], str] = decimal) -> str:
    """A mean with half of its interval, where there are several runs; "–" for None."""
    return "–" if mean is None else with_error(form(mean.value), mean.error if mean.runs > 1 else None)


def mean_columns(names: str) -> list[Column[Any]]:
    """Of a file, three for each attribute of these names, apart by spaces: its value, `_error` and `_runs`.

    `_error` is half the width of the interval; what is None is left empty.
    """
    return [
        Column(name if part == "value" else f"{name}_{part}", partial(_filed, name, part))
        for name in names.split()
        for part in ("value", "error", "runs")
    ]


def _filed(name: str, part: str, item: Any) -> str:
    mean: Mean | None = getattr(item, name)
    return "" if mean is None else str(mean.runs) if part == "runs" else points(getattr(mean, part))
