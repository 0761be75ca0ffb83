"""What a curator's ledger notes of a secure sum, and what an auditor holds against it.

`planned` is a `protocol.kinds.secure_counts.PlannedSecureCounts` throughout.
"""

import json
from collections.abc import Collection, Sequence
from typing import Annotated, Any

import msgspec

from protocol.codec import encode
from protocol.envelopes import digest
from protocol.query_kind import Turn
from protocol.secure_sum.aggregator import STEPS
from protocol.secure_sum.graph import COMPLETE_UP_TO

SHARES, MASKED, OPENED = map(STEPS.index, ("shares", "masked", "opened"))
"""Numbers of the turns of which something is noted."""


def remark(body: Any, turn: Turn) -> str:
    """Of turn 1 which round it is, of turn 2 who sums, of turn 4 over whom it was opened; JSON.

    The round's name is a digest of all its cards, the curator's own among them: whoever sums together has the same.
    """
    planned = turn.planned
    told = {
        "sites": len(planned.participants),
        "colluders": planned.colluders,
        "dropouts": planned.dropouts,
        "shares": planned.shares,
    }
    if turn.number == SHARES:
        return json.dumps(told | {"round": digest(encode(body.cards)).hex()}, sort_keys=True)
    if turn.number == MASKED:
        return json.dumps(told, sort_keys=True)
    if turn.number == OPENED:
        return json.dumps(told | {"survivors": list(body.survivors)}, sort_keys=True)
    return ""


class Remark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `remark` says.

    Attributes:
        sites: n, named in the plan.
        colluders, dropouts: t and u of the plan.
        shares: h = n - t - u, of the noise.
        round: which, in hexadecimal; of turn 1 alone.
        survivors: indices of those over whom the sum was opened; of turn 4 alone.
    """

    sites: int
    colluders: int
    dropouts: int
    shares: int
    round: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")] | msgspec.UnsetType = msgspec.UNSET
    survivors: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET


def told(remark: str) -> str:
    """A remark in words; what is none, as it is."""
    try:
        said = msgspec.json.decode(remark, type=Remark)
    except msgspec.DecodeError:
        return remark
    if not isinstance(said.round, msgspec.UnsetType):
        return f"deals shares among {said.sites} sites; the secure sum {said.round[:16]}"
    if isinstance(said.survivors, msgspec.UnsetType):
        return (
            f"a secure sum over {said.sites} sites (n), at most {said.colluders} of them colluding (t), "
            f"{said.dropouts} dropping out (u); the noise of one is made of {said.shares} shares (h)"
        )
    missing = sorted(set(range(said.sites)) - set(said.survivors))
    without = f"; not among them, counted from 0 in the plan: {', '.join(map(str, missing))}" if missing else ""
    return f"helped to open the sum over {len(said.survivors)} of {said.sites} sites{without}"


def check_remark(remark: str, turn: Turn, keys: Collection[bytes]) -> str:
    """What is wrong with a remark in the ledger of a curator with these keys; "" where nothing is."""
    planned = turn.planned
    if turn.number not in (SHARES, MASKED, OPENED):
        return "says of a turn what it does not tell" if remark else ""
    try:
        said = msgspec.json.decode(remark, type=Remark)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "does not say who sums"
    group = (len(planned.participants), planned.colluders, planned.dropouts, planned.shares)
    if (said.sites, said.colluders, said.dropouts, said.shares) != group:
        return f"sums for other sites, colluders, dropouts and shares than the plan's {', '.join(map(str, group))}"
    names_round, names_survivors = (not isinstance(each, msgspec.UnsetType) for each in (said.round, said.survivors))
    if (names_round, names_survivors) != (turn.number == SHARES, turn.number == OPENED):
        return "does not name the round with the second turn, and those summed over with the last"
    if isinstance(said.survivors, msgspec.UnsetType):
        return ""
    own = {place for place, key in enumerate(planned.participants) if key in keys}
    most, among = len(planned.participants), set(said.survivors)
    if list(said.survivors) != sorted(among) or not among <= set(range(most)):
        return f"opens a sum over others than the {most} sites of the plan"
    if len(among) < (least := planned.shares + planned.colluders):
        return f"opens a sum over {len(among)} sites, and the plan needs {least}"
    return "" if own & among else "opens a sum that its curator is not in"


def in_common(planned: Any, remarks: Sequence[str]) -> tuple[str, str] | None:  # noqa: ARG001
    """The round, and over whom it was opened; None where the remarks do not reach so far, or say no such thing."""
    try:
        said = [msgspec.json.decode(remark, type=Remark) for remark in (remarks[SHARES], remarks[OPENED])]
    except (msgspec.DecodeError, UnicodeDecodeError, IndexError):
        return None
    if isinstance(said[0].round, msgspec.UnsetType) or isinstance(said[1].survivors, msgspec.UnsetType):
        return None
    return f"the secure sum {said[0].round[:16]}", f"opened over sites {', '.join(map(str, said[1].survivors))}"


CONDITION = (
    "while at most t of a sum's sites tell the learner all they know; a site whose ledger was put back within the sum "
    "is one of those"
)
"""Of every plan; `proviso` says it of one."""


def proviso(planned: Any) -> str:
    """On what condition its cost holds, for the steward who approves and for who reads an audit."""
    return (
        f"summed with {len(planned.participants) - 1} other sites under the noise of one. The cost holds while at most "
        f"{planned.colluders} of them tell the learner all they know, while no ledger is put back before the sum is "
        "done (another site's counts as one of those; this one's leaves its own records a share of the noise alone), "
        "and while the cryptography is not broken"
        + (", but for a chance of 2^-104" if len(planned.participants) > COMPLETE_UP_TO else "")
    )
