"""Scores of a run as rows, columns, strips and lines: what its tables and charts are made of."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from expril.report.chart import Axis, Key, Level, Place, Strip, make_axis
from expril.report.numbers import with_error
from expril.report.table import Cell, Column
from simulations.report.folding import few_of
from simulations.report.lead import led
from simulations.report.model import CurvePoint, LearnerReport, RunReport, Score, SiteScore
from simulations.report.words import WORDS, Words, digits, plain

STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
NONE = digits(None)
_LEAST_SPAN = 0.1


@dataclass(frozen=True)
class Row:
    """A learner's score on all test records, or on those of one site.

    Attributes:
        index, learner: whose; the index is of colour and shape.
        score: as it is stored.
        shown: in terms of what leads (`lead.led`).
        site: "" for all.
        rank: among many sites, in words; or the epsilon, of several.
    """

    index: int
    learner: LearnerReport
    score: Score
    shown: Score
    site: str = ""
    rank: str = ""

    @property
    def key(self) -> Key:
        """Of the learner."""
        return Key(self.index, False, self.learner.learner)

    @property
    def strong(self) -> bool:
        """Whether it is what the others are parts of."""
        return not (self.site or self.rank)

    @property
    def unheard(self) -> bool:
        """Whether the site did not answer everything."""
        return any(answers.trouble for answers in self.learner.rounds_answered if answers.curator == self.site)


def few_rows(sites: Sequence[Row]) -> list[Row]:
    """Rows of sites for a table, as `folding.few_of` takes them."""
    rows = {row.site: row for row in sites}
    shown = [row.shown for row in sites if isinstance(row.shown, SiteScore)]
    return [replace(rows[site.curator], rank=rank) for rank, site in few_of(shown)]


def score_rows(report: RunReport) -> list[list[Row]]:
    """Of each learner: its score on all test records, then on those of each site."""
    every = []
    for index, (learner, shown) in enumerate(zip(report.learners, led(report).learners, strict=True)):
        pairs = zip(learner.sites, shown.sites, strict=True)
        rows = [Row(index, learner, site, own, site.curator) for site, own in pairs]
        every.append([Row(index, learner, learner.pooled, shown.pooled), *rows])
    return every


def score_columns(report: RunReport) -> tuple[list[Column[Row]], list[Column[Row]]]:
    """Columns of scores: those of a short table, led by what leads, and all; those that hold nothing are left out."""
    words = WORDS[report.measure]
    own = _column(f"{report.measure} ± se", lambda score: with_error(digits(score.accuracy), score.accuracy_se, 3))
    expected = _column("expected", _expected("accuracy", "low", "high"))
    constant = _column(words.constant, lambda score: digits(score.majority))
    ceiling = _column("ceiling", lambda score: digits(score.ceiling))
    auc = _column("AUC ± se", lambda score: with_error(digits(score.auc), score.auc_se, 3))
    auc_expected = _column("AUC\nexpected", _expected("auc", "auc_low", "auc_high"))
    auc_ceiling = _column("AUC of\nceiling", lambda score: digits(score.auc_ceiling))
    second = _column("AUC\n(ceiling)", _pair("auc"))
    further = _column(f"{report.further}\n(ceiling)", _pair("further"))
    leading = [own, expected, constant, ceiling, further if report.further else second]
    if report.lead == "AUC":
        leading = [auc, auc_expected, auc_ceiling, own, constant]
    every = [
        *(own, expected, constant, ceiling, further),
        _column("MAE\n(ceiling)", _pair("absolute")),
        _column("MAE\nexpected", _expected("absolute", "absolute_low", "absolute_high")),
        *(auc, auc_expected, auc_ceiling),
        _column("average precision\n(ceiling)", _pair("average_precision")),
        _column("Brier\n(ceiling)", _pair("brier")),
        _column("prevalence", lambda score: digits(score.prevalence)),
    ]
    rows = [row for rows in score_rows(report) for row in rows]
    return filled(leading, rows), filled(every, rows)


def bold(heading: str, show: Callable[[Any], str], number: bool = True, names: bool = False) -> Column[Any]:
    """A column of rows of which some are `strong`."""
    return Column(heading, lambda row: Cell(show(row), strong=row.strong), number=number, names=names)


def _column(heading: str, show: Callable[[Score], str]) -> Column[Row]:
    return bold(heading, lambda row: show(row.score))


def _pair(name: str) -> Callable[[Score], str]:
    """A value, and in brackets that of the ceiling."""

    def show(score: Score) -> str:
        value = getattr(score, name)
        return NONE if value is None else f"{digits(value)} ({digits(getattr(score, f'{name}_ceiling'))})"

    return show


def _expected(name: str, low: str, high: str) -> Callable[[Score], str]:
    """What the learner expected, and its interval in a line below."""

    def show(score: Score) -> str:
        value = getattr(score.expected, name, None)
        ends = (digits(getattr(score.expected, end, None)) for end in (low, high))
        return NONE if value is None else f"{digits(value)}\n{' to '.join(ends)}"

    return show


def filled(columns: Sequence[Column[Any]], rows: Sequence[Any]) -> list[Column[Any]]:
    """The columns in which some row has something, and the first."""
    return [one for one in columns if one is columns[0] or any(one.text(row).text != NONE for row in rows)]


def score_axis(scores: Iterable[Score | CurvePoint]) -> Axis:
    """The axis that holds these scores (at least one) with their errors, majorities and ceilings."""
    values: list[float] = []
    for score in scores:
        if score.accuracy is not None:
            values += ends(score.accuracy, score.accuracy_se)
        if isinstance(score, Score):
            values += [value for value in (score.majority, score.ceiling) if value is not None]
    low, high = min(values), max(values)
    if high - low < _LEAST_SPAN:
        low, high = max(min(low, 0.0), high - _LEAST_SPAN), max(high, _LEAST_SPAN)
    return make_axis(low, high, STEPS)


def ends(value: float, error: float | None) -> tuple[float, float]:
    """A score minus and plus one standard error, at most 1; what is not below 0 stays so."""
    low = value - (error or 0.0)
    return low if value < 0 else max(0.0, low), min(1.0, value + (error or 0.0))


def score_strip(index: int, score: Score, axis: Axis) -> Strip:
    """A score with its error, and the room that there is to learn: from the constant to the ceiling."""
    strip = Strip(axis, marks=[(score.majority, "majority")])
    if score.ceiling is not None:
        track = (score.majority, score.ceiling, "track", "")
        strip = replace(strip, spans=[track], marks=[*strip.marks, (score.ceiling, "ceiling")])
    if score.accuracy is not None:
        strip = replace(strip, dots=[(index, score.accuracy, ends(score.accuracy, score.accuracy_se), plain(score))])
    return strip


def place_of(x: float, score: Score | CurvePoint, where: str) -> Place:
    """A score that there is, as a point of a line, with words on where it is."""
    value = score.accuracy or 0.0
    return Place(x, value, ends(value, score.accuracy_se), f"{plain(score)}{where}")


def yardsticks(words: Words, scores: Sequence[Score]) -> list[Level]:
    """The constants and ceilings of some scores as levels of a chart."""
    named = (("dashes", words.constant, "majority"), ("solid", "ceiling", "ceiling"))
    levels = {
        (style, title, round(value, 3))
        for style, title, name in named
        for score in scores
        if (value := getattr(score, name)) is not None
    }
    return [Level(style, value, f"{title} {digits(value)}", named=True) for style, title, value in sorted(levels)]
