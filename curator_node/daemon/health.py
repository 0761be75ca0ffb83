"""What a daemon counts and logs of the requests that it answers, and the health page that shows it.

The page is on the loopback only, and shows policy and ledger only, nothing of the records.
`/health` is 200 while the daemon is connected and its ledger serves, else 503; `/status` is one JSON object.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from curator_node.budgets import Standing
from curator_node.daemon.log import Event, Fault, Log, Request, Unserved
from curator_node.policy import Policy
from protocol.codec import decode
from protocol.envelopes import Envelope, open_envelope, open_receipt, request_digest
from protocol.errors import ConfigurationError, ExprilError
from protocol.messages import NO_STUDY, NOBODY, TYPE_NAMES, Message, Refusal, Release, StudyAccepted, StudyClosed
from protocol.refusals import RefusalCode

UNREADABLE = "unreadable"


class Watch:
    """Counts requests and replies, and logs them; several threads may call it."""

    def __init__(self, log: Log, clock: Callable[[], int]) -> None:
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self.requests: Counter[str] = Counter()  # by type
        self.refusals: Counter[str] = Counter()  # by code
        self.unserved: Counter[str] = Counter()  # messages that were no requests, by reason
        self.releases = 0  # replies that held one, repeats among them

    def tell(self, event: Event) -> None:
        """Log an event of the daemon itself."""
        if isinstance(event, Unserved):
            with self._lock:
                self.unserved[event.reason] += 1
        self._log.write(event)

    def watched(
        self, handle: Callable[[bytes], bytes], policy: Callable[[], Policy], label: str
    ) -> Callable[[bytes], bytes]:
        """Wrap `handle` so that each request is counted and logged. Its replies stay the same.

        Args:
            handle: the curator's.
            policy: returns the policy that is in force.
            label: the label under which the curator signs.
        """

        def answer(data: bytes) -> bytes:
            received_at = self._clock()
            reply = handle(data)
            try:
                event = describe(data, reply, policy(), label)
                with self._lock:
                    self.requests[event.type] += 1
                    self.releases += event.reply == TYPE_NAMES[Release]
                    if event.code:
                        self.refusals[event.code] += 1
                self._log.write(event, at=received_at)
            except Exception as error:  # noqa: BLE001 - a reply that was signed leaves, whatever is said of it
                self._log.write(Fault(kind=type(error).__name__, thread="watch"))
            return reply

        return answer


def request_type(data: object) -> str:
    """The type that a request's envelope claims; "unreadable" if it is no envelope."""
    if not isinstance(data, bytes):
        return UNREADABLE
    try:
        return decode(data, Envelope).type
    except ExprilError:
        return UNREADABLE


def describe(data: bytes, reply: bytes, policy: Policy, label: str) -> Request:
    """The log event of an answered request; its sender is the one that the curator verified."""
    envelope, message = open_envelope(reply)
    request = _readable(data)
    is_verified = message.recipient != NOBODY
    learner = policy.learner(message.recipient) if is_verified else None
    return Request(
        type=UNREADABLE if request is None else request.type,
        reply=envelope.type,
        learner="" if learner is None else learner.name,
        key=message.recipient.hex() if is_verified else "",
        study="" if message.study == NO_STUDY else message.study.hex(),
        sequence=message.sequence,
        digest=request_digest(message.recipient, request.type, request.payload).hex()
        if request is not None and is_verified
        else "",
        code=RefusalCode(message.code) if isinstance(message, Refusal) else "",
        epsilon=_epsilon(message, label),
    )


def _readable(data: bytes) -> Envelope | None:
    """A request's envelope; None if it is no envelope, or claims a type that the protocol does not have."""
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


LOOPBACK = "127.0.0.1"
READ_SECONDS = 10


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What `/status` says. Times are seconds since 1970."""

    curator: str  # its public key
    name: str  # as its policy says
    superlink: str  # "host:port"
    node: int  # Flower's number of it
    serving_since: int  # when the process opened the curator
    connected_since: int  # 0 while nothing can be fetched
    requests: dict[str, int]  # answered, by type
    releases: int  # replies that held one, repeats among them
    refusals: dict[str, int]  # by code
    unserved: dict[str, int]  # Flower messages that were no requests of ours, by reason
    in_hand: int  # messages that are being fetched or answered
    ledger_available: bool  # whether the ledger can be read
    waiting: int | None  # studies that wait for the steward's word; None while the ledger cannot be read
    data_version: str  # the random name of the records' snapshot on the ledger; empty where none is kept
    budget: Standing | None  # policy and ledger; None while the ledger cannot be read

    @property
    def healthy(self) -> bool:
        """Whether a learner's request would be answered now."""
        return bool(self.connected_since) and self.budget is not None and not self.budget.halted


class HealthPage:
    """A small HTTP server in threads of its own.

    Args:
        port: a port of the loopback.
        status: called for each request of the page.

    Raises:
        ConfigurationError: the port is taken.
    """

    def __init__(self, port: int, status: Callable[[], Status]) -> None:
        handler = type("Handler", (_Handler,), {"status": staticmethod(status), "port": port})
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), handler)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {LOOPBACK}:{port} for the health page ({error.strerror}); choose another health_port"
            ) from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    status: Callable[[], Status]
    port: int
    timeout = READ_SECONDS
    server_version, sys_version = "expril", ""

    def do_GET(self) -> None:
        # A page of a browser on this machine may not read it under another name.
        if self.headers.get("Host", "") not in {f"{LOOPBACK}:{self.port}", f"localhost:{self.port}"}:
            self._say(403, {"error": f"ask for {LOOPBACK}:{self.port}"})
        elif self.path == "/health":
            status = self.status()
            self._say(200 if status.healthy else 503, {"healthy": status.healthy})
        elif self.path == "/status":
            self._say(200, msgspec.to_builtins(self.status()))
        else:
            self._say(404, {"error": "ask for /health or /status"})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Do nothing: requests for the health page are not logged."""

    def _say(self, code: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)
