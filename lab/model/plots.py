"""Where each mark of the study's figures goes; the template draws them."""

import math

from expril.report.chart import Axis, Figure, Key, Place, Rule, Stage, Tick, make_axis
from expril.report.numbers import decimal
from lab.epsilons import INFINITE
from lab.model.model import Found, Point
from lab.model.studies import CLASSES, WAYS
from lab.model.tables import mean_text
from protocol.rationals import parse_rational

_LEFT, _RIGHT = 14.0, 94.0
_HEIGHT, _BELOW = 270, 18
_PERCENT = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)


def keys() -> tuple[Key, ...]:
    """The methods that predict classes."""
    names = [name for name, way in WAYS.items() if way.predicts == CLASSES and way.ceiling]
    return tuple(Key(number, False, WAYS[name].title) for number, name in enumerate(names))


def figures(found: Found) -> tuple[Figure, ...]:
    """Accuracy in percent against epsilon, one panel a problem; none where there is but one epsilon."""
    return tuple(_figure(found, problem) for problem in found.problems) if len(found.epsilons) > 1 else ()


def _figure(found: Found, problem: str) -> Figure:
    at = {epsilon: math.log(parse_rational(epsilon)) for epsilon in found.epsilons}
    axis = Axis(min(at.values()), max(at.values()), left=_LEFT, right=_RIGHT)
    by_title = {way.title: name for name, way in WAYS.items()}
    lines: list[tuple[Key, list[Place]]] = []
    for key in keys():
        points = [found.point(problem, by_title[key.name], epsilon) for epsilon in reversed(found.epsilons)]
        places = [_placed(point, axis.place(at[point.epsilon])) for point in points if point is not None]
        if places:
            lines.append((key, places))
    ceiling = found.point(problem, "logistic", INFINITE)
    levels = [] if ceiling is None else [ceiling.score.value]
    values = [place.value for _, places in lines for place in places] + levels
    stage = Stage(make_axis(min(values, default=0.0), max(values, default=100.0), _PERCENT), _HEIGHT)
    return Figure(
        stage,
        problem,
        tuple(Tick(epsilon, axis.at(at[epsilon])) for epsilon in reversed(found.epsilons)),
        tuple(stage.line(key.index, key.hollow, key.name, places, errors=False) for key, places in lines),
        " ".join(f"{key.name}: {'; '.join(place.text for place in places)}." for key, places in lines),
        below=_BELOW,
        rules=tuple(Rule("ceiling", stage.y(level), f"no privacy: {decimal(level)}") for level in levels),
    )


def _placed(point: Point, place: float) -> Place:
    ends = (point.score.value - point.score.error, point.score.value + point.score.error)
    return Place(place, point.score.value, ends, f"{mean_text(point.score)} % at epsilon {point.epsilon}")
