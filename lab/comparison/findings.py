"""The findings of a comparison: rows, means over runs, differences run by run, and averages of finished cells."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import msgspec
import numpy as np

from expril.report.provenance import Provenance
from lab.averages import Deviation, Mean
from lab.cells import INFINITE, by_seed, differences, epsilon_order, grouped, place
from lab.comparison.contestants import CONTESTANTS, DEFAULT, Group, Outcome
from lab.measures import Reliability
from lab.problems import PROBLEMS
from simulations.scoring import agrees

CLAIMED = ("estimated_accuracy", "interval_low", "interval_high")
SHARE_BINS = 10
Groups = Mapping[tuple[str, str, str], Sequence[Outcome]]


class Claims(msgspec.Struct, frozen=True):
    """A learner's claims about its models beside the test records; means over the runs, in percent."""

    estimated: float  # the accuracy that it expects
    low: float  # of its interval
    high: float  # of its interval
    observed: float  # accuracy on the test records
    holds: int  # intervals that agree with what was observed; see `expectations.agrees`
    runs: int  # how many intervals there are


class Row(msgspec.Struct, frozen=True):
    """One strategy on one problem at one epsilon, over all its runs."""

    dataset: str
    strategy: str  # key of the contestant
    epsilon: str  # exact text, "inf" for what is not private
    mean: float  # accuracy in percent
    std: float  # sample standard deviation of the accuracies over the runs; 0 for a single run
    runs: int
    auc: float  # mean, in percent
    auc_std: float  # sample standard deviation of it over the runs
    brier: float  # mean
    ece: float  # mean over the runs of the expected calibration error, in percent
    seconds: float  # mean
    # mean of accuracy minus the default strategy's in the same run, in percentage points; None where the two share no
    # run at this epsilon
    difference: float | None
    difference_error: float | None  # standard error of `difference` over the shared runs; 0 for a single one
    pairs: int  # runs that both have
    spent: str  # exact epsilon of every run by the ledger, "" where none was charged
    claims: Claims | None  # what the learner said of itself; None where it says nothing

    @property
    def key(self) -> tuple[str, str, str]:
        """Problem, strategy and epsilon."""
        return self.dataset, self.strategy, self.epsilon

    @property
    def coverage(self) -> float | None:
        """Share of runs in percent whose interval holds the observed accuracy."""
        return None if self.claims is None else 100 * self.claims.holds / self.claims.runs


class Strategy(msgspec.Struct, frozen=True):
    """A row's heading."""

    name: str
    title: str
    group: Group


class ShareBin(msgspec.Struct, frozen=True):
    """Test records of like predictions: how many, mean predicted probability and share of class 1, in percent."""

    records: int
    predicted: float
    observed: float


class Comparison(msgspec.Struct, frozen=True, dict=True):
    """Everything that a report shows."""

    rows: tuple[Row, ...]  # by epsilon downwards, then in the order of the contestants and of the problems
    strategies: tuple[Strategy, ...]  # of the rows, in their order
    default: str  # the strategy with which the others are compared
    problems: dict[str, str]  # name -> title, of the rows
    averaged: tuple[str, ...]  # those of them whose accuracies enter the averages
    rare: tuple[str, ...] = ()  # those of them in which one class is rare
    # strategy -> epsilon -> its predictions over all problems and runs, by their size
    reliability: dict[str, dict[str, tuple[ShareBin, ...]]] = {}
    provenance: Provenance | None = None  # None before anything was computed

    @cached_property
    def table(self) -> dict[tuple[str, str, str], Row]:
        """The rows by problem, strategy and epsilon."""
        return {row.key: row for row in self.rows}

    @property
    def epsilons(self) -> tuple[str, ...]:
        """Epsilons of the rows, downwards; "inf" comes first."""
        return tuple(dict.fromkeys(row.epsilon for row in self.rows))

    @property
    def private(self) -> tuple[str, ...]:
        """The finite epsilons of the rows."""
        return tuple(epsilon for epsilon in self.epsilons if epsilon != INFINITE)

    def find(self, dataset: str, strategy: str, epsilon: str) -> Row | None:
        """One row."""
        return self.table.get((dataset, strategy, epsilon))


class Average(msgspec.Struct, frozen=True):
    """Means of a strategy over the problems of the comparison; None where it lacks one of them."""

    strategy: Strategy
    epsilon: str  # of its runs
    mean: float | None  # accuracy over `Comparison.averaged`, in percent
    auc: float | None  # area under the ROC curve over all problems, in percent


def averages(comparison: Comparison, epsilon: str) -> tuple[Average, ...]:
    """Averages of every strategy that was run at this epsilon, in the order of the table."""

    def mean(strategy: Strategy, datasets: Collection[str], value: Callable[[Row], float]) -> float | None:
        rows = [comparison.find(dataset, strategy.name, epsilon) for dataset in datasets]
        there = [value(row) for row in rows if row is not None]
        return sum(there) / len(there) if there and len(there) == len(rows) else None

    return tuple(
        Average(
            strategy,
            epsilon,
            mean(strategy, comparison.averaged, lambda row: row.mean),
            mean(strategy, comparison.problems, lambda row: row.auc),
        )
        for strategy in comparison.strategies
        if any((dataset, strategy.name, epsilon) in comparison.table for dataset in comparison.problems)
    )


def findings(cells: Mapping[str, Sequence[Outcome]], provenance: Provenance | None = None) -> Comparison:
    """Rows of the cells that there are."""
    names, problems = list(CONTESTANTS), list(PROBLEMS)
    groups = grouped(
        by_seed(cells["cells"]), lambda cell: (cell.epsilon, cell.maker, cell.problem), epsilon_order, names, problems
    )
    rows = tuple(_row(*key, groups) for key in groups)
    used = sorted({row.strategy for row in rows}, key=lambda name: (place(names, name), name))
    datasets = sorted({row.dataset for row in rows}, key=lambda name: (place(problems, name), name))
    predictions: dict[str, dict[str, list[Reliability]]] = {name: {} for name in used}
    for row in rows:
        parts = predictions[row.strategy].setdefault(row.epsilon, [])
        parts += [cell.measures.reliability for cell in groups[row.epsilon, row.strategy, row.dataset]]
    return Comparison(
        rows=rows,
        strategies=tuple(_heading(name) for name in used),
        default=DEFAULT,
        problems={name: PROBLEMS[name].title if name in PROBLEMS else name for name in datasets},
        averaged=tuple(name for name in datasets if name not in PROBLEMS or PROBLEMS[name].averaged),
        rare=tuple(name for name in datasets if name in PROBLEMS and PROBLEMS[name].rare),
        reliability={
            name: {epsilon: by_share(parts) for epsilon, parts in by_epsilon.items()}
            for name, by_epsilon in predictions.items()
        },
        provenance=provenance,
    )


def by_share(parts: Iterable[Reliability]) -> tuple[ShareBin, ...]:
    """Bins of all runs sorted anew into ten of equal width, none of them empty."""
    records, predicted, observed = (np.zeros(SHARE_BINS) for _ in range(3))
    for part in parts:
        for count, p, o in zip(part.counts, part.predicted, part.observed, strict=True):
            place = min(int(p * SHARE_BINS), SHARE_BINS - 1)
            records[place] += count
            predicted[place] += count * p
            observed[place] += count * o
    return tuple(
        ShareBin(int(n), float(100 * p / n), float(100 * o / n))
        for n, p, o in zip(records, predicted, observed, strict=True)
        if n
    )


def _heading(name: str) -> Strategy:
    contestant = CONTESTANTS.get(name)
    return Strategy(name, name, "ours") if contestant is None else Strategy(name, contestant.title, contestant.group)


def _row(epsilon: str, strategy: str, dataset: str, groups: Groups) -> Row:
    cells = groups[epsilon, strategy, dataset]
    accuracies, areas = (Deviation.of(getattr(cell.measures, name) for cell in cells) for name in ("accuracy", "auc"))
    default = () if strategy == DEFAULT else groups.get((epsilon, DEFAULT, dataset), ())
    gain = Mean.of_any(differences(cells, default, attrgetter("measures.accuracy")))
    return Row(
        dataset=dataset,
        strategy=strategy,
        epsilon=epsilon,
        mean=accuracies.value,
        std=accuracies.error,
        runs=len(cells),
        auc=areas.value,
        auc_std=areas.error,
        brier=_mean(cell.measures.brier for cell in cells),
        ece=_mean(cell.measures.reliability.error for cell in cells),
        seconds=_mean(cell.seconds for cell in cells),
        difference=gain.value if gain else None,
        difference_error=gain.error if gain else None,
        pairs=gain.runs if gain else 0,
        spent=", ".join(dict.fromkeys(cell.spent for cell in cells if cell.spent)),
        claims=_claims([cell for cell in cells if all(name in cell.extras for name in CLAIMED)]),
    )


def _claims(cells: Sequence[Outcome]) -> Claims | None:
    if not cells:
        return None
    estimated, low, high = (_mean(cell.extras[name] for cell in cells) for name in CLAIMED)
    observed = _mean(cell.measures.accuracy for cell in cells)
    return Claims(estimated, low, high, observed, sum(map(holds, cells)), len(cells))


def holds(cell: Outcome) -> bool:
    """Whether the interval that a learner claims agrees with what its test records show, within their error."""
    shares = (*(cell.extras[name] for name in CLAIMED), cell.measures.accuracy)
    estimated, low, high, observed = (share / 100 for share in shares)
    return agrees(estimated, low, high, observed, sum(cell.measures.reliability.counts))


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


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
    "0.1": {"A": 86.0, "B": 63.0, "C": 90.5, "D": 84.0, "E": 75.0, "CTG-A": 87.0, "CTG-B": 87.0, "heart": 77.5},
}
"""Epsilon -> problem -> least mean accuracy in percent."""
AIM_DISTANCE = 1.0  # percentage points from h* at epsilon 1, on the problems of `REFERENCE`: the aim beyond the bars


def least(dataset: str, epsilon: str, in_site: float | None) -> float:
    """The bar in percent. If our h* is below the bar's reference, the bar is lowered by as much.

    `in_site`: mean accuracy of our h*; None where it was not run.
    """
    number = LEAST[epsilon][dataset]
    return number if in_site is None else min(number, in_site - (REFERENCE[dataset] - number))


@dataclass(frozen=True)
class Standing:
    """One bar, and the strategies' standing beside it."""

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
        """Whether the default strategy is within a point of h*; None unless epsilon is 1 and both were run."""
        if self.epsilon != "1" or self.in_site is None or self.default is None:
            return None
        return self.default.mean >= self.in_site - AIM_DISTANCE


def standings(comparison: Comparison) -> tuple[Standing, ...]:
    """Every bar whose problem and epsilon were run with any strategy of ours."""
    ours = [strategy.name for strategy in comparison.strategies if strategy.group == "ours"]
    table = comparison.table
    bars = []
    for epsilon, numbers in LEAST.items():
        for dataset, number in numbers.items():
            default = table.get((dataset, comparison.default, epsilon))
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
