"""Waits for curators that say "later", or lets another process resume the study, instead of going on without them.

It wraps any carrier, so it belongs to none of them.
"""

import time
from collections.abc import Callable, Collection, Mapping

from learner_node.study.federation import Carrier, UnfinishedError
from learner_node.study.session import refused_for_good
from protocol.envelopes import digest, open_envelope, verify
from protocol.errors import RemoteProtocolError, printable
from protocol.messages import Refusal, StudyProposal
from protocol.refusals import EXPLANATIONS, RefusalCode

POLL_SECONDS = 5.0
APPROVAL = frozenset({RefusalCode.AWAITING_APPROVAL})
"""Refusals that a person must act on, which may take days."""


class WaitingCarrier:
    """Wraps a carrier and waits while curators say "later"; implements `learner_node.study.federation.Carrier`.

    Args:
        carrier: carries the envelopes.
        names: public key -> the learner's name of the curator.
        waits: whether to wait after a refusal that may pass; the study handles any other.
        without: public keys of curators that are not waited for.
        all_or_none: whether one curator's final refusal of a proposal ends the wait for all.
        poll: whether to ask again until nobody says "later", instead of leaving that to another process.
        notify: called with a text that names the awaited curators.
    """

    def __init__(
        self,
        carrier: Carrier,
        names: Mapping[bytes, str],
        *,
        waits: Callable[[Refusal], bool] = lambda refusal: refusal.code in APPROVAL,
        without: Collection[bytes] = (),
        all_or_none: bool = False,
        poll: bool = False,
        notify: Callable[[str], None] = lambda text: None,  # noqa: ARG005
    ) -> None:
        self._carrier = carrier
        self._names = dict(names)
        self._waits = waits
        self._without = frozenset(without)
        self._all_or_none = all_or_none
        self._poll = poll
        self._notify = notify

    def exchange(self, requests: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Exchange envelopes. Raises UnfinishedError: a curator says "later"; the text says who, and why."""
        replies = dict(self._carrier.exchange(requests))
        last_text = ""
        while deferrals := self._deferrals(requests, replies):
            text = self._awaited(deferrals)
            if not self._poll:
                raise UnfinishedError(f"{text}; then the same command goes on")
            if text != last_text:
                self._notify(text)
                last_text = text
            time.sleep(POLL_SECONDS)
            replies |= self._carrier.exchange({key: requests[key] for key in deferrals})
        return replies

    def _deferrals(self, requests: Mapping[bytes, bytes], replies: Mapping[bytes, bytes]) -> dict[bytes, Refusal]:
        refusals = {key: refusal_of(data, key, requests[key]) for key, data in replies.items() if key in requests}
        if self._all_or_none and any(_ends_all(requests[key], refusal) for key, refusal in refusals.items()):
            return {}
        return {
            key: refusal
            for key, refusal in refusals.items()
            if refusal is not None and not refusal.final and key not in self._without and self._waits(refusal)
        }

    def _awaited(self, deferrals: Mapping[bytes, Refusal]) -> str:
        return "; ".join(
            f"{self._names.get(key, key.hex())}: {EXPLANATIONS[RefusalCode(refusal.code)]}"
            f"{f' ({printable(refusal.limit)})' if refusal.limit else ''}"
            for key, refusal in deferrals.items()
        )


def refusal_of(reply: bytes, curator: bytes, request: bytes) -> Refusal | None:
    """The curator's own refusal of this request; None for any other reply."""
    try:
        envelope, message = open_envelope(reply)
        verify(envelope, curator, label=envelope.label)
    except RemoteProtocolError:
        return None
    if not isinstance(message, Refusal) or message.answers != digest(request):
        return None
    return message if message.code in EXPLANATIONS and message.sender == curator else None


def _ends_all(request: bytes, refusal: Refusal | None) -> bool:
    """Whether this reply ends a study for all or none."""
    return refusal is not None and refused_for_good(refusal) and isinstance(open_envelope(request)[1], StudyProposal)
