"""Words and forms of a run's numbers: what its page and the terminal say of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from expril.report.numbers import count, decimal, with_error
from protocol.rationals import named_parts, written
from simulations.report.budget import exact
from simulations.report.expected import Expected
from simulations.report.lead import CHANCE, led
from simulations.report.model import RELEASE, CurvePoint, LearnerReport, RunReport, Score


@dataclass(frozen=True)
class Words:
    """What a score is called, the constant that it is held against, what such a constant does, and the best model."""

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
    """A score or a share, or what is beside it, in three decimals."""
    return decimal(value, 3)


def percent(value: float | None) -> str:
    """A share of many."""
    return decimal(None) if value is None else f"{100 * value:.1f} %"


def plain(score: Score | CurvePoint) -> str:
    """A score with its standard error."""
    return "no score" if score.accuracy is None else with_error(digits(score.accuracy), score.accuracy_se, 3)


def interval(value: float | None, low: float | None, high: float | None) -> str:
    """An estimate with its interval, whatever it is called."""
    return digits(value) if value is None else f"{digits(value)} ({digits(low)} to {digits(high)})"


def share_learned(score: Score) -> float | None:
    """Return how far accuracy came from majority (0) to ceiling (1); None where that has no meaning."""
    if score.accuracy is None or score.ceiling is None or score.ceiling - score.majority < 0.005:
        return None
    return (score.accuracy - score.majority) / (score.ceiling - score.majority)


def verdict(score: Score, words: Words = WORDS["accuracy"]) -> str:
    """Return what the score amounts to, as the rest of a sentence whose subject is the learner.

    Args:
        score: as it is stored: its `accuracy` is one, whatever leads.
        words: of what leads.
    """
    if score.accuracy is None:
        return "learned nothing"
    if words.score == "AUC":
        return _ranking_verdict(score)
    above = side(score.accuracy, score.accuracy_se, score.majority)
    if above <= 0:
        open_ = (
            f"is not shown to be better than {words.constant_named} ({plain(score)} against {digits(score.majority)})"
        )
        if ranks(score):
            return f"ranks records (AUC {digits(score.auc)}), though it {open_}"
        return open_ if above == 0 else f"did no better than {words.constant_named}"
    share = share_learned(score)
    if share is None:
        return f"beat {words.constant_named}"
    if share >= 1:
        return "reached the ceiling"
    return f"came {100 * share:.0f} % of the way from {words.constant} to ceiling"


def side(value: float, error: float | None, level: float) -> int:
    """1 where a value lies above a level by more than two standard errors, -1 where below, 0 where neither is shown."""
    wide = 2 * (error or 0.0)
    return 1 if value - wide > level else -1 if value + wide <= level else 0


def ranks(score: Score) -> bool:
    """Whether the AUC lies above chance by more than two standard errors."""
    return score.auc is not None and side(score.auc, score.auc_se, CHANCE) > 0


def _ranking_verdict(score: Score) -> str:
    """Of a rare outcome: does the model rank, how well, and is calling each record worth anything?"""
    if score.auc is None or score.accuracy is None:
        return "cannot be judged: its test records hold one class only"
    auc = f"AUC {digits(score.auc)}"
    if not ranks(score):
        shown = "is not shown to rank" if side(score.auc, score.auc_se, CHANCE) == 0 else "does not rank"
        return f"{shown} records better than chance ({with_error(auc, score.auc_se, 3)})"
    told = auc
    if score.auc_ceiling is not None and score.auc_ceiling - CHANCE >= 0.005:
        share = (score.auc - CHANCE) / (score.auc_ceiling - CHANCE)
        way = "at" if share >= 1 else f"{100 * share:.0f} % of the way from chance to"
        told = f"{auc}, {way} the ceiling of {digits(score.auc_ceiling)}"
    against = f"accuracy {digits(score.accuracy)} against {digits(score.majority)}"
    above = side(score.accuracy, score.accuracy_se, score.majority)
    if above > 0:
        return f"ranks records ({told}) and calls them better than the majority class ({against})"
    calls = "is not shown to call them" if above == 0 else "calls them no"
    return f"ranks records ({told}), though it {calls} better than the majority class ({against})"


def rarity(report: RunReport) -> str:
    """Return the sentence on how frequent the positive class is; "" where there are not two classes."""
    share = report.prevalence
    if share is None or not report.positive:
        return ""
    return f"{percent(share)} of the test records are “{report.positive}”."


def pairs(score: Score) -> str:
    """Return what the AUC says of two records; "" where there is none."""
    if score.auc is None:
        return ""
    return f"Of two records, one of each class, it puts the right one first in {100 * score.auc:.0f} of 100 pairs."


def told(expected: Expected, score: str = "accuracy") -> list[str]:
    """Return what a learner expected: of the score of this name, and of AUC or mean absolute error if it told one."""
    parts = (
        (score, expected.accuracy, expected.low, expected.high),
        ("AUC", expected.auc, expected.auc_low, expected.auc_high),
        ("mean absolute error", expected.absolute, expected.absolute_low, expected.absolute_high),
    )
    return [f"{name} {interval(*found)}" for name, *found in parts if found[0] is not None]


def _epsilons(learners: Sequence[LearnerReport]) -> str:
    """What was spent; where that is nothing, what was claimed."""
    told = {spent_parts(one) if exact(one.epsilon_spent) else written(one.epsilon_claimed) for one in learners}
    if len(told) == 1:
        return told.pop()
    costs = sorted(exact(one.epsilon_spent) or exact(one.epsilon_claimed) for one in learners)
    return " to ".join(dict.fromkeys(map(written, (costs[0], costs[-1]))))


def spent_parts(learner: LearnerReport) -> str:
    """What a learner spent, and on which of its studies: "2 (model 1, validation 1)"."""
    return written(learner.epsilon_spent) + named_parts((study.what, study.spent) for study in learner.studies)


def headline(report: RunReport) -> str:
    """Return the answer of the run in one line."""
    learners = led(report).learners
    epsilon = _epsilons(learners)
    name = WORDS[report.lead].score
    scored = [learner.pooled for learner in learners if learner.pooled.accuracy is not None]
    if not scored and not any(map(released, learners)):
        return f"Nothing learned at epsilon {epsilon}: no curator released an answer"
    if all(learner.failed == report.repeats for learner in learners):
        return f"Nothing learned at epsilon {epsilon}: the notes say why"
    if not scored:
        return f"No {name} to report at epsilon {epsilon}"
    if len(learners) == 1:
        return f"Pooled {name} {plain(scored[0])} at epsilon {epsilon}"
    accuracies = sorted(score.accuracy or 0.0 for score in scored)
    low, high = digits(accuracies[0]), digits(accuracies[-1])
    reached = low if low == high else f"{low} to {high}"
    return f"{count(len(learners), 'learner')}: pooled {name} {reached} at epsilon {epsilon}"


def summary(report: RunReport) -> tuple[str, ...]:
    """Return the sentences under the headline: the yardsticks, and how the accuracy compares."""
    sentences = []
    words = WORDS[report.lead]
    shown = led(report)
    majorities = {digits(learner.pooled.majority) for learner in shown.learners}
    ceilings = {digits(x.pooled.ceiling) for x in shown.learners if x.pooled.ceiling is not None}
    if report.lead == "AUC":
        sentences.append(rarity(report))
    if len(majorities) == 1 and len(ceilings) <= 1:
        yardstick = f"{words.constant_title} {majorities.pop()}"
        sentences.append(yardstick + (f"; in-site ceiling {ceilings.pop()}." if ceilings else "."))
    scored = [learner for learner in report.learners if learner.pooled.accuracy is not None]
    if not scored:
        pass  # the headline says it
    elif len(report.learners) == 1:
        sentences.append(f"The learner {verdict(scored[0].pooled, words)}.")
        if report.lead == "AUC" and ranks(scored[0].pooled):
            sentences.append(pairs(scored[0].pooled))
        elif scored[0].pooled.auc is not None and report.lead != "AUC":
            best = scored[0].pooled.auc_ceiling
            sentences.append(
                f"AUC {digits(scored[0].pooled.auc)}" + (f"; the ceiling has {digits(best)}." if best else ".")
            )
    else:
        first = max(
            zip(shown.learners, report.learners, strict=True), key=lambda pair: pair[0].pooled.accuracy or -9e9
        )[1]
        scored = [first]
        sentences.append(f"The best, {first.learner}, {verdict(first.pooled, words)}.")
    if scored and (expected := scored[0].pooled.expected) is not None:
        source = "From answers about its errors" if report.measure == "R²" else "From the answers alone"
        sentences.append(f"{source} it expected {' and '.join(told(expected, report.measure))} (95 % intervals).")
    several = [learner for learner in report.learners if len(learner.studies) > 1]
    if len(report.learners) == 1:
        sentences += [f"It spent epsilon {spent_parts(learner)}." for learner in several]
    elif several:
        most = max(several, key=lambda learner: exact(learner.epsilon_spent))
        sentences.append(f"What is spent counts validations, too: {most.learner} spent epsilon {spent_parts(most)}.")
    return tuple(sentences)


def answered(learner: LearnerReport) -> str:
    """Return how many of the questions that were asked were answered with a release."""
    asked = sum(site.asked for site in learner.rounds_answered)
    return f"{released(learner):,} of {asked:,}" if asked else "–"


def released(learner: LearnerReport) -> int:
    """Return how many of a learner's questions were answered with a release."""
    return sum(site.outcomes.count(RELEASE) for site in learner.rounds_answered)


def runs(outcomes: Sequence[str]) -> str:
    """Return the outcomes with repetitions counted: "release x3, late"."""
    parts = []
    for outcome, same in groupby(outcomes):
        many = len(list(same))
        parts.append(outcome if many == 1 else f"{outcome} ×{many}")
    return ", ".join(parts)
