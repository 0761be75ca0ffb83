"""The analyses of a study from their raw tables alone: results, text, JSON and CSV, and the file that holds the tables.

A file of raw tables lets a page or a later version read the answers anew; nothing here asks anybody.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain, count
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import polars as pl

from learner_node.analyses.methods import design_sentences, reader_sentences, records_counted
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers
from learner_node.analyses.part import Part, Result
from learner_node.analyses.parts import read_parts
from learner_node.study.pooling import Pooling, PoolingName
from protocol.errors import ConfigurationError
from protocol.rationals import Amount, parse_amount, written
from protocol.schema import Schema


@dataclass(frozen=True)
class Analyses:
    """What the curators' answers say of each part of a plan."""

    parts: tuple[Part, ...]
    answers: Mapping[str, TableAnswers]  # the raw tables of each part, by its name
    schema: Schema  # of the cards
    curators: tuple[str, ...]  # whose records are counted
    pooling: Pooling
    epsilon_claimed: Fraction  # exact cost of the plan at the costliest curator
    epsilon_spent: Mapping[str, Fraction]  # curator -> exact epsilon that its receipts charge to the study
    left_out: Mapping[str, str]  # curators whose answers are not used -> why
    population: str  # which records count, in words; "" where each record is a privacy unit

    @cached_property
    def results(self) -> Mapping[str, Result]:
        """Results by the part's name, in the order of the plan."""
        return {part.name: part.read(self.answers[part.name]) for part in self.parts}

    def __getitem__(self, name: str) -> Result:
        """The result of the part of that name. Raises KeyError: there is none."""
        return self.results[name]

    def epsilon_of(self, name: str) -> Fraction:
        """Exact cost of one part at the costliest curator."""
        return self.answers[name].epsilon

    @property
    def headline(self) -> str:
        """How many analyses, at which epsilon, by how many curators."""
        count, curators = len(self.parts), len(self.curators)
        sums = "; only their sum was opened" if self.pooling.secure else ""
        return (
            f"{count} {'analyses' if count > 1 else 'analysis'} at epsilon {written(self.epsilon_claimed)} by "
            f"{curators} curator{'s' if curators > 1 else ''}{sums}; 95 % intervals"
        )

    def to_text(self) -> str:
        """A text for a terminal: each part, and what was left out."""
        lines = [self.headline]
        for name, result in self.results.items():
            lines += ["", f"{name} (epsilon {written(self.epsilon_of(name))})", result.to_text()]
        if self.population:
            lines += ["", f"Here {self.population}."]
        lines += [f"Left out: {name}: {why}." for name, why in self.left_out.items()]
        return "\n".join(lines)

    def to_builtins(self) -> dict[str, Any]:
        """The same as JSON: dictionaries, lists, strings, numbers and None."""
        return {
            "epsilon_claimed": str(self.epsilon_claimed),
            "epsilon_spent": {name: str(value) for name, value in self.epsilon_spent.items()},
            "curators": list(self.curators),
            "left_out": dict(self.left_out),
            "pooling": self.pooling.method,
            "population": self.population,
            "analyses": [
                {
                    "name": part.name,
                    "kind": kind_of(part),
                    "epsilon": str(self.epsilon_of(part.name)),
                    "result": self.results[part.name].to_builtins(),
                }
                for part in self.parts
            ],
            "methods": self.methods(),
        }

    def to_frames(self) -> dict[str, pl.DataFrame]:
        """Tables for CSV, by "part" or "part-table"; a number tells the same names apart."""
        frames: dict[str, pl.DataFrame] = {}
        for name, result in self.results.items():
            for table, frame in result.to_frames().items():
                stem = name if table in ("", name) else f"{name}-{table}"
                names = chain([stem], (f"{stem}-{number}" for number in count(2)))
                frames[next(name for name in names if name not in frames)] = frame
        return frames

    def counted(self, site: str = "") -> tuple[float, float, float] | None:
        """How many records a site has, or all have together, and where 95 % are; None if no table tells."""
        answers = self.answers.values()
        tables = [table for part in answers for table in (part.by_site.get(site, ()) if site else part.pooled)]
        return records_counted(self.results.values(), tables, site)

    def methods(self) -> list[str]:
        """Sentences of the methods paragraph; a sentence that several parts share is there once."""
        design = design_sentences(
            self.curators,
            self.pooling,
            self.epsilon_claimed,
            self.answers,
            self.left_out,
            self.population,
            self.counted(),
        )
        parts = (sentence for result in self.results.values() for sentence in result.methods())
        return list(dict.fromkeys(chain(design, parts, reader_sentences())))


def kind_of(part: Part) -> str:
    """The tag of a part's kind."""
    return str(part.__struct_config__.tag)  # type: ignore[attr-defined]


class _WrittenTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A `NoisyTable`, its cells in the order of the axes."""

    axes: tuple[Axis, ...]
    values: tuple[int, ...]
    scale: Annotated[float, msgspec.Meta(ge=0)]
    draws: Annotated[float, msgspec.Meta(ge=0)]
    most_records_per_unit: int = 1
    sites: int = 1
    outside: int | None = None


class _WrittenAnswers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part and its `TableAnswers`."""

    part: dict[str, Any]
    epsilon: Amount
    pooled: tuple[_WrittenTable, ...]
    by_site: dict[str, tuple[_WrittenTable, ...]]


class WrittenAnalyses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`Analyses` as a file holds them."""

    format: Literal[1]
    parts: tuple[_WrittenAnswers, ...]
    schema: Schema
    curators: tuple[str, ...]
    pooling: PoolingName
    colluders: int | None
    dropouts: int | None
    epsilon_claimed: Amount
    epsilon_spent: dict[str, Amount]
    left_out: dict[str, str]
    population: str


def written_analyses(analyses: Analyses) -> WrittenAnalyses:
    """What a file holds of the analyses: the parts, and the raw tables."""
    return WrittenAnalyses(
        format=1,
        parts=tuple(
            _WrittenAnswers(
                part={"kind": kind_of(part)} | msgspec.to_builtins(part),
                epsilon=str(answers.epsilon),
                pooled=_written(answers.pooled),
                by_site={name: _written(tables) for name, tables in answers.by_site.items()},
            )
            for part in analyses.parts
            for answers in [analyses.answers[part.name]]
        ),
        schema=analyses.schema,
        curators=analyses.curators,
        pooling=analyses.pooling.method,
        colluders=analyses.pooling.colluders,
        dropouts=analyses.pooling.dropouts,
        epsilon_claimed=str(analyses.epsilon_claimed),
        epsilon_spent={name: str(value) for name, value in analyses.epsilon_spent.items()},
        left_out=dict(analyses.left_out),
        population=analyses.population,
    )


def read_analyses(content: WrittenAnalyses, *, where: str = "analyses") -> Analyses:
    """The analyses that a file holds. Raises ConfigurationError: a part or table in it does not fit."""
    parts = read_parts([answers.part for answers in content.parts], where=where)
    pooling = Pooling(content.pooling, content.colluders, content.dropouts)
    try:
        answers = {
            part.name: TableAnswers(
                schema=content.schema,
                epsilon=parse_amount(item.epsilon),
                pooled=_tables(item.pooled),
                by_site={name: _tables(tables) for name, tables in item.by_site.items()},
                secure=pooling.secure,
            )
            for part, item in zip(parts, content.parts, strict=True)
        }
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from None
    return Analyses(
        parts=parts,
        answers=answers,
        schema=content.schema,
        curators=content.curators,
        pooling=pooling,
        epsilon_claimed=parse_amount(content.epsilon_claimed),
        epsilon_spent={name: parse_amount(value) for name, value in content.epsilon_spent.items()},
        left_out=content.left_out,
        population=content.population,
    )


def _written(tables: Sequence[NoisyTable]) -> tuple[_WrittenTable, ...]:
    return tuple(
        _WrittenTable(
            axes=table.axes,
            values=tuple(table.values.ravel().astype(np.int64).tolist()),
            scale=table.noise.scale,
            draws=table.noise.draws,
            most_records_per_unit=table.most_records_per_unit,
            sites=table.sites,
            outside=None if table.outside is None else int(table.outside),
        )
        for table in tables
    )


def _tables(tables: Sequence[_WrittenTable]) -> list[NoisyTable]:
    return [
        NoisyTable(
            axes=table.axes,
            values=np.array(table.values, np.float64).reshape(tuple(map(len, table.axes))),
            noise=NoiseLaw(table.scale, table.draws),
            most_records_per_unit=table.most_records_per_unit,
            sites=table.sites,
            outside=table.outside,
        )
        for table in tables
    ]
