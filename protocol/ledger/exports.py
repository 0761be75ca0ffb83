"""A ledger as one portable file: entries, signatures and the digests of stored replies.

It is a MessagePack map in the one encoding of `protocol.codec`, with the keys of `LedgerExport` in their order. Entries
are in blocks, each with its SHA-256. A reader checks the chain of entries, but only a few of many signatures. The
digest of a block detects damage to the other signatures. It is no proof, since whoever changes a signature can change
the digest, but this gains nothing: the checked signatures cover all entries.
"""

from collections.abc import Iterable, Iterator
from io import SEEK_END
from itertools import islice
from struct import Struct
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

import msgspec

from protocol.codec import decode, encode
from protocol.envelopes import digest
from protocol.errors import RemoteProtocolError
from protocol.messages import Digest
from protocol.refusals import RefusalCode

FORMAT: Literal["expril ledger export 2"] = "expril ledger export 2"
START = b"\x83\xa6format\xb6" + FORMAT.encode()
"""First bytes of an export file: a map of three keys, the first key, and its value."""
OLD_START = b"\x83\xa6format\xb6expril ledger export 1"
BLOCK = 1024
"""Number of entries in a block; the last may have fewer."""
MOST = 2**32
"""Most bytes of a file: ten million entries have fewer."""
_SIGNATURE = 64
_DIGEST = 32
_Pairs: Any = list[tuple[bytes, bytes]]
_SHORT_ARRAY = range(0x90, 0xA0)
_ARRAYS, _BYTES = {0xDC: (2, 16), 0xDD: (4, 2**16)}, {0xC4: (1, 0), 0xC5: (2, 2**8), 0xC6: (4, 2**16)}
"""First byte of a longer array, and of bytes -> (how many bytes hold its length, the least that is written so)."""
_REPLY = Struct("3s32s2s32s")

Pair = tuple[bytes, bytes]
"""An encoded entry, and the curator's signature over its place and hash."""


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Up to `BLOCK` entries."""

    digest: Digest  # SHA-256 of `pairs`
    pairs: bytes  # an encoded array of (entry, signature), in order


class LedgerExport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of an export file."""

    format: Literal["expril ledger export 2"]  # name and version of the format
    blocks: Annotated[tuple[Block, ...], msgspec.Meta(min_length=1)]  # all entries, in order from the first
    # (digest of a request, or `state_key`; SHA-256 of what is stored under it), in rising order
    replies: tuple[tuple[Digest, Digest], ...]


class ReadBlock(NamedTuple):
    """What can be read of a block."""

    pairs: list[Pair]  # entries with their signatures, up to the first that cannot be read
    intact: bool  # whether all of it could be read, and has the digest that is written beside it


def _malformed() -> RemoteProtocolError:
    return RemoteProtocolError(RefusalCode.MALFORMED, "export")


def encode_export(pairs: Iterable[Pair], replies: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Encode an export.

    `pairs` are all entries with their signatures, in order. `replies` are pairs (digest of a request, or `state_key`;
    SHA-256 of what is stored under it), in any order.
    """
    rest = iter(pairs)
    blocks = []
    while part := list(islice(rest, BLOCK)):
        data = encode(part)
        blocks.append(Block(digest(data), data))
    return encode(LedgerExport(FORMAT, tuple(blocks), tuple(sorted(replies))))


class ExportReader:
    """An export's file, read once from its start, a block at a time: the blocks, then the replies.

    What `decode_export` refuses raises RemoteProtocolError(MALFORMED) here, too, where it stands.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._left = file.seek(0, SEEK_END)
        self._file = file
        file.seek(0)
        self._expect(START + b"\xa6blocks")
        self.block_count = self._length(_ARRAYS, _SHORT_ARRAY)
        if not self.block_count:
            raise _malformed()

    def blocks(self) -> Iterator[Block]:
        """All blocks, in order."""
        for _ in range(self.block_count):
            self._expect(b"\x92\xc4\x20")
            own_digest = self._take(_DIGEST)
            yield Block(own_digest, self._take(self._length(_BYTES)))

    def replies(self) -> Iterator[tuple[bytes, bytes]]:
        """All replies, as `LedgerExport` has them, after all blocks."""
        self._expect(b"\xa7replies")
        left, last = self._length(_ARRAYS, _SHORT_ARRAY), b""
        while left:
            part = min(left, BLOCK)
            for start, request, middle, reply in _REPLY.iter_unpack(self._take(part * _REPLY.size)):
                if start != b"\x92\xc4\x20" or middle != b"\xc4\x20" or request <= last:
                    raise _malformed()
                last = request
                yield request, reply
            left -= part
        if self._left:
            raise _malformed()

    def _length(self, heads: dict[int, tuple[int, int]], short: range = range(0)) -> int:
        """The length of an array or of bytes, which must be written in the shortest way."""
        (head,) = self._take(1)
        if head in short:
            return head - short.start
        width, least = heads.get(head, (0, 1))
        length = int.from_bytes(self._take(width), "big")
        if length < least:
            raise _malformed()
        return length

    def _expect(self, content: bytes) -> None:
        if self._take(len(content)) != content:
            raise _malformed()

    def _take(self, count: int) -> bytes:
        content = self._file.read(count) if count <= self._left else b""  # a length promises what it likes
        if len(content) < count:
            raise _malformed()
        self._left -= count
        return content


def decode_export(data: bytes) -> LedgerExport:
    """Decode the outer form of an export; `read_block` reads its entries.

    Raises RemoteProtocolError(MALFORMED): `data` is not the one encoding of an export with replies in order.
    """
    export = decode(data, LedgerExport, limit=MOST, field="export")
    requests = [request for request, _ in export.replies]
    if sorted(set(requests)) != requests:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "export.replies", "in rising order")
    return export


def read_block(block: Block) -> ReadBlock:
    """The entries of a block, as far as they can be read; their content is not checked."""
    fits = digest(block.pairs) == block.digest
    try:
        pairs = decode(block.pairs, _Pairs, limit=MOST)
    except RemoteProtocolError:
        return ReadBlock(list(_pairs(block.pairs)), intact=False)
    return ReadBlock(pairs, fits and 0 < len(pairs) <= BLOCK)


def state_key(learner: bytes, study: bytes, kind: str) -> bytes:
    """The key under which a query kind's state of a study is stored, among the replies."""
    return digest(b"expril/2 state" + learner + study + kind.encode())


def _pairs(data: bytes) -> Iterator[Pair]:
    """The pairs of a damaged array before the first that is not encoded as 0x92 and two MessagePack `bin` values."""
    place, end = {0xDC: 3, 0xDD: 5}.get(data[0] if data else 0, 1), len(data)
    while place + 3 <= end and data[place] == 0x92:
        width = {0xC4: 1, 0xC5: 2, 0xC6: 4}.get(data[place + 1], 0)
        body = place + 2 + width
        after = body + int.from_bytes(data[place + 2 : body], "big")
        signature = after + 2
        place = signature + _SIGNATURE
        if not width or place > end or data[after:signature] != b"\xc4\x40":
            return
        yield data[body:after], data[signature:place]
