"""What an analysis is: a part of a plan that names its tables, reads their answers, and foresees its intervals.

The machinery that asks and the pages that show know this interface alone. A new analysis is one module that has a
`Part` and its `Result`; nothing else changes for it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import msgspec
import polars as pl

from expril.report.document import Block
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import TableAnswers, TableQuestion
from protocol.rationals import Rational
from protocol.schema import Schema

Estimand = Literal["these records", "their population"]
THESE: Estimand = "these records"
POPULATION: Estimand = "their population"
LEVEL = 0.95


def finite(value: Any) -> Any:
    """The value, or None for a number that JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; where nothing can be said, no value and an interval of all that is possible."""

    value: float | None
    low: float  # may be -inf
    high: float  # may be inf
    # "these records": noise alone is uncertain. "their population": the records are a sample, too
    of: Estimand = POPULATION
    p: float | None = None  # two-sided p-value of a stated null; None without a test

    @property
    def estimable(self) -> bool:
        """Whether there is a value."""
        return self.value is not None

    def to_builtins(self) -> dict[str, Any]:
        """As JSON. An end that is infinite is None, as is a value that is not estimable.

        Every estimate of a result is written so: a simulation finds it by these keys, and holds it against the exact
        one, which is at the same place of the result of exact answers.
        """
        value = None if self.value is None else float(self.value)
        p = {} if self.p is None else {"p": float(self.p)}
        return {"value": value, "low": finite(float(self.low)), "high": finite(float(self.high)), "of": self.of, **p}


@dataclass(frozen=True)
class Setting:
    """What a quote may assume before anything is asked. Everything here is stated by the asker or on cards."""

    schema: Schema
    sizes: Sequence[int]  # number of records at each curator, as declared or assumed
    noises: Sequence[NoiseLaw]  # of each question's table, in the pooled answer; the order of `questions`
    most_records_per_unit: int = 1


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a quote assumes of the population."""

    events: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.2  # share of records with an event (before the horizon)


@dataclass(frozen=True)
class EffectSize:
    """An effect that a quote should judge, in the asker's words."""

    measure: str  # such as "hazard ratio"
    size: float


@dataclass(frozen=True)
class EffectTest:
    """A part's own test of an effect, as foreseen."""

    words: str  # the effect, and what is assumed of the population
    # the noise of each question's table -> the chance of p below 5 %; it grows as noises shrink
    power: Callable[[Sequence[NoiseLaw]], float]


class Result(Protocol):
    """What one analysis found, for page, terminal, JSON and CSV."""

    def to_text(self) -> str:
        """A text for a terminal."""

    def to_frames(self) -> Mapping[str, pl.DataFrame]:
        """Tables for CSV, by a name that is a file name's stem."""

    def to_builtins(self) -> dict[str, Any]:
        """The same as JSON: dictionaries, lists, strings, numbers and None (never NaN or an infinity).

        Each estimate is there as its `to_builtins`.
        """

    def blocks(self) -> Sequence[Block]:
        """Text, tables and charts for a page."""

    def methods(self) -> Sequence[str]:
        """Its sentences of the methods paragraph: design, estimator, intervals, conventions."""


class Part(Protocol):
    """One analysis of a plan. A part is a frozen msgspec.Struct, read from TOML by its tag `kind`."""

    name: str  # of the part in the plan and on the page, unique in the plan
    weight: Rational | int | float | str  # of its share of the plan's epsilon

    @property
    def measures(self) -> Sequence[str]:
        """Effects that it tests, such as "odds ratio"; the usual one first."""

    def questions(self, schema: Schema) -> Sequence[TableQuestion]:
        """The tables that it needs.

        Raises ConfigurationError: the schema lacks a variable, or something cannot be estimated from any answer. It
        depends on no record.
        """

    def words(self, schema: Schema) -> str:
        """What a steward reads of it, one or two sentences in plain words: what is counted, by what."""

    def read(self, answers: TableAnswers) -> Result:
        """Estimates and intervals, of the answers as they came. It never fails for what an answer holds."""

    def quote(self, setting: Setting) -> Sequence[tuple[str, str]]:
        """Pairs of a quantity and the interval to expect, in words: ("odds ratio of 2", "1.4 to 2.9")."""

    def effect_tests(self, setting: Setting, stated: EffectSize | None) -> Sequence[EffectTest]:
        """Tests of a stated effect; of the usual ones for None; none where its measure is not one of `measures`."""
