"""A secure sum for a person's eyes: who sums, what each turn relays, how long the masked vectors are. No check here."""

from typing import Any

from expril.audit.kinds.shown.counts import planned as planned_counts
from expril.audit.kinds.shown.counts import question as asked_counts
from protocol.codec import decode
from protocol.errors import RemoteProtocolError
from protocol.kinds.secure_counts import (
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


def planned(query: PlannedSecureCounts, most_records_per_unit: int) -> dict[str, Any]:
    """As of `counts`, and who sums: n, t, u and h as docs/secure-sums.md has them."""
    sites, colluders, dropouts = len(query.participants), query.colluders, query.dropouts
    return planned_counts(query, most_records_per_unit) | {
        "n": sites,
        "t": colluders,
        "u": dropouts,
        "h": query.shares,
        "participants": [key.hex() for key in query.participants],
        "who": f", over {sites} sites (n), of whom at most {colluders} collude (t) and {dropouts} drop out (u)",
    }


def question(data: bytes, schema: Schema | None) -> dict[str, Any]:
    """What a turn asks or relays; raises RemoteProtocolError where it is none of the five."""
    body = _one_of(data, BODIES)
    match body:
        case AskKeys():
            return {"turn": "keys", **asked_counts(body.counts, schema)}
        case RelayCards():
            return {"turn": "shares", "cards": [index for index, _ in body.cards]}
        case RelayShares():
            told = {"turn": "masked", "dealers": list(body.dealers), "shares": [index for index, _ in body.shares]}
            return told | asked_counts(body.counts, schema)
        case ProposeSurvivors():
            return {"turn": "agreed", "survivors": list(body.survivors)}
    opening: OpenSum = body
    signed = [index for index, _ in opening.agreements]
    return {"turn": "opened", "survivors": list(opening.survivors), "signed by": signed}


def released(data: bytes) -> list[str]:
    """The masked words, as text; none of other turns. Raises RemoteProtocolError where it is no release."""
    release = _one_of(data, RELEASES)
    if not isinstance(release, MaskedCounts):
        return []
    return [
        str(int.from_bytes(release.words[at : at + 8], "little")) for at in range(0, len(release.words) // 8 * 8, 8)
    ]


def _one_of(data: bytes, kinds: tuple[type[Any], ...]) -> Any:
    """The first that the bytes are; their fields tell them apart."""
    for kind in kinds[:-1]:
        try:
            return decode(data, kind)
        except RemoteProtocolError:
            continue
    return decode(data, kinds[-1])
