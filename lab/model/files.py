"""The numbers of the study of in-site models as a CSV file, in percent."""

from functools import partial

from expril.report.files import csv_text
from expril.report.numbers import points
from expril.report.table import Column, attributes
from lab.model.model import Found, Point
from lab.sites.model import Mean


def _of(part: str, name: str, point: Point) -> str:
    mean: Mean | None = getattr(point, part)
    return "" if mean is None else points(getattr(mean, name)) if name != "runs" else str(mean.runs)


POINTS = (
    *attributes("problem way epsilon sites charged"),
    *(
        Column[Point](part if name == "value" else f"{part}_{name}", partial(_of, part, name))
        for part in ("score", "auc", "gain")
        for name in ("value", "error", "runs")
    ),
)


def points_csv(found: Found) -> str:
    """One line for each problem, method and epsilon; `_error` is half the width of a 95 % interval."""
    return csv_text(POINTS, found.points)
