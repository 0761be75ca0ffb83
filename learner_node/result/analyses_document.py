"""The document of a deployed study of analyses: results first, then how they came about and what they cost.

It is a module of its own since a page is made without any file: tests and `expril report` make it from values.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from expril.report.document import PAPER, Code, Document, Section, Text
from expril.report.table import Column, Table
from learner_node.analyses.part import LEVEL, THESE
from learner_node.analyses.results import Analyses
from learner_node.result.brief import analyses_brief
from learner_node.result.document import cost_section, left_out_section, receipts_section
from protocol.rationals import written

Object = Mapping[str, Any]
Row = tuple[str, float, float, float]
"""A name, and a number of records with its interval."""


def analyses_document(facts: Object, analyses: Analyses) -> Document:
    """The document made from `learner_node.result.analyses_folder.analyses_object` and the analyses themselves."""
    signed = (
        f"These curators signed their answers as not private, as simulations do: {', '.join(facts['not_private'])}."
    )
    noise = [table.noise.quantile((1 + LEVEL) / 2) for part in analyses.answers.values() for table in part.pooled]
    source = (
        f"ExPriL {facts['expril']}. The signed list of transcripts lets anybody hold the charges against it; "
        "analyses.json holds the raw answers, from which all of this is computed."
    )
    return Document(
        kind="ExPriL analyses",
        subject=facts["learner"],
        headline=facts["title"],
        created=facts["finished"],
        banner=("Not private.", signed) if facts["not_private"] else None,
        sections=[
            Section("", [analyses_brief(facts, list(analyses.results), noise)], PAPER),
            *analyses_sections(analyses),
            cost_section(facts),
            left_out_section(facts, "Who is not counted"),
            receipts_section(facts["cost"]["curators"]),
            Section("Where this comes from", [Text(source), Code("expril audit run FOLDER")]),
        ],
    )


def analyses_sections(analyses: Analyses) -> Iterator[Section]:
    """A section for each part, who was counted, and the methods paragraph."""
    for name, result in analyses.results.items():
        share = Text(f"This part cost epsilon {written(analyses.epsilon_of(name))}.", "fine")
        yield Section(name, [*result.blocks(), share])
    yield _counted(analyses)
    lead = Text("To paste into a paper; shorten what its readers know.")
    yield Section("Methods", [lead, Text(" ".join(analyses.methods()), "prose")])


def _counted(analyses: Analyses) -> Section:
    """How many records each site's noisy counts say it has, and all together."""
    by_site = {name: number for name in analyses.curators if (number := analyses.counted(name)) is not None}
    rows = [(name, *number) for name, number in by_site.items()]
    total = analyses.counted()
    if total is not None and len(rows) != 1:
        rows.append(("all together", *total))
    columns: list[Column[Row]] = [
        Column("hospital", lambda row: row[0], names=True),
        Column("records (95 % interval)", lambda row: f"{row[1]:,.0f} ({row[2]:,.0f} to {row[3]:,.0f})", number=True),
        Column("of whom", lambda _row: THESE),
    ]
    lead = (
        "As in the Table 1 of all records, else by the table in which the noise matters least. Each part counts the "
        "same records with noise of its own, so that other totals on this page differ by it."
    )
    if analyses.pooling.secure:
        lead += " Only the sum was opened, so no hospital is shown by itself."
    population = [Text(f"Here {analyses.population}.", "fine")] if analyses.population else []
    return Section("Who was counted", [Text(lead), Table.of("Records counted", columns, rows), *population])
