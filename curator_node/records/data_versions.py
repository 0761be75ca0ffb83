"""Names of snapshots of records, kept in a local file: keyed digest -> random name.

The name goes on the ledger, the digest nowhere: one that anybody could compute would tell records that differ in one
patient apart. The file is never needed again: where it is lost, the same records get another name.
"""

import fcntl
import os
import re
import secrets
from pathlib import Path

from protocol.errors import ConfigurationError

_LINE = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]{32})\n")


def version_of_data(path: Path, fingerprint: bytes) -> str:
    """The name of records: the one that they had, or a new one, durably kept before it is used.

    Several processes may share the file.

    Args:
        path: of the file; made where there is none, for its owner only.
        fingerprint: keyed digest of the records, 32 bytes.

    Raises:
        ConfigurationError: the file cannot be read or written, or is something else.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            return _looked_up(file, path, fingerprint)
        finally:
            os.close(file)
    except OSError as error:
        raise ConfigurationError(
            f"cannot keep the names of records in {path}: {error.strerror}; let the curator write there, or say where "
            "else"
        ) from None


def _looked_up(file: int, path: Path, fingerprint: bytes) -> str:
    content = os.pread(file, os.fstat(file).st_size, 0)
    whole = content[: content.rfind(b"\n") + 1]  # what follows is a line that a crash cut short
    known: dict[bytes, bytes] = dict(_LINE.findall(whole))
    if b"".join(b"%s %s\n" % pair for pair in _LINE.findall(whole)) != whole:
        raise ConfigurationError(f"{path} is no file of names of records; move it away, and the records get a new name")
    wanted = fingerprint.hex().encode()
    if wanted not in known:
        known[wanted] = secrets.token_hex(16).encode()
        os.ftruncate(file, len(whole))
        os.pwrite(file, b"%s %s\n" % (wanted, known[wanted]), len(whole))
        os.fsync(file)
    return known[wanted].decode()
