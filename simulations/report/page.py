"""The page: words for the numbers of a run, and one HTML file that needs nothing else.

The text of a report (names, notes, configuration) is untrusted. It reaches the page through one door, a Jinja template
with autoescape; no other module here writes markup. The page's content security policy allows its own script by
digest and no request at all, so a slip in the template would still load and run nothing.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import cache
from itertools import groupby
from pathlib import Path
from statistics import median, quantiles

from markupsafe import Markup

from simulations.report import plots
from simulations.report.model import (
    LEFT_OUT,
    RELEASE,
    CuratorReport,
    LearnerReport,
    RunReport,
    Score,
    SiteAnswers,
    SiteScore,
    exact,
)
from simulations.report.templates import Template, asset, page_template

PACKAGE = "simulations.report"
FEW = 20
"""With more curators than this, sites are drawn sorted and unnamed, and every table keeps to its extremes."""

_EXTREMES = 3
_POOLING = {
    "sum": "answers added up over curators",
    "site": "answers kept apart by curator",
}


def number(value: Fraction) -> str:
    """Return a budget as a reader wants it: exact as a decimal or as 1/n, else rounded and marked with ≈."""
    decimal = f"{float(value):.6g}"
    if "e" not in decimal and Fraction(decimal) == value:
        return decimal
    if value.numerator == 1 and value.denominator < 1000:
        return f"1/{value.denominator}"
    return f"≈ {float(value):.4g}"


@dataclass(frozen=True)
class Words:
    """What the page calls the score, the constant that it is held against, and what such a constant does."""

    score: str
    constant: str
    constant_named: str
    constant_means: str

    @property
    def score_title(self) -> str:
        """The score at the start of a sentence."""
        return self.score[0].upper() + self.score[1:]


WORDS = {
    "accuracy": Words(
        "accuracy",
        "majority",
        "the majority class",
        "The score of always answering the most frequent class: what one gets for asking nothing.",
    ),
    "R²": Words(
        "R²",
        "mean",
        "the mean",
        "The score of always answering the mean, which is 0: R² is the share of the variance that is explained.",
    ),
}


def count(many: int, noun: str) -> str:
    """Return "1 curator" or "3 curators"."""
    return f"{many:,} {noun}" if many == 1 else f"{many:,} {noun}s"


def share_learned(score: Score) -> float | None:
    """Return how far accuracy came from majority (0) to ceiling (1); None where that has no meaning."""
    if score.accuracy is None or score.ceiling is None or score.ceiling - score.majority < 0.005:
        return None
    return (score.accuracy - score.majority) / (score.ceiling - score.majority)


def verdict(score: Score, words: Words = WORDS["accuracy"]) -> str:
    """Return what the score amounts to, as the rest of a sentence whose subject is the learner."""
    if score.accuracy is None:
        return "learned nothing"
    if score.accuracy <= score.majority:
        return f"did no better than {words.constant_named}"
    share = share_learned(score)
    if share is None:
        return f"beat {words.constant_named}"
    if share >= 1:
        return "reached the ceiling"
    return f"came {100 * share:.0f} % of the way from {words.constant} to ceiling"


def _epsilons(learners: Sequence[LearnerReport]) -> str:
    claimed = sorted({exact(learner.epsilon_claimed) for learner in learners})
    if len(claimed) == 1:
        return number(claimed[0])
    return f"{number(claimed[0])} to {number(claimed[-1])}"


def headline(report: RunReport) -> str:
    """Return the answer of the run in one line."""
    learners = report.learners
    epsilon = _epsilons(learners)
    name = WORDS[report.measure].score
    scored = [learner.pooled for learner in learners if learner.pooled.accuracy is not None]
    if not scored and not any(map(_released, learners)):
        return f"Nothing learned at epsilon {epsilon}: no curator released an answer"
    if not scored:
        return f"No {name} to report at epsilon {epsilon}"
    if len(learners) == 1:
        return f"Pooled {name} {plots.plain(scored[0])} at epsilon {epsilon}"
    accuracies = sorted(score.accuracy or 0.0 for score in scored)
    low, high = f"{accuracies[0]:.3f}", f"{accuracies[-1]:.3f}"
    reached = low if low == high else f"{low} to {high}"
    return f"{count(len(learners), 'learner')}: pooled {name} {reached} at epsilon {epsilon}"


def summary(report: RunReport) -> tuple[str, ...]:
    """Return the sentences under the headline: the yardsticks, and how the accuracy compares."""
    sentences = []
    words = WORDS[report.measure]
    majorities = {f"{learner.pooled.majority:.3f}" for learner in report.learners}
    ceilings = {f"{x.pooled.ceiling:.3f}" for x in report.learners if x.pooled.ceiling is not None}
    if len(majorities) == 1 and len(ceilings) <= 1:
        yardstick = f"{words.constant.capitalize()} {majorities.pop()}"
        sentences.append(yardstick + (f"; in-site ceiling {ceilings.pop()}." if ceilings else "."))
    scored = [learner for learner in report.learners if learner.pooled.accuracy is not None]
    if not scored:
        pass  # the headline says it
    elif len(report.learners) == 1:
        sentences.append(f"The learner {verdict(scored[0].pooled, words)}.")
        told = scored[0].pooled.expected
        if told is not None:
            interval = f"{told.low:.3f} to {told.high:.3f}"
            sentences.append(f"From the answers alone it expected {told.accuracy:.3f} (95 % interval {interval}).")
    else:
        best = max(scored, key=lambda learner: learner.pooled.accuracy or 0.0)
        sentences.append(f"The best, {best.learner}, {verdict(best.pooled, words)}.")
    return tuple(sentences)


def moment(created: str) -> str:
    """Return an ISO 8601 time as a reader writes it; text that is no time is left as it is."""
    try:
        when = datetime.fromisoformat(created)
    except ValueError:
        return created
    if len(created) <= len("2026-05-09"):
        return f"{when:%Y-%m-%d}"
    return f"{when:%Y-%m-%d %H:%M} {when.tzname() or ''}".rstrip()


def _released(learner: LearnerReport) -> int:
    return sum(outcome == RELEASE for site in learner.rounds_answered for outcome in site.outcomes)


def _budget_alarms(report: RunReport) -> tuple[str, ...]:
    alarms = [
        f"{learner.learner} spent epsilon {number(exact(learner.epsilon_spent))}, "
        f"more than the {number(exact(learner.epsilon_claimed))} that it claimed."
        for learner in report.learners
        if exact(learner.epsilon_spent) > exact(learner.epsilon_claimed)
    ]
    alarms += [
        f"{curator.name} spent epsilon {number(plots.total_spent(curator))}, "
        f"more than its cap of {number(exact(curator.cap))}."
        for curator in report.curators
        if plots.total_spent(curator) > exact(curator.cap)
    ]
    return tuple(alarms)


@dataclass(frozen=True)
class Entry:
    """One learner in the opening figure."""

    index: int
    learner: LearnerReport
    strip: plots.Strip
    verdict: str
    claimed: str
    spent: str
    pooling: str
    answered: str


def _entry(index: int, learner: LearnerReport, axis: plots.Axis, words: Words) -> Entry:
    asked = sum(outcome != LEFT_OUT for site in learner.rounds_answered for outcome in site.outcomes)
    return Entry(
        index=index,
        learner=learner,
        strip=plots.strip(learner.pooled, axis),
        verdict=verdict(learner.pooled, words),
        claimed=number(exact(learner.epsilon_claimed)),
        spent=number(exact(learner.epsilon_spent)),
        pooling=_POOLING[learner.pooling],
        answered=f"{_released(learner):,} of {asked:,}" if asked else "–",
    )


@dataclass(frozen=True)
class SiteRow:
    """One score in the dot plot by curator."""

    curator: str
    learner: str
    index: int
    score: SiteScore
    strip: plots.Strip


@dataclass(frozen=True)
class Crowd:
    """The dot plot of one learner with many curators: all of them sorted, the ends of the row named."""

    learner: str
    index: int
    plot: plots.RankPlot
    text: str
    worst: tuple[SiteRow, ...]
    best: tuple[SiteRow, ...]


def _site_groups(report: RunReport, axis: plots.Axis) -> tuple[tuple[str, tuple[SiteRow, ...]], ...]:
    order: dict[str, list[SiteRow]] = {}
    for index, learner in enumerate(report.learners):
        for site in learner.sites:
            order.setdefault(site.curator, []).append(_site_row(index, learner, site, axis))
    return tuple((curator, tuple(rows)) for curator, rows in order.items())


def _site_row(index: int, learner: LearnerReport, site: SiteScore, axis: plots.Axis) -> SiteRow:
    return SiteRow(site.curator, learner.learner, index, site, plots.strip(site, axis))


def _crowd(index: int, learner: LearnerReport, axis: plots.Axis) -> Crowd:
    scored = [site for site in learner.sites if site.accuracy is not None]
    scored.sort(key=lambda site: (site.accuracy, site.curator))
    rows = [_site_row(index, learner, site, axis) for site in scored]
    accuracies = [site.accuracy for site in scored if site.accuracy is not None]
    parts = []
    if len(accuracies) > 1:
        low, _, high = quantiles(accuracies, n=4, method="inclusive")
        parts.append(
            f"Half of the curators lie between {low:.3f} and {high:.3f}; the median is {median(accuracies):.3f}."
        )
    if len(scored) < len(learner.sites):
        parts.append(f"{count(len(learner.sites) - len(scored), 'curator')} without a score.")
    ends = _EXTREMES if len(rows) >= 2 * _EXTREMES else 0
    return Crowd(
        learner=learner.learner,
        index=index,
        plot=plots.rank_plot(learner.sites, axis),
        text=" ".join(parts),
        worst=tuple(rows[:ends]),
        best=tuple(rows[len(rows) - ends :]),
    )


@dataclass(frozen=True)
class BudgetRow:
    """One curator's bar, or the bar that several curators share because their ledgers agree to the last bit."""

    name: str
    detail: str
    bar: plots.BudgetBar
    spent: str
    cap: str
    fill: Fraction


def _budget_rows(report: RunReport, indices: dict[str, int], axis: plots.Axis) -> tuple[BudgetRow, ...]:
    groups: dict[tuple[object, ...], list[CuratorReport]] = {}
    for curator in report.curators:
        many = len(report.curators) > FEW
        same = (curator.cap, curator.private_unit, frozenset(curator.spent_by_round))
        groups.setdefault(same if many else (curator.name,), []).append(curator)
    ordered = sorted(groups.values(), key=lambda group: -len(group))
    rows = []
    for group in ordered:
        first = group[0]
        bar = plots.budget_bar(first, indices, axis)
        cap = exact(first.cap)
        rows.append(
            BudgetRow(
                name=first.name if len(group) == 1 else f"{len(group)} curators alike",
                detail=f"per {first.private_unit}",
                bar=bar,
                spent=number(bar.spent),
                cap=number(cap),
                fill=bar.spent / cap if cap else bar.spent,
            )
        )
    return tuple(rows)


def _emptiness(row: BudgetRow) -> Fraction:
    return -row.fill


@dataclass(frozen=True)
class AnswerRow:
    """What became of one learner's questions to one curator."""

    learner: str
    index: int
    curator: str
    outcomes: tuple[tuple[str, str], ...]
    text: str
    trouble: int


def runs(outcomes: Sequence[str]) -> str:
    """Return the outcomes with repetitions counted: "release x3, late"."""
    parts = []
    for outcome, same in groupby(outcomes):
        many = len(list(same))
        parts.append(outcome if many == 1 else f"{outcome} ×{many}")
    return ", ".join(parts)


def _answer_row(index: int, learner: LearnerReport, site: SiteAnswers) -> AnswerRow:
    troubles = Counter(outcome for outcome in site.outcomes if outcome != RELEASE)
    words = {"late": "late", "vanished": "vanished", LEFT_OUT: LEFT_OUT}
    parts = [
        words.get(outcome, outcome.replace("refusal:", "refused: ")) + (f" ×{many}" if many > 1 else "")
        for outcome, many in troubles.items()
    ]
    released = len(site.outcomes) - troubles.total()
    asked = len(site.outcomes) - troubles[LEFT_OUT]
    return AnswerRow(
        learner=learner.learner,
        index=index,
        curator=site.curator,
        outcomes=tuple((outcome, outcome.partition(":")[0]) for outcome in site.outcomes),
        text="; ".join([*([f"{released} of {asked} released"] if asked else []), *parts]),
        trouble=troubles.total(),
    )


@dataclass(frozen=True)
class Answers:
    """Which questions were answered: a sentence always, a picture when something went wrong."""

    sentence: str
    rows: tuple[AnswerRow, ...]
    hidden: int
    kinds: tuple[str, ...]


def _answers(report: RunReport) -> Answers | None:
    rows = [
        _answer_row(index, learner, site)
        for index, learner in enumerate(report.learners)
        for site in learner.rounds_answered
    ]
    asked = sum(kind != LEFT_OUT for row in rows for _, kind in row.outcomes)
    if not any(row.outcomes for row in rows):
        return None
    trouble = sum(row.trouble for row in rows)
    if not trouble:
        return Answers(f"Every curator answered every question: {count(asked, 'release')}.", (), 0, ())
    few = len(report.learners) == 1 and len(rows) <= FEW  # then the calm rows are worth their place, for contrast
    shown = rows if few else sorted((r for r in rows if r.trouble), key=lambda r: -r.trouble)
    shown = shown[:FEW]
    left_out = sorted({row.curator for row in rows if (LEFT_OUT, LEFT_OUT) in row.outcomes})
    bad = len({row.curator for row in rows if any(kind not in (RELEASE, LEFT_OUT) for _, kind in row.outcomes)})
    everyone = len({row.curator for row in rows})
    released = sum(kind == RELEASE for row in rows for _, kind in row.outcomes)
    sentence = (
        f"{released:,} of {count(asked, 'question')} {'was' if released == 1 else 'were'} answered with a release. "
        f"{bad} of {count(everyone, 'curator')} refused, came late or vanished at least once."
    )
    if left_out:
        sentence += f" The learner went on without {', '.join(left_out)}; the notes say why."
    present = {kind for row in shown for _, kind in row.outcomes}
    kinds = tuple(kind for kind in ("release", "refusal", "late", "vanished", LEFT_OUT) if kind in present)
    return Answers(sentence, tuple(shown), len(rows) - len(shown), kinds)


def _indices(report: RunReport) -> dict[str, int]:
    indices = {learner.learner: n for n, learner in enumerate(report.learners)}
    for curator in report.curators:  # a ledger may know learners that the report is not about
        for point in curator.spent_by_round:
            indices.setdefault(point.learner, len(indices))
    return indices


@cache
def _template() -> Template:
    return page_template(
        PACKAGE,
        {
            "plain": plots.plain,
            "budget": lambda text: number(exact(text)),
            "count": count,
            "runs": runs,
        },
    )


def build_page(report: RunReport) -> str:
    """Return the page of a run as one HTML document that loads nothing.

    The same report gives the same text. Every string of the report is treated as untrusted and is shown as text.
    """
    axis = plots.accuracy_axis(score for x in report.learners for score in (x.pooled, *x.sites))
    budget_axis = plots.budget_axis(report.curators)
    indices = _indices(report)
    groups = _site_groups(report, axis)
    crowded = len(groups) > FEW
    budget_rows = _budget_rows(report, indices, budget_axis)
    script, style = asset(PACKAGE, "page.js"), asset(PACKAGE, "page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _template().render(
        report=report,
        words=WORDS[report.measure],
        created=moment(report.created),
        headline=headline(report),
        summary=summary(report),
        alarms=_budget_alarms(report),
        axis=axis,
        entries=[_entry(n, learner, axis, WORDS[report.measure]) for n, learner in enumerate(report.learners)],
        single=len(report.learners) == 1,
        groups=() if crowded else groups,
        crowds=[_crowd(n, x, axis) for n, x in enumerate(report.learners) if x.sites] if crowded else (),
        sites=len(groups),
        curve=plots.curve_plot(report.learners),
        budget_axis=budget_axis,
        budget_rows=budget_rows if len(budget_rows) <= FEW else sorted(budget_rows, key=_emptiness)[:FEW],
        budget_hidden=max(0, len(budget_rows) - FEW),
        spenders=sorted(indices.items(), key=lambda item: item[1]),
        answers=_answers(report),
        indices=indices,
        shapes=plots.SHAPES,
        colours=plots.COLOURS,
        style=Markup(style),  # noqa: S704 - our own file, not the report's text
        script=Markup(script),  # noqa: S704 - as above
        digest=digest,
    )


def write_page(report: RunReport, path: Path) -> None:
    """Write the page of a run to a file (UTF-8)."""
    path.write_text(build_page(report), encoding="utf-8", newline="\n")
