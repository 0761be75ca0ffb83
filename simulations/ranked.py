"""Clinical scores of one repeat as plain numbers, gathered over repeats. Two classes only."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from learner_node.clinical import Calibration, OperatingPoint, clinical_scores
from learner_node.thresholds import Threshold
from simulations.report.clinical_model import GRID

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ranked:
    """Clinical scores of some records in one repeat; the fields are those of `learner_node.clinical.ClinicalScores`.

    Attributes:
        roc: sensitivity at each false positive rate of `GRID`; empty where only one class occurs.
    """

    records: int
    positives: int
    auc: float | None
    auc_error: float | None
    average_precision: float | None
    brier: float
    calibration: Calibration
    operating_points: tuple[OperatingPoint, ...]
    roc: tuple[float, ...]


@dataclass
class RankedTally:
    """What all repeats gave.

    Attributes:
        model: of the learner's last model, by repeat.
        ceiling: of the non-private model on the same records.
        by_round: round -> AUC, by repeat.
    """

    model: list[Ranked] = field(default_factory=list)
    ceiling: list[Ranked] = field(default_factory=list)
    by_round: dict[int, list[float]] = field(default_factory=dict)


def ranked(
    labels: NDArray[np.integer],
    probabilities: Floats | None,
    thresholds: Sequence[Threshold] = (),
    prevalence: float | None = None,
) -> Ranked | None:
    """Score n records.

    Args:
        labels: (n,) class indices.
        probabilities: (n, C), or None where there are none.
        thresholds: of the operating points.
        prevalence: as the learner knows it.

    Returns:
        None where there are not two classes, or no probabilities.
    """
    if probabilities is None or probabilities.shape[1] != 2 or not len(labels):
        return None
    found = clinical_scores(labels == 1, np.clip(probabilities[:, 1], 0.0, 1.0), thresholds, prevalence=prevalence)
    return Ranked(
        records=found.records,
        positives=found.positives,
        auc=found.auc,
        auc_error=found.auc_error,
        average_precision=found.average_precision,
        brier=found.brier,
        calibration=found.calibration,
        operating_points=found.operating_points,
        roc=() if found.roc is None else tuple(found.roc.at(np.asarray(GRID)).tolist()),
    )
