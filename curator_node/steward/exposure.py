"""Factors by which a curator's answers may change the odds of any belief about one privacy unit.

Only this module adds up the exponents of all kinds over plan, ledger and caps; see `protocol.odds`.
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
    """Exponents of the factors; None means without limit."""

    study: Odds | None  # by the plan alone
    learner: Odds | None  # with all that its learner was answered before
    everybody: Odds | None  # with all that all learners were answered before
    # at most, once the cap over all learners is spent on the worst that the policy and open studies allow
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
    """Exponents for a plan's answers, by themselves and together with earlier answers.

    Args:
        account: sum of the ledger's entries.
        policy: the caps, and the queries that may be asked.
        unit: the privacy unit.
        kinds: the installed query kinds; of others the worst is assumed.
        learner: the asker's key.
        name: the name under which it is enrolled.
        plan: the planned queries; None asks nothing.

    Raises:
        RemoteProtocolError: the plan cannot be read.
    """
    study = NOTHING if plan is None else kinds.plan_odds(plan, unit)
    of_learner, of_everybody = (
        odds_spent(account, kinds, unit, account.keys_of(learner, name)),
        odds_spent(account, kinds, unit),
    )
    worst = _worst(account, policy, unit, kinds, plan)
    remaining = max(policy.total_cap - account.total_spent, _ZERO)
    ever = None if of_everybody is None or worst is None else of_everybody + worst * remaining
    return Exposure(study, _sum(study, of_learner), _sum(study, of_everybody), ever)


def odds_spent(account: Account, kinds: Kinds, unit: PrivacyUnit, keys: Collection[bytes] | None = None) -> Odds | None:
    """Exponents of all that was charged; None for no limit.

    Epsilon that a steward entered after a halt counts as the worst case, since nobody knows what it was charged for. So
    does a query that was charged at another cost than it has now.

    Args:
        account: sum of the ledger's entries.
        kinds: the installed query kinds.
        unit: the privacy unit.
        keys: keys of the learner; None for all learners.
    """
    total, charged = NOTHING, _ZERO
    for study in account.studies.values():
        if keys is not None and study.key.learner not in keys:
            continue
        for query, amount in study.spent_on.items():
            per_epsilon = _per_epsilon(kinds, unit, study.plan, query, study.costs[query])
            if per_epsilon is None:
                return None
            total, charged = total + per_epsilon * amount, charged + amount
    total_spent = account.total_spent if keys is None else sum((account.spent.get(key, _ZERO) for key in keys), _ZERO)
    return total + WORST * max(total_spent - charged, _ZERO)


def most_odds(policy: Policy, unit: PrivacyUnit, kinds: Kinds) -> Odds | None:
    """Exponents per epsilon of the worst that a policy allows; None for no limit."""
    try:
        return kinds.most_odds(policy.limits, unit)
    except RemoteProtocolError:
        return WORST


def exposure_rows(exposures: Exposure, unit: PrivacyUnit) -> list[tuple[str, str]]:
    """Rows (subject, words) for a steward: the four factors for each of three beliefs, and what they leave out."""
    unit_name = printable(unit.name) or "record"
    subject = f"of a {unit_name} that is known to be there"
    other_records = f"records of the same {unit_name}" if unit.name else "the same record"
    label_caveat = (
        f". Of a {unit_name} with more than {unit.records} records, labels also help to choose those that count: then "
        "its label is part of the rest"
        if unit.name
        else ""
    )
    return [
        ("is it there", f"whether a {unit_name} is among the records: {_factors(exposures, 'presence')}"),
        ("its label", f"{subject}, its label {printable(unit.label)}: {_factors(exposures, 'label')}{label_caveat}"),
        ("the rest", f"{subject}, anything else about it: {_factors(exposures, 'attribute')}"),
        ("not in it", NOT_COVERED.format(held=other_records)),
    ]


def factors_of(odds: Odds | None) -> tuple[str, str, str]:
    """The three factors of a study, for a table."""
    if odds is None:
        return ("no limit",) * 3
    return factor(odds.presence), factor(odds.label), factor(odds.attribute)


def _per_epsilon(kinds: Kinds, unit: PrivacyUnit, plan: Plan, query: int, cost: Fraction) -> Odds | None:
    """Exponents per epsilon charged of a query; None for no limit."""
    try:
        planned = kinds.query(plan, query)
        odds, today = kinds.odds(planned, unit), kinds.cost(planned, unit.records)
    except RemoteProtocolError:
        return WORST
    if odds is None:
        return None
    return odds * (1 / cost) if cost == today else WORST


def _worst(account: Account, policy: Policy, unit: PrivacyUnit, kinds: Kinds, plan: Plan | None) -> Odds | None:
    """Exponents per remaining epsilon: the worst of the queries that may be asked and of the open studies."""
    candidates = [most_odds(policy, unit, kinds)]
    accepted = [study for study in account.studies.values() if not study.ended]
    candidates += [odds for study in accepted for odds in _of_study(study, unit, kinds)]
    if plan is not None:
        costs = kinds.costs(plan, unit.records)
        candidates += [_per_epsilon(kinds, unit, plan, query, cost) for query, cost in enumerate(costs)]
    worst = NOTHING
    for odds in candidates:
        if odds is None:
            return None
        worst = worst.or_more(odds)
    return worst


def _of_study(study: StudyAccount, unit: PrivacyUnit, kinds: Kinds) -> list[Odds | None]:
    return [_per_epsilon(kinds, unit, study.plan, query, cost) for query, cost in enumerate(study.costs)]


def _sum(first: Odds | None, second: Odds | None) -> Odds | None:
    return None if first is None or second is None else first + second


def _factors(exposures: Exposure, field: str) -> str:
    """The four factors for one belief, in words."""
    exponents = (
        (exposures.study, "by this study"),
        (exposures.learner, "with all that this learner was answered before"),
        (exposures.everybody, "with all that all learners were"),
        (exposures.ever, "at most ever, by the budget over all learners and what they may ask today"),
    )
    return "; ".join(
        f"{UNLIMITED if odds is None else written(getattr(odds, field))} {words}" for odds, words in exponents
    )
