"""Signing keys on disk."""

import os
from pathlib import Path

from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError


def write_key(path: Path) -> str:
    """Make a key, write it readable by its owner only, and return the public key in hexadecimal.

    Raises:
        ConfigurationError: the file exists already or cannot be written.
    """
    key = SigningKey.generate()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigurationError(f"{path} exists; a key is never overwritten") from None
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from None
    with os.fdopen(handle, "wb") as file:
        file.write(key.to_pem())
    return key.public.hex()


def read_key(path: Path) -> SigningKey:
    """Read a key file.

    Raises:
        ConfigurationError: no such file, or not a key.
    """
    if not path.is_file():
        raise ConfigurationError(f"no key file {path}; make one: expril keys {path}")
    return SigningKey.from_pem(path.read_bytes())
