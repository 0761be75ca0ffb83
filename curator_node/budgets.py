"""The budgets of a curator and its learners: what policy and ledger say is spent, reserved and left."""

import math
from collections.abc import Collection
from fractions import Fraction

import msgspec

from curator_node.ledger import Account
from curator_node.policy import Policy
from protocol.kinds import QUERY_KINDS
from protocol.query_kind import Kinds
from protocol.rationals import amount, shorten

_ZERO = Fraction(0)
INFINITE = "infinite"


class LearnerStanding(msgspec.Struct, frozen=True):
    """One learner's budget over all its keys, in epsilon, as rationals."""

    cap: str  # most that it may ever spend
    spent: str  # charged so far, rounded up where it is long
    reserved: str  # set aside for its open studies
    left: str  # what it may still reserve: of its own cap, and of the one over all
    # what it spent costs under integral privacy, between any two sets of records; "infinite" after a query of a kind
    # that has no such cost
    integral: str


class Standing(msgspec.Struct, frozen=True):
    """A curator's budget and ledger."""

    entry: int  # index of the ledger's newest entry
    head: str  # its hash
    halted: bool  # whether nothing is charged until the steward acts
    # cap, spent, left, integral: epsilon over all learners
    cap: str
    spent: str
    left: str
    integral: str
    learners: dict[str, LearnerStanding]  # of the policy, by name


def standing_of(account: Account, policy: Policy, kinds: Kinds = QUERY_KINDS) -> Standing:
    """The standing of a curator and its learners. All keys of a learner share one budget.

    Args:
        account: sum of the ledger's entries.
        policy: the curator's policy.
        kinds: the installed query kinds. The cost of others under integral privacy is not known.
    """
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
                integral=_integral_text(integral_spent(account, kinds, account.keys_of(key, learner.name))),
            ),
        )
    return Standing(
        entry=account.next_index - 1,
        head=account.head.hex(),
        halted=account.halted,
        cap=amount(policy.total_cap),
        spent=_up(account.total_spent),
        left=_down(max(_ZERO, policy.total_cap - account.total_spent)),
        integral=_integral_text(integral_spent(account, kinds)),
        learners=learners,
    )


def integral_spent(account: Account, kinds: Kinds, keys: Collection[bytes] | None = None) -> Fraction | None:
    """The exact cost of all charges under integral privacy; None if it is infinite.

    The whole cost of a query counts from its first charge on. Spending that a steward entered after a halt counts as
    infinite, since nobody knows what it was charged for.

    Args:
        account: sum of the ledger's entries.
        kinds: the installed query kinds.
        keys: keys of the learner; None for all learners.
    """
    total, charged = _ZERO, _ZERO
    for study in account.studies.values():
        if keys is not None and study.key.learner not in keys:
            continue
        charged += study.spent
        for query in (query for query, spent in study.spent_on.items() if spent):
            integral = kinds.integral(study.plan, query)
            if integral is None:
                return None
            total += integral
    spent = account.total_spent if keys is None else sum((account.spent.get(key, _ZERO) for key in keys), _ZERO)
    return total if spent == charged else None


def _integral_text(value: Fraction | None) -> str:
    return INFINITE if value is None else _up(value)


def _up(value: Fraction) -> str:
    return amount(shorten(value, math.ceil))


def _down(value: Fraction) -> str:
    return amount(shorten(value, math.floor))
