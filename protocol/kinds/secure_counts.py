"""The `secure_counts` query: the sum over several curators of what `counts` asks of one, with the noise of one.

Each curator adds a share of the noise, so that the shares of any h of them add up to one discrete Laplace variable, and
masks hide all but the sum (`protocol.secure_sum`). It takes five turns; the learner relays what curators say to each
other:

    keys      what is asked            ->  a key card, made for this round and signed
    shares    all key cards            ->  shares of the masks' secrets, sealed for each neighbour
    masked    the shares for this one  ->  counts, a share of noise, and masks, modulo 2^64: charged here
    agreed    the survivor list        ->  a signature on it
    opened    enough such signatures   ->  shares that open the sum over this list

Cost: that of the `counts` query with this scale, as long as at most t of the n curators collude with the learner.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode, encode
from protocol.envelopes import check_public_key, digest, encode_parts
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.examples import Example
from protocol.kinds.counts import COUNTS, QUERY_ONCE, CountsBody, CountsLimits, PlannedCounts, length
from protocol.kinds.secure_remarks import CONDITION, check_remark, in_common, proviso, remark, told
from protocol.messages import Key
from protocol.odds import PrivacyUnit
from protocol.query_kind import QueryKind, Turn
from protocol.refusals import RefusalCode
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import Schema
from protocol.secure_sum.aggregator import STEPS
from protocol.secure_sum.group import (
    LEAST_PARTICIPANTS,
    MOST_PARTICIPANTS,
    Cards,
    Group,
    Index,
    Indices,
    KeyCard,
    Signature,
    complaint_about,
)

KEYS, SHARES, MASKED, AGREED, OPENED = range(len(STEPS))
"""Numbers of the turns."""
TURNS = len(STEPS)
NONCE = 16
_KEY = re.compile(r"[0-9a-f]{64}")

Sealed = Annotated[bytes, msgspec.Meta(min_length=1, max_length=200)]
Relays = Annotated[tuple[tuple[Index, Sealed], ...], msgspec.Meta(max_length=MOST_PARTICIPANTS)]
MostAgreements = Annotated[tuple[tuple[Index, Signature], ...], msgspec.Meta(max_length=MOST_PARTICIPANTS)]


class PlannedSecureCounts(PlannedCounts, frozen=True, tag="secure_counts", kw_only=True):
    """A future secure sum of counts: a `counts` query, and who answers it together.

    Attributes:
        turns: always 5.
        participants: identity keys of the n curators, ascending.
        colluders: t, assumed at most to tell the learner all they know.
        dropouts: u, tolerated.
    """

    turns: Annotated[int, msgspec.Meta(ge=TURNS, le=TURNS)]
    participants: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MOST_PARTICIPANTS)]
    colluders: Annotated[int, msgspec.Meta(ge=1, le=MOST_PARTICIPANTS)]
    dropouts: Annotated[int, msgspec.Meta(ge=0, le=MOST_PARTICIPANTS)]

    @property
    def shares(self) -> int:
        """Noise shares h = n - t - u that add up to one whole noise."""
        return len(self.participants) - self.colluders - self.dropouts

    def group(self, label: str) -> Group:
        """Its participants, who sign under `label`."""
        return Group(self.participants, self.colluders, self.dropouts, label)


class SecureCountsLimits(CountsLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a curator limits of secure sums: as of `counts`, and with whom it sums.

    They are on the card: a learner plans by them.

    Attributes:
        members: identity keys, in hexadecimal, of all curators that sum together, its own among them: a stranger in
            the plan could be the learner itself. Without any, no plan is accepted.
        least_colluders: fewest colluders t that a plan must assume.

    Raises:
        ValueError: a release kind that is not private, a member that is no key, or stands there twice, or too few
            members; the text says what to do.
    """

    members: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_PARTICIPANTS)] = ()
    least_colluders: Annotated[int, msgspec.Meta(ge=1, le=MOST_PARTICIPANTS)] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.release_kinds:
            if not RELEASE_KINDS[name].private:
                raise ValueError(f"release_kinds: {name!r} is not private as claimed, and never summed; remove it")
        for place, key in enumerate(self.members):
            _check_member(key, f"members[{place}]")
        doubled = next((key for key, other in pairwise(sorted(self.members)) if key == other), None)
        if doubled is not None:
            raise ValueError(f"members: {doubled[:16]} stands there twice; write each curator's key once")
        if 0 < len(self.members) < LEAST_PARTICIPANTS:
            raise ValueError("members: one curator alone is no secure sum; add the public keys of the others")
        if 0 < len(self.members) <= self.least_colluders:
            most = len(self.members) - 1
            raise ValueError(
                f"least_colluders: at most {most} of {len(self.members)} members; one is left to be protected"
            )


def _check_member(key: str, where: str) -> None:
    if _KEY.fullmatch(key) is None:
        raise ValueError(f"{where}: {key[:70]!r} is not 64 lower-case hexadecimal digits, as expril keys prints a key")
    try:
        check_public_key(bytes.fromhex(key))
    except ConfigurationError as error:
        raise ValueError(f"{where}: {error}") from None


class AskKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Turn 0. `counts` is the encoded body of the `counts` query; `nonce` makes the question a new one."""

    counts: bytes
    nonce: Annotated[bytes, msgspec.Meta(min_length=NONCE, max_length=NONCE)]


class RelayCards(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Turn 1: all key cards that came."""

    cards: Cards


class RelayShares(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Turn 2: who dealt, the shares for this curator, and what is asked once more."""

    dealers: Indices
    shares: Relays
    counts: bytes
    nonce: Annotated[bytes, msgspec.Meta(min_length=NONCE, max_length=NONCE)]


class ProposeSurvivors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Turn 3: whose masked vectors came."""

    survivors: Indices


class OpenSum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Turn 4: the same list, and who signed it."""

    survivors: Indices
    agreements: MostAgreements


class SealedShares(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer to turn 1: (index of the holder, sealed shares)."""

    shares: Relays


class MaskedCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer to turn 2: little-endian words modulo 2^64."""

    words: bytes


class Agreement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer to turn 3: a signature on the survivor list."""

    signature: Signature


class Revealed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer to turn 4: (index of the dealer, share of one of its secrets)."""

    shares: Relays


class Question(msgspec.Struct, frozen=True):
    """The checked body of turn 0, or of turn 2: what is asked, and how it came."""

    body: CountsBody
    sent: AskKeys | RelayShares


BODIES: tuple[type[Any], ...] = (AskKeys, RelayCards, RelayShares, ProposeSurvivors, OpenSum)
"""By turn."""
RELEASES: tuple[type[Any], ...] = (KeyCard, SealedShares, MaskedCounts, Agreement, Revealed)
"""By turn."""


def check_planned(planned: PlannedSecureCounts) -> None:
    """Raise RemoteProtocolError(BAD_PLAN) as `counts` does, and for a group that breaks a rule."""
    COUNTS.check_planned(planned)
    if not RELEASE_KINDS[planned.release].private:
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.release", "a release that is private as claimed")
    if complaint := complaint_about(planned.participants, planned.colluders, planned.dropouts):
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.participants", complaint)


def check_allowed(planned: PlannedSecureCounts, schema: Schema, limits: SecureCountsLimits, field: str) -> None:
    """As `counts`; and the curator sums with all of the participants, and trusts in no fewer colluders."""
    COUNTS.check_allowed(planned, schema, limits, field)
    if not {key.hex() for key in planned.participants} <= set(limits.members):
        raise RemoteProtocolError(
            RefusalCode.OVER_LIMIT, f"{field}.participants", "only curators that are members by this curator's policy"
        )
    if planned.colluders < limits.least_colluders:
        limit = f"at least {limits.least_colluders} colluders"
        raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.colluders", limit)


def read_body(data: bytes, turn: Turn, schema: Schema, limits: SecureCountsLimits) -> Any:
    """The body of a turn: a `Question` of turns 0 and 2, else the struct of the turn; raises as `counts.read_body`."""
    sent = decode(data, BODIES[turn.number], field="body")
    if isinstance(sent, AskKeys | RelayShares):
        return Question(COUNTS.read_body(sent.counts, turn, schema, limits), sent)
    return sent


def question_digest(learner: bytes, turn: Turn, sent: AskKeys | RelayShares) -> bytes:
    """What all participants sign for: whose question of which plan it is, and every byte of it."""
    place = turn.query.to_bytes(8, "big")
    return digest(
        encode_parts(b"expril/2 secure counts", learner, encode(turn.planned), place, sent.counts, sent.nonce)
    )


def work(body: Any, turn: Turn, schema: Schema, round_size: int | None) -> int:
    """Work of a turn: that of the `counts` query where it is asked, and what the other participants cost."""
    sites = len(turn.planned.participants)
    per_site = {KEYS: 0, SHARES: SITE_ONCE + sites * SHARE_ONCE, MASKED: SITE_ONCE, AGREED: 0, OPENED: SITE_ONCE}
    once = QUERY_ONCE + sites * per_site[turn.number]
    if not isinstance(body, Question):
        return once
    asked = COUNTS.work(body.body, turn, schema, round_size)
    return once + asked + (sites * length(body.body, turn, schema) * WORD_ONCE if turn.number == MASKED else 0)


SITE_ONCE = 10_000_000
"""A signature checked, a key agreed on, a share sealed or opened: up to a millisecond of a slow core."""
SHARE_ONCE = 20_000
"""A share of a secret: two evaluations of a polynomial, one term for each participant at most."""
WORD_ONCE = 100
"""A word of a mask: drawn and added."""
_FRAME = 200


def release_bytes(body: Any, turn: Turn, schema: Schema) -> int:
    """Most bytes of the answer to a turn."""
    sites = len(turn.planned.participants)
    if turn.number == MASKED:
        return _FRAME + 8 * length(body.body, turn, schema)
    return _FRAME + (sites * 128 if turn.number in (SHARES, OPENED) else 0)


def read_release(data: bytes, body: Any, turn: Turn, schema: Schema) -> bytes:
    """The bytes of a turn's answer, after a check of their shape; RemoteProtocolError (MALFORMED) for another."""
    release = decode(data, RELEASES[turn.number], field="release")
    if isinstance(release, MaskedCounts):
        numbers = length(body.body, turn, schema)
        if len(release.words) != 8 * numbers:
            raise RemoteProtocolError(RefusalCode.MALFORMED, "release", f"{numbers} numbers")
    return data


def numbers(data: bytes, body: Any, turn: Turn, schema: Schema) -> NDArray[np.number[Any]]:
    """The masked words of turn 2, uint64; nothing of other turns. Raises as `read_release`."""
    read_release(data, body, turn, schema)
    if turn.number != MASKED:
        return np.zeros(0, np.uint64)
    return np.frombuffer(decode(data, MaskedCounts).words, "<u8")


def precision(planned: PlannedSecureCounts, unit: PrivacyUnit) -> str:
    """As of `counts`; the noise is that of the sum, and no less."""
    return f"{COUNTS.precision(planned, unit)}, at best, summed over {len(planned.participants)} curators"


def examples() -> Mapping[str, Sequence[Example]]:
    """What an auditor asks: whatever is counted, it is a sum that is released."""
    from protocol.kinds.secure_counts_examples import examples as of_sums  # noqa: PLC0415 - made of the structs above

    return {"": of_sums()}


SECURE_COUNTS = QueryKind(
    name="secure_counts",
    relation=COUNTS.relation,
    condition=CONDITION,
    tells=COUNTS.tells,
    planned=PlannedSecureCounts,
    limits=SecureCountsLimits,
    check_planned=check_planned,
    check_allowed=check_allowed,
    cost=COUNTS.cost,
    read_body=read_body,
    work=work,
    release_bytes=release_bytes,
    read_release=read_release,
    charged_turn=MASKED,
    remark=remark,
    told=told,
    check_remark=check_remark,
    in_common=in_common,
    proviso=proviso,
    private=COUNTS.private,
    private_planned=COUNTS.private_planned,
    state_bytes=2**18,
    examples=examples,
    numbers=numbers,
    laws=COUNTS.laws,
    odds=COUNTS.odds,
    most_odds=COUNTS.most_odds,
    precision=precision,
)
"""Its costs are pure epsilons of what everybody sees together while at most t participants collude, by computation."""
