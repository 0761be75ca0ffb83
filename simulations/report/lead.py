"""A report as its page shows it where the outcome is rare: AUC in the place of accuracy, chance in that of majority."""

from typing import TypeVar

import msgspec

from simulations.report.model import CurvePoint, LearnerReport, RunReport, Score, SiteScore

Kind = TypeVar("Kind", Score, SiteScore)
CHANCE = 0.5
"""AUC of any ranking that does not look at the records."""


def led(report: RunReport) -> RunReport:
    """The report in terms of its `lead`."""
    return by_ranking(report) if report.lead == "AUC" else report


def by_ranking(report: RunReport) -> RunReport:
    """The same report with `measure` "AUC": every `accuracy` is an AUC, every `majority` one half.

    A score or a point of a curve that has no AUC has no `accuracy` there, or is left out.
    """
    return msgspec.structs.replace(report, measure="AUC", learners=tuple(map(_learner, report.learners)))


def _learner(learner: LearnerReport) -> LearnerReport:
    return msgspec.structs.replace(
        learner,
        pooled=_score(learner.pooled),
        sites=tuple(map(_score, learner.sites)),
        curve=tuple(
            CurvePoint(point.round, point.auc, point.auc_se, point.auc, point.auc_se)
            for point in learner.curve
            if point.auc is not None
        ),
    )


def _score(score: Kind) -> Kind:
    return msgspec.structs.replace(
        score, accuracy=score.auc, accuracy_se=score.auc_se, majority=CHANCE, ceiling=score.auc_ceiling
    )
