"""What a run's page and `expril simulate --json` show of analyses: results, and each estimate beside the exact value.

Results are computed anew from the raw answers that the report holds.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from expril.report.document import PAPER, Block, Fold, Section, Text
from expril.report.numbers import plain_number
from expril.report.table import Column, Table
from learner_node.analyses.results import Analyses, WrittenAnalyses, read_analyses
from learner_node.result.analyses_document import analyses_sections
from simulations.report.model import AnalysesReport, JudgedEstimate, LearnerReport, RunReport

BESIDE = (
    "Each estimate beside what the same records give without noise, which only this simulation can compute. Where an "
    "estimate is of their population, the exact value is an estimate, too, and the interval is wider than the noise "
    "alone needs. Where a curator counts some of a unit's records, the simulation counts other ones: which ones is the "
    "curator's secret. The last column counts the repeats whose interval holds their exact value."
)
FAILED = "No curator answered everything; the notes say why."


def analyses_of(content: Mapping[str, Any]) -> Analyses:
    """The analyses that a report holds. Raises ConfigurationError: a part in it does not fit."""
    return read_analyses(msgspec.convert(content, WrittenAnalyses))


def learner_sections(learner: LearnerReport, *, several: bool) -> Iterator[Section]:
    """A learner's results, beside the exact ones; its name is in the titles where the run has several learners."""
    prefix = f"{learner.learner}: " if several else ""
    if not isinstance(learner.analyses, AnalysesReport):
        yield Section(f"{prefix}no result", [Text(FAILED)])
        return
    analyses = analyses_of(learner.analyses.answers)
    for section in analyses_sections(analyses):
        yield Section(f"{prefix}{section.title}", section.blocks, PAPER)
    yield Section(f"{prefix}Beside the exact values", list(_beside(learner.analyses)), PAPER)


def _beside(report: AnalysesReport) -> Iterator[Block]:
    yield Text(BESIDE, "fine")
    columns: list[Column[JudgedEstimate]] = [
        Column("estimate of", lambda item: ", ".join((item.part, *item.place)), names=True, wraps=True),
        Column("95 % interval", interval, number=True),
        Column("exact", lambda item: _number(item.exact), number=True),
        Column("holds", lambda item: f"{item.hits} of {item.judged}" if item.judged else "–", number=True),
    ]
    yield Fold(
        f"All estimates: {_hits(report)}", [Table.of("Estimates beside exact values", columns, report.estimates)]
    )


def _hits(report: AnalysesReport) -> str:
    judged, hits = (sum(getattr(item, name) for item in report.estimates) for name in ("judged", "hits"))
    return f"{hits} of {judged} intervals hold the exact value"


def terminal_text(report: RunReport) -> str:
    """Each learner's results as a text for a terminal."""
    texts = []
    for learner in report.learners:
        if isinstance(learner.analyses, AnalysesReport):
            text = analyses_of(learner.analyses.answers).to_text()
            texts.append(f"{learner.learner}: {text}\n\n{_hits(learner.analyses)}; the page has each")
    return "\n\n".join(texts)


def interval(item: JudgedEstimate) -> str:
    """An estimate and its interval as text."""
    ends = [_number(end) if end is not None else "no end" for end in (item.low, item.high)]
    return f"{_number(item.value)} ({ends[0]} to {ends[1]})"


def _number(value: float | None) -> str:
    return "–" if value is None else plain_number(value)


def analyses_summary(report: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the JSON of a run says of a learner's analyses; empty of a learner without any."""
    if not report:
        return {}
    noisy, exact = (analyses_of(report[name]).to_builtins()["analyses"] for name in ("answers", "exact"))
    return {
        "analyses": [{**part, "exact": truth["result"]} for part, truth in zip(noisy, exact, strict=True)],
        "estimates": list(report["estimates"]),
    }
