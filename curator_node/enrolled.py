"""An enrolled learner: a name with a budget, and the keys that may sign for it now, in time or no more."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from protocol.envelopes import check_public_key
from protocol.errors import ConfigurationError
from protocol.rationals import parse_rational

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Written = str | int | float
"""A rational as a person writes it: 1, "0.3", "1/30"."""
PublicKey = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with its offset, such as 2027-11-22T12:00:00Z."""


class EnrolledKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key of an enrolled learner.

    Attributes:
        key: 64 hexadecimal digits.
        start: from when on it may sign; None: always.
        until: when it may sign no more; None: it may for ever.
        revoked: when its steward took it back: it may sign no more, whatever the clock says.
    """

    key: PublicKey
    start: Instant | None = msgspec.field(default=None, name="from")
    until: Instant | None = None
    revoked: Instant | None = None

    def valid(self, now: int) -> bool:
        """Whether it may sign at a time, in seconds since 1970."""
        started = self.start is None or self.start.timestamp() <= now
        return started and not (self.revoked or (self.until is not None and self.until.timestamp() <= now))


class EnrolledLearner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A learner that may ask, with all keys that it ever had.

    Attributes:
        name: to which the ledger binds its keys, for ever.
        cap: most epsilon that it may ever spend here, over all its keys.
        keys: the oldest first.
        organisation: for people.
        contact: for people.
    """

    name: Text
    cap: Written
    keys: Annotated[tuple[EnrolledKey, ...], msgspec.Meta(min_length=1, max_length=1000)]
    organisation: Annotated[str, msgspec.Meta(max_length=200)] = ""
    contact: Annotated[str, msgspec.Meta(max_length=200)] = ""

    def __post_init__(self) -> None:
        check_rational(self.cap, "cap")
        check_keys(entry.key for entry in self.keys)


def check_keys(keys: Iterable[str]) -> None:
    """Raise ValueError for a key that nobody could hold, or that comes twice."""
    seen = set()
    for key in keys:
        try:
            check_public_key(bytes.fromhex(key))
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        if key in seen:
            raise ValueError("two learners have the same key")
        seen.add(key)


def check_rational(value: Written, key: str) -> None:
    """Raise ValueError, which names the key, unless it is a rational as `parse_rational` reads it."""
    try:
        parse_rational(value)
    except ConfigurationError as error:
        raise ValueError(f"{key}: {error}") from None


def instant(seconds: int) -> datetime:
    """Seconds since 1970 as a time."""
    return datetime.fromtimestamp(seconds, UTC)


def written_instant(at: datetime) -> str:
    """As TOML and people write it: 2027-11-22T12:00:00Z."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
