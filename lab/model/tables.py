"""What the tables of the study of in-site models hold, on its page, in its Markdown and in the terminal."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from expril.report.numbers import decimal, signed, with_error
from expril.report.table import Cell, Column, Group, Table, Tone
from lab.epsilons import INFINITE
from lab.model.model import Found, Point
from lab.model.studies import CLASSES, LABELS, WAYS
from lab.sites.model import Mean

AHEAD, BEHIND, OPEN = "ahead", "behind", "open"
_TONES: dict[str, Tone] = {AHEAD: "above", BEHIND: "below", OPEN: ""}


def classified(found: Found) -> Table[tuple[str, str]]:
    """Accuracies, a group a problem: a line a method, a column an epsilon."""
    return _table(found, "Accuracy on the test records, in percent", [CLASSES])


def others(found: Found) -> Table[tuple[str, str]]:
    """What regressions, clusters and components explain."""
    rest = list(dict.fromkeys(way.predicts for way in WAYS.values() if way.predicts != CLASSES))
    return _table(found, "Explained variance on the test records, in percent", rest)


def _table(found: Found, caption: str, predicted: Sequence[str]) -> Table[tuple[str, str]]:
    groups = []
    for problem in found.problems:
        there = {point.way for point in found.points if point.problem == problem}
        rows = [(problem, name) for name, way in WAYS.items() if name in there and way.predicts in predicted]
        sites = max(point.sites for point in found.points if point.problem == problem)
        title = f"{problem}, {sites} {'site' if sites == 1 else 'sites'}"
        title += "" if CLASSES in predicted else f"; the regression predicts {LABELS.get(problem, 'nothing')}"
        groups.append(Group(rows, title))
    columns = [
        Column[tuple[str, str]]("method", lambda row: WAYS[row[1]].title, names=True),
        *(Column(f"epsilon {each}", partial(_place, found, each), number=True) for each in found.epsilons),
        Column("no privacy", partial(_place, found, INFINITE), number=True),
        Column("charged", partial(_charged, found), number=True),
    ]
    return Table(caption, columns, [group for group in groups if group.rows])


def _place(found: Found, epsilon: str, row: tuple[str, str]) -> Cell:
    point = found.point(*row, epsilon)
    if point is None:
        return Cell("–")
    if point.gain is None:
        return Cell(mean_text(point.score))
    under = f"{signed(point.gain.value)} to cells"
    return Cell(mean_text(point.score), tone=_TONES[side_of(point.gain)], under=under)


def side_of(gain: Mean) -> str:
    """Whether a difference's interval lies above 0 or below it; `OPEN` where it has both sides, or one run has none."""
    if gain.runs < 2 or abs(gain.value) <= gain.error:
        return OPEN
    return AHEAD if gain.value > 0 else BEHIND


def _charged(found: Found, row: tuple[str, str]) -> str:
    """Whether every ledger holds what was asked for; what it holds, where it does not."""
    points = [point for point in found.points if (point.problem, point.way) == row and point.epsilon != INFINITE]
    if not points:
        return "–"
    wrong = [point.charged for point in points if not charged_all(point)]
    return ", ".join(wrong) or "epsilon"


def charged_all(point: Point) -> bool:
    """Whether the costliest ledger holds what was asked for; what is not private is charged nothing."""
    return point.epsilon == INFINITE or Fraction(point.charged) == Fraction(point.epsilon)


def mean_text(mean: Mean) -> str:
    """A mean with half of its interval, where there are several runs."""
    return with_error(decimal(mean.value), mean.error if mean.runs > 1 else None)
