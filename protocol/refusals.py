"""Every reason for which a curator refuses a request: one code and one constant sentence each.

The sentence is a constant of the protocol, so that no text built from data can cross the wire.
"""

from enum import StrEnum


class RefusalCode(StrEnum):
    """Why a request was refused."""

    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    UNKNOWN_SENDER = "unknown_sender"
    BAD_SIGNATURE = "bad_signature"
    WRONG_RECIPIENT = "wrong_recipient"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    UNKNOWN_STUDY = "unknown_study"
    STUDY_CLOSED = "study_closed"
    STUDY_EXPIRED = "study_expired"
    OUT_OF_ORDER = "out_of_order"
    CHANGED_CONTENT = "changed_content"
    UNKNOWN_KIND = "unknown_kind"
    KIND_NOT_ALLOWED = "kind_not_allowed"
    NOT_IN_PLAN = "not_in_plan"
    BAD_QUERY = "bad_query"
    BAD_PLAN = "bad_plan"
    OVER_LIMIT = "over_limit"
    OVER_BUDGET = "over_budget"
    BELOW_LEAST_COST = "below_least_cost"
    AWAITING_APPROVAL = "awaiting_approval"
    DECLINED = "declined"
    TOO_MANY_STUDIES = "too_many_studies"
    TERMS_CHANGED = "terms_changed"
    LEDGER_ROLLED_BACK = "ledger_rolled_back"
    HALTED = "halted"
    STORE_FULL = "store_full"
    ANSWER_GONE = "answer_gone"
    STATE_GONE = "state_gone"
    BUSY = "busy"
    TOO_MANY_REQUESTS = "too_many_requests"
    UNAVAILABLE = "unavailable"


EXPLANATIONS: dict[RefusalCode, str] = {
    RefusalCode.MALFORMED: "the bytes are not a message of this protocol",
    RefusalCode.TOO_LARGE: "the message is larger than this curator reads",
    RefusalCode.UNKNOWN_SENDER: "the sender's key may not ask here, or no longer; ask the curator's steward",
    RefusalCode.BAD_SIGNATURE: "the signature does not fit the content",
    RefusalCode.WRONG_RECIPIENT: "the message names another recipient",
    RefusalCode.EXPIRED: "the message's expiry has passed; check the clock and sign anew",
    RefusalCode.NOT_YET_VALID: "the message's expiry lies too far ahead; check the clock, or send the same later",
    RefusalCode.UNKNOWN_STUDY: "no such study is open here; propose it first",
    RefusalCode.STUDY_CLOSED: "the study is closed; propose a new one",
    RefusalCode.STUDY_EXPIRED: "the study's reservation has expired; propose a new study",
    RefusalCode.OUT_OF_ORDER: "this is not the next message of the study",
    RefusalCode.CHANGED_CONTENT: "another request with this sequence was answered already; repeat that one",
    RefusalCode.UNKNOWN_KIND: "this curator does not know this kind of query",
    RefusalCode.KIND_NOT_ALLOWED: "this curator's policy does not allow this kind",
    RefusalCode.NOT_IN_PLAN: "the query is not the next one of the accepted plan",
    RefusalCode.BAD_QUERY: "the query breaks a rule; see field and limit",
    RefusalCode.BAD_PLAN: "the plan breaks a rule; see field and limit",
    RefusalCode.OVER_LIMIT: "the request is over a limit of this curator's policy; see field and limit",
    RefusalCode.OVER_BUDGET: "the plan costs more than is left; multiply its scales by the factor given",
    RefusalCode.BELOW_LEAST_COST: "the plan costs less than this curator bothers to account for",
    RefusalCode.AWAITING_APPROVAL: "the proposal waits for this curator's steward; send the same again later",
    RefusalCode.DECLINED: "the steward has declined this study; ask the steward why",
    RefusalCode.TOO_MANY_STUDIES: "too many studies; close an open one, or ask the steward for more",
    RefusalCode.TERMS_CHANGED: "the steward has changed the terms since this plan was accepted; close it, propose anew",
    RefusalCode.LEDGER_ROLLED_BACK: "the ledger lacks a receipt that this curator signed; its steward must act",
    RefusalCode.HALTED: "this curator has stopped until its steward acts",
    RefusalCode.STORE_FULL: "this curator can keep no more replies until its steward acts; nothing was charged",
    RefusalCode.ANSWER_GONE: "this request was charged, but no answer to it is kept here; it is never drawn again",
    RefusalCode.STATE_GONE: "what was kept of this study is missing or changed; nothing was charged; close the study",
    RefusalCode.BUSY: "this request is being answered; send the same again",
    RefusalCode.TOO_MANY_REQUESTS: "more requests than this curator's policy allows; send the same later",
    RefusalCode.UNAVAILABLE: "the curator cannot serve just now; repeat the same request: it is charged at most once",
}

RETRIABLE = frozenset(
    {
        RefusalCode.AWAITING_APPROVAL,
        RefusalCode.NOT_YET_VALID,
        RefusalCode.LEDGER_ROLLED_BACK,
        RefusalCode.HALTED,
        RefusalCode.STORE_FULL,
        RefusalCode.BUSY,
        RefusalCode.TOO_MANY_REQUESTS,
        RefusalCode.UNAVAILABLE,
    }
)
"""Codes of refusals that are not final: the same request may still be answered, so it stays pending."""
