"""What the numbers of a reproduction amount to: which cells agree with the paper, and what closes a gap.

A cell is compared with the paper in standard errors of the difference, both sides' errors added (`Cell`). A difference
of at most `LIMIT` standard errors counts as "within": if nothing differed, 1 cell in 22 would still lie outside.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lab.paper.model import CHOSEN, COLUMNS, NOISE_TITLES, Cell, Closure, Reproduction, Wilcoxon
from lab.paper.published import NOT_SIGNIFICANT, TABLE_2

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
    def closed(self) -> bool:
        """Whether the setting closes it."""
        return self.closure is not None and closes(self.closure, self.default)

    @property
    def outcome(self) -> str:
        """What the setting did."""
        if self.closure is None:
            return "open: no setting found"
        return "closed" if self.closed else "not closed"


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
