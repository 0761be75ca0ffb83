"""Counts: how many records there are by up to three variables and a filter, with intervals (docs/learner/tables.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Annotated, Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from expril.report.chart import Key, Place, Series, line_chart, make_axis
from expril.report.document import Block, Charts, Heading, Text
from expril.report.table import Cell, strong, text_table
from learner_node.analyses.consistency import consistent
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import NoisyTable, TableAnswers, TableQuestion
from learner_node.analyses.part import EffectSize, EffectTest, Estimate, Setting, finite
from learner_node.analyses.shares import NoisySum, count_estimate, share_estimate, zero_or_few
from learner_node.analyses.variables import Condition, bins_of, check_names, filter_of, filter_words, range_of
from protocol.errors import ConfigurationError
from protocol.rationals import Rational
from protocol.schema import Schema

MOST_VARIABLES = 3
FEW = 9
"""Most records of a cell that is few, not empty: what services suppress."""
_NUMBERS = (
    "shown",
    "answer",
    "low",
    "high",
    "share",
    "share_low",
    "share_high",
    "likelihood_ratio_zero_to_few",
    "probability_zero",
)
"""Columns of the CSV files beside those of the variables and of the site."""
SHOWN_CELLS = 60
"""Most cells of which a page lists each with its interval; CSV has all."""


class Counts(msgspec.Struct, frozen=True, tag_field="kind", tag="counts", forbid_unknown_fields=True):
    """How many records, by up to three variables and among those that a filter keeps.

    In a plan's file:

        [[analyses]]
        kind = "counts"
        name = "Age and sex of the treated"
        by = ["age", "sex"]
        edges = {age = [40, 50, 60, 70]}
        where = {treated = "yes", bmi = [18.5, 40]}
    """

    name: str
    by: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_VARIABLES)] = ()  # () counts what the filter keeps
    where: dict[str, Condition] = {}  # variable -> levels or a range; a record counts that satisfies all
    edges: dict[str, tuple[float, ...]] = {}  # of numbers in `by`, rising, within bounds
    bins: dict[str, int] = {}  # or how many bins there should be, about
    few: Annotated[int, msgspec.Meta(ge=1, le=1000)] = FEW  # of "zero or few?"
    weight: Rational | int | float | str = 1

    def questions(self, schema: Schema) -> Sequence[TableQuestion]:
        """One table. Raises ConfigurationError: variables, bins or the filter do not fit the schema."""
        if not (self.by or self.where):
            raise ConfigurationError("state by, where or both: whom to count")
        if len(set(self.by)) != len(self.by):
            raise ConfigurationError("by names a variable twice")
        check_names([*self.edges, *self.bins], self.by, "edges or bins")
        within = filter_of(schema, self.where)
        factors = tuple(bins_of(schema, name, self.edges, self.bins) for name in self.by)
        if not factors:
            # the first condition's bins are the table, and its cells are added up
            return [TableQuestion((within[0].bins,), within[1:])]
        return [TableQuestion(factors, within)]

    def words(self, schema: Schema) -> str:
        """What a steward reads."""
        self.questions(schema)
        by = f" by {', '.join(self.by)}" if self.by else ""
        return f"How many records there are{by}{filter_words(schema, self.where)}."

    def read(self, answers: TableAnswers) -> "CountsResult":
        """Estimates of all cells and margins."""
        table = answers.pooled[0]
        cells: tuple[int, ...] = ()
        if not self.by:
            name, condition = next(iter(self.where.items()))
            cells = range_of(answers.schema, name, condition).cells
        by_site = {site: tables[0] for site, tables in answers.by_site.items()}
        return CountsResult(self, table, by_site, answers.secure, filter_words(answers.schema, self.where), cells)

    def quote(self, setting: Setting) -> Sequence[tuple[str, str]]:
        """How far a cell and a total are from what is shown, with 95 %."""
        noise = setting.noises[0]
        question = self.questions(setting.schema)[0]
        cells = int(np.prod([bins.cell_count(setting.schema) for bins in question.factors]))
        quotes = [("a cell's number of records", f"give or take {noise.quantile(0.975):,}")]
        if cells > 1:
            quotes.append((f"the total of {cells} cells", f"give or take {noise.of_cells(cells).quantile(0.975):,}"))
            quotes.append(
                ("a difference of two cells that is shown with 80 %", f"{_shown_difference(noise):,} or more")
            )
        return quotes

    @property
    def measures(self) -> Sequence[str]:
        """Records that one cell has more than another."""
        return (_DIFFERENCE,)

    def effect_tests(self, setting: Setting, stated: EffectSize | None) -> Sequence[EffectTest]:  # noqa: ARG002
        """Whether two cells' answers differ by more than their noise does with 95 %; of the stated difference alone."""
        if stated is None or stated.measure != _DIFFERENCE:
            return ()
        size = abs(stated.size)

        def power(noises: Sequence[NoiseLaw]) -> float:
            return _difference_power(size, noises[0].of_cells(2))

        return (EffectTest(f"{_DIFFERENCE} of {size:g} records between two cells (these records)", power),)


@dataclass(frozen=True)
class CountRow:
    """A cell or a margin: its labels ("all" where it is added up), its count, and its share of the total."""

    labels: tuple[str, ...]
    displayed: float  # made consistent
    raw: float
    count: Estimate  # of these records
    share: Estimate | None  # of their population; None of the total
    ratio: float | None  # likelihood of no record over that of few; None of margins
    empty: float | None  # probability of no record if before it was as likely as few

    @property
    def margin(self) -> bool:
        """Whether cells are added up."""
        return ALL in self.labels


def _difference_power(size: float, law: NoiseLaw) -> float:
    """Chance that counts that differ by `size` give answers that differ by more than the noise does with 95 %."""
    limit = law.quantile(0.975)
    gaps = size + np.arange(-law.width, law.width + 1)
    return float(law.pmf[np.abs(gaps) > limit].sum())


def _shown_difference(noise: NoiseLaw) -> int:
    """The least difference of two cells that is shown with 80 %, in records."""
    law = noise.of_cells(2)
    return law.quantile(0.975) + 1 - (law.quantile(0.2) if not law.exact else 0)


ALL = "all"
_DIFFERENCE = "difference"


@dataclass(frozen=True)
class CountsResult:
    """How many records there are."""

    part: Counts
    table: NoisyTable
    by_site: Mapping[str, NoisyTable]
    secure: bool
    filter: str  # in words, "" without one
    cells: tuple[int, ...] = ()  # of a lone condition, which are added up

    @cached_property
    def displayed(self) -> NDArray[np.float64]:
        """Consistent counts of the cells; they enter no inference."""
        return consistent(self.table.values, self.table.noise)

    @cached_property
    def rows(self) -> list[CountRow]:
        """Cells and margins, cells first."""
        return self._rows(self.table, self.displayed)

    def _rows(self, table: NoisyTable, displayed: NDArray[np.float64]) -> list[CountRow]:
        noise, size = table.noise, table.values.size
        if self.cells:
            places = list(self.cells)
            total = NoisySum(float(table.values[places].sum()), len(places))
            rest = NoisySum(float(table.values.sum()) - total.value, size - total.cells)
            estimate = count_estimate(total, noise)
            share = None
            if not self.part.by and len(self.part.where) == 1:
                share = share_estimate(total, rest, noise, table.most_records_per_unit)
            ratio, empty = zero_or_few(total.value, noise.of_cells(total.cells), self.part.few)
            return [CountRow((ALL,), max(0.0, total.value), total.value, estimate, share, ratio, empty)]
        rows = []
        ways = [(*range(count), None) for count in table.values.shape]
        everything = float(table.values.sum())
        indices = sorted(product(*ways), key=lambda index: sum(place is None for place in index))
        for index in indices:
            where = tuple(slice(None) if place is None else place for place in index)
            part = np.asarray(table.values[where])
            labels = tuple(
                ALL if place is None else axis.labels[place] for axis, place in zip(table.axes, index, strict=True)
            )
            total = NoisySum(float(part.sum()), part.size)
            rest = NoisySum(everything - total.value, size - part.size)
            share = share_estimate(total, rest, noise, table.most_records_per_unit) if rest.cells else None
            # of a margin, too: whether a group has anybody
            ratio, empty = zero_or_few(total.value, noise.of_cells(total.cells), self.part.few)
            rows.append(
                CountRow(
                    labels,
                    float(np.sum(displayed[where])),
                    total.value,
                    _around(count_estimate(total, noise), float(np.sum(displayed[where]))),
                    share,
                    ratio,
                    empty,
                )
            )
        return rows

    @property
    def headings(self) -> tuple[str, ...]:
        """Names of the variables."""
        return self.part.by or ("records",)

    def to_text(self) -> str:
        """One line for each cell and margin, 60 at most."""
        lines = [f"{self.part.name}: number of records{self.filter}, and their share"]
        for row in self.rows[:SHOWN_CELLS]:
            share = "" if row.share is None else f"; share in the population {share_words(row.share)}"
            lines.append(f"  {', '.join(row.labels)}: {count_words(row.count, row.displayed)}{share}")
        if len(self.rows) > SHOWN_CELLS:
            lines.append(f"  and {len(self.rows) - SHOWN_CELLS} more in the table of counts")
        return "\n".join(lines)

    def to_frames(self) -> Mapping[str, pl.DataFrame]:
        """`counts`: cells and margins; `counts_by_site`, if sites answered for themselves."""
        frames = {"counts": self._frame(self.rows)}
        if len(self.by_site) > 1:
            parts = []
            for site, table in self.by_site.items():
                frame = self._frame(self._rows(table, consistent(table.values, table.noise)))
                parts.append(frame.insert_column(0, pl.Series("site", [site] * len(frame))))
            frames["counts_by_site"] = pl.concat(parts)
        return frames

    def _frame(self, rows: Sequence[CountRow]) -> pl.DataFrame:
        # a variable may have the name of one of the other columns
        labels: dict[str, list[Any]] = {
            f"{name} (variable)" if name in (*_NUMBERS, "site") else name: [row.labels[index] for row in rows]
            for index, name in enumerate(self.headings)
        }
        columns = labels | {
            "shown": [row.displayed for row in rows],
            "answer": [row.raw for row in rows],
            "low": [row.count.low for row in rows],
            "high": [row.count.high for row in rows],
            "share": [row.share and row.share.value for row in rows],
            "share_low": [row.share and row.share.low for row in rows],
            "share_high": [row.share and row.share.high for row in rows],
            "likelihood_ratio_zero_to_few": [row.ratio for row in rows],
            "probability_zero": [row.empty for row in rows],
        }
        return pl.DataFrame(columns, schema_overrides=dict.fromkeys(_NUMBERS, pl.Float64), strict=False)

    def to_builtins(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "kind": "counts",
            "name": self.part.name,
            "by": list(self.part.by),
            "filter": self.filter.removeprefix(", "),
            "few": self.part.few,
            "noise": {"scale": self.table.noise.scale, "draws": self.table.noise.draws},
            "rows": [
                {
                    "labels": list(row.labels),
                    "shown": row.displayed,
                    "answer": row.raw,
                    "these_records": [row.count.low, row.count.high],
                    "share": row.share and row.share.value,
                    "their_population": row.share and [row.share.low, row.share.high],
                    "likelihood_ratio_zero_to_few": finite(row.ratio),
                    "probability_zero": row.empty,
                }
                for row in self.rows
            ],
        }

    def blocks(self) -> Sequence[Block]:
        """The table of counts with margins, a histogram of one variable, intervals, and zero or few."""
        blocks: list[Block] = [Heading(self.part.name), Text(self._lead())]
        if self.part.by:
            blocks.append(self._cross_table())
        if len(self.part.by) == 1 and not self.table.axes[0].levels:
            blocks.append(self._histogram())
        rows = [row for row in self.rows if row.displayed > 0 or not row.margin]
        blocks.append(
            text_table(
                "Each count with its interval",
                (*self.headings, "records", "95 % interval", "share of their population"),
                [
                    (
                        *row.labels,
                        f"{row.displayed:,.0f}",
                        f"{row.count.low:,.0f} to {row.count.high:,.0f}",
                        "" if row.share is None else share_words(row.share),
                    )
                    for row in rows[:SHOWN_CELLS]
                ],
                note="Records: these records, so the interval holds the noise alone. Share: of the population that "
                "they are a sample of."
                + (f" The first {SHOWN_CELLS} of {len(rows)}; the CSV has all." if len(rows) > SHOWN_CELLS else ""),
            )
        )
        doubtful = [row for row in self.rows if not row.margin or self.cells]
        doubtful = [row for row in doubtful if row.count.low <= 0 < row.count.high][:SHOWN_CELLS]
        if doubtful and not self.table.noise.exact:
            blocks.append(
                text_table(
                    "Zero or few?",
                    (*self.headings, "probability of zero", "likelihood ratio of zero to few"),
                    [(*row.labels, f"{row.empty:.2f}", ratio_words(row.ratio)) for row in doubtful],
                    note=f"Few: 1 to {self.part.few} records, each number as likely. The probability is that of one "
                    "who before held zero as likely as few. With other odds before, multiply them by the ratio.",
                )
            )
        return blocks

    def _lead(self) -> str:
        reach = self.table.noise.quantile(0.975)
        total = self.rows[-1]
        between = f"between {total.count.low:,.0f} and {total.count.high:,.0f} with 95 %"
        text = f"{total.displayed:,.0f} records{self.filter} (these records)"
        text += "." if self.table.noise.exact else f", {between}."
        if self.part.by:
            text += f" Each cell is within {reach:,} with 95 %." if reach else " The counts are exact."
        if self.table.most_records_per_unit > 1:
            text += f" One unit may have up to {self.table.most_records_per_unit} records, and each record counts."
        return text

    def _cross_table(self) -> Block:
        """Rows by the first variables, columns by the last; margins in bold."""
        axes, values = self.table.axes, self.displayed
        if len(axes) == 1:
            rows: list[tuple[object, ...]] = [
                (label, f"{value:,.0f}") for label, value in zip(axes[0].labels, values, strict=True)
            ]
            rows.append(strong("all", f"{values.sum():,.0f}"))
            return text_table(
                f"Number of records by {axes[0].variable}", (axes[0].variable, "records"), rows, numbers=True
            )
        columns = axes[-1].labels
        rows = []
        for index in np.ndindex(*values.shape[:-1]):
            label = ", ".join(axis.labels[place] for axis, place in zip(axes, index, strict=False))
            rows.append((label, *(f"{value:,.0f}" for value in values[index]), _bold(values[index].sum())))
        sums = values.sum(tuple(range(len(axes) - 1)))
        rows.append(strong("all", *(f"{value:,.0f}" for value in (*sums, values.sum()))))
        names = ", ".join(axis.variable for axis in axes[:-1])
        return text_table(
            f"Number of records by {names} and {axes[-1].variable}",
            (names, *columns, "all"),
            rows,
            numbers=True,
            note="Shown counts are made consistent; intervals come from the raw answers.",
        )

    def _histogram(self) -> Block:
        axis = self.table.axes[0]
        noise = self.table.noise
        places = []
        for index, label in enumerate(axis.labels[:-1]):
            row = self.rows[index]
            text = f"{label}: {count_words(row.count, row.displayed)}"
            places.append(Place(index + 1.0, row.displayed, (row.count.low, row.count.high), text))
        horizontal = make_axis(1.0, max(float(len(places)), 2.0), [1, 2, 5, 10, 20, 50])
        steps = [m * 10.0**k for k in range(9) for m in (1, 2, 5)]
        series = [Series(Key(0, False, "records"), places, form="bars", errors=not noise.exact)]
        name = f"Number of records by {axis.variable}"
        across = f"bin of {axis.variable}, as in the table" + (f" ({axis.measure})" if axis.measure else "")
        return Charts(
            [line_chart(name, series, horizontal, steps, least=0.0, unit="records", across=across)], columns=1
        )

    def methods(self) -> Sequence[str]:
        """Sentences of the methods paragraph."""
        return count_methods(self.table)


def _around(estimate: Estimate, displayed: float) -> Estimate:
    """The interval, widened where a count that was made consistent lies outside."""
    return replace(estimate, low=min(estimate.low, displayed), high=max(estimate.high, displayed))


def count_methods(table: NoisyTable) -> list[str]:
    """What a methods paragraph says of counts and shares."""
    sentences = [
        f"Counts were released with discrete Laplace noise of scale {table.noise.scale:.4g} records.",
        (
            "Intervals of counts (95 %) refer to these records and use the exact law of the noise; shares refer to "
            "the population of which the records are a sample, by inversion of a binomial test whose null law holds "
            "sampling and noise."
        ),
        (
            "Displayed counts were made whole, non-negative and consistent with their totals; an interval that would "
            "leave one out is widened to it."
        ),
    ]
    if table.most_records_per_unit > 1:
        sentences.append(
            f"One unit contributed up to {table.most_records_per_unit} records; shares are weighted by record, and "
            f"sampling variances are multiplied by {table.most_records_per_unit} as a bound on clustering."
        )
    return sentences


def _bold(value: float) -> Cell:
    return Cell(f"{value:,.0f}", strong=True)


def count_words(estimate: Estimate, displayed: float | None = None) -> str:
    """Words of a count: "212, between 190 and 234 with 95 %"; "212" where it is exact."""
    value = estimate.value if displayed is None else displayed
    if value is None:
        return f"between {estimate.low:,.0f} and {estimate.high:,.0f} with 95 %"
    if estimate.low == estimate.high == value:
        return f"{value:,.0f}"
    return f"{value:,.0f}, between {estimate.low:,.0f} and {estimate.high:,.0f} with 95 %"


def share_words(estimate: Estimate) -> str:
    """Words of a share: "21.3 % (19.0 to 23.8)"."""
    interval = f"({100 * estimate.low:.1f} to {100 * estimate.high:.1f})"
    return f"not estimable {interval}" if estimate.value is None else f"{100 * estimate.value:.1f} % {interval}"


def ratio_words(ratio: float | None) -> str:
    """A likelihood ratio with two digits, as a fraction below 1: "12", "1 / 340"."""
    if ratio is None:
        return ""
    if ratio >= 1:
        return "over 1,000,000" if ratio > 1e6 else f"{float(f'{ratio:.2g}'):,g}"
    return "below 1 / 1,000,000" if ratio < 1e-6 else f"1 / {float(f'{1 / ratio:.2g}'):,g}"
