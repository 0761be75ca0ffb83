"""What the study of holdouts says in sentences."""

from collections import Counter

from expril.report.numbers import decimal, signed
from lab.holdout.claims import HOLDS, NOT_SEEN, OPEN, POSSIBLE
from lab.holdout.model import Found, Shown
from lab.holdout.runs import EACH_STEP, LARGE, NAIVE, NO_EPSILON, SOURCE, THRESHOLDOUT
from lab.means import Mean

SETUP = (
    "The blog (N. Zumel, Win-Vector, 2015) chooses variables for a logistic regression one by one, out of ten that "
    "carry signal and a hundred that do not, by how much each improves accuracy on 1,000 test rows. It does so once: "
    "naively, with a variant of Thresholdout, and with a test set of 10,000 rows. Here the same is done on many data "
    "sets."
)
DATA = (
    "The post does not say how its data are made. Its authors' published code does, and so are these drawn, by code "
    "of our own: the class is a fair coin, a signal variable is normal with variance 1 and mean +0.1 or −0.1 by the "
    "class. As there, the variables stand with the signals first, and the first of equal scores wins; a table below "
    "says that a random order changes little, and what other strengths of signal change."
)
CURVES = (
    "Mean over data sets, and a band in which eight of ten data sets lie. “Training” and “test” are the accuracies on"
    " the rows that the model was fitted on, and chosen on; “fresh” is on 10,000 rows that nothing else looked at. "
    "Where a curator is asked, the middle line is what the learner believes, from the answers; it never sees the test"
    " accuracy. The dashed level is the best rule that there is."
)
CLAIMS = (
    "A number holds where the whole 95 % interval of its mean is the blog's, as exactly as the blog states it; a "
    "statement without a number, where the 95 % interval of its share lies above one half. Where an interval has both "
    "sides, these data sets cannot tell. What does not hold happened, though it is not typical, where some data set "
    "shows it."
)
KEPT = (
    "A user keeps the model that looks best: by test accuracy, or by what the answers let her believe of the steps "
    "that she asked about. Mean and half its 95 % interval; “too high by” is what she believes less what is true, in "
    "points. The test accuracy of the blog's variant is the exact one, which the blog plots; by its own rules its "
    "user would never see it. With the training likelihood, test rows are looked at once a step, to keep the best. "
    "With the valid holdout a belief may be off by the threshold, 4 points, and is still “close”."
)
COST = (
    "The blog's variant compares exact accuracies without noise, and whether they were close shows in the width of "
    "the noise that is added. Where one row tips the comparison, the answer 1 becomes so much more or less likely "
    "that one question costs more than any sensible budget; unclipped there is no bound at all. It has no budget "
    "either, and a ratio over the number of rows takes that number for public."
)
OURS = (
    "The valid holdout compares whole numbers under fresh noise with a noisy threshold of 40 rows (84 where every "
    "candidate is asked about), charges an instance of epsilon 1 when it begins, and answers “close” as often as it "
    "is so. With “each step” the variables are chosen by the training likelihood alone and the holdout is asked once "
    "a step; with “each candidate” it is asked about every candidate of the first ten steps, as in the blog, on three"
    " data sets only, since that is a thousand signed questions. Asked so it chooses no better than training accuracy"
    " does: “close” gives back what the learner stated. When its answers are spent, the learner asks no more. The "
    "ledger says what was charged."
)
WHY = (
    "Why they differ: choosing among a hundred variables by the accuracy on 1,000 rows is choosing by noise, whose "
    "standard deviation is 1.6 points, while a signal variable adds about one point. Noise that is added to it, as "
    "Thresholdout does, hides the test rows and the signal alike. A larger test set helps, and so does a score that "
    "uses all of what the training rows say: their likelihood. What a private holdout is good for is to say when "
    "training accuracy stops being true."
)


def of(found: Found, procedure: str, epsilon: str = NO_EPSILON) -> Shown | None:
    """A procedure in the blog's setting; None where it was not run."""
    return next((each for each in found.main if (each.procedure, each.epsilon) == (procedure, epsilon)), None)


def headline(found: Found) -> str:
    """The answer in one line."""
    if not found.claims:
        return "The blog's holdout, on many data sets"
    held = sum(claim.verdict == HOLDS for claim in found.claims)
    runs = found.claims[0].mean.runs
    return f"The blog's holdout on {runs} data sets instead of one: {held} of {len(found.claims)} statements hold"


def summary(found: Found) -> tuple[str, ...]:
    """The sentences under the headline."""
    told = [_verdicts(found), *_signals(found), _likelihood(found), _paid(found), *_asked(found)]
    return tuple(sentence for sentence in told if sentence)


def _verdicts(found: Found) -> str:
    counts = Counter(claim.verdict for claim in found.claims)
    if not found.claims:
        return ""
    return (
        f"Of {len(found.claims)} statements about its one data set, {counts[HOLDS]} hold on average, "
        f"{counts[POSSIBLE]} do not and happened all the same, {counts[NOT_SEEN]} never happened; of {counts[OPEN]} it "
        f"cannot be told from {found.claims[0].mean.runs} data sets."
    )


def _signals(found: Found) -> list[str]:
    naive, blog, large = (of(found, each) for each in (NAIVE, THRESHOLDOUT, LARGE))
    if naive is None or blog is None or large is None:
        return []
    signals = [decimal(shown.signals.value) for shown in (naive, blog, large)]
    peaks = [decimal(shown.peak.value) for shown in (naive, blog, large)]
    chosen = (
        f"Of the ten signals the naive procedure finds {signals[0]} (blog: 1), Thresholdout {signals[1]} (blog: 10) "
        f"and the large test set {signals[2]} (blog: 9 at once)."
    )
    reached = (
        f"The best true accuracy on the way is {peaks[0]}, {peaks[1]} (blog: about 61) and {peaks[2]} % (blog: 62)."
    )
    return [chosen, reached]


def _likelihood(found: Found) -> str:
    source, blog = of(found, SOURCE), of(found, THRESHOLDOUT)
    if source is None or blog is None:
        return ""
    return (
        "Choosing by the training likelihood, without a look at any test row, finds "
        f"{decimal(source.signals.value)} and reaches {decimal(source.peak.value)} %, "
        f"{signed(source.peak.value - blog.peak.value)} points on Thresholdout."
    )


def _paid(found: Found) -> str:
    cost = found.cost
    if cost is None:
        return ""
    return (
        f"A run of the blog's variant asks {cost.questions:,} questions and costs up to epsilon {cost.run:,.0f}; by "
        f"its noise alone it would be {cost.run_by_noise:,.0f}."
    )


def _asked(found: Found) -> list[str]:
    return [
        _answered(shown, shown.asked, shown.counted)
        for shown in found.main
        if shown.procedure == EACH_STEP and shown.asked and shown.counted
    ]


def _answered(shown: Shown, asked: Mean, counted: Mean) -> str:
    return (
        f"The valid holdout, asked once a step at epsilon {shown.epsilon}, answers "
        f"{decimal(asked.value)} questions, {decimal(counted.value)} of them by counts; the model that is kept is "
        f"right for {decimal(shown.reported.true.value)} %, and what its user believes is off by "
        f"{signed(shown.reported.excess.value)} points."
    )
