"""A curator's policy as an auditor reads it: caps, limits, and who may ask. What else it says is passed over.

What a policy file must be to be served from is for its curator to check; here it is held against cards and ledgers.
"""

from fractions import Fraction

import msgspec

from protocol.errors import ConfigurationError, printable
from protocol.limits import Limits
from protocol.rationals import parse_rational

Written = str | int | float
"""An amount as a person writes it."""


class _Key(msgspec.Struct, frozen=True):
    key: str


class _Learner(msgspec.Struct, frozen=True):
    """One that may ask, with one key or several."""

    name: str
    cap: Written
    key: str = ""
    keys: tuple[_Key, ...] = ()

    def holds(self, key: str) -> bool:
        """Whether a public key, in hexadecimal, is this learner's."""
        return key == self.key or any(entry.key == key for entry in self.keys)


class AuditedPolicy(msgspec.Struct, frozen=True):
    """What of a policy is checked.

    Attributes:
        name: the curator's.
        cap: most epsilon over all learners.
        learners, enrolled: who may ask.
        limits: of one query.
        least_cost: smallest cost of a plan.
    """

    name: str
    cap: Written
    learners: tuple[_Learner, ...] = ()
    enrolled: tuple[_Learner, ...] = ()
    limits: Limits = Limits()
    least_cost: Written = "1/1000"

    @property
    def total_cap(self) -> Fraction:
        """Most epsilon over all learners."""
        return parse_rational(self.cap)

    @property
    def least(self) -> Fraction:
        """Smallest cost of a plan."""
        return parse_rational(self.least_cost)

    def cap_of(self, key: bytes) -> Fraction:
        """Most epsilon of the learner with this public key; zero for a stranger."""
        for learner in (*self.learners, *self.enrolled):
            if learner.holds(key.hex()):
                return parse_rational(learner.cap)
        return Fraction(0)


def read_audited_policy(data: bytes, *, where: str) -> AuditedPolicy:
    """Read a policy.

    Raises:
        ConfigurationError: it cannot be read, or an amount in it is none.
    """
    try:
        policy = msgspec.toml.decode(data, type=AuditedPolicy)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{where} cannot be read as a policy: {printable(str(error))}") from None
    for written in (policy.cap, policy.least_cost, *(one.cap for one in (*policy.learners, *policy.enrolled))):
        try:
            parse_rational(written)
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {error}") from None
    return policy
