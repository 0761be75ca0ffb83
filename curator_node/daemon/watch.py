"""What a daemon knows of the requests that it answers: counted for the health page, told to the log.

All of it is read from requests and signed replies, as any carrier could.
"""

import threading
from collections import Counter
from collections.abc import Callable

from curator_node.daemon.log import Event, Fault, Log, Request, Unserved
from curator_node.policy import Policy
from protocol.codec import decode
from protocol.envelopes import Envelope, open_envelope, open_receipt, request_digest
from protocol.errors import ExprilError
from protocol.messages import NO_STUDY, NOBODY, TYPE_NAMES, Message, Refusal, Release, StudyAccepted, StudyClosed
from protocol.refusals import RefusalCode

UNREADABLE = "unreadable"


class Watch:
    """Counts and tells; several threads may call it.

    Args:
        log: where events go.
        clock: seconds since 1970.

    Attributes:
        requests: by type.
        releases: replies that held one, repeats among them.
        refusals: by code.
        unserved: messages that were no requests, by reason.
    """

    def __init__(self, log: Log, clock: Callable[[], int]) -> None:
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self.requests: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.unserved: Counter[str] = Counter()
        self.releases = 0

    def tell(self, event: Event) -> None:
        """An event of the daemon's own."""
        if isinstance(event, Unserved):
            with self._lock:
                self.unserved[event.reason] += 1
        self._log.write(event)

    def watched(
        self, handle: Callable[[bytes], bytes], policy: Callable[[], Policy], label: str
    ) -> Callable[[bytes], bytes]:
        """`handle`, watched: the same bytes in, the same bytes out.

        Args:
            handle: the curator's.
            policy: the one that it serves by now.
            label: under which it signs.
        """

        def answer(data: bytes) -> bytes:
            came = self._clock()
            reply = handle(data)
            try:
                event = describe(data, reply, policy(), label)
                with self._lock:
                    self.requests[event.type] += 1
                    self.releases += event.reply == TYPE_NAMES[Release]
                    if event.code:
                        self.refusals[event.code] += 1
                self._log.write(event, at=came)
            except Exception as error:  # noqa: BLE001 - a reply that was signed leaves, whatever is said of it
                self._log.write(Fault(kind=type(error).__name__, thread="watch"))
            return reply

        return answer


def request_type(data: object) -> str:
    """Type of a request, as its envelope says without proof; "unreadable" where it is none."""
    if not isinstance(data, bytes):
        return UNREADABLE
    try:
        return decode(data, Envelope).type
    except ExprilError:
        return UNREADABLE


def describe(data: bytes, reply: bytes, policy: Policy, label: str) -> Request:
    """The event of an answered request; what it says of the sender is what the curator verified."""
    envelope, message = open_envelope(reply)
    asked = _readable(data)
    known = message.recipient != NOBODY
    learner = policy.learner(message.recipient) if known else None
    return Request(
        type=UNREADABLE if asked is None else asked.type,
        reply=envelope.type,
        learner="" if learner is None else learner.name,
        key=message.recipient.hex() if known else "",
        study="" if message.study == NO_STUDY else message.study.hex(),
        sequence=message.sequence,
        digest=request_digest(message.recipient, asked.type, asked.payload).hex()
        if asked is not None and known
        else "",
        code=RefusalCode(message.code) if isinstance(message, Refusal) else "",
        epsilon=_epsilon(message, label),
    )


def _readable(data: bytes) -> Envelope | None:
    """A request's envelope; None where its type is none of the protocol's, which a stranger may have chosen."""
    try:
        envelope = decode(data, Envelope)
    except ExprilError:
        return None
    return envelope if envelope.type in TYPE_NAMES.values() else None


def _epsilon(message: Message, label: str) -> str:
    match message:
        case Release():
            return open_receipt(message.receipt, message.sender, label=label).charged
        case StudyAccepted():
            return message.cost
        case StudyClosed():
            return message.refunded
    return ""
