"""What a curator allows: its steward's own TOML file, never a run's configuration."""

from fractions import Fraction
from typing import Annotated

import msgspec

from protocol.envelopes import check_public_key
from protocol.errors import ConfigurationError
from protocol.kinds import Kinds
from protocol.limits import Limits
from protocol.queries import QUERY_KINDS
from protocol.rationals import parse_rational
from protocol.strict_toml import read_toml

LARGE_CAP = 100
"""A steward is warned of such a cap: an answer may be e^100 times as likely with a record as without it."""
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Written = str | int | float
"""A rational as a person writes it: 1, "0.3", "1/30"."""


class LearnerPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One learner that may ask.

    Attributes:
        name: for the steward's own tables.
        key: its public key, 64 hexadecimal digits.
        cap: most epsilon it may ever spend here.
    """

    name: Text
    key: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
    cap: Written


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy file.

    Attributes:
        name: the curator's, as its card shows it.
        cap: most epsilon over all learners together; they may collude.
        learners: who may ask.
        limits: of one query; they are on the card.
        open_studies: most studies that one learner may have open.
        studies: most studies that one learner may ever propose; a study closed unused costs nothing, so without
            this the ledger could be made to grow for ever.
        reservation_seconds: how long a study's reservation lasts.
        message_seconds: how far ahead a message's expiry may lie.
        least_cost: smallest cost of a plan.
        least_query_cost: smallest cost of each of its queries. The three bound what a learner can make the ledger
            keep, and the curator compute: at most its cap over this many queries.
        requests_per_day: most requests of one learner a day that are looked at, answered or refused.
        refusals_per_day: most requests of one learner a day that are refused for good; each is remembered until it
            expires, so this bounds what is remembered, and the work of checking what is refused.
        refusals_per_study: the same, of one study in all.
        reply_bytes: most bytes of stored replies; those of ended studies are dropped first.
        cache_bytes: most memory for encoded workloads.
        simulation: True only inside a simulation: allows `paper_ratio` and noise from a seed.
    """

    name: Text
    cap: Written
    learners: tuple[LearnerPolicy, ...] = ()
    limits: Limits = Limits()
    open_studies: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 4
    studies: Annotated[int, msgspec.Meta(ge=1, le=10**6)] = 1_000
    reservation_seconds: Annotated[int, msgspec.Meta(ge=1, le=366 * 86_400)] = 86_400
    message_seconds: Annotated[int, msgspec.Meta(ge=1, le=366 * 86_400)] = 3_600
    least_cost: Written = "1/1000"
    least_query_cost: Written = "1/10000"
    requests_per_day: Annotated[int, msgspec.Meta(ge=1, le=10**9)] = 100_000
    refusals_per_day: Annotated[int, msgspec.Meta(ge=1, le=10**6)] = 1_000
    refusals_per_study: Annotated[int, msgspec.Meta(ge=1, le=10**6)] = 100
    reply_bytes: Annotated[int, msgspec.Meta(ge=2**20, le=2**50)] = 2**30
    cache_bytes: Annotated[int, msgspec.Meta(ge=0)] = 256 * 1024 * 1024
    simulation: bool = False

    def __post_init__(self) -> None:
        for value in (self.cap, self.least_cost, self.least_query_cost, *(learner.cap for learner in self.learners)):
            _rational(value)
        keys = [learner.key for learner in self.learners]
        for key in keys:
            try:
                check_public_key(bytes.fromhex(key))
            except ConfigurationError as error:
                raise ValueError(str(error)) from None
        if len(set(keys)) != len(keys):
            raise ValueError("two learners have the same key")
        names = [learner.name for learner in self.learners]
        if len(set(names)) != len(names):
            raise ValueError("two learners have the same name")

    def learner(self, key: bytes) -> LearnerPolicy | None:
        """The entry of a public key, or None."""
        return next((learner for learner in self.learners if learner.key == key.hex()), None)

    @property
    def total_cap(self) -> Fraction:
        """Most epsilon over all learners."""
        return parse_rational(self.cap)

    def cap_of(self, key: bytes) -> Fraction:
        """Most epsilon of one learner; zero for a stranger."""
        learner = self.learner(key)
        return Fraction(0) if learner is None else parse_rational(learner.cap)

    @property
    def least_query(self) -> Fraction:
        """Smallest cost of a query."""
        return parse_rational(self.least_query_cost)

    @property
    def least(self) -> Fraction:
        """Smallest cost of a plan."""
        return parse_rational(self.least_cost)


def read_policy(text: str, *, where: str = "policy", kinds: Kinds | None = QUERY_KINDS) -> Policy:
    """Parse a policy file; ConfigurationError names the wrong key and suggests the right one.

    Args:
        text: the TOML.
        where: what it is, for errors.
        kinds: the query kinds that it may allow; None leaves what it says of them unread.
    """
    policy = read_toml(text, Policy, where=where)
    if kinds is not None:
        settled_limits(policy, kinds, where=where)
    return policy


def doubts_about(policy: Policy) -> tuple[str, ...]:
    """What its steward should look at once more, in sentences."""
    if policy.simulation or policy.total_cap < LARGE_CAP:
        return ()
    return (
        f"the policy's cap is {policy.total_cap}, and one of {LARGE_CAP} or more protects nothing; was 1.00 meant?",
    )


def settled_limits(policy: Policy, kinds: Kinds, *, where: str = "policy") -> Limits:
    """The policy's limits with every default written out, as its card shows them.

    Raises:
        ConfigurationError: it allows an unknown kind, limits one in a way that the kind does not know, or allows what
            is not private as claimed outside a simulation.
    """
    limits = kinds.settle(policy.limits, where=where)
    if not policy.simulation and not kinds.private(limits):
        raise ConfigurationError(
            f"{where}: it allows releases that are not private as claimed; that needs simulation = true"
        )
    return limits


def _rational(value: Written) -> None:
    try:
        parse_rational(value)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
