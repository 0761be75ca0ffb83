"""For whom a model is wrong: hospitals, patients and risks that stand out by more than chance, in plain words.

A hospital, a class or a risk is named only where chance alone would name any in one run of twenty (Bonferroni, over all
comparisons of its kind).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from learner_node.result.phrases import hundred, outward, quoted
from learner_node.scores.values import CalibrationCurve
from simulations.report.intervals import Estimate, share_error, with_common_scale
from simulations.report.model import CHANCE, SiteScore
from simulations.report.view import MOST_NAMED, View, always, of_hundred, point_of, rate

_ALIKE = "No hospital stands out"
_HALF = "above 0.5"
_FEW_MISSED = 0.1
_SLIGHT, _FACTOR = 0.02, 1.5
"""A risk is called wrong if it is off by this much, or by this factor, besides being so by more than chance."""
_BETWEEN = 0.03
"""Excess of the AUC over all hospitals, above the mean of theirs, from which it is explained."""


def flaws(view: View) -> Iterator[str]:
    """For whom the model is wrong."""
    if not view.learned:
        yield "There is no model to be wrong."
        return
    hospitals, missed = list(_exceptions(view)), list(_missed(view))
    alike = hospitals[0].startswith(_ALIKE)
    yield from (*missed, *hospitals) if alike and missed and "misses" in missed[0] else (*hospitals, *missed)
    yield from _confused(view)
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
    for name in worse[:MOST_NAMED]:
        elsewhere = f"{_preposition(view)}{hundred(_others(view, scores, name).value)}"
        yield f"Worse at {name}: {_measured(view, scores[name])}, on average {elsewhere} elsewhere."
    for site in below[:MOST_NAMED]:
        yield (
            f"At {site.curator} {always(view, site.prevalence)} would be right more often: for "
            f"{hundred(site.constant)} of 100, not {hundred(site.value or 0.0)}."
            if view.report.measure == "accuracy"
            else f"At {site.curator} always answering the hospital’s mean would be better."
        )
    if len(worse) > MOST_NAMED or len(below) > MOST_NAMED:
        yield f"{len({*worse, *(site.curator for site in below)})} hospitals in all stand out so."
    if not worse and not below:
        yield from _alike(view, scores)


def _alike(view: View, scores: Mapping[str, Estimate]) -> Iterator[str]:
    """That no hospital stands out, with the ends of what there is."""
    if not scores:
        yield f"{_ALIKE}."
        return
    low, high = (choose(scores, key=lambda name: scores[name].value) for choose in (min, max))
    lowest, highest = (hundred(scores[name].value) for name in (low, high))
    what = {
        "AUC": f"{lowest} of 100 pairs in the right order ({low}) to {highest} ({high})",
        "accuracy": f"{lowest} of 100 right ({low}) to {highest} ({high})",
        "R²": f"{lowest} % explained ({low}) to {highest} % ({high})",
    }["AUC" if view.pooled.auc is not None else view.report.measure]
    yield f"{_ALIKE}: the range from {what} may be chance."


def within_hospitals(view: View, area: float) -> Iterator[str]:
    """Why the AUC over all hospitals is larger than within them, where it clearly is."""
    areas = sorted(site.auc for site in view.learner.sites if site.auc is not None)
    if len(areas) > 1 and area - sum(areas) / len(areas) > _BETWEEN:
        yield (
            f"Within one hospital it is {hundred(areas[0])} to {hundred(areas[-1])}: part of the {hundred(area)} comes "
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
    if not scores or view.report.repeats == 1 or any(estimate.repeats_se is None for estimate in scores.values()):
        return dict(scores)
    units = {name: 1 / math.sqrt(sample.test if sample else 1) for name, sample in samples.items()}
    return with_common_scale(scores, units, view.report.repeats)


def _preposition(view: View) -> str:
    """What stands before a second score of the same kind."""
    return "in " if view.pooled.auc is not None else "" if view.report.measure == "R²" else "for "


def _measured(view: View, estimate: Estimate) -> str:
    """A comparable score in words."""
    if view.pooled.auc is not None:
        return f"the right order in {of_hundred(estimate, 'pairs')}"
    if view.report.measure == "R²":
        ends = estimate.ends(-1.0, 1.0)
        between = "" if ends is None else f" ({outward(*ends)})"
        return f"{hundred(estimate.value)} % explained{between}"
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


def _missed(view: View) -> Iterator[str]:
    """How many of the positive class are missed, or which of several classes."""
    report, pooled, noun = view.report, view.pooled, view.noun
    point = point_of(pooled, _HALF)
    if point is not None and point.sensitivity is not None and report.positive:
        prevalence = pooled.prevalence if pooled.prevalence is not None else CHANCE
        caught = rate(view, point, "sensitivity", prevalence)
        missed = replace(caught, value=1 - caught.value)
        outcome = f"the outcome {quoted(report.positive)}"
        if missed.value < _FEW_MISSED:
            yield f"Of the {noun.plural} with {outcome}, {of_hundred(missed)} get a risk below 50 %."
        else:
            yield f"At a cut-off of 50 % it misses {of_hundred(missed, noun.plural)} with {outcome}."


def _confused(view: View) -> Iterator[str]:
    """Which of several classes are recognised clearly less often than records are on average."""
    confusion, names, value = view.pooled.confusion, view.report.classes, view.pooled.value
    if confusion is None or value is None or len(names) < 3 or len(names) != len(confusion.counts):
        return
    shares = {number: confusion.recall(number) for number in range(len(names))}
    poor = sorted(
        (share.value, number)
        for number, share in shares.items()
        if share.value is not None and share.high is not None and share.high < value
    )
    for recall, number in poor[:MOST_NAMED]:
        share = shares[number]
        between = f"({outward(share.low or 0.0, share.high or 0.0)})"
        wrong = [many if other != number else 0 for other, many in enumerate(confusion.counts[number])]
        most = max(wrong)
        often = f"; {hundred(most / sum(confusion.counts[number]))} are called {quoted(names[wrong.index(most)])}"
        yield f"Of 100 that are {quoted(names[number])} it recognises {hundred(recall)} {between}{often}."
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
    for name, gap in biased.items():
        predicted = curve.predicted[gaps.index(gap)]
        yield (
            f"Risks of about {hundred(predicted)} % are too {name}: of 100 such {view.noun.plural} "
            f"{hundred(predicted - gap.value)} have the outcome {quoted(report.positive)}."
        )
    if not biased:
        ends = f"{hundred(curve.predicted[0])} % to {hundred(curve.predicted[-1])} %"
        yield f"Predicted and observed risks agree, from {ends}, within the error of this test."


def _matters(gap: Estimate, predicted: float) -> bool:
    """Whether a gap is more than slight, by its size or beside the risk itself."""
    observed = max(predicted - gap.value, 0.0)
    least, most = sorted((predicted, observed))
    return most - least >= _SLIGHT or most >= _FACTOR * least


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
