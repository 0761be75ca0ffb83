"""The toy kind, as far as both sides must agree."""

from fractions import Fraction
from typing import Annotated

import msgspec
import numpy as np

from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.noise import DiscreteLaplace
from protocol.plans import Planned
from protocol.query_kind import QueryKind
from protocol.rationals import Rational
from protocol.refusals import RefusalCode

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

    above: float | None = None


class ToyRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The released number."""

    number: Number


class Toy(QueryKind):
    name = "toy"
    relation = "add or remove one toy"
    planned = PlannedToy
    limits = ToyLimits
    state_bytes = 100
    bodies = (ToyBody,)

    def check_planned(self, planned):
        if planned.turns != 2:
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.turns", "2")

    def check_allowed(self, planned, terms, field):
        if planned.level > terms.limits.highest_level:
            limit = f"at most {terms.limits.highest_level}"
            raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.level", limit)

    def cost(self, planned, most_records_per_unit):
        return 2 * planned.law.loss(most_records_per_unit)

    def charge(self, turn, past, most_records_per_unit):
        draws = turn.number == 0 or is_drawn_anew(turn, past)
        return turn.planned.law.loss(most_records_per_unit) if draws else Fraction(0)

    def read_body(self, data, turn, terms):
        body = decode(data, ToyBody, field="body")
        if (body.above is None) != (turn.number == 1):
            limit = "a number in the first turn, none in the second"
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, "body.above", limit)
        return body

    def work(self, question, round_size):
        return 1000

    def release_bytes(self, question):
        return len(encode(ToyRelease(2**60)))

    def read_release(self, data, question):
        return np.array([decode(data, ToyRelease, field="release").number])


def is_drawn_anew(turn, past):
    """Whether the second turn draws: by the tens that the first turn of this query released."""
    (tens,) = (decode(item.release, ToyRelease).number for item in past if item.turn.query == turn.query)
    return tens >= turn.planned.level


TOY = Toy()
