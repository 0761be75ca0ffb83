"""The toy kind, as far as both sides must agree."""

from fractions import Fraction
from typing import Annotated

import msgspec
import numpy as np

from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.examples import Asked, Example
from protocol.noise import DiscreteLaplace
from protocol.plans import Planned
from protocol.query_kind import QueryKind
from protocol.rationals import Rational
from protocol.refusals import RefusalCode
from protocol.schema import NumericAttribute, Schema

Number = Annotated[int, msgspec.Meta(ge=-(2**60), le=2**60)]


class PlannedToy(Planned, frozen=True, tag="toy"):
    """Two turns, each at most of cost c / scale; from `level` tens on the second is drawn anew."""

    scale: Rational
    level: Number
    turns: int = 1

    @property
    def law(self):
        """Of the noise."""
        return DiscreteLaplace(self.scale.fraction)


class ToyLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The toy's own limits."""

    highest_level: Annotated[int, msgspec.Meta(ge=0)] = 100


class ToyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Records above this age, in the first turn; nothing in the second."""

    above: float | None


class ToyRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The released number."""

    number: Number


def check_planned(planned):
    if planned.turns != 2:
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.turns", "2")


def check_allowed(planned, schema, limits, field):
    if planned.level > limits.highest_level:
        raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.level", f"at most {limits.highest_level}")


def cost(planned, most_records_per_unit):
    return 2 * planned.law.loss(most_records_per_unit)


def is_drawn_anew(turn, past):
    """Whether the second turn draws: by the tens that the first turn of this query released."""
    (tens,) = (decode(item.release, ToyRelease).number for item in past if item.turn.query == turn.query)
    return tens >= turn.planned.level


def charge(turn, past, most_records_per_unit):
    draws = turn.number == 0 or is_drawn_anew(turn, past)
    return turn.planned.law.loss(most_records_per_unit) if draws else Fraction(0)


def read_body(data, turn, schema, limits):
    body = decode(data, ToyBody, field="body")
    if (body.above is None) != (turn.number == 1):
        raise RemoteProtocolError(RefusalCode.BAD_QUERY, "body.above", "a number in the first turn, none in the second")
    return body


def read_release(data, body, turn, schema):
    decode(data, ToyRelease, field="release")
    return data


def numbers(data, body, turn, schema):
    return np.array([decode(data, ToyRelease).number])


def ask(copies):
    """At a cost of 1 a draw; from 0 tens on the second turn is drawn anew."""
    return Asked(PlannedToy(scale=Rational(1, 1), level=0, turns=2), (encode(ToyBody(29.5)), encode(ToyBody(None))))


def examples():
    """A threshold at a record; its second turn is free, or not, about as often."""
    schema = Schema(attributes=(NumericAttribute("age", 0, 120),), label="sick", classes=("no", "yes"))
    return {"": (Example("two turns", schema, ask, values={"age": (29.5, np.nextafter(29.5, 0.0))}),)}


TOY = QueryKind(
    name="toy",
    relation="add or remove one toy",
    planned=PlannedToy,
    limits=ToyLimits,
    check_planned=check_planned,
    check_allowed=check_allowed,
    cost=cost,
    charge=charge,
    read_body=read_body,
    work=lambda body, turn, schema, round_size: 1000,
    release_bytes=lambda body, turn, schema: len(encode(ToyRelease(2**60))),
    read_release=read_release,
    state_bytes=100,
    examples=examples,
    numbers=numbers,
)
