"""Questions of `model` for an auditor: two of each method, one short and one with several coordinates and units of two.

The short one has few numbers, since exact noise is slow and 10^5 draws are wanted. Records at the edge of the unit ball
whose coordinates are all equal move the numbers most.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from expril.audit.kinds.exact import NoisyNumbers, NoisyTurns
from expril.audit.kinds.kind_audit import AuditQuery, Case, Example, KindAudit, Law, Value, unpacked
from protocol.codec import decode, encode
from protocol.feature_map import STEPS, CategoricalFeature, FeatureMap, NumericFeature
from protocol.kinds.model import MODEL, ModelBody, ModelRelease, PlannedModel
from protocol.kinds.models import (
    AnyMethod,
    Attributes,
    Body,
    Centres,
    Forest,
    KernelSvm,
    KMeans,
    LinearRegression,
    LinearSvm,
    LogisticRegression,
    Mapped,
    Moments,
    NaiveBayes,
    Points,
    PrincipalComponents,
)
from protocol.noise import Moved
from protocol.partitions import FeatureBins
from protocol.rationals import Rational
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

COPIES = 500
"""Equal models of one query, which are fitted once."""
WIDE_COPIES = 20
DRAWS = 30_000
"""Draws from each set. Eight methods take long, and most of them are also enumerated exactly."""

_ATTRIBUTES = (
    NumericAttribute("x", -4.0, 4.0),
    NumericAttribute("y", -1.0, 1.0),
    CategoricalAttribute("s", ("a", "b")),
)
_TWO, _THREE, _NUMBER = (
    Schema(attributes=_ATTRIBUTES, label="outcome", **label)
    for label in ({"classes": ("no", "yes")}, {"classes": ("none", "some", "much")}, {"label_bounds": (-1.0, 9.0)})
)
_X = FeatureMap((NumericFeature("x", offset=0.0, factor=1.0, imputation=1.0),))
_XYS = FeatureMap(
    (
        NumericFeature("x", offset=0.0, factor=0.5, imputation=1.0),
        NumericFeature("y", offset=0.0, factor=0.5, imputation=0.0),
        CategoricalFeature("s", levels=("a",), factor=0.5, imputation="b"),
    )
)
_STEP = 1 / STEPS
_VALUES: dict[str, tuple[Value, ...]] = {
    "x": (1.0, -1.0, 1.0 - _STEP / 2, 1.0 + _STEP, 1 / 3, 0.0, _STEP, 2.0, -2.0),
    "y": (0.5, -0.5, -0.0, 5e-324),
    "s": ("a", "b", "A", ""),
}
_NUMBERS: tuple[Value, ...] = (4.0, 0.25, 1e9, -1e9)
"""Numeric labels."""

_ONE = Points(width=1, radius=8)
_FOUR = Points(width=4, radius=4, constant=2)
_FINE = Points(width=4, radius=STEPS, constant=STEPS // 2)
_UNIT = Rational(1, 1)
_IN_BINS_AND_MOMENTS = Attributes(
    (FeatureBins("x", (-1.0, 1 / 3, 1.0)), FeatureBins("s", ()), Moments("x", -2.0, 2.0), Moments("y", 0.0, 1.0))
)

_SHORT: dict[str, tuple[AnyMethod, Body, Schema]] = {
    "naive_bayes": (NaiveBayes(binned=1), Attributes((FeatureBins("x", ()),)), _TWO),
    "linear_regression": (LinearRegression(points=_ONE, label_steps=8), Mapped(_X), _NUMBER),
    "logistic_regression": (
        LogisticRegression(points=Points(width=1, radius=STEPS), regulariser=_UNIT, steps=128),
        Mapped(_X),
        _TWO,
    ),
    "linear_svm": (
        LinearSvm(points=Points(width=1, radius=STEPS), regulariser=Rational(10, 1), steps=128, sharpness=8),
        Mapped(_X),
        _TWO,
    ),
    "kernel_svm": (
        KernelSvm(width=1, frequencies=1, seed=1, radius=STEPS, regulariser=Rational(10, 1), steps=128, sharpness=8),
        Mapped(_X),
        _TWO,
    ),
    "forest": (Forest(width=1, trees=1, depth=1, span=STEPS, seed=1), Mapped(_X), _TWO),
    "k_means": (
        KMeans(points=Points(width=1, radius=1, constant=16), clusters=1, iterations=2),
        Centres.of(_X, np.array([[0]])),
        _TWO,
    ),
    "principal_components": (PrincipalComponents(points=_ONE), Mapped(_X), _TWO),
}
_WIDE: dict[str, tuple[AnyMethod, Body, Schema]] = {
    "naive_bayes": (NaiveBayes(binned=2, moments=2, steps=2), _IN_BINS_AND_MOMENTS, _THREE),
    "linear_regression": (LinearRegression(points=_FOUR, label_steps=2), Mapped(_XYS), _NUMBER),
    "logistic_regression": (LogisticRegression(points=_FINE, regulariser=_UNIT, steps=64), Mapped(_XYS), _TWO),
    "linear_svm": (LinearSvm(points=_FINE, regulariser=_UNIT, steps=64), Mapped(_XYS), _TWO),
    "kernel_svm": (
        KernelSvm(width=4, frequencies=3, seed=2, radius=STEPS, constant=1000, regulariser=_UNIT, steps=64),
        Mapped(_XYS),
        _TWO,
    ),
    "forest": (Forest(width=4, trees=5, depth=3, span=STEPS // 2, seed=3), Mapped(_XYS), _THREE),
    "k_means": (
        KMeans(points=Points(width=4, radius=8, constant=8), clusters=3, iterations=3),
        Centres.of(_XYS, np.array([[8, 0, 0, 0], [0, 8, 0, 0], [-4, -4, 0, 4]])),
        _NUMBER,
    ),
    "principal_components": (PrincipalComponents(points=_FOUR), Mapped(_XYS), _NUMBER),
}


def _example(about: str, method: AnyMethod, body: Body, schema: Schema, *, copies: int, bound: int = 1) -> Example:
    values = dict(_VALUES) if schema.label_bounds is None else {**_VALUES, schema.label: _NUMBERS}
    return Example(
        about,
        schema,
        _asking(method, body),
        copies=copies,
        most_records_per_unit=bound,
        values=values,
        limits={"methods": [str(method.__struct_config__.tag)]},
        draws=DRAWS,
    )


def _asking(method: AnyMethod, body: Body) -> Callable[[int], AuditQuery]:
    """Make the query of a number of copies, each at a cost of 1."""

    def ask(copies: int) -> AuditQuery:
        planned = PlannedModel(method=method, epsilon=Rational(copies, 1), models=copies)
        return AuditQuery(planned, (encode(ModelBody((body,) * copies)),))

    return ask


class ModelAudit(KindAudit):
    """The auditor's half of `model`, whose noise has the scale sensitivity / epsilon."""

    kind = MODEL
    generator = "expril.audit.generators.queries:model_queries"
    excuses: ClassVar[Mapping[str, str]] = {
        "oracle": "a fit has no second way; sums and minimisers are held against their own in test_model_fits.py"
    }

    def hostile(self, planned: PlannedModel, bodies: Sequence[bytes], schema: Schema) -> Mapping[str, bytes]:
        """Return bodies of more models than planned."""
        models = decode(bodies[0], ModelBody).models
        return {"more models than planned": encode(ModelBody((*models, models[0])))}

    def laws(self, planned: PlannedModel, most_records_per_unit: int) -> tuple[Moved, ...]:
        """Return a release for each part of each model, which one unit moves by its share of the sensitivity.

        Spreading the move over numbers reveals no more than moving one number by all of it: docs/explanation/counts.md.
        For parts that use earlier ones this holds given the earlier ones.
        """
        parts = planned.models * planned.method.parts
        law, moved = planned.law(most_records_per_unit), planned.sensitivity(most_records_per_unit)
        return (Moved(law, moved // parts, parts),)

    def claimed_law(self, case: Case) -> Law:
        """Return the curator's exact numbers with noise of the plan's scale; of k-means, iteration by iteration."""
        trace, law = case.trace(()), case.planned.law(case.most_records_per_unit)
        if isinstance(case.planned.method, KMeans):
            return NoisyTurns(trace.handed, law, lambda released: case.trace(released).handed)
        return NoisyNumbers.of(trace.numbers, law)

    def examples(self) -> Mapping[str, Sequence[Example]]:
        """Return questions by method."""
        return {
            name: (
                _example("one coordinate", *_SHORT[name], copies=COPIES),
                _example("several coordinates, in units of two records", *_WIDE[name], copies=WIDE_COPIES, bound=2),
            )
            for name in _SHORT
        }

    def view_planned(self, planned: PlannedModel, most_records_per_unit: int) -> dict[str, Any]:
        """Show the parts of the noise. A contribution bound of 0 stands for an unknown one."""
        view: dict[str, Any] = {
            "method": planned.name,
            "settings": msgspec.to_builtins(planned.method),
            "models": planned.models,
            "cost": str(planned.epsilon.fraction),
            "c": most_records_per_unit or None,
        }
        if most_records_per_unit:
            moved = planned.sensitivity(most_records_per_unit)
            view["formula"] = f"scale = sensitivity / epsilon = {moved} / ({planned.epsilon.fraction})"
        return view

    def view_question(self, data: bytes, schema: Schema | None) -> dict[str, Any]:
        """Show how many models, and how many different ones; RemoteProtocolError if the bytes are no body."""
        body = decode(data, ModelBody)
        return {"models": len(body.models), "different": len(set(body.models))}

    def view_release(self, data: bytes) -> list[str]:
        """Return the released numbers as text; RemoteProtocolError if the bytes are no release."""
        return unpacked(decode(data, ModelRelease).numbers, "q")
