"""The policy of a curator: its steward's TOML file, which says who may ask, and how much.

An enrolled learner is a name with a budget, and the keys that may sign for it, each within its own time.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Literal

import msgspec

from protocol.envelopes import check_public_key
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.limits import Limits
from protocol.mistakes import first_repeated
from protocol.plug_ins import PlugIn
from protocol.query_kind import Kinds
from protocol.rationals import parse_rational
from protocol.strict_toml import read_toml

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Written = str | int | float
"""A rational as a person writes it: 1, "0.3", "1/30"."""
PublicKey = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with its offset, such as 2027-11-22T12:00:00Z."""


class EnrolledKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key of an enrolled learner."""

    key: PublicKey  # 64 hexadecimal digits
    start: Instant | None = msgspec.field(default=None, name="from")  # from when on it may sign; None: always
    until: Instant | None = None  # when it may sign no more; None: it may for ever
    revoked: Instant | None = None  # when its steward took it back: it may sign no more, whatever the clock says

    def valid(self, now: int) -> bool:
        """Whether the key may sign at time `now`, in seconds since 1970."""
        started = self.start is None or self.start.timestamp() <= now
        return started and not (self.revoked or (self.until is not None and self.until.timestamp() <= now))


class EnrolledLearner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A learner that may ask, with all keys that it ever had."""

    name: Text  # to which the ledger binds its keys, for ever
    cap: Written  # most epsilon that it may ever spend here, over all its keys
    keys: Annotated[tuple[EnrolledKey, ...], msgspec.Meta(min_length=1, max_length=1000)]  # the oldest first
    organisation: Annotated[str, msgspec.Meta(max_length=200)] = ""  # for people
    contact: Annotated[str, msgspec.Meta(max_length=200)] = ""  # for people

    def __post_init__(self) -> None:
        check_rational(self.cap, "cap")
        check_keys(entry.key for entry in self.keys)


def check_keys(keys: Iterable[str]) -> None:
    """Raise ValueError for a key that nobody could hold, or that comes twice."""
    earlier = set()
    for key in keys:
        try:
            check_public_key(bytes.fromhex(key))
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        if key in earlier:
            raise ValueError("two learners have the same key")
        earlier.add(key)


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


POLICY_NAME = "policy"
"""What errors call a policy whose file is not known."""
LARGE_CAP = 100
"""A steward is warned of such a cap: an answer may be e^100 times as likely with a record as without it."""


class LearnerPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One learner that may ask, with one key."""

    name: Text  # to which the ledger binds its key, for ever
    key: PublicKey  # its public key, 64 hexadecimal digits
    cap: Written  # most epsilon it may ever spend here


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A policy file."""

    name: Text  # the curator's, as its card shows it
    cap: Written  # most epsilon over all learners together; they may collude
    learners: tuple[LearnerPolicy, ...] = ()  # who may ask, with one key each
    # who may ask, with several keys; the files in a site's folder `learners` are added
    enrolled: tuple[EnrolledLearner, ...] = ()
    # whether a steward reads each proposal before it is accepted ("manual")
    approval: Literal["automatic", "manual"] = "automatic"
    # how long a proposal waits for its steward, and an approved one for its learner
    approval_seconds: Annotated[int, msgspec.Meta(ge=1, le=366 * 86_400)] = 30 * 86_400
    # most proposals of one learner that wait for the steward
    held_studies: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 4
    limits: Limits = Limits()  # of one query; they are on the card
    open_studies: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 4  # most studies that one learner may have open
    # most studies that one learner may ever propose; a study closed unused costs nothing, so without this the ledger
    # could be made to grow for ever
    studies: Annotated[int, msgspec.Meta(ge=1, le=10**6)] = 1_000
    # how long a study's reservation lasts
    reservation_seconds: Annotated[int, msgspec.Meta(ge=1, le=366 * 86_400)] = 86_400
    # how far ahead a message's expiry may lie
    message_seconds: Annotated[int, msgspec.Meta(ge=1, le=366 * 86_400)] = 3_600
    least_cost: Written = "1/1000"  # smallest cost of a plan
    # smallest cost of each of its queries. The three bound what a learner can make the ledger keep, and the curator
    # compute: at most its cap over this many queries.
    least_query_cost: Written = "1/10000"
    # most requests of one learner a day that are looked at, answered or refused; each counts once, on the day in
    # which it expires
    requests_per_day: Annotated[int, msgspec.Meta(ge=1, le=10**9)] = 100_000
    # most requests of one learner a day that are refused for good; each is remembered until it expires, so this
    # bounds what is remembered, and the work of checking what is refused
    refusals_per_day: Annotated[int, msgspec.Meta(ge=1, le=10**6)] = 1_000
    refusals_per_study: Annotated[int, msgspec.Meta(ge=1, le=10**6)] = 100  # the same, of one study in all
    # most messages a day, of anybody, that are late, were seen before, are not signed or are for somebody else. They
    # count on no learner. Beyond, a card request that is repeated is refused; the rest is refused for what it is, or
    # may still take effect.
    stray_messages_per_day: Annotated[int, msgspec.Meta(ge=1, le=10**9)] = 100_000
    # most bytes of stored replies; those of ended studies are dropped first
    reply_bytes: Annotated[int, msgspec.Meta(ge=2**20, le=2**50)] = 2**30
    cache_bytes: Annotated[int, msgspec.Meta(ge=0)] = 256 * 1024 * 1024  # most memory for encoded workloads
    # packages of others whose query kinds and partitions it may use, by version and digest; nothing else is loaded
    plug_ins: Annotated[tuple[PlugIn, ...], msgspec.Meta(max_length=100)] = ()
    # whose sampler draws the noise: ours, or OpenDP's; both draw exactly
    noise: Literal["exact", "opendp"] = "exact"
    simulation: bool = (
        False  # True only inside a simulation: allows noise from a seed, and a simulation's `paper_ratio`
    )

    def __post_init__(self) -> None:
        for key in ("cap", "least_cost", "least_query_cost"):
            check_rational(getattr(self, key), key)
        for learner in self.learners:
            check_rational(learner.cap, f"learner {learner.name!r}: cap")
        check_keys(key for key, _ in self._keys())
        names = [entry.name for entry in self.learners] + [entry.name for entry in self.enrolled]
        if len(set(names)) != len(names):
            raise ValueError(f"two learners have the same name, {first_repeated(names)!r}; give each a name of its own")

    @property
    def keys(self) -> dict[bytes, LearnerPolicy | EnrolledLearner]:
        """Every learner's public keys, valid or not."""
        return {bytes.fromhex(key): learner for key, learner in self._keys()}

    def learner(self, key: bytes) -> LearnerPolicy | EnrolledLearner | None:
        """The learner with a public key, valid or not; None for a stranger's key."""
        return self._by_key.get(key.hex())

    @cached_property
    def _by_key(self) -> dict[str, LearnerPolicy | EnrolledLearner]:
        return dict(self._keys())

    def admits(self, key: bytes, now: int) -> bool:
        """Whether a public key may sign requests at a time: a stranger's, expired or revoked one may not."""
        learner = self.learner(key)
        if not isinstance(learner, EnrolledLearner):
            return learner is not None
        return any(entry.valid(now) for entry in learner.keys if entry.key == key.hex())

    def keys_of(self, key: bytes) -> tuple[bytes, ...]:
        """All public keys of the learner with this one; of a stranger, this one."""
        learner = self.learner(key)
        entries = learner.keys if isinstance(learner, EnrolledLearner) else ()
        return tuple(bytes.fromhex(entry.key) for entry in entries) or (key,)

    @property
    def total_cap(self) -> Fraction:
        """The most epsilon that may be spent over all learners."""
        return parse_rational(self.cap)

    def cap_of(self, key: bytes) -> Fraction:
        """Most epsilon of one learner; zero for a stranger."""
        learner = self.learner(key)
        return Fraction(0) if learner is None else parse_rational(learner.cap)

    def _keys(self) -> Iterator[tuple[str, LearnerPolicy | EnrolledLearner]]:
        yield from ((learner.key, learner) for learner in self.learners)
        yield from ((entry.key, learner) for learner in self.enrolled for entry in learner.keys)

    @property
    def least_query(self) -> Fraction:
        """Smallest cost of a query."""
        return parse_rational(self.least_query_cost)

    @property
    def least(self) -> Fraction:
        """Smallest cost of a plan."""
        return parse_rational(self.least_cost)


def read_policy(text: str, *, where: str = POLICY_NAME, kinds: Kinds | None = QUERY_KINDS) -> Policy:
    """Parse a policy file. ConfigurationError names a wrong key and suggests the right one.

    Args:
        text: the TOML.
        where: name of the file for errors.
        kinds: the query kinds that it may allow; None leaves their limits unread, and so does a policy with plug-ins,
            whose kinds are known once these are loaded (`curator_node.plug_ins.check_policy`).
    """
    policy = read_toml(text, Policy, where=where)
    if kinds is not None and not policy.plug_ins:
        settled_limits(policy, kinds, where=where)
    return policy


def doubts_about(policy: Policy) -> tuple[str, ...]:
    """Sentences on what the steward should check once more in a policy."""
    if policy.simulation or policy.total_cap < LARGE_CAP:
        return ()
    return (
        f"the policy's cap is {policy.total_cap}, and one of {LARGE_CAP} or more protects nothing; was 1.00 meant?",
    )


def settled_limits(policy: Policy, kinds: Kinds, *, where: str = POLICY_NAME) -> Limits:
    """The policy's limits with every default written out, as its card shows them.

    Raises:
        ConfigurationError: the policy allows an unknown kind, has limits that a kind does not know, or, outside a
            simulation, allows a method that is not private as claimed.
    """
    limits = kinds.settle(policy.limits, where=where)
    if not policy.simulation and not kinds.private(limits):
        raise ConfigurationError(
            f"{where}: it allows releases that are not private as claimed; that needs simulation = true"
        )
    return limits
