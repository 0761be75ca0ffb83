"""Whether joining pays for each hospital, in words and as one figure, for the brief on top of a run's page.

For each hospital the report compares, on the hospital's own patients, a regression on its own records without privacy
with the model of all (`Joining`). A report without that shows the model beside the constant answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from expril.report.chart import Axis, Key, Strip, make_axis
from expril.report.document import Block, Heading, Legend, Text
from expril.report.numbers import count, decimal, signed
from expril.report.table import Cell, Column, Table
from learner_node.result.phrases import NAMED, series
from simulations.report.joining import OWN
from simulations.report.model import JoiningVerdict, LearnerReport, MeasureName, RunReport, ScoreInterval
from simulations.report.scores import ends
from simulations.report.view import scored_noun
from simulations.report.words import WORDS

MOST = 12
"""Most hospitals in the figure; of more there are those with the largest and the smallest gain."""
_STEPS = (1, 2, 5, 10, 20, 50)
_ERRORS = "bars are ± 1 standard error"
_LOWEST = -0.5
_ROOMY = 6
_MARKS: dict[JoiningVerdict, Cell] = {
    "pays": Cell("pays", tone="good"),
    "does not pay": Cell("worse", tone="bad"),
    "not shown": Cell("undecided"),
    "no answer": Cell("–"),
}
_TITLES: dict[MeasureName, str] = {
    "AUC": "of 100 pairs, how many are in the right order",
    "accuracy": "for how many of 100 {0} it is right",
    "R²": "% of the differences between {0} that it explains",
}


def joining_words(learner: LearnerReport) -> Iterator[str]:
    """For whom joining pays, in sentences; the first is the answer."""
    names: dict[JoiningVerdict, list[str]] = {"pays": [], "does not pay": [], "not shown": [], "no answer": []}
    for site in learner.joining:
        names[site.verdict].append(site.curator)
    judged = len(learner.joining) - len(names["no answer"])
    if not judged:
        yield "Whether joining pays was not computed in this run."
        return
    pays, apart, unclear = names["pays"], names["does not pay"], names["not shown"]
    few = judged <= NAMED
    if len(unclear) == judged:
        yield "For no hospital is it shown whether joining pays: each difference may be chance."
    elif len(pays) == judged:
        yield f"Joining pays for {f'all {judged} hospitals' if judged > 1 else series(pays)}."
    else:
        winners, losers, rest = (series(group) if few else str(len(group)) for group in (pays, apart, unclear))
        of_all = "" if few else f" of {judged} hospitals"
        which = "which does better alone" if len(apart) == 1 else "which do better alone"
        parts = [f"Joining pays for {winners}{of_all}"] if pays else []
        if apart:
            start = "it does not" if pays else "Joining does not pay"
            parts.append(f"{start} for {losers}{'' if pays else of_all}, {which}")
        if unclear:
            parts.append(f"for {rest} it is undecided")
        yield f"{'; '.join(parts)}."
    useless = [site.curator for site in learner.joining if site.verdict != "no answer" and site.useless]
    if useless:
        yield (
            f"At {series(useless)} neither the model nor the own regression is shown to be better than an answer that "
            "looks at no record."
        )
    yield from _without(learner)
    if names["no answer"]:
        yield f"It cannot be told for {series(names['no answer'])}."


def _without(learner: LearnerReport) -> Iterator[str]:
    """What a hospital that gave nothing would get, where the run asked for that."""
    contributions = {site.curator: site.contribution for site in learner.joining if site.contribution is not None}
    givers = [name for name, contribution in contributions.items() if contribution.low > 0]
    if givers:
        rest = "; for the others that is not shown" if len(givers) < len(contributions) else ""
        yield f"The answers of {series(givers)} make the model better for their own patients{rest}."
    elif contributions:
        yield "For no hospital is it shown that its own answers make the model better for its patients."


def joining_title(learner: LearnerReport) -> str:
    """For how many hospitals joining pays, as the end of a headline; "" if it was not computed."""
    judged = [site for site in learner.joining if site.verdict != "no answer"]
    if not judged:
        return ""
    pays, worse = (sum(site.verdict == verdict for site in judged) for verdict in ("pays", "does not pay"))
    if not pays and not worse:
        return "no gain from joining is shown"
    if len(judged) == 1:
        return "joining pays" if pays else "joining does not pay"
    rest = f", and {worse} {'does' if worse == 1 else 'do'} better alone" if worse else ""
    return f"joining {f'pays for {pays}' if pays else 'is shown to pay for none'} of {len(judged)} hospitals{rest}"


@dataclass(frozen=True)
class Bar:
    """A hospital's row of the figure; scores as numbers of 100."""

    curator: str
    model: tuple[float, float, float] | None  # value and ends
    regression: tuple[float, float, float] | None
    constant: float | None
    verdict: JoiningVerdict
    gain: float
    change: str = ""  # the interval of the gain, in words
    records: str = ""  # how many tested it, in words


def hospital_figure(report: RunReport, learner: LearnerReport) -> list[Block | None]:
    """The figure: by hospital, alone and together; empty if no hospital has a score."""
    bars = _bars(report, learner)
    values = [
        number
        for bar in bars
        for number in (*(bar.model or ()), *(bar.regression or ()), *([] if bar.constant is None else [bar.constant]))
    ]
    if not values:
        return []
    index = report.learners.index(learner)
    low, high = max(100 * _LOWEST, min(values)), max(values)
    axis = make_axis(min(low, high - 10), high, _STEPS)
    visible = bars if len(bars) <= MOST else [*bars[: MOST // 2], *bars[-(MOST // 2) :]]
    joined = any(bar.regression for bar in bars)
    if roomy := len(visible) <= _ROOMY:
        below = ", and below a verdict that of together less alone"
    else:
        visible, below = [replace(bar, change="", records="") for bar in visible], ""
    columns: list[Column[Bar]] = [
        Column("hospital", lambda bar: Cell(bar.curator, under=bar.records), names=True),
        Column("plotted", lambda bar: _strip(bar, index, axis), drawn=True, axis=axis),
        Column("alone", lambda bar: _value(bar.regression), number=True),
        Column("together", lambda bar: Cell(_value(bar.model), strong=True), number=True),
        Column("joining", lambda bar: replace(_MARKS[bar.verdict], under=bar.change)),
    ]
    measure = _measure(report, learner)
    title = _TITLES[measure].format(scored_noun(report).plural)
    who = "alone and together" if joined else "by hospital"
    caption = f"On each hospital’s own {scored_noun(report).plural}, {who}: {title}"
    table = Table.of(caption, columns, visible, "forest" if roomy else "forest narrow")
    if not joined:
        table = table.without("alone").without("joining")
    keys = [Key(index, False, "together: the model")]
    if joined:
        keys.insert(0, replace(OWN, name="alone: its own regression, without noise"))
    intervals = any(bar.model and bar.model[1] < bar.model[2] for bar in bars)
    bar_words = (f"bars are 95 % intervals{below}" if joined else _ERRORS) if intervals else ""
    hidden = f"the {MOST} extremes of {count(len(bars), 'hospital')}" if len(bars) > MOST else ""
    note = "; ".join(filter(None, (bar_words, hidden)))
    return [
        Heading(caption),
        Legend(keys, [("dashes", WORDS[measure].constant_named)]),
        table,
        Text(f"{note[0].upper()}{note[1:]}.", "fine") if note else None,
    ]


def _measure(report: RunReport, learner: LearnerReport) -> MeasureName:
    """The figure's measure: that of `Joining`, which leads; without it, AUC wherever there is one."""
    return report.lead if learner.joining or learner.pooled.auc is None else "AUC"


def _bars(report: RunReport, learner: LearnerReport) -> list[Bar]:
    """Rows in the report's order; of many hospitals, by rising gain."""
    measure = _measure(report, learner)
    if any(site.gain for site in learner.joining):
        bars = [
            Bar(
                site.curator,
                _hundredfold(site.federation),
                _hundredfold(site.regression),
                None if site.constant is None else 100 * site.constant.value,
                site.verdict,
                0.0 if site.gain is None else site.gain.value,
                "" if site.gain is None else _change(site.gain),
                f"{site.records:,} tested",
            )
            for site in learner.joining
        ]
    else:
        bars = []
        for site in learner.sites:
            score = site.headline(measure)
            if score.value is not None:
                low, high = ends(score.value, score.error)
                constant = score.constant or 0.0
                model = (100 * score.value, 100 * low, 100 * high)
                bars.append(Bar(site.curator, model, None, 100 * constant, "no answer", score.value - constant))
    return bars if len(bars) <= MOST else sorted(bars, key=lambda bar: bar.gain)


def _change(gain: ScoreInterval) -> str:
    """The interval of a gain of 100; with decimals where else an end that is not 0 beside a verdict would look so."""
    low, high = 100 * gain.low, 100 * gain.high
    digits = next(
        digits for digits in range(4) if low <= 0 <= high or digits == 3 or min(abs(low), abs(high)) >= 0.5 / 10**digits
    )
    return f"{signed(low, digits)} to {signed(high, digits)}"


def _hundredfold(score: ScoreInterval | None) -> tuple[float, float, float] | None:
    return None if score is None else (100 * score.value, 100 * score.low, 100 * score.high)


def _value(score: tuple[float, float, float] | None) -> str:
    return decimal(None if score is None else score[0], 0)


def _strip(bar: Bar, index: int, axis: Axis) -> Strip:
    """A hospital's own regression above the model of all."""
    dots = [
        (shape, score[0], (score[1], score[2]), f"{words} {_value(score)} ({score[1]:.0f} to {score[2]:.0f})")
        for shape, score, words in ((OWN.index + 0.5, bar.regression, "alone"), (float(index), bar.model, "together"))
        if score is not None
    ]
    marks = [] if bar.constant is None else [(bar.constant, "dashes")]
    return Strip(axis, dots, marks=marks, apart=True)
