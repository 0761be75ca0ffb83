"""What a plan of analyses would cost and show, before anything is asked: noise of each table, widths of intervals.

Nothing private is read. What is not declared is assumed, and said to be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import TableQuestion
from learner_node.analyses.part import EffectSize, Part, Setting
from learner_node.analyses.parts import check_parts
from learner_node.analyses.plan import split
from learner_node.analyses.power import USUAL_POWER, PowerQuote, foresee, read_effect
from learner_node.analyses.results import kind_of
from learner_node.study.pooling import Pooling, SecurePool, usual_pool
from protocol.rationals import written
from protocol.schema import Schema

HIGH = 0.975
"""Level of the upper end of a central 95 % interval."""
ASSUMED_SIZE = 10_000
"""Records at all curators together, where neither a card nor the asker says how many there are."""


@dataclass(frozen=True)
class Prospect:
    """Whom a plan would ask."""

    schema: Schema
    sizes: tuple[int, ...]  # records at each curator
    most_records_per_unit: int
    pooling: Pooling
    declared: bool = True  # whether all sizes are declared, or the asker's; else some are assumed
    least_colluders: int = 1

    @property
    def draws(self) -> float:
        """Number of noises in each pooled count, if all curators answer.

        Raises ConfigurationError: so many curators cannot be summed securely.
        """
        sites = len(self.sizes)
        if not self.pooling.secure:
            return float(sites)
        numbers = usual_pool(sites, self.pooling.colluders, self.pooling.dropouts, self.least_colluders)
        pool = SecurePool(tuple(bytes([0] * 30 + [*number.to_bytes(2, "big")]) for number in range(sites)), *numbers)
        return sites / pool.shares


@dataclass(frozen=True)
class TableQuote:
    """What one table would show."""

    variables: tuple[str, ...]  # its factors, in order
    cells: int
    epsilon: Fraction
    scale: Fraction  # of one noise
    within: int  # a pooled count is right within so many records with 95 %, as far as the noise goes
    site_within: int | None  # likewise of one curator's own count; None where only sums are opened


@dataclass(frozen=True)
class PartQuote:
    """What one analysis would cost and show."""

    name: str
    kind: str
    words: str  # what stewards read of it
    epsilon: Fraction
    tables: tuple[TableQuote, ...]
    widths: tuple[tuple[str, str], ...]  # a quantity, and the interval to expect
    powers: tuple[PowerQuote, ...]  # of stated effects, or of usual ones


@dataclass(frozen=True)
class AnalysesQuote:
    """A whole plan's quote at one epsilon."""

    epsilon: Fraction
    prospect: Prospect
    parts: tuple[PartQuote, ...]

    @property
    def cost(self) -> Fraction:
        """Exact cost at the costliest curator; at most `epsilon`."""
        return sum((part.epsilon for part in self.parts), Fraction(0))

    def to_text(self) -> str:
        """A text for a terminal."""
        prospect, records = self.prospect, sum(self.prospect.sizes)
        curators = f"{len(prospect.sizes)} curator{'s' if len(prospect.sizes) > 1 else ''}"
        assumed = "" if prospect.declared else " (assumed: not all declare round_size; --size tells better)"
        bound = f", {prospect.most_records_per_unit} records a unit" if prospect.most_records_per_unit > 1 else ""
        pooling = "one secure sum" if prospect.pooling.secure else "each curator's own noise"
        lines = [
            f"epsilon {written(self.epsilon)}: {curators}, about {records:,} records{assumed}{bound}; {pooling}",
            "95 % intervals; shown: p below 5 %, two-sided; nothing is asked by a quote",
        ]
        for part in self.parts:
            lines += ["", f"{part.name} ({part.kind}), epsilon {written(part.epsilon)}", f"  {part.words}"]
            lines += [f"  {line}" for line in _noise_lines(part.tables)]
            lines += [f"  {quantity}: {interval}" for quantity, interval in part.widths]
            lines += [f"  {power.to_text()}" for power in part.powers]
        return "\n".join(lines)

    def to_builtins(self) -> dict[str, Any]:
        """The same as JSON; rationals are texts."""
        return {
            "epsilon": str(self.epsilon),
            "cost": str(self.cost),
            "curators": len(self.prospect.sizes),
            "records": sum(self.prospect.sizes),
            "declared": self.prospect.declared,
            "most_records_per_unit": self.prospect.most_records_per_unit,
            "pooling": self.prospect.pooling.method,
            "analyses": [
                {
                    "name": part.name,
                    "kind": part.kind,
                    "words": part.words,
                    "epsilon": str(part.epsilon),
                    "tables": [
                        {
                            "variables": list(table.variables),
                            "cells": table.cells,
                            "epsilon": str(table.epsilon),
                            "scale": str(table.scale),
                            "within": table.within,
                            "site_within": table.site_within,
                        }
                        for table in part.tables
                    ],
                    "intervals": [{"quantity": quantity, "interval": interval} for quantity, interval in part.widths],
                    "effects": [power.to_builtins() for power in part.powers],
                }
                for part in self.parts
            ],
        }


def quote_analyses(
    parts: Sequence[Part],
    prospect: Prospect,
    epsilon: Fraction,
    *,
    effects: Sequence[EffectSize] = (),
    power: float = USUAL_POWER,
) -> AnalysesQuote:
    """What the parts in one plan would cost and show at `epsilon`.

    Args:
        parts: of the plan.
        prospect: whom it asks.
        epsilon: of the plan.
        effects: whose power is foreseen; none takes each part's usual ones.
        power: with which the least epsilon is to show them.

    Raises ConfigurationError: a part does not fit the schema, or epsilon is too small for so many tables.
    """
    check_parts(parts)
    tables = split(parts, prospect.schema, epsilon, prospect.most_records_per_unit)
    quotes = []
    for part, questions, epsilons in zip(parts, tables.questions, tables.epsilons, strict=True):
        scales = [prospect.most_records_per_unit / value for value in epsilons]
        noises = [NoiseLaw(float(scale), prospect.draws) for scale in scales]
        setting = Setting(prospect.schema, prospect.sizes, noises, prospect.most_records_per_unit)
        rows = zip(questions, epsilons, scales, noises, strict=True)
        cost = sum(epsilons, Fraction(0))
        quotes.append(
            PartQuote(
                name=part.name,
                kind=kind_of(part),
                words=part.words(prospect.schema),
                epsilon=cost,
                tables=tuple(_table(prospect, *row) for row in rows),
                widths=tuple(part.quote(setting)),
                powers=tuple(foresee(part, setting, epsilon, cost, effects=effects, power=power)),
            )
        )
    return AnalysesQuote(epsilon, prospect, tuple(quotes))


def quote_at(
    parts: Sequence[Part], prospect: Prospect, epsilons: Sequence[Fraction], effects: Sequence[str], power: float
) -> list[AnalysesQuote]:
    """A plan's quotes at some epsilons, with the power for effects in words, such as "hazard ratio 1.5".

    Raises ConfigurationError: as `quote_analyses`, or an effect is none of the plan's.
    """
    sizes = [read_effect(text, parts) for text in effects]
    return [quote_analyses(parts, prospect, epsilon, effects=sizes, power=power) for epsilon in epsilons]


def _table(
    prospect: Prospect, question: TableQuestion, epsilon: Fraction, scale: Fraction, noise: NoiseLaw
) -> TableQuote:
    return TableQuote(
        variables=tuple(bins.attribute for bins in question.factors),
        cells=question.partition.cell_count(prospect.schema),
        epsilon=epsilon,
        scale=scale,
        within=noise.quantile(HIGH),
        site_within=None if prospect.pooling.secure else NoiseLaw(float(scale)).quantile(HIGH),
    )


def _noise_lines(tables: Sequence[TableQuote]) -> list[str]:
    """Sentences on the tables' noise: one for each precision, with how many tables have it."""
    groups: dict[tuple[int, int | None], list[TableQuote]] = {}
    for table in tables:
        groups.setdefault((table.within, table.site_within), []).append(table)
    lines = []
    for (within, site_within), group in groups.items():
        names = f"a table of {' by '.join(group[0].variables)}" if len(group) == 1 else f"{len(group)} tables"
        cells = sum(table.cells for table in group)
        site = "" if site_within is None or site_within == within else f" (one curator's within {site_within:,})"
        lines.append(f"{names}, {cells:,} cells: each count right within {within:,} records{site}")
    return lines
