"""What a curator checks before anything is charged. Reads request, policy, schema file and ledger; never a record."""

from fractions import Fraction
from typing import Any

from curator_node.ledger import StudyAccount
from curator_node.policy import Policy
from curator_node.records.schema_file import StewardFile
from protocol.errors import RemoteProtocolError
from protocol.messages import Message, Query
from protocol.plans import Plan
from protocol.query_kind import Kinds, Turn
from protocol.refusals import RefusalCode
from protocol.transitions import State


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
