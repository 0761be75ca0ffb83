"""How a curator is: by its daemon's health page, or, where none runs, by policy and ledger."""

import http.client
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from curator_node.budgets import standing_of
from curator_node.daemon.health import LOOPBACK
from curator_node.daemon.settings import ledger_of, read_settings
from curator_node.ledger import Account
from curator_node.ledger.checks import load
from curator_node.ledger.places import read_store
from curator_node.ledger.store import LedgerStore
from curator_node.proposals import undecided
from curator_node.site import LEDGER, now, policy_of
from protocol.errors import ConfigurationError

SECONDS = 30.0


@dataclass(frozen=True)
class _Read:
    """See `curator_node.proposals.Books`."""

    account: Account
    store: LedgerStore


def read_status(folder: Path) -> dict[str, Any]:
    """What the health page says, and whether the curator is "healthy" and "running".

    Raises:
        ConfigurationError: no daemon runs, and the folder cannot be read.
    """
    settings = read_settings(folder)
    told = asked(settings.health_port, "/status")
    if told is not None:
        healthy = asked(settings.health_port, "/health")
        return {"running": True, "healthy": bool(healthy and healthy.get("healthy")), **told}
    url, policy = ledger_of(settings), policy_of(folder)
    with read_store(url or folder / LEDGER) as store:
        account = load(store)
        waiting = len(undecided(_Read(account, store), now()))
    return {
        "running": False,
        "healthy": False,
        "curator": account.curator.hex(),
        "name": policy.name,
        "superlink": settings.superlink,
        "waiting": waiting,
        "budget": msgspec.to_builtins(standing_of(account, policy)),
    }


def asked(port: int, page: str) -> dict[str, Any] | None:
    """A page of a daemon on this machine; None where none answers there.

    Raises:
        ConfigurationError: something else answers there.
    """
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=SECONDS)
    try:
        connection.request("GET", page)
        answer = connection.getresponse()
        told = json.loads(answer.read())
    except OSError:
        return None
    except (http.client.HTTPException, ValueError):
        told = None
    finally:
        connection.close()
    if not isinstance(told, dict):
        raise ConfigurationError(f"what listens on {LOOPBACK}:{port} is no curator; choose another health_port")
    return told
