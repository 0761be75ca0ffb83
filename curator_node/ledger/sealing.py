"""Encryption with a curator's keys: of positions in receipts, and of states that answerers keep."""

from collections.abc import Callable, Iterable
from contextlib import suppress

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from curator_node.ledger.branches import pack, unpack
from curator_node.ledger.studies import StudyKey
from protocol.envelopes import SigningKey, encode_parts
from protocol.errors import RemoteProtocolError
from protocol.ledger.entries import Position
from protocol.refusals import RefusalCode

_NONCE = 12


class Sealer:
    """Encrypts positions for the curator alone (ChaCha20-Poly1305, RFC 8439); all results have one length.

    `key`: the curator's; the encryption key is derived from it; `entropy`: n -> n random bytes.
    """

    def __init__(self, key: SigningKey, entropy: Callable[[int], bytes]) -> None:
        self._cipher = ChaCha20Poly1305(key.derive("ledger position"))
        self._entropy = entropy

    def seal(self, position: Position, context: bytes) -> bytes:
        """Encrypt a position to `SEALED_BYTES` bytes, which `open` decrypts only with the same context."""
        nonce = self._entropy(_NONCE)
        return nonce + self._cipher.encrypt(nonce, pack(position), context)

    def open(self, sealed: bytes, context: bytes) -> Position:
        """Inverse of `seal`.

        Raises:
            RemoteProtocolError: MALFORMED, if this curator did not encrypt the bytes with this context.
        """
        try:
            return unpack(self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], context))
        except InvalidTag:
            raise RemoteProtocolError(RefusalCode.MALFORMED, "receipt.position") from None


class StateSealer:
    """Encrypts the states of answerers (ChaCha20-Poly1305, RFC 8439). A reader of the store learns their length alone.

    A state is encrypted with the present key and decrypted with that or any earlier one. So an open study goes on when
    its curator changes its key, and a holder of a former key cannot read states that are kept afterwards.

    `keys`: the curator's, the present one in front; an encryption key is derived from each; `entropy`: n -> n random
    bytes.
    """

    def __init__(self, keys: Iterable[SigningKey], entropy: Callable[[int], bytes]) -> None:
        self._ciphers = [ChaCha20Poly1305(key.derive("kept state")) for key in keys]
        self._entropy = entropy

    def seal(self, state: bytes, study: StudyKey, kind: str) -> bytes:
        """Encrypt a state, which gets `STATE_SEAL_BYTES` longer.

        `open` decrypts it only for the same study and query kind.
        """
        nonce = self._entropy(_NONCE)
        return nonce + self._ciphers[0].encrypt(nonce, state, _context(study, kind))

    def open(self, sealed: bytes, study: StudyKey, kind: str) -> bytes | None:
        """Inverse of `seal`; None if none of the keys encrypted these bytes for this study and query kind."""
        for cipher in self._ciphers:
            with suppress(InvalidTag, ValueError):
                return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], _context(study, kind))
        return None


def _context(study: StudyKey, kind: str) -> bytes:
    return encode_parts(b"expril/2 kept state", study.learner, study.study, kind.encode())
