"""What a curator checks before anything is charged. Reads request, policy, schema file and ledger; never a record."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import msgspec

from curator_node.ledger import Account, Caps, Ledger, NotApprovedError, Reservation, StudyAccount, StudyKey
from curator_node.ledger.store import LedgerStore, PendingProposal
from curator_node.ledger.studies import Decision
from curator_node.policy import Policy
from curator_node.records.schema_file import StewardFile
from protocol.errors import RemoteProtocolError
from protocol.messages import NO_STUDY, CardRequest, Message, Query, Refusal, StudyProposal
from protocol.plans import Plan
from protocol.query_kind import Kinds, Turn
from protocol.rationals import amount, shorten
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.transitions import State

STRAY = frozenset({RefusalCode.EXPIRED, RefusalCode.NOT_YET_VALID, RefusalCode.WRONG_RECIPIENT})
"""Why a message that a learner signed is none that it answers for here and now."""
_DAY = 86_400


@dataclass
class _Day:
    """The messages that expire on one day.

    Attributes:
        requests, refusals: by learner.
        seen: digests of the requests that were counted; no more of a learner than its policy lets it send.
        refused: of them, those that were refused for good.
    """

    requests: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    seen: set[bytes] = field(default_factory=set)
    refused: set[bytes] = field(default_factory=set)


class Meter:
    """Counts requests and final refusals, over all keys of a learner, and what comes on the channel beside them.

    Kept in memory: at most `requests_per_day` digests a learner and day, of the days in which a message may expire.
    """

    def __init__(self) -> None:
        self._days: defaultdict[int, _Day] = defaultdict(_Day)
        self._of_studies: Counter[StudyKey] = Counter()
        self._today = 0
        self._stray = 0

    def complaint_about(self, message: Message, identity: bytes, now: int, policy: Policy) -> str:
        """Count a request of a learner; which limit rules it out, "" where none does.

        Args:
            message: what it says; its signature is verified.
            identity: digest of the request.
            now: the time.
            policy: of today.
        """
        self._turn(now)
        late = message.expires_at <= now
        if late or identity in self._days[message.expires_at // _DAY].seen:
            # What may still take effect is served: its learner may be the one who repeats it.
            over = self.stray(now, policy) and isinstance(message, CardRequest)
            return f"at most {policy.stray_messages_per_day} repeated and stray messages a day" if over else ""
        day, key = self._days[message.expires_at // _DAY], StudyKey(message.sender, message.study)
        name = _name(policy, key)
        if day.requests[name] >= policy.requests_per_day:
            return f"at most {policy.requests_per_day} requests a day"
        if day.refusals[name] >= policy.refusals_per_day:
            return f"at most {policy.refusals_per_day} refused requests a day"
        if self._of_studies[key] >= policy.refusals_per_study:
            return f"at most {policy.refusals_per_study} refused requests a study"
        day.requests[name] += 1
        day.seen.add(identity)
        return ""

    def stray(self, now: int, policy: Policy) -> bool:
        """Count a message that no learner answers for (late, repeated, forged, misaddressed); whether it floods."""
        self._turn(now)
        self._stray += 1
        return self._stray > policy.stray_messages_per_day

    def refused(self, message: Message, identity: bytes, known: bool, policy: Policy) -> None:
        """Count a final refusal of a request that was counted, once; `known` where the ledger holds the study."""
        day = self._days.get(message.expires_at // _DAY)
        if day is None or identity not in day.seen or identity in day.refused:
            return
        day.refused.add(identity)
        key = StudyKey(message.sender, message.study)
        day.refusals[_name(policy, key)] += 1
        if known:
            self._of_studies[key] += 1

    def _turn(self, now: int) -> None:
        """Forget what expired before today, once a day."""
        if now // _DAY == self._today:
            return
        self._today, self._stray = now // _DAY, 0
        for day in [day for day in self._days if day < self._today]:
            del self._days[day]


def _name(policy: Policy, key: StudyKey) -> str:
    learner = policy.learner(key.learner)
    return "" if learner is None else learner.name


class RememberedError(RemoteProtocolError):
    """A final refusal that the same request got before, with the numbers of then."""

    FIELDS = ("code", "field", "limit", "remaining", "scale_factor")

    def __init__(self, told: dict[str, str]) -> None:
        self.remaining, self.scale_factor = told["remaining"], told["scale_factor"]
        super().__init__(told["code"], told["field"], told["limit"])


class Refusals:
    """Writes refusals; a final one is kept, so that the same request never gets another answer before it expires.

    Args:
        ledger: what is left to a learner, and where refusals are kept.
        policy: how many may be kept, and for how long.
        clock: seconds since 1970 as an int.
        meter: counts final refusals.

    Attributes:
        policy: of today.
    """

    def __init__(self, ledger: Ledger, policy: Policy, clock: Callable[[], int], meter: Meter) -> None:
        self._ledger = ledger
        self.policy = policy
        self._clock = clock
        self._meter = meter

    def check(self, identity: bytes) -> None:
        """Raise the final refusal that this very request got before."""
        kept = self._ledger.store.refusal(identity)
        if kept is not None:
            raise RememberedError(msgspec.json.decode(kept, type=dict[str, str]))

    def write(
        self,
        header: dict[str, Any],
        message: Message | None,
        identity: bytes,
        error: RemoteProtocolError,
        scale_factor: str = "",
    ) -> Refusal:
        """The refusal of a request; a final one is kept, unless it was kept before or a card was asked for.

        Args:
            header: of the reply.
            message: the request; None where its sender is not verified: then nothing is kept, and no number told.
            identity: digest of the request; empty where nothing is to be kept of it.
            error: why.
            scale_factor: as in `Refusal`.
        """
        refusal = self._made(header, message, error, scale_factor)
        remembered = isinstance(error, RememberedError)
        if message is None or not identity or not refusal.final or remembered or isinstance(message, CardRequest):
            return refusal
        if self._kept(message, identity, refusal):
            return refusal
        limit = f"at most {self.policy.refusals_per_day} refused requests that have not expired"
        return self._made(header, message, RemoteProtocolError(RefusalCode.TOO_MANY_REQUESTS, "", limit), "")

    def _kept(self, message: Message, identity: bytes, refusal: Refusal) -> bool:
        """Keep a final refusal until its request can take effect no more; whether there was room.

        That is when it expires. An approved proposal may be accepted for longer.
        """
        known = StudyKey(message.sender, message.study) in self._ledger.account.studies
        self._meter.refused(message, identity, known, self.policy)
        now = self._clock()
        expires = min(message.expires_at, now + self.policy.message_seconds)
        if isinstance(message, StudyProposal):
            self._ledger.store.release(identity)
            word = self._ledger.account.decisions.get(identity)
            expires = max(expires, word.until if word else 0)
        if expires <= now:
            return True
        remembered = sum(self._ledger.store.refusals(own, now) for own in self.policy.keys_of(message.sender))
        if remembered >= self.policy.refusals_per_day:
            return False
        kept = {name: getattr(refusal, name) for name in RememberedError.FIELDS}
        self._ledger.store.remember(identity, message.sender, msgspec.json.encode(kept), expires, now)
        return True

    def _made(
        self, header: dict[str, Any], message: Message | None, error: RemoteProtocolError, scale_factor: str
    ) -> Refusal:
        """Only a verified learner is told a number of its own."""
        code = RefusalCode(error.code)
        remaining = ""
        if isinstance(error, RememberedError):
            remaining, scale_factor = error.remaining, error.scale_factor
        elif message is not None:
            left = self._ledger.remaining(message.sender, caps_of(self.policy, message.sender))
            remaining = amount(shorten(left, math.floor))
        return Refusal(
            **header,
            code=code,
            explanation=EXPLANATIONS[code],
            field=error.field,
            limit=error.limit,
            remaining=remaining,
            scale_factor=scale_factor,
        )


def caps_of(policy: Policy, learner: bytes) -> Caps:
    """What a policy allows a learner."""
    found = policy.learner(learner)
    return Caps(
        policy.cap_of(learner),
        policy.total_cap,
        policy.open_studies,
        policy.studies,
        "" if found is None else found.name,
        policy.approval == "manual",
    )


ENVELOPE_ROOM = 8192
"""What a stored release takes beside its numbers: envelope, header and receipt are well below this."""
MOST_HELD_BYTES = 2**20
"""Of a proposal that waits."""


@dataclass(frozen=True)
class Proposal:
    """A verified proposal.

    Attributes:
        data: its envelope.
        message: what it says.
        identity: digest of the request.
        now: when it came.
    """

    data: bytes
    message: StudyProposal
    identity: bytes
    now: int


class Books(Protocol):
    """A ledger, or what was read of one."""

    @property
    def account(self) -> Account:
        """What its entries add up to."""

    @property
    def store(self) -> LedgerStore:
        """Where they are kept."""


def reserve(
    proposal: Proposal,
    ledger: Ledger,
    policy: Policy,
    kinds: Kinds,
    steward: StewardFile,
    waits: Callable[[bytes], None] = lambda study: None,  # noqa: ARG005
) -> None:
    """Reserve a new study's cost; where a steward reads each proposal, only once it has said yes.

    Args:
        proposal: verified.
        ledger: where the cost is reserved, and the proposal kept.
        policy: the steward's.
        kinds: of queries that can be answered.
        steward: the schema file.
        waits: is told the study once its proposal begins to wait; it must not block or raise.

    Raises:
        RemoteProtocolError: as `check_plan`; or CHANGED_CONTENT, AWAITING_APPROVAL, DECLINED, TOO_MANY_REQUESTS.
        HaltedError, InsufficientBudgetError, TooManyStudiesError, StoreFullError, BoundElsewhereError: see `Ledger`.
    """
    message, now = proposal.message, proposal.now
    key = StudyKey(message.sender, message.study)
    if key.study == NO_STUDY or key in ledger.account.studies:
        raise RemoteProtocolError(RefusalCode.CHANGED_CONTENT, "study", "a new study identity")
    wanted = Reservation(
        key=key,
        plan=message.plan,
        costs=check_plan(message.plan, kinds, policy, steward),
        request=proposal.identity,
        expires_at=now + policy.reservation_seconds,
        purpose=message.purpose,
    )
    ledger.make_room(ENVELOPE_ROOM, policy.reply_bytes, now)
    try:
        ledger.reserve(wanted, caps_of(policy, message.sender), now)
    except NotApprovedError as error:
        if error.declined:
            raise RemoteProtocolError(RefusalCode.DECLINED) from None
        if _hold(proposal, ledger, policy):
            waits(key.study)
        raise RemoteProtocolError(RefusalCode.AWAITING_APPROVAL) from None
    if proposal.identity in ledger.account.decisions:
        ledger.store.release(proposal.identity)


def check_in_time(message: Message, identity: bytes, now: int, policy: Policy, ledger: Ledger) -> None:
    """As `check_time`; but a proposal that came in time, and has waited for the steward since, is not too late."""
    try:
        check_time(message, now, policy)
    except RemoteProtocolError as error:
        held = error.code == RefusalCode.EXPIRED and isinstance(message, StudyProposal)
        if not held or not is_awaited(ledger, identity, now):
            raise


def is_awaited(ledger: Ledger, identity: bytes, now: int) -> bool:
    """Whether a request is a proposal that waits for its steward, or on which the steward's word still holds."""
    word = ledger.account.decisions.get(identity)
    if word is not None and (word.allows(now) or not word.approved):
        return True
    return any(held.request == identity for held in ledger.store.pending(now))


def undecided(ledger: Books, now: int) -> list[PendingProposal]:
    """The proposals that wait for the steward, the first that came in front.

    One that was approved waits once more where the approval has ended, or where it was held again since: something
    differed from what the steward had read.
    """
    words = ledger.account.decisions
    return [held for held in ledger.store.pending(now) if not _is_decided(held, words.get(held.request), now)]


def _is_decided(held: PendingProposal, word: Decision | None, now: int) -> bool:
    return word is not None and (not word.approved or (word.allows(now) and held.received_at <= word.at))


def _hold(proposal: Proposal, ledger: Ledger, policy: Policy) -> bool:
    """Keep a proposal for the steward; whether it is new to every process that serves from this ledger.

    Raises:
        RemoteProtocolError: TOO_MANY_REQUESTS or OVER_LIMIT; it is not kept.
    """
    if len(proposal.data) > MOST_HELD_BYTES:
        limit = f"at most {MOST_HELD_BYTES} bytes where a steward reads proposals"
        raise RemoteProtocolError(RefusalCode.OVER_LIMIT, "plan", limit)
    sender, now = proposal.message.sender, proposal.now
    waiting = {held.request for held in undecided(ledger, now) if held.learner in policy.keys_of(sender)}
    if proposal.identity not in waiting and len(waiting) >= policy.held_studies:
        limit = f"at most {policy.held_studies} proposals that wait for the steward"
        raise RemoteProtocolError(RefusalCode.TOO_MANY_REQUESTS, "", limit)
    word, since = ledger.account.decisions.get(proposal.identity), now
    if word is not None and proposal.identity not in waiting:  # it was approved, and asks again
        ledger.store.release(proposal.identity)
        since = max(now, word.at + 1)
    return ledger.store.hold(
        PendingProposal(proposal.identity, sender, proposal.data, since, now + policy.approval_seconds), now
    )


def check_time(message: Message, now: int, policy: Policy) -> None:
    """Raise RemoteProtocolError(EXPIRED or NOT_YET_VALID) for an expiry that has passed or lies too far ahead."""
    limit = f"an expiry at most {policy.message_seconds} seconds ahead"
    if message.expires_at <= now:
        raise RemoteProtocolError(RefusalCode.EXPIRED, "expires_at", limit)
    if message.expires_at > now + policy.message_seconds:
        raise RemoteProtocolError(RefusalCode.NOT_YET_VALID, "expires_at", limit)


def check_plan(plan: Plan, kinds: Kinds, policy: Policy, steward: StewardFile) -> tuple[Fraction, ...]:
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


def check_planned(planned: Any, turns: int, kinds: Kinds, policy: Policy, steward: StewardFile, field: str) -> None:
    """Raise where the policy of today, or the label, rules a planned query out.

    Asked at the proposal and again at the query: a steward may have withdrawn a kind meanwhile.

    Raises:
        RemoteProtocolError: UNKNOWN_KIND, KIND_NOT_ALLOWED, BAD_PLAN, OVER_LIMIT or BELOW_LEAST_COST.
    """
    allowed = kinds.allowed(policy.limits)
    if planned.kind not in allowed:
        raise RemoteProtocolError(RefusalCode.KIND_NOT_ALLOWED, f"{field}.kind", ", ".join(allowed))
    limits = kinds.limits(policy.limits, planned.kind)
    kinds.kind(planned.kind).check_allowed(planned, steward.schema, limits, field)
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


def check_query(
    message: Query, study: StudyAccount, kinds: Kinds, steward: StewardFile, policy: Policy
) -> tuple[Any, Turn]:
    """The checked body and the turn that it is for.

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
    body = kind.read_body(message.body, turn, steward.schema, kinds.limits(policy.limits, planned.kind))
    if kind.work(body, turn, steward.schema, steward.round_size) > policy.limits.multiply_adds:
        limit = f"at most {policy.limits.multiply_adds} multiply-adds over the declared round size"
        raise RemoteProtocolError(RefusalCode.OVER_LIMIT, "body", limit)
    return body, turn
