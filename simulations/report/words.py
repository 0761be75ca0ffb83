"""Texts and number formats of a run's page and terminal output."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from expril.report.document import Note
from expril.report.numbers import count, decimal, plain_number, with_error
from learner_node.result.phrases import NAMED
from protocol.rationals import named_parts, written
from simulations.report.budget import exact
from simulations.report.model import CHANCE, RELEASE, Expected, Headline, LearnerReport, MeasureName, RunReport, Score

FEW = 20
"""Most curators for which tables list all; with more they list the ends and the middle."""
MOST_ALIKE = 3
"""Most similar notes that are shown one by one."""
NO_GUARANTEE = "epsilons there are no guarantees"
"""End of the note on curators whose policies allow a method that is not private as claimed."""
REGRESSION = "a regression on all records without privacy"


def fold_notes(notes: Sequence[str], names: Iterable[str]) -> list[Note]:
    """Merge many notes that differ only in numbers and in the `names` of curators, in the place of the first."""
    longest_first = sorted(set(names), key=len, reverse=True)
    name = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)") if longest_first else None
    groups: dict[str, list[str]] = {}
    for note in notes:
        groups.setdefault(_pattern(note, name), []).append(note)
    folded: list[Note] = []
    for alike in groups.values():
        if len(alike) <= MOST_ALIKE:
            folded += map(Note, alike)
            continue
        curators = [match[0] for text in alike[1:] if name is not None and (match := name.search(text))]
        more = f"{len(alike) - 1} more like this{': ' if curators else ''}{some_of(curators)}"
        folded.append(Note(alike[0], f"({more})"))
    return folded


def some_of(names: Sequence[str]) -> str:
    """Names in a sentence: all of them, or the first few and how many more."""
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _pattern(note: str, name: re.Pattern[str] | None) -> str:
    """A note with numbers and curators' names removed."""
    text = name.sub("\0", note) if name is not None else note
    return re.sub(r"\d+(?:[.,/]\d+)*", "\1", text)


@dataclass(frozen=True)
class Words:
    """Names of a score, of the constant it is compared with, and of the best model."""

    score: str
    constant: str
    constant_named: str
    constant_means: str
    best: str = "logistic regression"

    @property
    def score_title(self) -> str:
        """The score at the start of a sentence."""
        return self.score[0].upper() + self.score[1:]

    @property
    def constant_title(self) -> str:
        """The constant at the start of a sentence."""
        return self.constant[0].upper() + self.constant[1:]


WORDS: dict[MeasureName, Words] = {
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
        "ridge regression",
    ),
    "AUC": Words(
        "AUC",
        "chance",
        "chance",
        "The AUC of a ranking that does not look at the records, 0.500: the outcome is rare, and accuracy would reward "
        "whoever never predicts it.",
    ),
}


def digits(value: float | None) -> str:
    """A score or a share in three decimals."""
    return decimal(value, 3)


def amount(value: float | None, units: str = "") -> str:
    """A number in units of the label; "–" for None."""
    return "–" if value is None else f"{plain_number(value)} {units}".rstrip()


def with_se(value: float | None, error: float | None) -> str:
    """An amount with its standard error."""
    return (
        amount(value) if value is None or error is None else f"{amount(value)} ± {plain_number(float(f'{error:.2g}'))}"
    )


def percent(value: float | None) -> str:
    """A share as a percentage."""
    return decimal(None) if value is None else f"{100 * value:.1f} %"


def plain(score: Headline) -> str:
    """A score with its standard error."""
    return "no score" if score.value is None else with_error(digits(score.value), score.error, 3)


def interval(value: float | None, low: float | None, high: float | None) -> str:
    """An estimate with its interval."""
    return digits(value) if value is None else f"{digits(value)} ({digits(low)} to {digits(high)})"


def share_learned(score: Score) -> float | None:
    """Position of the score from the constant (0) to the regression (1); None if that is meaningless."""
    if score.value is None or score.regression is None or score.regression - score.constant < 0.005:
        return None
    return (score.value - score.constant) / (score.regression - score.constant)


def verdict(score: Score, measure: MeasureName = "accuracy") -> str:
    """A sentence's predicate on the score, with the learner as subject; `measure` is the leading one."""
    if score.value is None:
        return "learned nothing"
    if measure == "AUC":
        return _ranking_verdict(score)
    words, above = WORDS[measure], side(score.value, score.value_se, score.constant)
    if above <= 0:
        against = f"{plain(score.headline(measure))} against {digits(score.constant)}"
        open_ = f"is not shown to be better than {words.constant_named} ({against})"
        if ranks(score):
            return f"ranks records (AUC {digits(score.auc)}), though it {open_}"
        return open_ if above == 0 else f"did no better than {words.constant_named}"
    share = share_learned(score)
    if share is None:
        return f"beat {words.constant_named}"
    if share >= 1:
        return f"did at least as well as {REGRESSION}"
    return f"came {100 * share:.0f} % of the way from always answering {words.constant_named} to {REGRESSION}"


def side(value: float, error: float | None, level: float) -> int:
    """1 if a value is more than two standard errors above a level, -1 if at least two below it, else 0."""
    wide = 2 * (error or 0.0)
    return 1 if value - wide > level else -1 if value + wide <= level else 0


def ranks(score: Score) -> bool:
    """Whether the AUC exceeds chance by more than two standard errors."""
    return score.auc is not None and side(score.auc, score.auc_se, CHANCE) > 0


def _ranking_verdict(score: Score) -> str:
    """The verdict for a rare outcome: whether and how well the model ranks, and whether its classes are useful."""
    if score.auc is None or score.value is None:
        return "cannot be judged: its test records hold one class only"
    auc = f"AUC {digits(score.auc)}"
    if not ranks(score):
        verb = "is not shown to rank" if side(score.auc, score.auc_se, CHANCE) == 0 else "does not rank"
        return f"{verb} records better than chance ({with_error(auc, score.auc_se, 3)})"
    if score.auc_regression is not None and score.auc_regression - CHANCE >= 0.005:
        share = (score.auc - CHANCE) / (score.auc_regression - CHANCE)
        way = "at or above" if share >= 1 else f"{100 * share:.0f} % of the way from chance to"
        auc = f"{auc}, {way} the {digits(score.auc_regression)} of {REGRESSION}"
    against = f"accuracy {digits(score.value)} against {digits(score.constant)}"
    above = side(score.value, score.value_se, score.constant)
    if above > 0:
        return f"ranks records ({auc}) and calls them better than the majority class ({against})"
    calls = "is not shown to call them" if above == 0 else "calls them no"
    return f"ranks records ({auc}), though it {calls} better than the majority class ({against})"


def rarity(report: RunReport) -> str:
    """The sentence on the frequency of the positive class; "" unless there are two classes."""
    share = report.prevalence
    if share is None or not report.positive:
        return ""
    return f"{percent(share)} of the test records are “{report.positive}”."


def expectations(expected: Expected, measure: str = "accuracy") -> list[str]:
    """A learner's estimates of its own score, and of AUC or mean absolute error if available."""
    parts = (
        (measure, expected.value, expected.low, expected.high),
        ("AUC", expected.auc, expected.auc_low, expected.auc_high),
    )
    texts = [f"{name} {interval(value, low, high)}" for name, value, low, high in parts if value is not None]
    if expected.absolute is not None:
        ends = f"{amount(expected.absolute_low)} to {amount(expected.absolute_high)}"
        texts.append(f"mean absolute error {amount(expected.absolute)} ({ends})")
    return texts


def _epsilons(learners: Sequence[LearnerReport]) -> str:
    """Epsilons spent; for a learner that spent none, the claimed epsilon."""
    texts = {
        spent_parts(learner) if exact(learner.epsilon_spent) else written(learner.epsilon_claimed)
        for learner in learners
    }
    if len(texts) == 1:
        return texts.pop()
    costs = sorted(exact(learner.epsilon_spent) or exact(learner.epsilon_claimed) for learner in learners)
    return " to ".join(dict.fromkeys(map(written, (costs[0], costs[-1]))))


def spent_parts(learner: LearnerReport) -> str:
    """Epsilon that a learner spent, by study: "2 (model 1, validation 1)"."""
    return written(learner.epsilon_spent) + named_parts((study.what, study.spent) for study in learner.studies)


def score_line(report: RunReport) -> str:
    """The learners' scores and what they spent, in one line."""
    learners = report.learners
    epsilon = _epsilons(learners)
    name = WORDS[report.lead].score
    headlines = [learner.pooled.headline(report.lead) for learner in learners]
    scores = [score for score in headlines if score.value is not None]
    if not scores and not any(map(released, learners)):
        return f"Nothing learned at epsilon {epsilon}: no curator released an answer"
    if all(learner.failed == report.repeats for learner in learners):
        return f"Nothing learned at epsilon {epsilon}: the notes say why"
    if not scores:
        return f"No {name} to report at epsilon {epsilon}"
    if len(learners) == 1:
        pooled = learners[0].pooled
        error = f"{with_se(pooled.absolute, pooled.absolute_se)} {report.units}".rstrip()
        beside = "" if pooled.absolute is None else f", mean absolute error {error},"
        return f"Pooled {name} {plain(scores[0])}{beside} at epsilon {epsilon}"
    values = sorted(score.value or 0.0 for score in scores)
    low, high = digits(values[0]), digits(values[-1])
    reached = low if low == high else f"{low} to {high}"
    return f"{count(len(learners), 'learner')}: pooled {name} {reached} at epsilon {epsilon}"


def answered(learner: LearnerReport) -> str:
    """Text on how many questions were answered with a release."""
    questions = sum(site.questions for site in learner.rounds_answered)
    return f"{released(learner):,} of {questions:,}" if questions else "–"


def released(learner: LearnerReport) -> int:
    """Number of questions answered with a release."""
    return sum(site.outcomes.count(RELEASE) for site in learner.rounds_answered)


def runs(outcomes: Sequence[str]) -> str:
    """The outcomes with repetitions counted: "release x3, late"."""
    parts = []
    for outcome, same in groupby(outcomes):
        many = len(list(same))
        parts.append(outcome if many == 1 else f"{outcome} ×{many}")
    return ", ".join(parts)
