"""Signed heads: the curator's signature over an entry's place and hash."""

from protocol.envelopes import SigningKey, is_signed


def head_bytes(index: int, head: bytes) -> bytes:
    """What is signed: the entry's place and its hash, which covers all entries before it."""
    return b"expril/2 ledger head" + index.to_bytes(8, "big") + head


def sign_head(key: SigningKey, index: int, head: bytes) -> bytes:
    """Signature over an entry's place and hash; 64 bytes."""
    return key.sign(head_bytes(index, head))


def head_is_signed(curator: bytes, signature: bytes, index: int, head: bytes) -> bool:
    """Whether a curator's public key signed this head."""
    return is_signed(curator, signature, head_bytes(index, head))
