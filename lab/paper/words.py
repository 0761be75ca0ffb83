"""Words for the numbers of a reproduction, which its page and its Markdown share."""

import math
from collections.abc import Iterable, Sequence

from expril.report.numbers import count, decimal, signed, with_error
from lab.paper.findings import EPSILON_COLUMNS, OUTSIDE_BY_CHANCE, Standing, agreement, in_order, standing, tally
from lab.paper.model import Cell, Closure, Curve, Noise, Point, Reproduction
from lab.paper.published import Published

STANDING_TITLES: dict[Standing, str] = {
    "within": "within two standard errors of the paper",
    "above": "above the paper by more than two standard errors",
    "below": "below the paper by more than two standard errors",
}

STYLES: dict[tuple[Noise, bool], tuple[int, str]] = {
    ("printed", False): (0, "printed mechanism, noise that fits the plan"),
    ("valid", False): (2, "valid mechanism, noise that fits the plan"),
    ("printed", True): (1, "printed mechanism, noise fixed for three queries"),
    ("valid", True): (3, "valid mechanism, noise fixed for three queries"),
    ("none", False): (5, "no privacy"),
    ("none", True): (5, "no privacy"),
}
"""Of a curve, (noise, fixed) -> index of colour and shape, and words."""


def epsilon(value: float) -> str:
    """Return a privacy loss with three significant digits."""
    if not math.isfinite(value):
        return decimal(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def probability(value: float) -> str:
    """Return a p value with two significant digits."""
    if math.isnan(value):
        return "–"
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def number(column: str, value: float) -> str:
    """Return a mean or a deviation as its column is written: percent, ratio or epsilon."""
    if column in EPSILON_COLUMNS:
        return epsilon(value)
    return decimal(value, _digits(column))


def _digits(column: str) -> int:
    return 3 if column == "ratio" else 1


def spread(column: str, value: Cell | Closure | Published) -> str:
    """Return "mean ± standard deviation", or the mean alone where no deviation is known."""
    return with_error(number(column, value.mean), value.std, _digits(column))


def difference(cell: Cell) -> str:
    """Return ours minus the paper's, as the column is written; "–" where the paper has none."""
    return "–" if cell.difference is None else signed(cell.difference, _digits(cell.column))


def errors(cell: Cell) -> str:
    """Return the size of the difference in standard errors; "–" where there is none."""
    return "–" if standing(cell) is None or cell.standard_errors is None else decimal(abs(cell.standard_errors))


def epsilon_summary(cell: Cell | None) -> str:
    """Return median and mean over the runs, and where they are infinite how often, as far as they tell.

    The worst case is no matter of runs: it is one number.
    """
    if cell is None:
        return "–"
    if cell.column == "epsilon_printed_worst":
        return epsilon(cell.mean)
    if cell.mean == 0:
        return "not asked"
    if math.isinf(cell.mean):
        median = "" if math.isinf(cell.median) else f"median {epsilon(cell.median)}, "
        return f"{median}infinite in {cell.infinite_runs} of {cell.runs} runs"
    if epsilon(cell.median) == epsilon(cell.mean):
        return epsilon(cell.mean)
    return f"median {epsilon(cell.median)}, mean {epsilon(cell.mean)}"


def curve_title(curve: Curve) -> str:
    """Return the name of a curve."""
    return f"{curve.learner}-ExPriL, {STYLES[curve.noise, curve.fixed][1]}"


def scale(curve: Curve) -> str:
    """Return whether the noise is the paper's for three queries, "fixed", or one that fits the "plan"."""
    return "fixed" if curve.fixed else "plan"


def by_style(curves: Iterable[Curve]) -> list[Curve]:
    """Return the curves in the order of the legend: by mechanism and scale, C before I."""
    order = list(STYLES)
    return sorted(curves, key=lambda curve: (order.index((curve.noise, curve.fixed)), curve.learner))


def point_text(point: Point) -> str:
    """Return a point's mean and deviation in percentage points."""
    return with_error(signed(point.mean), point.std)


def headline(found: Reproduction) -> str:
    """Return the result in one line."""
    counts = tally(found)
    if counts.compared:
        return (
            f"Of {counts.compared} published accuracies of the method, {counts.within} within two standard errors, "
            f"{counts.above} exceeded, {counts.below} missed"
        )
    if found.table:
        return "Table 2 run again; none of its cells can be compared"
    return "Figure 1 run again" if found.curves else "Nothing has been run yet"


def verdict(found: Reproduction) -> tuple[str, ...]:
    """Return the sentences under the headline, each computed from the numbers."""
    return tuple(s for s in (_scope(found), *_comparison(found), _wilcoxon(found), *_privacy(found.table)) if s)


def _scope(found: Reproduction) -> str:
    parts = []
    if found.table:
        parts.append(f"Table 2 ({_runs(found.table)}, {_sets(cell.dataset for cell in found.table)})")
    if found.curves:
        points = [point for curve in found.curves for point in curve.points]
        runs = f"{_runs(points)}, " if points else ""
        parts.append(f"Figure 1 ({runs}{_sets(curve.dataset for curve in found.curves)})")
    if not parts:
        return ""
    verb = "were" if len(parts) > 1 else "was"
    return f"{' and '.join(parts)} of the paper {verb} run again from its description."


def _sets(names: Iterable[str]) -> str:
    return count(len(set(names)), "data set")


def _runs(cells: Sequence[Cell | Point]) -> str:
    low, high = min(cell.runs for cell in cells), max(cell.runs for cell in cells)
    return f"{low} to {high} runs" if low < high else count(high, "run")


def _comparison(found: Reproduction) -> tuple[str, ...]:
    counts = tally(found)
    if not counts.compared:
        return ()
    outside, closed = counts.above + counts.below, counts.above_closed + counts.below_closed
    cells = "accuracy" if counts.compared == 1 else "accuracies"
    chance = OUTSIDE_BY_CHANCE * counts.compared
    compared = (
        f"Of {counts.compared} {cells} of the method that the paper reports with a deviation, {counts.within} of ours "
        f"lie within two standard errors, {counts.above} above and {counts.below} below; about {chance:.0f} would lie "
        "outside by chance alone."
    )
    sentences = [compared]
    if counts.chosen:
        sentences.append(
            f"The references h* and h0* say nothing about the method: data sets and training were chosen so that they "
            f"come near the paper's ({counts.chosen_within} of {counts.chosen} within two standard errors; ADR 4)."
        )
    if outside:
        sentences.append(
            f"A named setting closes the gap of {closed} of the {outside} outside "
            f"({counts.above_closed} of {counts.above} above, {counts.below_closed} of {counts.below} below)."
        )
    return tuple(sentences)


def _wilcoxon(found: Reproduction) -> str:
    judged = [agreement(row) for row in found.wilcoxon if agreement(row) != "–"]
    if not judged:
        return ""
    return (
        f"Whether C-ExPriL beats I-ExPriL comes out as the paper says in {judged.count('agrees')} of "
        f"{count(len(judged), 'comparison')}."
    )


def _privacy(table: Sequence[Cell]) -> tuple[str, ...]:
    cells = {(cell.dataset, cell.column): cell for cell in table}
    sentences = []
    if any(cell.column == "epsilon_printed_worst" and math.isinf(cell.mean) for cell in table):
        sentences.append(
            "The privacy mechanism as printed does not hold its claim of epsilon 1: its worst case is infinite."
        )
    gaps = [
        cells[dataset, f"valid-{column}"].mean - cells[dataset, column].mean
        for column in ("1DP-C-ExPriL", "1DP-I-ExPriL")
        for dataset in in_order(name for name, _ in cells)
        if (dataset, column) in cells and (dataset, f"valid-{column}") in cells
    ]
    if gaps:
        mean = sum(gaps) / len(gaps)
        size = "no" if abs(mean) < 0.05 else f"{abs(mean):.1f}"
        sentences.append(
            f"The valid mechanism, whose epsilon of 1 holds for all records, scores on average {size} percentage "
            f"points {'more' if mean > 0 else 'less'} than the printed one; it is solved with consistent counts, which "
            "the printed one is not."
        )
    return tuple(sentences)


EPSILON_HEADS = (
    "at the records of each run, by the formula for errors",
    "the query for the masses, by its own formula",
)
EPSILON_NOTE = (
    "Epsilon of one study with the printed mechanism. “At the records” compares each run’s private records only "
    "with those that have one record more or one fewer, sums over queries and attributes, and is infinite as soon "
    "as some bin holds no record or one. It takes every query for one about errors. Where the masses are asked, "
    "their query alone costs what the last column says, so the study costs at least the larger of the two. “Not "
    "asked”: the paper skips the masses where source and target have the same distribution. Median and mean are "
    "over the runs."
)
CLOSING = (
    "The paper leaves settings open. For each cell outside two standard errors, the run with one changed setting "
    "that came nearest to the paper stands beside ours; “closed” means nearer and within two standard errors of it, of "
    "which fewer runs have larger ones. Every attempt is in closures.csv. Longer or shorter training changes h* "
    "itself."
)
ONE_SETTING = (
    "A different setting for every cell explains little. How many of the method’s cells does one setting bring "
    "within two standard errors of the paper?"
)
EPSILON_MEANING = (
    "Epsilon bounds what one record’s presence can change: whoever sees the answers cannot raise or lower the odds "
    "that a given record was among the data by more than the factor e to the power of epsilon. At epsilon 1 that is "
    "2.7, at epsilon 5 it is 148, and infinite epsilon is no protection: some answer would settle the question."
)
WHY_NOT_PRIVATE = (
    "The printed mechanism answers, for each bin, with a rate of errors: the number of errors in the bin plus random "
    "noise, divided by the number of records in the bin. The number below the line is private, yet it goes in exactly. "
    "One record more or less therefore changes not only the rate but also how widely the noise scatters it, and the "
    "scatter can be seen. The paper’s proof compares how fast the two noise curves fall, with and without the record, "
    "and leaves out that in a bin with n records one is (n + 1)/n times as tall as the other; that adds about 1/n to "
    "the epsilon of the bin, and no amount of noise takes it away. A bin without records has no rate at all, so one "
    "record there changes the answer beyond doubt: that is the infinite worst case. With one record in the bin and "
    "noise of scale 30, the claim is 0.033 and the truth 0.71. The masses (which share of the records lies in each "
    "bin) are divided by the exact number of all records, so one record more moves the answers for all bins at once, "
    "not for one, as the claim counts."
)
VALID_INSTEAD = (
    "The valid mechanism releases counts. Noise whose size depends on no record is added to each, and the learner "
    "divides noisy numbers only, which costs nothing more. Its epsilon holds for every set of records."
)
