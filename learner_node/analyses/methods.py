"""The methods paragraph of a study of analyses: sentences that a medical paper can print, before and after each part's.

They say how the data came about (design, privacy, noise), what every interval contains, and what a reader of a medical
journal must be told. The parts' own sentences (`Result.methods`) stand between them.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from expril.report.numbers import count, plain_number
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import NoisyTable, TableAnswers
from learner_node.analyses.part import LEVEL, Result
from learner_node.analyses.table_one_result import TableOneResult
from learner_node.study.pooling import Pooling
from protocol.rationals import written

_NAMED = 8
"""Most sites or scales that are named."""


def total_of(table: NoisyTable) -> tuple[float, float, float]:
    """The number of records of a table and of those that its filter leaves out: a value, and where 95 % are.

    Noise alone is uncertain; ends are never negative.
    """
    cells = table.values.size + (table.outside is not None)
    value = float(table.values.sum()) + (table.outside or 0.0)
    reach = table.noise.of_cells(cells).quantile((1 + LEVEL) / 2)
    display = max(value, 0.0)
    return display, max(value - reach, 0.0), display + reach


def smallest_noise(tables: Sequence[NoisyTable]) -> NoisyTable | None:
    """The table whose total has the least noise; None of none."""
    return min(tables, key=lambda table: table.noise.variance * (table.values.size + 1), default=None)


def records_counted(
    results: Iterable[Result], tables: Sequence[NoisyTable], site: str = ""
) -> tuple[float, float, float] | None:
    """The number of records and where 95 % are: a Table 1's of all records, else of the table with the least noise.

    Args:
        results: of all parts.
        tables: of the site, or of all together, from all parts.
        site: whose number; by default that of all together.
    """
    for result in results:
        if isinstance(result, TableOneResult) and not result.filter:
            sites = {item.site: item.sizes for item in result.sites}
            sizes = sites.get(site) if site else result.sizes
            if sizes and sizes[-1].value is not None:
                return round(sizes[-1].value), sizes[-1].low, sizes[-1].high
    best = smallest_noise(tables)
    return None if best is None else total_of(best)


def design_sentences(
    curators: Sequence[str],
    pooling: Pooling,
    epsilon: Fraction,
    answers: Mapping[str, TableAnswers],
    left_out: Mapping[str, str],
    population: str,
    counted: tuple[float, float, float] | None,
) -> Iterator[str]:
    """How the data came about: who answered what, under which guarantee, with which noise."""
    tables = [table for part in answers.values() for table in part.pooled]
    names = f" ({', '.join(curators)})" if len(curators) <= _NAMED else ""
    whose, many = "their" if len(curators) > 1 else "its", count(len(tables), "table")
    yield "All analyses were fixed in one plan before any answer was received."
    sites = f"{count(len(curators), 'hospital')}{names}"
    yield f"{sites} counted {whose} records in the cells of {many} each; no record left a hospital."
    if left_out:
        yield f"{count(len(left_out), 'hospital')} that had been asked did not take part ({', '.join(left_out)})."
    if counted is not None:
        value, low, high = counted
        yield f"About {value:,.0f} records were counted ({low:,.0f} to {high:,.0f}, by the noisy counts themselves)."
    unit = f"the counted records of one privacy unit ({population.partition(';')[0]})" if population else "one record"
    factor = math.exp(min(float(epsilon), 700.0))
    yield (
        f"All answers together are differentially private with ε = {written(epsilon)} and δ = 0 at each hospital: "
        f"adding or removing {unit} changes the probability of any set of answers by at most a factor of e^ε = "
        f"{plain_number(factor)}."
    )
    yield from _noise_sentences(tables, pooling)
    most = max((table.most_records_per_unit for table in tables), default=1)
    if most > 1:
        yield (
            f"A unit has up to {most} counted records; estimates weight each record alike, and variances of population "
            f"estimates allow for clustering by a factor of {most}, an upper bound."
        )


def _noise_sentences(tables: Sequence[NoisyTable], pooling: Pooling) -> Iterator[str]:
    laws = sorted({(table.noise.scale, table.noise.draws) for table in tables})
    if all(NoiseLaw(*law).exact for law in laws):
        yield "No noise was added: the counts are exact, and nothing protects the records."
        return
    deviations = ", ".join(
        f"{plain_number(scale)} (standard deviation {plain_number(math.sqrt(NoiseLaw(scale, draws).variance))})"
        for scale, draws in laws[:_NAMED]
    )
    scales = "a scale of" if len(laws) == 1 else "scales of"
    law = "the discrete Laplace distribution, P(k) ∝ exp(−|k| / scale)"
    if pooling.secure:
        draws = plain_number(laws[0][1])
        threshold = ""
        if pooling.colluders is not None or pooling.dropouts is not None:
            parts = [("t", pooling.colluders), ("u", pooling.dropouts)]
            threshold = f" ({', '.join(f'{name} = {value}' for name, value in parts if value is not None)})"
        yield (
            "The hospitals’ counts were added up under encryption and only their sum was opened; each hospital added a "
            f"share of the noise{threshold}, and the noise in each opened count is the difference of two negative "
            f"binomial variables of shape {draws} with {scales} {deviations} records, of which {law} is the case of "
            "shape 1. This guarantee assumes that no more hospitals than planned collude and that the encryption holds."
        )
        return
    many = laws[0][1]
    added = f"a sum over hospitals holds {plain_number(many)} such draws in each count" if many > 1 else "one draw each"
    yield (
        f"Each hospital added independent noise of {law}, to each count before it was sent; {added}, with {scales} "
        f"{deviations} records."
    )


def reader_sentences() -> Iterator[str]:
    """What every interval contains, and what a reader of a medical journal must be told."""
    yield (
        "Estimates, 95 % intervals and p-values were computed from the noisy answers as they came and the exact law of "
        "their noise; nothing was rounded or suppressed before. Where a count came out below zero, an interval’s end "
        "that it bounds is that of a count of zero, which only widens it. Intervals for “these records” contain the "
        "uncertainty by the added noise alone; intervals for “their population” contain the sampling of these records, "
        "too."
    )
    yield (
        "Readers should know that random noise was added on purpose to protect patients: numbers differ from the "
        "hospitals’ own, and totals and parts need not add up exactly. Each answer is final, since asking again would "
        "spend more of the patients’ privacy. The answers and their charges are signed: anybody can check the receipts "
        "and transcripts of the study’s folder with expril audit run."
    )
