"""Named settings that the paper leaves open: Table 2 again with one of them changed, to see what closes a gap."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from lab.paper.experiments import Setup, changed

METHOD = ("C-ExPriL", "I-ExPriL", "1DP-C-ExPriL", "1DP-I-ExPriL")


@dataclass(frozen=True)
class Setting:
    """One change.

    Attributes:
        title: for people, what is changed.
        change: a setup -> the changed setup.
        of_training: it changes h* too.
    """

    title: str
    change: Callable[[Setup], Setup]
    of_training: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of Table 2 that it changes and the paper has."""
        return ("h_star", *METHOD) if self.of_training else METHOD


def _epochs(setup: Setup, factor: float) -> Setup:
    return changed(setup, epochs=round(setup.problem.training.epochs * factor))


def _finer(setup: Setup, factor: float) -> Setup:
    """So many times the bins, with and without noise."""
    floor = max(2, round(setup.silent_bins * factor))
    return replace(setup, ratio=setup.ratio / factor, silent_bins=floor)


SETTINGS: dict[str, Setting] = {
    "descent-1": Setting("labels after 1 diagonally scaled gradient step", lambda setup: changed(setup, label_steps=1)),
    "descent-3": Setting(
        "labels after 3 diagonally scaled gradient steps", lambda setup: changed(setup, label_steps=3)
    ),
    "descent-10": Setting(
        "labels after 10 diagonally scaled gradient steps", lambda setup: changed(setup, label_steps=10)
    ),
    "unshrunk": Setting("labels with next to no regularisation", lambda setup: changed(setup, label_alpha=1e-3)),
    "weakly-shrunk": Setting("labels with a weak regularisation", lambda setup: changed(setup, label_alpha=80.0)),
    "rule-bins": Setting("bins by the rule for noise also without it", lambda setup: replace(setup, silent_bins=2)),
    "longer-training": Setting("a third more epochs", lambda setup: _epochs(setup, 4 / 3), True),
    "shorter-training": Setting("a quarter fewer epochs", lambda setup: _epochs(setup, 3 / 4), True),
    "fine-bins": Setting(
        "four times the bins, next to no regularisation",
        lambda setup: changed(_finer(setup, 4), label_alpha=1e-3),
    ),
}
"""Name, as `--setting` takes it -> change."""
