"""Files that people write: UTF-8 text, with or without a byte order mark, or one sentence that says what is wrong."""

from pathlib import Path

from protocol.errors import ConfigurationError
from protocol.strict_toml import decode_text


def read_text_file(path: Path, what: str, *, remedy: str = "check its name") -> str:
    """The text of a file.

    Args:
        path: of the file.
        what: what it should be ("policy file"), for the error.
        remedy: what to do where there is none.

    Raises:
        ConfigurationError: there is none, it is a folder, cannot be read, or is not UTF-8 text.
    """
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder, not a {what}; name the file in it")
    if not path.is_file():  # a device or a pipe might never end
        raise ConfigurationError(f"no {what} {path}; {remedy}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the {what} {path}: {error.strerror}") from None
    return decode_text(content, where=f"{what} {path}")
