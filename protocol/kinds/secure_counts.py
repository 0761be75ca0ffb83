"""The `secure_counts` query: a `counts` query to several curators, whose sum is released with the noise of one.

Each curator adds a share of the noise, so that the shares of any h of them add up to one discrete Laplace variable, and
masks hide all but the sum (`protocol.secure_sum`). The query takes five turns; the learner relays what curators say to
each other:

    keys      what is asked            ->  a key card, made for this round and signed
    shares    all key cards            ->  shares of the masks' secrets, sealed for each neighbour
    masked    the shares for this one  ->  counts, a share of noise, and masks, modulo 2^64: charged here
    agreed    the survivor list        ->  a signature on it
    opened    enough such signatures   ->  shares that open the sum over this list

Cost: that of the `counts` query with this scale, as long as at most t of the n curators collude with the learner.
"""

import json
import re
from itertools import pairwise
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode, encode
from protocol.envelopes import check_public_key, digest, encode_parts
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.kinds.counts import COUNTS, QUERY_ONCE, Counts, CountsBody, CountsLimits, PlannedCounts
from protocol.messages import Key
from protocol.odds import PrivacyUnit
from protocol.query_kind import KindTerms, Question, Turn
from protocol.refusals import RefusalCode
from protocol.secure_sum.aggregator import STEPS
from protocol.secure_sum.graph import COMPLETE_UP_TO
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
from protocol.strict_json import decode_json

KEYS, SHARES, MASKED, AGREED, OPENED = range(len(STEPS))
"""Numbers of the turns."""
TURNS = len(STEPS)
NONCE = 16
_KEY = re.compile(r"[0-9a-f]{64}")

Sealed = Annotated[bytes, msgspec.Meta(min_length=1, max_length=200)]
Relays = Annotated[tuple[tuple[Index, Sealed], ...], msgspec.Meta(max_length=MOST_PARTICIPANTS)]
MostAgreements = Annotated[tuple[tuple[Index, Signature], ...], msgspec.Meta(max_length=MOST_PARTICIPANTS)]


class PlannedSecureCounts(PlannedCounts, frozen=True, tag="secure_counts", kw_only=True):
    """A future secure sum: a `counts` query and the curators that answer it jointly."""

    turns: Annotated[int, msgspec.Meta(ge=TURNS, le=TURNS)]  # always 5
    # identity keys of the n curators, ascending
    participants: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MOST_PARTICIPANTS)]
    # t, assumed at most to tell the learner all they know
    colluders: Annotated[int, msgspec.Meta(ge=1, le=MOST_PARTICIPANTS)]
    dropouts: Annotated[int, msgspec.Meta(ge=0, le=MOST_PARTICIPANTS)]  # u, tolerated

    @property
    def shares(self) -> int:
        """Number h = n - t - u of noise shares in one full noise."""
        return len(self.participants) - self.colluders - self.dropouts

    def group(self, label: str) -> Group:
        """The group of its participants, who sign under `label`."""
        return Group(self.participants, self.colluders, self.dropouts, label)


class SecureCountsLimits(CountsLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A curator's limits on secure sums: those of `counts`, and the curators with which it sums, as listed on its card.

    Raises:
        ValueError: a release kind is unknown, a member is no key or is repeated, or there are too few members. The
            error says what to do.
    """

    # identity keys, in hexadecimal, of all curators that sum together, its own among them: a stranger in the plan could
    # be the learner itself. Without any, no plan is accepted.
    members: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_PARTICIPANTS)] = ()
    # fewest colluders t that a plan must assume
    least_colluders: Annotated[int, msgspec.Meta(ge=1, le=MOST_PARTICIPANTS)] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
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
    """Turn 1: the learner relays all key cards."""

    cards: Cards


class RelayShares(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Turn 2: the learner names the dealers, relays their shares for this curator, and repeats the question."""

    dealers: Indices
    shares: Relays
    counts: bytes
    nonce: Annotated[bytes, msgspec.Meta(min_length=NONCE, max_length=NONCE)]


class ProposeSurvivors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Turn 3: the learner lists the survivors, the curators whose masked vectors arrived."""

    survivors: Indices


class OpenSum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Turn 4: the learner repeats the survivor list, with the signatures on it."""

    survivors: Indices
    agreements: MostAgreements


class SealedShares(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer to turn 1: pairs (index of the holder, sealed shares)."""

    shares: Relays


class MaskedCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer to turn 2: the masked counts, little-endian words modulo 2^64."""

    words: bytes


class Agreement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer to turn 3: a signature on the survivor list."""

    signature: Signature


class Revealed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer to turn 4: pairs (index of the dealer, share of one of its secrets)."""

    shares: Relays


class SumBody(msgspec.Struct, frozen=True):
    """The checked body of turn 0 or 2: the question of `counts`, and the message that contains it."""

    body: CountsBody
    sent: AskKeys | RelayShares


BODIES: tuple[type[Any], ...] = (AskKeys, RelayCards, RelayShares, ProposeSurvivors, OpenSum)
"""Type of the body, by turn."""
RELEASES: tuple[type[Any], ...] = (KeyCard, SealedShares, MaskedCounts, Agreement, Revealed)
"""Type of the release, by turn."""


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ledger's note on a secure sum, as JSON."""

    sites: Annotated[int, msgspec.Meta(ge=0, le=100_000)]  # n, named in the plan
    colluders: int  # t of the plan
    dropouts: int  # u of the plan
    shares: int  # h = n - t - u, of the noise
    round: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")] | msgspec.UnsetType = msgspec.UNSET
    """Digest of all key cards of the round, in hexadecimal: the same for all who sum together. Of turn 1 alone."""
    survivors: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """Indices of those over whom the sum was opened; of turn 4 alone."""


SITE_ONCE = 10_000_000
"""Work per participant of checking a signature, agreeing on a key, or sealing or opening shares: up to a
millisecond."""
SHARE_ONCE = 20_000
"""Work per holder and participant: one term of each of the two polynomials whose values are the holder's shares."""
WORD_ONCE = 100
"""Work per participant and released number of drawing and adding a word of a mask."""
_FRAME = 200


class SecureCounts(Counts):
    """Query kind for sums of counts over curators, in five turns.

    Its cost is a pure epsilon for everything that anybody sees. It holds against an attacker of bounded computing
    power, if at most t participants collude.
    """

    name = "secure_counts"
    planned = PlannedSecureCounts
    limits = SecureCountsLimits
    charged_turn = MASKED
    state_bytes = 2**18
    by_default = False

    def check_planned(self, planned: Any) -> None:
        """Raise RemoteProtocolError(BAD_PLAN) as `counts` does, or if the group breaks a rule."""
        super().check_planned(planned)
        if complaint := complaint_about(planned.participants, planned.colluders, planned.dropouts):
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.participants", complaint)

    def check_allowed(self, planned: Any, terms: KindTerms, field: str) -> None:
        """Check as `counts`; also that the curator's limits allow all participants and this number of colluders."""
        super().check_allowed(planned, terms, field)
        limits: SecureCountsLimits = terms.limits
        if not {key.hex() for key in planned.participants} <= set(limits.members):
            limit = "only curators that are members by this curator's policy"
            raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.participants", limit)
        if planned.colluders < limits.least_colluders:
            limit = f"at least {limits.least_colluders} colluders"
            raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.colluders", limit)

    def read_body(self, data: bytes, turn: Turn, terms: KindTerms) -> Any:
        """The body of a turn: a `SumBody` in turns 0 and 2, else the turn's own struct; raises as `counts`."""
        sent = decode(data, BODIES[turn.number], field="body")
        if isinstance(sent, AskKeys | RelayShares):
            return SumBody(super().read_body(sent.counts, turn, terms), sent)
        return sent

    def work(self, question: Question, round_size: int | None) -> int:
        """Work of a turn: for each participant and, in turns 0 and 2, that of the `counts` query."""
        number, sites = question.turn.number, len(question.turn.planned.participants)
        per_site = {KEYS: 0, SHARES: SITE_ONCE + sites * SHARE_ONCE, MASKED: SITE_ONCE, AGREED: 0, OPENED: SITE_ONCE}
        once = QUERY_ONCE + sites * per_site[number]
        if not isinstance(question.body, SumBody):
            return once
        words = sites * self.length(question) * WORD_ONCE if number == MASKED else 0
        return once + COUNTS.work(counts_question(question), round_size) + words

    def release_bytes(self, question: Question) -> int:
        """Most bytes by turn: the masked words, or what is relayed to each participant."""
        if question.turn.number == MASKED:
            return _FRAME + 8 * self.length(question)
        relayed = question.turn.number in (SHARES, OPENED)
        return _FRAME + (len(question.turn.planned.participants) * 128 if relayed else 0)

    def length(self, question: Question) -> int:
        """Number of numbers in the sum, for turns 0 and 2."""
        return COUNTS.length(counts_question(question))

    def read_release(self, data: bytes, question: Question) -> NDArray[np.number[Any]]:
        """The masked words of turn 2, uint64; other turns have no numbers.

        Raises RemoteProtocolError(MALFORMED): `data` is no answer to this turn.
        """
        release = decode(data, RELEASES[question.turn.number], field="release")
        if not isinstance(release, MaskedCounts):
            return np.zeros(0, np.uint64)
        if len(release.words) != 8 * (length := self.length(question)):
            raise RemoteProtocolError(RefusalCode.MALFORMED, "release", f"{length} numbers")
        return np.frombuffer(release.words, "<u8")

    def precision(self, planned: Any, unit: PrivacyUnit) -> str:
        """The precision as for `counts`, "at best": the sum may have more noise than that."""
        return f"{super().precision(planned, unit)}, at best, summed over {len(planned.participants)} curators"

    def charge_note(self, question: Question) -> str:
        """A `Note`: the round (turn 1), the members (turn 2), the curators in the opened sum (turn 4)."""
        planned, number, body = question.turn.planned, question.turn.number, question.body
        note = {
            "sites": len(planned.participants),
            "colluders": planned.colluders,
            "dropouts": planned.dropouts,
            "shares": planned.shares,
        }
        if number == SHARES:
            return json.dumps(note | {"round": digest(encode(body.cards)).hex()}, sort_keys=True)
        if number == MASKED:
            return json.dumps(note, sort_keys=True)
        return json.dumps(note | {"survivors": list(body.survivors)}, sort_keys=True) if number == OPENED else ""

    def note_words(self, note: str) -> str:
        """A note in words; any other text is returned as it is."""
        try:
            entry = decode_json(note, Note, where="the note")
        except ConfigurationError:
            return note
        if not isinstance(entry.round, msgspec.UnsetType):
            return f"deals shares among {entry.sites} sites; the secure sum {entry.round[:16]}"
        if isinstance(entry.survivors, msgspec.UnsetType):
            return (
                f"a secure sum over {entry.sites} sites (n), at most {entry.colluders} of them colluding (t), "
                f"{entry.dropouts} dropping out (u); the noise of one is made of {entry.shares} shares (h)"
            )
        missing = sorted(set(range(entry.sites)) - set(entry.survivors))
        without = f"; not among them, counted from 0 in the plan: {', '.join(map(str, missing))}" if missing else ""
        return f"helped to open the sum over {len(entry.survivors)} of {entry.sites} sites{without}"

    def proviso(self, planned: PlannedSecureCounts) -> str:
        """The collusion bound in words, for the approving steward and for readers of an audit."""
        return (
            f"summed with {len(planned.participants) - 1} other sites under the noise of one. The cost holds while at "
            f"most {planned.colluders} of them tell the learner all they know, while no ledger is put back before the "
            "sum is done (another site's counts as one of those; this one's leaves its own records a share of the "
            "noise alone), and while the cryptography is not broken"
            + (", but for a chance of 2^-104" if len(planned.participants) > COMPLETE_UP_TO else "")
        )


SECURE_COUNTS = SecureCounts()


def counts_question(question: Question) -> Question:
    """The question of `counts` that turn 0 or 2 asks."""
    return Question(question.turn, question.body.body, question.schema)


def question_digest(learner: bytes, turn: Turn, sent: AskKeys | RelayShares) -> bytes:
    """Digest of learner, planned query, its place and the question; all participants sign it."""
    place = turn.query.to_bytes(8, "big")
    return digest(
        encode_parts(b"expril/2 secure counts", learner, encode(turn.planned), place, sent.counts, sent.nonce)
    )
