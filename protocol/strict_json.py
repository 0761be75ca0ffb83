"""JSON that others wrote is read into typed values here, within bounds and with one error.

A text is measured before it is parsed. The parser then refuses what is nested too deep, and numbers that are too long.
"""

from typing import Any, TypeVar, overload

import msgspec

from protocol.errors import ConfigurationError, printable
from protocol.shared_types import shared_type

T = TypeVar("T")

MOST_BYTES = 2**29
"""Most bytes of a JSON text. A run's list of a million transcripts has about 400 MB."""
MOST_ITEMS = 2**24
"""Most commas and opening brackets: each may become an object in memory."""
UNREADABLE = (
    *(msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError),
    *(ArithmeticError, RecursionError, MemoryError),
)
"""What a parser may raise for bytes that somebody made up. A struct's own check may raise any of them."""


@overload
def decode_json(data: bytes | str, kind: type[T], *, where: str, most: int = MOST_BYTES) -> T: ...
@overload
def decode_json(data: bytes | str, kind: Any = Any, *, where: str, most: int = MOST_BYTES) -> Any: ...
def decode_json(data: bytes | str, kind: Any = Any, *, where: str, most: int = MOST_BYTES) -> Any:
    """Decode one JSON value of a type from an untrusted text.

    `where`: names the text in errors. `most`: bytes.

    Raises:
        ConfigurationError: the text is too long, is no JSON, or is not of that type.
    """
    encoded = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(encoded) > most or sum(map(encoded.count, (b",", b"[", b"{"))) > MOST_ITEMS:
        raise ConfigurationError(f"{where} is damaged: it is longer than any that this program writes")
    try:
        return msgspec.json.decode(encoded, type=shared_type(kind))
    except UNREADABLE as error:
        raise ConfigurationError(f"{where} is damaged: {in_short(error)}") from None


def in_short(error: BaseException) -> str:
    """What a parser says is wrong, fit for a terminal."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} of a text is no UTF-8"
    if isinstance(error, msgspec.MsgspecError):
        return printable(str(error))
    if isinstance(error, KeyError):
        return f"it lacks {printable(str(error))}"
    return f"it holds a value that is none ({type(error).__name__})"
