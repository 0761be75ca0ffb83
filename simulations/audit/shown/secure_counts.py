"""A secure sum for a person's eyes: what its cost is made of, who sums, what is relayed turn by turn. No check here."""

import struct
from typing import Any

from protocol.codec import decode
from protocol.errors import RemoteProtocolError
from protocol.queries.secure_counts import (
    BODIES,
    RELEASES,
    AskKeys,
    MaskedCounts,
    OpenSum,
    PlannedSecureCounts,
    ProposeSurvivors,
    RelayCards,
    RelayShares,
)
from protocol.schema import Schema
from simulations.audit.shown import counts


def planned(query: PlannedSecureCounts, most_records_per_unit: int) -> dict[str, Any]:
    """What its cost is made of, as of `counts`; and who sums."""
    return counts.planned(query, most_records_per_unit) | {
        "n": len(query.participants),
        "t": query.colluders,
        "u": query.dropouts,
        "h": query.shares,
        "participants": [key.hex() for key in query.participants],
    }


def question(data: bytes, schema: Schema | None) -> dict[str, Any]:
    """What a turn asks; participants are told by place in the plan, from 0. Raises RemoteProtocolError for no body."""
    body = _read(data, BODIES)
    match body:
        case AskKeys():
            return {"turn": "keys"} | counts.question(body.counts, schema)
        case RelayCards():
            return {"turn": "shares", "cards": [index for index, _ in body.cards]}
        case RelayShares():
            told = {"turn": "masked", "dealers": list(body.dealers), "shares": [index for index, _ in body.shares]}
            return told | counts.question(body.counts, schema)
        case ProposeSurvivors():
            return {"turn": "agreed", "survivors": list(body.survivors)}
        case OpenSum():
            signers = [index for index, _ in body.agreements]
            return {"turn": "opened", "survivors": list(body.survivors), "signers": signers}
    raise AssertionError(body)


def released(data: bytes) -> list[str]:
    """The masked words as text, of other turns none; raises RemoteProtocolError where it is no release."""
    body = _read(data, RELEASES)
    words = body.words if isinstance(body, MaskedCounts) else b""
    return [str(word) for (word,) in struct.iter_unpack("<Q", words[: len(words) // 8 * 8])]


def _read(data: bytes, kinds: tuple[type[Any], ...]) -> Any:
    """As the first of these that it can be; by turn they have different fields."""
    for kind in kinds[:-1]:
        try:
            return decode(data, kind)
        except RemoteProtocolError:
            continue
    return decode(data, kinds[-1])
