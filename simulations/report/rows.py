"""What the page of a run shows, learner by learner and curator by curator: values and words for its template."""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from statistics import median, quantiles

from expril.report.chart import Axis
from expril.report.numbers import count
from protocol.rationals import written
from simulations.report import plots
from simulations.report.budget import CuratorReport, exact
from simulations.report.clinical_model import RecordCounts
from simulations.report.expected import ClassShare
from simulations.report.folding import FEW, some_of
from simulations.report.lead import led
from simulations.report.model import (
    LEFT_OUT,
    RELEASE,
    LearnerReport,
    RunReport,
    SiteAnswers,
    SiteScore,
)
from simulations.report.words import WORDS

_EXTREMES = 3


def budget_alarms(report: RunReport) -> tuple[str, ...]:
    """Return a sentence for each learner and curator that spent more than it may."""
    alarms = [
        f"{learner.learner} spent epsilon {written(learner.epsilon_spent)}, "
        f"more than the {written(learner.epsilon_claimed)} that it claimed."
        for learner in report.learners
        if exact(learner.epsilon_spent) > exact(learner.epsilon_claimed)
    ]
    alarms += [
        f"{curator.name} spent epsilon {written(plots.total_spent(curator))}, "
        f"more than its cap of {written(curator.cap)}."
        for curator in report.curators
        if plots.total_spent(curator) > exact(curator.cap)
    ]
    return tuple(alarms)


@dataclass(frozen=True)
class SiteRow:
    """One score in the dot plot by curator, with its learner and that one's index.

    Attributes:
        index, learner: whose.
        score: in terms of what leads (`lead.led`).
        stored: as it is stored.
    """

    index: int
    learner: str
    score: SiteScore
    stored: SiteScore


@dataclass(frozen=True)
class Crowd:
    """The dot plot of one learner with many curators: all of them sorted, the ends of the row named."""

    learner: str
    index: int
    plot: plots.RankPlot
    text: str
    worst: tuple[SiteRow, ...]
    best: tuple[SiteRow, ...]


def site_groups(report: RunReport) -> dict[str, list[SiteRow]]:
    """Return the scores by curator, in the order in which curators come up."""
    groups: dict[str, list[SiteRow]] = {}
    for index, (learner, shown) in enumerate(zip(report.learners, led(report).learners, strict=True)):
        for stored, site in zip(learner.sites, shown.sites, strict=True):
            groups.setdefault(site.curator, []).append(SiteRow(index, learner.learner, site, stored))
    return groups


def crowds(report: RunReport, axis: Axis) -> list[Crowd]:
    """Return the plots of the learners' many curators."""
    return [
        _crowd(index, learner, shown, axis)
        for index, (learner, shown) in enumerate(zip(report.learners, led(report).learners, strict=True))
        if learner.sites
    ]


def _crowd(index: int, stored: LearnerReport, learner: LearnerReport, axis: Axis) -> Crowd:
    both = zip(learner.sites, stored.sites, strict=True)
    rows = [SiteRow(index, learner.learner, site, own) for site, own in both if site.accuracy is not None]
    rows.sort(key=lambda row: (row.score.accuracy, row.score.curator))
    scored = [row.score for row in rows]
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
class Counts:
    """Sites that are listed with their records, how many are not, and all together."""

    rows: tuple[RecordCounts, ...]
    hidden: int
    total: RecordCounts


def record_counts(report: RunReport) -> Counts | None:
    """Return how many records each site has, of too many the largest; None where the run does not say."""
    sites = report.records
    if not sites:
        return None
    names = ("private", "source", "test", "held")
    parts = {name: sum(getattr(site, name) for site in sites) for name in names}
    known = [site for site in sites if site.positive is not None]
    ones = sum((site.positive or 0.0) * site.total for site in known)
    records = sum(site.total for site in known)
    total = RecordCounts(curator="", **parts, positive=ones / records if records else None)
    shown = sites if len(sites) <= FEW else sorted(sites, key=lambda site: -site.total)[:FEW]
    return Counts(tuple(shown), len(sites) - len(shown), total)


def share_rows(learner: LearnerReport) -> list[tuple[str, ClassShare]]:
    """Return the classes' shares that a learner's answers told, each after its curator; "" is all together."""
    every = [("", learner.pooled), *((site.curator, site) for site in learner.sites)]
    return [(name, share) for name, score in every for share in score.shares]


def aside_names(report: RunReport) -> tuple[str, ...]:
    """Return the headings of the columns beside the score that leads, in the table by curator."""
    words = WORDS[report.lead]
    if report.lead == "AUC":
        return ("Ceiling", "Accuracy", "Majority")
    return (words.constant_title, "Ceiling", *(["AUC"] if report.ranks else []))


def asides(row: SiteRow, report: RunReport) -> list[tuple[str, float | None]]:
    """Return those columns of one curator: name and value."""
    score, stored = row.score, row.stored
    values: tuple[float | None, ...] = (score.ceiling, stored.accuracy, stored.majority)
    if report.lead != "AUC":
        values = (score.majority, score.ceiling, score.auc)
    return [
        (name if name == "AUC" else name.lower(), value)
        for name, value in zip(aside_names(report), values, strict=False)
    ]


@dataclass(frozen=True)
class BudgetRow:
    """One curator's bar, or the bar that several curators share because their ledgers agree to the last bit."""

    name: str
    detail: str
    bar: plots.BudgetBar
    spent: str
    cap: str
    fill: Fraction


@dataclass(frozen=True)
class Budgets:
    """The bars that are shown, and how many are not."""

    rows: tuple[BudgetRow, ...]
    hidden: int


def budget_rows(report: RunReport, indices: dict[str, int], axis: Axis) -> Budgets:
    """Return the bars of the curators, those that most share first; of too many the fullest."""
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
                spent=written(bar.spent),
                cap=written(cap),
                fill=bar.spent / cap if cap else bar.spent,
            )
        )
    if len(rows) > FEW:
        rows = sorted(rows, key=lambda row: -row.fill)
    return Budgets(tuple(rows[:FEW]), max(0, len(rows) - FEW))


@dataclass(frozen=True)
class AnswerRow:
    """What became of one learner's questions to one curator."""

    learner: str
    index: int
    curator: str
    outcomes: tuple[tuple[str, str], ...]
    text: str
    trouble: int


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


def answers(report: RunReport) -> Answers | None:
    """Return what became of all questions; None where none was asked."""
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
        sentence += f" The learner went on without {some_of(left_out)}; the notes say why."
    present = {kind for row in shown for _, kind in row.outcomes}
    kinds = tuple(kind for kind in ("release", "refusal", "late", "vanished", LEFT_OUT) if kind in present)
    return Answers(sentence, tuple(shown), len(rows) - len(shown), kinds)


def indices(report: RunReport) -> dict[str, int]:
    """Return the index of colour and shape of every learner that a ledger or the report names."""
    indices = {learner.learner: n for n, learner in enumerate(report.learners)}
    for curator in report.curators:  # a ledger may know learners that the report is not about
        for point in curator.spent_by_round:
            indices.setdefault(point.learner, len(indices))
    return indices
