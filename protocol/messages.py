"""The messages of a study, as small frozen types. `envelopes` carries and signs them.

learner                                   curator
CardRequest                          ->
<-   Card
StudyProposal(plan)                  ->   quotes the exact cost and reserves it
<-   StudyAccepted | Refusal
Query                                ->   charge, answer, store, send
<-   Release | Refusal
StudyClose                           ->   refunds what was reserved and never used
<-   StudyClosed
"""

from typing import Annotated

import msgspec

from protocol.limits import Limits
from protocol.plans import Plan
from protocol.rationals import Amount, OptionalAmount
from protocol.refusals import RETRIABLE, RefusalCode
from protocol.schema import Name, Schema

VERSION = 2

Key = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
"""Raw Ed25519 public key: the identity of a curator or learner."""
Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
"""SHA-256 of an envelope's bytes, or of the bytes that the field's description names."""
StudyId = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
"""Seconds since 1970-01-01 UTC."""
Sequence = Annotated[int, msgspec.Meta(ge=0, le=2**20)]

MOST_PURPOSE = 1000
"""Longest purpose of a proposal, in characters."""
SEALED_BYTES = 1052
"""Length of every receipt's sealed position: 1,024 bytes of text, 12 of nonce and 16 of tag."""

NOBODY = bytes(32)
NO_DIGEST = bytes(32)
NO_STUDY = bytes(16)


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of every message."""

    version: Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION)] = VERSION  # of this protocol
    study: StudyId  # random identity chosen by the learner; zero outside a study
    sender: Key  # the signer's key
    recipient: Key  # the addressee's key; zero if a curator answers a sender that it could not verify
    sequence: Sequence  # 0 for the proposal, then 1, 2, ...; a reply has its request's
    answers: Digest  # digest of the preceding envelope: a reply's request, or the last reply before a request
    expires_at: Seconds  # from then on the message is refused, unless it was answered before


class CardRequest(Message, frozen=True, kw_only=True):
    """The learner asks for the curator's card."""


class Card(Message, frozen=True, kw_only=True):
    """The steward's public description of a curator; nothing in it is computed from a record."""

    name: Name  # the curator's
    schema: Schema  # attributes, bounds, levels, label
    unit: Name | None  # the column whose values are the privacy units; None if each record is one
    most_records_per_unit: Annotated[int, msgspec.Meta(ge=1, le=2**20)]  # the contribution bound c
    relation: Name  # the neighbouring relation of every guarantee
    # declared approximate number of records, a round figure; None if not declared
    round_size: Annotated[int, msgspec.Meta(ge=1, le=2**40)] | None
    limits: Limits  # of one query
    cap: Amount  # most epsilon that the asking learner may ever spend here
    least_cost: Amount  # smallest plan accepted


class StudyProposal(Message, frozen=True, kw_only=True):
    """The learner asks the curator to reserve the cost of a plan."""

    plan: Plan  # everything that will be asked
    purpose: Annotated[str, msgspec.Meta(max_length=MOST_PURPOSE)]  # for the steward to read
    # the last receipt envelope that this curator gave the learner, or empty: it proves a rolled-back ledger
    newest_receipt: Annotated[bytes, msgspec.Meta(max_length=16_384)]


class StudyAccepted(Message, frozen=True, kw_only=True):
    """The plan's exact cost is reserved until `reserved_until`."""

    cost: Amount
    reserved_until: Seconds
    receipt: Annotated[bytes, msgspec.Meta(max_length=16_384)]


class Query(Message, frozen=True, kw_only=True):
    """The next query of the plan; `body` is decoded by its kind."""

    kind: Name
    body: bytes


class Release(Message, frozen=True, kw_only=True):
    """A differentially private answer; `body` is decoded by its kind."""

    kind: Name
    body: bytes
    receipt: Annotated[bytes, msgspec.Meta(max_length=16_384)]


class StudyClose(Message, frozen=True, kw_only=True):
    """The learner ends a study, early or after its last query."""


class StudyClosed(Message, frozen=True, kw_only=True):
    """The study is closed; `refunded` is the amount that was reserved and never used."""

    refunded: Amount
    receipt: Annotated[bytes, msgspec.Meta(max_length=16_384)]


class Refusal(Message, frozen=True, kw_only=True):
    """A curator's refusal of a request. It changes no budget and depends on request, policy and ledger only.

    A refusal is *final* if it names its recipient and its code is not in `RETRIABLE`: the same request gets the same
    refusal until it expires. After a refusal that is not final, the same request may still be answered.
    """

    code: Name  # a `RefusalCode`
    explanation: Annotated[str, msgspec.Meta(max_length=400)]  # the code's constant sentence
    field: Annotated[str, msgspec.Meta(max_length=400)]  # path of the offending field, where there is one
    limit: Annotated[str, msgspec.Meta(max_length=2000)]  # what would be accepted, from the protocol or the policy
    remaining: OptionalAmount  # epsilon left to this learner; empty for a sender that is not verified
    # smallest factor by which to multiply all scales of the plan so that it fits, or empty
    scale_factor: OptionalAmount

    @property
    def final(self) -> bool:
        """Whether resending the same request is useless."""
        return self.recipient != NOBODY and self.code not in RETRIABLE

    @property
    def rules_out(self) -> bool:
        """Whether the request was not carried out and never will be.

        It is False if the curator no longer has the answer: the request was charged, and the answer may still arrive.
        """
        return self.final and self.code != RefusalCode.ANSWER_GONE


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a curator signs about its ledger with every accepted, released or closed message.

    Attributes:
        curator, learner, study, sequence: the parties and the message that it answers.
        request: digest of the request (sender, type and payload).
        release: SHA-256 of the release body; zeros if nothing was released.
        charged: epsilon charged by this request.
        spent_by_study: total epsilon of the study after this charge.
        spent_by_learner: total epsilon of the learner after this charge, over all its keys that the curator knew;
            rounded up to a multiple of 2^-64 if its denominator exceeds 2^1024.
        ledger_head: head of the ledger's chain at the entry that this request made. A secret nonce in each entry makes
            it unpredictable, so that it tells nothing of other learners.
        position: the entry's place in the chain and the total spent by all learners; encrypted for the curator alone,
            and of fixed length.
        issued_at: time of issue by the curator's clock.
    """

    curator: Key
    learner: Key
    study: StudyId
    sequence: Sequence
    request: Digest
    release: Digest
    charged: Amount
    spent_by_study: Amount
    spent_by_learner: Amount
    ledger_head: Digest
    position: Annotated[bytes, msgspec.Meta(min_length=SEALED_BYTES, max_length=SEALED_BYTES)]
    issued_at: Seconds


MESSAGE_TYPES: dict[str, type[Message]] = {
    "card_request": CardRequest,
    "card": Card,
    "study_proposal": StudyProposal,
    "study_accepted": StudyAccepted,
    "query": Query,
    "release": Release,
    "study_close": StudyClose,
    "study_closed": StudyClosed,
    "refusal": Refusal,
}
"""Name on the wire -> type."""

TYPE_NAMES: dict[type[Message], str] = {kind: name for name, kind in MESSAGE_TYPES.items()}
