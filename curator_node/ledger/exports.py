"""A ledger's export in a file, written from a store and read as evidence. Its form is in `protocol.ledger.exports`.

The same ledger gives the same bytes, from whatever database it comes.
"""

from pathlib import Path

from curator_node.ledger.store import LedgerStore, Row
from expril.files import read_plain, read_start
from protocol.envelopes import digest
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.ledger.entries import LedgerCorruptError
from protocol.ledger.exports import MOST, OLD_START, START, Pair, decode_export, encode_export, read_block


class ExportedLedger:
    """A ledger that was read from such a file; see `checks.Evidence`.

    `pairs`: encoded entries with their signatures; `replies`: digest of a request, or `state_key` -> SHA-256 of what is
    stored under it.
    """

    def __init__(self, pairs: list[Pair], replies: dict[bytes, bytes]) -> None:
        self._pairs = pairs
        self._replies = replies

    def rows(self, start: int) -> list[Row]:
        """All entries from `start` on, in order."""
        place = max(start, 0)
        return [Row(place + index, *pair) for index, pair in enumerate(self._pairs[place:])]

    def replied(self) -> list[bytes]:
        """Digests of all requests whose replies were stored."""
        return list(self._replies)

    def reply_digest(self, request: bytes) -> bytes | None:
        """SHA-256 of the reply that was stored for a request, or None."""
        return self._replies.get(request)


def export_ledger(store: LedgerStore) -> bytes:
    """The bytes of a ledger's export.

    `store`: read within `DatabaseStore.snapshot`, so that all rows are of one moment.

    Raises:
        LedgerCorruptError: entries are missing.
        LedgerUnavailableError: the store cannot be read.
    """
    rows = store.rows(-(2**62))
    if not rows or [row.index for row in rows] != list(range(len(rows))):
        raise LedgerCorruptError("entries of this ledger are missing; see expril ledger verify")
    replies = ((request, digest(store.reply(request) or b"")) for request in store.replied())
    return encode_export(((row.body, row.signature) for row in rows), replies)


def is_export(path: Path) -> bool:
    """Whether a file begins as an export does, of this version or the one before."""
    try:
        return read_start(path, len(START)) in (START, OLD_START)
    except OSError:
        return False


def read_export(path: Path) -> ExportedLedger:
    """Read an export. Only its form is checked.

    Raises:
        ConfigurationError: the file is not an export in canonical form.
    """
    try:
        data = read_plain(path, most=MOST)
        if data.startswith(OLD_START):
            raise ConfigurationError(f"{path} is an export of format 1; make one of format 2: expril ledger export")
        export = decode_export(data)
    except (OSError, RemoteProtocolError):
        raise ConfigurationError(
            f"{path} is no export of a ledger, or it was changed; make one: expril ledger export"
        ) from None
    blocks = [read_block(block) for block in export.blocks]
    damaged = [number for number, block in enumerate(blocks) if not block.intact]
    if damaged:
        raise ConfigurationError(
            f"{path} was changed: block {damaged[0]} of its entries has another digest; see expril audit run"
        )
    return ExportedLedger([pair for block in blocks for pair in block.pairs], dict(export.replies))
