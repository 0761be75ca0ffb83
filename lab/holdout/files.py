"""The numbers of the study of holdouts as a CSV file: accuracies in percent, and signals, of each procedure by step."""

from collections.abc import Iterator
from dataclasses import dataclass

from expril.report.files import csv_text
from expril.report.numbers import points
from expril.report.table import Column
from lab.holdout.model import Found, Shown

PARTS = ("train", "test", "fresh", "believed", "found")


@dataclass(frozen=True)
class _Step:
    """One step of one procedure."""

    shown: Shown
    step: int

    def number(self, part: str, name: str) -> str:
        values: tuple[float, ...] = getattr(getattr(self.shown, part), name)
        return points(values[self.step])


def _column(part: str, name: str) -> Column[_Step]:
    heading = part if name == "mean" else f"{part}_{name}"
    return Column(heading, lambda row: row.number(part, name))


def _of_run(name: str) -> Column[_Step]:
    return Column(name, lambda row: str(getattr(row.shown, name)))


def curves_csv(found: Found) -> str:
    """One line for each setting, procedure, epsilon and step; `_low` and `_high` hold eight of ten data sets."""
    columns = (
        *(_of_run(name) for name in ("setting", "procedure", "epsilon", "runs")),
        Column[_Step]("variables", lambda row: row.step + 1),
        *(_column(part, name) for part in PARTS for name in ("mean", "low", "high")),
    )
    return csv_text(columns, _steps(found))


def _steps(found: Found) -> Iterator[_Step]:
    for shown in found.shown:
        yield from (_Step(shown, step) for step in range(len(shown.fresh.mean)))
