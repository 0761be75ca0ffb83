"""A ledger as one portable file: entries, signatures and the digests of stored replies.

It is a MessagePack map in the one encoding of `protocol.codec`, with the keys of `LedgerExport` in their order. Entries
are in blocks, each with its SHA-256. A reader checks the chain of entries, but only a few of many signatures. The
digest of a block detects damage to the other signatures. It is no proof, since whoever changes a signature can change
the digest, but this gains nothing: the checked signatures cover all entries.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

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
_Pairs: Any = list[tuple[bytes, bytes]]

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
