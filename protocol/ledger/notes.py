"""Signed notes (C2SP signed-note, version 1): a text, an empty line, and signatures, each with the name of its key.

Two of the format's signatures are used: Ed25519 over the text (type 0x01), and those of witnesses over more than the
text (type 0x04; see `checkpoints`). Signatures of unknown keys are kept, as the format asks.
"""

import base64
import re
from typing import NamedTuple

from protocol.envelopes import digest
from protocol.errors import ConfigurationError

PLAIN, COSIGNATURE = b"\x01", b"\x04"
"""Types of signatures; a key's short identity depends on its type."""
MOST_CHARACTERS = 64 * 1024
MOST_SIGNATURES = 64
_LINE = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\r]")
_ID = 4


class Signature(NamedTuple):
    """A signature line of a note."""

    name: str  # of the key, without spaces and plus signs
    key: bytes  # its short identity, 4 bytes; see `key_id`
    content: bytes  # what follows; at least one byte

    def __str__(self) -> str:
        return f"— {self.name} {base64.b64encode(self.key + self.content).decode()}\n"


class Note(NamedTuple):
    """A signed text."""

    text: str  # with its last line end
    signatures: tuple[Signature, ...]  # in the order in which they stand

    def __str__(self) -> str:
        return f"{self.text}\n{''.join(map(str, self.signatures))}"


def read_note(written: str, *, where: str) -> Note:
    """The parts of a note; no signature is checked yet.

    `written`: untrusted; `where`: what it is, for the error.

    Raises:
        ConfigurationError: the text is not a note in its one form.
    """
    text, blank, lines = written.rpartition("\n\n")
    matches = [_LINE.fullmatch(line) for line in lines.removesuffix("\n").split("\n")]
    if len(written) > MOST_CHARACTERS or not blank or not text or len(matches) > MOST_SIGNATURES:
        raise ConfigurationError(f"{where} is no signed note: a text, an empty line, and signatures; ask for it anew")
    signatures = []
    for match in matches:
        content = b"" if match is None else from_base64(match[2])
        if match is None or len(content) <= _ID:
            raise ConfigurationError(f"{where} has a line among its signatures that is none; ask for it anew")
        signatures.append(Signature(match[1], content[:_ID], content[_ID:]))
    note = Note(f"{text}\n", tuple(signatures))
    if not signatures or _CONTROL.search(written) or str(note) != written:
        raise ConfigurationError(f"{where} was changed on its way (line ends, perhaps); ask for it anew, as a file")
    return note


def key_id(name: str, kind: bytes, public: bytes) -> bytes:
    """The short identity of a key. It distinguishes keys, but proves nothing."""
    return digest(name.encode() + b"\n" + kind + public)[:_ID]


def verifier_key(name: str, kind: bytes, public: bytes) -> str:
    """A public key in the form of signed-note tools: name, short identity, type and key."""
    return f"{name}+{key_id(name, kind, public).hex()}+{to_base64(kind + public)}"


def from_base64(text: str) -> bytes:
    """Bytes of standard base64 in its one form; empty for anything else."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return b""
    return data if base64.b64encode(data).decode() == text else b""


def to_base64(data: bytes) -> str:
    """Inverse of `from_base64`."""
    return base64.b64encode(data).decode()
