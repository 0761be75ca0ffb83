"""Named settings that the paper leaves open: Table 2 again with one of them changed, to see what closes a gap."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from simulations.reproduction.experiments import FIXED_QUERIES, Setup, changed

CLOSURES = ("h_star", "C-ExPriL", "I-ExPriL", "1DP-C-ExPriL", "1DP-I-ExPriL")
"""The columns that a setting can change and that the paper has."""


@dataclass(frozen=True)
class Setting:
    """One change.

    Attributes:
        title: for people, what is changed.
        change: a setup -> the changed setup.
    """

    title: str
    change: Callable[[Setup], Setup]


def _epochs(setup: Setup, factor: float) -> Setup:
    return changed(setup, epochs=round(setup.problem.training.epochs * factor))


def _finer(setup: Setup, factor: float) -> Setup:
    """So many times the bins, with and without noise."""
    floor = max(2, round(setup.silent_bins * factor))
    return replace(setup, ratio=setup.ratio / factor, silent_bins=floor)


SETTINGS: dict[str, Setting] = {
    "descent-1": Setting("labels after 1 step of gradient descent", lambda setup: changed(setup, label_steps=1)),
    "descent-3": Setting("labels after 3 steps of gradient descent", lambda setup: changed(setup, label_steps=3)),
    "descent-10": Setting("labels after 10 steps of gradient descent", lambda setup: changed(setup, label_steps=10)),
    "descent-100": Setting("labels after 100 steps of gradient descent", lambda setup: changed(setup, label_steps=100)),
    "unshrunk": Setting("labels with next to no regularisation", lambda setup: changed(setup, label_alpha=1e-3)),
    "three-queries": Setting(
        "noise for three queries everywhere (section 4.2), labels after 1 step",
        lambda setup: changed(replace(setup, queries=FIXED_QUERIES), label_steps=1),
    ),
    "coarse-bins": Setting(
        "a quarter of the bins, next to no regularisation",
        lambda setup: changed(_finer(setup, 0.25), label_alpha=1e-3),
    ),
    "longer-training": Setting("a third more epochs", lambda setup: _epochs(setup, 4 / 3)),
    "shorter-training": Setting("a quarter fewer epochs", lambda setup: _epochs(setup, 3 / 4)),
    "fine-bins": Setting(
        "four times the bins, next to no regularisation",
        lambda setup: changed(_finer(setup, 4), label_alpha=1e-3),
    ),
}
"""Name, as `--setting` takes it -> change."""
