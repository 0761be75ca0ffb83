"""Decides whether a curator serves a request, by its time, its learner's rate limits, its plan and its study.

It reads request, policy, schema file and ledger, never a record, and charges nothing. A message counts against its
learner's limits once, if it is in time and this process has not seen it. Anybody can send old bytes again, so those
count on the channel. A restart begins to count anew; a learner is still never counted more than it signed, since a
message counts on the day in which it expires, whenever it comes.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import msgspec

from curator_node.ledger import Account, Caps, Ledger, NotApprovedError, Reservation, StudyAccount, StudyKey
from curator_node.ledger.store import LedgerStore, PendingProposal
from curator_node.ledger.studies import Decision
from curator_node.mechanisms import NoiseSource
from curator_node.policy import EnrolledLearner, LearnerPolicy, Policy, settled_limits
from curator_node.records.schema_file import SchemaFile
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.limits import Limits
from protocol.messages import NO_STUDY, CardRequest, Message, Query, Refusal, StudyProposal
from protocol.plans import Plan
from protocol.query_kind import Kinds, KindTerms, Question
from protocol.rationals import amount, parse_rational, shorten
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.transitions import State

ENVELOPE_ROOM = 8192
"""Most bytes of a stored release beside its numbers; envelope, header and receipt are well below this."""
MOST_HELD_BYTES = 2**20
"""Most bytes of a proposal that waits for its steward."""
STRAY = frozenset({RefusalCode.EXPIRED, RefusalCode.NOT_YET_VALID, RefusalCode.WRONG_RECIPIENT})
"""Refusals of messages that do not count against the learner that signed them."""
_DAY = 86_400


@dataclass(frozen=True)
class Terms:
    """What a curator allows, until its steward changes the policy."""

    policy: Policy
    limits: Limits  # the policy's, with every default written out
    label: str  # under which answers are signed
    _caps: Mapping[bytes, Caps]  # by the learner's key
    _strangers: Caps

    def caps(self, key: bytes) -> Caps:
        """What the learner with this key may do."""
        return self._caps.get(key, self._strangers)


def settled_terms(policy: Policy, kinds: Kinds, noise: NoiseSource) -> Terms:
    """The terms of a policy.

    Raises:
        ConfigurationError: noise from a seed without `simulation = true`, or as `settled_limits`.
    """
    if noise.seeded and not policy.simulation:
        raise ConfigurationError("noise from a seed is for simulations; the policy does not say simulation = true")
    limits = settled_limits(policy, kinds)
    label = NOT_PRIVATE_LABEL if noise.seeded or not kinds.private(limits) else LABEL
    caps = {key: _caps(policy, learner) for key, learner in policy.keys.items()}
    return Terms(policy, limits, label, caps, _caps(policy, None))


def caps_of(policy: Policy, key: bytes) -> Caps:
    """What a policy allows the learner with this key."""
    return _caps(policy, policy.learner(key))


def _caps(policy: Policy, learner: LearnerPolicy | EnrolledLearner | None) -> Caps:
    return Caps(
        Fraction(0) if learner is None else parse_rational(learner.cap),
        policy.total_cap,
        policy.open_studies,
        policy.studies,
        "" if learner is None else learner.name,
        policy.approval == "manual",
    )


@dataclass
class PendingRequest:
    """A verified request, and what policy and ledger say of it: read once, under the ledger's lock."""

    data: bytes  # its envelope
    message: Message
    identity: bytes  # digest of the request
    now: int  # when it was read
    policy: Policy
    caps: Caps  # what the policy allows the learner
    study: StudyAccount | None  # that it names; None where the ledger has none
    took_effect: bool  # whether the ledger holds it: then nothing is checked, reserved or charged again

    def known_study(self) -> StudyAccount:
        """The study that it names; RemoteProtocolError(UNKNOWN_STUDY) where the ledger has none."""
        if self.study is None:
            raise RemoteProtocolError(RefusalCode.UNKNOWN_STUDY)
        return self.study


@dataclass
class _Day:
    """The messages that expire on one day."""

    requests: Counter[str] = field(default_factory=Counter)  # by learner
    refusals: Counter[str] = field(default_factory=Counter)
    counted: set[bytes] = field(default_factory=set)  # digests of requests; no more of a learner than its policy allows
    refused: set[bytes] = field(default_factory=set)  # of them, those that were refused for good


class Meter:
    """Counts requests and final refusals by learner, over all its keys, and stray messages on the channel.

    Kept in memory: at most `requests_per_day` digests a learner and day, of the days in which a message may expire.
    """

    def __init__(self) -> None:
        self._days: defaultdict[int, _Day] = defaultdict(_Day)
        self._of_studies: Counter[StudyKey] = Counter()
        self._today = 0
        self._stray = 0

    def complaint_about(self, request: PendingRequest) -> str:
        """Count a request of a learner; the limit that rules it out, in words, or "" where none does."""
        message, identity, now, policy = request.message, request.identity, request.now, request.policy
        self._turn(now)
        late = message.expires_at <= now
        if late or identity in self._days[message.expires_at // _DAY].counted:
            # What may still take effect is served: its learner may be the one who repeats it.
            over = self.stray(now, policy) and isinstance(message, CardRequest)
            return f"at most {policy.stray_messages_per_day} repeated and stray messages a day" if over else ""
        day, key = self._days[message.expires_at // _DAY], StudyKey(message.sender, message.study)
        name = request.caps.name
        if day.requests[name] >= policy.requests_per_day:
            return f"at most {policy.requests_per_day} requests a day"
        if day.refusals[name] >= policy.refusals_per_day:
            return f"at most {policy.refusals_per_day} refused requests a day"
        if self._of_studies[key] >= policy.refusals_per_study:
            return f"at most {policy.refusals_per_study} refused requests a study"
        day.requests[name] += 1
        day.counted.add(identity)
        return ""

    def stray(self, now: int, policy: Policy) -> bool:
        """Count a stray message (late, repeated, forged or misaddressed); True if there were too many today."""
        self._turn(now)
        self._stray += 1
        return self._stray > policy.stray_messages_per_day

    def count_refusal(self, message: Message, identity: bytes, learner: str, has_study: bool) -> None:
        """Count a final refusal of a counted request, once: for the learner, and for the study if the ledger has it."""
        day = self._days.get(message.expires_at // _DAY)
        if day is None or identity not in day.counted or identity in day.refused:
            return
        day.refused.add(identity)
        day.refusals[learner] += 1
        if has_study:
            self._of_studies[StudyKey(message.sender, message.study)] += 1

    def _turn(self, now: int) -> None:
        """Drop the messages that expired before today, once a day."""
        if now // _DAY == self._today:
            return
        self._today, self._stray = now // _DAY, 0
        for day in [day for day in self._days if day < self._today]:
            del self._days[day]


class RememberedError(RemoteProtocolError):
    """A final refusal that the same request got before, with the numbers of then."""

    FIELDS = ("code", "field", "limit", "remaining", "scale_factor")

    def __init__(self, stored: dict[str, str]) -> None:
        self.remaining, self.scale_factor = stored["remaining"], stored["scale_factor"]
        super().__init__(stored["code"], stored["field"], stored["limit"])


class Refusals:
    """Writes refusals; a final one is kept, so that the same request never gets another answer before it expires.

    Args:
        ledger: what is left to a learner, and where refusals are kept.
        clock: seconds since 1970 as an int.
        meter: counts final refusals.
    """

    def __init__(self, ledger: Ledger, clock: Callable[[], int], meter: Meter) -> None:
        self._ledger = ledger
        self._clock = clock
        self._meter = meter

    def check(self, identity: bytes) -> None:
        """Raise the final refusal that this very request got before."""
        stored = self._ledger.store.refusal(identity)
        if stored is not None:
            raise RememberedError(msgspec.json.decode(stored, type=dict[str, str]))

    def write(
        self,
        header: dict[str, Any],
        message: Message | None,
        identity: bytes,
        error: RemoteProtocolError,
        terms: Terms,
        scale_factor: str = "",
    ) -> Refusal:
        """The refusal of a request; a final one is kept, unless it was kept before or a card was asked for.

        Args:
            header: of the reply.
            message: the request; None where its sender is not verified: then nothing is kept, and no number told.
            identity: digest of the request; empty where nothing is to be kept of it.
            error: why.
            terms: how many refusals may be kept, and for how long; what is left to the learner.
            scale_factor: as in `Refusal`.
        """
        if message is None:
            return _refusal(header, error, "", scale_factor)
        if isinstance(error, RememberedError):
            return _refusal(header, error, error.remaining, error.scale_factor)
        policy, caps = terms.policy, terms.caps(message.sender)
        remaining = amount(shorten(self._ledger.remaining(message.sender, caps), math.floor))
        refusal = _refusal(header, error, remaining, scale_factor)
        if not identity or not refusal.final or isinstance(message, CardRequest):
            return refusal
        if self._remember(message, identity, refusal, policy, caps.name):
            return refusal
        limit = f"at most {policy.refusals_per_day} refused requests that have not expired"
        return _refusal(header, RemoteProtocolError(RefusalCode.TOO_MANY_REQUESTS, "", limit), remaining, "")

    def _remember(self, message: Message, identity: bytes, refusal: Refusal, policy: Policy, learner: str) -> bool:
        """Keep a final refusal until its request expires; False if the learner has too many of them.

        The refusal of an approved proposal is kept until the approval ends, too.
        """
        has_study = StudyKey(message.sender, message.study) in self._ledger.account.studies
        self._meter.count_refusal(message, identity, learner, has_study)
        now, store = self._clock(), self._ledger.store
        expires = min(message.expires_at, now + policy.message_seconds)
        if isinstance(message, StudyProposal):
            store.release(identity)
            word = self._ledger.account.decisions.get(identity)
            expires = max(expires, word.until if word else 0)
        if expires <= now:
            return True
        if sum(store.refusals(key, now) for key in policy.keys_of(message.sender)) >= policy.refusals_per_day:
            return False
        numbers = {name: getattr(refusal, name) for name in RememberedError.FIELDS}
        store.remember(identity, message.sender, msgspec.json.encode(numbers), expires, now)
        return True


def _refusal(header: dict[str, Any], error: RemoteProtocolError, remaining: str, scale_factor: str) -> Refusal:
    code = RefusalCode(error.code)
    return Refusal(
        **header,
        code=code,
        explanation=EXPLANATIONS[code],
        field=error.field,
        limit=error.limit,
        remaining=remaining,
        scale_factor=scale_factor,
    )


class ReadableLedger(Protocol):
    """A ledger that serves, or one that was only read."""

    @property
    def account(self) -> Account:
        """What its entries add up to."""

    @property
    def store(self) -> LedgerStore:
        """Where they are kept."""


def reserve(
    request: PendingRequest,
    message: StudyProposal,
    ledger: Ledger,
    kinds: Kinds,
    steward: SchemaFile,
    waits: Callable[[bytes], None],
) -> None:
    """Reserve a new study's cost; under manual approval, only after the steward has approved it.

    A proposal that waits reserves nothing. It is kept beside the ledger, where every process that serves from it sees
    it; the steward's word is an entry of the ledger.

    Args:
        request: of the proposal.
        message: the proposal.
        ledger: where the cost is reserved, and the proposal kept.
        kinds: of queries that can be answered.
        steward: the schema file.
        waits: is told the study once its proposal begins to wait; it must not block or raise.

    Raises:
        RemoteProtocolError: as `check_plan`; or CHANGED_CONTENT, AWAITING_APPROVAL, DECLINED, TOO_MANY_REQUESTS.
        HaltedError, InsufficientBudgetError, TooManyStudiesError, StoreFullError, BoundElsewhereError: see `Ledger`.
    """
    policy, now = request.policy, request.now
    if message.study == NO_STUDY or request.study is not None:
        raise RemoteProtocolError(RefusalCode.CHANGED_CONTENT, "study", "a new study identity")
    reservation = Reservation(
        key=StudyKey(message.sender, message.study),
        plan=message.plan,
        costs=check_plan(message.plan, kinds, policy, steward),
        request=request.identity,
        expires_at=now + policy.reservation_seconds,
        purpose=message.purpose,
    )
    ledger.make_room(ENVELOPE_ROOM, policy.reply_bytes, now)
    try:
        ledger.reserve(reservation, request.caps, now)
    except NotApprovedError as error:
        if error.declined:
            raise RemoteProtocolError(RefusalCode.DECLINED) from None
        if _hold(request, ledger):
            waits(message.study)
        raise RemoteProtocolError(RefusalCode.AWAITING_APPROVAL) from None
    if request.identity in ledger.account.decisions:
        ledger.store.release(request.identity)


def check_in_time(request: PendingRequest, ledger: Ledger) -> None:
    """Raise RemoteProtocolError(EXPIRED or NOT_YET_VALID) for an expiry that has passed or lies too far ahead.

    A proposal that came in time, and has waited for the steward since, is not too late.
    """
    ahead = request.message.expires_at - request.now
    limit = f"an expiry at most {request.policy.message_seconds} seconds ahead"
    if ahead <= 0 and not (isinstance(request.message, StudyProposal) and is_awaited(request, ledger)):
        raise RemoteProtocolError(RefusalCode.EXPIRED, "expires_at", limit)
    if ahead > request.policy.message_seconds:
        raise RemoteProtocolError(RefusalCode.NOT_YET_VALID, "expires_at", limit)


def is_awaited(request: PendingRequest, ledger: Ledger) -> bool:
    """Whether a request is a proposal that waits for its steward, or whose approval or decline still holds."""
    word = ledger.account.decisions.get(request.identity)
    if word is not None and (word.allows(request.now) or not word.approved):
        return True
    return any(proposal.request == request.identity for proposal in ledger.store.pending(request.now))


def undecided_proposals(ledger: ReadableLedger, now: int) -> list[PendingProposal]:
    """The proposals that wait for the steward, the first that came in front.

    One that was approved waits once more where the approval has ended, or where it was held again since: something
    differed from what the steward had read.
    """
    words = ledger.account.decisions
    return [
        proposal
        for proposal in ledger.store.pending(now)
        if not _is_decided(proposal, words.get(proposal.request), now)
    ]


def _is_decided(proposal: PendingProposal, word: Decision | None, now: int) -> bool:
    return word is not None and (not word.approved or (word.allows(now) and proposal.received_at <= word.at))


def _hold(request: PendingRequest, ledger: Ledger) -> bool:
    """Keep a proposal for the steward; True if no process that serves from this ledger had it waiting.

    Raises:
        RemoteProtocolError: TOO_MANY_REQUESTS or OVER_LIMIT; it is not kept.
    """
    if len(request.data) > MOST_HELD_BYTES:
        limit = f"at most {MOST_HELD_BYTES} bytes where a steward reads proposals"
        raise RemoteProtocolError(RefusalCode.OVER_LIMIT, "plan", limit)
    sender, policy, identity, now = request.message.sender, request.policy, request.identity, request.now
    waiting = {other.request for other in undecided_proposals(ledger, now) if other.learner in policy.keys_of(sender)}
    if identity not in waiting and len(waiting) >= policy.held_studies:
        limit = f"at most {policy.held_studies} proposals that wait for the steward"
        raise RemoteProtocolError(RefusalCode.TOO_MANY_REQUESTS, "", limit)
    word, since = ledger.account.decisions.get(identity), now
    if word is not None and identity not in waiting:  # it was approved, and asks again
        ledger.store.release(identity)
        since = max(now, word.at + 1)
    return ledger.store.hold(PendingProposal(identity, sender, request.data, since, now + policy.approval_seconds), now)


def check_plan(plan: Plan, kinds: Kinds, policy: Policy, steward: SchemaFile) -> tuple[Fraction, ...]:
    """The most that each of the plan's queries may cost, exact.

    Raises:
        RemoteProtocolError: UNKNOWN_KIND, MALFORMED, KIND_NOT_ALLOWED, BAD_PLAN, OVER_LIMIT or BELOW_LEAST_COST.
    """
    cost = kinds.plan_cost(plan, steward.most_records_per_unit)
    for index, (planned, head) in enumerate(zip(kinds.queries(plan), plan.heads, strict=True)):
        check_planned(planned, head.turns, kinds, policy, steward, f"plan.queries[{index}]")
    if cost < policy.least:
        raise RemoteProtocolError(RefusalCode.BELOW_LEAST_COST, "plan", f"a cost of at least {policy.least}")
    return kinds.costs(plan, steward.most_records_per_unit)


def check_planned(planned: Any, turns: int, kinds: Kinds, policy: Policy, steward: SchemaFile, field: str) -> None:
    """Raise if today's policy, or the label, rules a planned query out.

    This is checked at the proposal and again at the query: a steward may have withdrawn a kind in between.

    Raises:
        RemoteProtocolError: UNKNOWN_KIND, KIND_NOT_ALLOWED, BAD_PLAN, OVER_LIMIT or BELOW_LEAST_COST.
    """
    allowed = kinds.allowed(policy.limits)
    if planned.kind not in allowed:
        raise RemoteProtocolError(RefusalCode.KIND_NOT_ALLOWED, f"{field}.kind", ", ".join(allowed))
    terms = KindTerms(steward.schema, kinds.limits(policy.limits, planned.kind))
    kinds.kind(planned.kind).check_allowed(planned, terms, field)
    if kinds.cost(planned, steward.most_records_per_unit) < turns * policy.least_query:
        limit = f"a cost of at least {turns * policy.least_query}"
        raise RemoteProtocolError(RefusalCode.BELOW_LEAST_COST, field, limit)


def check_not_ended(study: StudyAccount) -> None:
    """Raise RemoteProtocolError(STUDY_CLOSED or STUDY_EXPIRED) for a study that has ended."""
    if study.state is State.CLOSED:
        raise RemoteProtocolError(RefusalCode.STUDY_CLOSED)
    if study.state is State.EXPIRED:
        raise RemoteProtocolError(RefusalCode.STUDY_EXPIRED)


def check_next(message: Query, study: StudyAccount) -> None:
    """Raise RemoteProtocolError unless this is the study's next query."""
    check_not_ended(study)
    expected = study.sequence + 1
    if message.sequence < expected:
        raise RemoteProtocolError(RefusalCode.CHANGED_CONTENT, "sequence", f"sequence {expected}")
    if message.sequence > expected:
        raise RemoteProtocolError(RefusalCode.OUT_OF_ORDER, "sequence", f"sequence {expected}")
    if study.state is State.ASKED or message.answers != study.last_reply:
        raise RemoteProtocolError(RefusalCode.OUT_OF_ORDER, "answers", "the digest of this study's last reply")


def check_query(message: Query, study: StudyAccount, kinds: Kinds, steward: SchemaFile, policy: Policy) -> Question:
    """The checked question.

    Raises:
        RemoteProtocolError: NOT_IN_PLAN, MALFORMED, BAD_QUERY or OVER_LIMIT, or as `check_planned`.
    """
    if not 1 <= message.sequence <= len(study.places):
        raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, "sequence", f"{len(study.places)} planned queries")
    turn = kinds.turn(study.plan, study.places[message.sequence - 1])
    planned = turn.planned
    check_planned(planned, study.plan.head(turn.query).turns, kinds, policy, steward, "plan")
    if message.kind != planned.kind:
        kinds.kind(message.kind)
        raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, "kind", planned.kind)
    kind = kinds.kind(planned.kind)
    terms = KindTerms(steward.schema, kinds.limits(policy.limits, planned.kind))
    question = Question(turn, kind.read_body(message.body, turn, terms), steward.schema)
    if kind.work(question, steward.round_size) > policy.limits.multiply_adds:
        limit = f"at most {policy.limits.multiply_adds} multiply-adds over the declared round size"
        raise RemoteProtocolError(RefusalCode.OVER_LIMIT, "body", limit)
    return question
