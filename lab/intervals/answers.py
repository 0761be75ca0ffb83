"""What simulated curators answer: exact tables of drawn records, and noise of the law that the product states."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.intervals.design import OWN, Condition
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers, TableQuestion
from learner_node.analyses.part import Part
from protocol.partitions.cross_bins import Range
from protocol.partitions.feature_bins import FeatureBins
from protocol.schema import Schema

Values = NDArray[np.float64]
Columns = Mapping[str, Values]
"""Variable -> (n,): codes of levels from 0, or numbers; NaN is missing."""
Draw = Callable[[np.random.Generator, int], Columns]
"""(generator, n) -> independent records."""
CORRELATION = 0.6
"""Of any function of two records of one unit."""


def draw_records(draw: Draw, condition: Condition, rng: np.random.Generator) -> Columns:
    """Records of one site, units of c records after each other.

    Each record of a unit is a copy of the unit's own one with probability sqrt(.6), and else drawn anew. So each has
    the law of `draw`, and any function of two records of one unit has correlation .6.
    """
    size, most = condition.size, condition.most_records_per_unit
    fresh = draw(rng, size)
    if most == 1:
        return fresh
    first = draw(rng, -(-size // most))
    copied = rng.random(size) < np.sqrt(CORRELATION)
    return {name: np.where(copied, first[name].repeat(most)[:size], values) for name, values in fresh.items()}


def noise_of(condition: Condition, sites: int | None = None, share: Fraction = Fraction(1)) -> NoiseLaw:
    """The noise in each cell of a table that has a share of epsilon: pooled, or of one site."""
    scale = float(condition.most_records_per_unit / (condition.fraction * share))
    return NoiseLaw(scale, condition.draws if sites is None else float(sites))


def cells_of(bins: FeatureBins, columns: Columns, schema: Schema) -> NDArray[np.intp]:
    """The cell of each record on one axis, as a curator finds it."""
    axis = Axis.of(bins, schema)
    column = columns[bins.attribute]
    missing = np.isnan(column)
    values = np.where(missing, 0.0, column)
    cells = values.astype(np.intp) if axis.levels else np.searchsorted(np.asarray(bins.edges), values, side="right")
    return np.where(missing, len(axis) - 1, cells).astype(np.intp)


def _inside(conditions: Sequence[Range], columns: Columns, schema: Schema) -> NDArray[np.bool_]:
    inside = np.ones(len(next(iter(columns.values()))), bool)
    for condition in conditions:
        inside &= np.isin(cells_of(condition.bins, columns, schema), condition.cells)
    return inside


def count(question: TableQuestion, columns: Columns, schema: Schema) -> tuple[Values, float]:
    """The exact table of a question, and how many records its filter leaves out."""
    axes = [Axis.of(bins, schema) for bins in question.factors]
    shape = tuple(map(len, axes))
    cells = np.ravel_multi_index([cells_of(bins, columns, schema) for bins in question.factors], shape)
    inside = _inside(question.within, columns, schema)
    table = np.bincount(cells[inside], minlength=int(np.prod(shape))).reshape(shape).astype(float)
    return table, float((~inside).sum())


@dataclass(frozen=True)
class Federation:
    """The records of all sites, counted once; answers are drawn of them."""

    part: Any  # a `Part`
    schema: Schema
    condition: Condition
    tables: Sequence[Sequence[tuple[Values, float]]]  # of each site, of each question

    @classmethod
    def of(cls, part: Part, schema: Schema, condition: Condition, sites: Sequence[Columns]) -> "Federation":
        """The tables of these records, (columns of each site)."""
        questions = part.questions(schema)
        tables = [[count(question, columns, schema) for question in questions] for columns in sites]
        return cls(part, schema, condition, tables)

    def answers(self, rng: np.random.Generator | None) -> TableAnswers:
        """Noisy answers; without a generator, exact ones."""
        secure = self.condition.noise != OWN
        questions = self.part.questions(self.schema)
        total = sum((question.weight for question in questions), Fraction(0))
        law = [
            noise_of(self.condition, 1, question.weight / total) if rng else NoiseLaw(0.0, 1.0)
            for question in questions
        ]
        by_site = {
            f"site {number}": [
                self._table(question, *table, noise, 1, rng)
                for question, table, noise in zip(questions, tables, law, strict=True)
            ]
            for number, tables in enumerate(self.tables, 1)
        }
        if secure:
            sums = [
                (sum(table for table, _ in tables), sum(outside for _, outside in tables))
                for tables in zip(*self.tables, strict=True)
            ]
            pooled = [
                self._table(question, *table, NoiseLaw(noise.scale, self.condition.draws), self.condition.sites, rng)
                for question, table, noise in zip(questions, sums, law, strict=True)
            ]
            by_site = {}
        else:
            pooled = [_added(tables) for tables in zip(*by_site.values(), strict=True)]
        return TableAnswers(self.schema, self.condition.fraction, pooled, by_site, secure)

    def _table(
        self,
        question: TableQuestion,
        counts: Values,
        outside: float,
        noise: NoiseLaw,
        sites: int,
        rng: np.random.Generator | None,
    ) -> NoisyTable:
        axes = tuple(Axis.of(bins, self.schema) for bins in question.factors)
        left_out = outside if question.within else None
        if rng is not None:
            counts = counts + noise.simulate(rng, counts.shape)
            if left_out is not None:
                left_out += float(noise.simulate(rng, ()))
        return NoisyTable(axes, counts, noise, self.condition.most_records_per_unit, sites, left_out)


def _added(tables: Sequence[NoisyTable]) -> NoisyTable:
    total = tables[0]
    for table in tables[1:]:
        total = total.plus(table)
    return total
