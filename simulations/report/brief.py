"""What the page of a run says first: five questions of whoever decides, answered from the report alone, in plain words.

Every number has a 95 % interval where the report allows one. A hospital is named as an exception only where chance
alone would name any hospital in one run of twenty (Bonferroni, over all comparisons of a kind).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from expril.report.document import Answer, Brief
from expril.report.numbers import count, decimal, plain_number
from learner_node.scores.values import CalibrationCurve, ThresholdScore
from learner_node.study.pooling import SECURE
from protocol.odds import Odds
from protocol.rationals import written
from simulations.report.budget import exact
from simulations.report.hospitals import hospital_figure, joining_title, joining_words
from simulations.report.intervals import (
    Estimate,
    Sample,
    area_error,
    difference_error,
    share_error,
    with_common_scale,
)
from simulations.report.model import CHANCE, LearnerReport, RunReport, Score, SiteScore
from simulations.report.nouns import Noun, noun_of, quoted, scored_noun, series
from simulations.report.words import NO_GUARANTEE, released

QUESTIONS = (
    "What was asked, and of whom?",
    "How good is it?",
    "For whom is it wrong?",
    "What did one patient give away?",
    "What did it cost, what is left, and should we join?",
)
SURE = 0.99
"""Certainty from which a bound is said to protect hardly anybody."""
_TOP = "highest 10 %"
_HALF = "above 0.5"
_FEW_MISSED = 0.1
_MOST_NAMED = 3
_BETWEEN = 0.03
"""Excess of the AUC over all hospitals, above the mean of theirs, from which it is explained."""


@dataclass(frozen=True)
class View:
    """A report, and the learner that the answers speak of: the best, or the first where none has a score."""

    report: RunReport
    learner: LearnerReport

    @classmethod
    def of(cls, report: RunReport) -> "View":
        """The view of a report on its best learner."""

        def value(learner: LearnerReport) -> float:
            score = learner.pooled.headline(report.lead).value
            return -math.inf if score is None else score

        return cls(report, max(report.learners, key=value))

    @property
    def pooled(self) -> Score:
        """The learner's score over all hospitals."""
        return self.learner.pooled

    @property
    def noun(self) -> Noun:
        """The noun for what is scored."""
        return scored_noun(self.report)

    @property
    def hospitals(self) -> list[str]:
        """Names of the hospitals, in order."""
        return [curator.name for curator in self.report.curators] or [site.curator for site in self.learner.sites]

    @property
    def absent(self) -> list[str]:
        """The hospitals whose answers are not in the model."""
        silent = {site.curator for site in self.learner.rounds_answered if site.trouble} | set(self.learner.left_out)
        return [name for name in self.hospitals if name in silent]

    @property
    def learned(self) -> bool:
        """Whether there is a model with a score."""
        return self.pooled.value is not None

    @property
    def negative(self) -> str:
        """The class that is not the positive one; "" if it is not known, or there are not two."""
        others = [name for name in self.report.classes if name != self.report.positive]
        return others[0] if len(others) == 1 and self.report.positive else ""

    def sample(self, curator: str = "") -> Sample | None:
        """How the test records of a hospital (or of all) were drawn; None if it is not known."""
        sites = [site for site in self.report.records if curator in ("", site.curator)]
        test = sum(site.test for site in sites)
        return Sample(test, sum(site.total for site in sites), self.report.repeats) if test else None

    def estimate(
        self, value: float, error: float | None, of_test: Callable[[int], float], curator: str = ""
    ) -> Estimate:
        """A score of a hospital (or of all), with the two parts of its error.

        `error` is the report's, which for one repeat is by its records alone. `of_test` is the standard error by so
        many test records, and may be infinite if it is not known.
        """
        sample, repeats = self.sample(curator), self.report.repeats
        by_records = None if sample is None else of_test(sample.test)
        if sample is None or by_records is None or math.isinf(by_records):
            return Estimate(value, error, None, math.inf if repeats == 1 else repeats - 1)
        first, shared = sample.parts(by_records)
        return Estimate(value, first, 0.0) if repeats == 1 else Estimate(value, error, shared, repeats - 1)

    def area(self, score: Score, curator: str = "") -> Estimate | None:
        """The area under the ROC curve; None if there is none."""
        if score.auc is None:
            return None
        area, positive = score.auc, score.prevalence or 0.0
        both_classes = 0 < positive < 1
        return self.estimate(
            area, score.auc_se, lambda test: area_error(area, test, positive) if both_classes else math.inf, curator
        )

    def value(self, score: Score, curator: str = "") -> Estimate | None:
        """The accuracy or R^2; None if there is none."""
        if score.value is None:
            return None
        value, counts = score.value, self.report.measure == "accuracy"
        return self.estimate(
            value, score.value_se, lambda test: share_error(value, test) if counts else math.inf, curator
        )

    def gain(self, score: Score, curator: str = "") -> Estimate:
        """The accuracy or R^2 less that of the constant answer."""
        value, constant, counts = score.value or 0.0, score.constant, self.report.measure == "accuracy"
        return self.estimate(
            value - constant,
            score.value_se,
            lambda test: difference_error(value, constant, test) if counts else math.inf,
            curator,
        )


def run_brief(report: RunReport) -> Brief:
    """The five answers of a run's page."""
    view = View.of(report)
    answers = (_what(view), _worth(view), _wrong(view), _privacy(view), _cost(view))
    return Brief(
        [Answer(title, *_split(list(answer))) for title, answer in zip(QUESTIONS, answers, strict=True)],
        [block for block in hospital_figure(report, view.learner) if block],
    )


def _split(sentences: list[str]) -> tuple[str, list[str]]:
    return sentences[0], sentences[1:]


def headline(report: RunReport) -> str:
    """The run in one line."""
    view = View.of(report)
    return "; ".join(filter(None, (_result(view), joining_title(view.learner))))


def _result(view: View) -> str:
    """How good the model is, in one line."""
    report = view.report
    noun = view.noun
    if not view.learned:
        return "Nothing was learned" if any(map(released, report.learners)) else "Nothing was learned: nobody answered"
    area = view.area(view.pooled)
    if area is not None:
        if replace(area, value=area.value - CHANCE).side() <= 0:
            return "The model is not shown to be better than chance"
        return f"The model puts {_hundred(area.value)} of 100 pairs of {noun.plural} in the right order"
    value = view.value(view.pooled)
    if value is None:
        return "The model has no score"
    if report.measure == "R²":
        if value.value <= 0:
            return f"The model is no better than always answering the mean{_of_label(report)}"
        return f"The model explains {_hundred(value.value)} % of the differences{_of_label(report)}"
    return f"The model is right for {_hundred(value.value)} of 100 {noun.plural}"


def _of_label(report: RunReport) -> str:
    return f" in {quoted(report.label)}" if report.label else ""


def _hundred(share: float) -> str:
    """A share as a whole number of 100."""
    return decimal(100 * share, 0)


def _of_hundred(estimate: Estimate, noun: str = "") -> str:
    """A share with its interval, rounded outwards: "77 of 100 pairs (75 to 79)"."""
    words = f"{_hundred(estimate.value)} of 100{noun and ' '}{noun}"
    ends = estimate.ends(0.0, 1.0)
    if ends is None:
        return words
    return f"{words} ({math.floor(100 * ends[0] + 1e-9)} to {math.ceil(100 * ends[1] - 1e-9)})"


def _what(view: View) -> Iterator[str]:
    """What was asked, and of whom."""
    report, learner = view.report, view.learner
    private = sum(site.private for site in report.records)
    about = f", about {noun_of(report).counted(private)}" if private else ""
    who = count(len(view.hospitals), "hospital") if view.hospitals else "Nobody"
    purpose = learner.purpose.strip().rstrip(".")
    if purpose:
        yield f"{quoted(purpose)} was asked of {who}{about}."
        yield f"The model is to {_task(view)}."
    else:
        verb = "was" if len(view.hospitals) <= 1 else "were"
        yield f"{who} {verb} asked{about}, how to {_task(view)}."
    absent = view.absent
    if absent and len(absent) == len(view.hospitals):
        yield "None of them answered everything."
    elif absent:
        which = "it did not answer everything, or was left out" if len(absent) == 1 else (
            "they did not answer everything, or were left out"
        )  # fmt: skip
        yield f"The model is without {series(absent)}: {which}."
    elif any(site.outcomes for site in learner.rounds_answered):
        yield "All of them answered."
    tested = sum(site.test for site in report.records)
    if tested and view.learned:
        yield f"The model was tried on {tested:,} other {view.noun.of(tested)} of theirs."
    if len(report.learners) > 1:
        place = "the best" if view.learned else "the first"
        yield f"This page speaks of {learner.learner}, {place} of {len(report.learners)} learners."


def _task(view: View) -> str:
    """The model's task, as the end of a sentence that begins with "how to"."""
    report = view.report
    column = f" (column {quoted(report.label)})" if report.label else ""
    if view.negative:
        return f"tell {quoted(report.positive)} from {quoted(view.negative)}{column}"
    if report.positive:
        return f"recognise {quoted(report.positive)}{column}"
    if report.measure == "R²":
        return f"predict {quoted(report.label)}, a number" if report.label else "predict a number"
    names = report.classes or tuple(recall.name for recall in view.pooled.recalls)
    if 2 < len(names) <= 8:
        return f"tell {series([quoted(name) for name in names])} apart{column}"
    return f"tell {len(names)} classes apart{column}" if names else f"predict {quoted(report.label) or 'the label'}"


def _worth(view: View) -> Iterator[str]:
    """How good the model is."""
    report, pooled, noun = view.report, view.pooled, view.noun
    if not view.learned:
        nobody = not any(map(released, report.learners))
        yield "Nothing was learned: no hospital answered." if nobody else "Nothing was learned; the notes say why."
        return
    area, value = view.area(pooled), view.value(pooled)
    if area is not None:
        yield from _ranking(view, area)
    if report.measure == "R²":
        yield from _explained(view)
    elif value is not None:
        yield from _calls(view, value)
    point = _point(pooled, _TOP)
    if point is not None and point.ppv is not None and report.positive:
        outcome = f"the outcome {quoted(report.positive)}"
        ppv = _of_hundred(_rate(view, point, "ppv", point.flagged))
        share = "" if point.sensitivity is None else _hundred(point.sensitivity)
        of_all = f"; they are {share} of 100 of all with that outcome" if share else ""
        yield f"Of the tenth of {noun.plural} with the highest risks, {ppv} have {outcome}{of_all}."
    yield from _checked(view)
    yield from _rivals(view)


def _rivals(view: View) -> Iterator[str]:
    """The scores of the other learners."""
    others = [learner for learner in view.report.learners if learner is not view.learner]
    if not others:
        return
    scores = [learner.pooled.headline(view.report.lead).value for learner in others]
    present = sorted(score for score in scores if score is not None)
    name = others[0].learner if len(others) == 1 else f"The {len(others)} other learners"
    if not present:
        yield f"{name} learned nothing."
        return
    ends = " to ".join(dict.fromkeys((_hundred(present[0]), _hundred(present[-1]))))
    single = len(others) == 1
    yield {
        "AUC": f"{name} {'puts' if single else 'put'} {ends} of 100 pairs in the right order.",
        "accuracy": f"{name} {'is' if single else 'are'} right for {ends} of 100.",
        "R²": f"{name} {'explains' if single else 'explain'} {ends} %.",
    }[view.report.lead]


def _ranking(view: View, area: Estimate) -> Iterator[str]:
    """The area under the ROC curve by pairs, and that of a regression without privacy."""
    report, noun = view.report, view.noun
    negative = quoted(view.negative) if view.negative else "not"
    two = f"Of two {noun.plural}, one {quoted(report.positive)} and one {negative}"
    pairs = _of_hundred(area, "such pairs")
    if replace(area, value=area.value - CHANCE).side() > 0:
        yield f"{two}, it gives the right one the higher risk in {pairs}; chance would in 50."
    else:
        yield (
            f"It is not shown to be better than chance: of two {two[len('Of two ') :]}, it gives the right one the "
            f"higher risk in {pairs}, chance in 50."
        )
    best = view.pooled.auc_regression
    if best is not None:
        yield _unprotected(_hundred(best))


def _unprotected(score: str) -> str:
    return f"A regression on all these records in one place, without protection, reaches {score}."


def _calls(view: View, value: Estimate) -> Iterator[str]:
    """The accuracy against the most frequent class, and without ranks against a regression."""
    constant, noun, best = view.pooled.constant, view.noun, view.pooled.regression
    side, always = view.gain(view.pooled).side(), _always(view)
    right = f"It is right for {_of_hundred(value, noun.plural)}"
    if side > 0:
        yield f"{right}; {always} is right for {_hundred(constant)}."
    elif side < 0:
        yield f"{right}; {always} would be better, with {_hundred(constant)}."
    else:
        yield f"{right}, which is not shown to be better than {always}, with {_hundred(constant)}."
    if view.pooled.auc is None and best is not None:
        yield _unprotected(_hundred(best))


def _always(view: View, prevalence: float | None = None) -> str:
    """The constant answer in words."""
    share = prevalence if prevalence is not None else view.pooled.prevalence
    if share is None or not view.negative:
        return "always naming the most frequent class"
    return f"always saying {quoted(view.report.positive if share > CHANCE else view.negative)}"


def _explained(view: View) -> Iterator[str]:
    """R^2 and the mean absolute error."""
    report, pooled = view.report, view.pooled
    value = view.value(pooled)
    if value is None:
        return
    label, ends = _of_label(report), value.ends(-1.0, 1.0)
    sure = value.side() > 0 or (ends is None and value.value > 0)
    between = "" if ends is None else f" ({_hundred(ends[0])} to {_hundred(ends[1])} %)"
    if sure:
        yield f"It explains {_hundred(value.value)} %{between} of the differences between {view.noun.plural}{label}."
    elif value.value > 0:
        share = f"{_hundred(value.value)} %{between}"
        yield f"It is not shown to be better than always answering the mean: it explains {share}."
    else:
        yield "It is no better than always answering the mean."
    if pooled.absolute is not None:
        yield f"On average it is off by {plain_number(pooled.absolute)}{_of_unit(report)}."
    if pooled.regression is not None:
        yield _unprotected(f"{_hundred(pooled.regression)} %")


def _of_unit(report: RunReport) -> str:
    return f", in units of {quoted(report.label)}" if report.label else " units"


def _point(score: Score, rule: str) -> ThresholdScore | None:
    return next((point for point in score.operating_points if point.rule == rule), None)


def _rate(view: View, point: ThresholdScore, name: str, share: float) -> Estimate:
    """A share of an operating point; `share` is its denominator's share of the records."""
    value, error = getattr(point, name), getattr(point, f"{name}_se")
    return view.estimate(value, error, lambda test: share_error(value, max(1.0, test * share)))


def _checked(view: View) -> Iterator[str]:
    """Whether hospitals validated the model, or what its learner knows without that."""
    validation, expected = view.learner.validation, view.pooled.expected
    if validation is not None:
        area = validation.area
        yield (
            f"In a second study the hospitals checked it themselves, with noise: {_hundred(area.value)} of 100 pairs "
            f"({math.floor(100 * area.low)} to {math.ceil(100 * area.high)})."
        )
        return
    ranks = expected is not None and expected.auc is not None and view.pooled.auc is not None
    estimate = None if expected is None else (
        (expected.auc, expected.auc_low, expected.auc_high) if ranks else (expected.value, expected.low, expected.high)
    )  # fmt: skip
    unit = " of 100 pairs" if ranks else " %" if view.report.measure == "R²" else " of 100"
    knowledge = "nothing of this"
    if estimate is not None:
        value, low, high = (_hundred(end or 0.0) for end in estimate)
        knowledge = f"only the learner’s own estimate, {value}{unit} ({low} to {high})"
    failed = any(study.what == "validation" for study in view.learner.studies)
    start = "Asking the hospitals to check it brought nothing" if failed else "The hospitals were not asked to check it"
    yield f"{start}: outside a simulation one would know {knowledge}."


def _wrong(view: View) -> Iterator[str]:
    """For whom the model is wrong."""
    if not view.learned:
        yield "There is no model to be wrong."
        return
    yield from _exceptions(view)
    yield from _missed(view)
    yield from _miscalibrated(view)


def _exceptions(view: View) -> Iterator[str]:
    """Hospitals that are clearly worse than the others, or than the constant answer."""
    sites = [site for site in view.learner.sites if site.value is not None]
    if len(sites) < 2:
        yield "There is one hospital only, so none can be compared." if sites else "No hospital has a score of its own."
        return
    scores = {site.curator: score for site in sites if (score := _comparable(view, site)) is not None}
    gains = {site.curator: view.gain(site, site.curator) for site in sites}
    if not any(estimate.se for estimate in (*scores.values(), *gains.values())):
        yield "One run cannot tell whether a hospital stands out: its figures have no intervals."
        return
    scores, gains = _scaled(view, scores), _scaled(view, gains)
    level = 1 - 0.05 / (2 * len(sites))
    worse = [
        name for name in scores if len(scores) > 1 and scores[name].minus(_others(view, scores, name)).side(level) < 0
    ]
    below = [site for site in sites if gains[site.curator].side(level) < 0]
    for name in worse[:_MOST_NAMED]:
        elsewhere = _hundred(_others(view, scores, name).value)
        yield f"Worse at {name}: {_measured(view, scores[name])}, elsewhere in {elsewhere}."
    for site in below[:_MOST_NAMED]:
        yield (
            f"At {site.curator} {_always(view, site.prevalence)} would be right more often: for "
            f"{_hundred(site.constant)} of 100, not {_hundred(site.value or 0.0)}."
            if view.report.measure == "accuracy"
            else f"At {site.curator} always answering the hospital’s mean would be better."
        )
    if len(worse) > _MOST_NAMED or len(below) > _MOST_NAMED:
        yield f"{len({*worse, *(site.curator for site in below)})} hospitals in all stand out so."
    if not worse and not below:
        yield from _alike(view, scores)


def _alike(view: View, scores: Mapping[str, Estimate]) -> Iterator[str]:
    """That no hospital stands out, with the ends of what there is."""
    low, high = (choose(scores, key=lambda name: scores[name].value) for choose in (min, max))
    lowest, highest = (_hundred(scores[name].value) for name in (low, high))
    what = {
        "AUC": f"from {lowest} of 100 pairs in the right order at {low} to {highest} at {high}",
        "accuracy": f"from {lowest} of 100 right at {low} to {highest} at {high}",
        "R²": f"from {lowest} % explained at {low} to {highest} % at {high}",
    }["AUC" if view.pooled.auc is not None else view.report.measure]
    yield f"No hospital stands out: {what}, which chance alone may bring about."
    whole = view.pooled.auc
    if whole is not None and whole - sum(score.value for score in scores.values()) / len(scores) > _BETWEEN:
        yield (
            f"The {_hundred(whole)} over all are more than that because hospitals differ in how common "
            f"{quoted(view.report.positive)} is: telling them apart is a part of it."
        )


def _comparable(view: View, site: SiteScore) -> Estimate | None:
    """The score by which hospitals are compared: AUC if there is one, as accuracy depends on how common a class is."""
    if view.pooled.auc is not None:
        return view.area(site, site.curator)
    return view.value(site, site.curator)


def _scaled(view: View, scores: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """The scores of hospitals; over repeats, with errors that all of them tell together."""
    samples = {name: view.sample(name) for name in scores}
    if view.report.repeats == 1 or any(estimate.repeats_se is None for estimate in scores.values()):
        return dict(scores)
    units = {name: 1 / math.sqrt(sample.test if sample else 1) for name, sample in samples.items()}
    return with_common_scale(scores, units, view.report.repeats)


def _measured(view: View, estimate: Estimate) -> str:
    """A comparable score in words."""
    if view.pooled.auc is not None:
        return f"the right order in {_of_hundred(estimate, 'pairs')}"
    if view.report.measure == "R²":
        ends = estimate.ends(-1.0, 1.0)
        between = "" if ends is None else f" ({_hundred(ends[0])} to {_hundred(ends[1])})"
        return f"{_hundred(estimate.value)} % explained{between}"
    return f"right for {_of_hundred(estimate)}"


def _others(view: View, scores: Mapping[str, Estimate], name: str) -> Estimate:
    """The mean of the other hospitals, weighted by their test records."""
    weights = {site.curator: float(site.test) for site in view.report.records}
    others = {other: weights.get(other, 1.0) or 1.0 for other in scores if other != name}
    total = sum(others.values())

    def spread(part: str) -> float | None:
        parts = [getattr(scores[other], part) for other in others]
        if any(error is None for error in parts):
            return None
        return math.hypot(*(weight * error for weight, error in zip(others.values(), parts, strict=True))) / total

    value = sum(weight * scores[other].value for other, weight in others.items()) / total
    freedom = min(scores[other].freedom for other in others)
    return Estimate(value, spread("repeats_se"), spread("records_se"), freedom)


def _missed(view: View) -> Iterator[str]:
    """How many of the positive class are missed, or which of several classes."""
    report, pooled, noun = view.report, view.pooled, view.noun
    point = _point(pooled, _HALF)
    if point is not None and point.sensitivity is not None and report.positive:
        prevalence = pooled.prevalence if pooled.prevalence is not None else CHANCE
        caught = _rate(view, point, "sensitivity", prevalence)
        missed = replace(caught, value=1 - caught.value)
        consequence = "" if missed.value < _FEW_MISSED else ", so whoever acts only above that misses them"
        yield (
            f"Of the {noun.plural} with the outcome {quoted(report.positive)}, {_of_hundred(missed)} get a risk below "
            f"50 %{consequence}."
        )


def _miscalibrated(view: View) -> Iterator[str]:
    """Where the risks are too high or too low."""
    curve, report = view.pooled.calibration, view.report
    if curve is None or not curve.counts:
        return
    gaps = _gaps(view, curve)
    level = 1 - 0.05 / len(gaps)
    biased = {}
    for name, side in (("high", 1), ("low", -1)):
        clear = [gap for gap in gaps if gap.side(level) == side]
        if clear:
            biased[name] = max(clear, key=lambda gap: abs(gap.value))
    for name, gap in biased.items():
        predicted = curve.predicted[gaps.index(gap)]
        yield (
            f"Risks of about {_hundred(predicted)} % are too {name}: of 100 such {view.noun.plural} "
            f"{_hundred(predicted - gap.value)} have the outcome {quoted(report.positive)}."
        )
    if not biased:
        ends = f"{_hundred(curve.predicted[0])} % to {_hundred(curve.predicted[-1])} %"
        yield f"Its risks, from {ends}, agree with what happened, as far as can be told."


def _gaps(view: View, curve: CalibrationCurve) -> list[Estimate]:
    """Predicted less observed share of class 1, for each bin."""
    total, repeats = sum(curve.counts), view.report.repeats
    sample = view.sample()
    gaps: dict[str, Estimate] = {}
    units: dict[str, float] = {}
    for many, predicted, observed, error in zip(
        curve.counts, curve.predicted, curve.observed, curve.observed_se, strict=True
    ):
        tested = max(1.0, (many / repeats if sample is None else sample.test * many / total))
        unit, name = share_error(predicted, tested), str(len(gaps))
        units[name] = unit
        gaps[name] = view.estimate(predicted - observed, error, lambda _test, unit=unit: unit)  # type: ignore[misc]
    if repeats > 1 and all(gap.repeats_se is not None for gap in gaps.values()):
        gaps = with_common_scale(gaps, units, repeats)
    return list(gaps.values())


def _privacy(view: View) -> Iterator[str]:
    """What one patient gave away."""
    report, noun = view.report, noun_of(view.report)
    spent = max((curator.spent for curator in report.curators), default=Fraction(0))
    spent = max([spent, *(exact(learner.epsilon_spent) for learner in report.learners)])
    if report.seeded_noise:
        yield "Nothing is protected: the noise of this run can be repeated, and whoever repeats it can take it away."
        yield "That is meant for tests on public records only."
        return
    if any(NO_GUARANTEE in note for note in report.notes):
        yield "That cannot be said: a learner’s method is not as private as its cost says; see the notes."
        return
    if not spent:
        yield "Nothing: no answer left a hospital."
        return
    odds = Odds.twice(spent)
    there, other = _sure(odds.presence), _sure(odds.label)
    outcome = f", such as {quoted(report.positive)}," if report.positive else ""
    yield (
        f"Whoever thought it 50 % likely that a certain {noun.person_or_record} is among a hospital’s {noun.plural} "
        f"can now be at most {there} sure, whatever else they know."
    )
    yield (
        f"Who knows that it is there, and guesses anything else about it{outcome} with 50 %, can be at most {other} "
        "sure."
    )
    hardly = " That protects hardly anybody." if _certainty(odds.presence) >= SURE else ""
    yield f"This is what a privacy loss (epsilon) of {_amount(spent)} means.{hardly} {noun.protected}"
    yield "Only numbers with random noise left the hospitals, never a record."
    if any(learner.pooling == SECURE for learner in report.learners):
        yield (
            "This holds only while no more hospitals conspire with the learner than its plan assumes, and the "
            "cryptography is not broken."
        )


def _certainty(exponent: Fraction) -> float:
    """Certainty to which answers can bring a guess of one half."""
    return 1 / (1 + math.exp(-min(float(exponent), 700.0)))


def _sure(exponent: Fraction) -> str:
    share = _certainty(exponent)
    return f"{100 * share:.0f} %" if share < SURE else "100 %" if share > 0.9999 else f"{100 * share:.2f} %"


def _cost(view: View) -> Iterator[str]:
    """Cost, what is left, and whether joining pays."""
    if view.learned:
        yield from joining_words(view.learner)
    yield from _ledgers(view)


def _ledgers(view: View) -> Iterator[str]:
    """What was spent at hospitals, and what is left of their caps."""
    report, claimed = view.report, exact(view.learner.epsilon_claimed)
    groups: dict[tuple[Fraction, Fraction], list[str]] = {}
    for curator in report.curators:
        groups.setdefault((curator.spent, exact(curator.cap)), []).append(curator.name)
    if 0 < len(groups) <= _MOST_NAMED:
        for (spent, cap), names in groups.items():
            where = "each hospital" if len(groups) == 1 else series(names)
            of_cap = f"a privacy loss of {_amount(spent)}, of the {_amount(cap)} that may ever be spent"
            yield f"It cost {where} {of_cap}: {_rest(cap - spent, claimed)}."
    elif groups:
        spends, lefts = [spent for spent, _ in groups], [max(cap - spent, Fraction(0)) for spent, cap in groups]
        yield (
            f"It cost the hospitals {_amount(min(spends))} to {_amount(max(spends))} of what they may ever spend; "
            f"{_amount(min(lefts))} to {_amount(max(lefts))} is left."
        )
        poor = [name for (spent, cap), names in groups.items() if cap - spent < claimed for name in names]
        if poor:
            yield f"Too little for another such study is left at {series(poor)}."


def _rest(left: Fraction, claimed: Fraction) -> str:
    """What is left, and for how many more studies of that cost."""
    if left <= 0:
        return "nothing is left"
    many = math.floor(left / claimed) if claimed else 0
    if not many:
        return f"{_amount(left)} is left, too little for another such study"
    return f"{_amount(left)} is left, enough for {many} more such {'study' if many == 1 else 'studies'}"


def _amount(value: Fraction) -> str:
    """An amount of epsilon in decimals."""
    return written(value) if value.denominator in (1, 2, 4, 5, 10, 20, 25, 50, 100) else f"about {float(value):.2g}"
