"""Clinical scores of records in one repeat, those of all repeats summed up, and records counted, for a report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner_node.clinical import ClinicalScores, OperatingPoint, Roc, clinical_scores
from learner_node.thresholds import Threshold
from protocol.record_frames import encode_labels
from simulations.records import SiteRecords
from simulations.report.clinical_model import GRID, CalibrationCurve, RecordCounts, RocCurve, ThresholdScore

SHARES = ("sensitivity", "specificity", "ppv", "npv")


def ranked(
    labels: NDArray[np.integer],
    probabilities: NDArray[np.float64] | None,
    thresholds: Sequence[Threshold] = (),
    prevalence: float | None = None,
) -> ClinicalScores | None:
    """Score n records.

    Args:
        labels: (n,) class indices.
        probabilities: (n, C), or None where there are none.
        thresholds: of the operating points.
        prevalence: as the learner knows it.

    Returns:
        Their scores, the ROC at the rates of `GRID`; None where there are not two classes, or no probabilities.
    """
    if probabilities is None or probabilities.shape[1] != 2 or not len(labels):
        return None
    found = clinical_scores(labels == 1, np.clip(probabilities[:, 1], 0.0, 1.0), thresholds, prevalence=prevalence)
    rates = np.asarray(GRID)
    return replace(found, roc=found.roc and Roc(rates, found.roc.at(rates)))


def clinical_fields(
    found: Sequence[ClinicalScores], ceiling: Sequence[ClinicalScores], *, curves: bool
) -> dict[str, Any]:
    """Fields of `simulations.report.model.Score`.

    Args:
        found: of a learner's last model, at one site or all, by repeat.
        ceiling: of the non-private model on the same records.
        curves: whether calibration, ROC and operating points are wanted, too.
    """
    if not found:
        return {}
    fields: dict[str, Any] = {
        f"{name}{end}": _mean_share(getattr(one, name) for one in scores)
        for name in ("auc", "average_precision", "brier")
        for end, scores in (("", found), ("_ceiling", ceiling))
    }
    fields["auc_se"] = _auc_error(found)
    fields["prevalence"] = sum(one.positives for one in found) / sum(one.records for one in found)
    if curves:
        fields |= {
            "calibration": _calibration(found),
            "operating_points": tuple(map(_point, zip(*(one.operating_points for one in found), strict=True))),
            "roc": _roc(found),
            "roc_ceiling": _roc(ceiling),
        }
    return fields


def known(values: Iterable[Any]) -> list[Any]:
    """Those that are there."""
    return [value for value in values if value is not None]


def mean(values: Iterable[float | None]) -> float | None:
    """Of those that are there; None where none is."""
    there = known(values)
    return float(np.mean(there)) if there else None


def standard_error(values: Sequence[float]) -> float | None:
    """Of the mean of several repeats; None where there is one, or none."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


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


def _mean_share(values: Iterable[float | None]) -> float | None:
    there = known(values)
    return _share(there) if there else None


def _share(shares: Sequence[float]) -> float:
    """Their mean, which rounding does not put outside of 0 to 1."""
    return float(np.clip(np.mean(shares), 0.0, 1.0))


def _auc_error(found: Sequence[ClinicalScores]) -> float | None:
    ranking = [one for one in found if one.auc is not None]
    return ranking[0].auc_error if len(ranking) == 1 else standard_error(known(one.auc for one in ranking))


def _calibration(found: Sequence[ClinicalScores]) -> CalibrationCurve:
    """Bin by bin, over the repeats that have the bin; only repeats of fewer than ten records have fewer."""
    bins: dict[int, list[tuple[int, float, float]]] = {}
    for one in found:
        told = one.calibration
        for place, each in enumerate(zip(told.counts, told.predicted, told.observed, strict=True)):
            bins.setdefault(place, []).append(each)
    columns = [list(zip(*bins[place], strict=True)) for place in sorted(bins)]
    return CalibrationCurve(
        counts=tuple(int(sum(counts)) for counts, _, _ in columns),
        predicted=tuple(_share(predicted) for _, predicted, _ in columns),
        observed=tuple(_share(observed) for _, _, observed in columns),
        observed_se=tuple(
            standard_error(observed) if len(found) > 1 else _binomial(observed[0], int(counts[0]))
            for counts, _, observed in columns
        ),
    )


def _binomial(share: float, records: int) -> float:
    return float(np.sqrt(share * (1 - share) / records))


def _roc(found: Sequence[ClinicalScores]) -> RocCurve | None:
    curves = np.array([one.roc.sensitivity for one in found if one.roc])
    if not len(curves):
        return None
    errors = np.std(curves, axis=0, ddof=1) / np.sqrt(len(curves)) if len(curves) > 1 else None
    return RocCurve(
        sensitivity=tuple(np.clip(curves.mean(axis=0), 0.0, 1.0).tolist()),
        sensitivity_se=None if errors is None else tuple(errors.tolist()),
    )


def _point(same: Sequence[OperatingPoint]) -> ThresholdScore:
    """The mean of one threshold's operating points."""
    shares = {name: known(getattr(one, name) for one in same) for name in SHARES}
    return ThresholdScore(
        rule=same[0].rule,
        threshold=_share([one.threshold for one in same]),
        flagged=_share([one.flagged for one in same]),
        **{name: _mean_share(values) for name, values in shares.items()},
        **{f"{name}_se": standard_error(values) for name, values in shares.items()},
    )
