"""The section of a run's document on whether joining pays for each hospital."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from expril.report.chart import COLOURS, Axis, Key, Strip, make_axis
from expril.report.document import Block, Heading, Legend, Text
from expril.report.numbers import count, decimal, signed
from expril.report.table import Cell, Column, Group, Table, Tone
from learner_node.study.pooling import SITE
from simulations.report.model import Joining, LearnerReport, RunReport, ScoreInterval
from simulations.report.scores import NONE, STEPS
from simulations.report.words import FEW, WORDS, Words, digits

TITLE = "Does joining pay?"
OWN = Key(COLOURS - 1, True, "its own regression")
_EXTREMES = 5
ENOUGH = 5
"""Fewest repeats that tell how models vary."""
VERDICTS = {"pays": "joining pays", "does not pay": "own regression is better", "not shown": "undecided"}
Part = Callable[[Joining], ScoreInterval | None]
"""Takes a score or a difference of a hospital."""


@dataclass(frozen=True)
class Row:
    """A hospital's answer for one learner."""

    key: Key  # the learner's
    joining: Joining
    words: Words  # of the leading measure

    @property
    def cell(self) -> Cell:
        """The verdict in words, with its tone."""
        verdict, tones = self.joining.verdict, dict[str, Tone]({"pays": "good", "does not pay": "warn"})
        below = f"neither is shown to beat {self.words.constant_named}"
        useless = verdict != "no answer" and self.joining.useless
        text = VERDICTS.get(verdict, self.joining.reason or verdict)
        return Cell(text, tone=tones.get(verdict, ""), under=below if useless else "")

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        return "; ".join(filter(None, (self.cell.text, self.cell.under)))


def joining_blocks(report: RunReport) -> Iterator[Block]:
    """The page's section; empty where no learner makes one model of several curators."""
    learners = [(number, learner) for number, learner in enumerate(report.learners) if learner.joining]
    words = WORDS[report.lead]
    for number, learner in learners:
        key = Key(number, False, learner.learner)
        if len(learners) > 1:
            yield Heading(learner.learner, key)
        yield Text(joining_summary(learner))
        yield from _drawn([Row(key, joining, words) for joining in learner.joining], words, report)
    if learners:
        apart = [learner.learner for learner in report.learners if learner.pooling == SITE]
        note = f" {', '.join(apart)} keeps answers apart by curator, so there is no joint model." if apart else ""
        yield Text(_coverage(report) + note, "fine")


def joining_summary(learner: LearnerReport) -> str:
    """Sentences on how many hospitals gain from joining a learner's model; "" without an answer."""
    verdicts = [joining.verdict for joining in learner.joining if joining.verdict != "no answer"]
    if not verdicts:
        return ""
    hospitals = count(len(verdicts), "hospital")
    pays, worse = verdicts.count("pays"), verdicts.count("does not pay")
    text = f"Joining is shown to pay for {pays} of {hospitals}"
    if worse:
        text += f"; {worse} {'does better with its' if worse == 1 else 'do better with their'} own regression"
    rest = len(verdicts) - pays - worse
    if rest:
        text += f"; {rest} {'is' if rest == 1 else 'are'} undecided"
    text += "."
    if len(verdicts) > FEW:
        higher = sum(joining.gain is not None and joining.gain.value > 0 for joining in learner.joining)
        text += f" The federation’s mean score is the higher one at {higher}."
    absent = len(learner.joining) - len(verdicts)
    return text + (f" {count(absent, 'hospital')} cannot be compared." if absent else "")


def _coverage(report: RunReport) -> str:
    """What is compared, and what the intervals cover."""
    words = WORDS[report.lead]
    text = (
        f"{words.score_title} on each hospital’s own test patients. Its own regression is {words.best} that it would "
        "learn and tune alone on its own private records, without privacy. The difference is paired: both models score "
        "the same patients. "
    )
    if report.repeats == 1:
        return f"{text}Of one repeat, the 95 % intervals cover which patients were tested, not how models vary."
    text += (
        "The 95 % intervals cover which patients there were, and the noise and training records of one study, as they "
        f"varied over {report.repeats} repeats."
    )
    return text if report.repeats >= ENOUGH else f"{text} So few repeats tell little about that: intervals are wide."


def _drawn(rows: Sequence[Row], words: Words, report: RunReport) -> Iterator[Block]:
    """The page's table: all hospitals, or of many those that lose and gain most."""
    axis = _axis(rows)
    score = Column[Row](f"{words.score_title}, plotted", lambda row: _strip(row, axis), drawn=True, axis=axis)
    hospital = Column[Row]("hospital", lambda row: row.joining.curator, names=True)
    columns = [hospital, Column[Row]("verdict", lambda row: row.cell), score, *_columns(report)]
    yield Legend(
        [OWN, replace(rows[0].key, name="the federation’s model")],
        marks=[("dashes", words.constant_named.removeprefix("the ")), ("solid", "pooled regression")],
    )
    if len(rows) <= FEW:
        yield Table("Does joining pay, by hospital", columns, [Group(list(rows))], "rows")
    else:
        caption = "Does joining pay: the hospitals that lose and that gain most"
        yield Table(caption, columns, [Group(_extremes(rows))], "rows")
        yield Text(
            f"All {len(rows)} hospitals are listed under “All numbers”. Each verdict is at the level of 5 %: where "
            "joining makes no difference, up to 5 of 100 hospitals get one by chance.",
            "fine",
        )
    if any(row.joining.others or row.joining.reason for row in rows if row.joining.gain):
        yield Heading("What a hospital that gave nothing would get")
        yield Text(
            "The model of all others, learnt without the hospital’s answers, on its own test patients. The difference "
            "is what its answers bring to it."
        )
        visible = list(rows) if len(rows) <= FEW else _extremes(rows)
        yield Table.of("Leaving one hospital out", [hospital, *columns[-1:], *_LEFT_OUT], visible)


def _extremes(rows: Sequence[Row]) -> list[Row]:
    """Of many hospitals those that lose and that gain most."""
    ordered = sorted((row for row in rows if row.joining.gain), key=_gain)
    return ordered if len(ordered) <= 2 * _EXTREMES else [*ordered[:_EXTREMES], *ordered[-_EXTREMES:]]


def _gain(row: Row) -> float:
    return row.joining.gain.value if row.joining.gain else 0.0


def _columns(report: RunReport) -> list[Column[Row]]:
    """Numbers of a hospital; the federation's is the last."""
    columns: list[Column[Row]] = [
        _change("difference", lambda joining: joining.gain),
    ]
    if report.repeats > 1:
        columns.append(Column("better in", lambda row: _better(row.joining), number=True))
    return [
        *columns,
        _number("own\nregression", lambda joining: joining.regression),
        _number("federation", lambda joining: joining.federation),
    ]


def all_joining(report: RunReport) -> Table[Row]:
    """Every hospital's scores and differences, for the page's last section."""
    words = WORDS[report.lead]
    rows = [
        Row(Key(number, False, learner.learner), joining, words)
        for number, learner in enumerate(report.learners)
        for joining in learner.joining
    ]
    columns = [
        Column[Row]("learner", lambda row: row.key.name),
        Column[Row]("hospital", lambda row: row.joining.curator, names=True),
        Column[Row]("test records", lambda row: f"{row.joining.records:,}", number=True),
        _number(words.constant, lambda joining: joining.constant),
        *_columns(report),
        *(_LEFT_OUT if any(row.joining.others for row in rows) else ()),
        _number("pooled\nregression", lambda joining: joining.pooled),
        _change("pooled\n− federation", lambda joining: joining.price),
        Column[Row]("verdict", lambda row: row.verdict),
    ]
    return Table.of(f"Does joining pay: {report.lead} by hospital", columns, rows)


def _number(heading: str, part: Part, reason: Callable[[Joining], str] = lambda joining: "") -> Column[Row]:  # noqa: ARG005
    """A score with its interval below, or why there is none."""

    def show(row: Row) -> Cell:
        score = part(row.joining)
        return (
            Cell(NONE, under=reason(row.joining))
            if score is None
            else Cell(digits(score.value), under=_ends(score, decimal))
        )

    return Column(heading, show, number=True)


def _change(heading: str, part: Part) -> Column[Row]:
    def show(row: Row) -> Cell:
        score = part(row.joining)
        return Cell(NONE) if score is None else Cell(signed(score.value, 3), under=_ends(score, signed))

    return Column(heading, show, number=True)


_LEFT_OUT = (
    _number("model of\nall others", lambda joining: joining.others, lambda joining: joining.reason),
    _change("federation −\nothers", lambda joining: joining.contribution),
)


def _ends(score: ScoreInterval, written: Callable[[float, int], str]) -> str:
    return f"{written(score.low, 3)} to {written(score.high, 3)}"


def _better(joining: Joining) -> Cell:
    """In how many repeats the federation's model had the higher score."""
    if not joining.repeats:
        return Cell(NONE)
    return Cell(f"{joining.better} of {joining.repeats}", under=f"{joining.equal} equal" if joining.equal else "")


def _axis(rows: Sequence[Row]) -> Axis:
    """The axis that holds all scores with their intervals; of R^2 from -1 on."""
    scores = [
        score
        for row in rows
        for score in (row.joining.constant, row.joining.regression, row.joining.federation, row.joining.pooled)
        if score is not None
    ]
    values = [max(value, -1.0) for score in scores for value in (score.value, score.low, score.high)] or [0.0, 1.0]
    return make_axis(min(values), max(values), STEPS)


def _strip(row: Row, axis: Axis) -> Strip:
    """The own regression above the federation's model, with their intervals."""
    joining = row.joining
    marks = [
        (score.value, style)
        for style, score in (("dashes", joining.constant), ("solid", joining.pooled))
        if score is not None and score.value >= axis.low
    ]
    dots = [
        (place, max(score.value, axis.low), (max(score.low, axis.low), score.high), f"{name} {digits(score.value)}")
        for place, name, score in (
            (OWN.index + 0.5, OWN.name, joining.regression),
            (float(row.key.index), row.key.name, joining.federation),
        )
        if score is not None
    ]
    return Strip(axis, dots=dots, marks=marks, apart=True)


def joining_table(report: RunReport) -> Table[Row] | None:
    """The terminal's table: own regression and federation, their difference, and the verdict; None without any."""
    words = WORDS[report.lead]
    groups = []
    for number, learner in enumerate(report.learners):
        rows = [Row(Key(number, False, learner.learner), joining, words) for joining in learner.joining]
        if len(rows) > FEW:
            ordered = sorted((row for row in rows if row.joining.gain), key=_gain)
            rows = [*ordered[:_EXTREMES], *ordered[-_EXTREMES:]]
        groups += [Group(rows)] if rows else []

    if not groups:
        return None

    def change(row: Row) -> str:
        gain = row.joining.gain
        return NONE if gain is None else f"{signed(gain.value, 3)}\n{_ends(gain, signed)}"

    columns = [
        Column[Row]("learner", lambda row: row.key.name),
        Column[Row]("hospital", lambda row: row.joining.curator, names=True),
        _number("own\nregression", lambda joining: joining.regression),
        _number("federation", lambda joining: joining.federation),
        Column[Row]("difference", change, number=True),
        Column[Row]("better in", lambda row: _better(row.joining), number=True),
        Column[Row]("verdict", lambda row: row.verdict, wraps=True),
    ]
    if any(row.joining.others for group in groups for row in group.rows):
        columns.insert(4, _number("all\nothers", lambda joining: joining.others))
    summaries = [joining_summary(learner) for learner in report.learners if learner.joining]
    note = "\n".join(
        [
            *(summaries if len(summaries) == 1 else ()),
            f"own: {words.best} learnt and tuned on the hospital's own records, without privacy",
            "difference: federation less own, with a 95 % interval (docs/learner/joining.md)",
        ]
    )
    table = Table(f"does joining pay? {report.lead} on each hospital's own test patients", columns, groups, note=note)
    return table if len(groups) > 1 else table.without("learner")
