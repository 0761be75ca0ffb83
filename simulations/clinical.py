"""Clinical results of all repeats summed up, and records counted, for a report."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from protocol.record_frames import encode_labels
from simulations.ranked import Ranked, RankedTally
from simulations.records import SiteRecords
from simulations.report.clinical_model import CalibrationCurve, RecordCounts, RocCurve, ThresholdScore

SHARES = ("sensitivity", "specificity", "ppv", "npv")


def clinical_fields(tally: RankedTally, *, curves: bool) -> dict[str, Any]:
    """Fields of `simulations.report.model.Score`.

    Args:
        tally: of one learner, at one site or all.
        curves: whether calibration, ROC and operating points are wanted, too.
    """
    found = tally.model
    if not found:
        return {}
    fields: dict[str, Any] = {
        "auc": _mean(one.auc for one in found),
        "auc_se": _auc_error(found),
        "auc_ceiling": _mean(one.auc for one in tally.ceiling),
        "average_precision": _mean(one.average_precision for one in found),
        "average_precision_ceiling": _mean(one.average_precision for one in tally.ceiling),
        "brier": _mean(one.brier for one in found),
        "brier_ceiling": _mean(one.brier for one in tally.ceiling),
        "prevalence": sum(one.positives for one in found) / sum(one.records for one in found),
    }
    if curves:
        fields |= {
            "calibration": _calibration(found),
            "operating_points": tuple(
                _point(same) for same in zip(*(one.operating_points for one in found), strict=True)
            ),
            "roc": _roc(found),
            "roc_ceiling": _roc(tally.ceiling),
        }
    return fields


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


def _mean(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return _share(known) if known else None


def _share(shares: Sequence[float]) -> float:
    """Their mean, which rounding does not put outside of 0 to 1."""
    return float(np.clip(np.mean(shares), 0.0, 1.0))


def _auc_error(found: Sequence[Ranked]) -> float | None:
    known = [one for one in found if one.auc is not None]
    if len(known) == 1:
        return known[0].auc_error
    return standard_error([one.auc for one in known if one.auc is not None])


def _calibration(found: Sequence[Ranked]) -> CalibrationCurve:
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


def _roc(found: Sequence[Ranked]) -> RocCurve | None:
    curves = np.array([one.roc for one in found if one.roc])
    if not len(curves):
        return None
    errors = np.std(curves, axis=0, ddof=1) / np.sqrt(len(curves)) if len(curves) > 1 else None
    return RocCurve(
        sensitivity=tuple(np.clip(curves.mean(axis=0), 0.0, 1.0).tolist()),
        sensitivity_se=None if errors is None else tuple(errors.tolist()),
    )


def _point(same: Sequence[Any]) -> ThresholdScore:
    """The mean of one threshold's operating points."""
    shares = {name: [value for one in same if (value := getattr(one, name)) is not None] for name in SHARES}
    return ThresholdScore(
        rule=same[0].rule,
        threshold=_share([one.threshold for one in same]),
        flagged=_share([one.flagged for one in same]),
        **{name: _mean(values) for name, values in shares.items()},
        **{f"{name}_se": standard_error(values) for name, values in shares.items()},
    )
