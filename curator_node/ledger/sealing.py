"""What a curator's key does for its ledger beside signing heads: it encrypts positions in receipts."""

from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from curator_node.ledger.branches import pack, unpack
from protocol.envelopes import SigningKey
from protocol.errors import RemoteProtocolError
from protocol.ledger.entries import Position
from protocol.refusals import RefusalCode

_NONCE = 12


class Sealer:
    """Encrypts positions for the curator alone (ChaCha20-Poly1305, RFC 8439); all results have one length.

    Args:
        key: the curator's; the encryption key is derived from it.
        entropy: n -> n random bytes.
    """

    def __init__(self, key: SigningKey, entropy: Callable[[int], bytes]) -> None:
        self._cipher = ChaCha20Poly1305(key.derive("ledger position"))
        self._entropy = entropy

    def seal(self, position: Position, context: bytes) -> bytes:
        """`SEALED_BYTES` bytes that open only under the same context."""
        nonce = self._entropy(_NONCE)
        return nonce + self._cipher.encrypt(nonce, pack(position), context)

    def open(self, sealed: bytes, context: bytes) -> Position:
        """Inverse of `seal`.

        Raises:
            RemoteProtocolError: MALFORMED, where this curator did not seal it so.
        """
        try:
            return unpack(self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], context))
        except InvalidTag:
            raise RemoteProtocolError(RefusalCode.MALFORMED, "receipt.position") from None
