"""The health page of a daemon: on the loopback only, policy and ledger only, nothing of the records.

`/health` is 200 while the daemon is connected and its ledger serves, else 503; `/status` is one JSON object.
"""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from curator_node.budgets import Standing
from protocol.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
READ_SECONDS = 10


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What `/status` says. Times are seconds since 1970.

    Attributes:
        curator: its public key.
        name: as its policy says.
        superlink: "host:port".
        node: Flower's number of it.
        serving_since: when the process opened the curator.
        connected_since: 0 while nothing can be fetched.
        requests: answered, by type.
        releases: replies that held one, repeats among them.
        refusals: by code.
        unserved: Flower messages that were no requests of ours, by reason.
        in_hand: messages that are being fetched or answered.
        ledger_available: whether the ledger can be read.
        waiting: studies that wait for the steward's word; None while the ledger cannot be read.
        data_version: the random name of the records' snapshot on the ledger; empty where none is kept.
        budget: policy and ledger; None while the ledger cannot be read.
    """

    curator: str
    name: str
    superlink: str
    node: int
    serving_since: int
    connected_since: int
    requests: dict[str, int]
    releases: int
    refusals: dict[str, int]
    unserved: dict[str, int]
    in_hand: int
    ledger_available: bool
    waiting: int | None
    data_version: str
    budget: Standing | None

    @property
    def healthy(self) -> bool:
        """Whether a learner's request would be answered now."""
        return bool(self.connected_since) and self.budget is not None and not self.budget.halted


class HealthPage:
    """A small HTTP server in threads of its own.

    Args:
        port: of the loopback.
        status: asked for each look.

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
        """Looks at one's own health are no events."""

    def _say(self, code: int, what: object) -> None:
        body = json.dumps(what).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)
