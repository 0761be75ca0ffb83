"""A ledger for its steward's eyes, and the steward's act after a halt."""

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.table import Table

from curator_node.ledger import Ledger
from curator_node.ledger_entries import Account, Entry
from curator_node.ledger_store import DatabaseStore, sqlite_url
from protocol.codec import decode
from protocol.errors import ConfigurationError
from protocol.messages import NOBODY
from protocol.rationals import parse_rational, shorten

SQLITE_MAGIC = b"SQLite format 3\x00"


@dataclass(frozen=True)
class LedgerView:
    """A ledger whose chain was checked."""

    account: Account
    entries: tuple[Entry, ...]

    def as_object(self) -> dict[str, Any]:
        """For machines."""
        return {
            "head": self.account.head.hex(),
            "halted": self.account.halted,
            "spent": _written(self.account.total_spent),
            "reserved": _written(self.account.total_reserved),
            "learners": {
                key.hex(): {
                    "spent": _written(self.account.spent.get(key, Fraction(0))),
                    "reserved": _written(self.account.reserved.get(key, Fraction(0))),
                }
                for key in self._learners()
            },
            "entries": [
                {
                    "index": entry.index,
                    "at": entry.at,
                    "kind": entry.kind,
                    "learner": entry.learner.hex(),
                    "study": entry.study.hex(),
                    "sequence": entry.sequence,
                    "epsilon": entry.amount,
                    "note": entry.note,
                }
                for entry in self.entries
            ],
        }

    def tables(self) -> list[Table]:
        """For people: learners, then entries."""
        learners = Table(title="spent and reserved" + (" - HALTED" if self.account.halted else ""))
        for name in ("learner", "spent", "reserved"):
            learners.add_column(name)
        for key in self._learners():
            zero = Fraction(0)
            spent, reserved = self.account.spent.get(key, zero), self.account.reserved.get(key, zero)
            learners.add_row(key.hex()[:16], _written(spent), _written(reserved))
        learners.add_row("all", _written(self.account.total_spent), _written(self.account.total_reserved), style="bold")
        entries = Table(title=f"entries, chain verified to {self.account.head.hex()[:16]}")
        for name in ("#", "when (UTC)", "what", "learner", "study", "question", "epsilon", "note"):
            entries.add_column(name)
        for entry in self.entries:
            when = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
            who = "" if entry.learner == NOBODY else entry.learner.hex()[:8]
            entries.add_row(
                str(entry.index),
                when,
                entry.kind,
                who,
                entry.study.hex()[:8],
                str(entry.sequence),
                entry.amount,
                entry.note,
            )
        return [learners, entries]

    def _learners(self) -> list[bytes]:
        return [key for key in {**self.account.reserved, **self.account.spent} if key != NOBODY]


def read(path: Path) -> LedgerView:
    """Open a ledger and check its chain.

    Raises:
        ConfigurationError: not a ledger.
        LedgerCorruptError: its chain does not fit together.
    """
    ledger = _open(path)
    entries = tuple(decode(body, Entry) for _, body in ledger.store.entries(0))
    ledger.store.close()
    return LedgerView(ledger.account, entries)


def resume(path: Path, *, note: str, learner: str, restored: str) -> None:
    """Enter the steward's decision to go on.

    Raises:
        ConfigurationError: not a ledger, not halted, or a bad key or amount.
    """
    ledger = _open(path)
    if not ledger.account.halted:
        raise ConfigurationError(f"{path} is not halted")
    if bool(learner) != bool(restored):
        raise ConfigurationError("--learner and --restored go together")
    try:
        key = bytes.fromhex(learner) if learner else NOBODY
    except ValueError:
        key = b""
    if len(key) != len(NOBODY):
        raise ConfigurationError("--learner takes a public key of 64 hexadecimal digits")
    amount = parse_rational(restored) if restored else Fraction(0)
    ledger.resume(int(time.time()), learner=key, restored=amount, note=note)
    ledger.store.close()


def _written(total: Fraction) -> str:
    return str(shorten(total, math.ceil))


def _open(path: Path) -> Ledger:
    try:
        with path.open("rb") as file:
            magic = file.read(len(SQLITE_MAGIC))
    except OSError:
        magic = b""
    if magic != SQLITE_MAGIC:
        raise ConfigurationError(f"{path} is not a SQLite ledger")
    return Ledger(DatabaseStore(sqlite_url(path)))
