"""Signing keys on disk."""

from pathlib import Path

from expril.files import write_new
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError


def write_key(path: Path, key: SigningKey | None = None) -> str:
    """Make a key, write it readable by its owner only, and return the public key in hexadecimal.

    Args:
        path: of the file.
        key: the key to write; None makes a new one.

    Raises:
        ConfigurationError: the file exists already or cannot be written.
    """
    key = SigningKey.generate() if key is None else key
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot make the folder {path.parent}: {error.strerror}; choose another") from None
    write_new(path, key.to_pem(), rule="a key is never overwritten")
    return key.public.hex()


def read_key(path: Path) -> SigningKey:
    """Read a key file.

    Raises:
        ConfigurationError: there is no such file, or it holds no key.
    """
    if not path.is_file():
        raise ConfigurationError(f"no key file {path}; make one: expril keys {path}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the key file {path}: {error.strerror}") from None
    return SigningKey.from_pem(content)
