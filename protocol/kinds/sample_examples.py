"""Questions of `sample` for an auditor: a table of few cells where one record says much, and a network's density."""

from collections.abc import Callable

from protocol.codec import encode
from protocol.examples import Asked, Example
from protocol.grids import Axis, LevelAxis, NumberAxis
from protocol.kinds.sample import PlannedSample, SampleBody
from protocol.rationals import Rational
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

COPIES = 5_000
"""Records of one query: all are drawn from one density, which takes most of the time."""

_SCHEMA = Schema(
    attributes=(NumericAttribute("x", -4.0, 4.0), CategoricalAttribute("s", ("a", "b", "c"))),
    label="outcome",
    classes=("no", "yes"),
)
_TABLE: tuple[Axis, ...] = (NumberAxis("x", -2.0, 2.0, 4), LevelAxis("s"), LevelAxis("outcome"))
_LINE: tuple[Axis, ...] = (NumberAxis("x", -3.0, 3.0, 12, 0.0, 1.0),)
_EIGHT: tuple[Axis, ...] = (NumberAxis("x", -2.0, 2.0, 8),)
_EDGES = (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 1e300, -1e300)


def _asking(axes: tuple[Axis, ...], **told: int | str) -> Callable[[int], Asked]:
    """At a cost of 1 a record."""

    def ask(copies: int) -> Asked:
        planned = PlannedSample(records=copies, epsilon=Rational(1, 1), axes=axes, **told)  # type: ignore[arg-type]
        return Asked(planned, (encode(SampleBody()),))

    return ask


EXAMPLES = (
    Example(
        "eight cells, where one record more turns the exponent of a cell from the lowest to the highest",
        _SCHEMA,
        _asking(_EIGHT, learner="naive_bayes", examples=500),
        copies=COPIES,
        values={"x": _EDGES},
    ),
    Example(
        "24 cells, a density that few records decide",
        _SCHEMA,
        _asking(_TABLE, learner="naive_bayes", examples=500),
        copies=COPIES,
        values={"x": _EDGES},
    ),
    Example(
        "a network's density on a line, units of two records",
        _SCHEMA,
        _asking(_LINE, examples=64, epochs=40, rounds=2),
        copies=COPIES,
        most_records_per_unit=2,
        values={"x": _EDGES},
        pairs=6,
    ),
)
