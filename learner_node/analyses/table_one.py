"""Table 1 of a paper: who the units are, by group and overall, from one table of counts for each attribute.

The reading is here, `table_one_result` shows it, and docs/learner/tables.md has conventions and limits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from learner_node.analyses.attribute_difference import (
    SHARES,
    STANDARDISED,
    Moments,
    groups_apart,
    largest,
    level_power,
    level_test,
    levels_distance,
    number_difference,
    number_power,
    number_test,
    pairs,
    share_difference,
)
from learner_node.analyses.consistency import consistent, settled
from learner_node.analyses.inference import holm, linear_p
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers, TableQuestion
from learner_node.analyses.part import POPULATION, THESE, EffectSize, EffectTest, Estimate, Setting
from learner_node.analyses.shares import (
    TAIL,
    BinnedNumber,
    NoisySum,
    bounded_count,
    count_estimate,
    deviation_interval,
    mean_interval,
    quantile_interval,
    share_estimate,
)
from learner_node.analyses.table_one_result import (
    AttributeRows,
    Difference,
    GroupNumber,
    GroupShares,
    SiteTable,
    TableOneResult,
)
from learner_node.analyses.variables import Condition, bins_of, check_names, filter_of, filter_words, variable_of
from protocol.errors import ConfigurationError
from protocol.rationals import Rational, parse_rational
from protocol.schema import NumericAttribute, Schema

Floats = NDArray[np.float64]
QUARTILES = (0.25, 0.5, 0.75)
OVERALL = "overall"
_USUAL_DIFFERENCE = 0.2
"""Standardised difference that a quote judges where none is stated."""
_TWO = 2


class TableOne(msgspec.Struct, frozen=True, tag_field="kind", tag="table_one", forbid_unknown_fields=True):
    """Who the records are, by group and overall.

    In a plan's file:

        [[analyses]]
        kind = "table_one"
        name = "Who they are"
        group = "treated"
        attributes = ["age", "sex", "stage"]
        edges = {age = [40, 50, 60, 70, 80]}
        weights = {age = 2}
    """

    name: str
    group: str = ""  # the variable of the columns; "" for none but the overall one
    attributes: tuple[str, ...] = ()  # of the rows, in order; () takes all attributes of the schema but the group
    where: dict[str, Condition] = {}  # records that count, as in `Counts`
    edges: dict[str, tuple[float, ...]] = {}  # of numbers, the group's too
    bins: dict[str, int] = {}  # or about how many
    weights: dict[str, Rational | int | float | str] = {}  # of attributes, 1 if not stated
    weight: Rational | int | float | str = 1

    def names(self, schema: Schema) -> tuple[str, ...]:
        """The attributes of the rows."""
        return self.attributes or tuple(item.name for item in schema.attributes if item.name != self.group)

    def questions(self, schema: Schema) -> Sequence[TableQuestion]:
        """One table for each attribute. Raises ConfigurationError: something does not fit the schema."""
        names = self.names(schema)
        if len(set(names)) != len(names):
            raise ConfigurationError("attributes names a variable twice")
        if self.group in names:
            raise ConfigurationError(f"{self.group!r} is the group, and cannot be a row, too")
        groups = (self.group,) if self.group else ()
        check_names([*self.edges, *self.bins], [*names, *groups], "edges or bins")
        check_names(list(self.weights), names, "weights")
        within = filter_of(schema, self.where)
        columns = tuple(bins_of(schema, name, self.edges, self.bins) for name in groups)
        return [
            TableQuestion((bins_of(schema, name, self.edges, self.bins), *columns), within, self._weight_of(name))
            for name in names
        ]

    def _weight_of(self, name: str) -> Fraction:
        value = self.weights.get(name, 1)
        return parse_rational(value.fraction if isinstance(value, Rational) else value)

    def words(self, schema: Schema) -> str:
        """What a steward reads."""
        names = self.names(schema)
        by = f", each by {self.group}" if self.group else ""
        chosen = filter_words(schema, self.where)
        return f"Table 1: how many records have each level or bin of {', '.join(names)}{by}{chosen}."

    def read(self, answers: TableAnswers) -> TableOneResult:
        """Estimates of all rows and columns, tests and differences."""
        names = self.names(answers.schema)
        schema = answers.schema
        tables = [_Grouped(table, schema, self.group) for table in answers.pooled]
        labels = (*tables[0].labels, OVERALL)
        sizes = group_sizes(tables)
        header = _header(tables, sizes)
        rows = [_rows(name, table, header) for name, table in zip(names, tables, strict=True)]
        adjusted = holm([row.difference.p if row.difference else None for row in rows])
        rows = [row.adjusted_by(p) for row, p in zip(rows, adjusted, strict=True)]
        sites = []
        for site, site_tables in answers.by_site.items():
            if len(answers.by_site) > 1:
                grouped = [_Grouped(table, schema, self.group) for table in site_tables]
                site_sizes = group_sizes(grouped)
                site_header = _header(grouped, site_sizes)
                site_rows = [
                    _rows(name, table, site_header, brief=True) for name, table in zip(names, grouped, strict=True)
                ]
                sites.append(SiteTable(site, site_sizes, site_rows))
        first = answers.pooled[0]
        return TableOneResult(
            name=self.name,
            group=self.group,
            filter=filter_words(schema, self.where),
            labels=labels,
            sizes=sizes,
            rows=rows,
            sites=sites,
            reaches=[table.noise.quantile(1 - TAIL) for table in answers.pooled],
            scales=[table.noise.scale for table in answers.pooled],
            most_records_per_unit=first.most_records_per_unit,
            secure=answers.secure,
        )

    def quote(self, setting: Setting) -> Sequence[tuple[str, str]]:
        """How far cells are from what is shown, and the interval of a share of 20 % and of a standardised mean."""
        questions = self.questions(setting.schema)
        names = self.names(setting.schema)
        reaches = [noise.quantile(1 - TAIL) for noise in setting.noises]
        quotes = []
        if len(set(reaches)) == 1:
            quotes.append((f"every cell of the {len(names)} tables", f"give or take {reaches[0]:,} records"))
        else:
            quotes += [
                (f"a cell of {name}", f"give or take {reach:,} records")
                for name, reach in zip(names, reaches, strict=True)
            ]
        widest = int(np.argmax(reaches))
        noise, question = setting.noises[widest], questions[widest]
        counts = [bins.cell_count(setting.schema) for bins in question.factors]
        total = float(sum(setting.sizes))
        groups = counts[1] if len(counts) > 1 else 1
        real = (
            max(1, groups - (1 if isinstance(variable_of(setting.schema, self.group), NumericAttribute) else 2))
            if (self.group)
            else 1
        )
        size = total / real
        share = share_estimate(
            NoisySum(0.2 * size, 1), NoisySum(0.8 * size, counts[0] - 2), noise, setting.most_records_per_unit
        )
        where = f"in a group of {size:,.0f}" if self.group else f"of {size:,.0f}"
        quotes.append((f"a share of 20 % {where}", f"{100 * share.low:.1f} to {100 * share.high:.1f} %"))
        return quotes

    @property
    def measures(self) -> Sequence[str]:
        """None without groups."""
        return (STANDARDISED, SHARES) if self.group else ()

    def effect_tests(self, setting: Setting, stated: EffectSize | None) -> Sequence[EffectTest]:
        """The test of one group's difference from the others, of equal size: of each attribute, by its raw p-value."""
        if not self.group or (stated is not None and stated.measure not in self.measures):
            return ()
        effect = stated or EffectSize(STANDARDISED, _USUAL_DIFFERENCE)
        tests = []
        for index, question in enumerate(self.questions(setting.schema)):
            axes = [Axis.of(bins, setting.schema) for bins in question.factors]
            middles = None
            if not axes[0].levels:
                ends = bin_ends(setting.schema, axes[0].variable, axes[0].edges)
                middles = (ends[1:] + ends[:-1]) / 2
            if axes[0].proper < _TWO or axes[1].proper < _TWO or (middles is not None and effect.measure == SHARES):
                continue
            shares = groups_apart(axes[0], axes[1].proper, middles, effect)
            expected = shares * float(sum(setting.sizes)) / axes[1].proper
            power = _group_power(expected, middles, setting.most_records_per_unit)
            tests.append((axes[0].variable, partial(_at_table, power, index)))
        words = f"{effect.measure} of {effect.size:g}"
        if stated is None and len(tests) > 1:
            return (EffectTest(f"{words} in the hardest of {len(tests)} attributes", partial(_least, tests)),)
        return [EffectTest(f"{words} of {name}", power) for name, power in tests]


def _group_power(expected: Floats, middles: Floats | None, most: int) -> Callable[[NoiseLaw], float]:
    """The power of the test of a difference between groups, with expected counts (cells, groups), by the noise."""
    if middles is not None:
        return partial(number_power, expected, middles, most=most)
    return partial(level_power, expected, most=most)


def _at_table(power: Callable[[NoiseLaw], float], index: int, noises: Sequence[NoiseLaw]) -> float:
    return power(noises[index])


def _least(tests: Sequence[tuple[str, Callable[[Sequence[NoiseLaw]], float]]], noises: Sequence[NoiseLaw]) -> float:
    return min(power(noises) for _, power in tests)


@dataclass(frozen=True)
class _Grouped:
    """A table of an attribute's cells, in rows, and groups."""

    table: NoisyTable
    schema: Schema
    group: str

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the groups that are columns: without "other" and missing."""
        return self.table.axes[1].labels[: self.table.axes[1].proper] if self.group else ()

    @property
    def values(self) -> Floats:
        """(cells, columns): raw counts by group, and overall, which holds records of other and missing groups, too."""
        values = self.table.values
        if not self.group:
            return values[:, None]
        return np.column_stack([values[:, : len(self.labels)], values.sum(1)])

    @property
    def added(self) -> list[int]:
        """How many cells each column's values add up."""
        return [*([1] * len(self.labels)), self.table.values.shape[1] if self.group else 1]

    def noise(self, column: int) -> NoiseLaw:
        """In each value of a column."""
        return self.table.noise.of_cells(self.added[column])


def group_sizes(tables: Sequence[_Grouped]) -> list[Estimate]:
    """Number of records in each column, from all attributes' tables whose noise has the commonest scale.

    Each table counts all records of a group. Their answers are averaged with weights of inverse variances, and the
    interval is that of the weighted noise.
    """
    scales = [table.table.noise.scale for table in tables]
    common = max(sorted(set(scales)), key=scales.count)
    members = [table for table in tables if table.table.noise.scale == common]
    estimates = []
    for column in range(members[0].values.shape[1]):
        cells = np.array([table.values.shape[0] * table.added[column] for table in members])
        weights = (1.0 / cells) / (1.0 / cells).sum()
        value = round(float(weights @ [table.values[:, column].sum() for table in members]), 6)
        noise = members[0].table.noise
        reach = _reach(np.repeat(weights, cells), noise)
        estimates.append(bounded_count(value, reach))
    return estimates


def _reach(weights: Floats, noise: NoiseLaw) -> float:
    """What weighted noise exceeds with 5 %, in records, rounded up to a tenth."""
    if noise.exact:
        return 0.0
    low, high = 0.0, 6.0 * float(np.sqrt((weights**2).sum() * noise.variance)) + 1.0
    for _ in range(30):
        middle = (low + high) / 2
        p = float(linear_p(np.asarray(middle), weights, np.asarray(0.0), noise))
        low, high = (middle, high) if p > 2 * TAIL else (low, middle)
    return float(np.ceil(10 * high) / 10)


def _header(tables: Sequence[_Grouped], sizes: Sequence[Estimate]) -> Floats:
    """Displayed sizes of all groups, "other" and missing among them, which add up to the displayed overall size."""
    overall = round(sizes[-1].value or 0.0)
    if not tables[0].group:
        return np.array([float(overall)])
    noise = tables[0].table.noise
    count = len(tables[0].labels)
    rest = np.mean([table.table.values.sum(0)[count:] for table in tables], axis=0)
    raw = np.concatenate([[size.value or 0.0 for size in sizes[:-1]], rest])
    deviation = float(np.sqrt(noise.variance * tables[0].table.values.shape[0] / len(tables)))
    return settled(raw, float(overall), deviation)


def _rows(name: str, grouped: _Grouped, header: Floats, *, brief: bool = False) -> AttributeRows:
    """All of one attribute. `brief` leaves out intervals for the population, tests and differences."""
    axis, table = grouped.table.axes[0], grouped.table
    raw = table.values if grouped.group else table.values[:, None]
    display = consistent(raw, table.noise, header)
    if grouped.group:
        display = np.column_stack([display[:, : len(grouped.labels)], display.sum(1)])
    columns = range(grouped.values.shape[1])
    missing = [_missing(grouped, column, brief=brief) for column in columns]
    if axis.levels:
        shares = [_shares(grouped, column, brief=brief) for column in columns]
        difference = None if brief else _level_difference(grouped, shares)
        return AttributeRows(
            name, axis.measure, axis.labels[:-1], display, missing, shares=shares, numbers=(), difference=difference
        )
    ends = bin_ends(grouped.schema, name, axis.edges)
    numbers = [_number(grouped, name, column, brief=brief) for column in columns]
    difference = None if brief else _number_difference(grouped, name, numbers)
    return AttributeRows(
        name,
        axis.measure,
        axis.labels[:-1],
        display,
        missing,
        shares=(),
        numbers=numbers,
        difference=difference,
        edges=axis.edges,
        bounds=(float(ends[0]), float(ends[-1])),
    )


def _missing(grouped: _Grouped, column: int, *, brief: bool) -> tuple[Estimate, Estimate | None]:
    values, noise = grouped.values[:, column], grouped.noise(column)
    inside, outside = NoisySum(float(values[-1]), 1), NoisySum(float(values[:-1].sum()), len(values) - 1)
    share = None if brief else share_estimate(inside, outside, noise, grouped.table.most_records_per_unit)
    return count_estimate(inside, noise), share


def _shares(grouped: _Grouped, column: int, *, brief: bool) -> GroupShares:
    """Levels, "other" the last, of the records that are not missing."""
    values, noise = grouped.values[:-1, column], grouped.noise(column)
    counts = [count_estimate(NoisySum(float(value), 1), noise) for value in values]
    if brief:
        return GroupShares(counts, ())
    most = grouped.table.most_records_per_unit
    shares = [
        share_estimate(NoisySum(float(value), 1), NoisySum(float(values.sum() - value), len(values) - 1), noise, most)
        for value in values
    ]
    return GroupShares(counts, shares)


def bin_ends(schema: Schema, name: str, edges: Sequence[float]) -> Floats:
    """Public bounds and edges of a number's bins, (k + 1,). A bin at the upper bound holds that value alone."""
    variable = schema.variable(name)
    if not isinstance(variable, NumericAttribute):
        raise TypeError(f"{name!r} is no number")
    return np.array([variable.lower, *edges, variable.upper])


def _binned(grouped: _Grouped, name: str, column: int) -> BinnedNumber:
    ends = bin_ends(grouped.schema, name, grouped.table.axes[0].edges)
    middles = (ends[1:] + ends[:-1]) / 2
    values, noise = grouped.values[:-1, column], grouped.noise(column)
    return BinnedNumber(values, middles, ends, noise, grouped.table.most_records_per_unit)


def _number(grouped: _Grouped, name: str, column: int, *, brief: bool) -> GroupNumber:
    number = _binned(grouped, name, column)
    mean, variance = number.mean, number.variance
    deviation = None if variance is None else float(np.sqrt(variance))
    if brief:
        wide = Estimate(mean, *mean_interval(number, THESE), THESE)
        quartiles = [Estimate(*quantile_interval(number, share, THESE), THESE) for share in QUARTILES]
        return GroupNumber(wide, Estimate(deviation, *deviation_interval(number, THESE), THESE), quartiles, wide)
    quartiles = [Estimate(*quantile_interval(number, share, POPULATION), POPULATION) for share in QUARTILES]
    return GroupNumber(
        Estimate(mean, *mean_interval(number, POPULATION), POPULATION),
        Estimate(deviation, *deviation_interval(number, POPULATION), POPULATION),
        quartiles,
        Estimate(mean, *mean_interval(number, THESE), THESE),
    )


def _level_difference(grouped: _Grouped, shares: Sequence[GroupShares]) -> Difference | None:
    count = len(grouped.labels)
    if count < _TWO:
        return None
    values = grouped.values[:-1, :count]
    table = grouped.table
    test = level_test(values, table.noise, table.most_records_per_unit)
    if table.axes[0].proper == _TWO:
        smd = largest([share_difference(shares[i].shares[0], shares[j].shares[0]) for i, j in pairs(count)])
        kind = "of the first level"
    else:
        distances = [levels_distance(values[:, [i, j]], table.noise) for i, j in pairs(count)]
        present = [distance for distance in distances if distance is not None]
        smd = Estimate(max(present) if present else None, 0.0, np.inf, POPULATION)
        kind = "over all levels"
    return Difference(test, smd, kind, pairs=len(pairs(count)))


def _number_difference(grouped: _Grouped, name: str, numbers: Sequence[GroupNumber]) -> Difference | None:
    count = len(grouped.labels)
    if count < _TWO:
        return None
    table = grouped.table
    middles = _binned(grouped, name, 0).middles
    test = number_test(grouped.values[:-1, :count], middles, table.noise, table.most_records_per_unit)
    moments = [Moments(number.mean, number.deviation) for number in numbers]
    smd = largest([number_difference(moments[i], moments[j]) for i, j in pairs(count)])
    return Difference(test, smd, "of means of bins", pairs=len(pairs(count)))
