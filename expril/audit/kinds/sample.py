"""Questions of `sample` for an auditor: a table of few cells where one record says much, and a network's density."""

import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from curator_node.kinds.sample import density_of
from expril.audit.kinds.exact import DIGITS, Outcomes
from expril.audit.kinds.kind_audit import AuditQuery, Case, Example, KindAudit, unpacked
from protocol.codec import decode, encode
from protocol.errors import ConfigurationError, printable
from protocol.grids import Axis, LevelAxis, NumberAxis
from protocol.kinds.sample import EXPONENT_STEPS, SAMPLE, PlannedSample, SampleBody, SampleRelease
from protocol.rationals import Rational
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

COPIES = 5_000
"""Records of one query. All are drawn from one density, whose computation takes most of the time."""

_SCHEMA = Schema(
    attributes=(NumericAttribute("x", -4.0, 4.0), CategoricalAttribute("s", ("a", "b", "c"))),
    label="outcome",
    classes=("no", "yes"),
)
_TABLE: tuple[Axis, ...] = (NumberAxis("x", -2.0, 2.0, 4), LevelAxis("s"), LevelAxis("outcome"))
_LINE: tuple[Axis, ...] = (NumberAxis("x", -3.0, 3.0, 12, 0.0, 1.0),)
_EIGHT: tuple[Axis, ...] = (NumberAxis("x", -2.0, 2.0, 8),)
_EDGES = (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 1e300, -1e300)


def _asking(axes: tuple[Axis, ...], **settings: int | str) -> Callable[[int], AuditQuery]:
    """Make a query at a cost of 1 for each synthetic record, or less by a plan of version 2."""

    def ask(copies: int) -> AuditQuery:
        planned = PlannedSample(records=copies, epsilon=Rational(1, 1), axes=axes, **settings)  # type: ignore[arg-type]
        return AuditQuery(planned, (encode(SampleBody()),))

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
        _asking(_LINE, examples=64, epochs=40, rounds=2, version=2),
        copies=COPIES,
        most_records_per_unit=2,
        values={"x": _EDGES},
        pairs=6,
    ),
)


MOST_CELLS = 2**12


def mollified(
    planned: PlannedSample, schema: Schema, exponent: Callable[[NDArray[np.int64]], NDArray[np.int64]]
) -> Outcomes:
    """Return the law of one record: proportional to Q_0 exp(E), on all cells of a grid of at most 2^12.

    `exponent`: (n, d) cells -> (n,) E in steps of epsilon / 2^16. It may be anything; beyond the planned reach, on
    either side of 0, it counts as that.
    """
    base, epsilon, reach = planned.base_law(schema), planned.epsilon.fraction, planned.reach
    if math.prod(base.sizes) > MOST_CELLS:
        raise ConfigurationError(f"a grid of more than {MOST_CELLS} cells is not enumerated; ask for fewer")
    cells = [tuple(map(int, cell)) for cell in np.ndindex(*base.sizes)]
    # One by one: equal cells have equal exponents wherever they stand.
    steps = [max(-reach, min(reach, int(exponent(np.array([cell]))[0]))) for cell in cells]
    weights = [math.prod(int(axis[at]) for axis, at in zip(base.weights, cell, strict=True)) for cell in cells]
    with decimal.localcontext(DIGITS):
        unit = Decimal(epsilon.numerator) / Decimal(4 * EXPONENT_STEPS * epsilon.denominator)
        masses = [weight * (step * unit).exp() for weight, step in zip(weights, steps, strict=True)]
        total = sum(masses, Decimal(0))
        defined = {cell: mass / total for cell, mass in zip(cells, masses, strict=True)}
    logs = base.log_masses(np.array(cells)) + np.array(steps) * (float(epsilon) / (4 * EXPONENT_STEPS))
    shares = np.exp(logs - logs.max())
    tabled = dict(zip(cells, (shares / shares.sum()).tolist(), strict=True))
    return Outcomes(defined, tabled, "the cell of a record")


class SampleAudit(KindAudit):
    """The auditor's half of `sample`: k synthetic records cost k epsilon, or less by a smaller reach."""

    kind = SAMPLE
    generator = "expril.audit.generators.queries:sample_queries_of"
    excuses: ClassVar[Mapping[str, str]] = {
        "oracle": "what is learnt has no second way; any exponents are as private, and draws are held against the law"
    }

    def hostile(self, planned: PlannedSample, bodies: Sequence[bytes], schema: Schema) -> Mapping[str, bytes]:
        """Return a body that says anything."""
        return {"a field": encode({"axes": []})}

    def examples(self) -> Mapping[str, Sequence[Example]]:
        """Return questions that attack all that the kind releases."""
        return {"": EXAMPLES}

    def claimed_law(self, case: Case) -> Outcomes:
        """Return the law of one record. Its exponents are those that the curator learnt: they may be anything."""
        return mollified(case.planned, case.schema, density_of(case.planned, case.dataset, case.schema).steps_of)

    def view_planned(self, planned: PlannedSample, most_records_per_unit: int) -> dict[str, Any]:
        """Show the parts of the cost, which does not depend on the contribution bound, and the axes."""
        epsilon = planned.epsilon.fraction
        cost = planned.records * planned.cost_of_one
        parts = [("k", planned.records), ("epsilon", epsilon)]
        if planned.version > 1:
            parts.append(("(4 b / epsilon)", Fraction(planned.reach, EXPONENT_STEPS)))
        words, numbers = " ".join(name for name, _ in parts), " * ".join(str(number) for _, number in parts)
        return {
            "k": planned.records,
            "epsilon": str(epsilon),
            "cost": str(cost),
            "integral": str(cost),
            "axes": [_axis(axis) for axis in planned.axes],
            "learner": planned.learner,
            "rounds": planned.rounds,
            "formula": f"{words} = {numbers} = {cost}",
        }

    def view_question(self, data: bytes, schema: Schema | None) -> dict[str, Any]:
        """Show nothing, as the plan says everything; RemoteProtocolError if the bytes are no body."""
        decode(data, SampleBody)
        return {}

    def view_release(self, data: bytes) -> list[str]:
        """Return the places as text, record by record; RemoteProtocolError if the bytes are no release."""
        return unpacked(decode(data, SampleRelease).cells, "H")


def _axis(axis: Any) -> str:
    name = printable(axis.name)
    if not isinstance(axis, NumberAxis):
        return f"{name}: its levels"
    law = "uniform" if axis.deviation is None else f"Gaussian {axis.centre:g} +- {axis.deviation:g}"
    return f"{name}: {axis.points} points of {axis.lower:g} to {axis.upper:g}, {law}"
