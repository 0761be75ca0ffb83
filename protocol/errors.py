"""Errors, one class for each cause: a bug on this side, a peer that breaks the protocol, or a wrong configuration."""

from typing import ClassVar


class ExprilError(Exception):
    """Base of every error that ExPriL raises on purpose."""

    kind: ClassVar[str] = "protocol"  # one word for machines, by class; docs/reference/errors.md lists them


class LocalProtocolError(ExprilError):
    """We tried to do something that the protocol forbids; a bug or a misuse on this side."""


class RemoteProtocolError(ExprilError):
    """The peer sent something that the protocol forbids.

    `code` is a `protocol.refusals.RefusalCode`, `field` the path of the offending field (empty for the whole message),
    and `limit` says what would be accepted. None is derived from a record.
    """

    def __init__(self, code: str, field: str = "", limit: str = "") -> None:
        self.code = code
        self.field = field
        self.limit = limit
        super().__init__(": ".join(part for part in (code, field, limit) if part))


class NotInstalledError(RemoteProtocolError):
    """The peer named something that no package here offers; `part` says what, such as "partition rings".

    It is refused like anything that cannot be read. Whoever reads a finished study takes it as unproven instead.
    """

    def __init__(self, code: str, field: str, part: str) -> None:
        self.part = part
        super().__init__(code, field)


class ConfigurationError(ExprilError):
    """A file or argument that this side's user gave is wrong; the text says what to do."""

    kind = "input"


def printable(text: str, most: int = 200) -> str:
    """Make a peer's text fit for a terminal or a log: shorten it and replace control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:most])
