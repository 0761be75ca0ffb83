"""Time to event: curves, medians, means, rates, log-rank test and hazard ratios from one table of exits.

The table counts exits by group, time bin and event. A patient leaves once, so that the table moves by c for a unit of c
records, whatever the number of bins. With delayed entry the bin of entry is a further axis of the same table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log, nextafter

import msgspec
import numpy as np

from learner_node.analyses.exit_counts import ORIGIN, ExitCounts
from learner_node.analyses.group_comparison import hazard_ratio, log_rank_power
from learner_node.analyses.hazard_functionals import Hazards, survival_to
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers, TableQuestion
from learner_node.analyses.part import EffectSize, EffectTest, Expected, Setting
from learner_node.analyses.power import normal_tail, percent
from learner_node.analyses.score_interval import Z
from learner_node.analyses.survival_estimates import Frame, GroupCounts, estimates
from learner_node.analyses.survival_result import SurvivalResult
from learner_node.analyses.variables import Condition, bins_of, check_names, filter_of, filter_words
from protocol.errors import ConfigurationError
from protocol.partitions.feature_bins import FeatureBins
from protocol.rationals import Rational
from protocol.schema import CategoricalAttribute, Name, NumericAttribute, Schema

_MOST_CELLS = 100_000
_USUAL_RATIOS = (1.5, 2.0)
"""Hazard ratios that a quote judges where none is stated."""


@dataclass(frozen=True)
class _Outcome:
    """The time and event that a part uses, checked."""

    time: str
    event: CategoricalAttribute
    censored: str
    entry: str | None
    ends: tuple[float, ...]

    @property
    def causes(self) -> tuple[str, ...]:
        return tuple(level for level in self.event.levels if level != self.censored)


class Survival(msgspec.Struct, frozen=True, tag="survival", tag_field="kind", forbid_unknown_fields=True):
    """Curves by group, and their comparison. What it leaves out is as the schema's `time_to_event` says.

    In a plan's file:

        [[analyses]]
        kind = "survival"
        name = "Survival by arm"
        group = "arm"
        where = {age = [40, 70]}
    """

    name: str
    weight: Rational | int | float | str = 1
    group: Name | None = None  # variable of the groups; None: one curve of all
    edges: dict[str, tuple[float, ...]] = {}  # of the group variable if it is a number
    reference: str | None = None  # group to which hazard ratios refer; None: the first
    cause: Name | None = None  # level of the event that curve and tests are of; None: any event
    where: dict[str, Condition] = {}  # variable -> levels or a range; a record counts that satisfies all
    time: Name | None = None
    event: Name | None = None
    censored: Name | None = None
    entry: Name | None = None
    ends: tuple[float, ...] = ()  # ends of time bins, rising; the last is the horizon
    expected: Expected = Expected()
    horizon: float | None = None  # cuts the schema's bins: an end of one of them

    def questions(self, schema: Schema) -> Sequence[TableQuestion]:
        """One table: group, entry, time, event, as far as they apply."""
        outcome = self._outcome(schema)
        edges = tuple(nextafter(end, inf) for end in outcome.ends)  # a bin holds its end, and not its start
        factors = [FeatureBins(outcome.time, edges), FeatureBins(outcome.event.name, ())]
        if outcome.entry is not None:
            factors.insert(0, FeatureBins(outcome.entry, (ORIGIN, *edges)))
        if self.group is not None:
            self._group_names(schema)
            factors.insert(0, bins_of(schema, self.group, self.edges))
        check_names(list(self.edges), [self.group] if self.group else [], "edges")
        within = filter_of(schema, self.where)
        question = TableQuestion(tuple(factors), within)
        cells = question.partition.cell_count(schema)
        if cells > _MOST_CELLS:
            raise ConfigurationError(f"{cells:,} cells are too many; take fewer bins or groups")
        return (question,)

    def words(self, schema: Schema) -> str:
        """What is counted, for a steward."""
        outcome = self._outcome(schema)
        entered = f", when they came under observation ({outcome.entry})" if outcome.entry else ""
        by_group = f" by {self.group}" if self.group else ""
        chosen = filter_words(schema, self.where, " among")
        return (
            f"Counts{by_group} how many left observation in each of {len(outcome.ends)} time bins of {outcome.time} up "
            f"to {outcome.ends[-1]:g}, with which {outcome.event.name}{entered}{chosen}: for survival curves. Each "
            "record is in one cell of one table."
        )

    def read(self, answers: TableAnswers) -> SurvivalResult:
        """Curves and comparisons of the answers as they came."""
        frame = self._frame(answers.schema)
        table = answers.pooled[0]
        pooled = self._groups(table, answers.schema)
        sites = {name: self._groups(tables[0], answers.schema) for name, tables in answers.by_site.items()}
        return SurvivalResult(
            estimates(frame, pooled, sites), answers.epsilon, table.noise, answers.secure, table.sites
        )

    def quote(self, setting: Setting) -> Sequence[tuple[str, str]]:
        """Widths for equal groups with the expected share of events, of even hazard, before the horizon."""
        end, noise = self._outcome(setting.schema).ends[-1], setting.noises[0]
        first = self._foreseen(setting, noise, 1.0)
        low, high = Hazards.of(first).interval(survival_to(first.bins))
        lines = [(f"survival of {percent(1 - self.expected.events)} at {end:g}", f"{low:.1%} to {high:.1%}")]
        if len(self._group_names(setting.schema)) > 1:
            for ratio in _USUAL_RATIOS:
                expected = hazard_ratio(first, self._foreseen(setting, noise, ratio))
                interval = f"{np.exp(expected.low):.2g} to {np.exp(expected.high):.2g}"
                lines.append((f"hazard ratio of {ratio:g} between two groups", interval))
        return lines

    @property
    def measures(self) -> Sequence[str]:
        """None without groups."""
        return () if self.group is None else ("hazard ratio", "survival difference")

    def effect_tests(self, setting: Setting, stated: EffectSize | None) -> Sequence[EffectTest]:
        """The log-rank test of two of the groups; of a difference of survival, whether their intervals lie apart."""
        groups = len(self._group_names(setting.schema))
        if groups < 2:
            return ()
        if stated is None:
            return [self._ratio_test(setting, ratio) for ratio in _USUAL_RATIOS]
        if stated.measure == "hazard ratio":
            return [self._ratio_test(setting, stated.size)]
        return [self._difference_test(setting, stated.size)] if stated.measure == "survival difference" else ()

    def _assumed(self, setting: Setting) -> str:
        """What is assumed of the group of reference, in words."""
        return f"{percent(self.expected.events)} with the event by {self._outcome(setting.schema).ends[-1]:g}"

    def _ratio_test(self, setting: Setting, ratio: float) -> EffectTest:
        def power(noises: Sequence[NoiseLaw]) -> float:
            first, second = (self._foreseen(setting, noises[0], value) for value in (1.0, ratio))
            return log_rank_power(first, second)

        words = f"hazard ratio of {ratio:g} between two groups ({self._assumed(setting)}, log-rank test)"
        return EffectTest(words, power)

    def _difference_test(self, setting: Setting, difference: float) -> EffectTest:
        base = 1.0 - self.expected.events
        if not 0.0 < base - difference < 1.0:
            raise ConfigurationError(
                f"a survival difference of {difference:g} would take a survival of {percent(base)} to "
                f"{percent(base - difference)}; state the share of events in `expected`"
            )
        ratio = log(base - difference) / log(base)

        def power(noises: Sequence[NoiseLaw]) -> float:
            ends = []
            for value in sorted((1.0, ratio)):  # the better survival first
                counts = self._foreseen(setting, noises[0], value)
                ends.append(Hazards.of(counts).interval(survival_to(counts.bins)))
            better, worse = max(base, base - difference), min(base, base - difference)
            below, above = better - ends[0][0], ends[1][1] - worse
            gap = better - worse - below - above
            return normal_tail(gap, float(np.hypot(below, above)) / Z)

        words = f"survival difference of {difference:g} ({self._assumed(setting)}; two intervals of 95 % apart)"
        return EffectTest(words, power)

    def _foreseen(self, setting: Setting, noise: NoiseLaw, ratio: float) -> ExitCounts:
        """Expected counts of one of equal groups, with a hazard so many times the reference's."""
        outcome = self._outcome(setting.schema)
        bins, causes = len(outcome.ends), len(outcome.causes)
        size = sum(setting.sizes) / len(self._group_names(setting.schema))
        alive = (1.0 - self.expected.events) ** (ratio * np.arange(bins + 1) / bins)
        values = np.zeros((bins + 1, causes + 1))
        values[:-1, 0] = size * -np.diff(alive)
        values[-1, -1] = size * alive[-1]
        if outcome.entry is not None:
            values = np.concatenate([values[None], np.zeros((bins + 1, bins + 1, causes + 1))])
        return ExitCounts(values, outcome.ends, noise, setting.most_records_per_unit, expected=True)

    def _outcome(self, schema: Schema) -> _Outcome:
        """Time and event. Raises ConfigurationError: neither part nor schema names them, or they do not fit."""
        spec = schema.time_to_event
        time = self.time or (spec.time if spec else None)
        event_name = self.event or (spec.event if spec else None)
        censored = self.censored or (spec.censored if spec else None)
        if time is None or event_name is None or censored is None:
            raise ConfigurationError("the schema states no time_to_event; name time, event, censored and ends")
        entry = self.entry or (spec.entry if spec and self.time is None else None)
        for key, name in (("time", time), ("entry", entry)):
            variable = None if name is None else schema.variable(name)
            if name is not None and not isinstance(variable, NumericAttribute):
                raise ConfigurationError(f"{key} must name a number of the schema, and {name!r} is none")
            if isinstance(variable, NumericAttribute) and variable.lower < 0:
                raise ConfigurationError(f"{name!r} may be negative by its bounds; a time starts at 0")
        event = schema.variable(event_name)
        if not isinstance(event, CategoricalAttribute):
            raise ConfigurationError(f"event must name a category of the schema, and {event_name!r} is none")
        if censored not in event.levels:
            raise ConfigurationError(f"{event_name!r} has no level {censored!r} that could mean censored")
        if len(event.levels) < 2:
            raise ConfigurationError(f"{event_name!r} has no level but the censored one; declare a cause")
        if self.cause is not None and (self.cause not in event.levels or self.cause == censored):
            raise ConfigurationError(f"cause must be a level of {event_name!r} other than {censored!r}")
        return _Outcome(time, event, censored, entry, self._ends(schema, time))

    def _ends(self, schema: Schema, time: str) -> tuple[float, ...]:
        """Ends of the time bins."""
        spec = schema.time_to_event
        ends = tuple(map(float, self.ends)) or (spec.ends if spec and spec.time == time else ())
        if not ends:
            raise ConfigurationError(f"ends of time bins are needed for {time!r}")
        if ends[0] <= 0 or any(after <= before for before, after in pairwise(ends)):
            raise ConfigurationError("ends of time bins must rise, the first above 0")
        if self.horizon is not None:
            if self.horizon not in ends:
                raise ConfigurationError(f"the time bins have no end at the horizon, {self.horizon:g}")
            ends = ends[: ends.index(self.horizon) + 1]
        variable = schema.variable(time)
        if isinstance(variable, NumericAttribute) and variable.upper < ends[-1]:
            raise ConfigurationError(f"{time!r} counts up to {variable.upper:g}, below the horizon {ends[-1]:g}")
        return ends

    def _group_names(self, schema: Schema) -> tuple[str, ...]:
        """Names of the groups, in the order of the table. Raises ConfigurationError: the reference is none."""
        if self.group is None:
            return ("all",)
        names = Axis.of(bins_of(schema, self.group, self.edges), schema).proper_labels
        if self.reference is not None and self.reference not in names:
            raise ConfigurationError(f"reference must be one of {', '.join(names)}")
        return names

    def _frame(self, schema: Schema) -> Frame:
        """What estimates need to know of the plan."""
        outcome = self._outcome(schema)
        names = self._group_names(schema)
        chosen = None if self.cause is None else outcome.causes.index(self.cause)
        variable = schema.variable(outcome.time)
        unit = variable.measure if isinstance(variable, NumericAttribute) else ""
        reference = names.index(self.reference) if self.reference else 0
        return Frame(self.name, outcome.ends, unit, outcome.causes, chosen, self.group or "", reference)

    def _groups(self, table: NoisyTable, schema: Schema) -> list[GroupCounts]:
        """The cells of each group, and how many of it miss a time or an event."""
        outcome = self._outcome(schema)
        names = self._group_names(schema)
        values = table.values if self.group is not None else table.values[None]
        levels = [outcome.event.levels.index(level) for level in (*outcome.causes, outcome.censored)]
        bins = len(outcome.ends) + 1
        groups = []
        for index, name in enumerate(names):
            cells = values[index]
            complete = cells[..., :bins, :][..., levels]
            if outcome.entry is not None:
                complete = complete[: bins + 1]
            counts = ExitCounts(complete, outcome.ends, table.noise, table.most_records_per_unit)
            incomplete = float(cells.sum() - complete.sum())
            groups.append(GroupCounts(name, counts, incomplete, cells.size - complete.size))
        return groups
