"""Requests to several curators at once: sent, sent again, made anew where they came too late, and what each brought."""

from collections.abc import Callable, Mapping

from learner_node.study.federation import Federation
from learner_node.study.outcomes import BAD_REPLY, NO_REPLY, RELEASE, Fates
from learner_node.study.requests import Request
from learner_node.study.session import Session
from protocol.envelopes import digest, open_envelope
from protocol.errors import RemoteProtocolError, printable
from protocol.messages import Message, Refusal, Release
from protocol.refusals import RefusalCode


class Exchange:
    """How a study asks.

    Args:
        federation: whose carrier, clock and patience.
        sessions: of the study by curator's name, as they stand whenever something is asked.
        fates: what each asking brought is noted there.

    Attributes:
        stale: curator -> whether the learner's own clock, too, says that its last late request came too late.
    """

    def __init__(self, federation: Federation, sessions: Mapping[str, Session], fates: Fates) -> None:
        self._federation = federation
        self._sessions = sessions
        self._fates = fates
        self.stale: dict[str, bool] = {}

    def ask(
        self,
        requests: Mapping[str, Request],
        *,
        record: bool,
        attempts: int | None = None,
        renew: bool = False,
        until: Callable[[Mapping[str, Message]], bool] | None = None,
    ) -> dict[str, Message]:
        """Send, retry the same bytes where nothing came or a refusal may pass, and note what each request brought.

        With `renew`, a request that came after its expiry is made anew: as often as the learner's own clock says so,
        and once where only the curator's does. With `until`, nothing is sent again once the replies so far say so.
        """
        if not requests:
            return {}
        now = self._federation.clock()
        waiting = {self._sessions[name].curator: (name, make(now)) for name, make in requests.items()}
        replies: dict[str, Message] = {}
        notes: dict[str, str] = dict.fromkeys(requests, NO_REPLY)
        passing: dict[str, Refusal] = {}
        sent_again: set[str] = set()
        renewed: set[str] = set()
        left = attempts or self._federation.attempts
        while waiting and left:
            left -= 1
            arrived = self._federation.carrier.exchange({key: data for key, (_, data) in waiting.items()})
            for key, data in arrived.items():
                if key not in waiting:
                    continue
                name, sent = waiting[key]
                try:
                    reply = self._sessions[name].receive(data)
                except RemoteProtocolError as error:
                    notes[name], self._fates.broke[name] = BAD_REPLY, printable(str(error), 400)
                    continue
                if reply.answers != digest(sent):  # an earlier query's, brought late
                    continue
                notes[name] = f"refusal:{reply.code}" if isinstance(reply, Refusal) else RELEASE
                if isinstance(reply, Refusal) and not reply.final:
                    passing[name] = reply
                    continue
                now = self._too_late(name, reply, sent)
                if now and renew and (self.stale[name] or name not in renewed):
                    renewed.add(name)
                    waiting[key] = (name, requests[name](now))
                    left = max(left, 1)
                    continue
                replies[name] = reply
                self._fates.asked_again[name] += name in sent_again
                del waiting[key]
            sent_again |= {name for name, _ in waiting.values()}
            if until is not None and until(replies):
                break
        for name, note in notes.items():
            ended = replies.get(name, passing.get(name))
            recorded = record and (isinstance(ended, Release) or note != RELEASE)
            self._fates.note(name, note, ended, record=recorded)
            session = self._sessions[name]
            if session.newest_receipt:
                self._federation.receipts[session.curator] = session.newest_receipt
        return replies

    def _too_late(self, name: str, reply: Message, sent: bytes) -> int:
        """The time, where a request came after its expiry; else 0."""
        if not isinstance(reply, Refusal) or reply.code != RefusalCode.EXPIRED:
            return 0
        now = self._federation.clock()
        self.stale[name] = now >= open_envelope(sent)[1].expires_at
        return now
