"""What the numbers of a reproduction amount to: comparisons, counts and words that the page and the Markdown share.

A cell is compared with the paper in standard errors of the difference, both sides' errors added (`Cell`). A difference
of at most `LIMIT` standard errors counts as "within": if nothing differed, 1 cell in 22 would still lie outside.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from experiments.paper.model import CHOSEN, COLUMNS, NOISE_TITLES, Cell, Closure, Point, Reproduction, Wilcoxon
from experiments.paper.published import NOT_SIGNIFICANT, TABLE_2, Published
from simulations.report.page import count

LIMIT = 2.0
"""Standard errors up to which two means agree."""
LEVEL = 0.05
"""The paper tests at 95 % confidence (section 4.3)."""
OUTSIDE_BY_CHANCE = math.erfc(LIMIT / math.sqrt(2))
"""Share of cells beyond the limit if both sides measured the same thing and their means were normal."""
TABLE_COLUMNS = tuple(name for name in COLUMNS if not name.startswith("epsilon"))
"""The columns of Table 2 as printed, and the valid mechanism's."""
EPSILON_COLUMNS = tuple(name for name in COLUMNS if name.startswith("epsilon"))

Standing = Literal["within", "above", "below"]
MARKS: dict[Standing, str] = {"within": "=", "above": "▲", "below": "▼"}
"""So that a reader who sees no colour can tell them apart."""
STANDING_TITLES: dict[Standing, str] = {
    "within": "within two standard errors of the paper",
    "above": "above the paper by more than two standard errors",
    "below": "below the paper by more than two standard errors",
}

_KNOWN = tuple(dict.fromkeys(dataset for dataset, _ in TABLE_2))


def in_order(datasets: Iterable[str]) -> tuple[str, ...]:
    """Return the data sets once each: the paper's in its order, then others by name."""
    given = set(datasets)
    return (*(name for name in _KNOWN if name in given), *sorted(given - set(_KNOWN)))


def standing(cell: Cell) -> Standing | None:
    """Return on which side of the paper's number ours lies; None where there is nothing to compare with."""
    errors = cell.standard_errors
    if errors is None or math.isnan(errors):
        return None
    if abs(errors) <= LIMIT:
        return "within"
    return "above" if errors > 0 else "below"


def as_cell(closure: Closure) -> Cell:
    """Return the cell that a run with one changed setting gave (its median is not known, its mean stands in)."""
    return Cell(closure.dataset, closure.column, closure.mean, closure.std, closure.runs, closure.mean)


def closes(closure: Closure, default: Cell) -> bool:
    """Return whether the changed setting brings the cell nearer, and within two standard errors of the paper.

    Nearer, because fewer runs alone make a standard error larger.
    """
    made = as_cell(closure)
    if made.difference is None or default.difference is None:
        return False
    return standing(made) == "within" and abs(made.difference) < abs(default.difference)


@dataclass(frozen=True)
class Counts:
    """How many cells of Table 2 were compared, where they stand, and how many of those outside a setting closes.

    Of the method's columns; those that the data sets were chosen by are counted apart.
    """

    compared: int
    within: int
    above: int
    below: int
    above_closed: int
    below_closed: int
    chosen: int
    chosen_within: int


def tally(found: Reproduction) -> Counts:
    """Return the counts of a table."""
    cells = {(cell.dataset, cell.column): cell for cell in found.table}
    closed = {
        place
        for closure in found.closures
        if (place := (closure.dataset, closure.column)) in cells and closes(closure, cells[place])
    }
    sides = [
        (standing(cell), (cell.dataset, cell.column) in closed) for cell in found.table if cell.column not in CHOSEN
    ]
    chosen = [standing(cell) for cell in found.table if cell.column in CHOSEN and standing(cell) is not None]

    def many(side: Standing, *, only_closed: bool = False) -> int:
        return sum(where == side and (shut or not only_closed) for where, shut in sides)

    within, above, below = many("within"), many("above"), many("below")
    return Counts(
        compared=within + above + below,
        within=within,
        above=above,
        below=below,
        above_closed=many("above", only_closed=True),
        below_closed=many("below", only_closed=True),
        chosen=len(chosen),
        chosen_within=chosen.count("within"),
    )


def setting_rows(found: Reproduction) -> list[tuple[str, int, int, int, int, int]]:
    """Return per changed setting: what it is, its runs, cells compared, and how many are within, above and below.

    Of all the method's cells that were made with it, not only of those that it was meant for.
    """
    rows = []
    for setting in dict.fromkeys(closure.setting for closure in found.closures):
        made = [each for each in found.closures if each.setting == setting and each.column not in CHOSEN]
        sides = [standing(as_cell(each)) for each in made]
        if made:
            runs = min(each.runs for each in made)
            within, above, below = (sides.count(side) for side in ("within", "above", "below"))
            rows.append((_change(found, made[0]), runs, len(made), within, above, below))
    return rows


def decimal(value: float, digits: int = 1) -> str:
    """Return a number with a true minus sign, never "-0.0"; "infinite" and "–" (not a number) in words."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    return f"{value:z.{digits}f}".replace("-", "−")


def signed(value: float, digits: int = 1) -> str:
    """Return a difference with its sign; a zero after rounding has none."""
    text = decimal(value, digits)
    return f"+{text}" if value > 0 and float(f"{value:.{digits}f}") else text


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
    mean = number(column, value.mean)
    return mean if value.std is None or math.isnan(value.std) else f"{mean} ± {number(column, value.std)}"


def difference(cell: Cell) -> str:
    """Return ours minus the paper's, as the column is written; "–" where the paper has none."""
    return "–" if cell.difference is None else signed(cell.difference, _digits(cell.column))


def errors(cell: Cell) -> str:
    """Return the size of the difference in standard errors; "–" where there is none."""
    return "–" if standing(cell) is None or cell.standard_errors is None else decimal(abs(cell.standard_errors))


def paper_says(row: Wilcoxon) -> str:
    """Return what section 4.3 of the paper claims for this data set; it knows no valid mechanism."""
    if row.noise == "valid" or row.dataset not in _KNOWN:
        return "not in the paper"
    return "no significant difference" if row.dataset in NOT_SIGNIFICANT else "C-ExPriL better"


def we_say(row: Wilcoxon) -> str:
    """Return what our test says at the same level."""
    if not row.p_value < LEVEL:  # NaN, too: a test that could not be made
        return "no significant difference"
    return "C-ExPriL better" if row.difference > 0 else "I-ExPriL better"


def agreement(row: Wilcoxon) -> Literal["agrees", "differs", "–"]:
    """Return whether the two say the same."""
    if paper_says(row) == "not in the paper":
        return "–"
    return "agrees" if paper_says(row) == we_say(row) else "differs"


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


@dataclass(frozen=True)
class Gap:
    """A cell outside two standard errors, and the attempt that came nearest to the paper.

    `closure` is None where no setting was tried; `change` says what was set.
    """

    dataset: str
    column: str
    default: Cell
    closure: Closure | None
    change: str

    @property
    def outcome(self) -> str:
        """What the setting did."""
        if self.closure is None:
            return "open: no setting found"
        return "closed" if closes(self.closure, self.default) else "not closed"


def gaps(found: Reproduction) -> tuple[Gap, ...]:
    """Return the cells outside, each with the attempt that came nearest to the paper, in the order of the table."""
    cells = {(cell.dataset, cell.column): cell for cell in found.table}
    tried: dict[tuple[str, str], list[Closure]] = {
        place: [] for place, cell in cells.items() if standing(cell) in ("above", "below")
    }
    for closure in found.closures:
        if (closure.dataset, closure.column) in tried:
            tried[closure.dataset, closure.column].append(closure)
    sets, columns = in_order(dataset for dataset, _ in tried), list(COLUMNS)

    def rank(place: tuple[str, str]) -> tuple[int, int]:
        return sets.index(place[0]), columns.index(place[1]) if place[1] in columns else len(columns)

    nearest = {place: min(tried[place], key=_distance, default=None) for place in sorted(tried, key=rank)}
    return tuple(
        Gap(*place, cells[place], closure, "" if closure is None else _change(found, closure))
        for place, closure in nearest.items()
    )


def _change(found: Reproduction, closure: Closure) -> str:
    meaning = found.changes.get(closure.setting, "")
    return f"{closure.setting}: {meaning}" if meaning else closure.setting


def _distance(closure: Closure) -> float:
    """How far a changed setting ends from the paper, in standard errors."""
    errors = as_cell(closure).standard_errors
    return math.inf if errors is None or math.isnan(errors) else abs(errors)


def ordered_tests(found: Reproduction) -> list[Wilcoxon]:
    """Return the tests by data set, then by noise."""
    datasets, noises = in_order(row.dataset for row in found.wilcoxon), list(NOISE_TITLES)
    return sorted(found.wilcoxon, key=lambda row: (datasets.index(row.dataset), noises.index(row.noise)))


def settings_by_dataset(found: Reproduction) -> tuple[tuple[str, ...], list[tuple[str, tuple[str, ...]]]]:
    """Return the data sets, and each setting's name with its value for each of them."""
    datasets = in_order(found.settings)
    names = dict.fromkeys(name for dataset in datasets for name in found.settings[dataset])
    return datasets, [(name, tuple(found.settings[each].get(name, "–") for each in datasets)) for name in names]


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
