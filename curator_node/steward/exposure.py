"""By what factors a curator's answers may change the odds of what anybody believes of one privacy unit.

Here alone the exponents of kinds are added up over plan, ledger and caps, and put into words; see `protocol.odds`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from curator_node.ledger import Account
from curator_node.ledger.studies import StudyAccount
from curator_node.policy import Policy
from protocol.errors import RemoteProtocolError, printable
from protocol.odds import NOTHING, UNLIMITED, WORST, Odds, PrivacyUnit, factor, written
from protocol.plans import Plan
from protocol.query_kind import Kinds

_ZERO = Fraction(0)
NOT_COVERED = (
    "other sites that hold {held} add their factors to these; and what other people's records tell "
    "of it is not covered: those of relatives, or whatever holds of everybody like it"
)


@dataclass(frozen=True)
class Exposure:
    """Exponents of what answers may change; None of each is without limit.

    Attributes:
        study: by the plan alone.
        learner: with all that its learner was answered before.
        everybody: with all that all learners were answered before.
        ever: at most, once the cap over all learners is spent on the worst that the policy and open studies allow.
    """

    study: Odds | None
    learner: Odds | None
    everybody: Odds | None
    ever: Odds | None


def exposure(
    account: Account,
    policy: Policy,
    unit: PrivacyUnit,
    kinds: Kinds,
    *,
    learner: bytes = b"",
    name: str = "",
    plan: Plan | None = None,
) -> Exposure:
    """What a plan's answers may change, alone and with what was spent before.

    Args:
        account: of the ledger.
        policy: with the caps, and what may be asked.
        unit: what is protected.
        kinds: installed; of others the worst is taken.
        learner: the asker's key.
        name: as whom it is enrolled.
        plan: what is asked; None asks nothing.

    Raises:
        RemoteProtocolError: the plan cannot be read.
    """
    study = NOTHING if plan is None else kinds.plan_odds(plan, unit)
    own, others = spent(account, kinds, unit, account.keys_of(learner, name)), spent(account, kinds, unit)
    worst = _worst(account, policy, unit, kinds, plan)
    left = max(policy.total_cap - account.total_spent, _ZERO)
    ever = None if others is None or worst is None else others + worst * left
    return Exposure(study, _sum(study, own), _sum(study, others), ever)


def spent(account: Account, kinds: Kinds, unit: PrivacyUnit, keys: Collection[bytes] | None = None) -> Odds | None:
    """What was charged may have changed; None for anything.

    What a steward entered after a halt counts as the worst: nobody knows what it was charged for. So does what was
    charged at another price than the same query has today.

    Args:
        account: of the ledger.
        kinds: installed.
        unit: what is protected.
        keys: of the learner; None for all.
    """
    total, charged = NOTHING, _ZERO
    for study in account.studies.values():
        if keys is not None and study.key.learner not in keys:
            continue
        for query, amount in study.spent_on.items():
            each = _per_epsilon(kinds, unit, study.plan, query, study.costs[query])
            if each is None:
                return None
            total, charged = total + each * amount, charged + amount
    whole = account.total_spent if keys is None else sum((account.spent.get(key, _ZERO) for key in keys), _ZERO)
    return total + WORST * max(whole - charged, _ZERO)


def most(policy: Policy, unit: PrivacyUnit, kinds: Kinds) -> Odds | None:
    """What each epsilon may change, of the worst that a policy allows; None for anything."""
    try:
        return kinds.most_odds(policy.limits, unit)
    except RemoteProtocolError:
        return WORST


def rows(found: Exposure, unit: PrivacyUnit) -> list[tuple[str, str]]:
    """(what, in words) for a steward: of each of the three, the four factors, and what is in none of them."""
    one = printable(unit.name) or "record"
    known = f"of a {one} that is known to be there"
    held = f"records of the same {one}" if unit.name else "the same record"
    beyond = (
        f". Of a {one} with more than {unit.records} records, labels also help to choose those that count: then its "
        "label is part of the rest"
        if unit.name
        else ""
    )
    return [
        ("is it there", f"whether a {one} is among the records: {_factors(found, 'presence')}"),
        ("its label", f"{known}, its label {printable(unit.label)}: {_factors(found, 'label')}{beyond}"),
        ("the rest", f"{known}, anything else about it: {_factors(found, 'attribute')}"),
        ("not in it", NOT_COVERED.format(held=held)),
    ]


def short(odds: Odds | None) -> tuple[str, str, str]:
    """The three factors of a study, for a table."""
    if odds is None:
        return ("no limit",) * 3
    return factor(odds.presence), factor(odds.label), factor(odds.attribute)


def _per_epsilon(kinds: Kinds, unit: PrivacyUnit, plan: Plan, query: int, cost: Fraction) -> Odds | None:
    """What each epsilon may change that is charged of a query; None for anything."""
    try:
        planned = kinds.query(plan, query)
        odds, today = kinds.odds(planned, unit), kinds.cost(planned, unit.records)
    except RemoteProtocolError:
        return WORST
    if odds is None:
        return None
    return odds * (1 / cost) if cost == today else WORST


def _worst(account: Account, policy: Policy, unit: PrivacyUnit, kinds: Kinds, plan: Plan | None) -> Odds | None:
    """What each epsilon that is left may change: of what may be asked, and of what was accepted and goes on."""
    found = [most(policy, unit, kinds)]
    accepted = [study for study in account.studies.values() if not study.ended]
    found += [one for study in accepted for one in _each(study, unit, kinds)]
    if plan is not None:
        costs = kinds.costs(plan, unit.records)
        found += [_per_epsilon(kinds, unit, plan, query, cost) for query, cost in enumerate(costs)]
    worst = NOTHING
    for one in found:
        if one is None:
            return None
        worst = worst.or_more(one)
    return worst


def _each(study: StudyAccount, unit: PrivacyUnit, kinds: Kinds) -> list[Odds | None]:
    return [_per_epsilon(kinds, unit, study.plan, query, cost) for query, cost in enumerate(study.costs)]


def _sum(one: Odds | None, other: Odds | None) -> Odds | None:
    return None if one is None or other is None else one + other


def _factors(found: Exposure, what: str) -> str:
    """Of this study, and of all that goes with it."""
    told = (
        (found.study, "by this study"),
        (found.learner, "with all that this learner was answered before"),
        (found.everybody, "with all that all learners were"),
        (found.ever, "at most ever, by the budget over all learners and what they may ask today"),
    )
    return "; ".join(f"{UNLIMITED if odds is None else written(getattr(odds, what))} {how}" for odds, how in told)
