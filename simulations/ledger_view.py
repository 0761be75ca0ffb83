"""A ledger for its steward's eyes, and the steward's act after a halt."""

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from curator_node.ledger import Caps, Ledger
from curator_node.ledger.entries import Account, Entry, EntryKind, decode_entry
from curator_node.ledger.store import DatabaseStore, sqlite_url
from curator_node.policy import Policy, read_policy
from protocol.errors import ConfigurationError, printable
from protocol.messages import NO_STUDY, NOBODY
from protocol.rationals import parse_rational, shorten

SQLITE_MAGIC = b"SQLite format 3\x00"


@dataclass(frozen=True)
class LedgerView:
    """A ledger whose chain was checked, and the policy that goes with it, where it is known."""

    ledger: Ledger
    entries: tuple[Entry, ...]
    policy: Policy | None

    @property
    def account(self) -> Account:
        """The sum of all entries."""
        return self.ledger.account

    def as_object(self) -> dict[str, Any]:
        """For machines; `name`, `cap` and `left` are null without a policy."""
        return {
            "head": self.account.head.hex(),
            "halted": self.account.halted,
            "spent": _written(self.account.total_spent),
            "reserved": _written(self.account.total_reserved),
            "cap": None if self.policy is None else str(self.policy.total_cap),
            "learners": {
                key.hex(): {"name": name, "spent": spent, "reserved": reserved, "cap": cap, "left": left}
                for key, name, spent, reserved, cap, left in self._learners()
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
        title = "spent and left" + (" - HALTED" if self.account.halted else "")
        without = None if self.policy else "names, caps and what is left: add --policy FILE"
        learners = Table(title=title, box=box.SIMPLE_HEAD, caption=without)
        for column in ("learner", "key", "spent", "reserved", "cap", "left"):
            learners.add_column(column, no_wrap=True)
        for key, name, spent, reserved, cap, left in self._learners():
            learners.add_row(escape(name or "?"), key.hex()[:16], spent, reserved, cap or "?", left or "?")
        total_cap = "?" if self.policy is None else str(self.policy.total_cap)
        total = (_written(self.account.total_spent), _written(self.account.total_reserved))
        learners.add_row("all", "", *total, total_cap, "", style="bold")
        entries = Table(title=f"entries, chain verified to {self.account.head.hex()[:16]}", box=box.SIMPLE_HEAD)
        for column in ("#", "when (UTC)", "what", "learner", "study", "question", "epsilon"):
            entries.add_column(column, no_wrap=True)
        entries.add_column("note")
        for entry in self.entries:
            when = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
            who = "" if entry.learner == NOBODY else self._name(entry.learner) or entry.learner.hex()[:8]
            question = str(entry.sequence) if entry.kind is EntryKind.CHARGE else ""
            study = "" if entry.study == NO_STUDY else entry.study.hex()[:8]
            note = escape(printable(entry.note, 400))
            row = (str(entry.index), when, entry.kind, escape(who), study, question, entry.amount, note)
            entries.add_row(*row)
        return [learners, entries]

    def _name(self, key: bytes) -> str | None:
        found = None if self.policy is None else self.policy.learner(key)
        return None if found is None else found.name

    def _learners(self) -> list[tuple[bytes, str | None, str, str, str | None, str | None]]:
        """(key, name, spent, reserved, cap, left), of every learner of the ledger and of the policy."""
        allowed = [] if self.policy is None else [bytes.fromhex(learner.key) for learner in self.policy.learners]
        rows = []
        for key in dict.fromkeys([*allowed, *self.account.reserved, *self.account.spent]):
            if key == NOBODY:
                continue
            cap = left = None
            if self.policy is not None:
                caps = Caps(learner=self.policy.cap_of(key), total=self.policy.total_cap)
                cap, left = str(caps.learner), str(shorten(self.ledger.remaining(key, caps), math.floor))
            zero = Fraction(0)
            spent, reserved = self.account.spent.get(key, zero), self.account.reserved.get(key, zero)
            rows.append((key, self._name(key), _written(spent), _written(reserved), cap, left))
        return rows


def read(path: Path, policy: Path | None = None) -> LedgerView:
    """Open a ledger and check its chain.

    Args:
        path: a SQLite ledger.
        policy: the curator's policy file; None looks for `NAME.policy.toml` beside `NAME.ledger`.

    Raises:
        ConfigurationError: not a ledger, or not a policy.
        LedgerCorruptError: its chain does not fit together.
    """
    beside = path.with_name(path.name.removesuffix(".ledger") + ".policy.toml")
    chosen = policy or (beside if beside.is_file() else None)
    rules = None
    if chosen is not None:
        try:
            rules = read_policy(chosen.read_text(encoding="utf-8"), where=f"policy file {chosen.name}")
        except OSError as error:
            raise ConfigurationError(f"cannot read {chosen}: {error.strerror}") from None
    ledger = _open(path)
    entries = tuple(decode_entry(body) for _, body in ledger.store.entries(0))
    ledger.store.close()
    return LedgerView(ledger, entries, rules)


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
