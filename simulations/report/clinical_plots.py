"""Where each mark of the ROC and calibration curves goes; the template draws them."""

from collections.abc import Sequence
from dataclasses import replace

from expril.report.chart import Axis, Figure, Line, Mark, Place, Rule, Stage, make_axis, percent
from simulations.report.clinical_model import GRID, RocCurve
from simulations.report.model import LearnerReport

_HEIGHT, _BELOW = 380, 18
_LEFT, _RIGHT = 11.0, 97.0
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)


def roc_figure(learners: Sequence[LearnerReport]) -> Figure | None:
    """Sensitivity against false positive rate, a line a learner, the ceiling's dashed; None where there is none.

    The marks are the operating points.
    """
    stage = Stage(make_axis(0.0, 1.0, (0.2,), left=_LEFT, right=_RIGHT), _HEIGHT)
    lines = []
    for index, learner in enumerate(learners):
        score = learner.pooled
        if score.roc is None:
            continue
        marks = tuple(
            Mark(
                percent(stage.axis.place(1 - point.specificity)),
                stage.y(point.sensitivity),
                f"{point.rule}: sensitivity {point.sensitivity:.3f}, specificity {point.specificity:.3f}",
            )
            for point in score.operating_points
            if point.sensitivity is not None and point.specificity is not None
        )
        lines.append(replace(_curve(stage, index, learner.learner, score.roc), marks=marks))
    if not lines:
        return None
    best = next((learner.pooled.roc_ceiling for learner in learners if learner.pooled.roc_ceiling is not None), None)
    if best is not None:
        lines.insert(0, replace(_curve(stage, len(learners), "in-site ceiling", best), hollow=True, band=""))
    return Figure(
        stage,
        "ROC curve",
        stage.axis.ticks,
        tuple(lines),
        " ".join(f"{one.learner}: AUC {one.pooled.auc:.3f}." for one in learners if one.pooled.auc is not None),
        below=_BELOW,
        diagonal=_diagonal(stage),
    )


def calibration_figure(learners: Sequence[LearnerReport], prevalence: float | None) -> Figure | None:
    """Observed against predicted share of the positive class, by tenths of the records; None where there is none."""
    drawn = [(n, one.learner, one.pooled.calibration) for n, one in enumerate(learners)]
    values = [v for _, _, curve in drawn if curve for v in (*curve.predicted, *curve.observed)]
    if not values:
        return None
    stage = Stage(make_axis(0.0, max(0.05, *values), _STEPS, left=_LEFT, right=_RIGHT), _HEIGHT)
    lines = []
    for index, name, curve in drawn:
        if curve is None:
            continue
        places = [
            Place(
                stage.axis.place(predicted),
                observed,
                (max(0.0, observed - (error or 0.0)), min(1.0, observed + (error or 0.0))),
                f"{predicted:.3f} predicted, {observed:.3f} observed, {count} records",
            )
            for count, predicted, observed, error in zip(
                curve.counts, curve.predicted, curve.observed, curve.observed_se, strict=True
            )
        ]
        lines.append(stage.line(index, False, name, places))
    rules = () if prevalence is None else (Rule("majority", stage.y(prevalence), f"prevalence {prevalence:.3f}"),)
    return Figure(
        stage,
        "Calibration curve",
        stage.axis.ticks,
        tuple(lines),
        " ".join(f"{line.title}: {'; '.join(mark.text for mark in line.marks)}." for line in lines),
        below=_BELOW,
        rules=rules,
        diagonal=_diagonal(stage),
    )


def _curve(stage: Stage, index: int, title: str, curve: RocCurve) -> Line:
    errors = curve.sensitivity_se or (0.0,) * len(GRID)
    axis: Axis = stage.axis
    places = [
        Place(axis.place(rate), value, (max(0.0, value - error), min(1.0, value + error)), "")
        for rate, value, error in zip(GRID, curve.sensitivity, errors, strict=True)
    ]
    line = stage.line(index, False, title, places, errors=curve.sensitivity_se is not None)
    start = stage.path([(axis.place(0.0), 0.0), *((place.x, place.value) for place in places)])
    return replace(line, marks=(), line=start)


def _diagonal(stage: Stage) -> str:
    axis = stage.axis
    return stage.path([(axis.place(axis.low), axis.low), (axis.place(axis.high), axis.high)])
