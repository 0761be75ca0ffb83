"""Named settings that the paper leaves open: Table 2 again with one of them changed, to see what closes a gap."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from simulations.reproduction.experiments import FIXED_QUERIES, Setup, changed

CLOSURES = ("C-ExPriL", "I-ExPriL", "1DP-C-ExPriL", "1DP-I-ExPriL")
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


SETTINGS: dict[str, Setting] = {
    "three-queries": Setting(
        "noise for three queries everywhere (section 4.2)", lambda setup: replace(setup, queries=FIXED_QUERIES)
    ),
    "long-training": Setting(
        "three times as many epochs", lambda setup: changed(setup, epochs=3 * setup.problem.training.epochs)
    ),
}
"""Name, as `--setting` takes it -> change."""
