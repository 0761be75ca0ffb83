"""The document of a deployed study of analyses: results first, then how they came about and what they cost.

It is a module of its own since a page is made without any file: tests and `expril report` make it from values.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from expril.report.document import Code, Document, Section, Text
from learner_node.analyses.results import Analyses
from learner_node.result.document import cost_section, left_out_section, receipts_section
from protocol.rationals import written

Object = Mapping[str, Any]


def analyses_document(facts: Object, analyses: Analyses) -> Document:
    """The document made from `learner_node.result.analyses_folder.analyses_object` and the analyses themselves."""
    signed = (
        f"These curators signed their answers as not private, as simulations do: {', '.join(facts['not_private'])}."
    )
    asked_by = f"Asked by {facts['learner']}: {facts['purpose'].strip()}" if facts["purpose"].strip() else ""
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
            Section("", [Text(f"{analyses.headline}. {asked_by}".strip())]),
            *analyses_sections(analyses),
            cost_section(facts),
            left_out_section(facts, "Who is not counted"),
            receipts_section(facts["cost"]["curators"]),
            Section("Where this comes from", [Text(source), Code("expril audit run FOLDER")]),
        ],
    )


def analyses_sections(analyses: Analyses) -> Iterator[Section]:
    """A section for each part, and one with the methods paragraph."""
    for name, result in analyses.results.items():
        share = Text(f"Epsilon {written(analyses.epsilon_of(name))}.", "fine")
        yield Section(name, [*result.blocks(), share])
    population = [Text(f"Here {analyses.population}.", "fine")] if analyses.population else []
    yield Section("Methods, to paste", [Text(" ".join(analyses.methods())), *population])
