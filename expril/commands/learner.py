"""The command of a learner, who holds unlabelled records: `expril quote`."""

from pathlib import Path
from typing import Annotated

import typer

from expril.commands.terminal import MOST_SEED, Json, LargeEpsilon, bars, plain_errors, print_json, say, wide_console


def quote(  # noqa: PLR0913, PLR0917 - one argument an option
    source: Annotated[
        str, typer.Argument(help="Unlabelled records (.csv, .parquet, .pq), or a scenario: its name or TOML file.")
    ] = "wdbc",
    schema: Annotated[Path | None, typer.Option(help="The steward's schema file; needed with records.")] = None,
    learner: Annotated[str, typer.Option(help="Which learner of the scenario. [its first]")] = "",
    epsilons: Annotated[str, typer.Option(help="Comma-separated, each a decimal or a/b.")] = "1,0.3,0.1",
    sites: Annotated[
        int | None, typer.Option(min=1, help="Curators whose answers are summed. [1, or the scenario's]")
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Private records at all of them. [as declared]")] = None,
    contribution: Annotated[int | None, typer.Option(min=1, help="Bound c. [as declared]")] = None,
    pooling: Annotated[str, typer.Option(help="sum, site or secure. [sum, or the learner's]")] = "",
    colluders: Annotated[int | None, typer.Option(min=1, help="Of a secure sum. [see docs/learner.md]")] = None,
    dropouts: Annotated[int | None, typer.Option(min=0, help="Of a secure sum. [see docs/learner.md]")] = None,
    strategy: Annotated[str, typer.Option(help="A strategy. [cells, or the learner's]")] = "",
    option: Annotated[list[str] | None, typer.Option(help="Of the strategy, as name=value; repeatable.")] = None,
    prevalence: Annotated[
        str, typer.Option(help="Share of the second class, if known: 0.4 or 0.35-0.45. Narrows the quote.")
    ] = "",
    best_auc: Annotated[
        str, typer.Option(help="AUC that a good model has without privacy, if known, as 0.7-0.8. Narrows the quote.")
    ] = "",
    problems: Annotated[
        int | None, typer.Option(min=3, help="Simulated problems per row. [300, or 4 to 12 where each takes long]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Of the simulated problems and their noise.")] = 0,
    large_epsilon: LargeEpsilon = False,
    json_: Json = False,
) -> None:
    """Say what a study would cost and bring, before anything is asked: noise, cells, accuracy and AUC."""
    with plain_errors(part="learner"):
        from dataclasses import asdict

        from learner_node.doubts import doubts_about, require_confirmed
        from protocol.rationals import parse_rational

        asked = [parse_rational(item.strip()) for item in epsilons.split(",")]
        if not large_epsilon:
            require_confirmed(asked, how="--large-epsilon")
        with bars(json_) as tick:
            tick("reading records", 0, 1)
            from simulations.scenario import load_scenario
            from simulations.scenario_data import is_table, read_schema

            # What is wrong in a file is told before the libraries of tables, and then those of models, are loaded.
            if not is_table(source):
                load_scenario(source)
            elif schema is not None:
                read_schema(schema)
            from simulations.records import read_quoted

            quoted = read_quoted(source, schema=schema, learner=learner)
            from threadpoolctl import threadpool_limits

            from simulations import quoting
        request = quoting.request_of(quoted).changed(
            sites=sites,
            target_size=size,
            most_records_per_unit=contribution,
            strategy=strategy,
            options=option or [],
            pooling=pooling,
            colluders=colluders,
            dropouts=dropouts,
            prevalence=prevalence,
            best_auc=best_auc,
        )
        together = asdict(request.together)
        told = doubts_about(request.options, records=len(request.source), curators=request.sites, **together)
        for doubt in (*quoted.doubts, *told):
            say("warning", doubt)
        with bars(json_) as tick, threadpool_limits(1):
            rows = quoting.run(request, asked, problems=problems, seed=seed, tick=tick)
        if json_:
            print_json(quoting.as_object(request, rows))
            return
        wide_console().print(quoting.quote_table(request, rows))
