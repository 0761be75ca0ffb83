"""The loss of every question in a package, enumerated; and the audit in it, judged by its attacks' numbers.

A loss is enumerated from the law of the noise: nothing is drawn, and no formula is used while scales are small. A
question over m partitions is moved most if one number of each moves by c S: a unit has c records of S steps each. The
reason is that spreading a move of c S in L1 over a partition's numbers loses no more than moving one number by c S. So
its loss is that of m independent numbers, each moved by c S.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from math import ceil

import msgspec
import numpy as np

from curator_node.kinds import ANSWERERS
from expril.audit.attack.controls.curators import PATH_CONTROLS
from expril.audit.attack.controls.mechanisms import CONTROLS
from expril.audit.attack.game import claimed_epsilon
from expril.audit.attack.kinds import names_of
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.exact import loss_of_vectors
from expril.audit.kinds.kind_audit import AGREEMENT, ROUNDING
from expril.audit.package.evidence import kind_name
from expril.audit.results import Attack, AuditResult, whole_draws
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.kinds.counts import PlannedCounts
from protocol.plans import Plan, Planned

LEAST_DRAWS = 10_000
"""Least draws from each of two inputs. Kinds that answer slowly get fewer."""
MOST_ALARMS = 0.05


def judge(result: AuditResult, plans: Iterable[Plan]) -> tuple[list[str], list[str]]:
    """Find claims in an audit that its own numbers contradict, and controls that it did not run.

    Whatever the accepted `plans` ask for must have been attacked.

    Returns:
        What is wrong, whatever version made the audit; and the controls of this version that it lacks.
    """
    wrong = []
    for kind in result.kinds:
        name = printable(kind.kind)
        above, problem = _above(kind.attack, kind.exact, least=whole_draws(kind.kind, LEAST_DRAWS))
        wrong += [f"{name}: {problem}"] if problem else []
        if (above or kind.alarms) and not kind.violation:
            wrong.append(f"{name} is said to be no violation, and its bound or its exact loss is above what is allowed")
    for control in result.controls:
        name = printable(control.name)
        above, problem = _above(control.attack, None, least=1)
        wrong += [f"{name}: {problem}"] if problem else []
        if control.caught and not above:
            wrong.append(f"the control {name} is said to be caught, and its bound is not above the claim")
    wrong += [
        f"a sum over {sum_attack.sites} sites of which {sum_attack.colluders} collude does not lose what it should"
        for sum_attack in result.colluders
        if not sum_attack.holds
    ]
    attacked = {kind.kind for kind in result.kinds}
    planned_kinds = {name: None for plan in plans for name in _kind_names(plan)}
    attacked_whole = {name for name in ANSWERERS if names_of(name) == (name,)}
    wrong += [
        f"{printable(name)} was asked for, and never attacked"
        for name in planned_kinds
        if name not in attacked and name.partition("/")[0] not in attacked_whole & attacked
    ]
    if not 0 < result.false_alarm <= MOST_ALARMS:
        wrong.append(f"its false alarms are not at most {MOST_ALARMS}")
    wrong += [
        f"{printable(kind.kind)} was attacked at a delta, and its kind claims none"
        for kind in result.kinds
        if kind.attack.delta != "0"
    ]
    if not result.checks:
        wrong.append("it holds no check")
    if not result.controls:
        wrong.append("it holds no mechanism that is broken on purpose")
    there = {control.name for control in result.controls}
    return wrong, [name for name in (*CONTROLS, *PATH_CONTROLS) if name not in there]


def _above(attack: Attack, exact: float | None, *, least: int) -> tuple[bool, str]:
    """Whether an attack proves a loss above the claim, in exact rationals; and why it proves nothing, else "".

    A control that is caught by few draws is caught: its bound takes their number into account.
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


def _kind_names(plan: Plan) -> list[str]:
    return [] if AUDITED_KINDS.missing(plan) else list(map(kind_name, AUDITED_KINDS.queries(plan)))


WIDEST = 2000
"""The widest scale that is enumerated; tables of wider ones take minutes."""
MOST_SCALES = 5_000
"""Narrow scales are enumerated first, until the sum of the different ones reaches this; that takes seconds."""
FORMULA = "not enumerated, as its noise is too wide: m c S / scale, with the scale that the noise library gets"


class ExactLoss(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The enumerated loss of one planned question."""

    asks: str  # its kind and what it releases
    partitions: int  # partitions, scale, steps: m, scale (exact, as text) and S; 0, "" and 0 where its kind has none
    scale: str
    steps: int
    records: int  # c, the most records of a unit that count
    claimed: str  # what it was charged at most, exact, as text
    exact: float | None  # its enumerated loss; None where it has none
    why_not: str  # why it has none; "" where it has
    holds: bool | None  # whether the two are one to 1e-9; None where there is nothing to compare
    how: str = ""  # where it was not enumerated, how it was computed


def exact_losses(plans: Iterable[tuple[Plan, int | None]]) -> tuple[ExactLoss, ...]:
    """Compute the losses of all different questions of some plans.

    Each plan comes with the contribution bound c of the curator that accepted it, or None if it is not known. Such a
    plan is left out.
    """
    questions = {(planned, bound): None for plan, bound in plans if bound is not None for planned in _queries(plan)}
    losses: dict[ExactLoss, None] = {}
    places, counted = 0, set()
    for planned, bound in sorted(questions, key=lambda question: _scale(question[0])):
        scale = _scale(planned)
        if scale <= WIDEST and scale not in counted:
            places += ceil(scale)
            counted.add(scale)
        losses[_loss_of(planned, bound, by_formula=scale > WIDEST or places > MOST_SCALES)] = None
    return tuple(sorted(losses, key=lambda loss: (loss.asks, loss.partitions, Fraction(loss.scale or 0), loss.records)))


def _queries(plan: Plan) -> tuple[Planned, ...]:
    try:
        return () if AUDITED_KINDS.missing(plan) else AUDITED_KINDS.queries(plan)
    except RemoteProtocolError:
        return ()


def _scale(planned: Planned) -> Fraction:
    return planned.scale.fraction if isinstance(planned, PlannedCounts) else Fraction(0)


def _loss_of(planned: Planned, bound: int, *, by_formula: bool) -> ExactLoss:
    name = str(planned.__struct_config__.tag)
    try:
        claimed = AUDITED_KINDS.cost(planned, bound)
    except RemoteProtocolError as error:
        raise ConfigurationError(f"what {name} costs is out of range: {printable(str(error))}") from None
    loss_row = ExactLoss(
        asks=name,
        partitions=0,
        scale="",
        steps=0,
        records=bound,
        claimed=str(claimed),
        exact=None,
        why_not="its kind releases more than counts with noise",
        holds=None,
    )
    if not isinstance(planned, PlannedCounts):
        return loss_row
    scale = planned.scale.fraction
    loss_row = msgspec.structs.replace(
        loss_row,
        asks=f"{name}/{planned.release}",
        partitions=planned.partitions,
        scale=str(scale),
        steps=planned.steps,
        why_not="",
    )
    if not AUDITED_KINDS.private_planned(planned):
        return msgspec.structs.replace(loss_row, why_not="what it releases is not private as claimed")
    shift = bound * planned.steps
    loss: float | None
    try:
        if by_formula:
            loss = float(planned.partitions * shift / scale)
            loss_row = msgspec.structs.replace(loss_row, how=FORMULA)
        else:
            zero, moved = np.zeros(1, dtype=np.int64), np.full(1, shift, dtype=np.int64)
            one_loss = loss_of_vectors(zero, moved, [scale]).loss
            loss = None if one_loss is None else planned.partitions * one_loss
    except (ConfigurationError, ValueError, ArithmeticError) as error:
        why = str(error) if isinstance(error, ConfigurationError) else "its numbers are too large to be enumerated"
        return msgspec.structs.replace(loss_row, why_not=why)
    holds = loss is not None and abs(loss - float(claimed)) <= AGREEMENT * max(1.0, float(claimed))
    return msgspec.structs.replace(loss_row, exact=loss, holds=holds)
