"""The loss of a kind's question as its noise widens: by the claimed law, and as far as draws prove it.

The question, the neighbours and the exact quantities stay; what the plan says of the noise is changed. So a curve shows
whether a price is right at every epsilon, and not only at the one that an audit attacks.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import msgspec

from expril.audit.attack.kinds import AUDITS, ERROR_RATE, Candidate, attack_kind, attack_pair
from expril.audit.kinds.kind_audit import AuditQuery, KindAudit
from expril.audit.results import KindResult, LossCurve
from protocol.errors import ExprilError
from protocol.rationals import Rational

FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2))
"""What the epsilon of the attacked question is multiplied by, in rising order."""
_POWERS = {"scale": -1, "decay": 1, "epsilon": 1}
"""Ends of the names of a plan's rationals that say how wide noise is: by which power of the factor they change."""


def with_factor(planned: Any, factor: Fraction) -> Any:
    """Return a planned query, or a part of one, whose noise is changed so that its epsilon is about `factor` times it.

    `planned`: a struct; its rationals named scale, decay or epsilon are changed, also in structs and tuples inside.
    """
    if isinstance(planned, tuple):
        return tuple(with_factor(part, factor) for part in planned)
    if not isinstance(planned, msgspec.Struct):
        return planned
    changes = {}
    for name in planned.__struct_fields__:
        value = getattr(planned, name)
        power = next((power for end, power in _POWERS.items() if name == end or name.endswith(f"_{end}")), 0)
        if isinstance(value, Rational):
            changes[name] = Rational.of(value.fraction * factor**power) if power else value
        else:
            changes[name] = with_factor(value, factor)
    return msgspec.structs.replace(planned, **changes)


def kind_and_curve(
    name: str, *, draws: int, error_rate: float, thorough: bool = False, pairs: int | None = None
) -> tuple[KindResult] | tuple[KindResult, LossCurve]:
    """Attack a kind as `attack_kind` does, and draw its curve, if it has one.

    `thorough`: a fifth of the draws is taken at every other factor, too; then the attack and the curve share the error
    rate. `pairs`: as `attack_kind` has it.
    """
    share = error_rate / 2 if thorough else error_rate
    result, candidate = attack_kind(name, draws=draws, error_rate=share, pairs=pairs)
    if candidate is None:
        return (result,)
    audit = AUDITS[name.partition("/")[0]]
    curve = loss_curve(result, candidate, audit, draws=draws // 5 if thorough else 0, error_rate=share)
    return (result,) if curve is None else (result, curve)


def loss_curve(
    result: KindResult,
    candidate: Candidate,
    audit: KindAudit,
    *,
    factors: Sequence[Fraction] = FACTORS,
    draws: int = 0,
    error_rate: float = ERROR_RATE,
) -> LossCurve | None:
    """Compute the curve of an attacked question; None if its law cannot be had at two epsilons.

    `result`: of its attack, which gives the bound at a factor of 1. `draws`: from each data set at every other factor;
    0 draws nothing there. A question that several curators answer is drawn at a factor of 1 only. `error_rate`: of all
    these bounds together. Whatever a law raises but `ExprilError`, its stated limits, is raised.
    """
    path = replace(candidate.path, copies=1)
    cases = [path.case(units) for units in candidate.pair.sets]
    epsilons: list[str] = []
    exact: list[float] = []
    proven: list[float | None] = []
    for factor in factors:
        with suppress(ExprilError):  # too wide or too narrow to be enumerated; another error is a fault of the law
            planned = with_factor(path.planned, factor)
            claimed = path.kinds.cost(planned, path.example.most_records_per_unit)
            first, second = (audit.claimed_law(replace(case, planned=planned)) for case in cases)
            loss = None if first is None or second is None else first.loss(second).loss
            if loss is None or (epsilons and Fraction(epsilons[-1]) >= claimed):
                continue
            bound = result.attack.lower_bound if factor == 1 else None
            if draws and factor != 1 and path.example.company is None:
                bound = _proven(candidate, factor, draws, error_rate / (len(factors) - 1))
            epsilons.append(str(claimed))
            exact.append(loss)
            proven.append(bound)
    if len(epsilons) < 2:
        return None
    return LossCurve(kind=result.kind, epsilons=tuple(epsilons), exact=tuple(exact), proven=tuple(proven))


def _proven(candidate: Candidate, factor: Fraction, draws: int, error_rate: float) -> float:
    example = candidate.path.example

    def ask(copies: int) -> AuditQuery:
        query = example.ask(copies)
        return replace(query, planned=with_factor(query.planned, factor))

    path = replace(candidate.path, example=replace(example, ask=ask))
    few = min(draws, example.draws or draws)
    return attack_pair(path, candidate.pair, draws=few, error_rate=error_rate).lower_bound
