"""Key agreement, encryption and masks of one round. No key is used in another round."""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

Words = NDArray[np.uint64]
"""Numbers modulo 2^64."""

WORD = 8
_NONCE = 12


def public_of(private: bytes) -> bytes:
    """X25519 public key of 32 secret bytes."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def exchange(private: bytes, publics: Iterable[bytes]) -> list[bytes]:
    """The 32 shared secret bytes with the owner of each public key (RFC 7748).

    A public key of small order gives zeros. Only a colluder has one, and colluders' secrets are assumed known to the
    learner.
    """
    key = X25519PrivateKey.from_private_bytes(private)
    return [_exchange(key, public) for public in publics]


def _exchange(key: X25519PrivateKey, public: bytes) -> bytes:
    try:
        return key.exchange(_public(public))
    except ValueError:
        return bytes(32)


@lru_cache(maxsize=4096)
def _public(public: bytes) -> X25519PublicKey:
    """The key of these bytes; curators of one process have neighbours in common."""
    return X25519PublicKey.from_public_bytes(public)


def derive(secret: bytes, purpose: bytes, context: bytes, *, keys: int = 1) -> bytes:
    """Keys of 32 bytes each (HKDF-SHA256, RFC 5869). A purpose has no colon, and all its contexts have equal length."""
    info = b"expril/2 secure sum, " + purpose + b":" + context
    return HKDF(algorithm=SHA256(), length=32 * keys, salt=None, info=info).derive(secret)


def seal(key: bytes, data: bytes, nonce: bytes) -> bytes:
    """Encrypt data (ChaCha20-Poly1305, RFC 8439); return the nonce and the ciphertext."""
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, data, None)


def unseal(key: bytes, sealed: bytes) -> bytes | None:
    """Inverse of `seal`; None if the key is wrong or the data was changed."""
    try:
        return ChaCha20Poly1305(key).decrypt(sealed[:_NONCE], sealed[_NONCE:], None)
    except (InvalidTag, ValueError):
        return None


def stream(seed: bytes, length: int) -> Words:
    """`length` pseudorandom words, read-only: the ChaCha20 keystream of a 32-byte seed that is used once."""
    stream_bytes = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(WORD * length))
    return np.frombuffer(stream_bytes, "<u8").astype(np.uint64, copy=False)
