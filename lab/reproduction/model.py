"""What the paper published and what a reproduction found, as plain data."""

import math
from typing import Literal, NamedTuple

import msgspec

from expril.report.provenance import Provenance

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
TABLE_COLUMNS = tuple(name for name in COLUMNS if not name.startswith("epsilon"))
"""Those of Table 2 as printed, and the valid mechanism's."""
EPSILON_COLUMNS = tuple(name for name in COLUMNS if name.startswith("epsilon"))
ACCURACIES = tuple(name for name in TABLE_COLUMNS if name != "ratio")
CHOSEN = frozenset({"h_star", "h0_star"})
"""Columns that the method does not influence: the data sets were chosen so that they come near the paper's (ADR 4)."""
RUNS = 100
"""Over which the paper averages."""
LIMIT = 2.0
"""Standard errors up to which two means agree: if nothing differed, 1 entry in 22 would still lie outside."""
LEVEL = 0.05
"""The paper tests at 95 % confidence (section 4.3)."""
Standing = Literal["within", "above", "below"]


class Published(NamedTuple):
    """Mean and standard deviation over 100 runs; the deviation of a ratio is not published."""

    mean: float
    std: float | None


_COLUMNS = ("h_star", "C-ExPriL", "I-ExPriL", "1DP-C-ExPriL", "1DP-I-ExPriL", "h0_star", "ratio")
_TABLE_2 = {
    "A": ((94.3, 2.3), (76.8, 4.6), (74.9, 5.0), (74.0, 4.8), (71.9, 4.6), (56.2, 5.0), (0.18, None)),
    "B": ((79.9, 2.0), (58.5, 2.5), (57.4, 2.4), (53.8, 2.7), (53.5, 2.7), (52.9, 2.3), (0.27, None)),
    "C": ((96.2, 1.5), (88.8, 3.3), (88.7, 3.8), (85.8, 4.0), (85.6, 4.0), (55.6, 3.9), (0.077, None)),
    "D": ((90.9, 2.1), (82.2, 3.5), (80.7, 3.9), (75.1, 4.4), (74.1, 4.7), (54.6, 2.8), (0.095, None)),
    "E": ((80.3, 2.5), (72.3, 3.4), (70.4, 3.7), (63.0, 4.1), (60.1, 3.9), (54.0, 2.4), (0.10, None)),
    "CTG-A": ((92.0, 1.0), (87.8, 1.5), (86.9, 1.6), (73.0, 3.7), (70.5, 3.2), (77.7, 1.2), (0.045, None)),
    "CTG-B": ((91.2, 1.1), (86.1, 1.4), (84.9, 1.8), (70.1, 3.8), (65.1, 4.0), (75.5, 1.4), (0.055, None)),
}
TABLE_2: dict[tuple[str, str], Published] = {
    (dataset, column): Published(*numbers)
    for dataset, row in _TABLE_2.items()
    for column, numbers in zip(_COLUMNS, row, strict=True)
}
"""(data set, column) -> what the paper reports (full paper, Table 2): facts only, in percent.

Its `ratio` is (acc(h*) - acc(C-ExPriL)) / acc(h*), without privacy.
"""
NOT_SIGNIFICANT = frozenset({"B", "C"})
"""Data sets where the paper does not find C-ExPriL better than I-ExPriL at 95 % (section 4.3)."""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One place of Table 2, ours: mean and sample standard deviation over the runs."""

    dataset: str  # its place
    column: str
    mean: float  # infinite where one run's value is; `std` is then 0
    std: float  # as above; 0 for a single run
    runs: int
    median: float  # of all runs
    infinite_runs: int = 0  # runs with an infinite value
    setting: str = ""  # which one was changed; "" for none

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
        error = math.hypot(self.std / math.sqrt(self.runs), self.published.std / math.sqrt(RUNS))
        return (self.mean - self.published.mean) / error if error > 0 else None

    @property
    def standing(self) -> Standing | None:
        """On which side of the paper's number it lies; None where there is nothing to compare with."""
        errors = self.standard_errors
        if errors is None or math.isnan(errors):
            return None
        if abs(errors) <= LIMIT:
            return "within"
        return "above" if errors > 0 else "below"

    def closes(self, other: "Entry") -> bool:
        """Whether it is nearer to the paper than the other, and within two standard errors.

        Nearer, because fewer runs alone make a standard error larger.
        """
        if self.difference is None or other.difference is None:
            return False
        return self.standing == "within" and abs(self.difference) < abs(other.difference)


class Wilcoxon(msgspec.Struct, frozen=True):
    """Signed-rank test of C-ExPriL against I-ExPriL over paired runs, two-sided.

    `difference` is the mean of C - I in percentage points.
    """

    dataset: str
    noise: Noise
    difference: float
    p_value: float
    runs: int

    @property
    def ours(self) -> str:
        """What our test says at the paper's level."""
        if not self.p_value < LEVEL:  # NaN, too: a test that could not be made
            return "no significant difference"
        return "C-ExPriL better" if self.difference > 0 else "I-ExPriL better"

    @property
    def paper(self) -> str:
        """What section 4.3 of the paper claims for this data set; it knows no valid mechanism."""
        if self.noise == "valid":
            return "not in the paper"
        return "no significant difference" if self.dataset in NOT_SIGNIFICANT else "C-ExPriL better"

    @property
    def agreement(self) -> Literal["agrees", "differs", "–"]:
        """Whether the two say the same."""
        if self.noise == "valid":
            return "–"
        return "agrees" if self.paper == self.ours else "differs"


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
    """

    dataset: str
    learner: Literal["C", "I"]  # "C" (cumulative) or "I" (instantaneous)
    noise: Noise  # see `Noise`
    fixed: bool  # the paper's fixed scale for three queries (its cost grows with t), instead of one that fits the plan
    points: tuple[Point, ...]  # by t


class Reproduction(msgspec.Struct, frozen=True):
    """Everything that a report shows; the parts that were not run are empty."""

    table: tuple[Entry, ...] = ()
    wilcoxon: tuple[Wilcoxon, ...] = ()
    closures: tuple[Entry, ...] = ()
    """With a setting changed."""
    curves: tuple[Curve, ...] = ()
    settings: dict[str, dict[str, str]] = {}
    """Data set -> name of a setting -> value, as shown in the report."""
    changes: dict[str, str] = {}
    """Name of a change (of `Entry.setting`) -> what it is."""
    provenance: dict[str, Provenance] = {}
    """By experiment."""
