"""The built-in studies of `expril simulate` that are no scenarios: one line each. Nothing of them is loaded here."""

import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from expril.commands.options import By, Kept
from protocol.errors import ConfigurationError

BUILT_IN = {
    "holdout": "lab.commands.holdout:simulate_holdout",
    "insite": "lab.commands.model:simulate_insite",
    "sample": "lab.commands.sample:simulate_sample",
    "sites": "lab.commands.sites:simulate_sites",
    "statistic": "lab.commands.statistic:simulate_statistic",
}
"""Name -> its function, as "module:function"; `run_built_in` says what it is called with."""

TOLD = {
    "holdout": "A blog's experiment on a reusable holdout, on 50 data sets, and what its variant of Thresholdout costs "
    "(docs/reproduction/holdout).",
    "insite": "Every model that a curator can fit, beside cells and no privacy (docs/in-site-learning.md).",
    "sample": "The figures of the MBDE paper on integrally private sampling (docs/reproduction/mbde).",
    "sites": "Accuracy, noise and bytes with 1 to 100 sites (docs/sites.md).",
    "statistic": "Private quantiles by every method, against the number of records (docs/statistics.md).",
}
"""Name -> what it is, and where it is told."""


def run_built_in(
    name: str,
    *,
    out: Path,
    repeats: int | None,
    seed: int | None,
    epsilons: tuple[str, ...],
    typed: str,
    others: Mapping[str, object],
    silent: bool,
) -> None:
    """Run a built-in study, or what is missing of it; it prints its tables and leaves a report.

    Args:
        name: key of `BUILT_IN`.
        out: folder under which that of the study is.
        repeats: of each cell; None takes the study's own number.
        seed: of the first repeat; None takes the study's own.
        epsilons: exact texts, from the smallest on; none takes the study's own.
        typed: the command.
        others: options of a scenario's run, by name; none of them may be given here.
        silent: print JSON alone.

    Raises:
        ConfigurationError: one of the others was given.
    """
    for option, value in others.items():
        if value not in (None, False, Kept.first, By.process):
            raise ConfigurationError(f"--{option} is for a scenario; leave it out of expril simulate {name}")
    study: Callable[..., Any] = pkgutil.resolve_name(BUILT_IN[name])
    study(out=out, repeats=repeats, seed=seed, epsilons=epsilons, typed=typed, silent=silent)
