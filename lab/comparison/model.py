"""What a comparison found, as plain data: the tables, the page and the files are made of it."""

import math

import msgspec

from expril.report.provenance import Provenance
from lab.comparison.contestants import Group
from lab.comparison.measures import Reliability
from simulations.expectations import agrees


class Claim(msgspec.Struct, frozen=True):
    """What a learner said about one model, against the test records; all in percent.

    Attributes:
        estimated: the accuracy that it expects.
        low: of its interval.
        high: of its interval.
        observed: accuracy on the test records.
        tested: number of test records.
    """

    estimated: float
    low: float
    high: float
    observed: float
    tested: int

    @property
    def holds(self) -> bool:
        """Whether the interval agrees with what was observed; see `expectations.agrees`."""
        shares = (self.estimated, self.low, self.high, self.observed)
        estimated, low, high, observed = (share / 100 for share in shares)
        return agrees(estimated, low, high, observed, self.tested)


class Row(msgspec.Struct, frozen=True):
    """One strategy on one problem at one epsilon, over all its runs.

    Attributes:
        dataset: key of the problem.
        strategy: key of the contestant.
        epsilon: exact text, "inf" for what is not private.
        mean: accuracy in percent.
        std: sample standard deviation of the accuracies over the runs; 0 for a single run.
        runs: how many.
        auc: mean, in percent.
        auc_std: sample standard deviation of it over the runs.
        brier: mean.
        ece: mean over the runs of the expected calibration error, in percent.
        seconds: mean.
        difference: mean of accuracy minus the default strategy's in the same run, in percentage points; None where
            the two share no run at this epsilon.
        difference_error: standard error of `difference` over the shared runs; 0 for a single one.
        pairs: runs that both have.
        spent: exact epsilon of every run by the ledger, "" where none was charged.
        claims: what the learner said about each run; empty where it says nothing.
        reliability: the bins of all runs.
    """

    dataset: str
    strategy: str
    epsilon: str
    mean: float
    std: float
    runs: int
    auc: float
    auc_std: float
    brier: float
    ece: float
    seconds: float
    difference: float | None
    difference_error: float | None
    pairs: int
    spent: str
    claims: tuple[Claim, ...]
    reliability: Reliability

    @property
    def key(self) -> tuple[str, str, str]:
        """Problem, strategy and epsilon."""
        return self.dataset, self.strategy, self.epsilon

    @property
    def standard_error(self) -> float:
        """Of the mean, in percentage points."""
        return self.std / math.sqrt(self.runs)

    @property
    def coverage(self) -> float | None:
        """Share of runs in percent whose interval holds the observed accuracy."""
        return 100 * sum(claim.holds for claim in self.claims) / len(self.claims) if self.claims else None


class Strategy(msgspec.Struct, frozen=True):
    """A row's heading."""

    name: str
    title: str
    group: Group


class Comparison(msgspec.Struct, frozen=True):
    """Everything that a report shows.

    Attributes:
        rows: by epsilon downwards, then in the order of the contestants and of the problems.
        strategies: of the rows, in their order.
        default: the strategy with which the others are compared.
        problems: name -> title, of the rows.
        averaged: those of them whose accuracies enter the averages.
        rare: those of them in which one class is rare.
        provenance: None before anything was computed.
    """

    rows: tuple[Row, ...]
    strategies: tuple[Strategy, ...]
    default: str
    problems: dict[str, str]
    averaged: tuple[str, ...]
    rare: tuple[str, ...] = ()
    provenance: Provenance | None = None

    def find(self, dataset: str, strategy: str, epsilon: str) -> Row | None:
        """One row."""
        return self.table.get((dataset, strategy, epsilon))

    @property
    def table(self) -> dict[tuple[str, str, str], Row]:
        """The rows by problem, strategy and epsilon."""
        return {row.key: row for row in self.rows}

    @property
    def epsilons(self) -> tuple[str, ...]:
        """Of the rows, downwards; "inf" first where there is any."""
        return tuple(dict.fromkeys(row.epsilon for row in self.rows))
