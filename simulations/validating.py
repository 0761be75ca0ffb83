"""A learner's validation beside the exact curve, which only the harness can compute: it owns the private records."""

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
from simulations.report.validated import (
    Recalibrated,
    Told,
    ValidatedBin,
    ValidatedPoint,
    ValidatedSite,
    ValidationReport,
)

Counts = NDArray[np.float64]


def validation_report(outcome: Outcome, repeat: Repeat) -> ValidationReport | None:
    """What a learner's validation told, beside what is so; None where it has none."""
    found = outcome.validation
    if found is None:
        return None
    exact = {name: _Exact(found, repeat.sites[name]) for name in found.curators}
    every = list(exact.values())
    area = _area(np.concatenate([one.labels for one in every]), np.concatenate([one.logits for one in every]))
    counts = np.sum([one.counts for one in every], axis=0)
    points = _points(found.pooled, counts)
    return ValidationReport(
        epsilon_claimed=str(found.epsilon_claimed),
        epsilon_spent=str(costs_of(outcome, repeat)[STUDIES[VALIDATION]].spent),
        records=found.pooled.records.value,
        prevalence=_told(found.prevalence, _share(counts[:, 1].sum(), counts[:, 0].sum())),
        points=points,
        calibration=tuple(
            ValidatedBin(predicted=own.predicted, observed=_told(own.observed, _share(ones, zeros)))
            for own, (zeros, ones) in zip(found.calibration, counts, strict=True)
        ),
        sites=tuple(
            ValidatedSite(
                curator=name,
                area=_told(own.area, _area(exact[name].labels, exact[name].logits)),
                prevalence=_told(
                    own.prevalence, _share(exact[name].counts[:, 1].sum(), exact[name].counts[:, 0].sum())
                ),
            )
            for name, own in found.by_site.items()
        ),
        areas=(_told(found.pooled.area, area),),
        rank_correlation=_known(found.agreement.rank_correlation) if found.agreement else None,
        same_class=found.agreement.same_class if found.agreement else None,
        recalibrated=_recalibrated(found, outcome, repeat),
    )


def _recalibrated(found: Validation, outcome: Outcome, repeat: Repeat) -> Recalibrated | None:
    """The map, what it makes of the risks in each bin of the source, and what that is worth on test records."""
    fitted, learned = found.recalibration, outcome.learned
    if fitted is None or learned is None:
        return None
    cells, said = found.bins.cells(learned.source), fitted.probability(_risks(learned.whole, learned.source))
    at = [said[cells == number] for number in range(len(found.calibration))]
    asked, _ = sites_of(outcome.learner, repeat.sites)
    tests = [labelled(repeat.sites[name].test, repeat.sites[name]) for name in asked]
    truth = np.concatenate([test.labels for test in tests])
    raw = np.concatenate([_risks(learned.whole, test.records) for test in tests])
    brier, brier_raw = (
        float(np.mean((risks - truth) ** 2)) if len(truth) else None for risks in (fitted.probability(raw), raw)
    )
    return Recalibrated(
        on=fitted.on,
        factor=fitted.factor,
        intercept=astuple(fitted.intercept),
        slope=astuple(fitted.slope),
        fitted=tuple(
            float(own.mean()) if len(own) else float(fitted.probability(np.array(bin_.predicted)))
            for own, bin_ in zip(at, found.calibration, strict=True)
        ),
        brier=brier,
        brier_raw=brier_raw,
    )


def _risks(model: AnyModel, records: Records) -> Counts:
    risks: Counts = class_probabilities(model, records)[:, 1]
    return risks


class _Exact:
    """The private records of a site, as its curator counts them, under what was validated."""

    def __init__(self, validation: Validation, site: SiteRecords) -> None:
        schema = site.steward.schema
        records = encode_frame(site.counted, schema)
        self.labels = encode_labels(site.counted[schema.label], schema.classes) > 0
        self.logits = validation.hypothesis.logits(records)
        bins = len(validation.bins.edges) + 1
        cells = 2 * validation.bins.cells(records) + self.labels
        self.counts = np.bincount(cells, minlength=2 * bins).reshape(bins, 2).astype(np.float64)


def _points(found: Performance, counts: Counts) -> tuple[ValidatedPoint, ...]:
    below = np.cumsum(counts, axis=0)
    above = counts.sum(axis=0) - below
    points = []
    for point, (negative, missed), (false, hit) in zip(found.points, below, above, strict=False):
        exact = {
            "flagged": _share(hit + false, missed + negative),
            "sensitivity": _share(hit, missed),
            "specificity": _share(negative, false),
            "ppv": _share(hit, false),
            "npv": _share(negative, missed),
        }
        told = {name: _told(getattr(point, name), share) for name, share in exact.items()}
        points.append(ValidatedPoint(rule=point.rule, threshold=point.threshold, **told))
    return tuple(points)


def _told(interval: Interval, exact: float | None) -> Told:
    return Told(**vars(interval), exact=exact)


def _share(part: float, rest: float) -> float | None:
    return float(part / (part + rest)) if part + rest else None


def _area(labels: NDArray[np.bool_], logits: NDArray[np.float64]) -> float | None:
    return None if labels.all() or not labels.any() else float(roc_auc_score(labels, logits))


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
