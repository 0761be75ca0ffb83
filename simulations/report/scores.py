"""Scores of a run as table rows and columns, and as elements of charts."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from expril.report.chart import Axis, Key, Level, Place, Strip, make_axis
from expril.report.numbers import with_error
from expril.report.table import Cell, Column
from simulations.report.model import Headline, LearnerReport, RunReport, Score
from simulations.report.words import FEW, WORDS, Words, amount, digits, plain, with_se

STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
NONE = digits(None)
_LEAST_SPAN = 0.1


@dataclass(frozen=True)
class Row:
    """A learner's score on all test records, or on those of one site."""

    index: int  # the learner's, of colour and shape
    learner: LearnerReport
    score: Score
    headline: Headline  # of the score, in the measure that leads
    site: str = ""  # "" for all
    rank: str = ""  # among many sites, in words; or the epsilon, of several

    @property
    def key(self) -> Key:
        """The colour key of the learner."""
        return Key(self.index, False, self.learner.learner)

    @property
    def strong(self) -> bool:
        """Whether the row is the pooled score."""
        return not (self.site or self.rank)

    @property
    def unheard(self) -> bool:
        """Whether the site left a question unanswered."""
        return any(answers.trouble for answers in self.learner.rounds_answered if answers.curator == self.site)


def few_rows(sites: Sequence[Row]) -> list[Row]:
    """Rows of a learner's sites for a table: all of them, or of more than `FEW` the best, the median and the worst.

    In the latter case ranks read "best of 50" and so on; sites without a score do not count.
    """
    if len(sites) <= FEW:
        return list(sites)
    ordered = sorted(
        (row for row in sites if row.headline.value is not None), key=lambda row: -(row.headline.value or 0.0)
    )
    if not ordered:
        return []
    places = {"best": 0, "median": (len(ordered) - 1) // 2, "worst": len(ordered) - 1}
    return [replace(ordered[place], rank=f"{name} of {len(ordered)}") for name, place in places.items()]


def score_rows(report: RunReport) -> list[list[Row]]:
    """For each learner, its score on all test records, then on each site's."""
    lead = report.lead
    return [
        [
            Row(index, learner, learner.pooled, learner.pooled.headline(lead)),
            *(Row(index, learner, site, site.headline(lead), site.curator) for site in learner.sites),
        ]
        for index, learner in enumerate(report.learners)
    ]


def score_columns(report: RunReport) -> tuple[list[Column[Row]], list[Column[Row]]]:
    """Non-empty columns of scores: for a short table, with the leading measure first, and for a full one."""
    words = WORDS[report.measure]
    value = _column(f"{report.measure} ± se", lambda score: with_error(digits(score.value), score.value_se, 3))
    expected = _column("expected", _expected("value", "low", "high"))
    constant = _column(words.constant, lambda score: digits(score.constant))
    regression = _column("regression", lambda score: digits(score.regression))
    auc = _column("AUC ± se", lambda score: with_error(digits(score.auc), score.auc_se, 3))
    auc_expected = _column("AUC\nexpected", _expected("auc", "auc_low", "auc_high"))
    auc_regression = _column("AUC of\nregression", lambda score: digits(score.auc_regression))
    second = _column("AUC\n(regression)", _pair("auc"))
    further = _column(f"{report.further}\n(regression)", _pair("further", amount if report.measure == "R²" else digits))
    absolute = [
        _column("MAE ± se", lambda score: with_se(score.absolute, score.absolute_se)),
        _column("MAE of\nregression", lambda score: amount(score.absolute_regression)),
        _column("MAE of\nmean", lambda score: amount(score.absolute_constant)),
    ]
    leading = [value, expected, constant, regression, further if report.further else second]
    if report.measure == "R²":
        leading = [value, expected, regression, *absolute]
    if report.lead == "AUC":
        leading = [auc, auc_expected, auc_regression, value, constant]
    every = [
        *(value, expected, constant, regression, further),
        *absolute,
        _column("MAE\nexpected", _expected("absolute", "absolute_low", "absolute_high", amount)),
        *(auc, auc_expected, auc_regression),
        _column("average precision\n(regression)", _pair("average_precision")),
        _column("Brier\n(regression)", _pair("brier")),
        _column("prevalence", lambda score: digits(score.prevalence)),
    ]
    rows = [row for rows in score_rows(report) for row in rows]
    return filled(leading, rows), filled(every, rows)


def bold(heading: str, show: Callable[[Any], str], number: bool = True, names: bool = False) -> Column[Any]:
    """A column that prints `strong` rows in bold."""
    return Column(heading, lambda row: Cell(show(row), strong=row.strong), number=number, names=names)


def _column(heading: str, show: Callable[[Score], str]) -> Column[Row]:
    return bold(heading, lambda row: show(row.score))


def _pair(name: str, form: Callable[[float | None], str] = digits) -> Callable[[Score], str]:
    """Formats a value and, in brackets, the regression's."""

    def show(score: Score) -> str:
        value = getattr(score, name)
        return NONE if value is None else f"{form(value)} ({form(getattr(score, f'{name}_regression'))})"

    return show


def _expected(name: str, low: str, high: str, form: Callable[[float | None], str] = digits) -> Callable[[Score], str]:
    """Formats an estimate with its interval on a second line."""

    def show(score: Score) -> str:
        value = getattr(score.expected, name, None)
        ends = (form(getattr(score.expected, end, None)) for end in (low, high))
        return NONE if value is None else f"{form(value)}\n{' to '.join(ends)}"

    return show


def filled(columns: Sequence[Column[Any]], rows: Sequence[Any]) -> list[Column[Any]]:
    """The first column, and every other column that is not empty in all rows."""
    return [column for column in columns if column is columns[0] or any(column.text(row).text != NONE for row in rows)]


def score_axis(scores: Iterable[Headline]) -> Axis:
    """The axis that holds these scores (at least one) with their errors, constants and regressions."""
    values: list[float] = []
    for score in scores:
        if score.value is not None:
            values += ends(score.value, score.error)
        values += [value for value in (score.constant, score.regression) if value is not None]
    low, high = min(values), max(values)
    if high - low < _LEAST_SPAN:
        low, high = max(min(low, 0.0), high - _LEAST_SPAN), max(high, _LEAST_SPAN)
    return make_axis(low, high, STEPS)


def ends(value: float, error: float | None) -> tuple[float, float]:
    """A score minus and plus one standard error, clipped to 1 above, and to 0 below if the score is at least 0."""
    low = value - (error or 0.0)
    return low if value < 0 else max(0.0, low), min(1.0, value + (error or 0.0))


def score_strip(index: int, score: Headline, axis: Axis) -> Strip:
    """A score with its error on a bar from the constant to the regression."""
    constant = score.constant or 0.0
    strip = Strip(axis, marks=[(constant, "dashes")])
    if score.regression is not None:
        track = (constant, score.regression, "track", "")
        strip = replace(strip, spans=[track], marks=[*strip.marks, (score.regression, "solid")])
    if score.value is not None:
        strip = replace(strip, dots=[(index, score.value, ends(score.value, score.error), plain(score))])
    return strip


def place_of(x: float, score: Headline, where: str) -> Place:
    """An existing score as a point of a line; `where` describes its position."""
    value = score.value or 0.0
    return Place(x, value, ends(value, score.error), f"{plain(score)}{where}")


def yardsticks(words: Words, scores: Sequence[Headline]) -> list[Level]:
    """Constants and pooled regressions of some scores as levels of a chart."""
    levels = {
        (style, title, round(value, 3))
        for score in scores
        for style, title, value in (
            ("dashes", words.constant, score.constant),
            ("solid", "pooled regression", score.regression),
        )
        if value is not None
    }
    return [Level(style, value, f"{title} {digits(value)}", named=True) for style, title, value in sorted(levels)]
