"""Sections of a run's document on a model's ranking, calibration, thresholds, parts and validation."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from expril.report.chart import Figure, Key, Level, Place, Series, Stage, line_chart, make_axis
from expril.report.document import PAGE, Block, Charts, Heading, Medium, Section, Text
from expril.report.numbers import decimal
from expril.report.table import Cell, Column, Group, Table, attributes
from learner_node.result.shapes import Shape, shape_blocks
from learner_node.scores.values import ThresholdScore
from protocol.rationals import written
from simulations.report.model import (
    GRID,
    JudgedInterval,
    LearnerReport,
    Recalibrated,
    RecordCounts,
    RunReport,
    ValidatedBin,
    ValidatedPoint,
    ValidationReport,
)
from simulations.report.scores import STEPS, bold, ends
from simulations.report.words import FEW, digits, interval, percent, rarity

BOTH: frozenset[Medium] = frozenset({"page", "terminal"})
_HEIGHT = 380
WORDS_OF_THRESHOLDS = (
    "Sensitivity: share of “{0}” that is flagged. Specificity: share of the others that is not. PPV: share of “{0}” "
    "among the flagged. NPV: share of the others among those that are not flagged. “Above the prevalence” is the share "
    "that the learner expects; “highest 5 %” is a list of that length."
)


def clinical_sections(report: RunReport) -> Iterator[Section]:
    """ROC curves, calibration curves and thresholds; empty unless the label has two classes."""
    ranked_learners = [(n, learner) for n, learner in enumerate(report.learners) if learner.pooled.auc is not None]
    keys = [Key(n, False, learner.learner, text=f"AUC {digits(learner.pooled.auc)}") for n, learner in ranked_learners]
    best = next(
        (learner.pooled.auc_regression for _, learner in ranked_learners if learner.pooled.auc_regression is not None),
        None,
    )
    if best is not None:
        keys.append(Key(len(report.learners), True, "pooled regression", text=f"AUC {digits(best)}"))
    repeated = report.repeats > 1
    roc, calibration = roc_figure(report.learners), calibration_figure(report)
    note = "Marks on the ROC curve are the thresholds of the table below, the dotted diagonal is chance."
    if repeated:
        note += " The curve is the mean over repeats at each place; bands are ± 1 standard error."
    note += (
        " Each mark of calibration is a tenth of the test records, from the lowest predicted probability to the "
        "highest; on the dotted diagonal, 20 % predicted come true in 20 of 100."
    )
    charts = Charts([figure for figure in (roc, calibration) if figure], keys, columns=2, note=note, size=0.8)
    title = "How well it ranks, and how far its probabilities can be believed"
    yield Section(title, [charts if charts.figures else None], PAGE)
    flagged = Text(
        f"A record is flagged as “{report.positive}” where its predicted probability lies above the threshold."
    )
    table = _thresholds(report)
    explained = Text(WORDS_OF_THRESHOLDS.format(report.positive), "fine")
    yield Section("What a threshold does", [flagged, table, explained] if table else [], BOTH)


def _square(name: str, series: Sequence[Series], unit: str, levels: Sequence[Level] = (), text: str = "") -> Figure:
    """A figure of shares on both axes with a diagonal: a ROC curve, or with a `unit` a calibration curve."""
    high = max([0.05, *(value for line in series for place in line.places for value in (place.x, *place.error))])
    axis, stage = make_axis(0.0, high, STEPS, left=11.0, right=97.0), Stage(make_axis(0.0, high, STEPS), _HEIGHT)
    figure = line_chart(name, series, axis, (), levels=levels, stage=stage, across=" ", text=text, diagonal=True)
    across = "predicted probability" if unit else "1 − specificity"
    return replace(figure, unit=unit or "sensitivity", across=across)


def roc_figure(learners: Sequence[LearnerReport]) -> Figure | None:
    """Sensitivity against false positive rate, a line per learner, dashed for the regression; None without curves."""
    series = []
    for index, learner in enumerate(learners):
        roc = learner.pooled.roc
        if roc is None:
            continue
        errors = roc.sensitivity_se or (0.0,) * len(GRID)
        curve = [Place(x, y, ends(y, error), "") for x, y, error in zip(GRID, roc.sensitivity, errors, strict=True)]
        marks = [
            Place(1 - point.specificity, point.sensitivity, (0.0, 0.0), f"{point.rule}: {_rates_in_words(point)}")
            for point in learner.pooled.operating_points
            if point.sensitivity is not None and point.specificity is not None
        ]
        key = Key(index, False, learner.learner)
        places = [Place(0.0, 0.0, (0.0, 0.0), ""), *curve]
        series.append(Series(key, places, errors=roc.sensitivity_se is not None, pinched=True, marks=marks))
    if not series:
        return None
    best = next(
        (learner.pooled.roc_regression for learner in learners if learner.pooled.roc_regression is not None), None
    )
    if best is not None:
        key = Key(len(learners), True, "pooled regression")
        curve = [Place(x, y, (y, y), "") for x, y in zip((0.0, *GRID), (0.0, *best.sensitivity), strict=True)]
        series.insert(0, Series(key, curve, errors=False, marks=()))
    areas = " ".join(
        f"{learner.learner}: AUC {digits(learner.pooled.auc)}."
        for learner in learners
        if learner.pooled.auc is not None
    )
    return _square("ROC curve", series, "", text=areas)


def _rates_in_words(point: ThresholdScore) -> str:
    return f"sensitivity {digits(point.sensitivity)}, specificity {digits(point.specificity)}"


def calibration_figure(report: RunReport) -> Figure | None:
    """Observed against predicted share of the positive class, by tenths of the records; None without curves."""
    series = []
    for index, learner in enumerate(report.learners):
        curve = learner.pooled.calibration
        if curve is None:
            continue
        bins = zip(curve.counts, curve.predicted, curve.observed, curve.observed_se, strict=True)
        places = [
            Place(x, y, ends(y, error), f"{digits(x)} predicted, {digits(y)} observed, {records} records")
            for records, x, y, error in bins
        ]
        series.append(Series(Key(index, False, learner.learner), places, pinched=True))
    if not any(line.places for line in series):
        return None
    share = report.prevalence
    levels = [] if share is None else [Level("dashes", share, f"prevalence {digits(share)}", named=True)]
    return _square("Calibration curve", series, f"observed share of “{report.positive}”", levels)


@dataclass(frozen=True)
class Entry:
    """A row of a table about one learner."""

    learner: str  # its name, in the first row only
    item: Any  # what it is
    site: str = ""  # "" for all

    @property
    def strong(self) -> bool:
        """Whether the row covers all sites."""
        return not self.site


LEARNER: Column[Entry] = Column("learner", lambda entry: entry.learner)


def _grouped(learners: Iterable[tuple[str, Sequence[Any]]]) -> list[Group[Entry]]:
    """A group for each learner that has items; its first row has its name."""
    return [
        Group([Entry("" if n else name, item) for n, item in enumerate(items)]) for name, items in learners if items
    ]


def _number(heading: str, show: Callable[[Any], object]) -> Column[Entry]:
    return Column(heading, lambda entry: show(entry.item), number=True)


def _interval(estimate: JudgedInterval) -> str:
    return interval(estimate.value, estimate.low, estimate.high)


def _thresholds(report: RunReport) -> Table[Entry]:
    """Operating points of each learner over all sites."""

    def rate(name: str) -> Column[Entry]:
        def show(entry: Entry) -> Cell:
            error = getattr(entry.item, f"{name.lower()}_se")
            return Cell(digits(getattr(entry.item, name.lower())), under="" if error is None else f"± {digits(error)}")

        return Column(name, show, number=True)

    learners = [learner for learner in report.learners if learner.pooled.operating_points]
    columns = [
        LEARNER,
        Column[Entry]("threshold", lambda entry: entry.item.rule, names=True),
        _number("probability", lambda point: digits(point.threshold)),
        _number("flagged", lambda point: digits(point.flagged)),
        *map(rate, ("sensitivity", "specificity", "PPV", "NPV")),
    ]
    note = ["Shares of the test records of all sites, by the harness.", rarity(report)]
    note += [
        f"{learner.learner}: average precision {digits(learner.pooled.average_precision)} "
        f"(regression {digits(learner.pooled.average_precision_regression)}), "
        f"Brier {digits(learner.pooled.brier)} (regression {digits(learner.pooled.brier_regression)})."
        for learner in learners
    ]
    title = f"flag a record as “{report.positive}” where its probability is ..."
    groups = _grouped((learner.learner, learner.pooled.operating_points) for learner in learners)
    return Table(title, columns, groups, note="\n".join(note))


def class_sections(report: RunReport) -> Iterator[Section]:
    """Each class's share, and the numbers of records."""
    shares = share_table(report)
    share_lead = Text(
        f"The share of a class among {private_records(report)}. It is told by the totals of the noisy answers, with a "
        "95 % interval for the population behind the records. The exact share is of the records themselves, which only "
        "the simulation sees."
    )
    yield Section("How common a class is", [share_lead, shares] if shares else [], BOTH)
    yield Section("Records by site", list(_records(report)), PAGE)


def private_records(report: RunReport) -> str:
    """The phrase for the records that shares refer to: if units have several, only some count."""
    bounded = any(curator.private_unit != "record" for curator in report.curators)
    return "the private records that count" if bounded else "the private records"


def share_table(report: RunReport) -> Table[Entry]:
    """How common classes are among the private records: the learners' estimates and the exact shares."""
    groups = []
    for learner in report.learners:
        every = [("", learner.pooled), *((site.curator, site) for site in learner.sites)]
        shares = [(site, share) for site, score in every for share in score.shares]
        rows = [Entry("" if n else learner.learner, share, site) for n, (site, share) in enumerate(shares)]
        groups += [Group(rows)] if rows else []
    columns = [
        LEARNER,
        Column[Entry]("site", lambda entry: entry.site or "all"),
        Column[Entry]("class", lambda entry: entry.item.name, names=True),
        _number("told", lambda share: interval(share.expected, share.low, share.high)),
        _number("exact", lambda share: digits(share.share)),
        _number("held", lambda share: share.hits),
    ]
    note = (
        "Told: by the answers' totals, with a 95 % interval.\nExact: of these records, by the harness.\n"
        "Held: repeats whose interval holds the exact share."
    )
    table = Table(f"how common a class is among {private_records(report)}", columns, groups, note=note, most=FEW)
    return table if any(row.site for group in groups for row in group.rows) else table.without("site")


def _records(report: RunReport) -> Iterator[Block]:
    """Each site's number of records (of many sites, the largest), and the total."""
    sites = report.records
    if not sites:
        return
    largest = sites if len(sites) <= FEW else sorted(sites, key=lambda site: -site.total)[:FEW]
    with_classes = [site for site in sites if site.positive is not None]
    ones, records = (
        sum((site.positive or 0.0) * site.total for site in with_classes),
        sum(site.total for site in with_classes),
    )
    sums = {name: sum(getattr(site, name) for site in sites) for name in ("private", "source", "test", "held")}
    total = RecordCounts(curator="all", **sums, positive=ones / records if records else None)
    lead = (
        "Counted by the simulation in its first repeat. A curator never tells how many records it has, nor how many of "
        "each class."
    )
    if total.held > total.private:
        lead += (
            " Held: all that the curator has; of these it counts the private ones, as many of each unit as its bound "
            "lets count."
        )
    yield Text(lead)
    yield record_table(report, largest, total)
    if len(largest) < len(sites):
        yield Text(f"The {len(largest)} largest sites; {len(sites) - len(largest)} more under “All numbers”.", "fine")


def record_table(report: RunReport, sites: Sequence[RecordCounts], total: RecordCounts | None = None) -> Table[Any]:
    """Sites with their records, and their total."""
    held_column = "held " if any(site.held > site.private for site in report.records) else ""
    columns: list[Column[RecordCounts]] = [
        Column("site", lambda site: site.curator, names=True),
        *(replace(column, number=True) for column in attributes(f"{held_column}private source test", "{:,}".format)),
    ]
    if report.positive:
        columns.append(Column(f"“{report.positive}”", lambda site: percent(site.positive), number=True))
    groups = [Group(sites), *([Group([total])] if total else [])]
    title = "Records of each site in the first repeat"
    return Table(title, columns, groups, row_style=lambda site: "total" if site is total else "")


def part_sections(report: RunReport) -> Iterator[Section]:
    """The terms of additive models, each drawn."""
    blocks: list[Block] = []
    for index, learner in enumerate(report.learners):
        shapes = shapes_of(learner)
        if shapes and len(report.learners) > 1:
            blocks.append(Heading(learner.learner, Key(index, False, learner.learner)))
        blocks += shape_blocks(shapes, index, learner.learner) if shapes else []
    lead = Text(
        "The log-odds of the positive class are an intercept and, for each attribute, the value of the record’s bin; "
        "+0.69 doubles the odds. Steps and points are estimates of the first repeat, less their mean over the records; "
        "bands and bars hold the truth with a probability of 95 % where the attributes’ contributions really add up. "
        "The first and the last step go on beyond the drawing."
    )
    yield Section("What the model adds up", [lead, *blocks] if blocks else [], PAGE)


def shapes_of(learner: LearnerReport) -> list[Shape]:
    """The terms of an additive model; empty of another."""
    return [
        Shape(part.attribute, part.bins, part.units, part.description, part.bounds)
        for part in learner.parts
        if part.bins
    ]


def validation_sections(report: RunReport) -> Iterator[Section]:
    """Validations of the models by second studies, beside the exact figures."""
    validated = [
        (n, learner.learner, learner.validation) for n, learner in enumerate(report.learners) if learner.validation
    ]
    lead = Text(
        "A second study asked how many records of each class lie in bins of the model’s score. Estimates and 95 % "
        "intervals are from the noisy answers alone and speak of the population behind the records; exact figures are "
        "of the private records, which only the simulation sees."
    )
    table = _validations(report)
    yield Section("Validated by the curators", [lead, table] if table else [], BOTH)
    blocks: list[Block | None] = []
    for index, name, validation in validated:
        keys = [
            Key(index, False, "told by the answers", text="95 % intervals"),
            Key(index + 1, True, "exact, by the harness"),
        ]
        points = Table.of("What a threshold does, validated", _POINTS, validation.chosen_points)
        blocks += [
            Heading(name, Key(index, False, name)) if len(report.learners) > 1 else None,
            Charts(
                [_validated_roc(keys, validation), _validated_calibration(keys, validation, report.positive)],
                keys,
                columns=2,
            ),
            points or None,
            *_recalibrated(validation),
        ]
    yield Section("", blocks, PAGE)


def _validations(report: RunReport) -> Table[Entry]:
    groups, note = [], [
        "Exact: of the private records of the first repeat, by the harness, which owns all records.",
        "Held: repeats whose interval of the AUC holds the exact one.",
    ]  # fmt: skip
    for learner in report.learners:
        validation = learner.validation
        if validation is None:
            continue
        sites = [Entry("", site, site.curator) for site in validation.sites] if len(validation.sites) > 1 else []
        groups.append(Group([Entry(learner.learner, validation), *sites]))
        if validation.rank_correlation is not None:
            note.append(
                f"{learner.learner} was distilled into a network that curators evaluate; its score has a rank "
                f"correlation of {digits(validation.rank_correlation)} with the model’s."
            )
        if validation.recalibrated is not None:
            note.append(
                f"{learner.learner}, recalibration fitted to the first repeat's answers: "
                f"{_fitted(validation.recalibrated)}."
            )

    columns = [
        bold("learner", lambda entry: entry.learner, False),
        bold("site", lambda entry: entry.site or "all", False, names=True),
        bold("AUC", lambda entry: _interval(entry.item.area)),
        bold("exact", lambda entry: digits(entry.item.area.exact)),
        bold("held", lambda entry: "" if entry.site else entry.item.hits),
        bold(f"share of\n“{report.positive}”", lambda entry: _interval(entry.item.prevalence)),
        bold("exact", lambda entry: digits(entry.item.prevalence.exact)),
        bold("epsilon", lambda entry: "" if entry.site else written(entry.item.epsilon_claimed)),
    ]
    title = "validated by the curators: their answers, with 95 % intervals, and the exact figures"
    return Table(title, columns, groups, note="\n".join(note), most=FEW + 1)


def _fitted(fitted: Recalibrated) -> str:
    """A recalibration in words: its map, whether it is on, and why."""
    parts = (("intercept", fitted.intercept), ("slope", fitted.slope))
    values = ", ".join(
        f"{name} {decimal(value, 2)} ({decimal(low, 2)} to {decimal(high, 2)})" for name, (value, low, high) in parts
    )
    factor = f"(Bayes factor of the change {fitted.factor:.2g})"
    if not fitted.on:
        return f"{values}; off: the answers favour the risks as they are {factor}"
    on = f"{values}; on: the answers favour the change {factor}"
    return on if fitted.brier is None else f"{on}; Brier {fitted.brier:.4f}, not {fitted.brier_raw:.4f}, by the harness"


def _judged_share(name: str) -> Callable[[ValidatedPoint], Cell]:
    def show(point: ValidatedPoint) -> Cell:
        share: JudgedInterval = getattr(point, name)
        return Cell(
            f"{digits(share.value)}\n{digits(share.low)} to {digits(share.high)}", under=f"exact {digits(share.exact)}"
        )

    return show


_POINTS: list[Column[ValidatedPoint]] = [
    Column("threshold", lambda point: point.rule, names=True),
    Column("probability", lambda point: digits(point.threshold), number=True),
    *(
        Column(name, _judged_share(name.lower()), number=True)
        for name in ("flagged", "sensitivity", "specificity", "PPV", "NPV")
    ),
]


def _recalibrated(validation: ValidationReport) -> Iterator[Block]:
    """A table of risks before and after, where the recalibration is on."""
    fitted = validation.recalibrated
    if fitted is None or not fitted.on:
        return
    columns: list[Column[tuple[ValidatedBin, float]]] = [
        Column("risk as it was", lambda row: digits(row[0].predicted), number=True),
        Column("recalibrated (fitted)", lambda row: digits(row[1]), number=True),
        Column("observed", lambda row: _interval(row[0].observed), number=True),
        Column("exact", lambda row: digits(row[0].observed.exact), number=True),
    ]
    yield Heading("Recalibrated, as fitted")
    yield Text(
        "Intercept and slope of the logit were fitted to the same answers. The recalibrated risks keep the order of "
        "records. The answers are no longer independent of the recalibrated model: what is validated above are the "
        "risks as they were.",
        "fine",
    )
    yield Table.of("Risks, recalibrated", columns, list(zip(validation.calibration, fitted.fitted, strict=True)))


def _validated_roc(keys: Sequence[Key], validation: ValidationReport) -> Figure:
    corners = [Place(at, at, (at, at), "") for at in (0.0, 1.0)]
    private, exact = [], []
    for point in reversed(validation.points):
        sensitivity, specificity = point.sensitivity, point.specificity
        where = (
            f"at {digits(point.threshold)}: sensitivity {digits(sensitivity.value)}, "
            f"specificity {digits(specificity.value)}"
        )
        band = (sensitivity.low, sensitivity.high)
        private.append(Place(1 - specificity.value, sensitivity.value, band, where))
        if sensitivity.exact is not None and specificity.exact is not None:
            x, y = 1 - specificity.exact, sensitivity.exact
            exact.append(Place(x, y, (y, y), f"exact at {digits(point.threshold)}"))
    series = [
        Series(key, [corners[0], *places, corners[1]], pinched=True, errors=places is private)
        for key, places in ((keys[1], exact), (keys[0], private))
    ]
    area = validation.area
    text = f"AUC {digits(area.value)}, 95 % interval {digits(area.low)} to {digits(area.high)}."
    return _square("ROC curve", series, "", text=text)


def _validated_calibration(keys: Sequence[Key], validation: ValidationReport, positive: str) -> Figure:
    private, exact = [], []
    for bin_ in sorted(validation.calibration, key=lambda bin_: bin_.predicted):
        value, exact_share = bin_.observed.value, bin_.observed.exact
        words = f"{digits(bin_.predicted)} predicted, {digits(value)} observed"
        private.append(Place(bin_.predicted, value, (bin_.observed.low, bin_.observed.high), words))
        if exact_share is not None:
            exact.append(Place(bin_.predicted, exact_share, (exact_share, exact_share), f"exact {digits(exact_share)}"))
    series = [Series(keys[1], exact, errors=False), Series(keys[0], private, pinched=True)]
    return _square("Calibration", series, f"observed share of “{positive}”")
