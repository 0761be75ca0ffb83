"""What the page of a run says first: five questions of whoever decides, answered from the report alone, in plain words.

Every number has a 95 % interval where the report allows one. `flaws` holds the third answer, `hospitals` the figure.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from expril.report.document import Answer, Brief
from expril.report.numbers import count, plain_number
from learner_node.result import phrases
from learner_node.result.phrases import (
    QUESTIONS,
    amount,
    ends,
    hundred,
    odds_words,
    outward,
    quoted,
    rest_words,
    series,
)
from learner_node.study.pooling import SECURE
from simulations.report.budget import exact
from simulations.report.flaws import flaws, within_hospitals
from simulations.report.hospitals import hospital_figure, joining_title, joining_words
from simulations.report.intervals import Estimate
from simulations.report.model import CHANCE, RunReport
from simulations.report.view import (
    MOST_NAMED,
    View,
    always,
    explained,
    noun_of,
    of_hundred,
    point_of,
    private_units,
    rate,
)
from simulations.report.words import NO_GUARANTEE, released

_TOP = "highest 10 %"
_TENTH, _NEAR = 0.1, 0.015


def run_brief(report: RunReport) -> Brief:
    """The five answers of a run's page."""
    view = View.of(report)
    answers = (_what(view), _worth(view), flaws(view), _privacy(view), _cost(view))
    return Brief(
        [Answer(title, *_split(list(answer))) for title, answer in zip(QUESTIONS, answers, strict=True)],
        [block for block in hospital_figure(report, view.learner) if block],
    )


def _split(sentences: list[str]) -> tuple[str, list[str]]:
    return sentences[0], sentences[1:]


def headline(report: RunReport) -> str:
    """The run in one line."""
    view = View.of(report)
    return "; ".join(filter(None, (result_line(view), joining_title(view.learner))))


def result_line(view: View) -> str:
    """How good the model is, in one line."""
    report = view.report
    noun = view.noun
    if not view.learned:
        return "Nothing was learned" if any(map(released, report.learners)) else "Nothing was learned: nobody answered"
    area = view.area(view.pooled)
    if area is not None:
        if replace(area, value=area.value - CHANCE).side() <= 0:
            return "The model is not shown to be better than chance"
        rest = quoted(view.negative) or "the others"
        return f"{quoted(report.positive)} is ranked above {rest} in {hundred(area.value)} of 100 pairs"
    value = view.value(view.pooled)
    if value is None:
        return "The model has no score"
    if view.gain(view.pooled).side() <= 0 and (value.se or value.value <= view.pooled.constant):
        constant = "always answering the mean" if report.measure == "R²" else always(view)
        return f"The model is not shown to be better than {constant}"
    if report.measure == "R²":
        return f"The model explains {hundred(value.value)} % of the differences{_of_label(report)}"
    return f"The model is right for {hundred(value.value)} of 100 {noun.plural}"


def short_score(view: View) -> str:
    """The score alone, with its interval."""
    area, value = view.area(view.pooled), view.value(view.pooled)
    if value is None:
        return "nothing was learned"
    if view.report.measure == "R²":
        return explained(value, "%")
    return of_hundred(area) if area is not None else of_hundred(value)


def _of_label(report: RunReport) -> str:
    return f" in {quoted(report.label)}" if report.label else ""


def _what(view: View) -> Iterator[str]:
    """What was asked, and of whom."""
    report, learner = view.report, view.learner
    private = private_units(report)
    about = f", with {private}," if private else ""
    who = count(len(view.hospitals), "hospital") if view.hospitals else "Nobody"
    purpose = learner.purpose.strip().rstrip(".")
    if purpose:
        yield f"{quoted(purpose)} was asked of {who}{about} by {learner.learner}, the learner, who builds the model."
        yield f"The model is to {_task(view)}."
    else:
        verb = "was" if len(view.hospitals) <= 1 else "were"
        task = f"how to {_task(view)}, by {learner.learner}, the learner, who builds the model"
        yield f"{who}{about} {verb} asked {task}."
    absent = view.absent
    if absent and len(absent) == len(view.hospitals):
        yield "None of them answered everything."
    elif absent:
        which = "it did not answer everything, or was left out" if len(absent) == 1 else (
            "they did not answer everything, or were left out"
        )  # fmt: skip
        yield f"The model is without {series(absent)}: {which}."
    elif any(site.outcomes for site in learner.rounds_answered):
        yield "All of them took part."
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
        yield from within_hospitals(view, area.value)
    if report.measure == "R²":
        yield from _explained(view)
    elif value is not None:
        yield from _calls(view, value)
    point = point_of(pooled, _TOP)
    if point is not None and point.ppv is not None and report.positive:
        outcome = f"the outcome {quoted(report.positive)}"
        ppv = of_hundred(rate(view, point, "ppv", point.flagged))
        share = "" if point.sensitivity is None else hundred(point.sensitivity)
        of_all = f"; that is {share} of every 100 with that outcome" if share else ""
        # Equal risks are never parted, so fewer or more than a tenth may be above.
        part = "tenth" if abs(point.flagged - _TENTH) <= _NEAR else f"{plain_number(100 * point.flagged, 2)} %"
        where = f"In the {part} of {noun.plural} with the highest risks"
        yield f"{where}, {ppv} have {outcome}{of_all}."
    yield from _checked(view)
    yield from _rivals(view)


def _rivals(view: View) -> Iterator[str]:
    """The scores of the other learners."""
    others = [learner for learner in view.report.learners if learner is not view.learner]
    if not others:
        return
    scores = [learner.pooled.headline(view.report.lead).value for learner in others]
    present = sorted(score for score in scores if score is not None)
    names = [learner.learner for learner, score in zip(others, scores, strict=True) if score is not None]
    silent = [learner.learner for learner, score in zip(others, scores, strict=True) if score is None]
    if present:
        single = len(names) == 1
        name = names[0] if single else f"The {len(names)} other learners"
        span = ends(hundred(present[0]), hundred(present[-1]))
        yield {
            "AUC": f"{name} {'puts' if single else 'put'} {span} of 100 pairs in the right order.",
            "accuracy": f"{name} {'is' if single else 'are'} right for {span} of 100.",
            "R²": f"{name} {'explains' if single else 'explain'} {span} %.",
        }[view.report.lead]
    if silent:
        yield f"{series(silent)} learned nothing."


def _ranking(view: View, area: Estimate) -> Iterator[str]:
    """The area under the ROC curve by pairs, and that of a regression without privacy."""
    report, noun = view.report, view.noun
    negative = quoted(view.negative) if view.negative else "not"
    positive = quoted(report.positive)
    two = f"Of two {noun.plural}, one {positive} and one {negative}"
    pairs = of_hundred(area, "such pairs")
    if replace(area, value=area.value - CHANCE).side() > 0:
        yield f"{two}, it gives the one {positive} the higher risk in {pairs}; chance alone would in 50."
    else:
        yield (
            f"It is not shown to be better than chance: of two {two[len('Of two ') :]}, it gives the one {positive} "
            f"the higher risk in {pairs}, chance in 50."
        )
    best = view.pooled.auc_regression
    if best is not None:
        yield _unprotected(hundred(best))


def _unprotected(score: str) -> str:
    return f"For comparison, as only a simulation can: a regression on all records, without noise, reaches {score}."


def _calls(view: View, value: Estimate) -> Iterator[str]:
    """The accuracy against the most frequent class, and without ranks against a regression."""
    constant, noun, best = view.pooled.constant, view.noun, view.pooled.regression
    side, constantly = view.gain(view.pooled).side(), always(view)
    cut = "At a cut-off of 50 % it" if view.report.positive else "It"
    right = f"{cut} is right for {of_hundred(value, noun.plural)}"
    if side > 0:
        yield f"{right}; {constantly} is right for {hundred(constant)}."
    elif side < 0:
        yield f"{right}; {constantly} would be better, with {hundred(constant)}."
    else:
        yield f"{right}, which is not shown to be better than {constantly}, with {hundred(constant)}."
    if view.pooled.auc is None and best is not None:
        yield _unprotected(hundred(best))


def _explained(view: View) -> Iterator[str]:
    """R^2 and the mean absolute error."""
    report, pooled = view.report, view.pooled
    value = view.value(pooled)
    if value is None:
        return
    share = explained(value, "%", "%")
    if value.side() > 0 or (value.se is None and value.value > 0):
        yield f"It explains {share} of the differences between {view.noun.plural}{_of_label(report)}."
    elif value.value > 0:
        yield f"It is not shown to be better than always answering the mean: it explains {share}."
    else:
        yield "It is no better than always answering the mean."
    if pooled.absolute is not None:
        yield _off_by(view, pooled.absolute)
    if pooled.regression is not None:
        yield _unprotected(f"{hundred(pooled.regression)} %")


def _off_by(view: View, absolute: float) -> str:
    """The mean absolute error, beside that of the mean."""
    report, pooled = view.report, view.pooled
    units = f" {report.units}" if report.units else ""
    error = Estimate(absolute, pooled.absolute_se, None, view.repeats - 1 if view.repeats > 1 else math.inf)
    limits = error.ends(0.0, math.inf) if error.se else None
    between = "" if limits is None else f" ({plain_number(limits[0])} to {plain_number(limits[1])})"
    constant = pooled.absolute_constant
    against = "" if constant is None else f"; the mean as the answer would be off by {plain_number(constant)}"
    return f"On average it is off by {plain_number(absolute)}{units}{between}{against}."


def _checked(view: View) -> Iterator[str]:
    """Whether hospitals validated the model, or what its learner knows without that."""
    validation, expected = view.learner.validation, view.pooled.expected
    if validation is not None:
        area = validation.area
        yield (
            f"In a second study the hospitals checked it themselves, with noise: {hundred(area.value)} of 100 pairs "
            f"({outward(area.low, area.high)})."
        )
        return
    ranks = expected is not None and expected.auc is not None and view.pooled.auc is not None
    estimate = None if expected is None else (
        (expected.auc, expected.auc_low, expected.auc_high) if ranks else (expected.value, expected.low, expected.high)
    )  # fmt: skip
    unit = " of 100 pairs" if ranks else " %" if view.report.measure == "R²" else " of 100"
    knowledge = "nothing of the kind"
    if estimate is not None:
        value, low, high = (end or 0.0 for end in estimate)
        knowledge = f"only the learner’s own estimate, {hundred(value)}{unit} ({outward(low, high)})"
    elif any(recall.expected is not None for recall in view.pooled.recalls):
        knowledge = "only the learner’s own estimates of how often it recognises each class"
    failed = any(study.what == "validation" for study in view.learner.studies)
    reason = (
        "asking the hospitals to check it brought nothing" if failed else "the hospitals were not asked to check it"
    )
    yield f"Only a simulation knows these figures: in real use one would have {knowledge}, as {reason}."


def most_spent(report: RunReport) -> Fraction:
    """The most epsilon that all learners together spent at one hospital."""
    spent = [curator.spent for curator in report.curators]
    return max([*spent, *(exact(learner.epsilon_spent) for learner in report.learners)])


def is_protected(report: RunReport) -> bool:
    """Whether what was spent bounds anything."""
    return not report.seeded_noise and not any(NO_GUARANTEE in note for note in report.notes)


def _privacy(view: View) -> Iterator[str]:
    """What one patient gave away."""
    report, noun, spent = view.report, noun_of(view.report), most_spent(view.report)
    if report.seeded_noise:
        yield "Nothing is protected: the noise of this run can be repeated, and whoever repeats it can take it away."
        yield "That is meant for tests on public records only."
        return
    if not is_protected(report):
        yield "That cannot be said: a learner’s method is not as private as its cost says; see the notes."
        return
    if not spent:
        yield "Nothing: no answer left a hospital."
        return
    several = sum(map(released, report.learners)) > released(view.learner)
    yield from odds_words(
        spent, noun, example=report.positive, learners=", to all learners together," if several else ""
    )
    if any(learner.pooling == SECURE for learner in report.learners):
        yield phrases.SECURE


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
    if 0 < len(groups) <= MOST_NAMED:
        for number, ((spent, cap), names) in enumerate(groups.items()):
            where = "each hospital" if len(groups) == 1 else series(names)
            rest = rest_words(cap - spent, claimed)
            if not number:
                loss = f"a privacy loss of {amount(spent)}" if spent else "nothing"
                yield f"It cost {where} {loss} of the {amount(cap)} that its own limit allows: {rest}."
            else:
                yield f"It cost {where} {amount(spent)} of {amount(cap)}: {rest}."
    elif groups:
        spends, lefts = [spent for spent, _ in groups], [max(cap - spent, Fraction(0)) for spent, cap in groups]
        spans = [ends(amount(min(amounts)), amount(max(amounts))) for amounts in (spends, lefts)]
        yield f"It cost the hospitals {spans[0]} of what they may ever spend; {spans[1]} is left."
        poor = [name for (spent, cap), names in groups.items() if cap - spent < claimed for name in names]
        if poor:
            yield f"Too little for another such study is left at {series(poor)}."
    else:
        yield "What it cost is not in this report."
