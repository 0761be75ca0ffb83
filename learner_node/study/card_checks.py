"""Why a curator would refuse, read off its card before anything is sent there. Empty texts where it would not."""

from typing import Any

from protocol.codec import encode
from protocol.errors import RemoteProtocolError, printable
from protocol.limits import ASSUMED_ROUND_SIZE
from protocol.messages import Card
from protocol.plans import Plan
from protocol.query_kind import Kinds, QueryKind, Turn
from protocol.rationals import parse_amount
from protocol.refusals import EXPLANATIONS, RefusalCode

ENVELOPE_BYTES = 1024
"""What an envelope adds to a body, at most."""
LONGEST_AMOUNT = 40
"""Characters of an amount that are printed: enough for any that a person wrote."""


def complaint_about_question(body: Any, turn: Turn, card: Card, kinds: Kinds) -> str:
    """Why a curator would refuse a question; the reason names the limit."""
    data = encode(body)
    if len(data) + ENVELOPE_BYTES > card.limits.message_bytes:
        return f"the question takes {len(data)} bytes, its limit is {card.limits.message_bytes} a message"
    name = turn.planned.kind
    try:
        kind = kinds.kind(name)
        checked = kind.read_body(data, turn, card.schema, kinds.limits(card.limits, name))
    except RemoteProtocolError as error:
        return in_words(error.code, error.field, error.limit)
    needed = kind.work(checked, turn, card.schema, card.round_size)
    if needed > card.limits.multiply_adds:
        per_record, once = _per_record(kind, checked, turn, card)
        return _too_much_work(needed, per_record, once, card)
    return ""


def _per_record(kind: QueryKind, body: Any, turn: Turn, card: Card) -> tuple[int, int]:
    """Work of a question for one record, and for none: stated work grows evenly with the records."""
    one, two = (kind.work(body, turn, card.schema, records) for records in (1, 2))
    return two - one, 2 * one - two


def _too_much_work(needed: int, per_record: int, once: int, card: Card) -> str:
    """What is too much, and each way out of it."""
    most = card.limits.multiply_adds
    fits = (most - once) // per_record if per_record and once < most else 0
    said = f"the question takes {needed:,} multiply-adds, its limit is {most:,}; ask about fewer cells or attributes"
    if card.round_size is None and fits:
        return (
            f"{said}, or have its steward declare round_size, up to {fits:,}: it declares none, so "
            f"{ASSUMED_ROUND_SIZE:,} records are assumed"
        )
    return f"{said}, or have its steward raise limits.multiply_adds in the policy"


def complaint_about_plan(plan: Plan, card: Card, kinds: Kinds) -> str:
    """Why a curator would refuse a plan, whatever is left of its budget."""
    try:
        cost = kinds.plan_cost(plan, card.most_records_per_unit)
        for index, planned in enumerate(kinds.queries(plan)):
            limits = kinds.limits(card.limits, planned.kind)
            kinds.kind(planned.kind).check_allowed(planned, card.schema, limits, f"plan.queries[{index}]")
    except RemoteProtocolError as error:
        return in_words(error.code, error.field, error.limit)
    if cost < parse_amount(card.least_cost):
        return f"the plan costs {cost} there, less than the {shortened(card.least_cost)} that it accounts for"
    return ""


def complaint_about_cap(plan: Plan, card: Card, kinds: Kinds) -> str:
    """Whether a plan is over all that the learner may ever spend there. How much is left is not known."""
    cost = kinds.plan_cost(plan, card.most_records_per_unit)
    if cost <= parse_amount(card.cap):
        return ""
    return f"the plan costs {cost} there, and this learner may spend {shortened(card.cap)} in all"


def in_words(code: str, field: str, limit: str) -> str:
    """A refusal as a sentence; what a curator wrote in it is made printable."""
    details = ": ".join(printable(part) for part in (field, limit) if part)
    text = EXPLANATIONS[RefusalCode(code)]
    return f"{text} ({details})" if details else text


def shortened(amount: str) -> str:
    """An amount of a card, which may have thousands of digits."""
    return amount if len(amount) <= LONGEST_AMOUNT else f"{amount[:LONGEST_AMOUNT]}... of {len(amount)} characters"
