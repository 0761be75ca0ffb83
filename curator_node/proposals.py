"""How a proposal becomes a study: checked, held where a steward reads each, and its cost reserved.

One that waits for its steward reserves nothing. It is kept beside the ledger, where every process that serves from it
sees it. The steward's word is an entry of the ledger.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from curator_node.ledger import Account, Ledger, NotApprovedError, Reservation, StudyKey
from curator_node.ledger.store import Held, LedgerStore
from curator_node.ledger.studies import Decision
from curator_node.policy import Policy
from curator_node.records.schema_file import StewardFile
from curator_node.refusals import caps_of
from curator_node.requests import check_plan, check_time
from protocol.errors import RemoteProtocolError
from protocol.messages import NO_STUDY, Message, StudyProposal
from protocol.query_kind import Kinds
from protocol.refusals import RefusalCode

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
    return any(held.request == identity for held in ledger.store.held(now))


def undecided(ledger: Books, now: int) -> list[Held]:
    """The proposals that wait for the steward, the first that came in front.

    One that was approved waits once more where the approval has ended, or where it was held again since: something
    differed from what the steward had read.
    """
    words = ledger.account.decisions
    return [held for held in ledger.store.held(now) if not _is_decided(held, words.get(held.request), now)]


def _is_decided(held: Held, word: Decision | None, now: int) -> bool:
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
    return ledger.store.hold(Held(proposal.identity, sender, proposal.data, since, now + policy.approval_seconds), now)
