"""What a curator says when it says no, and how it remembers what it refused for good."""

import math
from collections.abc import Callable
from typing import Any

import msgspec

from curator_node.ledger import Caps, Ledger, StudyKey
from curator_node.meters import Meter
from curator_node.policy import Policy
from protocol.errors import RemoteProtocolError
from protocol.messages import CardRequest, Message, Refusal, StudyProposal
from protocol.rationals import amount, shorten
from protocol.refusals import EXPLANATIONS, RefusalCode


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
