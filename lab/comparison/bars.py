"""The bars that the project set itself before the runs, and whether they are met."""

from dataclasses import dataclass

from lab.cells import INFINITE
from lab.comparison.findings import Comparison, Row

IN_SITE = "h*"
REFERENCE = {"A": 95.2, "B": 78.8, "C": 95.6, "D": 91.0, "E": 80.9, "CTG-A": 91.4, "CTG-B": 93.0}
"""Accuracy of h* in percent on the generators with which the bars were set."""
LEAST: dict[str, dict[str, float]] = {
    "1": {
        "A": 95.0,
        "B": 75.0,
        "C": 95.5,
        "D": 89.0,
        "E": 78.5,
        "CTG-A": 90.0,
        "CTG-B": 91.5,
        "heart": 80.0,
        "heart-cleveland": 78.0,
        "wdbc": 94.0,
    },
    "0.3": {"heart": 79.0, "wdbc": 91.0},
    "0.1": {
        "A": 86.0,
        "B": 63.0,
        "C": 90.5,
        "D": 84.0,
        "E": 75.0,
        "CTG-A": 87.0,
        "CTG-B": 87.0,
        "heart": 77.5,
    },
}
"""Epsilon -> problem -> least mean accuracy in percent."""
AIM_DISTANCE = 1.0
"""Percentage points from h* at epsilon 1, on the problems of `REFERENCE`: the aim beyond the bars."""


def least(dataset: str, epsilon: str, in_site: float | None) -> float:
    """The bar in percent, or the same distance from our h* as it had from its own where that is less.

    `in_site`: mean accuracy of our h*; None where it was not run.
    """
    number = LEAST[epsilon][dataset]
    return number if in_site is None else min(number, in_site - (REFERENCE[dataset] - number))


@dataclass(frozen=True)
class Standing:
    """One bar and who stands where."""

    dataset: str
    epsilon: str  # of the bar
    number: float  # in percent
    needed: float  # `number`, or the same distance from our h* as the bar had from its own where that is less
    in_site: float | None  # mean accuracy of h* on our splits; None where it was not run or sets no bar
    default: Row | None  # the default strategy's row; None where it was not run
    best: Row | None  # the best row of a strategy of ours that was run as often as the default one

    @property
    def met(self) -> bool | None:
        """Whether the default strategy meets it; None where it was not run."""
        return None if self.default is None else self.default.mean >= self.needed

    @property
    def best_met(self) -> bool | None:
        """Whether any strategy of ours meets it."""
        return None if self.best is None else self.best.mean >= self.needed

    @property
    def aim(self) -> bool | None:
        """Whether the default strategy is within a point of h*; None where that is no aim."""
        if self.epsilon != "1" or self.in_site is None or self.default is None:
            return None
        return self.default.mean >= self.in_site - AIM_DISTANCE


def standings(found: Comparison) -> tuple[Standing, ...]:
    """Every bar whose problem and epsilon were run with any strategy of ours."""
    ours = [strategy.name for strategy in found.strategies if strategy.group == "ours"]
    table = found.table
    bars = []
    for epsilon, numbers in LEAST.items():
        for dataset, number in numbers.items():
            default = table.get((dataset, found.default, epsilon))
            rows = [table[dataset, name, epsilon] for name in ours if (dataset, name, epsilon) in table]
            rows = [row for row in rows if default is None or row.runs >= default.runs]
            if not rows:
                continue
            reference = table.get((dataset, IN_SITE, INFINITE)) if dataset in REFERENCE else None
            in_site = None if reference is None else reference.mean
            bars.append(
                Standing(
                    dataset=dataset,
                    epsilon=epsilon,
                    number=number,
                    needed=least(dataset, epsilon, in_site),
                    in_site=in_site,
                    default=default,
                    best=max(rows, key=lambda row: row.mean),
                )
            )
    return tuple(bars)
