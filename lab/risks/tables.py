"""What the runs of the sweep say: bias, coverage and slope of each setting and class, and paired differences."""

import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.risks.design import design
from lab.risks.runs import CELLS, REGRESSION, SMOOTH, RiskRun
from simulations.campaign.store import read_cells

Floats = NDArray[np.float64]

SLOPES = (0.8, 1.25)
SLOPE_RUNS = 40
MEASURES = ("auc", "brier", "accuracy")


@dataclass(frozen=True)
class Finding:
    """One class of one setting, over its runs.

    Attributes:
        setting: name of its row.
        place: which of the shown classes.
        runs: of `cells`.
        bias: mean of what the model says less the truth, over the standard error that the answers imply.
        bias_error: standard error of it.
        holds: share of runs in which the interval holds the true prevalence.
        slope: mean over the runs that have one; None where none has.
        slope_error: standard error of it.
        regression: the same of regression.
    """

    setting: str
    place: int
    runs: int
    truth: float
    error: float
    bias: float
    bias_error: float
    holds: float
    slope: float | None
    slope_error: float
    regression: float | None

    @property
    def unbiased(self) -> bool:
        """Whether the bias is at most a quarter of the implied error, less three of its own standard errors."""
        return abs(self.bias) <= 0.25 + 3.0 * self.bias_error

    @property
    def covers(self) -> bool:
        """Whether the interval holds in at least 93 of 100, less three standard errors of that share."""
        return self.holds >= 0.93 - 3.0 * math.sqrt(0.93 * 0.07 / self.runs)

    @property
    def calibrated(self) -> bool | None:
        """Whether the slope is as right as that of regression, see docs/risks.md; None where it cannot be told."""
        if self.slope is None or self.regression is None:
            return None
        low, high = SLOPES
        if low <= self.regression <= high:
            return low - 3.0 * self.slope_error <= self.slope <= high + 3.0 * self.slope_error
        return abs(self.slope - 1.0) <= abs(self.regression - 1.0) + 0.1 + 3.0 * self.slope_error


def findings(runs: Sequence[RiskRun]) -> list[Finding]:
    """Of every setting and class of which there are runs of `cells`, in the design's order."""
    by: dict[tuple[str, str], list[RiskRun]] = defaultdict(list)
    for run in runs:
        by[run.setting, run.maker].append(run)
    found = []
    for name in design():
        own, other = by[name, CELLS], by[name, REGRESSION]
        for place in range(len(own[0].truth) if own else 0):
            truth = own[0].truth[place]
            off = np.array([(run.said[place] - truth) / run.error[place] for run in own])
            slopes, others = _slopes(own, place), _slopes(other, place)
            found.append(
                Finding(
                    setting=name,
                    place=place,
                    runs=len(own),
                    truth=truth,
                    error=float(np.mean([run.error[place] for run in own])),
                    bias=float(off.mean()),
                    bias_error=_error(off),
                    holds=float(np.mean([run.low[place] <= truth <= run.high[place] for run in own])),
                    slope=float(slopes.mean()) if len(slopes) else None,
                    slope_error=_error(slopes),
                    regression=float(others.mean()) if len(others) else None,
                )
            )
    return found


def _slopes(runs: Sequence[RiskRun], place: int) -> Floats:
    """Of the first runs by seed, those that have one."""
    first = sorted(runs, key=lambda run: run.seed)[:SLOPE_RUNS]
    return np.array([run.slope[place] for run in first if run.slope[place] is not None], dtype=np.float64)


def _error(values: Floats) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def show(path: Path) -> None:
    """Print Markdown tables of a file's runs."""
    runs = read_cells(path, RiskRun)
    found = findings(runs)
    write = sys.stdout.write
    write("| setting | class | runs | prevalence | implied error | bias / error | holds | slope | regression |\n")
    write(f"|{'---|' * 9}\n")
    for each in found:
        marks = (
            "" if each.unbiased else " (!)",
            "" if each.covers else " (!)",
            " (!)" if each.calibrated is False else "",
        )
        slope = "-" if each.slope is None else f"{each.slope:.2f} ± {each.slope_error:.2f}"
        regression = "-" if each.regression is None else f"{each.regression:.2f}"
        write(
            f"| {each.setting} | {each.place} | {each.runs} | {each.truth:.3f} | {each.error:.4f} | "
            f"{each.bias:+.2f} ± {each.bias_error:.2f}{marks[0]} | {each.holds:.3f}{marks[1]} | {slope}{marks[2]} | "
            f"{regression} |\n"
        )
    told = [each.calibrated for each in found if each.calibrated is not None]
    write(
        f"\n{sum(each.unbiased for each in found)} of {len(found)} unbiased; "
        f"{sum(each.covers for each in found)} cover; {sum(told)} of {len(told)} calibrated.\n"
    )
    _show_pairs(runs)


def _show_pairs(runs: Sequence[RiskRun]) -> None:
    """Paired differences of `cells` from the model without networks, over all settings of each epsilon."""
    by = {run.key: run for run in runs}
    groups: dict[str, list[tuple[RiskRun, RiskRun]]] = defaultdict(list)
    for run in runs:
        if run.maker == SMOOTH and (own := by.get(run.key._replace(maker=CELLS))):
            for key in (run.epsilon, "all"):
                groups[key].append((own, run))
    sys.stdout.write(f"\n| epsilon | pairs | {' | '.join(MEASURES)} |\n|{'---|' * (2 + len(MEASURES))}\n")
    for key, pairs in sorted(groups.items()):
        differences = [np.array([getattr(one, m) - getattr(other, m) for one, other in pairs]) for m in MEASURES]
        cells = " | ".join(f"{100 * each.mean():+.3f} ± {100 * _error(each):.3f}" for each in differences)
        sys.stdout.write(f"| {key} | {len(pairs)} | {cells} |\n")
