"""Decides whether a curator serves a request, by its time, its learner's rate limits, its plan and its study.

It reads request, policy, schema file and ledger, never a record, and charges nothing. A message that is in time counts
once against its learner's limits. Anybody can send old bytes again, so repeats and late messages count on the channel.
The counts are in memory, and a restart sets them to zero. A message counts on the day on which it expires, so no
learner is ever counted with more messages than it signed.
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
"""Most bytes that a stored release takes beside its numbers, for envelope, header and receipt."""
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
    """What a curator allows under a policy, with every default written out.

    Raises:
        ConfigurationError: the noise is seeded, but the policy does not say `simulation = true`; or `settled_limits`
            raises it.
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
    """A verified request with what the policy and the ledger say of it. Both are read once, under the ledger's lock."""

    data: bytes  # its envelope
    message: Message
    identity: bytes  # digest of the request
    now: int  # when it was read
    policy: Policy
    caps: Caps  # what the policy allows the learner
    study: StudyAccount | None  # that it names; None where the ledger has none
    took_effect: bool  # whether the ledger holds it: then nothing is checked, reserved or charged again

    def known_study(self) -> StudyAccount:
        """The study that the request names. Raises RemoteProtocolError(UNKNOWN_STUDY) if the ledger lacks it."""
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

    For each learner and each day on which a message may expire, it keeps at most `requests_per_day` digests in memory.
    """

    def __init__(self) -> None:
        self._days: defaultdict[int, _Day] = defaultdict(_Day)
        self._of_studies: Counter[StudyKey] = Counter()
        self._today = 0
        self._stray = 0

    def complaint_about(self, request: PendingRequest) -> str:
        """Count a request of a learner. Returns the limit that it exceeds, in words, or ""."""
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
        """Count the final refusal of a request once: for the learner, and for the study if the ledger has it."""
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
    """A final refusal that the same request got before. Its numbers are those of that time."""

    FIELDS = ("code", "field", "limit", "remaining", "scale_factor")

    def __init__(self, stored: dict[str, str]) -> None:
        self.remaining, self.scale_factor = stored["remaining"], stored["scale_factor"]
        super().__init__(stored["code"], stored["field"], stored["limit"])


class Refusals:
    """Writes refusals. A final refusal is kept: until the request expires, it never gets another answer.

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
        """Raise the final refusal that this very request got before, if it got one."""
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
        """The refusal of a request. A final one is kept, unless it was kept before or the request asks for a card.

        Args:
            header: of the reply.
            message: the request; None if its sender is not verified. Then nothing is kept, and the refusal holds no
                number.
            identity: digest of the request; empty if nothing is to be kept of it.
            error: the reason.
            terms: say how many refusals may be kept, for how long, and what is left to the learner.
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
        """The sum of its entries."""

    @property
    def store(self) -> LedgerStore:
        """The store that keeps its entries."""


def reserve(
    request: PendingRequest,
    message: StudyProposal,
    ledger: Ledger,
    kinds: Kinds,
    steward: SchemaFile,
    waits: Callable[[bytes], None],
) -> None:
    """Reserve a new study's cost; under manual approval, only after the steward has approved it.

    A waiting proposal reserves nothing. It is kept beside the ledger, where every process that serves from the ledger
    sees it. The steward's decision is an entry of the ledger.

    Args:
        request: of the proposal.
        message: the proposal.
        ledger: where the cost is reserved, and the proposal kept.
        kinds: of queries that can be answered.
        steward: the schema file.
        waits: is told the study once its proposal begins to wait; it must not block or raise.

    Raises:
        RemoteProtocolError: `check_plan` raises it; or CHANGED_CONTENT, AWAITING_APPROVAL, DECLINED, TOO_MANY_REQUESTS.
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
    """Raise RemoteProtocolError: EXPIRED if a request has expired, NOT_YET_VALID if its expiry lies too far ahead.

    A proposal that came in time and waits for the steward is not too late.
    """
    ahead = request.message.expires_at - request.now
    limit = f"an expiry at most {request.policy.message_seconds} seconds ahead"
    if ahead <= 0 and not (isinstance(request.message, StudyProposal) and is_awaited(request, ledger)):
        raise RemoteProtocolError(RefusalCode.EXPIRED, "expires_at", limit)
    if ahead > request.policy.message_seconds:
        raise RemoteProtocolError(RefusalCode.NOT_YET_VALID, "expires_at", limit)


def is_awaited(request: PendingRequest, ledger: Ledger) -> bool:
    """Whether a request is a proposal that waits for the steward, was declined, or has an approval that still holds."""
    word = ledger.account.decisions.get(request.identity)
    if word is not None and (word.allows(request.now) or not word.approved):
        return True
    return any(proposal.request == request.identity for proposal in ledger.store.pending(request.now))


def undecided_proposals(ledger: ReadableLedger, now: int) -> list[PendingProposal]:
    """The proposals that wait for the steward, the first that came in front.

    An approved proposal waits once more if its approval has ended. It also waits if it was held again since, because
    something differed from what the steward had read.
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
    """Keep a proposal for the steward. Returns whether it is new to all processes that serve from this ledger.

    Raises:
        RemoteProtocolError: TOO_MANY_REQUESTS or OVER_LIMIT, if the proposal is not kept.
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
    """The exact maximum cost of each query of a plan.

    Raises:
        RemoteProtocolError: UNKNOWN_KIND, MALFORMED, KIND_NOT_ALLOWED, BAD_PLAN, OVER_LIMIT or BELOW_LEAST_COST.
    """
    cost = kinds.plan_cost(plan, steward.most_records_per_unit)
    for index, (planned, head) in enumerate(zip(kinds.queries(plan), plan.heads, strict=True)):
        check_planned(planned, head.turns, kinds, policy, steward, f"plan.queries[{index}]")
    if cost < policy.least:
        raise RemoteProtocolError(RefusalCode.BELOW_LEAST_COST, "plan", f"a cost of at least {policy.least}")
    return kinds.costs(plan, steward.most_records_per_unit)


def check_planned(planned: Any, turns: int, kinds: Kinds, policy: Policy, steward: SchemaFile, field: str) -> KindTerms:
    """What the card says of its kind. Raises an error if the present policy or the label rules a planned query out.

    This is checked at the proposal and again at the query: the steward may have withdrawn a kind in between.

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
    return terms


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
    """The question in a query, once it is checked against the plan.

    Raises:
        RemoteProtocolError: NOT_IN_PLAN, MALFORMED, BAD_QUERY or OVER_LIMIT; or `check_planned` raises it.
    """
    if not 1 <= message.sequence <= len(study.places):
        raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, "sequence", f"{len(study.places)} planned queries")
    turn = kinds.turn(study.plan, study.places[message.sequence - 1])
    planned = turn.planned
    terms = check_planned(planned, study.plan.head(turn.query).turns, kinds, policy, steward, "plan")
    if message.kind != planned.kind:
        kinds.kind(message.kind)
        raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, "kind", planned.kind)
    kind = kinds.kind(planned.kind)
    question = Question(turn, kind.read_body(message.body, turn, terms), steward.schema)
    if kind.work(question, steward.round_size) > policy.limits.multiply_adds:
        limit = f"at most {policy.limits.multiply_adds} multiply-adds over the declared round size"
        raise RemoteProtocolError(RefusalCode.OVER_LIMIT, "body", limit)
    return question
