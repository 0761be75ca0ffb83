"""What a reproduction found, as plain data: the tables and curves that the report pages and files are made of."""

import math
from typing import Literal

import msgspec

from expril.report.provenance import Provenance
from lab.paper.published import RUNS, TABLE_2, Published

Noise = Literal["none", "printed", "valid"]
"""No privacy; the paper's mechanism as printed (Eq. 7), whose claim is wrong; the valid mechanism."""
NOISE_TITLES: dict[Noise, str] = {"none": "no privacy", "printed": "printed mechanism", "valid": "valid mechanism"}
COLUMNS = {
    "h_star": "h*",
    "C-ExPriL": "C-ExPriL",
    "I-ExPriL": "I-ExPriL",
    "1DP-C-ExPriL": "1DP-C-ExPriL, printed",
    "1DP-I-ExPriL": "1DP-I-ExPriL, printed",
    "valid-1DP-C-ExPriL": "1DP-C-ExPriL, valid",
    "valid-1DP-I-ExPriL": "1DP-I-ExPriL, valid",
    "h0_star": "h0*",
    "ratio": "ratio",
    "epsilon_claimed": "epsilon claimed",
    "epsilon_printed_worst": "epsilon of the printed mechanism, worst case",
    "epsilon_printed_at_data": "epsilon of the printed mechanism at the run's records, by the formula for errors",
    "epsilon_printed_masses": "epsilon of its mass query alone at the run's records, by that query's own formula",
}
"""Names in the CSV file -> titles. Accuracies are in percent, `ratio` and the epsilons plain numbers."""
CHOSEN = frozenset({"h_star", "h0_star"})
"""Columns that the method does not influence: the data sets were chosen so that they come near the paper's (ADR 4)."""
ACCURACIES = tuple(name for name in COLUMNS if name != "ratio" and not name.startswith("epsilon"))


class Cell(msgspec.Struct, frozen=True):
    """One cell of the table: mean and sample standard deviation over the runs.

    `mean` is infinite where one run's value is; `std` is then 0. `median` is over all runs, `infinite_runs` counts
    the runs with an infinite value.
    """

    dataset: str
    column: str
    mean: float
    std: float
    runs: int
    median: float
    infinite_runs: int = 0

    @property
    def standard_error(self) -> float:
        """Of our mean."""
        return self.std / math.sqrt(self.runs)

    @property
    def published(self) -> Published | None:
        """The paper's number, where it has one."""
        return TABLE_2.get((self.dataset, self.column))

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.published is None else self.mean - self.published.mean

    @property
    def standard_errors(self) -> float | None:
        """The difference in standard errors of the difference (both sides' added); None without two deviations."""
        if self.published is None or self.published.std is None:
            return None
        error = math.hypot(self.standard_error, self.published.std / math.sqrt(RUNS))
        return (self.mean - self.published.mean) / error if error > 0 else None


class Wilcoxon(msgspec.Struct, frozen=True):
    """Signed-rank test of C-ExPriL against I-ExPriL over paired runs, two-sided.

    `difference` is the mean of C - I in percentage points.
    """

    dataset: str
    noise: Noise
    difference: float
    p_value: float
    runs: int


class Closure(msgspec.Struct, frozen=True):
    """A cell that differs from the paper, made again with one named setting changed."""

    dataset: str
    column: str
    setting: str
    mean: float
    std: float
    runs: int


class Point(msgspec.Struct, frozen=True):
    """One point of a learning curve: acc(h_t) - acc(h*) in percentage points, and what h_t cost by its claim.

    `epsilon` is infinite where there is no noise.
    """

    rounds: int
    mean: float
    std: float
    runs: int
    epsilon: float


class Curve(msgspec.Struct, frozen=True):
    """A learning curve of Figure 1.

    With a scale that fits the plan, each point is a study of its own with t rounds; otherwise one study gives all.

    Attributes:
        dataset: key of the data set.
        learner: "C" (cumulative) or "I" (instantaneous).
        noise: see `Noise`.
        fixed: the paper's fixed scale for three queries (its cost grows with t), instead of one that fits the plan.
        points: by t.
    """

    dataset: str
    learner: Literal["C", "I"]
    noise: Noise
    fixed: bool
    points: tuple[Point, ...]


class Reproduction(msgspec.Struct, frozen=True):
    """Everything that a report shows; the parts that were not run are empty."""

    table: tuple[Cell, ...] = ()
    table_provenance: Provenance | None = None
    wilcoxon: tuple[Wilcoxon, ...] = ()
    closures: tuple[Closure, ...] = ()
    curves: tuple[Curve, ...] = ()
    curves_provenance: Provenance | None = None
    settings: dict[str, dict[str, str]] = {}
    """Data set -> name of a setting -> value, as shown in the report."""
    changes: dict[str, str] = {}
    """Name of a change (of `Closure.setting`) -> what it is."""
