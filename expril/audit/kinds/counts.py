"""Questions of `counts` for an auditor: two of each release kind, one short and one with every kind of partition.

The short one has few numbers, since exact noise is slow and 10^5 draws are wanted. In the wide one a record's cell or
prediction depends on the last bit: ties of logits, centres and projections, and edges at records.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import isqrt
from typing import Any, ClassVar

import numpy as np
from msgspec import structs

from expril.audit.kinds.claimed_records import ClaimedRecords
from expril.audit.kinds.exact import NoisyNumbers
from expril.audit.kinds.kind_audit import AuditQuery, Case, Example, KindAudit, Law, Value, unpacked
from protocol.codec import decode, encode
from protocol.errors import ExprilError, printable
from protocol.feature_map import STEPS, CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import Hypothesis, Mlp
from protocol.kinds.counts import Counts, CountsBody, CountsRelease, PlannedCounts
from protocol.noise import Moved
from protocol.partitions import (
    CrossBins,
    FeatureBins,
    NearestCentre,
    Partition,
    ProductBins,
    ProjectionBins,
    Range,
    ScoreBins,
    TreeLeaves,
)
from protocol.rationals import Rational
from protocol.records import LABEL_STEPS, Records
from protocol.release_kinds import MOST_SQUARED_ERROR, RELEASE_KINDS
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema, TimeToEvent
from simulations.paper_ratio import PRINTED_COUNTS

STEP = 1 / STEPS
"""Step of the grid on which points lie."""
COPIES = 500
"""Copies of the question in one query. A call takes as long as thirty numbers, and more copies gain nothing."""
WIDE_COPIES = 20
LABEL_STEPS_ASKED = 4
"""Steps S of a numeric label."""

_ATTRIBUTES = (
    NumericAttribute("x", -4.0, 4.0),
    NumericAttribute("y", 0.0, 1e6),
    CategoricalAttribute("s", ("a", "b")),
)
_LABELS = (
    {"classes": ("no", "yes")},
    {"classes": ("none", "some", "much")},
    {"label_bounds": (-1.0, 9.0)},
)
_SCHEMAS = tuple(Schema(attributes=_ATTRIBUTES, label="outcome", **label) for label in _LABELS)
_MAP = FeatureMap(
    (
        NumericFeature("x", offset=0.0, factor=1.0, imputation=1.0),
        CategoricalFeature("s", levels=("a",), factor=1.0, imputation="b"),
    )
)
_TIES: tuple[Value, ...] = (1.0, 1.0 - STEP, 1.0 + STEP, 1.0 - STEP / 2, 1.0 + STEP / 2, 1.0 + 3 * STEP / 2, 1 / 3, 0.0)
_VALUES: dict[str, tuple[Value, ...]] = {
    "x": (*_TIES, float(np.nextafter(1.0, 0.0)), float(np.nextafter(1.0, 2.0)), -1.0, 2.0),
    "y": (-0.0, 5e-324, 499_999.9999999999, 5e5, 1e300),
    "s": ("a", "b", " a", "A", "neither", ""),
}
_NUMBERS: tuple[Value, ...] = (4.0, 0.25, 1.5, 1.0 + 1.25, float(np.nextafter(9.0, 10.0)), 1e9, -1e9)
"""Numeric labels: the middle of the range, halves of a step, and values outside of the bounds."""

_EDGE = Mlp.of(_MAP, [(np.array([[1.0, 0.0, 0.0]]), np.array([-1.0]))])
"""The logit x - 1, which is not above 0 at x = 1; missing values are put there, too."""
_CANCELLING = Mlp.of(
    _MAP,
    [
        (np.array([[64.0, 1 / 3, 0.0], [-64.0, 1 / 3, 0.0], [1.0, -1.0, 1.0]]), np.array([0.0, 0.0, -1.0])),
        (np.array([[1 / 64, -1 / 64, -1.0]]), np.array([-STEP])),
    ],
)
"""Large terms that cancel, so that the logit's sign depends on single steps of the grid."""

_OUTCOMES = (
    NumericAttribute("exit", 0.0, 100.0),
    NumericAttribute("entry", 0.0, 100.0),
    CategoricalAttribute("end", ("alive", "relapse", "death")),
)
"""Outcomes of the examples: a time of exit and of entry, and why the record left."""
_FOLLOWED = tuple(
    structs.replace(
        schema,
        outcomes=_OUTCOMES,
        time_to_event=TimeToEvent("exit", "end", "alive", entry="entry", edges=(10.0, 50.0, 90.0)),
    )
    for schema in _SCHEMAS
)
_TIMES: tuple[Value, ...] = (10.0, float(np.nextafter(10.0, 0.0)), float(np.nextafter(10.0, 11.0)), 50.0, -1.0, 1e9)
_OUTCOME_VALUES: dict[str, tuple[Value, ...]] = {
    "exit": (*_TIMES, None),
    "entry": (*_TIMES, None),
    "end": ("alive", "relapse", "death", "Death", "moved away", None),
}
"""Times on an end of a bin and beside it, negative ones, and ones after the horizon; ends that nobody declared."""
_AFTER_TEN = float(np.nextafter(10.0, 11.0))
"""An edge that puts the time 10 into the bin that ends there."""


def _tables(schema: Schema) -> tuple[Partition, ...]:
    """Cross tables of a schema with `_OUTCOMES`: with and without filters, by label, and with delayed entry."""
    label = FeatureBins(schema.label, () if schema.label_bounds is None else (-1.0, 4.0, 9.0))
    ends, group = FeatureBins("end", ()), FeatureBins("s", ())
    times = FeatureBins("exit", (_AFTER_TEN, 50.0, 90.0))
    return (
        CrossBins((label, group), (Range(FeatureBins("x", (-1.0, 1.0)), (1, 3)), Range(group, (0, 3)))),
        CrossBins((times, ends, group)),
        CrossBins((FeatureBins("entry", (10.0, 50.0)), times, ends, group)),
        CrossBins((times,), (Range(label, (0,)), Range(ends, (1, 2, 4)))),
    )


_SHORT: tuple[Partition, ...] = (
    FeatureBins("x", ()),
    NearestCentre.of(_MAP, np.array([[1.0, 0.0, 1.0]])),
)
"""Two partitions: by whether the value is missing, and a single cell for all."""
_WIDE: tuple[Partition, ...] = (
    FeatureBins("x", (-4.0, 1.0, float(np.nextafter(1.0, 2.0)))),
    FeatureBins("s", ()),
    NearestCentre.of(_MAP, np.array([[0.0, 1.0, 0.0], [2.0, 1.0, 0.0], [1.0, 0.0, 1.0]])),
    ProductBins(FeatureBins("y", (5e-324, 5e5)), FeatureBins("s", ())),
    ScoreBins(_CANCELLING, (0.0, STEP * STEP)),
    ProjectionBins.of(_MAP, np.array([[64.0, -64.0, 0.0]]), ((0.0, 64.0),)),
    TreeLeaves.of(_MAP, np.array([[0, STEPS, -1, 1], [1, STEPS, -2, -3]])),
    CrossBins((FeatureBins("y", (5e5,)), FeatureBins("s", ())), (Range(FeatureBins("x", (1.0,)), (1,)),)),
)


def examples_of(release: str) -> Sequence[Example]:
    """Return the questions for a release kind; none if no label here fits it."""
    kind = RELEASE_KINDS[release]
    fitting = [schema for schema in _SCHEMAS if kind.fits(schema)]
    if not fitting:
        return ()
    if kind.reads_outcomes:
        return _outcome_examples(release)
    # About as many numbers, whatever the columns.
    short = _SHORT if release == "mass" else _SHORT[:1] if kind.columns(fitting[0]) == 1 else _SHORT[1:]
    return (
        _example(release, "a few cells, with records at a tie of the hypothesis", fitting[0], short, COPIES),
        _example(
            release,
            "every kind of partition, with units of two records and logits that cancel",
            fitting[-1],
            _WIDE,
            WIDE_COPIES,
            bound=2,
            hypothesis=_CANCELLING,
        ),
    )


def _outcome_examples(release: str) -> Sequence[Example]:
    """Return the questions for a release kind of tables that read labels and outcomes."""
    filtered, by_time, delayed, _ = _tables(_FOLLOWED[0])
    return (
        _example(release, "the label by a group, inside of a filter and outside", _FOLLOWED[0], (filtered,), COPIES),
        _example(release, "time of exit by its cause and a group", _FOLLOWED[1], (by_time,), WIDE_COPIES),
        _example(
            release,
            "delayed entry: entry by exit by cause by group, in one table",
            _FOLLOWED[0],
            (delayed,),
            WIDE_COPIES,
        ),
        _example(
            release,
            "every kind of partition and of table, of a numeric label, with units of two records",
            _FOLLOWED[-1],
            (*_WIDE, *_tables(_FOLLOWED[-1])),
            WIDE_COPIES,
            bound=2,
        ),
    )


def shortest_of(release: str) -> Example | None:
    """Return the question that is asked and counted fastest: two cells, units of two records."""
    kind = RELEASE_KINDS[release]
    fitting = [schema for schema in _SCHEMAS if kind.fits(schema)]
    about = "those with a value and those without, in units of two records"
    return _example(release, about, fitting[0], _SHORT[:1], COPIES, bound=2) if fitting else None


def _example(
    release: str,
    about: str,
    schema: Schema,
    partitions: tuple[Partition, ...],
    copies: int,
    *,
    bound: int = 1,
    hypothesis: Hypothesis = _EDGE,
) -> Example:
    kind = RELEASE_KINDS[release]
    steps = LABEL_STEPS_ASKED if kind.of_steps is not None else 1
    ask = _asking(release, partitions, hypothesis if kind.wants_hypothesis else None, steps, bound)
    values = dict(_VALUES) if schema.label_bounds is None else {**_VALUES, schema.label: _NUMBERS}
    if schema.outcomes:
        values |= _OUTCOME_VALUES
    return Example(
        about,
        schema,
        ask,
        copies=copies,
        most_records_per_unit=bound,
        values=values,
        limits={"release_kinds": [release]},
    )


def _asking(
    release: str, partitions: tuple[Partition, ...], hypothesis: Hypothesis | None, steps: int, bound: int
) -> Callable[[int], AuditQuery]:
    """Make the query of a number of copies, each at a cost of 1."""
    scale = Rational(bound * len(partitions) * steps, 1)
    most = 2**20 if RELEASE_KINDS[release].ranged else None

    def ask(copies: int) -> AuditQuery:
        planned = PlannedCounts(release=release, partitions=len(partitions) * copies, scale=scale, steps=steps)
        return AuditQuery(planned, (encode(CountsBody(partitions * copies, hypothesis, most)),))

    return ask


class CountsAudit(KindAudit):
    """The auditor's half of `counts`. Its cost is c m S / scale: c records of a unit, m partitions, S label steps."""

    kind: ClassVar[Counts] = PRINTED_COUNTS  # whoever audits a simulation meets the printed release, too
    generator = "expril.audit.generators.queries:counts_queries_of"

    def laws(self, planned: PlannedCounts, most_records_per_unit: int) -> tuple[Moved, ...] | None:
        """Return m releases that one unit moves by c S each; None for ratios, whose cost is only a claim.

        In each partition a unit moves the numbers by at most c S in L1. Spreading this over cells reveals no more than
        moving one number by all of it: docs/explanation/counts.md.
        """
        if not self.kind.private_planned(planned):
            return None
        return (Moved(planned.law, most_records_per_unit * planned.steps, planned.partitions),)

    def claimed_law(self, case: Case) -> Law | None:
        """Return the curator's exact numbers with noise of the plan's scale; None for ratios."""
        if not self.kind.private_planned(case.planned):
            return None
        return NoisyNumbers.of(case.trace(()).numbers, case.planned.law)

    def oracle(self, case: Case) -> Sequence[int] | None:
        """Count each record by itself, as if there were no other, in whole numbers and fractions."""
        claimed = ClaimedRecords.of(case.frame, case.schema, case.most_records_per_unit)
        (body,) = case.bodies
        columns, blocks = RELEASE_KINDS[case.planned.release].columns(case.schema), []
        for partition in body.partitions:
            cells = [[0] * columns for _ in range(partition.cell_count(case.schema))]
            for row, label in enumerate(claimed.labels.tolist()):
                record = claimed.records.take(np.array([row]))
                cell = cells[int(partition.cells(record)[0])]
                cell[:] = [a + b for a, b in zip(cell, _added(record, label, body, case), strict=True)]
            blocks += [number for cell in cells for number in cell]
        return blocks

    def hostile(self, planned: Any, bodies: Sequence[bytes], schema: Schema) -> Mapping[str, bytes]:
        """Return bodies with more partitions than planned, of no attribute, and with edges that fall."""
        body = decode(bodies[0], CountsBody)
        wrong = {
            "more partitions than planned": (*body.partitions, body.partitions[0]),
            "an attribute that the card does not have": (FeatureBins("no such attribute", ()), *body.partitions[1:]),
            "edges that fall": (FeatureBins(schema.attributes[0].name, (1.0, 0.0)), *body.partitions[1:]),
        }
        return {name: encode(structs.replace(body, partitions=partitions)) for name, partitions in wrong.items()}

    def examples(self) -> Mapping[str, Sequence[Example]]:
        """Return questions by release kind, without kinds that are not private as claimed."""
        return {name: examples_of(name) for name in RELEASE_KINDS}

    def view_planned(self, planned: PlannedCounts, most_records_per_unit: int) -> dict[str, Any]:
        """Show the parts of the cost. A contribution bound of 0 stands for an unknown one."""
        scale, c = planned.scale.fraction, most_records_per_unit
        cost = Fraction(c * planned.partitions * planned.steps) / scale if c else None
        formula = f"c m S / scale = {c or 'c'} * {planned.partitions} * {planned.steps} / ({scale})"
        return {
            "release": printable(planned.release),
            "c": c or None,
            "m": planned.partitions,
            "S": planned.steps,
            "scale": str(scale),
            "cost": None if cost is None else str(cost),
            "formula": formula if cost is None else f"{formula} = {cost}",
        }

    def view_question(self, data: bytes, schema: Schema | None) -> dict[str, Any]:
        """Show the partitions by kind, the hypothesis, and the number of cells."""
        body = decode(data, self.kind.body_type)
        names = [type(partition).__name__ for partition in body.partitions]
        view: dict[str, Any] = {
            "partitions": {name: names.count(name) for name in dict.fromkeys(names)},
            "hypothesis": None if body.hypothesis is None else type(body.hypothesis).__name__,
        }
        if schema is not None:
            try:
                view["cells"] = sum(partition.cell_count(schema) for partition in body.partitions)
            except (ExprilError, LookupError, ValueError, ArithmeticError):
                view["cells"] = None
        return view

    def view_release(self, data: bytes) -> list[str]:
        """Return the released numbers as text; RemoteProtocolError if the bytes are no release."""
        body = decode(data, CountsRelease)
        return unpacked(body.counts, "q") if body.counts else unpacked(body.ratios, "d")


def _added(record: Records, label: int, body: CountsBody, case: Case) -> list[int]:
    """What one record adds to the numbers of its cell; a label is a class, or whole steps of its range."""
    release, steps = case.planned.release, case.planned.steps
    if release in ("mass", "outcome_counts"):
        return [1]
    if release == "class_counts":
        return [int(label == index) for index in range(len(case.schema.classes))]
    if release == "label_total":
        total = _nearest(Fraction(label * steps, LABEL_STEPS))
        return [total, steps - total]
    hypothesis: Any = body.hypothesis
    if release in ("squared_error", "error_sums"):
        most = body.most_squared_error or MOST_SQUARED_ERROR
        error = abs(label - int(hypothesis.predict_number(record)[0]))
        if release == "squared_error":
            total = _nearest(Fraction(min(error**2, most) * steps, most))
            return [total, steps - total]
        share = Fraction(min(error, isqrt(most)), isqrt(most))
        squared, absolute = _nearest(share**2 * steps), _nearest(share * steps)
        return [squared, absolute - squared, steps - absolute]
    right = bool(hypothesis.predict(record)[0]) == bool(label)
    return [1 if right else -1] if release == "signed_error" else [int(not right), int(right)]


def _nearest(value: Fraction) -> int:
    """The nearest whole number, halves upwards."""
    return int(value + Fraction(1, 2))
