"""Holds a learner's analyses against exact ones, which only the simulation can compute: it owns all records.

The exact result is what the same part reads of the same tables without noise. So it is exact about the records that
curators count, and only an estimate of their population.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from learner_node.analyses.asking import AnalysisStudy
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import NoisyTable, TableAnswers
from learner_node.analyses.plan import questions_of
from learner_node.analyses.results import Analyses, written_analyses
from protocol.record_frames import encode_frame, encode_label_column, encode_outcomes
from protocol.records import Records
from simulations.records import SiteRecords
from simulations.repeats import Outcome, Repeat
from simulations.report.model import AnalysesReport, JudgedEstimate

NO_NOISE = NoiseLaw(0.0, 1.0)
LOW, HIGH, VALUE, TIME = "low", "high", "value", "time"
THESE = re.compile("_?these(_records)?_?$")


def analyses_report(outcome: Outcome, repeat: Repeat) -> AnalysesReport | None:
    """A learner's analyses in one repeat beside the exact ones; None if no curator answered everything."""
    study = outcome.analyses
    if study is None:
        return None
    exact = exact_analyses(study, repeat.sites)
    return AnalysesReport(
        answers=_as_json(study),
        exact=_as_json(exact),
        estimates=tuple(judged(study, exact)),
    )


def _as_json(analyses: Analyses) -> dict[str, Any]:
    """The raw tables as a report's file gives them back: of lists, not of tuples."""
    content: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(written_analyses(analyses)))
    return content


def exact_analyses(study: AnalysisStudy, sites: Mapping[str, SiteRecords]) -> Analyses:
    """The same analyses of the same curators' counted records without noise."""
    records = {name: counted_records(sites[name]) for name in study.curators}
    answers = {}
    for part, questions in zip(study.parts, questions_of(study.parts, study.schema), strict=True):
        noisy = study.answers[part.name]
        tables = {
            name: [
                _exact(question.partition.cells(site_records), table)
                for question, table in zip(questions, noisy.pooled, strict=True)
            ]
            for name, site_records in records.items()
        }
        pooled = [reduce(NoisyTable.plus, column) for column in zip(*tables.values(), strict=True)]
        by_site = tables if noisy.by_site else {}
        answers[part.name] = TableAnswers(study.schema, noisy.epsilon, pooled, by_site, noisy.secure)
    return Analyses(
        parts=study.parts,
        answers=answers,
        schema=study.schema,
        curators=study.curators,
        pooling=study.pooling,
        epsilon_claimed=study.epsilon_claimed,
        epsilon_spent=dict.fromkeys(study.epsilon_spent, Fraction(0)),
        left_out=study.left_out,
        population=study.population,
    )


def counted_records(site: SiteRecords) -> Records:
    """The private records that a site's curator counts, with label and outcomes."""
    schema, frame = site.steward.schema, site.counted
    outcomes, _ = encode_outcomes(frame, schema)
    labels = encode_label_column(frame[schema.label], schema)
    return encode_frame(frame, schema).with_further({schema.label: labels, **outcomes})


def _exact(cells: NDArray[np.intp], table: NoisyTable) -> NoisyTable:
    size = table.values.size
    counts = np.bincount(cells, minlength=size + 1).astype(np.float64)
    outside = None if table.outside is None else float(counts[size])
    return replace(table, values=counts[:size].reshape(table.values.shape), noise=NO_NOISE, sites=1, outside=outside)


def judged(study: Analyses, exact: Analyses) -> Iterator[JudgedEstimate]:
    """Every estimate of every result beside the exact one."""
    for name, result in study.results.items():
        truths = {item.place: item.value for item in _estimates(exact.results[name].to_builtins())}
        for item in _estimates(result.to_builtins()):
            yield JudgedEstimate(name, *item, truths.get(item.place))


class _Located(NamedTuple):
    place: tuple[str, ...]  # keys and names that lead to it
    value: float | None
    low: float | None
    high: float | None


def _estimates(content: Any, place: tuple[str, ...] = ()) -> Iterator[_Located]:
    """Every estimate in a result's JSON.

    An estimate is a value with two ends: `value`, `low`, `high`, or `x`, `x_low`, `x_high`. Ends with "these" in their
    name are of the same value for these records.
    """
    if isinstance(content, dict):
        for key in content:
            stem = key.removesuffix(LOW)
            if key.endswith(LOW) and f"{stem}{HIGH}" in content:
                value = stem.strip("_") or VALUE
                match = THESE.search(stem)
                if match:
                    value = THESE.sub("", stem) or VALUE
                if value in content:
                    label = content.get("of", "") if value == VALUE and not match else value.replace(VALUE, "")
                    names = filter(None, (label, "these records" if match else ""))
                    yield _Located((*place, *names), content[value], content[key], content[f"{stem}{HIGH}"])
        for key, item in content.items():
            yield from _estimates(item, (*place, str(key)))
    elif isinstance(content, list | tuple):
        for number, item in enumerate(content, 1):
            yield from _estimates(item, (*place, _name(item, number)))


def _name(item: Any, number: int) -> str:
    """What tells an item of a list apart: its texts and its time, or else its number."""
    texts = [item[key] for key in item if key == TIME or isinstance(item[key], str)] if isinstance(item, dict) else []
    return ", ".join(f"{text:g}" if isinstance(text, float) else str(text) for text in texts) or str(number)


def joined_analyses(reports: Sequence[AnalysesReport]) -> AnalysesReport | None:
    """The first of several repeats' reports, with how many of all repeats' intervals hold the exact value."""
    if not reports:
        return None
    tables = [{(item.part, item.place): item for item in report.estimates} for report in reports]
    estimates = []
    for place, item in tables[0].items():
        verdicts = [table[place].holds for table in tables if place in table]
        estimates.append(
            msgspec.structs.replace(item, hits=verdicts.count(True), judged=len(verdicts) - verdicts.count(None))
        )
    return msgspec.structs.replace(reports[0], estimates=tuple(estimates))
