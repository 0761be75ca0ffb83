"""What most studies of the laboratory find: averages over runs that share some names, and tables of them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from expril.report.document import Document, Section
from expril.report.provenance import Provenance
from expril.report.table import Column
from simulations.campaign.store import Task

Item = TypeVar("Item")
WANTED = 0.93
"""Of intervals of 95 %, this share shall hold."""


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cell that is numbers alone.

    Attributes:
        problem, maker, epsilon, seed: as of its task.
        numbers: by name.
        seconds: that it took.
    """

    problem: str
    maker: str
    epsilon: str
    seed: int
    numbers: dict[str, float]
    seconds: float

    @property
    def key(self) -> Task:
        """Which run it is."""
        return Task(self.problem, self.maker, self.epsilon, self.seed)


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

    def text(self, form: str, factor: float = 1.0) -> str:
        """Value ± error, both times a factor; the value alone of a single run. The error has no sign."""
        value = f"{factor * self.value:{form}}"
        return f"{value} ± {factor * self.error:{form.removeprefix('+')}}" if self.runs > 1 else value


Summary = Callable[[Sequence[Any]], Mean | float]
"""Runs -> a number of them."""


def mean(value: Callable[[Any], float]) -> Summary:
    """The mean of a number of each run, with its error."""
    return lambda runs: Mean.of([value(run) for run in runs])


def plain(value: Callable[[Any], float]) -> Summary:
    """The mean alone."""
    return lambda runs: float(np.mean([value(run) for run in runs]))


class Average(msgspec.Struct, frozen=True):
    """Runs that share their names.

    Attributes:
        names: what they share.
        runs: how many.
        numbers: by name.
    """

    names: tuple[str, ...]
    runs: int
    numbers: dict[str, Mean | float]

    def value(self, name: str) -> float:
        """A number without its error."""
        number = self.numbers[name]
        return number.value if isinstance(number, Mean) else number


class Averages(msgspec.Struct, frozen=True):
    """What the runs of a study say, in the order in which it is shown."""

    rows: tuple[Average, ...]
    provenance: Provenance | None = None


def averages(
    named: Iterable[tuple[tuple[str, ...], Item]],
    numbers: Mapping[str, Summary],
    order: Sequence[Callable[[str], Any]],
    provenance: Provenance | None,
) -> Averages:
    """Average runs by their names.

    Args:
        named: names and run, once for each row that it is in.
        numbers: name -> what is made of a row's runs.
        order: of each name, a key that sorts it.
        provenance: of the runs.
    """
    groups: dict[tuple[str, ...], list[Item]] = defaultdict(list)
    for names, item in named:
        groups[names].append(item)
    ordered = sorted(groups, key=lambda names: [rank(name) for rank, name in zip(order, names, strict=True)])
    rows = (
        Average(names, len(groups[names]), {name: make(groups[names]) for name, make in numbers.items()})
        for names in ordered
    )
    return Averages(tuple(rows), provenance)


def names(headings: str, first: int = 0) -> list[Column[Average]]:
    """Columns of the names from a place on; headings are apart by semicolons."""
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
) -> Column[Average]:
    """A column of a number, times a factor; marked with (!) where it is not `fine`."""

    def show(row: Average) -> str:
        value = row.numbers[name]
        return marked(
            value.text(form, factor) if isinstance(value, Mean) else f"{factor * value:{form}}", fine=fine(row)
        )

    return Column(heading, show, number=True)


def covers(share: float, runs: int, forgiven: float) -> bool:
    """Whether at least `WANTED` of the intervals hold, less so many standard errors of that share."""
    return share >= WANTED - forgiven * float(np.sqrt(WANTED * (1.0 - WANTED) / runs))


def marked(text: str, *, fine: bool) -> str:
    """A number, with (!) where it misses its bar."""
    return text if fine else f"{text} (!)"


def summary(
    study: str, headline: str, page: str, sections: Sequence[Section], provenance: Provenance | None
) -> Document:
    """The document of a study whose tables a page of docs explains."""
    return Document(
        kind=f"ExPriL: {study}",
        subject=f"docs/{page}",
        headline=headline,
        sections=sections,
        note=f"docs/{page} says what the tables show.",
        sources=[(f"Study of {study}", provenance)],
    )
