"""What a table of exits tells: curves, numbers at risk, medians, means, rates and comparisons, each with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from learner_node.analyses.between_sites import BetweenSites, SiteEstimate, between_sites
from learner_node.analyses.exit_counts import ACTUARIAL, ExitCounts
from learner_node.analyses.group_comparison import LogRank, Ratio, hazard_ratio, log_rank
from learner_node.analyses.hazard_functionals import (
    Functional,
    Hazards,
    Interval,
    bounded_interval,
    incidence_to,
    one_sided_critical,
    restricted_mean,
    survival_to,
)
from learner_node.analyses.part import POPULATION, THESE, Estimate
from learner_node.analyses.score_interval import Z, noise_limit, score_interval
from learner_node.analyses.shares import bounded_count

Floats = NDArray[np.float64]
_FEWEST = 1.0
"""Least number of records with which a group has a curve at all."""


@dataclass(frozen=True)
class Frame:
    """What the plan says."""

    name: str  # of the part
    ends: tuple[float, ...]  # of time bins
    unit: str  # of the time, "" if not declared
    causes: tuple[str, ...]
    cause: int | None  # whose curve and tests; None: any event
    group: str  # variable of the groups, "" for none
    reference: int  # index of the group of reference


@dataclass(frozen=True)
class GroupCounts:
    """One group's cells."""

    name: str
    counts: ExitCounts
    incomplete: float  # noisy number of records without a time, event or entry
    incomplete_cells: int  # cells in that sum


@dataclass(frozen=True)
class Quantity:
    """A number with both of its intervals: sampling and noise, and noise alone."""

    population: Estimate
    sample: Estimate  # these records


@dataclass(frozen=True)
class GroupEstimates:
    """All of one group. Lists over times are at 0 and at each bin's end."""

    name: str
    records: Estimate
    events: Estimate
    incomplete: Estimate
    at_risk: tuple[Estimate, ...]  # records under observation, that leave later
    survival: tuple[Quantity, ...]
    incidence: Mapping[str, tuple[Quantity, ...]]  # of each cause; empty with a single one
    median: Quantity
    mean: Quantity  # restricted to the horizon
    mean_span: tuple[float, float]  # interval of the mean wherever in their bins events are
    rate: Quantity  # events per unit of person-time


@dataclass(frozen=True)
class Comparison:
    """One group against the reference."""

    name: str
    ratio: Quantity  # of hazards
    ratio_span: tuple[float, float]  # interval of the ratio whatever the times of censoring in bins of each group
    sites: Mapping[str, Ratio]  # each site's logarithm
    between: BetweenSites | None


@dataclass(frozen=True)
class SurvivalEstimates:
    """The estimates of a part."""

    frame: Frame
    groups: tuple[GroupEstimates, ...]
    test: LogRank | None  # None with one group
    comparisons: tuple[Comparison, ...]


def estimates(
    frame: Frame, pooled: Sequence[GroupCounts], sites: Mapping[str, Sequence[GroupCounts]]
) -> SurvivalEstimates:
    """Estimates of pooled cells, and hazard ratios of each site that answered for itself."""
    groups = tuple(_group(frame, group) for group in pooled)
    if len(pooled) < 2:
        return SurvivalEstimates(frame, groups, None, ())
    test = log_rank([group.counts for group in pooled], frame.cause)
    comparisons = []
    for index, group in enumerate(pooled):
        if index != frame.reference:
            logs = [_ratio(frame, pooled, index, sampling=sampling) for sampling in (True, False)]
            quantity = Quantity(_of_ratio(logs[0], POPULATION), _of_ratio(logs[1], THESE))
            by_site = (
                {name: _ratio(frame, cells, index, even=True) for name, cells in sites.items()}
                if len(sites) > 1
                else {}
            )
            between = between_sites(
                [
                    SiteEstimate(name, ratio.value, ratio.variance, ratio.noise_variance)
                    for name, ratio in by_site.items()
                ]
            )
            span = float(np.exp(logs[0].any_low)), float(np.exp(logs[0].any_high))
            comparisons.append(Comparison(group.name, quantity, span, by_site, between))
    return SurvivalEstimates(frame, groups, test, tuple(comparisons))


def _ratio(
    frame: Frame, cells: Sequence[GroupCounts], index: int, *, sampling: bool = True, even: bool = False
) -> Ratio:
    reference = cells[frame.reference].counts
    return hazard_ratio(reference, cells[index].counts, frame.cause, sampling=sampling, even=even)


def _of_ratio(ratio: Ratio, of: str) -> Estimate:
    value = None if ratio.value is None else float(np.exp(ratio.value))
    estimand = POPULATION if of == POPULATION else THESE
    return Estimate(value, float(np.exp(ratio.low)), float(np.exp(ratio.high)), estimand)


def _group(frame: Frame, group: GroupCounts) -> GroupEstimates:
    counts = group.counts
    chosen = None if frame.cause is None else (frame.cause,)
    curve = _Curve(counts, chosen)
    survival = [_certain(1.0)] + [curve.quantity(survival_to(index + 1)) for index in range(counts.bins)]
    incidence: dict[str, tuple[Quantity, ...]] = {}
    if counts.causes > 1:
        for index, cause in enumerate(frame.causes):
            others = tuple(other for other in range(counts.causes) if other != index)
            incident = _Curve(counts, (index, *others))
            points = [incident.quantity(incidence_to(end + 1)) for end in range(counts.bins)]
            incidence[cause] = (_certain(0.0), *points)
    start = counts.start_map()
    mean = restricted_mean(counts.widths)
    bounded = curve.bounded(mean)
    events = counts.event_map(frame.cause).sum(axis=0)
    enough = counts.smooth.sum() >= _FEWEST
    value = curve.middle.value(mean) if enough else None
    exact_mean = Estimate(value, *curve.middle.interval(mean, sampling=False), THESE)
    return GroupEstimates(
        name=group.name,
        records=_count(counts, np.ones(len(counts.cells))),
        events=_count(counts, events),
        incomplete=_incomplete(group),
        at_risk=tuple(_count(counts, row) for row in start),
        survival=tuple(survival),
        incidence=incidence,
        median=_median(frame.ends, survival),
        mean=Quantity(Estimate(value, bounded.low, bounded.high), exact_mean),
        mean_span=_mean_span(counts, survival, bounded),
        rate=_rate(counts, events),
    )


def _certain(value: float) -> Quantity:
    return Quantity(Estimate(value, value, value), Estimate(value, value, value, THESE))


@dataclass(frozen=True)
class _Curve:
    """Hazards of one group, for some causes."""

    counts: ExitCounts
    causes: tuple[int, ...] | None

    @cached_property
    def middle(self) -> Hazards:
        """Hazards where the censored miss half of their bin."""
        return Hazards.of(self.counts, self.causes)

    @cached_property
    def extremes(self) -> tuple[Hazards, Hazards]:
        """Hazards as rare and as common as times of censoring within bins may make them."""
        rare, common = (Hazards.extreme(self.counts, self.causes, common=common) for common in (False, True))
        return rare, common

    def bounded(self, functional: Functional) -> Interval:
        """A value with an interval of the population that holds for any times of censoring within bins."""
        rare, common = self.extremes
        return bounded_interval(rare, self.middle, common, functional)

    def quantity(self, functional: Functional) -> Quantity:
        """A probability with both intervals."""
        bounded = self.bounded(functional)
        sample = self.middle.interval(functional, sampling=False)
        value = float(np.clip(bounded.value, 0.0, 1.0)) if self.counts.smooth.sum() >= _FEWEST else None
        return Quantity(
            Estimate(value, max(0.0, bounded.low), min(1.0, bounded.high)),
            Estimate(value, max(0.0, sample[0]), min(1.0, sample[1]), THESE),
        )


def _count(counts: ExitCounts, weights: Floats) -> Estimate:
    """A number of these records, by a linear sum of cells."""
    value = float(weights @ counts.cells)
    variance, fourth = _moments(counts, weights)
    reach = float(noise_limit(variance, fourth)) * float(variance) ** 0.5 if variance > 0 else 0.0
    return bounded_count(value, reach)


def _moments(counts: ExitCounts, weights: Floats) -> tuple[Floats, Floats]:
    """Variance and fourth cumulant of the noise in weighted sums, over the last axis."""
    noise = counts.noise
    return noise.variance * (weights**2).sum(axis=-1), noise.kurtosis * noise.variance**2 * (weights**4).sum(axis=-1)


def _incomplete(group: GroupCounts) -> Estimate:
    noise = group.counts.noise.of_cells(group.incomplete_cells)
    reach = 0.0 if noise.exact else Z * noise.variance**0.5
    return bounded_count(group.incomplete, reach)


def _median(ends: Sequence[float], survival: Sequence[Quantity]) -> Quantity:
    """The time by which half have had an event, its value interpolated within a bin; inf where not reached.

    The lower end is the last time before the first at which the interval reaches down to a half; the upper end the
    first time from which on all intervals are below.
    """
    times = np.array([0.0, *ends])

    def of(points: Sequence[Estimate], sample: bool) -> Estimate:
        low = np.array([point.low for point in points])
        high = np.array([point.high for point in points])
        first = int(np.flatnonzero(low <= 0.5)[0]) if np.any(low <= 0.5) else len(times)
        last = int(np.flatnonzero(high >= 0.5)[-1])
        bounds = (times[max(first - 1, 0)], times[last + 1] if last + 1 < len(times) else np.inf)
        values = [point.value for point in points]
        value: float | None = None
        if None not in values:
            curve = np.minimum.accumulate(np.array(values, dtype=np.float64))
            below = np.flatnonzero(curve <= 0.5)
            if len(below):
                after = int(below[0])
                part = (curve[after - 1] - 0.5) / max(curve[after - 1] - curve[after], 1e-12)
                value = float(times[after - 1] + part * (times[after] - times[after - 1]))
        return Estimate(value, float(bounds[0]), float(bounds[1]), THESE if sample else POPULATION)

    return Quantity(
        of([point.population for point in survival], sample=False),
        of([point.sample for point in survival], sample=True),
    )


def _mean_span(counts: ExitCounts, survival: Sequence[Quantity], mean: Interval) -> tuple[float, float]:
    """An interval of the restricted mean that holds wherever in their bins events and censored exits are.

    The area below a falling curve lies between those of its values at the ends and at the starts of bins.
    """
    values = [1.0 if point.population.value is None else point.population.value for point in survival]
    half = float((counts.widths * -np.diff(np.minimum.accumulate(values))).sum()) / 2
    return max(0.0, mean.low - half), min(float(counts.ends[-1]), mean.high + half)


def _rate(counts: ExitCounts, events: Floats) -> Quantity:
    """Events per unit of person-time before the horizon, events in the middle of their bins.

    The population's interval holds wherever in their bins records are censored.
    """
    smooth = counts.smooth
    exposure = float(counts.time_map() @ smooth)
    if exposure <= 0:
        nothing = Estimate(None, 0.0, np.inf)
        return Quantity(nothing, Estimate(None, 0.0, np.inf, THESE))
    value = float(events @ smooth) / exposure
    scale = max(value, 1.0 / exposure)
    places = np.concatenate([[0.0], scale * np.exp(np.linspace(-8.0, 8.0, 81))])

    def ends(most: int, missed: float, critical: float = Z) -> tuple[float, float]:
        times = counts.time_map(missed)
        observed = max(float(times @ smooth), 0.0)

        def scores(rates: Floats) -> tuple[Floats, Floats, Floats]:
            weights = events[None] - rates[:, None] * times
            noise, fourth = _moments(counts, weights)
            sampling = np.maximum(weights**2 @ smooth, rates * observed)
            variance = np.maximum(noise + most * sampling, 1e-100)
            return rates, weights @ counts.cells / np.sqrt(variance), noise_limit(variance, fourth, critical)

        low, high = score_interval(scores, places)
        return low, np.inf if high >= places[-1] else high

    sample = (value, value) if counts.noise.exact else ends(0, ACTUARIAL)
    most = counts.most_records_per_unit
    inner = ends(most, ACTUARIAL)
    times = [max(float(counts.time_map(missed) @ smooth), 1e-9) for missed in (0.0, 1.0)]
    gap = float(events @ smooth) * (1.0 / times[1] - 1.0 / times[0])
    critical = one_sided_critical(gap / max((inner[1] - inner[0]) / (2 * Z), 1e-12))
    bounds = [*ends(most, 0.0, critical), *ends(most, 1.0, critical)]
    return Quantity(Estimate(value, min(bounds), max(bounds)), Estimate(value, *sample, THESE))
