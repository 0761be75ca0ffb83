"""Compares a learner's validation with the exact figures, which only the simulation can compute."""

from dataclasses import astuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from learner_node.questions.validation import Validation
from learner_node.scores.performance import Interval, Performance
from learner_node.strategies.base import AnyModel, class_probabilities
from protocol.record_frames import encode_frame, encode_labels
from protocol.records import Records
from protocol.run_index import VALIDATION
from simulations.records import SiteRecords, sites_of
from simulations.references import labelled
from simulations.repeats import Outcome, Repeat, costs_of
from simulations.report.budget import STUDIES
from simulations.report.model import (
    JudgedInterval,
    Recalibrated,
    ValidatedBin,
    ValidatedPoint,
    ValidatedSite,
    ValidationReport,
)

Counts = NDArray[np.float64]


def validation_report(outcome: Outcome, repeat: Repeat) -> ValidationReport | None:
    """A learner's validation beside the exact figures; None if there is no validation."""
    validation = outcome.validation
    if validation is None:
        return None
    private = {name: _PrivateRecords(validation, repeat.sites[name]) for name in validation.curators}
    labels, logits = (
        np.concatenate([getattr(records, name) for records in private.values()]) for name in ("labels", "logits")
    )
    counts = np.sum([records.counts for records in private.values()], axis=0)
    return ValidationReport(
        epsilon_claimed=str(validation.epsilon_claimed),
        epsilon_spent=str(costs_of(outcome, repeat)[STUDIES[VALIDATION]].spent),
        records=validation.pooled.records.value,
        prevalence=_judged(validation.prevalence, _prevalence(counts)),
        points=_points(validation.pooled, counts),
        calibration=tuple(
            ValidatedBin(predicted=bin_.predicted, observed=_judged(bin_.observed, _share(ones, zeros)))
            for bin_, (zeros, ones) in zip(validation.calibration, counts, strict=True)
        ),
        sites=tuple(
            ValidatedSite(
                curator=name,
                area=_judged(site.area, _area(private[name].labels, private[name].logits)),
                prevalence=_judged(site.prevalence, _prevalence(private[name].counts)),
            )
            for name, site in validation.by_site.items()
        ),
        areas=(_judged(validation.pooled.area, _area(labels, logits)),),
        rank_correlation=_number(validation.agreement.rank_correlation) if validation.agreement else None,
        same_class=validation.agreement.same_class if validation.agreement else None,
        recalibrated=_recalibrated(validation, outcome, repeat),
    )


def _recalibrated(validation: Validation, outcome: Outcome, repeat: Repeat) -> Recalibrated | None:
    """The recalibration map, its risks in each bin of the source, and their Brier score on test records."""
    fitted, learned = validation.recalibration, outcome.learned
    if fitted is None or learned is None:
        return None
    cells, risks = (
        validation.bins.cells(learned.source),
        fitted.probability(_risks(learned.final_model, learned.source)),
    )
    by_bin = [risks[cells == number] for number in range(len(validation.calibration))]
    names, _ = sites_of(outcome.learner, repeat.sites)
    tests = [labelled(repeat.sites[name].test, repeat.sites[name]) for name in names]
    truth = np.concatenate([test.labels for test in tests])
    raw = np.concatenate([_risks(learned.final_model, test.records) for test in tests])
    brier, brier_raw = (
        float(np.mean((risks - truth) ** 2)) if len(truth) else None for risks in (fitted.probability(raw), raw)
    )
    return Recalibrated(
        on=fitted.on,
        factor=fitted.factor,
        intercept=astuple(fitted.intercept),
        slope=astuple(fitted.slope),
        fitted=tuple(
            float(values.mean()) if len(values) else float(fitted.probability(np.array(bin_.predicted)))
            for values, bin_ in zip(by_bin, validation.calibration, strict=True)
        ),
        brier=brier,
        brier_raw=brier_raw,
    )


def _risks(model: AnyModel, records: Records) -> Counts:
    risks: Counts = class_probabilities(model, records)[:, 1]
    return risks


class _PrivateRecords:
    """The private records that a site's curator counts: labels, scores, and counts in the bins."""

    def __init__(self, validation: Validation, site: SiteRecords) -> None:
        schema = site.steward.schema
        records = encode_frame(site.counted, schema)
        self.labels = encode_labels(site.counted[schema.label], schema.classes) > 0
        self.logits = validation.hypothesis.logits(records)
        bins = len(validation.bins.edges) + 1
        cells = 2 * validation.bins.cells(records) + self.labels
        self.counts = np.bincount(cells, minlength=2 * bins).reshape(bins, 2).astype(np.float64)


def _points(performance: Performance, counts: Counts) -> tuple[ValidatedPoint, ...]:
    below = np.cumsum(counts, axis=0)
    above = counts.sum(axis=0) - below
    points = []
    for point, (negative, missed), (false, hit) in zip(performance.points, below, above, strict=False):
        exact = {
            "flagged": _share(hit + false, missed + negative),
            "sensitivity": _share(hit, missed),
            "specificity": _share(negative, false),
            "ppv": _share(hit, false),
            "npv": _share(negative, missed),
        }
        judged = {name: _judged(getattr(point, name), share) for name, share in exact.items()}
        points.append(ValidatedPoint(rule=point.rule, threshold=point.threshold, **judged))
    return tuple(points)


def _judged(interval: Interval, exact: float | None) -> JudgedInterval:
    return JudgedInterval(interval.value, interval.low, interval.high, exact)


def _prevalence(counts: Counts) -> float | None:
    return _share(counts[:, 1].sum(), counts[:, 0].sum())


def _share(part: float, rest: float) -> float | None:
    return float(part / (part + rest)) if part + rest else None


def _area(labels: NDArray[np.bool_], logits: NDArray[np.float64]) -> float | None:
    return None if labels.all() or not labels.any() else float(roc_auc_score(labels, logits))


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
