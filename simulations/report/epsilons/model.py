"""A scenario's run at one of several epsilons."""

from dataclasses import dataclass

from simulations.report.model import RunReport


@dataclass(frozen=True)
class EpsilonRun:
    """One run.

    Attributes:
        epsilon: of every learner, as written.
        folder: name of the run's folder.
        report: of the run.
    """

    epsilon: str
    folder: str
    report: RunReport
