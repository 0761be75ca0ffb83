"""The numbers of the study of sites as CSV files; accuracies are in percent, variances in those of one noise."""

from functools import partial

from expril.report.files import csv_text
from expril.report.numbers import points
from expril.report.table import Column, attributes
from lab.sites.model import Found, Mean, Point


def _of(part: str, name: str, point: Point) -> str:
    mean: Mean | None = getattr(point, part)
    return "" if mean is None else points(getattr(mean, name)) if name != "runs" else str(mean.runs)


_MEANS = ("local", "secure", "gain", "auc_gain")
POINTS = (
    *attributes("problem epsilon sites"),
    *(
        Column[Point](part if name == "value" else f"{part}_{name}", partial(_of, part, name))
        for part in _MEANS
        for name in ("value", "error", "runs")
    ),
)
_four = "{:.4f}".format
NOISE = (*attributes("sites colluders dropouts shares"), *attributes("bound measured low high local", _four))
FATES = (*attributes("sites dropouts silent step rounds opened failed_at summed charged"), *attributes("noise", _four))


def points_csv(found: Found) -> str:
    """One line for each problem, epsilon and number of sites; `_error` is half the width of a 95 % interval."""
    return csv_text(POINTS, found.points)


def noise_csv(found: Found) -> str:
    """One line for each number of sites: the bound n / h, and the variance that was measured."""
    return csv_text(NOISE, found.opened)


def fates_csv(found: Found) -> str:
    """One line for each plan, step, and number of silent sites."""
    return csv_text(FATES, found.fates)
