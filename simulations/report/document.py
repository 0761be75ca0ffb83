"""A run's document, made from its report alone: its page, and the output of `expril simulate`."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import median, quantiles
from typing import Any, Literal

from expril.report.chart import COLOURS, Axis, Key, Level, Series, Stage, Strip, count_axis, line_chart, make_axis
from expril.report.document import (
    PAGE,
    PAPER,
    Block,
    Card,
    Cards,
    Charts,
    Code,
    Document,
    Facts,
    Fold,
    Heading,
    Legend,
    Medium,
    Note,
    Notes,
    Section,
    Text,
)
from expril.report.numbers import count
from expril.report.table import Cell, Column, Group, Squares, Table, text_table
from learner_node.result.shapes import shape_table
from learner_node.study.pooling import SECURE
from protocol.rationals import written
from simulations.report.brief import headline, run_brief
from simulations.report.budget import CuratorReport, exact
from simulations.report.clinical import (
    class_sections,
    clinical_sections,
    part_sections,
    record_table,
    shapes_of,
    validation_sections,
)
from simulations.report.joining import TITLE as JOINING
from simulations.report.joining import all_joining, joining_blocks, joining_table
from simulations.report.model import (
    LEFT_OUT,
    RELEASE,
    Headline,
    LearnerReport,
    MeasureName,
    RunReport,
    Score,
    SiteAnswers,
)
from simulations.report.outcomes import agreement_table, outcome_sections
from simulations.report.scores import (
    Row,
    bold,
    few_rows,
    filled,
    place_of,
    score_axis,
    score_columns,
    score_rows,
    score_strip,
    yardsticks,
)
from simulations.report.words import (
    FEW,
    WORDS,
    Words,
    amount,
    answered,
    digits,
    expectations,
    fold_notes,
    plain,
    rarity,
    runs,
    score_line,
    some_of,
    spent_parts,
    verdict,
    with_se,
)

TERMINAL: frozenset[Medium] = frozenset({"terminal"})
POOLING = {
    "sum": "answers added up over curators",
    "site": "answers kept apart by curator",
    "secure": "one secure sum over curators",
}
SEEDED = (
    "The noise came from a seed, so that it can be repeated. Whoever knows the seed can take the noise away: the "
    "releases protect nobody."
)
SUMMED = (
    "spent on secure sums, so it holds unless more curators collude with the learner than its plan assumes, or the "
    "cryptography is broken"
)
READING = {
    "Curator": (
        "The program that holds a hospital’s records, answers questions about them and keeps the ledger of what was "
        "spent; the answers above say hospital."
    ),
    "Epsilon claimed": (
        "The privacy loss that the learner’s plan announced to each curator before its first question; a validation is "
        "a second study, and its plan is added. Smaller is more private."
    ),
    "Epsilon spent": (
        "The most that any one curator’s ledger charged for all studies of the learner, in exact arithmetic. It may "
        "stay below the claim, never above."
    ),
}
EXPECTED = {
    "Expected by the learner": (
        "Its own estimate of its score with a 95 % interval, from the noisy answers that its model was learnt from; "
        "nothing more was asked."
    ),
}
EXPECTED_ERRORS = {
    "Expected by the learner": (
        "Its own estimate of R² and of its mean absolute error, with 95 % intervals. Part of epsilon asked the "
        "curators for the sums of the model’s squared and absolute errors, and of the labels’ squared distances from "
        "their mean."
    ),
    "MAE": "Mean absolute error, in units of the label; smaller is better.",
}
RANKING = {
    "AUC": (
        "Of two records, one of each class, the share of pairs in which {0} gets the higher probability; ties count "
        "one half. Chance has 0.5."
    ),
    "Average precision": (
        "The mean, over the records that are {0}, of the share of {0} among those ranked as high. Chance has their "
        "share among all records."
    ),
    "Brier score": "The mean squared difference of probability and outcome; smaller is better.",
}
_EXTREMES = 5
_CROWD_HEIGHT, _CURVE_HEIGHT = 300, 340


def run_document(report: RunReport) -> Document:
    """The document of a run, as a pure function of the report."""
    if any(learner.is_of_analyses for learner in report.learners):
        return _analyses_document(report)
    rows = score_rows(report)
    alarms, notes = Notes(_alarms(report)), Notes(fold_notes(report.notes, [site.name for site in report.curators]))
    every = Notes([*alarms.items, *notes.items])
    curve, budget = _curve(report), _budgets(report)
    sections = [
        Section("", [alarms if alarms.items else None], PAPER),
        Section("", [run_brief(report)], PAPER),
        Section("", [notes if notes.items else None], PAGE),
        Section(score_line(report), [_cards(report, rows), None if curve else _no_curve(report)], PAGE),
        Section(JOINING, list(joining_blocks(report)), PAGE),
        Section(f"{WORDS[report.lead].score_title} by curator", list(_sites(report, rows)), PAGE),
        Section("", [_results(report, rows)], TERMINAL),
        Section("", [joining_table(report)], TERMINAL),
        *outcome_sections(report),
        *clinical_sections(report),
        *class_sections(report),
        Section(f"{WORDS[report.lead].score_title} after each round", [curve], PAGE),
        *part_sections(report),
        *validation_sections(report),
        Section("Privacy budget by curator", budget, PAGE),
        Section("Who answered", _answers(report), PAGE),
        Section("How to read this page", list(_reading(report)), PAGE),
        Section("Run it again", _again(report, rows), PAGE),
        Section("", [every if every.items else None], TERMINAL),
    ]
    return Document(
        kind="ExPriL simulation",
        subject=report.title,
        headline=headline(report),
        sections=sections,
        created=report.created,
        about=report.description,
        banner=("Not private.", SEEDED) if report.seeded_noise else None,
    )


def _analyses_document(report: RunReport) -> Document:
    """The document of a run whose learners ask analyses."""
    from simulations.report.analyses import learner_sections  # noqa: PLC0415 - it loads what reads noisy tables

    notes = Notes([*_alarms(report), *fold_notes(report.notes, [site.name for site in report.curators])])
    several = len(report.learners) > 1
    spent = ", ".join(
        f"{learner.learner} spent epsilon {written(learner.epsilon_spent)} of {written(learner.epsilon_claimed)}"
        for learner in report.learners
    )
    return Document(
        kind="ExPriL simulation",
        subject=report.title,
        headline=f"{count(len(report.curators), 'hospital')}, {count(report.repeats, 'repeat')}: {spent}",
        sections=[
            Section("", [notes if notes.items else None]),
            *(section for learner in report.learners for section in learner_sections(learner, several=several)),
            Section("Records", [record_table(report, report.records)], PAGE),
            Section("Privacy budget by curator", _budgets(report), PAGE),
            Section("Who answered", _answers(report), PAGE),
            Section("Run it again", _origin(report), PAGE),
        ],
        created=report.created,
        about=report.description,
        banner=("Not private.", SEEDED) if report.seeded_noise else None,
    )


def _alarms(report: RunReport) -> list[Note]:
    """A note for each learner and curator that spent more than allowed."""
    excesses = [
        (learner.learner, exact(learner.epsilon_spent), f"the {written(learner.epsilon_claimed)} that it claimed")
        for learner in report.learners
        if exact(learner.epsilon_spent) > exact(learner.epsilon_claimed)
    ]
    excesses += [
        (curator.name, total, f"its cap of {written(curator.cap)}")
        for curator in report.curators
        if (total := curator.spent) > exact(curator.cap)
    ]
    words = "{} spent epsilon {}, more than {}."
    return [Note(words.format(name, written(total), most), alarm="Budget exceeded.") for name, total, most in excesses]


def _cards(report: RunReport, rows: Sequence[Sequence[Row]]) -> Cards:
    """A card for each learner; labels appear where they differ from the first card's."""
    words = WORDS[report.lead]
    axis = score_axis(row.headline for learner in rows for row in learner)
    first = rows[0][0].headline
    cards = []
    for row, *_ in rows:
        score, learner = row.headline, row.learner
        labels = [(score.constant or 0.0, f"{words.constant} {digits(score.constant)}")]
        if score.regression is not None:
            labels.append((score.regression, f"pooled regression {digits(score.regression)}"))
        same = (score.constant, score.regression) == (first.constant, first.regression)
        facts = [
            ("ε claimed", written(learner.epsilon_claimed)),
            ("ε spent", spent_parts(learner)),
            ("releases", answered(learner)),
        ]
        cards.append(
            Card(
                row.key,
                f"{learner.strategy}, {POOLING[learner.pooling]}",
                digits(score.value) if score.value is not None else "none",
                "" if score.error is None else f"± {digits(score.error)}",
                score_strip(row.index, score, axis),
                () if same and row.index else labels,
                f"Pooled {words.score} {plain(score)}; {'; '.join(label for _, label in labels)}. "
                f"The learner {verdict(row.score, report.lead)}.",
                [*facts, ("repeats", str(report.repeats))] if len(rows) == 1 else facts,
                list(_further_facts(row.score, report)),
            )
        )
    return Cards(cards, "Learners")


def _further_facts(score: Score, report: RunReport) -> Iterator[tuple[str, str]]:
    """Further facts of a learner."""
    if score.absolute is not None:
        pairs = (("mean", score.absolute_constant), ("regression", score.absolute_regression))
        others = ", ".join(f"{name} {amount(value)}" for name, value in pairs if value is not None)
        error = f"{with_se(score.absolute, score.absolute_se)} {report.units}".rstrip()
        yield "mean absolute error", f"{error} ({others})" if others else error
    if score.auc is not None:
        if report.lead == "AUC":
            yield "accuracy", f"{digits(score.value)} (majority {digits(score.constant)})"
        else:
            yield "AUC", f"{digits(score.auc)} (regression {digits(score.auc_regression)})"
        yield "average precision", f"{digits(score.average_precision)} (chance {digits(score.prevalence)})"
        yield "Brier", f"{digits(score.brier)} (regression {digits(score.brier_regression)})"
    if score.expected is not None:
        measure = "R²" if score.absolute is not None else "accuracy"
        yield "it expected", "; ".join(expectations(score.expected, measure))


def _results(report: RunReport, rows: Sequence[Sequence[Row]]) -> Table[Row]:
    """The terminal's table: each learner's scores over all sites and by site, and its epsilons."""
    columns = [
        bold("learner", lambda row: row.rank if row.site else f"{row.learner.learner} ({row.learner.strategy})", False),
        bold("site", lambda row: f"{row.site or 'all'}{' *' if row.unheard else ''}", False, names=True),
        *score_columns(report)[0],
        bold("epsilon\nclaimed", lambda row: "" if row.site else written(row.learner.epsilon_claimed)),
        bold("epsilon\nspent", lambda row: "" if row.site else written(row.learner.epsilon_spent)),
    ]
    title = f"{report.title}: {count(report.repeats, 'repeat')}"
    seeded = "; NOISE FROM A SEED, NOT PRIVATE" if report.seeded_noise else ""
    groups = [Group([pooled, *few_rows(sites)]) for pooled, *sites in rows]
    return Table(f"{title}{seeded}", columns, groups, note="\n".join(_explained(report)))


def _explained(report: RunReport) -> Iterator[str]:
    """Explanations of the columns of the terminal's table, line by line."""
    words = WORDS[report.measure]
    if report.lead == "AUC":
        yield f"{rarity(report)} AUC leads; chance has {digits(0.5)}"
    yield f"regression: {words.best} without privacy; of a site on its own records, of all on all records"
    yield f"{words.constant}, regression: by the harness, which owns all records"
    if report.expects:
        about = " about its errors" if report.measure == "R²" else " alone"
        yield f"expected: by the learner, from the noisy answers{about}, with a 95 % interval"
    yield "epsilon spent: the most at any one curator"
    yield from (
        f"{learner.learner} spent epsilon {spent_parts(learner)}"
        for learner in report.learners
        if len(learner.studies) > 1
    )
    if summed := _summed(report):
        yield f"{summed}: {SUMMED}"
    if any(answers.trouble for learner in report.learners for answers in learner.rounds_answered):
        but = ", but for sums that were opened before" if summed else ""
        yield f"* did not answer everything, or was left out; its answers are not in the model{but}"


def _summed(report: RunReport) -> str:
    """A note on learners that open only sums."""
    return ", ".join(learner.learner for learner in report.learners if learner.pooling == SECURE)


def _sites(report: RunReport, rows: Sequence[Sequence[Row]]) -> Iterator[Block]:
    """Scores by curator: one table, or for many curators a sorted chart and each learner's extremes."""
    sites = [row for _, *site_rows in rows for row in site_rows]
    if not sites:
        return
    words = WORDS[report.lead]
    axis = score_axis(row.headline for learner in rows for row in learner)
    marks = [("dashes", words.constant_named.removeprefix("the ")), ("solid", "own regression")]
    bars = [("bar c0", "± 1 standard error")] if report.repeats > 1 else []
    yield Legend(marks=[*marks, ("track", "room to learn"), *bars])
    names = list(dict.fromkeys(row.site for row in sites))
    several = len(rows) > 1
    caption = f"{words.score_title} and its yardsticks by curator"
    strip = Column[Row](
        f"{words.score_title}, plotted", lambda row: score_strip(row.index, row.headline, axis), drawn=True, axis=axis
    )
    curator = Column[Row]("curator", lambda row: row.site, names=True)
    learner = Column[Row]("learner", lambda row: Cell(row.learner.learner, key=row.key), names=True)
    columns = [strip, *filled(score_columns(report)[0], sites)]
    if len(names) <= FEW:
        groups = [Group([row for row in sites if row.site == name], name) for name in names] if several else []
        yield Table(caption, [learner if several else curator, *columns], groups or [Group(sites)], "rows")
        return
    for pooled, *site_rows in rows:
        ordered = [row for row in site_rows if row.headline.value is not None]
        ordered.sort(key=lambda row: (row.headline.value, row.site))
        if several:
            yield Heading(pooled.learner.learner, pooled.key)
        if ordered:
            yield _crowd(pooled, ordered, axis, words)
        spread = _spread(ordered, len(site_rows))
        yield Text(f"{count(len(ordered), 'curator')}, from the worst to the best. {spread}", "fine")
        if len(ordered) >= 2 * _EXTREMES:
            extremes = [Group(ordered[:_EXTREMES]), Group(ordered[-_EXTREMES:])]
            yield Table("The worst and the best curators", [curator, *columns], extremes, "rows")
    yield Text(f"All {len(names)} curators are listed under “All numbers”.", "fine")


def _crowd(pooled: Row, ordered: Sequence[Row], axis: Axis, words: Words) -> Charts:
    """A chart of many curators' scores in sorted order."""
    places = [place_of(n, row.headline, f", {row.site}") for n, row in enumerate(ordered, 1)]
    figure = line_chart(
        words.score_title,
        [Series(pooled.key, places, pinched=True)],
        count_axis(range(1, len(ordered) + 1), left=7.0, right=99.0),
        (),
        levels=yardsticks(words, [pooled.headline]),
        stage=Stage(axis, _CROWD_HEIGHT),
        across="curators, from the worst to the best",
        text=f"{words.score_title} of {count(len(ordered), 'curator')}, sorted. {_spread(ordered, len(ordered))}",
    )
    return Charts([figure], columns=1, size=0.5)


def _spread(ordered: Sequence[Row], curators: int) -> str:
    """A sentence on the interquartile range of curators' scores, and the number without a score."""
    values, parts = [row.headline.value or 0.0 for row in ordered], []
    if len(values) > 1:
        low, _, high = quantiles(values, n=4, method="inclusive")
        middle = digits(median(values))
        parts.append(f"Half of the curators lie between {digits(low)} and {digits(high)}; the median is {middle}.")
    if len(ordered) < curators:
        parts.append(f"{count(curators - len(ordered), 'curator')} without a score.")
    return " ".join(parts)


def _no_curve(report: RunReport) -> Text | None:
    lengths = [len(_points(learner, report.lead)) for learner in report.learners]
    if not any(lengths):
        return None
    why = "The model took one question" if len(report.learners) == 1 else "No model took more than one question"
    if max(lengths) > 1:
        why = "Questions after the first did not change how good the model is"
    return Text(f"{why}, so there is no learning curve.", "fine")


def _points(learner: LearnerReport, lead: MeasureName) -> list[tuple[int, Headline]]:
    """The rounds of a learner's curve that have a score, with these scores."""
    points = [(point.round, point.headline(lead)) for point in learner.curve]
    return [(number, score) for number, score in points if score.value is not None]


def _curve(report: RunReport) -> Charts | None:
    """Pooled scores by round; None if no learner has at least two different ones."""
    curves = {
        Key(n, False, learner.learner): points
        for n, learner in enumerate(report.learners)
        if (points := _points(learner, report.lead))
    }
    if all(len({score for _, score in points}) < 2 for points in curves.values()):
        return None
    words = WORDS[report.lead]
    pooled = [report.learners[key.index].pooled.headline(report.lead) for key in curves]
    keys = [replace(key, text=plain(points[-1][1])) for key, points in curves.items()]
    series = [
        Series(key, [place_of(number, score, f", round {number}") for number, score in points], pinched=True)
        for key, points in zip(keys, curves.values(), strict=True)
    ]
    singles = [line for line in series if len(line.places) == 1]
    guides = [Level(f"alone c{line.key.index % COLOURS}", line.places[0].value, line.key.name) for line in singles]
    numbers = [number for points in curves.values() for number, _ in points]
    scores = [score for points in curves.values() for _, score in points]
    figure = line_chart(
        f"Pooled {words.score} by round",
        series,
        count_axis(numbers, left=9.0, right=97.0),
        (),
        levels=[*yardsticks(words, pooled), *guides],
        stage=Stage(score_axis([*scores, *pooled]), _CURVE_HEIGHT),
        across="round",
        text=" ".join(f"{key.name} ends at {key.text}." for key in keys),
    )
    note = "Pooled over all curators."
    if report.repeats > 1:
        note += f" Bands and bars: ± 1 standard error over {report.repeats} repeats."
    if singles:
        note += " A learner that asks one question has one point; its dotted line only carries the eye."
    return Charts([figure], keys, columns=1, note=note, size=1.0)


def budget_axis(curators: Sequence[CuratorReport]) -> Axis:
    """A shared axis for all curators' budgets, from 0 to the largest cap."""
    high = max((float(max(exact(curator.cap), curator.spent)) for curator in curators), default=1.0) or 1.0
    scale = 10.0 ** math.floor(math.log10(high))
    return make_axis(0.0, high, [scale * step for step in (0.2, 0.5, 1.0, 2.0)])


def budget_strip(curator: CuratorReport, indices: dict[str, int], axis: Axis) -> Strip:
    """A curator's budget up to its cap, with a block per round; learners are in the order of `indices`."""
    cap, here, before = exact(curator.cap), Fraction(0), dict.fromkeys(indices, Fraction(0))
    spans = [(0.0, float(cap), "block track", "")]
    for point in sorted(curator.spent_by_round, key=lambda point: (indices[point.learner], point.round)):
        spent = exact(point.spent) - before[point.learner]
        before[point.learner] += spent
        words = f"{point.learner}, round {point.round}: {spent}"
        if spent:
            style = f"block c{indices[point.learner] % COLOURS}"
            spans.append((float(here), float(here + spent), style, words))
        here += spent
    return Strip(axis, spans=spans, marks=[(float(cap), "solid")])


def _budgets(report: RunReport) -> list[Block | None]:
    """Curators' budgets. With many curators, equal ledgers share a row, and only the fullest are shown."""
    if not report.curators:
        return []
    indices = {learner.learner: n for n, learner in enumerate(report.learners)}
    for curator in report.curators:  # a ledger may know learners that the report is not about
        for point in curator.spent_by_round:
            indices.setdefault(point.learner, len(indices))
    axis, many = budget_axis(report.curators), len(report.curators) > FEW
    groups: dict[tuple[object, ...], list[CuratorReport]] = {}
    for curator in report.curators:
        same = (curator.cap, curator.private_unit, frozenset(curator.spent_by_round))
        groups.setdefault(same if many else (curator.name,), []).append(curator)
    ledgers = sorted(groups.values(), key=lambda alike: -len(alike))
    if len(ledgers) > FEW:
        ledgers.sort(key=lambda alike: -alike[0].spent / (exact(alike[0].cap) or 1))

    def name(alike: Sequence[CuratorReport]) -> Cell:
        who = alike[0].name if len(alike) == 1 else f"{len(alike)} curators alike"
        return Cell(who, under=f"per {alike[0].private_unit}")

    columns: list[Column[list[CuratorReport]]] = [
        Column("curator", name, names=True),
        Column("spent, plotted", lambda alike: budget_strip(alike[0], indices, axis), drawn=True, axis=axis),
        Column("ε spent of cap", lambda alike: f"{written(alike[0].spent)} of {written(alike[0].cap)}", number=True),
    ]
    table = Table.of("Epsilon spent by curator against its cap", columns, ledgers[:FEW], "rows budget")
    table = replace(table, row_style=lambda alike: "over" if alike[0].spent > exact(alike[0].cap) else "")
    lead = "Each block is what one round cost. The pale bar ends at the curator’s cap, which all learners share."
    if summed := _summed(report):
        lead += (
            f" What {summed} spent was spent on secure sums. It bounds the privacy loss on two conditions: no more "
            "curators collude with the learner than its plan assumes, and the cryptography is not broken."
        )
    hidden = len(ledgers) - FEW
    return [
        Text(lead),
        Legend([Key(index, False, name) for name, index in indices.items()]) if len(indices) > 1 else None,
        table,
        Text(f"The {FEW} fullest ledgers; {hidden} more under “All numbers”.", "fine") if hidden > 0 else None,
    ]


SQUARES: dict[str, Literal["full", "crossed", "half", "dashed", "struck"]] = {
    RELEASE: "full",
    "refusal": "crossed",
    "late": "half",
    "vanished": "dashed",
    LEFT_OUT: "struck",
}


def _squares(site: SiteAnswers) -> Squares:
    """One square a round."""
    named = enumerate(zip(site.kinds, site.outcomes, strict=True), 1)
    return Squares([(SQUARES[kind], f"round {n}: {outcome}") for n, (kind, outcome) in named])


def _in_words(site: SiteAnswers) -> str:
    parts = [f"{site.outcomes.count(RELEASE)} of {site.questions} released"] if site.questions else []
    for outcome, many in Counter(site.outcomes).items():
        if outcome != RELEASE:
            parts.append(outcome.replace("refusal:", "refused: ") + (f" ×{many}" if many > 1 else ""))
    return "; ".join(parts)


def _answers(report: RunReport) -> list[Block | None]:
    """A sentence on answered questions, and a table if something went wrong."""
    rows = [
        (Key(index, False, learner.learner), site)
        for index, learner in enumerate(report.learners)
        for site in learner.rounds_answered
    ]
    sites = [site for _, site in rows]
    questions = sum(site.questions for site in sites)
    if not any(site.outcomes for site in sites):
        return []
    troubled = sorted((row for row in rows if row[1].trouble), key=lambda row: -row[1].trouble)
    if not troubled:
        return [Text(f"Every curator answered every question: {count(questions, 'release')}.")]
    visible = rows if len(rows) <= FEW and len(report.learners) == 1 else troubled[:FEW]
    bad = {site.curator for site in sites if set(site.kinds) - {RELEASE, LEFT_OUT}}
    released = sum(site.outcomes.count(RELEASE) for site in sites)
    everyone = count(len({site.curator for site in sites}), "curator")
    sentence = (
        f"{released:,} of {count(questions, 'question')} {'was' if released == 1 else 'were'} answered with a release. "
        f"{len(bad)} of {everyone} refused, came late or vanished at least once."
    )
    if left_out := sorted({site.curator for site in sites if LEFT_OUT in site.outcomes}):
        sentence += f" The learner went on without {some_of(left_out)}; the notes say why."
    columns: list[Column[tuple[Key, SiteAnswers]]] = [
        Column("curator", lambda row: row[1].curator, names=True),
        Column("learner", lambda row: Cell(row[0].name, key=row[0])),
        Column("one square a round", lambda row: _squares(row[1]), drawn=True),
        Column("in words", lambda row: _in_words(row[1])),
    ]
    table = Table.of("What became of each question", columns, visible)
    hidden, present = len(rows) - len(visible), {kind for _, site in visible for kind in site.kinds}
    return [
        Text(sentence),
        Legend(marks=[(f"square-{square}", kind) for kind, square in SQUARES.items() if kind in present]),
        table.without("learner") if len(report.learners) == 1 else table,
        Text(f"{count(hidden, 'more row')} under “All numbers”.", "fine") if hidden else None,
    ]


def _reading(report: RunReport) -> Iterator[Block]:
    words = WORDS[report.lead]
    items = dict(READING)
    if report.expects:
        items |= EXPECTED_ERRORS if report.measure == "R²" else EXPECTED
    if report.ranks:
        items |= {term: text.format(f"“{report.positive}”") for term, text in RANKING.items()}
    once = "Needs repeats; this run was made once, so it has none."
    several = f"Of the mean over {report.repeats} repeats of the whole run; marked ±."
    items |= {
        words.constant_title: words.constant_means,
        "Own regression": f"The score of {words.best} that a curator learns alone, from its own private records, "
        "without privacy. A model may pass it. Under “Does joining pay?” its strength is also tuned on these records.",
        "Pooled regression": f"The score of {words.best} on all private records in one place, without privacy.",
        "Standard error": several if report.repeats > 1 else once,
        "Pooled": "Over the test records of all curators together.",
    }
    yield Facts(list(items.items()), "reading")
    yield Text(
        f"{words.constant_title} and regressions, like the score itself, were computed by the simulation harness, "
        "which owns the data. A real learner cannot see them.",
        "fine",
    )


def _origin(report: RunReport) -> list[Block | None]:
    return [
        Text(f"ExPriL {report.version}, {count(report.repeats, 'repeat')}, carrier {report.carrier}", "fine"),
        Code(report.command),
        Fold("Configuration", [Code(report.config_toml)]),
    ]


def _again(report: RunReport, rows: Sequence[Sequence[Row]]) -> list[Block | None]:
    return [*_origin(report), Fold("All numbers", list(_numbers(report, rows)))]


def _numbers(report: RunReport, rows: Sequence[Sequence[Row]]) -> Iterator[Block]:
    """All of a run's numbers, in sortable tables."""
    learner = Column[Row]("learner", lambda row: row.learner.learner)
    curator = Column[Row]("curator", lambda row: row.site or "all (pooled)", names=True)
    scores = [row for learner_rows in rows for row in learner_rows]
    yield from _sortable(Table.of("Scores", [learner, curator, *score_columns(report)[1]], scores))
    points = [
        (
            account.learner,
            point.round,
            plain(point.headline(report.measure)),
            digits(point.auc),
            digits(point.auc_se),
        )
        for account in report.learners
        for point in account.curve
    ]
    headings = ["learner", "round", f"{report.measure} ± se", "AUC", "se"][: 5 if report.ranks else 3]
    yield from _sortable(text_table("Pooled scores by round", headings, points, numbers=True))
    yield from _sortable(all_joining(report))
    yield from _sortable(agreement_table(report))
    for account in report.learners:
        yield from _sortable(shape_table(shapes_of(account)))
    if len(report.records) > FEW:
        yield from _sortable(record_table(report, report.records))
    spent = [
        (ledger.name, ledger.private_unit, ledger.cap, name, ", ".join(amounts) or "0")
        for ledger in report.curators
        for name, amounts in _spent_by_learner(ledger).items()
    ]
    headings = ["curator", "unit", "cap", "learner", "after each round"]
    yield from _sortable(text_table("Budget: cumulative epsilon spent, exact", headings, spent))
    answers = [
        (account.learner, site.curator, runs(site.outcomes))
        for account in report.learners
        for site in account.rounds_answered
    ]
    headings = ["learner", "curator", "outcomes"]
    yield from _sortable(text_table("Answers in the order of the rounds", headings, answers))


def _sortable(table: Table[Any]) -> list[Block]:
    return [Heading(table.caption), replace(table, sortable=True)] if table else []


def _spent_by_learner(curator: CuratorReport) -> dict[str, list[str]]:
    """Each learner's cumulative epsilon by round."""
    spent: dict[str, list[str]] = {}
    for point in sorted(curator.spent_by_round, key=lambda point: (point.learner, point.round)):
        spent.setdefault(point.learner, []).append(point.spent)
    return spent or {"–": []}
