"""What a Table 1 found, as text, frames, JSON and a table as papers have it: groups in columns, then p and SMD."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from expril.report.document import Block, Fold, Heading, Text
from expril.report.table import Cell, Column, Group, Table
from learner_node.analyses.counts import share_words
from learner_node.analyses.figures import p_words
from learner_node.analyses.inference import SignificanceTest
from learner_node.analyses.noisy_table import OTHER
from learner_node.analyses.part import Estimate, finite

Floats = NDArray[np.float64]
_NAMES = ("first quartile", "median", "third quartile")


@dataclass(frozen=True)
class GroupShares:
    """An attribute's levels in one column."""

    counts: Sequence[Estimate]  # these records, of each level and "other"
    shares: Sequence[Estimate]  # their population, of records that are not missing; () where not computed


@dataclass(frozen=True)
class GroupNumber:
    """A number in one column, of the middles of its bins."""

    mean: Estimate
    deviation: Estimate
    quartiles: Sequence[Estimate]  # three; intervals end at edges of bins
    records_mean: Estimate  # of these records


@dataclass(frozen=True)
class Difference:
    """How groups differ in one attribute."""

    test: SignificanceTest
    smd: Estimate  # of more than two groups that of the pair that differs most
    kind: str  # what the SMD is of
    pairs: int  # of groups
    holm: float | None = None  # p adjusted in the family of this Table 1's tests

    @property
    def p(self) -> float | None:
        """Unadjusted."""
        return self.test.p


@dataclass(frozen=True)
class AttributeRows:
    """One attribute in all columns: of each group, and overall."""

    name: str
    measure: str
    labels: tuple[str, ...]  # levels and "other", or bins
    displayed: Floats  # (labels and missing, columns), consistent
    missing: Sequence[tuple[Estimate, Estimate | None]]  # count and share in each column
    shares: Sequence[GroupShares]  # () of a number
    numbers: Sequence[GroupNumber]  # () of levels
    difference: Difference | None
    edges: tuple[float, ...] = ()
    bounds: tuple[float, float] = (0.0, 0.0)  # of a number: where its first bin begins, and its last one ends

    @property
    def mean_reach(self) -> float:
        """How far the mean of the values may be from that of the bins' middles, over all records as shown."""
        ends = np.array([self.bounds[0], *self.edges, self.bounds[1]])
        counts = self.displayed[:-1, -1]
        return float(counts @ np.diff(ends) / 2.0 / counts.sum()) if counts.sum() > 0 else 0.0

    def adjusted_by(self, p: float | None) -> "AttributeRows":
        """The rows with Holm's p-value."""
        return self if self.difference is None else replace(self, difference=replace(self.difference, holm=p))

    @property
    def title(self) -> str:
        """Name and units."""
        return f"{self.name} ({self.measure})" if self.measure else self.name


@dataclass(frozen=True)
class SiteTable:
    """One site's columns, with intervals of these records alone."""

    site: str
    sizes: Sequence[Estimate]
    rows: Sequence[AttributeRows]


@dataclass(frozen=True)
class _Line:
    """A row of the table as shown."""

    label: Cell
    cells: Sequence[Cell]
    p: str = ""
    holm: str = ""
    smd: str | Cell = ""


@dataclass(frozen=True)
class TableOneResult:
    """Who the records are."""

    name: str
    group: str
    filter: str
    labels: tuple[str, ...]  # of the columns, the last is overall
    sizes: Sequence[Estimate]
    rows: Sequence[AttributeRows]
    sites: Sequence[SiteTable]
    reaches: Sequence[int]  # of a cell of each attribute's table, 95 %
    scales: Sequence[float]
    most_records_per_unit: int
    secure: bool

    @property
    def tests(self) -> int:
        """Number of tests in the family."""
        return sum(row.difference is not None and row.difference.p is not None for row in self.rows)

    @property
    def noisy(self) -> bool:
        """Whether answers hold noise."""
        return max(self.reaches) > 0

    def to_text(self) -> str:
        """One line for each row of the table."""
        lines = [f"{self.name}: {' | '.join(map(self._column_title, range(len(self.labels))))}"]
        for row in self.rows:
            for line in self._lines(row, self.sizes):
                end = "; ".join(f"{name} {text}" for name, text in (("p", line.p), ("Holm", line.holm)) if text)
                smd = line.smd.text if isinstance(line.smd, Cell) else line.smd
                tail = "; ".join(text for text in (end, f"SMD {smd}" if smd else "") if text)
                cells = " | ".join(cell.text for cell in line.cells)
                lines.append(
                    "  " + line.label.text + (f": {cells}" if cells.strip(" |") else "") + f"  {tail}".rstrip()
                )
        return "\n".join(lines)

    def _column_title(self, column: int) -> str:
        return f"{self.labels[column]} (n = {_size(self.rows, column):,.0f})"

    def to_frames(self) -> Mapping[str, pl.DataFrame]:
        """`table_one`: each estimate a row; `table_one_tests`; `table_one_by_site` if sites answered for themselves."""
        frames = {
            "table_one": pl.DataFrame(self._records(self.sizes, self.rows), strict=False, infer_schema_length=None)
        }
        tests = [
            {
                "attribute": row.name,
                "test": row.difference.test.name,
                "statistic": row.difference.test.statistic,
                "df": row.difference.test.df,
                "p": row.difference.p,
                "p_holm": row.difference.holm,
                "smd": row.difference.smd.value,
                "smd_low": finite(row.difference.smd.low),
                "smd_high": finite(row.difference.smd.high),
                "smd_is": row.difference.kind,
            }
            for row in self.rows
            if row.difference is not None
        ]
        if tests:
            frames["table_one_tests"] = pl.DataFrame(tests, strict=False, infer_schema_length=None)
        if self.sites:
            records = [
                {"site": site.site, **record} for site in self.sites for record in self._records(site.sizes, site.rows)
            ]
            frames["table_one_by_site"] = pl.DataFrame(records, strict=False, infer_schema_length=None)
        return frames

    def _records(self, sizes: Sequence[Estimate], rows: Sequence[AttributeRows]) -> list[dict[str, Any]]:
        records = []

        def add(row: AttributeRows | None, column: int, item: str, estimate: Estimate, value: float | None) -> None:
            records.append(
                {
                    "attribute": "" if row is None else row.name,
                    "group": self.labels[column],
                    "item": item,
                    "value": value,
                    "low": finite(estimate.low),
                    "high": finite(estimate.high),
                    "estimand": estimate.of,
                }
            )

        for column, size in enumerate(sizes):
            add(None, column, "records", size, size.value)
        for row in rows:
            for column in range(len(self.labels)):
                for index, label in enumerate(row.labels if row.shares else ()):
                    shares = row.shares[column]
                    add(row, column, f"n of {label}", shares.counts[index], float(row.displayed[index, column]))
                    if shares.shares:
                        share = shares.shares[index]
                        add(row, column, f"share of {label}", share, share.value)
                if row.numbers:
                    number = row.numbers[column]
                    add(row, column, "mean of bins", number.mean, number.mean.value)
                    if number.records_mean is not number.mean:
                        add(row, column, "mean of bins", number.records_mean, number.records_mean.value)
                    add(row, column, "standard deviation of bins", number.deviation, number.deviation.value)
                    for name, estimate in zip(_NAMES, number.quartiles, strict=True):
                        add(row, column, name, estimate, estimate.value)
                count, share_missing = row.missing[column]
                add(row, column, "n of missing", count, float(row.displayed[-1, column]))
                if share_missing is not None:
                    add(row, column, "share of missing", share_missing, share_missing.value)
        return records

    def to_builtins(self) -> dict[str, Any]:
        """The same as JSON."""
        frames = self.to_frames()
        return {
            "kind": "table_one",
            "name": self.name,
            "group": self.group,
            "filter": self.filter.removeprefix(", "),
            "columns": list(self.labels),
            "sizes": [[size.value, size.low, size.high] for size in self.sizes],
            "cell_reach": list(self.reaches),
            "edges": {row.name: list(row.edges) for row in self.rows if row.numbers},
            **{name: [_plain(record) for record in frame.to_dicts()] for name, frame in frames.items()},
        }

    def blocks(self) -> Sequence[Block]:
        """The table, its foot, each site's table."""
        blocks: list[Block] = [Heading(self.name), Text(self._lead()), self._table(self.sizes, self.rows, tests=True)]
        blocks.append(Text(" ".join(self._foot()), style="fine"))
        blocks += [
            Fold(f"{self.name} at {site.site}", [self._table(site.sizes, site.rows, tests=False)])
            for site in self.sites
        ]
        if self.secure:
            blocks.append(
                Text("Only the sum over sites was opened, so there is no table of a single site.", style="fine")
            )
        return blocks

    def _lead(self) -> str:
        size = self.sizes[-1]
        between = f", between {size.low:,.0f} and {size.high:,.0f} with 95 %" if self.noisy else ""
        text = f"{_size(self.rows, -1):,.0f} records{self.filter}{between}."
        reach = max(self.reaches)
        if reach:
            least = min(self.reaches)
            span = f"{reach:,}" if least == reach else f"{least:,} to {reach:,}, by attribute"
            text += f" Each count of a group is within {span} of the exact one with 95 %."
        return text

    def _foot(self) -> list[str]:
        texts = [
            "n (%): percentages are of records that are not missing.",
            "Below a value, its 95 % interval for the population of which the records are a sample"
            + (", with sampling and noise." if self.noisy else "."),
        ]
        if any(row.numbers for row in self.rows):
            texts.append(
                "Means and standard deviations take each value at the middle of its bin, the first bin from the "
                "attribute's lower bound, the last one to its upper bound. Their intervals and the SMD's do not hold "
                "what that changes. A mean of the values themselves may differ by up to "
                + ", ".join(f"{_digits(row.mean_reach)} ({row.name})" for row in self.rows if row.numbers)
                + ". Where that is much, prefer the median, or ask with more edges: quartiles are interpolated within "
                "a bin, and their intervals end at edges, so they hold what is unknown within bins."
            )
            texts += [
                f"Bins of {row.name}: edges {', '.join(f'{edge:g}' for edge in row.edges)}."
                for row in self.rows
                if row.numbers and row.edges
            ]
        if self.group:
            texts.append(
                f"Overall includes records whose {self.group} is missing or of no listed level. SMD: standardised mean "
                "difference" + (", of the two groups that differ most." if len(self.labels) > 3 else ".")
            )
            texts.append(
                f"p: of no difference between groups; the family of Holm's adjustment is the {self.tests} tests of "
                "this table."
            )
        if self.most_records_per_unit > 1:
            texts.append(
                f"Each record counts, up to {self.most_records_per_unit} of one unit; sampling variances are "
                f"multiplied by {self.most_records_per_unit}, as a bound on how alike a unit's records are."
            )
        return texts

    def _table(self, sizes: Sequence[Estimate], rows: Sequence[AttributeRows], *, tests: bool) -> Table[_Line]:
        lines = [line for row in rows for line in self._lines(row, sizes)]
        columns: list[Column[_Line]] = [Column("attribute", lambda line: line.label, names=True, quiet=True)]
        for index, label in enumerate(self.labels):
            heading = f"{label} (n = {_size(rows, index):,.0f})"
            columns.append(Column(heading, partial(_at, index), number=True))
        if tests:
            columns += [
                Column("p", lambda line: line.p, number=True),
                Column("p (Holm)", lambda line: line.holm, number=True),
                Column("SMD", lambda line: line.smd, number=True),
            ]
        by = f" by {self.group}" if self.group else ""
        return Table(f"{self.name}{by}", columns, (Group(lines),) if lines else ())

    def _lines(self, row: AttributeRows, sizes: Sequence[Estimate]) -> list[_Line]:
        columns = range(len(sizes))
        p = holm = ""
        smd: str | Cell = ""
        if row.difference is not None:
            p, holm, smd = p_words(row.difference.p), p_words(row.difference.holm), _smd_cell(row.difference.smd)
        lines = []
        if row.numbers:
            means = [_mean_cell(row.numbers[column]) for column in columns]
            lines.append(_Line(Cell(f"{row.title}, mean (SD) of bins", strong=True), means, p, holm, smd))
            middle = [_quartile_cell(row.numbers[column]) for column in columns]
            lines.append(_Line(Cell("\u2003median [quartiles]"), middle))
        else:
            lines.append(_Line(Cell(f"{row.title}, n (%)", strong=True), (), p, holm, smd))
            for index, label in enumerate(row.labels):
                if label == OTHER and index == len(row.labels) - 1 and not self._other(row, index):
                    continue
                cells = [_share_cell(row, index, column) for column in columns]
                lines.append(_Line(Cell(f"\u2003{label}"), cells))
        if any(row.missing[column][0].high > 0 for column in columns) and np.any(row.displayed[-1] > 0):
            lines.append(_Line(Cell("\u2003missing"), [_missing_cell(row, column) for column in columns]))
        return lines

    @staticmethod
    def _other(row: AttributeRows, index: int) -> bool:
        """Whether values of no declared level are shown: if some column surely has some."""
        return any(shares.counts[index].low > 0 for shares in row.shares)

    def methods(self) -> Sequence[str]:
        """Sentences of the methods paragraph."""
        scales = sorted({f"{scale:.4g}" for scale in self.scales})
        first = (
            f"Table 1 was computed from {len(self.rows)} cross tables of counts released with discrete Laplace noise "
            f"of scale {' and '.join(scales)} records."
        )
        texts = [
            first,
            (
                "Intervals (95 %) refer to the population of which the records are a sample; they invert tests whose "
                "null law holds sampling and noise."
            ),
        ]
        if any(row.numbers for row in self.rows):
            texts.append(
                "Numbers were counted in bins; means and standard deviations are those of the bins' middles, and "
                "intervals of quartiles end at edges of bins."
            )
        if self.group:
            texts.append(
                "Groups were compared by chi-squared tests (levels, and numbers between more than two groups) and by a "
                "test of the means of bins (numbers between two groups), with the noise in their null laws; p-values "
                f"are given raw and with Holm's adjustment for the {self.tests} tests of the table."
            )
        if self.most_records_per_unit > 1:
            texts.append(
                f"One unit contributed up to {self.most_records_per_unit} records; estimates are weighted by record, "
                f"and sampling variances were multiplied by {self.most_records_per_unit} as a bound on clustering."
            )
        if self.sites or self.secure:
            texts.append(
                "Sites were pooled by adding up their counts"
                + (" securely; only sums were opened." if self.secure else ".")
            )
        return texts


def _size(rows: Sequence[AttributeRows], column: int) -> float:
    """The displayed size of a column, the same in all rows."""
    return float(rows[0].displayed[:, column].sum())


def _at(index: int, line: _Line) -> Cell:
    return line.cells[index] if index < len(line.cells) else Cell("")


def _digits(value: float) -> str:
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def _mean_cell(number: GroupNumber) -> Cell:
    mean, deviation = number.mean, number.deviation
    if mean.value is None:
        return Cell("not estimable")
    text = _digits(mean.value) + ("" if deviation.value is None else f" ({_digits(deviation.value)})")
    return Cell(text, under=f"{_digits(mean.low)} to {_digits(mean.high)}" if mean.low < mean.high else "")


def _quartile_cell(number: GroupNumber) -> Cell:
    first, median, third = number.quartiles
    if median.value is None or first.value is None or third.value is None:
        return Cell("not estimable")
    text = f"{_digits(median.value)} [{_digits(first.value)}, {_digits(third.value)}]"
    return Cell(text, under=f"{median.low:g} to {median.high:g}")


def _share_cell(row: AttributeRows, index: int, column: int) -> Cell:
    count = row.displayed[index, column]
    total = row.displayed[:-1, column].sum()
    percent = f" ({100 * count / total:.1f})" if total > 0 else ""
    shares = row.shares[column].shares
    under = _interval(shares[index], count / total if total > 0 else None) if shares else ""
    return Cell(f"{count:,.0f}{percent}", under=under)


def _missing_cell(row: AttributeRows, column: int) -> Cell:
    count, total = row.displayed[-1, column], row.displayed[:, column].sum()
    share = row.missing[column][1]
    percent = f" ({100 * count / total:.1f})" if total > 0 else ""
    under = _interval(share, count / total if total > 0 else None) if share else ""
    return Cell(f"{count:,.0f}{percent}", under=under)


def _interval(share: Estimate, display: float | None) -> str:
    """Ends of a share, widened where the consistent one that is shown lies outside."""
    if display is not None:
        share = replace(share, low=min(share.low, display), high=max(share.high, display))
    words = share_words(share)
    return words[words.index("(") + 1 : -1] + " %"


def _smd_cell(smd: Estimate) -> Cell:
    if smd.value is None:
        return Cell("not estimable")
    if np.isfinite(smd.low) and np.isfinite(smd.high):
        return Cell(f"{smd.value:.2f}", under=f"{smd.low:.2f} to {smd.high:.2f}")
    return Cell(f"{smd.value:.2f}")


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: finite(value) for key, value in record.items()}
