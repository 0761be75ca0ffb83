"""What an analysis of effects says: as text, tables, JSON and blocks of a page.

It is a module of its own, apart from the part that asks and reads, so that neither is a giant.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from expril.report.document import Block, Heading, Text
from expril.report.forest import NOT_ESTIMABLE, forest_legend, forest_table
from expril.report.numbers import plain_number
from expril.report.table import text_table
from learner_node.analyses.between_sites import SUM_ONLY, BetweenSites, SiteEstimate
from learner_node.analyses.figures import between_sites_blocks, forest_row, p_equation, p_words
from learner_node.analyses.inference import SignificanceTest
from learner_node.analyses.noisy_table import NoisyTable
from learner_node.analyses.part import POPULATION, Estimate, finite
from learner_node.analyses.two_by_two import Measure

_LARGE = 1000
"""A ratio beyond this is shown as being so."""
ALL = "all records"


@dataclass(frozen=True)
class EffectLine:
    """One estimate: of which comparison, in which records, of which measure."""

    contrast: str
    place: str  # all records, a stratum, a site, or common to several
    measure: Measure
    estimate: Estimate

    @property
    def single(self) -> bool:
        """Whether it is of one stratum or site."""
        return self.place != ALL and not self.place.startswith("common to")


@dataclass(frozen=True)
class EffectsResult:
    """Effects over strata and sites, and tests."""

    name: str
    exposure: str
    outcome: str
    lines: tuple[EffectLine, ...]
    tests: tuple[SignificanceTest, ...]  # over all groups of the exposure
    # (contrast, measure) -> each site's estimate, and what they say together; empty where no two sites answered
    sites: Mapping[tuple[str, Measure], tuple[Sequence[SiteEstimate], BetweenSites | None]]
    table: NoisyTable
    secure: bool
    stratified: bool

    def to_text(self) -> str:
        """A text for a terminal."""
        rows = [
            f"{line.contrast}; {line.place}: {line.measure} {words(line.estimate)}, {line.estimate.of}"
            for line in self.lines
        ]
        return "\n".join([*rows, *map(test_words, self.tests), *self._between_words(), *self._foot()])

    def to_frames(self) -> Mapping[str, pl.DataFrame]:
        """Tables for CSV."""
        schema = {
            "contrast": pl.String,
            "place": pl.String,
            "measure": pl.String,
            "of": pl.String,
            "value": pl.Float64,
            "low": pl.Float64,
            "high": pl.Float64,
            "p": pl.Float64,
        }
        rows = [
            (
                line.contrast,
                line.place,
                line.measure,
                line.estimate.of,
                line.estimate.value,
                line.estimate.low,
                line.estimate.high,
                line.estimate.p,
            )
            for line in self.lines
        ]
        tests = [(test.name, test.statistic, test.df, test.p) for test in self.tests]
        return {
            "effects": pl.DataFrame(rows, schema=schema, orient="row"),
            "tests": pl.DataFrame(
                tests,
                schema={"test": pl.String, "statistic": pl.Float64, "df": pl.Float64, "p": pl.Float64},
                orient="row",
            ),
        }

    def to_builtins(self) -> dict[str, Any]:
        """The same as JSON; an end without bound is None."""
        return {
            "effects": [
                {
                    "contrast": line.contrast,
                    "place": line.place,
                    "measure": line.measure,
                    "of": line.estimate.of,
                    "value": line.estimate.value,
                    "low": finite(line.estimate.low),
                    "high": finite(line.estimate.high),
                    "p": line.estimate.p,
                }
                for line in self.lines
            ],
            "tests": [
                {"test": test.name, "statistic": test.statistic, "df": test.df, "p": test.p} for test in self.tests
            ],
            "between_sites": [
                {
                    "contrast": contrast,
                    "measure": measure,
                    **(
                        {"estimable": False}
                        if pooled is None
                        else {
                            "estimable": True,
                            **pooled.to_builtins(),
                            "fixed": _interval(pooled.fixed.low, pooled.fixed.high, measure, pooled.fixed.value),
                            "random": None
                            if pooled.random is None
                            else _interval(pooled.random.low, pooled.random.high, measure, pooled.random.value),
                            "prediction": None if pooled.prediction is None else _interval(*pooled.prediction, measure),
                        }
                    ),
                }
                for (contrast, measure), (_, pooled) in self.sites.items()
            ],
        }

    def blocks(self) -> Sequence[Block]:
        """Tables by comparison, tests, and how sites differ."""
        blocks: list[Block] = []
        for contrast in dict.fromkeys(line.contrast for line in self.lines):
            blocks.append(Heading(contrast))
            for measure in dict.fromkeys(line.measure for line in self.lines):
                lines = [line for line in self.lines if (line.contrast, line.measure) == (contrast, measure)]
                ratio = measure != "risk difference"
                rows = [
                    forest_row(line.place, line.estimate, form="part" if line.single else "whole") for line in lines
                ]
                caption = f"{measure[:1].upper()}{measure[1:]} of {self.outcome}: {contrast}"
                null = 1.0 if ratio else 0.0
                table = forest_table(caption, rows, measure=measure, null=null, log=ratio, first="records")
                blocks += [forest_legend(rows, f"no effect ({null:g})", "a stratum or a site"), table]
                if (contrast, measure) in self.sites:
                    blocks += between_sites_blocks(*self.sites[contrast, measure], measure=measure, log=ratio)
        tests = [
            (test.name, plain_number(test.statistic), plain_number(test.df), p_words(test.p)) for test in self.tests
        ]
        blocks.append(
            text_table(
                f"Tests over all groups of {self.exposure}", ["test", "statistic", "df", "p"], tests, numbers=True
            )
        )
        blocks += [Text(text, "fine") for text in self._foot()]
        return blocks

    def methods(self) -> Sequence[str]:
        """Sentences of the methods paragraph."""
        common = "Mantel-Haenszel weights combined strata or sites. " if self.stratified or self.sites else ""
        most = self.table.most_records_per_unit
        clusters = (
            f" A unit may have up to {most} records; each record counts alike, and the sampling variance was "
            f"multiplied by {most}, which bounds the effect of clustering."
            if most > 1
            else ""
        )
        estimator = (
            f"Risk differences, risk ratios and odds ratios of {self.outcome} by {self.exposure} were estimated from "
            f"noisy counts as they came. {common}Intervals are score intervals (95 %): they invert a test whose null "
            "law holds the sampling of records as Poisson counts and the exact law of the noise, by a saddlepoint "
            "approximation. Intervals for these records hold the noise alone. Records with a missing value of a "
            f"variable were left out, which assumes that values are missing at random.{clusters}"
        )
        tests = (
            "Tests of independence and of trend are Pearson's and Cochran and Armitage's with the noise in their "
            "variances and tails."
        )
        sites = (
            "Sites were pooled by random effects with Paule and Mandel's variance between sites; its interval is "
            "that of a t test with fixed weights, which holds with few sites of unlike size. The known noise "
            "is part of each site's variance, not of the heterogeneity."
        )
        return [estimator, tests, sites] if self.sites else [estimator, tests]

    def _between_words(self) -> list[str]:
        """How much sites differ, in a sentence for each comparison."""
        sentences = []
        for (contrast, measure), (estimates, pooled) in self.sites.items():
            if pooled is None or pooled.random is None:
                names = ", ".join(estimate.site for estimate in estimates if not estimate.usable)
                sentences.append(
                    f"{contrast}; {measure} between sites: {NOT_ESTIMABLE}, for lack of an estimate at {names}."
                )
                continue
            random = _interval(pooled.random.low, pooled.random.high, measure, pooled.random.value)
            text = (
                f"{contrast}; {measure} between {len(estimates)} sites: random effects {random['value']:.3g} "
                f"({random['low']:.3g} to {random['high']:.3g}), I² {100 * pooled.i_squared:.0f} % "
                f"({100 * pooled.i_squared_exact:.0f} % without noise), τ² {pooled.tau_squared:.3g}, "
                f"p of no difference {p_words(pooled.p)}"
            )
            if pooled.prediction is not None:
                ends = _interval(*pooled.prediction, measure)
                text += f"; another site's would lie in {ends['low']:.3g} to {ends['high']:.3g}"
            sentences.append(f"{text}.")
        return sentences

    def _foot(self) -> list[str]:
        """What is said of all lines."""
        most = self.table.most_records_per_unit
        foot = [SUM_ONLY] if self.secure else []
        if most > 1:
            foot.append(
                f"Each record counts alike, up to {most} of a unit; variances are multiplied by {most}, a bound of the "
                "effect of clustering."
            )
        foot.append("Complete cases: records with a missing or undeclared value of a variable are left out.")
        return foot


def words(estimate: Estimate) -> str:
    """An estimate in words: "1.87 (1.22 to 2.91), p = 0.004"."""
    if not estimate.estimable:
        return f"{NOT_ESTIMABLE}; anything is possible"
    value, low, high = map(_number_words, (estimate.value, estimate.low, estimate.high))
    p = "" if estimate.p is None else f", {p_equation(estimate.p)}"
    return f"{value} ({low} to {high}){p}"


def _number_words(value: float | None) -> str:
    """Three digits, at most three decimals if below .001; what noise alone makes huge is named as such."""
    if value is None:
        return NOT_ESTIMABLE
    if not math.isfinite(value):
        return "no upper end"
    if value >= _LARGE:
        return f"above {_LARGE:,}"
    text = f"{value:.3g}" if abs(value) >= 1e-3 or value == 0.0 else f"{value:.3f}"
    return text.replace("-0.000", "0.000").replace("-", "−")


def test_words(test: SignificanceTest) -> str:
    """A test in words."""
    return f"{test.name}: statistic {test.statistic:.3g}, {test.df:.3g} df, p {p_words(test.p)}, {POPULATION}"


def _interval(low: float, high: float, measure: Measure, value: float | None = None) -> dict[str, float]:
    """An interval on the scale that is shown, exponentials of logarithms for ratios."""

    def natural(number: float) -> float:
        return number if measure == "risk difference" else math.exp(min(number, 700.0))

    ends = {"low": natural(low), "high": natural(high)}
    return ends if value is None else {"value": natural(value), **ends}
