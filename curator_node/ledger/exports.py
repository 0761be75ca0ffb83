"""A ledger as a portable file: entries, signatures and the digests of stored replies, and nothing of a database.

One MessagePack map in the one encoding of `protocol.codec`, with the keys of `LedgerExport` in their order. The same
ledger gives the same bytes, from whatever database it comes.
"""

from pathlib import Path
from typing import Literal

import msgspec

from curator_node.ledger.storing import LedgerStore, Row
from protocol.codec import decode, encode
from protocol.envelopes import digest
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.ledger.entries import LedgerCorruptError
from protocol.messages import Digest

_START = b"\x83\xa6format\xb6expril ledger export 1"
"""How such a file begins: a map of three, its first key and that key's value."""
_MOST = 2**36


class LedgerExport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file holds.

    Attributes:
        format: name and version of the format.
        entries: (encoded entry, the curator's signature over its place and hash), in order from the first.
        replies: (digest of a request, or `state_key`; SHA-256 of what is stored under it), in rising order.
    """

    format: Literal["expril ledger export 1"]
    entries: tuple[tuple[bytes, bytes], ...]
    replies: tuple[tuple[Digest, Digest], ...]


class ExportedLedger:
    """A ledger that was read from such a file; see `checks.Evidence`.

    Args:
        export: what the file holds.
    """

    def __init__(self, export: LedgerExport) -> None:
        self._entries = export.entries
        self._replies = dict(export.replies)

    def rows(self, start: int) -> list[Row]:
        """All entries from `start` on, in order."""
        place = max(start, 0)
        return [Row(place + index, *entry) for index, entry in enumerate(self._entries[place:])]

    def replied(self) -> list[bytes]:
        """Digests of all requests whose replies were stored."""
        return list(self._replies)

    def reply_digest(self, request: bytes) -> bytes | None:
        """SHA-256 of the reply that was stored for a request, or None."""
        return self._replies.get(request)


def export_ledger(store: LedgerStore) -> bytes:
    """The bytes of a ledger's export.

    Args:
        store: of which one state is seen: `DatabaseStore.snapshot`.

    Raises:
        LedgerCorruptError: entries are missing.
        LedgerUnavailableError: the store cannot be read.
    """
    rows = store.rows(-(2**62))
    if not rows or [row.index for row in rows] != list(range(len(rows))):
        raise LedgerCorruptError("entries of this ledger are missing; see expril ledger verify")
    replies = tuple((request, digest(store.reply(request) or b"")) for request in sorted(store.replied()))
    return encode(LedgerExport("expril ledger export 1", tuple((row.body, row.signature) for row in rows), replies))


def is_export(path: Path) -> bool:
    """Whether a file begins as an export does."""
    try:
        with path.open("rb") as file:
            return file.read(len(_START)) == _START
    except OSError:
        return False


def read_export(path: Path) -> ExportedLedger:
    """Read an export; nothing of it is checked yet but its form.

    Raises:
        ConfigurationError: not an export in its one form.
    """
    try:
        export = decode(path.read_bytes(), LedgerExport, limit=_MOST)
    except (OSError, RemoteProtocolError):
        raise ConfigurationError(
            f"{path} is no export of a ledger, or it was changed; make one: expril ledger export"
        ) from None
    requests = [request for request, _ in export.replies]
    if not export.entries or sorted(set(requests)) != requests:
        raise ConfigurationError(f"{path} is an export without entries, or with replies out of order: it was changed")
    return ExportedLedger(export)
