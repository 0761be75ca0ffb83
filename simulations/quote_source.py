"""Reads the data for a learner's quote: a scenario's, or a table with its schema file.

No private record is read: a scenario's source records are public, and of its curators only their declarations are used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from curator_node.records.dataset import complaints_about
from curator_node.records.files import read_records
from curator_node.records.schema_file import SchemaFile
from learner_node.study.cards import counted
from learner_node.study.pooling import SUMMED, Pooling
from learner_node.study_file import study_of_analyses
from protocol.errors import ConfigurationError
from protocol.limits import Limits
from protocol.rationals import parse_rational
from protocol.record_frames import encode_and_count_moved
from protocol.records import Records as EncodedRecords
from protocol.strict_toml import suggest
from simulations.records import load_records, site_doubts, sites_of, split_records
from simulations.scenario import LearnerScenario, is_table, load_scenario, read_schema

if TYPE_CHECKING:
    from learner_node.analyses.part import Part
    from learner_node.analyses.quoting import Prospect
    from learner_node.questions.quote import QuoteRow
    from learner_node.questions.quote_report import Request


@dataclass(frozen=True)
class Quoted:
    """The data of a quote, as read from its files."""

    title: str  # of the table
    source: EncodedRecords  # the learner's encoded records
    stewards: tuple[SchemaFile, ...]  # schema file of each curator that is asked
    learner: LearnerScenario | None = None  # of the scenario; None where records alone were named
    # of each of these curators, and the number of records that it declares, if any
    limits: tuple[tuple[Limits, int | None], ...] = ()
    doubts: tuple[str, ...] = ()  # warnings of the source and of the scenario's records, in sentences


def read_quoted(source: str, *, schema: Path | None, learner: str) -> Quoted:
    """Read records and their schema file, or the source and declarations of a scenario's learner.

    Args:
        source: path of a CSV or Parquet file; or a scenario's name or TOML file.
        schema: the steward's schema file, for records.
        learner: name of a scenario's learner; "" takes the first.

    Raises:
        ConfigurationError: something is missing or wrong; the text says what to pass instead.
    """
    if is_table(source):
        if schema is None:
            raise ConfigurationError(f"{source} is a table of records, which needs its steward's schema: --schema FILE")
        steward = read_schema(schema)
        frame = read_records(Path(source))
        unit = steward.unit if steward.unit in frame.columns else None
        frame = counted(frame, unit, steward.most_records_per_unit, np.random.default_rng(0))
        try:
            records, moved = encode_and_count_moved(frame, steward.schema)
        except ConfigurationError as error:
            raise ConfigurationError(f"{source}: {error}") from None
        return Quoted(Path(source).name, records, (steward,), doubts=tuple(complaints_about(records, moved)))
    scenario, _, folder = load_scenario(source)
    chosen = _learner(scenario.learners, learner)
    all_records = load_records(scenario, folder)
    sites = split_records(scenario, all_records, 0)
    curators, sources = sites_of(chosen, sites)
    frame = pl.concat([sites[name].source for name in sources])
    stewards = tuple(sites[name].steward for name in curators)
    records, moved = encode_and_count_moved(frame, stewards[0].schema)
    doubts = tuple(complaints_about(records, moved)) if scenario.data.path is not None else ()
    limits = tuple((scenario.curator(name).limits, sites[name].steward.round_size) for name in curators)
    doubts += tuple(site_doubts(scenario, all_records))
    return Quoted(f"{scenario.title}, {chosen.name}", records, stewards, chosen, limits, doubts)


@dataclass(frozen=True)
class QuotedAnalyses:
    """Analyses to be quoted, and whom they ask."""

    parts: "tuple[Part, ...]"
    prospect: "Prospect"
    epsilon: Fraction  # of the file


def read_quoted_analyses(
    source: str,
    *,
    schema: Path | None = None,
    learner: str = "",
    size: int | None = None,
    contribution: int | None = None,
    pooling: Pooling | None = None,
) -> QuotedAnalyses | None:
    """Read the analyses of a study's file or of a scenario's learner; None where these ask for a model.

    Args:
        source: a study's file, with the schema that its curators' stewards wrote; or a scenario's name or TOML file.
        schema: the schema file, for a study's file.
        learner: name of a scenario's learner; "" takes the first.
        size: number of records at all curators; None takes what they declare, or assumes it.
        contribution: bound c on a unit's records; None takes what the schema file states.
        pooling: in place of the file's.

    Raises:
        ConfigurationError: something is missing or wrong; the text says what to pass instead.
    """
    study = study_of_analyses(Path(source))
    if study is not None:
        if schema is None:
            raise ConfigurationError(
                f"{source} asks curators whose cards are not here: pass the schema that their stewards wrote, --schema "
                "FILE, and --size for their number of records"
            )
        steward = read_schema(schema)
        sizes: list[int | None] = [None] * len(study.curators)
        stewards = [steward] * len(sizes)
        parts, epsilon, pool = study.parts, study.budget.epsilon, study.pool
    elif is_table(source) or not (scenario := load_scenario(source)[0]).asks_analyses:
        return None
    else:
        chosen = _learner(scenario.learners, learner)
        sites = split_records(scenario, load_records(scenario, load_scenario(source)[2]), 0)
        stewards = [sites[name].steward for name in sites_of(chosen, sites)[0]]
        sizes = [steward.round_size for steward in stewards]
        parts, epsilon, pool = chosen.parts, chosen.budget.epsilon, chosen.pool
    from learner_node.analyses.quoting import ASSUMED_SIZE, Prospect  # noqa: PLC0415 - it loads what computes

    share = max(1, (size or ASSUMED_SIZE) // len(sizes))
    prospect = Prospect(
        schema=stewards[0].schema,
        sizes=tuple(share if size is not None else item or share for item in sizes),
        most_records_per_unit=contribution or max(steward.most_records_per_unit for steward in stewards),
        pooling=pooling or pool,
        declared=size is not None or None not in sizes,
    )
    return QuotedAnalyses(parts, prospect, epsilon)


def _learner(learners: Sequence[LearnerScenario], name: str) -> LearnerScenario:
    for learner in learners:
        if name in ("", learner.name):
            return learner
    raise ConfigurationError(f"no learner {name!r}{suggest(name, [learner.name for learner in learners])}")


def request_of(quoted: Quoted) -> "Request":
    """The quote's request for this data."""
    # Faults in records are reported before models are loaded.
    from learner_node.questions.quote import Target  # noqa: PLC0415
    from learner_node.questions.quote_report import Request  # noqa: PLC0415
    from learner_node.strategies import DEFAULT_STRATEGY, selected  # noqa: PLC0415
    from learner_node.strategies.base import assumed_size  # noqa: PLC0415

    learner, stewards = quoted.learner, quoted.stewards
    if learner is not None and learner.pooling == "site":
        stewards = stewards[:1]
    sizes = [steward.round_size for steward in stewards]
    limits = quoted.limits if learner else [(Limits(), size) for size in sizes]
    return Request(
        title=quoted.title,
        source=quoted.source,
        target=Target(
            sites=len(stewards),
            size=assumed_size(sizes, len(quoted.source)),
            most_records_per_unit=max(steward.most_records_per_unit for steward in stewards),
            pooling=learner.pool if learner else SUMMED,
            willing=selected.willing(limits),
        ),
        declared=None not in sizes,
        strategy=learner.strategy if learner else DEFAULT_STRATEGY,
        options=dict(learner.options) if learner else {},
    )


def quote(
    source: str | Path,
    *,
    schema: str | Path | None = None,
    learner: str = "",
    epsilons: Sequence[float | str | Fraction] = ("1", "0.3", "0.1"),
    problems: int | None = None,
    seed: int = 0,
) -> "list[QuoteRow]":
    """What a study would cost and bring, before anything is asked; the rows of the command `expril quote`.

    Args:
        source: a file of unlabelled records (.csv, .parquet), or a scenario: its name or TOML file.
        schema: the steward's schema file; needed with records.
        learner: the learner of a scenario whose strategy is quoted; "" takes the first.
        epsilons: to quote, each positive; texts such as "1/30" and fractions are exact.
        problems: simulated problems per row, at least 3; None takes 300, or 4 to 12 if each takes long.
        seed: seed of the simulated problems and their noise.

    Raises:
        ConfigurationError: the source, the schema or an argument is wrong.
    """
    request = request_of(read_quoted(str(source), schema=None if schema is None else Path(schema), learner=learner))
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    from learner_node.questions.quote_report import run as quote_rows  # noqa: PLC0415

    exact = [parse_rational(epsilon) for epsilon in epsilons]
    with threadpool_limits(1):
        return quote_rows(request, exact, problems=problems, seed=seed, tick=lambda what, done, total: None)  # noqa: ARG005
