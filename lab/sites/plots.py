"""Where each mark of the study's figures goes; the template draws them."""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from expril.report.chart import Axis, Figure, Key, Line, Place, Rule, Stage, Tick, make_axis
from expril.report.numbers import decimal, with_error
from lab.sites.model import Found, Mean, Opened, Point, Traffic
from lab.sites.tables import title_of

LOCAL_KEY, SECURE_KEY = Key(0, False, "noise at each site"), Key(1, False, "summed securely")
MEASURED_KEY, BOUND_KEY = Key(1, False, "measured, with its 99.9 % interval"), Key(2, True, "bound n/h")
_LEFT, _RIGHT = 14.0, 94.0
_HEIGHT, _BELOW = 270, 18
_PERCENT = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_VARIANCES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0)
_KILOBYTES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)

Row = TypeVar("Row", Point, Opened, Traffic)
Shown = Callable[[Row], tuple[float, tuple[float, float], str] | None]
"""A row -> its value, the ends of its error, and words; None where it has none."""


def accuracy_figures(found: Found) -> dict[str, tuple[Figure, ...]]:
    """For each epsilon, accuracy in percent against the number of sites, one panel a problem."""
    return {
        epsilon: tuple(_accuracy(found, problem, epsilon) for problem in found.problems) for epsilon in found.epsilons
    }


def _accuracy(found: Found, problem: str, epsilon: str) -> Figure:
    rows = [point for point in found.points if (point.problem, point.epsilon) == (problem, epsilon)]
    alone = next((point.local for point in rows if point.sites == 1), None)
    level = () if alone is None else (("majority", alone.value, f"all records at one site: {decimal(alone.value)}"),)
    return _figure(
        title_of(problem),
        rows,
        ((LOCAL_KEY, lambda point: _mean(point.local)), (SECURE_KEY, lambda point: _mean(point.secure))),
        _PERCENT,
        level,
        most=100.0,
    )


def _mean(mean: Mean | None) -> tuple[float, tuple[float, float], str] | None:
    if mean is None:
        return None
    ends = (mean.value - mean.error, mean.value + mean.error)
    return mean.value, ends, f"{with_error(decimal(mean.value), mean.error if mean.runs > 1 else None)} %"


def noise_figure(found: Found) -> Figure | None:
    """The variance of an opened number against the number of sites, and its bound."""
    if not found.opened:
        return None

    def bound(row: Opened) -> tuple[float, tuple[float, float], str]:
        return row.bound, (row.bound, row.bound), f"at most {row.bound:.3f}"

    def measured(row: Opened) -> tuple[float, tuple[float, float], str]:
        return row.measured, (row.low, row.high), f"{row.measured:.3f}"

    one = ("ceiling", 1.0, "one noise")
    return _figure("variance", found.opened, ((BOUND_KEY, bound), (MEASURED_KEY, measured)), _VARIANCES, (one,))


def traffic_figure(found: Found) -> Figure | None:
    """Kilobytes that one site receives and sends, against the number of sites."""
    if not found.traffic:
        return None

    def local(row: Traffic) -> tuple[float, tuple[float, float], str] | None:
        return _kilobytes(row.local) if row.local else None

    def secure(row: Traffic) -> tuple[float, tuple[float, float], str]:
        return _kilobytes(row.secure)

    return _figure("kilobytes a site", found.traffic, ((LOCAL_KEY, local), (SECURE_KEY, secure)), _KILOBYTES, least=0.0)


def _kilobytes(value: float) -> tuple[float, tuple[float, float], str]:
    shown = value / 1000
    return shown, (shown, shown), f"{decimal(shown)} kB"


def _figure(
    name: str,
    rows: Sequence[Row],
    drawn: Sequence[tuple[Key, Shown[Row]]],
    steps: Sequence[float],
    levels: Sequence[tuple[str, float, str]] = (),
    *,
    least: float | None = None,
    most: float = math.inf,
) -> Figure:
    """Lines over the number of sites, on a logarithmic axis; the other one holds `least`, and nothing above `most`."""
    axis = Axis(0.0, math.log(max(2, *(row.sites for row in rows), 2)), left=_LEFT, right=_RIGHT)
    lines: list[tuple[Key, list[Place]]] = []
    for key, shown in drawn:
        found = [(row, told) for row in rows if (told := shown(row)) is not None]
        places = [
            Place(axis.place(math.log(row.sites)), value, ends, f"{text} at {_sites(row.sites)}")
            for row, (value, ends, text) in found
        ]
        if places:
            lines.append((key, places))
    values = [
        end
        for _, places in lines
        for place in places
        for end in (place.error if _all_known(places) else (place.value,))
    ] + [level[1] for level in levels]
    values += [] if least is None else [least]
    stage = Stage(make_axis(min(values), min(max(values), most), steps), _HEIGHT)
    made: list[Line] = [
        stage.line(key.index, key.hollow, key.name, places, errors=_all_known(places)) for key, places in lines
    ]
    return Figure(
        stage,
        name,
        tuple(Tick(str(row.sites), axis.at(math.log(row.sites))) for row in rows),
        tuple(made),
        " ".join(f"{key.name}: {'; '.join(place.text for place in places)}." for key, places in lines),
        below=_BELOW,
        rules=tuple(Rule(style, stage.y(value), text) for style, value, text in levels),
    )


def _all_known(places: Sequence[Place]) -> bool:
    """Whether every place has an error: a band that is pinched at a single run would say that it is exact."""
    return all(place.error[0] < place.error[1] for place in places)


def _sites(number: int) -> str:
    return "one site" if number == 1 else f"{number} sites"
