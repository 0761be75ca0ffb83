"""Regression tables from noisy counts: linear, logistic, Poisson and proportional hazards.

`regression_terms` says what enters the model, `regression_design` which tables are asked, `regression_fit` how the
coefficients and their covariance follow, and `regression_result` what is shown.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from learner_node.analyses.between_sites import BetweenSites, SiteEstimate, between_sites
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers, TableQuestion
from learner_node.analyses.part import EffectSize, EffectTest, Expected, Setting
from learner_node.analyses.power import normal_power, percent
from learner_node.analyses.regression_design import (
    Block,
    Calibration,
    Moments,
    choose_blocks,
)
from learner_node.analyses.regression_fit import LIMIT, Fit, Rows, fit
from learner_node.analyses.regression_result import RATIOS, Counted, RegressionResult, coefficient_rows
from learner_node.analyses.regression_terms import (
    Covariate,
    Model,
    Outcome,
    event_outcome,
    number_outcome,
    time_outcome,
)
from learner_node.analyses.score_interval import Z
from protocol.errors import ConfigurationError
from protocol.mistakes import first_repeated
from protocol.partitions.cross_bins import Range
from protocol.rationals import Rational
from protocol.schema import Schema

Floats = NDArray[np.float64]

MOST_COVARIATES = 12
MOST_CONTRASTS = 1_500
"""Most contrasts of covariates and their pairs; their matrix is inverted."""
_RATIO = 2.0


class Regression(
    msgspec.Struct, frozen=True, tag_field="kind", tag="regression", forbid_unknown_fields=True, omit_defaults=True
):
    """A regression table.

    The estimand is the coefficient vector that solves the model's equations in the population of *binned* records: a
    number in bins adjusts for its bins only.
    """

    name: str
    model: Model
    covariates: tuple[Covariate, ...]
    outcome: str = ""  # the label, an outcome or an attribute; "" of hazards: the schema's time_to_event
    event: str | tuple[str, ...] = ()  # levels of the outcome that count; () of two levels: the second
    cause: str | None = None  # of hazards: the event that counts; None: any
    outcome_edges: tuple[float, ...] = ()  # of an outcome that is a number
    outcome_scores: tuple[float, ...] = ()  # of its bins; (): their middles
    strata: str = ""  # "site": each site has an intercept, or baseline hazard, of its own
    expected: Expected = Expected()
    weight: Rational | int | float | str = 1

    def _outcome(self, schema: Schema) -> Outcome:
        """Raises ConfigurationError."""
        if self.model == "hazards":
            if self.outcome or self.event or self.outcome_edges or self.outcome_scores:
                raise ConfigurationError("hazards take the schema's time_to_event; take outcome, event and edges out")
            return time_outcome(schema, self.cause)
        if self.cause is not None:
            raise ConfigurationError("cause is of hazards; event says which levels of an outcome count")
        if not self.outcome:
            raise ConfigurationError("outcome must name the variable that is explained")
        if self.outcome_edges or self.model == "linear":
            if self.event:
                raise ConfigurationError("event is of an outcome with levels; a number has outcome_edges")
            return number_outcome(schema, self.outcome, self.outcome_edges, self.outcome_scores, self.model)
        if self.outcome_scores:
            raise ConfigurationError("outcome_scores are of the bins of outcome_edges; state these, too")
        events = (self.event,) if isinstance(self.event, str) else self.event
        return event_outcome(schema, self.outcome, events)

    def _checked(self, schema: Schema) -> tuple[Outcome, list[Axis]]:
        """The outcome and the covariates' axes. Raises ConfigurationError: the schema does not have them so."""
        outcome = self._outcome(schema)
        if not self.covariates:
            raise ConfigurationError("covariates must name at least one variable")
        if len(self.covariates) > MOST_COVARIATES:
            raise ConfigurationError(f"there are {len(self.covariates)} covariates; at most {MOST_COVARIATES}")
        names = [covariate.variable for covariate in self.covariates]
        if again := first_repeated(names):
            raise ConfigurationError(f"covariate {again!r} is listed twice")
        for bins in outcome.factors:
            if bins.attribute in names:
                raise ConfigurationError(f"{bins.attribute!r} is the outcome, so it cannot be a covariate")
        if self.strata not in ("", "site"):
            raise ConfigurationError("strata can only be 'site'")
        axes = []
        for covariate in self.covariates:
            axis = Axis.of(covariate.factor(schema), schema)
            covariate.check(axis)
            axes.append(axis)
        self._check_size(outcome, axes)
        return outcome, axes

    def _levels(self, axes: Sequence[Axis]) -> tuple[int, ...]:
        return tuple(len(covariate.cells(axis)) for covariate, axis in zip(self.covariates, axes, strict=True))

    def _blocks(self, outcome: Outcome, axes: Sequence[Axis]) -> tuple[Block, ...]:
        return choose_blocks(self._levels(axes), outcome.count, len(outcome.factors))

    def _check_size(self, outcome: Outcome, axes: Sequence[Axis]) -> None:
        levels = self._levels(axes)
        contrasts = sum(levels) - len(levels)
        pairs = (contrasts**2 - sum((count - 1) ** 2 for count in levels)) // 2
        if 1 + contrasts + pairs > MOST_CONTRASTS or not self._blocks(outcome, axes):
            raise ConfigurationError(
                f"these covariates have {contrasts} coefficients and {pairs} pairs, more than tables can tell apart "
                f"({MOST_CONTRASTS} together); take fewer covariates or wider bins"
            )

    def questions(self, schema: Schema) -> Sequence[TableQuestion]:
        """One table of outcome and covariates for each block of covariates, among records that are complete."""
        outcome, axes = self._checked(schema)
        factors = [covariate.factor(schema) for covariate in self.covariates]
        complete = [
            Range(bins, covariate.cells(axis))
            for bins, covariate, axis in zip(factors, self.covariates, axes, strict=True)
        ]
        tables = []
        for block in self._blocks(outcome, axes):
            others = [index for index in range(len(factors)) if index not in block]
            tables.append(
                TableQuestion(
                    (*outcome.factors, *(factors[index] for index in block)),
                    tuple(complete[index] for index in others if len(complete[index].cells) < len(axes[index])),
                )
            )
        return tables

    def words(self, schema: Schema) -> str:
        """What a steward reads."""
        outcome, axes = self._checked(schema)
        blocks = self._blocks(outcome, axes)
        names = ", ".join(covariate.variable for covariate in self.covariates)
        tables = "one table" if len(blocks) == 1 else f"{len(blocks)} tables of {len(blocks[0])} covariates each"
        return (
            f"A {_TITLES[self.model]} of {outcome.words} on {names}: {tables} with the number of records in each "
            "combination of the outcome's and the covariates' levels or bins."
        )

    def _tables(
        self, tables: Sequence[NoisyTable], outcome: Outcome, axes: Sequence[Axis], blocks: Sequence[Block]
    ) -> tuple[list[Floats], list[NoiseLaw]]:
        """Counts (outcome cells, covariates' cells ...) of what counts, and the noise of a cell."""
        values, laws = [], []
        for table, block in zip(tables, blocks, strict=True):
            cells = (*outcome.cells, *(self.covariates[index].cells(axes[index]) for index in block))
            counts = table.values[np.ix_(*cells)]
            values.append(counts.reshape(outcome.count, *counts.shape[len(outcome.cells) :]))
            laws.append(table.noise)
        return values, laws

    def _design(self, axes: Sequence[Axis], points: NDArray[np.intp]) -> Floats:
        """Design columns at points (N, d)."""
        codings = [covariate.columns(axis)[0] for covariate, axis in zip(self.covariates, axes, strict=True)]
        return np.concatenate([coding[points[:, index]] for index, coding in enumerate(codings)], axis=1)

    def read(self, answers: TableAnswers) -> RegressionResult:
        """Fit the model to the answers as they came."""
        outcome, axes = self._checked(answers.schema)
        levels = self._levels(axes)
        blocks = self._blocks(outcome, axes)
        rows = outcome.rows(self.model)
        most = answers.pooled[0].most_records_per_unit
        pooled = self._calibration(levels, blocks, *self._tables(answers.pooled, outcome, axes, blocks))
        design = self._design(axes, pooled.points)
        sites = {}
        for site, tables in answers.by_site.items():
            part = self._tables(tables, outcome, axes, blocks)
            sites[site] = _site(pooled, levels, blocks, *part)
        stratified = self.strata == "site" and len(sites) > 1
        if stratified:
            solution = fit(_by_site(rows, len(sites)), design, _stacked(list(sites.values())), most_records=most)
        else:
            solution = fit(rows, design, pooled, most_records=most)
        intercepts = rows.count * (len(sites) if stratified else 1)
        terms = [
            (covariate.variable, label, reference)
            for covariate, axis in zip(self.covariates, axes, strict=True)
            for label, reference in [(text, covariate.columns(axis)[2]) for text in covariate.columns(axis)[1]]
        ]
        between: dict[int, BetweenSites] = {}
        if len(sites) > 1:
            fits = {site: fit(rows, design, calibration, most_records=most) for site, calibration in sites.items()}
            between = _between(fits, rows.count, len(terms))
        events = float((rows.response > 0).any(axis=0) @ pooled.weights(pooled.sums).sum(axis=1))
        counted = Counted(
            records=solution.records,
            events=events if outcome.binary or self.model == "hazards" else None,
            sites=answers.pooled[0].sites,
            epsilon=answers.epsilon,
            tables=len(blocks),
            block=len(blocks[0]),
            most_records=most,
            secure=answers.secure,
            stratified=stratified,
            strata_wanted=self.strata == "site",
            bins=tuple(axis.variable for axis in axes if axis.edges),
            excludes=any(covariate.missing == "exclude" for covariate in self.covariates),
            intervals=rows.count if self.model == "hazards" else 0,
        )
        return RegressionResult(
            self.name,
            self.model,
            outcome.words,
            outcome.binary,
            tuple(coefficient_rows(solution, intercepts, terms, self.model)),
            counted,
            between,
        )

    def _calibration(
        self, levels: Sequence[int], blocks: Sequence[Block], tables: list[Floats], laws: Sequence[NoiseLaw]
    ) -> Calibration:
        if len(blocks) == 1:
            return Calibration.joint(levels, tables[0], laws[0].variance, laws[0].kurtosis)
        return Calibration.pairs(Moments.of(levels, blocks, tables, [law.variance for law in laws]))

    def quote(self, setting: Setting) -> Sequence[tuple[str, str]]:
        """The interval to expect around a ratio of 2, or a difference, for each covariate.

        It assumes even cells, independent covariates, and the expected share of records with an event.
        """
        solution, places = self._foreseen(setting)
        return [self._quoted(name, solution, place) for name, place in places]

    def _foreseen(self, setting: Setting) -> tuple[Fit, list[tuple[str, slice]]]:
        """The fit of expected counts without effects, and the places of each covariate's coefficients."""
        outcome, axes = self._checked(setting.schema)
        levels = self._levels(axes)
        blocks = self._blocks(outcome, axes)
        records = float(sum(setting.sizes))
        shares = _assumed(outcome, self.model, self.expected.events)
        tables = []
        for block in blocks:
            shape = [levels[index] for index in block]
            even = np.full(shape, records / np.prod(shape))
            tables.append(shares.reshape(-1, *([1] * len(shape))) * even)
        calibration = self._calibration(levels, blocks, tables, setting.noises)
        design = self._design(axes, calibration.points)
        rows = outcome.rows(self.model)
        solution = fit(rows, design, calibration, most_records=setting.most_records_per_unit)
        places, start = [], rows.count
        for covariate, axis in zip(self.covariates, axes, strict=True):
            columns = covariate.columns(axis)[0].shape[1]
            places.append((covariate.variable, slice(start, start + columns)))
            start += columns
        return solution, places

    def _quoted(self, name: str, solution: Fit, place: slice) -> tuple[str, str]:
        ratio = RATIOS[self.model]
        subject = f"{ratio} of {_RATIO:g} for {name}" if ratio else f"difference for {name}"
        if not solution.estimable[place].all():
            return subject, "not estimable: the noise hides how the covariates hang together"
        half = Z * float(np.median(np.diag(solution.covariance)[place])) ** 0.5
        if not ratio:
            return subject, f"known within {half:.2g}"
        return subject, f"{_RATIO * np.exp(-half):.2g} to {_RATIO * np.exp(half):.2g}"

    @property
    def measures(self) -> Sequence[str]:
        """The model's ratio, or the difference of a linear one."""
        return (RATIOS[self.model] or "difference",)

    def effect_tests(self, setting: Setting, stated: EffectSize | None) -> Sequence[EffectTest]:
        """The test of one coefficient of each covariate, the others without effect."""
        ratio = RATIOS[self.model]
        if stated is None:
            if not ratio:
                return ()
            stated = EffectSize(ratio, _RATIO)
        if stated.measure not in self.measures:
            return ()
        effect = float(np.log(stated.size)) if ratio else stated.size
        solution, places = self._foreseen(setting)
        if not np.isfinite(solution.covariance).all():
            # So much noise that there is no solution; what it adds is then found with less of it.
            setting = replace(setting, noises=[NoiseLaw(1.0, noise.draws) for noise in setting.noises])
            solution, places = self._foreseen(setting)
        counted = self._checked(setting.schema)[0]
        events = counted.binary or self.model == "hazards"
        assumed = "even levels" + (f", {percent(self.expected.events)} with the event" if events else "")
        return [
            EffectTest(
                f"{stated.measure} of {stated.size:g} for {name} ({assumed})",
                _wald_power(effect, solution, place, setting.noises[0].variance),
            )
            for name, place in places
        ]


def _wald_power(effect: float, solution: Fit, place: slice, variance: float) -> Callable[[Sequence[NoiseLaw]], float]:
    """The power of a test of one of a covariate's coefficients, by the noise; `variance` is that of the solution."""
    total = float(np.median(np.diag(solution.covariance)[place]))
    noise = float(np.median(np.diag(solution.noise_covariance)[place]))
    relative = float(solution.information_noise[place].max())

    def power(noises: Sequence[NoiseLaw]) -> float:
        grown = noises[0].variance / variance if variance else 0.0
        if not relative * grown**0.5 <= LIMIT:
            return 0.0
        spread = total - noise + grown * noise
        return normal_power(effect / spread**0.5) if spread > 0 else 0.0

    return power


_TITLES: dict[Model, str] = {
    "linear": "linear regression",
    "logistic": "logistic regression",
    "poisson": "Poisson regression",
    "hazards": "proportional hazards regression",
}


def _assumed(outcome: Outcome, model: Model, events: float) -> Floats:
    """Shares of the outcome's cells that a quote assumes."""
    shares = np.ones(outcome.count)
    response = np.array(outcome.response)
    event = (response > 0).any(axis=0)
    if outcome.binary or model == "hazards":
        shares[event] = events / max(event.sum(), 1)
        if model == "hazards":
            # All others are followed to the end.
            last = outcome.count // len(outcome.cells[0]) * (len(outcome.cells[0]) - 1)
            shares[~event] = 0.0
            shares[last:] = (1 - events) / (outcome.count - last)
        else:
            shares[~event] = (1 - events) / max((~event).sum(), 1)
    shares /= shares.sum()
    return shares


def _site(
    pooled: Calibration, levels: Sequence[int], blocks: Sequence[Block], tables: list[Floats], laws: list[NoiseLaw]
) -> Calibration:
    """One site's answers with the reference of all sites together."""
    if len(blocks) == 1:
        return Calibration.joint(levels, tables[0], laws[0].variance, laws[0].kurtosis)
    moments = Moments.of(levels, blocks, tables, [law.variance for law in laws])
    return pooled.of_outcomes(moments.sums, np.broadcast_to(moments.variances, moments.sums.shape))


def _by_site(rows: Rows, sites: int) -> Rows:
    """The rows of each site, whose outcome cells are its own."""
    eye = np.eye(sites)
    response: Floats = np.kron(eye, rows.response).astype(np.float64)
    return Rows(rows.link, response, np.kron(eye, rows.exposure).astype(np.float64), rows.periods)


def _stacked(sites: Sequence[Calibration]) -> Calibration:
    """The outcome cells of all sites, one after the other."""
    sums = np.concatenate([site.sums for site in sites])
    return sites[0].of_outcomes(sums, np.concatenate([site.variances for site in sites]))


def _between(fits: dict[str, Fit], intercepts: int, terms: int) -> dict[int, BetweenSites]:
    """For each term with an estimate at some site, what sites say of it."""
    comparison = {}
    for index in range(terms):
        place = intercepts + index
        estimates = [
            SiteEstimate(
                site,
                float(solution.coefficients[place]) if solution.estimable[place] else None,
                float(solution.covariance[place, place]) if solution.estimable[place] else float("inf"),
                float(solution.noise_covariance[place, place]) if solution.estimable[place] else 0.0,
            )
            for site, solution in fits.items()
        ]
        result = between_sites(estimates)
        if result is not None:
            comparison[index] = result
    return comparison
