"""`expril quote`: from files or a scenario to what `learner_node.quote` needs, and its rows as a table or an object.

Nothing private is read: a scenario's source records are public, and of its curators only what they declare is used.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
from rich import box
from rich.markup import escape
from rich.table import Table

from curator_node.record_files import read_records
from curator_node.steward import StewardFile, read_steward_file
from learner_node.quote import QuoteRow
from learner_node.quote import quote as quote_plans
from learner_node.strategies import DEFAULT_STRATEGY
from learner_node.strategies.base import assumed_size
from protocol.errors import ConfigurationError
from protocol.rationals import parse_rational
from protocol.records import Records, encode_frame
from protocol.strict_toml import suggest
from simulations.records import load_records, sites_of, split_records
from simulations.scenario import LearnerScenario, load_scenario

Tick = Callable[[str, int, int], None]
_SUFFIXES = (".csv", ".parquet", ".pq")
LONGEST_AMOUNT = 8
"""Characters of an exact number in the table."""


@dataclass(frozen=True)
class Request:
    """What is quoted.

    Attributes:
        title: for the table.
        source: the learner's encoded records.
        sites: curators whose answers are summed.
        target_size: private records at all of them together, as declared or assumed.
        declared: whether all of them declare theirs.
        most_records_per_unit: contribution bound c.
        strategy, options: of the learner.
    """

    title: str
    source: Records
    sites: int
    target_size: int
    declared: bool
    most_records_per_unit: int
    strategy: str
    options: dict[str, Any]

    def changed(
        self,
        *,
        sites: int | None,
        target_size: int | None,
        most_records_per_unit: int | None,
        strategy: str,
        options: Sequence[str],
    ) -> "Request":
        """With what the command line says instead; options of another strategy are dropped.

        Raises:
            ConfigurationError: an option that is not of the form name=value.
        """
        scaled = round(self.target_size * (sites or self.sites) / self.sites)
        kept = self.options if strategy in ("", self.strategy) else {}
        return replace(
            self,
            sites=sites or self.sites,
            target_size=target_size or scaled,
            declared=self.declared or target_size is not None,
            most_records_per_unit=most_records_per_unit or self.most_records_per_unit,
            strategy=strategy or self.strategy,
            options={**kept, **dict(map(_option, options))},
        )


def read_request(source: str, *, schema: Path | None, learner: str) -> Request:
    """Read records and their schema file, or the source and declarations of a scenario's learner.

    Args:
        source: path of a CSV or Parquet file; or a scenario's name or TOML file.
        schema: the steward's schema file, for records.
        learner: name of a scenario's learner; "" takes the first.

    Raises:
        ConfigurationError: what is missing or wrong, and what to pass instead.
    """
    if Path(source).suffix.lower() in _SUFFIXES:
        if schema is None:
            raise ConfigurationError("records need their steward's schema file: pass --schema FILE")
        if not schema.is_file():
            raise ConfigurationError(f"no schema file {schema}")
        steward = read_steward_file(schema.read_text(encoding="utf-8"), where=f"schema file {schema.name}")
        records = encode_frame(read_records(Path(source)), steward.schema)
        return _request(Path(source).name, records, [steward], DEFAULT_STRATEGY, {})
    scenario, _, folder = load_scenario(source)
    chosen = _learner(scenario.learners, learner)
    sites = split_records(scenario, load_records(scenario, folder), 0)
    asked, held = sites_of(chosen, sites)
    frame = pl.concat([sites[name].source for name in held])
    stewards = [sites[name].steward for name in asked]
    if chosen.pooling == "site":
        stewards = stewards[:1]
    records = encode_frame(frame, stewards[0].schema)
    return _request(f"{scenario.title}, {chosen.name}", records, stewards, chosen.strategy, dict(chosen.options))


def parse_epsilons(text: str) -> list[Fraction]:
    """Exact budgets from a comma-separated list.

    Raises:
        ConfigurationError: an item is no positive decimal or fraction.
    """
    return [parse_rational(item.strip()) for item in text.split(",")]


def run(request: Request, epsilons: Sequence[Fraction], *, problems: int, seed: int, tick: Tick) -> list[QuoteRow]:
    """The rows; see `learner_node.quote.quote`."""
    return quote_plans(
        request.source,
        strategy=request.strategy,
        options=request.options,
        epsilons=epsilons,
        sites=request.sites,
        target_size=request.target_size,
        most_records_per_unit=request.most_records_per_unit,
        problems=problems,
        seed=seed,
        progress=tick,
    )


def as_object(request: Request, rows: Sequence[QuoteRow]) -> dict[str, Any]:
    """The object that `expril quote --json` prints; exact numbers are texts."""
    return {
        "source_records": len(request.source),
        "sites": request.sites,
        "target_size": request.target_size,
        "most_records_per_unit": request.most_records_per_unit,
        "strategy": request.strategy,
        "rows": [
            {
                "epsilon": str(row.epsilon),
                "cost": str(row.cost),
                "options": dict(row.options),
                "queries": row.queries,
                "split": [str(share) for share in row.split],
                "cells": row.precision.cells,
                "scale": str(row.precision.scale),
                "count_error": row.precision.count_error,
                "records_per_cell": row.precision.records_per_cell,
                "share_error": row.precision.share_error,
                "problems": row.simulated.problems,
                "accuracy": row.simulated.mean,
                "accuracy_low": row.simulated.low,
                "accuracy_high": row.simulated.high,
                "majority": row.simulated.majority,
                "best": row.simulated.best,
                "beats_majority": row.simulated.beats_majority,
                "by_difficulty": dict(row.simulated.by_difficulty),
                "usual": row.usual,
                "suggested": row.suggested,
            }
            for row in rows
        ],
    }


def quote_table(request: Request, rows: Sequence[QuoteRow]) -> Table:
    """One line per epsilon and plan; the suggested plan of each epsilon in bold."""
    declared = "declared" if request.declared else "assumed: who declares none counts as the source does"
    best, majority = rows[0].simulated.best, rows[0].simulated.majority
    questions = "one question" if rows[0].queries == 1 else f"{rows[0].queries} questions"
    table = Table(
        title=f"{escape(request.title)}: {request.strategy}, {questions}",
        caption=(
            f"{len(request.source)} source records; {request.target_size} private ones ({declared}) "
            f"at {request.sites} site(s); "
            f"at most {request.most_records_per_unit} record(s) a unit\n"
            f"accuracy: mean and 90 % range over {rows[0].simulated.problems} problems of the label model's prior, "
            f"where the majority class scores {majority:.2f} and perfect knowledge {best:.2f};\n"
            "an expectation before any answer: the real problem may be easier or harder\n"
            "bold: suggested, the strategy's own cells and split of the budget unless others are clearly better"
        ),
        box=box.SIMPLE_HEAD,
    )
    headers = ["epsilon\n= cost", "split", "cells", "noise\nscale", "error of\na count", "error of\na share"]
    headers += ["accuracy", "easy /\nmiddling / hard", "beats\nmajority"]
    for name in headers:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        told = row.simulated
        table.add_row(
            _short(row.epsilon),
            _split(row.split),
            str(row.precision.cells),
            _short(row.precision.scale),
            f"{row.precision.count_error:.1f}",
            "-" if row.precision.share_error is None else f"{row.precision.share_error:.2f}",
            f"{told.mean:.2f} ({told.low:.2f}-{told.high:.2f})",
            " / ".join(f"{value:.2f}" for value in told.by_difficulty.values()),
            f"{100 * told.beats_majority:.0f} %",
            style="bold" if row.suggested else None,
        )
    return table


def _split(shares: Sequence[Fraction]) -> str:
    """Shares of the questions: "1", "1/4 3/4", or "3 x 1/3" where they are equal."""
    if len(shares) > 1 and len(set(shares)) == 1:
        return f"{len(shares)} x {shares[0]}"
    return " ".join(map(str, shares))


def _short(value: Fraction) -> str:
    """The exact number where it fits a column, else about it; `--json` has it exactly."""
    text = str(value)
    return text if len(text) <= LONGEST_AMOUNT else f"~{float(value):.4g}"


def _request(
    title: str, source: Records, stewards: Sequence[StewardFile], strategy: str, options: dict[str, Any]
) -> Request:
    sizes = [steward.round_size for steward in stewards]
    return Request(
        title=title,
        source=source,
        sites=len(stewards),
        target_size=assumed_size(sizes, len(source)),
        declared=None not in sizes,
        most_records_per_unit=max(steward.most_records_per_unit for steward in stewards),
        strategy=strategy,
        options=options,
    )


def _learner(learners: Sequence[LearnerScenario], name: str) -> LearnerScenario:
    for learner in learners:
        if name in ("", learner.name):
            return learner
    raise ConfigurationError(f"no learner {name!r}{suggest(name, [learner.name for learner in learners])}")


def _option(text: str) -> tuple[str, Any]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise ConfigurationError(f"an option is written name=value, such as cells=40, not {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
