"""For whom a model is wrong: hospitals, patients and risks that stand out by more than chance, in plain words.

A hospital, a class or a risk is named only where chance alone would name any in one run of twenty (Bonferroni, over all
comparisons of its kind).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from expril.report.numbers import plain_number
from learner_node.result.phrases import ends, hundred, outward, quoted, risk_words
from learner_node.scores.values import CalibrationCurve, wilson
from simulations.report.intervals import Estimate, share_error, student, with_common_scale
from simulations.report.model import CHANCE, SiteScore
from simulations.report.view import MOST_NAMED, View, always, explained, of_hundred, point_of, rate

_ALIKE = "No hospital stands out"
_HALF = "above 0.5"
_FEW_MISSED = 0.1
_SLIGHT, _FACTOR, _LARGE = 0.02, 1.5, 0.1
"""A risk is called wrong if it is off by the first, or by this factor, besides being so by more than chance.

One that is off by the last is never said to agree, though it may be chance.
"""
_BETWEEN = 0.03
"""Excess of the AUC over all hospitals, above the mean of theirs, from which it is explained."""


def flaws(view: View) -> Iterator[str]:
    """For whom the model is wrong."""
    if not view.learned:
        yield "There is no model to be wrong."
        return
    alike, hospitals = _exceptions(view)
    frequent, missed = _missed(view)
    yield from (*missed, *hospitals) if alike and frequent else (*hospitals, *missed)
    yield from _confused(view)
    yield from _miscalibrated(view)


def _exceptions(view: View) -> tuple[bool, list[str]]:
    """Whether no hospital is clearly worse than the others or the constant answer; and sentences on those that are."""
    sites = [site for site in view.learner.sites if site.value is not None]
    if not sites:
        return False, ["No hospital has a score of its own."]
    if len(sites) == 1:
        lonely = "There is one hospital only" if len(view.hospitals) < 2 else "Only one hospital has a score of its own"
        return False, [f"{lonely}, so none can be compared."]
    scores = {site.curator: score for site in sites if (score := _comparable(view, site)) is not None}
    gains = {site.curator: view.gain(site, site.curator) for site in sites}
    if not any(estimate.se for estimate in (*scores.values(), *gains.values())):
        return False, ["One run cannot tell whether a hospital stands out: its figures have no intervals."]
    scores, gains = _scaled(view, scores), _scaled(view, gains)
    level = 1 - 0.05 / (2 * len(sites))
    sides = {name: scores[name].minus(_others(view, scores, name)).side(level) for name in scores if len(scores) > 1}
    worse, better = ([name for name, side in sides.items() if side == sign] for sign in (-1, 1))
    below = [site for site in sites if gains[site.curator].side(level) < 0]
    if not worse and not below:
        return True, [_alike(view, scores, better)]
    sentences = [f"Worse at {_beside_others(view, scores, name)}" for name in worse[:MOST_NAMED]]
    sentences += [
        f"At {site.curator} {always(view, site.prevalence)} would be right more often: for "
        f"{hundred(site.constant)} of 100, not {hundred(site.value or 0.0)}."
        if view.report.measure == "accuracy"
        else f"At {site.curator} always answering the hospital’s mean would be better."
        for site in below[:MOST_NAMED]
    ]
    if len(worse) > MOST_NAMED or len(below) > MOST_NAMED:
        outliers = len({*worse, *(site.curator for site in below)})
        sentences.append(f"{outliers} hospitals in all stand out so.")
    return False, sentences


def _beside_others(view: View, scores: Mapping[str, Estimate], name: str) -> str:
    """A hospital's score beside the mean of the others."""
    elsewhere = f"{_preposition(view)}{hundred(_others(view, scores, name).value)}"
    return f"{name}: {_measured(view, scores[name])}, on average {elsewhere} elsewhere."


def _alike(view: View, scores: Mapping[str, Estimate], better: Sequence[str]) -> str:
    """That no hospital is clearly worse, with the ends of what there is."""
    if len(scores) < 2:
        return f"{_ALIKE}."
    if better:
        best = max(better, key=lambda name: scores[name].value)
        return f"{_ALIKE} as worse. Better at {_beside_others(view, scores, best)}"
    low, high = (choose(scores, key=lambda name: scores[name].value) for choose in (min, max))
    lowest, highest = (hundred(scores[name].value) for name in (low, high))
    if lowest == highest:
        return f"{_ALIKE}."
    what = {
        "AUC": f"{lowest} of 100 pairs in the right order ({low}) to {highest} ({high})",
        "accuracy": f"{lowest} of 100 right ({low}) to {highest} ({high})",
        "R²": f"{lowest} % explained ({low}) to {highest} % ({high})",
    }["AUC" if view.pooled.auc is not None else view.report.measure]
    return f"{_ALIKE}: the range from {what} may be chance."


def within_hospitals(view: View, area: float) -> Iterator[str]:
    """Why the AUC over all hospitals is larger than within them, where it clearly is."""
    tests = {site.curator: site.test for site in view.report.records}
    weights = {}
    for site in view.learner.sites:
        if site.auc is not None:
            share = CHANCE if site.prevalence is None else site.prevalence
            weights[site.auc, site.curator] = share * (1 - share) * (tests.get(site.curator) or 1)
    total = sum(weights.values())
    if len(weights) > 1 and total:
        mean = sum(value * weight for (value, _), weight in weights.items()) / total
        if area - mean > _BETWEEN:
            (low, _), (high, _) = min(weights), max(weights)
            yield (
                f"Within one hospital it is {ends(hundred(low), hundred(high))}: part of the {hundred(area)} comes "
                f"from knowing at which hospital {quoted(view.report.positive)} is more common."
            )


def _comparable(view: View, site: SiteScore) -> Estimate | None:
    """The score by which hospitals are compared: AUC if there is one, as accuracy depends on how common a class is."""
    if view.pooled.auc is not None:
        return view.area(site, site.curator)
    return view.value(site, site.curator)


def _scaled(view: View, scores: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """The scores of hospitals; over repeats, with errors that all of them tell together."""
    samples = {name: view.sample(name) for name in scores}
    if not scores or view.repeats == 1 or any(estimate.repeats_se is None for estimate in scores.values()):
        return dict(scores)
    units = {name: 1 / math.sqrt(sample.test if sample else 1) for name, sample in samples.items()}
    return with_common_scale(scores, units, view.repeats)


def _preposition(view: View) -> str:
    """What stands before a second score of the same kind."""
    return "in " if view.pooled.auc is not None else "" if view.report.measure == "R²" else "for "


def _measured(view: View, estimate: Estimate) -> str:
    """A comparable score in words."""
    if view.pooled.auc is not None:
        return f"the right order in {of_hundred(estimate, 'pairs')}"
    if view.report.measure == "R²":
        return explained(estimate, "% explained")
    return f"right for {of_hundred(estimate)}"


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


def _missed(view: View) -> tuple[bool, list[str]]:
    """Whether a tenth or more of the positive class is missed, and a sentence on how many; none without two classes."""
    report, pooled, noun = view.report, view.pooled, view.noun
    point = point_of(pooled, _HALF)
    if point is None or point.sensitivity is None or not report.positive:
        return False, []
    prevalence = pooled.prevalence if pooled.prevalence is not None else CHANCE
    caught = rate(view, point, "sensitivity", prevalence)
    missed = replace(caught, value=1 - caught.value)
    outcome = f"the outcome {quoted(report.positive)}"
    if missed.value < _FEW_MISSED:
        return False, [f"Of the {noun.plural} with {outcome}, {of_hundred(missed)} get a risk below 50 %."]
    return True, [f"At a cut-off of 50 % it misses {of_hundred(missed, noun.plural)} with {outcome}."]


def _confused(view: View) -> Iterator[str]:
    """Which of several classes are recognised clearly less often than records are on average."""
    confusion, names, value = view.pooled.confusion, view.report.classes, view.pooled.value
    if confusion is None or value is None or len(names) < 3 or len(names) != len(confusion.counts):
        return
    shares = {number: confusion.recall(number) for number in range(len(names))}
    widened = student(1 - 0.05 / len(names), math.inf)
    poor = sorted(
        (share.value, number)
        for number, share in shares.items()
        if share.value is not None and wilson(share.value, share.records, widened)[1] < value
    )
    for recall, number in poor[:MOST_NAMED]:
        share = shares[number]
        between = f"({outward(share.low or 0.0, share.high or 0.0)})"
        wrong = [many if other != number else 0 for other, many in enumerate(confusion.counts[number])]
        most = max(wrong)
        called = hundred(most / sum(confusion.counts[number]))
        often = f"; {called} {'is' if called == '1' else 'are'} called {quoted(names[wrong.index(most)])}"
        yield f"Of 100 that are {quoted(names[number])} it recognises {hundred(recall)} {between}{often}."
    if len(poor) > MOST_NAMED:
        yield f"{len(poor)} classes in all are recognised clearly less often than the others."
    if not poor:
        yield "No class is recognised clearly less often than the others."


def _miscalibrated(view: View) -> Iterator[str]:
    """Where the risks are too high or too low."""
    curve, report = view.pooled.calibration, view.report
    if curve is None or not curve.counts:
        return
    gaps = _gaps(view, curve)
    level = 1 - 0.05 / len(gaps)
    biased = {}
    for name, side in (("high", 1), ("low", -1)):
        clear = [
            gap
            for gap, risk in zip(gaps, curve.predicted, strict=True)
            if gap.side(level) == side and _matters(gap, risk)
        ]
        if clear:
            biased[name] = max(clear, key=lambda gap: abs(gap.value))
    for gap in biased.values():
        predicted = curve.predicted[gaps.index(gap)]
        observed = max(predicted - gap.value, 0.0)
        yield risk_words(predicted, observed, view.noun.plural, report.positive)
    widest = max(gaps, key=lambda gap: abs(gap.value))
    if not biased and abs(widest.value) >= _LARGE:
        predicted = curve.predicted[gaps.index(widest)]
        yield (
            f"Whether risks are right, so small a test cannot tell: of 100 {view.noun.plural} with a risk of about "
            f"{hundred(predicted)} %, {hundred(predicted - widest.value)} had the outcome {quoted(report.positive)}, "
            "which may be chance."
        )
    elif not biased:
        low, high = curve.predicted[0], curve.predicted[-1]
        texts = [f"{hundred(risk)} %" for risk in (low, high)]
        if texts[0] == texts[1] and low < high:
            texts = [f"{plain_number(100 * risk, 2)} %" for risk in (low, high)]
        span = texts[0] if texts[0] == texts[1] else f"from {texts[0]} to {texts[1]}"
        yield f"Predicted and observed risks agree, {span}, within the error of this test."


def _matters(gap: Estimate, predicted: float) -> bool:
    """Whether a gap is more than slight, by its size or beside the risk itself."""
    observed = max(predicted - gap.value, 0.0)
    least, most = sorted((predicted, observed))
    return most - least >= _SLIGHT or most >= _FACTOR * least


def _gaps(view: View, curve: CalibrationCurve) -> list[Estimate]:
    """Predicted less observed share of class 1, for each bin."""
    total, repeats = sum(curve.counts), view.repeats
    sample = view.sample()
    gaps: dict[str, Estimate] = {}
    units: dict[str, float] = {}
    for many, predicted, observed, error in zip(
        curve.counts, curve.predicted, curve.observed, curve.observed_se, strict=True
    ):
        tested = max(1.0, (many / repeats if sample is None else sample.test * many / total))
        unit, name = share_error(predicted, tested), str(len(gaps))
        units[name] = unit
        by_records = (
            unit if sample is None and repeats == 1 else error
        )  # the report's is 0 where nobody has the outcome
        gaps[name] = view.estimate(predicted - observed, by_records, lambda _test, unit=unit: unit)  # type: ignore[misc]
    if repeats > 1 and all(gap.repeats_se is not None for gap in gaps.values()):
        gaps = with_common_scale(gaps, units, repeats)
    return list(gaps.values())
