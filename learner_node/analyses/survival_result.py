"""The result of a survival part as text, tables, a curve with its band, and sentences of the methods paragraph."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

import polars as pl

from expril.report.curves import Curve, curve_charts
from expril.report.document import Block, Charts, Fold, Heading, Text
from expril.report.forest import forest_legend, forest_table
from expril.report.table import Column, Table
from learner_node.analyses.between_sites import SiteEstimate
from learner_node.analyses.figures import between_sites_blocks, forest_row, p_equation
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.part import POPULATION, Estimate, finite
from learner_node.analyses.survival_estimates import GroupEstimates, Quantity, SurvivalEstimates
from protocol.rationals import written

_MOST_TIMES = 12
"""Most columns of the table of numbers at risk."""


@dataclass(frozen=True)
class SurvivalResult:
    """Estimates, and how they were asked."""

    estimates: SurvivalEstimates
    epsilon: Fraction
    noise: NoiseLaw  # in each cell of the pooled table
    secure: bool
    sites: int

    @property
    def _times(self) -> tuple[float, ...]:
        return (0.0, *self.estimates.frame.ends)

    @property
    def _unit(self) -> str:
        unit = self.estimates.frame.unit
        return f" {unit}" if unit else ""

    def to_text(self) -> str:
        """For a terminal."""
        lines = []
        for group in self.estimates.groups:
            lines.append(f"{group.name}: these records {_number(group.records)}, with an event {_number(group.events)}")
            lines += [
                f"  without the event by {time:g}{self._unit}: population {_percent(point.population)}; these records "
                f"{point.sample.low:.1%} to {point.sample.high:.1%}".replace("%", " %").replace("  %", " %")
                for time, point in zip(self._times[1:], group.survival[1:], strict=True)
            ]
            for name, quantity in (("median", group.median), ("restricted mean", group.mean)):
                lines.append(
                    f"  {name}{self._unit}: population {_plain(quantity.population)}; these records "
                    f"{_digits(quantity.sample.low)} to {_digits(quantity.sample.high)}"
                )
        lines += [" ".join(pair) for pair in self._tests()]
        return "\n".join(lines)

    def to_frames(self) -> Mapping[str, pl.DataFrame]:
        """`curves`: a row a group and time. `summary`: a row a group. `comparisons`: a row a group but the first."""
        rows = []
        for group in self.estimates.groups:
            for index, time in enumerate(self._times):
                row: dict[str, Any] = {"group": group.name, "time": time}
                row |= _ends("at_risk", group.at_risk[index])
                row |= _interval_columns("survival", group.survival[index])
                for cause, points in group.incidence.items():
                    row |= _interval_columns(f"incidence_{cause}", points[index])
                rows.append(row)
        summary = [
            _named(group.name)
            | _ends("records", group.records)
            | _ends("events", group.events)
            | _ends("incomplete", group.incomplete)
            | _interval_columns("median", group.median)
            | _interval_columns("restricted_mean", group.mean)
            | {"restricted_mean_any_low": group.mean_span[0], "restricted_mean_any_high": group.mean_span[1]}
            | _interval_columns("rate", group.rate)
            for group in self.estimates.groups
        ]
        frames = {"curves": pl.DataFrame(rows, infer_schema_length=None)}
        frames["summary"] = pl.DataFrame(summary, infer_schema_length=None)
        if self.estimates.comparisons:
            compared = [
                {"group": item.name}
                | _interval_columns("hazard_ratio", item.ratio)
                | {"hazard_ratio_any_low": item.ratio_span[0], "hazard_ratio_any_high": item.ratio_span[1]}
                for item in self.estimates.comparisons
            ]
            frames["comparisons"] = pl.DataFrame(compared, infer_schema_length=None)
        return frames

    def to_builtins(self) -> dict[str, Any]:
        """The same as JSON."""
        frames = {name: [_row(row) for row in frame.to_dicts()] for name, frame in self.to_frames().items()}
        test = self.estimates.test
        log_rank = None if test is None else vars(test)
        sites = {
            item.name: {
                "estimates": {name: _row(vars(ratio)) for name, ratio in item.sites.items()},
                "between": None if item.between is None else item.between.to_builtins(),
            }
            for item in self.estimates.comparisons
        }
        return {"epsilon": str(self.epsilon), "log_rank": log_rank, "log_hazard_ratio_by_site": sites, **frames}

    def blocks(self) -> Sequence[Block]:
        """The curve, the numbers at risk below it, a table of the groups, and tests."""
        frame = self.estimates.frame
        what = "event" if frame.cause is None else frame.causes[frame.cause]
        blocks: list[Block] = [self._chart(f"Share without {what}", f"without {what}", "survival")]
        if any(group.incidence for group in self.estimates.groups):
            blocks.append(Heading("Cumulative incidence of each cause"))
            blocks.extend(self._chart(f"Share with {cause}", f"with {cause}", cause) for cause in frame.causes)
        blocks.append(self._summary())
        blocks += self._ratios()
        blocks.append(Fold("All numbers of the curves", [self._at_times(), self._at_risk()]))
        for name, words in self._tests()[:1]:
            blocks.append(Text(f"{name} {words}", "prose"))
        blocks.append(Text(self._foot(), "fine"))
        return blocks

    def _ratios(self) -> Iterator[Block]:
        """Hazard ratios as a forest, and each hospital's below."""
        comparisons = self.estimates.comparisons
        if not comparisons:
            return
        reference = self.estimates.groups[self.estimates.frame.reference].name
        rows = [
            forest_row(item.name, estimate)
            for item in comparisons
            for estimate in (item.ratio.population, item.ratio.sample)
        ]
        caption = f"Hazard ratio, each against {reference}"
        yield Heading(caption)
        yield forest_legend(rows, "no effect (1)")
        yield forest_table(
            caption, rows, measure="hazard ratio", null=1.0, log=True, first=self.estimates.frame.group or "group"
        )
        forests: list[Block] = []
        for item in comparisons:
            sites = [
                SiteEstimate(site, ratio.value, ratio.variance, ratio.noise_variance)
                for site, ratio in item.sites.items()
            ]
            if sites:
                title = f"Hazard ratio by site, {item.name} against {reference}"
                forests += between_sites_blocks(sites, item.between, measure="hazard ratio", log=True, caption=title)
        if forests:
            yield Fold("Hazard ratios site by site", forests)

    def methods(self) -> Sequence[str]:
        """Design, estimator, intervals and conventions."""
        frame = self.estimates.frame
        kind = "a secure sum opened only the pooled counts" if self.secure else "each hospital added its own noise"
        by_group = f" and by {frame.group}" if frame.group else ""
        texts = [
            f"""
            Exits from observation were counted once, by {len(frame.ends)} public time bins up to {frame.ends[-1]:g}
            {self._unit}{by_group}, with differential privacy at epsilon {written(self.epsilon)} ({kind}; noise of
            standard deviation {self.noise.variance**0.5:.1f} a cell).
            """,
            """
            A bin holds its end and not its start. Records still under observation at the horizon are censored there;
            records without a time or an event are left out, and counted.
            """,
            """
            Survival is the actuarial (life-table) estimate, in which censored records are at risk for half of their
            bin; displayed values use counts made non-negative, intervals the answers as they came.
            """,
            """
            Intervals of 95 % invert a score test whose variance has sampling and noise; those of survival at the ends
            of bins hold for any times of censoring within bins. "These records" counts the noise alone.
            """,
            """
            The restricted mean and the rate take events to be in the middle of their bins, and their intervals hold for
            any times of censoring within bins; a median is placed within
            its bin by a straight line, and its interval by ends of bins.
            """,
        ]
        if self.estimates.test is not None:
            texts.append(
                """
                Groups were compared by a log-rank test whose null law holds the noise, and by hazard ratios of grouped
                proportional hazards (complementary log-log), both with bins weighted by the share of sampling in their
                variance. Both hold whether records are censored early or late in a bin, if alike in all groups.
                """
            )
        return [" ".join(text.split()).replace(" ,", ",") for text in texts]

    def _chart(self, title: str, measure: str, which: str) -> Charts:
        """A curve of each group with its band and numbers at risk: survival, or the incidence of a cause."""
        curves = []
        for group in self.estimates.groups:
            points = group.survival if which == "survival" else group.incidence.get(which, ())
            if not points or any(point.population.value is None for point in points):
                continue
            curves.append(
                Curve(
                    group.name,
                    self._times,
                    [point.population.value or 0.0 for point in points],
                    [point.population.low for point in points],
                    [point.population.high for point in points],
                    [estimate.value for estimate in group.at_risk],
                )
            )
        if not curves:
            return Charts(())
        unit = self.estimates.frame.unit
        return curve_charts(title, curves, measure=measure, unit=unit, about=POPULATION)

    def _at_risk(self) -> Table[GroupEstimates]:
        """Numbers at risk at the times of the axis."""
        every = -(-len(self._times) // _MOST_TIMES)
        chosen = range(0, len(self._times), every)
        columns: list[Column[GroupEstimates]] = [
            Column(self.estimates.frame.group or "Group", lambda group: group.name, names=True)
        ]
        columns += [self._column_at(index) for index in chosen]
        return Table.of("Numbers at risk, these records, with 95 % of the noise", columns, self.estimates.groups)

    def _column_at(self, index: int) -> Column[GroupEstimates]:
        """Numbers at risk at one time."""
        return Column(f"{self._times[index]:g}", lambda group: _rounded(group.at_risk[index]), number=True)

    def _at_times(self) -> Table[tuple[GroupEstimates, int]]:
        """Survival at each end of a bin."""
        rows = [(group, index) for group in self.estimates.groups for index in range(1, len(self._times))]
        columns: list[Column[tuple[GroupEstimates, int]]] = [
            Column(self.estimates.frame.group or "Group", lambda row: row[0].name, names=True),
            Column(f"Time{self._unit}", lambda row: f"{self._times[row[1]]:g}", number=True),
            Column("Without event, population", lambda row: _percent(row[0].survival[row[1]].population), number=True),
            Column("These records", lambda row: _percent(row[0].survival[row[1]].sample), number=True),
        ]
        return Table.of("Survival at the ends of bins, with 95 % intervals", columns, rows)

    def _summary(self) -> Table[GroupEstimates]:
        """Records, events, median, restricted mean and rate of each group, and hazard ratios."""
        ratios = {item.name: item.ratio for item in self.estimates.comparisons}

        def ratio(group: GroupEstimates) -> str:
            return _plain(ratios[group.name].population) if group.name in ratios else "1"

        columns: list[Column[GroupEstimates]] = [
            Column(self.estimates.frame.group or "Group", lambda group: group.name, names=True),
            Column("Records", lambda group: _number(group.records), number=True),
            Column("Events", lambda group: _number(group.events), number=True),
            Column(f"Median{self._unit}", lambda group: _plain(group.median.population), number=True),
            Column(f"Restricted mean{self._unit}", lambda group: _plain(group.mean.population), number=True),
            Column(
                f"Events per 100{self._unit or ' time units'}",
                lambda group: _plain(group.rate.population, 100.0),
                number=True,
            ),
        ]
        if ratios:
            columns.append(Column("Hazard ratio", ratio, number=True))
        return Table.of("By group: records are these, all else is of the population", columns, self.estimates.groups)

    def _tests(self) -> list[tuple[str, str]]:
        """Names and words of the tests."""
        test = self.estimates.test
        if test is None:
            return []
        words = (
            f"chi-squared {test.statistic:.2f}, {test.df} df, {p_equation(test.p)}; {p_equation(test.p_any)} should "
            "groups be censored at unlike times within bins."
        )
        lines = [("Log-rank test, population:", words)]
        reference = self.estimates.groups[self.estimates.frame.reference].name
        for item in self.estimates.comparisons:
            words = f"{_plain(item.ratio.population)} in the population, {_plain(item.ratio.sample)} in these records."
            lines.append((f"Hazard ratio, {item.name} to {reference}:", words))
            if item.between is not None and item.between.random is not None:
                i_squared = f"{item.between.i_squared:.0%}"
                lines.append((f"Between sites, {item.name}:", f"I-squared {i_squared} with the noise taken out."))
        return lines

    def _foot(self) -> str:
        """What was left out, in a sentence."""
        numbers = ", ".join(f"{group.name} {_rounded(group.incomplete)}" for group in self.estimates.groups)
        return (
            f"Complete cases only: without a time or an event, about {numbers}. That these are like the others "
            "(missing at random) and that censoring does not foretell the event is assumed, not shown."
        )


def _number(estimate: Estimate) -> str:
    if estimate.high - estimate.low < 1:
        return f"{estimate.value:,.0f}"
    return f"{estimate.value:,.0f} ({estimate.low:,.0f} to {estimate.high:,.0f})"


def _rounded(estimate: Estimate) -> str:
    reach = estimate.high - (estimate.value or 0.0)  # the lower end may be cut at 0
    return f"{estimate.value:,.0f}" + (f" ± {reach:,.0f}" if reach >= 0.5 else "")


def _percent(estimate: Estimate) -> str:
    if estimate.value is None:
        return "not estimable"
    return f"{estimate.value:.1%} ({estimate.low:.1%} to {estimate.high:.1%})".replace("%", " %")


def _plain(estimate: Estimate, factor: float = 1.0) -> str:
    """A number with its interval; without a value it is not reached or not estimable."""
    ends = f"{_digits(factor * estimate.low)} to {_digits(factor * estimate.high)}"
    return f"– ({ends})" if estimate.value is None else f"{_digits(factor * estimate.value)} ({ends})"


def _digits(value: float) -> str:
    """Three digits, or all before the point."""
    if not isfinite(value):
        return "∞"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _named(name: str) -> dict[str, Any]:
    return {"group": name}


def _ends(name: str, estimate: Estimate) -> dict[str, float | None]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _interval_columns(name: str, quantity: Quantity) -> dict[str, float | None]:
    sample = quantity.sample
    return _ends(name, quantity.population) | {f"{name}_these_low": sample.low, f"{name}_these_high": sample.high}


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: finite(value) for name, value in row.items() if not isinstance(value, Mapping)}
