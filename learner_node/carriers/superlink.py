"""A carrier over a SuperLink, from the learner's own process to curators' daemons and back.

The nodes themselves say which curator they serve: one card request goes to every node, and each signed reply names its
curator. A relay that answers in a curator's place can only hold back messages: a session accepts nothing that the
curator did not sign.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from learner_node.carriers.superlink_run import (
    AwayError,
    LearnerRun,
    RunLostError,
    SuperLinkAddress,
    SuperLinkError,
    start_run,
)
from protocol.carriage import Pace
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL, SigningKey, digest, open_envelope, seal, verify
from protocol.errors import RemoteProtocolError
from protocol.messages import NO_DIGEST, NO_STUDY, NOBODY, CardRequest

SHORTEST, LONGEST = 0.01, 0.2
"""Least and most seconds between two looks for replies."""
LOOK_SECONDS = 1.0
"""Seconds between two looks for new nodes while a curator's node is unknown."""
PROBE_SECONDS = 5.0
"""Seconds after which a node that has not identified itself is asked once more."""
TRY_AGAIN_SECONDS = 0.5
"""Seconds to wait after a node's failure, and before an unreachable SuperLink is tried again."""
PROBE_LIFETIME = 600
MOST_RUNS = 20
"""Most runs that one exchange starts."""


@dataclass
class _Open:
    """A request that waits for its reply."""

    data: bytes
    sent_to: int = 0
    not_before: float = 0.0


@dataclass
class _Nodes:
    """The online nodes, and the curator of each."""

    of: dict[bytes, list[int]] = field(default_factory=dict)  # curator -> its nodes, the one to try first in front
    curators: dict[int, bytes] = field(default_factory=dict)  # the other way round
    probed: dict[int, float] = field(default_factory=dict)  # node -> when it was asked whose it is
    strangers: dict[int, set[bytes]] = field(default_factory=dict)  # node of another curator -> whom it was asked for
    looked: float = float("-inf")  # when the nodes were listed

    def place(self, node: int, curator: bytes) -> None:
        """Record a node's curator; the newest node is tried first."""
        self.curators[node] = curator
        self.of.setdefault(curator, []).insert(0, node)

    def failed(self, node: int) -> None:
        """Record a node's failure: its curator's other nodes are tried first, and it must identify itself again."""
        curator = self.curators.pop(node, None)
        if curator is not None:
            self.of[curator].remove(node)
        self.probed.pop(node, None)
        self.strangers.pop(node, None)
        self.looked = float("-inf")

    def later(self, curator: bytes) -> None:
        """Move on to a curator's next node after a timeout."""
        nodes = self.of.get(curator, [])
        nodes[:] = [*nodes[1:], *nodes[:1]]


class SuperLinkCarrier:
    """Carries envelopes over a SuperLink; a context manager, and a `learner_node.study.federation.Carrier`.

    A restarted SuperLink has forgotten the run. The carrier then starts another one, asks the nodes again who they are,
    and resends the pending requests. Curators answer a repeat from what they stored.

    Args:
        link: address of the SuperLink.
        key: the learner's; signs the requests that identify nodes.
        curators: public keys of those that may be asked; nodes of others are left alone.
        timeout: seconds that an exchange waits for replies; a curator without one is omitted.
        patience: seconds that an exchange waits for an unreachable SuperLink.
        clock: seconds since 1970 as an int.
        notify: called with a text that says what is awaited.
    """

    def __init__(
        self,
        link: SuperLinkAddress,
        key: SigningKey,
        curators: Collection[bytes],
        *,
        timeout: float = 60.0,
        patience: float = 300.0,
        clock: Callable[[], int] = lambda: int(time.time()),
        notify: Callable[[str], None] = lambda text: None,  # noqa: ARG005
    ) -> None:
        self._link = link
        self._key = key
        self._curators = frozenset(curators)
        self._timeout = timeout
        self._patience = patience
        self._clock = clock
        self._notify = notify
        self._run: LearnerRun | None = None
        self._nodes = _Nodes()
        self._probes: dict[str, tuple[int, bytes]] = {}
        self._sent: dict[str, tuple[bytes, bytes]] = {}
        self._pace = Pace(SHORTEST, LONGEST)

    def exchange(self, requests: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Send requests and collect the replies.

        Raises:
            SuperLinkError: the SuperLink was unreachable for longer than `patience`, or does not do what is asked.
            ConfigurationError: the SuperLink's certificate or the secret is wrong.
        """
        open_requests = {key: _Open(data) for key, data in requests.items() if key in self._curators}
        replies: dict[bytes, bytes] = {}
        end = time.monotonic() + self._timeout
        away_since: float | None = None
        anew = 0
        while True:
            try:
                run = self._reach()
                if away_since is not None:
                    end, away_since = time.monotonic() + self._timeout, None
                self._work(run, open_requests, replies, end)
            except RunLostError:
                anew += 1
                if anew > MOST_RUNS:
                    raise SuperLinkError(
                        f"the SuperLink {self._link.address} gives up every run that is started; read its log"
                    ) from None
                self._notify("the SuperLink no longer knows this study's run; another is started")
                self._forget()
                time.sleep(TRY_AGAIN_SECONDS)
            except AwayError:
                now = time.monotonic()
                if away_since is None:
                    away_since = now
                    self._notify(f"the SuperLink {self._link.address} cannot be reached; waiting")
                if now - away_since > self._patience:
                    raise SuperLinkError(
                        f"the SuperLink {self._link.address} cannot be reached; see that it runs and that its address "
                        "is right"
                    ) from None
                time.sleep(TRY_AGAIN_SECONDS)
            else:
                return replies

    def close(self) -> None:
        """End the run."""
        if self._run is not None:
            self._run.finish()
            self._run = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reach(self) -> LearnerRun:
        """The current run; it is started if there is none."""
        if self._run is not None and self._run.lost:
            raise RunLostError
        if self._run is not None and self._run.used_up:
            self._run.finish()
            self._forget()
        if self._run is None:
            self._run = start_run(self._link)
        return self._run

    def _forget(self) -> None:
        if self._run is not None:
            self._run.drop()
        self._run, self._nodes = None, _Nodes()
        self._probes.clear()
        self._sent.clear()

    def _work(
        self, run: LearnerRun, open_requests: Mapping[bytes, _Open], replies: dict[bytes, bytes], end: float
    ) -> None:
        """Send what waits and collect replies until all are there or the time is up."""
        for request in open_requests.values():
            request.sent_to = 0
        self._pace.begin(time.monotonic())
        while True:
            missing = {key: request for key, request in open_requests.items() if key not in replies}
            if not missing:
                self._pace.end(time.monotonic())
                return
            if run.lost:
                raise RunLostError
            now = time.monotonic()
            if now > end:
                for key in missing:
                    self._nodes.later(key)
                return
            unplaced = [key for key in missing if not self._nodes.of.get(key)]
            if unplaced and now - self._nodes.looked > LOOK_SECONDS:
                self._look(run, now, unplaced)
            self._send(run, missing, now)
            time.sleep(self._pace.pause(time.monotonic()))
            self._take(run, open_requests, replies)

    def _look(self, run: LearnerRun, now: float, unplaced: Sequence[bytes]) -> None:
        """Ask every online node that has not identified itself which curator it serves.

        A curator whose key has changed names its new key, unless the request is addressed to the key that the learner
        knows.
        """
        online = run.nodes()
        placed = self._nodes.curators.keys() | self._nodes.strangers.keys()
        for node in placed - online:
            self._nodes.failed(node)
        self._nodes.looked = now
        silent = [
            node
            for node in sorted(online - placed)
            if now - self._nodes.probed.get(node, -PROBE_SECONDS) >= PROBE_SECONDS
        ]
        probes = [(node, self._probe(NOBODY)) for node in silent]
        for node in online & self._nodes.strangers.keys():
            probes += [(node, self._probe(key)) for key in unplaced if key not in self._nodes.strangers[node]]
            self._nodes.strangers[node].update(unplaced)
        for probe, name in zip(probes, run.push(probes, ttl=self._timeout), strict=True):
            self._nodes.probed[probe[0]] = now
            if name:
                self._probes[name] = probe

    def _probe(self, recipient: bytes) -> bytes:
        request = CardRequest(
            study=NO_STUDY,
            sender=self._key.public,
            recipient=recipient,
            sequence=0,
            answers=NO_DIGEST,
            expires_at=self._clock() + PROBE_LIFETIME,
        )
        return seal(request, self._key)

    def _send(self, run: LearnerRun, missing: Mapping[bytes, _Open], now: float) -> None:
        ready = {
            key: nodes[0]
            for key, request in missing.items()
            if not request.sent_to and now >= request.not_before and (nodes := self._nodes.of.get(key))
        }
        names = run.push([(node, missing[key].data) for key, node in ready.items()], ttl=self._timeout)
        for (key, node), name in zip(ready.items(), names, strict=True):
            if name:
                missing[key].sent_to = node
                self._sent[name] = (key, missing[key].data)
            else:
                missing[key].not_before = now + TRY_AGAIN_SECONDS

    def _take(self, run: LearnerRun, open_requests: Mapping[bytes, _Open], replies: dict[bytes, bytes]) -> None:
        """Collect arrived replies."""
        for arrival in run.pull([*self._probes, *self._sent]):
            if arrival.message in self._probes:
                self._place(*self._probes.pop(arrival.message), arrival.data)
            elif arrival.message in self._sent:
                key, sent = self._sent.pop(arrival.message)
                request = open_requests.get(key)
                if request is None or request.data != sent or key in replies:
                    continue  # an earlier request's, brought late
                if arrival.data is not None:
                    replies[key] = arrival.data
                else:
                    self._nodes.failed(request.sent_to)
                    request.sent_to, request.not_before = 0, time.monotonic() + TRY_AGAIN_SECONDS

    def _place(self, node: int, request: bytes, reply: bytes | None) -> None:
        """Record a node's curator if the curator's signature on the reply confirms it."""
        if reply is None:
            return
        try:
            envelope, message = open_envelope(reply)
            if message.answers != digest(request):
                return
            label = NOT_PRIVATE_LABEL if envelope.label == NOT_PRIVATE_LABEL else LABEL
            verify(envelope, message.sender, label=label)
        except RemoteProtocolError:
            return
        if node in self._nodes.curators:
            return
        if message.sender in self._curators:
            self._nodes.place(node, message.sender)
        else:
            self._nodes.strangers.setdefault(node, set())
        self._nodes.looked = float("-inf")
