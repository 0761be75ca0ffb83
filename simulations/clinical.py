"""Clinical scores of records in one repeat, as a report has them, and records counted."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from learner_node.scores.clinical import Calibration, ClinicalScores, clinical_scores
from learner_node.scores.thresholds import Threshold
from protocol.record_frames import encode_labels
from simulations.records import SiteRecords
from simulations.references import Answers
from simulations.report.clinical_model import GRID, CalibrationCurve, RecordCounts, RocCurve, ThresholdScore


def ranked(
    answers: Answers | None, thresholds: Sequence[Threshold] = (), prevalence: float | None = None
) -> ClinicalScores | None:
    """Score what a predictor says of records.

    Args:
        answers: of classes; None is of no record.
        thresholds: of the operating points.
        prevalence: as the learner knows it.

    Returns:
        None where there is no record, are not two classes, or no probabilities.
    """
    if answers is None or answers.probabilities is None or answers.probabilities.shape[1] != 2:
        return None
    risk = np.clip(answers.probabilities[:, 1], 0.0, 1.0)
    return clinical_scores(answers.labels == 1, risk, thresholds, prevalence=prevalence)


def clinical_fields(found: ClinicalScores | None, ceiling: ClinicalScores | None, *, curves: bool) -> dict[str, Any]:
    """Fields of `simulations.report.model.Score`.

    Args:
        found: of a learner's last model, at one site or all.
        ceiling: of the non-private model on the same records.
        curves: whether calibration, ROC and operating points are wanted, too.
    """
    if found is None:
        return {}
    fields: dict[str, Any] = {
        f"{name}{end}": getattr(scores, name, None)
        for name in ("auc", "average_precision", "brier")
        for end, scores in (("", found), ("_ceiling", ceiling))
    }
    fields |= {"auc_se": found.auc_error, "prevalence": found.prevalence}
    if curves:
        fields |= {
            "calibration": _calibration(found.calibration),
            "operating_points": tuple(ThresholdScore(**vars(point)) for point in found.operating_points),
            "roc": _roc(found),
            "roc_ceiling": _roc(ceiling),
        }
    return fields


def binomial_error(share: float, records: int) -> float:
    """Standard error of a share of so many records."""
    return float(np.sqrt(share * (1 - share) / records))


def record_counts(sites: Mapping[str, SiteRecords]) -> tuple[RecordCounts, ...]:
    """How many records each site has, and the share of the positive class. Simulations only: a curator never counts."""
    return tuple(_counted(site) for site in sites.values())


def positive_class(sites: Mapping[str, SiteRecords]) -> str:
    """The second of two classes; "" where there are not two."""
    classes = next(iter(sites.values())).steward.schema.classes
    return classes[1] if len(classes) == 2 else ""


def _counted(site: SiteRecords) -> RecordCounts:
    classes = site.steward.schema.classes
    parts = (site.counted, site.source, site.test)
    total = sum(part.height for part in parts)
    ones = 0
    if len(classes) == 2:
        ones = sum(int(encode_labels(part[site.steward.label], classes).sum()) for part in parts)
    return RecordCounts(
        curator=site.name,
        private=site.counted.height,
        held=site.private.height,
        source=site.source.height,
        test=site.test.height,
        positive=ones / total if len(classes) == 2 and total else None,
    )


def _calibration(found: Calibration) -> CalibrationCurve:
    return CalibrationCurve(
        counts=found.counts,
        predicted=_shares(found.predicted),
        observed=_shares(found.observed),
        observed_se=tuple(map(binomial_error, _shares(found.observed), found.counts)),
    )


def _roc(found: ClinicalScores | None) -> RocCurve | None:
    return RocCurve(sensitivity=_shares(found.roc.at(np.asarray(GRID)))) if found and found.roc else None


def _shares(values: Any) -> tuple[float, ...]:
    """Which rounding does not put outside of 0 to 1."""
    return tuple(np.clip(values, 0.0, 1.0).tolist())
