"""(epsilon, delta) of accepted plans by privacy-loss distributions (Sommer, Meiser and Mohammadi 2019).

The noise scales of an accepted plan are fixed before its first answer, so the losses of its queries compose. The whole
plan counts even if it was closed early, since answers decided when to stop. Plans are only summed, as the scales of a
later plan may depend on earlier answers. Where what was charged is less, that is stated: `add_losses` says why it may.

A query whose kind names its noise laws counts as that many discrete Laplace releases, each moved by its shift:
docs/explanation/counts.md has the lemma. Any other query counts as randomised response at its pure epsilon, which
dominates every mechanism of that epsilon (Kairouz, Oh and Viswanath 2015). Losses are rounded up on a grid of at most
1e-5.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from expril.audit.kinds.kind_audit import AuditedKinds
from expril.audit.recompute.entries import ZERO, Shape, Study
from expril.audit.recompute.sums import Loss, Sum
from protocol.errors import RemoteProtocolError
from protocol.noise import DiscreteLaplace, Moved
from protocol.rationals import plus

INTERVAL = 1e-5
"""Step of the grid of losses, which are rounded up to it."""
MOST_EPSILON = 20
"""Largest pure epsilon of a plan that is computed. Others protect nothing, and their grids are long."""
MOST_PLANS = 200
"""Number of different plans that are computed; further ones count with their pure epsilon."""
MOST_SHIFT = 10_000
"""Largest shift that is computed, as the library takes every step; other queries count with their pure epsilon."""
Part = Moved | Fraction
"""Releases with their noise law, or a query's pure epsilon if no law is known."""


def rounded_up(exact: Fraction) -> float:
    """Return the least float that is not below a number; infinite if there is none."""
    try:
        nearest = exact.numerator / exact.denominator
    except OverflowError:
        return math.inf
    return nearest if nearest == math.inf or Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


class Losses:
    """The (epsilon, delta) losses of plans at one delta.

    `delta`: the delta of each plan.
    """

    def __init__(self, kinds: AuditedKinds, delta: float) -> None:
        self._kinds = kinds
        self._delta = delta
        self._computed = 0
        self._of_laws = lru_cache(maxsize=4096)(self._epsilon)
        self._of_shape = lru_cache(maxsize=65_536)(self._parts)

    def summed(self, plans: Iterable[tuple[Study, int | None]], beyond: Fraction = ZERO) -> Loss:
        """Sum over accepted plans, each with its bound c, and over `beyond`, which belongs to no plan."""
        epsilon, pure, count = beyond, 0, 0
        counted = Counter((study.shape, study.price.total, bound) for study, bound in plans)
        for (shape, cost, bound), times in counted.items():
            loss = None if bound is None else self._of_shape(shape, bound)
            if loss is not None and loss >= cost:
                loss = None  # the pure epsilon is no larger, and takes no delta
            epsilon = plus(epsilon, times * (cost if loss is None else Fraction(loss)))
            pure += times if loss is None else 0
            count += times
        return Loss(rounded_up(epsilon), rounded_up(Fraction(self._delta) * (count - pure)), count, pure)

    def _parts(self, shape: Shape, bound: int) -> float | None:
        """Return one plan's epsilon at delta; None if only its pure epsilon is known."""
        parts: Counter[Part] = Counter()
        cost = ZERO
        try:
            for query, name in enumerate(shape.kinds):
                planned = self._kinds.query(shape.plan, query)
                laws = self._kinds.audits[name].laws(planned, bound)
                cost += self._kinds.cost(planned, bound)
                if laws is None or any(law.shift > MOST_SHIFT for law in laws):
                    parts[self._kinds.cost(planned, bound)] += 1
                    continue
                for law in laws:
                    parts[law._replace(releases=1)] += law.releases
        except RemoteProtocolError:
            return None
        if cost > MOST_EPSILON or not any(isinstance(part, Moved) for part in parts):
            return None
        return self._of_laws(tuple(sorted(parts.items(), key=repr)), cost)

    def _epsilon(self, parts: tuple[tuple[Part, int], ...], cost: Fraction) -> float | None:
        if self._computed >= MOST_PLANS:
            return None
        self._computed += 1
        composed = None
        for part, times in parts:
            distribution = self._distribution(part).self_compose(times)
            composed = distribution if composed is None else composed.compose(distribution)
        if composed is None:
            return None
        return min(rounded_up(cost), float(composed.get_epsilon_for_delta(self._delta)))

    def _distribution(self, part: Part) -> Any:
        if isinstance(part, Moved):
            return discrete_laplace(part.noise, part.shift)
        from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415 - slow to load, if a plan needs it
        from dp_accounting.pld.common import DifferentialPrivacyParameters  # noqa: PLC0415

        pure = DifferentialPrivacyParameters(float(part), 0.0)
        return pld.from_privacy_parameters(pure, value_discretization_interval=INTERVAL)


def add_losses(sums: Iterable[Sum], kinds: AuditedKinds, delta: float) -> None:
    """Compute (epsilon, delta) of each sum that is bounded, if the contribution bound c of all its plans is known.

    It is never above the pure sum, e(t) of a transcript t. Let (e0, delta) hold for the plans as wholes. Then the
    smaller of e(t) and e0 holds at delta, too. Where it is e(t), P(t | D) <= exp(e(t)) P(t | D') takes none of delta.
    By how much P(t | D) exceeds exp(e0) P(t | D') elsewhere adds up to at most delta.

    `sums`: the sums, which are changed in place; `delta`: the delta of each accepted plan.

    Raises ModuleNotFoundError: there is no dp-accounting.
    """
    if find_spec("dp_accounting") is None:
        raise ModuleNotFoundError("No module named 'dp_accounting'", name="dp_accounting")
    losses = Losses(kinds, delta)
    for row in sums:
        if row.plans and row.at_most is not None and all(bound is not None for _, bound in row.members):
            loss = losses.summed(row.members, row.beyond)
            loss = replace(loss, epsilon=min(loss.epsilon, rounded_up(row.at_most)))
            row.loss = loss if loss.epsilon < math.inf else None


def discrete_laplace(noise: DiscreteLaplace, shift: int) -> Any:
    """Return the privacy-loss distribution of one release with this noise, which one unit moves by `shift`."""
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415

    parameter = math.nextafter(float(1 / noise.scale), math.inf)
    return pld.from_discrete_laplace_mechanism(
        parameter, shift, value_discretization_interval=INTERVAL, use_connect_dots=True
    )
