"""The `model` query: a model that the curator fits to its records, as whole numbers with discrete Laplace noise.

Cost: the planned epsilon. A privacy unit of at most c records moves all released numbers together by at most the
method's sensitivity (L1), for each of the models that are asked for; the scale of the noise is that sum over epsilon.
Each method proves its own, see `protocol.kinds.models` and docs/in-site-models.md.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode
from protocol.errors import RemoteProtocolError
from protocol.examples import Example
from protocol.kinds.models import METHODS, AnyMethod, Body, KMeans
from protocol.limits import ASSUMED_ROUND_SIZE, CALL_ONCE, Positive
from protocol.noise import DiscreteLaplace, Moved
from protocol.odds import MISSES, OFTEN, WORST, Odds, PrivacyUnit
from protocol.plans import Planned
from protocol.query_kind import QueryKind, Turn
from protocol.rationals import MOST, Rational
from protocol.refusals import RefusalCode
from protocol.schema import Schema
from protocol.strict_toml import suggest

MOST_MODELS = 1000
"""Most models of one query."""
RECORD_COST = 300
QUERY_ONCE = 1_000 * CALL_ONCE
NOISE_ONCE = 300_000
"""As `counts` has them: signatures, ledger and codec; a number of exact noise at its slowest scale."""
RELEASE_FRAME_BYTES = 16
"""A map of one, its key, and the longest head of its value."""


class PlannedModel(Planned, frozen=True, tag="model"):
    """A future fit, and all that its noise depends on.

    Attributes:
        method: its public settings.
        epsilon: what all models of the query cost together, for a unit of as many records as the curator allows.
        models: how many are fitted, each from a body of its own.
    """

    method: AnyMethod
    epsilon: Rational
    models: Annotated[int, msgspec.Meta(ge=1, le=MOST_MODELS)] = 1

    @property
    def name(self) -> str:
        """Of the method."""
        return str(self.method.__struct_config__.tag)


class ModelLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a curator limits of in-site models.

    Attributes:
        methods: allowed methods.
        models: most models of a query.
        numbers: most numbers that a query releases: parameters, clusters and leaves of all its models.
    """

    methods: tuple[str, ...] = tuple(METHODS)
    models: Positive = 1000
    numbers: Positive = 100_000

    def __post_init__(self) -> None:
        for name in self.methods:
            if name not in METHODS:
                raise ValueError(f"unknown method {name!r}{suggest(name, list(METHODS))}")


class ModelBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked: what each model is made of beside its plan.

    Equal ones are fitted once, but for k-means, and each is released with noise of its own.
    """

    models: Annotated[tuple[Body, ...], msgspec.Meta(min_length=1, max_length=MOST_MODELS)]


class ModelRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is answered: noisy whole numbers, little-endian int64, model by model, as the method orders them."""

    numbers: bytes


def check_planned(planned: PlannedModel) -> None:
    """Raise RemoteProtocolError(BAD_PLAN) for settings that do not fit together."""
    if complaint := planned.method.complaint():
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.method", complaint)


def check_allowed(planned: PlannedModel, schema: Schema, limits: ModelLimits, field: str) -> None:
    """Raise RemoteProtocolError (KIND_NOT_ALLOWED, BAD_PLAN, OVER_LIMIT) where a curator would not accept it."""
    if planned.name not in limits.methods:
        allowed = ", ".join(limits.methods)
        raise RemoteProtocolError(RefusalCode.KIND_NOT_ALLOWED, f"{field}.method", allowed)
    if complaint := planned.method.label_complaint(schema):
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, f"{field}.method", complaint)
    if planned.models > limits.models:
        raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.models", f"at most {limits.models} models")


def sensitivity(planned: PlannedModel, most_records_per_unit: int) -> int:
    """L1 distance by which a unit of so many records moves all released numbers together; at least 1."""
    return planned.models * planned.method.sensitivity(most_records_per_unit)


def law(planned: PlannedModel, most_records_per_unit: int) -> DiscreteLaplace:
    """The noise in each released number: its scale is the sensitivity over epsilon.

    Raises:
        RemoteProtocolError: BAD_PLAN where the scale needs more than 32 bits.
    """
    scale = sensitivity(planned, most_records_per_unit) / planned.epsilon.fraction
    if scale.numerator > MOST or scale.denominator > MOST:
        limit = "a scale of at most 32 bits: fewer steps, a shorter radius, or more epsilon"
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.epsilon", limit)
    return DiscreteLaplace(scale)


def cost(planned: PlannedModel, most_records_per_unit: int) -> Fraction:
    """Exactly the planned epsilon; raises as `law`."""
    return law(planned, most_records_per_unit).loss(sensitivity(planned, most_records_per_unit))


def odds(planned: PlannedModel, unit: PrivacyUnit, readers: int | None = None) -> Odds:
    """As far as a change of a unit that stays moves the numbers, by the same noise."""
    method, noise, models = planned.method, law(planned, unit.records), planned.models
    parts = models if readers is None else min(readers, models)
    label = noise.loss(models * method.moved_by_label(unit.records))
    return Odds(cost(planned, unit.records), label, noise.loss(parts * method.moved_by_change(unit.records)))


def most_odds(limits: ModelLimits, unit: PrivacyUnit) -> Odds:  # noqa: ARG001
    """Twice the presence; of the label less, where no allowed method reads it, or but by the logistic loss."""
    label = max((_LABEL.get(name, Fraction(2)) for name in limits.methods), default=Fraction(0))
    return Odds(WORST.presence, label, WORST.attribute)


_LABEL = {"k_means": Fraction(0), "principal_components": Fraction(0), "logistic_regression": Fraction(1)}
"""Exponent of the label for each of presence, at most; 2 for all others."""


def precision(planned: PlannedModel, unit: PrivacyUnit) -> str:
    """Of each released number, beside what a unit moves all of them by."""
    width, moved = law(planned, unit.records).width(MISSES), sensitivity(planned, unit.records)
    return (
        f"{planned.models} fitted to the records by {planned.name}, each number right within {width} steps in {OFTEN}, "
        f"where one unit moves all numbers together by {moved} at most; epsilon {planned.epsilon.fraction}"
    )


def laws(planned: PlannedModel, most_records_per_unit: int) -> tuple[Moved, ...]:
    """Each part of each model, which one unit moves by its share of the sensitivity, however spread over numbers.

    No spread tells more than one number moved by all of it: docs/counts.md. Of parts that look at earlier
    ones the same holds, once these are given.
    """
    parts = planned.models * planned.method.parts
    return (Moved(law(planned, most_records_per_unit), sensitivity(planned, most_records_per_unit) // parts, parts),)


def read_body(data: bytes, turn: Turn, schema: Schema, limits: ModelLimits) -> ModelBody:
    """Decode and check a body against its planned query, the schema and the limits; reads no record.

    Raises:
        RemoteProtocolError: MALFORMED, NOT_IN_PLAN, BAD_QUERY or OVER_LIMIT.
    """
    planned: PlannedModel = turn.planned
    body = decode(data, ModelBody, field="body")
    if len(body.models) != planned.models:
        raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, "body.models", f"exactly {planned.models}")
    if complaint := planned.method.label_complaint(schema):
        raise RemoteProtocolError(RefusalCode.BAD_QUERY, "plan.queries.method", complaint)
    checked: set[Body] = set()
    for index, model in enumerate(body.models):
        if model not in checked:
            planned.method.check_body(model, schema, f"body.models[{index}]")
            checked.add(model)
    if length(body, turn, schema) > limits.numbers:
        raise RemoteProtocolError(RefusalCode.OVER_LIMIT, "body.models", f"at most {limits.numbers} numbers")
    return body


def length(body: ModelBody, turn: Turn, schema: Schema) -> int:
    """Numbers in the release."""
    return sum(lengths(body, turn, schema))


def lengths(body: ModelBody, turn: Turn, schema: Schema) -> tuple[int, ...]:
    """Numbers of each model."""
    method: AnyMethod = turn.planned.method
    known = {model: method.length(model, schema) for model in set(body.models)}
    return tuple(known[model] for model in body.models)


def work(body: ModelBody, turn: Turn, schema: Schema, round_size: int | None) -> int:
    """Work of a query from its bytes to the stored reply, in the unit of `protocol.limits`; see `counts.work`."""
    method: AnyMethod = turn.planned.method
    different = set(body.models)
    parts = [method.work(model, schema) for model in different]
    if isinstance(method, KMeans):
        parts += [method.work_of_another_run] * (len(body.models) - len(different))
    once = QUERY_ONCE + sum(part.once for part in parts) + NOISE_ONCE * length(body, turn, schema)
    per_record = sum(RECORD_COST + part.per_record for part in parts)
    return once + per_record * (round_size or ASSUMED_ROUND_SIZE)


def release_bytes(body: ModelBody, turn: Turn, schema: Schema) -> int:
    """Most bytes of the encoded release of a checked body; the receipt and the envelope around it not among them."""
    return RELEASE_FRAME_BYTES + 8 * length(body, turn, schema)


def read_release(data: bytes, body: ModelBody, turn: Turn, schema: Schema) -> bytes:
    """The released numbers, after a check of their shape: little-endian int64; RemoteProtocolError(MALFORMED)."""
    release = decode(data, ModelRelease, field="release")
    wanted = length(body, turn, schema)
    if len(release.numbers) != 8 * wanted:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "release", f"{wanted} numbers")
    return release.numbers


def numbers(data: bytes, body: ModelBody, turn: Turn, schema: Schema) -> NDArray[np.number[Any]]:
    """All released numbers, (k,) int64, model by model; raises as `read_release`."""
    return np.frombuffer(read_release(data, body, turn, schema), "<i8")


def examples() -> Mapping[str, Sequence[Example]]:
    """What an auditor asks, by method."""
    from protocol.kinds.model_examples import examples_by_method  # noqa: PLC0415 - made of the structs above

    return examples_by_method()


MODEL = QueryKind(
    name="model",
    relation="add or remove one privacy unit",
    planned=PlannedModel,
    limits=ModelLimits,
    check_planned=check_planned,
    check_allowed=check_allowed,
    cost=cost,
    read_body=read_body,
    work=work,
    release_bytes=release_bytes,
    read_release=read_release,
    examples=examples,
    numbers=numbers,
    laws=laws,
    odds=odds,
    most_odds=most_odds,
    precision=precision,
    tells="models that are fitted to the records",
)
