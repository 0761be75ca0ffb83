"""The `model` query: a model that the curator fits to its records, as whole numbers with discrete Laplace noise.

Cost: the planned epsilon. A privacy unit of at most c records moves all released numbers together by at most the number
of models times the method's sensitivity (L1). The scale of the noise is this product divided by epsilon. The
sensitivities are in `protocol.kinds.models`, with proofs in docs/explanation/in-site-models.md.
"""

from fractions import Fraction
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode
from protocol.errors import RemoteProtocolError
from protocol.kinds.models import METHODS, AnyMethod, Body, KMeans
from protocol.limits import ASSUMED_ROUND_SIZE, CALL_ONCE, Positive
from protocol.noise import DiscreteLaplace
from protocol.odds import MISSES, OFTEN, WORST, Odds, PrivacyUnit
from protocol.plans import Planned
from protocol.query_kind import KindTerms, QueryKind, Question, Turn
from protocol.rationals import MOST, Rational
from protocol.refusals import RefusalCode
from protocol.strict_toml import suggest

MOST_MODELS = 1000
"""Most models of one query."""
RECORD_COST = 300
QUERY_ONCE = 1_000 * CALL_ONCE
NOISE_ONCE = 300_000
"""`RECORD_COST` is work per record and different model, `QUERY_ONCE` per query (signatures, ledger and codec), and
`NOISE_ONCE` per released number (exact noise at its slowest scale)."""
RELEASE_FRAME_BYTES = 16
"""Bytes of a map of one value: its key, and the longest head of the value."""


class PlannedModel(Planned, frozen=True, tag="model"):
    """A future query for models, with all settings that the noise depends on."""

    method: AnyMethod  # its public settings
    epsilon: Rational  # what all models of the query cost together, for a unit of as many records as the curator allows
    models: Annotated[int, msgspec.Meta(ge=1, le=MOST_MODELS)] = 1  # how many are fitted, each from a body of its own

    @property
    def name(self) -> str:
        """Name of the method."""
        return str(self.method.__struct_config__.tag)

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest L1 distance by which a unit of c records moves all released numbers together; at least 1."""
        return self.models * self.method.sensitivity(most_records_per_unit)

    def law(self, most_records_per_unit: int) -> DiscreteLaplace:
        """Law of the noise in each released number; its scale is the sensitivity divided by epsilon.

        Raises RemoteProtocolError(BAD_PLAN): the scale needs more than 32 bits.
        """
        scale = self.sensitivity(most_records_per_unit) / self.epsilon.fraction
        if scale.numerator > MOST or scale.denominator > MOST:
            limit = "a scale of at most 32 bits: fewer steps, a shorter radius, or more epsilon"
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.epsilon", limit)
        return DiscreteLaplace(scale)


class ModelLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A curator's limits on in-site models."""

    methods: tuple[str, ...] = tuple(METHODS)  # allowed methods
    models: Positive = 1000  # most models of a query
    numbers: Positive = 100_000  # most numbers that a query releases: parameters, clusters and leaves of all its models

    def __post_init__(self) -> None:
        for name in self.methods:
            if name not in METHODS:
                raise ValueError(f"unknown method {name!r}{suggest(name, list(METHODS))}")


class ModelBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The question: each model's settings beyond its plan.

    Equal settings are fitted once (except k-means), and each model is released with its own noise.
    """

    models: Annotated[tuple[Body, ...], msgspec.Meta(min_length=1, max_length=MOST_MODELS)]


class ModelRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer: noisy whole numbers, little-endian int64, model by model in the method's order."""

    numbers: bytes


_LABEL = {"k_means": Fraction(0), "principal_components": Fraction(0), "logistic_regression": Fraction(1)}
"""By method, the largest ratio of the odds exponent of the label to that of presence; it is 2 for the other methods."""


class Model(QueryKind):
    """Models that the curator fits."""

    name = "model"
    reveals = "models that are fitted to the records"
    planned = PlannedModel
    limits = ModelLimits

    def check_planned(self, planned: PlannedModel) -> None:
        """Raise RemoteProtocolError(BAD_PLAN) if the settings are inconsistent."""
        if complaint := planned.method.complaint():
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.method", complaint)

    def check_allowed(self, planned: PlannedModel, terms: KindTerms, field: str) -> None:
        """Raise RemoteProtocolError (KIND_NOT_ALLOWED, BAD_PLAN, OVER_LIMIT) if a curator would refuse the query."""
        limits: ModelLimits = terms.limits
        if planned.name not in limits.methods:
            allowed = ", ".join(limits.methods)
            raise RemoteProtocolError(RefusalCode.KIND_NOT_ALLOWED, f"{field}.method", allowed)
        if complaint := planned.method.label_complaint(terms.schema):
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, f"{field}.method", complaint)
        if planned.models > limits.models:
            raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.models", f"at most {limits.models} models")

    def cost(self, planned: PlannedModel, most_records_per_unit: int) -> Fraction:
        """Exactly the planned epsilon; raises as `PlannedModel.law`."""
        return planned.law(most_records_per_unit).loss(planned.sensitivity(most_records_per_unit))

    def odds(self, planned: PlannedModel, unit: PrivacyUnit, readers: int | None) -> Odds:
        """Bounds from how far a changed unit moves the numbers, relative to the noise."""
        method, noise, models = planned.method, planned.law(unit.records), planned.models
        parts = models if readers is None else min(readers, models)
        label = noise.loss(models * method.moved_by_label(unit.records))
        return Odds(self.cost(planned, unit.records), label, noise.loss(parts * method.moved_by_change(unit.records)))

    def most_odds(self, limits: ModelLimits, unit: PrivacyUnit) -> Odds:
        """Twice the bound for presence; less for the label if no allowed method reads it or all use logistic loss."""
        label = max((_LABEL.get(name, Fraction(2)) for name in limits.methods), default=Fraction(0))
        return Odds(WORST.presence, label, WORST.attribute)

    def precision(self, planned: PlannedModel, unit: PrivacyUnit) -> str:
        """The precision of each number, and how far a unit moves all of them, in words."""
        width, moved = planned.law(unit.records).width(MISSES), planned.sensitivity(unit.records)
        return (
            f"{planned.models} fitted to the records by {planned.name}, each number right within {width} steps in "
            f"{OFTEN}, where one unit moves all numbers together by {moved} at most; epsilon {planned.epsilon.fraction}"
        )

    def read_body(self, data: bytes, turn: Turn, terms: KindTerms) -> ModelBody:
        """Decode and check a body against its planned query, the schema and the limits.

        Raises RemoteProtocolError: MALFORMED, NOT_IN_PLAN, BAD_QUERY or OVER_LIMIT.
        """
        planned: PlannedModel = turn.planned
        body = decode(data, ModelBody, field="body")
        if len(body.models) != planned.models:
            raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, "body.models", f"exactly {planned.models}")
        if complaint := planned.method.label_complaint(terms.schema):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, "plan.queries.method", complaint)
        checked: set[Body] = set()
        for index, model in enumerate(body.models):
            if model not in checked:
                planned.method.check_body(model, terms.schema, f"body.models[{index}]")
                checked.add(model)
        if sum(self.lengths(Question(turn, body, terms.schema))) > terms.limits.numbers:
            raise RemoteProtocolError(RefusalCode.OVER_LIMIT, "body.models", f"at most {terms.limits.numbers} numbers")
        return body

    def lengths(self, question: Question) -> tuple[int, ...]:
        """Number of released numbers of each model."""
        method: AnyMethod = question.turn.planned.method
        models: tuple[Body, ...] = question.body.models
        lengths = {model: method.length(model, question.schema) for model in set(models)}
        return tuple(lengths[model] for model in models)

    def work(self, question: Question, round_size: int | None) -> int:
        """Work of a query from its bytes to the stored reply, in the unit of `protocol.limits`."""
        method: AnyMethod = question.turn.planned.method
        models: tuple[Body, ...] = question.body.models
        different = set(models)
        parts = [method.work(model, question.schema) for model in different]
        if isinstance(method, KMeans):
            parts += [method.work_of_another_run] * (len(models) - len(different))
        once = QUERY_ONCE + sum(part.once for part in parts) + NOISE_ONCE * sum(self.lengths(question))
        per_record = sum(RECORD_COST + part.per_record for part in parts)
        return once + per_record * (round_size or ASSUMED_ROUND_SIZE)

    def release_bytes(self, question: Question) -> int:
        """Eight bytes for each number, and a frame."""
        return RELEASE_FRAME_BYTES + 8 * sum(self.lengths(question))

    def read_release(self, data: bytes, question: Question) -> NDArray[np.number[Any]]:
        """All released numbers, (k,) int64, model by model. Raises RemoteProtocolError(MALFORMED): wrong shape."""
        release = decode(data, ModelRelease, field="release")
        length = sum(self.lengths(question))
        if len(release.numbers) != 8 * length:
            raise RemoteProtocolError(RefusalCode.MALFORMED, "release", f"{length} numbers")
        return np.frombuffer(release.numbers, "<i8")


MODEL = Model()
