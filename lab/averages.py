"""What most studies of the laboratory find: means of runs, averages over those that share names, and tables of them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self

import msgspec
import numpy as np
from scipy.stats import t

from expril.report.chart import Figure, Place, Series, line_chart, log_axis
from expril.report.numbers import decimal, points, with_error
from expril.report.provenance import Provenance
from expril.report.table import Column, Tone
from lab.cells import Item, Rank, grouped

COVERAGE = 0.95  # of an interval
WANTED = 0.93  # of intervals of 95 %, this share shall hold


class Mean(msgspec.Struct, frozen=True):
    """A mean of runs."""

    value: float
    error: float  # standard error; 0 of a single run
    runs: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """The mean of at least one value."""
        sample = np.array(list(values), float)
        return cls(float(sample.mean()), cls.spread(sample) if len(sample) > 1 else 0.0, len(sample))

    @classmethod
    def of_any(cls, values: Iterable[float]) -> Self | None:
        """The mean of these values, None where there are none."""
        sample = list(values)
        return cls.of(sample) if sample else None

    @staticmethod
    def spread(values: Any) -> float:
        """The error of at least two values."""
        return float(values.std(ddof=1) / math.sqrt(len(values)))

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the interval: value minus error, value plus error."""
        return self.value - self.error, self.value + self.error

    def text(self, form: str, factor: float = 1.0) -> str:
        """Value ± error, both times a factor. A single run has its value alone. The error has no sign."""
        value = f"{factor * self.value:{form}}"
        return f"{value} ± {factor * self.error:{form.removeprefix('+')}}" if self.runs > 1 else value


class Interval(Mean, frozen=True):
    """A mean of runs, with the half width of its interval by Student's t."""

    @staticmethod
    def spread(values: Any) -> float:
        """Half of the interval's width, by Student's t."""
        runs = len(values)
        return float(t.ppf((1 + COVERAGE) / 2, runs - 1) * values.std(ddof=1) / math.sqrt(runs))

    @property
    def tone(self) -> Tone:
        """The side of 0 on which a difference's interval lies, "above" or "below"; "" where it holds 0."""
        if self.runs < 2 or abs(self.value) <= self.error:
            return ""
        return "above" if self.value > 0 else "below"


class Deviation(Mean, frozen=True):
    """A mean of runs, with their standard deviation."""

    error: float = msgspec.field(name="deviation")

    @staticmethod
    def spread(values: Any) -> float:
        """The deviation of a sample."""
        return float(values.std(ddof=1))


def mean_text(mean: Mean | None, form: Callable[[float], str] = decimal, digits: int = 1) -> str:
    """A mean with its error, where there are several runs; "–" for None."""
    return "–" if mean is None else with_error(form(mean.value), mean.error if mean.runs > 1 else None, digits)


def mean_columns(names: str) -> list[Column[Any]]:
    """Three columns of a CSV file for each name in a text with spaces: value, `_error` and `_runs`.

    None leaves a cell empty.
    """
    return [
        Column(name if part == "value" else f"{name}_{part}", partial(_filed, name, part))
        for name in names.split()
        for part in ("value", "error", "runs")
    ]


def _filed(name: str, part: str, item: Any) -> str:
    mean: Mean | None = getattr(item, name)
    return "" if mean is None else str(mean.runs) if part == "runs" else points(getattr(mean, part))


Summary = Callable[[Sequence[Any]], Mean | float]  # runs -> a number of them


Value = Callable[[Any], float] | str  # a run -> a number of it, or the name of one of a `Run`


def mean(value: Value) -> Summary:
    """The mean of a number of each run, with its error."""
    return lambda runs: Mean.of(_values(value, runs))


def plain(value: Value) -> Summary:
    """The mean alone."""
    return lambda runs: float(np.mean(_values(value, runs)))


def _values(value: Value, runs: Iterable[Any]) -> list[float]:
    return [run.numbers[value] if isinstance(value, str) else value(run) for run in runs]


class Average(msgspec.Struct, frozen=True):
    """Runs that share their names."""

    names: tuple[str, ...]  # what they share
    runs: int
    numbers: dict[str, Mean | float]

    def value(self, name: str) -> float:
        """A number without its error."""
        number = self.numbers[name]
        return number.value if isinstance(number, Mean) else number


class Averages(msgspec.Struct, frozen=True):
    """Averages of a study's runs, in the order of its tables."""

    rows: tuple[Average, ...]
    provenance: Provenance | None = None


def averages(
    named: Iterable[tuple[tuple[str, ...], Item]],
    numbers: Mapping[str, Summary],
    order: Sequence[Rank],
    provenance: Provenance | None,
) -> Averages:
    """Average runs by their names.

    `named` has (names, run) once for each row that a run is in. `numbers` has, by name, the function of a row's runs.
    """
    rows = []
    for names, pairs in grouped(named, lambda pair: pair[0], *order).items():
        runs = [run for _, run in pairs]
        rows.append(Average(names, len(runs), {name: make(runs) for name, make in numbers.items()}))
    return Averages(tuple(rows), provenance)


def names(headings: str, first: int = 0) -> list[Column[Average]]:
    """Columns of the names from the index `first` on; headings are separated by semicolons."""
    return [
        Column(heading, lambda row, at=at: row.names[at], names=True)  # type: ignore[misc]
        for at, heading in enumerate(headings.split("; "), first)
    ]


RUNS: Column[Average] = Column("runs", lambda row: row.runs, number=True)


def number(
    heading: str,
    name: str,
    form: str,
    factor: float = 1.0,
    fine: Callable[[Average], bool] = lambda _row: True,
    title: str = "",
) -> Column[Average]:
    """A column of a number, times a factor; marked with (!) where it is not `fine`."""

    def show(row: Average) -> str:
        value = row.numbers[name]
        return marked(
            value.text(form, factor) if isinstance(value, Mean) else f"{factor * value:{form}}", fine=fine(row)
        )

    return Column(heading, show, number=True, title=title)


def covers(share: float, runs: int, forgiven: float) -> bool:
    """Whether at least `WANTED` of the intervals hold, less `forgiven` standard errors of that share."""
    return share >= WANTED - forgiven * float(np.sqrt(WANTED * (1.0 - WANTED) / runs))


def marked(text: str, *, fine: bool) -> str:
    """A number, with (!) where it misses its bar."""
    return text if fine else f"{text} (!)"


def log_chart(
    name: str, lines: Sequence[Series], steps: Iterable[float], across: str, *, left: float = 14.0, **more: Any
) -> Figure:
    """A chart of named lines over a logarithmic axis that begins at `left`; `more` goes to `line_chart`."""
    axis = log_axis((place.x for line in lines for place in line.places), left=left, right=108 - left)
    return line_chart(name, lines, axis, steps, across=f"{across}, logarithmic", **more)


def mean_place(x: float, mean: Mean, text: str) -> Place:
    """A mean in a chart."""
    return Place(x, mean.value, mean.ends, text)
