"""Effects: risk difference, risk ratio and odds ratio of an exposure, over strata and sites, with tests.

docs/learner/effects.md describes the intervals and what was measured of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from learner_node.analyses.between_sites import SiteEstimate, between_sites
from learner_node.analyses.effects_result import ALL, EffectLine, EffectsResult
from learner_node.analyses.inference import SignificanceTest, chi_squared, trend
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers, TableQuestion
from learner_node.analyses.part import POPULATION, THESE, EffectSize, EffectTest, Setting
from learner_node.analyses.power import percent
from learner_node.analyses.two_by_two import MEASURES, Measure, Tables, effect, effect_power, site_estimate
from learner_node.analyses.variables import (
    Condition,
    bins_of,
    check_names,
    filter_of,
    filter_words,
    range_of,
    range_words,
    variable_of,
)
from protocol.errors import ConfigurationError
from protocol.partitions.feature_bins import FeatureBins
from protocol.rationals import Rational
from protocol.schema import CategoricalAttribute, Schema

Floats = NDArray[np.float64]
MOST_CONTRASTS = 20
Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a quote assumes of the population."""

    exposed: Share = 0.5  # share of records that are exposed
    risk: Share = 0.1  # of the event among the unexposed
    odds_ratio: Annotated[float, msgspec.Meta(gt=0)] = 2.0


class Effects(msgspec.Struct, frozen=True, tag_field="kind", tag="effects", forbid_unknown_fields=True):
    """How an outcome differs between the exposed and a reference group.

    In a plan's file:

        [[analyses]]
        kind = "effects"
        name = "Death by treatment"
        exposure = "arm"
        exposed = "new"
        reference = "old"
        outcome = "death"
        event = "yes"
        strata = "age"
        edges = {age = [50, 65]}
    """

    name: str
    exposure: str  # an attribute, an outcome or the label
    outcome: str
    event: Condition  # levels or a range of the outcome
    exposed: Condition | None = None  # None: all other levels or bins in turn, each against `reference`
    reference: Condition | None = None  # None: all other levels or bins together
    strata: str | None = None  # a variable; each of its levels or bins is a stratum
    ordered: bool = False  # whether levels or bins of the exposure are in order, for a test of trend
    edges: dict[str, tuple[float, ...]] = {}  # of numbers
    where: dict[str, Condition] = {}  # records that count satisfy all of these
    expected: Expected = Expected()
    weight: Rational | int | float | str = 1

    def questions(self, schema: Schema) -> Sequence[TableQuestion]:
        """One table: exposure x outcome, x stratum. Raises ConfigurationError: something does not fit the schema."""
        names = [self.exposure, self.outcome] + ([self.strata] if self.strata else [])
        if len(set(names)) != len(names):
            raise ConfigurationError("exposure, outcome and strata must be different variables")
        check_names(list(self.edges), names, "edges")
        if self.exposed is None and self.reference is None:
            raise ConfigurationError("state exposed, reference or both: which groups to compare")
        factors = tuple(self._bins(schema, name) for name in names)
        within = filter_of(schema, self.where)
        axes = [Axis.of(bins, schema).proper for bins in factors]
        self._contrasts(schema, factors[0])
        events = _cells(schema, factors[1], self.event, "event")
        if not 0 < len(events) < axes[1]:
            raise ConfigurationError(f"event: some levels or bins of {self.outcome!r} must be the event, and some not")
        if self.ordered and axes[0] < 3:
            raise ConfigurationError(f"a trend needs at least three groups of {self.exposure!r}; state more edges")
        return [TableQuestion(factors, within)]

    def words(self, schema: Schema) -> str:
        """What a steward reads."""
        self.questions(schema)
        strata = f" and {self.strata}" if self.strata else ""
        chosen = filter_words(schema, self.where)
        return (
            f"How many records there are by {self.exposure}, {self.outcome}{strata}{chosen}, to compare "
            f"{range_words(schema, self.outcome, self.event)} between groups of {self.exposure}."
        )

    def _bins(self, schema: Schema, name: str) -> FeatureBins:
        """Bins of a variable; those of a number have the ends of its conditions among their edges."""
        if isinstance(variable_of(schema, name), CategoricalAttribute):
            return bins_of(schema, name, self.edges)
        conditions = {self.exposure: (self.exposed, self.reference), self.outcome: (self.event,)}.get(name, ())
        key = "exposed or reference" if name == self.exposure else "event"
        ends = {
            edge for item in conditions if item is not None for edge in range_of(schema, name, item, key).bins.edges
        }
        if not ends and name not in self.edges:
            raise ConfigurationError(f"{name!r} is a number; state its edges")
        return bins_of(schema, name, {name: tuple(sorted({*ends, *self.edges.get(name, ())}))})

    def _contrasts(self, schema: Schema, bins: FeatureBins) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
        """Words, cells of the exposed and cells of the reference, of each comparison."""
        every = range(Axis.of(bins, schema).proper)
        words = Axis.of(bins, schema).proper_labels
        if self.exposed is None:
            base = _cells(schema, bins, self.reference, "reference")
            against = range_words(schema, self.exposure, self.reference)  # type: ignore[arg-type]
            rest = [cell for cell in every if cell not in base]
            if not 0 < len(rest) <= MOST_CONTRASTS:
                raise ConfigurationError(f"reference leaves {len(rest)} groups; 1 to {MOST_CONTRASTS} are compared")
            return [(f"{self.exposure} {words[cell]} against {against}", (cell,), base) for cell in rest]
        group = _cells(schema, bins, self.exposed, "exposed")
        base = tuple(cell for cell in every if cell not in group)
        against = "the others"
        if self.reference is not None:
            base = _cells(schema, bins, self.reference, "reference")
            against = range_words(schema, self.exposure, self.reference)
        if not base or not group or set(base) & set(group):
            raise ConfigurationError("exposed and reference must be groups apart")
        return [(f"{range_words(schema, self.exposure, self.exposed)} against {against}", group, base)]

    def read(self, answers: TableAnswers) -> EffectsResult:
        """Effects of all records, of strata and of sites, and tests."""
        schema, table = answers.schema, answers.pooled[0]
        factors = self.questions(schema)[0].factors
        events = _cells(schema, factors[1], self.event, "event")
        others = tuple(cell for cell in range(Axis.of(factors[1], schema).proper) if cell not in events)
        strata = Axis.of(factors[2], schema).proper_labels if self.strata else ()
        sites = {site: tables[0] for site, tables in answers.by_site.items()} if len(answers.by_site) > 1 else {}
        lines: list[EffectLine] = []
        pooled = {}
        for words, group, base in self._contrasts(schema, factors[0]):
            cut = _Cut((group, base), (events, others), len(strata))
            lines += _lines(words, ALL, cut.tables([table], merged=True))
            if strata:
                for number, label in enumerate(strata):
                    lines += _lines(words, f"{self.strata} {label}", cut.tables([table], stratum=number))
                lines += _lines(words, "common to the strata (Mantel-Haenszel)", cut.tables([table]))
            estimates: dict[Measure, list[SiteEstimate]] = {measure: [] for measure in MEASURES}
            for site, answer in sites.items():
                tables = cut.tables([answer], merged=True)
                row = _lines(words, f"site {site}", tables)
                lines += row
                for line in row:
                    if line.estimate.of == POPULATION:
                        estimates[line.measure].append(site_estimate(site, tables, line.measure, line.estimate))
            if sites:
                among = "sites and strata" if strata else "sites"
                lines += _lines(words, f"common to the {among} (Mantel-Haenszel)", cut.tables(list(sites.values())))
                for measure in MEASURES:
                    limits = (-1.0, 1.0) if measure == "risk difference" else (-np.inf, np.inf)
                    pooled[words, measure] = (estimates[measure], between_sites(estimates[measure], limits))
        return EffectsResult(
            self.name,
            self.exposure,
            self.outcome,
            tuple(lines),
            tuple(self._tests(schema, table, factors, (events, others))),
            pooled,
            table,
            answers.secure,
            bool(strata),
        )

    def _tests(
        self, schema: Schema, table: NoisyTable, factors: Sequence[FeatureBins], outcomes: Sequence[tuple[int, ...]]
    ) -> list[SignificanceTest]:
        """Tests over all groups of the exposure."""
        groups = [(cell,) for cell in range(Axis.of(factors[0], schema).proper)]
        strata = tuple(range(Axis.of(factors[2], schema).proper)) if self.strata else ()
        values = np.array([[_sum(table.values, group, cells, strata) for cells in outcomes] for group in groups])
        added = np.array([[float(len(cells) * max(len(strata), 1)) for cells in outcomes] for _ in groups])
        most = table.most_records_per_unit
        tests = [chi_squared(values, table.noise, most, added)]
        if self.ordered:
            tests.append(trend(values, np.arange(len(groups), dtype=np.float64), table.noise, most, added))
        return tests

    def quote(self, setting: Setting) -> Sequence[tuple[str, str]]:
        """The intervals to expect of no effect and of the expected one."""
        rows = []
        for size in dict.fromkeys((1.0, self.expected.odds_ratio)):
            estimate = effect(self._foreseen(setting, setting.noises[0], "odds ratio", size), "odds ratio")
            interval = f"{estimate.low:.2g} to {estimate.high:.2g}" if estimate.estimable else "not estimable"
            rows.append((f"an odds ratio of {size:g}", interval.replace("inf", "no upper end")))
        return rows

    @property
    def measures(self) -> Sequence[str]:
        """Of the first comparison."""
        return ("odds ratio", "risk ratio", "risk difference")

    def effect_tests(self, setting: Setting, stated: EffectSize | None) -> Sequence[EffectTest]:
        """The test of no effect of the first comparison, strata merged."""
        if stated is None and self.expected.odds_ratio == 1:
            return ()
        stated = stated or EffectSize("odds ratio", self.expected.odds_ratio)
        measure = next((name for name in MEASURES if name == stated.measure), None)
        if measure is None:
            return ()
        self._foreseen(setting, setting.noises[0], measure, stated.size)

        def power(noises: Sequence[NoiseLaw]) -> float:
            return effect_power(self._foreseen(setting, noises[0], measure, stated.size), measure)

        assumed = (
            f"{percent(self.expected.risk)} of the unexposed with the event, {percent(self.expected.exposed)} exposed"
        )
        return (EffectTest(f"{measure} of {stated.size:g} ({assumed})", power),)

    def _foreseen(self, setting: Setting, noise: NoiseLaw, measure: Measure, size: float) -> Tables:
        """Expected counts of the first comparison. Raises ConfigurationError: no risks have such an effect."""
        factors = self.questions(setting.schema)[0].factors
        events = len(_cells(setting.schema, factors[1], self.event, "event"))
        strata = Axis.of(factors[2], setting.schema).proper if self.strata else 1
        outcomes = np.array([events, Axis.of(factors[1], setting.schema).proper - events], np.float64) * strata
        _, group, base = self._contrasts(setting.schema, factors[0])[0]
        added = np.outer([len(group), len(base)], outcomes)[None]
        values = _expected(self.expected, measure, size, float(sum(setting.sizes)))
        return Tables(values, noise, setting.most_records_per_unit, POPULATION, added)


@dataclass(frozen=True)
class _Cut:
    """Which cells of a table are added up to the four of a 2 x 2 table."""

    groups: tuple[tuple[int, ...], tuple[int, ...]]  # of the exposure: exposed, reference
    outcomes: tuple[tuple[int, ...], tuple[int, ...]]  # event, no event
    strata: int  # their number; 0 without strata

    def tables(self, answers: Sequence[NoisyTable], *, merged: bool = False, stratum: int | None = None) -> Tables:
        """2 x 2 tables: of all strata of all answers, of the strata `merged`, or of a single stratum."""
        sets: list[tuple[int, ...]] = [()]
        if self.strata:
            sets = [(number,) for number in range(self.strata)] if stratum is None else [(stratum,)]
            if merged:
                sets = [tuple(range(self.strata))]
        cells = [(answer, strata) for answer in answers for strata in sets]
        values = np.array(
            [
                [[_sum(answer.values, group, outcome, strata) for outcome in self.outcomes] for group in self.groups]
                for answer, strata in cells
            ]
        )
        sizes = np.outer([len(group) for group in self.groups], [len(outcome) for outcome in self.outcomes])
        added = np.array([sizes * float(max(len(strata), 1)) for _, strata in cells])
        first = answers[0]
        most = max(answer.most_records_per_unit for answer in answers)
        return Tables(values, first.noise, most, POPULATION, added)


def _lines(contrast: str, place: str, tables: Tables) -> list[EffectLine]:
    """Lines of all measures, of these records and of their population."""
    return [
        EffectLine(
            contrast,
            place,
            measure,
            effect(Tables(tables.values, tables.noise, tables.most_records, of, tables.added), measure),
        )
        for measure in MEASURES
        for of in (THESE, POPULATION)
    ]


def _sum(values: Floats, group: Sequence[int], outcome: Sequence[int], strata: Sequence[int]) -> float:
    cells = values[np.ix_(group, outcome, strata)] if strata else values[np.ix_(group, outcome)]
    return float(cells.sum())


def _cells(schema: Schema, bins: FeatureBins, condition: Condition | None, key: str) -> tuple[int, ...]:
    """Levels or bins that satisfy a condition. Missing and other values satisfy none."""
    if condition is None:
        return ()
    chosen = range_of(schema, bins.attribute, condition, key)
    count = Axis.of(bins, schema).proper
    if not bins.edges:
        return tuple(cell for cell in chosen.cells if cell < count)
    inside = chosen.cells[0]  # bin 0 is below the only end; bin 1 begins at the first
    edges = chosen.bins.edges
    low = edges[0] if inside else -np.inf
    high = edges[inside] if inside < len(edges) else np.inf
    starts = (-np.inf, *bins.edges)
    stops = (*bins.edges, np.inf)
    return tuple(cell for cell in range(count) if starts[cell] >= low and stops[cell] <= high)


def _expected(assumed: Expected, measure: Measure, size: float, records: float) -> Floats:
    """Expected counts of a 2 x 2 table, (1, 2, 2)."""
    odds = assumed.risk / (1.0 - assumed.risk) * size
    risks = {"odds ratio": odds / (1.0 + odds), "risk ratio": assumed.risk * size}
    risk = risks.get(measure, assumed.risk + size)
    if not 0 < risk < 1:
        raise ConfigurationError(
            f"a {measure} of {size:g} would take a risk of {percent(assumed.risk)} to {percent(risk)}; state the risk "
            "of the unexposed in `expected`"
        )
    exposed, rest = records * assumed.exposed, records * (1.0 - assumed.exposed)
    return np.array([[[exposed * risk, exposed * (1 - risk)], [rest * assumed.risk, rest * (1 - assumed.risk)]]])
