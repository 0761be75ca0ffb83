"""Requests that a study makes when it knows the time: seconds since 1970 -> envelope."""

from collections.abc import Callable

import msgspec

from learner_node.study.session import Session
from protocol.messages import NO_DIGEST, NO_STUDY, Card, Refusal
from protocol.plans import Plan
from protocol.refusals import RefusalCode

Request = Callable[[int], bytes]


def pending(session: Session) -> Request:
    """The request that awaits its reply, as it was sent."""
    return lambda now: session.pending  # noqa: ARG005


def closing(session: Session) -> Request:
    """A close that awaits its reply, or another one where it came too late."""
    return lambda now: session.pending or session.close(now)


def terms(card: Card | None) -> Card | None:
    """What a card says, whichever request it answers."""
    if card is None:
        return None
    return msgspec.structs.replace(card, study=NO_STUDY, sequence=0, answers=NO_DIGEST, expires_at=0)


def unanswered(session: Session) -> Request:
    """The query that had no answer when the study was closed, as it was sent."""
    return lambda now: session.unanswered  # noqa: ARG005


def proposal(session: Session, plan: Plan, purpose: str) -> Request:
    """The proposal of a plan."""
    return lambda now: session.propose(plan, purpose, now)


def query(session: Session, kind: str, body: bytes) -> Request:
    """The plan's next query."""
    return lambda now: session.query(kind, body, now)


def stays(refusal: Refusal) -> bool:
    """Whether a proposal was refused for good; one that came too late is made anew."""
    return refusal.final and refusal.code != RefusalCode.EXPIRED
