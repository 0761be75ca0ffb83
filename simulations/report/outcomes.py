"""Sections of a run's document on where a model is wrong: numbers predicted against observed, and classes confused."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from expril.report.chart import COLOURS, Figure, Key, Place, Series, line_chart, tight_axis
from expril.report.document import PAGE, Block, Charts, Heading, Medium, Section, Text
from expril.report.numbers import count, plain_number, with_error
from expril.report.table import Cell, Column, Group, Table, text_table
from learner_node.scores.values import NORMAL
from simulations.report.model import ClassRecall, LearnerReport, RunReport, Score, SiteScore
from simulations.report.outcome_values import Agreement, Confusion, ShareOfRecords
from simulations.report.words import FEW, amount, digits, interval, with_se

BOTH: frozenset[Medium] = frozenset({"page", "terminal"})
MOST_CLASSES = 12
"""Most classes of a confusion table; of more, the most frequent confusions are listed."""
MOST_PAIRS = 15
_MOST_PANELS = 6
"""Most sites that have a chart of their own; of more, the two with the best and the two with the worst R²."""
_EXTREMES, _LEAST_GROUPS = 2, 3
_HEIGHT, _SMALL_HEIGHT = 380, 230
_LOWEST, _LOW, _MIDDLE, _HIGH, _HIGHEST = range(5)
"""Places in `outcome_values.QUANTILES`."""
SHADES = 9
_CALLED, _TERMINAL = 8, 80
"""Least width of a class's column, and most of all columns, for a terminal to show which classes are confused."""


def outcome_sections(report: RunReport) -> Iterator[Section]:
    """Errors of a number and where they are, or confused classes; empty if the report has neither."""
    yield Section("How far off it is", [_error_lead(report), error_table(report)], BOTH)
    yield Section(f"Predicted against observed{_of_label(report)}", list(_agreements(report)), PAGE)
    wide = sum(max(len(name), _CALLED) for name in report.classes) > _TERMINAL
    yield Section("What is taken for what", list(_confusions(report)), PAGE if wide else BOTH)
    yield Section("Recall and precision by class", list(_recalls(report)), BOTH)


def _of_label(report: RunReport) -> str:
    return f" {report.label}" if report.label else ""


def _in_units(report: RunReport) -> str:
    return f"in {report.units}" if report.units else "in units of the label"


def _has_errors(report: RunReport) -> bool:
    return any(learner.pooled.absolute is not None for learner in report.learners)


def _error_lead(report: RunReport) -> Text | None:
    if not _has_errors(report):
        return None
    return Text(
        f"The mean absolute error (MAE) is how far a prediction is off on average, {_in_units(report)}. Beside it: the "
        "error of always predicting the mean, and that of a ridge regression without privacy."
    )


def error_table(report: RunReport) -> Table[LearnerReport] | None:
    """Mean absolute errors and R² by learner; None for classes, and where no learner has a model."""
    if not _has_errors(report):
        return None

    def expected(learner: LearnerReport) -> str:
        score = learner.pooled.expected
        if score is None or score.absolute is None:
            return "–"
        return f"{amount(score.absolute)} ({amount(score.absolute_low)} to {amount(score.absolute_high)})"

    def column(heading: str, show: Callable[[Score], str]) -> Column[LearnerReport]:
        return Column(heading, lambda learner: show(learner.pooled), number=True)

    columns: list[Column[LearnerReport]] = [
        Column("learner", lambda learner: learner.learner, names=True),
        column("MAE ± se", lambda score: with_se(score.absolute, score.absolute_se)),
        column("of the mean", lambda score: amount(score.absolute_constant)),
        column("of a regression", lambda score: amount(score.absolute_regression)),
        Column("expected by the learner", expected, number=True),
        column("R² ± se", lambda score: with_error(digits(score.value), score.value_se, 3)),
    ]
    repeats = f"over {report.repeats} repeats" if report.repeats > 1 else "from the test records’ spread"
    note = (
        f"On the test records of all sites, by the harness; se: standard error {repeats}. Expected: from the noisy "
        "answers, with a 95 % interval."
    )
    if any(expected(learner) == "–" for learner in report.learners):
        note += " A learner without it did not ask for its errors; of few records the answer would tell little."
    return Table.of(f"mean absolute error, {_in_units(report)}", columns, report.learners, note=note)


def _agreements(report: RunReport) -> Iterator[Block]:
    """For each learner, charts of predicted against observed numbers: of all records, and by site."""
    if not any(learner.pooled.agreement for learner in report.learners):
        return
    yield Text(
        "Test records in groups of equal size, from the lowest predictions to the highest. On the dotted line, what is "
        "observed equals what is predicted: above it the model predicts too little, below it too much. The bands say "
        "how widely the observed numbers spread around their mean: what the model cannot foresee."
    )
    for index, learner in enumerate(report.learners):
        if learner.pooled.agreement is None:
            continue
        key = Key(index, False, learner.learner)
        if len(report.learners) > 1:
            yield Heading(learner.learner, key)
        sites, left_out = _panels(learner)
        keys = [replace(key, name="mean observed, with its 95 % interval")]
        rules = [
            (f"band deep c{index % COLOURS}", "half of the observed numbers"),
            (f"band c{index % COLOURS}", "nine of ten of them"),
            ("diagonal", "observed as predicted"),
        ]
        pooled = agreement_figure("all sites", learner.pooled.agreement, key, report.units)
        sentence = furthest_off(learner.pooled.agreement, report.units)
        yield Charts([pooled], keys, rules, columns=1, size=0.8, note=sentence)
        if len(sites) > 1 or left_out:
            small = [
                agreement_figure(site.curator, site.agreement, key, report.units, _SMALL_HEIGHT)
                for site in sites
                if site.agreement
            ]
            note = f"Each site has scales of its own. {left_out}".strip()
            yield Charts(small, columns=3, name="By site", note=note)


def _panels(learner: LearnerReport) -> tuple[list[SiteScore], str]:
    """Sites that have a chart, of at least three groups, and a sentence on the others."""
    drawn = [
        site for site in learner.sites if site.agreement and sum(map(bool, site.agreement.counts)) >= _LEAST_GROUPS
    ]
    few = len(learner.sites) - len(drawn)
    parts = [f"{count(few, 'site')} {'has' if few == 1 else 'have'} too few test records for a chart."] if few else []
    if len(drawn) > _MOST_PANELS:
        ordered = sorted(drawn, key=lambda site: site.value or 0.0)
        parts.insert(
            0,
            f"Of {len(drawn)} sites the {_EXTREMES} with the lowest and the {_EXTREMES} with the highest R² are drawn.",
        )
        drawn = [*ordered[:_EXTREMES], *ordered[-_EXTREMES:]]
    return drawn, " ".join(parts)


def agreement_figure(name: str, agreement: Agreement, key: Key, units: str = "", height: int = _HEIGHT) -> Figure:
    """Mean observed numbers with intervals, and the bands of the central half and nine tenths, by prediction."""
    groups = [n for n, records in enumerate(agreement.counts) if records]
    means = [_place(agreement, n, _words(agreement, n, units)) for n in groups]

    def band(low: int, high: int) -> Series:
        places = []
        for n, mean in zip(groups, means, strict=True):
            row = [value or 0.0 for value in agreement.quantiles[n]]
            places.append(replace(mean, value=row[_MIDDLE], error=(row[low], row[high]), text=""))
        return Series(key, places, form="band")

    series = [band(_LOWEST, _HIGHEST), band(_LOW, _HIGH), Series(key, means, form="bars")]
    places = [place.x for place in means]
    return line_chart(
        name,
        series,
        tight_axis(min(places), max(places), left=11.0, right=97.0),
        (),
        height=height,
        diagonal=True,
        unit=f"observed, {units}" if units else "observed",
        across=f"predicted, {units}" if units else "predicted",
    )


def _place(agreement: Agreement, group: int, words: str) -> Place:
    value, error = agreement.observed[group] or 0.0, agreement.observed_error[group] or 0.0
    wide = NORMAL * error
    return Place(agreement.predicted[group] or 0.0, value, (value - wide, value + wide), words)


def _words(agreement: Agreement, group: int, units: str) -> str:
    """A group in words."""
    low, high = _place(agreement, group, "").error
    row = [plain_number(value or 0.0) for value in agreement.quantiles[group]]
    return (
        f"predicted {amount(agreement.predicted[group])}, observed {amount(agreement.observed[group], units)} "
        f"({amount(low)} to {amount(high)}); half of {agreement.counts[group]:,} records {row[_LOW]} to {row[_HIGH]}, "
        f"nine of ten {row[_LOWEST]} to {row[_HIGHEST]}"
    )


def furthest_off(agreement: Agreement, units: str = "") -> str:
    """A sentence on the group whose mean is furthest from its prediction, if its interval leaves that out."""
    worst, most = None, 0.0
    groups = [n for n, records in enumerate(agreement.counts) if records]
    for n in groups:
        place = _place(agreement, n, "")
        distance = abs(place.value - place.x)
        if not place.error[0] <= place.x <= place.error[1] and distance > most:
            worst, most = n, distance
    if worst is None:
        return "In no group is the mean observed number shown to differ from the mean prediction."
    place = _place(agreement, worst, "")
    where = _rank(groups.index(worst), len(groups))
    return (
        f"Its predictions are furthest off {where}: they are {amount(place.x, units)} on average, where "
        f"{amount(place.value, units)} is observed "
        f"(95 % interval {amount(place.error[0])} to {amount(place.error[1])})."
    )


def _rank(place: int, groups: int) -> str:
    names = {0: "where they are lowest", groups - 1: "where they are highest"}
    return names.get(place, f"in group {place + 1} of {groups}, from the lowest")


def agreement_table(report: RunReport) -> Table[Sequence[object]]:
    """All numbers of the charts of all records."""
    rows = [
        (
            learner.learner,
            f"{agreement.counts[n]:,}",
            *(amount(column[n]) for column in (agreement.predicted, agreement.observed, agreement.observed_error)),
            *map(amount, agreement.quantiles[n]),
        )
        for learner in report.learners
        if (agreement := learner.pooled.agreement) is not None
        for n, records in enumerate(agreement.counts)
        if records
    ]
    headings = [
        "learner",
        "records",
        "predicted",
        "observed",
        "se of one repeat",
        "5 %",
        "25 %",
        "median",
        "75 %",
        "95 %",
    ]
    return text_table(f"Predicted against observed, {_in_units(report)}", headings, rows, numbers=True)


@dataclass(frozen=True)
class Called:
    """A row of a confusion table: an actual class."""

    confusion: Confusion
    number: int
    name: str

    def cell(self, called: int) -> Cell:
        """How many of its records are called so, and their share."""
        row = self.confusion.counts[self.number]
        total = sum(row)
        share = row[called] / total if total else 0.0
        return Cell(
            f"{row[called]:,}",
            strong=called == self.number,
            under=f"{100 * share:.0f} %" if row[called] else "",
            shade=min(SHADES, round(SHADES * share + 0.25)) if row[called] else 0,
        )


def _confusions(report: RunReport) -> Iterator[Block]:
    """For each learner a table of actual and predicted classes."""
    learners = [(n, learner) for n, learner in enumerate(report.learners) if learner.pooled.confusion]
    if not learners or not report.classes:
        return
    many = len(report.classes) > MOST_CLASSES
    repeats = f", summed over {report.repeats} repeats" if report.repeats > 1 else ""
    lead = (
        f"Numbers of test records of all sites{repeats}. Each row is a class as it is, each column a class as the "
        "model calls it; below each number is its share of the row. The stronger a cell’s shade, the larger that "
        "share; bold numbers are right."
    )
    if many:
        lead = f"The {MOST_PAIRS} most frequent confusions among the test records of all sites{repeats}."
    yield Text(lead)
    for index, learner in learners:
        if len(report.learners) > 1:
            yield Heading(learner.learner, Key(index, False, learner.learner))
        confusion = learner.pooled.confusion
        if confusion is not None:
            yield (
                _pairs(report.classes, confusion)
                if many
                else confusion_table(report.classes, confusion, learner.learner)
            )


def confusion_table(classes: Sequence[str], confusion: Confusion, learner: str) -> Table[Called]:
    """Rows are actual classes, columns predicted ones."""

    def column(number: int) -> Column[Called]:
        return Column(f"called\n{classes[number]}", lambda row: row.cell(number), number=True)

    columns: list[Column[Called]] = [
        Column("it is", lambda row: row.name, names=True),
        *map(column, range(len(classes))),
    ]
    rows = [Called(confusion, number, name) for number, name in enumerate(classes)]
    return Table.of(f"what {learner} takes for what: numbers of test records", columns, rows, "matrix")


def _pairs(classes: Sequence[str], confusion: Confusion) -> Table[Sequence[object]]:
    pairs = [
        (records, actual, called)
        for actual, row in enumerate(confusion.counts)
        for called, records in enumerate(row)
        if actual != called and records
    ]
    rows = [
        (classes[actual], classes[called], f"{records:,}", f"{100 * records / sum(confusion.counts[actual]):.0f} %")
        for records, actual, called in sorted(pairs, reverse=True)[:MOST_PAIRS]
    ]
    return text_table("most frequent confusions", ["it is", "it is called", "records", "share of the class"], rows)


@dataclass(frozen=True)
class ClassRow:
    """A class's recall and precision by one learner."""

    learner: str  # its name, in the first row only
    name: str
    recall: ShareOfRecords | None = None  # None in runs of earlier versions
    precision: ShareOfRecords | None = None
    estimate: ClassRecall | None = None  # of several classes

    @property
    def tested(self) -> str:
        """Mean number of test records of a repeat."""
        return "–" if self.recall is None else f"{self.recall.records:,.0f}"

    @property
    def recall_text(self) -> str:
        """Recall over all repeats, with its interval."""
        if self.recall is not None:
            return _with_interval(self.recall)
        return digits(self.estimate.recall if self.estimate else None)


def _with_interval(share: ShareOfRecords) -> str:
    return interval(share.value, share.low, share.high)


def _class_rows(report: RunReport, learner: LearnerReport) -> list[ClassRow]:
    estimates = {recall.name: recall for recall in learner.pooled.recalls}
    confusion, names = learner.pooled.confusion, report.classes or tuple(estimates)
    if confusion is None and not estimates:
        return []
    rows = []
    for number, name in enumerate(names):
        recall = confusion.recall(number) if confusion else None
        precision = confusion.precision(number) if confusion else None
        rows.append(ClassRow("" if number else learner.learner, name, recall, precision, estimates.get(name)))
    return rows


def _recalls(report: RunReport) -> Iterator[Block]:
    groups = [Group(rows) for learner in report.learners if (rows := _class_rows(report, learner))]
    if not groups:
        return
    yield Text(
        "Recall: of the records of a class, the share that is called so. Precision: of the records that are called so, "
        "the share that is of the class."
    )

    def estimate(row: ClassRow) -> str:
        recall = row.estimate
        return "–" if recall is None else interval(recall.expected, recall.low, recall.high)

    columns: list[Column[ClassRow]] = [
        Column("learner", lambda row: row.learner),
        Column("class", lambda row: row.name, names=True),
        Column("test records", lambda row: row.tested, number=True),
        Column("recall", lambda row: row.recall_text, number=True),
        Column("expected recall", estimate, number=True),
        Column(
            "recall of regression", lambda row: digits(row.estimate.regression if row.estimate else None), number=True
        ),
        Column("precision", lambda row: "–" if row.precision is None else _with_interval(row.precision), number=True),
    ]
    note = "On the test records of all sites, by the harness, with 95 % intervals (Wilson)"
    note += (
        "" if report.repeats == 1 else " for as many records as one repeat tests: repeats split the same records anew"
    )
    note += ". "
    if any(row.estimate for group in groups for row in group.rows):
        note += "Regression: on all records, without privacy. "
        note += "Expected: by the learner, from the noisy answers alone, with a 95 % interval."
    table = Table("recall and precision by class", columns, groups, note=note.strip(), most=FEW)
    yield table if len(report.learners) > 1 else table.without("learner")
