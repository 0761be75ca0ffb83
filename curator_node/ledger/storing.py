"""What a ledger needs of a store, and what is kept there."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from protocol.errors import ExprilError


class LedgerUnavailableError(ExprilError):
    """The store did not take a write (disk full, database away). Nothing was charged by it."""

    kind = "ledger"


class AppendConflictError(ExprilError):
    """Another process appended this index first; read its entries and decide anew."""


@dataclass(frozen=True)
class Row:
    """One stored entry.

    Attributes:
        index: from 0, without gaps.
        body: the encoded entry.
        signature: the curator's, over the entry's place and hash; 64 bytes.
    """

    index: int
    body: bytes
    signature: bytes


@dataclass(frozen=True)
class Held:
    """A proposal that waits for its steward's word.

    Attributes:
        request: its digest.
        learner: who signed it.
        envelope: its bytes, as they came.
        received_at: when they first came.
        expires_at: until when it is kept, and may be accepted.
    """

    request: bytes
    learner: bytes
    envelope: bytes
    received_at: int
    expires_at: int


Replies = Iterable[tuple[bytes, bytes]]
"""(digest of the request, signed reply), or (`state_key`, what an answerer keeps)."""


class LedgerStore(Protocol):
    """What a ledger needs of a store."""

    def rows(self, start: int) -> list[Row]:
        """All entries from `start` on, in order; LedgerUnavailableError, LedgerCorruptError."""

    def append(self, row: Row, *, replies: Replies = (), evicted: Iterable[bytes] = ()) -> None:
        """Durably add an entry, keep replies, each in the place of an older one, and drop others, all or nothing.

        Raises:
            AppendConflictError: the index exists.
            LedgerUnavailableError: the store failed.
        """

    def reply(self, request: bytes) -> bytes | None:
        """The stored reply to a request, or None."""

    def replied(self) -> list[bytes]:
        """Digests of all requests whose replies are stored."""

    def remember(self, request: bytes, learner: bytes, refusal: bytes, expires_at: int, now: int) -> None:
        """Durably keep a final refusal until its request expires; those that have expired are dropped."""

    def refusal(self, request: bytes) -> bytes | None:
        """The refusal remembered for a request, or None."""

    def refusals(self, learner: bytes, now: int) -> int:
        """How many refusals of a learner's requests are remembered that have not expired."""

    def hold(self, proposal: Held, now: int) -> bool:
        """Durably keep a proposal; False where it is kept already. Those that have expired are dropped."""

    def held(self, now: int) -> list[Held]:
        """The proposals kept that have not expired, the first that came in front."""

    def release(self, request: bytes) -> None:
        """Drop a proposal that is kept no longer."""

    def close(self) -> None:
        """Release what is held."""
