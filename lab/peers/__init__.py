"""Competitors on the same records and epsilon: private learners that see the records, and ceilings without privacy.

All of them are trained in site on the pooled private records; ours never sees one. What each protects, and with which
settings, is in docs/peers.md.
"""

import time

from lab.peers.environment import checked, environment_versions, run_in_environment
from lab.peers.kinds import PEERS, PeerKind
from lab.peers.task import PeerFailedError, PeerResult, PeerTask, PeerUnavailableError
from protocol.errors import ConfigurationError

__all__ = [
    "PEERS",
    "PeerFailedError",
    "PeerKind",
    "PeerResult",
    "PeerTask",
    "PeerUnavailableError",
    "peer_versions",
    "run_peer",
]


def run_peer(task: PeerTask) -> PeerResult:
    """Train one peer and predict; the same task gives the same result on the same machine.

    Raises ConfigurationError: no such peer, or an epsilon or delta that it does not take; PeerUnavailableError: its
    environment or library is missing; the text says how to install it; PeerFailedError: it gave no answer; ValueError:
    arrays of wrong shapes or ranges.
    """
    if task.peer not in PEERS:
        raise ConfigurationError(f"no peer is called {task.peer!r}; there are {', '.join(PEERS)}")
    kind = PEERS[task.peer]
    kind.check(task)
    task.check()
    if kind.run is None:
        return run_in_environment(kind.family, task)
    start = time.perf_counter()
    probability = kind.run(task)
    return PeerResult(checked(probability, len(task.test), task.peer), time.perf_counter() - start)


def peer_versions() -> dict[str, str]:
    """Versions in the peers' environment as "peers/...", nothing where there is none or it does not answer."""
    try:
        return {f"peers/{name}": its for name, its in environment_versions().items()}
    except (PeerUnavailableError, PeerFailedError):
        return {}
