"""What a curator's learners have spent and may still spend: policy and ledger, nothing of the records."""

import math
from fractions import Fraction

import msgspec

from curator_node.ledger import Account
from curator_node.policy import Policy
from protocol.rationals import amount, shorten

_ZERO = Fraction(0)


class LearnerStanding(msgspec.Struct, frozen=True):
    """One learner's budget over all its keys, in epsilon, as rationals.

    Attributes:
        cap: most that it may ever spend.
        spent: charged so far, rounded up where it is long.
        reserved: set aside for its open studies.
        left: what it may still reserve: of its own cap, and of the one over all.
    """

    cap: str
    spent: str
    reserved: str
    left: str


class Standing(msgspec.Struct, frozen=True):
    """A curator's budget and ledger.

    Attributes:
        entry: index of the ledger's newest entry.
        head: its hash.
        halted: whether nothing is charged until the steward acts.
        cap, spent, left: epsilon over all learners.
        learners: of the policy, by name.
    """

    entry: int
    head: str
    halted: bool
    cap: str
    spent: str
    left: str
    learners: dict[str, LearnerStanding]


def standing_of(account: Account, policy: Policy) -> Standing:
    """What a ledger and a policy add up to; a learner's keys share one budget."""
    learners: dict[str, LearnerStanding] = {}
    for key, learner in policy.keys.items():
        cap = policy.cap_of(key)
        learners.setdefault(
            learner.name,
            LearnerStanding(
                cap=amount(cap),
                spent=_up(account.spent_by(key, learner.name)),
                reserved=_up(account.reserved_by(key, learner.name)),
                left=_down(account.remaining(key, cap, policy.total_cap, learner.name)),
            ),
        )
    return Standing(
        entry=account.next_index - 1,
        head=account.head.hex(),
        halted=account.halted,
        cap=amount(policy.total_cap),
        spent=_up(account.total_spent),
        left=_down(max(_ZERO, policy.total_cap - account.total_spent)),
        learners=learners,
    )


def _up(value: Fraction) -> str:
    return amount(shorten(value, math.ceil))


def _down(value: Fraction) -> str:
    return amount(shorten(value, math.floor))
