"""The paper's two measures (section 5) and what it proves of MBDE (Theorems 5 to 7), of densities on a grid.

Everything is a sum over the cells of a grid: the target's exact probabilities, the models' and the classifiers' values
there; no sample of the target or of the model is needed. What remains is the rounding of floats, for which a bound has
`SLACK`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
COVERED = 0.95  # mass of the model's region


@dataclass(frozen=True)
class Coverage:
    """The target's mass in a region that holds 0.95 of the model."""

    # the region where the model is densest, P(dQ >= t) with Q(dQ >= t) = 0.95: what the paper describes in words, and
    # what its authors' code computes
    dense: float
    printed: float  # the region where it is least dense, P(dQ < t) with Q(dQ < t) = 0.95: the formula as it is printed


def negative_log_likelihood(target: Floats, model: Floats, volume: float) -> float:
    """-E_P[log Q], with cells' probabilities and the volume of a cell; infinite where Q misses a part of P.

    It is exact for a model that is constant on each cell.
    """
    present = target > 0
    if np.any(model[present] <= 0):
        return math.inf
    return float(-np.sum(target[present] * np.log(model[present] / volume)))


def divergence(target: Floats, model: Floats) -> float:
    """KL(P, Q) (Eq. 2) over the cells."""
    present = target > 0
    if np.any(model[present] <= 0):
        return math.inf
    return float(np.sum(target[present] * np.log(target[present] / model[present])))


def coverage(target: Floats, model: Floats) -> Coverage:
    """Mode coverage, both ways; a level that several cells share belongs to the region in part, so that it holds 0.95.

    `target` (n,) probabilities of the cells under P; `model` (n,) under Q.
    """
    return Coverage(_mass(target, model, -model), _mass(target, model, model))


def _mass(target: Floats, model: Floats, order: Floats) -> float:
    """P's mass of the first cells in `order` that together hold 0.95 of Q."""
    _, level = np.unique(order, return_inverse=True)
    under_model = np.bincount(level, weights=model) / model.sum()
    under_target = np.bincount(level, weights=target)
    before = np.concatenate([[0.0], np.cumsum(under_model)[:-1]])
    share = np.clip((COVERED - before) / np.maximum(under_model, np.finfo(float).tiny), 0.0, 1.0)
    return float(np.sum(share * under_target))


MOST_OUTPUT = math.log(2)  # c*: of a clipped classifier
HIGH = 1 / 3  # least gamma_Q of the regime that the paper calls high
SLACK = 1e-9


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One iteration of boosting."""

    theta: float  # its leverage
    most: float  # c*, the largest absolute value of the classifier
    gamma_p: float  # of Definition 1, as the classifier has them; not positive where it is no weak learner
    gamma_q: float
    drop: float  # KL(P, Q_{t-1}) - KL(P, Q_t), in nats
    # theta times Lambda as Eq. 9 prints it, the least drop that Theorem 6 promises; None where a gamma is not positive.
    printed: float | None
    proved: float | None  # the least drop that the theorem's proof gives, see `proved_drop`; None likewise

    @property
    def high(self) -> bool:
        """Whether the classifier is a weak learner in the high boosting regime."""
        return self.gamma_p > 0 and self.gamma_q >= HIGH

    @property
    def weak(self) -> bool:
        """Whether it is a weak learner at all."""
        return self.proved is not None

    @property
    def above_printed(self) -> bool:
        """Whether Theorem 6 holds here as it is printed, or promises nothing."""
        return self.printed is None or self.drop >= self.printed - SLACK

    @property
    def above_proved(self) -> bool:
        """Whether what its proof gives holds here, or it promises nothing."""
        return self.proved is None or self.drop >= self.proved - SLACK


class Theory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The paper's promises about one density, and the density's own numbers."""

    steps: tuple[Step, ...]  # of the iterations
    furthest: float  # the largest |log Q_T / Q_0| over the grid; Theorem 5 promises epsilon / 2 at most
    gain: float  # Delta(Q_T) = KL(P, Q_0) - KL(P, Q_T), in nats
    most: float  # epsilon / 2, Theorem 7 (10)
    # the right side of (11), with the smallest gammas of all iterations; None outside of the high regime
    least: float | None

    @property
    def in_range(self) -> bool:
        """Whether Theorem 5 holds."""
        return self.furthest <= self.most + SLACK

    @property
    def below_most(self) -> bool:
        """Whether Theorem 7 (10) holds."""
        return self.gain <= self.most + SLACK

    @property
    def above_least(self) -> bool:
        """Whether Theorem 7 (11) holds as printed, or promises nothing."""
        return self.least is None or self.gain >= self.least - SLACK

    @property
    def least_proved(self) -> float | None:
        """The sum of Theorem 6's drops with the smallest gammas; None outside of the high regime.

        From (68) to (69) the proof takes Gamma(z) for at least z log 2. It is at most that: Gamma is convex, 0 at 1/3
        and log 2 at 1. So (11) does not follow, while the sum of theta_t (c* gamma_P + Gamma(gamma_Q)) does.
        """
        if self.least is None:
            return None
        gamma_p, gamma_q = min(step.gamma_p for step in self.steps), min(step.gamma_q for step in self.steps)
        drops = [proved_drop(step.theta, step.most, gamma_p, gamma_q) for step in self.steps]
        return sum(drop for drop in drops if drop is not None)

    @property
    def above_proved(self) -> bool:
        """Whether the gain is at least `least_proved`, or nothing is promised."""
        return self.least_proved is None or self.gain >= self.least_proved - SLACK


def gamma_of_drop(gamma_q: float) -> float:
    """Gamma of Theorem 6: log(4 / (5 - 3 z))."""
    return math.log(4 / (5 - 3 * gamma_q))


def printed_drop(theta: float, most: float, gamma_p: float, gamma_q: float) -> float | None:
    """The least drop of an iteration by Theorem 6 (8) and (9), as printed; None where a gamma is not positive."""
    if min(gamma_p, gamma_q) <= 0:
        return None
    if gamma_q >= HIGH:
        return theta * (most * gamma_p + gamma_of_drop(gamma_q))
    return theta * (gamma_p + gamma_q - most * theta / 2)


def proved_drop(theta: float, most: float, gamma_p: float, gamma_q: float) -> float | None:
    """The least drop of an iteration by the paper's proof (section 8.3); None where a gamma is not positive.

    Lemma 13 bounds log E_Q[exp(theta c)] by theta^2 c*^2 / 2 - theta gamma_Q c*, so that in the low regime Lambda is c*
    (gamma_P + gamma_Q - c* theta / 2): (9) lacks the first c*, which is log 2 = 0.69 for a clipped classifier, and
    promises too much. In the high regime Eq. 48 divides by log 2, so that gamma_Q counts c* / log 2 times.
    """
    if min(gamma_p, gamma_q) <= 0:
        return None
    if gamma_q >= HIGH:
        return theta * (most * gamma_p + gamma_of_drop(gamma_q * most / MOST_OUTPUT))
    return theta * most * (gamma_p + gamma_q - most * theta / 2)


def check_theory(target: Floats, base: Floats, classifiers: Sequence[Floats], thetas: Sequence[float]) -> Theory:
    """Hold the theorems against one density.

    `target` (n,) probabilities of the cells under P; `base` (n,) under Q_0; `classifiers`: each (n,), in [-log 2, log
    2]; `thetas` is the leverage of each.
    """
    # theta_1 = epsilon / (epsilon + 4 log 2)
    epsilon = 4 * MOST_OUTPUT * thetas[0] / (1 - thetas[0])
    exponent, before = np.zeros_like(base), base
    steps = []
    for theta, outputs in zip(thetas, classifiers, strict=True):
        exponent = exponent + theta * outputs
        after = base * np.exp(exponent)
        after /= after.sum()
        most = float(np.abs(outputs).max())
        gamma_p = float(target @ outputs) / most if most else 0.0
        gamma_q = -float(before @ outputs) / most if most else 0.0
        drop = divergence(target, before) - divergence(target, after)
        terms = (theta, most, gamma_p, gamma_q)
        steps.append(Step(*terms, drop, printed_drop(*terms), proved_drop(*terms)))
        before = after
    high = all(step.high for step in steps)
    gammas = min(step.gamma_p for step in steps) + min(step.gamma_q for step in steps)
    return Theory(
        tuple(steps),
        furthest=float(np.abs(np.log(before / base)).max()),
        gain=divergence(target, base) - divergence(target, before),
        most=epsilon / 2,
        least=epsilon / 2 * gammas / 2 * (1 - thetas[-1]) if high else None,
    )
