"""An audit in a package is judged by its attacks, and not by what it says of them."""

import math
from collections.abc import Iterable
from fractions import Fraction

from curator_node.kinds import ANSWERERS
from expril.audit.attack.controls.curators import PATH_CONTROLS
from expril.audit.attack.controls.mechanisms import CONTROLS
from expril.audit.attack.game import claimed_epsilon
from expril.audit.attack.kinds import names_of
from expril.audit.kinds.exact import ROUNDING
from expril.audit.results import Attack, AuditResult, whole_draws
from protocol.errors import ConfigurationError, printable
from protocol.kinds import QUERY_KINDS
from protocol.plans import Plan

LEAST_DRAWS = 10_000
"""From each of two inputs: those of expril audit all --quick. A kind whose answers take long is attacked with fewer."""
MOST_ALARMS = 0.05


def judge(result: AuditResult, plans: Iterable[Plan]) -> tuple[list[str], list[str]]:
    """What an audit says that its own numbers contradict, and what it lacks.

    Args:
        result: as it was read.
        plans: that were accepted: what they ask for must have been attacked.

    Returns:
        (what is wrong in any version, controls of this version that it lacks).
    """
    wrong = []
    for kind in result.kinds:
        name = printable(kind.kind)
        above, problem = _above(kind.attack, kind.exact, least=whole_draws(kind.kind, LEAST_DRAWS))
        wrong += [f"{name}: {problem}"] if problem else []
        if above and not kind.violation:
            wrong.append(f"{name} is said to be no violation, and its bound or its exact loss is above the claim")
    for control in result.controls:
        name = printable(control.name)
        above, problem = _above(control.attack, None, least=1)
        wrong += [f"{name}: {problem}"] if problem else []
        if control.caught and not above:
            wrong.append(f"the control {name} is said to be caught, and its bound is not above the claim")
    wrong += [
        f"a sum over {one.sites} sites of which {one.colluders} collude does not lose what it should"
        for one in result.colluders
        if not one.holds
    ]
    attacked = {kind.kind for kind in result.kinds}
    asked = {name: None for plan in plans for name in _asked(plan)}
    whole = {name for name, answerer in ANSWERERS.items() if names_of(answerer) == (name,)}
    wrong += [
        f"{printable(name)} was asked for, and never attacked"
        for name in asked
        if name not in attacked and name.partition("/")[0] not in whole & attacked
    ]
    if not 0 < result.false_alarm <= MOST_ALARMS:
        wrong.append(f"its false alarms are not at most {MOST_ALARMS}")
    if not result.checks:
        wrong.append("it holds no check")
    there = {control.name for control in result.controls}
    return wrong, [name for name in (*CONTROLS, *PATH_CONTROLS) if name not in there]


def _above(attack: Attack, exact: float | None, *, least: int) -> tuple[bool, str]:
    """Whether an attack proves more than is claimed, in exact rationals; and why it proves nothing.

    A control that is caught by few draws is caught: its bound counts them.
    """
    try:
        claimed = Fraction(claimed_epsilon(attack.claimed[:2000]))
    except (ConfigurationError, ValueError):
        return True, "its claim is no number"
    losses = [(attack.lower_bound, Fraction(0)), *([] if exact is None else [(exact, Fraction(ROUNDING))])]
    if any(math.isnan(loss) for loss, _ in losses):
        return True, "its bound is no number"
    above = any(math.isinf(loss) or Fraction(loss) > claimed * (1 + slack) for loss, slack in losses)
    if attack.draws < least:
        return above, f"{attack.draws} draws prove nothing; there must be {least:,}"
    if not 0 < attack.error_rate <= MOST_ALARMS:
        return above, f"its bound may be wrong more often than {MOST_ALARMS}"
    return above, ""


def _asked(plan: Plan) -> list[str]:
    if QUERY_KINDS.missing(plan):
        return []
    found = []
    for one in QUERY_KINDS.queries(plan):
        release = getattr(one, "release", "")
        found.append(f"{one.kind}/{release}" if release else one.kind)
    return found
