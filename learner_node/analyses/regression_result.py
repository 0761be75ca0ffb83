"""What a regression found: its table, words, JSON, CSV and methods."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from expril.report.document import Block, Fold, Text
from expril.report.forest import NOT_ESTIMABLE, forest_legend, forest_table, p_text
from expril.report.table import Cell, Column, Group, Table
from learner_node.analyses.between_sites import BetweenSites
from learner_node.analyses.figures import between_sites_blocks, forest_row
from learner_node.analyses.inference import holm
from learner_node.analyses.part import LEVEL, POPULATION, THESE, Estimand, Estimate, finite
from learner_node.analyses.regression_fit import Fit
from learner_node.analyses.regression_terms import Model
from learner_node.analyses.score_interval import noise_limit, normal_score
from protocol.rationals import written

RATIOS: dict[Model, str] = {
    "linear": "",
    "logistic": "odds ratio",
    "poisson": "rate ratio",
    "hazards": "hazard ratio",
}
_LARGEST_RATIO = 1e6
_NAMES: dict[Model, str] = {
    "linear": "Linear",
    "logistic": "Logistic",
    "poisson": "Poisson",
    "hazards": "Piecewise exponential proportional hazards",
}


@dataclass(frozen=True)
class CoefficientRow:
    """One coefficient, as a ratio where the model has one, with intervals of both estimands."""

    covariate: str
    level: str  # or "per a bin" of a trend
    reference: str  # "" of a trend
    population: Estimate  # with p
    records: Estimate  # of the records that were counted: noise alone
    coefficient: float | None  # on the scale of the linear predictor
    deviation: float | None  # its standard error, of sampling and noise
    noise_deviation: float | None  # of noise alone
    p_holm: float | None  # adjusted over all coefficients of the table

    @property
    def name(self) -> str:
        """Covariate, level and reference in words."""
        return f"{self.covariate}: {self.level}" + (f" against {self.reference}" if self.reference else "")


@dataclass(frozen=True)
class Counted:
    """What the answers hold, for the foot and the methods."""

    records: float  # noisy number of complete records
    events: float | None  # noisy number with the event
    sites: int
    epsilon: Fraction
    tables: int
    block: int  # covariates in each
    most_records: int
    secure: bool
    stratified: bool
    strata_wanted: bool
    bins: tuple[str, ...]  # covariates that are numbers
    excludes: bool  # whether records without a covariate are left out
    intervals: int  # of time; 0 without


def coefficient_rows(
    solution: Fit, intercepts: int, terms: Sequence[tuple[str, str, str]], model: Model
) -> Iterator[CoefficientRow]:
    """Rows of the table.

    Quantiles are Student's in a linear model and else normal, with Cornish and Fisher's term of the noise's kurtosis.
    """
    wide = float(ndtri((1 + LEVEL) / 2))
    quantile = float(stdtrit(solution.residual_degrees, (1 + LEVEL) / 2)) if model == "linear" else wide
    values = []
    for index in range(len(terms)):
        place = intercepts + index
        if not solution.estimable[place]:
            values.append((0.0, np.inf, np.inf, np.inf, np.inf, 1.0))
            continue
        value = float(solution.coefficients[place])
        deviation = float(solution.covariance[place, place]) ** 0.5
        # Fieller's widening for noise in the slope: with noise alone nothing else makes up for it.
        slope = (wide * float(solution.information_noise[place])) ** 2
        variance = max(float(solution.noise_covariance[place, place]), 0.0)
        noise = variance**0.5 / (1 - slope)
        excess = float(solution.noise_kurtosis[place])
        mixed = excess * (variance / deviation**2) ** 2
        score = -normal_score(abs(value) / deviation, mixed)
        tail = stdtr(solution.residual_degrees, score) if model == "linear" else ndtr(score)
        halves = _limit(quantile, mixed) * deviation, _limit(wide, excess) * noise
        values.append((value, deviation, noise, *halves, float(2 * tail)))
    adjusted = holm([p for *_, p in values])
    for (covariate, level, reference), (value, deviation, noise, half, noise_half, p), holm_p in zip(
        terms, values, adjusted, strict=True
    ):
        ratio = bool(RATIOS[model])
        if not np.isfinite(deviation):
            nothing = _estimate(None, np.inf, ratio, POPULATION, None)
            records = _estimate(None, np.inf, ratio, THESE, None)
            yield CoefficientRow(covariate, level, reference, nothing, records, None, None, None, None)
            continue
        yield CoefficientRow(
            covariate,
            level,
            reference,
            _estimate(value, half, ratio, POPULATION, p),
            _estimate(value, noise_half, ratio, THESE, None),
            value,
            deviation,
            noise,
            holm_p,
        )


def _limit(critical: float, excess: float) -> float:
    return float(noise_limit(np.ones(()), np.asarray(excess), critical))


def _estimate(value: float | None, half: float, ratio: bool, of: Estimand, p: float | None) -> Estimate:
    if value is None:
        return Estimate(None, 0.0 if ratio else -np.inf, np.inf, of)
    low, high = value - half, value + half
    if not ratio:
        return Estimate(value, low, high, of, p)
    high = np.exp(high) if high < np.log(_LARGEST_RATIO) else np.inf
    low = np.exp(low) if low > -np.log(_LARGEST_RATIO) else 0.0
    return Estimate(float(np.exp(value)), float(low), float(high), of, p)


@dataclass(frozen=True)
class RegressionResult:
    """A regression table."""

    name: str
    model: Model
    outcome: str  # in words
    binary: bool  # whether the outcome is an event or none
    rows: tuple[CoefficientRow, ...]
    counted: Counted
    between: Mapping[int, BetweenSites]  # number of a row -> what sites say; empty where only sums were opened

    @property
    def measure(self) -> str:
        """What a row shows: "odds ratio", or "difference"."""
        if self.model == "poisson" and self.binary:
            return "risk ratio"
        return RATIOS[self.model] or "difference"

    @property
    def foot(self) -> list[str]:
        """Sentences below the table."""
        counted = self.counted
        lines = [f"About {max(counted.records, 0):,.0f} complete records" + self._events + "."]
        if any(not row.population.estimable for row in self.rows):
            lines.append(
                f"{NOT_ESTIMABLE.capitalize()}: the records or the noise leave all values possible, as with a level "
                "that is rare, a group without or with nothing but events, or an epsilon that is small for the "
                "number of covariates."
            )
        if counted.bins:
            lines.append(
                f"{_list(counted.bins)} {'are' if len(counted.bins) > 1 else 'is'} adjusted for in bins only: "
                "differences within a bin remain, and with many records they can make a coefficient of a covariate "
                "significant that has no effect."
            )
        if counted.most_records > 1:
            lines.append(
                f"Up to {counted.most_records} records of one unit count; the variance of sampling is multiplied by "
                f"{counted.most_records} as a bound."
            )
        if counted.strata_wanted and not counted.stratified:
            lines.append("Sites are no strata here: only the sum of their answers was opened, or one site answered.")
        return lines

    @property
    def _events(self) -> str:
        return (
            "" if self.counted.events is None else f", of these about {max(self.counted.events, 0):,.0f} with the event"
        )

    def to_text(self) -> str:
        """A table for a terminal."""
        head = f"{_NAMES[self.model]} regression of {self.outcome}: {self.measure}, 95 % interval"
        width = max(len(row.name) for row in self.rows)
        lines = [head, *(f"  {row.name:<{width}}  {self._words(row)}" for row in self.rows), *self.foot]
        return "\n".join(lines)

    def _words(self, row: CoefficientRow) -> str:
        population = row.population
        if not population.estimable:
            return NOT_ESTIMABLE
        return (
            f"{_number(population.value)} ({_interval(population)}), p {p_text(population.p)}, "
            f"Holm {p_text(row.p_holm)} "
            f"[{POPULATION}]; {_interval(row.records)} [{THESE}]"
        )

    def to_frames(self) -> Mapping[str, pl.DataFrame]:
        """The table, and where sites answered for themselves their estimates (logarithms of ratios)."""
        rows = [
            {
                "covariate": row.covariate,
                "level": row.level,
                "reference": row.reference,
                "measure": self.measure,
                "value": row.population.value,
                "low": row.population.low,
                "high": row.population.high,
                "p": row.population.p,
                "p_holm": row.p_holm,
                "these_records_low": row.records.low,
                "these_records_high": row.records.high,
                "coefficient": row.coefficient,
                "standard_error": row.deviation,
                "standard_error_noise": row.noise_deviation,
            }
            for row in self.rows
        ]
        frames = {"coefficients": pl.DataFrame(rows, infer_schema_length=None)}
        sites = [
            {
                "covariate": self.rows[index].covariate,
                "level": self.rows[index].level,
                "site": site.site,
                "coefficient": site.value,
                "standard_error": site.variance**0.5 if site.value is not None else None,
            }
            for index, comparison in self.between.items()
            for site in comparison.sites
        ]
        if sites:
            frames["sites"] = pl.DataFrame(sites, infer_schema_length=None)
        return frames

    def to_builtins(self) -> dict[str, Any]:
        """Rows and what was counted; None for infinite ends."""
        frames = {
            name: [{key: finite(value) for key, value in row.items()} for row in frame.to_dicts()]
            for name, frame in self.to_frames().items()
        }
        heterogeneity = [
            {
                "covariate": self.rows[index].covariate,
                "level": self.rows[index].level,
                "q": finite(comparison.q),
                "p": finite(comparison.p),
                "tau_squared": finite(comparison.tau_squared),
                "i_squared": finite(comparison.i_squared),
            }
            for index, comparison in self.between.items()
        ]
        return {
            "model": self.model,
            "outcome": self.outcome,
            "measure": self.measure,
            "records": self.counted.records,
            "events": self.counted.events,
            "epsilon": written(self.counted.epsilon),
            "tables": self.counted.tables,
            **frames,
            "heterogeneity": heterogeneity,
            "foot": list(self.foot),
        }

    def blocks(self) -> Sequence[Block]:
        """The table and its foot."""
        columns: tuple[Column[CoefficientRow], ...] = (
            Column("Covariate", lambda row: row.covariate, names=True),
            Column("Level", lambda row: row.level),
            Column("Reference", lambda row: row.reference or "–"),
            Column(self.measure.capitalize(), lambda row: _number(row.population.value), number=True),
            Column(f"95 % interval, {POPULATION}", lambda row: _interval(row.population), number=True),
            Column("p", self._marked, number=True),
            Column("p, Holm", lambda row: p_text(row.p_holm), number=True),
            Column(f"95 % interval, {THESE}", lambda row: _interval(row.records), number=True),
        )
        caption = f"{_NAMES[self.model]} regression of {self.outcome}"
        table = Table(caption, columns, (Group(self.rows),))
        return [table, *self._forests(), *(Text(sentence, "fine") for sentence in self.foot)]

    def _forests(self) -> Iterator[Block]:
        """All coefficients, and each site's below."""
        ratio = bool(RATIOS[self.model])
        rows = [forest_row(row.name, row.population) for row in self.rows]
        null = 1.0 if ratio else 0.0
        yield forest_legend(rows, f"no effect ({null:g})")
        caption = f"{self.measure.capitalize()} of {self.outcome}"
        yield forest_table(caption, rows, measure=self.measure, null=null, log=ratio, first="covariate")
        forests: list[Block] = []
        for index, comparison in self.between.items():
            title = f"{self.measure.capitalize()} by site, {self.rows[index].name}"
            forests += between_sites_blocks(
                comparison.sites, comparison, measure=self.measure, log=ratio, caption=title
            )
        if forests:
            yield Fold("Site by site", forests)

    def _marked(self, row: CoefficientRow) -> Cell:
        p = row.population.p
        return Cell(p_text(p), strong=p is not None and p < 1 - LEVEL)

    def methods(self) -> Sequence[str]:
        """Sentences for the methods paragraph."""
        counted = self.counted
        design = (
            "one table of the outcome by all covariates"
            if counted.tables == 1
            else f"{counted.tables} tables of the outcome by {counted.block} covariates each, so that every pair of "
            "covariates is in one"
        )
        sentences = [
            (
                f"{_NAMES[self.model]} regression of {self.outcome} was fitted to noisy counts of {design}, at an "
                f"epsilon of {written(counted.epsilon)}."
            ),
            (
                "Coefficients solve the model's estimating equations, which are linear in the counts, so that the "
                "noise adds to their variance by a known amount; intervals are 95 % and hold the variance of sampling "
                "(the larger of the model-based and the robust one) and of noise."
            ),
        ]
        if counted.tables > 1:
            sentences.append(
                "Interactions of three and more covariates' distributions were taken from the distribution of maximum "
                "entropy that agrees with all pairs."
            )
        if counted.intervals:
            sentences.append(
                f"The baseline hazard is constant within each of {counted.intervals} intervals of time; a record "
                "counts for half of the interval in which it leaves."
            )
        if counted.bins:
            sentences.append(
                f"{_list(counted.bins)} entered in bins; the estimand is the coefficient in the population of binned "
                "records, and confounding within bins is not adjusted for."
            )
        if counted.stratified:
            sentences.append("Each site had a baseline of its own.")
        if counted.excludes:
            sentences.append(
                f"About {max(counted.records, 0):,.0f} records with all covariates were analysed (complete cases), "
                "which assumes values missing at random."
            )
        if counted.most_records > 1:
            sentences.append(
                f"Units have up to {counted.most_records} records; estimates are weighted by record, and the variance "
                f"of sampling was multiplied by {counted.most_records} as a bound on clustering."
            )
        sentences.append(
            f"p-values are two-sided Wald tests; Holm's adjustment is over the {len(self.rows)} coefficients of this "
            "table."
        )
        return sentences


def _number(value: float | None) -> str:
    if value is None:
        return NOT_ESTIMABLE
    return f"{value:.2f}" if 0.095 <= abs(value) < 1000 else f"{value:.3g}"


def _interval(estimate: Estimate) -> str:
    if not estimate.estimable:
        return "–"
    high = "any" if np.isinf(estimate.high) else _number(estimate.high)
    return f"{_number(estimate.low)} to {high}"


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
