"""Intervals of what hazards determine - survival, cumulative incidence, restricted mean - from noisy exits.

Of bin l, R_l records were at risk and d_lk had an event of cause k. The sums of w_lk (d_lk - q_lk R_lk) have mean 0 at
 the true hazards q, with any weights w and however large the noise, since both d and R are linear in the cells. For a
value f of the functional, hazards that give f are taken on a path through the estimate; with w = (df/dq_lk) / (share at
risk) the sum does not move, to first order, with hazards that give the same f (the efficient score of f). The interval
holds the values whose sum is no further from 0 than its standard deviation explains: sampling (martingale variance at
that value) and noise (exact variance, and kurtosis by Cornish-Fisher). Without censoring the survival to bin j has the
sum Y_(j+1) - f N, and the interval is Fieller's and Wilson's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from learner_node.analyses.exit_counts import ACTUARIAL, ExitCounts
from learner_node.analyses.score_interval import Z, noise_limit, score_interval

Floats = NDArray[np.float64]
Functional = Callable[[Floats], tuple[Floats, Floats]]
"""Hazards (M, L, K) -> values (M,) and derivatives (M, L, K)."""

_PATH = np.concatenate([[-40.0], np.linspace(np.log(1e-6), np.log(1e4), 121)])
"""Logarithms of cumulative hazards to the horizon of the first cause on the path."""
_LARGEST = 30.0
"""Largest cumulative hazard of a bin on the path: with more, 1 - its probability is 0 in floating point, no functional
has a slope, and what no answer supports would be accepted."""
_LEAST_SHARE = 0.02


def survival_to(bins: int) -> Functional:
    """The probability of no event in the first `bins` bins."""

    def value(hazards: Floats) -> tuple[Floats, Floats]:
        rest = np.maximum(1.0 - hazards.sum(axis=2), 1e-300)
        alive = rest[:, :bins].prod(axis=1)
        slopes = np.zeros_like(hazards)
        slopes[:, :bins] = (-alive[:, None] / rest[:, :bins])[..., None]
        return alive, slopes

    return value


def incidence_to(bins: int, cause: int = 0) -> Functional:
    """The probability of an event of this cause, before any other, in the first `bins` bins (Aalen-Johansen)."""

    def value(hazards: Floats) -> tuple[Floats, Floats]:
        rest = np.maximum(1.0 - hazards.sum(axis=2), 1e-300)
        alive = np.cumprod(rest, axis=1)
        before = np.concatenate([np.ones((len(alive), 1)), alive[:, :-1]], axis=1)
        reached = np.cumsum(before * hazards[:, :, cause], axis=1)
        total = reached[:, bins - 1]
        slopes = np.zeros_like(hazards)
        later = (total[:, None] - reached[:, :bins]) / rest[:, :bins]
        slopes[:, :bins] = -later[..., None]
        slopes[:, :bins, cause] += before[:, :bins]
        return total, slopes

    return value


def restricted_mean(widths: Floats) -> Functional:
    """Mean time without an event before the horizon, events in the middle of bins."""

    def value(hazards: Floats) -> tuple[Floats, Floats]:
        rest = np.maximum(1.0 - hazards.sum(axis=2), 1e-300)
        alive = np.cumprod(rest, axis=1)
        weights = widths / 2 + np.append(widths[1:], 0.0) / 2
        area = widths[0] / 2 + alive @ weights
        later = np.cumsum((alive * weights)[:, ::-1], axis=1)[:, ::-1]
        return area, np.broadcast_to((-later / rest)[..., None], hazards.shape).copy()

    return value


@dataclass(frozen=True)
class Interval:
    """A value of the displayed hazards, and the ends of a 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Hazards:
    """Events and numbers at risk of each bin, for some causes, under one convention of the censored.

    Args:
        counts: the cells.
        events: maps from cells to events, (L, K, cells).
        risk: maps from cells to numbers at risk, (L, K, cells); causes may differ where bounds of censoring do.
    """

    counts: ExitCounts
    events: Floats
    risk: Floats

    @classmethod
    def of(cls, counts: ExitCounts, causes: tuple[int, ...] | None = None, missed: float = ACTUARIAL) -> "Hazards":
        """Hazards of these causes (None: of any event), where the censored miss this part of their bin.

        Of one cause alone, exits by other causes are taken to be censored.
        """
        events = np.stack([counts.event_map(cause) for cause in _names(causes)], axis=1)
        # Bounds: late entrants are at risk for all of their bin where the censored are, too.
        risk = counts.risk_map(missed, missed, _sole_cause(causes))
        return cls(counts, events, np.repeat(risk[:, None], events.shape[1], axis=1))

    @classmethod
    def extreme(cls, counts: ExitCounts, causes: tuple[int, ...] | None, *, common: bool) -> "Hazards":
        """Hazards with which the first cause is commonest, or rarest, that times of censoring within bins may have.

        Of a bin with R at risk at its start, d events, c censored and d_k events of one cause, the probability of that
        cause lies between d_k / R and d_k / (R - c R / (R - d)), and that of all between d / R and d / (R - c).
        """
        events = np.stack([counts.event_map(cause) for cause in _names(causes)], axis=1)
        late, early = (counts.risk_map(missed, missed, _sole_cause(causes)) for missed in (0.0, 1.0))
        if events.shape[1] > 1 and common:
            any_event = np.minimum(events.sum(axis=1) @ counts.smooth, 0.9 * late @ counts.smooth)
            start = np.maximum(late @ counts.smooth, 1e-9)
            early = counts.risk_map(1.0 / np.maximum(1.0 - any_event / start, 0.1), 1.0)
        risks = (early, late) if common else (late, early)
        return cls(counts, events, np.stack([risks[0], *[risks[1]] * (events.shape[1] - 1)], axis=1))

    def display(self) -> Floats:
        """Hazards of the smooth counts, (L, K), in 0 ... 1; exact without noise."""
        return self._display

    @cached_property
    def _display(self) -> Floats:
        smooth = self.counts.smooth
        events, risk = self.events @ smooth, self.risk @ smooth
        hazards = np.divide(events, risk, out=np.zeros_like(events), where=risk > 0)
        total = hazards.sum(axis=1, keepdims=True)
        return np.where(total > 1.0, hazards / np.maximum(total, 1e-300), hazards)

    def value(self, functional: Functional) -> float:
        """The functional of the displayed hazards."""
        return float(functional(self.display()[None])[0][0])

    def path(self, places: Floats) -> Floats:
        """Hazards (M, L, K) at places (M,) of a path near the displayed ones, along which the first cause grows."""
        hazards = self.display()
        mean = max(float(hazards[:, 0].mean()), 1e-3)
        first = np.clip(hazards[:, 0], _LEAST_SHARE * mean if not self.counts.noise.exact else 1e-6 * mean, 0.999)
        logs = -np.log1p(-first)
        most = min(_LARGEST, 300.0 / len(logs))
        tilted = -np.expm1(-np.minimum(np.exp(places)[:, None] / logs.sum() * logs, most))
        others = hazards[:, 1:] / np.maximum(1.0 - hazards[:, :1], 1e-9)
        total = others.sum(axis=1, keepdims=True)
        others = np.where(total > 0.99, others * 0.99 / np.maximum(total, 1e-9), others)
        return np.concatenate([tilted[..., None], others * (1.0 - tilted[..., None])], axis=2)

    @cached_property
    def shares(self) -> tuple[float, Floats]:
        """Number of records, and the share of those alive that each bin observes, (L,) in (0, 1]."""
        smooth = self.counts.smooth
        risk = (self.risk @ smooth).mean(axis=1)
        total = max(float(smooth.sum()), 1.0)
        rest = 1.0 - self.display().sum(axis=1)
        before = np.concatenate([[1.0], np.cumprod(rest)[:-1]])
        shares = np.divide(risk, total * before, out=np.zeros_like(risk), where=before > 0)
        for index in np.flatnonzero((shares <= 0) | (before * total < 1.0)):
            shares[index] = shares[index - 1] if index else 1.0
        return total, np.clip(shares, min(1.0, 1.0 / total), 1.0)

    def _along(self, places: Floats) -> tuple[Floats, Floats]:
        """Hazards (M, L, K) at places of the path, and numbers expected at risk, (M, L)."""
        total, shares = self.shares
        path = self.path(places)
        before = np.cumprod(1.0 - path.sum(axis=2), axis=1)
        before = np.maximum(np.concatenate([np.ones((len(before), 1)), before[:, :-1]], axis=1), 1e-300)
        return path, total * before * shares

    @cached_property
    def _first_places(self) -> tuple[Floats, Floats]:
        """The whole path, which all functionals share."""
        return self._along(_PATH)

    @cached_property
    def _maps(self) -> tuple[Floats, Floats]:
        """Maps of events and of numbers at risk, (L K, cells)."""
        shape = (self.events.shape[0] * self.events.shape[1], -1)
        return self.events.reshape(shape), self.risk.reshape(shape)

    def interval(self, functional: Functional, *, sampling: bool = True, critical: float = Z) -> tuple[float, float]:
        """Ends of the interval of one functional; of these records alone without `sampling`."""
        if self.counts.noise.exact and not sampling:
            value = self.value(functional)
            return value, value
        noise, (events, risk) = self.counts.noise, self._maps
        most = self.counts.most_records_per_unit if sampling else 0

        def scores(places: Floats) -> tuple[Floats, Floats, Floats]:
            path, at_risk = self._first_places if places is _PATH else self._along(places)
            values, slopes = functional(path)
            weights = slopes / at_risk[..., None]
            weights /= np.maximum(np.abs(weights).max(axis=(1, 2), keepdims=True), 1e-300)
            scaled = weights * path
            flat = (len(path), len(events))
            coefficients = weights.reshape(flat) @ events - scaled.reshape(flat) @ risk
            variance = np.zeros(len(path))
            if most:
                spread = (weights * scaled).sum(axis=2) - scaled.sum(axis=2) ** 2
                variance += most * (at_risk * spread).sum(axis=1)
            squares = coefficients**2
            variance += noise.variance * squares.sum(axis=1)
            fourth = noise.kurtosis * noise.variance**2 * (squares**2).sum(axis=1)
            deviation = np.sqrt(np.maximum(variance, 1e-300))
            return values, coefficients @ self.counts.cells / deviation, noise_limit(variance, fourth, critical)

        return score_interval(scores, _PATH)


def _names(causes: tuple[int, ...] | None) -> tuple[int | None, ...]:
    """The causes, or None for any event."""
    return (None,) if causes is None else causes


def _sole_cause(causes: tuple[int, ...] | None) -> int | None:
    """The cause if there is just one."""
    return causes[0] if causes is not None and len(causes) == 1 else None


def bounded_interval(low: Hazards, middle: Hazards, high: Hazards, functional: Functional) -> Interval:
    """An interval that holds for any times of censoring within bins.

    The population's value lies between that of `low` and that of `high`. Each end is the interval's of its own
    convention, with the critical value of Imbens and Manski (2004, eq. 6), as the truth cannot be near both ends.
    """
    first, second = sorted((low.value(functional), high.value(functional)))
    inner = middle.interval(functional)
    deviation = max((inner[1] - inner[0]) / (2 * Z), 1e-12)
    critical = one_sided_critical((second - first) / deviation)
    ends = (*low.interval(functional, critical=critical), *high.interval(functional, critical=critical))
    return Interval(middle.value(functional), min(ends), max(ends))


def one_sided_critical(gap: float) -> float:
    """The c with Phi(c + gap) - Phi(-c) = .95, between 1.645 and 1.96."""
    low, high = 1.6, 2.0
    for _ in range(40):
        middle = (low + high) / 2
        if ndtr(middle + gap) - ndtr(-middle) < 0.95:
            low = middle
        else:
            high = middle
    return high
